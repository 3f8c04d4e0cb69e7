"""Columns of pandas, polars and Arrow, as input and output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError, ShapeError

X = tx.arange(6, dtype=tx.float32).reshape(2, 3)


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[interop]' to exchange columns with it")


def test_pandas_exchanges_columns_with_tensors() -> None:
    pd = library("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert frame["b"].tolist() == [1.0, 4.0] and tx.asarray(frame).tolist() == X.tolist()
    series = pd.Series(X[1])
    assert series.dtype == np.float32 and tx.asarray(series).tolist() == [3.0, 4.0, 5.0]
    assert (series * X[0]).tolist() == [0.0, 4.0, 10.0]
    assert tx.asarray(pd.Series([1, 2], dtype="Int64")).tolist() == [1, 2]
    frame["d"] = X[:, 0]
    assert frame["d"].tolist() == [0.0, 3.0] and frame[np.asarray(tx.asarray([False, True]))].shape == (1, 4)
    with pytest.raises(DTypeError):
        tx.asarray(pd.Series(["a", "b"]))


@pytest.mark.parametrize("dtype", [tx.int8, tx.uint16, tx.int64, tx.float32, tx.float64, tx.bool], ids=str)
def test_pandas_accepts_dtypes_of_tensors(dtype: tx.DType) -> None:
    pd = library("pandas")
    t = tx.asarray([0, 1, 1], dtype=dtype)
    for series in (pd.Series(t), pd.Series([0, 1, 1], dtype=dtype), pd.Series([0, 1, 1]).astype(dtype), pd.DataFrame({"a": t})["a"]):
        assert series.dtype == dtype and dtype == series.dtype and series.tolist() == t.tolist()
    assert pd.api.types.pandas_dtype(dtype) == np.dtype(dtype) and pd.Index(t).dtype == dtype
    assert pd.api.types.is_integer_dtype(dtype) == dtype.is_integer and pd.api.types.is_float_dtype(dtype) == dtype.is_float
    assert pd.Series([5, 6, 7]).iloc[tx.asarray([2, 0])].tolist() == [7, 5]
    if dtype.is_float:
        assert (t + pd.Series([1.0, 2.0, 3.0])).tolist() == [1.0, 3.0, 4.0]


def test_polars_exchanges_columns_with_tensors() -> None:
    pl, _ = library("polars"), library("pyarrow")
    assert pl.Series(X[1]).to_list() == [3.0, 4.0, 5.0] and pl.Series("m", X).to_list() == X.tolist()
    frame = pl.DataFrame({"a": X[0], "b": X[1]})
    assert tx.asarray(frame).tolist() == X.T.tolist() and tx.asarray(frame["b"]).tolist() == [3.0, 4.0, 5.0]
    assert tx.asarray(pl.Series([True, False])).dtype is tx.bool


def test_arrow_exchanges_columns_with_tensors() -> None:
    pa = library("pyarrow")
    numbers = tx.arange(1000)
    column = pa.array(numbers)
    assert column.buffers()[1].address == np.asarray(numbers).ctypes.data
    assert pa.array(X).to_pylist() == X.tolist() and pa.array(X.T).type == pa.list_(pa.float32(), 2)
    assert pa.array(X[0] > 0).to_pylist() == [False, True, True] and pa.array(X[0], type=pa.float64()).type == pa.float64()
    assert pa.array(tx.ones(2, dtype=tx.bfloat16)).to_pylist() == [1.0, 1.0]
    assert pa.table({"a": X[0]})["a"].to_pylist() == [0.0, 1.0, 2.0]
    for theirs in (pa.array([1, 2, 3]), pa.chunked_array([[1, 2], [3]])):
        assert tx.asarray(theirs).tolist() == [1, 2, 3]
    assert tx.asarray(pa.Tensor.from_numpy(np.ones((2, 3)))).shape == (2, 3)
    with pytest.raises(ShapeError, match="no axes"):
        pa.array(tx.asarray(1))
    with pytest.raises(DTypeError, match="imag"):
        pa.array(tx.ones(2, dtype=tx.complex64))
