"""Emit contractions: blocks of results in registers, from packed pieces of both sides.

The scheme is that of Goto and van de Geijn ("Anatomy of high-performance matrix multiplication", 2008) as BLIS has it. The results have M
rows and N columns, and K steps are added up for each. A *tile* of MR x NR results, a few rows of a few vectors, is kept in registers while
the steps run; each step takes an element of every row and a vector or two of columns. Before, the elements of a block are packed in panels,
as high or as wide as a tile, in the order in which they are needed. Some hundred steps are done at a time, so that the right panel stays in
the first cache meanwhile, and sums grow in chunks; the states wait in a buffer. The *epilogue*, the kernel's statements about the results,
runs from the registers if it is short, or row by row.

    for a block of columns:                          pack the right side
      for a block of rows:                           pack the left side
        for each panel of columns:
          for some hundred steps:
            for each tile of rows:                   the steps, in registers
          for each row:                              the epilogue

With few steps and many results, a block has as many rows as a tile: then the results are written in order. With many steps and few results,
the states stay in a near cache anyway. Then the loop over steps is outside the loop over panels, and packs a part of the steps at a time.
So both sides are read once and in order, and packed elements never leave the near caches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import mul

from ..._utils.records import NamedTuple
from ...graph.reduction_limits import STEPS_PER_CHUNK
from ...lowering.ir import Contraction, Factor, For, Load, State, Store, estimate_cost, iterate_expressions, walk
from ...ops.expr import Call, Const, Expr
from . import panel_packing, reduction_states, symmetric_results
from .builder import Value, select, select_smaller
from .contraction_prefetch import EmitPrefetch, make_column_prefetcher, make_panel_prefetcher, make_row_prefetcher
from .contraction_step import emit_next_state
from .dtype_conversions import load, memory_type
from .emitter import Emitter
from .operand_access import prefetch, prefetch_lanes, prepare_store
from .panel_columns import ColumnLimits, cover_columns
from .panel_packing import ColumnMasks, ColumnVectors
from .row_buffers import store_elements
from .scopes import AxisRange, Lanes, ValueVectors
from .types import I8, I64, POINTER
from .vector_access import mask_lanes_before

# Steps in an iteration of a tile with `prefetches_panels`: each iteration prefetches one cache line of packed columns
UNROLLED_STEPS = 4


def emit_contraction(em: Emitter, s: Contraction) -> None:
    """Emit a contraction: the blocks of columns with the blocks of rows, from packing to the epilogue."""
    _ContractionEmitter(em, s).emit()


class _ContractionEmitter:
    """A contraction being emitted: the loops, and the epilogue, the statements about the results.

    `rows`, `columns` and `steps` are each a begin and an end: indices of the left axis, of the right axis, and numbers of steps. A block is
    rows or columns computed at a time, and a panel is columns as wide as a tile. The states of a result are the running components of the
    reduction; they wait in memory for more steps or for the epilogue, row by row.
    """

    def __init__(self, em: Emitter, s: Contraction) -> None:
        self.em, self.statement = em, s
        self.accumulator = em.kernel.accumulators[s.accumulator]
        self.width = em.width
        self.tile_shape = em.target.contraction_tile(len(self.accumulator.state_dtypes))
        self.tile_height, self.tile_width = self.tile_shape.mr[0], self.tile_shape.nr * self.width
        self.has_short_epilogue = all(estimate_cost(e) <= em.target.costs.max_register_epilogue for e in iterate_expressions(s.body))
        self.in_one_pass = s.has_single_chunk and self.has_short_epilogue
        reads = dict.fromkeys(e for value in iterate_expressions(s.body) for e in walk(value) if isinstance(e, Load))
        # Loads with the layout of the results.
        result_loads = [e for e in reads if {s.left.axis, s.right.axis} <= {t.axis for t in e.address.terms}]
        # The accesses to prefetch before the steps of a tile.
        self.prefetched_accesses: list[Load | Store] = [] if self.has_short_epilogue else [*result_loads]
        if s.prefetch_axis >= 0:
            self.prefetched_accesses += [store for store in s.body if isinstance(store, Store)]
        half = self.width // 2 if em.target.has_cheap_half_vectors and not s.right.has_runs else self.width
        # A vector must not begin before its panel if packed elements or waiting states exist for a single panel only. Nor may it if a load
        # has the layout of the results, and so may read memory in which the panel before has put results.
        stays_in_panel = s.right.is_packed or s.right.is_read_in_runs or not self.in_one_pass or bool(result_loads)
        self.limits = ColumnLimits(self.tile_shape.nr, self.width, half, stays_in_panel)
        self.steps, self.steps_per_outer = self.count_steps(0), self.count_steps(1)
        self.packed_steps = self.steps  # steps that are packed at a time
        if s.has_step_blocks:
            with em.in_scope(0):
                self.packed_steps = em.load_size_parameter(s.step_block) * self.steps_per_outer
        self.states, left, right, offsets = self.allocate_scratch()
        self.panel_states = self.states  # the states of the present panel of columns
        self.is_symmetric = symmetric_results.emit_sides_equal(em, s)
        steps = self.steps, self.packed_steps
        make_panels = partial(panel_packing.Panels, em, has_step_pointers=s.prefetches_panels)
        self.left = make_panels(s.left, s.summed_axes, self.tile_height, steps, left)
        self.right = make_panels(s.right, s.summed_axes, self.tile_width, steps, right)
        for side in (self.left, self.right):
            if (side.side.has_runs or not side.side.is_packed) and len(s.summed_axes) > 1:
                offsets = side.store_step_offsets(offsets)
            if side.side.is_packed_once:
                with em.outside_loops():
                    side.pack(*em.loop_range(side.axis))

    def count_steps(self, outer: int) -> Value:
        """Emit the product of the extents of the summed axes, without the first `outer` axes, as a 64-bit integer.

        For `outer` = 0 this is K, the number of steps of the whole sum; for 1 the number of steps at each index of the first summed axis.
        """
        extents = [self.em.load_extent(axis) for axis in self.statement.summed_axes[outer:]]
        with self.em.in_scope(0):
            return reduce(mul, extents) if extents else self.em.builder.constant(I64, 1)

    def allocate_scratch(self) -> list[Value]:
        """Emit four pointers: to the waiting states, the left panels, the right panels, and the tables of the offsets of steps. Return them
        in this order.

        The memory is this thread's scratch memory. If states alone are needed, the stack is used, and the four pointers are equal.
        """
        em, s = self.em, self.statement
        state_bytes = 0 if self.in_one_pass else sum(d.itemsize for d in self.accumulator.state_dtypes)
        if not (s.left.is_packed or s.right.is_packed or s.has_step_blocks or s.right.is_read_in_runs) and len(s.summed_axes) == 1:
            address = em.allocate_on_stack(
                I8, (em.target.blocks.block_rows[1] + self.tile_height) * self.tile_width * state_bytes, "states"
            )
            return [address] * 4
        columns, line = em.load_size_parameter(s.right.block), em.target.caches.line_bytes
        address = em.scratch_address()
        with em.in_scope(0):
            columns = columns + self.tile_width
            rows, steps = self.padded_rows(), self.packed_steps + em.target.loops.register_transpose_side
            sizes = (
                rows * ((columns if s.has_step_blocks else self.tile_width) * state_bytes),
                rows * steps * (s.left.is_packed * panel_packing.count_packed_bytes(s.left)),
                (columns * steps if s.right.is_packed else s.right.is_read_in_runs * self.tile_width * STEPS_PER_CHUNK)
                * panel_packing.count_packed_bytes(s.right),
            )
            pointers = [address.cast("inttoptr", POINTER)]
            for size in sizes:
                address = (address + size + (line - 1)) & -line
                pointers.append(address.cast("inttoptr", POINTER))
        return pointers

    # Loops

    def emit(self) -> None:
        """Emit the loops over the blocks of columns and, inside, the blocks of rows, with the packing of each block."""
        em, s = self.em, self.statement
        rows, columns = em.loop_range(s.left.axis), em.loop_range(s.right.axis)
        if s.has_single_block:
            self.emit_unless_stopped(partial(self.emit_block, rows, columns))
            return

        def emit_column_block(column_begin: Value, column_end: Value) -> None:
            self.emit_unless_stopped(partial(emit_columns, column_begin, column_end))

        def emit_columns(column_begin: Value, column_end: Value) -> None:
            if not (s.right.is_packed_once or s.has_step_blocks):
                self.right.pack(column_begin, column_end)

            def emit_row_block(row_begin: Value, row_end: Value) -> None:
                if s.left.is_packed and not (s.left.is_packed_once or s.has_step_blocks):
                    # A single block of rows is still packed for the next columns, unless these need more of its rows.
                    em.continue_innermost()
                    missing = column_begin.equals(columns[0]) | (row_end - row_begin < rows[1] - rows[0])
                    if self.is_symmetric is not None:
                        missing |= self.is_symmetric
                    em.only_if(missing, lambda: self.left.pack(row_begin, row_end))
                emit_block = self.emit_steps_first if s.has_step_blocks else self.emit_block
                emit_block((row_begin, row_end), (column_begin, column_end))

            self.emit_blocks(s.left.axis, *self.rows_to_compute(rows, column_end), em.load_size_parameter(s.left.block), emit_row_block)

        self.emit_blocks(s.right.axis, *columns, em.load_size_parameter(s.right.block), emit_column_block)

    def emit_blocks(self, axis: int, begin: Value, end: Value, step: int | Value, body: Callable[[Value, Value], None]) -> None:
        """Emit a loop from `begin` to `end` over blocks of `step` indices of the axis number `axis`; the last block may have fewer.

        `body(block_begin, block_end)` emits the code for a block, given the first index of the block and the index behind the last.
        """
        em = self.em

        def emit_block(block_begin: Value) -> Value:
            em.continue_innermost()
            body(block_begin, select_smaller(end, block_begin + step))
            em.continue_innermost()
            return block_begin + step

        em.emit_loop(axis, begin, end, emit_block, binds_axis=False)

    def emit_unless_stopped(self, make: Callable[[], object]) -> None:
        """Emit the code that `make` emits, to run unless the stop flag of the kernel is set."""
        self.em.continue_innermost()
        self.em.only_if(self.em.load_stop_flag().equals(0), make)

    def emit_block(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit the contraction for a block of rows with a block of columns: for each panel of columns, the steps and then the epilogue.

        `rows` and `columns` are each a begin and an end, as 64-bit values.
        """
        s, zero, (block_begin, block_end) = self.statement, self.em.builder.constant(I64, 0), columns

        def emit_stoppable_panel(left: Value, right: Value) -> None:
            if s.has_single_block:
                emit_panel(left, right)
            else:
                self.emit_unless_stopped(partial(emit_panel, left, right))

        def emit_panel(left: Value, right: Value) -> None:
            def emit_steps(begin: Value, end: Value) -> None:
                self.emit_tiles(rows, (block_begin, left, right), (begin, end))

            if self.in_one_pass:
                emit_steps(zero, self.steps)
            else:
                self.emit_blocks(s.summed_axes[0], zero, self.steps, STEPS_PER_CHUNK, emit_steps)
            if not self.has_short_epilogue:
                self.emit_epilogue(self.rows_to_compute(rows, right), (left, right))
            self.emit_mirror(rows, (left, right))

        self.emit_blocks(s.right.axis, block_begin, block_end, self.tile_width, emit_stoppable_panel)

    def emit_steps_first(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit a block of rows with a block of columns, with the loop over steps outside of the loop over panels: for `s.has_step_blocks`.

        `rows` and `columns` are each a begin and an end, as 64-bit values. A stretch of steps is packed at a time. Within a stretch,
        `STEPS_PER_CHUNK` steps are done for every panel before the next steps.
        """
        em, s, zero, (block_begin, block_end) = self.em, self.statement, self.em.builder.constant(I64, 0), columns
        outer = s.summed_axes[0]
        row_bytes = sum(d.itemsize for d in self.accumulator.state_dtypes)

        def over_panels(emit_panel: Callable[[Value, Value], None]) -> None:
            def emit_for_panel(left: Value, right: Value) -> None:
                em.continue_innermost()
                self.panel_states = self.states.at((left - block_begin) * row_bytes * self.padded_rows(), I8)
                emit_panel(left, right)

            self.emit_blocks(s.right.axis, block_begin, block_end, self.tile_width, emit_for_panel)

        def emit_steps(*steps: Value) -> None:
            over_panels(lambda left, right: self.emit_tiles(rows, (block_begin, left, right), steps))  # type: ignore[arg-type]

        def emit_stretch(begin: Value, end: Value) -> None:
            def pack_and_emit() -> None:
                em.continue_innermost()
                numbers = begin * self.steps_per_outer, end * self.steps_per_outer
                for side, side_range in ((self.left, rows), (self.right, columns)):
                    side.packed_range, side.step_range = (begin, end), numbers
                    side.pack(*side_range)
                em.continue_innermost()
                self.emit_blocks(outer, *numbers, STEPS_PER_CHUNK, emit_steps)

            self.emit_unless_stopped(pack_and_emit)

        self.emit_blocks(outer, zero, em.load_extent(outer), em.load_size_parameter(s.step_block), emit_stretch)
        if not self.has_short_epilogue:
            over_panels(lambda left, right: self.emit_epilogue(self.rows_to_compute(rows, right), (left, right)))
        if self.is_symmetric is not None:
            over_panels(lambda left, right: self.emit_mirror(rows, (left, right)))

    def padded_rows(self) -> Value:
        """Emit the number of rows with room in memory: the rows of a block plus the rows of a tile."""
        return self.em.load_size_parameter(self.statement.left.block) + self.tile_height

    def rows_to_compute(self, rows: tuple[Value, Value], right: Value) -> tuple[Value, Value]:
        """Emit and return the begin and the end of the rows to compute for a panel of columns that ends before column `right`.

        `rows` are the begin and the end of the block, which are returned. But if the results turn out symmetric at run time, the end is
        `right` if that is less.
        """
        if self.is_symmetric is None:
            return rows
        self.em.continue_innermost()
        return rows[0], select(self.is_symmetric, select_smaller(rows[1], right), rows[1])

    def emit_mirror(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit the copy of a block's results in the panel `columns` to the other side of the diagonal, to run if results are symmetric.

        `rows` and `columns` are each a begin and an end. Emit nothing if results are never symmetric (`self.is_symmetric` is None).
        """
        if self.is_symmetric is not None:
            self.em.continue_innermost()
            upper_rows = self.rows_to_compute(rows, columns[1])
            self.em.only_if(self.is_symmetric, lambda: symmetric_results.emit_mirror_copy(self.em, self.statement, upper_rows, columns))

    def emit_tiles(self, rows: tuple[Value, Value], columns: tuple[Value, Value, Value], steps: tuple[Value, Value]) -> None:
        """Emit some steps of every tile in a panel of columns, and the epilogue after the last step if it is short.

        `rows` are the begin and the end of the block's rows, and `steps` of the steps. `columns` are the first column of the block, and the
        begin and the end of the panel. The last rows take a tile of fewer rows.
        """
        em, (block_begin, left, right) = self.em, columns
        rows = top, bottom = self.rows_to_compute(rows, right)

        def emit_all_rows(columns: ColumnVectors) -> None:
            em.continue_innermost()
            starts = [left + offset if isinstance(offset, Value) or offset else left for offset in columns.offsets]
            masks: list[Value | None] = [None] * len(starts)
            # Only the last vector may be partial. Its mask is made here: in the tiles LLVM would compute the mask again, and delay the
            # stores.
            if not columns.has_all_lanes:
                masks[-1:] = mask_lanes_before(right, starts[-1], 1, columns.width)
            read_columns = self.right.make_column_reader((left, right), columns, masks, block_begin, steps)
            tile_columns = _TileColumns(columns, starts, masks, read_columns, (block_begin, left))
            row: Value = top
            for k, mr in enumerate(self.tile_shape.mr):
                is_last = k + 1 == len(self.tile_shape.mr)

                def emit_tile(i: Value, mr: int = mr, has_all_rows: bool = not is_last) -> Value:
                    _Tile(self, (mr, has_all_rows), tile_columns, rows, right, i, steps).emit()
                    em.continue_innermost()
                    return i + mr

                row = em.emit_loop(self.statement.left.axis, row, bottom, emit_tile, min_remaining=1 if is_last else mr, binds_axis=False)

        for fits, vectors in cover_columns(em, self.right, self.limits, (left, right), block_begin):
            em.only_if(fits, partial(emit_all_rows, vectors))
            em.continue_innermost()

    def state_pointer(self, part_number: int, top: Value, row: Value) -> Value:
        """Emit the pointer to the states of row `row` in the present panel, which wait in memory for more steps, at the first column.

        A state has several components: the pointer is to component `part_number`. The block begins at row `top`.
        """
        size = self.accumulator.state_dtypes[part_number].itemsize
        bytes_before = self.tile_width * sum(d.itemsize for d in self.accumulator.state_dtypes[:part_number])
        start = self.panel_states
        if bytes_before:
            start = start.at(self.padded_rows() * bytes_before, I8)
        return start.at((row - top) * (self.tile_width * size), I8)

    def emit_epilogue(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit the epilogue for rows in a panel of columns, row by row. The final states of the results are read from memory.

        `rows` and `columns` are each a begin and an end, as 64-bit values.
        """
        em, s = self.em, self.statement
        em.axis_ranges[s.left.axis] = AxisRange(*rows, 0)
        em.axis_ranges[s.right.axis] = AxisRange(*columns, self.tile_width)
        em.state_rows[s.accumulator] = self.state_row_pointers
        em.emit_statement(For(s.left.axis, (For(s.right.axis, s.body),)))
        del em.axis_ranges[s.left.axis], em.axis_ranges[s.right.axis], em.state_rows[s.accumulator]

    def state_row_pointers(self) -> list[Value]:
        """Emit pointers to the states of the present row of the loop over rows: a pointer for each component of the reduction's state."""
        em, axis = self.em, self.statement.left.axis
        top, row = em.axis_ranges[axis].begin, em.index(axis)
        part_numbers = range(len(self.accumulator.state_dtypes))
        return em.emit_once(
            em.depth_of_axis(axis),
            ("state row", self.statement.accumulator),
            lambda: [self.state_pointer(part_number, top, row) for part_number in part_numbers],
        )


class _PreparedWrite(NamedTuple):
    """A store of an epilogue whose value is emitted already: `emit` emits the write, when `em.lanes` is `lanes`."""

    lanes: Lanes
    emit: Callable[[], None]


class _TileColumns(NamedTuple):
    """The columns of the tiles in a panel: their vectors, the first column of each vector, and a mask for each.

    The mask of a whole vector is None. `read_columns` emits loads of the elements. `panel` has the first column of the block and of the
    panel.
    """

    columns: ColumnVectors
    starts: list[Value]
    masks: ColumnMasks
    read_columns: panel_packing.ReadColumns
    panel: tuple[Value, Value]


class _Tile:
    """A tile of a contraction in registers: `mr` rows from row `i` on, of `nr` vectors each, over a range of steps.

    Columns from `right` on are masked off. `height` is the pair of `mr` and a flag: whether the block contains the whole tile. `rows`
    are the begin and the end of the rows of the block, and `steps` the begin and the end of the steps.
    """

    def __init__(
        self,
        product: _ContractionEmitter,
        height: tuple[int, bool],
        tile_columns: _TileColumns,
        rows: tuple[Value, Value],
        right: Value,
        i: Value,
        steps: tuple[Value, Value],
    ) -> None:
        self.contraction, self.em, self.statement = product, product.em, product.statement
        (self.mr, self.has_all_rows), self.tile_columns = height, tile_columns
        self.nr, self.width = len(tile_columns.masks), tile_columns.columns.width
        self.first_row, self.steps, self.right = i, steps, right
        self.block_top, self.block_bottom = rows

    def emit(self) -> None:
        """Emit the steps of the tile, and then its epilogue, or the store of its states.

        The epilogue comes here if it is short (`has_short_epilogue`), after the last steps: this is tested at run time, unless there is a
        single pass. Otherwise the states are stored. They wait in memory for more steps, or for the epilogue of a block.
        """
        em, s, results = self.em, self.statement, self.mr * self.nr
        em.lanes = Lanes(s.right.axis, self.width, self.nr)
        accumulator = self.contraction.accumulator
        identity = accumulator.reduction.identity(accumulator.state_dtypes)
        start = [em.vector_value(e)[:1] * results for e in identity]
        em.states[s.accumulator] = start
        read_rows = self.contraction.left.make_row_reader(
            self.first_row, self.block_bottom, self.mr, self.block_top, has_all_rows=self.has_all_rows
        )
        fixed = {e: em.vector_value(e)[:1] * self.nr for v in s.values for e in walk(v) if _is_step_invariant(e)}

        columns = [Factor(1, index, e.dtype) for index, e in enumerate(s.right.values)]
        rows = [Factor(0, index, e.dtype) for index, e in enumerate(s.left.values)]
        states = [State(s.accumulator, part_number, dtype) for part_number, dtype in enumerate(accumulator.state_dtypes)]
        prefetchers: list[EmitPrefetch] = []
        if s.prefetches_panels:
            rows_before = self.first_row - self.block_top, self.block_bottom - self.block_top
            panel = self.tile_columns.panel
            prefetchers.append(make_panel_prefetcher(em, self.contraction.right, panel, rows_before, self.steps, UNROLLED_STEPS))
        if s.prefetch_axis >= 0:
            prefetchers.append(make_row_prefetcher(em, self.contraction.left, s.prefetch_axis, self.first_row, self.mr))
            prefetchers.append(
                make_column_prefetcher(em, self.contraction.right, s.prefetch_axis, self.tile_columns.starts[0], self.nr * self.width)
            )

        def emit_iteration(step_count: int, k: Value) -> Value:
            for emit_prefetch in prefetchers:
                emit_prefetch(k)
            load_element, load_vectors = read_rows(k), self.tile_columns.read_columns(k)
            for step in range(step_count):
                of_column: dict[Expr, ValueVectors] = {**fixed, **{f: load_vectors(step, f.index) for f in columns}}
                old = em.states[s.accumulator]
                new: list[ValueVectors] = [[] for _ in s.values]
                for row in range(self.mr):
                    row_slice = slice(row * self.nr, (row + 1) * self.nr)
                    values = dict(of_column)
                    for f in rows:
                        # Every other row has a load for each multiply-add, which LLVM makes a part of it: an instruction less
                        load_count = self.nr if step_count > 1 and row % 2 == 0 else 1
                        elements = [load_element(step, f.index, row, n).splat(self.width) for n in range(load_count)]
                        values[f] = elements * (self.nr // load_count)
                    for state in states:
                        values[state] = old[state.component][row_slice]
                    for part_number, value in enumerate(s.values):
                        new[part_number] += emit_next_state(em, value, values)
                em.states[s.accumulator] = new
                em.continue_innermost()
            return k + step_count

        if not self.contraction.in_one_pass:
            self.prefetch_states()
        self.prefetch_accesses()
        begin, end = self.steps
        for step_count in (UNROLLED_STEPS, 1) if s.prefetches_panels else (1,):
            emit_some = partial(emit_iteration, step_count)
            begin = em.emit_loop(
                s.summed_axes[0], begin, end, emit_some, min_remaining=step_count, accumulators=[s.accumulator], binds_axis=False
            )
        if self.contraction.in_one_pass:
            self.emit_epilogue()
        else:
            pointers = self.combine_states(start)
            if self.contraction.has_short_epilogue:
                em.continue_innermost()
                has_more_steps = self.steps[1] < self.contraction.steps
                em.only_if(has_more_steps, lambda: self.store_states(pointers))
                em.continue_innermost()
                em.only_if(~has_more_steps, self.emit_epilogue)
            else:
                self.store_states(pointers)
        em.lanes = None

    def emit_epilogue(self) -> None:
        """Emit the epilogue of each row of the tile in the block, straight from the states in registers."""
        em = self.em
        states = em.states[self.statement.accumulator]
        for row in range(self.mr):
            em.continue_innermost()
            i = self.first_row + row if row else self.first_row
            row_states = [vectors[row * self.nr :][: self.nr] for vectors in states]
            if self.has_all_rows or not row:
                self.emit_epilogue_row(i, row_states)
            else:
                em.only_if(i < self.block_bottom, partial(self.emit_epilogue_row, i, row_states))

    def emit_epilogue_row(self, i: Value, states: list[ValueVectors]) -> None:
        """Emit the epilogue for row `i` with its final `states`, for each component the vectors of the row.

        The reads come before the first write, as vectors may overlap.
        """
        em, s = self.em, self.statement
        writes: list[_PreparedWrite] = []
        with em.at_index(s.left.axis, i):
            for u, (j, mask) in enumerate(zip(self.tile_columns.starts, self.tile_columns.masks, strict=True)):
                with em.at_index(s.right.axis, j):
                    em.lanes = Lanes(s.right.axis, self.width, 1)
                    if mask is not None:
                        working = self.right - j
                        em.lanes = Lanes(s.right.axis, self.width, 1, is_masked=True, mask=mask, active_count=working)
                    vector_states = [vectors[u : u + 1] for vectors in states]
                    em.states[s.accumulator], em.results[s.accumulator] = vector_states, (len(em.scopes) - 1, vector_states)
                    for store in s.body:
                        assert isinstance(store, Store)
                        writes.append(_PreparedWrite(em.lanes, prepare_store(em, store)))
            for write in writes:
                em.lanes = write.lanes
                em.continue_innermost()
                write.emit()

    def state_pointers(self) -> list[Value]:
        """Emit pointers to the states of the tile's first row, which wait in memory: a pointer for each component of the state."""
        return [
            self.contraction.state_pointer(k, self.block_top, self.first_row)
            for k, _ in enumerate(self.contraction.accumulator.state_dtypes)
        ]

    def prefetch_states(self) -> None:
        """Emit a prefetch of the tile's states, which wait in memory from earlier steps; the steps take long enough for the states to
        arrive.
        """
        for pointer, dtype in zip(self.state_pointers(), self.contraction.accumulator.state_dtypes, strict=True):
            self.em.continue_innermost()
            prefetch(pointer, self.mr * self.contraction.tile_width * dtype.itemsize, I8, to_write=True)

    def prefetch_accesses(self) -> None:
        """Emit a prefetch of the lines to read or write with the results, row by row.

        A processor could not predict the addresses in time: the line of each row is in another part of memory.
        """
        em, s = self.em, self.statement
        for row in range(self.mr) if self.contraction.prefetched_accesses else ():
            em.continue_innermost()
            i = self.first_row + row if row else self.first_row
            with em.at_index(s.left.axis, i), em.at_index(s.right.axis, self.tile_columns.starts[0]):
                for e in self.contraction.prefetched_accesses:
                    prefetch_lanes(em, e)

    def combine_states(self, start: list[ValueVectors]) -> list[ValueVectors]:
        """Emit the combination of `em.states` with the states of earlier steps, which wait in memory. The new states are in `em.states`.

        In the first steps nothing waits yet: the states are combined with the identity `start` instead. Return pointers to the waiting
        states: for each component, a pointer for each vector of the tile.
        """
        em, accumulator = self.em, self.contraction.accumulator
        em.continue_innermost()
        later = (self.steps[0] > 0).splat(self.width)
        offsets = [(row * self.contraction.tile_width, offset) for row in range(self.mr) for offset in self.tile_columns.columns.offsets]
        pointers = [
            [row_start.at(row, memory_type(dtype)).at(offset, memory_type(dtype)) for row, offset in offsets]
            for row_start, dtype in zip(self.state_pointers(), accumulator.state_dtypes, strict=True)
        ]
        old_states = [
            [select(later, load(pointer, dtype, self.width), identity) for pointer, identity in zip(part_pointers, identities, strict=True)]
            for part_pointers, dtype, identities in zip(pointers, accumulator.state_dtypes, start, strict=True)
        ]
        k = self.statement.accumulator
        em.states[k] = reduction_states.combine_states(em, k, old_states, em.states[k])
        return pointers

    def store_states(self, pointers: list[ValueVectors]) -> None:
        """Emit the store of the states at the `pointers` from `combine_states`, to wait for more steps or for the epilogue."""
        states = self.em.states[self.statement.accumulator]
        for part_pointers, vectors, dtype in zip(pointers, states, self.contraction.accumulator.state_dtypes, strict=True):
            store_elements(part_pointers, dtype, vectors)


def _is_step_invariant(e: Expr) -> bool:
    """Return whether `e` is a leaf of a step's formula, other than a constant, with the same value in every step."""
    return not isinstance(e, (Call, Const, Factor, State))
