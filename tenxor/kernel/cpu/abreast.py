"""Rows that are reduced: several at a time, in three cases.

What is written on the way of a reduction, as running sums are, waits for the element before. What is reduced together with what is the
same for all rows, as a matrix times a vector: that and a long row push each other out of the nearest cache, so each row would wait for the
vector anew; and where vectors are short each addition waits for the one before. And rows that come from memory, as the blocks of a large
sum do: a processor looks ahead in several streams, in each to the end of a page, so memory answers four of them sooner than one, by a third
or more; those with long vectors, only where rows are far apart. Of several rows abreast each still adds its elements in the same order,
with states of its own.
"""

from __future__ import annotations

from ...layout import Table
from ...target import Target
from ..drafted import accesses
from ..ir import For, Init, Statement, Store, Update, statements, work
from ..nest import Body, Nest


def abreast(nest: Nest, target: Target) -> Nest:
    """The nest, with the turns of its loop over rows several abreast where that pays, and it does little else."""
    if len(nest.reductions) != 1 or not nest.space:
        return nest
    (f,) = nest.reductions
    if f.around != nest.space or len(f.axes) != 1 or not (_is_running(nest) or _comes_from_memory(nest, target)):
        return nest
    if sum(map(work, f.values)) > target.costs.cheap or not all(isinstance(s, (For, Init, Update, Store)) for s in statements(nest.body)):
        return nest
    return nest._replace(body=_with(nest.body, nest.space[-1], target.loops.abreast))


def _is_running(nest: Nest) -> bool:
    """Whether each element is written that is reached on the way, one after the other."""
    return len(nest.around) > len(nest.space) and not any(axis.vector for axis in nest.axes)


def _comes_from_memory(nest: Nest, target: Target) -> bool:
    """Whether rows are so long that memory, or what is the same for all, is waited for."""
    (f,), row = nest.reductions, nest.space[-1]
    if nest.around != nest.space or f.accumulator in nest.in_order:
        return False
    (inner,) = f.axes
    nbytes = nest.axes[inner].extent * max(o.dtype.itemsize for o in nest.operands)
    if nbytes < min(target.with_the_same, target.streamed):
        return False  # asked first, as most are short: it is one plan for all of these
    moving = _moving(nest, inner, row)
    is_of_streams = moving == {True} and nbytes >= target.streamed
    is_with_the_same = moving == {True, False} and nbytes >= target.with_the_same
    return (is_of_streams or is_with_the_same) and len(nest.accumulators[f.accumulator].states) == 1


def _moving(nest: Nest, inner: int, row: int) -> set[bool]:
    """Of what is read along rows, which lies side by side, whether each row has its own; nothing unless lanes run along them."""
    if not nest.axes[inner].vector or nest.axes[row].vector:
        return set()
    (f,) = nest.reductions
    moving: set[bool] = set()
    for e in accesses(f.values):
        operand, address = nest.reads[e.index]
        along = nest.step(address, inner)
        if operand < 0 or e.args or address.then is not None or isinstance(along, Table) or along not in (0, 1):
            return set()
        if along:
            moving.add(any(t.axis == row for t in address.terms))
    return moving


def _with(body: Body, axis: int, turns: int) -> Body:
    """A body with so many turns of the loop over an axis abreast."""

    def changed(s: Statement) -> Statement:
        if not isinstance(s, For):
            return s
        return s._replace(abreast=turns) if s.axis == axis else s._replace(body=_with(s.body, axis, turns))

    return tuple(map(changed, body))
