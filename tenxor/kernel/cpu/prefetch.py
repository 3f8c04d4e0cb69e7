"""While a row is worked on, the next one is brought into the cache: of a large result, and of much that is reduced row by row. And short
rows of much that are added up, some at a time, are brought there before that.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...layout import Table
from ...target import Target
from ..drafted import Access, ReductionLoop, accesses
from ..ir import For, Prefetch, Statement, Update, work
from ..nest import Body, Nest

OFTEN = 4  # times as much as what is only reduced must be what is taken together with something: that is done often, and finds a warm cache
NARROW = 4  # bytes, below which elements are not read so: the lanes of a sum take too few


def prefetching(nest: Nest, target: Target) -> Nest:
    """The nest, with the next row asked for in the loop over a row that has most work, after that of the row's first reduction: there is
    time to read it. Where rows are only reduced, it is asked for in that very loop.
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
    """A statement in which some rows at a time, if they are short, are read as they lie in memory before columns are gone through: a few
    columns of each are too little in a row for a processor to foresee what is read next.
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
    """What is read, if that lies in short rows and is so many times as much as no near cache holds."""
    operand, address = nest.reads[e.index]
    if operand < 0 or e.args or address.then is not None:
        return
    dtype, steps = nest.operands[operand].dtype, [nest.step(address, a) for a in (column, row)]
    if dtype.itemsize >= NARROW and dtype.kind != "complex" and steps[0] == 1 and not isinstance(steps[1], Table) and steps[1]:
        length = nest.axes[column].extent * dtype.itemsize
        if target.passes.of_short_rows(nest.extent({t.axis for t in address.terms}) * dtype.itemsize // often, length):
            yield Prefetch(operand, address, row, by_reading=True)


def _reducing(nest: Nest, target: Target) -> Nest:
    """The same for a reduction over short rows of much memory. To join the lanes at the end of each takes as long as some lines of the next
    take to come, and the processor does not look so far ahead.
    """
    first = nest.reductions[0]
    if not nest.space or first.around != nest.space or len(first.axes) != 1 or nest.around != nest.space:
        return nest
    (inner,), row = first.axes, nest.space[-1]
    itemsize = max(o.dtype.itemsize for o in nest.operands)
    length, (least, most) = nest.axes[inner].extent * itemsize, target.streams.rows
    if length * nest.extent(nest.space) < target.streams.touched or not least <= length <= most:
        return nest  # asked first, as most are small: it is one plan for all of these
    return nest._replace(body=_with(nest.body, inner, tuple(_prefetches(nest, first, row, inner))))


def _prefetches(nest: Nest, first: ReductionLoop, row: int, axis: int) -> Iterator[Prefetch]:
    """What a reduction reads of its row, in the steps of a loop over another axis, or its own."""
    (inner,) = first.axes
    for e in accesses(first.values):
        operand, address = nest.reads[e.index]
        steps = [nest.step(address, a) for a in (inner, row)]
        if operand >= 0 and not e.args and address.then is None and steps[0] == 1 and not isinstance(steps[1], Table) and steps[1]:
            terms = tuple([t._replace(axis=axis) if t.axis == inner else t for t in address.terms])
            yield Prefetch(operand, address._replace(terms=terms), row)


def _with(body: Body, axis: int, more: Body, but: int = -1) -> Body:
    """A body with more done first in the innermost loops over an axis, but where one reduction takes its steps."""

    def changed(s: Statement) -> Statement:
        if not isinstance(s, For):
            return s
        if s.axis == axis and not any(
            isinstance(inner, For) or (isinstance(inner, Update) and inner.accumulator == but) for inner in s.body
        ):
            return s._replace(body=(*more, *s.body))
        return s._replace(body=_with(s.body, axis, more, but))

    return tuple(map(changed, body))
