"""Tensors as text: rows on lines, with lines such as `---` and `===` between matrices, cubes and blocks of higher rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np

from ..errors import ArgumentError, IndexOutOfRange, described
from .numbers import Format, element_format, write_numbers
from .shown import Array, Runs, ShownTensor, check_tensor, everything, header, read_values, shorten, with_gaps

_SEPARATORS = "-=*#+~%@"
_GAP = "…"
_CONTINUATION = "    "


def to_string(
    t: ShownTensor,
    dims: Sequence[int | slice | None] | None = None,
    fmt: Format | None = None,
    edge: int = 3,
    threshold: int | None = 1000,
    width: int | None = 80,
) -> str:
    r"""Return the numbers of a tensor as text, its columns aligned.

    Rows are lines; a line ``---`` separates matrices, ``===`` cubes, and blocks of higher rank are separated by ``***``,
    ``###``, ``+++``, ``~~~``, ``%%%``, ``@@@``, then the same marks twice, three times, … as long.

    Args:
        t: a tensor of any rank and dtype.
        dims: the positions of each axis to print: None (every position), an integer or a slice; missing axes
            are printed whole. `(3, None, None)` prints `t[3]`.
        fmt: how to write an element: a printf format (`"%7.2f"`), a Python format spec (`".2f"`), or a
            function from a Python scalar to text. Each element is then followed by two spaces and each row by
            a newline. None chooses a common precision, aligns columns, and leaves nothing at the ends.
        edge: the number of positions at either end of an axis to print of a shortened tensor.
        threshold: a tensor with more elements is shortened, and only the printed elements are read;
            None never shortens.
        width: the maximal number of characters of a line without `fmt`; a longer row continues on an indented
            line. None never breaks a row.

    Raises:
        IndexOutOfRange: `dims` has more entries than the tensor has axes, or an integer is past its axis.
        ArgumentError: an entry of `dims` is not None, an integer or a slice; `edge`, `threshold` or `width` is not an
            integer of 0 or more.

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
    _check_count("edge", edge)
    for name, value in (("threshold", threshold), ("width", width)):
        if value is not None:
            _check_count(name, value)
    if dims is not None:
        t = t[_index_key(dims, t.shape)]
    runs = _choose_runs(t.shape, edge, threshold)
    values = read_values(t, runs)
    if fmt is None:
        if not values.size:
            return "(no elements)"
        return "\n".join(line.rstrip() for line in _default_lines(values, t, runs, width))
    write = element_format(fmt)
    cells = _as_cells([write(value) for value in values.ravel().tolist()], values.shape)
    return "".join(f"{line}\n" for line in _lines(cells, t.shape, runs, lambda row: [_raw_row(row)]))


def format_repr(t: ShownTensor) -> str:
    """Return the shape and dtype of a tensor and, below, its numbers as `to_string` prints them.

    >>> import tenxor as tx
    >>> print(tx.show.format_repr(tx.reshape(tx.arange(4, dtype=tx.float64), (2, 2))))
    Tensor (2, 2) float64
    0.  1.
    2.  3.
    """
    check_tensor("show.format_repr", t)
    return f"{header(t)}\n{to_string(t)}"


def separator(level: int) -> str:
    """Return the line between two blocks: level 0 separates matrices, 1 separates cubes, and so on without end."""
    repeats, mark = divmod(level, len(_SEPARATORS))
    return _SEPARATORS[mark] * (3 * (repeats + 1))


def _check_count(name: str, value: object) -> None:
    """Raise ArgumentError unless an option is an integer of 0 or more."""
    if not isinstance(value, int) or value < 0:
        raise ArgumentError(f"to_string: {name} is a whole number of 0 or more, not {described(value)}")


def _index_key(dims: Sequence[int | slice | None], shape: tuple[int, ...]) -> tuple[int | slice, ...]:
    """Return the index key for `dims`. Raise ArgumentError or IndexOutOfRange if `dims` does not fit the shape."""
    if not isinstance(dims, Sequence) or isinstance(dims, str):
        raise ArgumentError(f"to_string: dims is a tuple with None, an integer or a slice for each axis, not {described(dims)}")
    if len(dims) > len(shape):
        raise IndexOutOfRange(
            f"to_string: dims has {len(dims)} entries, but shape {tuple(shape)} has {len(shape)} axes"
        )
    for axis, entry in enumerate(dims):
        if isinstance(entry, bool) or not (entry is None or isinstance(entry, slice | int | np.integer)):
            raise ArgumentError(
                f"to_string: dims[{axis}] is {described(entry)}; use None for the whole axis, an integer, or a slice"
            )
    for axis, (entry, size) in enumerate(zip(dims, shape, strict=False)):
        if isinstance(entry, int | np.integer) and not -size <= entry < size:
            raise IndexOutOfRange(
                f"to_string: dims[{axis}] is {entry}, but axis {axis} of shape {tuple(shape)} has {size} positions"
            )
    return tuple(slice(None) if entry is None else entry for entry in dims)


def _choose_runs(shape: tuple[int, ...], edge: int, threshold: int | None) -> tuple[Runs, ...]:
    """Return the positions to print: every position of a small tensor, else `edge` at either end of each axis, or fewer."""
    size = int(np.prod(shape, dtype=object)) if shape else 1
    if threshold is None or size <= threshold:
        return everything(shape)
    limit = max(threshold, (2 * edge + 1) ** min(len(shape), 2))
    return shorten(shape, [edge] * len(shape), limit)


def _as_cells(texts: list[str], shape: tuple[int, ...]) -> Array:
    """Return texts as an object array of this shape."""
    cells = np.empty(len(texts), dtype=object)
    cells[:] = texts
    return cells.reshape(shape)


def _default_lines(values: Array, t: ShownTensor, runs: Sequence[Runs], width: int | None) -> Iterator[str]:
    """Yield the lines of numbers at a common precision, broken at `width` characters."""
    texts = write_numbers(values, t.dtype.name)
    column = len(texts[0]) + 2

    def row(cells: list[str]) -> list[str]:
        if width is None or len(cells) * column - 2 <= width:
            return ["  ".join(cells)]
        step = max(1, (width - len(_CONTINUATION) + 2) // column)
        return [
            (_CONTINUATION if start else "") + "  ".join(cells[start : start + step])
            for start in range(0, len(cells), step)
        ]

    return _lines(_as_cells(texts, values.shape), t.shape, runs, row)


def _raw_row(cells: list[str]) -> str:
    """Return the elements of a row, each followed by two spaces."""
    return "".join(f"{cell}  " for cell in cells)


def _lines(
    cells: Array, shape: tuple[int, ...], runs: Sequence[Runs], row: Callable[[list[str]], list[str]]
) -> Iterator[str]:
    """Yield the lines of an array of texts; `row` formats a row as one or more lines."""
    if cells.ndim == 0:
        yield from row([cast(str, cells.item())])
        return
    if not cells.size:
        return
    items = iter(cells)
    positions = with_gaps(runs[0], shape[0])
    if cells.ndim == 1:
        yield from row([_GAP if position is None else next(items) for position in positions])
        return
    for number, position in enumerate(positions):
        if number and cells.ndim > 2:
            yield separator(cells.ndim - 3)
        if position is None:
            yield _GAP
        else:
            yield from _lines(next(items), shape[1:], runs[1:], row)
