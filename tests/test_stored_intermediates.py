"""Test when a fused intermediate is stored: at its second use, or at its first if it is expensive."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.tensor import Tensor
from tests.test_plans import is_pending, kernels, matrix

pytestmark = pytest.mark.usefixtures("plain")  # without the fast path, so that plans compute small tensors, too


def test_fused_intermediate_is_stored_when_a_second_result_uses_it() -> None:
    e = tx.exp(matrix())
    first, second, third = e + 1, e * 2, e - 3
    first.realize()
    assert is_pending(e) and len(kernels(second)) == 2
    second.realize()
    assert not is_pending(e) and len(kernels(third)) == 1
    expected = np.exp(matrix().to_numpy())
    assert np.allclose(third.to_numpy(), expected - 3) and np.allclose(first.to_numpy(), expected + 1)


def test_named_intermediate_of_a_dropped_result_is_stored_at_its_next_use() -> None:
    e = tx.exp(matrix())
    (e + 1).realize()
    assert is_pending(e) and len(kernels(e * 2)) == 2


def test_expensive_named_intermediate_is_stored_at_its_first_use() -> None:
    """Storing random numbers, or a chain of functions, costs little beside computing them. The intermediate is not stored if a sum would
    then add in another order.
    """
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


def test_fused_intermediate_is_stored_when_the_same_expression_repeats() -> None:
    e = tx.exp(matrix())
    (e + 1).realize()
    (e + 1).realize()
    assert not is_pending(e)


def test_unnamed_operand_of_a_stored_intermediate_is_not_stored() -> None:
    def squared(e: Tensor) -> Tensor:
        return e * e

    s = squared(tx.exp(matrix()))
    (s + 1).realize()
    assert is_pending(s) and len(kernels(s - 1)) == 2  # the square, and not its exponential


def test_unreferenced_intermediate_is_not_stored() -> None:
    x = matrix()
    y = tx.exp(x) + 1
    y.realize()
    z = tx.exp(x) * 2  # another exponential
    assert len(kernels(z)) == 1


def test_named_constant_is_stored_when_a_second_result_uses_it() -> None:
    constant = 0.01 * tx.eye(6, 8)
    (matrix() + constant).realize()
    assert is_pending(constant)
    assert np.array_equal((matrix() - constant).to_numpy(), matrix().to_numpy() - 0.01 * np.eye(6, 8))
    assert not is_pending(constant)


def test_constant_that_is_computed_faster_than_loaded_is_not_stored() -> None:
    x, constant = tx.ones((60, 80)).realize(), tx.full((60, 80), 0.5)
    for _ in range(3):
        (x + constant).realize()
    assert is_pending(constant)


def test_stored_constant_leaves_the_bits_of_a_sum() -> None:
    constant = 0.01 * tx.eye(6, 8) + 0.1
    sums = {(matrix() * constant).sum().item() for _ in range(4)}
    assert len(sums) == 1 and not is_pending(constant)
