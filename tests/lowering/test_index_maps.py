"""Index maps of the operands of nodes, compared with NumPy views of the flat indices."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph.node import Node
from tenxor.lowering.index_maps import make_identity_map, source_index_maps

from .helpers import Array

SIZE = 4


def random_view(rng: random.Random, t: tx.Tensor, numbers: Array) -> tuple[tx.Tensor, Array]:
    """Return a random view of a matrix, most with another offset, and the same view of the flat indices."""
    kind, n = rng.randrange(6), rng.randrange(3)
    if kind == 0:
        return t[n:, ::-1], numbers[n:, ::-1]
    if kind == 1:
        return t[n : n + 2].T, numbers[n : n + 2].T
    if kind == 2:
        return t[::-2, n:], numbers[::-2, n:]
    if kind == 3:
        return t.reshape(-1, 2), numbers.reshape(-1, 2)
    if kind == 4:
        return t[n], numbers[n]  # which the other operand's rows repeat
    index = [n, 0, 2, 3]
    return t.take_view(index), numbers[index]


def memory_offsets(root: Node) -> list[Array]:
    """Return, for each operand in memory, the offsets that a node reads at its positions."""
    offsets, stack = [], [(root, make_identity_map(root))]
    while stack:
        for source, index_map in source_index_maps(*stack.pop()):
            if source.buffer is None:
                stack.append((source, index_map))
            else:
                offsets.append(index_map.offsets())
    return offsets


@pytest.mark.parametrize("seed", range(60))
def test_index_maps_match_numpy_views(seed: int) -> None:
    rng = random.Random(seed)
    t, numbers = tx.arange(SIZE * SIZE).reshape(SIZE, SIZE).copy().realize(), np.arange(SIZE * SIZE).reshape(SIZE, SIZE)
    for _ in range(rng.randrange(1, 4)):
        view, numbers = random_view(rng, t, numbers)
        t = view + 1
        if numbers.shape != (SIZE, SIZE):
            break
    for _ in range(2):  # the second time they are remembered
        (offsets,) = memory_offsets(t.storage.node)
        assert np.array_equal(offsets.ravel()[t.layout.offsets()], numbers)  # results lie in the order of what they are made of


def test_index_map_of_a_row_starts_at_its_offset() -> None:
    m = tx.ones((5, 7)).realize()
    for k in (0, 3, 1, 0):
        row = (m[k] * 2.0).storage.node
        assert memory_offsets(row)[0].tolist() == list(range(7 * k, 7 * k + 7))


def test_equal_index_maps_are_one_object() -> None:
    m = tx.ones((5, 7)).realize()
    maps = [source_index_maps(node, make_identity_map(node))[0][1] for node in [(m[:, ::-1] * float(k)).storage.node for k in range(4)]]
    first = (m * 2.0).storage.node
    row_maps = [source_index_maps(node, make_identity_map(node))[0][1] for node in (first, (m * 3.0).storage.node)]
    assert row_maps[0] is row_maps[1] and len(set(maps)) == 1
