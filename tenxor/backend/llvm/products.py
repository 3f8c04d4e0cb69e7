"""Emit products: blocks of results in registers, from packed pieces of both sides.

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

from ...kernel.ir import Factor, For, Load, Product, State, Store, expressions, walk, work
from ...kernel.pairs import AT_ONCE
from ...ops.expr import Call, Const, Expr
from ...records import NamedTuple
from . import mirror, packing, reductions
from .access import prefetch, prefetch_lanes, ready
from .ahead import columns_ahead, rows_ahead
from .builder import Value, select, smaller
from .columns import Taken, ways
from .emitter import Emitter
from .memory import lanes_before
from .packing import Columns, Masks
from .rows import stored
from .scopes import Lanes, Parts, Span
from .terms import next_state
from .types import I8, I64, POINTER
from .values import load, memory_type


def product(em: Emitter, s: Product) -> None:
    """Emit a product: the blocks of columns with the blocks of rows, from packing to the epilogue."""
    _ProductEmitter(em, s).emit()


class _ProductEmitter:
    """A product being emitted: the loops, and the epilogue, the statements about the results."""

    def __init__(self, em: Emitter, s: Product) -> None:
        self.em, self.s = em, s
        self.accumulator = em.kernel.accumulators[s.accumulator]
        self.width = em.width
        self.tile = em.target.tile(len(self.accumulator.states))
        self.tile_height, self.tile_width = self.tile.mr[0], self.tile.nr * self.width
        self.has_short_epilogue = all(work(e) <= em.target.costs.direct for e in expressions(s.body))
        self.in_one_pass = s.once and self.has_short_epilogue
        reads = dict.fromkeys(e for value in expressions(s.body) for e in walk(value) if isinstance(e, Load))
        # Loads with the layout of the results.
        result_loads = [e for e in reads if {s.left.axis, s.right.axis} <= {t.axis for t in e.address.terms}]
        # The accesses to prefetch before the steps of a tile.
        self.prefetched_accesses: list[Load | Store] = [] if self.has_short_epilogue else [*result_loads]
        if s.ahead >= 0:
            self.prefetched_accesses += [store for store in s.body if isinstance(store, Store)]
        half = self.width // 2 if em.target.halves and not s.right.runs else self.width
        # A vector must not begin before its panel if packed elements or waiting states exist for a single panel only. Nor may it if a load
        # has the layout of the results, and so may read memory in which the panel before has put results.
        stays_in_panel = s.right.packed or s.right.in_runs or not self.in_one_pass or bool(result_loads)
        self.limits = Taken(self.tile.nr, self.width, half, stays_in_panel)
        self.steps, self.steps_per_outer = self.count_steps(0), self.count_steps(1)
        self.packed_steps = self.steps  # steps that are packed at a time
        if s.steps_first:
            with em.within(0):
                self.packed_steps = em.size(s.stretch) * self.steps_per_outer
        self.states, left, right, offsets = self.allocate_scratch()
        self.panel_states = self.states  # the states of the present panel of columns
        self.symmetric = mirror.are_same(em, s)
        steps = self.steps, self.packed_steps
        self.left = packing.Panels(em, s.left, s.summed, self.tile_height, steps, left)
        self.right = packing.Panels(em, s.right, s.summed, self.tile_width, steps, right)
        for side in (self.left, self.right):
            if (side.side.runs or not side.side.packed) and len(s.summed) > 1:
                offsets = side.number_steps(offsets)
            if side.side.fixed:
                with em.outside():
                    side.fill(*em.range(side.axis))

    def count_steps(self, outer: int) -> Value:
        """Emit the number of steps at each index of the first `outer` summed axes; all steps (K) for 0 axes."""
        extents = [self.em.extent(axis) for axis in self.s.summed[outer:]]
        with self.em.within(0):
            return reduce(mul, extents) if extents else self.em.b.constant(I64, 1)

    def allocate_scratch(self) -> list[Value]:
        """Emit pointers to the waiting states, the left panels, the right panels and the tables of steps.

        The memory is this thread's scratch memory, or the stack if only states are needed.
        """
        em, s = self.em, self.s
        state_bytes = 0 if self.in_one_pass else sum(d.itemsize for d in self.accumulator.states)
        if not (s.left.packed or s.right.packed or s.steps_first or s.right.in_runs) and len(s.summed) == 1:
            address = em.on_stack(I8, (em.target.blocks.rows[1] + self.tile_height) * self.tile_width * state_bytes, "states")
            return [address] * 4
        columns, line = em.size(s.right.block), em.target.caches.line
        address = em.scratch()
        with em.within(0):
            columns = columns + self.tile_width
            rows, steps = self.padded_rows(), self.packed_steps + em.target.loops.square
            sizes = (
                rows * ((columns if s.steps_first else self.tile_width) * state_bytes),
                rows * steps * (s.left.packed * packing.bytes_of(s.left)),
                (columns * steps if s.right.packed else s.right.in_runs * self.tile_width * AT_ONCE) * packing.bytes_of(s.right),
            )
            pointers = [address.cast("inttoptr", POINTER)]
            for size in sizes:
                address = (address + size + (line - 1)) & -line
                pointers.append(address.cast("inttoptr", POINTER))
        return pointers

    # Loops

    def emit(self) -> None:
        """Emit the blocks of columns with the blocks of rows."""
        em, s = self.em, self.s
        rows, columns = em.range(s.left.axis), em.range(s.right.axis)
        if s.at_once:
            self.emit_unless_stopped(partial(self.emit_block, rows, columns))
            return

        def emit_column_block(first: Value, last: Value) -> None:
            self.emit_unless_stopped(partial(emit_columns, first, last))

        def emit_columns(first: Value, last: Value) -> None:
            if not (s.right.fixed or s.steps_first):
                self.right.fill(first, last)

            def emit_row_block(top: Value, bottom: Value) -> None:
                if s.left.packed and not (s.left.fixed or s.steps_first):
                    # A single block of rows is still packed for the next columns, unless these need more of its rows.
                    em.inmost()
                    missing = first.equals(columns[0]) | (bottom - top < rows[1] - rows[0])
                    if self.symmetric is not None:
                        missing |= self.symmetric
                    em.only_if(missing, lambda: self.left.fill(top, bottom))
                emit_block = self.emit_steps_first if s.steps_first else self.emit_block
                emit_block((top, bottom), (first, last))

            self.emit_blocks(s.left.axis, *self.rows_to_compute(rows, last), em.size(s.left.block), emit_row_block)

        self.emit_blocks(s.right.axis, *columns, em.size(s.right.block), emit_column_block)

    def emit_blocks(
        self, axis: int, begin: Value, end: Value, step: int | Value, body: Callable[[Value, Value], None]
    ) -> None:
        """Emit the code of `body` for blocks of an axis, `step` indices apart."""
        em = self.em

        def emit_block(first: Value) -> Value:
            em.inmost()
            body(first, smaller(end, first + step))
            em.inmost()
            return first + step

        em.repeated(axis, begin, end, emit_block, inside=False)

    def emit_unless_stopped(self, make: Callable[[], object]) -> None:
        """Emit the code of `make`, to run unless the kernel must stop."""
        self.em.inmost()
        self.em.only_if(self.em.stopped().equals(0), make)

    def emit_block(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit a block of rows with a block of columns."""
        s, zero, (block_begin, block_end) = self.s, self.em.b.constant(I64, 0), columns

        def emit_stoppable_panel(left: Value, right: Value) -> None:
            if s.at_once:
                emit_panel(left, right)
            else:
                self.emit_unless_stopped(partial(emit_panel, left, right))

        def emit_panel(left: Value, right: Value) -> None:
            def emit_steps(begin: Value, end: Value) -> None:
                self.emit_tiles(rows, (block_begin, left, right), (begin, end))

            if self.in_one_pass:
                emit_steps(zero, self.steps)
            else:
                self.emit_blocks(s.summed[0], zero, self.steps, AT_ONCE, emit_steps)
            if not self.has_short_epilogue:
                self.emit_epilogue(self.rows_to_compute(rows, right), (left, right))
            self.emit_mirror(rows, (left, right))

        self.emit_blocks(s.right.axis, block_begin, block_end, self.tile_width, emit_stoppable_panel)

    def emit_steps_first(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit a block of rows with a block of columns; the loop over steps is outside the loop over panels.

        A stretch of steps is packed at a time. Within a stretch, some hundred steps are done for every panel before the next steps.
        """
        em, s, zero, (block_begin, block_end) = self.em, self.s, self.em.b.constant(I64, 0), columns
        outer = s.summed[0]
        row_bytes = sum(d.itemsize for d in self.accumulator.states)

        def over_panels(emit_panel: Callable[[Value, Value], None]) -> None:
            def emit_for_panel(left: Value, right: Value) -> None:
                em.inmost()
                self.panel_states = self.states.at((left - block_begin) * row_bytes * self.padded_rows(), I8)
                emit_panel(left, right)

            self.emit_blocks(s.right.axis, block_begin, block_end, self.tile_width, emit_for_panel)

        def emit_steps(*steps: Value) -> None:
            over_panels(lambda left, right: self.emit_tiles(rows, (block_begin, left, right), steps))  # type: ignore[arg-type]

        def emit_stretch(begin: Value, end: Value) -> None:
            def pack_and_emit() -> None:
                em.inmost()
                numbers = begin * self.steps_per_outer, end * self.steps_per_outer
                for side, side_range in ((self.left, rows), (self.right, columns)):
                    side.span, side.numbers = (begin, end), numbers
                    side.fill(*side_range)
                em.inmost()
                self.emit_blocks(outer, *numbers, AT_ONCE, emit_steps)

            self.emit_unless_stopped(pack_and_emit)

        self.emit_blocks(outer, zero, em.extent(outer), em.size(s.stretch), emit_stretch)
        if not self.has_short_epilogue:
            over_panels(lambda left, right: self.emit_epilogue(self.rows_to_compute(rows, right), (left, right)))
        if self.symmetric is not None:
            over_panels(lambda left, right: self.emit_mirror(rows, (left, right)))

    def padded_rows(self) -> Value:
        """Emit the number of rows of a block, plus those of a tile."""
        return self.em.size(self.s.left.block) + self.tile_height

    def rows_to_compute(self, rows: tuple[Value, Value], right: Value) -> tuple[Value, Value]:
        """Emit the rows of a block to compute for a panel of columns up to `right`: with symmetric results, only the rows before `right`.
        """
        if self.symmetric is None:
            return rows
        self.em.inmost()
        return rows[0], select(self.symmetric, smaller(rows[1], right), rows[1])

    def emit_mirror(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit the copy of a block's results in a panel to the other side of the diagonal, to run if the results are symmetric."""
        if self.symmetric is not None:
            self.em.inmost()
            upper_rows = self.rows_to_compute(rows, columns[1])
            self.em.only_if(self.symmetric, lambda: mirror.copied(self.em, self.s, upper_rows, columns))

    def emit_tiles(self, rows: tuple[Value, Value], columns: tuple[Value, Value, Value], steps: tuple[Value, Value]) -> None:
        """Emit the given steps of the tiles in a panel of columns; the last rows take a lower tile.

        `columns` are the first column of the block, and the begin and the end of the panel.
        """
        em, (block_begin, left, right) = self.em, columns
        rows = top, bottom = self.rows_to_compute(rows, right)

        def emit_all_rows(columns: Columns) -> None:
            em.inmost()
            starts = [left + offset if isinstance(offset, Value) or offset else left for offset in columns.offsets]
            masks: list[Value | None] = [None] * len(starts)
            # Only the last vector may be partial. Its mask is made here: in the tiles LLVM would compute the mask again, and delay the
            # stores.
            if not columns.whole:
                masks[-1:] = lanes_before(right, starts[-1], 1, columns.width)
            tile_columns = _TileColumns(columns, starts, masks, self.right.columns((left, right), columns, masks, block_begin, steps))
            row: Value = top
            for k, mr in enumerate(self.tile.mr):
                is_last = k + 1 == len(self.tile.mr)

                def emit_tile(i: Value, mr: int = mr, has_all_rows: bool = not is_last) -> Value:
                    _Tile(self, (mr, has_all_rows), tile_columns, rows, right, i, steps).emit()
                    em.inmost()
                    return i + mr

                row = em.repeated(self.s.left.axis, row, bottom, emit_tile, needs=1 if is_last else mr, inside=False)

        for fits, vectors in ways(em, self.right, self.limits, (left, right), block_begin):
            em.only_if(fits, partial(emit_all_rows, vectors))
            em.inmost()

    def state_pointer(self, part_number: int, top: Value, row: Value) -> Value:
        """Emit the pointer to part `part_number` of the states of a row; `top` is the first row of the block."""
        size = self.accumulator.states[part_number].itemsize
        bytes_before = self.tile_width * sum(d.itemsize for d in self.accumulator.states[:part_number])
        start = self.panel_states
        if bytes_before:
            start = start.at(self.padded_rows() * bytes_before, I8)
        return start.at((row - top) * (self.tile_width * size), I8)

    def emit_epilogue(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """Emit the epilogue for a block of rows in a panel of columns, row by row."""
        em, s = self.em, self.s
        em.spans[s.left.axis] = Span(*rows, 0)
        em.spans[s.right.axis] = Span(*columns, self.tile_width)
        em.state_rows[s.accumulator] = self.state_row_pointers
        em.statement(For(s.left.axis, (For(s.right.axis, s.body),)))
        del em.spans[s.left.axis], em.spans[s.right.axis], em.state_rows[s.accumulator]

    def state_row_pointers(self) -> list[Value]:
        """Emit pointers to the states of the loop's present row, part by part."""
        em, axis = self.em, self.s.left.axis
        top, row = em.spans[axis].begin, em.index(axis)
        part_numbers = range(len(self.accumulator.states))
        return em.once(
            em.scope_of(axis),
            ("state row", self.s.accumulator),
            lambda: [self.state_pointer(part_number, top, row) for part_number in part_numbers],
        )


class _TileColumns(NamedTuple):
    """The columns of the tiles in a panel: their vectors, the first column of each vector, and a mask for each.

    The mask of a whole vector is None. `loaded` emits loads of the elements.
    """

    columns: Columns
    starts: list[Value]
    masks: Masks
    loaded: packing.Vectors


class _Tile:
    """A range of steps of a tile in registers: `mr` rows from row `i` on, of `nr` vectors, with columns before `right`.

    With `has_all_rows`, all rows of the tile are in the block.
    """

    def __init__(
        self,
        product: _ProductEmitter,
        height: tuple[int, bool],
        tile_columns: _TileColumns,
        rows: tuple[Value, Value],
        right: Value,
        i: Value,
        steps: tuple[Value, Value],
    ) -> None:
        self.product, self.em, self.s = product, product.em, product.s
        (self.mr, self.has_all_rows), self.tile_columns = height, tile_columns
        self.nr, self.width = len(tile_columns.masks), tile_columns.columns.width
        self.i, self.steps, self.right = i, steps, right
        self.top, self.bottom = rows

    def emit(self) -> None:
        """Emit the steps of the tile, and then the epilogue or the store of the states."""
        em, s, results = self.em, self.s, self.mr * self.nr
        em.lanes = Lanes(s.right.axis, self.width, self.nr)
        accumulator = self.product.accumulator
        identity = accumulator.reduction.identity(accumulator.states)
        start = [em.in_lanes(e)[:1] * results for e in identity]
        em.states[s.accumulator] = start
        left = self.product.left.rows(self.i, self.bottom, self.mr, self.top, whole=self.has_all_rows)
        fixed = {e: em.in_lanes(e)[:1] * self.nr for v in s.values for e in walk(v) if _is_step_invariant(e)}

        columns = [Factor(1, index, e.dtype) for index, e in enumerate(s.right.values)]
        rows = [Factor(0, index, e.dtype) for index, e in enumerate(s.left.values)]
        states = [State(s.accumulator, part_number, dtype) for part_number, dtype in enumerate(accumulator.states)]
        prefetchers = []
        if s.ahead >= 0:
            prefetchers.append(rows_ahead(em, self.product.left, s.ahead, self.i, self.mr))
            prefetchers.append(columns_ahead(em, self.product.right, s.ahead, self.tile_columns.starts[0], self.nr * self.width))

        def emit_step(k: Value) -> Value:
            for emit_prefetch in prefetchers:
                emit_prefetch(k)
            of_column: dict[Expr, Parts] = {**fixed, **{f: self.tile_columns.loaded(k, f.index) for f in columns}}
            old = em.states[s.accumulator]
            new: list[Parts] = [[] for _ in s.values]
            for row in range(self.mr):
                row_slice = slice(row * self.nr, (row + 1) * self.nr)
                values = dict(of_column)
                for f in rows:
                    values[f] = [left(k, f.index, row).splat(self.width)] * self.nr
                for state in states:
                    values[state] = old[state.part][row_slice]
                for part_number, value in enumerate(s.values):
                    new[part_number] += next_state(em, value, values)
            em.states[s.accumulator] = new
            em.inmost()
            return k + 1

        if not self.product.in_one_pass:
            self.prefetch_states()
        self.prefetch_accesses()
        em.repeated(s.summed[0], *self.steps, emit_step, accumulators=[s.accumulator], inside=False)
        if self.product.in_one_pass:
            self.emit_epilogue()
        else:
            pointers = self.combine_states(start)
            if self.product.has_short_epilogue:
                em.inmost()
                has_more_steps = self.steps[1] < self.product.steps
                em.only_if(has_more_steps, lambda: self.store_states(pointers))
                em.inmost()
                em.only_if(~has_more_steps, self.emit_epilogue)
            else:
                self.store_states(pointers)
        em.lanes = None

    def emit_epilogue(self) -> None:
        """Emit the epilogue straight from the registers, vector by vector."""
        em = self.em
        states = em.states[self.s.accumulator]
        for row in range(self.mr):
            em.inmost()
            i = self.i + row if row else self.i
            row_states = [vectors[row * self.nr :][: self.nr] for vectors in states]
            if self.has_all_rows or not row:
                self.emit_epilogue_row(i, row_states)
            else:
                em.only_if(i < self.bottom, partial(self.emit_epilogue_row, i, row_states))

    def emit_epilogue_row(self, i: Value, states: list[Parts]) -> None:
        """Emit the epilogue for a row. The reads come before the first write, as vectors may overlap."""
        em, s = self.em, self.s
        writes: list[tuple[Lanes, Callable[[], None]]] = []
        with em.standing(s.left.axis, i):
            for u, (j, mask) in enumerate(zip(self.tile_columns.starts, self.tile_columns.masks, strict=True)):
                with em.standing(s.right.axis, j):
                    em.lanes = Lanes(s.right.axis, self.width, 1)
                    if mask is not None:
                        working = self.right - j
                        em.lanes = Lanes(s.right.axis, self.width, 1, masked=True, mask=mask, working=working)
                    vector_states = [vectors[u : u + 1] for vectors in states]
                    em.states[s.accumulator], em.results[s.accumulator] = vector_states, (len(em.scopes) - 1, vector_states)
                    for store in s.body:
                        assert isinstance(store, Store)
                        writes.append((em.lanes, ready(em, store)))
            for lanes, write in writes:
                em.lanes = lanes
                em.inmost()
                write()

    def state_pointers(self) -> list[Value]:
        """Emit pointers to the waiting states of the tile's first row, part by part."""
        return [self.product.state_pointer(k, self.top, self.i) for k, _ in enumerate(self.product.accumulator.states)]

    def prefetch_states(self) -> None:
        """Emit a prefetch of the waiting states, which the steps leave time for."""
        for pointer, dtype in zip(self.state_pointers(), self.product.accumulator.states, strict=True):
            self.em.inmost()
            prefetch(pointer, self.mr * self.product.tile_width * dtype.itemsize, I8, to_write=True)

    def prefetch_accesses(self) -> None:
        """Emit a prefetch of the lines to read or write with the results, row by row.

        A processor could not predict the addresses in time: the line of each row is in another part of memory.
        """
        em, s = self.em, self.s
        for row in range(self.mr) if self.product.prefetched_accesses else ():
            em.inmost()
            i = self.i + row if row else self.i
            with em.standing(s.left.axis, i), em.standing(s.right.axis, self.tile_columns.starts[0]):
                for e in self.product.prefetched_accesses:
                    prefetch_lanes(em, e)

    def combine_states(self, start: list[Parts]) -> list[Parts]:
        """Emit the combination of the states with those of earlier steps, if there are any. Return pointers to the earlier states."""
        em, accumulator = self.em, self.product.accumulator
        em.inmost()
        later = (self.steps[0] > 0).splat(self.width)
        offsets = [(row * self.product.tile_width, offset) for row in range(self.mr) for offset in self.tile_columns.columns.offsets]
        pointers = [
            [row_start.at(row, memory_type(dtype)).at(offset, memory_type(dtype)) for row, offset in offsets]
            for row_start, dtype in zip(self.state_pointers(), accumulator.states, strict=True)
        ]
        old_states = [
            [
                select(later, load(pointer, dtype, self.width), identity)
                for pointer, identity in zip(part_pointers, identities, strict=True)
            ]
            for part_pointers, dtype, identities in zip(pointers, accumulator.states, start, strict=True)
        ]
        k = self.s.accumulator
        em.states[k] = reductions.combined(em, k, old_states, em.states[k])
        return pointers

    def store_states(self, pointers: list[Parts]) -> None:
        """Emit the store of the states, to wait for more steps or for the epilogue."""
        states = self.em.states[self.s.accumulator]
        for part_pointers, vectors, dtype in zip(pointers, states, self.product.accumulator.states, strict=True):
            stored(part_pointers, dtype, vectors)


def _is_step_invariant(e: Expr) -> bool:
    """Return whether a leaf has the same value in all steps."""
    return not isinstance(e, (Call, Const, Factor, State))
