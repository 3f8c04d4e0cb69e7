"""Coordinates, flat indices, shapes and axes: the arithmetic and the argument checks below every layout. A flat index is the row-major
number of an element, from 0 on.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from operator import index as as_int
from typing import Any

from .._utils.cache_registry import register
from ..errors import ArgumentError, AxisError, BadIndex, IndexOutOfRange, ShapeError, TraceError, describe_value

Shape = tuple[int, ...]


@register("contiguous strides", "the strides of a contiguous tensor, by shape")
@lru_cache(maxsize=4096)
def contiguous_strides(shape: Shape) -> Shape:
    """Return the row-major strides of `shape`, in elements.

    An axis of size 0 counts as 1, so that no stride vanishes.

    >>> contiguous_strides((10, 9, 5, 13))
    (585, 65, 13, 1)
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    return tuple(reversed(strides))


def find_constant_step(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Return the constant distance between neighbours in row-major order of `shape`, in the unit of `strides`; None if the distance varies.

    The distance is 0 for a single element. Axes of size 1 are ignored.
    """
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    if any([outer != n * inner for (_, outer), (n, inner) in pairwise(axes)]):
        return None
    return axes[-1][1] if axes else 0


def ravel_index(coords: Sequence[int], shape: Shape) -> int:
    """Return the flat index, in row-major order, of the element at `coords` of an array of `shape`; negative ints count from the end.

    Raises IndexOutOfRange for a coordinate past its axis, or for more or fewer coordinates than axes.

    >>> ravel_index((1, 2, 3), (5, 6, 7))
    59
    """
    if len(coords) != len(shape):
        raise IndexOutOfRange(format_wrong_count(len(coords), shape))
    number = 0
    for axis, size in enumerate(shape):
        number = number * size + normalize_index(coords[axis], axis, size)
    return number


def unravel_index(number: int, shape: Shape) -> Shape:
    """Return the coordinates of the element with flat index `number` in an array of `shape`: the inverse of `ravel_index`.

    Raises IndexOutOfRange unless 0 <= number < the number of elements.

    >>> unravel_index(59, (5, 6, 7))
    (1, 2, 3)
    """
    size = prod(shape)
    if not 0 <= number < size:
        raise IndexOutOfRange(f"number {number} is out of range for shape {shape}, which has {size} elements")
    return tuple(split_into_digits(number, shape))


def split_into_digits(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the digits of `number` in the mixed radix `sizes`, slowest first. `number` must be from 0 to prod(sizes) - 1."""
    digits: list[int] = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        digits.append(digit)
    digits.reverse()
    return digits


def next_index(coords: Sequence[int], shape: Shape) -> Shape | None:
    """Return the coordinates that follow `coords` in row-major order, or None after the last.

    Raises IndexOutOfRange when `coords` is not in an array of `shape`.

    >>> next_index((1, 2, 6), (5, 6, 7))
    (1, 3, 0)
    """
    number = ravel_index(coords, shape) + 1
    return None if number == prod(shape) else tuple(split_into_digits(number, shape))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the shape to which all `shapes` expand: aligned at the last axis, sizes equal or 1.

    Raises ShapeError naming the shapes, the axis and the two sizes that disagree.

    >>> broadcast_shapes((5, 1, 3), (7, 1, 4, 3))
    (7, 5, 4, 3)
    """
    result: list[int] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for axis in range(-len(shape), 0):
            size = shape[axis]
            if size == result[axis] or size == 1:
                continue
            if result[axis] != 1:
                raise ShapeError(
                    f"shapes {format_shapes(shapes)} do not broadcast: axis {axis} has sizes {result[axis]} and "
                    f"{size}; sizes must be equal or 1"
                )
            result[axis] = size
    return tuple(result)


def format_shapes(shapes: Sequence[Shape]) -> str:
    """Return `shapes`, one or more, as a phrase: "(2, 3), (4,) and (5,)"."""
    names = [str(tuple(shape)) for shape in shapes]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def validate_shape(shape: Iterable[int]) -> Shape:
    """Return `shape` as a tuple of ints, symbolic sizes as they are. Raises ShapeError for a negative size, TypeError for anything but
    integers.
    """
    sizes = as_int_tuple(shape)
    if True in [n < 0 for n in sizes]:  # `min` would compare symbolic sizes with each other and record guards
        raise ShapeError(f"shape {sizes} has a negative size; sizes must be 0 or more")
    return sizes


def as_int_tuple(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return `numbers` as a tuple of ints, symbolic sizes (`SymInt`) as they are. Integers of other types are converted; anything else
    raises TypeError.
    """
    return tuple([n if type(n) is int else _as_int_or_size(n) for n in numbers])


def _as_int_or_size(number: int) -> int:
    """Return the integer `number` as an int, or a symbolic size unchanged. Raises TypeError for anything else."""
    return number if is_symbolic(number) else as_int(number)


def is_symbolic(number: object) -> bool:
    """Return whether a number is a symbolic size (`SymInt`): an integer of a trace, with every question about the value recorded."""
    if isinstance(number, (int, float)):
        return False
    from ..symbolic.symint import SymInt  # an import statement waits while another thread loads the module

    return isinstance(number, SymInt)


def as_float(count: float) -> Any:
    """Return an element count as a float, to compute with its magnitude. A symbolic size is returned unchanged, so that it records what is
    asked.
    """
    return float(count) if isinstance(count, (int, float)) else count


def normalize_index(index: int, axis: int, size: int) -> int:
    """Return `index` counted from the start of an axis of `size`, as an int.

    Raises IndexOutOfRange for an index out of range, BadIndex for a non-integer; both name `axis`. A TraceError of the conversion is passed
    on.
    """
    try:
        position = as_int(index)
    except TraceError:
        raise  # its message names the remedy
    except TypeError:
        raise BadIndex(f"the index of axis {axis} is {describe_value(index)}; it must be an integer") from None
    if not -size <= position < size:
        raise IndexOutOfRange(f"index {position} is out of range for axis {axis} with size {size}")
    return position if position >= 0 else position + size


def format_wrong_count(count: int, shape: Shape) -> str:
    """Return the error message for an element addressed with `count` coordinates in an array of `shape`, which has another rank."""
    count_phrase = "1 coordinate" if count == 1 else f"{count} coordinates"
    return f"{count_phrase} for shape {shape}, which has {format_axis_count(len(shape))}; an element needs one per axis"


def format_axis_count(ndim: int) -> str:
    """Return the number of axes `ndim` in words, for messages: `no axes`, `1 axis`, `3 axes`."""
    return "1 axis" if ndim == 1 else f"{ndim or 'no'} axes"


def validate_int(op: str, name: str, value: int) -> int:
    """Return `value` as an int, or a symbolic size unchanged.

    Raises ArgumentError, naming `op` and the argument `name`, for any other value.
    """
    try:
        return _as_int_or_size(value)
    except TraceError:
        raise  # its message names the remedy
    except TypeError:
        raise ArgumentError(f"{op}: {name} must be an integer, not {describe_value(value)}") from None


def as_axis_int(axis: Any, op: str) -> int:
    """Return `axis` as an int, negative or not. Raises AxisError naming `op` for anything but an integer, and for bools: the user meant
    another argument.
    """
    try:
        if type(axis) is bool:
            raise TypeError
        return as_int(axis)
    except TraceError:
        raise  # its message names the remedy
    except TypeError:
        raise AxisError(f"{op}: an axis must be an integer, not {describe_value(axis)}") from None


def checked_axis(axis: int, ndim: int, op: str) -> int:
    """Return `axis` of `ndim` axes, counted from the start. A negative `axis` counts from the end. Raises AxisError naming `op` if the axis
    does not exist or is no integer.
    """
    position = axis if type(axis) is int else as_axis_int(axis, op)
    if not -ndim <= position < ndim:
        choice = f"axis must be from {-ndim} to {ndim - 1}" if ndim else "it has no axes"
        raise AxisError(f"{op}: axis {position} does not exist in a tensor of {format_axis_count(ndim)}; {choice}")
    return position if position >= 0 else position + ndim


def as_axis_tuple(axes: Any) -> tuple[Any, ...]:
    """Return `axes`, a single axis or several, as a tuple, unchecked. A string, a mapping or a 0-d array counts as one axis, and
    `checked_axis` then rejects it.
    """
    is_single = not isinstance(axes, Iterable) or isinstance(axes, (str, bytes, Mapping)) or getattr(axes, "ndim", None) == 0
    return (axes,) if is_single else tuple(axes)


def checked_axes(axes: int | Iterable[int], ndim: int, op: str) -> Shape:
    """Return one axis or several of `ndim` axes as a tuple, each counted from the start, in the given order.

    Raises AxisError naming `op` if an axis does not exist, is named twice or is no integer.
    """
    if type(axes) is int:
        return (checked_axis(axes, ndim, op),)
    axis_list = as_axis_tuple(axes)
    if getattr(axes, "shape", ()) and "int" not in str(getattr(axes, "dtype", None)):
        raise AxisError(f"{op}: axes must be integers, not {describe_value(axes)}")
    positions = tuple([checked_axis(axis, ndim, op) for axis in axis_list])
    if len(set(positions)) < len(positions):
        repeated = next(axis for axis in positions if positions.count(axis) > 1)
        raise AxisError(f"{op}: axis {repeated} is named twice in {axis_list}; name each axis once")
    return positions


@register("permutations", "the order of the axes without negative numbers, by order of axes")
@lru_cache(maxsize=4096)
def normalize_permutation(axes: Shape, ndim: int) -> Shape:
    """Return `axes`, all `ndim` axes in a new order, each counted from the start. Raises AxisError unless each axis is named once.

    The result is cached.
    """
    if len(axes) != ndim:
        raise AxisError(
            f"permute: {axes} names {format_axis_count(len(axes))} of a tensor of {format_axis_count(ndim)}; "
            f"each of {tuple(range(ndim))} must appear once"
        )
    return checked_axes(axes, ndim, "permute")
