"""The test whether loops can be a single pass over rows: a sum over rows, for each column, of values that use a reduction of each row."""

from __future__ import annotations

from ..ops.expr import walk
from ..records import NamedTuple
from .drafted import ReductionLoop, accesses
from .ir import Result
from .nest import Nest


class OnePass(NamedTuple):
    """A sum over rows with a reduction of each row inside.

    `total` sums along axis `row`, for each index of `column`, the last axis of the space. `of_row` is the reduction inside.
    """

    column: int
    row: int
    total: ReductionLoop
    of_row: ReductionLoop


def one_pass(nest: Nest) -> OnePass | None:
    """Return the parts of a nest that can be a single pass over rows, or None."""
    space = nest.space
    if not space or not nest.is_one_pass or nest.around != space or len(nest.stores) != 1:
        return None
    total, of_row = sorted(nest.reductions, key=lambda f: len(f.around))
    column, in_order = space[-1], nest.in_order
    if len(total.axes) != 1 or len(of_row.axes) != 1:
        return None
    if (
        total.accumulator not in in_order
        or of_row.accumulator in in_order
        or nest.accumulators[total.accumulator].reduction.combine is None
    ):
        return None
    if any(column in nest.where(e).axes() for e in accesses(of_row.values)):
        return None
    if any(isinstance(e, Result) and e.accumulator == of_row.accumulator for value in nest.store.values for e in walk(value)):
        return None
    return OnePass(column, total.axes[0], total, of_row)
