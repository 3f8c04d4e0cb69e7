"""Loop interchange for reductions of columns, so that memory is read along rows.

Here lanes run along an axis, and reductions inside walk across memory. In this order each row would be read a few elements at a time, and
each read would miss the cache. Instead the loops go through blocks of the axis, with a row of states for each reduction: a few steps of the
reduction's loop, and for each the whole row. Every state takes the same elements in the same order as before. A loop-invariant value is
computed once per column and stored in a row buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ops.expr import Call, Expr, missing, replaced
from ...target import Target
from ..drafted import Access
from ..ir import (
    Accumulator,
    For,
    Init,
    Keep,
    Kept,
    Result,
    State,
    Statement,
    Update,
    expressions,
    statements,
    with_expressions,
    work,
)
from ..nest import Body, Nest

# Rows read together. For sums of floats they form a chunk (`llvm/reductions.py`), so the number decides the bits.
STEPS = 8


def by_rows(nest: Nest, target: Target) -> Nest:
    """Return the nest with the loop over columns in blocks, and the loops in its body moved around it.

    A nest without a vectorized loop around long reductions is unchanged.
    """
    column = _column(nest)
    if column is None:
        return nest
    (loop,) = [s for s in statements(nest.body) if isinstance(s, For) and s.axis == column]
    passes, sizes, columns = sum(isinstance(s, For) for s in loop.body), target.loops, nest.axes[column].extent
    block = sizes.narrow if passes > 1 else sizes.columns if columns > sizes.short_rows else sizes.short_rows
    kept = sum(isinstance(s, Keep) for s in statements(nest.body))
    interchanged = For(column, tuple(_Turning(nest, column, block, kept, target.costs.kept_row).inside(loop.body)), block)
    accumulators = tuple(_with_rows(nest.accumulators, loop))
    return nest._replace(body=_instead(nest.body, loop, interchanged), accumulators=accumulators)


def _column(nest: Nest) -> int | None:
    """Return the vectorized independent axis with long reduction loops inside, or None."""
    if not any(axis.vector and axis.parallel for axis in nest.axes) or not nest.accumulators:
        return None
    inside = [(f.around, nest.extent(f.axes)) for f in nest.reductions]
    for axis in nest.space:
        if nest.axes[axis].vector and any(axis in around and steps > STEPS for around, steps in inside):
            return axis
    return None


def _instead(body: Body, loop: For, other: For) -> Body:
    """Return a body with `loop` replaced by `other`."""
    if loop in body:
        return tuple([other if s is loop else s for s in body])
    return tuple([s._replace(body=_instead(s.body, loop, other)) if isinstance(s, For) else s for s in body])


def _with_rows(accumulators: Sequence[Accumulator], loop: For) -> list[Accumulator]:
    """Return the accumulators, with a row of states along the axis of `loop` for each accumulator started in `loop`.

    An accumulator started in an innermost loop keeps a single state.
    """
    started = _started(loop)
    return [f._replace(row=loop.axis) if k in started else f for k, f in enumerate(accumulators)]


def _started(loop: For) -> set[int]:
    """Return the accumulators started directly in a loop, or directly in an inner loop which contains further loops."""
    found = {s.accumulator for s in loop.body if isinstance(s, Init)}
    nested = [s for s in loop.body if isinstance(s, For) and any(isinstance(inner, For) for inner in s.body)]
    return found.union(*map(_started, nested))


class _Turning:
    """The interchange of a loop over columns: each statement of the body runs for every column of a block before the next statement."""

    def __init__(self, nest: Nest, axis: int, block: int, rows: int, worth: int) -> None:
        self.nest, self.axis, self.block, self.worth = nest, axis, block, worth
        self.rows = rows  # row buffers used so far

    def inside(self, body: Iterable[Statement]) -> list[Statement]:
        """Return the statements of a body, each inside a loop over the columns of the block."""
        found: list[Statement] = []
        straight: list[Statement] = []
        for s in body:
            if not isinstance(s, For):
                straight.append(s)
                continue
            kept, interchanged = self.kept(s)
            straight += kept
            if straight:
                found.append(For(self.axis, tuple(straight)))
                straight = []
            found.append(self.around(interchanged))
        if straight:
            found.append(For(self.axis, tuple(straight)))
        return found

    def around(self, loop: For) -> For:
        """Return a loop of the body with the loop over columns inside."""
        if any(isinstance(s, For) for s in loop.body):
            return For(loop.axis, tuple(self.inside(loop.body)))
        if any(isinstance(s, Update) for s in loop.body):
            return For(loop.axis, (For(self.axis, (loop,)),), STEPS)
        return For(loop.axis, (For(self.axis, loop.body),))

    def kept(self, loop: For) -> tuple[list[Keep], For]:
        """Return the row-buffer stores of the costly invariants of a loop, and the loop with reads of the row buffers instead."""
        found = list(enumerate(_same_for_all(self.nest, loop, self.worth), start=self.rows))
        self.rows += len(found)
        keeps = [Keep(row, self.axis, self.block, e) for row, e in found]
        kept: dict[Expr, Expr] = {e: Kept(row, self.axis, self.block, e.dtype) for row, e in found}
        return keeps, loop._replace(body=with_expressions(loop.body, lambda e: replaced(e, kept))) if kept else loop


def _same_for_all(nest: Nest, loop: For, worth: int) -> list[Expr]:
    """Return the largest loop-invariant subexpressions of a loop with a cost of at least `worth` additions."""
    inside = list(statements((loop,)))
    axes = {s.axis for s in inside if isinstance(s, For)}
    running = {s.accumulator for s in inside if isinstance(s, (Init, Update))}
    fixed: dict[Expr, bool] = {}
    found: dict[Expr, None] = {}
    for root in expressions((loop,)):
        for e in missing(root, fixed):
            if isinstance(e, Access):
                fixed[e] = not nest.where(e).axes() & axes and all(fixed[a] for a in e.args)
            elif isinstance(e, Result):
                fixed[e] = e.accumulator not in running
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
