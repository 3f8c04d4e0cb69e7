"""Emit loops: over whole axes and blocks, in chunks, with lanes along an axis or across a reduction. The functions run while a kernel is
compiled: they append LLVM IR to the kernel `em`. A `Value`, like an index, stands for a value at run time.

Each nest has lanes along a single axis. The loop over this axis is emitted twice: with steps of `unroll` whole vectors, and with masked
single vectors for the rest. If an iteration computes much, the loop is emitted once, and only its loads and stores twice. A reduction
across the lanes keeps a state in each lane, and combines the lanes in a fixed order behind the loop.

`begin` is the first index of a loop, and `end` the index behind the last. `step` is the number of indices in a step: 1, or the lanes of all
vectors of the step. `axis` and `accumulators` are numbers in `em.kernel.axes` and `em.kernel.accumulators`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..._utils.lazy import LazyFunctions
from ...lowering.ir import For, Statement, iterate_statements
from . import reduction_states, row_buffers, vector_widths
from .builder import Value, select, select_smaller
from .emitter import Emitter
from .loop_analysis import find_carried_reductions, has_loop_along
from .scopes import AxisRange, Lanes
from .vector_access import mask_first_lanes

interleave = LazyFunctions("tenxor.codegen.llvm.interleave")

ITERATIONS_PER_POLL = 1 << 12  # iterations of an innermost loop between two reads of the stop flag


def emit_for(em: Emitter, s: For) -> None:
    """Emit the loop `s`, over the range that its axis has at this place (`Emitter.loop_range`), by the function for the kind of loop."""
    _emit_range(em, s, *em.loop_range(s.axis))


def _emit_range(em: Emitter, s: For, begin: Value, end: Value) -> None:
    """Emit the loop `s` from index `begin` up to, but without, `end`, by the function for the kind of loop.

    The loop runs over blocks (`s.block`), with lanes (`LoopAxis.vector`), or with iterations side by side (`s.jam_factor`). A reduction
    whose lanes run along an inner loop keeps a state in each lane. A plain loop runs a single iteration at a time.
    """
    axis = em.kernel.axes[s.axis]
    if s.block:
        _emit_blocks(em, s, begin, end)
    elif axis.vector and em.width > 1:
        _emit_with_lanes(em, s, begin, end)
    elif s.jam_factor > 1:
        _emit_range(em, s._replace(jam_factor=1), interleave.emit_interleaved(em, s, begin, end), end)
    elif em.lanes is None and em.width > 1 and (lanes := reduction_states.find_inner_lane_axis(em, s)) is not None:
        _emit_across_lanes(em, lanes, find_carried_reductions(s, em.kernel.accumulators), lambda: _emit_in_chunks(em, s, begin, end, 1))
    else:
        _emit_in_chunks(em, s, begin, end, 1)


def _emit_blocks(em: Emitter, s: For, begin: Value, end: Value) -> None:
    """Emit the loop `s` over blocks of `s.block` indices of an axis, from `begin` to `end`; the last block may have fewer.

    A loop over the same axis in the body runs through the present block only.
    """

    def emit_block(index: Value) -> Value:
        em.continue_innermost()
        next_index = index + s.block
        em.axis_ranges[s.axis] = AxisRange(index, select_smaller(end, next_index), s.block)
        em.emit_body(s.body)
        del em.axis_ranges[s.axis]
        if polls:
            em.continue_innermost()
            next_index = select(em.load_stop_flag(), end, next_index)
        return next_index

    polls = _polls_stop_flag(em, s)

    em.emit_loop(s.axis, begin, end, emit_block, accumulators=find_carried_reductions(s, em.kernel.accumulators), binds_axis=False)


def _emit_in_chunks(em: Emitter, s: For, begin: Value, end: Value, step: int) -> Value:
    """Emit the loop `s` in whole steps from `begin` on. Return the stop index, with less than a step left before `end`.

    A step has `step` indices: 1, or the lanes of the vectors of the step. A long sum of floats is taken in chunks: each chunk begins with
    the identity, and the sums are added up. If the stop flag is set at run time, the index is `end`.
    """
    accumulators = find_carried_reductions(s, em.kernel.accumulators)
    chunk_size = reduction_states.choose_chunk_steps(em, s, accumulators) * step
    if not chunk_size:
        return _emit_stoppable(em, s, begin, end, step)

    def emit_chunk(chunk_begin: Value, chunk_end: Value) -> Value:
        old_states = {f: em.states[f] for f in accumulators}
        for f in accumulators:
            reduction_states.start_state(em, f)
        stop = _emit_stoppable(em, s, chunk_begin, chunk_end, step)
        for f, states in old_states.items():
            em.states[f] = reduction_states.combine_states(em, f, states, em.states[f])
        return stop

    if s.axis in em.axis_ranges and em.axis_ranges[s.axis].max_size == chunk_size:
        return emit_chunk(begin, end)

    def emit_next_chunk(chunk_begin: Value) -> Value:
        em.continue_innermost()
        return emit_chunk(chunk_begin, select_smaller(end, chunk_begin + chunk_size))

    return em.emit_loop(s.axis, begin, end, emit_next_chunk, min_remaining=step, accumulators=accumulators, binds_axis=False)


def _emit_stoppable(em: Emitter, s: For, begin: Value, end: Value, step: int) -> Value:
    """Emit the loop `s` in whole steps of `step` indices from `begin` on, and return the index where the loop stops.

    Less than a step is then left before `end`; under a mask, the last step may reach past `end`. A sequential loop polls the stop flag
    (`_polls_stop_flag`). If the flag is set, the loop ends early, and the index is `end`.
    """
    if not _polls_stop_flag(em, s):
        return _emit_steps(em, s, begin, end, step)

    slice_steps = 1 if any(isinstance(inner, For) for inner in iterate_statements(s.body)) else ITERATIONS_PER_POLL

    def emit_slice(slice_begin: Value) -> Value:
        em.continue_innermost()
        next_index = _emit_steps(em, s, slice_begin, select_smaller(end, slice_begin + slice_steps * step), step)
        em.continue_innermost()
        return select(em.load_stop_flag(), end, next_index)

    accumulators = find_carried_reductions(s, em.kernel.accumulators)
    return em.emit_loop(
        s.axis, begin, end, emit_slice, min_remaining=1 if _is_masked(em, s) else step, accumulators=accumulators, binds_axis=False
    )


def _polls_stop_flag(em: Emitter, s: For) -> bool:
    """Return whether the code of the loop `s` reads the stop flag: every sequential loop of an interruptible kernel does.

    A sequential loop may be a single long iteration of a parallel loop. `Kernel.is_interruptible` has the conditions.
    """
    return em.polls_stop_flag and not em.kernel.axes[s.axis].parallel


def _is_masked(em: Emitter, s: For) -> bool:
    """Return whether the lanes `em.lanes` run along the loop `s` under a mask, so that a vector may be partial."""
    return em.lanes is not None and em.lanes.axis == s.axis and em.lanes.is_masked


def _emit_steps(em: Emitter, s: For, begin: Value, end: Value, step: int) -> Value:
    """Emit the loop `s` in whole steps of `step` indices from `begin` on, without the stop flag. Return the stop index.

    Less than a step is then left before `end`; under a mask, the last step may reach past `end`.
    """
    masked = _is_masked(em, s)

    def emit_step(index: Value) -> Value:
        if masked:
            mask_idle_lanes(em, index, end)
        _emit_iteration(em, s)
        em.continue_innermost()
        return index + step

    needs, accumulators = 1 if masked else step, find_carried_reductions(s, em.kernel.accumulators)
    return em.emit_loop(s.axis, begin, end, emit_step, min_remaining=needs, accumulators=accumulators)


def _emit_iteration(em: Emitter, s: For) -> None:
    """Emit the body of the loop `s` once: for an iteration, or for a vector of iterations if `em.lanes` runs along the loop.

    Some reductions have a row of states along the loop (`find_row_reductions`). Their states are loaded before the body; changed states
    are stored after it.
    """
    changed, read = row_buffers.find_row_reductions(em, s)
    row_buffers.load_states(em, read)
    em.emit_body(s.body, partial(_emit_inner_statement, em))
    row_buffers.store_states(em, changed)


def _emit_inner_statement(em: Emitter, s: Statement) -> None:
    """Emit the statement `s` of a loop's body, with the lanes `em.lanes` or without.

    The loop along which the lanes run may be further inside. Then only a statement with this loop inside keeps the lanes. Another
    statement is emitted with `em.lanes` None; a loop in it may choose lanes of its own.
    """
    lanes = em.lanes
    if lanes is None or any(scope.axis == lanes.axis for scope in em.scopes) or has_loop_along(s, lanes.axis):
        em.emit_statement(s)
    else:
        em.lanes = None
        em.emit_statement(s)
        em.lanes = lanes


def _emit_with_lanes(em: Emitter, s: For, begin: Value, end: Value) -> None:
    """Emit the loop `s` from index `begin` up to, but without, `end`, with lanes along its axis.

    Whole steps of several vectors come first, then single vectors, the last with a mask or by halves. Reductions across the lanes get a
    state in each lane, combined after the loop.
    """
    accumulators = find_carried_reductions(s, em.kernel.accumulators)
    if accumulators and em.lanes is None:
        _emit_across_lanes(em, s.axis, accumulators, lambda: _emit_with_lanes(em, s, begin, end))
        return
    outer_lanes, (changed, _) = em.lanes, row_buffers.find_row_reductions(em, s)
    width = em.width if outer_lanes is None else outer_lanes.width
    if not accumulators and vector_widths.is_one_loop_best(s, em.target):
        em.lanes = Lanes(s.axis, width, 1, is_masked=True, is_maybe_full=True)
        _emit_stoppable(em, s, begin, end, width)
        em.lanes = outer_lanes
        return
    short = bool(changed) and em.axis_ranges[s.axis].max_size <= em.target.loops.max_short_row_columns
    max_unroll = max(1, em.axis_ranges[s.axis].max_size // width) if s.axis in em.axis_ranges else em.target.short_row_states
    for unroll in (
        (outer_lanes.unroll,)
        if outer_lanes is not None and accumulators
        else vector_widths.choose_unroll_factors(s, em.target, short_rows=short)
    ):
        unroll = min(unroll, max_unroll)
        em.lanes = Lanes(s.axis, width, unroll)
        begin = _emit_in_chunks(em, s, begin, end, width * unroll)
    if outer_lanes is None and vector_widths.is_tail_best_halved(s, em.target):
        _emit_in_halves(em, s, begin, end, width)
        return
    em.lanes = Lanes(s.axis, width, 1, is_masked=True)
    further_vectors = {f: [vectors[1:] for vectors in em.states[f]] for f in accumulators}
    for f in accumulators:
        em.states[f] = [vectors[:1] for vectors in em.states[f]]
    _emit_stoppable(em, s, begin, end, width)
    for f, set_aside in further_vectors.items():
        em.states[f] = [used + unused for used, unused in zip(em.states[f], set_aside, strict=True)]
    em.lanes = outer_lanes


def _emit_in_halves(em: Emitter, s: For, begin: Value, end: Value, width: int) -> None:
    """Emit the last iterations of the loop `s`, from `begin` to `end`, without a mask.

    Whole vectors of `width` lanes come first, then half a vector, a quarter, and so on, down to a single element. The code runs a vector of
    each smaller size once or not at all, by the bits of the number of elements left.
    """
    em.lanes = Lanes(s.axis, width, 1)
    begin = _emit_in_chunks(em, s, begin, end, width)
    em.continue_innermost()
    left = end - begin

    def emit_part(index: Value, lanes: Lanes | None) -> None:
        em.lanes = lanes
        with em.at_index(s.axis, index):
            _emit_iteration(em, s)

    while width > 1:
        index = begin + (left & -width)
        width //= 2
        em.only_if((left & width).differs(0), partial(emit_part, index, Lanes(s.axis, width, 1) if width > 1 else None))
        em.continue_innermost()
    em.lanes = None


def _emit_across_lanes(em: Emitter, axis: int, accumulators: list[int], run: Callable[[], object]) -> None:
    """Emit a loop that reduces across lanes: start a state in each lane along `axis`, call `run`, which emits the loop, and combine the
    lanes.

    The combined states of the reductions `accumulators` are joined to the states of before, and put into `em.states` and `em.results`.
    `em.lanes` must be None. Meanwhile it has as many lanes as the states allow, so that reductions add in the same order, whatever the rest
    of the kernel computes.
    """
    entered = {f: em.states[f] for f in accumulators}
    state_bytes = max(d.itemsize for f in accumulators for d in em.kernel.accumulators[f].state_dtypes)
    em.lanes = Lanes(
        axis, em.target.lane_count(state_bytes), vector_widths.count_state_vectors([em.kernel.accumulators[f] for f in accumulators])
    )
    for f in accumulators:
        reduction_states.start_state(em, f)
    run()
    em.lanes = None
    for f, old_states in entered.items():
        states = reduction_states.combine_lanes(em, f, reduction_states.combine_vectors(em, f, em.states[f]))
        em.states[f] = reduction_states.combine_states(em, f, old_states, states)
        em.results[f] = (len(em.scopes) - 1, em.states[f])


def mask_idle_lanes(em: Emitter, index: Value, end: Value) -> None:
    """Emit the mask for the step at `index`, a single vector, in which only the lanes before `end` are active.

    Put the mask into `em.lanes.mask`, and the number of active lanes into `em.lanes.active_count`; nothing is returned. If
    `em.lanes.is_maybe_full`, emit no mask, and only put the number of indices left before `end` into `em.lanes.remaining_count`.
    """
    lanes = em.lanes
    assert lanes is not None
    em.continue_innermost()
    left = end - index
    if lanes.is_maybe_full:
        lanes.remaining_count = left
    else:
        left = select(left < lanes.width, left, lanes.width)
        lanes.active_count, lanes.mask = left, mask_first_lanes(left, lanes.width)
