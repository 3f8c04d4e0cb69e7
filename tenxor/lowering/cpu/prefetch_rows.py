"""Software prefetch of the next row while a row is processed: for large results, and for much memory reduced row by row.

Short rows that are summed a few at a time are read into the cache beforehand, in the order of memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...layout import Table
from ...target import Target
from ..ir import For, Prefetch, Statement, Update, estimate_cost
from ..kernel_draft import Access, ReductionLoop, list_accesses
from ..loop_nest import Body, LoopNest

REPEAT_FACTOR = 4  # factor on the minimal bytes for a reduction of several operands: this is often repeated, and finds a warm cache
MIN_ELEMENT_BYTES = 4  # minimal bytes of an element for such reads: the lanes of a sum take too few bytes of smaller elements


def prefetch_rows(nest: LoopNest, target: Target) -> LoopNest:
    """Return the nest with prefetches of the next row; unchanged without reductions, and for too little memory (`target.streams`).

    For a result with non-temporal stores, the prefetches stand in the costliest loop over a row after the first reduction, and leave time
    to read. If rows are only reduced, the prefetches stand in the loop of the reduction. Short rows summed a few at a time are read
    beforehand. A prefetch changes no value.
    """
    if not nest.accumulators:
        return nest
    if any(f.row_axis >= 0 for f in nest.accumulators):
        return nest._replace(body=tuple([_read_rows_ahead(nest, s, target) for s in nest.body]))
    if not nest.result_store.is_nontemporal:
        return _prefetch_reduced(nest, target)
    space = nest.space
    reductions = [f for f in nest.reductions if len(space) > 1 and f.outer_loops[-1:] == space[-2:-1]]
    if not reductions:
        return nest
    first_reduction = reductions[0]
    loop_costs = [(sum(map(estimate_cost, nest.result_store.values)), space[-1])]
    loop_costs += [(sum(map(estimate_cost, f.values)), f.axes[-1]) for f in reductions[1:] if f.axes]
    _, axis = max(loop_costs)
    if len(first_reduction.axes) != 1 or nest.count_iterations(first_reduction.axes) != nest.count_iterations((axis,)):
        return nest
    prefetches = tuple(_list_prefetches(nest, first_reduction, space[-2], axis))
    return nest._replace(body=_insert_prefetches(nest.body, axis, prefetches, excluded=first_reduction.accumulator))


def _read_rows_ahead(nest: LoopNest, s: Statement, target: Target) -> Statement:
    """Return the statement `s` of `nest` with prefetches by reading (`Prefetch.by_reading`) in front of loops over columns that take a few
    rows at a time.

    The prefetches read the rows in the order of memory: a few columns of each row would be too few contiguous bytes for the hardware
    prefetcher. A statement without such loops, or with rows that are not worth it by the limits of `target` (`_list_row_reads`), is
    returned unchanged.
    """
    if not isinstance(s, For):
        return s
    columns = s.body[0] if s.block else None
    if isinstance(columns, For) and all([isinstance(inner, For) and inner.axis == s.axis for inner in columns.body]):
        updates = [u for inner in columns.body if isinstance(inner, For) for u in inner.body if isinstance(u, Update)]
        reads = [e for u in updates for e in list_accesses(u.values)]
        repeat_factor = REPEAT_FACTOR if len(reads) > 1 else 1
        prefetches = dict.fromkeys([p for e in reads for p in _list_row_reads(nest, e, columns.axis, s.axis, target, repeat_factor)])
        return s._replace(body=(For(s.axis, (For(columns.axis, tuple(prefetches)),)), *s.body)) if prefetches else s
    return s._replace(body=tuple([_read_rows_ahead(nest, inner, target) for inner in s.body]))


def _list_row_reads(nest: LoopNest, e: Access, column: int, row: int, target: Target, repeat_factor: int) -> Iterator[Prefetch]:
    """Yield the prefetch that reads access `e` of `nest` ahead, unless rows or memory have unsuitable sizes
    (`target.single_pass.has_short_rows`).

    The rows must be contiguous, with real elements of at least `MIN_ELEMENT_BYTES`. The access must read `repeat_factor` times the memory
    that the target requires. `column` and `row` are the axes of the columns and rows.
    """
    operand, address = nest.locations[e.index]
    if operand < 0 or e.args or address.base is not None:
        return
    dtype, steps = nest.operands[operand].dtype, [nest.get_step(address, a) for a in (column, row)]
    if dtype.itemsize >= MIN_ELEMENT_BYTES and dtype.kind != "complex" and steps[0] == 1 and not isinstance(steps[1], Table) and steps[1]:
        row_bytes = nest.axes[column].extent * dtype.itemsize
        if target.single_pass.has_short_rows(
            nest.count_iterations({t.axis for t in address.terms}) * dtype.itemsize // repeat_factor, row_bytes
        ):
            yield Prefetch(operand, address, row, by_reading=True)


def _prefetch_reduced(nest: LoopNest, target: Target) -> LoopNest:
    """Return the nest with prefetches of the next row for a reduction of short rows of much memory; any other nest unchanged.

    Without prefetches, each row would wait for memory: combining the lanes at the end of a row takes as long as fetching some cache lines,
    and the processor does not look so far ahead. `target.streams` has the limits.
    """
    reduction = nest.reductions[0]
    if not nest.space or reduction.outer_loops != nest.space or len(reduction.axes) != 1 or nest.result_loops != nest.space:
        return nest
    (inner,), row = reduction.axes, nest.space[-1]
    itemsize = max(o.dtype.itemsize for o in nest.operands)
    row_bytes, (min_row_bytes, max_row_bytes) = nest.axes[inner].extent * itemsize, target.streams.prefetched_row_bytes
    if row_bytes * nest.count_iterations(nest.space) < target.streams.min_touched_bytes or not min_row_bytes <= row_bytes <= max_row_bytes:
        return nest  # tested first: most rows are short, and share a plan because of this single comparison
    return nest._replace(body=_insert_prefetches(nest.body, inner, tuple(_list_prefetches(nest, reduction, row, inner))))


def _list_prefetches(nest: LoopNest, reduction: ReductionLoop, row: int, axis: int) -> Iterator[Prefetch]:
    """Yield prefetches of the next row of elements that `reduction` reads, at the steps of a loop over `axis`.

    `reduction` is a reduction of `nest` along a single axis, and `row` is the axis across the rows. Only reads with step 1 along the row,
    and a step to the next row, are prefetched.
    """
    (inner,) = reduction.axes
    for e in list_accesses(reduction.values):
        operand, address = nest.locations[e.index]
        steps = [nest.get_step(address, a) for a in (inner, row)]
        if operand >= 0 and not e.args and address.base is None and steps[0] == 1 and not isinstance(steps[1], Table) and steps[1]:
            terms = tuple([t._replace(axis=axis) if t.axis == inner else t for t in address.terms])
            yield Prefetch(operand, address._replace(terms=terms), row)


def _insert_prefetches(body: Body, axis: int, prefetches: Body, excluded: int = -1) -> Body:
    """Return `body` with `prefetches` at the start of each innermost loop over `axis`, unless the loop updates accumulator `excluded`."""

    def change(s: Statement) -> Statement:
        if not isinstance(s, For):
            return s
        if s.axis == axis and not any(
            isinstance(inner, For) or (isinstance(inner, Update) and inner.accumulator == excluded) for inner in s.body
        ):
            return s._replace(body=(*prefetches, *s.body))
        return s._replace(body=_insert_prefetches(s.body, axis, prefetches, excluded))

    return tuple(map(change, body))
