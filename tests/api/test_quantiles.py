"""Medians and quantiles, compared with NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DTypeError, ShapeError
from tenxor.native.selection import select_ranks
from tenxor.tensor.argument_parsing import Axes

from .samples import SAMPLES, assert_close, each_sample
from .test_reduction_functions import axes_of

METHODS = (
    *("linear", "lower", "higher", "midpoint", "nearest"),
    *("hazen", "weibull", "median_unbiased", "normal_unbiased", "interpolated_inverted_cdf"),
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation"),
)


@each_sample
def test_median_and_quantile_of_every_layout_equal_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    if array.size == 0:
        return
    for axis in axes_of(array):
        if axis == ():
            continue  # NumPy reads () as all axes
        for keepdims in (False, True):
            assert_close(tx.median(tensor, axis=axis, keepdims=keepdims), np.median(array, axis=axis, keepdims=keepdims))
            for q in (0.0, 0.3, [[0.1, 0.9, 1.0]]):
                result = tx.quantile(tensor, q, axis=axis, keepdims=keepdims)
                assert_close(result, np.quantile(array, q, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1, 2, 5, 10, 101])
def test_quantile_with_every_method_equals_numpy(method: str, size: int) -> None:
    array = np.random.default_rng(size).permutation(size) ** 2
    q = np.asarray([0, 0.01, 0.25, 0.5, 1 / 3, 0.77, 0.99, 1])
    for numbers in (array, array / 7, (array / 7).astype(np.float32)):
        result = tx.quantile(tx.asarray(numbers), tx.asarray(q), method=method)
        np.testing.assert_allclose(result.to_numpy(), np.quantile(numbers, q, method=method), rtol=2e-6)
        wanted = tx.asarray(numbers).dtype
        if method in ("lower", "higher", "nearest", "inverted_cdf", "closest_observation") or wanted.is_float:
            assert result.dtype is wanted
        else:
            assert result.dtype is tx.float64
        result = tx.percentile(tx.asarray(numbers), q * 100, method=method)
        np.testing.assert_allclose(result.to_numpy(), np.percentile(numbers, q * 100, method=method), rtol=2e-6)


@pytest.mark.parametrize("method", ["inverted_cdf", "averaged_inverted_cdf", "closest_observation"])
def test_quantile_with_discontinuous_methods_equals_numpy_exactly(method: str) -> None:
    q = np.arange(0, 41) / 40
    for size in range(1, 11):
        array = np.random.default_rng(size).permutation(size) ** 2
        np.testing.assert_array_equal(tx.quantile(tx.asarray(array), q, method=method).to_numpy(), np.quantile(array, q, method=method))


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (2, 0), (0, 1, 2)])
@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.float32])
def test_weighted_quantiles_equal_numpy(axis: Axes, dtype: type) -> None:
    rng = np.random.default_rng(1)
    array = rng.integers(0, 9, (3, 4, 5)).astype(dtype)
    if array.dtype.kind == "f":
        array[1, 2, 3] = np.nan
    axes = (0, 1, 2) if axis is None else (axis,) if isinstance(axis, int) else axis
    full_weights = rng.integers(0, 4, array.shape)
    full_weights[0, 0, 0] = 1
    shared = rng.integers(1, 5, [array.shape[a] for a in axes])
    for weights in (full_weights + 1, full_weights * 1.0, shared):
        if weights is shared and axis is None:
            continue
        totals = np.sum(np.broadcast_to(1, array.shape) * (weights if weights.shape == array.shape else 1), axis=axis)
        if (totals == 0).any():
            continue
        for q in (0.0, [0.25, 0.5, 1.0], [[0.3], [0.9]]):
            for keepdims in (False, True):
                options = {"axis": axis, "keepdims": keepdims, "method": "inverted_cdf"}
                result = tx.quantile(tx.asarray(array), q, weights=tx.asarray(weights), **options)
                wanted = np.quantile(array, q, weights=weights, **options)
                assert result.shape == wanted.shape and result.dtype == array.dtype
                np.testing.assert_array_equal(result.to_numpy(), wanted)
    assert_close(
        np.percentile(tx.asarray(array), 30, axis, weights=tx.asarray(full_weights + 1), method="inverted_cdf"),
        np.percentile(array, 30, axis, weights=full_weights + 1, method="inverted_cdf"),
    )


def test_weighted_quantiles_have_derivatives() -> None:
    x = tx.asarray([3.0, 1.0, 2.0]).requires_grad_()
    result = x.quantile([0.5, 1.0], method="inverted_cdf", weights=[1.0, 1.0, 5.0])
    assert result.tolist() == [2.0, 3.0]
    (result * tx.asarray([1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [10.0, 0.0, 1.0]
    rows, weights = tx.asarray([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]]), tx.asarray([[1.0, 1.0, 5.0], [9.0, 1.0, 1.0]])
    assert tx.vmap(lambda r, w: tx.quantile(r, 0.5, method="inverted_cdf", weights=w))(rows, weights).tolist() == [2.0, 5.0]


def test_quantile_and_percentile_reject_invalid_weights() -> None:
    x = tx.ones((2, 3))
    for weights in ([1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, float("nan"), 1.0], [float("inf"), 1.0, 1.0]):
        with pytest.raises(ArgumentError, match="quantile: weights must be 0 or more, finite, and not all 0"):
            tx.quantile(x, 0.5, axis=1, method="inverted_cdf", weights=weights)
    with pytest.raises(ArgumentError, match="percentile: weights need method='inverted_cdf', not 'linear'"):
        tx.percentile(x, 50, weights=x)
    with pytest.raises(ShapeError, match=r"quantile: weights have shape \(2,\); .* \(2, 3\), or the sizes of the axes, \(3,\)"):
        tx.quantile(x, 0.5, axis=1, method="inverted_cdf", weights=[1.0, 2.0])
    with pytest.raises(DTypeError, match="weights must be real, not complex128"):
        tx.quantile(x, 0.5, method="inverted_cdf", weights=x * 1j)


@pytest.mark.parametrize("method", [[1], {}, np.zeros(2), 3], ids=str)
def test_quantile_rejects_a_method_that_is_no_string(method: Any) -> None:
    for q in (0.5, [0.5], tx.asarray([0.5])):
        with pytest.raises(ArgumentError, match="quantile: there is no method"):
            tx.quantile(tx.ones(3), q, method=method)


def test_quantiles_propagate_nan_and_infinities() -> None:
    rows = np.asarray([[1, np.nan, 2], [np.inf, 1, 2], [-np.inf, np.inf, np.inf], [np.inf, np.inf, -np.inf]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(tx.median(tx.asarray(rows), axis=1).to_numpy(), np.median(rows, axis=1))
    assert tx.quantile(tx.asarray([-np.inf, 0.0, 1.0]), 0.0).item() == -np.inf
    assert tx.median(tx.asarray([1.0, 2.0, np.nan])).isnan().item()


INF = np.inf


@pytest.mark.parametrize("ends", [(1.0, INF), (-INF, 1.0), (INF, INF), (-INF, -INF), (-INF, INF), (-1.7e308, 1.7e308)])
def test_quantile_between_infinite_elements_is_their_weighted_sum(ends: tuple[float, float]) -> None:
    """Checked for few elements, many rows, a long row, with derivatives, and for `q` as a tensor."""
    x = np.asarray(ends)
    low, high = ends
    mean, quarter = low * 0.5 + high * 0.5, low * 0.75 + high * 0.25
    t, rows, row = tx.asarray(x), tx.asarray(np.tile(x, (20_000, 1))), tx.asarray(np.repeat(x, 20_001))
    for result in (tx.median(t), tx.quantile(t.requires_grad_(), 0.5), tx.median(rows, axis=1)[7], tx.median(row)):
        np.testing.assert_array_equal(result.detach().numpy(), mean)
    for result in (tx.quantile(t, [0.25, 0.5]), tx.quantile(rows, [0.25, 0.5], axis=1)[:, 7], tx.quantile(t, tx.asarray([0.25, 0.5]))):
        np.testing.assert_allclose(result.detach().numpy(), [quarter, mean], rtol=1e-15)


def test_quantile_accepts_q_by_keyword() -> None:
    x = tx.asarray([1.0, 2.0, 4.0])
    assert tx.quantile(x, q=0.5).item() == tx.percentile(x, q=50, axis=0).item() == x.quantile(q=0.5).item() == 2.0


def test_quantiles_of_narrow_floats_and_large_integers_are_exact() -> None:
    for dtype in (tx.float16, tx.bfloat16):
        result = tx.median(tx.asarray([1.0, 3.0, 2.0, 9.0]).astype(dtype))
        assert result.dtype is dtype and result.item() == 2.5
    big = tx.asarray([2**53 + 1, 2**53 + 3, 2**60])
    assert tx.quantile(big, 0.5, method="lower").item() == 2**53 + 3


def test_quantile_percentile_and_median_reject_invalid_arguments() -> None:
    x = tx.ones((2, 3))
    with pytest.raises(ArgumentError, match=r"quantile: q must be from 0 to 1, not 1\.5"):
        tx.quantile(x, 1.5)
    with pytest.raises(ArgumentError, match="percentile: q must be from 0 to 100"):
        tx.percentile(x, -1)
    with pytest.raises(ArgumentError, match="no method 'best'; there are linear"):
        tx.quantile(x, 0.5, method="best")
    with pytest.raises(ShapeError, match=r"median: axis 0 of shape \(0, 3\) has size 0"):
        tx.median(x[:0], axis=0)
    assert tx.median(x[:0], axis=1).shape == (0,)
    with pytest.raises(AxisError):
        tx.median(x, axis=2)
    with pytest.raises(DTypeError, match="no order"):
        tx.median(x * 1j)


def test_replayed_quantile_accepts_q_by_position_and_by_keyword() -> None:
    x = tx.asarray([1.0, 2.0, 4.0, 8.0])
    for _ in range(3):
        assert tx.quantile(x, q=0.5).item() == tx.quantile(x, 0.5).item() == 3.0
        assert tx.percentile(x, q=50, axis=0).item() == np.percentile(x, q=50).item() == 3.0


LONG_ROWS: dict[str, Callable[[np.random.Generator], Any]] = {
    "floats": lambda draw: draw.normal(size=70_001),
    "float32": lambda draw: draw.random(20_000, np.float32),
    "float16": lambda draw: draw.random(20_000).astype(np.float16),
    "in order": lambda draw: np.arange(30_000.0),
    "backwards": lambda draw: np.arange(30_000.0)[::-1],
    "all equal": lambda draw: np.full(20_000, 7),
    "few of them": lambda draw: draw.integers(0, 3, 200_000),
    "periodic": lambda draw: np.arange(100_000) % 48,
    "far apart": lambda draw: draw.standard_cauchy(40_000),
    "large integers": lambda draw: draw.integers(2**62, 2**63 - 1, 20_000),
    "below 0, too": lambda draw: draw.integers(-128, 127, 20_000).astype(np.int8),
    "infinities": lambda draw: draw.choice([np.inf, -np.inf, 1.0], 20_000),
    "one NaN": lambda draw: np.where(np.arange(20_000) == 12_345, np.nan, draw.random(20_000)),
    "half of them NaN": lambda draw: np.where(draw.random(20_000) < 0.5, np.nan, draw.random(20_000)),
    "nothing else": lambda draw: np.full(20_000, np.nan),
}


@pytest.mark.parametrize("name", LONG_ROWS)
def test_quantiles_of_long_rows_by_selection_equal_sorting(name: str) -> None:
    x = LONG_ROWS[name](np.random.default_rng(3))
    in_order, before = np.sort(x), x.tobytes()
    for positions in ([0], [len(x) - 1], [len(x) // 2 - 1, len(x) // 2], [3, 700, len(x) // 3, len(x) - 2]):
        result = select_ranks(x, positions)
        if result is not None:
            assert np.array_equal([result[position] for position in positions], in_order[positions], equal_nan=x.dtype.kind == "f")
    assert x.tobytes() == before
    for t in (tx.asarray(x), tx.asarray(np.repeat(x, 2))[::2], tx.asarray(x.reshape(-1, 1))):
        for method in ("lower", "linear")[: 1 if name == "infinities" else 2]:
            for q in (0.5, 0.0, [0.001, 0.3, 1.0], []):
                result = tx.quantile(t, q, method=method)
                wanted = in_order[-1] if np.isnan(in_order[-1]) else np.quantile(in_order, q, method=method)
                assert result.shape == np.shape(q)
                np.testing.assert_allclose(result.numpy().astype(float), np.broadcast_to(wanted, result.shape).astype(float), rtol=1e-3)


def test_median_of_random_rows_is_found_without_sorting() -> None:
    draw = np.random.default_rng(5)
    assert all(select_ranks(draw.normal(size=50_000), [24_999, 25_000]) is not None for _ in range(20))
