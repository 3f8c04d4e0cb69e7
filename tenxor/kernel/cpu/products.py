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
    reads, store_accesses = accesses(f.values), accesses(nest.store.values)
    position_of = {index: k for k, index in enumerate(dict.fromkeys(e.index for e in reads))}
    moves = Moves(
        space,
        f.axes,
        [axis.extent for axis in nest.axes],
        [_list_steps(nest, nest.reads[index].address) for index in position_of],
        [_list_steps(nest, a) for a in (nest.store.address, *(nest.where(e) for e in store_accesses))],
        [[position_of[access.index] for access in accesses((e,))] for e in reads],
    )
    pair = pair_of(moves, max(s.itemsize for s in accumulator.states))
    if pair is None:
        return None
    return _build_product(_widen(nest, pair.moves, list(position_of), store_accesses) if pair.widened else nest, pair, target)


def _list_steps(nest: Nest, a: Address) -> Steps:
    """Return the step of an address along each axis, for axes with a term in the address."""
    return {t.axis: nest.step(a, t.axis) for t in a.terms}


def _widen(nest: Nest, m: Moves, access_indices: Sequence[int], store_accesses: Sequence[Access]) -> Nest:
    """Return the nest with the merged axes and the strides of `m`, the result of `pair_of`.

    `access_indices` are the numbers of the accesses of the reduction, and `store_accesses` the accesses of the store.
    """
    tables: list[Table] = list(nest.tables)

    def move_address(a: Address, steps: Steps) -> Address:
        terms = []
        for axis, step in steps.items():
            if isinstance(step, Table):
                tables.append(step)
                terms.append(Term(axis, "table", len(tables) - 1))
            else:
                terms.append(Term(axis, "step", step))
        return a._replace(terms=tuple(terms))

    reads = list(nest.reads)
    for index, steps in zip((*access_indices, *(e.index for e in store_accesses)), (*m.taken, *m.others[1:]), strict=True):
        reads[index] = nest.reads[index]._replace(address=move_address(nest.reads[index].address, steps))
    *reduced, store = inside(nest.body, len(nest.space))
    assert isinstance(store, Store)
    body = looped(m.space, (*reduced, store._replace(address=move_address(store.address, m.others[0]))))
    axes = tuple([axis._replace(extent=n) for axis, n in zip(nest.axes, m.extents, strict=True)])
    return nest._replace(axes=axes, reads=tuple(reads), tables=tuple(tables), body=body)


def _list_axes(nest: Nest, values: Sequence[Expr]) -> dict[Expr, frozenset[int]]:
    """Return the axes on which each subexpression of `values` depends; -1 stands for the running state."""
    axes_of: dict[Expr, frozenset[int]] = {}
    for value in values:
        for e in missing(value, axes_of):
            own_axes: Iterable[int] = (-1,) if isinstance(e, State) else ()
            if isinstance(e, Access):
                own_axes = nest.where(e).axes()
            axes_of[e] = frozenset(own_axes).union(*(axes_of[a] for a in e.args))
    return axes_of


def _split_sides(p: Pair, values: tuple[Expr, ...], axes: dict[Expr, frozenset[int]]) -> _Sides:
    """Return the factors of each side, and the next state in terms of factors.

    A product that is added stays a product, even where a factor is the same for every step, for example the zero imaginary part of a real
    number. Otherwise a multiply-add would be rounded differently from one with this factor in memory.
    """
    loop_axes = {p.row, p.column, *p.moves.summed}
    sides: tuple[dict[Expr, Expr], dict[Expr, Expr]] = {}, {}
    stack = [(e, True) for e in values]
    while stack:
        e, is_added = stack.pop()
        own_axes = axes[e]
        if -1 in own_axes or {p.row, p.column} <= own_axes or (is_added and _is_multiple(e, loop_axes, axes)):
            is_added = is_added and isinstance(e, Call) and e.op.name in ("add", "subtract")
            stack.extend([(x, is_added) for x in e.args])
        elif own_axes & loop_axes:
            side = int(p.column in own_axes)
            sides[side].setdefault(e, Factor(side, len(sides[side]), e.dtype))
    factors = sides[0] | sides[1]
    return _Sides(tuple(sides[0]), tuple(sides[1]), tuple([replaced(v, factors) for v in values]))


def _is_multiple(e: Expr, loop_axes: set[int], axes: dict[Expr, frozenset[int]]) -> bool:
    """Return whether an expression is a product in which a single factor depends on the axes `loop_axes`."""
    return isinstance(e, Call) and e.op.name == "multiply" and sum([bool(axes[x] & loop_axes) for x in e.args]) == 1


def _build_product(nest: Nest, p: Pair, target: Target) -> Nest:
    """Return the nest with its reduction as a contraction. The cache sizes of the target decide about packing, blocks and prefetches."""
    (f,), (accumulator,) = nest.reductions, nest.accumulators
    axes = _list_axes(nest, f.values)
    sides = _split_sides(p, f.values, axes)
    left, right = (_Reads.of(nest, values) for values in (sides.left, sides.right))
    m, n, k = nest.axes[p.row].extent, nest.axes[p.column].extent, p.k
    outer = tuple([a for a in p.moves.space if a not in (p.row, p.column)])
    outer_count = nest.extent(outer)
    loop_axes = {p.row, p.column, *f.axes}
    is_shared = [all(axes[e] <= loop_axes for e in side) for side in (sides.left, sides.right)]
    sizes = (left.nbytes, right.nbytes)
    blocks = _choose_blocks((m, n, k), sizes, target.blocks, is_alone=not is_shared[0] or outer_count == 1)
    packs_once = [outer_count > 1 and a and size <= b for a, size, b in zip(is_shared, (m, n), blocks, strict=True)]

    has_runs = p.widened and right.plain and any(isinstance(nest.step(a, p.column), Table) for a in right.addresses)
    lane_count = LANES // max(s.itemsize for s in accumulator.states)  # per vector, for any number of values per side
    is_contiguous = right.plain and all(
        is_unit(a, p.column) or (has_runs and _has_long_runs(nest.step(a, p.column), lane_count)) for a in right.addresses
    )
    has_windows = is_contiguous and all(_overlaps(nest, a, f.axes, n) for a in right.addresses)
    b = target.blocks
    product_bytes = m * k * left.nbytes + (k + m) * n * right.nbytes
    # near caches then hold the prefetched operands too
    touched_bytes, is_repeated = outer_count * product_bytes, outer_count > 1 and product_bytes <= b.near
    is_small = len(f.axes) == 1 and not has_runs and (touched_bytes <= b.touched or (is_repeated and not any(packs_once)))
    collides = any(_are_apart(nest.step(a, p.row), left.nbytes, b.apart) for a in left.addresses)
    if not collides and any(_are_apart(nest.step(a, f.axes[0]), left.nbytes, b.apart // 4) for a in left.addresses):
        collides = k > b.places  # tiles read little of each cache line, so the line must stay for the next tile
    is_scattered = k > b.lines and any(_crosses_lines(nest, a, f.axes, left.nbytes, target.caches.line) for a in left.addresses)
    are_near = (
        is_small and n <= b.few and not collides and (not is_scattered or m * k * left.nbytes <= 2 * b.direct),
        is_small and k * n * right.nbytes <= (b.direct if m <= b.few else b.nearest),
    )
    packed = (
        not left.plain or (n * (outer_count if packs_once[0] else 1) > b.direct_columns and not are_near[0]),
        not is_contiguous or (m * (outer_count if packs_once[1] else 1) > b.direct_rows and not has_windows and not are_near[1]),
    )
    fixed = packed[0] and packs_once[0], packed[1] and packs_once[1]
    if not packed[0]:  # its states are on the stack
        blocks = min(blocks[0], b.rows[1]), blocks[1]

    state_bytes = sum(s.itemsize for s in accumulator.states)
    tile = target.tile(len(accumulator.states))
    tile_columns = tile.nr * target.lanes(max(s.itemsize for s in accumulator.states))
    is_far = n > tile_columns and k * n * right.nbytes >= b.page  # the hardware prefetches sequential reads, and reads within a page
    is_large = any(packed) or product_bytes > b.near or outer_count * m * n * k >= target.sharing.share * target.costs.product
    is_long = k > b.chunks * AT_ONCE and (m * n * state_bytes <= 2 * b.near or k > b.longer * min(m, n))
    stretch = _choose_stretch([nest.axes[a].extent for a in f.axes]) if is_large and not any(fixed) and is_long else -1
    depth = stretch * nest.extent(f.axes[1:])
    is_nearby = depth < k and depth * (m * left.nbytes * packed[0] + n * right.nbytes * packed[1]) <= 2 * b.near
    if stretch < 0 or (has_runs if len(f.axes) == 1 else not is_nearby):
        stretch, depth = -1, k
    if stretch >= 0:
        blocks = (
            _choose_even_block(m, 2 * b.near, max(left.nbytes, state_bytes), b.rows[0]),
            _choose_even_block(n, 2 * b.near, max(right.nbytes, state_bytes), b.columns[0]),
        )
        if touched_bytes > b.touched and (m > tile_columns or n > tile_columns):
            packed = True, True  # so memory is read sequentially
    twin_pairs = () if p.widened else twins(nest, p.row, p.column, sides.left, sides.right, sides.values)
    if k < b.mirrored or n <= tile_columns:
        twin_pairs = ()  # mirroring would take as long, or a single panel holds a whole row
    is_written_along = stretch < 0 and not (any(fixed) or twin_pairs) and _is_written_along(nest, p, b)
    if is_written_along:
        blocks = tile.mr[0], blocks[1]
    address_count = len(left.addresses) * (not packed[0]) + len(right.addresses) * (has_runs or not packed[1])
    scratch = address_count * (8 * k + 2 * target.caches.line) if len(f.axes) > 1 else 0
    panel_bytes = AT_ONCE * tile_columns * right.nbytes if has_runs and not packed[1] else 0  # a panel for one chunk of steps
    if any(packed) or scratch or stretch >= 0 or panel_bytes:
        nbytes = left.nbytes * packed[0], right.nbytes * packed[1]
        scratch += _count_scratch_bytes(blocks, depth, accumulator.states, nbytes, target, steps_first=stretch >= 0) + panel_bytes

    if is_small and k <= AT_ONCE and not any(packed) and m <= b.rows[1] and not is_written_along:
        blocks = -1, -1  # the operands are in a near cache, and no states are stored between chunks
    shared = (
        max(p.row, p.column, key=lambda a: nest.axes[a].extent) if outer_count < target.blocks.loops * target.threads else -1
    )
    product = Product(
        f.accumulator,
        Side(p.row, sides.left, packed[0], fixed[0], False, blocks[0]),
        Side(p.column, sides.right, packed[1], fixed[1], has_runs, blocks[1]),
        f.axes,
        sides.values,
        (nest.store,),
        shared,
        k <= AT_ONCE,
        stretch,
        twin_pairs,
        outer[-1] if is_repeated and is_small and not any(packed) and touched_bytes > b.ahead and is_far else -1,
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
    row_bytes, (min_result_bytes, max_result_bytes) = nest.axes[p.column].extent * itemsize, b.along
    if (
        p.k > AT_ONCE
        or row_bytes < b.row
        or nest.axes[p.row].extent * row_bytes < min_result_bytes
        or nest.visits()[0] * itemsize > max_result_bytes
    ):
        return False
    return is_unit(nest.store.address, p.column)


# --- block sizes ------------------------------------------------------------------------------------------------------


def _choose_blocks(sizes: tuple[int, int, int], nbytes: tuple[int, int], blocks: Blocks, *, is_alone: bool) -> tuple[int, int]:
    """Return the numbers of rows and of columns in a block (MC and NC). If not `is_alone`, the left side serves several contractions."""
    (m, n, k), (left, right) = sizes, nbytes
    (min_rows, max_rows), left_bytes = blocks.rows, blocks.left
    if not is_alone and m * k * left <= blocks.fixed:  # then the whole side is best a single block
        near_rows = blocks.near // (min(k, AT_ONCE) * left)
        if near_rows > max_rows:
            max_rows, left_bytes = near_rows, blocks.fixed
    mc = min(_round_block(left_bytes // (k * left), (min_rows, max_rows)), m)
    right_bytes = blocks.near if mc == m else blocks.right  # the columns are used by a single block of rows, and not again
    return mc, min(_round_block(right_bytes // (k * right), blocks.columns), n)


def _round_block(size: int, bounds: tuple[int, int]) -> int:
    """Return a size within `bounds`, rounded down to a multiple of the lower bound."""
    lower, upper = bounds
    return min(max(size // lower * lower, lower), upper)


def _choose_stretch(extents: Sequence[int]) -> int:
    """Return the smallest number of indices of the outermost axis with a whole number of chunks of `AT_ONCE` steps.

    So chunks are added the same way, however many steps are packed at a time.
    """
    return AT_ONCE // gcd(prod(extents[1:]), AT_ONCE)


def _choose_even_block(size: int, available_bytes: int, nbytes: int, multiple: int) -> int:
    """Return the size of a block for which a chunk of steps fits into `available_bytes`, with blocks of about equal size."""
    max_size = max(available_bytes // (AT_ONCE * nbytes * multiple), 1) * multiple
    return min(-(-size // (-(-size // max_size) * multiple)) * multiple, size)


def _count_scratch_bytes(
    blocks: tuple[int, int], depth: int, states: Sequence[DType], nbytes: tuple[int, int], target: Target, *, steps_first: bool
) -> int:
    """Return the bytes of scratch memory for waiting states and packed blocks, including padding that back ends may leave.

    `depth` steps are packed at a time. `nbytes` are the bytes per index and step of each side, 0 if it is not packed.
    """
    tile = target.tile(len(states))
    tile_columns = tile.nr * target.lanes(max(s.itemsize for s in states))
    rows, columns = blocks[0] + tile.mr[0], blocks[1] + tile_columns
    state_bytes = (columns if steps_first else tile_columns) * sum(s.itemsize for s in states)
    steps = depth + target.loops.square
    return rows * state_bytes + (rows * nbytes[0] + columns * nbytes[1]) * steps + 8 * target.caches.line


# --- layouts of the sides ---------------------------------------------------------------------------------------------


class _Reads(NamedTuple):
    """The reads of one side: the addresses, whether each value is `plain` (a load without conversion), and the bytes per index and step."""

    addresses: list[Address]
    plain: bool
    nbytes: int

    @staticmethod
    def of(nest: Nest, values: tuple[Expr, ...]) -> _Reads:
        """Return the reads of some values."""
        addresses = [nest.where(e) for value in values for e in walk(value) if isinstance(e, Access)]
        plain = all(isinstance(e, Access) and _is_plain(nest, e) for e in values) and all(a.then is None for a in addresses)
        return _Reads(addresses, plain, sum(e.dtype.compute.itemsize for e in values))


def _is_plain(nest: Nest, e: Access) -> bool:
    """Return whether an access is a load at loop indices only, of elements stored as registers hold them."""
    is_load = nest.reads[e.index].operand >= 0 and not e.args
    return is_load and e.dtype.compute is e.dtype and e.dtype is not boolean and e.part is None


def _has_long_runs(step: int | Table, lanes: int) -> bool:
    """Return whether each vector of columns has at most two contiguous runs by this table."""
    if not isinstance(step, Table):
        return False
    (breaks,) = np.nonzero(np.diff(step.offsets) != 1)
    return len(breaks) < 2 or int(np.diff(breaks).min()) >= lanes - 1


def _are_apart(step: int | Table, nbytes: int, distance: int) -> bool:
    """Return whether neighbours are a multiple of `distance` bytes apart."""
    return not isinstance(step, Table) and step != 0 and step * nbytes % distance == 0


def _crosses_lines(nest: Nest, a: Address, summed: Loops, nbytes: int, line: int) -> bool:
    """Return whether each step of a row reads another cache line."""
    steps = [nest.step(a, axis) for axis in summed]
    return any(isinstance(step, Table) or abs(step) * nbytes >= line for step in steps)


def _overlaps(nest: Nest, a: Address, summed: Loops, n: int) -> bool:
    """Return whether rows of columns at different steps overlap, as sliding windows do, so that their elements are cached already."""
    steps = [nest.step(a, axis) for axis in summed]
    return any(not isinstance(step, Table) and 0 < abs(step) < n for step in steps)
