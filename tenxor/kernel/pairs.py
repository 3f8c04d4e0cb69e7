"""Which reductions are products: those over pairs, where some of what is read depends on one independent axis and the rest on another,
as in a product of matrices. How what is read moves along the loops is all that tells. A product has M rows and N columns of
results, and adds up K steps for each.
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

# These decide what is a product, and in which chunks it is added up, and so its bits: they are the same on all machines.
LEAST = (2, 2, 4)  # M, N and K from which a product is worth its while
FULL = (4, 8, 4)  # and from which its vectors are full enough that its loops need not be interchanged
# Lanes run along the steps instead if these are more than so many, and results fewer than so many; or, where steps lie side by side
# on both sides, if results are fewer than so many, since to turn them would cost more.
LONG, FEW, FEW_BESIDE = 64, 10, 32
AT_ONCE = 256  # steps (KC) for which a panel of columns stays in the nearest cache, and that are added up on their own
NARROW, LANES = 12, 64  # columns that are too few for lanes, and the bytes of the widest vectors

Steps = dict[int, Step]  # how far something moves along each axis, but for those along which it does not


class Moves(NamedTuple):
    """A reduction inside all independent loops of its kernel: `space`, with the axes `summed` inside. What it reads moves in the steps
    `taken`, and what else is read or written in those of `others`. Each of its `reads` depends on the axes of some of the taken:
    on its own, and on those of the values that say its indices.
    """

    space: Loops
    summed: Loops
    extents: Sequence[int]
    taken: Sequence[Steps]
    others: Sequence[Steps]
    reads: Sequence[Sequence[int]]

    def axes(self, read: Sequence[int]) -> Set[int]:
        """The axes that a read depends on."""
        return {axis for k in read for axis in self.taken[k]}


class Pair(NamedTuple):
    """A reduction over pairs, and the axes of its rows and its columns; the latter may be several that became one in `moves`."""

    moves: Moves
    row: int
    column: int
    widened: bool = False

    @property
    def k(self) -> int:
        """How many steps are added up."""
        return prod([self.moves.extents[a] for a in self.moves.summed])


def can_be_product(reduction: Reduction) -> bool:
    """Whether elements may be taken in chunks, and as they are."""
    return not (reduction.combine is None or reduction.follow is not None or reduction.places)


def pair_of(m: Moves, itemsize: int) -> Pair | None:
    """A reduction, with a state of so many bytes, as one over pairs, if it is one, and large enough."""
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
    other = _paired(m._replace(space=interchanged))  # few columns are better rows, if rows are then read as columns lie
    if found is None and other is not None and other.k < NARROW and m.extents[m.space[-1]] > FULL[0]:
        return None
    return other or found


def _is_unit(m: Moves, axis: int) -> bool:
    """Whether all that moves along an axis does so in steps of 1."""
    return all(its.get(axis, 1) == 1 for its in m.taken)


def _paired(m: Moves) -> Pair | None:
    """The reduction as one over pairs, with the last loop's steps as columns."""
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
    """Whether much of the last vector of `n` columns would be empty."""
    lanes = LANES // itemsize
    return n < NARROW or -n % lanes > n // 16


def widened(m: Moves, itemsize: int) -> Moves | None:
    """The last independent axes made one until they fill vectors: those of several rows, or images, side by side. Tables then say
    where they lie. None if they fill them, or if others than the reduction's own reads would need tables for that.
    """
    space, extents = m.space, list(m.extents)
    if len(space) < 3 or not is_ragged(extents[space[-1]], itemsize):
        return None
    taken, others = [dict(its) for its in m.taken], [dict(its) for its in m.others]
    while len(space) > 2 and is_ragged(extents[space[-1]], itemsize) and extents[space[-2]] <= SMALL_TABLE:
        *rest, outer, inner = space
        if any(inner in its and outer not in its for its in taken):
            break  # the outer axis is one of rows
        for its in (*taken, *others):
            _join(its, outer, inner, extents)
        if any(isinstance(its.get(inner), Table) for its in others):
            return None
        extents[inner] *= extents[outer]
        space = (*rest, inner)
    return None if space == m.space else m._replace(space=space, extents=extents, taken=taken, others=others)


def _join(its: Steps, outer: int, inner: int, extents: Sequence[int]) -> None:
    """Make one step of those along two axes."""
    first, last = (_offsets(its.pop(axis, 0), extents[axis]) for axis in (outer, inner))
    _, both = axis_of((first[:, None] + last).ravel())
    if both.table is not None or both.stride:
        its[inner] = both.stride if both.table is None else both.table


def _offsets(step: Step, size: int) -> IntArray:
    """Those along an axis, of this very size and step."""
    return step.offsets if isinstance(step, Table) else np.arange(index(size), dtype=np.int64) * index(step)
