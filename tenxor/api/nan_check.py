"""`check_nan`: find the operation with the first NaN. A line is a file and a line number of the user's program, or None if unknown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np

from .. import fastpath
from .._utils import upcalls
from ..autodiff.tape import TapeNode, get_tape_node
from ..dtypes import decode_elements
from ..errors import NotANumber
from ..graph.node import DATA, EMPTY, Node, next_serial
from ..ops.reductions import Reduction
from ..runtime.realize import realize

__all__ = ["check_nan"]

_PACKAGE = str(Path(__file__).resolve().parents[1])
_Line = tuple[str, int] | None  # file and line number; None if unknown
# The line of creation of each observed tape node. An entry is removed with the tape node, by a C function.
_lines: dict[ref[TapeNode], _Line] = {}
_traced_lines: dict[ref[Node], tuple[_Line, TapeNode | None]] = {}  # likewise for traced nodes; their batches are computed later


@contextmanager
def check_nan() -> Iterator[None]:
    """Raise NotANumber, inside this context, at the first operation that computes NaN from operands without NaN.

    Inside the context everything is computed operation by operation, so programs run much slower. The context applies to every thread.

    Raises
    ------
    NotANumber
        With the operation's name, the shape of the result and the source line. Derivatives are checked, too: their operations are named
        after the differentiated operation, and the error also gives the line where the differentiated operation was computed.

    Examples
    --------
    >>> import tenxor as tx
    >>> with tx.check_nan():
    ...     y = tx.log(tx.asarray([1.0, -1.0])) + 1.0
    Traceback (most recent call last):
    ...
    tenxor.errors.NotANumber: check_nan: log made the first NaN, in a result of shape (2,), at ...
    """
    previous = upcalls.node_observer
    with fastpath.disabled():
        upcalls.node_observer = _NanChecker()
        try:
            yield
        finally:
            upcalls.node_observer = previous


class _NanChecker:
    """The observer of nodes for `check_nan` (`NodeObserver`). It computes each new node when the node is made.

    The methods raise NotANumber for a node with NaN whose operands have no NaN.
    Pending operands are checked, too, if they were created since the context was opened, after the node number `oldest`.
    """

    def __init__(self) -> None:
        self.oldest = next_serial()

    def observe_node(self, node: Node) -> None:
        """Compute and check `node`, the content of a tensor, made on the current line of the user's program."""
        self._check(node, _find_user_line(), None)

    def observe_derivative(self, node: Node, tape_node: TapeNode) -> None:
        """Compute and check `node`, made on the current line as part of the derivative of `tape_node`."""
        self._check(node, _find_user_line(), tape_node)

    def observe_batch(self, batch: Node, node: Node) -> None:
        """Check `batch`, which belongs to the line of `node`, the traced node of a batch element.

        Do nothing for a node without a line: it belongs to an operation checked as a whole.
        """
        line_and_tape_node = _traced_lines.get(ref(node))
        if line_and_tape_node is not None:
            self._check(batch, *line_and_tape_node)

    def observe_host_result(self, node: Node, name: str, operands: Sequence[Node]) -> None:
        """Check `node`, a result of the host operation `name` on `operands`, made on the current line."""
        line = _find_user_line()
        self._note(node, line, None)
        _check_node(node, name, operands, line, None)

    def _note(self, node: Node, line: _Line, of: TapeNode | None) -> None:
        """Record `line` and `of` for `node` if it is traced, and `line` for the tape nodes that lead to `node`."""
        if node.is_traced and ref(node) not in _traced_lines:
            _traced_lines[ref(node, _traced_lines.pop)] = line, of
        _note_line(node, self.oldest, line)

    def _check(self, node: Node, line: _Line, of: TapeNode | None) -> None:
        """Compute and check `node` of the line `line`, and its pending operands, operands first. Raise NotANumber for the first NaN.

        A node of a derivative belongs to the tape node `of`; other nodes have None. Only nodes of float and complex dtypes are computed.
        The operand of a reduction is checked only as part of the reduction. A traced node is not computed: its line is noted for its batch.
        """
        self._note(node, line, of)
        steps = _collect_pending(node, self.oldest)
        reads = {step: [s for s in step.sources if type(s) is Node] for step in steps}  # before evaluation drops the sources
        # The operand of a reduction is computed together with it, as products may be many times as large as their operands.
        inlined = {s for step in steps if isinstance(step.op, Reduction) for s in reads[step] if s in reads}
        for step in steps:
            if step in inlined or step.op in (DATA, EMPTY):
                continue
            inner = [s for s in reads[step] if s in inlined] if isinstance(step.op, Reduction) else []
            description = " of ".join([step.op.name, *[s.op.name for s in inner]])
            _check_node(step, description, [s for k in (step, *inner) for s in reads[k] if s not in inner], line, of)


def _note_line(node: Node, oldest: int, line: _Line) -> None:
    """Record `line`, a file and a line number or None, for tape nodes that lead to `node` and have no line yet.

    Only nodes numbered after `oldest` are visited. Their derivatives may be computed later, from another line.
    """
    stack = [get_tape_node(node)]
    while stack:
        tape_node = stack.pop()
        if tape_node is not None and tape_node.serial > oldest and ref(tape_node) not in _lines:
            _lines[ref(tape_node, _lines.pop)] = line
            stack += map(get_tape_node, tape_node.sources)


def _check_node(node: Node, name: str, sources: Sequence[Node], line: _Line, of: TapeNode | None) -> None:
    """Raise NotANumber if `node` has a NaN and none of `sources` has. `name` is the operation, and `line` the user's line, or None.

    `of` is the tape node whose derivative computed `node`, or None.
    """
    if _has_nan(node) and not any(map(_has_nan, sources)):
        origin = ""
        if of is not None:
            is_known = ref(of) in _lines
            location = f"at {_describe_line(_lines[ref(of)])}" if is_known else "before check_nan was open, so its line is not known"
            origin = f", in the derivative of {of.recipe.op.name}, which was computed {location}"
        raise NotANumber(f"check_nan: {name} made the first NaN, in a result of shape {node.shape}, at {_describe_line(line)}{origin}")


def _collect_pending(node: Node, oldest: int) -> list[Node]:
    """Return `node`, in any case, after the pending operands, direct and indirect, each once and operands first.

    Left out, with the nodes that they read, are traced operands, and operands whose pending graph has a node numbered `oldest` or below
    (`oldest_serial`).
    """
    order: dict[Node, None] = {}
    stack = [(node, False)]
    while stack:
        step, ready = stack.pop()
        if ready:
            order[step] = None
        elif step not in order:
            stack.append((step, True))
            stack += [
                (s, False) for s in step.sources if type(s) is Node and s.buffer is None and s.oldest_serial > oldest and not s.is_traced
            ]
    return list(order)


def _has_nan(node: Node) -> bool:
    """Return whether a node has a NaN, after computing the node if pending. Return False for a traced node."""
    if node.is_traced or not (node.dtype.is_float or node.dtype.is_complex):
        return False
    realize(node)
    assert node.buffer is not None
    return bool(np.isnan(decode_elements(node.buffer.typed_view(node.dtype)[: node.size], node.dtype)).any())


def _find_user_line() -> _Line:
    """Return the file and the line number of the innermost call outside of this package, or None if there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _describe_line(line: _Line) -> str:
    """Return the text for a line in an error: the file, the line number and the source, if known."""
    if line is None:
        return "an unknown line"
    import linecache

    text = linecache.getline(*line).strip()
    return f"{line[0]}:{line[1]}" + (f": {text}" if text else "")
