"""Folds over pairs: what is taken of each row of one side with each column of the other, as in a product of matrices.

Where some of what a fold reads depends on one independent axis, and the rest on another, every element is needed for
many results. Such a fold becomes a `Product`: a back end then computes a small block of results at a time, and reads
each element once for all of them. What depends on one side only is a `Factor`, however it is computed and wherever it
lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from ..dtypes import DType, boolean
from ..layout import Table
from ..layout.table import SMALL_TABLE, IntArray, axis_of
from ..node import Gather, Node
from ..ops import Op
from ..ops.expr import Expr, missing, replaced
from ..target import Blocks, Target
from .drafted import Access, Draft, Loops
from .ir import Factor, State, walk
from .reads import further_shape, source_places, whole
from .schedule import Step, Walk

# These decide what is a product, and in which chunks it is added up, and so its bits: they are the same on all machines.
LEAST = (4, 8, 4)  # rows, columns and steps from which a product is worth its while
AT_ONCE = 256  # steps for which a panel of columns stays in the nearest cache, and that are added up on their own
NARROW, LANES = 12, 64  # columns that are too few for lanes, and the bytes of the widest vectors


@dataclass(slots=True)
class Pairing:
    """A fold as a product: its axes, and the factors, still in drafted expressions."""

    row: int
    column: int
    summed: Loops
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    values: tuple[Expr, ...]
    packed: tuple[bool, bool]
    fixed: tuple[bool, bool]
    runs: bool
    steps: int
    blocks: tuple[int, int]  # rows and columns
    scratch: int  # bytes that each thread needs

    def outer(self, space: Loops) -> Loops:
        """The independent loops around it."""
        return tuple(a for a in space if a not in (self.row, self.column))


def may_be_product(node: Node) -> bool:
    """Whether a reduction might be a product, as far as can be seen at once: neighbouring axes may yet become one, and one that
    turns may be cut in two.
    """
    rows, columns, steps = LEAST
    if prod(node.shape) < rows * columns or prod(further_shape(node)) < steps:
        return False
    return sum(n > 1 for n in node.shape) > 1 or _reads_chains(node)


def _reads_chains(node: Node) -> bool:
    """Whether something in a reduction's recipe is read through a chain of views."""
    stack, seen = [(node, whole(node))], set()
    while stack:
        for read in source_places(*stack.pop()):
            source, place = read
            if place.base is not None:
                return True
            if source.buffer is None and isinstance(source.op, (Op, Gather)) and read not in seen:
                seen.add(read)
                stack.append(read)
    return False


def pairing(
    d: Draft,
    space: Loops,
    reduced: dict[Loops, Loops],
    walks: Sequence[Walk],
    target: Target,
    *,
    widened: bool = False,
) -> Pairing | None:
    """The draft's only fold as a product, if it is one, and large enough."""
    if len(d.foldings) != 1 or d.scan is not None or d.kept or len(space) < 2:
        return None
    (f,) = d.foldings
    reduction, summed = d.folds[f.fold].reduction, reduced[f.axes]
    if reduction.combine is None or reduction.follow is not None or reduction.places or not set(space) <= set(f.around):
        return None
    axes = _axes_of(f.values, walks)
    leaves = [its for e, its in axes.items() if isinstance(e, Access)]
    column = space[-1]
    right = [its for its in leaves if column in its]
    left = [its for its in leaves if column not in its]
    rows = [a for a in space[:-1] if any(a in its for its in left) and not any(a in its for its in right)]
    if not rows or not all(any(its & set(summed) for its in side) for side in (left, right)):
        return None
    row = max(rows, key=lambda a: d.extents[a])
    steps = prod(d.extents[a] for a in summed)
    if any(n < least for n, least in zip((d.extents[row], d.extents[column], steps), LEAST, strict=True)):
        return None
    found = Pairing(row, column, summed, (), (), (), (True, True), (False, False), False, steps, (0, 0), 0)
    _split(found, f.values, axes)
    _place(found, d, space, walks, axes, target, widened)
    return found


def wider(d: Draft, space: Loops, walks: Sequence[Walk]) -> tuple[Loops, list[Walk], list[int]] | None:
    """The independent axes, the walks and the extents with the last axes made one until they fill vectors; None if they do, or
    if others than the fold's own reads would need tables for that.
    """
    if len(d.foldings) != 1 or len(space) < 3:
        return None
    ragged = partial(is_ragged, itemsize=max(s.itemsize for s in d.folds[d.foldings[0].fold].states))
    if not ragged(d.extents[space[-1]]):
        return None
    taken = {e.index for v in d.foldings[0].values for e in walk(v) if isinstance(e, Access)}
    extents, found, before = list(d.extents), [Walk(dict(w.steps), w.offset, w.base) for w in walks], space
    while len(space) > 2 and ragged(extents[space[-1]]) and extents[space[-2]] <= SMALL_TABLE:
        *rest, outer, inner = space
        if any(inner in found[k].steps and outer not in found[k].steps for k in taken):
            break  # the outer axis is one of rows
        for k, w in enumerate(found):
            first, last = (_offsets(w.steps.pop(a, 0), extents[a]) for a in (outer, inner))
            _, both = axis_of((first[:, None] + last).ravel())
            if both.table is not None and k not in taken:
                return None
            if both.table is not None or both.stride:
                w.steps[inner] = both.stride if both.table is None else both.table
        extents[inner] *= extents[outer]
        space = (*rest, inner)
    return (space, found, extents) if space != before else None


def is_ragged(columns: int, itemsize: int) -> bool:
    """Whether much of the last vector of so many columns would be empty."""
    lanes = LANES // itemsize
    return columns < NARROW or -columns % lanes > columns // 16


def _offsets(step: Step, size: int) -> IntArray:
    return step.offsets if isinstance(step, Table) else np.arange(size, dtype=np.int64) * step


def _axes_of(values: Sequence[Expr], walks: Sequence[Walk]) -> dict[Expr, frozenset[int]]:
    """The axes on which each part of these expressions depends; -1 stands for the running state."""
    found: dict[Expr, frozenset[int]] = {}
    for value in values:
        for e in missing(value, found):
            if isinstance(e, Access):
                found[e] = frozenset(walks[e.index].steps).union(*(found[a] for a in e.args))
            elif isinstance(e, State):
                found[e] = frozenset((-1,))
            else:
                found[e] = frozenset().union(*(found[a] for a in e.args))
    return found


def _split(p: Pairing, values: tuple[Expr, ...], axes: dict[Expr, frozenset[int]]) -> None:
    """Give each side the largest parts of the next state that depend on it alone."""
    sides: tuple[dict[Expr, Expr], dict[Expr, Expr]] = {}, {}
    stack = list(values)
    while stack:
        e = stack.pop()
        its = axes[e]
        if -1 in its or {p.row, p.column} <= its:
            stack.extend(e.args)
        elif its & {p.row, p.column, *p.summed}:
            side = int(p.column in its)
            sides[side].setdefault(e, Factor(side, len(sides[side]), e.dtype))
    known = sides[0] | sides[1]
    p.left, p.right = tuple(sides[0]), tuple(sides[1])
    p.values = tuple([replaced(v, known) for v in values])


def _place(
    p: Pairing,
    d: Draft,
    space: Loops,
    walks: Sequence[Walk],
    axes: dict[Expr, frozenset[int]],
    target: Target,
    widened: bool,
) -> None:
    """Decide what is packed, and in which blocks."""
    rows, columns = d.extents[p.row], d.extents[p.column]
    left, right = (_Reads.of(values, d, walks) for values in (p.left, p.right))
    own = {p.row, p.column, *p.summed}
    again = prod(d.extents[a] for a in space if a not in own)
    alike = [all(axes[e] <= own for e in side) for side in (p.left, p.right)]
    blocks, sizes = target.blocks, (left.nbytes, right.nbytes)
    p.blocks = _blocks(p, (rows, columns), sizes, blocks, alone=not alike[0] or again == 1)
    once = [again > 1 and a and n <= b for a, n, b in zip(alike, (rows, columns), p.blocks, strict=True)]

    p.runs = widened and right.plain and any(isinstance(w.steps.get(p.column), Table) for w in right.walks)
    lanes = LANES // right.nbytes
    beside = right.plain and all(w.is_unit(p.column) or (p.runs and _in_runs(w, p.column, lanes)) for w in right.walks)
    windows = beside and all(_overlaps(w, p, d.extents) for w in right.walks)
    p.packed = (
        not left.plain or columns * (again if once[0] else 1) > blocks.direct_columns,
        not beside or (rows * (again if once[1] else 1) > blocks.direct_rows and not windows),
    )
    p.fixed = p.packed[0] and once[0], p.packed[1] and once[1]

    numbered = len(left.walks) * (not p.packed[0]) + len(right.walks) * (p.runs or not p.packed[1])
    offsets = numbered * (8 * p.steps + 2 * target.caches.line) if len(p.summed) > 1 else 0
    if any(p.packed) or offsets:
        states = d.folds[d.foldings[0].fold].states
        p.scratch = _scratch(p, states, left.nbytes * p.packed[0], right.nbytes * p.packed[1], target) + offsets


def _blocks(
    p: Pairing, sizes: tuple[int, int], nbytes: tuple[int, int], blocks: Blocks, *, alone: bool
) -> tuple[int, int]:
    """How many rows and columns a block has. A left side that is not `alone` serves several products."""
    (rows, columns), (left, right) = sizes, nbytes
    (least, most), fitting = blocks.rows, blocks.left
    if not alone and rows * p.steps * left <= blocks.fixed:  # then the whole side is best one block
        near = blocks.near // (min(p.steps, AT_ONCE) * left)
        if near > most:
            most, fitting = near, blocks.fixed
    high = min(_block(fitting // (p.steps * left), (least, most)), rows)
    room = blocks.near if rows == high else blocks.right  # what one block of rows needs is needed at once, and not again
    return high, min(_block(room // (p.steps * right), blocks.columns), columns)


@dataclass(slots=True)
class _Reads:
    """What one side reads: whether each value lies in memory as registers hold it, and the bytes of an index at a step."""

    walks: list[Walk]
    plain: bool
    nbytes: int

    @staticmethod
    def of(values: tuple[Expr, ...], d: Draft, walks: Sequence[Walk]) -> _Reads:
        found = [walks[e.index] for value in values for e in walk(value) if isinstance(e, Access)]
        plain = all(isinstance(e, Access) and _is_plain(e, d) for e in values) and all(w.base is None for w in found)
        return _Reads(found, plain, sum(e.dtype.compute.itemsize for e in values))


def _is_plain(e: Access, d: Draft) -> bool:
    """Whether an element is read from memory, by no index but those of loops, and lies there as registers hold it."""
    own = e.dtype.compute is e.dtype and e.dtype is not boolean and e.part is None
    return d.places[e.index].node is not None and not e.args and own


def _in_runs(w: Walk, column: int, lanes: int) -> bool:
    """Whether a table lets no vector of columns have more than two runs of neighbours."""
    step = w.steps.get(column)
    if not isinstance(step, Table):
        return False
    (breaks,) = np.nonzero(np.diff(step.offsets) != 1)
    return len(breaks) < 2 or int(np.diff(breaks).min()) >= lanes - 1


def _overlaps(w: Walk, p: Pairing, extents: Sequence[int]) -> bool:
    """Whether a row of columns has much in common with that of another step, as windows have: they are near already."""
    steps = [w.steps.get(a, 0) for a in p.summed]
    return any(isinstance(step, int) and 0 < abs(step) < extents[p.column] for step in steps)


def _scratch(p: Pairing, states: Sequence[DType], left: int, right: int, target: Target) -> int:
    """The memory for the states that wait and for the packed blocks, with what back ends may leave empty: `left` and
    `right` bytes an index at a step.
    """
    tile = target.tile(len(states))
    wide = tile.vectors * target.lanes(max(s.itemsize for s in states))
    rows, columns = p.blocks[0] + tile.heights[0], p.blocks[1] + wide
    waiting = wide * sum(s.itemsize for s in states)
    return rows * waiting + (rows * left + columns * right) * (p.steps + target.loops.square) + 8 * target.caches.line


def _block(fitting: int, bounds: tuple[int, int]) -> int:
    least, most = bounds
    return min(max(fitting // least * least, least), most)
