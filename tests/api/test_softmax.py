"""`softmax`, `log_softmax` and `logsumexp`: accurate, without overflow, and one kernel each."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, nan
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError

from .samples import SAMPLES, Array, assert_close, assert_same, each_sample, kernels_of


def softmax(a: Array, axis: Any) -> Array:
    powers = np.exp(a - a.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def logsumexp(a: Array, axis: Any, keepdims: bool = False) -> Array:
    return np.asarray(np.log(np.exp(a.astype(np.float64)).sum(axis=axis, keepdims=keepdims)))


def axes_of(array: Array) -> list[Any]:
    return [None, *range(-array.ndim, array.ndim), *([(0, -1)] if array.ndim > 1 else [])]


@each_sample
def test_softmax_and_logsumexp_equal_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in axes_of(array):
        if array.size == 0:
            assert_same(tx.softmax(tensor, axis), array.astype(np.float64))
            assert_same(tx.log_softmax(tensor, axis), array.astype(np.float64))
            assert_same(tx.logsumexp(tensor, axis), np.full(array.sum(axis).shape, -inf))
            continue
        assert_close(tx.softmax(tensor, axis), softmax(array, axis))
        assert_close(tx.log_softmax(tensor, axis), np.log(softmax(array, axis)))
        for keepdims in (False, True):
            assert_close(tx.logsumexp(tensor, axis, keepdims), logsumexp(array, axis, keepdims))


def test_softmax_uses_the_last_axis_by_default() -> None:
    t = tx.asarray([[1.0, 2.0], [3.0, 5.0]])
    assert_close(tx.softmax(t).sum(1), np.ones(2))
    assert_close(tx.log_softmax(t).exp().sum(1), np.ones(2))
    assert tx.logsumexp(t).shape == ()


def test_softmax_and_logsumexp_of_large_operands_neither_overflow_nor_lose_digits() -> None:
    assert tx.softmax(tx.asarray([1e300, 0.0])).tolist() == [1.0, 0.0]
    assert tx.log_softmax(tx.asarray([1e300, 0.0])).tolist() == [0.0, -1e300]
    assert tx.logsumexp(tx.asarray([-1e5, -1e5])).item() == pytest.approx(log(2) - 1e5, rel=1e-15)


def test_softmax_and_logsumexp_of_infinities_and_nan_follow_their_limits() -> None:
    assert tx.softmax(tx.asarray([-inf, 0.0])).tolist() == [0.0, 1.0]
    assert tx.log_softmax(tx.asarray([-inf, 0.0])).tolist() == [-inf, 0.0]
    rows = tx.asarray([[-inf, -inf], [-inf, 3.0], [inf, 0.0], [nan, 0.0]])
    assert_same(tx.logsumexp(rows, axis=1), np.asarray([-inf, 3.0, inf, nan]))
    assert_same(tx.softmax(rows, axis=1)[0], np.asarray([nan, nan]))


@pytest.mark.parametrize("dtype", [tx.float16, tx.bfloat16, tx.float32], ids=str)
def test_narrow_floats_are_rounded_once_in_softmax(dtype: tx.DType) -> None:
    t = tx.asarray(np.linspace(-3, 3, 200).reshape(4, 50)).astype(dtype)
    exact = t.astype(tx.float64).to_numpy()
    step = tx.finfo(dtype).eps
    for result, expected in (
        (tx.softmax(t), softmax(exact, -1)),
        (tx.log_softmax(t), np.log(softmax(exact, -1))),
        (tx.logsumexp(t, -1), logsumexp(exact, -1)),
    ):
        assert result.dtype is dtype
        np.testing.assert_allclose(result.astype(tx.float64).to_numpy(), expected, rtol=max(step * 0.51, 3e-6))


@pytest.mark.parametrize("dtype", [tx.float16, tx.float32, tx.float64], ids=str)
@pytest.mark.parametrize("function", [tx.softmax, tx.log_softmax, lambda t: tx.logsumexp(t, axis=-1)])
def test_softmax_is_one_kernel(function: Callable[[tx.Tensor], tx.Tensor], dtype: tx.DType) -> None:
    t = tx.zeros((64, 100), dtype=dtype).realize()
    assert kernels_of(function(t)) == 1
    assert kernels_of(function(t * 2 + 1) * 3) == 1


def test_softmax_and_logsumexp_accept_dim_and_keepdim_as_in_pytorch() -> None:
    t = tx.asarray([[1.0, 2.0], [3.0, 5.0]])
    assert_same(tx.softmax(t, dim=0), tx.softmax(t, axis=0).to_numpy())
    assert_same(tx.log_softmax(t, dim=0), tx.log_softmax(t, axis=0).to_numpy())
    assert_same(tx.logsumexp(t, dim=0, keepdim=True), tx.logsumexp(t, axis=0, keepdims=True).to_numpy())
    assert_same(tx.softmax(tx.arange(3) > 0), softmax(np.asarray([0.0, 1.0, 1.0]), 0))


@pytest.mark.parametrize("function", [tx.softmax, tx.log_softmax, tx.logsumexp])
def test_softmax_and_logsumexp_reject_invalid_axes(function: Callable[..., tx.Tensor]) -> None:
    t = tx.zeros((2, 3))
    with pytest.raises(AxisError, match="axis 2"):
        function(t, axis=2)
    with pytest.raises(ArgumentError, match="axis and dim"):
        function(t, axis=0, dim=1)


@pytest.mark.parametrize("function", [tx.softmax, tx.log_softmax, tx.logsumexp])
@pytest.mark.parametrize("shape", [(2, 3), (2, 0), ()])
def test_out_of_range_axis_error_names_the_function(function: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(AxisError, match=f"^{function.__name__}: axis 4 "):
        function(tx.ones(shape), axis=4)
