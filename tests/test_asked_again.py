"""What is computed in passing, as part of something else, and asked for again: it is kept the second time, or at once if it takes long."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.tensor import Tensor
from tests.test_plans import is_pending, kernels, matrix

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too


def test_the_second_use_of_what_was_computed_in_passing_keeps_it() -> None:
    e = tx.exp(matrix())
    first, second, third = e + 1, e * 2, e - 3
    first.realize()
    assert is_pending(e) and len(kernels(second)) == 2
    second.realize()
    assert not is_pending(e) and len(kernels(third)) == 1
    expected = np.exp(matrix().to_numpy())
    assert np.allclose(third.to_numpy(), expected - 3) and np.allclose(first.to_numpy(), expected + 1)


def test_a_name_alone_is_enough_to_ask_again() -> None:
    e = tx.exp(matrix())
    (e + 1).realize()
    assert is_pending(e) and len(kernels(e * 2)) == 2


def test_what_takes_long_is_kept_at_once_if_it_has_a_name() -> None:
    """To store it takes little beside making it: random numbers, or some functions one after the other; but not before a sum of it
    that would be added up in another order.
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


def test_the_same_use_again_keeps_it_too() -> None:
    e = tx.exp(matrix())
    (e + 1).realize()
    (e + 1).realize()
    assert not is_pending(e)


def test_what_only_a_named_one_reads_is_not_kept_beside_it() -> None:
    def squared(e: Tensor) -> Tensor:
        return e * e

    s = squared(tx.exp(matrix()))
    (s + 1).realize()
    assert is_pending(s) and len(kernels(s - 1)) == 2  # the square, and not its exponential


def test_what_nobody_can_ask_for_again_is_not_kept() -> None:
    x = matrix()
    y = tx.exp(x) + 1
    y.realize()
    z = tx.exp(x) * 2  # another exponential
    assert len(kernels(z)) == 1
