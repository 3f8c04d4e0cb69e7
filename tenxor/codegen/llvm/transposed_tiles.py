"""Emit tiles: small squares on the stack, copies of memory that is contiguous along one axis, but read along another. The functions run
while a kernel is compiled: they append LLVM IR to the kernel `em`. A `Value` stands for a value at run time.

A read across rows touches a cache line for every element. So a tile is filled along the rows, in squares transposed in registers, and then
read like any row.
"""

from __future__ import annotations

from ...lowering.ir import TileElement, TileLoad
from .addresses import pointer_to, sum_scalar_terms
from .builder import Value
from .dtype_conversions import from_memory, memory_type
from .emitter import Emitter
from .scopes import ValueVectors
from .types import Type, array, vector
from .vector_access import count_components, deinterleave, load_vector, transpose


def pointer_to_tile(em: Emitter, tile: int, element: Type, side: int) -> Value:
    """Emit the pointer to tile number `tile` on the stack, a square with `side` rows of `side` elements of type `element`.

    The first call for a tile emits its allocation at the entry of the function; later calls return the same value.
    """
    return em.emit_once(0, ("tile", tile), lambda: em.allocate_on_stack(element, side * side, f"tile{tile}"))


def fill_tile(em: Emitter, s: TileLoad) -> None:
    """Emit the statement `s`: copy the elements of an operand in the present blocks of two axes into a tile.

    Whole squares, transposed in registers, come first, and then single elements.
    """
    source = _TileSource(em, s)
    width = min(em.target.loops.register_transpose_side, em.target.lane_count(max(4, source.element.bytes)))
    (top, bottom, _), (left, right, _) = em.axis_ranges[s.contiguous_axis], em.axis_ranges[s.read_axis]

    def copy_squares(i: Value) -> Value:
        def copy_square(j: Value) -> Value:
            source.copy_square(i, j, width)
            em.continue_innermost()
            return j + width

        em.continue_innermost()
        below = i + width
        stop = em.emit_loop(s.read_axis, left, right, copy_square, min_remaining=width, binds_axis=False)
        source.copy_elements((i, below), (stop, right))
        return below

    stop = em.emit_loop(s.contiguous_axis, top, bottom, copy_squares, min_remaining=width, binds_axis=False)
    source.copy_elements((stop, bottom), (left, right))


class _TileSource:
    """The operand that `s` copies into a tile. Element (i, j) is at index i of the contiguous axis, and index j of the axis read along.

    Indices count from the begin of an axis, and are values at run time.
    """

    def __init__(self, em: Emitter, s: TileLoad) -> None:
        self.em, self.statement = em, s
        self.element = memory_type(em.kernel.operands[s.operand].dtype)
        self.tile = pointer_to_tile(em, s.tile, self.element, s.side)
        self.pointer = pointer_to(em, s.operand)
        self.start = sum_scalar_terms(em, s.address, [t for t in s.address.terms if t.axis not in (s.contiguous_axis, s.read_axis)])
        self.stride = em.load_size_parameter(next(t.value for t in s.address.terms if t.axis == s.read_axis))

    def locate_element(self, i: Value, j: Value) -> tuple[Value, Value]:
        """Emit pointers to element (i, j) of the operand and to the copy of the element in the tile, and return both."""
        (top, _, _), (left, _, _) = self.em.axis_ranges[self.statement.contiguous_axis], self.em.axis_ranges[self.statement.read_axis]
        source_offset = self.start + i + j * self.stride
        tile_offset = (i - top) * self.statement.side + (j - left)
        return self.pointer.at(source_offset, self.element), self.tile.at(tile_offset, self.element)

    def copy_square(self, i: Value, j: Value, width: int) -> None:
        """Emit the copy of a square of `width` by `width` elements, the first of which is (i, j): by loads, a transposition and stores."""
        self.em.continue_innermost()
        start, into = self.locate_element(i, j)
        component_count = count_components(self.element)
        kind = vector(self.element.element, component_count * width)
        rows = [start.at(self.stride * k, self.element).load(kind) for k in range(width)]
        for k, row in enumerate(transpose(rows, component_count)):
            into.at(k * self.statement.side, self.element).store(row)

    def copy_elements(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit the copy of the elements (i, j) of a rectangle, one by one. `rows` has the begin and the end of i, `columns` those of j."""
        em, s = self.em, self.statement

        def copy_row(i: Value) -> Value:
            def copy_element(j: Value) -> Value:
                em.continue_innermost()
                source, target = self.locate_element(i, j)
                target.store(source.load(self.element))
                return j + 1

            em.emit_loop(s.read_axis, *columns, copy_element, binds_axis=False)
            em.continue_innermost()
            return i + 1

        em.emit_loop(s.contiguous_axis, *rows, copy_row, binds_axis=False)


def load_tile(em: Emitter, e: TileElement) -> ValueVectors:
    """Emit the load of the elements `e` of a tile on the stack, for the lanes of `em`. Return the vectors, or a scalar without lanes.

    The code of `fill_tile` has filled the tile before. The row is the index of `e.contiguous_axis`, and the lanes run along
    `e.read_axis`. If `e.component` is not None, the elements are complex: load the real (0) or the imaginary part (1).
    """
    component_type = memory_type(e.dtype)
    element = component_type if e.component is None else array(component_type, 2)
    tile, lanes = pointer_to_tile(em, e.tile, element, e.side), em.lanes

    def row_start() -> Value:
        return tile.at((em.index(e.contiguous_axis) - em.axis_ranges[e.contiguous_axis].begin) * e.side, element)

    row = em.emit_once(em.depth_of_axis(e.contiguous_axis), ("tile row", e.tile), row_start)
    column = em.index(e.read_axis) - em.axis_ranges[e.read_axis].begin
    if lanes is None:
        return [from_memory(e.dtype, row.at(column, element).at(e.component or 0, component_type).load(component_type))]
    vectors = deinterleave([load_vector(em, row, column, u, element) for u in range(lanes.unroll)], count_components(element))
    component_vectors = vectors[lanes.unroll :] if e.component else vectors[: lanes.unroll]
    return [from_memory(e.dtype, v) for v in component_vectors]
