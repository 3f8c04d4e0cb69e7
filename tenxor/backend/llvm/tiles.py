"""Emit tiles: small squares on the stack for memory that is contiguous along one axis, but read along another.

A read across rows touches a cache line for every element. So a tile is filled along the rows, in squares transposed in registers, and then
read like any row.
"""

from __future__ import annotations

from ...kernel.ir import TileElement, TileLoad
from .addresses import pointer_to, scalar_sum
from .builder import Value
from .emitter import Emitter
from .memory import apart, load_vector, parts_of, transposed
from .scopes import Parts
from .types import Type, array, vector
from .values import from_memory, memory_type


def tile_pointer(em: Emitter, tile: int, element: Type, side: int) -> Value:
    """Return the pointer to a tile on the stack."""
    return em.once(0, ("tile", tile), lambda: em.on_stack(element, side * side, f"tile{tile}"))


def fill(em: Emitter, s: TileLoad) -> None:
    """Emit the filling of a tile over the present blocks of its two axes: whole squares first, then single elements."""
    source = _Source(em, s)
    width = min(em.target.loops.square, em.target.lanes(max(4, source.element.bytes)))
    (top, bottom, _), (left, right, _) = em.spans[s.along], em.spans[s.last]

    def copy_squares(i: Value) -> Value:
        def copy_square(j: Value) -> Value:
            source.copy_square(i, j, width)
            em.inmost()
            return j + width

        em.inmost()
        below = i + width
        stop = em.repeated(s.last, left, right, copy_square, needs=width, inside=False)
        source.copy_singly((i, below), (stop, right))
        return below

    stop = em.repeated(s.along, top, bottom, copy_squares, needs=width, inside=False)
    source.copy_singly((stop, bottom), (left, right))


class _Source:
    """An operand that is copied into a tile: the addresses of element (i, j) in both."""

    def __init__(self, em: Emitter, s: TileLoad) -> None:
        self.em, self.stage = em, s
        self.element = memory_type(em.kernel.operands[s.operand].dtype)
        self.tile = tile_pointer(em, s.tile, self.element, s.side)
        self.pointer = pointer_to(em, s.operand)
        self.start = scalar_sum(em, s.address, [t for t in s.address.terms if t.axis not in (s.along, s.last)])
        self.stride = em.size(next(t.value for t in s.address.terms if t.axis == s.last))

    def pointers(self, i: Value, j: Value) -> tuple[Value, Value]:
        """Emit pointers to element (i, j) of the operand, and to its copy in the tile."""
        (top, _, _), (left, _, _) = self.em.spans[self.stage.along], self.em.spans[self.stage.last]
        source_offset = self.start + i + j * self.stride
        tile_offset = (i - top) * self.stage.side + (j - left)
        return self.pointer.at(source_offset, self.element), self.tile.at(tile_offset, self.element)

    def copy_square(self, i: Value, j: Value, width: int) -> None:
        """Emit the copy of a square: load as many vectors as they have lanes, transpose and store them."""
        self.em.inmost()
        start, into = self.pointers(i, j)
        component_count = parts_of(self.element)
        kind = vector(self.element.element, component_count * width)
        rows = [start.at(self.stride * k, self.element).load(kind) for k in range(width)]
        for k, row in enumerate(transposed(rows, component_count)):
            into.at(k * self.stage.side, self.element).store(row)

    def copy_singly(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit the copy of a rectangle, element by element."""
        em, s = self.em, self.stage

        def copy_row(i: Value) -> Value:
            def copy_element(j: Value) -> Value:
                em.inmost()
                source, target = self.pointers(i, j)
                target.store(source.load(self.element))
                return j + 1

            em.repeated(s.last, *columns, copy_element, inside=False)
            em.inmost()
            return i + 1

        em.repeated(s.along, *rows, copy_row, inside=False)


def load(em: Emitter, e: TileElement) -> Parts:
    """Emit the load of a tile's elements for the present lanes."""
    component_type = memory_type(e.dtype)
    element = component_type if e.part is None else array(component_type, 2)
    tile, lanes = tile_pointer(em, e.tile, element, e.side), em.lanes

    def row_start() -> Value:
        return tile.at((em.index(e.along) - em.spans[e.along].begin) * e.side, element)

    row = em.once(em.scope_of(e.along), ("tile row", e.tile), row_start)
    column = em.index(e.last) - em.spans[e.last].begin
    if lanes is None:
        return [from_memory(e.dtype, row.at(column, element).at(e.part or 0, component_type).load(component_type))]
    vectors = apart([load_vector(em, row, column, u, element) for u in range(lanes.unroll)], parts_of(element))
    component_vectors = vectors[lanes.unroll :] if e.part else vectors[: lanes.unroll]
    return [from_memory(e.dtype, v) for v in component_vectors]
