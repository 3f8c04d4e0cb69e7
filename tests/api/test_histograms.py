"""Counts and histograms, compared with NumPy's and with loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, ShapeError

from .samples import assert_close, assert_same


@pytest.mark.parametrize("dtype", [tx.uint8, tx.int8, tx.uint16, tx.int32, tx.int64, tx.uint64, tx.bool], ids=str)
def test_bincount_equals_numpy(dtype: tx.DType) -> None:
    array = np.random.default_rng(0).integers(0, 2 if dtype is tx.bool else 50, 3000)
    x = tx.asarray(array).astype(dtype)
    assert_same(tx.bincount(x), np.bincount(array))
    assert_same(tx.bincount(x, minlength=60), np.bincount(array, minlength=60))
    assert_same(tx.bincount(x[:0], minlength=3), np.zeros(3, int))
    assert tx.bincount(x[:0]).shape == (0,) and tx.bincount([], minlength=2).tolist() == [0, 0]
    weights = np.random.default_rng(1).random(3000)
    assert_close(tx.bincount(x, tx.asarray(weights)), np.bincount(array, weights))
    assert_close(tx.bincount(x[::-2], tx.asarray(weights)[::-2]), np.bincount(array[::-2], weights[::-2]))


def test_bincount_rejects_invalid_arguments() -> None:
    with pytest.raises(ArgumentError, match="the smallest element is -3"):
        tx.bincount(tx.asarray([1, -3]))
    with pytest.raises(DTypeError, match="x has dtype float64"):
        tx.bincount(tx.ones(2))
    with pytest.raises(ShapeError, match=r"x has shape \(2, 2\)"):
        tx.bincount(tx.ones((2, 2), dtype=tx.int64))
    with pytest.raises(ShapeError, match=r"weights have shape \(3,\)"):
        tx.bincount(tx.asarray([1, 2]), tx.ones(3))


CASES = {
    "normal": np.random.default_rng(0).standard_normal(900),
    "float32": np.random.default_rng(0).standard_normal((20, 30)).astype(np.float32),
    "integers": np.random.default_rng(0).integers(-7, 30, 800),
    "wide": np.asarray([0, 2**62, 2**61, 1]),
    "on the edges": np.arange(11) / 10,
    "one number": np.full(5, 3.0),
    "nothing": np.zeros(0),
    "no axes": np.asarray(2.0),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bins", [1, 7, 10, 100])
def test_histogram_with_even_bins_equals_numpy(case: str, bins: int) -> None:
    array = CASES[case]
    for over in (None, (-1, 1), (0.5, 0.5)):
        counts, edges = tx.histogram(tx.asarray(array), bins, over)
        expected, wanted = np.histogram(array, bins, over)
        np.testing.assert_allclose(edges.to_numpy(), wanted, rtol=1e-6, atol=1e-6)
        if array.dtype == np.float32:  # NumPy rounds the edges of float32 differently
            model = [((array >= a) & (array < b)).sum() for a, b in zip(edges.tolist()[:-1], edges.tolist()[1:], strict=True)]
            model[-1] += (array == edges.tolist()[-1]).sum()
            assert counts.tolist() == [int(n) for n in model]
        else:
            assert_same(counts, expected)
        np.testing.assert_allclose(tx.histogram_bin_edges(tx.asarray(array), bins, over).to_numpy(), wanted, rtol=1e-6, atol=1e-6)


def test_histogram_with_edges_weights_and_density_equals_numpy() -> None:
    rng = np.random.default_rng(0)
    array, weights = rng.standard_normal((30, 40)), rng.random((30, 40))
    array[0, :3] = np.nan, np.inf, -np.inf
    edges = np.asarray([-1.0, -0.5, 0.5, 0.5, 2.0])
    x = tx.asarray(array)
    assert_same(tx.histogram(x, tx.asarray(edges))[0], np.histogram(array, edges)[0])
    assert_same(tx.histogram(x, [-1, 0, 1])[0], np.histogram(array, [-1, 0, 1])[0])
    assert_close(tx.histogram(x, 9, (-2, 2), weights=tx.asarray(weights))[0], np.histogram(array, 9, (-2, 2), weights=weights)[0])
    result = tx.histogram(x, 9, (-2, 2), density=True)[0]
    assert_close(result, np.histogram(array, 9, (-2, 2), density=True)[0])
    with pytest.raises(ArgumentError, match="bins would reach from nan to nan"):
        tx.histogram(x)


def test_histogram2d_equals_numpy() -> None:
    rng = np.random.default_rng(0)
    x, y, weights = rng.standard_normal(500), rng.random(500), rng.random(500)
    for bins, over in ((5, None), ([4, 6], None), ([[-1, 0, 2], 3], ((-9, 9), (0, 0.5)))):
        result = tx.histogram2d(tx.asarray(x), tx.asarray(y), bins, over, weights=tx.asarray(weights))
        wanted = np.histogram2d(x, y, bins, over, weights=weights)
        for ours, theirs in zip(result, wanted, strict=True):
            np.testing.assert_allclose(ours.to_numpy(), theirs)
    result = tx.histogram2d(tx.asarray(x), tx.asarray(y), 4, density=True)
    np.testing.assert_allclose(result[0].to_numpy(), np.histogram2d(x, y, 4, density=True)[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_histogramdd_equals_numpy(count: int, dtype: type) -> None:
    rng = np.random.default_rng(count)
    points, weights = rng.standard_normal((300, count)).astype(dtype), rng.random(300)
    cases: tuple[dict[str, Any], ...] = (
        *({"bins": 3}, {"bins": [2] * count}, {"bins": [np.asarray([-1.0, 0.0, 2.0]), *[4] * (count - 1)]}, {"bins": 2, "density": True}),
        *({"bins": 3, "range": [(-1, 1)] * count}, {"bins": 3, "range": [None, *[(-1, 1)] * (count - 1)]}, {"bins": 3, "weights": weights}),
    )
    for options in cases:
        wanted, edges = np.histogramdd(points, **options)
        for sample in (tx.asarray(points), [tx.asarray(column) for column in points.T]):
            result, along = tx.histogramdd(sample, **options)
            assert result.dtype is tx.float64 and type(along) is tuple
            np.testing.assert_allclose(result.to_numpy(), wanted, rtol=1e-6)
            for ours, theirs in zip(along, edges, strict=True):
                np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-6)
    assert_same(np.histogramdd(tx.asarray(points), 3)[0], np.histogramdd(points, 3)[0])
    assert tx.histogramdd(tx.zeros((0, count)), bins=2)[0].sum().item() == 0


def test_gradient_flows_to_weights_of_histogramdd() -> None:
    points, weights = tx.asarray([[0.0, 0.0], [0.9, 0.2], [0.8, 0.9]]), tx.ones(3).requires_grad_()
    counts, _ = tx.histogramdd(points, bins=2, range=[(0, 1), (0, 1)], weights=weights)
    (counts * tx.asarray([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert weights.grad.tolist() == [1.0, 3.0, 4.0]


def test_histograms_reject_invalid_arguments() -> None:
    x = tx.ones(3)
    with pytest.raises(ShapeError, match=r"histogramdd: points must be the rows of a 2-D tensor, not of shape \(3,\)"):
        tx.histogramdd(x)
    with pytest.raises(ShapeError, match=r"histogramdd: coordinates must be .* \(3,\), \(2,\)"):
        tx.histogramdd([x, x[:2]])
    with pytest.raises(ArgumentError, match="histogramdd: 1 bins for 2 coordinates"):
        tx.histogramdd([x, x], [3])
    for function in (lambda over: tx.histogramdd([x, x], 2, over), lambda over: tx.histogram2d(x, x, 2, over)):
        with pytest.raises(ArgumentError, match=r"range must be a sequence of 2 ranges"):
            function([(0, 1)])
    for bins, message in ((0, "number of bins is 0"), ([3, 1], "1-D and ascending"), ("often", "auto")):
        with pytest.raises(ArgumentError, match=message):
            tx.histogram(x, bins)
    with pytest.raises(ArgumentError, match="must not be above its high end"):
        tx.histogram(x, range=(2, 1))
    with pytest.raises(DTypeError, match="complex"):
        tx.histogram(x * 1j)
    with pytest.raises(ShapeError, match=r"\(3,\) and \(2,\)"):
        tx.histogram2d(x, x[:2])


@pytest.mark.parametrize("rule", ["auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges"])
@pytest.mark.filterwarnings("ignore:The number of bins")
def test_bin_rules_equal_numpy(rule: str) -> None:
    draws = np.random.default_rng(3)
    for size in (200, 30, 1000, 1, 0):  # different sizes, so no recorded call can be replayed for other values
        floats, integers = draws.normal(size=size), draws.integers(0, 40, size)
        for model in (floats, integers, floats.astype(np.float32), floats > 0):
            x = tx.asarray(model)
            data = model.astype(np.uint8) if model.dtype == bool else model
            wanted, edges = np.histogram(data, rule)
            result = tx.histogram(x, rule)
            assert result[0].tolist() == wanted.tolist() and result[1].shape == edges.shape
            assert tx.histogram(x, rule, range=(-1, 9))[0].tolist() == np.histogram(data, rule, range=(-1, 9))[0].tolist()
            assert tx.histogram_bin_edges(x, rule).shape == edges.shape
    with pytest.raises(ArgumentError, match="weights"):
        tx.histogram(tx.ones(3), rule, weights=tx.ones(3))
