"""Single-pass loops for a sum over rows with a reduction along each row inside, as in `x.T @ (x @ v)`.

The loops take a few rows at a time. First each row is reduced, and the result stored in a row buffer. Then the sum finds the rows in a near
cache. Both parts are vectorized, because their loops are adjacent, not nested.
"""

from __future__ import annotations

from ...ops.expr import Expr, missing, replaced
from ...target import MANY_REGISTERS, Target
from ..drafted import Access
from ..ir import For, Init, Keep, Kept, Result, State, Statement, Update
from ..nest import Nest, looped
from ..onepass import OnePass, one_pass
from .columns import STEPS


def in_one_pass(nest: Nest, target: Target) -> Nest | None:
    """Return the nest with loops that read each row once for both reductions, or None if its form does not allow a single pass."""
    found = one_pass(nest)
    if found is None:
        return None
    column, row, total, of_row = found
    (along,), extent = of_row.axes, nest.axes[column].extent
    rows = {e: Kept(k, row, STEPS, e.dtype) for k, e in enumerate(_of_row(nest, found))}
    keeps = [Keep(kept.row, row, STEPS, e) for e, kept in rows.items()]
    known: dict[Expr, Expr] = dict(rows)
    update = Update(total.accumulator, tuple([replaced(value, known) for value in total.values]))
    reduced: tuple[Statement, ...] = (Init(of_row.accumulator), For(along, (Update(of_row.accumulator, of_row.values),)), *keeps)
    itemsize = max(o.dtype.itemsize for o in nest.operands)
    long = target.registers >= MANY_REGISTERS and extent * itemsize > target.loops.long_rows
    abreast = target.loops.abreast if long else 1  # short rows are best read one after the other, in the order of memory
    passed = For(row, (For(row, reduced, abreast=abreast), For(column, (For(row, (update,)),))), STEPS)
    started, stored = For(column, (Init(total.accumulator),)), For(column, nest.stores)
    sizes = target.loops
    block = next((size for size in (sizes.short_rows, sizes.columns) if size >= extent), target.passes.columns)
    body = looped(nest.space[:-1], (For(column, (started, passed, stored), block, whole=True),))
    axes = list(nest.axes)
    for axis in (column, along):
        axes[axis] = axes[axis]._replace(vector=True)
    accumulators = list(nest.accumulators)
    accumulators[total.accumulator] = accumulators[total.accumulator]._replace(row=column)
    return nest._replace(axes=tuple(axes), accumulators=tuple(accumulators), body=body)


def _of_row(nest: Nest, found: OnePass) -> list[Expr]:
    """Return the largest subexpressions of the summed value computed from the reduction of a row and equal for every column."""
    alike: dict[Expr, bool] = {}
    of_row: dict[Expr, bool] = {}
    largest: dict[Expr, None] = {}
    for root in found.total.values:
        for e in missing(root, alike):
            here = isinstance(e, Access) and found.column in nest.where(e).axes()
            alike[e] = not here and not isinstance(e, State) and all([alike[a] for a in e.args])
            of_row[e] = (isinstance(e, Result) and e.accumulator == found.of_row.accumulator) or any([of_row[a] for a in e.args])
        stack = [root]
        while stack:
            e = stack.pop()
            if of_row[e] and alike[e]:
                largest[e] = None
            elif of_row[e]:
                stack.extend(e.args)
    return list(largest)
