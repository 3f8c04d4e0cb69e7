"""Loops over columns, turned about so that memory is read along its rows.

Where lanes run along an axis and folds inside it walk across memory, the loops as they stand would read a few elements
of each row, and the caches would wait for every one of them. Instead they go through blocks of the axis, with a row of
states for each fold: a few steps of the fold's loop at a time, and for these the whole row. Every state takes the same
elements in the same order as before. What is the same for all steps of a loop is computed once for each column, and
kept in a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ops.expr import Call, Expr, missing, replaced
from ..target import Target
from .ir import (
    Fold,
    For,
    Init,
    Keep,
    Kept,
    Load,
    Position,
    Result,
    State,
    Statement,
    Store,
    Update,
    expressions,
    statements,
    work,
)

STEPS = 8  # rows that are read side by side: of those that add up floats a chunk (`llvm/folds.py`), so it decides bits


def by_rows(loop: For, columns: int, rows: int, target: Target) -> For:
    """A loop over so many columns, in blocks, with its body's loops around its own; `rows` are kept already."""
    passes, sizes = sum(isinstance(s, For) for s in loop.body), target.loops
    block = sizes.narrow if passes > 1 else sizes.columns if columns > sizes.short_rows else sizes.short_rows
    return For(loop.axis, tuple(_Turning(loop.axis, block, rows, target.costs.kept_row).inside(loop.body)), block)


def with_rows(folds: Sequence[Fold], loop: For) -> list[Fold]:
    """The folds, those that a loop over columns starts, outside of innermost loops, having a row of states along it."""
    started = _started(loop)
    return [f._replace(row=loop.axis) if k in started else f for k, f in enumerate(folds)]


def _started(loop: For) -> set[int]:
    """The folds started in a loop, and in those inside it that have loops themselves: these have their turns one by one."""
    found = {s.fold for s in loop.body if isinstance(s, Init)}
    nested = [s for s in loop.body if isinstance(s, For) and any(isinstance(inner, For) for inner in s.body)]
    return found.union(*map(_started, nested))


class _Turning:
    """What is done for one column, done for all columns of a block, statement by statement."""

    def __init__(self, axis: int, block: int, rows: int, worth: int) -> None:
        self.axis, self.block, self.worth = axis, block, worth
        self.rows = rows  # kept so far

    def inside(self, body: Iterable[Statement]) -> list[Statement]:
        found: list[Statement] = []
        straight: list[Statement] = []
        for s in body:
            if not isinstance(s, For):
                straight.append(s)
                continue
            kept, turned = self.kept(s)
            straight += kept
            if straight:
                found.append(For(self.axis, tuple(straight)))
                straight = []
            found.append(self.around(turned))
        if straight:
            found.append(For(self.axis, tuple(straight)))
        return found

    def around(self, loop: For) -> For:
        """A loop that was inside that over the columns, around it."""
        if any(isinstance(s, For) for s in loop.body):
            return For(loop.axis, tuple(self.inside(loop.body)))
        if any(isinstance(s, Update) for s in loop.body):
            return For(loop.axis, (For(self.axis, (loop,)),), STEPS)
        return For(loop.axis, (For(self.axis, loop.body),))

    def kept(self, loop: For) -> tuple[list[Keep], For]:
        """What a loop computes at each step though it is the same for all, to be kept, and the loop without it."""
        found = list(enumerate(same_for_all(loop, self.worth), start=self.rows))
        self.rows += len(found)
        keeps = [Keep(row, self.axis, self.block, e) for row, e in found]
        kept: dict[Expr, Expr] = {e: Kept(row, self.axis, self.block, e.dtype) for row, e in found}
        return keeps, _with(loop, kept) if kept else loop


def same_for_all(loop: For, worth: int) -> list[Expr]:
    """The largest parts of what a loop computes that do not change in it, and are worth a row: so many additions or more."""
    inside = list(statements((loop,)))
    axes = {s.axis for s in inside if isinstance(s, For)}
    running = {s.fold for s in inside if isinstance(s, (Init, Update))}
    fixed: dict[Expr, bool] = {}
    found: dict[Expr, None] = {}
    for root in expressions((loop,)):
        for e in missing(root, fixed):
            if isinstance(e, (Load, Position)):
                fixed[e] = not e.address.axes() & axes and all(fixed[a] for a in e.args)
            elif isinstance(e, Result):
                fixed[e] = e.fold not in running
            else:
                fixed[e] = not isinstance(e, State) and all(fixed[a] for a in e.args)
        stack = [root]
        while stack:
            e = stack.pop()
            if not fixed[e]:
                stack.extend(e.args)
            elif isinstance(e, Call) and work(e) >= worth:
                found[e] = None
    return list(found)


def _with(loop: For, kept: dict[Expr, Expr]) -> For:
    """The loop with parts of its expressions replaced."""
    body: list[Statement] = []
    for s in loop.body:
        if isinstance(s, For):
            body.append(_with(s, kept))
        elif isinstance(s, Update):
            body.append(Update(s.fold, tuple([replaced(v, kept) for v in s.values])))
        elif isinstance(s, Store):
            imag = None if s.imag is None else replaced(s.imag, kept)
            body.append(s._replace(value=replaced(s.value, kept), imag=imag))
        else:
            body.append(s)
    return loop._replace(body=tuple(body))
