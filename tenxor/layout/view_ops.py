"""The arithmetic of single view operations on sizes and strides; `Layout` has a method for each. The arguments `shape` and `strides` (in
elements) are those of an affine view, and `axis` counts from the end if negative.
"""

from collections.abc import Iterable

from ..errors import ArgumentError, AxisError, ShapeError
from .coords import Shape, as_axis_tuple, as_int_tuple, checked_axes, checked_axis, validate_int


def compute_axis_order(source: int | Iterable[int], destination: int | Iterable[int], ndim: int) -> list[int]:
    """Return the permutation that puts the axes `source` at the positions `destination` and leaves the remaining axes in their order.

    Item k of the result is the old axis at position k; `ndim` is the number of axes. Raises AxisError if an axis or a position does not
    exist or is named twice, or if the two differ in number.
    """
    sources = checked_axes(source, ndim, "moveaxis")
    destinations = checked_axes(destination, ndim, "moveaxis")
    if len(sources) != len(destinations):
        raise AxisError(
            f"moveaxis: source {sources} has {len(sources)} axes and destination {destinations} {len(destinations)}; they must have equally"
            " many"
        )
    order = [axis for axis in range(ndim) if axis not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(position, axis)
    return order


def list_axes_after_squeeze(axes: int | Iterable[int] | None, shape: Shape) -> list[int]:
    """Return the axes of `shape` that are left after `axes` are squeezed out. For None, every axis of size 1 is squeezed out.

    Raises ShapeError if one of `axes` has another size than 1, and AxisError if one does not exist or is named twice.
    """
    if axes is None:
        return [axis for axis, size in enumerate(shape) if size != 1]
    squeezed = checked_axes(axes, len(shape), "squeeze")
    for axis in squeezed:
        if shape[axis] != 1:
            raise ShapeError(f"squeeze: axis {axis} of shape {shape} has size {shape[axis]}; it must be 1")
    return [axis for axis in range(len(shape)) if axis not in squeezed]


def list_insert_positions(positions: int | Iterable[int], ndim: int) -> list[int]:
    """Return the positions at which to insert new axes, in ascending order, so that they have the given `positions` in the result.

    `ndim` is the number of axes before the insertion. Raises AxisError for a position that does not exist or is named twice.
    """
    axes = as_axis_tuple(positions)
    return sorted(checked_axes(axes, ndim + len(axes), "expand_dims"))


def expand(shape: Shape, strides: Shape, target: Iterable[int]) -> tuple[Shape, Shape]:
    """Return sizes and strides of an affine view repeated to `target`, in which -1 keeps a size; repeated axes have stride 0.

    Raises ShapeError unless `target` has as many axes or more, and differs only in axes of size 1 and new leading axes.
    """
    sizes = list(as_int_tuple(target))
    new_count = len(sizes) - len(shape)
    if new_count < 0:
        raise ShapeError(f"expand: shape {shape} has more axes than {tuple(sizes)}; the new shape must have at least {len(shape)} axes")
    result = [0] * new_count
    for axis, (old, stride) in enumerate(zip(shape, strides, strict=True), start=new_count):
        if sizes[axis] == -1:
            sizes[axis] = old
        is_kept = sizes[axis] == old
        if not is_kept and old != 1:
            raise _does_not_expand(shape, sizes, axis, f"has size {old}")
        result.append(stride if is_kept else 0)
    if sizes and min(sizes) < 0:
        axis = sizes.index(min(sizes))
        raise _does_not_expand(shape, sizes, axis, "is new" if axis < new_count else "has size 1")
    return tuple(sizes), tuple(result)


def _does_not_expand(shape: Shape, sizes: list[int], axis: int, reason: str) -> ShapeError:
    """Return the error for axis `axis` of the target `sizes`, to which a view of `shape` cannot expand; `reason` is a phrase such as "has
    size 3".
    """
    return ShapeError(
        f"expand: shape {shape} does not expand to {tuple(sizes)}: axis {axis - len(sizes)} {reason} "
        f"and cannot become {sizes[axis]}; only axes of size 1 and new leading axes repeat"
    )


def flip(axes: int | Iterable[int] | None, shape: Shape, strides: Shape, offset: int) -> tuple[Shape, int]:
    """Return strides and offset of an affine view at `offset`, with the given `axes`, or all axes for None, reversed.

    Raises AxisError if an axis does not exist or is named twice.
    """
    result = list(strides)
    for axis in range(len(shape)) if axes is None else checked_axes(axes, len(shape), "flip"):
        offset += max(0, shape[axis] - 1) * result[axis]
        result[axis] = -result[axis]
    return tuple(result), offset


def diagonal(shape: Shape, strides: Shape, offset: int, axis1: int, axis2: int) -> tuple[Shape, Shape, int]:
    """Return shape and strides with a diagonal as the last axis, and the distance of its start from the first element.

    The diagonal holds the elements whose index along `axis2` is the index along `axis1` plus `offset`. It may be empty; the distance is
    then 0. The distance is in the unit of `strides`. Raises AxisError if an axis does not exist, or both are the same, and ArgumentError if
    `offset` is no integer.
    """
    row_axis, column_axis = checked_axes((axis1, axis2), len(shape), "diagonal")
    offset = validate_int("diagonal", "offset", offset)
    down, right = max(0, -offset), max(0, offset)
    size = max(0, min(shape[row_axis] - down, shape[column_axis] - right))
    other_axes = [axis for axis in range(len(shape)) if axis != row_axis and axis != column_axis]
    start = down * strides[row_axis] + right * strides[column_axis] if size else 0
    return (
        (*[shape[axis] for axis in other_axes], size),
        (*[strides[axis] for axis in other_axes], strides[row_axis] + strides[column_axis]),
        start,
    )


def windows(shape: Shape, strides: Shape, axis: int, size: int, step: int, dilation: int) -> tuple[Shape, Shape]:
    """Return shape and strides with `axis` counting the windows along it, and a new last axis that runs through each window.

    A window has `size` elements, `dilation` apart; neighbouring windows start `step` apart. Elements behind the last whole window are left
    out.

    Raises ArgumentError for a size, step or dilation below 1, and ShapeError for a window longer than the axis.
    """
    axis = checked_axis(axis, len(shape), "windows")
    size, step = validate_int("windows", "size", size), validate_int("windows", "step", step)
    dilation = validate_int("windows", "dilation", dilation)
    if size < 1 or step < 1 or dilation < 1:
        raise ArgumentError(f"windows: size {size}, step {step} and dilation {dilation} must all be at least 1")
    reach = dilation * (size - 1) + 1
    if reach > shape[axis]:
        raise ShapeError(
            f"windows: a window reaches over {reach} elements, but axis {axis} has {shape[axis]}; use a smaller size or dilation"
        )
    count = (shape[axis] - reach) // step + 1
    stride = strides[axis]
    step, dilation = min(step, shape[axis]), min(dilation, shape[axis])  # larger numbers have equal results
    return (
        (*shape[:axis], count, *shape[axis + 1 :], size),
        (*strides[:axis], stride * step, *strides[axis + 1 :], stride * dilation),
    )
