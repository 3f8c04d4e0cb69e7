"""Emit loads, stores and prefetches of an operand's elements: a scalar or vectors, with two parts if the elements are complex. The
functions run while a kernel is compiled: they append LLVM IR to the kernel `em`. A `Value` stands for a value at run time.

Lanes hold the real parts in one vector and the imaginary parts in another. So a load takes two vectors of elements apart, and a store joins
the parts to two whole vectors side by side.

A step is the iterations in the lanes at once: `em.lanes.unroll` vectors of `em.lanes.width` lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...lowering.ir import Load, Prefetch, Store
from .addresses import emit_positions, find_lane_term, is_lane_varying, locate_row, pointer_to
from .builder import Value, intrinsic
from .dtype_conversions import from_memory, memory_type, to_memory
from .elementary.formula_helpers import any_lane
from .emitter import Emitter
from .scopes import ValueVectors
from .types import I32, VOID, Type, vector
from .vector_access import (
    count_components,
    deinterleave,
    gather_elements,
    load_lane_by_lane,
    load_small_stride,
    load_strided,
    load_vector,
    scatter_elements,
    store_small_stride,
    store_vector,
)


def load(em: Emitter, e: Load) -> ValueVectors:
    """Emit the load `e` for the present loop indices and lanes, and return a list with a scalar, or the vectors of a step.

    Complex elements are loaded with both parts at once; the result is the real part if `e.component` is 0, and the imaginary part if 1.
    """
    if e.component is None:
        return [from_memory(e.dtype, v) for v in _load_components(em, e)]
    key = ("both parts", e.operand, e.address, *e.args)
    both = em.emit_once(em.depth_of(e), key, lambda: _load_components(em, e))
    half = len(both) // 2
    return both[half:] if e.component else both[:half]


def _load_components(em: Emitter, e: Load) -> ValueVectors:
    """Emit the load `e` of whole elements, in the form that they have in memory (`dtype_conversions.memory_type`).

    Return a list of the vectors, or the scalar, of the first parts, then of the second parts. Only complex elements have second parts.
    """
    lanes, term = em.lanes, find_lane_term(e.address, em.lanes)
    element, pointer = memory_type(em.kernel.operands[e.operand].dtype), pointer_to(em, e.operand)
    component_count = count_components(element)
    indices_differ = any(is_lane_varying(em, t, e.args) for t in e.address.terms)
    if lanes is not None and term is not None and e.address.base is None and not indices_differ:
        emit_row = partial(locate_row, em, e.address, term, pointer, element, e.args)
        if term.step_kind == "unit" and (component_count == 1 or lanes.mask is not None or lanes.remaining_count is not None):
            row_start, index = emit_row()
            return deinterleave([load_vector(em, row_start, index, u, element) for u in range(lanes.unroll)], component_count)
        masked = lanes.active_count is not None and element.element.bytes >= em.target.loops.min_masked_itemsize
        if term.step_kind in ("unit", "near") and (lanes.mask is None or masked):
            return load_small_stride(em, *emit_row(), 1 if term.step_kind == "unit" else term.value, element)
        if term.step_kind == "stride" and lanes.mask is None:
            return load_strided(em, *emit_row(), em.load_size_parameter(term.value), element)
    offsets = emit_positions(em, e.address, e.args)
    if component_count == 1 and indices_differ and (lanes is None or lanes.mask is None):
        return [load_lane_by_lane(pointer, o, element) for o in offsets]
    starts = [pointer.at(k, element.element) if k else pointer for k in range(component_count)]
    return [gather_elements(em, start, o, element, element.element) for start in starts for o in offsets]


def store(em: Emitter, s: Store) -> None:
    """Emit the store `s`, of the present lanes. The emitted code skips a store whose predicate (`s.predicate`) is false in every lane.

    If the predicate is true in some lane, all lanes are written: elsewhere the new value equals the old one.
    """
    if s.predicate is None:
        prepare_store(em, s)()
        return
    predicate, *masks = em.emit_value(s.predicate)
    em.continue_innermost()
    for mask in masks:
        predicate = predicate | mask
    em.only_if(any_lane(predicate), lambda: prepare_store(em, s)(), inside_branch=True)


def prepare_store(em: Emitter, s: Store) -> Callable[[], None]:
    """Emit the values and the address of the store `s`, and return a function without arguments that emits the write.

    So a caller can emit the reads of several stores before the first write. When the caller calls the function, `em.lanes` must be as now,
    and the builder where the write belongs. The predicate of the store is not tested.
    """
    em.continue_innermost()
    term = find_lane_term(s.address, em.lanes)
    raw_values = [em.emit_value(e) for e in s.values]
    values = [x[:1] if term is None else em.widen(x, e) for x, e in zip(raw_values, s.values, strict=True)]
    dtype = em.kernel.operands[s.operand].dtype
    element, pointer = memory_type(dtype), pointer_to(em, s.operand)
    is_near = (
        term is not None
        and term.step_kind == "near"
        and dtype.part.itemsize >= em.target.loops.min_masked_itemsize
        and em.target.has_cheap_masked_store
    )
    if term is not None and s.address.base is None and (is_near or term.step_kind == "unit"):
        row_start, index = locate_row(em, s.address, term, pointer, element)
        vectors = [[to_memory(dtype, x) for x in components] for components in zip(*values, strict=True)]

        def write_vectors() -> None:
            for u, vector_components in enumerate(vectors):
                if is_near:
                    store_small_stride(em, row_start, index, u, element, vector_components, term.value)
                else:
                    store_vector(em, row_start, index, u, element, vector_components, s.is_nontemporal)

        return write_vectors
    offsets = emit_positions(em, s.address)
    starts = [pointer.at(k, element.element) if k else pointer for k in range(len(values))]

    def write_elements() -> None:
        for start, component in zip(starts, values, strict=True):
            for offset, x in zip(offsets, component, strict=True):
                if term is not None:
                    scatter_elements(em, start, offset, element, to_memory(dtype, x))
                else:
                    element_value = to_memory(dtype, x.lane(0) if x.lanes else x)
                    start.at(offset, element).store(element_value)

    return write_elements


def prefetch_row(em: Emitter, s: Prefetch) -> None:
    """Emit a prefetch of the cache lines that the lanes will load at the next index of the axis `s.axis`.

    With `s.by_reading`, emit the load of the present elements instead, for later loops. A prefetch beyond the end of memory has no effect.
    Nothing is emitted under a mask, without lanes, or if the address does not vary along them.
    """
    lanes, term = em.lanes, find_lane_term(s.address, em.lanes)
    if lanes is None or lanes.is_masked or term is None:
        return
    element = memory_type(em.kernel.operands[s.operand].dtype)
    axis_term = next(t for t in s.address.terms if t.axis == s.axis)
    row_start, index = locate_row(em, s.address, term, pointer_to(em, s.operand), element)
    if s.by_reading:
        em.continue_innermost()
        for u in range(lanes.unroll):
            row_start.at(index + u * lanes.width, element).load(vector(element, lanes.width), volatile=True)
        return
    distance = em.load_size_parameter(axis_term.value)
    em.continue_innermost()
    prefetch(row_start.at(index + distance, element), lanes.width * lanes.unroll, element)


def prefetch_lanes(em: Emitter, e: Load | Store) -> None:
    """Emit a prefetch of the cache lines that the load or store `e` touches in the present lanes. For a store, announce a write.

    Nothing is emitted without lanes, or if the elements of the lanes are not contiguous.
    """
    lanes, term = em.lanes, find_lane_term(e.address, em.lanes)
    if lanes is not None and term is not None and term.step_kind == "unit" and e.address.base is None:
        element = memory_type(em.kernel.operands[e.operand].dtype)
        indices = e.args if isinstance(e, Load) else ()
        row_start, index = locate_row(em, e.address, term, pointer_to(em, e.operand), element, indices)
        em.continue_innermost()
        prefetch(row_start.at(index, element), lanes.width * lanes.unroll, element, to_write=isinstance(e, Store))


def prefetch(start: Value, count: int, element: Type, to_write: bool = False, level: int = 1) -> None:
    """Emit prefetches of the cache lines of `count` elements of the type `element`, from the pointer `start` on.

    They go into the cache of level 1 (the nearest) or 2. With `to_write`, the prefetch announces a write. Nothing is emitted for a target
    without prefetch instructions.
    """
    target = start.builder.module.target
    if not target.processor.has_prefetch:
        return
    hints = [start.builder.constant(I32, n) for n in (to_write, 4 - level, 1)]  # write access, locality, data cache
    for offset in range(0, count, target.caches.line_bytes // element.bytes):
        intrinsic("prefetch", start.at(offset, element), *hints, result=VOID, suffix="p0")
