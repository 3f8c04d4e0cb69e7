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

LISTENED = 1 << 12  # iterations of an innermost loop between two reads of the stop flag


def loop(em: Emitter, s: For) -> None:
    """Emit a loop over the present part of its axis."""
    _between(em, s, *em.range(s.axis))


def _between(em: Emitter, s: For, begin: Value, end: Value) -> None:
    """Emit a loop from `begin` to `end`, in a suitable way: over blocks, with lanes, with iterations side by side, or plain."""
    axis = em.kernel.axes[s.axis]
    if s.block:
        _over_blocks(em, s, begin, end)
    elif axis.vector and em.width > 1:
        _with_lanes(em, s, begin, end)
    elif s.abreast > 1:
        _between(em, s._replace(abreast=1), abreast.abreast(em, s, begin, end), end)
    elif em.lanes is None and em.width > 1 and (lanes := reductions.lanes_inside(em, s)) is not None:
        _reducing_across(em, lanes, carried(s, em.kernel.accumulators), lambda: _in_chunks(em, s, begin, end, 1))
    else:
        _in_chunks(em, s, begin, end, 1)


def _over_blocks(em: Emitter, s: For, begin: Value, end: Value) -> None:
    """Emit a loop over blocks of an axis. A loop over the same axis inside runs through one block."""

    def turn(index: Value) -> Value:
        em.inmost()
        further = index + s.block
        em.spans[s.axis] = Span(index, smaller(end, further), s.block)
        em.body(s.body)
        del em.spans[s.axis]
        if listening:
            em.inmost()
            further = select(em.stopped(), end, further)
        return further

    listening = _listens(em, s)

    em.repeated(s.axis, begin, end, turn, accumulators=carried(s, em.kernel.accumulators), inside=False)


def _in_chunks(em: Emitter, s: For, begin: Value, end: Value, step: int) -> Value:
    """Emit a loop in whole steps from `begin` on; return the index where it stops. Sums of floats are taken in chunks."""
    across = carried(s, em.kernel.accumulators)
    chunk = reductions.chunk(em, s, across) * step
    if not chunk:
        return _plain(em, s, begin, end, step)

    def one(first: Value, last: Value) -> Value:
        before = {f: em.states[f] for f in across}
        for f in across:
            reductions.start(em, f)
        stop = _plain(em, s, first, last, step)
        for f, states in before.items():
            em.states[f] = reductions.combined(em, f, states, em.states[f])
        return stop

    if s.axis in em.spans and em.spans[s.axis].size == chunk:
        return one(begin, end)

    def turn(first: Value) -> Value:
        em.inmost()
        return one(first, smaller(end, first + chunk))

    return em.repeated(s.axis, begin, end, turn, needs=step, accumulators=across, inside=False)


def _plain(em: Emitter, s: For, begin: Value, end: Value, step: int) -> Value:
    """Emit a loop in whole steps from `begin` on, and return the index where it stops.

    Under a mask, the last step may reach past `end`. If the kernel is told to stop, the loop ends, and its index is `end`.
    """
    if not _listens(em, s):
        return _steps(em, s, begin, end, step)

    turns = 1 if any(isinstance(inner, For) for inner in statements(s.body)) else LISTENED

    def turn(first: Value) -> Value:
        em.inmost()
        last = _steps(em, s, first, smaller(end, first + turns * step), step)
        em.inmost()
        return select(em.stopped(), end, last)

    across = carried(s, em.kernel.accumulators)
    return em.repeated(s.axis, begin, end, turn, needs=1 if _is_masked(em, s) else step, accumulators=across, inside=False)


def _listens(em: Emitter, s: For) -> bool:
    """Return whether a loop reads the stop flag, in a kernel that listens.

    A loop that is not parallel does: it may be a single long iteration of a parallel loop.
    """
    return em.listens and not em.kernel.axes[s.axis].parallel


def _is_masked(em: Emitter, s: For) -> bool:
    """Return whether the lanes run along this loop under a mask."""
    return em.lanes is not None and em.lanes.axis == s.axis and em.lanes.masked


def _steps(em: Emitter, s: For, begin: Value, end: Value, step: int) -> Value:
    """Emit a loop in whole steps from `begin` on, without reading the stop flag; return the index where it stops."""
    masked = _is_masked(em, s)

    def turn(index: Value) -> Value:
        if masked:
            mask_idle_lanes(em, index, end)
        _turn(em, s)
        em.inmost()
        return index + step

    needs, across = 1 if masked else step, carried(s, em.kernel.accumulators)
    return em.repeated(s.axis, begin, end, turn, needs=needs, accumulators=across)


def _turn(em: Emitter, s: For) -> None:
    """Emit one iteration of a loop, for an index or for lanes."""
    changed, read = rows.in_rows(em, s)
    rows.load_states(em, read)
    em.body(s.body, partial(_inside, em))
    rows.store_states(em, changed)


def _inside(em: Emitter, s: Statement) -> None:
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


def _with_lanes(em: Emitter, s: For, begin: Value, end: Value) -> None:
    """Emit a loop with lanes: whole steps of several vectors, then single vectors, masked or not."""
    across = carried(s, em.kernel.accumulators)
    if across and em.lanes is None:
        _reducing_across(em, s.axis, across, lambda: _with_lanes(em, s, begin, end))
        return
    around, (changed, _) = em.lanes, rows.in_rows(em, s)
    width = em.width if around is None else around.width
    if not across and widths.is_written_once(s, em.target):
        em.lanes = Lanes(s.axis, width, 1, masked=True, either=True)
        _plain(em, s, begin, end, width)
        em.lanes = around
        return
    short = bool(changed) and em.spans[s.axis].size <= em.target.loops.short_rows
    widest = max(1, em.spans[s.axis].size // width) if s.axis in em.spans else em.target.states_abreast
    for unroll in (around.unroll,) if around is not None and across else widths.unrollings(s, em.target, short_rows=short):
        unroll = min(unroll, widest)
        em.lanes = Lanes(s.axis, width, unroll)
        begin = _in_chunks(em, s, begin, end, width * unroll)
    if around is None and widths.ends_in_halves(s, em.target):
        _in_halves(em, s, begin, end, width)
        return
    em.lanes = Lanes(s.axis, width, 1, masked=True)
    others = {f: [parts[1:] for parts in em.states[f]] for f in across}
    for f in across:
        em.states[f] = [parts[:1] for parts in em.states[f]]
    _plain(em, s, begin, end, width)
    for f, rest in others.items():
        em.states[f] = [one + more for one, more in zip(em.states[f], rest, strict=True)]
    em.lanes = around


def _in_halves(em: Emitter, s: For, begin: Value, end: Value, width: int) -> None:
    """Emit the last iterations of a loop with lanes without a mask: by whole vectors, then by half a vector, a quarter, and so on.

    A vector of each smaller size runs once, or not at all, as the number of the elements left requires.
    """
    em.lanes = Lanes(s.axis, width, 1)
    begin = _in_chunks(em, s, begin, end, width)
    em.inmost()
    rest = end - begin

    def some(at: Value, lanes: Lanes | None) -> None:
        em.lanes = lanes
        with em.standing(s.axis, at):
            _turn(em, s)

    while width > 1:
        at = begin + (rest & -width)
        width //= 2
        em.only_if((rest & width).differs(0), partial(some, at, Lanes(s.axis, width, 1) if width > 1 else None))
        em.inmost()
    em.lanes = None


def _reducing_across(em: Emitter, axis: int, across: list[int], run: Callable[[], object]) -> None:
    """Emit the code of `run`, with a state in each lane along an axis for the reductions `across`; then combine the lanes.

    The number of lanes depends only on the states of these reductions. So they add in the same order, whatever the rest of the kernel
    computes.
    """
    entered = {f: em.states[f] for f in across}
    widest = max(d.itemsize for f in across for d in em.kernel.accumulators[f].states)
    em.lanes = Lanes(axis, em.target.lanes(widest), widths.vectors_across([em.kernel.accumulators[f] for f in across]))
    for f in across:
        reductions.start(em, f)
    run()
    em.lanes = None
    for f, before in entered.items():
        states = reductions.across(em, f, reductions.together(em, f, em.states[f]))
        em.states[f] = reductions.combined(em, f, before, states)
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
