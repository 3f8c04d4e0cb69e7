"""Joining and repeating tensors. Each part is written straight into the result; kernels compute pending parts into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from itertools import product
from math import prod
from typing import Any, ParamSpec

import numpy as np

from .._utils import upcalls
from .._utils.aliases import argument_aliases
from ..dtypes import DTypeLike, result_type
from ..errors import ArgumentError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..layout import Layout
from ..layout.axes import MAX_JOINED_ENTRIES
from ..layout.coords import Shape
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes, normalize_axis, parse_ints
from ..tensor.core import Operand
from ..tensor.join_by_fastpath import Arrange, Arrangement, PieceCopy
from ..tensor.join_pieces import (
    Piece,
    are_arrays,
    copy_regions,
    is_join_on_tape,
    is_single_tape_step,
    join_as_tape_step,
    join_fast,
    join_lazily,
    join_now,
    joined_layouts,
    piece_copies,
    should_join_by_kernels,
)
from .creation import asarray
from .output_arguments import cast_operands, write_out

__all__ = ["cat", "concat", "concatenate", "repeat", "roll", "stack", "tile"]

P = ParamSpec("P")
IntArray = np.ndarray[Any, np.dtype[np.int64]]
_FULL_SLICE = slice(None)
_POSITIVE = OPS["positive"]
MIN_LAZY_ROLL_BYTES = 1 << 19  # bytes from which a tensor is rolled lazily, together with operations on the result


def _replay_joins(arrange: Arrange, *, single_tensor: bool = False) -> Callable[[Callable[P, Tensor]], Callable[P, Tensor]]:
    """Return a decorator for a function that joins a list of tensors, or moves parts of a `single_tensor`: the fast path replays its calls.

    To replay a call is to repeat its copies without its Python code. `arrange` takes the arguments of the function, with a list of tensors
    first, all of which may hold symbolic sizes. `arrange` returns the layout of the result and the copy of each part, or None if copies do
    not give the result. Everything that the arrangement depends on must come from the arguments: the fast path applies the arrangement to
    calls that differ in their numbers.

    The fast path cannot tell a list of one tensor from that tensor. So it is asked only about lists, or only about single tensors.
    """

    def decorate(implementation: Callable[P, Tensor]) -> Callable[P, Tensor]:
        op = implementation.__name__

        @wraps(implementation)
        def function(*args: P.args, **named: P.kwargs) -> Tensor:
            if args and (type(args[0]) is Tensor) is single_tensor:
                fast_path = upcalls.installed
                if fast_path is not None:
                    joiner = fast_path.join_functions
                    replayed: Tensor | None = joiner.replay(op, args, named)
                    return _call_and_record(implementation, arrange, joiner, *args, **named) if replayed is None else replayed
            return implementation(*args, **named)

        return function

    return decorate


def _call_and_record(
    implementation: Callable[..., Tensor], arrange: Arrange, joiner: upcalls.JoinFunctions, *args: Any, **named: Any
) -> Tensor:
    """Return `implementation(*args, **named)`, and have the fast path record for the next call where each operand is copied.

    `arrange` returns these copies for the tensors and the further arguments; `joiner` is the interface of the fast path. Nothing is
    recorded if the operands were an iterator.
    """
    result = implementation(*args, **named)
    operands = args[:1] if isinstance(args[0], Tensor) else args[0]
    if isinstance(operands, (list, tuple)):  # an iterator is exhausted now
        joiner.record(implementation.__name__, operands, args[1:], named, result, arrange)
    return result


@argument_aliases
def _arrange_concat(
    pieces: Sequence[Tensor], /, axis: int | None = 0, *, dim: int | None = None, out: Any = None, dtype: Any = None, casting: str = ""
) -> Arrangement | None:
    """Return the layout of the result of `concat`, and the copy of each piece; None with `out` or `dtype`, which need casts.

    `pieces` are the tensors to join. The further parameters are the parameters of `concat`.
    """
    if out is not None or dtype is not None:
        return None
    axis = None if axis is None else normalize_axis("concat", axis, pieces[0].ndim)
    layout = Layout.contiguous(_concat_shape(_shapes(pieces), axis))
    return layout, list(piece_copies(pieces, axis, layout))


@argument_aliases
def _arrange_stack(
    pieces: Sequence[Tensor], /, axis: int = 0, *, dim: int | None = None, out: Any = None, dtype: Any = None, casting: str = ""
) -> Arrangement | None:
    """Return the layout of the result of `stack`, and the copy of each piece; None with `out` or `dtype`, which need casts.

    `pieces` are the tensors to join. The further parameters are the parameters of `stack`.
    """
    if out is not None or dtype is not None:
        return None
    axis = normalize_axis("stack", axis, pieces[0].ndim + 1)
    layout = Layout.contiguous(_stack_shape(_shapes(pieces), axis))
    return layout, list(piece_copies(pieces, axis, layout))


@_replay_joins(_arrange_concat)
@argument_aliases
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
    """Return the tensors joined along an existing axis, as a new tensor, or as `out` if given.

    Parameters
    ----------
    arrays : Sequence[Tensor]
        At least one. All shapes are equal, except along `axis`.
    axis : int or None, default 0
        None flattens the tensors first. `dim` is another name of `axis`.
    out : Tensor, optional
        Tensor that receives the result and is returned.
    dtype : dtype, optional
        By default the dtype of `out` if given, else the dtype to which all tensors promote.
    casting : str, default "same_kind"
        Casts to `dtype` or to the dtype of `out` that are allowed (see `can_cast`).

    Returns
    -------
    Tensor
        New tensor. With `out`, `out` itself.

    Raises
    ------
    ArgumentError
        If there are no tensors, or if `arrays` is no sequence.
    AxisError
        If `axis` does not exist.
    DTypeError
        If the dtypes do not promote, or `casting` forbids a cast.
    ShapeError
        If shapes do not fit; the message names the axis and the shapes. Also for 0-d tensors, unless `axis` is None.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.concat([tx.arange(2), tx.arange(3)]).tolist()
    [0, 1, 0, 1, 2]
    """
    if out is not None or dtype is not None:
        operands = cast_operands("concat", _collect_operands("concat", arrays)[0], dtype, out, casting)
        return write_out("concat", out, _concat(operands, axis), casting)
    return _concat(arrays, axis)


def _concat(arrays: Sequence[Operand], axis: int | None) -> Tensor:
    """Return a new tensor of `arrays` joined along the existing axis `axis`, or flattened and joined for None."""
    operands, types = _collect_operands("concat", arrays)
    first_shape = operands[0].shape
    if axis is not None:
        if not first_shape:
            raise ShapeError("concat: a 0-d tensor has no axis to join along; use stack, or axis=None")
        axis = normalize_axis("concat", axis, len(first_shape))
    fast_join = partial(join_fast, Tensor, "concat", operands, types, axis)
    return _join_recorded(operands, axis, fast_join, lambda: _concat_operands(operands, types, axis))


def _join_recorded(
    operands: list[Piece], axis: int | None, fast_join: Callable[[], Tensor | None], fallback: Callable[[], Tensor]
) -> Tensor:
    """Return the new tensor `fast_join()`, or `fallback()` if the former gives None.

    If `fast_join` first gives None, an operand is on the tape and none is a tracer, the join is made with the tape off. The tape then
    records it as a single tape node. `axis` is the joined axis, None for flattened operands.
    """

    def make() -> Tensor:
        result = fast_join()
        return fallback() if result is None else result

    result = fast_join()
    if result is not None:
        return result
    return (
        join_as_tape_step(operands, make, lambda result: joined_layouts(operands, axis, result.layout))
        if is_single_tape_step(operands)
        else fallback()
    )


def _concat_operands(operands: list[Piece], types: set[type], axis: int | None) -> Tensor:
    """Return a new tensor of `operands` joined along an existing axis, or flattened and joined for None, without the fast path.

    `types` is the set of the operands' types. Raise ShapeError if shapes do not fit.
    """
    operands = _make_readable(operands) if types == {np.ndarray} else operands
    shapes = _shapes(operands)
    if axis is not None:
        _check_fit("concat", shapes, axis)
    return _join("concat", operands, axis, _concat_shape(shapes, axis))


def _concat_shape(shapes: Sequence[Shape], axis: int | None) -> Shape:
    """Return the shape of the result of `concat` for operands of `shapes`, assumed to fit; None as the axis flattens the operands."""
    first_shape = shapes[0]
    if axis is None:
        return (sum([prod(shape) for shape in shapes]),)
    return (*first_shape[:axis], sum([shape[axis] for shape in shapes]), *first_shape[axis + 1 :])


cat = concatenate = concat


@_replay_joins(_arrange_stack)
@argument_aliases
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
    """Return the tensors, all of one shape, joined along a new axis, as a new tensor, or as `out` if given.

    Parameters
    ----------
    arrays : Sequence[Tensor]
        At least one.
    axis : int, default 0
        Position of the new axis in the result. `dim` is another name of `axis`.
    out : Tensor, optional
        Tensor that receives the result and is returned.
    dtype : dtype, optional
        By default the dtype of `out` if given, else the dtype to which all tensors promote.
    casting : str, default "same_kind"
        Casts to `dtype` or to the dtype of `out` that are allowed (see `can_cast`).

    Returns
    -------
    Tensor
        New tensor. With `out`, `out` itself.

    Raises
    ------
    ArgumentError, AxisError, DTypeError
        If there are no tensors, `axis` is out of range, or `casting` forbids a cast.
    ShapeError
        If shapes differ; the message names them.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.stack([tx.arange(2), tx.ones(2, dtype=tx.int64)], axis=1).tolist()
    [[0, 1], [1, 1]]
    """
    if out is not None or dtype is not None:
        operands = cast_operands("stack", _collect_operands("stack", arrays)[0], dtype, out, casting)
        return write_out("stack", out, _stack(operands, axis), casting)
    return _stack(arrays, axis)


def _stack(arrays: Sequence[Operand], axis: int) -> Tensor:
    """Return a new tensor of `arrays` joined along a new axis at position `axis`."""
    operands, types = _collect_operands("stack", arrays)
    first_shape = operands[0].shape
    axis = normalize_axis("stack", axis, len(first_shape) + 1)
    fast_join = partial(join_fast, Tensor, "stack", operands, types, axis, stacked=True)
    return _join_recorded(operands, axis, fast_join, lambda: _stack_operands(operands, types, axis))


def _stack_operands(operands: list[Piece], types: set[type], axis: int) -> Tensor:
    """Return a new tensor of `operands` joined along a new axis at position `axis`, without the fast path.

    `types` is the set of the operands' types. Raise ShapeError if shapes differ.
    """
    operands = _make_readable(operands) if types == {np.ndarray} else operands
    shapes = _shapes(operands)
    _check_fit("stack", shapes, None)
    return _join("stack", operands, axis, _stack_shape(shapes, axis))


def _stack_shape(shapes: Sequence[Shape], axis: int | None) -> Shape:
    """Return the shape of the result of `stack` for operands of `shapes`, assumed equal; `axis` is the position of the new axis."""
    assert axis is not None
    return (*shapes[0][:axis], len(shapes), *shapes[0][axis:])


def _collect_operands(op: str, arrays: Sequence[Any]) -> tuple[list[Piece], set[type]]:
    """Return a list of the operands `arrays` of `op`, and the set of their types. Raise ArgumentError for no operands or no sequence.

    If every operand is a NumPy array, the arrays stay arrays, to be read during the call or copied later. Otherwise each operand becomes a
    tensor, or stays an array if that can be read without conversion (`are_arrays`).
    """
    if not isinstance(arrays, Iterable) or getattr(arrays, "shape", None) == ():
        raise ArgumentError(f"{op}: the first argument must be a sequence of tensors, such as [x, y], not one {type(arrays).__name__}")
    operands = list(arrays)
    if not operands:
        raise ArgumentError(f"{op}: the sequence of tensors is empty; it must have at least one")
    types = set(map(type, operands))
    if types not in ({Tensor}, {np.ndarray}):
        operands = _make_readable(operands)
        types = set(map(type, operands))
    return operands, types


def _make_readable(operands: list[Any]) -> list[Piece]:
    """Return the operands as tensors, except for NumPy arrays that can be read without conversion (`are_arrays`).

    If no operand needs conversion, the result is `operands` itself.
    """
    return operands if are_arrays(operands) else [a if are_arrays([a]) else asarray(a) for a in operands]


def _shapes(operands: Sequence[Piece]) -> list[Shape]:
    return [p.layout.shape if type(p) is Tensor else p.shape for p in operands]


def _check_fit(op: str, shapes: Sequence[tuple[int, ...]], axis: int | None) -> None:
    """Raise ShapeError, beginning with `op`, unless `shapes` agree in every axis but `axis`, the joined axis; None allows no difference."""
    first_shape = shapes[0]
    for shape in dict.fromkeys(shapes):  # distinct shapes in order
        if len(shape) != len(first_shape):
            k = shapes.index(shape)
            raise ShapeError(f"{op}: tensor {k} has shape {shape}, and tensor 0 {first_shape}; all must have the same number of axes")
        for a, (n, m) in enumerate(zip(shape, first_shape, strict=True)):
            if n != m and a != axis:
                k = shapes.index(shape)
                requirement = "all shapes must be equal" if axis is None else f"only axis {axis}, which is joined, may differ"
                raise ShapeError(
                    f"{op}: tensor {k} has shape {shape}, and tensor 0 {first_shape}: axis {a} has sizes {n} and {m}; {requirement}"
                )


def _join(op: str, operands: list[Piece], axis: int | None, shape: tuple[int, ...]) -> Tensor:
    """Return a new tensor of shape `shape` with the operands of `op` joined along `axis` of the shape, or flattened and joined for None."""
    dtype = result_type(*{p.dtype for p in operands})
    join = join_lazily if should_join_by_kernels(operands, prod(shape) * dtype.itemsize) else join_now
    return join(Tensor, op, operands, axis, shape, dtype)


def axis_key(axis: int, index: slice) -> tuple[slice, ...]:
    """Return the index key that applies the slice `index` to one axis; `axis` counts from the start."""
    return (*(_FULL_SLICE,) * axis, index)


# --- the elements of one tensor, moved or repeated --------------------------------------------------------------------


@argument_aliases
def _arrange_roll(
    pieces: Sequence[Tensor], /, shift: int | tuple[int, ...], axis: Axes = None, *, dim: Axes = None, dims: Axes = None
) -> Arrangement | None:
    """Return the layout of the result of `roll`, and the copies of the parts of the single tensor in `pieces`.

    Return None for a flattened tensor, and for a large tensor, rolled when values are needed. The parameters are the parameters of `roll`.
    """
    (x,) = pieces
    if axis is None or _is_lazy_roll(x):
        return None
    shift_of = _shift_of_axes(x, shift, axis)
    moves = [_roll_slices(size, shift_of[a]) if a in shift_of else [(_FULL_SLICE, _FULL_SLICE)] for a, size in enumerate(x.shape)]
    layout, result_layout = x.layout, Layout.contiguous(x.shape)
    keys = [((*(of for of, _ in slice_pairs), ...), (*(to for _, to in slice_pairs), ...)) for slice_pairs in product(*moves)]
    return result_layout, [PieceCopy(0, layout.index(of), result_layout.index(to)) for of, to in keys]


def _shift_of_axes(x: Tensor, shift: int | tuple[int, ...], axis: int | Iterable[int]) -> dict[int, int]:
    """Return a dict from each rolled axis of `x`, counted from the start, to its shift. Shifts of an axis named twice add up.

    `shift` is a shift for every axis, or one for each in `axis`. Raise ArgumentError for a different number of shifts.
    """
    axes = [normalize_axis("roll", a, x.ndim) for a in parse_ints("roll", "axis", (axis,))]
    shifts = parse_ints("roll", "shift", (shift,))
    if len(shifts) != len(axes):
        if len(shifts) != 1:
            raise ArgumentError(
                f"roll: {len(shifts)} shifts for {len(axes)} axes; shift must be one number for all axes, or have one for each"
            )
        shifts *= len(axes)
    return {a: sum([s for s, b in zip(shifts, axes, strict=True) if b == a]) for a in axes}


def _is_lazy_roll(x: Tensor) -> bool:
    """Return whether `x` is rolled when the values are needed: if `x` is large, off the tape, and the offsets of each axis fit a table."""
    return x.size * x.dtype.itemsize >= MIN_LAZY_ROLL_BYTES and max(x.shape) <= MAX_JOINED_ENTRIES and not is_join_on_tape([x])


@_replay_joins(_arrange_roll, single_tensor=True)
@argument_aliases
def roll(x: Operand, /, shift: int | tuple[int, ...], axis: Axes = None, *, dim: Axes = None, dims: Axes = None) -> Tensor:
    """Return a new tensor with the elements moved along axes by `shift` positions. Elements moved past the end reenter at the other end.

    Parameters
    ----------
    x : Tensor
    shift : int or tuple of int
        One shift for all axes, or one for each. The shifts of an axis named twice add up.
    axis : int or tuple of int, optional
        By default, the flattened tensor is rolled and keeps its shape. `dim` and `dims` are other names of `axis`.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    AxisError
        If an axis does not exist.
    ArgumentError
        If the number of shifts is neither 1 nor the number of axes.

    Examples
    --------
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
    return copy_regions(Tensor, "roll", x, arrangement[1], x.shape)


@memoized_call
def _roll_lazily(x: Tensor, shift_of: tuple[tuple[int, int], ...]) -> Tensor:
    """Return a pending copy of `x`, rolled; `shift_of` has pairs of an axis and a shift in positions.

    Operations on the copy read `x` itself (`rewrite/split_by_runs.py`).
    """
    key: list[Any] = [None] * x.ndim
    for axis, shift in shift_of:
        key[axis] = (np.arange(x.shape[axis]) - shift) % x.shape[axis]
    return Tensor._compute(_POSITIVE, x._view(x.layout.oindex(key)))


def _roll_slices(size: int, shift: int) -> list[tuple[slice, slice]]:
    """Return (source, target) slices for the two parts of an axis of `size` positions rolled by `shift`.

    If nothing moves, return a single pair for the whole axis.
    """
    by = shift % size if size else 0
    if by == 0:
        return [(_FULL_SLICE, _FULL_SLICE)]
    return [(slice(0, size - by), slice(by, None)), (slice(size - by, None), slice(0, by))]


@memoized_call
@argument_aliases
def tile(x: Operand, repetitions: Sequence[int] | int, /) -> Tensor:
    """Return a new tensor with `x` repeated along each axis.

    Parameters
    ----------
    x : Tensor
    repetitions : int or Sequence[int]
        A count for each axis, 0 or more. Fewer counts than axes belong to the last axes; the others are not repeated. More counts than
        axes add new leading axes.

    Returns
    -------
    Tensor
        New tensor of the dtype of `x`.

    Raises
    ------
    ArgumentError
        If a count is negative or no integer.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.tile(tx.arange(2), (2, 2)).tolist()
    [[0, 1, 0, 1], [0, 1, 0, 1]]
    """
    x = asarray(x)
    counts = parse_ints("tile", "repetitions", (repetitions,))
    if any(c < 0 for c in counts):
        raise ArgumentError(f"tile: repetitions {counts} must be 0 or more")
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    counts = (1,) * (x.ndim - len(counts)) + counts
    interleaved = x.reshape([n for size in shape for n in (1, size)])
    expanded = interleaved.expand([n for count, size in zip(counts, shape, strict=True) for n in (count, size)])
    return expanded.copy().reshape([count * size for count, size in zip(counts, shape, strict=True)])


@memoized_call
@argument_aliases
def repeat(x: Operand, repeats: int | Sequence[int] | Tensor, /, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """Return a new tensor with each element repeated along an axis.

    Parameters
    ----------
    x : Tensor
    repeats : int, Sequence[int] or Tensor
        One count for all elements, or one for each index of the axis.
    axis : int, optional
        By default `x` is flattened first. `dim` is another name of `axis`.

    Returns
    -------
    Tensor
        New tensor of the dtype of `x`.

    Raises
    ------
    AxisError
        If `axis` does not exist.
    ArgumentError
        If counts are not integers of 0 or more.
    ShapeError
        If the number of counts is neither 1 nor the size of the axis.

    Notes
    -----
    PyTorch's name is `repeat_interleave`; PyTorch's `repeat` is `tile`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.repeat(tx.arange(3), 2).tolist(), tx.repeat(tx.arange(3), [0, 1, 2]).tolist()
    ([0, 0, 1, 1, 2, 2], [1, 2, 2])
    """
    x = asarray(x)
    if axis is None:
        x, axis = x.ravel(), 0
    axis = normalize_axis("repeat", axis, x.ndim)
    counts = _count_array(repeats)
    if (counts.dtype.kind not in "iu" and counts.size) or counts.ndim > 1 or (counts < 0).any():
        raise ArgumentError(f"repeat: repeats {describe_value(repeats)} must be an integer or a 1-D list of them, 0 or more")
    size = x.shape[axis]
    if counts.size not in (1, size):
        raise ShapeError(
            f"repeat: {counts.size} counts for axis {axis} of size {size}; repeats must be one number, or have one for each index"
        )
    if counts.size != 1:
        order = np.repeat(np.arange(size), counts.astype(np.int64))
        return x._view(x.layout.select(axis, order)).copy()
    count = int(counts.flat[0])
    expanded = x.expand_dims(axis + 1).expand((*x.shape[: axis + 1], count, *x.shape[axis + 1 :]))
    return expanded.copy().reshape((*x.shape[:axis], size * count, *x.shape[axis + 1 :]))


def _count_array(repeats: Any) -> IntArray:
    """Return `repeats` as a NumPy array of any dtype and shape, unchecked. Raise ArgumentError if it is ragged."""
    try:
        counts: IntArray = np.asarray(repeats)
    except ValueError:
        raise ArgumentError(f"repeat: repeats {describe_value(repeats)} must be an integer or a 1-D list of them, 0 or more") from None
    return counts
