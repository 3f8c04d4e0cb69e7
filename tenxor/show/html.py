"""Tensors as HTML: an interactive page from an index to its storage cell, and the display of a tensor in notebooks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import product
from typing import cast

from ..errors import ArgumentError
from .drawing import MONO, SANS, escape, write_whole
from .formula import describe_place, terms_of
from .numbers import write_numbers, write_short
from .shown import (
    Runs,
    ShownTensor,
    check_tensor,
    everything,
    header,
    positions_of,
    read_offsets,
    read_values,
    shorten,
    with_gaps,
)
from .svg import strip_figure
from .walk import page_source

_MAX_ELEMENTS = 65_536
_FRAME_HEIGHT = 640

# A notebook's style sheet also applies to these tables, so each element carries a complete style.
_TABLE = "border-collapse:separate;border-spacing:0;margin:6px 0 12px"
_CELL = f"padding:2px 8px;text-align:right;font-family:{escape(MONO)};white-space:pre"
_HEAD = "padding:2px 8px;text-align:right;font-weight:400;font-size:11px;opacity:.6"
_CAPTION = "opacity:.65;margin-top:8px"
_EMPTY = f'<div style="{_CAPTION};margin-bottom:8px">no elements</div>'
_GAP_LINE = f'<div style="{_CAPTION}">…</div>'


class Page:
    """A finished HTML document without external resources, displayed by notebooks in a frame.

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
        return f'<iframe srcdoc="{escape(self._html)}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        return f"Page({len(self._html):,} characters of HTML; save(path) writes them)"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the document to a file, whole or not at all. Raise OSError if writing fails."""
        write_whole(path, self._html)


def slider_page(t: ShownTensor, title: str | None = None) -> Page:
    """Make a page with sliders that walk an index through shape, strides and offset to its storage cell.

    The page shows the formula with the numbers filled in, and highlights the element in the tensor and its cell in the storage. Gathered
    axes and view chains are supported.

    Args:
        t: a tensor of any rank and dtype with 1 to 65,536 elements. Every element is read.
        title: the heading; by default the shape and dtype.

    Returns:
        A `Page`: notebooks display it, `save(path)` writes it.

    Raises:
        ArgumentError: the tensor has no elements, or too many.

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
    layout, runs = t.layout, everything(t.shape)
    heading = header(t) if title is None else title
    data = {
        "shape": list(t.shape),
        "offset": layout.offset,
        "terms": terms_of(layout),
        "base": None if layout.base is None else list(layout.base.shape),
        "cells": read_offsets(t, runs).ravel().tolist(),
        "labels": [write_short(value) for value in read_values(t, runs).ravel().tolist()],
        "storage": t.storage.size,
    }
    encoded = json.dumps(data, separators=(",", ":"))  # numbers and their labels: nothing to escape
    storage_text, explanation = describe_place(layout), layout.explain()
    return Page(page_source(escape(heading), escape(storage_text), escape(explanation), encoded))


def repr_html(t: ShownTensor) -> str:
    """Return the display of a tensor in notebooks, as HTML: header, numbers and storage strip.

    Large tensors are shortened, and only the shown elements are read.

    >>> import tenxor as tx
    >>> "Tensor (2, 3) int64" in tx.show.repr_html(tx.reshape(tx.arange(6), (2, 3)))
    True
    """
    check_tensor("show.repr_html", t)
    shape = tuple(t.shape)
    ndim = len(shape)
    runs = shorten(shape, [1] * max(ndim - 2, 0) + [4] * min(ndim, 2), 160)
    numbers = "".join(_Numbers(t, runs).tables()) if t.layout.size else _EMPTY
    return (
        f'<div style="font-family:{escape(SANS)};font-size:13px"><div><b>{escape(header(t))}</b> '
        f'<span style="opacity:.65">{escape(describe_place(t.layout))}</span></div>'
        f"{numbers}<div>{strip_figure(t).svg}</div></div>"
    )


class _Numbers:
    """The numbers of a tensor as HTML tables, one for each matrix; several matrices are captioned with their leading indices."""

    def __init__(self, t: ShownTensor, runs: Sequence[Runs]) -> None:
        texts = write_numbers(read_values(t, runs), t.dtype.name)
        self.texts = dict(zip(product(*map(positions_of, runs)), texts, strict=True))
        self.slots = [with_gaps(axis, size) for axis, size in zip(runs, t.shape, strict=True)]
        self.outer = max(len(t.shape) - 2, 0)

    def tables(self, prefix: tuple[int, ...] = ()) -> Iterator[str]:
        """Yield the HTML of each table whose leading indices begin with `prefix`."""
        if len(prefix) == self.outer:
            yield self._table(prefix)
            return
        for position in self.slots[len(prefix)]:
            yield _GAP_LINE if position is None else "".join(self.tables((*prefix, position)))

    def _table(self, prefix: tuple[int, ...]) -> str:
        """Return the HTML table of the matrix, row or number at the leading indices `prefix`."""
        rows = self.slots[-2] if len(self.slots) > 1 else None
        columns = self.slots[-1] if self.slots else None
        index_text = ", ".join([*map(str, prefix), ":", ":"])
        caption = f'<div style="{_CAPTION}">[{index_text}]</div>' if prefix else ""
        lines = []
        if columns is not None:
            head = "".join(f'<th style="{_HEAD}">{_position_text(column)}</th>' for column in columns)
            lines.append(f"<tr>{'' if rows is None else '<th></th>'}{head}</tr>")
        for row in [()] if rows is None else [(row,) for row in rows]:
            side = "".join(f'<th style="{_HEAD}">{_position_text(position)}</th>' for position in row)
            cells = "".join(
                f'<td style="{_CELL}">{self._text((*prefix, *row, *column))}</td>'
                for column in ([()] if columns is None else [(column,) for column in columns])
            )
            lines.append(f"<tr>{side}{cells}</tr>")
        return f'{caption}<table style="{_TABLE}">{"".join(lines)}</table>'

    def _text(self, index: tuple[int | None, ...]) -> str:
        """Return the text of an element, escaped; an ellipsis in a gap."""
        return "…" if None in index else escape(self.texts[cast("tuple[int, ...]", index)])


def _position_text(position: int | None) -> str:
    """Return the text of a position; an ellipsis for a gap."""
    return "…" if position is None else str(position)
