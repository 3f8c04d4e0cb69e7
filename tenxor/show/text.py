"""Tensors as text: rows on lines, with lines such as `---` and `===` between matrices, cubes and blocks of higher rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from types import EllipsisType
from typing import cast

import numpy as np

from ..errors import ArgumentError, IndexOutOfRange, describe_value
from .number_format import Format, element_format, format_numbers
from .print_options import current_options
from .tensor_reading import Array, Runs, ShownTensor, check_tensor, choose_runs, describe_header, full_runs, list_with_gaps, read_values

_SEPARATORS = "-=*#+~%@"
_GAP_TEXT = "…"
_NO_LIMIT_HINT = "; give None for no limit"
_INDENT = 4  # spaces before the continuation of a row, where a line has room for a single column


def to_string(
    t: ShownTensor,
    dims: Sequence[int | slice | None] | None = None,
    fmt: Format | None = None,
    edge: int | EllipsisType = ...,
    threshold: int | EllipsisType | None = ...,
    width: int | EllipsisType | None = ...,
) -> str:
    r"""Return the numbers of a tensor as text, its columns aligned.

    Rows are lines; a line ``---`` separates matrices, ``===`` cubes, and blocks of higher rank are separated by ``***``, ``###``, ``+++``,
    ``~~~``, ``%%%``, ``@@@``, then the same marks twice, three times, … as long.

    Parameters
    ----------
    t : Tensor
        A tensor of any rank and dtype.
    dims : Sequence of int, slice or None, optional
        The positions of each axis to print: None (every position), an integer or a slice; missing axes are printed whole. `(3, None, None)`
        prints `t[3]`.
    fmt : str or Callable, optional
        How to write an element: a printf format (`"%7.2f"`), a Python format spec (`".2f"`), a template (`"{:.2f}"`), or a function from a
        Python scalar to text. Each element is then followed by two spaces and each row by a newline. None chooses a common precision,
        aligns columns, and leaves nothing at the ends.
    edge : int, optional
        The number of positions at either end of an axis to print of a shortened tensor. By default (`...`) the option `edgeitems` of
        `tx.set_printoptions`, 3.
    threshold : int or None, optional
        A tensor with more elements is shortened, and only the printed elements are read; None never shortens. By default the option
        `threshold`, 1000.
    width : int or None, optional
        The maximal number of characters of a line without `fmt`; a longer row continues on an indented line. None never breaks a row. By
        default the option `linewidth`, 80.

    Returns
    -------
    str
        The lines. Without `fmt`, the text of a tensor without elements is "(no elements)".

    Raises
    ------
    IndexOutOfRange
        If `dims` has more entries than the tensor has axes, or an integer is past its axis.
    ArgumentError
        If an entry of `dims` is not None, an integer or a slice; if `edge`, `threshold` or `width` is not an integer of 0 or more; or if an
        element does not fit `fmt`.
    DTypeError
        If `t` is not a tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> print(tx.show.to_string(tx.reshape(tx.arange(8), (2, 2, 2))))
    0  1
    2  3
    ---
    4  5
    6  7
    >>> tx.show.to_string(tx.arange(3), fmt="%5.1f")
    '  0.0    1.0    2.0  \n'
    """
    check_tensor("show.to_string", t)
    options = current_options()
    edge_count = options.edgeitems if edge is ... else _check_count("edge", edge)
    limit = options.threshold if threshold is ... else inf if threshold is None else _check_count("threshold", threshold, _NO_LIMIT_HINT)
    line_width = options.linewidth if width is ... else inf if width is None else _check_count("width", width, _NO_LIMIT_HINT)
    if dims is not None:
        t = t[_index_key(dims, t.shape)]
    runs = _choose_runs(t.shape, edge_count, limit)
    values = read_values(t, runs)
    if fmt is None:
        if not values.size:
            return "(no elements)"
        return "\n".join(line.rstrip() for line in _format_default_lines(values, t, runs, line_width))
    write = element_format(fmt)
    cells = _as_cells([write(value) for value in values.ravel().tolist()], values.shape)
    return "".join(f"{line}\n" for line in _format_lines(cells, t.shape, runs, lambda row: [_format_raw_row(row)]))


def format_repr(t: ShownTensor) -> str:
    """Return the shape and dtype of a tensor and, below, the numbers as printed by `to_string`; for no axes a short Tensor(2.5, float64).

    Parameters
    ----------
    t : Tensor
        A tensor of any rank and dtype. Only the printed elements are read.

    Returns
    -------
    str
        The text that `repr(t)` returns, except during a trace.

    Raises
    ------
    DTypeError
        If `t` is not a tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> print(tx.show.format_repr(tx.reshape(tx.arange(4, dtype=tx.float64), (2, 2))))
    Tensor (2, 2) float64
    0.  1.
    2.  3.
    """
    check_tensor("show.format_repr", t)
    if not t.shape:
        return f"Tensor({to_string(t)}, {t.dtype.name})"
    return f"{describe_header(t)}\n{to_string(t)}"


def separator(level: int) -> str:
    """Return the line between two blocks: level 0 separates matrices, 1 separates cubes, and so on without end."""
    repeats, mark = divmod(level, len(_SEPARATORS))
    return _SEPARATORS[mark] * (3 * (repeats + 1))


def _check_count(name: str, value: object, hint: str = "") -> int:
    """Return `value`, given for the option `name`. Raise ArgumentError unless it is an integer of 0 or more. `hint` ends the message."""
    if not isinstance(value, int) or value < 0:
        raise ArgumentError(f"to_string: {name} must be a whole number of 0 or more, not {describe_value(value)}{hint}")
    return value


def _index_key(dims: Sequence[int | slice | None], shape: tuple[int, ...]) -> tuple[int | slice, ...]:
    """Return the index key for `dims`, the items for the first axes of `shape`; None becomes a slice of the whole axis.

    Raise ArgumentError for items other than None, integers and slices, and IndexOutOfRange for too many items or an integer out of range.
    """
    if not isinstance(dims, Sequence) or isinstance(dims, str):
        raise ArgumentError(f"to_string: dims must be a tuple with None, an integer or a slice for each axis, not {describe_value(dims)}")
    if len(dims) > len(shape):
        raise IndexOutOfRange(
            f"to_string: dims has {len(dims)} entries for shape {tuple(shape)}; it must have at most {len(shape)}, one for each axis"
        )
    for axis, entry in enumerate(dims):
        if isinstance(entry, bool) or not (entry is None or isinstance(entry, slice | int | np.integer)):
            raise ArgumentError(f"to_string: dims[{axis}] is {describe_value(entry)}; use None for the whole axis, an integer, or a slice")
    for axis, (entry, size) in enumerate(zip(dims, shape, strict=False)):
        if isinstance(entry, int | np.integer) and not -size <= entry < size:
            raise IndexOutOfRange(f"to_string: dims[{axis}] is {entry}, but axis {axis} of shape {tuple(shape)} has {size} positions")
    return tuple(slice(None) if entry is None else entry for entry in dims)


def _choose_runs(shape: tuple[int, ...], edge: int, threshold: float) -> tuple[Runs, ...]:
    """Return the positions to print of each axis, as runs: every position for at most `threshold` elements.

    Otherwise print `edge` positions at either end of each axis, or fewer, so that about `threshold` elements or two axes of edges remain.
    """
    size = int(np.prod(shape, dtype=object)) if shape else 1
    if size <= threshold:
        return full_runs(shape)
    limit = max(int(threshold), (2 * edge + 1) ** min(len(shape), 2))
    return choose_runs(shape, [edge] * len(shape), limit)


def _as_cells(texts: list[str], shape: tuple[int, ...]) -> Array:
    """Return texts as an object array of this shape."""
    cells = np.empty(len(texts), dtype=object)
    cells[:] = texts
    return cells.reshape(shape)


def _format_default_lines(values: Array, t: ShownTensor, runs: Sequence[Runs], width: float) -> Iterator[str]:
    """Yield the lines of the printed elements `values` of `t`, at a common precision.

    `runs` are the printed positions of each axis. A row longer than `width` characters continues on lines indented by a column, below the
    same columns.
    """
    texts = format_numbers(values, t.dtype.name)
    column = len(texts[0]) + 2

    def row(cells: list[str]) -> list[str]:
        if len(cells) * column - 2 <= width:
            return ["  ".join(cells)]
        count = int(width + 2) // column
        indent, step = (column, count - 1) if count > 1 else (_INDENT, 1)
        head_count = max(1, count)
        continuations = [" " * indent + "  ".join(cells[k : k + step]) for k in range(head_count, len(cells), step)]
        return ["  ".join(cells[:head_count]), *continuations]

    return _format_lines(_as_cells(texts, values.shape), t.shape, runs, row)


def _format_raw_row(cells: list[str]) -> str:
    """Return the elements of a row, each followed by two spaces."""
    return "".join(f"{cell}  " for cell in cells)


def _format_lines(cells: Array, shape: tuple[int, ...], runs: Sequence[Runs], row: Callable[[list[str]], list[str]]) -> Iterator[str]:
    """Yield the lines of `cells`, an array of the texts of the printed elements; `row` formats the texts of a row as a list of lines.

    `shape` is the shape of the whole tensor, and `runs` are the printed positions of each axis. A gap in a row is an ellipsis among the
    texts; a gap between rows or blocks is a line of its own. Separators stand between matrices, cubes and so on.
    """
    if cells.ndim == 0:
        yield from row([cast(str, cells.item())])
        return
    if not cells.size:
        return
    items = iter(cells)
    positions = list_with_gaps(runs[0], shape[0])
    if cells.ndim == 1:
        yield from row([_GAP_TEXT if position is None else next(items) for position in positions])
        return
    for number, position in enumerate(positions):
        if number and cells.ndim > 2:
            yield separator(cells.ndim - 3)
        if position is None:
            yield _GAP_TEXT
        else:
            yield from _format_lines(next(items), shape[1:], runs[1:], row)
