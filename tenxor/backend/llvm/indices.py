"""Indices that are values: negative ones count from the end, and those out of range are told of, and never used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dtypes import int64
from ...kernel.ir import Index
from . import access
from .values import I1, I64, constant, converted, intrinsic, lanes_of, splat

if TYPE_CHECKING:
    from .emit import _Emitter
    from .scopes import Parts


def checked(em: _Emitter, e: Index) -> Parts:
    """The indices from 0 on, of every lane; 0 for those out of range. The flag is set if such a lane is at work."""
    value = e.args[0]
    given, size, flag = em.value(value), em.slot(e.size), access.pointer_to(em, len(em.kernel.operands) - 1)
    b = em.builder
    lanes = lanes_of(given[0])
    limit = splat(b, size, lanes) if lanes else size
    found, outside = [], []
    for part in given:
        index = converted(b, part, value.dtype, int64)
        zero = constant(index.type, 0)
        if value.dtype.kind == "int":
            index = b.select(b.icmp_signed("<", index, zero), b.add(index, limit), index)
        outside.append(b.icmp_unsigned(">=", index, limit))
        found.append(b.select(outside[-1], zero, index))
    some = outside[0]
    for more in outside[1:]:
        some = b.or_(some, more)
    if lanes:
        if em.lanes is not None and em.lanes.mask is not None:
            some = b.and_(some, em.lanes.mask)
        some = intrinsic(b, "vector.reduce.or", I1, some, suffix=f"v{lanes}i1")
    with b.if_then(some, likely=False):
        b.store(constant(I64, 1), flag, align=8)
    em.scopes[em.here].block = b.block
    return found
