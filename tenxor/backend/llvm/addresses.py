"""Emit addresses: where an operand's elements are in memory, as a scalar or for every lane.

The part of an address that does not vary along the lanes is a scalar, added up loop by loop from the outside in. The other part is either
contiguous, so the elements are a vector in memory, or a vector of offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dtypes import float64, int64
from ...kernel.ir import Address, Position, ScalarParameter, Term
from ...ops.expr import Expr
from .builder import Value
from .emitter import Emitter
from .memory import gathered, load_vector
from .scopes import Lanes, Parts
from .types import DOUBLE, I64, Type, pointer
from .values import converted, register_type

Indices = tuple[Expr, ...]  # the index expressions of a load, beside the indices of its loops


def moves_along_lanes(address: Address, lanes: Lanes | None) -> Term | None:
    """Return the term of the address for the axis of the lanes; None if the address has no such term."""
    if lanes is None:
        return None
    return next((t for t in address.terms if t.axis == lanes.axis), None)


def differ(em: Emitter, term: Term, indices: Indices) -> bool:
    """Return whether a term is an index expression whose value differs from lane to lane."""
    return term.axis < 0 and em.value(indices[~term.axis])[0].lanes > 0


def address_of(em: Emitter, operand: int) -> Value:
    """Emit the address of an operand, as an integer."""
    return em.argument(operand, f"a{operand}")


def pointer_to(em: Emitter, operand: int) -> Value:
    """Emit the pointer to an operand."""
    address = address_of(em, operand)
    return em.once(0, ("operand", operand), lambda: address.cast("inttoptr", pointer(em.target.memory.space), f"p{operand}"))


def table_at(em: Emitter, table: int) -> Value:
    """Emit the pointer to an offset table."""
    address = em.argument(len(em.kernel.operands) + table, f"ta{table}")
    return em.once(0, ("table", table), lambda: address.cast("inttoptr", pointer(em.target.memory.space), f"t{table}"))


def scalar_argument(em: Emitter, e: ScalarParameter) -> Value:
    """Emit the load of a run-time scalar: its 8 bytes among the arguments, as an integer."""
    return em.argument(len(em.kernel.operands) + em.kernel.tables + e.index, f"c{e.index}")


def scalar_parameter(em: Emitter, e: ScalarParameter) -> Parts:
    """Emit the load of a run-time scalar, in its dtype."""
    raw = scalar_argument(em, e)
    if e.dtype.kind == "float":
        return [converted(raw.bitcast(DOUBLE), float64, e.dtype)]
    return [raw if e.dtype.bits == 64 else raw.cast("trunc", register_type(e.dtype))]


# --- scalars ----------------------------------------------------------------------------------------------------------


def _depth(em: Emitter, term: Term, indices: Indices) -> int:
    """Return the depth of the innermost scope that the index of a term depends on."""
    return em.scope_of(term.axis) if term.axis >= 0 else em.depth_of(indices[~term.axis])


def scalar_sum(em: Emitter, address: Address, terms: Sequence[Term], indices: Indices = ()) -> Value:
    """Emit the sum of the address's offset and the scalar `terms`. Each term is added in the outermost scope that knows its index."""
    sorted_terms = sorted(terms, key=lambda t: _depth(em, t, indices))
    total = None if address.offset is None else em.size(address.offset)
    for k, term in enumerate(sorted_terms):

        def add_term(partial_sum: Value | None = total, term: Term = term) -> Value:
            step = scaled(em, term, em.index(term.axis) if term.axis >= 0 else em.value(indices[~term.axis])[0])
            return step if partial_sum is None else partial_sum + step

        total = em.once(_depth(em, term, indices), ("sum", address.offset, *sorted_terms[: k + 1], *indices), add_term)
    return em.b.constant(I64, 0) if total is None else total


def scaled(em: Emitter, term: Term, index: Value) -> Value:
    """Emit the number of elements that a term adds at a scalar index."""
    if term.how == "unit":
        return index
    if term.how == "stride":
        return index * em.size(term.value)
    if term.how == "near":
        return index * term.value
    return table_at(em, term.value).at(index, I64).load(I64)


def unit_place(
    em: Emitter, address: Address, term: Term, pointer: Value, element: Type, indices: Indices = ()
) -> tuple[Value, Value]:
    """Emit the pointer to the start of the row along the axis of `term`. Return the pointer, and the row index of the first lane."""
    fixed_terms = [t for t in address.terms if t is not term]
    index = em.index(term.axis)
    if not fixed_terms and address.offset is None:
        return pointer, index
    start = scalar_sum(em, address, fixed_terms, indices)
    depth = max((_depth(em, t, indices) for t in fixed_terms), default=0)
    return em.once(depth, ("row", pointer.text, address, *indices), lambda: pointer.at(start, element)), index


# --- lanes ------------------------------------------------------------------------------------------------------------


def position_of(em: Emitter, e: Position) -> Parts:
    """Emit an address as a value.

    A contiguous address of a narrower dtype than 64 bits is counted in that dtype, since narrowing vectors takes several instructions.
    """
    address, lanes, term = e.address, em.lanes, moves_along_lanes(e.address, em.lanes)
    if e.dtype.bits == 64 or lanes is None or term is None or term.how != "unit" or address.then is not None:
        return [converted(v, int64, e.dtype) for v in position(em, address)]
    kind, start = register_type(e.dtype), scalar_sum(em, address, [t for t in address.terms if t is not term])
    return _count_from(em, lanes, (start + em.index(term.axis)).cast("trunc", kind))


def position(em: Emitter, address: Address, indices: Indices = ()) -> Parts:
    """Emit an address as a number of elements: a scalar, or vectors with a number for each lane."""
    term = moves_along_lanes(address, em.lanes)
    gathered_terms = [t for t in address.terms if differ(em, t, indices)]
    scalar = scalar_sum(em, address, [t for t in address.terms if t is not term and t not in gathered_terms], indices)
    vector_offsets = [_lane_offsets(em, term)] if term is not None else []
    vector_offsets += [_scaled_lanes(em, t, em.value(indices[~t.axis])) for t in gathered_terms]
    positions: Parts = [scalar]
    if vector_offsets:
        offsets = vector_offsets[0]
        for term_offsets in vector_offsets[1:]:
            offsets = [o + m for o, m in zip(offsets, term_offsets, strict=True)]
        wide = scalar.splat(offsets[0].lanes)
        positions = [wide + o for o in offsets]
    return positions if address.then is None else _emit_next_view(em, address, address.then, positions)


def _lane_offsets(em: Emitter, term: Term) -> Parts:
    """Emit the number of elements that the index of each lane adds."""
    lanes = em.lanes
    assert lanes is not None
    index = em.index(lanes.axis)
    if term.how == "table" and term.axis >= 0:
        table = table_at(em, term.value)
        return [load_vector(em, table, index, u, I64) for u in range(lanes.unroll)]
    return _scaled_lanes(em, term, _count_from(em, lanes, index))


def _count_from(em: Emitter, lanes: Lanes, start: Value) -> Parts:
    """Emit vectors with `start` in the first lane, and 1 more in each next lane."""
    lowest = start.splat(lanes.width) + em.b.counting(start.type, lanes.width)
    return [lowest + u * lanes.width if u else lowest for u in range(lanes.unroll)]


def _scaled_lanes(em: Emitter, term: Term, indices: Parts) -> Parts:
    """Emit the number of elements that a term adds at vectors of indices."""
    if term.how == "table":
        table = table_at(em, term.value)
        return [gathered(em, table, i, I64) for i in indices]
    if term.how == "unit":
        return indices
    if term.how == "near":
        return [i * term.value for i in indices]
    stride = em.size(term.value)
    wide = stride.splat(indices[0].lanes)
    return [i * wide for i in indices]


def _emit_next_view(em: Emitter, outer: Address, inner: Address, positions: Parts) -> Parts:
    """Emit the next view of a view chain, for addresses `positions` of the view before.

    The code divides the numbers into digits, in row-major order of the sizes `outer.digits`, and computes the address `inner` from the
    digits.
    """
    sizes = [em.size(s) for s in outer.digits]
    digit_lists: list[list[Value]] = []
    for n in positions:
        digits: list[Value] = []
        for k in range(len(sizes) - 1, -1, -1):
            size = _match_lanes(sizes[k], n)
            digits.append(n.b.binary("urem", n, size) if k else n)
            n = n.b.binary("udiv", n, size) if k else n
        digit_lists.append(digits[::-1])
    offset = positions[0].b.constant(I64, 0) if inner.offset is None else em.size(inner.offset)
    steps = {t: table_at(em, t.value) if t.how == "table" else em.size(t.value) for t in inner.terms}
    totals: Parts = []
    for digits in digit_lists:
        total = _match_lanes(offset, digits[0]) if digits else offset
        for t, step in steps.items():
            d = digits[t.axis]
            total = total + (gathered(em, step, d, I64) if t.how == "table" else d * _match_lanes(step, d))
        totals.append(total)
    return totals if inner.then is None else _emit_next_view(em, inner, inner.then, totals)


def _match_lanes(scalar: Value, value: Value) -> Value:
    """Return a scalar in as many lanes as a value has."""
    return scalar.splat(value.lanes) if value.lanes else scalar
