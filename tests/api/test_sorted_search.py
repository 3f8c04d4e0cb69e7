"""`searchsorted` and `digitize`, compared with counting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, ShapeError

from .ordering import REAL, drawn, key
from .samples import SAMPLES, assert_same, each_sample


def model(row: list[Any], value: Any, side: str) -> int:
    """Return the number of elements that precede a value."""
    return sum(key(x) < key(value) if side == "left" else key(x) <= key(value) for x in row)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_equals_counting(dtype: tx.DType, side: str) -> None:
    row, wanted = tx.sort(drawn(dtype, (60,), seed=1, most=20)), drawn(dtype, (5, 7), seed=2, most=20)
    result = tx.searchsorted(row, wanted, side=side)
    assert result.dtype is tx.int64 and result.shape == (5, 7)
    assert result.ravel().tolist() == [model(row.tolist(), v, side) for v in wanted.ravel().tolist()]
    assert tx.searchsorted(row[:0], wanted, side=side).tolist() == np.zeros((5, 7), int).tolist()
    assert tx.searchsorted(row, wanted[:0], side=side).shape == (0, 7)


def test_searchsorted_of_many_values_equals_numpy() -> None:
    rng = np.random.default_rng(0)
    row, wanted = np.sort(rng.integers(0, 5000, 20_000)), rng.integers(-10, 5010, (4, 5000))
    for side in ("left", "right"):
        assert_same(tx.searchsorted(tx.asarray(row), tx.asarray(wanted), side=side), np.searchsorted(row, wanted, side))


@each_sample
def test_searchsorted_of_every_layout_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    row = np.arange(-6, 20, 2)
    assert_same(tx.searchsorted(tx.asarray(row[::-1])[::-1], tensor), np.searchsorted(row, array))


def test_searchsorted_accepts_numbers_and_sorters() -> None:
    row = tx.asarray([5, 1, 3])
    assert tx.searchsorted(tx.sort(row), 3).item() == 1 and tx.searchsorted(tx.sort(row), 3.5).item() == 2
    assert tx.searchsorted(row, tx.asarray([2, 5]), sorter=tx.argsort(row)).tolist() == [1, 2]
    assert tx.searchsorted(tx.asarray([1, 2]), 2, right=True).item() == 2
    assert tx.bucketize(tx.asarray([[1, 4]]), tx.asarray([1, 2, 3]), right=True).tolist() == [[1, 3]]


def test_searchsorted_compares_int64_with_uint64_exactly() -> None:
    signed = tx.asarray([-(2**63), -1, 0, 5, 2**63 - 1])
    unsigned = tx.asarray([0, 5, 2**63 - 1, 2**63, 2**64 - 1], dtype=tx.uint64)
    for side in ("left", "right"):
        for row, wanted in ((signed, unsigned), (unsigned, signed)):
            expected = [model(row.tolist(), v, side) for v in wanted.tolist()]
            assert tx.searchsorted(row, wanted, side=side).tolist() == expected


@pytest.mark.parametrize("right", [False, True])
def test_digitize_equals_numpy(right: bool) -> None:
    rng = np.random.default_rng(0)
    x, edges = rng.integers(0, 20, (6, 5)) / 2, np.asarray([1.0, 2.5, 2.5, 7.0])
    assert_same(tx.digitize(tx.asarray(x), tx.asarray(edges), right), np.digitize(x, edges, right))
    assert_same(tx.digitize(tx.asarray(x), tx.asarray(edges[::-1].copy()), right), np.digitize(x, edges[::-1], right))
    with pytest.raises(ArgumentError, match="digitize: bins is not sorted"):
        tx.digitize(tx.asarray(x), tx.asarray([1.0, 3.0, 2.0]))
    with pytest.raises(DTypeError, match="complex128"):
        tx.digitize(tx.asarray([1j]), tx.asarray(edges))


def test_searchsorted_and_digitize_reject_invalid_arguments() -> None:
    with pytest.raises(ShapeError, match=r"has shape \(2, 2\); it must be 1-D"):
        tx.searchsorted(tx.ones((2, 2)), 1.0)
    with pytest.raises(ArgumentError, match="side must be 'left' or 'right', not 'middle'"):
        tx.searchsorted(tx.ones(2), 1.0, side="middle")
    with pytest.raises(ArgumentError, match=r"sorter has shape \(1,\) and dtype int64"):
        tx.searchsorted(tx.ones(2), 1.0, sorter=tx.asarray([0]))


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_is_exact_for_integers_beyond_the_dtype(side: str) -> None:
    for dtype in (tx.int8, tx.uint8, tx.int64, tx.uint64):
        ends = [int(dtype.lowest), int(dtype.highest)]
        x = tx.asarray(ends, dtype=dtype)
        for wanted in (ends[0] - 1, ends[0], ends[1], ends[1] + 1, -(10**30), 10**30):
            assert tx.searchsorted(x, wanted, side=side).item() == model(ends, wanted, side)
            assert tx.searchsorted(x[::-1], wanted, side=side, sorter=tx.asarray([1, 0])).item() == model(ends, wanted, side)
