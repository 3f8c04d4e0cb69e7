"""Memory in LLVM IR: an address becomes a pointer, and a load or store a contiguous, gathered or scalar one.

The part of an address that does not move along the lanes is a scalar, added up loop by loop from the outside in. The
part that does is either contiguous (one vector load) or a vector of offsets (a gather).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ...dtypes import DType, float64
from ...expr import Expr
from ...kernel.ir import Address, Fetch, Number, Term
from . import steps
from .values import (
    DOUBLE,
    I32,
    I64,
    POINTER,
    Value,
    constant,
    converted,
    counting,
    from_memory,
    intrinsic,
    lanes_of,
    load_masked,
    mangled,
    memory_type,
    register_type,
    splat,
    store_masked,
    to_memory,
)
from .values import bytes_of as bytes_of

if TYPE_CHECKING:
    from .emit import _Emitter
    from .scopes import Lanes, Parts

LINE = 64  # bytes of a cache
LEAST_STREAMED = 32  # bytes of a vector that is worth writing past the cache

Indices = tuple[Expr, ...]  # those that a load is given, beside the indices of its loops


# --- addresses --------------------------------------------------------------------------------------------------------


def moves_along_lanes(address: Address, lanes: Lanes | None) -> Term | None:
    """The term of the axis that lanes run along, if the address has one."""
    if lanes is None:
        return None
    return next((t for t in address.terms if t.axis == lanes.axis), None)


def has_lanes(address: Address, lanes: Lanes | None) -> bool:
    """Whether neighbouring lanes have different addresses."""
    return moves_along_lanes(address, lanes) is not None


def differ(em: _Emitter, term: Term, indices: Indices) -> bool:
    """Whether a term is that of an index which lanes have each their own of."""
    return term.axis < 0 and lanes_of(em.value(indices[~term.axis])[0]) > 0


def _depth(em: _Emitter, term: Term, indices: Indices) -> int:
    """The scope in which the index of a term is known."""
    return em.scope_of(term.axis) if term.axis >= 0 else em.depth_of(indices[~term.axis])


def scalar_sum(em: _Emitter, address: Address, terms: Sequence[Term], indices: Indices = ()) -> Value:
    """The sum of the terms that are scalars, each added in the scope in which its index is known."""
    inward = sorted(terms, key=lambda t: _depth(em, t, indices))
    total = em.slot(address.offset) if address.offset >= 0 else None
    for k, term in enumerate(inward):
        depth = _depth(em, term, indices)
        before, key = total, ("sum", address.offset, *inward[: k + 1], *indices)

        def add(b: Any, term: Term = term, depth: int = depth, before: Value = before) -> Parts:
            index = em.scopes[depth].index if term.axis >= 0 else em.value(indices[~term.axis])[0]
            step = scaled(em, term, index)
            return [step if before is None else b.add(before, step)]

        total = em.once(depth, key, add)[0]
    return constant(I64, 0) if total is None else total


def scaled(em: _Emitter, term: Term, index: Value) -> Value:
    """What one scalar index adds."""
    if term.how == "unit":
        return index
    if term.how == "stride":
        stride = em.slot(term.slot)
        return em.builder.mul(index, stride)
    if term.how == "near":
        return em.builder.mul(index, constant(I64, term.slot))
    table = table_at(em, term.slot)
    b = em.builder
    return b.load(b.gep(table, [index], source_etype=I64), typ=I64, align=8)


def table_at(em: _Emitter, table: int) -> Value:
    """Where a table lies."""
    address = em.argument(len(em.kernel.operands) + table)
    return em.once(0, ("table", table), lambda b: [b.inttoptr(address, POINTER)])[0]


def pointer_to(em: _Emitter, operand: int) -> Value:
    address = em.argument(operand)
    return em.once(0, ("operand", operand), lambda b: [b.inttoptr(address, POINTER)])[0]


def _lane_indices(em: _Emitter, b: Any) -> Parts:
    """The index of each lane along the vector axis."""
    lanes = em.lanes
    assert lanes is not None
    index = em.scopes[em.scope_of(lanes.axis)].index
    first = b.add(splat(b, index, lanes.width), counting(lanes.width))
    return [b.add(first, constant(first.type, u * lanes.width)) if u else first for u in range(lanes.unroll)]


def _lane_offsets(em: _Emitter, term: Term, b: Any) -> Parts:
    """What the index of each lane adds."""
    lanes = em.lanes
    assert lanes is not None
    if term.how == "table" and term.axis >= 0:
        index = em.scopes[em.scope_of(lanes.axis)].index
        table = table_at(em, term.slot)
        return [load_vector(em, b, table, index, u, I64, 8) for u in range(lanes.unroll)]
    return _scaled_lanes(em, term, b, _lane_indices(em, b))


def _scaled_lanes(em: _Emitter, term: Term, b: Any, indices: Parts) -> Parts:
    """What vectors of indices add."""
    if term.how == "table":
        table = table_at(em, term.slot)
        return [gathered(em, b, table, i, I64) for i in indices]
    if term.how == "unit":
        return indices
    if term.how == "near":
        return [b.mul(i, constant(i.type, term.slot)) for i in indices]
    stride = em.slot(term.slot)
    wide = splat(b, stride, lanes_of(indices[0]))
    return [b.mul(i, wide) for i in indices]


def position(em: _Emitter, address: Address, indices: Indices = ()) -> Parts:
    """The address itself: a scalar, or a vector of one number for each lane."""
    term = moves_along_lanes(address, em.lanes)
    differing = [t for t in address.terms if differ(em, t, indices)]
    scalar = scalar_sum(em, address, [t for t in address.terms if t is not term and t not in differing], indices)
    b = em.builder
    moving = [_lane_offsets(em, term, b)] if term is not None else []
    moving += [_scaled_lanes(em, t, b, em.value(indices[~t.axis])) for t in differing]
    if not moving:
        numbers: Parts = [scalar]
    else:
        offsets = moving[0]
        for more in moving[1:]:
            offsets = [b.add(o, m) for o, m in zip(offsets, more, strict=True)]
        wide = splat(b, scalar, lanes_of(offsets[0]))
        numbers = [b.add(wide, o) for o in offsets]
    return numbers if address.then is None else _through(em, address, address.then, numbers)


def _through(em: _Emitter, outer: Address, inner: Address, numbers: Parts) -> Parts:
    """The next view of a chain: the digits of the numbers, and the address that they give."""
    sizes = [em.slot(s) for s in outer.digits]
    b = em.builder
    found: list[list[Value]] = []
    for n in numbers:
        digits: list[Value] = []
        for k in range(len(sizes) - 1, -1, -1):
            size = _like(b, sizes[k], n)
            digits.append(b.urem(n, size) if k else n)
            n = b.udiv(n, size) if k else n
        found.append(digits[::-1])
    offset = em.slot(inner.offset)
    steps = {t: table_at(em, t.slot) if t.how == "table" else em.slot(t.slot) for t in inner.terms}
    b = em.builder
    totals: Parts = []
    for digits in found:
        total = _like(b, offset, digits[0]) if digits else offset
        for t, step in steps.items():
            d = digits[t.axis]
            total = b.add(total, gathered(em, b, step, d, I64) if t.how == "table" else b.mul(d, _like(b, step, d)))
        totals.append(total)
    return totals if inner.then is None else _through(em, inner, inner.then, totals)


def _like(b: Any, scalar: Value, value: Value) -> Value:
    return splat(b, scalar, lanes_of(value)) if lanes_of(value) else scalar


def number(em: _Emitter, b: Any, e: Number) -> Value:
    """A run-time scalar: 8 bytes in the arguments, here in its dtype."""
    k = em.kernel
    raw = em.argument(len(k.operands) + k.tables + e.index)
    if e.dtype.kind == "float":
        return converted(b, b.bitcast(raw, DOUBLE), float64, e.dtype)
    return raw if e.dtype.bits == 64 else b.trunc(raw, register_type(e.dtype))


# --- loads and stores -------------------------------------------------------------------------------------------------


def load_vector(em: _Emitter, b: Any, pointer: Value, index: Value, part: int, element: Any, size: int) -> Value:
    """Neighbouring elements, only those of working lanes."""
    lanes = em.lanes
    assert lanes is not None
    place = b.gep(pointer, [index], source_etype=element)
    if part:
        place = b.gep(place, [constant(I64, part * lanes.width)], source_etype=element)
    vector = ir.VectorType(element, lanes.width)

    return masked_or_whole(
        em, b, lambda mask: load_masked(b, place, vector, mask), lambda: b.load(place, typ=vector, align=size)
    )


def masked_or_whole(em: _Emitter, b: Any, masked: Callable[[Value], Value], whole: Callable[[], Value]) -> Value:
    """What one of both emits for the lanes at work, or a choice between them if only run time tells which these are."""
    lanes = em.lanes
    assert lanes is not None
    if lanes.left is None:
        return whole() if lanes.mask is None else masked(lanes.mask)
    usual, last, after = (em.function.append_basic_block(name) for name in ("whole", "last", "loaded"))
    b.cbranch(b.icmp_signed(">=", lanes.left, constant(I64, lanes.width)), usual, last).set_weights([1 << 20, 1])
    b.position_at_end(usual)
    one = whole()
    b.branch(after)
    b.position_at_end(last)
    other = masked(first_lanes(b, lanes.left, lanes.width))
    b.branch(after)
    b.position_at_end(after)
    em.scopes[em.here].block = after
    if isinstance(one.type, ir.VoidType):
        return one
    found = b.phi(one.type)
    found.add_incoming(one, usual)
    found.add_incoming(other, last)
    return found


def first_lanes(b: Any, count: Value, width: int) -> Value:
    """The mask of so many lanes, no more than `width`."""
    return b.icmp_signed("<", counting(width, I32), splat(b, b.trunc(count, I32), width))


def gathered(em: _Emitter, b: Any, pointer: Value, offsets: Value, element: Any, apart: Any = None) -> Value:
    """Elements at a scalar offset or a vector of them, only those of working lanes; offsets count what is `apart` in memory,
    if that is more than an element.
    """
    apart = element if apart is None else apart
    if not lanes_of(offsets):
        return b.load(b.gep(pointer, [offsets], source_etype=apart), typ=element, align=bytes_of(element))
    n = lanes_of(offsets)
    places = _places(b, pointer, offsets, apart)
    vector = ir.VectorType(element, n)
    mask = (
        em.lanes.mask
        if em.lanes is not None and em.lanes.mask is not None
        else constant(ir.VectorType(ir.IntType(1), n), True)
    )
    return intrinsic(
        b, "masked.gather", vector, places, mask, ir.Constant(vector, None), suffix=f"{mangled(vector)}.v{n}p0"
    )


def _places(b: Any, pointer: Value, offsets: Value, element: Any) -> Value:
    """A vector of pointers."""
    scaled = b.mul(offsets, constant(offsets.type, bytes_of(element)))
    base = splat(b, b.ptrtoint(pointer, I64), lanes_of(offsets))
    return b.inttoptr(b.add(base, scaled), ir.VectorType(POINTER, lanes_of(offsets)))


def load(em: _Emitter, operand: int, address: Address, dtype: DType, indices: Indices = ()) -> Parts:
    """The elements of an operand at an address."""
    element = memory_type(dtype)
    pointer = pointer_to(em, operand)
    term = moves_along_lanes(address, em.lanes)
    if any(differ(em, t, indices) for t in address.terms):
        offsets = position(em, address, indices)
        b = em.builder
        each = gathered if em.lanes.mask is not None else _load_each  # type: ignore[union-attr]
        raw = [each(em, b, pointer, o, element) for o in offsets]
    elif term is not None and term.how == "unit" and address.then is None:
        place, index = unit_place(em, address, term, pointer, element, indices)
        b = em.builder
        raw = [load_vector(em, b, place, index, u, element, dtype.itemsize) for u in range(em.lanes.unroll)]  # type: ignore[union-attr]
    elif term is not None and term.how == "near" and address.then is None and em.lanes.mask is None:  # type: ignore[union-attr]
        place, index = unit_place(em, address, term, pointer, element, indices)
        b = em.builder
        raw = steps.load_near(em, b, place, index, term.slot, element)
    elif term is not None and term.how == "stride" and address.then is None and em.lanes.mask is None:  # type: ignore[union-attr]
        place, index = unit_place(em, address, term, pointer, element, indices)
        stride = em.slot(term.slot)
        b = em.builder
        raw = steps.load_singly(em, b, place, index, stride, element, dtype.itemsize)
    else:
        offsets = position(em, address, indices)
        b = em.builder
        raw = [gathered(em, b, pointer, o, element) for o in offsets]
    return [from_memory(b, dtype, v) for v in raw]


def _load_each(_: _Emitter, b: Any, pointer: Value, offsets: Value, element: Any) -> Value:
    """Elements at a vector of offsets, one by one."""
    vector = ir.Constant(ir.VectorType(element, lanes_of(offsets)), ir.Undefined)
    for k in range(lanes_of(offsets)):
        place = b.gep(pointer, [b.extract_element(offsets, constant(I32, k))], source_etype=element)
        vector = b.insert_element(vector, b.load(place, typ=element, align=bytes_of(element)), constant(I32, k))
    return vector


def unit_place(
    em: _Emitter, address: Address, term: Term, pointer: Value, element: Any, indices: Indices = ()
) -> tuple[Value, Value]:
    """Where the row starts that the lanes walk along, and the index of the first lane in it."""
    rest = [t for t in address.terms if t is not term]
    index = em.scopes[em.scope_of(term.axis)].index
    if not rest and address.offset < 0:
        return pointer, index
    start = scalar_sum(em, address, rest, indices)
    depth = max((_depth(em, t, indices) for t in rest), default=0)
    place = em.once(
        depth, ("row", pointer.name, address, *indices), lambda b: [b.gep(pointer, [start], source_etype=element)]
    )[0]
    return place, index


def fetch(em: _Emitter, s: Fetch) -> None:
    """Ask for the cache lines that the lanes would load; beyond the end of memory nothing happens."""
    element = memory_type(em.kernel.operands[s.operand].dtype)
    term = moves_along_lanes(s.address, em.lanes)
    ahead = next(t for t in s.address.terms if t.axis == s.axis)
    if em.lanes is None or em.lanes.masked or term is None:
        return
    place, index = unit_place(em, s.address, term, pointer_to(em, s.operand), element)
    further = em.slot(ahead.slot)
    b = em.inmost()
    first = b.gep(place, [b.add(index, further)], source_etype=element)
    for at in range(0, em.lanes.width * em.lanes.unroll, LINE // bytes_of(element)):
        line = b.gep(first, [constant(I64, at)], source_etype=element)
        intrinsic(b, "prefetch", ir.VoidType(), line, *(constant(I32, n) for n in (0, 3, 1)), suffix="p0")


def store(em: _Emitter, operand: int, address: Address, parts: Parts, streamed: bool = False) -> None:
    """Write a value to an operand at an address."""
    dtype = em.kernel.operands[operand].dtype
    element = memory_type(dtype)
    pointer = pointer_to(em, operand)
    term = moves_along_lanes(address, em.lanes)
    if term is None:
        (offset,) = position(em, address)
        b = em.builder
        value = b.extract_element(parts[0], constant(I64, 0)) if lanes_of(parts[0]) else parts[0]
        b.store(to_memory(b, dtype, value), b.gep(pointer, [offset], source_etype=element), align=dtype.itemsize)
    elif term.how == "unit" and address.then is None:
        place, index = unit_place(em, address, term, pointer, element)
        b = em.builder
        for u, value in enumerate(parts):
            _store_vector(em, place, index, u, to_memory(b, dtype, value), streamed)
    elif term.how == "near" and address.then is None and dtype.itemsize >= steps.LEAST:
        place, index = unit_place(em, address, term, pointer, element)
        for u, value in enumerate(parts):
            steps.store_near(em, place, index, u, [to_memory(em.builder, dtype, value)], term.slot)
    else:
        offsets = position(em, address)
        b = em.builder
        for where, value in zip(offsets, parts, strict=True):
            scatter(em, b, pointer, where, element, to_memory(b, dtype, value))


def _store_vector(em: _Emitter, place: Value, index: Value, part: int, value: Value, streamed: bool) -> None:
    b, lanes, element = em.builder, em.lanes, value.type.element
    assert lanes is not None
    place = b.gep(place, [index], source_etype=element)
    if part:
        place = b.gep(place, [constant(I64, part * lanes.width)], source_etype=element)
    masked_or_whole(
        em, b, lambda mask: store_masked(b, value, place, mask), lambda: store_whole(em, place, value, streamed)
    )


def store_whole(em: _Emitter, place: Value, value: Value, streamed: bool) -> Value:
    """Write a whole vector."""
    size = bytes_of(value.type.element)
    vector_bytes = size * lanes_of(value)
    done = em.builder.store(value, place, align=vector_bytes if streamed else size)
    if streamed and vector_bytes >= LEAST_STREAMED:
        done.set_metadata("nontemporal", em.module.add_metadata([constant(I32, 1)]))
    return done


def scatter(em: _Emitter, b: Any, pointer: Value, offsets: Value, element: Any, value: Value) -> None:
    n = lanes_of(offsets)
    places = _places(b, pointer, offsets, element)
    mask = (
        em.lanes.mask
        if em.lanes is not None and em.lanes.mask is not None
        else constant(ir.VectorType(ir.IntType(1), n), True)
    )
    intrinsic(b, "masked.scatter", ir.VoidType(), value, places, mask, suffix=f"{mangled(value.type)}.v{n}p0")
