"""Indexing of affine axes: integers, slices of any step, new axes, and lists of indices axis by axis. An affine axis has a size and a
stride, in elements; a table is the offsets along an axis without a constant stride.
"""

from collections.abc import Sequence
from operator import index as as_int
from typing import Any

import numpy as np

from ..errors import ArgumentError, BadIndex, IndexOutOfRange, TraceError
from .axes import IntArray, Table, axis_from_offsets
from .coords import Shape, format_axis_count, normalize_index
from .interruptible_chunks import nonzero

# Lists of up to this many indices are checked faster one by one than by NumPy.
MAX_LOOPED_INDICES = 32


def resolve_slice(key: slice, axis: int, size: int) -> tuple[int, int, int]:
    """Return first index, number of indices and step of the slice `key` of an axis of `size`. A step beyond the size is limited to the
    size.

    Raises ArgumentError for step 0, BadIndex for bounds other than integers and None. `axis` appears in the messages alone.
    """
    if type(size) is not int:
        return _resolve_symbolic_slice(key, size)
    try:
        start, stop, step = key.indices(size)
    except ValueError:
        raise ArgumentError(f"the slice of axis {axis} has step 0; a step may be any other integer") from None
    except TraceError:
        raise  # its message names the remedy
    except TypeError:
        raise BadIndex(f"the slice of axis {axis} is {key}; its start, stop and step must be integers or None") from None
    try:
        count = len(range(start, stop, step))
    except OverflowError:
        count = (stop - start - (1 if step > 0 else -1)) // step + 1
    if not -size <= step <= size:  # the slice has one index; a larger stride might overflow
        step = (size or 1) if step > 0 else -(size or 1)
    return start, count, step


def _resolve_symbolic_slice(key: slice, size: int) -> tuple[int, int, int]:
    """Return first index, number of indices and step of the slice `key` of an axis with a symbolic size, comparing as `slice.indices` does.

    The results may be symbolic. As in `resolve_slice`, a step beyond the size is limited to the size. The bounds must be integers or None,
    and the step not 0: nothing is checked. `slice.indices` itself would convert the symbolic size to the present int, without recording
    guards.
    """
    step = 1 if key.step is None else key.step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def clipped(bound: int | None, default: int) -> int:
        if bound is None:
            return default
        bound = bound + size if bound < 0 else bound
        return low if bound < low else high if bound > high else bound

    start, stop = clipped(key.start, low if step > 0 else high), clipped(key.stop, high if step > 0 else low)
    length = (stop - start) if step > 0 else (start - stop)
    max_step = size if size > 1 else 1
    distance = abs(step)
    return (
        start,
        (length - 1) // distance + 1 if length > 0 else 0,
        step if distance <= max_step else max_step if step > 0 else -max_step,
    )


def apply_basic_index(key: Sequence[Any], shape: Shape, strides: Shape, offset: int) -> tuple[list[int], list[int], int]:
    """Return shape, strides and offset after indexing an affine view with integers, slices, None (a new axis) and at most one Ellipsis.

    `shape`, `strides` and `offset` are those of the view; the results are new lists and an int, in the same units. An integer is an int, or
    an object with `__index__`, other than a bool. Axes that `key` leaves out are kept. Raises IndexOutOfRange for an integer out of range
    or too many items, and ArgumentError for a slice with step 0. Raises BadIndex for bools, a second Ellipsis and any other item.
    """
    new_shape: list[int] = []
    new_strides: list[int] = []
    axis = 0
    ndim = len(shape)
    for item in key:
        kind = type(item)
        if item is None:
            new_shape.append(1)
            new_strides.append(0)
            continue
        if item is Ellipsis:
            end = ndim - _count_axes_after(key, axis, ndim)
            new_shape += shape[axis:end]
            new_strides += strides[axis:end]
            axis = end
            continue
        if axis == ndim:
            raise too_many_indices(sum(entry is not None and entry is not Ellipsis for entry in key), shape)
        size = shape[axis]
        if kind is slice:
            start, count, step = resolve_slice(item, axis, size)
            new_shape.append(count)
            new_strides.append(strides[axis] * step)
            if count:  # an empty slice reads no element, so its start must not move the offset out of the storage
                offset += start * strides[axis]
        else:
            position = item if kind is int else _as_integer(item, axis)
            if position < 0:
                position += size
            if not 0 <= position < size:
                raise IndexOutOfRange(f"index {item} is out of range for axis {axis} with size {size}")
            offset += position * strides[axis]
        axis += 1
    new_shape += shape[axis:]
    new_strides += strides[axis:]
    return new_shape, new_strides, offset


def _count_axes_after(key: Sequence[Any], axes_before: int, ndim: int) -> int:
    """Return the number of axes that the items after the Ellipsis of `key` take. The items before the Ellipsis take `axes_before` axes.

    `ndim` is the number of axes of the view. Raises BadIndex for a second Ellipsis.
    """
    ellipses = [i for i, item in enumerate(key) if item is Ellipsis]
    if len(ellipses) > 1:
        raise BadIndex("an index may hold only one Ellipsis (...)")
    return min(sum(item is not None for item in key[ellipses[0] + 1 :]), ndim - axes_before)


def too_many_indices(count: int, shape: Shape) -> IndexOutOfRange:
    """Return the error for `count` indices of a tensor of `shape`, which has fewer axes. The caller raises it."""
    return IndexOutOfRange(
        f"too many indices: {count} for a tensor of {format_axis_count(len(shape))}, shape {shape}; give at most one for each axis"
    )


def _as_integer(item: Any, axis: int) -> int:
    """Return the index `item` of `axis` as an int, negative or not. Raises BadIndex, naming `axis`, for bools and for anything but an
    integer.
    """
    if isinstance(item, (bool, np.bool_)):
        raise BadIndex(f"the index of axis {axis} is {item}; a boolean is not an integer index")
    try:
        return as_int(item)
    except TraceError:
        raise  # its message names the remedy
    except TypeError:
        raise BadIndex(f"the index of axis {axis} is a {type(item).__name__}; use an int, a slice, None or ...") from None


def apply_orthogonal_index(
    key: Sequence[Any], shape: Shape, strides: Shape, offset: int, keepdims: bool
) -> tuple[list[int], list[int], int, list[Table | None]]:
    """Return shape, strides, offset and tables after indexing each axis by None (all), an int, a slice, or a list of indices.

    `shape`, `strides` and `offset` are those of an affine view. An Ellipsis in `key` stands for whole axes. An int drops its axis, or with
    `keepdims` leaves size 1. In the result, a table is None for an affine axis. Raises the errors of `expand_ellipsis`, `resolve_slice` and
    `as_index_array`.
    """
    sizes: list[int] = []
    steps: list[int] = []
    tables: list[Table | None] = []
    for axis, item in enumerate(expand_ellipsis(key, shape)):
        size, stride = shape[axis], strides[axis]
        table = None
        if type(item) is slice:
            start, count, step = resolve_slice(item, axis, size)
            size, offset, stride = count, offset + (start * stride if count else 0), stride * step
        elif isinstance(item, (list, tuple, range)) or (isinstance(item, np.ndarray) and item.ndim):
            first_offset, (size, stride, table) = _gather_axis(item, axis, size, stride)
            offset += first_offset
        elif item is not None:
            offset += normalize_index(_as_integer(item, axis), axis, size) * stride
            if not keepdims:
                continue
            size = 1
        sizes.append(size)
        steps.append(stride)
        tables.append(table)
    return sizes, steps, offset, tables


def _gather_axis(item: Any, axis: int, size: int, stride: int) -> tuple[int, tuple[int, int, Table | None]]:
    """Return the first offset that the indices `item` of an axis reach, and size, stride and table of the result's axis.

    `item` is a sequence or array as in `as_index_array`, whose errors are raised; `axis` is its number. `size` and `stride` are those of
    the indexed axis. The table is None if the indices are evenly spaced. The offset is relative to index 0, in elements; 0 without indices.
    """
    if type(item) is not list or not 0 < len(item) <= MAX_LOOPED_INDICES:
        indices = as_index_array(item, axis, size)
        return axis_from_offsets(indices if stride == 1 else indices * stride)
    offsets: list[int] = []
    for index in item:
        if type(index) is not int:
            return axis_from_offsets(as_index_array(item, axis, size) * stride)
        offsets.append((index if 0 <= index < size else normalize_index(index, axis, size)) * stride)
    first_offset, count = offsets[0], len(offsets)
    step = offsets[1] - first_offset if count > 1 else 0
    if count <= 2 or offsets == [first_offset + k * step for k in range(count)]:
        return first_offset, (count, step, None)
    return first_offset, (count, 0, Table(np.array([offset - first_offset for offset in offsets])))


def expand_ellipsis(key: Sequence[Any], shape: Shape) -> list[Any]:
    """Return one item of `key` per axis of `shape`. None, also in `key`, stands for a whole axis, not for a new one.

    The axes that the Ellipsis leaves out get None; without an Ellipsis, these are the last axes. Raises IndexOutOfRange for more items than
    axes, and BadIndex for a second Ellipsis.
    """
    items = list(key)
    ellipses = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise BadIndex("an index may hold only one Ellipsis (...)")
    count = len(items) - len(ellipses)
    if count > len(shape):
        raise too_many_indices(count, shape)
    left_out = [None] * (len(shape) - count)
    return items[: ellipses[0]] + left_out + items[ellipses[0] + 1 :] if ellipses else items + left_out


def as_index_array(item: Any, axis: int, size: int) -> IntArray:
    """Return the indices that `item` selects, counted from the start: a sequence or 1-d array of ints, or of one bool per index of `axis`.

    `size` is the size of `axis`. The result is an int64 array, maybe `item` itself. Raises IndexOutOfRange for an index out of range or a
    wrong number of bools, BadIndex for other items.
    """
    try:
        array = np.asarray(item)
    except ValueError:
        raise BadIndex(f"the list of indices for axis {axis} is ragged; it must be a flat list of ints or bools") from None
    if array.ndim != 1:
        raise BadIndex(f"the list of indices for axis {axis} has {array.ndim} axes; it must have one")
    if array.dtype == np.bool_:
        if len(array) != size:
            raise IndexOutOfRange(f"the list of bools for axis {axis} has {len(array)} entries; it must have {size}, one for each index")
        return nonzero(array)[0]
    if len(array) and array.dtype.kind not in "iu":
        raise BadIndex(f"the list of indices for axis {axis} holds {array.dtype}; it must hold ints or bools")
    indices, outside = count_from_start(array, size)
    if outside is not None:
        raise IndexOutOfRange(f"index {outside} is out of range for axis {axis} with size {size}")
    return indices


def count_from_start(array: np.ndarray[Any, Any], size: int) -> tuple[IntArray, int | None]:
    """Return the integers of `array` as int64 indices counted from the start of an axis of `size`, and None.

    If an integer is out of range, return the integers uncounted, and the value of the first one out of range. The first result may be
    `array` itself.
    """
    indices = array.astype(np.int64, copy=False)
    if not array.size:
        return indices, None
    lowest, highest = int(array.min()), int(array.max())
    if lowest < -size or highest >= size:
        return indices, int(array[(array < -size) | (array >= size)].flat[0])
    return indices if lowest >= 0 else np.where(indices < 0, indices + size, indices), None
