"""Joining and repeating tensors. Each part is written straight into the result; kernels compute pending parts into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from itertools import product
from math import prod
from typing import Any, ParamSpec

import numpy as np

from ..creation import asarray
from ..dtypes import DTypeLike, result_type
from ..errors import ArgumentError, ShapeError, described
from ..keywords import spelled
from ..layout import Layout
from ..layout.coords import Shape
from ..layout.table import SMALL_TABLE
from ..ops import OPS
from ..realize import glance
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import Axes, axis_of, ints
from ..tensor.copying import Arrange, Arrangement, Joiner, Move, joiners
from ..tensor.core import Operand
from ..tensor.pieces import (
    Piece,
    are_arrays,
    followed,
    have_past,
    is_followed,
    joined,
    joined_quickly,
    moved,
    moves_of,
    places_of,
    want_kernels,
    written,
)
from .into import as_called, cast, into

__all__ = ["cat", "concat", "concatenate", "repeat", "roll", "stack", "tile"]

P = ParamSpec("P")
IntArray = np.ndarray[Any, np.dtype[np.int64]]
_ALL = slice(None)
_POSITIVE = OPS["positive"]
LAZY = 1 << 19  # bytes from which a tensor is rolled lazily, together with operations on the result


def _replayed(arrange: Arrange, *, alone: bool = False) -> Callable[[Callable[P, Tensor]], Callable[P, Tensor]]:
    """Decorate a function that joins a list of tensors, or moves the parts of a tensor `alone`, so that the fast path replays it.

    `arrange` takes the arguments of the function, all of which may hold symbolic sizes, and returns where each part is copied, or
    None where the function computes otherwise. Everything that the arrangement depends on must come from its arguments: the fast
    path applies the arrangement to calls that differ in their numbers.

    The fast path cannot tell a list of one tensor from that tensor. So it is asked only about lists, or only about single tensors.
    """

    def decorated(own: Callable[P, Tensor]) -> Callable[P, Tensor]:
        op = own.__name__

        @wraps(own)
        def function(*args: P.args, **named: P.kwargs) -> Tensor:
            if args and (type(args[0]) is Tensor) is alone:
                for joiner in joiners:
                    known: Tensor | None = joiner.again(op, args, named)
                    return _recorded(own, arrange, joiner, *args, **named) if known is None else known
                glance()
            return own(*args, **named)

        return function

    return decorated


def _recorded(own: Callable[..., Tensor], arrange: Arrange, joiner: Joiner, *args: Any, **named: Any) -> Tensor:
    """Return what a function gives, and have the fast path record the arrangement for the next call."""
    found = own(*args, **named)
    first = args[:1] if isinstance(args[0], Tensor) else args[0]
    if isinstance(first, (list, tuple)):  # an iterator is exhausted now
        joiner.learn(own.__name__, first, args[1:], named, found, arrange)
    return found


@spelled
def _arrange_concat(
    pieces: Sequence[Tensor], /, axis: int | None = 0, *, dim: int | None = None, out: Any = None, dtype: Any = None, casting: str = ""
) -> Arrangement | None:
    """Return where `concat` copies each piece; None where pieces are cast first."""
    if out is not None or dtype is not None:
        return None
    axis = None if axis is None else axis_of("concat", axis, pieces[0].ndim)
    layout = Layout.contiguous(_shape_end_to_end(_shapes(pieces), axis))
    return layout, list(moves_of(pieces, axis, layout))


@spelled
def _arrange_stack(
    pieces: Sequence[Tensor], /, axis: int = 0, *, dim: int | None = None, out: Any = None, dtype: Any = None, casting: str = ""
) -> Arrangement | None:
    """Return where `stack` copies each piece; None where pieces are cast first."""
    if out is not None or dtype is not None:
        return None
    axis = axis_of("stack", axis, pieces[0].ndim + 1)
    layout = Layout.contiguous(_shape_side_by_side(_shapes(pieces), axis))
    return layout, list(moves_of(pieces, axis, layout))


@_replayed(_arrange_concat)
@spelled
def concat(
    arrays: Sequence[Operand],
    /,
    axis: int | None = 0,
    *,
    dim: int | None = None,
    out: Tensor | None = None,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Tensor:
    """Return the tensors joined along an existing axis, as a new tensor. With `axis` None they are flattened first.

    The dtype is the promoted one, or `dtype`, to which each tensor is cast as `casting` allows (see `can_cast`). `out`, if given, receives
    the result and is returned. Raise ArgumentError for no tensors, AxisError, DTypeError, and a ShapeError that names the axis and the
    shapes that do not fit.

    >>> import tenxor as tx
    >>> tx.concat([tx.arange(2), tx.arange(3)]).tolist()
    [0, 1, 0, 1, 2]
    """
    if out is not None or dtype is not None:
        parts = cast("concat", _parts("concat", arrays)[0], dtype, out, casting)
        return into("concat", out, _concatenated(parts, axis), casting)
    return _concatenated(arrays, axis)


def _concatenated(arrays: Sequence[Operand], axis: int | None) -> Tensor:
    """Return the tensors joined along an existing axis, or flattened and joined for None."""
    parts, types = _parts("concat", arrays)
    first = parts[0].shape
    if axis is not None:
        if not first:
            raise ShapeError("concat: a 0-d tensor has no axis to join along; use stack, or axis=None")
        axis = axis_of("concat", axis, len(first))
    quickly = partial(joined_quickly, Tensor, "concat", parts, types, axis)
    return _put_together(parts, axis, quickly, lambda: _end_to_end(parts, types, axis))


def _put_together(parts: list[Piece], axis: int | None, quickly: Callable[[], Tensor | None], otherwise: Callable[[], Tensor]) -> Tensor:
    """Return `quickly()`, or `otherwise()` if that is None. If derivatives are recorded for a part, the tape records one node for the join.
    """

    def make() -> Tensor:
        found = quickly()
        return otherwise() if found is None else found

    found = quickly()
    if found is not None:
        return found
    return followed(parts, make, lambda found: places_of(parts, axis, found.layout)) if is_followed(parts) else otherwise()


def _end_to_end(parts: list[Piece], types: set[type], axis: int | None) -> Tensor:
    """Join parts along an existing axis, or flattened for None, without the quick way. Raise ShapeError if they do not fit."""
    parts = _readable(parts) if types == {np.ndarray} else parts
    shapes = _shapes(parts)
    if axis is not None:
        _check_fit("concat", shapes, axis)
    return _joined("concat", parts, axis, _shape_end_to_end(shapes, axis))


def _shape_end_to_end(shapes: Sequence[Shape], axis: int | None) -> Shape:
    """Return the shape of `concat`'s result."""
    first = shapes[0]
    if axis is None:
        return (sum([prod(shape) for shape in shapes]),)
    return (*first[:axis], sum([shape[axis] for shape in shapes]), *first[axis + 1 :])


cat = concatenate = concat


@_replayed(_arrange_stack)
@spelled
def stack(
    arrays: Sequence[Operand],
    /,
    axis: int = 0,
    *,
    dim: int | None = None,
    out: Tensor | None = None,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Tensor:
    """Return the tensors, all of one shape, joined along a new axis at position `axis` of the result, as a new tensor.

    The dtype is the promoted one, or `dtype`, to which each tensor is cast as `casting` allows (see `can_cast`). `out`, if given, receives
    the result and is returned. Raise ArgumentError for no tensors, AxisError, and a ShapeError that names the shapes that differ.

    >>> import tenxor as tx
    >>> tx.stack([tx.arange(2), tx.ones(2, dtype=tx.int64)], axis=1).tolist()
    [[0, 1], [1, 1]]
    """
    if out is not None or dtype is not None:
        parts = cast("stack", _parts("stack", arrays)[0], dtype, out, casting)
        return into("stack", out, _stacked(parts, axis), casting)
    return _stacked(arrays, axis)


def _stacked(arrays: Sequence[Operand], axis: int) -> Tensor:
    """Return the tensors joined along a new axis."""
    parts, types = _parts("stack", arrays)
    first = parts[0].shape
    axis = axis_of("stack", axis, len(first) + 1)
    quickly = partial(joined_quickly, Tensor, "stack", parts, types, axis, stacked=True)
    return _put_together(parts, axis, quickly, lambda: _side_by_side(parts, types, axis))


def _side_by_side(parts: list[Piece], types: set[type], axis: int) -> Tensor:
    """Join parts along a new axis, without the quick way. Raise ShapeError if their shapes differ."""
    parts = _readable(parts) if types == {np.ndarray} else parts
    shapes = _shapes(parts)
    _check_fit("stack", shapes, None)
    return _joined("stack", parts, axis, _shape_side_by_side(shapes, axis))


def _shape_side_by_side(shapes: Sequence[Shape], axis: int | None) -> Shape:
    """Return the shape of `stack`'s result."""
    assert axis is not None
    return (*shapes[0][:axis], len(shapes), *shapes[0][axis:])


def _parts(op: str, arrays: Sequence[Any]) -> tuple[list[Piece], set[type]]:
    """Return a list of the parts to join, and the set of their types.

    NumPy arrays stay arrays if all parts are: they are read during the call, or copied later.
    """
    if not isinstance(arrays, Iterable) or getattr(arrays, "shape", None) == ():
        raise ArgumentError(f"{op}: takes a sequence of tensors, not one {type(arrays).__name__}")
    parts = list(arrays)
    if not parts:
        raise ArgumentError(f"{op}: give at least one tensor")
    types = set(map(type, parts))
    if types not in ({Tensor}, {np.ndarray}):
        parts = as_called(op, "asarray", _readable, parts)
        types = set(map(type, parts))
    return parts, types


def _readable(parts: list[Any]) -> list[Piece]:
    """Return the parts with each array that cannot be read in place converted to a tensor."""
    return parts if are_arrays(parts) else [a if are_arrays([a]) else asarray(a) for a in parts]


def _shapes(parts: Sequence[Piece]) -> list[Shape]:
    return [p.layout.shape if type(p) is Tensor else p.shape for p in parts]


def _check_fit(op: str, shapes: Sequence[tuple[int, ...]], axis: int | None) -> None:
    """Raise ShapeError unless the shapes agree in every axis but `axis`; None means every axis."""
    first = shapes[0]
    for shape in dict.fromkeys(shapes):  # distinct shapes in order
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
    """Return a new tensor of this shape with the parts joined along `axis` of the shape, or flattened for None."""
    dtype = result_type(*{p.dtype for p in parts})
    how = written if want_kernels(parts, prod(shape) * dtype.itemsize) else joined
    return how(Tensor, op, parts, axis, shape, dtype)


def along(axis: int, index: slice) -> tuple[slice, ...]:
    """Return the key that applies the slice `index` to one axis."""
    return (*(_ALL,) * axis, index)


# --- the elements of one tensor, moved or repeated --------------------------------------------------------------------


@spelled
def _arrange_roll(
    pieces: Sequence[Tensor], /, shift: int | tuple[int, ...], axis: Axes = None, *, dim: Axes = None, dims: Axes = None
) -> Arrangement | None:
    """Return where `roll` copies each part of the only piece; None where it rolls later, or a flattened tensor."""
    (x,) = pieces
    if axis is None or _rolls_later(x):
        return None
    shift_of = _shift_of_axes(x, shift, axis)
    moves = [_rolled(size, shift_of[a]) if a in shift_of else [(_ALL, _ALL)] for a, size in enumerate(x.shape)]
    layout, whole = x.layout, Layout.contiguous(x.shape)
    keys = [((*(of for of, _ in parts), ...), (*(to for _, to in parts), ...)) for parts in product(*moves)]
    return whole, [Move(0, layout.index(of), whole.index(to)) for of, to in keys]


def _shift_of_axes(x: Tensor, shift: int | tuple[int, ...], axis: int | Iterable[int]) -> dict[int, int]:
    """Return by how much each rolled axis is moved. Shifts of an axis named twice add up."""
    axes = [axis_of("roll", a, x.ndim) for a in ints("roll", (axis,))]
    shifts = ints("roll", (shift,))
    if len(shifts) != len(axes):
        if len(shifts) != 1:
            raise ArgumentError(f"roll: {len(shifts)} shifts for {len(axes)} axes; give one for all or one for each")
        shifts *= len(axes)
    return {a: sum([s for s, b in zip(shifts, axes, strict=True) if b == a]) for a in axes}


def _rolls_later(x: Tensor) -> bool:
    """Return whether a tensor is rolled when its values are needed: it is large, and the offsets of each axis fit a table."""
    return x.size * x.dtype.itemsize >= LAZY and max(x.shape) <= SMALL_TABLE and not have_past([x])


@_replayed(_arrange_roll, alone=True)
@spelled
def roll(x: Operand, /, shift: int | tuple[int, ...], axis: Axes = None, *, dim: Axes = None, dims: Axes = None) -> Tensor:
    """Return a new tensor with the elements moved along axes by `shift` positions; those moved past the end reenter at the other end.

    One shift applies to all axes, or each axis has its own; the shifts of an axis named twice add up. With `axis` None, the flattened
    tensor is rolled and keeps its shape. Raise AxisError, and ArgumentError for a wrong number of shifts.

    >>> import tenxor as tx
    >>> tx.roll(tx.arange(5), 2).tolist()
    [3, 4, 0, 1, 2]
    """
    x = asarray(x)
    if axis is None:
        return roll(x.ravel(), shift, 0).reshape(x.shape)
    if _rolls_later(x):
        return _rolled_later(x, tuple(_shift_of_axes(x, shift, axis).items()))
    arrangement = _arrange_roll([x], shift, axis)
    assert arrangement is not None
    return moved(Tensor, "roll", x, arrangement[1], x.shape)


@called_again
def _rolled_later(x: Tensor, shift_of: tuple[tuple[int, int], ...]) -> Tensor:
    """Return a pending copy of `x`, rolled along axes by shifts. Operations on the copy read `x` itself (`rewrite/pieces.py`)."""
    key: list[Any] = [None] * x.ndim
    for axis, shift in shift_of:
        key[axis] = (np.arange(x.shape[axis]) - shift) % x.shape[axis]
    return Tensor._compute(_POSITIVE, x._view(x.layout.oindex(key)))


def _rolled(size: int, shift: int) -> list[tuple[slice, slice]]:
    """Return (source, target) slices for the two parts of a rolled axis, or for the whole axis if nothing moves."""
    by = shift % size if size else 0
    if by == 0:
        return [(_ALL, _ALL)]
    return [(slice(0, size - by), slice(by, None)), (slice(size - by, None), slice(0, by))]


@called_again
@spelled
def tile(x: Operand, repetitions: Sequence[int] | int, /) -> Tensor:
    """Return a new tensor with `x` repeated along each axis. `repetitions` are counts for the last axes, or for new leading axes.

    Raise ArgumentError for repetitions that are not integers of 0 or more.

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


@called_again
@spelled
def repeat(
    x: Operand, repeats: int | Sequence[int] | Tensor, /, axis: int | None = None, *, dim: int | None = None
) -> Tensor:
    """Return a new tensor with each element repeated along an axis, by one count for all or one for each. None flattens `x` first.

    This is PyTorch's `repeat_interleave`; PyTorch's `repeat` is `tile`. Raise AxisError, ArgumentError for counts that are not integers of
    0 or more, and ShapeError if the number of counts is not the size of the axis.

    >>> import tenxor as tx
    >>> tx.repeat(tx.arange(3), 2).tolist(), tx.repeat(tx.arange(3), [0, 1, 2]).tolist()
    ([0, 0, 1, 1, 2, 2], [1, 2, 2])
    """
    x = asarray(x)
    if axis is None:
        x, axis = x.ravel(), 0
    axis = axis_of("repeat", axis, x.ndim)
    counts = _counts(repeats)
    if (counts.dtype.kind not in "iu" and counts.size) or counts.ndim > 1 or (counts < 0).any():
        raise ArgumentError(f"repeat: repeats {described(repeats)} must be an integer or a 1-D list of them, 0 or more")
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
    """Return `repeats` as an array. Raise ArgumentError if it is ragged."""
    try:
        found: IntArray = np.asarray(repeats)
    except ValueError:
        raise ArgumentError(
            f"repeat: repeats {described(repeats)} must be an integer or a 1-D list of them, 0 or more"
        ) from None
    return found
