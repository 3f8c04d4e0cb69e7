"""Tensors put together: each part is written straight into its place in the result, pending ones as they are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..creation import asarray, empty, full
from ..dtypes import result_type
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from ..tensor.arguments import Axes, axis_of, ints

__all__ = ["cat", "concat", "concatenate", "pad", "repeat", "roll", "stack", "tile"]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """New tensor: the given ones one after another along an axis; flattened first for None.

    The dtype is what theirs promote to. ShapeError names the axis and the shapes that do not fit.

    >>> import tenxor as tx
    >>> tx.concat([tx.arange(2), tx.arange(3)]).tolist()
    [0, 1, 0, 1, 2]
    """
    parts = _tensors("concat", arrays)
    if axis is None:
        parts, axis = [t.ravel() for t in parts], 0
    first = parts[0]
    if first.ndim == 0:
        raise ShapeError("concat: a 0-d tensor has no axis to join along; use stack")
    axis = axis_of("concat", axis, first.ndim)
    for k, t in enumerate(parts):
        _check_fit("concat", first, t, k, axis)
    sizes = [t.shape[axis] for t in parts]
    found = empty(
        (*first.shape[:axis], sum(sizes), *first.shape[axis + 1 :]), dtype=result_type(*(t.dtype for t in parts))
    )
    start = 0
    for t, size in zip(parts, sizes, strict=True):
        found[_along(axis, slice(start, start + size))] = t
        start += size
    return found


cat = concatenate = concat


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """New tensor: the given ones, all of one shape, along a new axis.

    >>> import tenxor as tx
    >>> tx.stack([tx.arange(2), tx.ones(2, dtype=tx.int64)], axis=1).tolist()
    [[0, 1], [1, 1]]
    """
    parts = _tensors("stack", arrays)
    axis = axis_of("stack", axis, parts[0].ndim + 1)
    for k, t in enumerate(parts):
        _check_fit("stack", parts[0], t, k, None)
    return concat([t.expand_dims(axis) for t in parts], axis=axis)


def _tensors(op: str, arrays: Sequence[Any]) -> list[Tensor]:
    parts = [asarray(a) for a in arrays]
    if not parts:
        raise ArgumentError(f"{op}: give at least one tensor")
    return parts


def _check_fit(op: str, first: Tensor, t: Tensor, k: int, axis: int | None) -> None:
    """Every axis but the joined one must have equal sizes."""
    if t.ndim != first.ndim:
        raise ShapeError(f"{op}: tensor {k} has shape {t.shape}, the first {first.shape}; all need as many axes")
    for a, (n, m) in enumerate(zip(t.shape, first.shape, strict=True)):
        if n != m and a != axis:
            rest = "all shapes must be equal" if axis is None else f"only axis {axis}, which is joined, may differ"
            raise ShapeError(
                f"{op}: tensor {k} has shape {t.shape}, the first {first.shape}: axis {a} has sizes {n} and {m}; {rest}"
            )


def _along(axis: int, index: slice) -> tuple[slice, ...]:
    return (*([slice(None)] * axis), index)


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> Tensor:
    """New tensor: the elements moved along axes by `shift` places, those pushed out coming in at the other end.

    With `axis` None the flattened tensor is rolled and keeps its shape.

    >>> import tenxor as tx
    >>> tx.roll(tx.arange(5), 2).tolist()
    [3, 4, 0, 1, 2]
    """
    if axis is None:
        return roll(x.ravel(), shift, axis=0).reshape(x.shape)
    axes = tuple(axis_of("roll", a, x.ndim) for a in (axis if isinstance(axis, tuple) else (axis,)))
    shifts = ints("roll", (shift,))
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: {len(shifts)} shifts for {len(axes)} axes; give one for all or one for each")
    for a, by in zip(axes, shifts, strict=True):
        size = x.shape[a]
        by = by % size if size else 0
        cut = size - by
        x = concat([x[_along(a, slice(cut, None))], x[_along(a, slice(0, cut))]], axis=a) if by else x
    return x.copy()


def tile(x: Tensor, repetitions: Sequence[int] | int, /) -> Tensor:
    """New tensor: `x` repeated so many times along each axis, counted from the last.

    >>> import tenxor as tx
    >>> tx.tile(tx.arange(2), (2, 2)).tolist()
    [[0, 1, 0, 1], [0, 1, 0, 1]]
    """
    counts = ints("tile", (repetitions,))
    if any(c < 0 for c in counts):
        raise ArgumentError(f"tile: repetitions {counts} must be 0 or more")
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    counts = (1,) * (x.ndim - len(counts)) + counts
    apart = x.reshape([n for size in shape for n in (1, size)])
    grown = apart.expand([n for count, size in zip(counts, shape, strict=True) for n in (count, size)])
    return grown.copy().reshape([count * size for count, size in zip(counts, shape, strict=True)])


def repeat(x: Tensor, repeats: int | Sequence[int] | Tensor, /, *, axis: int | None = None) -> Tensor:
    """New tensor: each element repeated along an axis, all alike or each its own number of times; flattened for None.

    >>> import tenxor as tx
    >>> tx.repeat(tx.arange(3), 2).tolist(), tx.repeat(tx.arange(3), [0, 1, 2]).tolist()
    ([0, 0, 1, 1, 2, 2], [1, 2, 2])
    """
    if axis is None:
        x, axis = x.ravel(), 0
    axis = axis_of("repeat", axis, x.ndim)
    counts = np.asarray(repeats.to_numpy() if isinstance(repeats, Tensor) else repeats)
    if counts.dtype.kind not in "iu" or counts.ndim > 1 or (counts < 0).any():
        raise ArgumentError(f"repeat: repeats {repeats!r} must be an integer or a 1-D list of them, 0 or more")
    size = x.shape[axis]
    if counts.size not in (1, size):
        raise ShapeError(
            f"repeat: {counts.size} counts for axis {axis} of size {size}; give one for all or one for each index"
        )
    order = np.repeat(np.arange(size), counts)
    return x._view(x.layout.select(axis, order)).copy()


def pad(
    x: Tensor, /, pad_width: int | Sequence[Any], mode: str = "constant", *, constant_values: bool | int | float = 0
) -> Tensor:
    """New tensor with more elements at the ends of its axes.

    `pad_width` is one number, one pair `(before, after)` for all axes, or a pair for each. `mode` says what is put
    there: "constant" (`constant_values`), "edge" (the last element), "reflect" or "symmetric" (mirrored without or with
    it), "wrap".

    >>> import tenxor as tx
    >>> tx.pad(tx.arange(3), (1, 2)).tolist(), tx.pad(tx.arange(3), 2, "reflect").tolist()
    ([0, 0, 1, 2, 0, 0], [2, 1, 0, 1, 2, 1, 0])
    """
    widths = _pad_widths(x.ndim, pad_width)
    if mode == "constant":
        shape = tuple(before + n + after for n, (before, after) in zip(x.shape, widths, strict=True))
        found = full(shape, constant_values, dtype=x.dtype)
        found[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))] = x
        return found
    if mode not in _PLACES:
        raise ArgumentError(f"pad: there is no mode {mode!r}; there are 'constant', {', '.join(map(repr, _PLACES))}")
    layout = x.layout
    for axis, (before, after) in enumerate(widths):
        size = x.shape[axis]
        if size == 0 and before + after:
            raise ShapeError(
                f"pad: axis {axis} of shape {x.shape} has no element to fill {mode!r} padding with; use mode 'constant'"
            )
        if before + after:
            places = _PLACES[mode](np.arange(-before, size + after), size)
            layout = layout.select(axis, places)
    return x._view(layout).copy()


def _pad_widths(ndim: int, pad_width: Any) -> list[tuple[int, int]]:
    given = np.asarray(pad_width)
    if given.dtype.kind not in "iu" or (given < 0).any():
        raise ArgumentError(f"pad: pad_width {pad_width!r} must be integers, 0 or more")
    try:
        pairs = np.broadcast_to(given, (ndim, 2))
    except ValueError:
        raise ArgumentError(
            f"pad: pad_width {pad_width!r} is neither one number, nor one pair, nor a pair for each of {ndim} axes"
        ) from None
    return [(int(before), int(after)) for before, after in pairs]


def _mirrored(places: np.ndarray[Any, Any], period: int, size: int) -> np.ndarray[Any, Any]:
    inside = np.mod(places, period) if period else np.zeros_like(places)
    return np.where(inside < size, inside, period - inside)


# For each mode, which element stands at a place that may lie outside.
_PLACES: dict[str, Any] = {
    "edge": lambda places, size: np.clip(places, 0, size - 1),
    "reflect": lambda places, size: _mirrored(places, 2 * (size - 1), size),
    "symmetric": lambda places, size: np.minimum(np.mod(places, 2 * size), 2 * size - 1 - np.mod(places, 2 * size)),
    "wrap": lambda places, size: np.mod(places, size),
}
