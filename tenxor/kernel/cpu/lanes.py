"""Vectorization: the choice of the axes with lanes, a single axis in each nest of loops, never one inside another.

Only the reduction and its reads decide, without machine parameters, so each reduction adds in the same order on every machine.
"""

from __future__ import annotations

from ..arrange import BRIEF, NEAR, longest_last
from ..drafted import Loops
from ..ir import Address
from ..nest import Nest, inside, looped

MIN_LANE_EXTENT = 4  # minimal indices of the last axis for lanes with a short reduction, even where another axis is longer


def with_lanes(nest: Nest) -> Nest:
    """Return the nest with some axes vectorized.

    With a single short reduction, or without reductions, a long loop may move to the end so that vectors are full.
    """
    lanes, reductions, loops = _choose_lanes(nest), nest.reductions, nest.around
    f = reductions[0] if len(reductions) == 1 else None
    if f is not None and f.accumulator in nest.in_order and set(f.around) == set(nest.space):
        interchanged = longest_last(f.around, [axis.extent for axis in nest.axes], MIN_LANE_EXTENT)
        if interchanged != f.around and (nest.extent(f.axes) <= BRIEF or f.axes == loops[len(f.around) :]):
            body, lanes = looped(interchanged, inside(nest.body, len(interchanged))), {interchanged[-1]}
            nest = nest._replace(body=body)
    elif not reductions and loops == nest.space:
        interchanged = _move_longer_last(nest)
        if interchanged != loops:
            nest, lanes = nest._replace(body=looped(interchanged, inside(nest.body, len(loops)))), {interchanged[-1]}
    return nest.with_axes([axis._replace(vector=k in lanes) for k, axis in enumerate(nest.axes)])


def _choose_lanes(nest: Nest) -> set[int]:
    """Return the axes to vectorize.

    The last independent axis is vectorized, unless reductions inside need the lanes.
    """
    space, reductions = nest.space, nest.reductions
    last_axis = space[-1] if space else None
    if nest.around != space:
        # the rest is read once a row
        moving_reads = [read for read in nest.reads if nest.step(read.address, nest.around[-1])] or nest.reads
        return {last_axis} if last_axis is not None and any(is_near(read.address, last_axis) for read in moving_reads) else set()
    vector_reductions = [f for f in reductions if f.accumulator not in nest.in_order]
    inner_axes = {f.around[-1] for f in reductions if f.around}
    if not vector_reductions and len(inner_axes) == 1 and last_axis not in inner_axes and is_unit(nest.store.address, *inner_axes):
        return inner_axes  # reductions of columns: the work on their results is vectorized along the same axis
    lanes: set[int] = set()
    if last_axis is not None and not any(last_axis in f.around for f in vector_reductions):
        lanes.add(last_axis)
    for f in vector_reductions:
        is_nested = any(f.axes[-1] in g.around for g in vector_reductions)
        if not is_nested and not any(g.axes == f.axes and g.accumulator in nest.in_order for g in reductions):
            lanes.add(f.axes[-1])
    return lanes


def _move_longer_last(nest: Nest) -> Loops:
    """Return the loops around independent elements, outermost first, with a longer loop moved to the end if the last has few indices.

    Memory must be nearly contiguous along the longer loop. Then vectors are full where values are broadcast or repeat.
    """
    loops = nest.around
    if len(loops) < 2 or nest.axes[loops[-1]].extent > MIN_LANE_EXTENT or not nest.stores:
        return loops
    addresses = [s.address for s in nest.stores] + [read.address for read in nest.reads]
    axis = max(loops, key=lambda a: (is_near(nest.store.address, a), nest.axes[a].extent))
    is_near_everywhere = all([a.then is None and (is_near(a, axis) or not any([t.axis == axis for t in a.terms])) for a in addresses])
    is_longer = is_near(nest.store.address, axis) and nest.axes[axis].extent >= 2 * nest.axes[loops[-1]].extent
    return (*[a for a in loops if a != axis], axis) if is_near_everywhere and is_longer else loops


def is_unit(a: Address, axis: int) -> bool:
    """Return whether neighbours along the axis are neighbours in memory."""
    return any(t.axis == axis and t.how == "step" and t.value == 1 for t in a.terms)


def is_near(a: Address, axis: int) -> bool:
    """Return whether the step of an address along the axis is 1 or one of the small steps `NEAR`."""
    return any(t.axis == axis and t.how == "step" and (t.value == 1 or t.value in NEAR) for t in a.terms)
