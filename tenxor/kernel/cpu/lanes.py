"""Vectorization: the choice of the axes with lanes, a single axis in each nest of loops, never one inside another.

Only the reduction and its reads decide, without machine parameters, so each reduction adds in the same order on every machine.
"""

from __future__ import annotations

from ..arrange import BRIEF, NEAR, longest_last
from ..drafted import Loops
from ..ir import Address
from ..nest import Nest, inside, looped

SHORT = 4  # minimal indices of the last axis for lanes with a short reduction, even where another axis is longer


def with_lanes(nest: Nest) -> Nest:
    """Return the nest with some axes vectorized.

    With a single short reduction, or without reductions, a long loop may move to the end so that vectors are full.
    """
    lanes, reductions, around = _lanes(nest), nest.reductions, nest.around
    f = reductions[0] if len(reductions) == 1 else None
    if f is not None and f.accumulator in nest.in_order and set(f.around) == set(nest.space):
        interchanged = longest_last(f.around, [axis.extent for axis in nest.axes], SHORT)
        if interchanged != f.around and (nest.extent(f.axes) <= BRIEF or f.axes == around[len(f.around) :]):
            body, lanes = looped(interchanged, inside(nest.body, len(interchanged))), {interchanged[-1]}
            nest = nest._replace(body=body)
    elif not reductions and around == nest.space:
        interchanged = _longer_last(nest)
        if interchanged != around:
            nest, lanes = nest._replace(body=looped(interchanged, inside(nest.body, len(around)))), {interchanged[-1]}
    return nest.with_axes([axis._replace(vector=k in lanes) for k, axis in enumerate(nest.axes)])


def _lanes(nest: Nest) -> set[int]:
    """Return the axes to vectorize.

    The last independent axis is vectorized, unless reductions inside need the lanes.
    """
    space, reductions = nest.space, nest.reductions
    last = space[-1] if space else None
    if nest.around != space:
        along = [read for read in nest.reads if nest.step(read.address, nest.around[-1])] or nest.reads  # the rest is read once a row
        return {last} if last is not None and any(is_near(read.address, last) for read in along) else set()
    across = [f for f in reductions if f.accumulator not in nest.in_order]
    before = {f.around[-1] for f in reductions if f.around}
    if not across and len(before) == 1 and last not in before and is_unit(nest.store.address, *before):
        return before  # reductions of columns: the work on their results is vectorized along the same axis
    lanes: set[int] = set()
    if last is not None and not any(last in f.around for f in across):
        lanes.add(last)
    for f in across:
        nested = any(f.axes[-1] in g.around for g in across)
        if not nested and not any(g.axes == f.axes and g.accumulator in nest.in_order for g in reductions):
            lanes.add(f.axes[-1])
    return lanes


def _longer_last(nest: Nest) -> Loops:
    """Return the loops around independent elements, outermost first, with a longer loop moved to the end if the last has few indices.

    Memory must be nearly contiguous along the longer loop. Then vectors are full where values are broadcast or repeat.
    """
    around = nest.around
    if len(around) < 2 or nest.axes[around[-1]].extent > SHORT or not nest.stores:
        return around
    addresses = [s.address for s in nest.stores] + [read.address for read in nest.reads]
    axis = max(around, key=lambda a: (is_near(nest.store.address, a), nest.axes[a].extent))
    near = all([a.then is None and (is_near(a, axis) or not any([t.axis == axis for t in a.terms])) for a in addresses])
    longer = is_near(nest.store.address, axis) and nest.axes[axis].extent >= 2 * nest.axes[around[-1]].extent
    return (*[a for a in around if a != axis], axis) if near and longer else around


def is_unit(a: Address, axis: int) -> bool:
    """Return whether neighbours along the axis are neighbours in memory."""
    return any(t.axis == axis and t.how == "step" and t.value == 1 for t in a.terms)


def is_near(a: Address, axis: int) -> bool:
    """Return whether the step of an address along the axis is 1 or one of the small steps `NEAR`."""
    return any(t.axis == axis and t.how == "step" and (t.value == 1 or t.value in NEAR) for t in a.terms)
