"""`out`, `where` and `initial`, beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, ShapeError

from .samples import SAMPLES, assert_close, assert_same, each_sample
from .test_statistics import axes_of


@each_sample
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"])
def test_some_elements_and_one_more(name: str, sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    ours, theirs = getattr(tx, name), getattr(np, name)
    mask = np.asarray(array % 3 != 0)
    given = tx.asarray(mask)
    for axis in axes_of(array):
        for keepdims in (False, True):
            options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
            with np.errstate(all="ignore"):
                if name in ("sum", "prod", "max", "min"):
                    wanted = theirs(array, initial=5, **options)
                    assert_same(ours(tensor, initial=5, **options), wanted)
                    assert_same(ours(tensor, where=given, initial=5, **options), theirs(array, where=mask, initial=5, **options))
                elif name in ("any", "all"):
                    assert_same(ours(tensor, where=given, **options), theirs(array, where=mask, **options))
                elif array.size:
                    import warnings

                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        wanted = theirs(array, where=mask, **options)
                    assert_close(ours(tensor, where=given, **options), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bool"])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_one_more_than_nothing_has_the_dtype_of_sums(name: str, dtype: str) -> None:
    array, mask = np.zeros((0, 2), dtype=dtype), np.zeros((0, 2), dtype=bool)
    ours, theirs = getattr(tx, name), getattr(np, name)
    assert_same(ours(tx.asarray(array), axis=0, initial=2), theirs(array, axis=0, initial=2))
    assert_same(ours(tx.asarray(array), axis=0, initial=2, where=tx.asarray(mask)), theirs(array, axis=0, initial=2, where=mask))


def test_averages_of_some_small_floats_have_room() -> None:
    array = np.array([60000.0, 60000.0, 1.0, np.nan], dtype=np.float16)
    mask, some = tx.asarray(~np.isnan(array)), array[:3].astype(np.float64)
    for ours, wanted in ((tx.mean, some.mean()), (tx.std, some.std())):
        found = ours(tx.asarray(array), where=mask)
        assert found.dtype is tx.float16 and found.item() == np.float16(wanted)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std"])
def test_results_go_into_out(name: str) -> None:
    x = tx.arange(12, dtype=tx.float64).reshape(3, 4)
    out = tx.zeros((2, 4))
    view = out[1]
    assert getattr(tx, name)(x, axis=0, out=view) is view
    assert_close(out, np.stack([np.zeros(4), getattr(np, name)(x.to_numpy(), axis=0)]))


def test_elementwise_functions_write_into_out() -> None:
    x, y = tx.arange(6).reshape(2, 3), tx.asarray([10, 20, 30])
    out = tx.zeros((2, 3), dtype=tx.int64)
    assert tx.add(x, y, out=out) is out and out.tolist() == [[10, 21, 32], [13, 24, 35]]
    tx.multiply(x, 2, out=out, where=x > 2)
    assert out.tolist() == [[10, 21, 32], [6, 8, 10]]
    assert tx.negative(x, out=(x,)) is x and x.tolist() == [[0, -1, -2], [-3, -4, -5]]  # what is read is what was there
    assert tx.add(x[:, ::-1], x, out=x).tolist() == [[-2, -2, -2], [-8, -8, -8]]
    wide = tx.zeros((2, 3), dtype=tx.float32)
    assert tx.add(x, 1, out=wide).dtype is tx.float32
    assert tx.sin(x, where=True).shape == (2, 3)


def test_numpys_ufuncs_write_into_tensors() -> None:
    t = tx.zeros((2, 2))
    assert np.add(t, 1, out=t) is t and t.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    np.multiply(t, 5, out=t, where=np.asarray([True, False]))
    assert t.tolist() == [[5.0, 1.0], [5.0, 1.0]]
    np.matmul(t, t, out=t)
    assert t.tolist() == [[30.0, 6.0], [30.0, 6.0]]
    array = np.zeros((2, 2))
    assert np.add(t, 1, out=array) is array and array[0, 0] == 31


def test_errors() -> None:
    x = tx.ones((2, 3))
    with pytest.raises(ShapeError, match=r"add: out has shape \(3,\), and the result \(2, 3\)"):
        tx.add(x, 1, out=tx.zeros(3))
    with pytest.raises(DTypeError, match="add: the result is float64, which out of int64 cannot hold"):
        tx.add(x, 1, out=tx.zeros((2, 3), dtype=tx.int64))
    with pytest.raises(ArgumentError, match="add: with `where` the other elements have no value; give out="):
        tx.add(x, 1, where=x > 0)
    with pytest.raises(DTypeError, match="out is a tensor, not ndarray"):
        tx.add(x, 1, out=np.zeros((2, 3)))
    with pytest.raises(ArgumentError, match="max: where may leave no elements"):
        tx.max(x, where=x > 0)
    with pytest.raises(DTypeError, match="sum: where is a bool tensor, not one of float64"):
        tx.sum(x, where=x)
    with pytest.raises(ShapeError, match=r"sum: where has shape \(4, 2, 3\)"):
        tx.sum(x, where=tx.ones((4, 2, 3), dtype=tx.bool))


def test_clip_into_a_tensor() -> None:
    x, out = tx.arange(5), tx.zeros(5)
    for _ in range(3):
        assert tx.clip(x, 1, 3, out) is out and out.tolist() == [1.0, 1.0, 2.0, 3.0, 3.0]
        out.fill(0)
    assert tx.clip(x, 2, None, out=x) is x and x.tolist() == [2, 2, 2, 3, 4]
    assert np.clip(x, 3, 4, out=out) is out and out.tolist() == [3.0, 3.0, 3.0, 3.0, 4.0]


def test_where_the_largest_is_into_a_tensor() -> None:
    x = tx.asarray([[1.0, 5.0], [7.0, 2.0]])
    out = tx.zeros(2, dtype=tx.int64)
    assert tx.argmax(x, axis=1, out=out) is out and out.tolist() == [1, 0]
    assert tx.argmin(x, axis=0, out=out) is out and out.tolist() == [0, 1]
    with pytest.raises(ShapeError, match="argmax: out has shape"):
        tx.argmax(x, out=out)
