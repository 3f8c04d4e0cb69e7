"""Software prefetch of the next row while a row is processed: for large results, and for much memory reduced row by row.

Short rows that are summed a few at a time are read into the cache beforehand, in the order of memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...layout import Table
from ...target import Target
from ..drafted import Access, ReductionLoop, accesses
from ..ir import For, Prefetch, Statement, Update, work
from ..nest import Body, Nest

OFTEN = 4  # factor on the minimal bytes for a reduction of several operands: this is often repeated, and finds a warm cache
NARROW = 4  # minimal bytes of an element for such reads: the lanes of a sum take too few bytes of smaller elements


def prefetching(nest: Nest, target: Target) -> Nest:
    """Return the nest with prefetches of the next row, in the costliest loop over a row after the first reduction: it leaves time to read.

    If rows are only reduced, the prefetch stands in the loop of the reduction.
    """
    if not nest.accumulators:
        return nest
    if any(f.row >= 0 for f in nest.accumulators):
        return nest._replace(body=tuple([_read_first(nest, s, target) for s in nest.body]))
    if not nest.store.streamed:
        return _reducing(nest, target)
    space = nest.space
    reductions = [f for f in nest.reductions if len(space) > 1 and f.around[-1:] == space[-2:-1]]
    if not reductions:
        return nest
    first = reductions[0]
    found = [(sum(map(work, nest.store.values)), space[-1])]
    found += [(sum(map(work, f.values)), f.axes[-1]) for f in reductions[1:] if f.axes]
    _, axis = max(found)
    if len(first.axes) != 1 or nest.extent(first.axes) != nest.extent((axis,)):
        return nest
    asked = tuple(_prefetches(nest, first, space[-2], axis))
    return nest._replace(body=_with(nest.body, axis, asked, but=first.accumulator))


def _read_first(nest: Nest, s: Statement, target: Target) -> Statement:
    """Return a statement in which some short rows at a time are read in the order of memory, before loops run over columns.

    A few columns of each row are too few contiguous bytes for the hardware prefetcher.
    """
    if not isinstance(s, For):
        return s
    columns = s.body[0] if s.block else None
    if isinstance(columns, For) and all([isinstance(inner, For) and inner.axis == s.axis for inner in columns.body]):
        updates = [u for inner in columns.body if isinstance(inner, For) for u in inner.body if isinstance(u, Update)]
        found = [e for u in updates for e in accesses(u.values)]
        often = OFTEN if len(found) > 1 else 1
        asked = dict.fromkeys([p for e in found for p in _in_short_rows(nest, e, columns.axis, s.axis, target, often)])
        return s._replace(body=(For(s.axis, (For(columns.axis, tuple(asked)),)), *s.body)) if asked else s
    return s._replace(body=tuple([_read_first(nest, inner, target) for inner in s.body]))


def _in_short_rows(nest: Nest, e: Access, column: int, row: int, target: Target, often: int) -> Iterator[Prefetch]:
    """Yield the read-ahead of an access with short rows and memory that exceeds `often` times the near caches."""
    operand, address = nest.reads[e.index]
    if operand < 0 or e.args or address.then is not None:
        return
    dtype, steps = nest.operands[operand].dtype, [nest.step(address, a) for a in (column, row)]
    if dtype.itemsize >= NARROW and dtype.kind != "complex" and steps[0] == 1 and not isinstance(steps[1], Table) and steps[1]:
        length = nest.axes[column].extent * dtype.itemsize
        if target.passes.of_short_rows(nest.extent({t.axis for t in address.terms}) * dtype.itemsize // often, length):
            yield Prefetch(operand, address, row, by_reading=True)


def _reducing(nest: Nest, target: Target) -> Nest:
    """Return the nest with prefetches of the next row for a reduction of short rows of much memory.

    Combining the lanes at the end of each row takes as long as fetching some cache lines, and the processor does not look so far ahead.
    """
    first = nest.reductions[0]
    if not nest.space or first.around != nest.space or len(first.axes) != 1 or nest.around != nest.space:
        return nest
    (inner,), row = first.axes, nest.space[-1]
    itemsize = max(o.dtype.itemsize for o in nest.operands)
    length, (least, most) = nest.axes[inner].extent * itemsize, target.streams.rows
    if length * nest.extent(nest.space) < target.streams.touched or not least <= length <= most:
        return nest  # tested first: most rows are short, and share a plan because of this single comparison
    return nest._replace(body=_with(nest.body, inner, tuple(_prefetches(nest, first, row, inner))))


def _prefetches(nest: Nest, first: ReductionLoop, row: int, axis: int) -> Iterator[Prefetch]:
    """Yield prefetches of the elements of the next row that reduction `first` reads, at the steps of a loop over `axis`."""
    (inner,) = first.axes
    for e in accesses(first.values):
        operand, address = nest.reads[e.index]
        steps = [nest.step(address, a) for a in (inner, row)]
        if operand >= 0 and not e.args and address.then is None and steps[0] == 1 and not isinstance(steps[1], Table) and steps[1]:
            terms = tuple([t._replace(axis=axis) if t.axis == inner else t for t in address.terms])
            yield Prefetch(operand, address._replace(terms=terms), row)


def _with(body: Body, axis: int, more: Body, but: int = -1) -> Body:
    """Return a body with the statements `more` at the start of each innermost loop over an axis, unless it updates accumulator `but`."""

    def changed(s: Statement) -> Statement:
        if not isinstance(s, For):
            return s
        if s.axis == axis and not any(
            isinstance(inner, For) or (isinstance(inner, Update) and inner.accumulator == but) for inner in s.body
        ):
            return s._replace(body=(*more, *s.body))
        return s._replace(body=_with(s.body, axis, more, but))

    return tuple(map(changed, body))
