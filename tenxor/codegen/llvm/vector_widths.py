"""Choose, when a kernel is compiled, how many lanes a vector has, and how many vectors a step of a loop takes.

The lanes run along one axis of the kernel. A step is the iterations of the loop over this axis that are computed at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...lowering.ir import (
    Accumulate,
    Accumulator,
    For,
    Kernel,
    Load,
    Position,
    RowLoad,
    State,
    Store,
    TileElement,
    estimate_cost,
    estimate_latency,
    iterate_expressions,
    walk,
)
from ...ops.expr import Expr
from ...target import Costs, Target
from .loop_analysis import Dependencies, find_dependencies

STATE_VECTORS = 2  # vectors of states of a reduction across the lanes: this decides the bits of results
ARGMAX_STATE_VECTORS = 4  # the same for argmax and argmin, with equal results in any order: each step waits long for the step before


def choose_lane_count(kernel: Kernel, target: Target) -> int:
    """Return how many lanes the vectors of `kernel` have: as many as a vector of the target holds of the widest dtype.

    With reductions, the widest dtype of their states decides. Without, it is the widest dtype of the result and of the values that vary
    along an axis with lanes.
    """
    states = [d.itemsize for f in kernel.accumulators for d in f.state_dtypes]
    if states:
        return target.lane_count(max(states))
    lane_axes = {axis for axis, a in enumerate(kernel.axes) if a.vector}
    memo: dict[Expr, Dependencies] = {}
    widest = kernel.operands[0].dtype.part.itemsize
    for e in iterate_expressions(kernel.body):
        for subexpr in walk(e):
            if not lane_axes.isdisjoint(find_dependencies(subexpr, memo)[0]):
                widest = max(widest, subexpr.dtype.compute_dtype.itemsize)
    return target.lane_count(widest)


def count_state_vectors(reductions: Iterable[Accumulator]) -> int:
    """Return how many vectors hold the states of each component, for `reductions` that one loop computes across its lanes.

    This is also the number of vectors in a step of the loop. It is greater if all of `reductions` are argmax or argmin.
    """
    return ARGMAX_STATE_VECTORS if all(f.reduction.uses_position for f in reductions) else STATE_VECTORS


def choose_unroll_factors(loop: For, target: Target, *, short_rows: bool) -> tuple[int, ...]:
    """Return how many vectors a step of the vectorized loop `loop` takes: a tuple with a number for each copy of the loop.

    The emitter writes the copies one after the other; each copy takes the iterations left by the one before. The number is 1, 2 or 4 by the
    cost of an element, compared with the limits of `target.costs`: cheap elements get more vectors. A long chain of operations also gets
    several vectors. There each operation waits for the one before, and the next step is too many instructions ahead to fill the time.

    `loop` has no reduction across the lanes. If `short_rows`, the loop runs along a short row of states, best read in one step. A cheap
    loop with a single read of a state then gets `target.short_row_states` vectors, and 4 for the rest. A loop with a scatter to elements
    that are not contiguous along it gets 1.
    """
    if any(isinstance(s, Accumulate) and not s.is_contiguous_along(loop.axis) for s in loop.body):
        return (1,)  # lanes of a scatter are unrolled already
    roots = list(iterate_expressions((loop,)))
    subexprs, costs = [e for root in roots for e in walk(root)], target.costs
    cost = sum(map(estimate_cost, roots))
    cost += sum(_estimate_lane_cost(e, loop.axis, costs) for e in subexprs if isinstance(e, Load))
    if short_rows and cost <= costs.max_cheap_element and sum(isinstance(e, State) for e in subexprs) == 1:
        return target.short_row_states, 4
    if cost <= costs.max_cheap_element:
        return (4,)
    latency = _estimate_latency(loop)
    if latency > costs.max_moderate_element:
        return (4,) if latency > costs.max_long_chain else (2,)
    return (2,) if cost <= costs.max_moderate_element else (1,)


def _estimate_latency(loop: For) -> int:
    """Return the cost, in additions, of the longest chain of operations in an iteration of `loop` that wait for one another."""
    return max(map(estimate_latency, iterate_expressions((loop,))), default=0)


def is_one_loop_best(loop: For, target: Target) -> bool:
    """Return whether the vectorized loop `loop` is best emitted as a single loop of vectors, the last of which may be partial.

    Other loops are emitted twice, for whole steps and for the rest. The loop must only store, without non-temporal stores. An element must
    cost more than `max_cheap_element`, in chains of at most `max_moderate_element` additions: longer chains are best computed for several
    vectors at a time. All memory must be contiguous or constant along the lanes; row buffers, tiles and gathers are excluded.
    """
    if not all(isinstance(s, Store) and not s.is_nontemporal for s in loop.body):
        return False
    roots = list(iterate_expressions((loop,)))
    subexprs = [e for root in roots for e in walk(root)]
    if (
        any(isinstance(e, (RowLoad, TileElement)) or (isinstance(e, Load) and e.args) for e in subexprs)
        or sum(map(estimate_cost, roots)) <= target.costs.max_cheap_element
        or _estimate_latency(loop) > target.costs.max_moderate_element
    ):
        return False
    addresses = [s.address for s in loop.body if isinstance(s, Store)]
    addresses += [e.address for e in subexprs if isinstance(e, (Load, Position))]
    return all(a.base is None and all(t.step_kind == "unit" for t in a.terms if t.axis == loop.axis) for a in addresses)


def is_tail_best_halved(loop: For, target: Target) -> bool:
    """Return whether the last iterations of the vectorized loop `loop` are best run without a mask, by half the lanes, a quarter, and so
    on.

    This is so if the body has only stores, an iteration costs at most `max_cheap_element` additions, and the target has slow masked stores.
    """
    is_cheap = sum(map(estimate_cost, iterate_expressions((loop,)))) <= target.costs.max_cheap_element
    return is_cheap and not target.has_cheap_masked_store and all(isinstance(s, Store) for s in loop.body)


def _estimate_lane_cost(e: Load, axis: int, costs: Costs) -> int:
    """Return the cost of the load `e` of an element, in additions, beyond that of a contiguous load along `axis`, the axis of the lanes.

    The cost is that of a strided or an indexed load in `costs`, and 0 for other loads.
    """
    if any(t.axis == axis and t.step_kind == "stride" for t in e.address.terms):
        return costs.strided_load
    memo: dict[Expr, Dependencies] = {}
    return costs.indexed_load if any(axis in find_dependencies(index, memo)[0] for index in e.args) else 0
