"""The elements shown in a figure: indices, values and storage cells, and the colour of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from .drawing import text_width
from .numbers import write_short
from .palette import INK, LIT, LIT_INK, PLAIN, darker, stroke, tint
from .shown import (
    Runs,
    ShownTensor,
    positions_of,
    read_offsets,
    read_values,
    shorten,
    with_gaps,
)

Index = tuple[int, ...]

VALUE_SIZE = 12.0
INDEX_SIZE = 9.5


class Element(NamedTuple):
    """An element: the value as short text, and the number of the storage cell."""

    label: str
    cell: int


@dataclass(frozen=True, slots=True)
class Elements:
    """The shown elements of a tensor by index, in row-major order, with the shown positions of each axis."""

    shape: tuple[int, ...]
    runs: tuple[Runs, ...]
    items: dict[Index, Element]

    @classmethod
    def read(cls, t: ShownTensor, edges: Sequence[int], limit: int, keep: Sequence[int] | None = None) -> Elements:
        """Read the elements to show, about `limit` at most, and no others.

        `edges` are the positions to show at either end of each axis, and `keep` is an index to show in any case.
        """
        shape = tuple(t.shape)
        runs = shorten(shape, edges, limit, keep)
        values = read_values(t, runs).ravel().tolist()
        cells = read_offsets(t, runs).ravel().tolist()
        indices = product(*map(positions_of, runs))
        items = {
            index: Element(write_short(value), cell) for index, value, cell in zip(indices, values, cells, strict=True)
        }
        return cls(shape, runs, items)

    def slots(self, axis: int) -> list[int | None]:
        """Return the shown positions of an axis, with None for a gap."""
        return with_gaps(self.runs[axis], self.shape[axis])

    def label_width(self) -> float:
        """Return the width of the longest value, in pixels."""
        return max((text_width(item.label, VALUE_SIZE) for item in self.items.values()), default=0.0)

    def in_order(self) -> list[Index | None]:
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

    def tip(self, index: Index) -> str:
        """Return a tooltip for an element: index, value and storage cell."""
        item = self.items[index]
        return f"[{', '.join(map(str, index))}] = {item.label}, in cell {item.cell}"


class Colours(NamedTuple):
    """The colours of a box: background, text and border."""

    fill: str
    ink: str
    edge: str


class Ramp:
    """The colours of storage cells, evenly spaced over the cells shown in a figure."""

    def __init__(self, cells: Iterable[int]) -> None:
        order = sorted(set(cells))
        last_rank = max(len(order) - 1, 1)
        self._position_of = {cell: rank / last_rank for rank, cell in enumerate(order)}

    def of(self, cell: int) -> Colours:
        """Return the colours of a cell and of the elements stored in it."""
        fill = tint(self._position_of[cell])
        return Colours(fill, INK, darker(fill, 0.12))

    def line(self, cell: int) -> str:
        """Return the colour of lines to a cell."""
        return stroke(self._position_of[cell])


class Spotlight:
    """Colours to highlight the element at a given index."""

    def __init__(self, index: Index) -> None:
        self.index = index

    def of(self, index: Index) -> Colours:
        """Return the colours of the element at `index`."""
        if index == self.index:
            return Colours(LIT, LIT_INK, darker(LIT, 0.15))
        return Colours(PLAIN, INK, darker(PLAIN, 0.1))
