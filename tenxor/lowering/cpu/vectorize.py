"""Vectorization: the choice of the axes with lanes, a single axis in each nest of loops, never one inside another.

Only the reduction and its reads decide, without machine parameters, so each reduction adds in the same order on every machine.
"""

from __future__ import annotations

from ...graph.reduction_limits import MAX_SHORT_ITERATIONS, NEAR_STEPS
from ..access_strides import Loops
from ..ir import Address
from ..loop_nest import LoopNest, get_inner_body, wrap_in_loops
from ..order_loops import move_longest_last

MIN_LANE_EXTENT = 4  # minimal indices of the last axis for lanes with a short reduction, even where another axis is longer


def vectorize(nest: LoopNest) -> LoopNest:
    """Return the nest with some axes vectorized: their mark `vector` is set, and the mark of the other axes is cleared.

    With a single short reduction, or without reductions, a long loop may move to the end so that vectors are full. The rest of the nest
    stays unchanged.
    """
    lanes, reductions, loops = _choose_lanes(nest), nest.reductions, nest.result_loops
    f = reductions[0] if len(reductions) == 1 else None
    if f is not None and f.accumulator in nest.sequential_accumulators and set(f.outer_loops) == set(nest.space):
        interchanged = move_longest_last(f.outer_loops, [axis.extent for axis in nest.axes], MIN_LANE_EXTENT)
        if interchanged != f.outer_loops and (
            nest.count_iterations(f.axes) <= MAX_SHORT_ITERATIONS or f.axes == loops[len(f.outer_loops) :]
        ):
            body, lanes = wrap_in_loops(interchanged, get_inner_body(nest.body, len(interchanged))), {interchanged[-1]}
            nest = nest._replace(body=body)
    elif not reductions and loops == nest.space:
        interchanged = _move_longer_last(nest)
        if interchanged != loops:
            nest, lanes = nest._replace(body=wrap_in_loops(interchanged, get_inner_body(nest.body, len(loops)))), {interchanged[-1]}
    return nest.with_axes([axis._replace(vector=k in lanes) for k, axis in enumerate(nest.axes)])


def _choose_lanes(nest: LoopNest) -> set[int]:
    """Return the axes of `nest` to vectorize, by number; the set may be empty.

    The last independent axis is vectorized, unless a reduction inside, one that does not take its elements in order, needs the lanes. Then
    the reduction's innermost axis is vectorized. If every reduction takes elements in order, the loop just around may be vectorized
    instead, where results are contiguous along this loop. With a running reduction, only the last independent axis may be, if a read has a
    small step along this axis.
    """
    space, reductions = nest.space, nest.reductions
    last_axis = space[-1] if space else None
    if nest.result_loops != space:
        # the rest is read once a row
        moving_reads = [read for read in nest.locations if nest.get_step(read.address, nest.result_loops[-1])] or nest.locations
        return {last_axis} if last_axis is not None and any(has_near_step(read.address, last_axis) for read in moving_reads) else set()
    vector_reductions = [f for f in reductions if f.accumulator not in nest.sequential_accumulators]
    inner_axes = {f.outer_loops[-1] for f in reductions if f.outer_loops}
    if (
        not vector_reductions
        and len(inner_axes) == 1
        and last_axis not in inner_axes
        and has_unit_step(nest.result_store.address, *inner_axes)
    ):
        return inner_axes  # reductions of columns: the work on their results is vectorized along the same axis
    lanes: set[int] = set()
    if last_axis is not None and not any(last_axis in f.outer_loops for f in vector_reductions):
        lanes.add(last_axis)
    for f in vector_reductions:
        is_nested = any(f.axes[-1] in g.outer_loops for g in vector_reductions)
        if not is_nested and not any(g.axes == f.axes and g.accumulator in nest.sequential_accumulators for g in reductions):
            lanes.add(f.axes[-1])
    return lanes


def _move_longer_last(nest: LoopNest) -> Loops:
    """Return the loops of `nest` around independent elements, outermost first, with a longer loop moved to the end if the last has at most
    `MIN_LANE_EXTENT` indices.

    The longer loop must have twice as many indices, and nearly contiguous memory. Then vectors are full where values are broadcast or
    repeat. Otherwise return the loops in their order.
    """
    loops = nest.result_loops
    if len(loops) < 2 or nest.axes[loops[-1]].extent > MIN_LANE_EXTENT or not nest.stores:
        return loops
    addresses = [s.address for s in nest.stores] + [read.address for read in nest.locations]
    axis = max(loops, key=lambda a: (has_near_step(nest.result_store.address, a), nest.axes[a].extent))
    is_near_everywhere = all([a.base is None and (has_near_step(a, axis) or not any([t.axis == axis for t in a.terms])) for a in addresses])
    is_longer = has_near_step(nest.result_store.address, axis) and nest.axes[axis].extent >= 2 * nest.axes[loops[-1]].extent
    return (*[a for a in loops if a != axis], axis) if is_near_everywhere and is_longer else loops


def has_unit_step(a: Address, axis: int) -> bool:
    """Return whether the address `a` of a loop nest has a step of exactly 1 along `axis`: neighbouring iterations reach neighbouring
    elements in increasing order.
    """
    return any(t.axis == axis and t.step_kind == "step" and t.value == 1 for t in a.terms)


def has_near_step(a: Address, axis: int) -> bool:
    """Return whether the address `a` of a loop nest has a step of 1, or one of the small steps `NEAR_STEPS`, along `axis`. A table gives
    False.
    """
    return any(t.axis == axis and t.step_kind == "step" and (t.value == 1 or t.value in NEAR_STEPS) for t in a.terms)
