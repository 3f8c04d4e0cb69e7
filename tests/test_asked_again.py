"""Results that were inlined into another kernel and are read again: stored at the second read, or at once if they are expensive."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.tensor import Tensor
from tests.test_plans import is_pending, kernels, matrix

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too


def test_inlined_node_is_stored_at_its_second_use() -> None:
    e = tx.exp(matrix())
    first, second, third = e + 1, e * 2, e - 3
    first.realize()
    assert is_pending(e) and len(kernels(second)) == 2
    second.realize()
    assert not is_pending(e) and len(kernels(third)) == 1
    expected = np.exp(matrix().to_numpy())
    assert np.allclose(third.to_numpy(), expected - 3) and np.allclose(first.to_numpy(), expected + 1)


def test_held_inlined_node_is_stored_by_its_next_reader() -> None:
    e = tx.exp(matrix())
    (e + 1).realize()
    assert is_pending(e) and len(kernels(e * 2)) == 2


def test_expensive_held_node_is_stored_at_its_first_use() -> None:
    """Storing costs little compared with computing. A node is not stored before a sum that would then add in another order."""
    x = matrix()
    makes = (lambda: tx.random.Generator(0).normal(shape=(6, 8)), lambda: tx.exp(tx.sin(tx.exp(tx.sin(x)))))
    for make in makes:
        e = make()
        assert len(kernels(e + 1)) == 1
        expected = (e + 1).to_numpy()
        assert not is_pending(e) and np.array_equal(expected, e.to_numpy() + 1)
        assert np.array_equal((make() + 1).to_numpy(), expected)
    three, backwards = tx.exp(tx.sin(tx.exp(x))), tx.exp(tx.sin(tx.exp(tx.sin(x[::-1]))))
    (three + 1).realize()
    backwards.sum(axis=0).realize()
    assert is_pending(three) and is_pending(backwards)


def test_repeated_use_stores_an_inlined_node() -> None:
    e = tx.exp(matrix())
    (e + 1).realize()
    (e + 1).realize()
    assert not is_pending(e)


def test_operand_read_only_by_a_held_node_is_not_stored() -> None:
    def squared(e: Tensor) -> Tensor:
        return e * e

    s = squared(tx.exp(matrix()))
    (s + 1).realize()
    assert is_pending(s) and len(kernels(s - 1)) == 2  # the square, and not its exponential


def test_node_without_other_owners_is_not_stored() -> None:
    x = matrix()
    y = tx.exp(x) + 1
    y.realize()
    z = tx.exp(x) * 2  # another exponential
    assert len(kernels(z)) == 1
