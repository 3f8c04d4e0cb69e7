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
    match = one_pass(nest)
    if match is None:
        return None
    column, row, total, of_row = match
    (step_axis,), extent = of_row.axes, nest.axes[column].extent
    kept_rows = {e: Kept(k, row, STEPS, e.dtype) for k, e in enumerate(_collect_row_values(nest, match))}
    keeps = [Keep(buffered.row, row, STEPS, e) for e, buffered in kept_rows.items()]
    replacements: dict[Expr, Expr] = dict(kept_rows)
    update = Update(total.accumulator, tuple([replaced(value, replacements) for value in total.values]))
    row_statements: tuple[Statement, ...] = (Init(of_row.accumulator), For(step_axis, (Update(of_row.accumulator, of_row.values),)), *keeps)
    itemsize = max(o.dtype.itemsize for o in nest.operands)
    is_long = target.registers >= MANY_REGISTERS and extent * itemsize > target.loops.long_rows
    row_count = target.loops.abreast if is_long else 1  # short rows are best read one after the other, in the order of memory
    pass_loop = For(row, (For(row, row_statements, abreast=row_count), For(column, (For(row, (update,)),))), STEPS)
    start_loop, store_loop = For(column, (Init(total.accumulator),)), For(column, nest.stores)
    sizes = target.loops
    block = next((size for size in (sizes.short_rows, sizes.columns) if size >= extent), target.passes.columns)
    body = looped(nest.space[:-1], (For(column, (start_loop, pass_loop, store_loop), block, whole=True),))
    axes = list(nest.axes)
    for axis in (column, step_axis):
        axes[axis] = axes[axis]._replace(vector=True)
    accumulators = list(nest.accumulators)
    accumulators[total.accumulator] = accumulators[total.accumulator]._replace(row=column)
    return nest._replace(axes=tuple(axes), accumulators=tuple(accumulators), body=body)


def _collect_row_values(nest: Nest, match: OnePass) -> list[Expr]:
    """Return the largest subexpressions of the summed value computed from the reduction of a row and equal for every column."""
    is_invariant: dict[Expr, bool] = {}
    uses_row: dict[Expr, bool] = {}
    row_values: dict[Expr, None] = {}
    for root in match.total.values:
        for e in missing(root, is_invariant):
            varies = isinstance(e, Access) and match.column in nest.where(e).axes()
            is_invariant[e] = not varies and not isinstance(e, State) and all([is_invariant[a] for a in e.args])
            uses_row[e] = (isinstance(e, Result) and e.accumulator == match.of_row.accumulator) or any([uses_row[a] for a in e.args])
        stack = [root]
        while stack:
            e = stack.pop()
            if uses_row[e] and is_invariant[e]:
                row_values[e] = None
            elif uses_row[e]:
                stack.extend(e.args)
    return list(row_values)
