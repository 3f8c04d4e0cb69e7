"""Emit scatters: updates of elements in memory, value by value.

Lanes compute the values and the addresses. Then the lanes update memory in order, since several lanes may meet at the same element. Lanes
with neighbouring elements, for any value of the indices, cannot meet: there, whole vectors are updated.
"""

from __future__ import annotations

from functools import partial

from ...kernel.ir import Accumulate, Load
from ...ops.expr import Arg, Expr
from . import access
from .addresses import differ, moves_along_lanes, pointer_to, position, unit_place
from .builder import Value
from .emitter import Emitter
from .memory import store_vector
from .scopes import Parts
from .values import load, memory_type, to_memory


def accumulate(em: Emitter, s: Accumulate) -> None:
    """Emit the update of elements in memory by the values of every lane."""
    values = [em.value(e) for e in s.values]
    for index in s.indices:  # checked even if the address does not depend on the index
        em.value(index)
    differing = any(differ(em, t, s.indices) for t in s.address.terms)
    if em.lanes is not None and s.is_beside(em.lanes.axis) and not differing and len(values) == 1:
        _side_by_side(em, s, em.in_lanes(s.values[0]))
    else:
        _one_by_one(em, s, values)


def _side_by_side(em: Emitter, s: Accumulate, given: Parts) -> None:
    """Emit the update of contiguous elements by whole vectors, in active lanes only."""
    em.inmost()
    term, dtype = moves_along_lanes(s.address, em.lanes), s.values[0].dtype
    assert term is not None
    known: dict[Expr, Parts] = {Arg(1, dtype): given}
    if _reads(s):
        known[Arg(0, dtype)] = access.load(em, Load(s.operand, s.address, dtype, s.indices))
    element = memory_type(dtype)
    place, index = unit_place(em, s.address, term, pointer_to(em, s.operand), element, s.indices)
    for u, x in enumerate(em.inline(s.joined[0], known)):
        store_vector(em, place, index, u, element, [to_memory(dtype, x)], streamed=False)


def _one_by_one(em: Emitter, s: Accumulate, values: list[Parts]) -> None:
    """Emit the update of elements lane by lane, or of a single element by a scalar."""
    em.inmost()
    lanes, offsets = em.lanes, position(em, s.address, s.indices)
    if lanes is None:
        _join(em, s, offsets[0], [v[0] for v in values])
        return
    for u in range(lanes.unroll):
        for lane in range(lanes.width):
            offset, *given = [_of_lane(parts, u, lane) for parts in (offsets, *values)]
            join = partial(_join, em, s, offset, given)
            if lanes.mask is None:
                join()
            else:
                em.b.only_if(lanes.mask.lane(lane), join)


def _of_lane(parts: Parts, u: int, lane: int) -> Value:
    """Return the value of a lane of vector `u`; a scalar is the value of every lane."""
    return parts[u].lane(lane) if parts[0].lanes else parts[0]


def _join(em: Emitter, s: Accumulate, offset: Value, given: list[Value]) -> None:
    """Emit the update of a single element, with one part or two."""
    element = pointer_to(em, s.operand).at(offset, memory_type(em.kernel.operands[s.operand].dtype))
    dtypes = [e.dtype for e in s.values]
    places = [element.at(k, memory_type(d)) if k else element for k, d in enumerate(dtypes)]
    held = [load(place, d) for place, d in zip(places, dtypes, strict=True)] if _reads(s) else given
    known: dict[Expr, Parts] = {Arg(k, x): [v] for k, (x, v) in enumerate(zip(dtypes * 2, held + given, strict=True))}
    joined = [em.inline(e, known)[0] for e in s.joined]
    for place, dtype, x in zip(places, dtypes, joined, strict=True):
        place.store(to_memory(dtype, x))


def _reads(s: Accumulate) -> bool:
    """Return whether the new element depends on the old one."""
    return any(not isinstance(e, Arg) for e in s.joined)
