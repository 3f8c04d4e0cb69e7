"""States of reductions: starting and updating them, and joining those of lanes and chunks, always by the same tree.

The order in which a reduction takes its elements is that of its loops, but for floats that are added up: these are taken in
chunks whose results join the rest one by one, so rounding errors grow with the length of a chunk and the number of
chunks, and not with that of all steps.
"""

from __future__ import annotations

from ...kernel.ir import Accumulator, For, Init, Update, statements, walk
from ...ops.expr import Arg, Call, Expr
from .analysis import carried, stores
from .builder import select
from .emitter import Emitter
from .scopes import Parts

# These decide bits, and so are the same on all machines.
CHUNK = 64  # steps whose floats are added up on their own
ROWS = 8  # and where they are taken one by one, as in sums of columns


def init(em: Emitter, s: Init) -> None:
    """Start a reduction from its identity."""
    start(em, s.accumulator)


def start(em: Emitter, accumulator: int) -> None:
    """Start a reduction from its identity."""
    f = em.kernel.accumulators[accumulator]
    states = [em.in_lanes(e) for e in f.reduction.identity(f.states)]
    em.states[accumulator] = states
    em.results[accumulator] = (len(em.scopes) - 1, states)


def update(em: Emitter, s: Update) -> None:
    """Replace the state of a reduction, in the lanes at work."""
    old = em.states[s.accumulator]
    new = [em.in_lanes(e) for e in s.values]
    if em.lanes is not None and em.lanes.mask is not None:
        em.inmost()
        mask = em.lanes.mask
        new = [[select(mask, n, o) for n, o in zip(ns, os, strict=True)] for ns, os in zip(new, old, strict=True)]
    em.states[s.accumulator] = new
    em.results[s.accumulator] = (len(em.scopes) - 1, new)


def combined(em: Emitter, accumulator: int, left: list[Parts], right: list[Parts]) -> list[Parts]:
    """Two states as one."""
    f = em.kernel.accumulators[accumulator]
    n = len(f.states)
    arguments = tuple(Arg(k, f.states[k % n]) for k in range(2 * n))
    assert f.reduction.combine is not None
    formulas = f.reduction.combine(arguments[:n], arguments[n:])
    known: dict[Expr, Parts] = dict(zip(arguments, [*left, *right], strict=True))
    return [em.inline(e, known) for e in formulas]


def together(em: Emitter, accumulator: int, states: list[Parts]) -> list[Parts]:
    """The unrolled vectors of a state as one."""
    em.inmost()
    while len(states[0]) > 1:
        states = combined(em, accumulator, [p[0::2] for p in states], [p[1::2] for p in states])
    return states


def across(em: Emitter, accumulator: int, states: list[Parts]) -> list[Parts]:
    """The lanes of a state as one scalar: halves upon halves."""
    em.inmost()
    width = states[0][0].lanes
    while width > 1:
        width //= 2
        low = [[v.shuffled(range(width)) for v in parts] for parts in states]
        high = [[v.shuffled(range(width, 2 * width)) for v in parts] for parts in states]
        states = combined(em, accumulator, low, high)
    return [[v.lane(0) for v in parts] for parts in states]


def chunk(em: Emitter, loop: For, accumulators: list[int]) -> int:
    """How many steps of a loop make a chunk of these reductions that it carries; 0 where elements are simply taken in order."""
    kinds = [em.kernel.accumulators[f] for f in accumulators]
    if any(f.reduction.combine is None for f in kinds) or not any(map(rounds, kinds)) or stores(loop.body):
        return 0
    if has_lanes(em, loop):
        return CHUNK
    return 0 if any(isinstance(s, For) for s in loop.body) else ROWS


def has_lanes(em: Emitter, loop: For) -> bool:
    """Whether lanes run along a loop or one inside it."""
    return any(isinstance(s, For) and em.kernel.axes[s.axis].vector for s in statements((loop,)))


def lanes_inside(em: Emitter, loop: For) -> int | None:
    """The axis of a loop inside this one along which lanes run that reduce what both carry, if there is one."""
    accumulators = set(carried(loop, em.kernel.accumulators))
    for s in loop.body:
        if isinstance(s, For) and accumulators & set(carried(s, em.kernel.accumulators)):
            return s.axis if em.kernel.axes[s.axis].vector and not s.block else lanes_inside(em, s)
    return None


def rounds(f: Accumulator) -> bool:
    """Whether joining states rounds floats."""
    states = tuple(Arg(k, d) for k, d in enumerate(f.states))
    joined = f.reduction.combine(states, states) if f.reduction.combine else ()
    calls = [e for root in joined for e in walk(root) if isinstance(e, Call)]
    return any(e.dtype.is_float and e.op.name in ("add", "multiply") for e in calls)
