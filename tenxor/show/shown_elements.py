"""The elements shown in a figure: indices, values and storage cells, and the colour of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from .number_format import format_short
from .palette import HIGHLIGHT, HIGHLIGHT_INK, INK, NEUTRAL_FILL, cell_fill, cell_stroke, darken
from .svg_drawing import text_width
from .tensor_reading import Runs, ShownTensor, choose_runs, list_positions, list_with_gaps, read_offsets, read_values

Index = tuple[int, ...]

VALUE_SIZE = 12.0
INDEX_SIZE = 9.5


class Element(NamedTuple):
    """An element: the value as short text, and the number of the storage cell."""

    label: str
    cell: int


@dataclass(frozen=True, slots=True)
class ShownElements:
    """The shown elements of a tensor by index, in row-major order, with the shown positions of each axis.

    `shape` is the shape of the tensor, `runs` has the shown positions of each axis as ranges, and `items` the elements by index.
    """

    shape: tuple[int, ...]
    runs: tuple[Runs, ...]
    items: dict[Index, Element]

    @classmethod
    def read(cls, t: ShownTensor, edges: Sequence[int], limit: int, kept_index: Sequence[int] | None = None) -> ShownElements:
        """Return the elements to show of `t`: at most about `limit`. No other element is read.

        `edges` has for each axis the number of positions to show at either end; short axes are shown whole. The positions in `kept_index`,
        an index or None, are always shown.
        """
        shape = tuple(t.shape)
        runs = choose_runs(shape, edges, limit, kept_index)
        values = read_values(t, runs).ravel().tolist()
        cells = read_offsets(t, runs).ravel().tolist()
        indices = product(*map(list_positions, runs))
        items = {index: Element(format_short(value), cell) for index, value, cell in zip(indices, values, cells, strict=True)}
        return cls(shape, runs, items)

    def positions_with_gaps(self, axis: int) -> list[int | None]:
        """Return the shown positions of an axis, with None for a gap."""
        return list_with_gaps(self.runs[axis], self.shape[axis])

    def label_width(self) -> float:
        """Return the width of the longest value, in pixels."""
        return max((text_width(item.label, VALUE_SIZE) for item in self.items.values()), default=0.0)

    def ordered_indices(self) -> list[Index | None]:
        """Return the indices in row-major order, with None for omitted elements between two indices."""
        result: list[Index | None] = []
        expected = 0
        for index in self.items:
            number = 0
            for position, size in zip(index, self.shape, strict=True):
                number = number * size + position
            if number != expected:
                result.append(None)
            result.append(index)
            expected = number + 1
        return result

    def tooltip(self, index: Index) -> str:
        """Return a tooltip for an element: index, value and storage cell."""
        item = self.items[index]
        return f"[{', '.join(map(str, index))}] = {item.label}, in cell {item.cell}"


class BoxColours(NamedTuple):
    """The colours of a box: background, text and border, each as `#rrggbb`."""

    fill: str
    ink: str
    edge: str


class CellColours:
    """The colours of storage cells, evenly spaced over the cells shown in a figure."""

    def __init__(self, cells: Iterable[int]) -> None:
        order = sorted(set(cells))
        last_rank = max(len(order) - 1, 1)
        self._position_of = {cell: rank / last_rank for rank, cell in enumerate(order)}

    def colours_of(self, cell: int) -> BoxColours:
        """Return the colours of a shown cell, and of the elements stored in this cell."""
        fill = cell_fill(self._position_of[cell])
        return BoxColours(fill, INK, darken(fill, 0.12))

    def line_colour(self, cell: int) -> str:
        """Return the colour, as `#rrggbb`, of lines to a shown cell."""
        return cell_stroke(self._position_of[cell])


class HighlightColours:
    """Colours to highlight the element at a given index; the remaining elements get neutral colours."""

    def __init__(self, index: Index) -> None:
        self.index = index

    def colours_of(self, index: Index) -> BoxColours:
        """Return the colours of the element at `index`: strong colours for the highlighted element, otherwise neutral colours."""
        if index == self.index:
            return BoxColours(HIGHLIGHT, HIGHLIGHT_INK, darken(HIGHLIGHT, 0.15))
        return BoxColours(NEUTRAL_FILL, INK, darken(NEUTRAL_FILL, 0.1))
