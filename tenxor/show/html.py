"""Tensors as HTML: an interactive page from an index to its storage cell, and the display of a tensor in notebooks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import product
from typing import cast

from ..errors import ArgumentError
from .layout_formula import describe_layout, layout_terms
from .number_format import format_numbers, format_short
from .slider_page_source import build_page_source
from .svg_drawing import MONOSPACE_FONTS, SANS_SERIF_FONTS, escape_xml, write_atomically
from .tensor_figures import strip_figure
from .tensor_reading import (
    Runs,
    ShownTensor,
    check_tensor,
    choose_runs,
    describe_header,
    full_runs,
    list_positions,
    list_with_gaps,
    read_offsets,
    read_values,
)

_MAX_ELEMENTS = 65_536
_FRAME_HEIGHT = 640

# A notebook's style sheet also applies to these tables, so each element carries a complete style.
_TABLE_STYLE = "border-collapse:separate;border-spacing:0;margin:6px 0 12px"
_CELL_STYLE = f"padding:2px 8px;text-align:right;font-family:{escape_xml(MONOSPACE_FONTS)};white-space:pre"
_HEAD_STYLE = "padding:2px 8px;text-align:right;font-weight:400;font-size:11px;opacity:.6"
_CAPTION_STYLE = "opacity:.65;margin-top:8px"
_EMPTY_HTML = f'<div style="{_CAPTION_STYLE};margin-bottom:8px">no elements</div>'
_GAP_HTML = f'<div style="{_CAPTION_STYLE}">…</div>'


class Page:
    """A finished HTML document without external resources, displayed by notebooks in a frame.

    Parameters
    ----------
    html : str
        The document.

    Examples
    --------
    >>> import tenxor as tx
    >>> page = tx.show.slider(tx.arange(3))
    >>> page.html.startswith("<!doctype html>")
    True
    """

    def __init__(self, html: str) -> None:
        self._html = html

    @property
    def html(self) -> str:
        """The document as text."""
        return self._html

    def _repr_html_(self) -> str:
        style = f"width:100%;height:{_FRAME_HEIGHT}px;border:0"
        return f'<iframe srcdoc="{escape_xml(self._html)}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        return f"Page({len(self._html):,} characters of HTML; save(path) writes them)"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the document to a file, whole or not at all.

        Parameters
        ----------
        path : path
            The file, UTF-8 text.

        Raises
        ------
        OSError
            If writing fails.
        """
        write_atomically(path, self._html)


def slider_page(t: ShownTensor, title: str | None = None) -> Page:
    """Make a page with sliders that walk an index through shape, strides and offset to its storage cell.

    The page shows the formula with the numbers filled in, and highlights the element in the tensor and its cell in the storage. Gathered
    axes and view chains are supported.

    Parameters
    ----------
    t : Tensor
        A tensor of any rank and dtype with 1 to 65,536 elements. Every element is read.
    title : str, optional
        The heading; by default the shape and dtype.

    Returns
    -------
    Page
        The page: notebooks display it, `save(path)` writes it.

    Raises
    ------
    ArgumentError
        If the tensor has no elements, or too many.
    DTypeError
        If `t` is not a tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> "<script" in tx.show.slider(tx.reshape(tx.arange(6), (2, 3))).html
    True
    """
    check_tensor("show.slider", t)
    size = t.layout.size
    if not 1 <= size <= _MAX_ELEMENTS:
        raise ArgumentError(
            f"show.slider: shape {tuple(t.shape)} has {size:,} elements, but a page can walk through 1 to "
            f"{_MAX_ELEMENTS:,}; show a slice of the tensor"
        )
    layout, runs = t.layout, full_runs(t.shape)
    heading = describe_header(t) if title is None else title
    data = {
        "shape": list(t.shape),
        "offset": layout.offset,
        "terms": layout_terms(layout),
        "base": None if layout.base is None else list(layout.base.shape),
        "cells": read_offsets(t, runs).ravel().tolist(),
        "labels": [format_short(value) for value in read_values(t, runs).ravel().tolist()],
        "storage": t.storage.size,
    }
    encoded = json.dumps(data, separators=(",", ":"))  # numbers and their labels: nothing to escape
    storage_text, explanation = describe_layout(layout), layout.explain()
    return Page(build_page_source(escape_xml(heading), escape_xml(storage_text), escape_xml(explanation), encoded))


def repr_html(t: ShownTensor) -> str:
    """Return the display of a tensor in notebooks, as HTML: header, numbers and storage strip.

    Parameters
    ----------
    t : Tensor
        A tensor of any rank and dtype. Large tensors are shortened, and only the shown elements are read.

    Returns
    -------
    str
        An HTML element.

    Raises
    ------
    DTypeError
        If `t` is not a tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> "Tensor (2, 3) int64" in tx.show.repr_html(tx.reshape(tx.arange(6), (2, 3)))
    True
    """
    check_tensor("show.repr_html", t)
    shape = tuple(t.shape)
    ndim = len(shape)
    runs = choose_runs(shape, [1] * max(ndim - 2, 0) + [4] * min(ndim, 2), 160)
    numbers = "".join(_NumberTables(t, runs).tables()) if t.layout.size else _EMPTY_HTML
    return (
        f'<div style="font-family:{escape_xml(SANS_SERIF_FONTS)};font-size:13px"><div><b>{escape_xml(describe_header(t))}</b> '
        f'<span style="opacity:.65">{escape_xml(describe_layout(t.layout))}</span></div>'
        f"{numbers}<div>{strip_figure(t).svg}</div></div>"
    )


class _NumberTables:
    """The numbers of a tensor as HTML tables, one for each matrix; several matrices are captioned with their leading indices."""

    def __init__(self, t: ShownTensor, runs: Sequence[Runs]) -> None:
        texts = format_numbers(read_values(t, runs), t.dtype.name)
        self.texts = dict(zip(product(*map(list_positions, runs)), texts, strict=True))
        self.positions_with_gaps = [list_with_gaps(axis, size) for axis, size in zip(runs, t.shape, strict=True)]
        self.leading_shape = max(len(t.shape) - 2, 0)

    def tables(self, prefix: tuple[int, ...] = ()) -> Iterator[str]:
        """Yield the HTML of each table whose leading indices begin with `prefix`, and an ellipsis for each gap.

        `prefix` has at most one index for each axis before the last two.
        """
        if len(prefix) == self.leading_shape:
            yield self._table(prefix)
            return
        for position in self.positions_with_gaps[len(prefix)]:
            yield _GAP_HTML if position is None else "".join(self.tables((*prefix, position)))

    def _table(self, prefix: tuple[int, ...]) -> str:
        """Return the HTML table of the matrix, row or number at the leading indices `prefix`."""
        rows = self.positions_with_gaps[-2] if len(self.positions_with_gaps) > 1 else None
        columns = self.positions_with_gaps[-1] if self.positions_with_gaps else None
        index_text = ", ".join([*map(str, prefix), ":", ":"])
        caption = f'<div style="{_CAPTION_STYLE}">[{index_text}]</div>' if prefix else ""
        lines = []
        if columns is not None:
            head = "".join(f'<th style="{_HEAD_STYLE}">{_position_text(column)}</th>' for column in columns)
            lines.append(f"<tr>{'' if rows is None else '<th></th>'}{head}</tr>")
        for row in [()] if rows is None else [(row,) for row in rows]:
            side = "".join(f'<th style="{_HEAD_STYLE}">{_position_text(position)}</th>' for position in row)
            cells = "".join(
                f'<td style="{_CELL_STYLE}">{self._text((*prefix, *row, *column))}</td>'
                for column in ([()] if columns is None else [(column,) for column in columns])
            )
            lines.append(f"<tr>{side}{cells}</tr>")
        return f'{caption}<table style="{_TABLE_STYLE}">{"".join(lines)}</table>'

    def _text(self, index: tuple[int | None, ...]) -> str:
        """Return the escaped text of the element at `index`, or an ellipsis if `index` contains None, a gap."""
        return "…" if None in index else escape_xml(self.texts[cast("tuple[int, ...]", index)])


def _position_text(position: int | None) -> str:
    """Return the text of a position; an ellipsis for a gap."""
    return "…" if position is None else str(position)
