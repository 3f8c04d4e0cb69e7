"""Emit addresses: the position of an operand's elements in memory, as a scalar or for every lane. The functions run while a kernel is
compiled: they append LLVM IR to the kernel `em`. An address is a sum of terms, one for each axis, and is counted in elements.

The part of an address that does not vary along the lanes is a scalar, added up loop by loop from the outside in. The other part is either
contiguous, so the elements are a vector in memory, or a vector of offsets.

The numbers `operand` and `table` count the operands and the offset tables of the kernel. The argument `indices` has the index expressions
of a load, as in a gather. A term with the negative axis `~k` takes the index from `indices[k]`, not from a loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dtypes import float64, int64
from ...lowering.ir import Address, Position, ScalarParameter, Term
from ...ops.expr import Expr
from .builder import Value
from .dtype_conversions import convert_dtype, register_type
from .emitter import Emitter
from .scopes import Lanes, ValueVectors
from .types import DOUBLE, I64, Type, pointer
from .vector_access import gather_elements, load_vector

IndexExprs = tuple[Expr, ...]  # the index expressions of a load, beside the indices of its loops


def find_lane_term(address: Address, lanes: Lanes | None) -> Term | None:
    """Return the term of `address` for the axis along which the lanes run. Return None without lanes, or without a term for their axis.

    Without the term, the address is equal in all lanes, unless index expressions vary.
    """
    if lanes is None:
        return None
    return next((t for t in address.terms if t.axis == lanes.axis), None)


def is_lane_varying(em: Emitter, term: Term, indices: IndexExprs) -> bool:
    """Return whether the index of `term` is an index expression, an item of `indices`, with different values in different lanes.

    The result is False if the index is the index of a loop, even of the loop along the lanes.
    """
    return term.axis < 0 and em.emit_value(indices[~term.axis])[0].lanes > 0


def load_operand_address(em: Emitter, operand: int) -> Value:
    """Emit the load of the address of the operand number `operand`, a 64-bit integer; later calls return the same value."""
    return em.load_argument(operand, f"a{operand}")


def pointer_to(em: Emitter, operand: int) -> Value:
    """Emit the pointer to the operand number `operand` at the entry of the kernel's function; later calls return the same value.

    The launch passes this pointer, to the element at address 0: an `Address.offset` is not included.
    """
    address = load_operand_address(em, operand)
    return em.emit_once(
        0, ("operand", operand), lambda: address.cast("inttoptr", pointer(em.target.address_space.llvm_number), f"p{operand}")
    )


def pointer_to_table(em: Emitter, table: int) -> Value:
    """Emit the pointer to the first entry of the offset table number `table` at the function's entry; later calls return the same value."""
    address = em.load_argument(len(em.kernel.operands) + table, f"ta{table}")
    return em.emit_once(0, ("table", table), lambda: address.cast("inttoptr", pointer(em.target.address_space.llvm_number), f"t{table}"))


def load_scalar_argument(em: Emitter, e: ScalarParameter) -> Value:
    """Emit the load of the 8 bytes of the scalar argument for `e`, and return them as a 64-bit integer, whatever the dtype is."""
    return em.load_argument(len(em.kernel.operands) + em.kernel.table_count + e.index, f"c{e.index}")


def load_scalar_parameter(em: Emitter, e: ScalarParameter) -> ValueVectors:
    """Emit the load of the scalar argument for `e`, converted to the dtype of `e`. Return a list with a single scalar.

    A launch passes floats as float64, and other scalars as 64-bit integers.
    """
    raw = load_scalar_argument(em, e)
    if e.dtype.kind == "float":
        return [convert_dtype(raw.bitcast(DOUBLE), float64, e.dtype)]
    return [raw if e.dtype.bits == 64 else raw.cast("trunc", register_type(e.dtype))]


# --- scalars ----------------------------------------------------------------------------------------------------------


def _depth_of_term(em: Emitter, term: Term, indices: IndexExprs) -> int:
    """Return the depth in `em.scopes` of the innermost scope that the index of `term` depends on; 0 is the function itself.

    The index is the index of a loop, or the value of an item of `indices`.
    """
    return em.depth_of_axis(term.axis) if term.axis >= 0 else em.depth_of(indices[~term.axis])


def sum_scalar_terms(em: Emitter, address: Address, terms: Sequence[Term], indices: IndexExprs = ()) -> Value:
    """Emit the sum of the offset of `address` and of `terms`, the terms equal in every lane.

    Return the sum as a 64-bit scalar, in elements. Each term is added in the outermost scope in which its index is known.
    """
    sorted_terms = sorted(terms, key=lambda t: _depth_of_term(em, t, indices))
    total = None if address.offset is None else em.load_size_parameter(address.offset)
    for k, term in enumerate(sorted_terms):

        def add_term(partial_sum: Value | None = total, term: Term = term) -> Value:
            step = emit_term_offset(em, term, em.index(term.axis) if term.axis >= 0 else em.emit_value(indices[~term.axis])[0])
            return step if partial_sum is None else partial_sum + step

        total = em.emit_once(_depth_of_term(em, term, indices), ("sum", address.offset, *sorted_terms[: k + 1], *indices), add_term)
    return em.builder.constant(I64, 0) if total is None else total


def emit_term_offset(em: Emitter, term: Term, index: Value) -> Value:
    """Emit the summand of `term` in an address at the scalar index `index`. Return a 64-bit scalar, in elements.

    The summand is the index times the step of the term, or an entry of an offset table.
    """
    if term.step_kind == "unit":
        return index
    if term.step_kind == "stride":
        return index * em.load_size_parameter(term.value)
    if term.step_kind == "near":
        return index * term.value
    return pointer_to_table(em, term.value).at(index, I64).load(I64)


def locate_row(em: Emitter, address: Address, term: Term, pointer: Value, element: Type, indices: IndexExprs = ()) -> tuple[Value, Value]:
    """Emit the pointer to the start of a row: the elements along the axis of `term`, the term of `address` for the lanes.

    `pointer` points to the operand, whose elements have the type `element`. Return two values: the pointer to the row's element 0, and the
    index in the row of the first lane. The index is not yet multiplied by the step of `term`.
    """
    fixed_terms = [t for t in address.terms if t is not term]
    index = em.index(term.axis)
    if not fixed_terms and address.offset is None:
        return pointer, index
    start = sum_scalar_terms(em, address, fixed_terms, indices)
    depth = max((_depth_of_term(em, t, indices) for t in fixed_terms), default=0)
    return em.emit_once(depth, ("row", pointer.text, address, *indices), lambda: pointer.at(start, element)), index


# --- lanes ------------------------------------------------------------------------------------------------------------


def emit_position_value(em: Emitter, e: Position) -> ValueVectors:
    """Emit the address of `e` as a number in the dtype of `e`, without a load from the address. argmax gets positions so.

    Return a list with a scalar, or vectors with a number for each lane. A contiguous address of a narrower dtype than 64 bits is counted in
    that dtype, since narrowing vectors takes several instructions.
    """
    address, lanes, term = e.address, em.lanes, find_lane_term(e.address, em.lanes)
    if e.dtype.bits == 64 or lanes is None or term is None or term.step_kind != "unit" or address.base is not None:
        return [convert_dtype(v, int64, e.dtype) for v in emit_positions(em, address)]
    kind, start = register_type(e.dtype), sum_scalar_terms(em, address, [t for t in address.terms if t is not term])
    return _count_from(em, lanes, (start + em.index(term.axis)).cast("trunc", kind))


def emit_positions(em: Emitter, address: Address, indices: IndexExprs = ()) -> ValueVectors:
    """Emit `address` as a number of elements behind the operand's pointer, a 64-bit integer.

    Return a list with a scalar if the lanes have the same number, or vectors with a number for each lane of the step. The views of a view
    chain are followed to the last one.
    """
    term = find_lane_term(address, em.lanes)
    gathered_terms = [t for t in address.terms if is_lane_varying(em, t, indices)]
    scalar = sum_scalar_terms(em, address, [t for t in address.terms if t is not term and t not in gathered_terms], indices)
    vector_offsets = [_emit_lane_offsets(em, term)] if term is not None else []
    vector_offsets += [_emit_term_offsets(em, t, em.emit_value(indices[~t.axis])) for t in gathered_terms]
    positions: ValueVectors = [scalar]
    if vector_offsets:
        offsets = vector_offsets[0]
        for term_offsets in vector_offsets[1:]:
            offsets = [o + m for o, m in zip(offsets, term_offsets, strict=True)]
        wide = scalar.splat(offsets[0].lanes)
        positions = [wide + o for o in offsets]
    return positions if address.base is None else _emit_next_view(em, address, address.base, positions)


def _emit_lane_offsets(em: Emitter, term: Term) -> ValueVectors:
    """Emit the summand of `term`, the term for the axis of the lanes, in an address, for each lane and in elements.

    Return the vectors of the step.
    """
    lanes = em.lanes
    assert lanes is not None
    index = em.index(lanes.axis)
    if term.step_kind == "table" and term.axis >= 0:
        table = pointer_to_table(em, term.value)
        return [load_vector(em, table, index, u, I64) for u in range(lanes.unroll)]
    return _emit_term_offsets(em, term, _count_from(em, lanes, index))


def _count_from(em: Emitter, lanes: Lanes, start: Value) -> ValueVectors:
    """Emit `lanes.unroll` vectors of `lanes.width` lanes, counting up: `start` in the first lane, and 1 more in each next lane."""
    lowest = start.splat(lanes.width) + em.builder.iota(start.type, lanes.width)
    return [lowest + u * lanes.width if u else lowest for u in range(lanes.unroll)]


def _emit_term_offsets(em: Emitter, term: Term, indices: ValueVectors) -> ValueVectors:
    """Emit the summand of `term` in an address at each index in the vectors `indices`, in elements.

    Return as many vectors. Here `indices` are values, not expressions.
    """
    if term.step_kind == "table":
        table = pointer_to_table(em, term.value)
        return [gather_elements(em, table, i, I64) for i in indices]
    if term.step_kind == "unit":
        return indices
    if term.step_kind == "near":
        return [i * term.value for i in indices]
    stride = em.load_size_parameter(term.value)
    wide = stride.splat(indices[0].lanes)
    return [i * wide for i in indices]


def _emit_next_view(em: Emitter, outer: Address, inner: Address, positions: ValueVectors) -> ValueVectors:
    """Emit the addresses in the last view of a view chain, given the addresses `positions` in the view `outer`.

    `inner` is the address in the next view (`outer.base`). The code divides each position into digits, in row-major order of the sizes
    `outer.digit_sizes`, and computes `inner` from the digits. If `inner` has a further view, the function calls itself. Return as many
    scalars or vectors as `positions` has.
    """
    sizes = [em.load_size_parameter(s) for s in outer.digit_sizes]
    digit_lists: list[list[Value]] = []
    for n in positions:
        digits: list[Value] = []
        for k in range(len(sizes) - 1, -1, -1):
            size = _match_lanes(sizes[k], n)
            digits.append(n.builder.binary("urem", n, size) if k else n)
            n = n.builder.binary("udiv", n, size) if k else n
        digit_lists.append(digits[::-1])
    offset = positions[0].builder.constant(I64, 0) if inner.offset is None else em.load_size_parameter(inner.offset)
    steps = {t: pointer_to_table(em, t.value) if t.step_kind == "table" else em.load_size_parameter(t.value) for t in inner.terms}
    totals: ValueVectors = []
    for digits in digit_lists:
        total = _match_lanes(offset, digits[0]) if digits else offset
        for t, step in steps.items():
            d = digits[t.axis]
            total = total + (gather_elements(em, step, d, I64) if t.step_kind == "table" else d * _match_lanes(step, d))
        totals.append(total)
    return totals if inner.base is None else _emit_next_view(em, inner, inner.base, totals)


def _match_lanes(scalar: Value, value: Value) -> Value:
    """Emit a vector with `scalar` in every lane, with as many lanes as `value`; return `scalar` itself if `value` is a scalar."""
    return scalar.splat(value.lanes) if value.lanes else scalar
