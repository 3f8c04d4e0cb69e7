"""Exact predicates on layouts: range of offsets, injectivity, equality, disjointness, coverage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..late import Late
from .coords import contiguous_strides
from .portions import PORTION
from .table import Axis, IntArray, walk
from .view import View

if TYPE_CHECKING:
    from .diophantine import Term

diophantine = Late("tenxor.layout.diophantine")

SPARSE = 16  # ratio of the range to the elements up to which a bitmap of the range is used


def offset_range(layout: View) -> tuple[int, int] | None:
    """Return the lowest and the highest storage offset reached, or None if there are no elements."""
    if layout.size == 0:
        return None
    layout = _same_elements(layout)
    if layout.base is not None:
        ends = [(int(offsets.min()), int(offsets.max())) for offsets in _walked(layout)]
        return min([low for low, _ in ends]), max([high for _, high in ends])
    low = high = layout.offset
    for axis in layout.axes():
        below, above = _reach(axis)
        low, high = low + below, high + above
    return low, high


def _same_elements(layout: View) -> View:
    """Return a layout of the same elements in another order: views of the chain that only permute their base are dropped."""
    while layout.base is not None and layout.size == layout.base.size and _numbers_differ(layout):
        layout = layout.base
    return layout


def has_row_major_strides(layout: View) -> bool:
    """Return whether this level of a chain walks in row-major order, one by one, from any offset."""
    if layout.size == 0 or layout.strides == contiguous_strides(layout.shape):
        return layout.tables is None
    step = 1
    for size, stride in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return layout.tables is None


def memory_order(layouts: Iterable[View]) -> tuple[int, ...] | None:
    """Return the axes from the largest stride, in magnitude, to the smallest, if this order is the same for all these views of one shape.

    Views that repeat elements are ignored, and axes of size 1 keep their positions. None if the orders differ, if a view has no strides, or
    if the axes are in this order already.
    """
    common: tuple[int, ...] | None = None
    for layout in layouts:
        if layout.base is not None or layout.tables is not None:
            return None
        strides = layout.strides
        long = [axis for axis, size in enumerate(layout.shape) if size != 1]
        if 0 in [strides[axis] for axis in long]:
            continue
        falling = iter(sorted(long, key=lambda axis: -abs(strides[axis])))
        order = tuple([axis if size == 1 else next(falling) for axis, size in enumerate(layout.shape)])
        if common is None:
            common = order
        elif order != common:
            return None
    return None if common is None or common == tuple(range(len(common))) else common


def injective(layout: View) -> bool:
    """Return whether no two positions share an element."""
    if layout.size <= 1:
        return True
    if not _numbers_differ(layout):
        return False
    base = layout.base
    if base is None or injective(base):
        return True
    return layout.size != base.size and _offsets_differ(layout)


def _numbers_differ(layout: View) -> bool:
    """Return whether this level of a chain, by itself, gives every position its own flat index."""
    if layout.size <= 1:
        return True
    axes = layout.axes()
    quick = _quickly_differ(axes, layout.size)
    if quick is not None:
        return quick
    if layout.tables is None:
        return _never_meets_itself(_terms(layout))
    numbers: IntArray = np.zeros((), dtype=np.int64)
    for axis in axes:
        numbers = numbers[..., None] + walk(axis)
    return _all_differ(numbers)


def _walked(layout: View) -> Iterator[IntArray]:
    """Iterate over the offsets of a layout in row-major order, in 1-d arrays of at most `PORTION` elements."""
    if layout.size <= PORTION:
        yield layout.offsets().ravel()
        return
    for start in range(0, layout.size, PORTION):
        yield layout._locate(np.arange(start, min(start + PORTION, layout.size)))


def _offsets_differ(layout: View) -> bool:
    """Return whether a view chain reaches no offset twice."""
    reach = offset_range(layout)
    if reach is None or reach[1] - reach[0] < layout.size - 1:
        return reach is None
    if reach[1] - reach[0] > SPARSE * layout.size:
        return _all_differ(layout.offsets())
    return int(np.count_nonzero(_reached(layout, *reach))) == layout.size


def _all_differ(numbers: IntArray) -> bool:
    return len(np.unique(numbers)) == numbers.size


def _quickly_differ(axes: list[Axis], count: int) -> bool | None:
    """Return True if each axis steps over the span of all faster ones, False if an offset must repeat, None if neither test decides."""
    gaps = sorted((_gap(axis), *_reach(axis)) for axis in axes if axis.size > 1)
    if gaps[0][0] == 0:
        return False
    span = 0
    nested = True
    for gap, below, above in gaps:
        nested = nested and gap > span
        span += above - below
    if nested:
        return True
    return False if span + 1 < count else None


def _never_meets_itself(terms: list[Term]) -> bool:
    """Return whether no sum is reached twice. For a repeated sum, two choices differ in some term, and finer terms compensate the
    difference.
    """
    terms = sorted(terms, reverse=True)
    for i, (step, most) in enumerate(terms):
        # step * (1 + x) == sum of later terms * y, with 0 <= x < most and -most_j <= y_j <= most_j
        later = [(fine, 2 * reach) for fine, reach in terms[i + 1 :]]
        target = sum(fine * reach for fine, reach in terms[i + 1 :]) - step
        if diophantine.reaches(target, [(step, most - 1), *later]):
            return False
    return True


def disjoint(one: View, other: View) -> bool:
    """Return whether two layouts share no storage offset."""
    ours, theirs = offset_range(one), offset_range(other)
    if ours is None or theirs is None or ours[1] < theirs[0] or theirs[1] < ours[0]:
        return True
    one, other = _same_elements(one), _same_elements(other)
    if one.base is None and other.base is None and one.tables is None and other.tables is None:
        if ours[0] == theirs[0]:
            return False  # both begin at this offset
        if _are_columns((ours[0], _terms(one)), (theirs[0], _terms(other))):
            return True
        # low_1 + a == low_2 + b, where b runs as far down from high_2 as it runs up from low_2
        return not diophantine.reaches(theirs[1] - ours[0], _terms(one) + _terms(other))
    low = max(ours[0], theirs[0])
    high = min(ours[1], theirs[1])
    return not bool((_reached(one, low, high) & _reached(other, low, high)).any())


def _are_columns(*parts: tuple[int, list[Term]]) -> bool:
    """Return whether two affine layouts are disjoint column blocks of the same rows. Each is given by its lowest offset and its terms."""
    widths, rows = [], []
    for _, terms in parts:
        if not terms:
            return False
        step, most = max(terms, key=lambda term: term[0])
        rows.append(step)
        widths.append(sum([fine * reach for fine, reach in terms]) - step * most)
    first, last = (0, 1) if parts[0][0] < parts[1][0] else (1, 0)
    begin, other = parts[first][0], parts[last][0]
    return rows[0] == rows[1] and begin + widths[first] < other and other + widths[last] < begin + rows[0]


def covers(layout: View, count: int) -> bool:
    """Return whether every storage offset from 0 to `count` - 1 is reached."""
    if count <= 0:
        return True
    reach = offset_range(layout)
    if reach is None or reach[0] > 0 or reach[1] < count - 1 or layout.size < count:
        return False
    layout = _same_elements(layout)
    if layout.base is None and layout.tables is None:
        terms = diophantine.merged(_terms(layout))
        if not terms or (len(terms) == 1 and terms[0][0] == 1):
            return True
    return bool(_reached(layout, 0, count - 1).all())


def same_map(one: View, other: View) -> bool:
    """Return whether two layouts have one shape and reach the same storage offset at every position."""
    if one is other:
        return True
    if one.shape != other.shape:
        return False
    if one.size == 0 or (_same_level(one, other) and one.base is other.base):
        return True
    if one.base is None and other.base is None:
        # an evenly spaced axis is never stored as a table, so equal maps have equal axes except for axes of size 1
        return one.offset == other.offset and all(
            a == b or a.size == 1 for a, b in zip(one.axes(), other.axes(), strict=True)
        )
    if _same_level(one, other) and one.base is not None and other.base is not None and same_map(one.base, other.base):
        return True
    if fingerprint(one) != fingerprint(other):
        return False
    return all(np.array_equal(ours, theirs) for ours, theirs in zip(_walked(one), _walked(other), strict=True))


def _same_level(one: View, other: View) -> bool:
    return one.offset == other.offset and one.strides == other.strides and one.tables == other.tables


def fingerprint(layout: View) -> tuple[int, ...]:
    """Return first and last offset and the first step along each axis: equal for equal maps, whatever their representation."""
    if layout.size == 0:
        return ()
    shape = layout.shape
    if layout.base is None and layout.tables is None:
        steps = [(size - 1, stride) for size, stride in zip(shape, layout.strides, strict=True) if size > 1]
        last = layout.offset + sum([most * stride for most, stride in steps])
        return (layout.offset, last, *[stride for _, stride in steps])
    corner = [0] * len(shape)
    first = layout.ravel(corner)
    numbers = [first, layout.ravel([size - 1 for size in shape])]
    for axis, size in enumerate(shape):
        if size > 1:
            corner[axis] = 1
            numbers.append(layout.ravel(corner) - first)
            corner[axis] = 0
    return tuple(numbers)


def _reach(axis: Axis) -> tuple[int, int]:
    """Return the distances from the first entry of an axis to its lowest and its highest entry, at most 0 and at least 0."""
    if axis.table is not None:
        return int(axis.table.offsets.min()), int(axis.table.offsets.max())
    far = axis.stride * (axis.size - 1)
    return (0, far) if far > 0 else (far, 0)


def _gap(axis: Axis) -> int:
    """Return the smallest distance between two entries of an axis of size 2 or more; 0 if two are equal."""
    return abs(axis.stride) if axis.table is None else int(np.diff(np.sort(axis.table.offsets)).min())


def _terms(layout: View) -> list[Term]:
    """Return the terms that an affine layout adds to its lowest offset: stride magnitude and largest index of each axis."""
    return [(abs(s), n - 1) for n, s in zip(layout.shape, layout.strides, strict=True) if n > 1 and s]


def _reached(layout: View, low: int, high: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask of the offsets from `low` to `high` that are reached."""
    reached = np.zeros(high - low + 1, dtype=np.bool_)
    for offsets in _walked(layout):
        reached[offsets[(offsets >= low) & (offsets <= high)] - low] = True
    return reached
