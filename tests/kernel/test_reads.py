"""Index maps of what nodes read, beside NumPy's views of the numbers of the elements."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tenxor as tx
from tenxor.kernel.reads import source_index_maps, whole
from tenxor.node import Node

from .helpers import Array

SIZE = 4


def a_view(rng: random.Random, t: tx.Tensor, numbers: Array) -> tuple[tx.Tensor, Array]:
    """A move of a tensor of two axes, and the same of the numbers of its elements: most begin somewhere else."""
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


def of_memory(root: Node) -> list[Array]:
    """The elements of memory that a node needs at each of its own, one read after another."""
    found, stack = [], [(root, whole(root))]
    while stack:
        for source, where in source_index_maps(*stack.pop()):
            if source.buffer is None:
                stack.append((source, where))
            else:
                found.append(where.offsets())
    return found


@pytest.mark.parametrize("seed", range(60))
def test_they_say_which_elements_are_read(seed: int) -> None:
    rng = random.Random(seed)
    t, numbers = tx.arange(SIZE * SIZE).reshape(SIZE, SIZE).copy().realize(), np.arange(SIZE * SIZE).reshape(SIZE, SIZE)
    for _ in range(rng.randrange(1, 4)):
        moved, numbers = a_view(rng, t, numbers)
        t = moved + 1
        if numbers.shape != (SIZE, SIZE):
            break
    for _ in range(2):  # the second time they are remembered
        (found,) = of_memory(t.storage.node)
        assert np.array_equal(found.ravel()[t.layout.offsets()], numbers)  # results lie in the order of what they are made of


def test_rows_that_begin_elsewhere_are_read_where_they_begin() -> None:
    m = tx.ones((5, 7)).realize()
    for k in (0, 3, 1, 0):
        row = (m[k] * 2.0).storage.node
        assert of_memory(row)[0].tolist() == list(range(7 * k, 7 * k + 7))


def test_they_are_the_same_objects_for_all_that_is_alike() -> None:
    m = tx.ones((5, 7)).realize()
    maps = [source_index_maps(node, whole(node))[0][1] for node in [(m[:, ::-1] * float(k)).storage.node for k in range(4)]]
    first = (m * 2.0).storage.node
    again = [source_index_maps(node, whole(node))[0][1] for node in (first, (m * 3.0).storage.node)]
    assert again[0] is again[1] and len(set(maps)) == 1
