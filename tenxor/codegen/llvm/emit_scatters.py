"""Emit scatters: updates of elements in memory, value by value, as in `x[i] += v`. The functions run while a kernel is compiled: they
append LLVM IR to the kernel `em`. A `Value` stands for a value at run time.

Lanes compute the values and the addresses. Then the lanes update memory in order, since several lanes may meet at the same element. Lanes
with neighbouring elements, for any value of the indices, cannot meet: there, whole vectors are updated.
"""

from __future__ import annotations

from functools import partial

from ...lowering.ir import Accumulate, Load
from ...ops.expr import Arg, Expr
from . import operand_access
from .addresses import emit_positions, find_lane_term, is_lane_varying, locate_row, pointer_to
from .builder import Value
from .dtype_conversions import load, memory_type, to_memory
from .emitter import Emitter
from .scopes import ValueVectors
from .vector_access import store_vector


def emit_accumulate(em: Emitter, s: Accumulate) -> None:
    """Emit the statement `s`: the update of elements in memory by the values of every active lane.

    Where the lanes have neighbouring real elements, whatever the indices are, whole vectors are updated. Otherwise the lanes update memory
    one after the other, since several lanes may meet at the same element.
    """
    values = [em.emit_value(e) for e in s.values]
    for index in s.indices:  # checked even if the address does not depend on the index
        em.emit_value(index)
    differing = any(is_lane_varying(em, t, s.indices) for t in s.address.terms)
    if em.lanes is not None and s.is_contiguous_along(em.lanes.axis) and not differing and len(values) == 1:
        _update_vectors(em, s, em.vector_value(s.values[0]))
    else:
        _update_lanes(em, s, values)


def _update_vectors(em: Emitter, s: Accumulate, new_vectors: ValueVectors) -> None:
    """Emit the update of contiguous elements by whole vectors, in active lanes only.

    `new_vectors` has the vectors of the step with the only item of `s.values`.
    """
    em.continue_innermost()
    term, dtype = find_lane_term(s.address, em.lanes), s.values[0].dtype
    assert term is not None
    arg_values: dict[Expr, ValueVectors] = {Arg(1, dtype): new_vectors}
    if _reads_old_value(s):
        arg_values[Arg(0, dtype)] = operand_access.load(em, Load(s.operand, s.address, dtype, s.indices))
    element = memory_type(dtype)
    row_start, index = locate_row(em, s.address, term, pointer_to(em, s.operand), element, s.indices)
    for u, x in enumerate(em.emit_inline(s.new_values[0], arg_values)):
        store_vector(em, row_start, index, u, element, [to_memory(dtype, x)], is_nontemporal=False)


def _update_lanes(em: Emitter, s: Accumulate, values: list[ValueVectors]) -> None:
    """Emit the update of the elements written by `s`, active lane by active lane, or of a single element without lanes.

    `values` has the vectors, or the scalar, of each item of `s.values`.
    """
    em.continue_innermost()
    lanes, offsets = em.lanes, emit_positions(em, s.address, s.indices)
    if lanes is None:
        _update_element(em, s, offsets[0], [v[0] for v in values])
        return
    for u in range(lanes.unroll):
        for lane in range(lanes.width):
            offset, *lane_values = [_extract_lane(vectors, u, lane) for vectors in (offsets, *values)]
            update = partial(_update_element, em, s, offset, lane_values)
            if lanes.mask is None:
                update()
            else:
                em.builder.only_if(lanes.mask.lane(lane), update)


def _extract_lane(vectors: ValueVectors, u: int, lane: int) -> Value:
    """Emit the extraction of lane number `lane` of `vectors[u]`, and return a scalar. A scalar in `vectors` is returned unchanged."""
    return vectors[u].lane(lane) if vectors[0].lanes else vectors[0]


def _update_element(em: Emitter, s: Accumulate, offset: Value, new_values: list[Value]) -> None:
    """Emit the update of the element at `offset`, in elements from the operand's first element, by `new_values`.

    `new_values` has the scalars of `s.values`: a number, or both parts of a complex number.
    """
    element = pointer_to(em, s.operand).at(offset, memory_type(em.kernel.operands[s.operand].dtype))
    dtypes = [e.dtype for e in s.values]
    pointers = [element.at(k, memory_type(d)) if k else element for k, d in enumerate(dtypes)]
    old_values = [load(pointer, d) for pointer, d in zip(pointers, dtypes, strict=True)] if _reads_old_value(s) else new_values
    arg_values: dict[Expr, ValueVectors] = {
        Arg(k, x): [v] for k, (x, v) in enumerate(zip(dtypes * 2, old_values + new_values, strict=True))
    }
    joined = [em.emit_inline(e, arg_values)[0] for e in s.new_values]
    for pointer, dtype, x in zip(pointers, dtypes, joined, strict=True):
        pointer.store(to_memory(dtype, x))


def _reads_old_value(s: Accumulate) -> bool:
    """Return whether the element stored by `s` depends on the old element in memory, as in an addition.

    The result is False if each component of the new element is a bare `Arg`, as in an assignment of the value. The old element is then not
    loaded.
    """
    return any(not isinstance(e, Arg) for e in s.new_values)
