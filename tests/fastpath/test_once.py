"""The operand of a single-pass product waits for the product on the fast path, too, however small it is."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath import graph_launch, launch_records
from tenxor.target import SinglePass
from tenxor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on", "one_thread")

TIMES = 8  # from the third on the fast path knows what to do
LEAST, (SHORTEST, LONGEST) = SinglePass().min_short_rows_bytes, SinglePass().short_row_bytes


def matrix(row: int, nbytes: int) -> tuple[Tensor, Tensor]:
    """Return a matrix of this size with rows of this size (both in bytes), and a vector along them."""
    random = np.random.default_rng(row)
    made = random.normal(size=(nbytes // row, row // 8)), random.normal(size=row // 8)
    x, v = (tx.asarray(values) for values in made)
    return x.realize(), v.realize()


def stays_pending(x: Tensor, v: Tensor) -> bool:
    """Return whether the product is still pending before it is read, at the last of several times."""
    for _ in range(TIMES):
        u = x @ v
        found = u.storage.node.buffer is None
        u.realize()
    return found


@pytest.mark.parametrize("row", [SHORTEST, LONGEST])
def test_single_pass_products_equal_python_bit_for_bit(row: int) -> None:
    x, v = matrix(row, LEAST)
    with fastpath.disabled():
        u = (x @ v).realize()
        expected = np.asarray(x.T @ u).tobytes()
    for _ in range(TIMES):
        assert np.asarray(x.T @ (x @ v)).tobytes() == expected
        u = (x @ v).realize()
        assert np.asarray(x.T @ u).tobytes() == expected


@pytest.mark.parametrize("row", [SHORTEST, LONGEST])
def test_product_of_a_large_matrix_with_short_rows_stays_pending(row: int) -> None:
    assert stays_pending(*matrix(row, LEAST))


@pytest.mark.parametrize(("row", "nbytes"), [(SHORTEST, LEAST // 2), (2 * LONGEST, LEAST)])
def test_product_of_a_small_or_long_row_matrix_is_computed_at_once(row: int, nbytes: int) -> None:
    assert not stays_pending(*matrix(row, nbytes))


def steps_with_rows(rows: int) -> list[object]:
    """Return the steps of whole plans whose result has one element per row."""
    return [step for plan in graph_launch.plans_in_use for step in plan.steps if step.shape == (rows,)]


def test_single_pass_product_is_computed_when_it_is_read() -> None:
    x, v = matrix(SHORTEST, LEAST)
    launch_records.drop_records(), graph_launch.drop_graph_records()
    for _ in range(TIMES):
        u = x.T @ (x @ v)
        has_waited = u.storage.node.buffer is None
        twice = u * 2
    assert has_waited and u.storage.node.buffer is not None
    assert not steps_with_rows(len(x))
    with fastpath.disabled():
        expected = np.asarray(x.T @ (x @ v)).tobytes()
    assert np.asarray(u).tobytes() == expected
    assert np.asarray(twice).tobytes() == np.asarray(np.frombuffer(expected) * 2).tobytes()


def iterated(x: Tensor, v: Tensor, other: Tensor) -> Tensor:
    """Return some steps of power iteration, orthogonal to another direction."""
    for _ in range(TIMES):
        v = x.T @ (x @ v)
        for _ in range(3):
            v = v - (v @ other) * other
        v = v / tx.linalg.norm(v)
    return v


def test_power_iteration_keeps_products_in_a_single_pass() -> None:
    x, v = matrix(SHORTEST, LEAST)
    other = (tx.ones_like(v) / v.size**0.5).realize()
    with fastpath.disabled():
        expected = np.asarray(iterated(x, v, other)).tobytes()
    launch_records.drop_records(), graph_launch.drop_graph_records()
    for _ in range(TIMES):
        assert np.asarray(iterated(x, v, other)).tobytes() == expected
    assert not steps_with_rows(len(x))
