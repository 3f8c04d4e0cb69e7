"""Contractions: reductions of every row of an operand with every column of another, as in a matrix product.

Here some operands of a reduction depend on one independent axis, and the rest on another, so every element contributes to many results. The
reduction becomes a `Contraction`: a back end then computes a small block of results at a time, and reads each element once for the block. A
subexpression of a single side is a `Factor`, however it is computed and stored. As for matrices, the results have M rows and N columns, and
K steps are added for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod

import numpy as np

from ..._utils.records import NamedTuple
from ...dtypes import boolean
from ...graph.reduction_limits import STEPS_PER_CHUNK
from ...layout import Table
from ...ops.expr import Call, Expr, replace_subexprs, walk, walk_unvisited
from ...target import Blocks, Target
from ..access_strides import Loops
from ..ir import Address, Contraction, Factor, Side, State, Store, Term
from ..kernel_draft import Access, list_accesses
from ..loop_nest import LoopNest, get_inner_body, wrap_in_loops
from ..match_contraction import (
    MAX_VECTOR_BYTES,
    ContractionMatch,
    ReductionStrides,
    Steps,
    can_be_contraction,
    match_contraction,
)
from ..symmetric_contraction import find_symmetric_pairs
from .vectorize import has_unit_step


class _Sides(NamedTuple):
    """The largest subexpressions of the next state that depend only on a row (`left`) or only on a column (`right`).

    `values` is the state in terms of the factors.
    """

    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    values: tuple[Expr, ...]


def schedule_contraction(nest: LoopNest, target: Target) -> LoopNest | None:
    """Return the nest with its only reduction as a contraction, packed and divided into blocks for `target`.

    Return None if the nest has several reductions or fewer than two independent loops, or if the reduction does not run inside these.
    Return None also if the reduction is no contraction, or too small (`match_contraction`). The columns may be several merged axes.
    """
    space = nest.space
    if len(nest.accumulators) != 1 or len(space) < 2 or nest.result_loops != space:
        return None
    (f,), (accumulator,) = nest.reductions, nest.accumulators
    if f.outer_loops != space or not can_be_contraction(accumulator.reduction):
        return None
    reads, store_accesses = list_accesses(f.values), list_accesses(nest.result_store.values)
    position_of = {index: k for k, index in enumerate(dict.fromkeys(e.index for e in reads))}
    moves = ReductionStrides(
        space,
        f.axes,
        [axis.extent for axis in nest.axes],
        [_list_steps(nest, nest.locations[index].address) for index in position_of],
        [_list_steps(nest, a) for a in (nest.result_store.address, *(nest.get_address(e) for e in store_accesses))],
        [[position_of[access.index] for access in list_accesses((e,))] for e in reads],
    )
    pair = match_contraction(moves, max(s.itemsize for s in accumulator.state_dtypes))
    if pair is None:
        return None
    return _build_contraction(
        _apply_merged_columns(nest, pair.strides, list(position_of), store_accesses) if pair.has_merged_columns else nest, pair, target
    )


def _list_steps(nest: LoopNest, a: Address) -> Steps:
    """Return the step of address `a` of `nest` along each axis, for axes with a term in the address: an integer in elements, or a table."""
    return {t.axis: nest.get_step(a, t.axis) for t in a.terms}


def _apply_merged_columns(nest: LoopNest, m: ReductionStrides, access_indices: Sequence[int], store_accesses: Sequence[Access]) -> LoopNest:
    """Return the nest with the columns merged into one axis: with the axes, extents and strides of `m`, from the result of
    `match_contraction`.

    `access_indices` are the numbers of the accesses of the reduction, in the order of `m.operand_steps`. `store_accesses` are the accesses
    in the stored values, in the order of `m.other_steps` after the write. The nest must have a single store. Tables are added to the nest.
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

    reads = list(nest.locations)
    for index, steps in zip((*access_indices, *(e.index for e in store_accesses)), (*m.operand_steps, *m.other_steps[1:]), strict=True):
        reads[index] = nest.locations[index]._replace(address=move_address(nest.locations[index].address, steps))
    *reduced, store = get_inner_body(nest.body, len(nest.space))
    assert isinstance(store, Store)
    body = wrap_in_loops(m.space, (*reduced, store._replace(address=move_address(store.address, m.other_steps[0]))))
    axes = tuple([axis._replace(extent=n) for axis, n in zip(nest.axes, m.extents, strict=True)])
    return nest._replace(axes=axes, locations=tuple(reads), tables=tuple(tables), body=body)


def _list_axes(nest: LoopNest, values: Sequence[Expr]) -> dict[Expr, frozenset[int]]:
    """Map each subexpression of `values`, expressions of `nest`, to the axes on which it depends; -1 stands for the running state.

    An expression depends on the axes of its accesses and of those of its operands.
    """
    axes_of: dict[Expr, frozenset[int]] = {}
    for value in values:
        for e in walk_unvisited(value, axes_of):
            own_axes: Iterable[int] = (-1,) if isinstance(e, State) else ()
            if isinstance(e, Access):
                own_axes = nest.get_address(e).axes()
            axes_of[e] = frozenset(own_axes).union(*(axes_of[a] for a in e.args))
    return axes_of


def _split_sides(p: ContractionMatch, values: tuple[Expr, ...], axes: dict[Expr, frozenset[int]]) -> _Sides:
    """Return the factors of each side of contraction `p`, and the next state in terms of `Factor`s.

    `values` is the next state, and `axes` gives the axes on which each subexpression depends (`_list_axes`). A factor is a largest
    subexpression that varies in the loops, but not with the running state, nor with row and column at once. A factor that varies with the
    column is on the right. A product that is added stays a product, even where a factor is the same for every step, for example the zero
    imaginary part of a real number. Otherwise a multiply-add would be rounded differently from one with this factor in memory.
    """
    loop_axes = {p.row, p.column, *p.strides.summed_axes}
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
    return _Sides(tuple(sides[0]), tuple(sides[1]), tuple([replace_subexprs(v, factors) for v in values]))


def _is_multiple(e: Expr, loop_axes: set[int], axes: dict[Expr, frozenset[int]]) -> bool:
    """Return whether `e` is a product in which a single factor depends on the axes `loop_axes`.

    `axes` gives the axes on which each expression depends.
    """
    return isinstance(e, Call) and e.op.name == "multiply" and sum([bool(axes[x] & loop_axes) for x in e.args]) == 1


def _build_contraction(nest: LoopNest, p: ContractionMatch, target: Target) -> LoopNest:
    """Return the nest with its only reduction as the contraction `p`, the result of `match_contraction` for this nest.

    The cache sizes of the target decide about packing, blocks and prefetches. The axis of the columns gets the lanes, and the accumulator a
    row of states along this axis. `scratch_bytes` of the nest is the scratch memory for packed operands and states.
    """
    (f,), (accumulator,) = nest.reductions, nest.accumulators
    axes = _list_axes(nest, f.values)
    sides = _split_sides(p, f.values, axes)
    left, right = (_SideReads.collect(nest, values) for values in (sides.left, sides.right))
    m, n, k = nest.axes[p.row].extent, nest.axes[p.column].extent, p.k
    outer = tuple([a for a in p.strides.space if a not in (p.row, p.column)])
    outer_count = nest.count_iterations(outer)
    loop_axes = {p.row, p.column, *f.axes}
    is_shared = [all(axes[e] <= loop_axes for e in side) for side in (sides.left, sides.right)]
    sizes = (left.nbytes, right.nbytes)
    blocks = _choose_blocks((m, n, k), sizes, target.blocks, is_alone=not is_shared[0] or outer_count == 1)
    packs_once = [outer_count > 1 and a and size <= b for a, size, b in zip(is_shared, (m, n), blocks, strict=True)]

    has_runs = (
        p.has_merged_columns and right.are_direct_loads and any(isinstance(nest.get_step(a, p.column), Table) for a in right.addresses)
    )
    lane_count = MAX_VECTOR_BYTES // max(s.itemsize for s in accumulator.state_dtypes)  # per vector, for any number of values per side
    is_contiguous = right.are_direct_loads and all(
        has_unit_step(a, p.column) or (has_runs and _has_long_runs(nest.get_step(a, p.column), lane_count)) for a in right.addresses
    )
    has_windows = is_contiguous and all(_overlaps(nest, a, f.axes, n) for a in right.addresses)
    b = target.blocks
    product_bytes = m * k * left.nbytes + (k + m) * n * right.nbytes
    # near caches then hold the prefetched operands too
    touched_bytes, is_repeated = outer_count * product_bytes, outer_count > 1 and product_bytes <= b.l2_working_bytes
    is_small = len(f.axes) == 1 and not has_runs and (touched_bytes <= b.max_unpacked_bytes or (is_repeated and not any(packs_once)))
    collides = any(_is_stride_multiple(nest.get_step(a, p.row), left.nbytes, b.set_conflict_bytes) for a in left.addresses)
    if not collides and any(
        _is_stride_multiple(nest.get_step(a, f.axes[0]), left.nbytes, b.set_conflict_bytes // 4) for a in left.addresses
    ):
        collides = k > b.max_conflicting_steps  # tiles read little of each cache line, so the line must stay for the next tile
    is_scattered = k > b.max_unpacked_lines and any(
        _crosses_lines(nest, a, f.axes, left.nbytes, target.caches.line_bytes) for a in left.addresses
    )
    are_near = (
        is_small and n <= b.max_direct_extent and not collides and (not is_scattered or m * k * left.nbytes <= 2 * b.max_direct_bytes),
        is_small and k * n * right.nbytes <= (b.max_direct_bytes if m <= b.max_direct_extent else b.max_l1_column_bytes),
    )
    packed = (
        not left.are_direct_loads or (n * (outer_count if packs_once[0] else 1) > b.max_direct_columns and not are_near[0]),
        not is_contiguous or (m * (outer_count if packs_once[1] else 1) > b.max_direct_rows and not has_windows and not are_near[1]),
    )
    fixed = packed[0] and packs_once[0], packed[1] and packs_once[1]
    if not packed[0]:  # its states are on the stack
        blocks = min(blocks[0], b.block_rows[1]), blocks[1]

    state_bytes = sum(s.itemsize for s in accumulator.state_dtypes)
    tile = target.contraction_tile(len(accumulator.state_dtypes))
    tile_columns = tile.nr * target.lane_count(max(s.itemsize for s in accumulator.state_dtypes))
    # The hardware prefetches sequential reads, and reads within a page
    is_far = n > tile_columns and k * n * right.nbytes >= b.min_prefetch_panel_bytes
    is_large = (
        any(packed)
        or product_bytes > b.l2_working_bytes
        or outer_count * m * n * k >= target.thread_limits.min_shared_work * target.costs.contraction_step_ratio
    )
    is_long = k > b.max_inner_chunks * STEPS_PER_CHUNK and (
        m * n * state_bytes <= 2 * b.l2_working_bytes or k > b.min_step_ratio * min(m, n)
    )
    stretch = _choose_step_block([nest.axes[a].extent for a in f.axes]) if is_large and not any(fixed) and is_long else -1
    depth = stretch * nest.count_iterations(f.axes[1:])
    is_nearby = depth < k and depth * (m * left.nbytes * packed[0] + n * right.nbytes * packed[1]) <= 2 * b.l2_working_bytes
    if stretch < 0 or (has_runs if len(f.axes) == 1 else not is_nearby):
        stretch, depth = -1, k
    if stretch >= 0:
        blocks = (
            _choose_even_block(m, 2 * b.l2_working_bytes, max(left.nbytes, state_bytes), b.block_rows[0]),
            _choose_even_block(n, 2 * b.l2_working_bytes, max(right.nbytes, state_bytes), b.block_columns[0]),
        )
        if touched_bytes > b.max_unpacked_bytes and (m > tile_columns or n > tile_columns):
            packed = True, True  # so memory is read sequentially
    twin_pairs = () if p.has_merged_columns else find_symmetric_pairs(nest, p.row, p.column, sides.left, sides.right, sides.values)
    if k < b.min_mirrored_steps or n <= tile_columns:
        twin_pairs = ()  # mirroring would take as long, or a single panel holds a whole row
    is_written_along = stretch < 0 and not (any(fixed) or twin_pairs) and _should_write_rows(nest, p, b)
    if is_written_along:
        blocks = tile.mr[0], blocks[1]
    address_count = len(left.addresses) * (not packed[0]) + len(right.addresses) * (has_runs or not packed[1])
    scratch = address_count * (8 * k + 2 * target.caches.line_bytes) if len(f.axes) > 1 else 0
    panel_bytes = STEPS_PER_CHUNK * tile_columns * right.nbytes if has_runs and not packed[1] else 0  # a panel for one chunk of steps
    if any(packed) or scratch or stretch >= 0 or panel_bytes:
        nbytes = left.nbytes * packed[0], right.nbytes * packed[1]
        states = [s.itemsize for s in accumulator.state_dtypes]
        scratch += target.count_contraction_scratch(blocks, depth, states, nbytes, steps_first=stretch >= 0) + panel_bytes

    if is_small and k <= STEPS_PER_CHUNK and not any(packed) and m <= b.block_rows[1] and not is_written_along:
        blocks = -1, -1  # the operands are in a near cache, and no states are stored between chunks
    shared = (
        max(p.row, p.column, key=lambda a: nest.axes[a].extent) if outer_count < target.blocks.min_loops_per_thread * target.threads else -1
    )
    product = Contraction(
        f.accumulator,
        Side(p.row, sides.left, packed[0], fixed[0], False, blocks[0]),
        Side(p.column, sides.right, packed[1], fixed[1], has_runs, blocks[1]),
        f.axes,
        sides.values,
        (nest.result_store,),
        shared,
        k <= STEPS_PER_CHUNK,
        stretch,
        twin_pairs,
        outer[-1] if is_repeated and is_small and not any(packed) and touched_bytes > b.min_prefetch_batch_bytes and is_far else -1,
        all(packed) and b.prefetches_panels == 1,
    )
    return nest._replace(
        axes=tuple([axis._replace(vector=a == p.column) for a, axis in enumerate(nest.axes)]),
        accumulators=(accumulator._replace(row_axis=p.column),),
        body=wrap_in_loops(outer, (product,)),
        scratch_bytes=scratch,
    )


def _should_write_rows(nest: LoopNest, p: ContractionMatch, b: Blocks) -> bool:
    """Return whether a few rows of results at a time are best written completely, in order, by contraction `p`, the only reduction of
    `nest`.

    This holds for contiguous rows of at least `b.min_result_row_bytes`, with at most `STEPS_PER_CHUNK` steps, and for results within the
    bounds `b.row_order_result_bytes`. A panel of columns would write a little of each row, in another page each.
    """
    itemsize = nest.operands[nest.result_store.operand].dtype.itemsize
    row_bytes, (min_result_bytes, max_result_bytes) = nest.axes[p.column].extent * itemsize, b.row_order_result_bytes
    if (
        p.k > STEPS_PER_CHUNK
        or row_bytes < b.min_result_row_bytes
        or nest.axes[p.row].extent * row_bytes < min_result_bytes
        or nest.count_visits()[0] * itemsize > max_result_bytes
    ):
        return False
    return has_unit_step(nest.result_store.address, p.column)


# --- block sizes ------------------------------------------------------------------------------------------------------


def _choose_blocks(sizes: tuple[int, int, int], nbytes: tuple[int, int], blocks: Blocks, *, is_alone: bool) -> tuple[int, int]:
    """Return the numbers of rows and of columns in a block (MC and NC), within the limits `blocks`; at most M and N.

    `sizes` are M, N and K, and `nbytes` the bytes per index and step of the left and the right side. Unless `is_alone`, the left side
    serves several contractions, and may be a single block.
    """
    (m, n, k), (left, right) = sizes, nbytes
    (min_rows, max_rows), left_bytes = blocks.block_rows, blocks.packed_row_bytes
    if not is_alone and m * k * left <= blocks.fixed_row_bytes:  # then the whole side is best a single block
        near_rows = blocks.l2_working_bytes // (min(k, STEPS_PER_CHUNK) * left)
        if near_rows > max_rows:
            max_rows, left_bytes = near_rows, blocks.fixed_row_bytes
    mc = min(_round_block(left_bytes // (k * left), (min_rows, max_rows)), m)
    # The columns are used by a single block of rows, and not again
    right_bytes = blocks.l2_working_bytes if mc == m else blocks.packed_column_bytes
    return mc, min(_round_block(right_bytes // (k * right), blocks.block_columns), n)


def _round_block(size: int, bounds: tuple[int, int]) -> int:
    """Return `size` rounded down to a multiple of the lower of both `bounds`, but at least the lower and at most the upper bound."""
    lower, upper = bounds
    return min(max(size // lower * lower, lower), upper)


def _choose_step_block(extents: Sequence[int]) -> int:
    """Return the smallest number of indices of the outermost summed axis for which the number of steps is a multiple of `STEPS_PER_CHUNK`.

    `extents` are the extents of the summed axes, outermost first. So chunks are added the same way, however many steps are packed at a
    time.
    """
    return STEPS_PER_CHUNK // gcd(prod(extents[1:]), STEPS_PER_CHUNK)


def _choose_even_block(size: int, available_bytes: int, nbytes: int, multiple: int) -> int:
    """Return how many of `size` rows or columns form a block, so that `STEPS_PER_CHUNK` steps of a block fit into `available_bytes`.

    `nbytes` are the bytes per row or column and step. The blocks have about equal sizes. The result is a multiple of `multiple`, at least
    one even if that does not fit, or `size` itself if that is less.
    """
    max_size = max(available_bytes // (STEPS_PER_CHUNK * nbytes * multiple), 1) * multiple
    return min(-(-size // (-(-size // max_size) * multiple)) * multiple, size)


# --- layouts of the sides ---------------------------------------------------------------------------------------------


class _SideReads(NamedTuple):
    """The reads of one side of a contraction: the addresses, and the bytes `nbytes` of the values per index and step.

    `are_direct_loads` tells whether each value is a load without conversion, through a single view.
    """

    addresses: list[Address]
    are_direct_loads: bool
    nbytes: int

    @staticmethod
    def collect(nest: LoopNest, values: tuple[Expr, ...]) -> _SideReads:
        """Return the reads of `values`, expressions of `nest`, the values of one side. Addresses are in order, and may repeat."""
        addresses = [nest.get_address(e) for value in values for e in walk(value) if isinstance(e, Access)]
        plain = all(isinstance(e, Access) and _is_direct_load(nest, e) for e in values) and all(a.base is None for a in addresses)
        return _SideReads(addresses, plain, sum(e.dtype.compute_dtype.itemsize for e in values))


def _is_direct_load(nest: LoopNest, e: Access) -> bool:
    """Return whether the access `e` of `nest` is a load at loop indices only, of elements stored as registers hold them.

    Narrow floats, booleans, components of complex elements, positions and gathers give False.
    """
    is_load = nest.locations[e.index].operand >= 0 and not e.args
    return is_load and e.dtype.compute_dtype is e.dtype and e.dtype is not boolean and e.component is None


def _has_long_runs(step: int | Table, lanes: int) -> bool:
    """Return whether the table `step` has at most two contiguous runs for each vector of `lanes` columns; False if `step` is a number."""
    if not isinstance(step, Table):
        return False
    (breaks,) = np.nonzero(np.diff(step.offsets) != 1)
    return len(breaks) < 2 or int(np.diff(breaks).min()) >= lanes - 1


def _is_stride_multiple(step: int | Table, nbytes: int, distance: int) -> bool:
    """Return whether neighbours are a nonzero multiple of `distance` bytes apart, for a `step` in elements of `nbytes` bytes.

    A table gives False.
    """
    return not isinstance(step, Table) and step != 0 and step * nbytes % distance == 0


def _crosses_lines(nest: LoopNest, a: Address, summed: Loops, nbytes: int, line: int) -> bool:
    """Return whether each step of a row read at address `a` of `nest` is in another cache line, along at least one axis of `summed`.

    An element has `nbytes` bytes, and a cache line `line` bytes. An axis with a table gives True.
    """
    steps = [nest.get_step(a, axis) for axis in summed]
    return any(isinstance(step, Table) or abs(step) * nbytes >= line for step in steps)


def _overlaps(nest: LoopNest, a: Address, summed: Loops, n: int) -> bool:
    """Return whether rows of `n` columns at different steps overlap, as sliding windows do, so that their elements are cached already.

    `a` is the address of the read in `nest`, and `summed` are the axes of the steps. Tables do not count.
    """
    steps = [nest.get_step(a, axis) for axis in summed]
    return any(not isinstance(step, Table) and 0 < abs(step) < n for step in steps)
