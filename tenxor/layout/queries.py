"""Exact predicates on layouts: range of offsets, injectivity, equality, disjointness, coverage. A level is one view of a view chain, by
itself. Its offsets are flat indices of the next level, its base, or for the last level positions in the storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.lazy import LazyFunctions
from .axes import Axis, IntArray, list_offsets
from .coords import contiguous_strides
from .interruptible_chunks import MAX_CHUNK_ELEMENTS
from .view import View

if TYPE_CHECKING:
    from .diophantine import BoundedTerm

diophantine = LazyFunctions("tenxor.layout.diophantine")

MAX_BITMAP_RATIO = 16  # ratio of the range to the elements up to which a bitmap of the range is used


def compute_offset_range(layout: View) -> tuple[int, int] | None:
    """Return the lowest and the highest storage offset that `layout` reaches, in elements; None for a layout without elements."""
    if layout.size == 0:
        return None
    layout = _drop_permutations(layout)
    if layout.base is not None:
        ends = [(int(offsets.min()), int(offsets.max())) for offsets in _iterate_offsets(layout)]
        return min([low for low, _ in ends]), max([high for _, high in ends])
    low = high = layout.offset
    for axis in layout.axes():
        below, above = _offset_bounds(axis)
        low, high = low + below, high + above
    return low, high


def _drop_permutations(layout: View) -> View:
    """Return a layout that reaches the same elements, maybe in another order: leading views of the chain that only permute their base are
    dropped. `layout` itself is returned if there is none.
    """
    while layout.base is not None and layout.size == layout.base.size and _has_distinct_indices(layout):
        layout = layout.base
    return layout


def has_row_major_strides(layout: View) -> bool:
    """Return whether `layout`, one view of a chain by itself, walks in row-major order in steps of 1, from any offset. Its base is not
    looked at. Tables give False.
    """
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
    """Return the axes from the largest stride, in magnitude, to the smallest, if this order is the same for all `layouts`, views of one
    shape.

    Views that repeat elements are ignored, and axes of size 1 keep their positions. Return None if the orders differ, or if a view is
    gathered or a chain. Return None also if all views repeat elements, or if the axes are in this order already.
    """
    common: tuple[int, ...] | None = None
    for layout in layouts:
        if layout.base is not None or layout.tables is not None:
            return None
        strides = layout.strides
        long_axes = [axis for axis, size in enumerate(layout.shape) if size != 1]
        if 0 in [strides[axis] for axis in long_axes]:
            continue
        sorted_axes = iter(sorted(long_axes, key=lambda axis: -abs(strides[axis])))
        order = tuple([axis if size == 1 else next(sorted_axes) for axis, size in enumerate(layout.shape)])
        if common is None:
            common = order
        elif order != common:
            return None
    return None if common is None or common == tuple(range(len(common))) else common


def is_injective(layout: View) -> bool:
    """Return whether no two positions of `layout` share an element: whether a view with this layout may be written. The answer is exact."""
    if layout.size <= 1:
        return True
    if not _has_distinct_indices(layout):
        return False
    base = layout.base
    if base is None or is_injective(base):
        return True
    return layout.size != base.size and _has_distinct_offsets(layout)


def _has_distinct_indices(layout: View) -> bool:
    """Return whether the first level of `layout`, by itself, gives every position its own flat index."""
    if layout.size <= 1:
        return True
    axes = layout.axes()
    verdict = _compare_spans(axes, layout.size)
    if verdict is not None:
        return verdict
    if layout.tables is None:
        return _has_distinct_sums(_list_terms(layout))
    flat_indices: IntArray = np.zeros((), dtype=np.int64)
    for axis in axes:
        flat_indices = flat_indices[..., None] + list_offsets(axis)
    return _are_distinct(flat_indices)


def _iterate_offsets(layout: View) -> Iterator[IntArray]:
    """Iterate over the storage offsets of a layout in row-major order, in 1-d int64 arrays of at most `MAX_CHUNK_ELEMENTS` elements."""
    if layout.size <= MAX_CHUNK_ELEMENTS:
        yield layout.offsets().ravel()
        return
    for start in range(0, layout.size, MAX_CHUNK_ELEMENTS):
        yield layout._locate(np.arange(start, min(start + MAX_CHUNK_ELEMENTS, layout.size)))


def _has_distinct_offsets(layout: View) -> bool:
    """Return whether the view chain `layout` reaches no storage offset twice."""
    reach = compute_offset_range(layout)
    if reach is None or reach[1] - reach[0] < layout.size - 1:
        return reach is None
    if reach[1] - reach[0] > MAX_BITMAP_RATIO * layout.size:
        return _are_distinct(layout.offsets())
    return int(np.count_nonzero(_reached_mask(layout, *reach))) == layout.size


def _are_distinct(values: IntArray) -> bool:
    """Return whether no number occurs twice in `values`, an array of any shape."""
    return len(np.unique(values)) == values.size


def _compare_spans(axes: list[Axis], count: int) -> bool | None:
    """Decide by the axes alone whether a layout of `count` elements, 2 or more, has distinct offsets.

    Return True if each axis steps over the span of all faster axes, so that no offset repeats. Return False if an offset must repeat, as
    the whole span has fewer than `count` offsets. Return None if neither test decides.
    """
    gaps = sorted((_min_gap(axis), *_offset_bounds(axis)) for axis in axes if axis.size > 1)
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


def _has_distinct_sums(terms: list[BoundedTerm]) -> bool:
    """Return whether sums of multiples are all different: a sum has one multiple of the step of each of `terms`.

    A term `(step, max_count)` has the multiples `step * x` with an integer x from 0 to `max_count`; both numbers are positive. The answer
    is exact. Two choices of multiples with equal sums differ first at a coarse term, and the finer terms must make up for the difference.
    This is tried for each term.
    """
    terms = sorted(terms, reverse=True)
    for i, (step, max_count) in enumerate(terms):
        # step * (1 + x) == sum of later terms * y, with 0 <= x < most and -most_j <= y_j <= most_j
        later = [(fine, 2 * reach) for fine, reach in terms[i + 1 :]]
        target = sum(fine * reach for fine, reach in terms[i + 1 :]) - step
        if diophantine.is_reachable(target, [(step, max_count - 1), *later]):
            return False
    return True


def are_disjoint(left: View, right: View) -> bool:
    """Return whether `left` and `right`, layouts of the same storage, share no offset. The answer is exact; a layout without elements
    shares none.
    """
    left_range, right_range = compute_offset_range(left), compute_offset_range(right)
    if left_range is None or right_range is None or left_range[1] < right_range[0] or right_range[1] < left_range[0]:
        return True
    left, right = _drop_permutations(left), _drop_permutations(right)
    if left.base is None and right.base is None and left.tables is None and right.tables is None:
        if left_range[0] == right_range[0]:
            return False  # both begin at this offset
        if _are_columns((left_range[0], _list_terms(left)), (right_range[0], _list_terms(right))):
            return True
        # low_1 + a == low_2 + b, where b runs as far down from high_2 as it runs up from low_2
        return not diophantine.is_reachable(right_range[1] - left_range[0], _list_terms(left) + _list_terms(right))
    low = max(left_range[0], right_range[0])
    high = min(left_range[1], right_range[1])
    return not bool((_reached_mask(left, low, high) & _reached_mask(right, low, high)).any())


def _are_columns(*blocks: tuple[int, list[BoundedTerm]]) -> bool:
    """Return whether two affine layouts are disjoint column blocks of the same rows, by a simple test.

    False does not mean that they share an element. Each layout is given by its lowest offset and its terms (`_list_terms`).
    """
    widths, rows = [], []
    for _, terms in blocks:
        if not terms:
            return False
        step, max_count = max(terms, key=lambda term: term[0])
        rows.append(step)
        widths.append(sum([fine * reach for fine, reach in terms]) - step * max_count)
    left, right = (0, 1) if blocks[0][0] < blocks[1][0] else (1, 0)
    left_begin, right_begin = blocks[left][0], blocks[right][0]
    return rows[0] == rows[1] and left_begin + widths[left] < right_begin and right_begin + widths[right] < left_begin + rows[0]


def covers(layout: View, count: int) -> bool:
    """Return whether `layout` reaches every storage offset from 0 to `count` - 1; further offsets are allowed. This is True if `count` is 0
    or less.
    """
    if count <= 0:
        return True
    reach = compute_offset_range(layout)
    if reach is None or reach[0] > 0 or reach[1] < count - 1 or layout.size < count:
        return False
    layout = _drop_permutations(layout)
    if layout.base is None and layout.tables is None:
        terms = diophantine.merge_terms(_list_terms(layout))
        if not terms or (len(terms) == 1 and terms[0][0] == 1):
            return True
    return bool(_reached_mask(layout, 0, count - 1).all())


def is_same_map(left: View, right: View) -> bool:
    """Return whether the layouts `left` and `right` have one shape and reach the same storage offset at every position."""
    if left is right:
        return True
    if left.shape != right.shape:
        return False
    if left.size == 0 or (_is_same_level(left, right) and left.base is right.base):
        return True
    if left.base is None and right.base is None:
        # an evenly spaced axis is never stored as a table, so equal maps have equal axes except for axes of size 1
        return left.offset == right.offset and all(a == b or a.size == 1 for a, b in zip(left.axes(), right.axes(), strict=True))
    if _is_same_level(left, right) and left.base is not None and right.base is not None and is_same_map(left.base, right.base):
        return True
    if fingerprint(left) != fingerprint(right):
        return False
    return all(np.array_equal(a, b) for a, b in zip(_iterate_offsets(left), _iterate_offsets(right), strict=True))


def _is_same_level(left: View, right: View) -> bool:
    """Return whether the views `left` and `right` have equal offsets, strides and tables, whatever their bases are. Their shapes must be
    equal.
    """
    return left.offset == right.offset and left.strides == right.strides and left.tables == right.tables


def fingerprint(layout: View) -> tuple[int, ...]:
    """Return first and last offset of `layout`, and the first step along each axis of size 2 or more; an empty tuple without elements.

    Equal maps have equal fingerprints, whatever their representation, so layouts are hashed by it. Different maps may share a fingerprint.
    """
    if layout.size == 0:
        return ()
    shape = layout.shape
    if layout.base is None and layout.tables is None:
        steps = [(size - 1, stride) for size, stride in zip(shape, layout.strides, strict=True) if size > 1]
        last_offset = layout.offset + sum([max_index * stride for max_index, stride in steps])
        return (layout.offset, last_offset, *[stride for _, stride in steps])
    corner = [0] * len(shape)
    first_offset = layout.ravel(corner)
    numbers = [first_offset, layout.ravel([size - 1 for size in shape])]
    for axis, size in enumerate(shape):
        if size > 1:
            corner[axis] = 1
            numbers.append(layout.ravel(corner) - first_offset)
            corner[axis] = 0
    return tuple(numbers)


def _offset_bounds(axis: Axis) -> tuple[int, int]:
    """Return the distances from the first entry of `axis` to the lowest entry (0 or less) and to the highest entry (0 or more).

    An entry is the offset at an index, in elements.
    """
    if axis.table is not None:
        return int(axis.table.offsets.min()), int(axis.table.offsets.max())
    span = axis.stride * (axis.size - 1)
    return (0, span) if span > 0 else (span, 0)


def _min_gap(axis: Axis) -> int:
    """Return the smallest distance between two entries of `axis`, an axis of size 2 or more; 0 if two are equal. An entry is the offset at
    an index, in elements.
    """
    return abs(axis.stride) if axis.table is None else int(np.diff(np.sort(axis.table.offsets)).min())


def _list_terms(layout: View) -> list[BoundedTerm]:
    """Return the terms that an affine layout adds to its lowest offset: pairs of the stride's magnitude and the largest index of each axis.

    Axes of size 1 and axes of stride 0 have no term. The layout must have at least one element.
    """
    return [(abs(s), n - 1) for n, s in zip(layout.shape, layout.strides, strict=True) if n > 1 and s]


def _reached_mask(layout: View, low: int, high: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a bool array with an item for each offset from `low` to `high`, both included, in elements.

    An item is True if an index of the layout leads to this offset. Offsets of the layout outside of this range are ignored.
    """
    reached = np.zeros(high - low + 1, dtype=np.bool_)
    for offsets in _iterate_offsets(layout):
        reached[offsets[(offsets >= low) & (offsets <= high)] - low] = True
    return reached
