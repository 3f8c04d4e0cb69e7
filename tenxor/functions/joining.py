"""Tensors put together: each part is written straight into its place in the result, pending ones as they are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..creation import asarray, empty
from ..dtypes import Number, result_type
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from ..tensor.arguments import AXIS_0, ZERO, Axes, axis_of, ints, one_spelling
from ..tensor.pieces import Piece, are_arrays, joined, joined_quickly, want_kernels, written

__all__ = ["cat", "concat", "concatenate", "pad", "repeat", "roll", "stack", "tile"]

IntArray = np.ndarray[Any, np.dtype[np.int64]]
_ALL = slice(None)
SMALL = 1 << 18  # bytes of a padded tensor that is filled whole before
_Border = Callable[[int, int], Tensor | Number]  # what is put before (0) or after (1) the elements along an axis


def concat(arrays: Sequence[Tensor], /, axis: int | None = AXIS_0, *, dim: int | None = None) -> Tensor:
    """New tensor: the given ones one after another along an axis; flattened first for None.

    The dtype is what theirs promote to. Raises ArgumentError for no tensors, AxisError, and a ShapeError that names the
    axis and the shapes that do not fit.

    >>> import tenxor as tx
    >>> tx.concat([tx.arange(2), tx.arange(3)]).tolist()
    [0, 1, 0, 1, 2]
    """
    axis = one_spelling("concat", "axis", axis, "dim", dim, default=AXIS_0)
    parts, types = _parts("concat", arrays)
    first = parts[0].shape
    if axis is not None:
        if not first:
            raise ShapeError("concat: a 0-d tensor has no axis to join along; use stack, or axis=None")
        axis = axis_of("concat", axis, len(first))
    found = joined_quickly(Tensor, "concat", parts, types, axis)
    if found is not None:
        return found
    shapes = _shapes(parts)
    if axis is None:
        return _joined("concat", parts, None, (sum([prod(shape) for shape in shapes]),))
    _check_fit("concat", shapes, axis)
    return _joined("concat", parts, axis, (*first[:axis], sum([shape[axis] for shape in shapes]), *first[axis + 1 :]))


cat = concatenate = concat


def stack(arrays: Sequence[Tensor], /, axis: int = AXIS_0, *, dim: int | None = None) -> Tensor:
    """New tensor: the given ones, all of one shape, along a new axis, which has the place `axis` in the result.

    The dtype is what theirs promote to. Raises ArgumentError for no tensors, AxisError, and a ShapeError that names the
    shapes that differ.

    >>> import tenxor as tx
    >>> tx.stack([tx.arange(2), tx.ones(2, dtype=tx.int64)], axis=1).tolist()
    [[0, 1], [1, 1]]
    """
    axis = one_spelling("stack", "axis", axis, "dim", dim, default=AXIS_0)
    parts, types = _parts("stack", arrays)
    first = parts[0].shape
    axis = axis_of("stack", axis, len(first) + 1)
    found = joined_quickly(Tensor, "stack", parts, types, axis, stacked=True)
    if found is not None:
        return found
    _check_fit("stack", _shapes(parts), None)
    return _joined("stack", parts, axis, (*first[:axis], len(parts), *first[axis:]))


def _parts(op: str, arrays: Sequence[Any]) -> tuple[list[Piece], set[type]]:
    """What is to be joined, and its types. NumPy's arrays stay what they are: they are read at the call, or copied
    later.
    """
    if not isinstance(arrays, Iterable) or getattr(arrays, "shape", None) == ():
        raise ArgumentError(f"{op}: takes a sequence of tensors, not one {type(arrays).__name__}")
    parts = list(arrays)
    if not parts:
        raise ArgumentError(f"{op}: give at least one tensor")
    types = set(map(type, parts))
    if types != {Tensor} and not are_arrays(parts):
        parts = [a if are_arrays([a]) else asarray(a) for a in parts]
        types = set(map(type, parts))
    return parts, types


def _shapes(parts: list[Piece]) -> list[tuple[int, ...]]:
    return [p.layout.shape if type(p) is Tensor else p.shape for p in parts]


def _check_fit(op: str, shapes: Sequence[tuple[int, ...]], axis: int | None) -> None:
    """Every axis but the joined one must have equal sizes."""
    first = shapes[0]
    for shape in dict.fromkeys(shapes):  # in their order, each once
        if len(shape) != len(first):
            k = shapes.index(shape)
            raise ShapeError(f"{op}: tensor {k} has shape {shape}, the first {first}; all need as many axes")
        for a, (n, m) in enumerate(zip(shape, first, strict=True)):
            if n != m and a != axis:
                k = shapes.index(shape)
                rest = "all shapes must be equal" if axis is None else f"only axis {axis}, which is joined, may differ"
                raise ShapeError(
                    f"{op}: tensor {k} has shape {shape}, the first {first}: axis {a} has sizes {n} and {m}; {rest}"
                )


def _joined(op: str, parts: list[Piece], axis: int | None, shape: tuple[int, ...]) -> Tensor:
    """New tensor of a shape: what fits together, one after another along an axis of the shape, or flattened for None."""
    dtype = result_type(*{p.dtype for p in parts})
    how = written if want_kernels(parts, prod(shape) * dtype.itemsize) else joined
    return how(Tensor, op, parts, axis, shape, dtype)


def _along(axis: int, index: slice) -> tuple[slice, ...]:
    return (*(_ALL,) * axis, index)


# --- the elements of one tensor, moved or repeated --------------------------------------------------------------------


def roll(x: Tensor, /, shift: int | tuple[int, ...], axis: Axes = None, *, dims: Axes = None) -> Tensor:
    """New tensor: the elements moved along axes by `shift` places, those pushed out coming in at the other end.

    One shift serves all axes, or each has its own; the shifts of an axis named twice add up. With `axis` None the
    flattened tensor is rolled and keeps its shape. Raises AxisError, and ArgumentError for another number of shifts.

    >>> import tenxor as tx
    >>> tx.roll(tx.arange(5), 2).tolist()
    [3, 4, 0, 1, 2]
    """
    x = asarray(x)
    axis = one_spelling("roll", "axis", axis, "dims", dims)
    if axis is None:
        return roll(x.ravel(), shift, 0).reshape(x.shape)
    axes = [axis_of("roll", a, x.ndim) for a in ints("roll", (axis,))]
    shifts = ints("roll", (shift,))
    if len(shifts) != len(axes):
        if len(shifts) != 1:
            raise ArgumentError(f"roll: {len(shifts)} shifts for {len(axes)} axes; give one for all or one for each")
        shifts *= len(axes)
    moves: list[list[tuple[slice, slice]]] = [[(_ALL, _ALL)]] * x.ndim
    for a in set(axes):
        moves[a] = _rolled(x.shape[a], sum(s for s, b in zip(shifts, axes, strict=True) if b == a))
    rolled = [a for a, parts in enumerate(moves) if len(parts) > 1]
    if len(rolled) == 1:
        (a,) = rolled
        return _joined("roll", [x[_along(a, of)] for of, _ in reversed(moves[a])], a, x.shape)
    found = empty(x.shape, dtype=x.dtype)
    for pieces in product(*moves):
        found[(*(to for _, to in pieces), ...)]._write(x[(*(of for of, _ in pieces), ...)], "roll")
    return found


def _rolled(size: int, shift: int) -> list[tuple[slice, slice]]:
    """Where from and where to the two parts of a rolled axis go."""
    by = shift % size if size else 0
    if by == 0:
        return [(_ALL, _ALL)]
    return [(slice(0, size - by), slice(by, None)), (slice(size - by, None), slice(0, by))]


def tile(x: Tensor, repetitions: Sequence[int] | int, /) -> Tensor:
    """New tensor: `x` repeated so many times along each axis, counted from the last.

    Raises ArgumentError for repetitions that are not integers from 0 on.

    >>> import tenxor as tx
    >>> tx.tile(tx.arange(2), (2, 2)).tolist()
    [[0, 1, 0, 1], [0, 1, 0, 1]]
    """
    x = asarray(x)
    counts = ints("tile", (repetitions,))
    if any(c < 0 for c in counts):
        raise ArgumentError(f"tile: repetitions {counts} must be 0 or more")
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    counts = (1,) * (x.ndim - len(counts)) + counts
    apart = x.reshape([n for size in shape for n in (1, size)])
    grown = apart.expand([n for count, size in zip(counts, shape, strict=True) for n in (count, size)])
    return grown.copy().reshape([count * size for count, size in zip(counts, shape, strict=True)])


def repeat(
    x: Tensor, repeats: int | Sequence[int] | Tensor, /, axis: int | None = None, *, dim: int | None = None
) -> Tensor:
    """New tensor: each element repeated along an axis, all alike or each its own number of times; flattened for None.

    This is torch's repeat_interleave; torch's repeat is `tile`. Raises AxisError, ArgumentError for counts that are not
    integers from 0 on, ShapeError for another number of counts than the axis has elements.

    >>> import tenxor as tx
    >>> tx.repeat(tx.arange(3), 2).tolist(), tx.repeat(tx.arange(3), [0, 1, 2]).tolist()
    ([0, 0, 1, 1, 2, 2], [1, 2, 2])
    """
    axis = one_spelling("repeat", "axis", axis, "dim", dim)
    x = asarray(x)
    if axis is None:
        x, axis = x.ravel(), 0
    axis = axis_of("repeat", axis, x.ndim)
    counts = _counts(repeats)
    if (counts.dtype.kind not in "iu" and counts.size) or counts.ndim > 1 or (counts < 0).any():
        raise ArgumentError(f"repeat: repeats {repeats!r} must be an integer or a 1-D list of them, 0 or more")
    size = x.shape[axis]
    if counts.size not in (1, size):
        raise ShapeError(
            f"repeat: {counts.size} counts for axis {axis} of size {size}; give one for all or one for each index"
        )
    if counts.size != 1:
        order = np.repeat(np.arange(size), counts.astype(np.int64))
        return x._view(x.layout.select(axis, order)).copy()
    count = int(counts.flat[0])
    grown = x.expand_dims(axis + 1).expand((*x.shape[: axis + 1], count, *x.shape[axis + 1 :]))
    return grown.copy().reshape((*x.shape[:axis], size * count, *x.shape[axis + 1 :]))


def _counts(repeats: Any) -> IntArray:
    try:
        found: IntArray = np.asarray(repeats)
    except ValueError:
        raise ArgumentError(
            f"repeat: repeats {repeats!r} must be an integer or a 1-D list of them, 0 or more"
        ) from None
    return found


# --- padding ----------------------------------------------------------------------------------------------------------


def pad(
    x: Tensor,
    /,
    pad_width: int | Sequence[Any],
    mode: str = "constant",
    *,
    constant_values: Number | Sequence[Any] = ZERO,
) -> Tensor:
    """New tensor with more elements at the ends of its axes.

    `pad_width`, in elements, is one number, one pair `(before, after)` for all axes, or a pair for each. `mode` says what
    is put there: "constant" (`constant_values`, given like `pad_width`, or 0), "edge" (the last element), "reflect" or
    "symmetric" (mirrored without or with it), "wrap". In the corners the last axis says what.

    Raises ArgumentError for widths below 0, an unknown mode, or constant values for another one than "constant", ShapeError
    where an empty axis has nothing to repeat.

    >>> import tenxor as tx
    >>> tx.pad(tx.arange(3), (1, 2)).tolist(), tx.pad(tx.arange(3), 2, "reflect").tolist()
    ([0, 0, 1, 2, 0, 0], [2, 1, 0, 1, 2, 1, 0])
    """
    x = asarray(x)
    widths = _pad_widths(x, pad_width)
    if not isinstance(mode, str):
        raise ArgumentError(f"pad: mode is one of 'constant', {', '.join(map(repr, _PLACES))}, not {mode!r}")
    if mode != "constant":
        border = _elements(x, widths, mode)
        if constant_values is not ZERO:
            raise ArgumentError(
                f"pad: mode {mode!r} puts elements of the tensor at its ends and takes no constant_values; leave them out,"
                " or use mode 'constant'"
            )
    else:
        constant_values = 0 if constant_values is ZERO else constant_values
        border = _numbers(x, constant_values)
    found = empty([before + n + after for n, (before, after) in zip(x.shape, widths, strict=True)], dtype=x.dtype)
    middle = [slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True)]
    if mode == "constant" and found.nbytes <= SMALL and isinstance(constant_values, (int, float, complex)):
        found._write(constant_values, "pad")  # once, as calls would take longer than writing the middle twice
        found[(*middle, ...)]._write(x, "pad")
        return found
    found[(*middle, ...)]._write(x, "pad")
    for axis, (before, after) in enumerate(widths):
        ends = slice(0, before), slice(middle[axis].stop, None)
        for end in (0, 1):
            if (before, after)[end]:
                found[(*_along(axis, ends[end]), *middle[axis + 1 :])]._write(border(axis, end), "pad")
    return found


def _pad_widths(x: Tensor, pad_width: Any) -> list[tuple[int, int]]:
    pairs = _pairs("pad_width", pad_width, x.ndim)
    if any(type(n) is not int or n < 0 for pair in pairs for n in pair):
        raise ArgumentError(f"pad: pad_width {pad_width!r} must be integers, 0 or more")
    return pairs


def _pairs(name: str, given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A pair of numbers for each axis, from one number, one pair, or all of them."""
    try:
        return [(before, after) for before, after in np.broadcast_to(np.asarray(given), (ndim, 2)).tolist()]
    except ValueError:
        raise ArgumentError(
            f"pad: {name} {given!r} is neither one number, nor one pair, nor a pair for each of {ndim} axes"
        ) from None


def _numbers(x: Tensor, constant_values: Any) -> _Border:
    pairs = _pairs("constant_values", constant_values, x.ndim)
    for number in (n for pair in pairs for n in pair):
        if not isinstance(number, (int, float, complex)):
            raise ArgumentError(f"pad: constant_values {constant_values!r} must be numbers")
    return lambda axis, end: pairs[axis][end]


def _elements(x: Tensor, widths: list[tuple[int, int]], mode: str) -> _Border:
    if mode not in _PLACES:
        raise ArgumentError(f"pad: there is no mode {mode!r}; there are 'constant', {', '.join(map(repr, _PLACES))}")
    sources: list[IntArray] = []
    for axis, (size, (before, after)) in enumerate(zip(x.shape, widths, strict=True)):
        if size == 0 and before + after:
            raise ShapeError(
                f"pad: axis {axis} of shape {x.shape} has no element to fill {mode!r} padding with; use mode 'constant'"
            )
        sources.append(_PLACES[mode](np.arange(-before, size + after), size) if size else np.arange(0))

    def border(axis: int, end: int) -> Tensor:
        before, after = widths[axis]
        layout = x.layout.select(axis, sources[axis][-after:] if end else sources[axis][:before])
        for a in range(axis):
            layout = layout.select(a, sources[a])
        return x._view(layout)

    return border


def _reflected(places: IntArray, size: int) -> IntArray:
    inside = places % max(2 * size - 2, 1)
    return np.minimum(inside, 2 * size - 2 - inside)


def _mirrored(places: IntArray, size: int) -> IntArray:
    inside = places % (2 * size)
    return np.minimum(inside, 2 * size - 1 - inside)


# For each mode, which element stands at a place that may lie outside.
_PLACES: dict[str, Callable[[IntArray, int], IntArray]] = {
    "edge": lambda places, size: np.clip(places, 0, size - 1),
    "reflect": _reflected,
    "symmetric": _mirrored,
    "wrap": lambda places, size: places % size,
}
