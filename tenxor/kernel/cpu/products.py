"""Contractions: reductions of every row of an operand with every column of another, as in a matrix product.

Here some operands of a reduction depend on one independent axis, and the rest on another, so every element contributes to many results. The
reduction becomes a `Product`: a back end then computes a small block of results at a time, and reads each element once for the block. A
subexpression of a single side is a `Factor`, however it is computed and stored. As for matrices, the results have M rows and N columns, and
K steps are added for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod

import numpy as np

from ...dtypes import DType, boolean
from ...layout import Table
from ...ops.expr import Call, Expr, missing, replaced, walk
from ...records import NamedTuple
from ...target import Blocks, Target
from ..drafted import Access, Loops, accesses
from ..ir import Address, Factor, Product, Side, State, Store, Term
from ..nest import Nest, inside, looped
from ..pairs import AT_ONCE, LANES, Moves, Pair, Steps, can_be_product, pair_of
from ..symmetric import twins
from .lanes import is_unit


class _Sides(NamedTuple):
    """The largest subexpressions of the next state that depend only on a row (`left`) or only on a column (`right`).

    `values` is the state in terms of the factors.
    """

    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    values: tuple[Expr, ...]


def as_product(nest: Nest, target: Target) -> Nest | None:
    """Return the nest with its only reduction as a contraction; None if the reduction is not a contraction, or too small.

    The columns may be several axes merged into one.
    """
    space = nest.space
    if len(nest.accumulators) != 1 or len(space) < 2 or nest.around != space:
        return None
    (f,), (accumulator,) = nest.reductions, nest.accumulators
    if f.around != space or not can_be_product(accumulator.reduction):
        return None
    reads, others = accesses(f.values), accesses(nest.store.values)
    taken = {index: k for k, index in enumerate(dict.fromkeys(e.index for e in reads))}
    moves = Moves(
        space,
        f.axes,
        [axis.extent for axis in nest.axes],
        [_steps(nest, nest.reads[index].address) for index in taken],
        [_steps(nest, a) for a in (nest.store.address, *(nest.where(e) for e in others))],
        [[taken[part.index] for part in accesses((e,))] for e in reads],
    )
    pair = pair_of(moves, max(s.itemsize for s in accumulator.states))
    if pair is None:
        return None
    return _product(_widened(nest, pair.moves, list(taken), others) if pair.widened else nest, pair, target)


def _steps(nest: Nest, a: Address) -> Steps:
    """Return the step of an address along each axis, for axes with a term in the address."""
    return {t.axis: nest.step(a, t.axis) for t in a.terms}


def _widened(nest: Nest, m: Moves, taken: Sequence[int], others: Sequence[Access]) -> Nest:
    """Return the nest with the merged axes and the strides of `m`, the result of `pair_of`.

    `taken` are the numbers of the accesses of the reduction, and `others` the accesses of the store.
    """
    tables: list[Table] = list(nest.tables)

    def moved(a: Address, its: Steps) -> Address:
        terms = []
        for axis, step in its.items():
            if isinstance(step, Table):
                tables.append(step)
                terms.append(Term(axis, "table", len(tables) - 1))
            else:
                terms.append(Term(axis, "step", step))
        return a._replace(terms=tuple(terms))

    reads = list(nest.reads)
    for index, its in zip((*taken, *(e.index for e in others)), (*m.taken, *m.others[1:]), strict=True):
        reads[index] = nest.reads[index]._replace(address=moved(nest.reads[index].address, its))
    *reduced, store = inside(nest.body, len(nest.space))
    assert isinstance(store, Store)
    body = looped(m.space, (*reduced, store._replace(address=moved(store.address, m.others[0]))))
    axes = tuple([axis._replace(extent=n) for axis, n in zip(nest.axes, m.extents, strict=True)])
    return nest._replace(axes=axes, reads=tuple(reads), tables=tuple(tables), body=body)


def _axes_of(nest: Nest, values: Sequence[Expr]) -> dict[Expr, frozenset[int]]:
    """Return the axes on which each subexpression of `values` depends; -1 stands for the running state."""
    found: dict[Expr, frozenset[int]] = {}
    for value in values:
        for e in missing(value, found):
            own: Iterable[int] = (-1,) if isinstance(e, State) else ()
            if isinstance(e, Access):
                own = nest.where(e).axes()
            found[e] = frozenset(own).union(*(found[a] for a in e.args))
    return found


def _sides(p: Pair, values: tuple[Expr, ...], axes: dict[Expr, frozenset[int]]) -> _Sides:
    """Return the factors of each side, and the next state in terms of factors.

    A product that is added stays a product, even where a factor is the same for every step, for example the zero imaginary part of a real
    number. Otherwise a multiply-add would be rounded differently from one with this factor in memory.
    """
    own = {p.row, p.column, *p.moves.summed}
    sides: tuple[dict[Expr, Expr], dict[Expr, Expr]] = {}, {}
    stack = [(e, True) for e in values]
    while stack:
        e, added = stack.pop()
        its = axes[e]
        if -1 in its or {p.row, p.column} <= its or (added and _is_multiple(e, own, axes)):
            added = added and isinstance(e, Call) and e.op.name in ("add", "subtract")
            stack.extend([(x, added) for x in e.args])
        elif its & own:
            side = int(p.column in its)
            sides[side].setdefault(e, Factor(side, len(sides[side]), e.dtype))
    known = sides[0] | sides[1]
    return _Sides(tuple(sides[0]), tuple(sides[1]), tuple([replaced(v, known) for v in values]))


def _is_multiple(e: Expr, own: set[int], axes: dict[Expr, frozenset[int]]) -> bool:
    """Return whether an expression is a product in which a single factor depends on the axes `own`."""
    return isinstance(e, Call) and e.op.name == "multiply" and sum([bool(axes[x] & own) for x in e.args]) == 1


def _product(nest: Nest, p: Pair, target: Target) -> Nest:
    """Return the nest with its reduction as a contraction. The cache sizes of the target decide about packing, blocks and prefetches."""
    (f,), (accumulator,) = nest.reductions, nest.accumulators
    axes = _axes_of(nest, f.values)
    given = _sides(p, f.values, axes)
    left, right = (_Reads.of(nest, values) for values in (given.left, given.right))
    m, n, k = nest.axes[p.row].extent, nest.axes[p.column].extent, p.k
    outer = tuple([a for a in p.moves.space if a not in (p.row, p.column)])
    again = nest.extent(outer)
    own = {p.row, p.column, *f.axes}
    alike = [all(axes[e] <= own for e in side) for side in (given.left, given.right)]
    sizes = (left.nbytes, right.nbytes)
    blocks = _blocks((m, n, k), sizes, target.blocks, alone=not alike[0] or again == 1)
    once = [again > 1 and a and size <= b for a, size, b in zip(alike, (m, n), blocks, strict=True)]

    runs = p.widened and right.plain and any(isinstance(nest.step(a, p.column), Table) for a in right.addresses)
    lanes = LANES // max(s.itemsize for s in accumulator.states)  # per vector, for any number of values per side
    beside = right.plain and all(
        is_unit(a, p.column) or (runs and _in_runs(nest.step(a, p.column), lanes)) for a in right.addresses
    )
    windows = beside and all(_overlaps(nest, a, f.axes, n) for a in right.addresses)
    b = target.blocks
    each = m * k * left.nbytes + (k + m) * n * right.nbytes
    touched, many = again * each, again > 1 and each <= b.near  # near caches then hold the prefetched operands too
    small = len(f.axes) == 1 and not runs and (touched <= b.touched or (many and not any(once)))
    collide = any(_are_apart(nest.step(a, p.row), left.nbytes, b.apart) for a in left.addresses)
    if not collide and any(_are_apart(nest.step(a, f.axes[0]), left.nbytes, b.apart // 4) for a in left.addresses):
        collide = k > b.places  # tiles read little of each cache line, so the line must stay for the next tile
    scattered = k > b.lines and any(_are_lines(nest, a, f.axes, left.nbytes, target.caches.line) for a in left.addresses)
    near = (
        small and n <= b.few and not collide and (not scattered or m * k * left.nbytes <= 2 * b.direct),
        small and k * n * right.nbytes <= (b.direct if m <= b.few else b.nearest),
    )
    packed = (
        not left.plain or (n * (again if once[0] else 1) > b.direct_columns and not near[0]),
        not beside or (m * (again if once[1] else 1) > b.direct_rows and not windows and not near[1]),
    )
    fixed = packed[0] and once[0], packed[1] and once[1]
    if not packed[0]:  # its states are on the stack
        blocks = min(blocks[0], b.rows[1]), blocks[1]

    state = sum(s.itemsize for s in accumulator.states)
    tile = target.tile(len(accumulator.states))
    wide = tile.nr * target.lanes(max(s.itemsize for s in accumulator.states))
    far = n > wide and k * n * right.nbytes >= b.page  # the hardware prefetches sequential reads, and reads within a page
    much = any(packed) or each > b.near or again * m * n * k >= target.sharing.share * target.costs.product
    long = k > b.chunks * AT_ONCE and (m * n * state <= 2 * b.near or k > b.longer * min(m, n))
    stretch = _stretch([nest.axes[a].extent for a in f.axes]) if much and not any(fixed) and long else -1
    depth = stretch * nest.extent(f.axes[1:])
    nearby = depth < k and depth * (m * left.nbytes * packed[0] + n * right.nbytes * packed[1]) <= 2 * b.near
    if stretch < 0 or (runs if len(f.axes) == 1 else not nearby):
        stretch, depth = -1, k
    if stretch >= 0:
        blocks = _even(m, 2 * b.near, max(left.nbytes, state), b.rows[0]), _even(n, 2 * b.near, max(right.nbytes, state), b.columns[0])
        if touched > b.touched and (m > wide or n > wide):
            packed = True, True  # so memory is read sequentially
    same = () if p.widened else twins(nest, p.row, p.column, given.left, given.right, given.values)
    if k < b.mirrored or n <= wide:
        same = ()  # mirroring would take as long, or a single panel holds a whole row
    along = stretch < 0 and not (any(fixed) or same) and _is_written_along(nest, p, b)
    if along:
        blocks = tile.mr[0], blocks[1]
    numbered = len(left.addresses) * (not packed[0]) + len(right.addresses) * (runs or not packed[1])
    scratch = numbered * (8 * k + 2 * target.caches.line) if len(f.axes) > 1 else 0
    aside = AT_ONCE * wide * right.nbytes if runs and not packed[1] else 0  # a panel for one chunk of steps
    if any(packed) or scratch or stretch >= 0 or aside:
        nbytes = left.nbytes * packed[0], right.nbytes * packed[1]
        scratch += _scratch(blocks, depth, accumulator.states, nbytes, target, steps_first=stretch >= 0) + aside

    if small and k <= AT_ONCE and not any(packed) and m <= b.rows[1] and not along:
        blocks = -1, -1  # the operands are in a near cache, and no states are stored between chunks
    shared = (
        max(p.row, p.column, key=lambda a: nest.axes[a].extent) if again < target.blocks.loops * target.threads else -1
    )
    product = Product(
        f.accumulator,
        Side(p.row, given.left, packed[0], fixed[0], False, blocks[0]),
        Side(p.column, given.right, packed[1], fixed[1], runs, blocks[1]),
        f.axes,
        given.values,
        (nest.store,),
        shared,
        k <= AT_ONCE,
        stretch,
        same,
        outer[-1] if many and small and not any(packed) and touched > b.ahead and far else -1,
    )
    return nest._replace(
        axes=tuple([axis._replace(vector=a == p.column) for a, axis in enumerate(nest.axes)]),
        accumulators=(accumulator._replace(row=p.column),),
        body=looped(outer, (product,)),
        scratch=scratch,
    )


def _is_written_along(nest: Nest, p: Pair, b: Blocks) -> bool:
    """Return whether a few rows of results at a time are best written completely, in order.

    This holds for few steps and results larger than a near cache. A panel of columns would write a little of each row, in another page
    each.
    """
    itemsize = nest.operands[nest.store.operand].dtype.itemsize
    row, (least, most) = nest.axes[p.column].extent * itemsize, b.along
    if p.k > AT_ONCE or row < b.row or nest.axes[p.row].extent * row < least or nest.visits()[0] * itemsize > most:
        return False
    return is_unit(nest.store.address, p.column)


# --- block sizes ------------------------------------------------------------------------------------------------------


def _blocks(sizes: tuple[int, int, int], nbytes: tuple[int, int], blocks: Blocks, *, alone: bool) -> tuple[int, int]:
    """Return the numbers of rows and of columns in a block (MC and NC). If not `alone`, the left side serves several contractions."""
    (m, n, k), (left, right) = sizes, nbytes
    (least, most), fitting = blocks.rows, blocks.left
    if not alone and m * k * left <= blocks.fixed:  # then the whole side is best a single block
        near = blocks.near // (min(k, AT_ONCE) * left)
        if near > most:
            most, fitting = near, blocks.fixed
    mc = min(_block(fitting // (k * left), (least, most)), m)
    room = blocks.near if mc == m else blocks.right  # the columns are used by a single block of rows, and not again
    return mc, min(_block(room // (k * right), blocks.columns), n)


def _block(fitting: int, bounds: tuple[int, int]) -> int:
    """Return a size within `bounds`, rounded down to a multiple of the lower bound."""
    least, most = bounds
    return min(max(fitting // least * least, least), most)


def _stretch(extents: Sequence[int]) -> int:
    """Return the smallest number of indices of the outermost axis with a whole number of chunks of `AT_ONCE` steps.

    So chunks are added the same way, however many steps are packed at a time.
    """
    return AT_ONCE // gcd(prod(extents[1:]), AT_ONCE)


def _even(size: int, room: int, nbytes: int, multiple: int) -> int:
    """Return the size of a block for which a chunk of steps fits into `room` bytes, with blocks of about equal size."""
    most = max(room // (AT_ONCE * nbytes * multiple), 1) * multiple
    return min(-(-size // (-(-size // most) * multiple)) * multiple, size)


def _scratch(
    blocks: tuple[int, int], depth: int, states: Sequence[DType], nbytes: tuple[int, int], target: Target, *, steps_first: bool
) -> int:
    """Return the bytes of scratch memory for waiting states and packed blocks, including padding that back ends may leave.

    `depth` steps are packed at a time. `nbytes` are the bytes per index and step of each side, 0 if it is not packed.
    """
    tile = target.tile(len(states))
    wide = tile.nr * target.lanes(max(s.itemsize for s in states))
    rows, columns = blocks[0] + tile.mr[0], blocks[1] + wide
    waiting = (columns if steps_first else wide) * sum(s.itemsize for s in states)
    steps = depth + target.loops.square
    return rows * waiting + (rows * nbytes[0] + columns * nbytes[1]) * steps + 8 * target.caches.line


# --- layouts of the sides ---------------------------------------------------------------------------------------------


class _Reads(NamedTuple):
    """The reads of one side: the addresses, whether each value is `plain` (a load without conversion), and the bytes per index and step."""

    addresses: list[Address]
    plain: bool
    nbytes: int

    @staticmethod
    def of(nest: Nest, values: tuple[Expr, ...]) -> _Reads:
        """Return the reads of some values."""
        found = [nest.where(e) for value in values for e in walk(value) if isinstance(e, Access)]
        plain = all(isinstance(e, Access) and _is_plain(nest, e) for e in values) and all(a.then is None for a in found)
        return _Reads(found, plain, sum(e.dtype.compute.itemsize for e in values))


def _is_plain(nest: Nest, e: Access) -> bool:
    """Return whether an access is a load at loop indices only, of elements stored as registers hold them."""
    read = nest.reads[e.index].operand >= 0 and not e.args
    return read and e.dtype.compute is e.dtype and e.dtype is not boolean and e.part is None


def _in_runs(step: int | Table, lanes: int) -> bool:
    """Return whether each vector of columns has at most two contiguous runs by this table."""
    if not isinstance(step, Table):
        return False
    (breaks,) = np.nonzero(np.diff(step.offsets) != 1)
    return len(breaks) < 2 or int(np.diff(breaks).min()) >= lanes - 1


def _are_apart(step: int | Table, nbytes: int, apart: int) -> bool:
    """Return whether neighbours are a multiple of `apart` bytes apart."""
    return not isinstance(step, Table) and step != 0 and step * nbytes % apart == 0


def _are_lines(nest: Nest, a: Address, summed: Loops, nbytes: int, line: int) -> bool:
    """Return whether each step of a row reads another cache line."""
    steps = [nest.step(a, axis) for axis in summed]
    return any(isinstance(step, Table) or abs(step) * nbytes >= line for step in steps)


def _overlaps(nest: Nest, a: Address, summed: Loops, n: int) -> bool:
    """Return whether rows of columns at different steps overlap, as sliding windows do, so that their elements are cached already."""
    steps = [nest.step(a, axis) for axis in summed]
    return any(not isinstance(step, Table) and 0 < abs(step) < n for step in steps)
