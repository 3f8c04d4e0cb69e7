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
    inward = sorted(terms, key=lambda t: _depth(em, t, indices))
    total = None if address.offset is None else em.size(address.offset)
    for k, term in enumerate(inward):

        def added(before: Value | None = total, term: Term = term) -> Value:
            step = scaled(em, term, em.index(term.axis) if term.axis >= 0 else em.value(indices[~term.axis])[0])
            return step if before is None else before + step

        total = em.once(_depth(em, term, indices), ("sum", address.offset, *inward[: k + 1], *indices), added)
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
    rest = [t for t in address.terms if t is not term]
    index = em.index(term.axis)
    if not rest and address.offset is None:
        return pointer, index
    start = scalar_sum(em, address, rest, indices)
    depth = max((_depth(em, t, indices) for t in rest), default=0)
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
    return _counting_on(em, lanes, (start + em.index(term.axis)).cast("trunc", kind))


def position(em: Emitter, address: Address, indices: Indices = ()) -> Parts:
    """Emit an address as a number of elements: a scalar, or vectors with a number for each lane."""
    term = moves_along_lanes(address, em.lanes)
    differing = [t for t in address.terms if differ(em, t, indices)]
    scalar = scalar_sum(em, address, [t for t in address.terms if t is not term and t not in differing], indices)
    moving = [_lane_offsets(em, term)] if term is not None else []
    moving += [_scaled_lanes(em, t, em.value(indices[~t.axis])) for t in differing]
    numbers: Parts = [scalar]
    if moving:
        offsets = moving[0]
        for more in moving[1:]:
            offsets = [o + m for o, m in zip(offsets, more, strict=True)]
        wide = scalar.splat(offsets[0].lanes)
        numbers = [wide + o for o in offsets]
    return numbers if address.then is None else _through(em, address, address.then, numbers)


def _lane_offsets(em: Emitter, term: Term) -> Parts:
    """Emit the number of elements that the index of each lane adds."""
    lanes = em.lanes
    assert lanes is not None
    index = em.index(lanes.axis)
    if term.how == "table" and term.axis >= 0:
        table = table_at(em, term.value)
        return [load_vector(em, table, index, u, I64) for u in range(lanes.unroll)]
    return _scaled_lanes(em, term, _counting_on(em, lanes, index))


def _counting_on(em: Emitter, lanes: Lanes, start: Value) -> Parts:
    """Emit vectors with `start` in the first lane, and 1 more in each next lane."""
    first = start.splat(lanes.width) + em.b.counting(start.type, lanes.width)
    return [first + u * lanes.width if u else first for u in range(lanes.unroll)]


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


def _through(em: Emitter, outer: Address, inner: Address, numbers: Parts) -> Parts:
    """Emit the next view of a view chain, for addresses `numbers` of the view before.

    The code divides the numbers into digits, in row-major order of the sizes `outer.digits`, and computes the address `inner` from the
    digits.
    """
    sizes = [em.size(s) for s in outer.digits]
    found: list[list[Value]] = []
    for n in numbers:
        digits: list[Value] = []
        for k in range(len(sizes) - 1, -1, -1):
            size = _like(sizes[k], n)
            digits.append(n.b.binary("urem", n, size) if k else n)
            n = n.b.binary("udiv", n, size) if k else n
        found.append(digits[::-1])
    offset = numbers[0].b.constant(I64, 0) if inner.offset is None else em.size(inner.offset)
    steps = {t: table_at(em, t.value) if t.how == "table" else em.size(t.value) for t in inner.terms}
    totals: Parts = []
    for digits in found:
        total = _like(offset, digits[0]) if digits else offset
        for t, step in steps.items():
            d = digits[t.axis]
            total = total + (gathered(em, step, d, I64) if t.how == "table" else d * _like(step, d))
        totals.append(total)
    return totals if inner.then is None else _through(em, inner, inner.then, totals)


def _like(scalar: Value, value: Value) -> Value:
    """Return a scalar in as many lanes as a value has."""
    return scalar.splat(value.lanes) if value.lanes else scalar
