"""Emit states of reductions: start, updates, and the combination of lanes and chunks, always by the same tree. The functions run while a
kernel is compiled: they append LLVM IR to the kernel `em`. A state is the running value of a reduction, like the sum so far.

A reduction takes the elements in the order of the loops. Sums of floats are an exception: elements are taken in chunks, and the results of
the chunks are added one by one. So rounding errors grow with the length of a chunk and the number of chunks, and not with the number of all
steps.

An accumulator is the number of a reduction in `em.kernel.accumulators`. The state has a component or several, as argmax has a value
and a position. A list of `ValueVectors` holds the value of each component: a scalar or vectors.
"""

from __future__ import annotations

from ...lowering.ir import Accumulator, For, Init, Update, walk
from ...ops.expr import Arg, Call, Expr
from .builder import select
from .emitter import Emitter
from .loop_analysis import find_carried_reductions, has_store
from .scopes import ValueVectors

# The lengths of chunks decide the bits of results, so all machines use the same ones.
LANE_CHUNK_STEPS = 64  # steps of a chunk in a loop with lanes
SCALAR_CHUNK_STEPS = 8  # steps of a chunk in a loop without lanes, as in sums of columns


def emit_init(em: Emitter, s: Init) -> None:
    """Emit the statement `s`, the start of a reduction: the running state becomes the identity, like 0 for a sum (`start_state`)."""
    start_state(em, s.accumulator)


def start_state(em: Emitter, accumulator: int) -> None:
    """Emit the identity of the reduction number `accumulator`, such as 0 for a sum, and make it the running state.

    The state goes into `em.states` and `em.results`; nothing is returned. The state is in vectors if `em.lanes` is not None.
    """
    f = em.kernel.accumulators[accumulator]
    states = [em.vector_value(e) for e in f.reduction.identity(f.state_dtypes)]
    em.states[accumulator] = states
    em.results[accumulator] = (len(em.scopes) - 1, states)


def emit_update(em: Emitter, s: Update) -> None:
    """Emit the statement `s`, a step of a reduction: compute the new state, and put it into `em.states` and `em.results`.

    Idle lanes (`em.lanes.mask`) keep the old state.
    """
    old = em.states[s.accumulator]
    new = [em.vector_value(e) for e in s.values]
    if em.lanes is not None and em.lanes.mask is not None:
        em.continue_innermost()
        mask = em.lanes.mask
        new = [[select(mask, n, o) for n, o in zip(ns, os, strict=True)] for ns, os in zip(new, old, strict=True)]
    em.states[s.accumulator] = new
    em.results[s.accumulator] = (len(em.scopes) - 1, new)


def combine_states(em: Emitter, accumulator: int, left: list[ValueVectors], right: list[ValueVectors]) -> list[ValueVectors]:
    """Emit the combination of two states of the reduction number `accumulator`, `left` before `right`, and return the new state.

    Each state is a list with the vectors, or the scalar, of each component. The reduction must have a formula `combine`.
    """
    f = em.kernel.accumulators[accumulator]
    n = len(f.state_dtypes)
    arguments = tuple(Arg(k, f.state_dtypes[k % n]) for k in range(2 * n))
    assert f.reduction.combine is not None
    formulas = f.reduction.combine(arguments[:n], arguments[n:])
    values: dict[Expr, ValueVectors] = dict(zip(arguments, [*left, *right], strict=True))
    return [em.emit_inline(e, values) for e in formulas]


def combine_vectors(em: Emitter, accumulator: int, states: list[ValueVectors]) -> list[ValueVectors]:
    """Emit the combination of the vectors of a state, pair by pair, and return the state with a single vector for each component.

    `states` has the vectors of each component of reduction number `accumulator`; their number must be a power of two.
    """
    em.continue_innermost()
    while len(states[0]) > 1:
        states = combine_states(em, accumulator, [p[0::2] for p in states], [p[1::2] for p in states])
    return states


def combine_lanes(em: Emitter, accumulator: int, states: list[ValueVectors]) -> list[ValueVectors]:
    """Emit the combination of the lanes of a state, by halves, and return the state with a scalar for each component.

    `states` has a single vector for each component of reduction number `accumulator`.
    """
    em.continue_innermost()
    width = states[0][0].lanes
    while width > 1:
        width //= 2
        low = [[v.shuffle(range(width)) for v in vectors] for vectors in states]
        high = [[v.shuffle(range(width, 2 * width)) for v in vectors] for vectors in states]
        states = combine_states(em, accumulator, low, high)
    return [[v.lane(0) for v in vectors] for vectors in states]


def choose_chunk_steps(em: Emitter, loop: For, accumulators: list[int]) -> int:
    """Return the number of steps of `loop` in a chunk, which has a sum of its own; 0 if all elements are taken in order.

    `accumulators` are the reductions whose states the loop carries from step to step. There are chunks only if a reduction rounds
    (`has_rounding`), all states can be combined, and the loop has no store. The number is `LANE_CHUNK_STEPS` if this loop or an inner loop
    with the same states has lanes, and `SCALAR_CHUNK_STEPS` without such an inner loop; otherwise it is 0.
    """
    kinds = [em.kernel.accumulators[f] for f in accumulators]
    if any(f.reduction.combine is None for f in kinds) or not any(map(has_rounding, kinds)) or has_store(loop.body):
        return 0
    loops, has_inner_loops = [loop], False  # the loops that carry the same states: further reductions inside change no order
    while loops:
        outer = loops.pop()
        if em.kernel.axes[outer.axis].vector:
            return LANE_CHUNK_STEPS
        inner_loops = [
            s
            for s in outer.body
            if isinstance(s, For) and not set(accumulators).isdisjoint(find_carried_reductions(s, em.kernel.accumulators))
        ]
        has_inner_loops = has_inner_loops or bool(inner_loops)
        loops += inner_loops
    return 0 if has_inner_loops else SCALAR_CHUNK_STEPS


def find_inner_lane_axis(em: Emitter, loop: For) -> int | None:
    """Return the axis of a vectorized loop inside `loop` that carries the state of the same reduction as `loop`.

    Such a loop adds across the lanes, so `loop` must keep a state in each lane. Return None without a loop of this kind, or if the inner
    loop runs over blocks.
    """
    accumulators = set(find_carried_reductions(loop, em.kernel.accumulators))
    for s in loop.body:
        if isinstance(s, For) and accumulators & set(find_carried_reductions(s, em.kernel.accumulators)):
            return s.axis if em.kernel.axes[s.axis].vector and not s.block else find_inner_lane_axis(em, s)
    return None


def has_rounding(f: Accumulator) -> bool:
    """Return whether the combination of two states of the reduction `f` adds or multiplies floats, and so rounds."""
    states = tuple(Arg(k, d) for k, d in enumerate(f.state_dtypes))
    combination = f.reduction.combine(states, states) if f.reduction.combine else ()
    calls = [e for root in combination for e in walk(root) if isinstance(e, Call)]
    return any(e.dtype.is_float and e.op.name in ("add", "multiply") for e in calls)
