"""Figures of a tensor, of a storage, and of two views over one storage."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ArgumentError
from .blocks import Paint, draw_elements
from .drawing import SANS, Drawing, Figure
from .elements import Elements, Ramp, Spotlight
from .formula import describe_place
from .palette import INK, MUTED
from .shown import ShownTensor, check_index, check_tensor, header
from .strip import draw_strip

_MAX_STRIP_ELEMENTS = 24
_MAX_LABEL_WIDTH = 40.0


def tensor_figure(t: ShownTensor, index: Sequence[int] | None = None, title: str | None = None) -> Figure:
    """Draw a tensor as a row, a grid or a cube; higher ranks as cubes side by side.

    Long axes are shortened, and only the shown elements are read. Each element has the colour of its storage cell. With an index, only the
    element there is highlighted.

    Args:
        t: a tensor of any rank and dtype.
        index: the element to highlight, as one integer per axis; negative integers count from the end.
        title: the line above; by default the index, or the shape and dtype.

    Returns:
        A `Figure`: notebooks display it, `save(path)` writes it.

    Raises:
        IndexOutOfRange: the index is outside an axis, or does not have one entry per axis.

    >>> import tenxor as tx
    >>> cube = tx.reshape(tx.arange(18), (2, 3, 3))
    >>> "Tensor Index: (0, 1, 2)" in tx.show.tensor(cube, index=(0, 1, 2)).svg
    True
    """
    check_tensor("show.tensor", t)
    lit = None if index is None else check_index(index, t.shape, "show.tensor")
    elements = Elements.read(t, *_shown_extent(len(t.shape)), keep=lit)
    if lit is not None:
        picture = draw_elements(elements, Spotlight(lit).of, lit)
        heading = f"Tensor Index: {lit}"
        remark = elements.tip(lit)
    else:
        picture = draw_elements(elements, _paint_by_cell(elements, Ramp(_cells_of(elements))))
        heading, remark = header(t), describe_place(t.layout)
    heading = heading if title is None else title
    return Figure(_add_title(picture, heading, remark), heading)


def storage_figure(t: ShownTensor, title: str | None = None) -> Figure:
    """Draw a tensor above a strip of its storage, with a line from each element to its cell.

    An element and its cell have the same colour. Cells without a shown element are grey. Long axes and storages are shortened, and only the
    shown elements are read.

    Args:
        t: a tensor of any rank and dtype.
        title: the line above; by default the shape and dtype.

    >>> import tenxor as tx
    >>> "storage" in tx.show.storage(tx.reshape(tx.arange(6), (2, 3))).svg
    True
    """
    check_tensor("show.storage", t)
    elements = _strip_elements(t)
    heading = header(t) if title is None else title
    drawings = [_heading(heading, describe_place(t.layout)), draw_strip(t.storage.size, [elements])]
    if len(elements.shape) > 1:  # for one axis, the elements are already drawn above the strip
        drawings.insert(1, draw_elements(elements, _paint_by_cell(elements, Ramp(_cells_of(elements)))))
    return Figure(_stack_drawings(drawings, 32), heading)


def views_figure(a: ShownTensor, b: ShownTensor, titles: Sequence[str] | None = None) -> Figure:
    """Draw two views side by side and, between their elements, their common storage.

    Args:
        a, b: two tensors over one storage.
        titles: a name for each; by default "a" and "b".

    Raises:
        ArgumentError: the tensors do not share their storage, or there are not two titles.

    >>> import tenxor as tx
    >>> t = tx.reshape(tx.arange(6), (2, 3))
    >>> "t.T" in tx.show.views(t, t.T, titles=("t", "t.T")).svg
    True
    """
    check_tensor("show.views", a)
    check_tensor("show.views", b)
    if a.storage is not b.storage:
        raise ArgumentError("show.views: the tensors share no storage; give two views of one tensor")
    names = ("a", "b") if titles is None else tuple(titles)
    if len(names) != 2:
        raise ArgumentError(f"show.views: titles has {len(names)} entries; give one for each view, two in all")
    pair = _strip_elements(a), _strip_elements(b)
    ramp = Ramp([cell for elements in pair for cell in _cells_of(elements)])
    both = Drawing()
    for t, name, elements in zip((a, b), names, pair, strict=True):
        picture = draw_elements(elements, _paint_by_cell(elements, ramp))
        titled = _add_title(picture, name, f"{tuple(t.shape)} · {describe_place(t.layout)}")
        both.place(titled, both.width + 64 if both.width else 0.0, 0.0)
    return Figure(_stack_drawings([both, draw_strip(a.storage.size, pair, names)], 36), " and ".join(names))


def strip_figure(t: ShownTensor) -> Figure:
    """Draw only the storage of a tensor, with a line from each element to its cell."""
    return Figure(draw_strip(t.storage.size, [_strip_elements(t)]), f"storage of {header(t)}")


def _shown_extent(ndim: int) -> tuple[list[int], int]:
    """Return the number of positions to show at either end of each axis, and the maximal number of elements."""
    if ndim <= 1:
        return [8] * ndim, 17
    if ndim == 2:
        return [6, 6], 169
    return [2] * (ndim - 2) + [3, 3], 250


def _strip_elements(t: ShownTensor) -> Elements:
    """Read the elements to show along a storage strip; fewer if their values are long."""
    elements = _read_at_most(t, _MAX_STRIP_ELEMENTS)
    return elements if elements.label_width() <= _MAX_LABEL_WIDTH else _read_at_most(t, _MAX_STRIP_ELEMENTS // 2)


def _read_at_most(t: ShownTensor, count: int) -> Elements:
    """Read about `count` elements at most, from both ends of each axis."""
    return Elements.read(t, [count // 2] * len(t.shape), count)


def _cells_of(elements: Elements) -> list[int]:
    """Return the storage cells of the shown elements."""
    return [item.cell for item in elements.items.values()]


def _paint_by_cell(elements: Elements, ramp: Ramp) -> Paint:
    """Return a function from an index to the colours of its storage cell."""
    return lambda index: ramp.of(elements.items[index].cell)


def _add_title(picture: Drawing, heading: str, remark: str) -> Drawing:
    """Return a picture below a heading and a remark."""
    return _stack_drawings([_heading(heading, remark), picture], 24)


def _heading(heading: str, remark: str) -> Drawing:
    """Return a drawing of a heading and, below, a remark in small type."""
    drawing = Drawing()
    drawing.text(0, 0, heading, 16, "start", INK, SANS, font_weight=600)
    drawing.text(0, 21, remark, 11.5, "start", MUTED)
    return drawing


def _stack_drawings(pictures: Sequence[Drawing], space: float) -> Drawing:
    """Return drawings one below another: the first aligned left, the rest centred."""
    drawing = Drawing()
    width = max(picture.width for picture in pictures)
    y = 0.0
    for number, picture in enumerate(pictures):
        drawing.place(picture, (width - picture.width) / 2 if number else 0.0, y)
        y += picture.height + space
    return drawing
