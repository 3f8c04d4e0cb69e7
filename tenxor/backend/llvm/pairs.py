"""Complex elements in memory: two floats side by side, apart in registers.

Lanes hold the real parts in one vector and the imaginary parts in another. So both are loaded at once, and taken apart;
before they are stored they are put together, two whole vectors side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ...kernel.ir import Load, Store
from . import access, steps
from .values import I64, Value, constant, lanes_of, load_masked, memory_type, shuffled, store_masked

if TYPE_CHECKING:
    from .emit import _Emitter
    from .scopes import Parts


def load(em: _Emitter, e: Load) -> Parts:
    """One part of the elements at an address; the other is loaded with it."""
    key = ("both parts", e.operand, e.address, *e.args)
    both = em.once(em.depth_of(e), key, lambda b: _load_both(em, e))
    half = len(both) // 2
    return both[half:] if e.part else both[:half]


def _load_both(em: _Emitter, e: Load) -> Parts:
    element, part = memory_type(em.kernel.operands[e.operand].dtype), memory_type(e.dtype)
    pointer, lanes = access.pointer_to(em, e.operand), em.lanes
    term = access.moves_along_lanes(e.address, lanes)
    differ = any(access.differ(em, t, e.args) for t in e.address.terms)
    if term is not None and lanes is not None and e.address.then is None and not differ:
        if term.how == "unit":
            place, index = access.unit_place(em, e.address, term, pointer, element, e.args)
            b = em.builder
            if lanes.mask is None and lanes.left is None:
                return steps.load_near(em, b, place, index, 1, part, 2)
            return apart(b, [load_wide(em, b, place, index, u, part) for u in range(lanes.unroll)])
        if term.how == "near" and lanes.mask is None:
            place, index = access.unit_place(em, e.address, term, pointer, element, e.args)
            return steps.load_near(em, em.builder, place, index, term.slot, part, 2)
        if term.how == "stride" and lanes.mask is None:
            place, index = access.unit_place(em, e.address, term, pointer, element, e.args)
            stride = em.slot(term.slot)
            return _load_singly(em, em.builder, place, index, stride, part)
    offsets = access.position(em, e.address, e.args)
    b = em.builder
    second = b.gep(pointer, [constant(I64, 1)], source_etype=part)
    return [access.gathered(em, b, start, o, part, element) for start in (pointer, second) for o in offsets]


def apart(b: Any, vectors: Parts) -> Parts:
    """The real parts of vectors of pairs, and then the imaginary ones."""
    return [shuffled(b, v, range(first, lanes_of(v), 2)) for first in (0, 1) for v in vectors]


def load_wide(em: _Emitter, b: Any, place: Value, index: Value, u: int, part: Any) -> Value:
    """Neighbouring pairs, only those of working lanes."""
    assert em.lanes is not None
    width = em.lanes.width
    vector, size = ir.VectorType(part, 2 * width), access.bytes_of(part)
    first = b.gep(place, [b.add(index, constant(I64, u * width))], source_etype=ir.ArrayType(part, 2))

    return access.masked_or_whole(
        em,
        b,
        lambda mask: load_masked(b, first, vector, _twice(b, mask)),
        lambda: b.load(first, typ=vector, align=size),
    )


def _load_singly(em: _Emitter, b: Any, place: Value, index: Value, stride: Value, part: Any) -> Parts:
    """Pairs at equal distances, one by one."""
    assert em.lanes is not None
    pair, size = ir.ArrayType(part, 2), access.bytes_of(part)
    at = b.gep(place, [b.mul(index, stride)], source_etype=pair)
    vectors: Parts = []
    for _ in range(em.lanes.unroll):
        pieces: Parts = []
        for _ in range(em.lanes.width):
            pieces.append(b.load(at, typ=ir.VectorType(part, 2), align=size))
            at = b.gep(at, [stride], source_etype=pair)
        while len(pieces) > 1:
            pieces = [_joined(b, *two) for two in zip(pieces[0::2], pieces[1::2], strict=True)]
        vectors += pieces
    return apart(b, vectors)


def _joined(b: Any, one: Value, other: Value) -> Value:
    return shuffled(b, one, range(2 * lanes_of(one)), other)


def _twice(b: Any, mask: Value) -> Value:
    """A mask for both parts of each lane."""
    return shuffled(b, mask, [k // 2 for k in range(2 * lanes_of(mask))])


def store(em: _Emitter, s: Store, reals: Parts, imags: Parts) -> None:
    """Write both parts of elements at an address."""
    dtype = em.kernel.operands[s.operand].dtype
    element, part = memory_type(dtype), memory_type(dtype.part)
    pointer, lanes = access.pointer_to(em, s.operand), em.lanes
    term = access.moves_along_lanes(s.address, lanes)
    if term is not None and term.how == "unit" and s.address.then is None:
        place, index = access.unit_place(em, s.address, term, pointer, element)
        for u, both in enumerate(zip(reals, imags, strict=True)):
            _store_wide(em, place, index, u, both, part, s.streamed)
        return
    if term is not None and term.how == "near" and s.address.then is None:
        place, index = access.unit_place(em, s.address, term, pointer, element)
        for u, both in enumerate(zip(reals, imags, strict=True)):
            steps.store_near(em, place, index, u, list(both), term.slot)
        return
    offsets = access.position(em, s.address)
    b = em.builder
    second = b.gep(pointer, [constant(I64, 1)], source_etype=part)
    for start, values in ((pointer, reals), (second, imags)):
        for where, value in zip(offsets, values, strict=True):
            if term is not None:
                access.scatter(em, b, start, where, element, value)
            else:
                one = b.extract_element(value, constant(I64, 0)) if lanes_of(value) else value
                b.store(one, b.gep(start, [where], source_etype=element), align=dtype.part.itemsize)


def _store_wide(
    em: _Emitter, place: Value, index: Value, u: int, both: tuple[Value, Value], part: Any, streamed: bool
) -> None:
    """Write a vector of pairs: two vectors of parts."""
    b, lanes = em.builder, em.lanes
    assert lanes is not None
    width = lanes.width
    first = b.gep(place, [b.add(index, constant(I64, u * width))], source_etype=ir.ArrayType(part, 2))
    places = [first, b.gep(first, [constant(I64, width)], source_etype=part)]
    order = [k // 2 + width * (k % 2) for k in range(2 * width)]
    halves = [shuffled(b, both[0], its, both[1]) for its in (order[:width], order[width:])]

    def whole() -> Value:
        for at, half in zip(places, halves, strict=True):
            done = access.store_whole(em, at, half, streamed)
        return done

    def masked(mask: Value) -> Value:
        for k, (at, half) in enumerate(zip(places, halves, strict=True)):
            its = shuffled(b, mask, [(k * width + n) // 2 for n in range(width)])
            done = store_masked(b, half, at, its)
        return done

    access.masked_or_whole(em, b, masked, whole)
