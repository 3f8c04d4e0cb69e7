"""Where the first NaN came from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .. import shortcut
from ..dtypes import decoded
from ..errors import NotANumber
from ..node import Node, watchers
from ..realize import realize

__all__ = ["check_nan"]

_PACKAGE = str(Path(__file__).resolve().parents[1])


@contextmanager
def check_nan() -> Iterator[None]:
    """While it is open, NotANumber is raised for the first operation that makes NaN of what has none, where it stands, with its name, its
    shape and its line. Derivatives are looked at, too: their operations are named after those that they belong to.

    All is computed step by step meanwhile, so it takes much longer. It holds for all threads.

    >>> import tenxor as tx
    >>> with tx.check_nan():
    ...     y = tx.log(tx.asarray([1.0, -1.0])) + 1.0
    Traceback (most recent call last):
    ...
    tenxor.errors.NotANumber: check_nan: log made the first NaN, in a result of shape (2,), at ...
    """
    before = watchers[:]
    with shortcut.aside():
        watchers[:] = [_look]
        try:
            yield
        finally:
            watchers[:] = before


def _look(node: Node) -> None:
    """Compute a node that was just made; NotANumber if it has NaN, and nothing that it reads has."""
    sources = [s for s in node.sources if type(s) is Node]  # before they are let go
    name = node.op.name
    if name != "empty" and _has_nan(node) and not any(map(_has_nan, sources)):
        raise NotANumber(f"check_nan: {name} made the first NaN, in a result of shape {node.shape}, at {_line()}")


def _has_nan(node: Node) -> bool:
    if node.traced or not (node.dtype.is_float or node.dtype.is_complex):
        return False
    realize(node)
    assert node.buffer is not None
    return bool(np.isnan(decoded(node.buffer.typed(node.dtype)[: node.size], node.dtype)).any())


def _line() -> str:
    """Where the user's program is."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return "an unknown line"
    import linecache

    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" + (f": {text}" if text else "")
