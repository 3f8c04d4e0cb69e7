"""Unroll-and-jam of reduced rows: several rows at a time, in three cases.

- A running reduction writes an element per step, and each step waits for the previous one.
- Rows are reduced together with shared operands, as in a matrix-vector product. A long row and the shared operands evict each other from
  the nearest cache, so each row would wait for both. With short vectors, each addition also waits for the previous one.
- Rows come from memory, for example the blocks of a large sum. A processor prefetches several streams, each to the end of a page, so memory
  delivers four streams faster than a single one, by a third or more. With long vectors this holds only for rows far apart.

Each row has separate states, and adds its elements in the same order as alone.
"""

from __future__ import annotations

from ...layout import Table
from ...target import Target
from ..drafted import accesses
from ..ir import For, Init, Statement, Store, Update, statements, work
from ..nest import Body, Nest


def abreast(nest: Nest, target: Target) -> Nest:
    """Return the nest with several iterations of the loop over rows interleaved, where this pays.

    The nest must hold a single cheap reduction along one axis and little else; otherwise it is returned unchanged.
    """
    if len(nest.reductions) != 1 or not nest.space:
        return nest
    (f,) = nest.reductions
    if f.around != nest.space or len(f.axes) != 1 or not (_is_running(nest) or _is_memory_bound(nest, target)):
        return nest
    if sum(map(work, f.values)) > target.costs.cheap or not all(isinstance(s, (For, Init, Update, Store)) for s in statements(nest.body)):
        return nest
    return nest._replace(body=_set_abreast(nest.body, nest.space[-1], target.loops.abreast))


def _is_running(nest: Nest) -> bool:
    """Return whether the nest is a scalar running reduction, which writes an element at each step."""
    return len(nest.around) > len(nest.space) and not any(axis.vector for axis in nest.axes)


def _is_memory_bound(nest: Nest, target: Target) -> bool:
    """Return whether rows are so long that the loop waits for memory, or for operands shared by the rows."""
    (f,), row = nest.reductions, nest.space[-1]
    if nest.around != nest.space or f.accumulator in nest.in_order:
        return False
    (inner,) = f.axes
    nbytes = nest.axes[inner].extent * max(o.dtype.itemsize for o in nest.operands)
    if nbytes < min(target.with_the_same, target.streamed):
        return False  # tested first: most rows are short, and share a plan because of this single comparison
    movement = _row_movement(nest, inner, row)
    is_streamed = movement == {True} and nbytes >= target.streamed
    has_shared_operands = movement == {True, False} and nbytes >= target.with_the_same
    return (is_streamed or has_shared_operands) and len(nest.accumulators[f.accumulator].states) == 1


def _row_movement(nest: Nest, inner: int, row: int) -> set[bool]:
    """Return whether contiguous operands along a row move from row to row, as a set of both answers; empty unless lanes run along rows.

    The set is also empty if an operand is read with a larger stride, through a table or at computed indices.
    """
    if not nest.axes[inner].vector or nest.axes[row].vector:
        return set()
    (f,) = nest.reductions
    movement: set[bool] = set()
    for e in accesses(f.values):
        operand, address = nest.reads[e.index]
        inner_step = nest.step(address, inner)
        if operand < 0 or e.args or address.then is not None or isinstance(inner_step, Table) or inner_step not in (0, 1):
            return set()
        if inner_step:
            movement.add(any(t.axis == row for t in address.terms))
    return movement


def _set_abreast(body: Body, axis: int, count: int) -> Body:
    """Return a body with `count` iterations of the loop over `axis` interleaved."""

    def change(s: Statement) -> Statement:
        if not isinstance(s, For):
            return s
        return s._replace(abreast=count) if s.axis == axis else s._replace(body=_set_abreast(s.body, axis, count))

    return tuple(map(change, body))
