"""Emit states of reductions: start, updates, and the combination of lanes and chunks, always by the same tree.

A reduction takes the elements in the order of the loops. Sums of floats are an exception: elements are taken in chunks, and the results of
the chunks are added one by one. So rounding errors grow with the length of a chunk and the number of chunks, and not with the number of all
steps.
"""

from __future__ import annotations

from ...kernel.ir import Accumulator, For, Init, Update, statements, walk
from ...ops.expr import Arg, Call, Expr
from .analysis import carried, stores
from .builder import select
from .emitter import Emitter
from .scopes import Parts

# The lengths of chunks decide the bits of results, so all machines use the same ones.
LANE_CHUNK_STEPS = 64  # steps of a chunk in a loop with lanes
SCALAR_CHUNK_STEPS = 8  # steps of a chunk in a loop without lanes, as in sums of columns


def init(em: Emitter, s: Init) -> None:
    """Emit the initial state of a reduction, from its identity."""
    start(em, s.accumulator)


def start(em: Emitter, accumulator: int) -> None:
    """Emit the initial state of a reduction, from its identity."""
    f = em.kernel.accumulators[accumulator]
    states = [em.in_lanes(e) for e in f.reduction.identity(f.states)]
    em.states[accumulator] = states
    em.results[accumulator] = (len(em.scopes) - 1, states)


def update(em: Emitter, s: Update) -> None:
    """Emit a new state of a reduction, in active lanes only."""
    old = em.states[s.accumulator]
    new = [em.in_lanes(e) for e in s.values]
    if em.lanes is not None and em.lanes.mask is not None:
        em.inmost()
        mask = em.lanes.mask
        new = [[select(mask, n, o) for n, o in zip(ns, os, strict=True)] for ns, os in zip(new, old, strict=True)]
    em.states[s.accumulator] = new
    em.results[s.accumulator] = (len(em.scopes) - 1, new)


def combined(em: Emitter, accumulator: int, left: list[Parts], right: list[Parts]) -> list[Parts]:
    """Emit the combination of two states of a reduction."""
    f = em.kernel.accumulators[accumulator]
    n = len(f.states)
    arguments = tuple(Arg(k, f.states[k % n]) for k in range(2 * n))
    assert f.reduction.combine is not None
    formulas = f.reduction.combine(arguments[:n], arguments[n:])
    values: dict[Expr, Parts] = dict(zip(arguments, [*left, *right], strict=True))
    return [em.inline(e, values) for e in formulas]


def together(em: Emitter, accumulator: int, states: list[Parts]) -> list[Parts]:
    """Emit the combination of the vectors of a state into one vector."""
    em.inmost()
    while len(states[0]) > 1:
        states = combined(em, accumulator, [p[0::2] for p in states], [p[1::2] for p in states])
    return states


def across(em: Emitter, accumulator: int, states: list[Parts]) -> list[Parts]:
    """Emit the combination of the lanes of a state into one scalar, by halves."""
    em.inmost()
    width = states[0][0].lanes
    while width > 1:
        width //= 2
        low = [[v.shuffled(range(width)) for v in vectors] for vectors in states]
        high = [[v.shuffled(range(width, 2 * width)) for v in vectors] for vectors in states]
        states = combined(em, accumulator, low, high)
    return [[v.lane(0) for v in vectors] for vectors in states]


def chunk(em: Emitter, loop: For, accumulators: list[int]) -> int:
    """Return the number of steps in a chunk, for the reductions carried by a loop; 0 if elements are taken in order, without chunks."""
    kinds = [em.kernel.accumulators[f] for f in accumulators]
    if any(f.reduction.combine is None for f in kinds) or not any(map(has_rounding, kinds)) or stores(loop.body):
        return 0
    if has_lanes(em, loop):
        return LANE_CHUNK_STEPS
    return 0 if any(isinstance(s, For) for s in loop.body) else SCALAR_CHUNK_STEPS


def has_lanes(em: Emitter, loop: For) -> bool:
    """Return whether lanes run along a loop or an inner loop."""
    return any(isinstance(s, For) and em.kernel.axes[s.axis].vector for s in statements((loop,)))


def lanes_inside(em: Emitter, loop: For) -> int | None:
    """Return the axis of an inner loop with lanes that reduces the states carried by this loop, too; None if no inner loop does."""
    accumulators = set(carried(loop, em.kernel.accumulators))
    for s in loop.body:
        if isinstance(s, For) and accumulators & set(carried(s, em.kernel.accumulators)):
            return s.axis if em.kernel.axes[s.axis].vector and not s.block else lanes_inside(em, s)
    return None


def has_rounding(f: Accumulator) -> bool:
    """Return whether the combination of states rounds floats."""
    states = tuple(Arg(k, d) for k, d in enumerate(f.states))
    combination = f.reduction.combine(states, states) if f.reduction.combine else ()
    calls = [e for root in combination for e in walk(root) if isinstance(e, Call)]
    return any(e.dtype.is_float and e.op.name in ("add", "multiply") for e in calls)
