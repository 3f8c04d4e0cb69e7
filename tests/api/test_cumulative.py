"""Cumulative extremes, `logcumsumexp`, `fmod` and `divmod`, compared with NumPy and with loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DTypeError

from .ordering import REAL, drawn
from .samples import SAMPLES, assert_same, each_sample


@each_sample
def test_cummax_cummin_and_logcumsumexp_of_every_layout_equal_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in range(-array.ndim, array.ndim):
        for ours, theirs in ((tx.cummax, np.maximum), (tx.cummin, np.minimum)):
            result = ours(tensor, axis=axis)
            assert_same(result.values, theirs.accumulate(array, axis=axis))
            np.testing.assert_array_equal(tx.take_along_axis(tensor, result.indices, axis=axis).to_numpy(), result.values.to_numpy())
        with np.errstate(all="ignore"):
            wanted = np.logaddexp.accumulate(array.astype(float), axis=axis)
        np.testing.assert_allclose(tx.logcumsumexp(tensor, axis=axis).to_numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("size", [0, 1, 5, 300])
def test_cummax_and_cummin_of_every_dtype_equal_a_loop(dtype: tx.DType, size: int) -> None:
    x = drawn(dtype, (size,), seed=size, most=4)
    row: list[Any] = x.tolist()
    for ours, better in ((tx.cummax, lambda a, b: a >= b), (tx.cummin, lambda a, b: a <= b)):
        values: list[Any] = []
        positions: list[int] = []
        for k, value in enumerate(row):
            wins = not values or value != value or (values[-1] == values[-1] and better(value, values[-1]))
            values.append(value if wins else values[-1])
            positions.append(k if wins else positions[-1])
        result = ours(x)
        assert result.values.dtype is dtype and result.indices.dtype is tx.int64
        np.testing.assert_array_equal(np.asarray(result.values.tolist(), float), np.asarray(values, float))
        assert result.indices.tolist() == positions


def test_logcumsumexp_keeps_float_dtypes_and_propagates_infinities_and_nan() -> None:
    for dtype in (tx.float16, tx.bfloat16, tx.float32, tx.float64):
        x = tx.asarray([-tx.inf, 10.0, -3.0, 10.0]).astype(dtype)
        result = tx.logcumsumexp(x)
        assert result.dtype is dtype and result[0].item() == -math.inf
        assert abs(result[3].item() - (10 + math.log(2 + math.exp(-13)))) < 0.1
    assert tx.logcumsumexp(tx.asarray([1, 2])).dtype is tx.float64
    assert tx.logcumsumexp(tx.asarray([1.0, tx.nan, 2.0])).isnan().tolist() == [False, True, True]


ODD = [0.0, -0.0, 1.0, -1.0, 2.5, -7.25, 1e-20, -1e-20, 1e17, math.inf, -math.inf, math.nan]


def test_fmod_of_floats_is_exact() -> None:
    a, b = tx.asarray(ODD).expand_dims(1), tx.asarray(ODD)
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(np.asarray(ODD)[:, None], np.asarray(ODD))
    result = tx.fmod(a, b)
    np.testing.assert_array_equal(result.to_numpy(), wanted)
    has_value = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(result.to_numpy())[has_value], np.signbit(wanted)[has_value])
    assert tx.fmod(tx.asarray([5.5, -5.5]), 2).tolist() == [1.5, -1.5] and tx.fmod(-7, tx.asarray([3.0])).tolist() == [-1.0]


@pytest.mark.parametrize("dtype", [tx.int8, tx.int64, tx.uint8, tx.uint64], ids=str)
def test_fmod_and_divmod_of_integers_equal_numpy(dtype: tx.DType) -> None:
    x = drawn(dtype, (200,), seed=1)
    y = tx.asarray([n or 3 for n in drawn(dtype, (200,), seed=2, most=9).tolist()], dtype=dtype)
    a, b = x.to_numpy(), y.to_numpy()
    assert_same(tx.fmod(x, y), np.fmod(a, b))
    for ours, theirs in zip(tx.divmod(x, y), np.divmod(a, b), strict=True):
        assert_same(ours, theirs)
    for ours, theirs in zip(tx.divmod(x, 7), np.divmod(a, dtype.numpy.type(7)), strict=True):
        assert_same(ours, theirs)


def test_cummax_and_cummin_reject_invalid_arguments() -> None:
    with pytest.raises(AxisError, match="cummax"):
        tx.cummax(tx.ones(2), axis=1)
    with pytest.raises(DTypeError, match="cummin: does not accept complex128"):
        tx.cummin(tx.ones(2) * 1j)


def test_logcumsumexp_of_complex_numbers_equals_its_definition() -> None:
    x = np.array([1 + 2j, -0.5 + 0.3j, 0.2 - 1j, 3 + 0j])
    np.testing.assert_allclose(tx.logcumsumexp(tx.asarray(x)).to_numpy(), np.log(np.cumsum(np.exp(x))), rtol=1e-14)


def test_divmod_and_cummax_write_into_a_tuple_of_out_tensors() -> None:
    a = np.array([[7.0, -2.0, 3.5], [1.0, 9.0, -4.0]])
    for k in range(2):  # the second time an operand is written
        x, remainder = tx.asarray(a, copy=True), tx.zeros((2, 3))
        out = (x, remainder) if k else (tx.zeros((2, 3)), remainder)
        result = tx.divmod(x, 2.5, out=out)
        assert result[0] is out[0] and result[1] is out[1]
        for computed, wanted in zip(result, np.divmod(a, 2.5), strict=True):
            np.testing.assert_array_equal(computed.to_numpy(), wanted)
    x, index_out, value_out = tx.asarray(a), tx.zeros((2, 3), dtype=tx.int64), tx.full((2, 3), -1.0)
    for _ in range(3):
        values, indices = tx.cummax(x, 1, out=(value_out, index_out))
        assert values is value_out and indices is index_out
        np.testing.assert_array_equal(value_out.to_numpy(), np.maximum.accumulate(a, 1))
        assert index_out.tolist() == [[0, 0, 0], [0, 1, 1]]
        assert tx.cummin(x, 1, out=(value_out, None)).values is value_out  # type: ignore[arg-type]
        np.testing.assert_array_equal(value_out.to_numpy(), np.minimum.accumulate(a, 1))
        assert tx.logcumsumexp(x, 0, out=value_out) is value_out
        np.testing.assert_allclose(value_out.to_numpy(), np.logaddexp.accumulate(a, 0))
        assert tx.where(x > 2, x, 0, out=value_out) is value_out
        np.testing.assert_array_equal(value_out.to_numpy(), np.where(a > 2, a, 0))
        count = tx.zeros(3, dtype=tx.int64)
        assert tx.count_nonzero(x > 0, 0, out=count) is count
        assert count.tolist() == [2, 1, 1]
    mask = tx.asarray([[True, False, False], [False, True, True]])
    masked_quotient, masked_remainder = tx.divmod(x, 2.5, out=(tx.zeros((2, 3)), tx.zeros((2, 3))), where=mask)
    np.testing.assert_array_equal(masked_quotient.to_numpy(), np.where(mask.to_numpy(), a // 2.5, 0))
    np.testing.assert_array_equal(masked_remainder.to_numpy(), np.where(mask.to_numpy(), a % 2.5, 0))
    with pytest.raises(ArgumentError, match=r"divmod: out is .*; it must be a tuple of two tensors"):
        tx.divmod(x, 2.5, out=value_out)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="divmod: elements at which `where` is false would have no value"):
        tx.divmod(x, 2.5, where=mask)
