"""A storage as a strip of cells, with lines from the elements of a view to their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from .palette import BORDER, FAINT_INK, INK, MUTED_INK, UNUSED_CELL
from .shown_elements import INDEX_SIZE, VALUE_SIZE, BoxColours, CellColours, Index, ShownElements
from .svg_drawing import SANS_SERIF_FONTS, Drawing, text_width

_CELL_HEIGHT = 42.0
_ENTRY_HEIGHT = 32.0
_BOX_SPACE = 3.0
_GAP_WIDTH = 22.0
_LINE_HEIGHT = 88.0
_MAX_UNCUT_CELLS = 32


def cells_to_show(size: int, used: Iterable[int]) -> list[int | None]:
    """Return the cells to show of a storage of `size` cells, ascending, with None for a gap.

    A short storage shows every cell, a long one the cells `used` by shown elements and both ends.
    """
    if size <= _MAX_UNCUT_CELLS:
        return list(range(size))
    result: list[int | None] = [0]
    for cell, next_cell in pairwise(sorted({*used, 0, size - 1})):
        if next_cell > cell + 2:
            result.append(None)
        elif next_cell == cell + 2:  # a gap would take as much space as the single cell it hides
            result.append(cell + 1)
        result.append(next_cell)
    return result


def draw_strip(size: int, views: Sequence[ShownElements], names: Sequence[str] = ("elements",)) -> Drawing:
    """Return a drawing of a storage of `size` cells, with the elements of the first of `views` above, and of the second, if given, below.

    `names` are the captions of the views. Long storages are cut to the cells of shown elements and both ends.
    """
    return _Strip(size, views).draw(names)


class _Strip:
    """The shown cells of a storage, and the views drawn above and below.

    `cells` has the numbers of the shown cells, with None for gaps; `labels` the values of cells with shown elements, by number; `width` is
    the width of a box in pixels, and `ramp` has the colours of the cells.
    """

    def __init__(self, size: int, views: Sequence[ShownElements]) -> None:
        self.size = size
        self.views = views
        self.labels = {item.cell: item.label for view in views for item in view.items.values()}
        self.cells = cells_to_show(size, self.labels)
        self.ramp = CellColours(self.labels)
        indices = [text_width(_index_text(index), INDEX_SIZE) + 6 for view in views for index in view.items]
        numbers = text_width(str(size), INDEX_SIZE) + 10
        self.width = max([36.0, numbers, *indices, *(view.label_width() + 12 for view in views)])

    def draw(self, names: Sequence[str]) -> Drawing:
        """Draw the lines, the cells, the elements of each view, and captions with the views' names."""
        drawing = Drawing()
        lefts = self._left_edges(self.cells)
        middles = {cell: left + self.width / 2 for cell, left in zip(self.cells, lefts, strict=True) if cell is not None}
        rows = [(view, name, direction) for view, name, direction in zip(self.views, names, (-1, 1), strict=False) if view.items]
        for view, _, direction in rows:
            self._draw_lines(drawing, view, middles, direction)
        for cell, left in zip(self.cells, lefts, strict=True):
            self._draw_cell(drawing, cell, left)
        for view, _, direction in rows:
            self._draw_elements(drawing, view, direction)
        captions = [(0.0, "storage", f"{self.size:,} cell{'s' * (self.size != 1)}")]
        captions += [(self._middle(direction), name, "in order") for _, name, direction in rows]
        side = drawing.box[0] - 16
        for y, name, remark in captions:
            drawing.text(side, y - 8, name, 12, "end", INK, SANS_SERIF_FONTS, font_weight=600)
            drawing.text(side, y + 8, remark, 11, "end", MUTED_INK, SANS_SERIF_FONTS)
        return drawing

    def _left_edges(self, slots: Sequence[object]) -> list[float]:
        """Return the left edges of boxes and gaps side by side, centred on x = 0; None in `slots` stands for a gap."""
        sizes = [(_GAP_WIDTH if slot is None else self.width) + _BOX_SPACE for slot in slots]
        return [end - (sum(sizes) - _BOX_SPACE) / 2 for end in [0.0, *accumulate(sizes)][:-1]]

    def _middle(self, direction: int) -> float:
        """Return the vertical position of the middle of a view's row; `direction` is -1 for above and 1 for below."""
        return direction * (_CELL_HEIGHT / 2 + _LINE_HEIGHT + _ENTRY_HEIGHT / 2)

    def _draw_lines(self, drawing: Drawing, view: ShownElements, middles: dict[int, float], direction: int) -> None:
        """Draw a line from each element of `view` to the cell. `middles` maps a shown cell to its horizontal centre.

        `direction` is -1 for a view above the storage, and 1 for a view below.
        """
        order = view.ordered_indices()
        for index, left in zip(order, self._left_edges(order), strict=True):
            if index is None:
                continue
            cell = view.items[index].cell
            start = left + self.width / 2, self._middle(direction) - direction * _ENTRY_HEIGHT / 2
            end = middles[cell], direction * _CELL_HEIGHT / 2
            style = {"stroke": self.ramp.line_colour(cell), "stroke_width": 1.6, "stroke_opacity": 0.9}
            drawing.curve(start, end, class_="link", **_data_attributes(index, cell), **style)

    def _draw_cell(self, drawing: Drawing, cell: int | None, left: float) -> None:
        """Draw a cell with number and value, in grey if it stores no shown element; an ellipsis if `cell` is None."""
        middle = left + self.width / 2
        if cell is None:
            drawing.text(left + _GAP_WIDTH / 2, 0, "…", fill=FAINT_INK)
            return
        label = self.labels.get(cell)
        colours = BoxColours(UNUSED_CELL, FAINT_INK, BORDER) if label is None else self.ramp.colours_of(cell)
        style = {"class_": "cell", "data_cell": cell}
        self._draw_box(drawing, left, 0.0, _CELL_HEIGHT, colours, f"cell {cell}", **style)
        drawing.text(middle, -11, str(cell), INDEX_SIZE, fill=FAINT_INK if label is None else MUTED_INK)
        if label is not None:
            drawing.text(middle, 7, label, VALUE_SIZE, fill=colours.ink)

    def _draw_elements(self, drawing: Drawing, view: ShownElements, direction: int) -> None:
        """Draw the elements of `view` as a row of boxes with values and indices: above the storage if `direction` is -1, below if 1."""
        order = view.ordered_indices()
        y = self._middle(direction)
        for index, left in zip(order, self._left_edges(order), strict=True):
            if index is None:
                drawing.text(left + _GAP_WIDTH / 2, y, "…", fill=FAINT_INK)
                continue
            label, cell = view.items[index]
            style = {"class_": "entry", **_data_attributes(index, cell)}
            self._draw_box(drawing, left, y, _ENTRY_HEIGHT, self.ramp.colours_of(cell), view.tooltip(index), **style)
            drawing.text(left + self.width / 2, y, label, VALUE_SIZE, pointer_events="none")
            outside = y + direction * (_ENTRY_HEIGHT / 2 + 10)
            drawing.text(left + self.width / 2, outside, _index_text(index), INDEX_SIZE, fill=FAINT_INK)

    def _draw_box(
        self,
        drawing: Drawing,
        left: float,
        y: float,
        height: float,
        colours: BoxColours,
        tip: str,
        **style: object,
    ) -> None:
        """Draw a rounded box of the common width from x = `left`, vertically centred on `y`, with the tooltip `tip`.

        `style` has further SVG attributes, as in `Drawing.rect`.
        """
        paint = {"fill": colours.fill, "stroke": colours.edge, "rx": 6}
        drawing.rect(left, y - height / 2, self.width, height, tip, **paint, **style)


def _index_text(index: Index) -> str:
    """Return an index as text."""
    return ",".join(map(str, index))


def _data_attributes(index: Index, cell: int) -> dict[str, object]:
    """Return the SVG attributes of an element: index and storage cell."""
    return {"data_index": _index_text(index), "data_cell": cell}
