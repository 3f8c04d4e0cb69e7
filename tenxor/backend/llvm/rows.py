"""Emit rows on the stack: states of reductions, one for each column of a block, and values cached for a later loop."""

from __future__ import annotations

from ...dtypes import DType
from ...kernel.ir import For, Keep, Kept
from .analysis import touched
from .builder import Value
from .emitter import Emitter
from .scopes import Parts
from .values import load, memory_type, to_memory


def in_rows(em: Emitter, loop: For) -> tuple[set[int], set[int]]:
    """Return the reductions with a row of states along a loop's axis: those changed by the loop, and those changed or read."""
    accumulators = em.kernel.accumulators
    changed, read = [{f for f in candidates if accumulators[f].row == loop.axis} for candidates in touched(loop)]
    return changed, changed | read


def load_states(em: Emitter, accumulators: set[int]) -> None:
    """Emit the load of reductions' states from their rows, for the lanes of the loop along the rows."""
    em.inmost()
    for accumulator in sorted(accumulators):
        dtypes = em.kernel.accumulators[accumulator].states
        states = [load_elements(em, _state_pointers(em, accumulator, part_number), d) for part_number, d in enumerate(dtypes)]
        em.states[accumulator] = states
        em.results[accumulator] = (len(em.scopes) - 1, states)


def store_states(em: Emitter, accumulators: set[int]) -> None:
    """Emit the store of reductions' states to their rows."""
    em.inmost()
    for accumulator in sorted(accumulators):
        for part_number, dtype in enumerate(em.kernel.accumulators[accumulator].states):
            stored(_state_pointers(em, accumulator, part_number), dtype, em.states[accumulator][part_number])


def _state_pointers(em: Emitter, accumulator: int, part_number: int) -> Parts:
    """Return the pointers to a part of a reduction's states in their row, for the present lanes."""
    f = em.kernel.accumulators[accumulator]
    memory = em.state_rows[accumulator]()[part_number] if accumulator in em.state_rows else None
    return row_pointers(em, f"states{accumulator}.{part_number}", f.states[part_number], em.spans[f.row].size, f.row, memory)


def keep(em: Emitter, s: Keep) -> None:
    """Emit the store of a value in a row on the stack, for every lane."""
    vectors = em.in_lanes(s.value)
    em.inmost()
    dtype = s.value.dtype
    stored(row_pointers(em, f"kept{s.row}", dtype, s.size, s.axis), dtype, vectors)


def kept(em: Emitter, e: Kept) -> Parts:
    """Emit the load of a value from a row on the stack, for every lane."""
    pointers = row_pointers(em, f"kept{e.row}", e.dtype, e.size, e.axis)
    if em.lanes is not None and em.lanes.axis != e.axis:
        return [load(pointers[0], e.dtype)]  # one value for all lanes
    return load_elements(em, pointers, e.dtype)


def row_pointers(em: Emitter, row: str, dtype: DType, size: int, axis: int, memory: Value | None = None) -> Parts:
    """Emit pointers to the elements of a row for the present lanes, on the stack or in `memory`. The row has room for idle lanes, too."""
    element, lanes = memory_type(dtype), em.lanes
    if memory is None:
        memory = em.once(0, row, lambda: em.on_stack(element, size + em.target.vector_bytes, row))
    index = em.index(axis)
    if axis in em.spans and size == em.spans[axis].size:  # a longer row is for all blocks
        index = index - em.spans[axis].begin
    start = memory.at(index, element)
    if lanes is None or lanes.axis != axis:
        return [start]
    return [start.at(u * lanes.width, element) for u in range(lanes.unroll)]


def load_elements(em: Emitter, pointers: Parts, dtype: DType) -> Parts:
    """Emit the load of an element, or a vector of elements, through each pointer."""
    return [load(pointer, dtype, 0 if em.lanes is None else em.lanes.width) for pointer in pointers]


def stored(pointers: Parts, dtype: DType, vectors: Parts) -> None:
    """Emit the store of an element, or a vector of elements, through each pointer."""
    for pointer, x in zip(pointers, vectors, strict=True):
        pointer.store(to_memory(dtype, x))
