"""Draw the elements of a tensor: as a box, a row, a grid, a cube drawn layer by layer, or cubes side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from .palette import BORDER, FAINT_INK, MUTED_INK, darken
from .shown_elements import INDEX_SIZE, VALUE_SIZE, BoxColours, Index, ShownElements
from .svg_drawing import SANS_SERIF_FONTS, Drawing, Point

Paint = Callable[[Index], BoxColours]

_BOX_HEIGHT = 34.0
_BOX_SPACE = 3.0
_GAP_WIDTH = 24.0
_THICKNESS = 8.0
_TILE_SIDE = 0.94  # side of a tile in units of the grid, so that tiles are visibly separate
_LAYER_SPACE = 18.0
_BLOCK_SPACE = 40.0


def draw_elements(elements: ShownElements, paint: Paint, highlighted_index: Index | None = None) -> Drawing:
    """Return a drawing of the elements: a row, a grid, a cube, or cubes side by side; without elements a dashed box.

    `paint` is a function from the index of an element to the colours of the box. The element at `highlighted_index`, unless None, gets
    another class in the SVG.
    """
    drawing = Drawing()
    if 0 in elements.shape:
        drawing.rect(0, 0, 140, _BOX_HEIGHT, fill="none", stroke=BORDER, rx=6, stroke_dasharray="4 4")
        drawing.text(70, _BOX_HEIGHT / 2, "no elements", fill=MUTED_INK)
        return drawing
    _draw_blocks(drawing, _Painter(elements, paint, highlighted_index), ())
    ndim = len(elements.shape)
    if ndim > 2:
        legend = f"axis {ndim - 3} ↓ · axis {ndim - 2} ↙ · axis {ndim - 1} ↘"
        drawing.text(drawing.box[0], drawing.box[3] + 22, legend, INDEX_SIZE + 1, "start", MUTED_INK, SANS_SERIF_FONTS)
    return drawing


class _Painter:
    """The elements, colours and box sizes of one picture.

    `paint` is a function from the index of an element to its colours, and `highlighted_index` an index or None. `box_width` is the width of
    a box and `half_width` half the diagonal of a tile, in pixels.
    """

    def __init__(self, elements: ShownElements, paint: Paint, highlighted_index: Index | None) -> None:
        self.elements = elements
        self.paint = paint
        self.highlighted_index = highlighted_index
        self.ndim = len(elements.shape)
        self.box_width = max(36.0, elements.label_width() + 14)
        self.half_width = max(27.0, elements.label_width() / 2 + 13)

    def data(self, index: Index) -> dict[str, object]:
        """Return the SVG attributes that identify the mark of an element: class, index and storage cell."""
        return {
            "class_": "element lit" if index == self.highlighted_index else "element",
            "data_index": ",".join(map(str, index)),
            "data_cell": self.elements.items[index].cell,
        }


def _draw_blocks(drawing: Drawing, painter: _Painter, prefix: Index) -> None:
    """Draw the elements with the leading indices `prefix` into `drawing`: a grid, a cube, or a row or column of smaller blocks.

    The number of remaining axes decides: up to two, three, or more.
    """
    remaining_axes = painter.ndim - len(prefix)
    if remaining_axes <= 2:
        _draw_grid(drawing, painter)
        return
    if remaining_axes == 3:
        _draw_cube(drawing, painter, prefix)
        return
    sideways = remaining_axes % 2 == 0  # cubes form a row, rows form a column, and so on alternately
    offset = 0.0
    for position in painter.elements.positions_with_gaps(len(prefix)):
        if position is None:
            x, y = (offset, 80.0) if sideways else (40.0, offset)
            drawing.text(x + 10, y + 10, "…", size=18, fill=MUTED_INK)
            offset += 20 + _BLOCK_SPACE
            continue
        block = Drawing()
        _draw_blocks(block, painter, (*prefix, position))
        captioned = _add_caption(block, (*prefix, position)) if remaining_axes == 4 else block
        drawing.add_drawing(captioned, offset if sideways else 0.0, 0.0 if sideways else offset)
        offset += (captioned.width if sideways else captioned.height) + _BLOCK_SPACE


def _add_caption(cube: Drawing, prefix: Index) -> Drawing:
    """Return a cube below a caption with the leading indices, such as `[0, :, :, :]`."""
    drawing = Drawing()
    drawing.text(0, 0, f"[{', '.join([*map(str, prefix), ':', ':', ':'])}]", anchor="start", fill=MUTED_INK)
    drawing.add_drawing(cube, 0, 16)
    return drawing


def _draw_grid(drawing: Drawing, painter: _Painter) -> None:
    """Draw the elements of `painter` into `drawing`, as a grid of boxes; gaps between shown rows or columns are dots.

    A matrix has row and column numbers, a vector is a row without a row number, and a scalar is a single box.
    """
    columns = painter.elements.positions_with_gaps(painter.ndim - 1) if painter.ndim else []
    rows = painter.elements.positions_with_gaps(0) if painter.ndim == 2 else []
    lefts = _box_starts(columns or [0], painter.box_width)
    tops = _box_starts(rows or [0], _BOX_HEIGHT)
    for column, x in zip(columns, lefts, strict=False):
        if column is not None:
            drawing.text(x + painter.box_width / 2, -9, str(column), INDEX_SIZE, fill=FAINT_INK)
    for row, y in zip(rows, tops, strict=False):
        if row is not None:
            drawing.text(-8, y + _BOX_HEIGHT / 2, str(row), INDEX_SIZE, "end", FAINT_INK)
    row_keys: Sequence[Index | None] = _one_element_indices(rows) if rows else [()]
    column_keys: Sequence[Index | None] = _one_element_indices(columns) if columns else [()]
    for row_key, y in zip(row_keys, tops, strict=True):
        for column_key, x in zip(column_keys, lefts, strict=True):
            if row_key is None or column_key is None:
                width = _GAP_WIDTH if column_key is None else painter.box_width
                height = _GAP_WIDTH if row_key is None else _BOX_HEIGHT
                drawing.text(x + width / 2, y + height / 2, "…" if column_key is None else "⋮", fill=FAINT_INK)
            else:
                _draw_box(drawing, painter, (*row_key, *column_key), x, y)


def _one_element_indices(positions: Sequence[int | None]) -> list[Index | None]:
    """Return the positions as one-element indices, with None for a gap."""
    return [None if position is None else (position,) for position in positions]


def _box_starts(positions: Sequence[int | None], size: float) -> list[float]:
    """Return the left or top edge, in pixels, of each box in a row of boxes of `size` pixels, where None stands for a gap."""
    sizes = [(_GAP_WIDTH if position is None else size) + _BOX_SPACE for position in positions]
    return [0.0, *accumulate(sizes)][:-1]


def _draw_box(drawing: Drawing, painter: _Painter, index: Index, x: float, y: float) -> None:
    """Draw the element at `index` into `drawing` as a rounded box with its value, the top left corner at (x, y)."""
    colours = painter.paint(index)
    drawing.rect(
        x,
        y,
        painter.box_width,
        _BOX_HEIGHT,
        tip=painter.elements.tooltip(index),
        rx=6,
        fill=colours.fill,
        stroke=colours.edge,
        **painter.data(index),
    )
    label = painter.elements.items[index].label
    middle = x + painter.box_width / 2, y + _BOX_HEIGHT / 2
    drawing.text(*middle, label, VALUE_SIZE, fill=colours.ink, pointer_events="none")


def _draw_cube(drawing: Drawing, painter: _Painter, prefix: Index) -> None:
    """Draw the 3-D block of elements with the leading indices `prefix`, in isometric view.

    Space between the layers keeps each from hiding the next.
    """
    first_axis = len(prefix)
    layers, rows, columns = (painter.elements.positions_with_gaps(first_axis + axis) for axis in range(3))
    row_starts, column_starts = _tile_edges(rows), _tile_edges(columns)
    depth, breadth = row_starts[-1], column_starts[-1]
    half = painter.half_width
    spread = (depth + breadth) * half / 2
    step = spread + _THICKNESS + _LAYER_SPACE
    tops = [0.0, *accumulate(step if layer is not None else _GAP_WIDTH + _LAYER_SPACE for layer in layers)]

    def corner(row: float, column: float, top: float) -> Point:
        return (column - row) * half, (column + row) * half / 2 + top

    for r, c in ((depth, 0.0), (0.0, 0.0), (0.0, breadth)):  # upright edges of the cube, drawn behind the layers
        drawing.line(corner(r, c, 0.0), corner(r, c, tops[-2]), stroke=FAINT_INK, stroke_dasharray="2 4")
    for layer, top in zip(layers, tops, strict=False):
        if layer is None:
            x, y = corner(depth / 2, breadth / 2, top - spread / 2 + _GAP_WIDTH / 2)
            drawing.text(x, y, "⋮", size=18, fill=MUTED_INK)
            continue
        x, y = corner(depth, 0, top)
        drawing.text(x - 10, y, str(layer), INDEX_SIZE, "end", FAINT_INK)
        for row, r in zip(rows, row_starts, strict=False):
            for column, c in zip(columns, column_starts, strict=False):
                if row is None or column is None:
                    middle = corner(r + _tile_length(row) / 2, c + _tile_length(column) / 2, top)
                    drawing.text(*middle, "…", fill=FAINT_INK)
                    continue
                tile_start, tile_end = 0.0, _TILE_SIDE
                sides = ((tile_start, tile_start), (tile_start, tile_end), (tile_end, tile_end), (tile_end, tile_start))
                tile = [corner(r + a, c + b, top) for a, b in sides]
                _draw_tile(drawing, painter, (*prefix, layer, row, column), tile)
    _label_edges(drawing, rows, row_starts, lambda along: corner(along, 0, 0), -9)
    _label_edges(drawing, columns, column_starts, lambda along: corner(0, along, 0), 9)


def _tile_length(position: int | None) -> float:
    """Return the length of a position along an axis, in tiles: 1, or less for None, a gap."""
    return 0.6 if position is None else 1.0


def _tile_edges(positions: Sequence[int | None]) -> list[float]:
    """Return where each of `positions` begins along an axis, in tiles, and last the end of the last position."""
    return [0.0, *accumulate(map(_tile_length, positions))]


def _label_edges(
    drawing: Drawing,
    positions: Sequence[int | None],
    starts: Sequence[float],
    edge: Callable[[float], Point],
    shift_x: float,
) -> None:
    """Write the numbers of the positions along an edge of the top layer, moved sideways by `shift_x` pixels.

    `starts` are the beginnings of the positions in tiles, and `edge` maps a distance in tiles along the edge to a point.
    """
    for position, start in zip(positions, starts, strict=False):
        if position is not None:
            x, y = edge(start + 0.5)
            drawing.text(x + shift_x, y - 8, str(position), INDEX_SIZE, "end" if shift_x < 0 else "start", FAINT_INK)


def _draw_tile(drawing: Drawing, painter: _Painter, index: Index, tile: Sequence[Point]) -> None:
    """Draw an element as a flat tile with two visible sides; `tile` is its top face: back, right, front and left corner."""
    back, right, front, left = tile
    colours = painter.paint(index)

    def lowered(point: Point) -> Point:
        return point[0], point[1] + _THICKNESS

    line = {"stroke": colours.edge, "stroke_linejoin": "round"}
    drawing.polygon([left, front, lowered(front), lowered(left)], fill=darken(colours.fill, 0.10), **line)
    drawing.polygon([front, right, lowered(right), lowered(front)], fill=darken(colours.fill, 0.20), **line)
    tip = painter.elements.tooltip(index)
    drawing.polygon([back, right, front, left], tip, fill=colours.fill, **line, **painter.data(index))
    x, y = (back[0] + front[0]) / 2, (back[1] + front[1]) / 2
    label = painter.elements.items[index].label
    drawing.text(x, y, label, VALUE_SIZE, fill=colours.ink, pointer_events="none")
