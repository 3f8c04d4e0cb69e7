"""Figures of a tensor, of a storage, and of two views over one storage."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ArgumentError
from .element_drawing import Paint, draw_elements
from .layout_formula import describe_layout
from .palette import INK, MUTED_INK
from .shown_elements import CellColours, HighlightColours, ShownElements
from .storage_strip import draw_strip
from .svg_drawing import SANS_SERIF_FONTS, Drawing, Figure
from .tensor_reading import ShownTensor, check_index, check_tensor, describe_header

_MAX_STRIP_ELEMENTS = 24
_MAX_LABEL_WIDTH = 40.0


def tensor_figure(t: ShownTensor, index: Sequence[int] | None = None, title: str | None = None) -> Figure:
    """Draw a tensor as a row, a grid or a cube; higher ranks as cubes side by side.

    Long axes are shortened, and only the shown elements are read. Each element has the colour of its storage cell. With an index, only the
    element there is highlighted.

    Parameters
    ----------
    t : Tensor
        A tensor of any rank and dtype.
    index : Sequence[int], optional
        The element to highlight, as one integer per axis; negative integers count from the end.
    title : str, optional
        The line above; by default the index, or the shape and dtype.

    Returns
    -------
    Figure
        The picture: notebooks display it, `save(path)` writes it.

    Raises
    ------
    IndexOutOfRange
        If the index is outside an axis, or does not have one entry per axis.
    DTypeError
        If `t` is not a tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> cube = tx.reshape(tx.arange(18), (2, 3, 3))
    >>> "Tensor Index: (0, 1, 2)" in tx.show.tensor(cube, index=(0, 1, 2)).svg
    True
    """
    check_tensor("show.tensor", t)
    lit = None if index is None else check_index(index, t.shape, "show.tensor")
    elements = ShownElements.read(t, *_shown_extent(len(t.shape)), kept_index=lit)
    if lit is not None:
        picture = draw_elements(elements, HighlightColours(lit).colours_of, lit)
        heading = f"Tensor Index: {lit}"
        remark = elements.tooltip(lit)
    else:
        picture = draw_elements(elements, _make_painter(elements, CellColours(_cells_of(elements))))
        heading, remark = describe_header(t), describe_layout(t.layout)
    heading = heading if title is None else title
    return Figure(_add_title(picture, heading, remark), heading)


def storage_figure(t: ShownTensor, title: str | None = None) -> Figure:
    """Draw a tensor above a strip of its storage, with a line from each element to its cell.

    An element and its cell have the same colour. Cells without a shown element are grey. Long axes and storages are shortened, and only the
    shown elements are read.

    Parameters
    ----------
    t : Tensor
        A tensor of any rank and dtype.
    title : str, optional
        The line above; by default the shape and dtype.

    Returns
    -------
    Figure
        The picture.

    Raises
    ------
    DTypeError
        If `t` is not a tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> "storage" in tx.show.storage(tx.reshape(tx.arange(6), (2, 3))).svg
    True
    """
    check_tensor("show.storage", t)
    elements = _strip_elements(t)
    heading = describe_header(t) if title is None else title
    drawings = [_draw_heading(heading, describe_layout(t.layout)), draw_strip(t.storage.size, [elements])]
    if len(elements.shape) > 1:  # for one axis, the elements are already drawn above the strip
        drawings.insert(1, draw_elements(elements, _make_painter(elements, CellColours(_cells_of(elements)))))
    return Figure(_stack_drawings(drawings, 32), heading)


def views_figure(a: ShownTensor, b: ShownTensor, titles: Sequence[str] | None = None) -> Figure:
    """Draw two views side by side and, below both, their common storage.

    Long axes and storages are shortened, and only the shown elements are read.

    Parameters
    ----------
    a, b : Tensor
        Two tensors of any rank over one storage.
    titles : Sequence of str, optional
        A name for each; by default "a" and "b".

    Returns
    -------
    Figure
        The picture.

    Raises
    ------
    ArgumentError
        If the tensors do not share their storage, or there are not two titles.
    DTypeError
        If `a` or `b` is not a tensor.

    Examples
    --------
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
    ramp = CellColours([cell for elements in pair for cell in _cells_of(elements)])
    both = Drawing()
    for t, name, elements in zip((a, b), names, pair, strict=True):
        picture = draw_elements(elements, _make_painter(elements, ramp))
        titled = _add_title(picture, name, f"{tuple(t.shape)} · {describe_layout(t.layout)}")
        both.add_drawing(titled, both.width + 64 if both.width else 0.0, 0.0)
    return Figure(_stack_drawings([both, draw_strip(a.storage.size, pair, names)], 36), " and ".join(names))


def strip_figure(t: ShownTensor) -> Figure:
    """Return a figure of only the storage of a tensor, with a line from each shown element to its cell."""
    return Figure(draw_strip(t.storage.size, [_strip_elements(t)]), f"storage of {describe_header(t)}")


def _shown_extent(ndim: int) -> tuple[list[int], int]:
    """Return, for a tensor of `ndim` axes, the number of positions to show at either end of each axis, and the maximal element count."""
    if ndim <= 1:
        return [8] * ndim, 17
    if ndim == 2:
        return [6, 6], 169
    return [2] * (ndim - 2) + [3, 3], 250


def _strip_elements(t: ShownTensor) -> ShownElements:
    """Return the elements to show along a storage strip: at most about `_MAX_STRIP_ELEMENTS`, or half if their values are long."""
    elements = _read_at_most(t, _MAX_STRIP_ELEMENTS)
    return elements if elements.label_width() <= _MAX_LABEL_WIDTH else _read_at_most(t, _MAX_STRIP_ELEMENTS // 2)


def _read_at_most(t: ShownTensor, count: int) -> ShownElements:
    """Return about `count` elements of `t` at most, from both ends of each axis."""
    return ShownElements.read(t, [count // 2] * len(t.shape), count)


def _cells_of(elements: ShownElements) -> list[int]:
    """Return the storage cell of each shown element, in row-major order; a cell may occur repeatedly."""
    return [item.cell for item in elements.items.values()]


def _make_painter(elements: ShownElements, ramp: CellColours) -> Paint:
    """Return a function from the index of a shown element to the colours of its storage cell; `ramp` has the colours of cells."""
    return lambda index: ramp.colours_of(elements.items[index].cell)


def _add_title(picture: Drawing, heading: str, remark: str) -> Drawing:
    """Return `picture` below two lines: `heading`, and in small type `remark`."""
    return _stack_drawings([_draw_heading(heading, remark), picture], 24)


def _draw_heading(heading: str, remark: str) -> Drawing:
    """Return a drawing of two lines: `heading`, and below, in small type, `remark`."""
    drawing = Drawing()
    drawing.text(0, 0, heading, 16, "start", INK, SANS_SERIF_FONTS, font_weight=600)
    drawing.text(0, 21, remark, 11.5, "start", MUTED_INK)
    return drawing


def _stack_drawings(pictures: Sequence[Drawing], space: float) -> Drawing:
    """Return drawings one below another, `space` pixels apart: the first at the left, the rest centred within the widest."""
    drawing = Drawing()
    width = max(picture.width for picture in pictures)
    y = 0.0
    for number, picture in enumerate(pictures):
        drawing.add_drawing(picture, (width - picture.width) / 2 if number else 0.0, y)
        y += picture.height + space
    return drawing
