"""Loops split at the breaks of a view chain: the chain is read like a single view, with the same result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.lowering.ir import Address, Kernel, Load, Statement, TileLoad, iterate_expressions, walk
from tenxor.lowering.lower import lower

from .helpers import TARGET, kernel_of

A = np.arange(24).reshape(4, 6)
ViewFunction = Callable[[tx.Tensor], tx.Tensor]


def addresses(kernel: Kernel) -> list[Address]:
    """Return the addresses that a kernel reads."""

    def staged(body: tuple[Statement, ...]) -> list[Address]:
        tile_addresses = [s.address for s in body if isinstance(s, TileLoad)]
        return tile_addresses + [a for s in body for a in staged(getattr(s, "body", ()))]

    loads = [e.address for root in iterate_expressions(kernel.body) for e in walk(root) if isinstance(e, Load)]
    return loads + staged(kernel.body)


CHAINS: dict[str, tuple[ViewFunction, ViewFunction]] = {
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


@pytest.mark.parametrize("name", CHAINS)
def test_view_chain_is_read_without_division(name: str) -> None:
    ours, theirs = CHAINS[name]
    result = ours(tx.asarray(A).realize()) * 2
    assert all(a.base is None for a in addresses(kernel_of(result)))
    assert result.tolist() == (theirs(A) * 2).tolist()  # type: ignore[arg-type, operator]


def test_unevenly_cut_view_chain_is_read_by_division() -> None:
    result = tx.asarray(A).realize().T.reshape(24)[1:20] + 1
    assert any(a.base is not None for a in addresses(kernel_of(result)))
    assert result.tolist() == (A.T.reshape(24)[1:20] + 1).tolist()


def test_reductions_over_a_view_chain_match_numpy() -> None:
    t = tx.asarray(A).realize().T.reshape(24)
    assert all(a.base is None for a in addresses(kernel_of(t.sum())))
    assert t.sum().item() == A.sum()
    rows = t.reshape(3, 8)
    wanted = A.T.reshape(3, 8)
    for result, expected in [
        (rows.sum(axis=1), wanted.sum(axis=1)),
        (rows.argmax(axis=1), wanted.argmax(axis=1)),
        (tx.reduce(lambda acc, x: acc * 3 + x, rows, axis=1, initial=0), [reduce_in_order(r) for r in wanted]),
        (rows - rows.max(axis=1, keepdims=True), wanted - wanted.max(axis=1, keepdims=True)),
        (tx.cumulative_sum(rows, axis=1), wanted.cumsum(axis=1)),
        (tx.cumulative_sum(rows, axis=0), wanted.cumsum(axis=0)),
    ]:
        assert result.tolist() == np.asarray(expected).tolist()


def reduce_in_order(row: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    total = 0
    for x in row.tolist():
        total = total * 3 + x
    return total


def test_write_through_a_view_chain_matches_numpy() -> None:
    a, t = A.copy(), tx.asarray(A).realize()
    chain = t.T.reshape(24)
    chain[...] = tx.arange(24) * 2
    a.T[...] = (np.arange(24) * 2).reshape(6, 4)
    assert t.tolist() == a.tolist()


def test_view_chains_of_all_shapes_share_a_kernel() -> None:
    def kernel(rows: int, columns: int) -> Kernel:
        t = tx.ones((rows, columns)).realize().T.reshape(-1) + 1
        return lower(t.storage.node, {t.storage.node}, TARGET)[0]

    assert kernel(3, 5) == kernel(70, 20)
