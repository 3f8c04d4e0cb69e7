"""Emit rows on the stack: states of reductions, one for each column of a block, and values cached for a later loop."""

from __future__ import annotations

from ...dtypes import DType
from ...lowering.ir import For, RowLoad, RowStore
from .builder import Value
from .dtype_conversions import load, memory_type, to_memory
from .emitter import Emitter
from .loop_analysis import find_touched_reductions
from .scopes import ValueVectors


def find_row_reductions(em: Emitter, loop: For) -> tuple[set[int], set[int]]:
    """Return two sets of reductions with a row of states along the axis of `loop`: changed (started or updated) in the loop, and changed or
    read.

    The reductions are given as numbers in `em.kernel.accumulators`. The second set contains the first.
    """
    accumulators = em.kernel.accumulators
    changed, read = [{f for f in candidates if accumulators[f].row_axis == loop.axis} for candidates in find_touched_reductions(loop)]
    return changed, changed | read


def load_states(em: Emitter, accumulators: set[int]) -> None:
    """Emit the load of the states of the reductions `accumulators` from their rows on the stack into `em.states`, for the present lanes.

    `accumulators` holds numbers of reductions, each with a row of states along an axis. The states become the results (`em.results`), too.
    """
    em.continue_innermost()
    for accumulator in sorted(accumulators):
        dtypes = em.kernel.accumulators[accumulator].state_dtypes
        states = [load_elements(em, _state_pointers(em, accumulator, part_number), d) for part_number, d in enumerate(dtypes)]
        em.states[accumulator] = states
        em.results[accumulator] = (len(em.scopes) - 1, states)


def store_states(em: Emitter, accumulators: set[int]) -> None:
    """Emit the store of the states of reductions to their rows on the stack, for the lanes of the current step.

    `accumulators` holds numbers of reductions in `em.kernel.accumulators`, each with a row of states along an axis (`row_axis`).
    """
    em.continue_innermost()
    for accumulator in sorted(accumulators):
        for part_number, dtype in enumerate(em.kernel.accumulators[accumulator].state_dtypes):
            store_elements(_state_pointers(em, accumulator, part_number), dtype, em.states[accumulator][part_number])


def _state_pointers(em: Emitter, accumulator: int, part_number: int) -> ValueVectors:
    """Emit the pointers to component `part_number` of the states of reduction number `accumulator`, in their row on the stack.

    Return a pointer for each vector of the present lanes, or a single pointer if no lanes run along the row.
    """
    f = em.kernel.accumulators[accumulator]
    memory = em.state_rows[accumulator]()[part_number] if accumulator in em.state_rows else None
    return emit_row_pointers(
        em, f"states{accumulator}.{part_number}", f.state_dtypes[part_number], em.axis_ranges[f.row_axis].max_size, f.row_axis, memory
    )


def store_row_value(em: Emitter, s: RowStore) -> None:
    """Emit the store of a value in a row on the stack, for every lane, idle or active: the row has room for idle lanes."""
    vectors = em.vector_value(s.value)
    em.continue_innermost()
    dtype = s.value.dtype
    store_elements(emit_row_pointers(em, f"kept{s.row_buffer}", dtype, s.size, s.axis), dtype, vectors)


def load_row_value(em: Emitter, e: RowLoad) -> ValueVectors:
    """Emit the load of a value stored by a `RowStore` in a row on the stack, for every lane, idle or active.

    Return the vectors of the step. Without lanes, or with lanes along another axis than the row's, return a list with a scalar.
    """
    pointers = emit_row_pointers(em, f"kept{e.row_buffer}", e.dtype, e.size, e.axis)
    if em.lanes is not None and em.lanes.axis != e.axis:
        return [load(pointers[0], e.dtype)]  # one value for all lanes
    return load_elements(em, pointers, e.dtype)


def emit_row_pointers(em: Emitter, row: str, dtype: DType, size: int, axis: int, memory: Value | None = None) -> ValueVectors:
    """Emit pointers to the elements of a row at the present index of `axis`.

    Return a pointer for each vector of the lanes along `axis`, or a single pointer if no lanes run along it.

    The row of `size` elements begins at `memory`, or for None on the stack, under the name `row`. The row on the stack has room for idle
    lanes, too.
    """
    element, lanes = memory_type(dtype), em.lanes
    if memory is None:
        memory = em.emit_once(0, row, lambda: em.allocate_on_stack(element, size + em.target.vector_bytes, row))
    index = em.index(axis)
    if axis in em.axis_ranges and size == em.axis_ranges[axis].max_size:  # a longer row is for all blocks
        index = index - em.axis_ranges[axis].begin
    start = memory.at(index, element)
    if lanes is None or lanes.axis != axis:
        return [start]
    return [start.at(u * lanes.width, element) for u in range(lanes.unroll)]


def load_elements(em: Emitter, pointers: ValueVectors, dtype: DType) -> ValueVectors:
    """Emit a load through each of `pointers`: of an element, or with `em.lanes` of a vector. Return the values in register form."""
    return [load(pointer, dtype, 0 if em.lanes is None else em.lanes.width) for pointer in pointers]


def store_elements(pointers: ValueVectors, dtype: DType, vectors: ValueVectors) -> None:
    """Emit the store of each of `vectors`, scalars or vectors in register form, through the item of `pointers` at the same index."""
    for pointer, x in zip(pointers, vectors, strict=True):
        pointer.store(to_memory(dtype, x))
