"""Loops over columns, turned about so that memory is read along its rows.

Where lanes run along an axis and folds inside it walk across memory, the loops as they stand would read a few elements
of each row, and the caches would wait for every one of them. Instead they go through blocks of the axis, with a row of
states for each fold: a few steps of the fold's loop at a time, and for these the whole row. Every state takes the same
elements in the same order as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .ir import Fold, For, Init, Statement

COLUMNS = 4096  # states in a row: they stay in the nearest cache
STEPS = 8  # rows that are read side by side


def by_rows(loop: For) -> For:
    """A loop over columns, in blocks, with its body's loops around its own."""
    return For(loop.axis, _inside(loop.axis, loop.body), COLUMNS)


def _inside(axis: int, body: Iterable[Statement]) -> tuple[Statement, ...]:
    """What the body does for one column, done for all columns of a block, statement by statement."""
    found: list[Statement] = []
    straight: list[Statement] = []
    for s in body:
        if not isinstance(s, For):
            straight.append(s)
            continue
        if straight:
            found.append(For(axis, tuple(straight)))
            straight = []
        if any(isinstance(t, For) for t in s.body):
            found.append(For(s.axis, _inside(axis, s.body)))
        else:
            found.append(For(s.axis, (For(axis, (s,)),), STEPS))
    if straight:
        found.append(For(axis, tuple(straight)))
    return tuple(found)


def with_rows(folds: Sequence[Fold], loop: For) -> list[Fold]:
    """The folds, those that a loop over columns starts having a row of states along it."""
    started = {s.fold for s in loop.body if isinstance(s, Init)}
    return [f._replace(row=loop.axis) if k in started else f for k, f in enumerate(folds)]
