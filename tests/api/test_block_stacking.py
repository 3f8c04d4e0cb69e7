"""Stacking, splitting and blocks, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, ShapeError

from .samples import SAMPLES, assert_same, each_sample


@each_sample
@pytest.mark.parametrize("name", ["vstack", "hstack", "dstack", "column_stack"])
def test_stack_functions_equal_numpy(name: str, sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    assert_same(getattr(tx, name)([tensor, tensor]), getattr(np, name)([array, array]))
    assert_same(getattr(tx, name)((tensor,)), getattr(np, name)((array,)))


@each_sample
def test_atleast_functions_return_views_equal_to_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        result = getattr(tx, name)(tensor)
        assert_same(result, getattr(np, name)(array))
        assert result.storage is tensor.storage
        both = getattr(tx, name)(tensor, 3)
        assert type(both) is tuple and both[1].ndim == int(name[8])


@each_sample
def test_split_functions_return_views_equal_to_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in range(-array.ndim, array.ndim):
        for sections in (1, 2, 3, 7, [1, 2], [0, 5, 5]):
            ours, theirs = tx.array_split(tensor, sections, axis), np.array_split(array, sections, axis)
            assert len(ours) == len(theirs)
            for view, expected in zip(ours, theirs, strict=True):
                assert_same(view, expected)
                assert view.storage is tensor.storage
    for name, ndim in (("vsplit", 2), ("hsplit", 1), ("dsplit", 3)):
        if array.ndim >= ndim:
            for view, expected in zip(getattr(tx, name)(tensor, [1]), getattr(np, name)(array, [1]), strict=True):
                assert_same(view, expected)


def blocks(of: Any) -> list[Any]:
    a, b, c = of.ones((2, 2)), of.zeros((2, 3)), of.ones(5)
    return [a, [a, b], [[a, b], [c]], [[b.T], [b.T]], [[[a], [b[:, :2]]]], [1.0, c]]


def test_block_equals_numpy() -> None:
    for ours, theirs in zip(blocks(tx), blocks(np), strict=True):
        assert_same(tx.block(ours), np.block(theirs))


def test_block_array_split_and_vstack_reject_invalid_arguments() -> None:
    with pytest.raises(ArgumentError, match="block: one of the nested lists is empty"):
        tx.block([[]])
    with pytest.raises(ArgumentError, match="0 and 1 deep"):
        tx.block([tx.ones(2), [tx.ones(2)]])
    with pytest.raises(ArgumentError, match="number of parts is 0"):
        tx.array_split(tx.ones(3), 0)
    with pytest.raises(AxisError, match="array_split"):
        tx.array_split(tx.ones(3), 2, axis=1)
    with pytest.raises(ShapeError, match="vstack: tensor 1"):
        tx.vstack([tx.ones(2), tx.ones(3)])


def test_block_of_one_tensor_is_a_copy() -> None:
    x = tx.eye(2)
    for blocks in (x, [x], [[x]]):
        result = tx.block(blocks)
        result[0, 0] = 7.0
        assert x[0, 0].item() == 1.0 and result.tolist() == [[7.0, 0.0], [0.0, 1.0]]
