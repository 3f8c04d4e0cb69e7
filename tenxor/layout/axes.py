"""The axes of a view: affine (a stride), or gathered (a table of offsets). All numbers are counts of elements of the storage. The offset of
an index is the distance of the element from the element of index 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._utils.records import NamedTuple

IntArray = np.ndarray[Any, np.dtype[np.int64]]  # a shorter spelling needs numpy.typing, which takes long to import

# Two gathered neighbours are joined into one table up to this many entries: a table of 32 KiB stays in cache.
MAX_JOINED_ENTRIES = 4096
PROBED_ENTRIES = 64  # entries tested first: most uneven spacings show up early


class Table:
    """An immutable table of storage offsets along a gathered axis, in elements, relative to the first index of the axis.

    `offsets` is a read-only int64 array with one entry per index of the axis. The first entry is 0.

    >>> Table(np.array([0, 7, 2]))
    Table([0, 7, 2])
    """

    __slots__ = ("_hash", "offsets")

    offsets: IntArray
    _hash: int

    def __init__(self, offsets: IntArray, *, owned: bool = False) -> None:
        """Store `offsets` and make the array read-only. The array is copied unless `owned`: then no other code may change it."""
        self.offsets = offsets if owned else np.array(offsets, dtype=np.int64)
        self.offsets.flags.writeable = False
        self._hash = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self is other or np.array_equal(self.offsets, other.offsets)

    def __hash__(self) -> int:
        if self._hash == 0:
            self._hash = hash(self.offsets.tobytes()) or 1
        return self._hash

    def __repr__(self) -> str:
        return f"Table({abbreviate(self.offsets)})"


Tables = tuple[Table | None, ...]


class Axis(NamedTuple):
    """An axis: size, stride in elements (0 if gathered), and table of offsets (None if affine)."""

    size: int
    stride: int
    table: Table | None = None


UNIT_AXIS = Axis(1, 0)


def abbreviate(values: IntArray, limit: int = 8) -> str:
    """Return the numbers `values` as text, such as "[0, 7, 2]". Of more than `limit` numbers, only the first `limit // 2` and the last two
    are shown.
    """
    numbers = [str(value) for value in (values if len(values) <= limit else values[: limit // 2]).tolist()]
    if len(values) > limit:
        numbers += ["...", *(str(value) for value in values[-2:].tolist())]
    return f"[{', '.join(numbers)}]"


def axis_from_offsets(values: IntArray) -> tuple[int, Axis]:
    """Return the first of `values` (0 if there is none), and an axis whose indices have the offsets `values`, relative to the first.

    `values` is a 1-d int64 array. The axis is affine if the values are evenly spaced, and otherwise has a table, a copy.
    """
    size = len(values)
    if size == 0:
        return 0, Axis(0, 0)
    first_offset = int(values[0])
    if size == 1:
        return first_offset, UNIT_AXIS
    step = int(values[1]) - first_offset
    if size == 2 or all(_is_evenly_spaced(values[start:end], step) for start, end in ((0, PROBED_ENTRIES), (PROBED_ENTRIES - 1, size))):
        return first_offset, Axis(size, step)
    return first_offset, Axis(size, 0, Table(values - first_offset, owned=True))


def _is_evenly_spaced(values: IntArray, step: int) -> bool:
    """Return whether each of `values`, a 1-d array, is the previous value plus `step`. A single value, or none, gives True."""
    return bool((values[1:] - values[:-1] == step).all())


def list_offsets(axis: Axis) -> IntArray:
    """Return the offset of every index of `axis`, relative to the first, as an int64 array. For a gathered axis this is the table itself,
    which is read-only.
    """
    return np.arange(axis.size, dtype=np.int64) * axis.stride if axis.table is None else axis.table.offsets


def join_axes(left: Axis, right: Axis) -> Axis | None:
    """Return the single axis that runs through `left` and, faster, `right`; None if neither a stride nor a small table expresses it.

    A small table has at most `MAX_JOINED_ENTRIES` entries.
    """
    if left.size == 1:
        return right
    if right.size == 1:
        return left
    size = left.size * right.size
    if left.table is None and right.table is None:
        return Axis(size, right.stride) if left.stride == right.size * right.stride else None
    if size > MAX_JOINED_ENTRIES:
        return None
    return axis_from_offsets((list_offsets(left)[:, None] + list_offsets(right)).ravel())[1]


def split_in_two(axis: Axis, size: int) -> tuple[Axis, Axis] | None:
    """Return `axis` as an outer axis and an inner axis of `size` indices; None if the table of `axis` is not a sum of two tables.

    `size` must be at least 1 and divide the size of `axis`. An affine axis always splits.
    """
    count = axis.size // size
    if axis.table is None:
        return Axis(count, axis.stride * size), Axis(size, axis.stride)
    grid = axis.table.offsets.reshape(count, size)
    if not np.array_equal(grid, grid[:, :1] + grid[0]):
        return None
    return axis_from_offsets(grid[:, 0])[1], axis_from_offsets(grid[0])[1]


def coalesce_axes(axes: Iterable[Axis]) -> list[Axis]:
    """Return axes with the same row-major order of offsets as `axes`, or fewer.

    Adjacent affine axes are joined where strides allow, and axes of size 1 are left out.
    """
    result: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        previous = result[-1] if result else UNIT_AXIS
        if previous.table is None and axis.table is None and previous.stride == axis.size * axis.stride and result:
            result[-1] = Axis(previous.size * axis.size, axis.stride)
        else:
            result.append(axis)
    return result
