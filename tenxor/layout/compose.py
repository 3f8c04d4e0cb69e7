"""Composition of layouts: a view of the flat indices of another view, expressed as a single view where possible. The outer view gives flat
indices of the base. A flat index has one digit per axis of the base, its coordinates, slowest first.
"""

from __future__ import annotations

from math import prod

import numpy as np

from .axes import MAX_JOINED_ENTRIES, Axis, IntArray, axis_from_offsets, coalesce_axes, list_offsets
from .coords import split_into_digits
from .view import View

# The change of one digit of the base along an outer axis: per step if an int, at each index if an array.
# Below, `origin` are the digits at the first element of the outer view, and `start` is one of them.
DigitChange = int | IntArray


def compose(outer: View, base: View) -> tuple[int, list[Axis]] | None:
    """Return offset and axes of the single view that maps as `outer` and then the first view of `base` do.

    `outer` gives flat indices into `base.shape`, from 0 to below `base.size`; the base of `outer` is not looked at. Return None if no
    single view is found. A flat index has one digit per axis of `base`. If no digit ever carries into the next, each digit is a sum over
    the outer axes, and so is the offset.
    """
    digits = coalesce_axes(base.axes())
    sizes = [digit.size for digit in digits]
    origin = split_into_digits(outer.offset, sizes)
    axes = outer.axes()
    changes_by_axis = [_digit_changes(axis, outer.offset, origin, sizes) for axis in axes]
    changes_by_digit = [[changes[k] for changes in changes_by_axis] for k in range(len(digits))]
    offset = base.offset
    for digit, start, changes in zip(digits, origin, changes_by_digit, strict=True):
        if not (_stays_within(digit.size, start, axes, changes) and _is_sum(digit, start, axes, changes)):
            return None
        offset += start * digit.stride if digit.table is None else int(digit.table.offsets[start])
    return offset, [_compose_axis(axis, changes, digits, origin) for axis, changes in zip(axes, changes_by_axis, strict=True)]


def _digit_changes(axis: Axis, flat_index: int, origin: list[int], sizes: list[int]) -> list[DigitChange]:
    """Return the change of each digit along `axis`, an outer axis that starts at `flat_index`, whose digits are `origin`: one item per
    digit.

    An item is an int, the change from one index to the next, or an array with the change at each index. `sizes` are the sizes of the
    digits, slowest first, in the order of `origin` and of the result.
    """
    if axis.table is None:
        if axis.size == 1 or axis.stride == 0:
            return [0] * len(sizes)
        end_digits = split_into_digits(flat_index + axis.stride, sizes)
        return [end - start for end, start in zip(end_digits, origin, strict=True)]
    flat_indices = axis.table.offsets + flat_index
    changes: list[DigitChange] = []
    for size, start in zip(reversed(sizes), reversed(origin), strict=True):
        flat_indices, digit = np.divmod(flat_indices, size)
        changes.append(digit - start)
    changes.reverse()
    return changes


def _stays_within(size: int, start: int, axes: list[Axis], changes: list[DigitChange]) -> bool:
    """Return whether a digit that begins at `start` stays within 0 to `size` - 1 at all indices of the outer `axes`.

    `changes` has the change of the digit along each of these axes.
    """
    low = high = start
    for axis, change in zip(axes, changes, strict=True):
        if not isinstance(change, np.ndarray):
            span = change * (axis.size - 1)
            low, high = low + min(span, 0), high + max(span, 0)
        else:
            low, high = low + int(change.min()), high + int(change.max())
    return low >= 0 and high < size


def _is_sum(digit: Axis, start: int, axes: list[Axis], changes: list[DigitChange]) -> bool:
    """Return whether the offset contributed by one digit is a sum with a summand for each of the outer `axes`.

    `digit` is the axis of the base for this digit; if affine, the answer is True. `start` is the digit at the first element, and `changes`
    has the change of the digit along each of `axes`. With more than `MAX_JOINED_ENTRIES` combinations of indices, the answer is False
    without a test.
    """
    if digit.table is None:
        return True
    digit_steps = [_as_array(change, axis.size) for axis, change in zip(axes, changes, strict=True) if _is_nonzero(change)]
    if len(digit_steps) <= 1:
        return True
    if prod([len(steps) for steps in digit_steps]) > MAX_JOINED_ENTRIES:
        return False
    offsets = digit.table.offsets - digit.table.offsets[start]
    positions: IntArray = np.array(start)
    sums: IntArray = np.array(0)
    for change in digit_steps:
        positions = positions[..., None] + change
        sums = sums[..., None] + offsets[start + change]
    return np.array_equal(offsets[positions], sums)


def _compose_axis(axis: Axis, changes: list[DigitChange], digits: list[Axis], origin: list[int]) -> Axis:
    """Return an axis of the composition: along one outer axis, the sum of the contributions of all digits to the offset.

    `changes` has the change of each digit along `axis`, `digits` the axis of the base for each digit, and `origin` the digits at the first
    element.
    """
    stride = 0
    gathered: list[IntArray] = []
    for change, digit, start in zip(changes, digits, origin, strict=True):
        if digit.table is not None and _is_nonzero(change):
            positions = start + _as_array(change, axis.size)
            gathered.append(digit.table.offsets[positions] - digit.table.offsets[start])
        elif not isinstance(change, np.ndarray):
            stride += change * digit.stride
        else:
            gathered.append(change * digit.stride)
    if not gathered:
        return Axis(axis.size, stride)
    return axis_from_offsets(sum(gathered, start=list_offsets(Axis(axis.size, stride))))[1]


def _is_nonzero(change: DigitChange) -> bool:
    """Return whether `change`, the change of a digit along an axis, may move the digit: True for an array, and for an int other than 0."""
    return isinstance(change, np.ndarray) or change != 0


def _as_array(change: DigitChange, size: int) -> IntArray:
    """Return the change of a digit at each index of an axis of `size` indices, as an array. An int `change` is the change per step."""
    return change if isinstance(change, np.ndarray) else list_offsets(Axis(size, change))
