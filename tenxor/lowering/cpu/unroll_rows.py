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
from ..ir import For, Init, Statement, Store, Update, estimate_cost, iterate_statements
from ..kernel_draft import list_accesses
from ..loop_nest import Body, LoopNest


def unroll_and_jam(nest: LoopNest, target: Target) -> LoopNest:
    """Return the nest with `target.loops.jammed_rows` iterations of the loop over rows interleaved, where rows wait for memory or for each
    other.

    The nest must hold a single reduction along a single axis, inside the independent loops, with a cost of at most `max_cheap_element` per
    element. Besides, only loops and stores are allowed. Otherwise the nest is returned unchanged.
    """
    if len(nest.reductions) != 1 or not nest.space:
        return nest
    (f,) = nest.reductions
    if f.outer_loops != nest.space or len(f.axes) != 1 or not (_is_running(nest) or _is_memory_bound(nest, target)):
        return nest
    if sum(map(estimate_cost, f.values)) > target.costs.max_cheap_element or not all(
        isinstance(s, (For, Init, Update, Store)) for s in iterate_statements(nest.body)
    ):
        return nest
    return nest._replace(body=_set_jam_factor(nest.body, nest.space[-1], target.loops.jammed_rows))


def _is_running(nest: LoopNest) -> bool:
    """Return whether the nest is a scalar running reduction, which writes an element at each step."""
    return len(nest.result_loops) > len(nest.space) and not any(axis.vector for axis in nest.axes)


def _is_memory_bound(nest: LoopNest, target: Target) -> bool:
    """Return whether the loop over a row of `nest` waits for memory: no row shares operands with the next, and each has
    `min_streamed_row_bytes`.

    Return True also where rows share some operands, but not all, and have `min_shared_vector_row` bytes: interleaved rows read these once.
    Return False for running and sequential reductions, and for states of several components. Limits are attributes of `target`.
    """
    (f,), row = nest.reductions, nest.space[-1]
    if nest.result_loops != nest.space or f.accumulator in nest.sequential_accumulators:
        return False
    (inner,) = f.axes
    nbytes = nest.axes[inner].extent * max(o.dtype.itemsize for o in nest.operands)
    if nbytes < min(target.min_shared_vector_row, target.min_streamed_row_bytes):
        return False  # tested first: most rows are short, and share a plan because of this single comparison
    movement = _row_movement(nest, inner, row)
    is_streamed = movement == {True} and nbytes >= target.min_streamed_row_bytes
    has_shared_operands = movement == {True, False} and nbytes >= target.min_shared_vector_row
    return (is_streamed or has_shared_operands) and len(nest.accumulators[f.accumulator].state_dtypes) == 1


def _row_movement(nest: LoopNest, inner: int, row: int) -> set[bool]:
    """Return how the operands of the only reduction of `nest` move: a set with True for a move from row to row, and with False for shared
    operands.

    Operands that are constant along a row do not count. `inner` is the axis along a row, and `row` the axis from row to row. The set is
    empty unless lanes run along the rows, and each operand is contiguous or constant along a row.
    """
    if not nest.axes[inner].vector or nest.axes[row].vector:
        return set()
    (f,) = nest.reductions
    movement: set[bool] = set()
    for e in list_accesses(f.values):
        operand, address = nest.locations[e.index]
        inner_step = nest.get_step(address, inner)
        if operand < 0 or e.args or address.base is not None or isinstance(inner_step, Table) or inner_step not in (0, 1):
            return set()
        if inner_step:
            movement.add(any(t.axis == row for t in address.terms))
    return movement


def _set_jam_factor(body: Body, axis: int, count: int) -> Body:
    """Return `body` with `jam_factor` set to `count` in each outermost loop over `axis`: so many iterations are interleaved."""

    def change(s: Statement) -> Statement:
        if not isinstance(s, For):
            return s
        return s._replace(jam_factor=count) if s.axis == axis else s._replace(body=_set_jam_factor(s.body, axis, count))

    return tuple(map(change, body))
