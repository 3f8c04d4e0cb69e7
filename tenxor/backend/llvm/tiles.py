"""Tiles: memory that lies along one axis, handed out along another, by way of a small square on the stack.

Reading across rows touches a cache line for every element. A tile is filled along the rows instead, in squares that are
turned in registers, and then read like any row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ...kernel.ir import For, Stage, Staged
from . import access
from .values import I32, I64, POINTER, Value, constant, counting, from_memory, intrinsic, mangled, memory_type, splat

if TYPE_CHECKING:
    from .emit import Parts, _Emitter

ALIGNMENT = 64  # bytes


def memory(em: _Emitter, tile: int, element: Any, side: int) -> Value:
    """The tile's place on the stack."""

    def make(_: Any) -> Parts:
        entry = ir.IRBuilder(em.function.entry_basic_block)
        entry.position_at_start(em.function.entry_basic_block)
        place = entry.alloca(ir.ArrayType(element, side * side), name=f"tile{tile}")
        place.align = ALIGNMENT
        return [entry.inttoptr(entry.ptrtoint(place, I64), POINTER)]

    return em.once(0, ("tile", tile), make)[0]


def fill(em: _Emitter, s: Stage) -> None:
    """Fill a tile over the current blocks of its two axes, square by square."""
    dtype = em.kernel.operands[s.operand].dtype
    element = memory_type(dtype)
    width = min(s.side, max(2, em.vector_bytes // max(4, dtype.itemsize)))
    tile, pointer = memory(em, s.tile, element, s.side), access.pointer_to(em, s.operand)
    across = next(t for t in s.address.terms if t.axis == s.last)
    start = access.scalar_sum(em, s.address, [t for t in s.address.terms if t.axis not in (s.along, s.last)])
    stride = em.slot(across.slot)
    (top, bottom), (left, right) = em.block[s.along], em.block[s.last]

    def down(i: Value) -> Value:
        def along(j: Value) -> Value:
            b = em.inmost()
            first = b.gep(pointer, [b.add(b.add(start, i), b.mul(j, stride))], source_etype=element)
            corner = b.add(b.mul(b.sub(i, top), constant(I64, s.side)), b.sub(j, left))
            into = b.gep(tile, [corner], source_etype=element)
            next_i, next_j = b.add(i, constant(I64, width)), b.add(j, constant(I64, width))
            whole = b.and_(b.icmp_signed("<=", next_i, bottom), b.icmp_signed("<=", next_j, right))
            with b.if_else(whole) as (yes, no):
                with yes:
                    _square(b, first, stride, into, element, width, s.side, None)
                with no:
                    _square(b, first, stride, into, element, width, s.side, (b.sub(bottom, i), b.sub(right, j)))
            em.scope.block = b.block
            return next_j

        em.repeated(For(s.last, ()), -1, left, right, 1, along)
        return em.inmost().add(i, constant(I64, width))

    em.repeated(For(s.along, ()), -1, top, bottom, 1, down)


def _square(
    b: Any,
    first: Value,
    stride: Value,
    into: Value,
    element: Any,
    width: int,
    side: int,
    within: tuple[Value, Value] | None,
) -> None:
    """Load as many vectors as they have lanes, turn them, and store them; only what is `within` so many rows and columns."""
    vector = ir.VectorType(element, width)
    size = access.bytes_of(element)
    rows: list[Value] = []
    mask = None
    if within is not None:
        count = b.select(b.icmp_signed("<", within[0], constant(I64, width)), within[0], constant(I64, width))
        mask = b.icmp_signed("<", counting(width, I32), splat(b, b.trunc(count, I32), width))
    for k in range(width):
        place = b.gep(first, [b.mul(stride, constant(I64, k))], source_etype=element)
        if within is None:
            rows.append(b.load(place, typ=vector, align=size))
        else:
            is_there = splat(b, b.icmp_signed(">", within[1], constant(I64, k)), width)
            some = b.and_(mask, is_there)
            rows.append(
                intrinsic(
                    b, "masked.load", vector, place, some, ir.Constant(vector, None), suffix=f"{mangled(vector)}.p0"
                )
            )
    for k, row in enumerate(turned(b, rows)):
        b.store(row, b.gep(into, [constant(I64, k * side)], source_etype=element), align=width * size)


def turned(b: Any, rows: list[Value]) -> list[Value]:
    """The columns of a square of vectors: blocks off the diagonal change places, of 1, then of 2, then of 4..."""
    width, block = len(rows), 1
    while block < width:
        upper = [n if not n & block else width + n - block for n in range(width)]
        lower = [n + block if not n & block else width + n for n in range(width)]
        rows = list(rows)
        for r in range(width):
            if not r & block:
                one, two = rows[r], rows[r + block]
                rows[r], rows[r + block] = _chosen(b, one, two, upper), _chosen(b, one, two, lower)
        block *= 2
    return rows


def _chosen(b: Any, one: Value, two: Value, lanes: list[int]) -> Value:
    return b.shuffle_vector(one, two, ir.Constant(ir.VectorType(I32, len(lanes)), [ir.Constant(I32, n) for n in lanes]))


def load(em: _Emitter, e: Staged) -> Parts:
    """The elements of a tile for the lanes."""
    element = memory_type(e.dtype)
    tile = memory(em, e.tile, element, e.side)
    row_scope, scope = em.scopes[em.scope_of(e.along)], em.scopes[em.scope_of(e.last)]

    def row_start(b: Any) -> Parts:
        row = b.mul(b.sub(row_scope.index, em.block[e.along][0]), constant(I64, e.side))
        return [b.gep(tile, [row], source_etype=element)]

    row = em.once(em.scope_of(e.along), ("tile row", e.tile), row_start)[0]
    b = em.builder
    assert em.lanes is not None
    place = b.sub(scope.index, em.block[e.last][0])
    return [
        from_memory(b, e.dtype, access.load_vector(em, b, row, place, u, element, e.dtype.itemsize))
        for u in range(em.lanes.unroll)
    ]
