"""Emit rows on the stack: states of reductions, one for each column of a block, and values cached for a later loop. The functions run while
a kernel is compiled: they append LLVM IR to the kernel `em`. A `Value` stands for a value at run time.
"""

from __future__ import annotations

from ...dtypes import DType
from ...lowering.ir import For, RowLoad, RowStore
from .builder import Value
from .dtype_conversions import load, memory_type, to_memory
from .emitter import Emitter
from .loop_analysis import find_touched_reductions
from .scopes import ValueVectors


def find_row_reductions(em: Emitter, loop: For) -> tuple[set[int], set[int]]:
    """Return two sets of reductions with a row of states along the axis of `loop`, as numbers in `em.kernel.accumulators`.

    The first set has those changed (started or updated) in the loop, and the second those changed or read. The caller loads the states of
    the second before an iteration, and stores those of the first after it.
    """
    accumulators = em.kernel.accumulators
    changed, read = [{f for f in candidates if accumulators[f].row_axis == loop.axis} for candidates in find_touched_reductions(loop)]
    return changed, changed | read


def load_states(em: Emitter, accumulators: set[int]) -> None:
    """Emit the load of the states of reductions from their rows on the stack, and put the values into `em.states` and `em.results`.

    `accumulators` holds the numbers of the reductions, each with a row of states along an axis (`Accumulator.row_axis`). The states at the
    present index are loaded, or those of the present lanes.
    """
    em.continue_innermost()
    for accumulator in sorted(accumulators):
        dtypes = em.kernel.accumulators[accumulator].state_dtypes
        states = [load_elements(em, _state_pointers(em, accumulator, part_number), d) for part_number, d in enumerate(dtypes)]
        em.states[accumulator] = states
        em.results[accumulator] = (len(em.scopes) - 1, states)


def store_states(em: Emitter, accumulators: set[int]) -> None:
    """Emit the store of the states in `em.states` of the reductions `accumulators` to their rows on the stack, for the present lanes.

    `accumulators` holds the numbers of the reductions, each with a row of states along an axis (`Accumulator.row_axis`).
    """
    em.continue_innermost()
    for accumulator in sorted(accumulators):
        for part_number, dtype in enumerate(em.kernel.accumulators[accumulator].state_dtypes):
            store_elements(_state_pointers(em, accumulator, part_number), dtype, em.states[accumulator][part_number])


def _state_pointers(em: Emitter, accumulator: int, part_number: int) -> ValueVectors:
    """Emit the pointers to component number `part_number` of the states of the reduction number `accumulator`, at the present index.

    Return a pointer for each vector of the present lanes, or a single pointer if no lanes run along the row. The row is on the stack, or
    where `em.state_rows` says.
    """
    f = em.kernel.accumulators[accumulator]
    memory = em.state_rows[accumulator]()[part_number] if accumulator in em.state_rows else None
    return emit_row_pointers(
        em, f"states{accumulator}.{part_number}", f.state_dtypes[part_number], em.axis_ranges[f.row_axis].max_size, f.row_axis, memory
    )


def store_row_value(em: Emitter, s: RowStore) -> None:
    """Emit the statement `s`: the store of a value in a row on the stack, for a later loop (`load_row_value`).

    Every lane is stored, idle or active: the row has room for idle lanes.
    """
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

    Return a pointer for each vector of the lanes along `axis`, or a single pointer if no lanes run along it. The row of `size` elements of
    `dtype` begins at the pointer `memory`. For None, the row is on the stack: the first call with the name `row` allocates it, with room
    for idle lanes.
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
    """Emit a load of `dtype` through each of `pointers`: of an element, or with `em.lanes` of a vector.

    Return as many values, in the form that they have in registers (`dtype_conversions.register_type`).
    """
    return [load(pointer, dtype, 0 if em.lanes is None else em.lanes.width) for pointer in pointers]


def store_elements(pointers: ValueVectors, dtype: DType, vectors: ValueVectors) -> None:
    """Emit the store of each of `vectors` through the item of `pointers` at the same index, converted to the form of `dtype` in memory.

    The items of `vectors` are scalars or vectors, in the form that they have in registers.
    """
    for pointer, x in zip(pointers, vectors, strict=True):
        pointer.store(to_memory(dtype, x))
