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
# A reduction is vectorized along its steps instead with more than LONG steps and fewer than FEW results; or, where the steps are
# contiguous on both sides, with fewer than FEW_BESIDE results, because transposing the operands would cost more.
LONG, FEW, FEW_BESIDE = 64, 10, 32
AT_ONCE = 256  # steps (KC) added in one chunk: a panel of columns for so many steps stays in the nearest cache
NARROW, LANES = 12, 64  # columns too few for lanes; bytes of the widest vectors

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
    wide = widened(m, itemsize)
    found = None if wide is None else _paired(wide)
    if found is not None:
        return found._replace(widened=True)
    found = _paired(m)
    interchanged = longest_last(m.space, m.extents, FULL[1] if found is None else FULL[0] + 1)
    if interchanged == m.space or (found is not None and not _is_unit(m, interchanged[-1])):
        return found
    other = _paired(m._replace(space=interchanged))  # with few columns, exchange rows and columns, if the new columns are contiguous
    if found is None and other is not None and other.k < NARROW and m.extents[m.space[-1]] > FULL[0]:
        return None
    return other or found


def _is_unit(m: Moves, axis: int) -> bool:
    """Return whether every access of the reduction that moves along an axis moves in steps of 1."""
    return all(its.get(axis, 1) == 1 for its in m.taken)


def _paired(m: Moves) -> Pair | None:
    """Return the reduction as a contraction with the last independent axis as columns, or None."""
    *others, column = m.space
    every = [m.axes(read) for read in m.reads]
    right = [its for its in every if column in its]
    left = [its for its in every if column not in its]
    rows = [a for a in others if any(a in its for its in left) and not any(a in its for its in right)]
    if not rows or not all(any(not its.isdisjoint(m.summed) for its in side) for side in (left, right)):
        return None
    found = Pair(m, max(rows, key=lambda a: m.extents[a]), column)
    sizes = m.extents[found.row], m.extents[column], found.k
    if any(size < least for size, least in zip(sizes, LEAST, strict=True)):
        return None
    results = sizes[0] * sizes[1]
    if (found.k > LONG and results < FEW) or (results < FEW_BESIDE and _is_unit(m, m.summed[-1])):
        return None
    return found


# --- columns of several axes ------------------------------------------------------------------------------------------


def is_ragged(n: int, itemsize: int) -> bool:
    """Return whether much of the last vector of `n` columns would be empty."""
    lanes = LANES // itemsize
    return n < NARROW or -n % lanes > n // 16


def widened(m: Moves, itemsize: int) -> Moves | None:
    """Return the reduction with the last independent axes merged until they fill vectors, for example the columns of several images.

    Tables then give the offsets along the merged axis. Return None if the last axis fills vectors already, or if an access outside of the
    reduction would need a table.
    """
    space, extents = m.space, list(m.extents)
    if len(space) < 3 or not is_ragged(extents[space[-1]], itemsize):
        return None
    taken, others = [dict(its) for its in m.taken], [dict(its) for its in m.others]
    while len(space) > 2 and is_ragged(extents[space[-1]], itemsize) and extents[space[-2]] <= SMALL_TABLE:
        *rest, outer, inner = space
        if any(inner in its and outer not in its for its in taken):
            break  # the outer axis is an axis of rows
        for its in (*taken, *others):
            _join(its, outer, inner, extents)
        if any(isinstance(its.get(inner), Table) for its in others):
            return None
        extents[inner] *= extents[outer]
        space = (*rest, inner)
    return None if space == m.space else m._replace(space=space, extents=extents, taken=taken, others=others)


def _join(its: Steps, outer: int, inner: int, extents: Sequence[int]) -> None:
    """Merge the steps along axes `outer` and `inner`, in place, into a step along `inner`."""
    first, last = (_offsets(its.pop(axis, 0), extents[axis]) for axis in (outer, inner))
    _, both = axis_of((first[:, None] + last).ravel())
    if both.table is not None or both.stride:
        its[inner] = both.stride if both.table is None else both.table


def _offsets(step: Step, size: int) -> IntArray:
    """Return the offsets along an axis of this size and step."""
    return step.offsets if isinstance(step, Table) else np.arange(index(size), dtype=np.int64) * index(step)
