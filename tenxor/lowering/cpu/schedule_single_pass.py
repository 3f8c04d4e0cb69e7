"""Single-pass loops for a sum over rows with a reduction along each row inside, as in `x.T @ (x @ v)`.

The loops take a few rows at a time. First each row is reduced, and the result stored in a row buffer. Then the sum finds the rows in a near
cache. Both parts are vectorized, because their loops are adjacent, not nested.
"""

from __future__ import annotations

from ...ops.expr import Expr, replace_subexprs, walk_unvisited
from ...target import MANY_REGISTER_COUNT, Target
from ..ir import For, Init, Result, RowLoad, RowStore, State, Statement, Update
from ..kernel_draft import Access
from ..loop_nest import LoopNest, wrap_in_loops
from ..match_single_pass import SinglePass, match_single_pass
from .interchange import ROWS_PER_CHUNK


def schedule_single_pass(nest: LoopNest, target: Target) -> LoopNest | None:
    """Return the nest with loops that read each row of a matrix once, or None if `match_single_pass` returns None.

    The nest must sum over rows, for each column, values that use a reduction along each row, as in `x.T @ (x @ v)`. The loops reduce a few
    rows, keep their values in row buffers, and add them to the sums. `target` gives the number of rows and the columns of a block. The
    result is scheduled completely.
    """
    match = match_single_pass(nest)
    if match is None:
        return None
    column, row, total, of_row = match
    (step_axis,), extent = of_row.axes, nest.axes[column].extent
    kept_rows = {e: RowLoad(k, row, ROWS_PER_CHUNK, e.dtype) for k, e in enumerate(_collect_row_values(nest, match))}
    keeps = [RowStore(buffered.row_buffer, row, ROWS_PER_CHUNK, e) for e, buffered in kept_rows.items()]
    replacements: dict[Expr, Expr] = dict(kept_rows)
    update = Update(total.accumulator, tuple([replace_subexprs(value, replacements) for value in total.values]))
    row_statements: tuple[Statement, ...] = (Init(of_row.accumulator), For(step_axis, (Update(of_row.accumulator, of_row.values),)), *keeps)
    itemsize = max(o.dtype.itemsize for o in nest.operands)
    is_long = target.register_count >= MANY_REGISTER_COUNT and extent * itemsize > target.loops.min_long_row_bytes
    row_count = target.loops.jammed_rows if is_long else 1  # short rows are best read one after the other, in the order of memory
    pass_loop = For(row, (For(row, row_statements, jam_factor=row_count), For(column, (For(row, (update,)),))), ROWS_PER_CHUNK)
    start_loop, store_loop = For(column, (Init(total.accumulator),)), For(column, nest.stores)
    sizes = target.loops
    block = next((size for size in (sizes.max_short_row_columns, sizes.block_columns) if size >= extent), target.single_pass.max_columns)
    body = wrap_in_loops(nest.space[:-1], (For(column, (start_loop, pass_loop, store_loop), block, is_undivided=True),))
    axes = list(nest.axes)
    for axis in (column, step_axis):
        axes[axis] = axes[axis]._replace(vector=True)
    accumulators = list(nest.accumulators)
    accumulators[total.accumulator] = accumulators[total.accumulator]._replace(row_axis=column)
    return nest._replace(axes=tuple(axes), accumulators=tuple(accumulators), body=body)


def _collect_row_values(nest: LoopNest, match: SinglePass) -> list[Expr]:
    """Return the largest subexpressions of the summed value in `match` computed from the reduction of a row and equal for every column.

    `match` is the single pass that `match_single_pass` has found in `nest`. The loops store the values of the subexpressions in row
    buffers.
    """
    is_invariant: dict[Expr, bool] = {}
    uses_row: dict[Expr, bool] = {}
    row_values: dict[Expr, None] = {}
    for root in match.outer_sum.values:
        for e in walk_unvisited(root, is_invariant):
            varies = isinstance(e, Access) and match.column in nest.get_address(e).axes()
            is_invariant[e] = not varies and not isinstance(e, State) and all([is_invariant[a] for a in e.args])
            uses_row[e] = (isinstance(e, Result) and e.accumulator == match.row_reduction.accumulator) or any([uses_row[a] for a in e.args])
        stack = [root]
        while stack:
            e = stack.pop()
            if uses_row[e] and is_invariant[e]:
                row_values[e] = None
            elif uses_row[e]:
                stack.extend(e.args)
    return list(row_values)
