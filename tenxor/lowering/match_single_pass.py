"""The test whether loops can be a single pass over rows: a sum over rows, for each column, of values that use a reduction of each row."""

from __future__ import annotations

from .._utils.records import NamedTuple
from ..ops.expr import walk
from .ir import Result
from .kernel_draft import ReductionLoop, list_accesses
from .loop_nest import LoopNest


class SinglePass(NamedTuple):
    """A sum over rows with a reduction of each row inside.

    `outer_sum` sums along axis `row`, for each index of `column`, the last axis of the space. `row_reduction` is the reduction inside.
    """

    column: int
    row: int
    outer_sum: ReductionLoop
    row_reduction: ReductionLoop


def match_single_pass(nest: LoopNest) -> SinglePass | None:
    """Return the axes and reductions of a nest that can be a single pass over rows.

    Return None unless the nest has exactly two reductions: a sum over an axis of rows, for each column, with a reduction along an axis of
    each row inside. The inner reduction must not depend on the column, and only the sum may use the result of the inner reduction. The sum
    must take its elements in order, and the inner reduction must not. The nest must have a single store.
    """
    space = nest.space
    if not space or not nest.is_single_pass or nest.result_loops != space or len(nest.stores) != 1:
        return None
    total, of_row = sorted(nest.reductions, key=lambda f: len(f.outer_loops))
    column, in_order = space[-1], nest.sequential_accumulators
    if len(total.axes) != 1 or len(of_row.axes) != 1:
        return None
    if (
        total.accumulator not in in_order
        or of_row.accumulator in in_order
        or nest.accumulators[total.accumulator].reduction.combine is None
    ):
        return None
    if any(column in nest.get_address(e).axes() for e in list_accesses(of_row.values)):
        return None
    if any(isinstance(e, Result) and e.accumulator == of_row.accumulator for value in nest.result_store.values for e in walk(value)):
        return None
    return SinglePass(column, total.axes[0], total, of_row)
