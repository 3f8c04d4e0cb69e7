"""`select`, `put`, `putmask` and `interp`, compared with NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError

from .samples import SAMPLES, assert_close, assert_same, each_sample


@each_sample
def test_select_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    ours = tx.select([tensor < 0, tensor > 10], [tensor * 2, 7], -1)
    assert_same(ours, np.select([array < 0, array > 10], [array * 2, 7], -1))
    assert tx.select([tx.asarray([True, False])], [1.5]).tolist() == [1.5, 0.0]


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_put_equals_numpy(mode: Any) -> None:
    for indices in ([0, -1, 3], [], [[5, 2], [2, 4]], *(([7, -9, 100],) if mode != "raise" else ())):
        for values in ([9], [1, 2], [[3, 4, 5, 6, 7]]):
            base = np.arange(6).reshape(2, 3)
            ours, theirs = tx.asarray(base.copy()), base.copy()
            tx.put(ours, indices, values, mode)
            np.put(theirs, indices, values, mode)
            assert_same(ours, theirs)
    turned = tx.arange(6).reshape(2, 3)
    tx.put(turned.T, [1], -1)  # through a view
    assert turned.tolist() == [[0, 1, 2], [-1, 4, 5]]


@each_sample
def test_putmask_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    ours, theirs = tensor.copy(), array.copy()
    tx.putmask(ours, ours > 3, [-1, -2, -3])
    np.putmask(theirs, theirs > 3, [-1, -2, -3])
    assert_same(ours, theirs)


def test_interp_equals_numpy() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random(50) * 12 - 1, [0.0, 1.0, 4.0, 10.0, np.nan, np.inf, -np.inf]])
    for points in (np.asarray([0.0, 1.0, 4.0, 10.0]), np.asarray([0.0]), np.asarray([0.0, 1.0, 1.0, 2.0])):
        for heights in (rng.random(points.size), rng.integers(0, 9, points.size), rng.random(points.size) * 1j):
            for ends in ({}, {"left": -1.0, "right": 99.0}):
                result = tx.interp(tx.asarray(x.reshape(3, 19)), tx.asarray(points), tx.asarray(heights), **ends)
                wanted = np.interp(x.reshape(3, 19), points, heights, **ends)
                if points.size == 1:
                    wanted = np.where(np.isnan(x.reshape(3, 19)), np.nan, wanted)  # for a single point, NumPy returns its height
                if np.unique(points).size == points.size:
                    np.testing.assert_allclose(result.to_numpy(), wanted, rtol=1e-12, atol=1e-14)
                assert result.dtype is tx.dtype(wanted.dtype)
    assert tx.interp(0.5, [0, 1], [0, 10]).item() == 5.0


def test_interp_with_infinite_and_nan_heights_equals_numpy() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        points = np.sort(rng.permutation(8)[: rng.integers(2, 6)]).astype(float)
        heights = rng.choice([0.0, 1.0, -2.0, np.inf, np.nan], points.size, p=[0.3, 0.3, 0.3, 0.05, 0.05])
        x = rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0, 3.5, 7.0, 9.0, np.nan, np.inf, -np.inf], 1100)
        wanted = np.interp(x, points, heights)
        assert np.array_equal(tx.interp(x, points, heights).to_numpy(), wanted, equal_nan=True)
        assert np.array_equal(tx.interp(x[:20], points, heights).to_numpy(), wanted[:20], equal_nan=True)


def test_interp_with_period_equals_numpy() -> None:
    x, points, heights = np.asarray([-180, -170, -185, 185, -10, -5, 0, 365]), [190, -190, 350, -350], [5, 10, 3, 4]
    assert_close(tx.interp(x, points, heights, period=360), np.interp(x, points, heights, period=360))


def test_select_put_and_interp_reject_invalid_arguments() -> None:
    x = tx.zeros(3)
    with pytest.raises(ArgumentError, match="1 conditions and 2 choices"):
        tx.select([x > 0], [1, 2])
    with pytest.raises(DTypeError, match=r"conditions\[0\] has dtype float64"):
        tx.select([x], [1])
    with pytest.raises(IndexOutOfRange):
        tx.put(x, [3], 1.0)
        x.realize()
    with pytest.raises(ArgumentError, match="no elements, for 1 positions"):
        tx.put(x, [1], [])
    with pytest.raises(ArgumentError, match="mode must be"):
        tx.put(x, [1], 1.0, "never")
    with pytest.raises(ShapeError, match=r"mask has shape \(2,\), and x \(3,\)"):
        tx.putmask(x, tx.asarray([True, False]), 1.0)
    with pytest.raises(DTypeError, match="x must be a tensor"):
        tx.put([1, 2], [0], 1)
    with pytest.raises(ShapeError, match="interp: xp and fp"):
        tx.interp(1.0, [1, 2], [1])
    with pytest.raises(ArgumentError, match="period is 0"):
        tx.interp(1.0, [1, 2], [1, 2], period=0)
