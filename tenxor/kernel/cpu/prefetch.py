"""While a row of a large result is worked on, the next one is brought into the cache."""

from __future__ import annotations

from collections.abc import Iterator

from ..drafted import ReductionLoop, accesses
from ..ir import For, Prefetch, Statement, Update, work
from ..nest import Body, Nest


def prefetching(nest: Nest) -> Nest:
    """The nest, with the next row asked for in the loop over a row that has most work, after that of the row's first reduction: there is
    time to read it.
    """
    if not nest.accumulators or not nest.store.streamed or any(f.row >= 0 for f in nest.accumulators):
        return nest
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
    return nest._replace(body=_with(nest.body, axis, first.accumulator, tuple(_prefetches(nest, first, axis))))


def _prefetches(nest: Nest, first: ReductionLoop, axis: int) -> Iterator[Prefetch]:
    """What a reduction reads of its row, in the steps of another loop."""
    (inner,), row = first.axes, nest.space[-2]
    for e in accesses(first.values):
        operand, address = nest.reads[e.index]
        steps = [nest.step(address, a) for a in (inner, row)]
        if operand >= 0 and not e.args and steps[0] == 1 and isinstance(steps[1], int) and steps[1]:
            terms = tuple([t._replace(axis=axis) if t.axis == inner else t for t in address.terms])
            yield Prefetch(operand, address._replace(terms=terms), row)


def _with(body: Body, axis: int, but: int, more: Body) -> Body:
    """A body with more done first in the innermost loops over an axis, but where one reduction takes its steps."""

    def changed(s: Statement) -> Statement:
        if not isinstance(s, For):
            return s
        if s.axis == axis and not any(
            isinstance(inner, For) or (isinstance(inner, Update) and inner.accumulator == but) for inner in s.body
        ):
            return s._replace(body=(*more, *s.body))
        return s._replace(body=_with(s.body, axis, but, more))

    return tuple(map(changed, body))
