"""The test whether a reduction is a contraction, a generalized matrix product.

In a contraction, a part of the operands depends on one independent axis (the row) and the rest on another (the column). The test sees only
the strides of the operands along the loops. A contraction has M rows and N columns of results, and adds K steps for each.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod
from operator import index

import numpy as np

from ..layout import Table
from ..layout.table import SMALL_TABLE, IntArray, axis_of
from ..ops.reductions import Reduction
from ..records import NamedTuple
from .arrange import Step, longest_last
from .drafted import Loops

# These constants decide which reductions are contractions and in which chunks they add, and so the bits. They must be equal on
# every machine.
LEAST = (2, 2, 4)  # minimal M, N and K of a contraction
FULL = (4, 8, 4)  # minimal M, N and K with well-filled vectors: smaller sizes are tried with interchanged axes
# A reduction is vectorized along its steps instead with more than MAX_SHORT_STEPS steps and fewer than MIN_RESULTS results; or, where
# the steps are contiguous on both sides, with fewer than MIN_UNIT_RESULTS results, because transposing the operands would cost more.
MAX_SHORT_STEPS, MIN_RESULTS, MIN_UNIT_RESULTS = 64, 10, 32
AT_ONCE = 256  # steps (KC) added in one chunk: a panel of columns for so many steps stays in the nearest cache
MIN_COLUMNS, LANES = 12, 64  # columns too few for lanes; bytes of the widest vectors

Steps = dict[int, Step]  # the step of an access along each axis; axes with step 0 are left out


class Moves(NamedTuple):
    """The strides of a reduction inside the independent loops `space` of its kernel, with the loops `summed` inside.

    `taken` are the steps of the accesses of the reduction, and `others` the steps of the write and of further reads. Each of `reads` lists
    numbers of `taken`: the access itself and the accesses from which the indices are computed.
    """

    space: Loops
    summed: Loops
    extents: Sequence[int]
    taken: Sequence[Steps]
    others: Sequence[Steps]
    reads: Sequence[Sequence[int]]

    def axes(self, read: Sequence[int]) -> Set[int]:
        """Return the axes on which a read depends."""
        return {axis for k in read for axis in self.taken[k]}


class Pair(NamedTuple):
    """A contraction with the axes of its rows and columns. If `widened`, the column axis is several axes merged in `moves`."""

    moves: Moves
    row: int
    column: int
    widened: bool = False

    @property
    def k(self) -> int:
        """The number of steps that are added, K."""
        return prod([self.moves.extents[a] for a in self.moves.summed])


def can_be_product(reduction: Reduction) -> bool:
    """Return whether a reduction can be a contraction.

    It can if it combines partial states, does not look at positions, and has no shorter rule for the next element in order (`follow`).
    """
    return not (reduction.combine is None or reduction.follow is not None or reduction.places)


def pair_of(m: Moves, itemsize: int) -> Pair | None:
    """Return a reduction with a state of `itemsize` bytes as a contraction; None if it is no contraction or too small."""
    if len(m.space) < 2:
        return None
    widened_moves = merge_columns(m, itemsize)
    pair = None if widened_moves is None else _match_pair(widened_moves)
    if pair is not None:
        return pair._replace(widened=True)
    pair = _match_pair(m)
    interchanged = longest_last(m.space, m.extents, FULL[1] if pair is None else FULL[0] + 1)
    if interchanged == m.space or (pair is not None and not _is_unit(m, interchanged[-1])):
        return pair
    # with few columns, exchange rows and columns, if the new columns are contiguous
    interchanged_pair = _match_pair(m._replace(space=interchanged))
    if pair is None and interchanged_pair is not None and interchanged_pair.k < MIN_COLUMNS and m.extents[m.space[-1]] > FULL[0]:
        return None
    return interchanged_pair or pair


def _is_unit(m: Moves, axis: int) -> bool:
    """Return whether every access of the reduction that moves along an axis moves in steps of 1."""
    return all(steps.get(axis, 1) == 1 for steps in m.taken)


def _match_pair(m: Moves) -> Pair | None:
    """Return the reduction as a contraction with the last independent axis as columns, or None."""
    *other_axes, column = m.space
    read_axes = [m.axes(read) for read in m.reads]
    right_reads = [axes for axes in read_axes if column in axes]
    left_reads = [axes for axes in read_axes if column not in axes]
    rows = [a for a in other_axes if any(a in axes for axes in left_reads) and not any(a in axes for axes in right_reads)]
    if not rows or not all(any(not axes.isdisjoint(m.summed) for axes in side) for side in (left_reads, right_reads)):
        return None
    pair = Pair(m, max(rows, key=lambda a: m.extents[a]), column)
    sizes = m.extents[pair.row], m.extents[column], pair.k
    if any(size < min_size for size, min_size in zip(sizes, LEAST, strict=True)):
        return None
    result_count = sizes[0] * sizes[1]
    if (pair.k > MAX_SHORT_STEPS and result_count < MIN_RESULTS) or (result_count < MIN_UNIT_RESULTS and _is_unit(m, m.summed[-1])):
        return None
    return pair


# --- columns of several axes ------------------------------------------------------------------------------------------


def is_ragged(n: int, itemsize: int) -> bool:
    """Return whether much of the last vector of `n` columns would be empty."""
    lanes = LANES // itemsize
    return n < MIN_COLUMNS or -n % lanes > n // 16


def merge_columns(m: Moves, itemsize: int) -> Moves | None:
    """Return the reduction with the last independent axes merged until they fill vectors, for example the columns of several images.

    Tables then give the offsets along the merged axis. Return None if the last axis fills vectors already, or if an access outside of the
    reduction would need a table.
    """
    space, extents = m.space, list(m.extents)
    if len(space) < 3 or not is_ragged(extents[space[-1]], itemsize):
        return None
    taken_steps, other_steps = [dict(steps) for steps in m.taken], [dict(steps) for steps in m.others]
    while len(space) > 2 and is_ragged(extents[space[-1]], itemsize) and extents[space[-2]] <= SMALL_TABLE:
        *leading, outer, inner = space
        if any(inner in steps and outer not in steps for steps in taken_steps):
            break  # the outer axis is an axis of rows
        for steps in (*taken_steps, *other_steps):
            _merge_steps(steps, outer, inner, extents)
        if any(isinstance(steps.get(inner), Table) for steps in other_steps):
            return None
        extents[inner] *= extents[outer]
        space = (*leading, inner)
    return None if space == m.space else m._replace(space=space, extents=extents, taken=taken_steps, others=other_steps)


def _merge_steps(steps: Steps, outer: int, inner: int, extents: Sequence[int]) -> None:
    """Merge the steps along axes `outer` and `inner`, in place, into a step along `inner`."""
    outer_offsets, inner_offsets = (_list_offsets(steps.pop(axis, 0), extents[axis]) for axis in (outer, inner))
    _, merged_axis = axis_of((outer_offsets[:, None] + inner_offsets).ravel())
    if merged_axis.table is not None or merged_axis.stride:
        steps[inner] = merged_axis.stride if merged_axis.table is None else merged_axis.table


def _list_offsets(step: Step, size: int) -> IntArray:
    """Return the offsets along an axis of this size and step."""
    return step.offsets if isinstance(step, Table) else np.arange(index(size), dtype=np.int64) * index(step)
