"""Where the first NaN came from."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np

from .. import shortcut
from ..dtypes import decoded
from ..errors import NotANumber
from ..node import DATA, EMPTY, Node, next_number, watchers
from ..ops.reductions import Reduction
from ..past import Past, past_of
from ..realize import realize

__all__ = ["check_nan"]

_PACKAGE = str(Path(__file__).resolve().parents[1])
_Line = tuple[str, int] | None  # a file and a number; None for one that is not known
_lines: dict[ref[Past], _Line] = {}  # where each was made that was seen; entries go with the pasts, by C alone
_traced: dict[ref[Node], tuple[_Line, Past | None]] = {}  # and what has no value: it is made of a batch later


@contextmanager
def check_nan() -> Iterator[None]:
    """While it is open, NotANumber is raised for the first operation that makes NaN of what has none, where it stands, with its name, its
    shape and its line. Derivatives are looked at, too: their operations are named after those that they belong to, and the error says at
    which line that one was computed.

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
        watchers[:] = [partial(_look, next_number())]
        try:
            yield
        finally:
            watchers[:] = before


def _look(
    begun: int, node: Node, name: str | None = None, sources: Sequence[Node] = (), of: Past | None = None, like: Node | None = None
) -> None:
    """Compute a node that was just made, and what it was made of that nobody has seen, as it was made since then (`begun`); NotANumber for
    the first that has NaN while nothing that it reads has. What was not made of nodes is told by its name and sources; what is a
    derivative `of` something, with this. What is made of a batch belongs to the line of what it is made `like`, which has no value.
    """
    line = _line()
    if like is not None:
        if ref(like) not in _traced:
            return  # a part of something else that is
        line, of = _traced[ref(like)]
    if node.traced and ref(node) not in _traced:
        _traced[ref(node, _traced.pop)] = line, of
    _note(node, begun, line)
    if name is not None:
        return _check(node, name, sources, line, of)
    steps = _steps(node, begun)
    reads = {step: [s for s in step.sources if type(s) is Node] for step in steps}  # before they are let go
    # What is reduced is computed with the reduction, as products may be many times what they are made of.
    within = {s for step in steps if isinstance(step.op, Reduction) for s in reads[step] if s in reads}
    for step in steps:
        if step in within or step.op in (DATA, EMPTY):
            continue
        inner = [s for s in reads[step] if s in within] if isinstance(step.op, Reduction) else []
        told = " of ".join([step.op.name, *[s.op.name for s in inner]])
        _check(step, told, [s for k in (step, *inner) for s in reads[k] if s not in inner], line, of)


def _note(node: Node, begun: int, line: _Line) -> None:
    """Note the line for all pasts that lead to a node, were made since then, and have none: their derivatives may be asked for later, at
    another line.
    """
    stack = [past_of(node)]
    while stack:
        past = stack.pop()
        if past is not None and past.number > begun and ref(past) not in _lines:
            _lines[ref(past, _lines.pop)] = line
            stack += map(past_of, past.sources)


def _check(node: Node, name: str, sources: Sequence[Node], line: _Line, of: Past | None) -> None:
    if _has_nan(node) and not any(map(_has_nan, sources)):
        belongs = ""
        if of is not None:
            known = ref(of) in _lines
            where = f"at {_told(_lines[ref(of)])}" if known else "before check_nan was open, so its line is not known"
            belongs = f", in the derivative of {of.recipe.op.name}, which was computed {where}"
        raise NotANumber(f"check_nan: {name} made the first NaN, in a result of shape {node.shape}, at {_told(line)}{belongs}")


def _steps(node: Node, begun: int) -> list[Node]:
    """What waits to be computed for a node and was made since then, and the node itself, each after what it reads."""
    found: dict[Node, None] = {}
    stack = [(node, False)]
    while stack:
        step, ready = stack.pop()
        if ready:
            found[step] = None
        elif step not in found:
            stack.append((step, True))
            stack += [(s, False) for s in step.sources if type(s) is Node and s.buffer is None and s.first > begun and not s.traced]
    return list(found)


def _has_nan(node: Node) -> bool:
    if node.traced or not (node.dtype.is_float or node.dtype.is_complex):
        return False
    realize(node)
    assert node.buffer is not None
    return bool(np.isnan(decoded(node.buffer.typed(node.dtype)[: node.size], node.dtype)).any())


def _line() -> _Line:
    """Where the user's program is."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _told(line: _Line) -> str:
    if line is None:
        return "an unknown line"
    import linecache

    text = linecache.getline(*line).strip()
    return f"{line[0]}:{line[1]}" + (f": {text}" if text else "")
