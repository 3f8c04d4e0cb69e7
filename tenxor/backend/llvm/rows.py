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
    every = em.kernel.accumulators
    changed, looked_at = [{f for f in found if every[f].row == loop.axis} for found in touched(loop)]
    return changed, changed | looked_at


def load_states(em: Emitter, accumulators: set[int]) -> None:
    """Emit the load of reductions' states from their rows, for the lanes of the loop along the rows."""
    em.inmost()
    for accumulator in sorted(accumulators):
        dtypes = em.kernel.accumulators[accumulator].states
        states = [loaded(em, _places_of(em, accumulator, part), d) for part, d in enumerate(dtypes)]
        em.states[accumulator] = states
        em.results[accumulator] = (len(em.scopes) - 1, states)


def store_states(em: Emitter, accumulators: set[int]) -> None:
    """Emit the store of reductions' states to their rows."""
    em.inmost()
    for accumulator in sorted(accumulators):
        for part, dtype in enumerate(em.kernel.accumulators[accumulator].states):
            stored(_places_of(em, accumulator, part), dtype, em.states[accumulator][part])


def _places_of(em: Emitter, accumulator: int, part: int) -> Parts:
    """Return the pointers to a part of a reduction's states in their row, for the present lanes."""
    f = em.kernel.accumulators[accumulator]
    memory = em.state_rows[accumulator]()[part] if accumulator in em.state_rows else None
    return places(em, f"states{accumulator}.{part}", f.states[part], em.spans[f.row].size, f.row, memory)


def keep(em: Emitter, s: Keep) -> None:
    """Emit the store of a value in a row on the stack, for every lane."""
    parts = em.in_lanes(s.value)
    em.inmost()
    dtype = s.value.dtype
    stored(places(em, f"kept{s.row}", dtype, s.size, s.axis), dtype, parts)


def kept(em: Emitter, e: Kept) -> Parts:
    """Emit the load of a value from a row on the stack, for every lane."""
    where = places(em, f"kept{e.row}", e.dtype, e.size, e.axis)
    if em.lanes is not None and em.lanes.axis != e.axis:
        return [load(where[0], e.dtype)]  # one value for all lanes
    return loaded(em, where, e.dtype)


def places(em: Emitter, row: str, dtype: DType, size: int, axis: int, memory: Value | None = None) -> Parts:
    """Emit pointers to the elements of a row for the present lanes, on the stack or in `memory`. The row has room for idle lanes, too."""
    element, lanes = memory_type(dtype), em.lanes
    if memory is None:
        memory = em.once(0, row, lambda: em.on_stack(element, size + em.target.vector_bytes, row))
    index = em.index(axis)
    if axis in em.spans and size == em.spans[axis].size:  # a longer row is for all blocks
        index = index - em.spans[axis].begin
    first = memory.at(index, element)
    if lanes is None or lanes.axis != axis:
        return [first]
    return [first.at(u * lanes.width, element) for u in range(lanes.unroll)]


def loaded(em: Emitter, where: Parts, dtype: DType) -> Parts:
    """Emit the load of an element, or a vector of elements, through each pointer."""
    return [load(place, dtype, 0 if em.lanes is None else em.lanes.width) for place in where]


def stored(where: Parts, dtype: DType, parts: Parts) -> None:
    """Emit the store of an element, or a vector of elements, through each pointer."""
    for place, x in zip(where, parts, strict=True):
        place.store(to_memory(dtype, x))
