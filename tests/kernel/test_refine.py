"""Loops cut where a chain of views turns: what was a chain is read like one view, and comes out the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.kernel.ir import Address, Kernel, Load, Statement, TileLoad, expressions, walk
from tenxor.kernel.lower import lower

from .helpers import TARGET, kernel_of

A = np.arange(24).reshape(4, 6)
View = Callable[[tx.Tensor], tx.Tensor]


def addresses(kernel: Kernel) -> list[Address]:
    """Every place that a kernel reads."""

    def staged(body: tuple[Statement, ...]) -> list[Address]:
        found = [s.address for s in body if isinstance(s, TileLoad)]
        return found + [a for s in body for a in staged(getattr(s, "body", ()))]

    loads = [e.address for root in expressions(kernel.body) for e in walk(root) if isinstance(e, Load)]
    return loads + staged(kernel.body)


TURNS: dict[str, tuple[View, View]] = {
    "a transpose as a row": (lambda t: t.T.reshape(24), lambda a: a.T.reshape(24)),
    "a transpose in other rows": (lambda t: t.T.reshape(12, 2), lambda a: a.T.reshape(12, 2)),
    "every other element": (lambda t: t.T.reshape(24)[::2], lambda a: a.T.reshape(24)[::2]),
    "backwards": (lambda t: t.T.reshape(24).flip(), lambda a: a.T.reshape(24)[::-1]),
    "a chain of three": (
        lambda t: t.T.reshape(3, 8).T.reshape(24),
        lambda a: a.T.reshape(3, 8).T.reshape(24),
    ),
    "columns as a row": (lambda t: t[:, :4].reshape(16), lambda a: a[:, :4].reshape(16)),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_whole_chain_is_read_without_division(name: str) -> None:
    ours, theirs = TURNS[name]
    found = ours(tx.asarray(A).realize()) * 2
    assert all(a.then is None for a in addresses(kernel_of(found)))
    assert found.tolist() == (theirs(A) * 2).tolist()  # type: ignore[arg-type, operator]


def test_a_part_that_turns_at_uneven_distances_still_divides() -> None:
    found = tx.asarray(A).realize().T.reshape(24)[1:20] + 1
    assert any(a.then is not None for a in addresses(kernel_of(found)))
    assert found.tolist() == (A.T.reshape(24)[1:20] + 1).tolist()


def test_reductions_over_a_chain() -> None:
    t = tx.asarray(A).realize().T.reshape(24)
    assert all(a.then is None for a in addresses(kernel_of(t.sum())))
    assert t.sum().item() == A.sum()
    rows = t.reshape(3, 8)
    wanted = A.T.reshape(3, 8)
    for found, expected in [
        (rows.sum(axis=1), wanted.sum(axis=1)),
        (rows.argmax(axis=1), wanted.argmax(axis=1)),
        (tx.reduce(lambda acc, x: acc * 3 + x, rows, axis=1, initial=0), [in_order(r) for r in wanted]),
        (rows - rows.max(axis=1, keepdims=True), wanted - wanted.max(axis=1, keepdims=True)),
        (tx.cumulative_sum(rows, axis=1), wanted.cumsum(axis=1)),
        (tx.cumulative_sum(rows, axis=0), wanted.cumsum(axis=0)),
    ]:
        assert found.tolist() == np.asarray(expected).tolist()


def in_order(row: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    total = 0
    for x in row.tolist():
        total = total * 3 + x
    return total


def test_a_write_through_a_chain() -> None:
    a, t = A.copy(), tx.asarray(A).realize()
    chain = t.T.reshape(24)
    chain[...] = tx.arange(24) * 2
    a.T[...] = (np.arange(24) * 2).reshape(6, 4)
    assert t.tolist() == a.tolist()


def test_shapes_share_one_kernel() -> None:
    def kernel(rows: int, columns: int) -> Kernel:
        t = tx.ones((rows, columns)).realize().T.reshape(-1) + 1
        return lower(t.storage.node, {t.storage.node}, TARGET)[0]

    assert kernel(3, 5) == kernel(70, 20)
