"""Elements a few steps apart in memory, or at equal distances: taken out of whole vectors, or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from .values import I1, I32, I64, Value, bytes_of, constant, shuffled, store_masked

if TYPE_CHECKING:
    from .emit import _Emitter
    from .scopes import Parts

TOGETHER = 4  # elements loaded singly at a time, if there are as many lanes, from one place in memory
LEAST = 4  # bytes of elements that are stored under a mask: processors have masks for these


def load_singly(em: _Emitter, b: Any, place: Value, index: Value, stride: Value, element: Any, size: int) -> Parts:
    """Elements at equal distances, one by one: as fast as a gather on some processors, and three times as fast on others."""
    lanes = em.lanes
    assert lanes is not None
    together = min(TOGETHER, lanes.width)
    steps = [b.mul(stride, constant(I64, k)) for k in range(together + 1)]
    at = b.gep(place, [b.mul(index, stride)], source_etype=element)
    found: Parts = []
    for _ in range(lanes.unroll):
        vector = ir.Constant(ir.VectorType(element, lanes.width), ir.Undefined)
        for k in range(lanes.width):
            one = b.gep(at, [steps[k % together]], source_etype=element)
            vector = b.insert_element(vector, b.load(one, typ=element, align=size), constant(I32, k))
            if (k + 1) % together == 0:
                at = b.gep(at, [steps[together]], source_etype=element)
        found.append(vector)
    return found


def load_near(em: _Emitter, b: Any, place: Value, index: Value, step: int, part: Any, count: int = 1) -> Parts:
    """Elements a few steps apart, each of so many parts side by side: whole vectors, as many as hold them, from the first needed
    to the last, and no further. The vectors of the first part come first.
    """
    lanes = em.lanes
    assert lanes is not None
    width, size = lanes.width, bytes_of(part)
    vector, element = ir.VectorType(part, width), part if count == 1 else ir.ArrayType(part, count)
    first = b.mul(index, constant(I64, step))
    span = count * ((width - 1) * abs(step) + 1)  # parts from the first lane's to the last's
    starts = [*range(0, span - width, width), span - width]
    wanted = [count * abs(step) * k for k in (range(width) if step > 0 else range(width - 1, -1, -1))]
    found: list[Parts] = [[] for _ in range(count)]
    for u in range(lanes.unroll):
        lowest = u * width * step + (0 if step > 0 else step * (width - 1))
        at = b.gep(place, [b.add(first, constant(I64, lowest))], source_etype=element)
        loads = [b.load(b.gep(at, [constant(I64, s)], source_etype=part), typ=vector, align=size) for s in starts]
        for k, its in enumerate(found):
            its.append(_picked(b, loads, [_where_in(starts, width, n + k) for n in wanted]))
    return [v for its in found for v in its]


def _where_in(starts: Sequence[int], width: int, at: int) -> tuple[int, int]:
    """Which vector holds the element, and in which lane."""
    k = min(at // width, len(starts) - 1)
    return k, at - starts[k]


def _picked(b: Any, vectors: list[Value], lanes: list[tuple[int, int]]) -> Value:
    """A vector of the given lanes of several vectors."""
    width = len(lanes)
    found, there = vectors[0], [lane if k == 0 else None for k, lane in lanes]
    for n, other in enumerate(vectors[1:] or [vectors[0]], start=1):
        order = [
            width + lane if k == n else (here if n == 1 else at) if here is not None else 0
            for at, ((k, lane), here) in enumerate(zip(lanes, there, strict=True))
        ]
        found = shuffled(b, found, order, other)
        there = [at if k <= n else None for at, (k, _) in enumerate(lanes)]
    return found


def store_near(em: _Emitter, place: Value, index: Value, u: int, values: Parts, step: int) -> None:
    """Write vector `u` of elements a few steps apart, of one part or several side by side: whole vectors, of which only
    what belongs to the elements is written.
    """
    lanes, b, n = em.lanes, em.builder, len(values)
    assert lanes is not None
    width, part, apart = lanes.width, values[0].type.element, n * abs(step)
    element = part if n == 1 else ir.ArrayType(part, n)
    lowest = b.mul(b.add(index, constant(I64, u * width + (width - 1) * (step < 0))), constant(I64, step))
    first = b.gep(place, [lowest], source_etype=element)
    for start in range(0, apart * (width - 1) + n, width):
        found = [divmod(at, apart) for at in range(start, start + width)]
        taken = [(e if step > 0 else width - 1 - e, k) if k < n else None for e, k in found]
        vector = shuffled(b, values[0], [0 if t is None else t[0] + width * t[1] for t in taken], values[-1])
        to = b.gep(first, [constant(I64, start)], source_etype=part)
        if None not in taken and lanes.mask is None:
            b.store(vector, to, align=bytes_of(part))
            continue
        inside = ir.Constant(ir.VectorType(I1, width), [ir.Constant(I1, t is not None) for t in taken])
        if lanes.mask is not None:
            inside = b.and_(inside, shuffled(b, lanes.mask, [0 if t is None else t[0] for t in taken]))
        store_masked(b, vector, to, inside)
