"""Coordinates, flat indices, shapes and axes: the arithmetic and the argument checks below every layout."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from operator import index as as_int
from typing import Any

from ..errors import ArgumentError, AxisError, BadIndex, IndexOutOfRange, ShapeError, TraceError, described

Shape = tuple[int, ...]


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


def ravel_index(coords: Sequence[int], shape: Shape) -> int:
    """Return the flat index, in row-major order, of the element at `coords` of an array of `shape`; negative ints count from the end.

    Raises IndexOutOfRange for a coordinate past its axis, or for more or fewer coordinates than axes.

    >>> ravel_index((1, 2, 3), (5, 6, 7))
    59
    """
    if len(coords) != len(shape):
        raise IndexOutOfRange(wrong_count(len(coords), shape))
    number = 0
    for axis, size in enumerate(shape):
        number = number * size + checked_index(coords[axis], axis, size)
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
    return tuple(digits_of(number, shape))


def digits_of(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the mixed-radix digits of a number that is known to be in range, slowest axis first."""
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
    return None if number == prod(shape) else tuple(digits_of(number, shape))


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
                    f"shapes {listed(shapes)} do not broadcast: axis {axis} has sizes {result[axis]} and "
                    f"{size}; sizes must be equal or 1"
                )
            result[axis] = size
    return tuple(result)


def listed(shapes: Sequence[Shape]) -> str:
    """Return shapes as a phrase: `(2, 3), (4,) and (5,)`."""
    names = [str(tuple(shape)) for shape in shapes]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def checked_shape(shape: Iterable[int]) -> Shape:
    """Return `shape` as a tuple of ints. Raises ShapeError for a negative size, TypeError for anything but integers."""
    sizes = whole(shape)
    if True in [n < 0 for n in sizes]:  # `min` would compare symbolic sizes with each other and record guards
        raise ShapeError(f"shape {sizes} has a negative size")
    return sizes


def whole(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return numbers as a tuple of ints, symbolic sizes as they are. Raises TypeError for anything else."""
    return tuple([n if type(n) is int else _as_int_or_size(n) for n in numbers])


def _as_int_or_size(number: int) -> int:
    return number if is_size(number) else as_int(number)


def is_size(number: object) -> bool:
    """Return whether a number is a symbolic size."""
    if isinstance(number, (int, float)):
        return False
    from ..sizes import Size  # an import statement waits while another thread loads the module

    return isinstance(number, Size)


def as_float(count: float) -> Any:
    """Return an element count as a float to compute with; a symbolic size as it is."""
    return float(count) if isinstance(count, (int, float)) else count


def checked_index(index: int, axis: int, size: int) -> int:
    """Return `index` counted from the start. Raises IndexOutOfRange naming axis, index and size, or BadIndex for a non-integer."""
    try:
        position = as_int(index)
    except TraceError:
        raise  # its message names the remedy
    except TypeError:
        raise BadIndex(f"the index of axis {axis} is {described(index)}; an index is an integer") from None
    if not -size <= position < size:
        raise IndexOutOfRange(f"index {position} is out of range for axis {axis} with size {size}")
    return position if position >= 0 else position + size


def wrong_count(count: int, shape: Shape) -> str:
    """Return the error message for an element addressed with `count` coordinates in an array of another rank."""
    count_phrase = "1 coordinate" if count == 1 else f"{count} coordinates"
    return f"{count_phrase} for shape {shape}, which has {axes_phrase(len(shape))}; an element needs one per axis"


def axes_phrase(ndim: int) -> str:
    """Return `no axes`, `1 axis`, `3 axes`."""
    return "1 axis" if ndim == 1 else f"{ndim or 'no'} axes"


def checked_int(op: str, name: str, value: int) -> int:
    """Return `value` as an int, a symbolic size as it is. Raises ArgumentError naming `op` and the argument."""
    try:
        return _as_int_or_size(value)
    except TraceError:
        raise  # its message names the remedy
    except TypeError:
        raise ArgumentError(f"{op}: {name} is an integer, not {described(value)}") from None


def axis_number(axis: Any, op: str) -> int:
    """Return `axis` as an int. Raises AxisError naming `op` for anything but an integer, and for bools: the user meant another argument."""
    try:
        if type(axis) is bool:
            raise TypeError
        return as_int(axis)
    except TraceError:
        raise  # its message names the remedy
    except TypeError:
        raise AxisError(f"{op}: an axis is an integer, not {described(axis)}") from None


def checked_axis(axis: int, ndim: int, op: str) -> int:
    """Return `axis` counted from the start. Raises AxisError naming `op`."""
    position = axis if type(axis) is int else axis_number(axis, op)
    if not -ndim <= position < ndim:
        choice = f"axis must be from {-ndim} to {ndim - 1}" if ndim else "it has no axes"
        raise AxisError(f"{op}: axis {position} does not exist in a tensor of {axes_phrase(ndim)}; {choice}")
    return position if position >= 0 else position + ndim


def listed_axes(axes: Any) -> tuple[Any, ...]:
    """Return one axis or several as a tuple. A string, a mapping or a 0-d array counts as one axis, which later checks reject."""
    is_single = not isinstance(axes, Iterable) or isinstance(axes, (str, bytes, Mapping)) or getattr(axes, "ndim", None) == 0
    return (axes,) if is_single else tuple(axes)


def checked_axes(axes: int | Iterable[int], ndim: int, op: str) -> Shape:
    """Return one axis or several as a tuple, each counted from the start. Raises AxisError if one does not exist or is named twice."""
    if type(axes) is int:
        return (checked_axis(axes, ndim, op),)
    axis_list = listed_axes(axes)
    if getattr(axes, "shape", ()) and "int" not in str(getattr(axes, "dtype", None)):
        raise AxisError(f"{op}: axes are integers, not {described(axes)}")
    positions = tuple([checked_axis(axis, ndim, op) for axis in axis_list])
    if len(set(positions)) < len(positions):
        repeated = next(axis for axis in positions if positions.count(axis) > 1)
        raise AxisError(f"{op}: axis {repeated} is named twice in {axis_list}; name each axis once")
    return positions


@lru_cache(maxsize=4096)
def checked_permutation(axes: Shape, ndim: int) -> Shape:
    """Return all axes in a new order, each counted from the start. Raises AxisError unless each axis is named once."""
    if len(axes) != ndim:
        raise AxisError(
            f"permute: {axes} names {axes_phrase(len(axes))} of a tensor of {axes_phrase(ndim)}; "
            f"each of {tuple(range(ndim))} must appear once"
        )
    return checked_axes(axes, ndim, "permute")
