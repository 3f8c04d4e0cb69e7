"""Rows on the stack: states of folds, one for each column of a block, and values that are kept for a later loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ...dtypes import DType
from ...kernel.ir import For, Keep, Kept
from .analysis import touched
from .values import I64, Value, constant, from_memory, memory_type, to_memory

if TYPE_CHECKING:
    from .emit import _Emitter
    from .scopes import Parts


def in_rows(em: _Emitter, loop: For) -> tuple[set[int], set[int]]:
    """The folds that have a row along a loop's axis: those that it changes, and all that it looks at or changes."""
    changed, looked_at = [{f for f in folds if em.kernel.folds[f].row == loop.axis} for folds in touched(loop)]
    return changed, changed | looked_at


def load_states(em: _Emitter, folds: set[int]) -> None:
    """Have the states of rows, at the lanes of the loop along them, in registers."""
    em.inmost()
    for fold in sorted(folds):
        states = [loaded(em, _places_of(em, fold, part), d) for part, d in enumerate(em.kernel.folds[fold].states)]
        em.states[fold] = states
        em.results[fold] = (len(em.scopes) - 1, states)


def store_states(em: _Emitter, folds: set[int]) -> None:
    """Put the states back where they came from."""
    em.inmost()
    for fold in sorted(folds):
        for part, dtype in enumerate(em.kernel.folds[fold].states):
            stored(em, _places_of(em, fold, part), dtype, em.states[fold][part])


def _places_of(em: _Emitter, fold: int, part: int) -> Parts:
    f = em.kernel.folds[fold]
    memory = em.products[fold].state_row()[part] if fold in em.products else None
    return places(em, ("states", fold, part), f.states[part], em.block[f.row].size, f.row, memory)


def keep(em: _Emitter, s: Keep) -> None:
    """Keep a value for every lane."""
    parts = em.widened(em.value(s.value), s.value)
    em.inmost()
    dtype = s.value.dtype
    stored(em, places(em, ("kept", s.row), dtype, s.size, s.axis), dtype, parts)


def kept(em: _Emitter, e: Kept) -> Parts:
    """What was kept, for every lane."""
    return loaded(em, places(em, ("kept", e.row), e.dtype, e.size, e.axis), e.dtype)


def places(
    em: _Emitter, row: tuple[object, ...], dtype: DType, size: int, axis: int, memory: Value | None = None
) -> Parts:
    """Where the elements of a row lie for the present lanes; idle lanes have a place too. On the stack, or in `memory`."""
    element = memory_type(dtype)
    if memory is None:
        memory = em.once(0, row, lambda _: [em.on_stack(element, size + em.vector_bytes, str(row[0]))])[0]
    b = em.builder
    index = em.scopes[em.scope_of(axis)].index
    if axis in em.block and size == em.block[axis].size:  # a longer row is that of all blocks
        index = b.sub(index, em.block[axis].begin)
    first = b.gep(memory, [index], source_etype=element)
    if em.lanes is None or em.lanes.axis != axis:
        return [first]
    return [b.gep(first, [constant(I64, u * em.lanes.width)], source_etype=element) for u in range(em.lanes.unroll)]


def loaded(em: _Emitter, where: Parts, dtype: DType) -> Parts:
    """The elements at these places, one or a vector at each."""
    b, element = em.builder, memory_type(dtype)
    type_ = element if em.lanes is None else ir.VectorType(element, em.lanes.width)
    return [from_memory(b, dtype, b.load(place, typ=type_, align=dtype.itemsize)) for place in where]


def stored(em: _Emitter, where: Parts, dtype: DType, parts: Parts) -> None:
    """Put elements at these places."""
    b = em.builder
    for place, value in zip(where, parts, strict=True):
        b.store(to_memory(b, dtype, value), place, align=dtype.itemsize)
