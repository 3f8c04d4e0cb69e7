"""Folds over pairs: what is taken of each row of one side with each column of the other, as in a product of matrices.

Where some of what a fold reads depends on one independent axis, and the rest on another, every element is needed for
many results. Such a fold becomes a `Product`: a back end then computes a small block of results at a time, and reads
each element once for all of them. What depends on one side only is a `Factor`, however it is computed and wherever it
lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ..dtypes import DType, boolean
from ..expr import Expr, missing, replaced
from .draft import Access
from .ir import Factor, State
from .reads import further_shape

if TYPE_CHECKING:
    from ..node import Node
    from .draft import Draft, Loops
    from .schedule import Walk

LEAST = (4, 8, 4)  # rows, columns and steps from which a product is worth its while
DIRECT = 96  # rows, or columns, up to which the other side is read where it lies
AT_ONCE = 192  # steps for which a panel of columns stays in the nearest cache
FEW = 16  # outer loops' steps up to which threads share the rows, or the columns, instead
ROWS, COLUMNS = (48, 240), (64, 4096)  # in a block, at least and at most
LEFT_BYTES, RIGHT_BYTES = 1 << 22, 1 << 22  # of packed blocks, which should stay in the second and third cache
HIGHEST, WIDEST = 16, 128  # rows, and bytes of columns, in a tile, at most


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
    steps: int
    blocks: tuple[int, int]  # rows and columns
    scratch: int  # bytes that each thread needs

    def outer(self, space: Loops) -> Loops:
        """The independent loops around it."""
        return tuple(a for a in space if a not in (self.row, self.column))


def may_be_product(node: Node) -> bool:
    """Whether a reduction might be a product, as far as can be seen at once."""
    rows, columns, steps = LEAST
    long = [n for n in node.shape if n >= min(rows, columns)]
    return len(long) > 1 and max(long) >= columns and prod(further_shape(node)) >= steps


def pairing(d: Draft, space: Loops, reduced: dict[Loops, Loops], walks: Sequence[Walk]) -> Pairing | None:
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
    found = Pairing(row, column, summed, (), (), (), (True, True), steps, (0, 0), 0)
    _split(found, f.values, axes)
    _place(found, d, walks)
    return found


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


def _place(p: Pairing, d: Draft, walks: Sequence[Walk]) -> None:
    """Decide what is packed, and in which blocks."""
    left = sum(e.dtype.compute.itemsize for e in p.left)
    right = sum(e.dtype.compute.itemsize for e in p.right)
    single = len(p.summed) == 1
    plain = [single and all(_is_plain(e, walks) for e in side) for side in (p.left, p.right)]
    beside = all(isinstance(e, Access) and walks[e.index].is_unit(p.column) for e in p.right)
    rows, columns = d.extents[p.row], d.extents[p.column]
    p.packed = (
        not plain[0] or columns > DIRECT,
        not (plain[1] and beside) or rows > DIRECT,
    )
    p.blocks = (
        min(_block(LEFT_BYTES // (p.steps * left), ROWS), rows),
        min(_block(RIGHT_BYTES // (p.steps * right), COLUMNS), columns),
    )
    if any(p.packed):
        p.scratch = _scratch(p, d.folds[d.foldings[0].fold].states, left * p.packed[0], right * p.packed[1])


def _scratch(p: Pairing, states: Sequence[DType], left: int, right: int) -> int:
    """The memory for the states that wait and for the packed blocks, with what back ends may leave empty: `left` and
    `right` bytes an index at a step.
    """
    rows, wide = p.blocks[0] + HIGHEST, WIDEST // max(s.itemsize for s in states)
    columns, steps = p.blocks[1] + wide, p.steps + HIGHEST
    waiting = columns if p.steps > AT_ONCE else wide
    return rows * waiting * sum(s.itemsize for s in states) + (rows * left + columns * right) * steps + 4 * WIDEST


def _is_plain(e: Expr, walks: Sequence[Walk]) -> bool:
    """Whether a factor lies in memory as registers hold it."""
    if not isinstance(e, Access) or e.args:
        return False
    return walks[e.index].base is None and e.dtype.compute is e.dtype and e.dtype is not boolean


def _block(fitting: int, bounds: tuple[int, int]) -> int:
    least, most = bounds
    return min(max(fitting // least * least, least), most)
