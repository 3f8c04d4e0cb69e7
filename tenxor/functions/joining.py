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
_FULL_SLICE = slice(None)
_POSITIVE = OPS["positive"]
LAZY_ROLL_BYTES = 1 << 19  # bytes from which a tensor is rolled lazily, together with operations on the result


def _replayable(arrange: Arrange, *, single_tensor: bool = False) -> Callable[[Callable[P, Tensor]], Callable[P, Tensor]]:
    """Decorate a function that joins a list of tensors, or moves parts of a `single_tensor`, so that the fast path replays it.

    `arrange` takes the arguments of the function, all of which may hold symbolic sizes, and returns where each part is copied, or
    None where the function computes otherwise. Everything that the arrangement depends on must come from its arguments: the fast
    path applies the arrangement to calls that differ in their numbers.

    The fast path cannot tell a list of one tensor from that tensor. So it is asked only about lists, or only about single tensors.
    """

    def decorate(implementation: Callable[P, Tensor]) -> Callable[P, Tensor]:
        op = implementation.__name__

        @wraps(implementation)
        def function(*args: P.args, **named: P.kwargs) -> Tensor:
            if args and (type(args[0]) is Tensor) is single_tensor:
                for joiner in joiners:
                    replayed: Tensor | None = joiner.again(op, args, named)
                    return _call_and_record(implementation, arrange, joiner, *args, **named) if replayed is None else replayed
                glance()
            return implementation(*args, **named)

        return function

    return decorate


def _call_and_record(implementation: Callable[..., Tensor], arrange: Arrange, joiner: Joiner, *args: Any, **named: Any) -> Tensor:
    """Return what a function gives, and have the fast path record the arrangement for the next call."""
    result = implementation(*args, **named)
    operands = args[:1] if isinstance(args[0], Tensor) else args[0]
    if isinstance(operands, (list, tuple)):  # an iterator is exhausted now
        joiner.learn(implementation.__name__, operands, args[1:], named, result, arrange)
    return result


@spelled
def _arrange_concat(
    pieces: Sequence[Tensor], /, axis: int | None = 0, *, dim: int | None = None, out: Any = None, dtype: Any = None, casting: str = ""
) -> Arrangement | None:
    """Return where `concat` copies each piece; None where pieces are cast first."""
    if out is not None or dtype is not None:
        return None
    axis = None if axis is None else axis_of("concat", axis, pieces[0].ndim)
    layout = Layout.contiguous(_concat_shape(_shapes(pieces), axis))
    return layout, list(moves_of(pieces, axis, layout))


@spelled
def _arrange_stack(
    pieces: Sequence[Tensor], /, axis: int = 0, *, dim: int | None = None, out: Any = None, dtype: Any = None, casting: str = ""
) -> Arrangement | None:
    """Return where `stack` copies each piece; None where pieces are cast first."""
    if out is not None or dtype is not None:
        return None
    axis = axis_of("stack", axis, pieces[0].ndim + 1)
    layout = Layout.contiguous(_stack_shape(_shapes(pieces), axis))
    return layout, list(moves_of(pieces, axis, layout))


@_replayable(_arrange_concat)
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
        operands = cast("concat", _collect_operands("concat", arrays)[0], dtype, out, casting)
        return into("concat", out, _concat(operands, axis), casting)
    return _concat(arrays, axis)


def _concat(arrays: Sequence[Operand], axis: int | None) -> Tensor:
    """Return the tensors joined along an existing axis, or flattened and joined for None."""
    operands, types = _collect_operands("concat", arrays)
    first_shape = operands[0].shape
    if axis is not None:
        if not first_shape:
            raise ShapeError("concat: a 0-d tensor has no axis to join along; use stack, or axis=None")
        axis = axis_of("concat", axis, len(first_shape))
    fast_join = partial(joined_quickly, Tensor, "concat", operands, types, axis)
    return _join_recorded(operands, axis, fast_join, lambda: _concat_operands(operands, types, axis))


def _join_recorded(
    operands: list[Piece], axis: int | None, fast_join: Callable[[], Tensor | None], fallback: Callable[[], Tensor]
) -> Tensor:
    """Return `fast_join()`, or `fallback()` if that is None. If derivatives are recorded for an operand, the tape records one node.
    """

    def make() -> Tensor:
        result = fast_join()
        return fallback() if result is None else result

    result = fast_join()
    if result is not None:
        return result
    return followed(operands, make, lambda result: places_of(operands, axis, result.layout)) if is_followed(operands) else fallback()


def _concat_operands(operands: list[Piece], types: set[type], axis: int | None) -> Tensor:
    """Join parts along an existing axis, or flattened for None, without the quick way. Raise ShapeError if they do not fit."""
    operands = _make_readable(operands) if types == {np.ndarray} else operands
    shapes = _shapes(operands)
    if axis is not None:
        _check_fit("concat", shapes, axis)
    return _join("concat", operands, axis, _concat_shape(shapes, axis))


def _concat_shape(shapes: Sequence[Shape], axis: int | None) -> Shape:
    """Return the shape of `concat`'s result."""
    first_shape = shapes[0]
    if axis is None:
        return (sum([prod(shape) for shape in shapes]),)
    return (*first_shape[:axis], sum([shape[axis] for shape in shapes]), *first_shape[axis + 1 :])


cat = concatenate = concat


@_replayable(_arrange_stack)
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
        operands = cast("stack", _collect_operands("stack", arrays)[0], dtype, out, casting)
        return into("stack", out, _stack(operands, axis), casting)
    return _stack(arrays, axis)


def _stack(arrays: Sequence[Operand], axis: int) -> Tensor:
    """Return the tensors joined along a new axis."""
    operands, types = _collect_operands("stack", arrays)
    first_shape = operands[0].shape
    axis = axis_of("stack", axis, len(first_shape) + 1)
    fast_join = partial(joined_quickly, Tensor, "stack", operands, types, axis, stacked=True)
    return _join_recorded(operands, axis, fast_join, lambda: _stack_operands(operands, types, axis))


def _stack_operands(operands: list[Piece], types: set[type], axis: int) -> Tensor:
    """Join parts along a new axis, without the quick way. Raise ShapeError if their shapes differ."""
    operands = _make_readable(operands) if types == {np.ndarray} else operands
    shapes = _shapes(operands)
    _check_fit("stack", shapes, None)
    return _join("stack", operands, axis, _stack_shape(shapes, axis))


def _stack_shape(shapes: Sequence[Shape], axis: int | None) -> Shape:
    """Return the shape of `stack`'s result."""
    assert axis is not None
    return (*shapes[0][:axis], len(shapes), *shapes[0][axis:])


def _collect_operands(op: str, arrays: Sequence[Any]) -> tuple[list[Piece], set[type]]:
    """Return a list of the parts to join, and the set of their types.

    NumPy arrays stay arrays if all parts are: they are read during the call, or copied later.
    """
    if not isinstance(arrays, Iterable) or getattr(arrays, "shape", None) == ():
        raise ArgumentError(f"{op}: takes a sequence of tensors, not one {type(arrays).__name__}")
    operands = list(arrays)
    if not operands:
        raise ArgumentError(f"{op}: give at least one tensor")
    types = set(map(type, operands))
    if types not in ({Tensor}, {np.ndarray}):
        operands = as_called(op, "asarray", _make_readable, operands)
        types = set(map(type, operands))
    return operands, types


def _make_readable(operands: list[Any]) -> list[Piece]:
    """Return the parts with each array that cannot be read in place converted to a tensor."""
    return operands if are_arrays(operands) else [a if are_arrays([a]) else asarray(a) for a in operands]


def _shapes(operands: Sequence[Piece]) -> list[Shape]:
    return [p.layout.shape if type(p) is Tensor else p.shape for p in operands]


def _check_fit(op: str, shapes: Sequence[tuple[int, ...]], axis: int | None) -> None:
    """Raise ShapeError unless the shapes agree in every axis but `axis`; None means every axis."""
    first_shape = shapes[0]
    for shape in dict.fromkeys(shapes):  # distinct shapes in order
        if len(shape) != len(first_shape):
            k = shapes.index(shape)
            raise ShapeError(f"{op}: tensor {k} has shape {shape}, the first {first_shape}; all need as many axes")
        for a, (n, m) in enumerate(zip(shape, first_shape, strict=True)):
            if n != m and a != axis:
                k = shapes.index(shape)
                requirement = "all shapes must be equal" if axis is None else f"only axis {axis}, which is joined, may differ"
                raise ShapeError(
                    f"{op}: tensor {k} has shape {shape}, the first {first_shape}: axis {a} has sizes {n} and {m}; {requirement}"
                )


def _join(op: str, operands: list[Piece], axis: int | None, shape: tuple[int, ...]) -> Tensor:
    """Return a new tensor of this shape with the parts joined along `axis` of the shape, or flattened for None."""
    dtype = result_type(*{p.dtype for p in operands})
    join = written if want_kernels(operands, prod(shape) * dtype.itemsize) else joined
    return join(Tensor, op, operands, axis, shape, dtype)


def along(axis: int, index: slice) -> tuple[slice, ...]:
    """Return the key that applies the slice `index` to one axis."""
    return (*(_FULL_SLICE,) * axis, index)


# --- the elements of one tensor, moved or repeated --------------------------------------------------------------------


@spelled
def _arrange_roll(
    pieces: Sequence[Tensor], /, shift: int | tuple[int, ...], axis: Axes = None, *, dim: Axes = None, dims: Axes = None
) -> Arrangement | None:
    """Return where `roll` copies each part of the only piece; None where it rolls later, or a flattened tensor."""
    (x,) = pieces
    if axis is None or _is_lazy_roll(x):
        return None
    shift_of = _shift_of_axes(x, shift, axis)
    moves = [_roll_slices(size, shift_of[a]) if a in shift_of else [(_FULL_SLICE, _FULL_SLICE)] for a, size in enumerate(x.shape)]
    layout, result_layout = x.layout, Layout.contiguous(x.shape)
    keys = [((*(of for of, _ in slice_pairs), ...), (*(to for _, to in slice_pairs), ...)) for slice_pairs in product(*moves)]
    return result_layout, [Move(0, layout.index(of), result_layout.index(to)) for of, to in keys]


def _shift_of_axes(x: Tensor, shift: int | tuple[int, ...], axis: int | Iterable[int]) -> dict[int, int]:
    """Return by how much each rolled axis is moved. Shifts of an axis named twice add up."""
    axes = [axis_of("roll", a, x.ndim) for a in ints("roll", (axis,))]
    shifts = ints("roll", (shift,))
    if len(shifts) != len(axes):
        if len(shifts) != 1:
            raise ArgumentError(f"roll: {len(shifts)} shifts for {len(axes)} axes; give one for all or one for each")
        shifts *= len(axes)
    return {a: sum([s for s, b in zip(shifts, axes, strict=True) if b == a]) for a in axes}


def _is_lazy_roll(x: Tensor) -> bool:
    """Return whether a tensor is rolled when its values are needed: it is large, and the offsets of each axis fit a table."""
    return x.size * x.dtype.itemsize >= LAZY_ROLL_BYTES and max(x.shape) <= SMALL_TABLE and not have_past([x])


@_replayable(_arrange_roll, single_tensor=True)
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
    if _is_lazy_roll(x):
        return _roll_lazily(x, tuple(_shift_of_axes(x, shift, axis).items()))
    arrangement = _arrange_roll([x], shift, axis)
    assert arrangement is not None
    return moved(Tensor, "roll", x, arrangement[1], x.shape)


@called_again
def _roll_lazily(x: Tensor, shift_of: tuple[tuple[int, int], ...]) -> Tensor:
    """Return a pending copy of `x`, rolled along axes by shifts. Operations on the copy read `x` itself (`rewrite/pieces.py`)."""
    key: list[Any] = [None] * x.ndim
    for axis, shift in shift_of:
        key[axis] = (np.arange(x.shape[axis]) - shift) % x.shape[axis]
    return Tensor._compute(_POSITIVE, x._view(x.layout.oindex(key)))


def _roll_slices(size: int, shift: int) -> list[tuple[slice, slice]]:
    """Return (source, target) slices for the two parts of a rolled axis, or for the whole axis if nothing moves."""
    by = shift % size if size else 0
    if by == 0:
        return [(_FULL_SLICE, _FULL_SLICE)]
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
    interleaved = x.reshape([n for size in shape for n in (1, size)])
    expanded = interleaved.expand([n for count, size in zip(counts, shape, strict=True) for n in (count, size)])
    return expanded.copy().reshape([count * size for count, size in zip(counts, shape, strict=True)])


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
    counts = _count_array(repeats)
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
    expanded = x.expand_dims(axis + 1).expand((*x.shape[: axis + 1], count, *x.shape[axis + 1 :]))
    return expanded.copy().reshape((*x.shape[:axis], size * count, *x.shape[axis + 1 :]))


def _count_array(repeats: Any) -> IntArray:
    """Return `repeats` as an array. Raise ArgumentError if it is ragged."""
    try:
        counts: IntArray = np.asarray(repeats)
    except ValueError:
        raise ArgumentError(
            f"repeat: repeats {described(repeats)} must be an integer or a 1-D list of them, 0 or more"
        ) from None
    return counts
