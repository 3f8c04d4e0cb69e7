"""Tiles: memory that lies along one axis, handed out along another, by way of a small square on the stack.

Reading across rows touches a cache line for every element. A tile is filled along the rows instead, in squares that are
turned in registers, and then read like any row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ...kernel.ir import For, Stage, Staged
from . import access, pairs
from .values import I32, I64, Value, constant, from_memory, memory_type

if TYPE_CHECKING:
    from .emit import _Emitter
    from .scopes import Parts

WIDEST_SQUARE = 8  # of 16 by 16 are a fifth faster, and take LLVM more than twice as long


def memory(em: _Emitter, tile: int, element: Any, side: int) -> Value:
    """The tile's place on the stack."""
    return em.once(0, ("tile", tile), lambda _: [em.on_stack(element, side * side, f"tile{tile}")])[0]


def fill(em: _Emitter, s: Stage) -> None:
    """Fill a tile over the current blocks of its two axes: whole squares first, what is left one by one."""
    source = _Source(em, s)
    width = min(WIDEST_SQUARE, em.vector_bytes // max(4, source.size))
    (top, bottom, _), (left, right, _) = em.block[s.along], em.block[s.last]

    def row_of_squares(i: Value) -> Value:
        def square(j: Value) -> Value:
            source.copy_square(i, j, width)
            return em.inmost().add(j, constant(I64, width))

        below = em.inmost().add(i, constant(I64, width))
        stop = em.repeated(For(s.last, ()), -1, left, right, width, square)
        source.copy_singly((i, below), (stop, right))
        return below

    stop = em.repeated(For(s.along, ()), -1, top, bottom, width, row_of_squares)
    source.copy_singly((stop, bottom), (left, right))


class _Source:
    """An operand that is copied into a tile: where its element (i, j) lies, and where in the tile that goes."""

    def __init__(self, em: _Emitter, s: Stage) -> None:
        self.em, self.stage = em, s
        self.element = memory_type(em.kernel.operands[s.operand].dtype)
        self.size = access.bytes_of(self.element)
        self.tile = memory(em, s.tile, self.element, s.side)
        self.pointer = access.pointer_to(em, s.operand)
        self.start = access.scalar_sum(em, s.address, [t for t in s.address.terms if t.axis not in (s.along, s.last)])
        self.stride = em.slot(next(t.slot for t in s.address.terms if t.axis == s.last))

    def places(self, b: Any, i: Value, j: Value) -> tuple[Value, Value]:
        """The element (i, j) of the operand, and its place in the tile."""
        (top, _, _), (left, _, _) = self.em.block[self.stage.along], self.em.block[self.stage.last]
        there = b.add(b.add(self.start, i), b.mul(j, self.stride))
        here = b.add(b.mul(b.sub(i, top), constant(I64, self.stage.side)), b.sub(j, left))
        return (
            b.gep(self.pointer, [there], source_etype=self.element),
            b.gep(self.tile, [here], source_etype=self.element),
        )

    def copy_square(self, i: Value, j: Value, width: int) -> None:
        """Load as many vectors as they have lanes, turn them, and store them."""
        b = self.em.inmost()
        first, into = self.places(b, i, j)
        pair = isinstance(self.element, ir.ArrayType)
        vector = ir.VectorType(self.element.element, 2 * width) if pair else ir.VectorType(self.element, width)
        rows: list[Value] = []
        for k in range(width):
            place = b.gep(first, [b.mul(self.stride, constant(I64, k))], source_etype=self.element)
            rows.append(b.load(place, typ=vector, align=access.bytes_of(vector.element)))
        for k, row in enumerate(turned(b, rows, 1 + pair)):
            place = b.gep(into, [constant(I64, k * self.stage.side)], source_etype=self.element)
            b.store(row, place, align=access.bytes_of(vector.element))

    def copy_singly(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Copy a rectangle one element after another."""
        em, s = self.em, self.stage

        def row(i: Value) -> Value:
            def one(j: Value) -> Value:
                b = em.inmost()
                there, here = self.places(b, i, j)
                size = access.bytes_of(getattr(self.element, "element", self.element))
                b.store(b.load(there, typ=self.element, align=size), here, align=size)
                return b.add(j, constant(I64, 1))

            em.repeated(For(s.last, ()), -1, *columns, 1, one)
            return em.inmost().add(i, constant(I64, 1))

        em.repeated(For(s.along, ()), -1, *rows, 1, row)


def turned(b: Any, rows: list[Value], parts: int = 1) -> list[Value]:
    """The columns of a square of vectors: blocks off the diagonal change places, of 1, then of 2, then of 4...

    An element may have several parts, which stay side by side.
    """
    width, block = len(rows), 1
    while block < width:
        upper = [n if not n & block else width + n - block for n in range(width)]
        lower = [n + block if not n & block else width + n for n in range(width)]
        rows = list(rows)
        for r in range(width):
            if not r & block:
                one, two = rows[r], rows[r + block]
                rows[r], rows[r + block] = _chosen(b, one, two, upper, parts), _chosen(b, one, two, lower, parts)
        block *= 2
    return rows


def _chosen(b: Any, one: Value, two: Value, elements: list[int], parts: int) -> Value:
    lanes = [parts * n + part for n in elements for part in range(parts)]
    return b.shuffle_vector(one, two, ir.Constant(ir.VectorType(I32, len(lanes)), [ir.Constant(I32, n) for n in lanes]))


def load(em: _Emitter, e: Staged) -> Parts:
    """The elements of a tile for the lanes."""
    part = memory_type(e.dtype)
    element = part if e.part is None else ir.ArrayType(part, 2)
    tile = memory(em, e.tile, element, e.side)
    row_scope, scope = em.scopes[em.scope_of(e.along)], em.scopes[em.scope_of(e.last)]

    def row_start(b: Any) -> Parts:
        row = b.mul(b.sub(row_scope.index, em.block[e.along].begin), constant(I64, e.side))
        return [b.gep(tile, [row], source_etype=element)]

    row = em.once(em.scope_of(e.along), ("tile row", e.tile), row_start)[0]
    b = em.builder
    assert em.lanes is not None
    place = b.sub(scope.index, em.block[e.last].begin)
    if e.part is not None:
        wide = [pairs.load_wide(em, b, row, place, u, part) for u in range(em.lanes.unroll)]
        both = pairs.apart(b, wide)
        return both[len(wide) :] if e.part else both[: len(wide)]
    return [
        from_memory(b, e.dtype, access.load_vector(em, b, row, place, u, element, e.dtype.itemsize))
        for u in range(em.lanes.unroll)
    ]
