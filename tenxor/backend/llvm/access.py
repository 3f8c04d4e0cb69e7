"""Emit loads, stores and prefetches of an operand's elements: a scalar or vectors, with two parts if the elements are complex.

Lanes hold the real parts in one vector and the imaginary parts in another. So a load takes two vectors of elements apart, and a store joins
the parts to two whole vectors side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...kernel.ir import Load, Prefetch, Store
from .addresses import differ, moves_along_lanes, pointer_to, position, unit_place
from .builder import Value, intrinsic
from .elementary.core import any_lane
from .emitter import Emitter
from .memory import (
    apart,
    gathered,
    load_each,
    load_near,
    load_singly,
    load_vector,
    parts_of,
    scattered,
    store_near,
    store_vector,
)
from .scopes import Parts
from .types import I32, VOID, Type, vector
from .values import from_memory, memory_type, to_memory


def load(em: Emitter, e: Load) -> Parts:
    """Emit the load of an operand's elements, and return a scalar or the vectors of a step.

    Complex elements are loaded with both parts at once; the result is the part `e.part`.
    """
    if e.part is None:
        return [from_memory(e.dtype, v) for v in _load_components(em, e)]
    key = ("both parts", e.operand, e.address, *e.args)
    both = em.once(em.depth_of(e), key, lambda: _load_components(em, e))
    half = len(both) // 2
    return both[half:] if e.part else both[:half]


def _load_components(em: Emitter, e: Load) -> Parts:
    """Emit the load of elements as memory holds them. Return the vectors of the first parts, then those of the second parts, if any."""
    lanes, term = em.lanes, moves_along_lanes(e.address, em.lanes)
    element, pointer = memory_type(em.kernel.operands[e.operand].dtype), pointer_to(em, e.operand)
    component_count = parts_of(element)
    indices_differ = any(differ(em, t, e.args) for t in e.address.terms)
    if lanes is not None and term is not None and e.address.then is None and not indices_differ:
        emit_row = partial(unit_place, em, e.address, term, pointer, element, e.args)
        if term.how == "unit" and (component_count == 1 or lanes.mask is not None or lanes.left is not None):
            row_start, index = emit_row()
            return apart([load_vector(em, row_start, index, u, element) for u in range(lanes.unroll)], component_count)
        masked = lanes.working is not None and element.element.bytes >= em.target.loops.masked
        if term.how in ("unit", "near") and (lanes.mask is None or masked):
            return load_near(em, *emit_row(), 1 if term.how == "unit" else term.value, element)
        if term.how == "stride" and lanes.mask is None:
            return load_singly(em, *emit_row(), em.size(term.value), element)
    offsets = position(em, e.address, e.args)
    if component_count == 1 and indices_differ and (lanes is None or lanes.mask is None):
        return [load_each(pointer, o, element) for o in offsets]
    starts = [pointer.at(k, element.element) if k else pointer for k in range(component_count)]
    return [gathered(em, start, o, element, element.element) for start in starts for o in offsets]


def store(em: Emitter, s: Store) -> None:
    """Emit a store. The emitted code skips a store whose predicate (`s.changes`) is false in every lane.

    If the predicate is true in some lane, all lanes are written: elsewhere the new value equals the old one.
    """
    if s.changes is None:
        ready(em, s)()
        return
    predicate, *masks = em.value(s.changes)
    em.inmost()
    for mask in masks:
        predicate = predicate | mask
    em.only_if(any_lane(predicate), lambda: ready(em, s)(), here=True)


def ready(em: Emitter, s: Store) -> Callable[[], None]:
    """Emit the values and the address of a store, and return a function that emits the write.

    So a caller can emit the reads of several stores before the first write.
    """
    em.inmost()
    term = moves_along_lanes(s.address, em.lanes)
    raw_values = [em.value(e) for e in s.values]
    values = [x[:1] if term is None else em.widened(x, e) for x, e in zip(raw_values, s.values, strict=True)]
    dtype = em.kernel.operands[s.operand].dtype
    element, pointer = memory_type(dtype), pointer_to(em, s.operand)
    is_near = term is not None and term.how == "near" and dtype.part.itemsize >= em.target.loops.masked and em.target.stores_under_masks
    if term is not None and s.address.then is None and (is_near or term.how == "unit"):
        row_start, index = unit_place(em, s.address, term, pointer, element)
        vectors = [[to_memory(dtype, x) for x in components] for components in zip(*values, strict=True)]

        def write_vectors() -> None:
            for u, vector_components in enumerate(vectors):
                if is_near:
                    store_near(em, row_start, index, u, element, vector_components, term.value)
                else:
                    store_vector(em, row_start, index, u, element, vector_components, s.streamed)

        return write_vectors
    offsets = position(em, s.address)
    starts = [pointer.at(k, element.element) if k else pointer for k in range(len(values))]

    def write_elements() -> None:
        for start, component in zip(starts, values, strict=True):
            for offset, x in zip(offsets, component, strict=True):
                if term is not None:
                    scattered(em, start, offset, element, to_memory(dtype, x))
                else:
                    element_value = to_memory(dtype, x.lane(0) if x.lanes else x)
                    start.at(offset, element).store(element_value)

    return write_elements


def prefetch_row(em: Emitter, s: Prefetch) -> None:
    """Emit a prefetch of the cache lines that the lanes will load one step further along the axis `s.axis`.

    With `s.by_reading`, load the present elements instead, for later loops. A prefetch beyond the end of memory has no effect. Nothing is
    emitted under a mask, or without lanes along the address.
    """
    lanes, term = em.lanes, moves_along_lanes(s.address, em.lanes)
    if lanes is None or lanes.masked or term is None:
        return
    element = memory_type(em.kernel.operands[s.operand].dtype)
    axis_term = next(t for t in s.address.terms if t.axis == s.axis)
    row_start, index = unit_place(em, s.address, term, pointer_to(em, s.operand), element)
    if s.by_reading:
        em.inmost()
        for u in range(lanes.unroll):
            row_start.at(index + u * lanes.width, element).load(vector(element, lanes.width), volatile=True)
        return
    distance = em.size(axis_term.value)
    em.inmost()
    prefetch(row_start.at(index + distance, element), lanes.width * lanes.unroll, element)


def prefetch_lanes(em: Emitter, e: Load | Store) -> None:
    """Emit a prefetch of the cache lines that a load reads or a store writes, if the elements of the lanes are contiguous."""
    lanes, term = em.lanes, moves_along_lanes(e.address, em.lanes)
    if lanes is not None and term is not None and term.how == "unit" and e.address.then is None:
        element = memory_type(em.kernel.operands[e.operand].dtype)
        indices = e.args if isinstance(e, Load) else ()
        row_start, index = unit_place(em, e.address, term, pointer_to(em, e.operand), element, indices)
        em.inmost()
        prefetch(row_start.at(index, element), lanes.width * lanes.unroll, element, to_write=isinstance(e, Store))


def prefetch(start: Value, count: int, element: Type, to_write: bool = False, level: int = 1) -> None:
    """Emit prefetches of the cache lines of `count` elements, into the cache of level 1 (the nearest) or 2.

    Nothing is emitted for a target without prefetch instructions.
    """
    target = start.b.module.target
    if not target.processor.prefetches:
        return
    hints = [start.b.constant(I32, n) for n in (to_write, 4 - level, 1)]  # write access, locality, data cache
    for offset in range(0, count, target.caches.line // element.bytes):
        intrinsic("prefetch", start.at(offset, element), *hints, result=VOID, suffix="p0")
