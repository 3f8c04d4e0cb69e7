"""Choose how much a step computes at once: how many lanes a vector has, and how many vectors a step of a loop takes."""

from __future__ import annotations

from collections.abc import Iterable

from ...kernel.ir import (
    Accumulate,
    Accumulator,
    For,
    Kept,
    Kernel,
    Load,
    Position,
    State,
    Store,
    TileElement,
    expressions,
    walk,
    work,
)
from ...ops.expr import Expr
from ...target import Costs, Target
from .analysis import Needs, dependencies

STATE_VECTORS = 2  # vectors of states of a reduction across the lanes: this decides the bits of results
ARGMAX_STATE_VECTORS = 4  # the same for argmax and argmin, with equal results in any order: each step waits long for the step before


def lane_count(kernel: Kernel, target: Target) -> int:
    """Return how many lanes a vector holds: of the widest state of a reduction, or without reductions, of the widest type in lanes."""
    states = [d.itemsize for f in kernel.accumulators for d in f.states]
    if states:
        return target.lanes(max(states))
    lane_axes = {axis for axis, a in enumerate(kernel.axes) if a.vector}
    memo: dict[Expr, Needs] = {}
    widest = kernel.operands[0].dtype.part.itemsize
    for e in expressions(kernel.body):
        for subexpr in walk(e):
            if not lane_axes.isdisjoint(dependencies(subexpr, memo)[0]):
                widest = max(widest, subexpr.dtype.compute.itemsize)
    return target.lanes(widest)


def vectors_across(reductions: Iterable[Accumulator]) -> int:
    """Return the number of vectors of states for the reductions across the lanes of a loop."""
    return ARGMAX_STATE_VECTORS if all(f.reduction.places for f in reductions) else STATE_VECTORS


def unrollings(loop: For, target: Target, *, short_rows: bool) -> tuple[int, ...]:
    """Return how many vectors a step takes, and then the steps through the rest, for a loop without reduction across the lanes.

    Cheaper vectors allow more of them in a step. Short rows of states are best read whole.
    """
    if any(isinstance(s, Accumulate) and not s.is_beside(loop.axis) for s in loop.body):
        return (1,)  # lanes of a scatter are unrolled already
    roots = list(expressions((loop,)))
    subexprs, costs = [e for root in roots for e in walk(root)], target.costs
    cost = sum(map(work, roots))
    cost += sum(_cost_of_lanes(e, loop.axis, costs) for e in subexprs if isinstance(e, Load))
    if short_rows and cost <= costs.cheap and sum(isinstance(e, State) for e in subexprs) == 1:
        return target.states_abreast, 4
    return (4,) if cost <= costs.cheap else (2,) if cost <= costs.moderate else (1,)


def is_written_once(loop: For, target: Target) -> bool:
    """Return whether a loop with lanes is best emitted as a single loop of vectors, the last of which may be partial.

    This is so for loops that compute much, with memory contiguous along the lanes or not accessed, and without non-temporal stores.
    """
    if not all(isinstance(s, Store) and not s.streamed for s in loop.body):
        return False
    roots = list(expressions((loop,)))
    subexprs = [e for root in roots for e in walk(root)]
    if (
        any(isinstance(e, (Kept, TileElement)) or (isinstance(e, Load) and e.args) for e in subexprs)
        or sum(map(work, roots)) <= target.costs.cheap
    ):
        return False
    addresses = [s.address for s in loop.body if isinstance(s, Store)]
    addresses += [e.address for e in subexprs if isinstance(e, (Load, Position))]
    return all(a.then is None and all(t.how == "unit" for t in a.terms if t.axis == loop.axis) for a in addresses)


def ends_in_halves(loop: For, target: Target) -> bool:
    """Return whether the last iterations of a loop with lanes are best run without a mask, by ever fewer lanes.

    This is so for loops that compute little, on a target with slow masked stores.
    """
    is_cheap = sum(map(work, expressions((loop,)))) <= target.costs.cheap
    return is_cheap and not target.stores_under_masks and all(isinstance(s, Store) for s in loop.body)


def _cost_of_lanes(e: Load, axis: int, costs: Costs) -> int:
    """Return the cost of a load from memory that is not contiguous along `axis`, by a stride or by an index; 0 for other loads."""
    if any(t.axis == axis and t.how == "stride" for t in e.address.terms):
        return costs.apart
    memo: dict[Expr, Needs] = {}
    return costs.indexed if any(axis in dependencies(index, memo)[0] for index in e.args) else 0
