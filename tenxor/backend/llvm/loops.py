"""Emit loops: over whole axes and blocks, in chunks, with lanes along an axis or across a reduction.

Each nest has lanes along a single axis. The loop over this axis is emitted twice: with steps of `unroll` whole vectors, and with masked
single vectors for the rest. If an iteration computes much, the loop is emitted once, and only its loads and stores twice. A reduction
across the lanes keeps a state in each lane, and combines the lanes in a fixed order behind the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...kernel.ir import For, Statement, statements
from ...late import Late
from . import reductions, rows, widths
from .analysis import carried, runs_along
from .builder import Value, select, smaller
from .emitter import Emitter
from .memory import first_lanes
from .scopes import Lanes, Span

abreast = Late("tenxor.backend.llvm.abreast")

ITERATIONS_PER_POLL = 1 << 12  # iterations of an innermost loop between two reads of the stop flag


def loop(em: Emitter, s: For) -> None:
    """Emit a loop over the present part of its axis."""
    _emit_range(em, s, *em.range(s.axis))


def _emit_range(em: Emitter, s: For, begin: Value, end: Value) -> None:
    """Emit a loop from `begin` to `end`, in a suitable way: over blocks, with lanes, with iterations side by side, or plain."""
    axis = em.kernel.axes[s.axis]
    if s.block:
        _emit_blocks(em, s, begin, end)
    elif axis.vector and em.width > 1:
        _emit_with_lanes(em, s, begin, end)
    elif s.abreast > 1:
        _emit_range(em, s._replace(abreast=1), abreast.abreast(em, s, begin, end), end)
    elif em.lanes is None and em.width > 1 and (lanes := reductions.lanes_inside(em, s)) is not None:
        _emit_across_lanes(em, lanes, carried(s, em.kernel.accumulators), lambda: _emit_in_chunks(em, s, begin, end, 1))
    else:
        _emit_in_chunks(em, s, begin, end, 1)


def _emit_blocks(em: Emitter, s: For, begin: Value, end: Value) -> None:
    """Emit a loop over blocks of an axis. A loop over the same axis inside runs through one block."""

    def emit_block(index: Value) -> Value:
        em.inmost()
        next_index = index + s.block
        em.spans[s.axis] = Span(index, smaller(end, next_index), s.block)
        em.body(s.body)
        del em.spans[s.axis]
        if polls:
            em.inmost()
            next_index = select(em.stopped(), end, next_index)
        return next_index

    polls = _listens(em, s)

    em.repeated(s.axis, begin, end, emit_block, accumulators=carried(s, em.kernel.accumulators), inside=False)


def _emit_in_chunks(em: Emitter, s: For, begin: Value, end: Value, step: int) -> Value:
    """Emit a loop in whole steps from `begin` on; return the index where it stops. Sums of floats are taken in chunks."""
    accumulators = carried(s, em.kernel.accumulators)
    chunk = reductions.chunk(em, s, accumulators) * step
    if not chunk:
        return _emit_stoppable(em, s, begin, end, step)

    def emit_chunk(first: Value, last: Value) -> Value:
        old_states = {f: em.states[f] for f in accumulators}
        for f in accumulators:
            reductions.start(em, f)
        stop = _emit_stoppable(em, s, first, last, step)
        for f, states in old_states.items():
            em.states[f] = reductions.combined(em, f, states, em.states[f])
        return stop

    if s.axis in em.spans and em.spans[s.axis].size == chunk:
        return emit_chunk(begin, end)

    def emit_next_chunk(first: Value) -> Value:
        em.inmost()
        return emit_chunk(first, smaller(end, first + chunk))

    return em.repeated(s.axis, begin, end, emit_next_chunk, needs=step, accumulators=accumulators, inside=False)


def _emit_stoppable(em: Emitter, s: For, begin: Value, end: Value, step: int) -> Value:
    """Emit a loop in whole steps from `begin` on, and return the index where it stops.

    Under a mask, the last step may reach past `end`. If the kernel is told to stop, the loop ends, and its index is `end`.
    """
    if not _listens(em, s):
        return _emit_steps(em, s, begin, end, step)

    slice_steps = 1 if any(isinstance(inner, For) for inner in statements(s.body)) else ITERATIONS_PER_POLL

    def emit_slice(first: Value) -> Value:
        em.inmost()
        last = _emit_steps(em, s, first, smaller(end, first + slice_steps * step), step)
        em.inmost()
        return select(em.stopped(), end, last)

    accumulators = carried(s, em.kernel.accumulators)
    return em.repeated(s.axis, begin, end, emit_slice, needs=1 if _is_masked(em, s) else step, accumulators=accumulators, inside=False)


def _listens(em: Emitter, s: For) -> bool:
    """Return whether a loop reads the stop flag, in a kernel that listens.

    A loop that is not parallel does: it may be a single long iteration of a parallel loop.
    """
    return em.listens and not em.kernel.axes[s.axis].parallel


def _is_masked(em: Emitter, s: For) -> bool:
    """Return whether the lanes run along this loop under a mask."""
    return em.lanes is not None and em.lanes.axis == s.axis and em.lanes.masked


def _emit_steps(em: Emitter, s: For, begin: Value, end: Value, step: int) -> Value:
    """Emit a loop in whole steps from `begin` on, without reading the stop flag; return the index where it stops."""
    masked = _is_masked(em, s)

    def emit_step(index: Value) -> Value:
        if masked:
            mask_idle_lanes(em, index, end)
        _emit_iteration(em, s)
        em.inmost()
        return index + step

    needs, accumulators = 1 if masked else step, carried(s, em.kernel.accumulators)
    return em.repeated(s.axis, begin, end, emit_step, needs=needs, accumulators=accumulators)


def _emit_iteration(em: Emitter, s: For) -> None:
    """Emit one iteration of a loop, for an index or for lanes."""
    changed, read = rows.in_rows(em, s)
    rows.load_states(em, read)
    em.body(s.body, partial(_emit_inside, em))
    rows.store_states(em, changed)


def _emit_inside(em: Emitter, s: Statement) -> None:
    """Emit a statement of a loop's body.

    Around the loop with lanes, a statement without this loop inside has no lanes, or lanes of its own.
    """
    lanes = em.lanes
    if lanes is None or any(scope.axis == lanes.axis for scope in em.scopes) or runs_along(s, lanes.axis):
        em.statement(s)
    else:
        em.lanes = None
        em.statement(s)
        em.lanes = lanes


def _emit_with_lanes(em: Emitter, s: For, begin: Value, end: Value) -> None:
    """Emit a loop with lanes: whole steps of several vectors, then single vectors, masked or not."""
    accumulators = carried(s, em.kernel.accumulators)
    if accumulators and em.lanes is None:
        _emit_across_lanes(em, s.axis, accumulators, lambda: _emit_with_lanes(em, s, begin, end))
        return
    outer_lanes, (changed, _) = em.lanes, rows.in_rows(em, s)
    width = em.width if outer_lanes is None else outer_lanes.width
    if not accumulators and widths.is_written_once(s, em.target):
        em.lanes = Lanes(s.axis, width, 1, masked=True, either=True)
        _emit_stoppable(em, s, begin, end, width)
        em.lanes = outer_lanes
        return
    short = bool(changed) and em.spans[s.axis].size <= em.target.loops.short_rows
    max_unroll = max(1, em.spans[s.axis].size // width) if s.axis in em.spans else em.target.states_abreast
    for unroll in (outer_lanes.unroll,) if outer_lanes is not None and accumulators else widths.unrollings(s, em.target, short_rows=short):
        unroll = min(unroll, max_unroll)
        em.lanes = Lanes(s.axis, width, unroll)
        begin = _emit_in_chunks(em, s, begin, end, width * unroll)
    if outer_lanes is None and widths.ends_in_halves(s, em.target):
        _emit_in_halves(em, s, begin, end, width)
        return
    em.lanes = Lanes(s.axis, width, 1, masked=True)
    further_vectors = {f: [vectors[1:] for vectors in em.states[f]] for f in accumulators}
    for f in accumulators:
        em.states[f] = [vectors[:1] for vectors in em.states[f]]
    _emit_stoppable(em, s, begin, end, width)
    for f, set_aside in further_vectors.items():
        em.states[f] = [used + unused for used, unused in zip(em.states[f], set_aside, strict=True)]
    em.lanes = outer_lanes


def _emit_in_halves(em: Emitter, s: For, begin: Value, end: Value, width: int) -> None:
    """Emit the last iterations of a loop with lanes without a mask: by whole vectors, then by half a vector, a quarter, and so on.

    A vector of each smaller size runs once, or not at all, as the number of the elements left requires.
    """
    em.lanes = Lanes(s.axis, width, 1)
    begin = _emit_in_chunks(em, s, begin, end, width)
    em.inmost()
    left = end - begin

    def emit_part(index: Value, lanes: Lanes | None) -> None:
        em.lanes = lanes
        with em.standing(s.axis, index):
            _emit_iteration(em, s)

    while width > 1:
        index = begin + (left & -width)
        width //= 2
        em.only_if((left & width).differs(0), partial(emit_part, index, Lanes(s.axis, width, 1) if width > 1 else None))
        em.inmost()
    em.lanes = None


def _emit_across_lanes(em: Emitter, axis: int, accumulators: list[int], run: Callable[[], object]) -> None:
    """Emit the code of `run`, with a state in each lane along an axis for the reductions `accumulators`; then combine the lanes.

    The number of lanes depends only on the states of these reductions. So they add in the same order, whatever the rest of the kernel
    computes.
    """
    entered = {f: em.states[f] for f in accumulators}
    state_bytes = max(d.itemsize for f in accumulators for d in em.kernel.accumulators[f].states)
    em.lanes = Lanes(axis, em.target.lanes(state_bytes), widths.vectors_across([em.kernel.accumulators[f] for f in accumulators]))
    for f in accumulators:
        reductions.start(em, f)
    run()
    em.lanes = None
    for f, old_states in entered.items():
        states = reductions.across(em, f, reductions.together(em, f, em.states[f]))
        em.states[f] = reductions.combined(em, f, old_states, states)
        em.results[f] = (len(em.scopes) - 1, em.states[f])


def mask_idle_lanes(em: Emitter, index: Value, end: Value) -> None:
    """Emit the mask of the vector at `index`, and keep it in `em.lanes`: only the lanes before `end` are active."""
    lanes = em.lanes
    assert lanes is not None
    em.inmost()
    left = end - index
    if lanes.either:
        lanes.left = left
    else:
        left = select(left < lanes.width, left, lanes.width)
        lanes.working, lanes.mask = left, first_lanes(left, lanes.width)
