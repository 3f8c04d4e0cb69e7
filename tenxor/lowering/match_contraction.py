"""The test whether a reduction is a contraction, a generalized matrix product. In a contraction, a part of the operands depends on one
independent axis (the row) and the rest on another (the column). A contraction has M rows and N columns of results, and adds K steps for
each.

The test sees only the strides of the operands along the loops.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod
from operator import index

import numpy as np

from .._utils.records import NamedTuple
from ..graph.reduction_limits import MAX_SHORT_STEPS, MIN_CONTRACTION_SIZES, MIN_FULL_SIZES, MIN_RESULTS, MIN_UNIT_RESULTS
from ..layout import Table
from ..layout.axes import MAX_JOINED_ENTRIES, IntArray, axis_from_offsets
from ..ops.reductions import Reduction
from .access_strides import Loops, Step
from .order_loops import move_longest_last

# These constants decide which reductions are contractions, and so the bits: they are equal on every machine.
MIN_COLUMNS, MAX_VECTOR_BYTES = 12, 64  # columns too few for lanes; bytes of the widest vectors

Steps = dict[int, Step]  # the step of an access along each axis; axes with step 0 are left out


class ReductionStrides(NamedTuple):
    """The strides of a reduction inside the independent loops `space` of its kernel, with the loops `summed_axes` inside; `extents` are by
    axis number.

    `operand_steps` are the steps of the accesses of the reduction, and `other_steps` the steps of the write and of further reads. Each of
    `reads` lists numbers of `operand_steps`: the access itself and the accesses from which the indices are computed.
    """

    space: Loops
    summed_axes: Loops
    extents: Sequence[int]
    operand_steps: Sequence[Steps]
    other_steps: Sequence[Steps]
    reads: Sequence[Sequence[int]]

    def list_axes(self, read: Sequence[int]) -> Set[int]:
        """Return the axes along which a read moves, by the access itself or by an access for the indices. `read` is an item of `reads`."""
        return {axis for k in read for axis in self.operand_steps[k]}


class ContractionMatch(NamedTuple):
    """A contraction with the strides `strides`, whose rows run along axis `row` and columns along axis `column`.

    If `has_merged_columns`, the column axis is several axes merged in `strides`.
    """

    strides: ReductionStrides
    row: int
    column: int
    has_merged_columns: bool = False

    @property
    def k(self) -> int:
        """The number of steps that are added, K."""
        return prod([self.strides.extents[a] for a in self.strides.summed_axes])


def can_be_contraction(reduction: Reduction) -> bool:
    """Return whether a reduction can be a contraction.

    It can if it combines partial states, does not look at positions, and has no `append`, a shorter rule for the next element in order.
    """
    return not (reduction.combine is None or reduction.append is not None or reduction.uses_position)


def match_contraction(m: ReductionStrides, itemsize: int) -> ContractionMatch | None:
    """Return the reduction `m` as a contraction, or None if it is no product of rows with columns, or is too small.

    It needs enough rows, columns, steps and results (`MIN_CONTRACTION_SIZES`, `MIN_RESULTS`, `MIN_UNIT_RESULTS`). `itemsize` is the size in
    bytes of a state's widest component. The last independent axis becomes the columns, merged with axes before it where this fills vectors.
    If the last axis is short, a longer axis may become the columns. If the reduction is a contraction only so, it may need `MIN_COLUMNS`
    steps. The result has the strides of the merged or reordered axes; `m` is not changed.
    """
    if len(m.space) < 2:
        return None
    widened_moves = merge_columns(m, itemsize)
    pair = None if widened_moves is None else _match_last_column(widened_moves)
    if pair is not None:
        return pair._replace(has_merged_columns=True)
    pair = _match_last_column(m)
    interchanged = move_longest_last(m.space, m.extents, MIN_FULL_SIZES[1] if pair is None else MIN_FULL_SIZES[0] + 1)
    if interchanged == m.space or (pair is not None and not _has_unit_steps(m, interchanged[-1])):
        return pair
    # with few columns, exchange rows and columns, if the new columns are contiguous
    interchanged_pair = _match_last_column(m._replace(space=interchanged))
    if pair is None and interchanged_pair is not None and interchanged_pair.k < MIN_COLUMNS and m.extents[m.space[-1]] > MIN_FULL_SIZES[0]:
        return None
    return interchanged_pair or pair


def _has_unit_steps(m: ReductionStrides, axis: int) -> bool:
    """Return whether every operand of the reduction `m` that moves along `axis` moves in steps of 1."""
    return all(steps.get(axis, 1) == 1 for steps in m.operand_steps)


def _match_last_column(m: ReductionStrides) -> ContractionMatch | None:
    """Return the reduction `m` as a contraction with the last independent axis as columns, and the longest possible axis as rows.

    Return None if `m` is no such contraction, or has fewer rows, columns, steps or results than `MIN_CONTRACTION_SIZES`, `MIN_RESULTS` and
    `MIN_UNIT_RESULTS` require.
    """
    *other_axes, column = m.space
    read_axes = [m.list_axes(read) for read in m.reads]
    right_reads = [axes for axes in read_axes if column in axes]
    left_reads = [axes for axes in read_axes if column not in axes]
    rows = [a for a in other_axes if any(a in axes for axes in left_reads) and not any(a in axes for axes in right_reads)]
    if not rows or not all(any(not axes.isdisjoint(m.summed_axes) for axes in side) for side in (left_reads, right_reads)):
        return None
    pair = ContractionMatch(m, max(rows, key=lambda a: m.extents[a]), column)
    sizes = m.extents[pair.row], m.extents[column], pair.k
    if any(size < min_size for size, min_size in zip(sizes, MIN_CONTRACTION_SIZES, strict=True)):
        return None
    result_count = sizes[0] * sizes[1]
    if (pair.k > MAX_SHORT_STEPS and result_count < MIN_RESULTS) or (
        result_count < MIN_UNIT_RESULTS and _has_unit_steps(m, m.summed_axes[-1])
    ):
        return None
    return pair


# --- columns of several axes ------------------------------------------------------------------------------------------


def is_ragged(n: int, itemsize: int) -> bool:
    """Return whether `n` columns fill vectors badly: fewer than `MIN_COLUMNS`, or with more than n / 16 lanes of the last vector empty.

    A column has `itemsize` bytes, and a vector `MAX_VECTOR_BYTES`.
    """
    lanes = MAX_VECTOR_BYTES // itemsize
    return n < MIN_COLUMNS or -n % lanes > n // 16


def merge_columns(m: ReductionStrides, itemsize: int) -> ReductionStrides | None:
    """Return the reduction `m` with its last independent axes merged to fill vectors better, for example the columns of several images.

    A state has `itemsize` bytes. Axes are merged one by one until the last one fills vectors (`is_ragged`), or two independent axes are
    left. Merging also ends before an axis of rows, and before an axis of more than `MAX_JOINED_ENTRIES` indices. Where the offsets along
    the merged axis are not a constant step apart, the step becomes a table. Return None if the last axis fills vectors already, or if
    nothing can be merged. Return None also if an access outside of the reduction would need a table. `m` is not changed.
    """
    space, extents = m.space, list(m.extents)
    if len(space) < 3 or not is_ragged(extents[space[-1]], itemsize):
        return None
    taken_steps, other_steps = [dict(steps) for steps in m.operand_steps], [dict(steps) for steps in m.other_steps]
    while len(space) > 2 and is_ragged(extents[space[-1]], itemsize) and extents[space[-2]] <= MAX_JOINED_ENTRIES:
        *leading, outer, inner = space
        if any(inner in steps and outer not in steps for steps in taken_steps):
            break  # the outer axis is an axis of rows
        for steps in (*taken_steps, *other_steps):
            _merge_steps(steps, outer, inner, extents)
        if any(isinstance(steps.get(inner), Table) for steps in other_steps):
            return None
        extents[inner] *= extents[outer]
        space = (*leading, inner)
    return None if space == m.space else m._replace(space=space, extents=extents, operand_steps=taken_steps, other_steps=other_steps)


def _merge_steps(steps: Steps, outer: int, inner: int, extents: Sequence[int]) -> None:
    """Merge the steps along axes `outer` and `inner` into a step along `inner`, changing `steps` in place.

    `extents` are the extents of the axes before the merge.
    """
    outer_offsets, inner_offsets = (_list_offsets(steps.pop(axis, 0), extents[axis]) for axis in (outer, inner))
    _, merged_axis = axis_from_offsets((outer_offsets[:, None] + inner_offsets).ravel())
    if merged_axis.table is not None or merged_axis.stride:
        steps[inner] = merged_axis.stride if merged_axis.table is None else merged_axis.table


def _list_offsets(step: Step, size: int) -> IntArray:
    """Return the offsets of the `size` indices along an axis, given the constant step or the table `step`."""
    return step.offsets if isinstance(step, Table) else np.arange(index(size), dtype=np.int64) * index(step)
