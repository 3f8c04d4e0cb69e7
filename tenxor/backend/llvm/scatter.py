"""Elements that take values in turn. Lanes compute the values and the places; what may meet is then taken one by one.

Where lanes write neighbouring elements whatever the indices are, none meets another: whole vectors are joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...expr import Arg, Expr
from ...kernel.ir import Accumulate
from . import access
from .values import I32, I64, Value, constant, from_memory, lanes_of, memory_type, store_masked, to_memory

if TYPE_CHECKING:
    from .emit import _Emitter
    from .scopes import Parts


def accumulate(em: _Emitter, s: Accumulate) -> None:
    """Join values to what is in memory, those of every lane."""
    values = [em.value(e) for e in s.values]
    for index in s.indices:
        em.value(index)
    differ = any(access.differ(em, t, s.indices) for t in s.address.terms)
    if em.lanes is not None and s.is_beside(em.lanes.axis) and not differ and len(values) == 1:
        _side_by_side(em, s, em.widened(values[0], s.values[0]))
    else:
        _one_by_one(em, s, values)


def _side_by_side(em: _Emitter, s: Accumulate, given: Parts) -> None:
    """Join whole vectors, of working lanes."""
    lanes, dtype = em.lanes, s.values[0].dtype
    assert lanes is not None
    em.inmost()
    known: dict[Expr, Parts] = {Arg(1, dtype): given}
    if _reads(s):
        known[Arg(0, dtype)] = access.load(em, s.operand, s.address, dtype, s.indices)
    found = em.inline(s.joined[0], known)
    term, element = access.moves_along_lanes(s.address, lanes), memory_type(dtype)
    assert term is not None
    row, index = access.unit_place(em, s.address, term, access.pointer_to(em, s.operand), element, s.indices)
    b = em.inmost()
    for u, value in enumerate(found):
        place = b.gep(row, [b.add(index, constant(I64, u * lanes.width))], source_etype=element)
        raw = to_memory(b, dtype, value)
        if lanes.mask is None:
            b.store(raw, place, align=dtype.itemsize)
        else:
            store_masked(b, raw, place, lanes.mask)


def _one_by_one(em: _Emitter, s: Accumulate, values: list[Parts]) -> None:
    """Join the values of one lane after the other, or the only ones."""
    places, lanes = access.position(em, s.address, s.indices), em.lanes
    pointer = access.pointer_to(em, s.operand)
    b = em.inmost()
    if lanes is None:
        _join(em, b, s, pointer, places[0], [v[0] for v in values])
        return
    for u in range(lanes.unroll):
        for lane in range(lanes.width):
            place, *given = (_of_lane(b, parts, u, lane) for parts in (places, *values))
            if lanes.mask is None:
                _join(em, b, s, pointer, place, given)
            else:
                with b.if_then(b.extract_element(lanes.mask, constant(I32, lane))):
                    _join(em, b, s, pointer, place, given)
    em.scopes[em.here].block = b.block


def _of_lane(b: Any, parts: Parts, u: int, lane: int) -> Value:
    """What a lane of vector `u` has; all have the same scalar."""
    return b.extract_element(parts[u], constant(I32, lane)) if lanes_of(parts[0]) else parts[0]


def _join(em: _Emitter, b: Any, s: Accumulate, pointer: Value, place: Value, given: list[Value]) -> None:
    """Join one value, of one part or two."""
    dtypes = [e.dtype for e in s.values]
    element = b.gep(pointer, [place], source_etype=memory_type(em.kernel.operands[s.operand].dtype))
    parts = [
        b.gep(element, [constant(I64, k)], source_etype=memory_type(d)) if k else element for k, d in enumerate(dtypes)
    ]
    held = []
    if _reads(s):
        for part, dtype in zip(parts, dtypes, strict=True):
            held.append(from_memory(b, dtype, b.load(part, typ=memory_type(dtype), align=dtype.itemsize)))
    known: dict[Expr, Parts] = {Arg(k, d): [v] for k, (d, v) in enumerate(zip(dtypes, held, strict=False))}
    known |= {Arg(len(dtypes) + k, d): [v] for k, (d, v) in enumerate(zip(dtypes, given, strict=True))}
    for part, dtype, value in zip(parts, dtypes, [em.inline(e, known)[0] for e in s.joined], strict=True):
        b.store(to_memory(b, dtype, value), part, align=dtype.itemsize)


def _reads(s: Accumulate) -> bool:
    """Whether what an element held before matters."""
    return any(not isinstance(e, Arg) for e in s.joined)
