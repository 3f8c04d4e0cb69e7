"""`isclose`, `allclose`, `array_equal` and `array_equiv`, compared with NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ShapeError

from .ordering import REAL, drawn
from .samples import SAMPLES, assert_same, each_sample

ODD = np.asarray([0.0, -0.0, 1.0, 1.0 + 1e-9, 1.0 + 1e-6, 1e300, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("equal_nan", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_isclose_equals_numpy(equal_nan: bool, dtype: type) -> None:
    with np.errstate(all="ignore"):
        values = (ODD + (1j * ODD[::-1] if dtype is np.complex128 else 0)).astype(dtype)
        for rtol, atol in ((1e-5, 1e-8), (0.0, 0.0), (1e-12, 1.0)):
            wanted = np.isclose(values[:, None], values, rtol, atol, equal_nan)
            result = tx.isclose(tx.asarray(values).expand_dims(1), tx.asarray(values), rtol, atol, equal_nan)
            assert_same(result, wanted)
            assert tx.allclose(tx.asarray(values), tx.asarray(values), equal_nan=equal_nan) is equal_nan


def test_isclose_and_allclose_accept_integers_and_numbers() -> None:
    assert tx.isclose(tx.asarray([1, 2]), tx.asarray([1.0, 2.1])).tolist() == [True, False]
    assert tx.allclose(tx.asarray([3, 3]), 3) and not tx.allclose([1, 2], [1, 3])
    assert tx.allclose(tx.ones(0), tx.zeros(0))
    with pytest.raises(ShapeError):
        tx.isclose(tx.ones(2), tx.ones(3))


@each_sample
def test_array_equal_compares_all_elements(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    assert tx.array_equal(tensor, array) and tx.array_equiv(tensor, array) and tx.allclose(tensor, array)
    if array.size:
        changed = array.copy()
        changed[(-1,) * array.ndim] += 1
        assert not tx.array_equal(tensor, changed) and not tx.array_equiv(tensor, changed)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_array_equal_treats_nan_as_equal_only_on_request(dtype: tx.DType) -> None:
    x = drawn(dtype, (50,))
    assert tx.array_equal(x, x, equal_nan=True)
    assert tx.array_equal(x, x) is not (dtype.is_float and tx.isnan(x).any().item())


def test_array_equal_needs_equal_shapes_and_array_equiv_broadcasts() -> None:
    assert not tx.array_equal(tx.ones((2, 1)), tx.ones(2)) and tx.array_equiv(tx.ones((2, 1)), tx.ones(2))
    assert not tx.array_equiv(tx.ones(3), tx.ones(2))
    assert tx.array_equal(tx.asarray([2**63 - 1]), tx.asarray([2**63 - 1], dtype=tx.uint64))


def test_isclose_compares_python_numbers_in_the_dtype_of_the_tensor() -> None:
    almost_1 = 1.0 - float(np.finfo(np.float32).eps) * 0.01  # float32 rounds it to 1
    for a, b in ((np.float32(1), almost_1), (almost_1, np.float32(1)), (np.ones(2, np.float32), almost_1)):
        ours = [tx.asarray(x) if isinstance(x, (np.generic, np.ndarray)) else x for x in (a, b)]
        assert np.asarray(tx.isclose(*ours, rtol=0, atol=0)).tolist() == np.isclose(a, b, rtol=0, atol=0).tolist()
        assert np.asarray(tx.isclose(*ours, rtol=0, atol=0)).all()
