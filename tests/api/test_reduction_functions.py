"""Reductions and cumulative reductions as functions, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DTypeError, ShapeError

from .samples import SAMPLES, Array, assert_close, assert_same, check_refused, each_sample

EXACT: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "prod": np.prod,
    "any": np.any,
    "all": np.all,
    "count_nonzero": np.count_nonzero,
    "max": np.max,
    "min": np.min,
}
ROUNDED: dict[str, Callable[..., Any]] = {"mean": np.mean, "var": np.var, "std": np.std}


def axes_of(array: Array) -> list[int | tuple[int, ...] | None]:
    several = chain.from_iterable(combinations(range(array.ndim), k) for k in range(array.ndim + 1))
    return [None, *range(-array.ndim, 0), *several]


@each_sample
@pytest.mark.parametrize("name", EXACT)
def test_reductions_equal_numpy(name: str, sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    if array.size == 0 and name in ("max", "min"):
        return
    for axis in axes_of(array):
        for keepdims in (False, True):
            result = getattr(tx, name)(tensor, axis=axis, keepdims=keepdims)
            assert_same(result, EXACT[name](array, axis=axis, keepdims=keepdims))


@each_sample
@pytest.mark.parametrize("name", ROUNDED)
def test_mean_var_and_std_equal_numpy(name: str, sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in axes_of(array):
        if array.size == 0:
            result = getattr(tx, name)(tensor, axis=axis)
            assert_same(result, np.full(np.sum(array, axis=axis).shape, np.nan))
            continue
        for keepdims in (False, True):
            result = getattr(tx, name)(tensor, axis=axis, keepdims=keepdims)
            assert_close(result, ROUNDED[name](array, axis=axis, keepdims=keepdims))


@each_sample
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax_and_argmin_equal_numpy(name: str, sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    if array.size == 0:
        return
    for axis in (None, *range(-array.ndim, array.ndim)):
        result = getattr(tx, name)(tensor, axis=axis, keepdims=True)
        assert_same(result, getattr(np, name)(array, axis=axis, keepdims=True))


def test_var_and_std_apply_the_correction() -> None:
    array = np.asarray([[1.0, 4.0, 9.0], [2.0, 2.0, 8.0]])
    assert_close(tx.var(tx.asarray(array), axis=1, correction=1), np.var(array, axis=1, ddof=1))
    assert_close(tx.std(tx.asarray(array), correction=1.5), np.std(array, ddof=1.5))
    assert tx.var(tx.asarray([1.0]), correction=1).isnan().item()


def test_sums_and_products_of_narrow_integers_are_64_bit_unless_a_dtype_is_given() -> None:
    small = tx.asarray([100, 100, 100], dtype=tx.int8)
    assert (tx.sum(small).dtype, tx.sum(small).item()) == (tx.int64, 300)
    assert tx.prod(small.astype(tx.uint8)).dtype is tx.uint64
    assert (tx.sum(small, dtype=tx.int8).dtype, tx.sum(small, dtype=tx.int8).item()) == (tx.int8, 44)
    assert tx.sum(small, dtype=tx.float32).dtype is tx.float32
    assert tx.mean(small).dtype is tx.float64
    assert tx.mean(small.astype(tx.float16)).dtype is tx.float16
    assert tx.cumulative_sum(small).tolist() == [100, 200, 300]
    assert tx.cumulative_sum(small, dtype=tx.float32).dtype is tx.float32


def test_max_and_min_propagate_nan_and_argmax_and_argmin_find_it() -> None:
    t = tx.asarray([[1.0, tx.nan], [3.0, 2.0]])
    assert_same(tx.max(t, axis=1), np.asarray([np.nan, 3.0]))
    assert_same(tx.min(t, axis=0), np.asarray([1.0, np.nan]))
    assert tx.argmax(t).item() == tx.argmin(t).item() == 1


def test_reductions_accept_dim_and_keepdim_as_in_pytorch() -> None:
    t = tx.arange(6).reshape(2, 3)
    array = t.to_numpy()
    assert_same(tx.sum(t, 0), array.sum(0))
    assert_same(tx.sum(t, dim=1, keepdim=True), array.sum(1, keepdims=True))
    assert_same(tx.amax(t, dim=(0, 1)), array.max())
    assert_same(tx.amin(t, 0), array.min(0))
    assert_close(tx.mean(t, dim=0), array.mean(0))
    assert tx.sum([1, 2, 3]).item() == 6


# --- along an axis ----------------------------------------------------------------------------------------------------

RUNNING: dict[str, tuple[Callable[..., Any], int]] = {
    "cumulative_sum": (np.cumsum, 0),
    "cumulative_prod": (np.cumprod, 1),
}


@each_sample
@pytest.mark.parametrize("name", RUNNING)
def test_cumulative_sum_and_prod_equal_numpy(name: str, sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    ours, (numpys, start) = getattr(tx, name), RUNNING[name]
    for axis in range(-array.ndim, array.ndim):
        expected = numpys(array, axis=axis)
        assert_same(ours(tensor, axis=axis), expected)
        shape = list(array.shape)
        shape[axis] = 1
        first = np.full(shape, start)
        assert_same(ours(tensor, axis=axis, include_initial=True), np.concatenate([first, expected], axis))


@each_sample
def test_cumsum_and_cumprod_without_axis_flatten(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    assert_same(tx.cumsum(tensor), np.cumsum(array))
    assert_same(tx.cumprod(tensor), np.cumprod(array))
    if array.ndim == 1:
        assert_same(tx.cumulative_sum(tensor), np.cumsum(array))


def assert_signs(result: tx.Tensor, wanted: Any) -> None:
    """Check equal elements, including the signs of zeros."""
    values = result.to_numpy()
    assert values.dtype == wanted.dtype and values.shape == wanted.shape
    for part in ("real", "imag"):
        a, b = getattr(values, part), getattr(wanted, part)
        assert ((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)).all(), (values, wanted)


ZEROS = np.array([-0.0, -0.0, 0.0, -0.0, 1.0, -0.0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_cumulative_results_keep_the_sign_of_a_first_zero(dtype: type[np.generic]) -> None:
    for values in (ZEROS, -ZEROS, ZEROS[:1], np.tile(ZEROS, 40)):
        array = values.astype(dtype)
        if array.dtype.kind == "c":
            array.imag = -values
        for tensor, expected_source in ((tx.asarray(array), array), (tx.asarray(array)[::-1], array[::-1])):
            assert_signs(tx.cumsum(tensor), np.cumsum(expected_source))
            assert_signs(tensor.cumulative_sum(0), np.cumsum(expected_source))
            assert_signs(tx.cumprod(tensor), np.cumprod(expected_source))
            result = tx.cumulative_sum(tensor, include_initial=True)
            assert_signs(result, np.cumulative_sum(expected_source, include_initial=True))
            pairs = np.stack([expected_source, expected_source], axis=1)
            assert_signs(tx.cumsum(tx.stack([tensor, tensor], axis=1), axis=0), np.cumsum(pairs, axis=0))


@pytest.mark.large
def test_sums_of_negative_zeros_are_positive_zero() -> None:
    """A sum starts at 0, so the sum of a single -0 is 0."""
    for count in (1, 2, 33, 300_000):
        array = np.full(count, -0.0)
        assert_signs(tx.sum(tx.asarray(array)), np.sum(array))
        assert_signs(tx.mean(tx.asarray(array)), np.mean(array))
        assert_signs(tx.sum(tx.asarray(array).reshape(-1, 1), axis=1), np.sum(array.reshape(-1, 1), axis=1))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_cumprod_keeps_the_first_element_exactly(dtype: type[np.generic]) -> None:
    for first in (complex(np.inf, 1), complex(-0.0, -0.0), complex(2, -np.inf), complex(np.nan, 3), 1 - 2j):
        array = np.array([first, 2 + 1j, 1j], dtype)
        result = tx.cumprod(tx.asarray(array))
        assert_signs(result[:1], array[:1])
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(result.to_numpy()[1:], np.cumprod(array)[1:], rtol=1e-6)


@each_sample
def test_diff_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in range(-array.ndim, array.ndim):
        for n in range(4):
            assert_same(tx.diff(tensor, axis=axis, n=n), np.diff(array, axis=axis, n=n))
        result = tx.diff(tensor, axis=axis, prepend=3, append=tensor)
        assert_same(result, np.diff(array, axis=axis, prepend=3, append=array))


def test_diff_of_bools_equals_numpy_and_diff_of_order_0_is_a_copy() -> None:
    flags = np.asarray([True, True, False, True])
    assert_same(tx.diff(tx.asarray(flags)), np.diff(flags))
    t = tx.arange(3).realize()
    tx.diff(t, n=0)[0] = 9
    assert t.tolist() == [0, 1, 2]


table = tx.zeros((2, 3))

WRONG: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "an axis to sum": (lambda: tx.sum(table, axis=2), AxisError, ("sum", "axis", "2")),
    "an axis named twice": (lambda: tx.prod(table, axis=(0, -2)), AxisError, ("prod", "twice")),
    "axis and dim": (lambda: tx.max(table, axis=0, dim=1), ArgumentError, ("max", "axis", "dim")),
    "the largest of nothing": (lambda: tx.max(tx.zeros((2, 0)), axis=1), ShapeError, ("max", "axis 1", "(2, 0)")),
    "where nothing is least": (lambda: tx.argmin(tx.zeros(0)), ShapeError, ("argmin", "axis 0", "(0,)")),
    "the variance of bools": (lambda: tx.var(table > 0), DTypeError, ("var", "bool", "astype")),
    "running along nothing": (lambda: tx.cumulative_sum(table), ArgumentError, ("cumulative_sum", "(2, 3)", "ravel")),
    "running along no axis": (lambda: tx.cumulative_prod(table, axis=2), AxisError, ("cumulative_prod", "axis 2")),
    "differences along no axis": (lambda: tx.diff(table, axis=2), AxisError, ("diff", "axis 2")),
    "fewer than no differences": (lambda: tx.diff(table, n=-1), ArgumentError, ("diff", "-1")),
    "a 0-d tensor before": (lambda: tx.diff(table, prepend=tx.asarray(1)), ShapeError, ("diff", "0-d", "(2, 3)")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_reductions_reject_invalid_arguments(wrong: str) -> None:
    check_refused(*WRONG[wrong])


OFFSET = (np.random.default_rng(5).normal(size=(6, 10_007)) + 1e6).astype(np.float32)  # the rounding of their mean shows in the variance


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("rows", [6, 1])
def test_variance_is_corrected_for_the_rounding_of_the_mean(rows: int, axis: int | None) -> None:
    """The reference is NumPy in float64: in float32, NumPy's own mean is rounded."""
    x, exact = OFFSET[:rows], OFFSET[:rows].astype(np.float64)
    t, is_selected = tx.asarray(x), np.arange(x.shape[1]) % 3 > 0
    for ddof in (0, 1) if rows > 1 or axis != 0 else (0,):
        wanted = exact.var(axis, ddof=ddof)
        np.testing.assert_allclose(t.var(axis, ddof).numpy(), wanted, rtol=2e-6)
        np.testing.assert_allclose(t.std(axis, ddof).numpy(), wanted**0.5, rtol=2e-6)
        np.testing.assert_allclose(t[:, ::-1].var(axis, ddof, True).numpy(), exact[:, ::-1].var(axis, ddof=ddof, keepdims=True), rtol=2e-6)
    masked = np.broadcast_to(is_selected, x.shape)
    if axis != 0:
        expected_selected = exact[:, is_selected].var(axis)
        np.testing.assert_allclose(tx.var(t, axis, where=tx.asarray(masked)).numpy(), expected_selected, rtol=2e-6)
        holes = tx.where(tx.asarray(masked), t, np.float32(np.nan))
        np.testing.assert_allclose(np.nanvar(holes, axis=axis), expected_selected, rtol=2e-6)  # type: ignore[call-overload]
    both = t + 1j * t[:, ::-1]
    np.testing.assert_allclose(both.var(axis).numpy(), (exact + 1j * exact[:, ::-1]).var(axis), rtol=2e-6)


def test_variance_of_equal_numbers_is_0_and_of_infinite_or_huge_ones_nan_or_inf() -> None:
    for x in (np.full(37, 0.1), np.full(1000, 0.1, np.float32), np.full(3, 7.0), np.zeros(0), np.ones(1)):
        for ddof in (0, 1):
            wanted = 0.0 if x.size > ddof else np.nan
            np.testing.assert_allclose(tx.asarray(x).var(correction=ddof).numpy(), wanted, atol=1e-32)
    assert tx.asarray([1.0, np.inf]).var().isnan().item() and tx.asarray([1e300, -1e300]).var().item() == np.inf
    assert tx.asarray([3e38] * 10, dtype=tx.float32).var().item() == np.inf


def test_variance_derivatives_of_equal_and_offset_numbers_are_exact() -> None:
    n, wanted = 4, (np.eye(4) - 0.25) * 0.5
    for x in (np.full(n, 0.1), np.arange(4.0) + 1e8):
        np.testing.assert_allclose(tx.grad(lambda t: t.var())(tx.asarray(x)).numpy(), (x - x.mean()) * 0.5, atol=1e-8)
        np.testing.assert_allclose(tx.hessian(lambda t: t.var())(tx.asarray(x)).numpy(), wanted, atol=1e-12)
