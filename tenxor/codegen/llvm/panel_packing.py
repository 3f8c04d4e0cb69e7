"""The two sides of a contraction as its tiles read them: packed in panels, or where they are stored.

A panel has as many indices of the side's axis as a tile is high or wide (MR or NR). It holds one step after another, K in all. In each step
the panel's elements lie side by side, so a tile reads the panel from beginning to end. The last panel may be partly empty; the empty part
is never used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..._utils.records import NamedTuple
from ...dtypes import DType, int64
from ...graph.reduction_limits import STEPS_PER_CHUNK
from ...lowering.ir import Address, Load, Side, Term, walk_outside_indices
from ...ops.expr import Expr
from .addresses import emit_term_offset, pointer_to, pointer_to_table, sum_scalar_terms
from .builder import Value, intrinsic, select_larger, select_smaller
from .dtype_conversions import from_memory, load, load_masked, memory_type, store_masked, to_memory
from .emit_loops import mask_idle_lanes
from .emitter import Emitter
from .row_buffers import store_elements
from .scopes import Lanes, ValueVectors
from .types import I1, I8, I64, int_type, vector
from .vector_access import mask_first_lanes, mask_lanes_before, transpose

# Emits the load of an element. The arguments are the number of the step within the iteration, the number of the value, the row of the tile,
# and the number of the load: with `has_step_pointers`, loads of an element with different numbers stay separate.
LoadRowElement = Callable[[int, int, int, int], Value]
# Emits the loads of the vectors of columns. The arguments are the number of the step within the iteration and the number of the value.
LoadColumnVectors = Callable[[int, int], ValueVectors]
ReadRows = Callable[[Value], LoadRowElement]  # takes the number of the first step of an iteration
ReadColumns = Callable[[Value], LoadColumnVectors]  # takes the number of the first step of an iteration
ColumnMasks = Sequence[Value | None]  # the mask of each vector of columns; None for a full, contiguous vector


class ColumnVectors(NamedTuple):
    """The vectors of a tile's columns: the lanes of each vector, and the distance of each from the first column of the panel.

    With `has_all_lanes`, all lanes of the vectors are columns of the block, and are written. With `is_contiguous`, the elements of each
    vector are known to be contiguous.
    """

    width: int
    offsets: tuple[Value | int, ...]
    has_all_lanes: bool = False
    is_contiguous: bool = False


def count_packed_bytes(side: Side) -> int:
    """Return how many bytes all values of a side take together, packed, for a single index and step."""
    return sum(e.dtype.compute_dtype.itemsize for e in side.values)


class Panels:
    """A side of a contraction, packed in panels of `panel` indices, or read in place.

    `summed` are the axes that the contraction sums over. `steps` are the number of all steps (K), and the number of steps in a panel: all,
    or the most packed at a time. `memory` points to the memory for the panels. A side read in place, but in runs, has memory for some
    hundred steps of a single panel. With `has_step_pointers`, an iteration of a tile, of several steps, reads packed elements from pointers
    of its own: registers with the address of the first step.

    In the methods, `value_number` is the index of a value in `side.values`, and `e` is a value. `block_begin` is the first index of a block
    of the side's axis, and `block_end` the index behind the block. A run is a range of indices with contiguous elements in memory.
    """

    def __init__(
        self,
        em: Emitter,
        side: Side,
        summed: tuple[int, ...],
        panel: int,
        steps: tuple[Value, Value],
        memory: Value,
        *,
        has_step_pointers: bool = False,
    ) -> None:
        self.em, self.side, self.summed_axes, self.panel_size, (self.all_steps, self.panel_steps) = em, side, summed, panel, steps
        self.memory, self.has_step_pointers = memory, has_step_pointers
        self.axis = side.axis
        self.step_offset_tables: dict[Expr, Value] = {}  # pointers to the table of step offsets of each value
        self.packed_range: tuple[Value, Value] | None = None  # the packed part of the outermost summed axis
        self.step_range = em.builder.constant(I64, 0), self.all_steps  # begin and end of the numbers of the packed steps

    # Packed

    def pack(self, block_begin: Value, block_end: Value) -> None:
        """Emit the packing of the block from `block_begin` up to, but without, `block_end`; emit nothing for a side read in place."""
        if self.side.is_packed:
            for value_number, e in enumerate(self.side.values):
                term = self.find_run_table(e)
                if term is not None:
                    self.pack_runs(value_number, e, term, block_begin, block_end)
                elif self.is_step_major(e):
                    self.pack_transposed(value_number, e, block_begin, block_end)
                else:
                    self.pack_along_panel(value_number, e, block_begin, block_end)

    def is_step_major(self, e: Expr) -> bool:
        """Return whether more of the loads in `e` are contiguous along the last summed axis than along the side's axis."""
        units = [t.axis for load in walk_outside_indices(e) if isinstance(load, Load) for t in load.address.terms if t.step_kind == "unit"]
        return units.count(self.summed_axes[-1]) > units.count(self.axis)

    def pointer_to_panels(self, value_number: int) -> Value:
        """Emit the pointer to the first packed panel of the value with number `value_number`."""
        padded = self.em.load_size_parameter(self.side.block) + self.panel_size
        return self.memory.at(
            padded * (self.panel_steps + self.em.target.loops.register_transpose_side) * self.count_bytes_before(value_number), I8
        )

    def count_bytes_before(self, value_number: int) -> int:
        """Return the packed bytes of the values before `value_number`, for a single index and step."""
        return sum(e.dtype.compute_dtype.itemsize for e in self.side.values[:value_number])

    def pointer_to_panel(self, value_number: int, block_begin: Value, panel_begin: Value) -> Value:
        """Emit the pointer to the panel for the value with number `value_number`.

        The panel holds the side's axis from `panel_begin` on, and belongs to a block from `block_begin` on.
        """
        self.em.continue_innermost()
        element = memory_type(self.side.values[value_number].dtype.compute_dtype)
        return self.pointer_to_panels(value_number).at((panel_begin - block_begin) * self.panel_steps, element)

    def pointer_to_first_step(self, value_number: int, block_begin: Value, panel_begin: Value) -> Value:
        """Emit the pointer to step 0 of the panel for the value with number `value_number`.

        The panel holds the side's axis from `panel_begin` on, and belongs to a block from `block_begin` on. If only later steps are packed,
        the pointer is in front of the panel; adding the offset of a packed step leads into the panel.
        """
        pointer = self.pointer_to_panel(value_number, block_begin, panel_begin)
        if self.packed_range is None:
            return pointer
        return pointer.at(self.step_range[0] * -self.panel_size, memory_type(self.side.values[value_number].dtype.compute_dtype))

    def offset_in_panel(self, block_begin: Value, index: Value) -> Value:
        """Emit the distance of `index` from the first index of its panel, in a block from `block_begin` on."""
        self.em.continue_innermost()
        return self.em.builder.binary("srem", index - block_begin, self.panel_size)

    def emit_step_loops(self, min_remaining: int, emit_step: Callable[[Value, Value], Value], begin: Value | None = None) -> Value:
        """Emit nested loops over the summed axes, for the packed steps; return the index where the innermost loop stops.

        The innermost loop runs from `begin` on (None: from the first index) while `min_remaining` steps are left. `emit_step` emits an
        iteration, given the innermost index and the number of the step among the packed ones, and returns the next index.
        """
        em, zero = self.em, self.em.builder.constant(I64, 0)
        stopped: list[Value] = []

        def emit_nested(axes: Sequence[int], number: Value | None) -> None:
            axis, *inner = axes
            start, end = self.packed_range if number is None and self.packed_range is not None else (zero, em.load_extent(axis))
            em.continue_innermost()
            base = zero - start if number is None else number * end

            def emit_iteration(k: Value) -> Value:
                em.continue_innermost()
                step_number = base + k
                if not inner:
                    return emit_step(k, step_number)
                emit_nested(inner, step_number)
                em.continue_innermost()
                return k + 1

            from_on = start if inner or begin is None else begin
            stopped.append(em.emit_loop(axis, from_on, end, emit_iteration, min_remaining=1 if inner else min_remaining))

        emit_nested(self.summed_axes, None)
        return stopped[0]

    def pack_along_panel(self, value_number: int, e: Expr, block_begin: Value, block_end: Value) -> None:
        """Emit the packing of the value `e` for the block from `block_begin` to `block_end`, with lanes along the side's axis."""
        em, dtype = self.em, e.dtype.compute_dtype
        width = next(w for w in (em.width, 8, 4, 2, 1) if self.panel_size % w == 0 and w <= em.width)

        def pack(panels: list[Value], offset: Value | int) -> None:
            def pack_step(k: Value, number: Value) -> Value:
                vectors = em.vector_value(e)
                em.continue_innermost()
                position = number * self.panel_size + offset
                per_panel = len(vectors) // len(panels)
                for n, panel in enumerate(panels):
                    store_elements(
                        vector_pointers(panel, position, dtype, width, per_panel), dtype, vectors[n * per_panel : (n + 1) * per_panel]
                    )
                return k + 1

            self.emit_step_loops(1, pack_step)
            em.lanes = None

        next_index = block_begin
        for panel_count in (em.target.blocks.panels_per_pack, 1):

            def pack_panels(begin: Value, panel_count: int = panel_count) -> Value:
                em.lanes = Lanes(self.axis, width, panel_count * self.panel_size // width)
                em.continue_innermost()
                starts = [begin + n * self.panel_size for n in range(panel_count)]
                pack([self.pointer_to_panel(value_number, block_begin, start) for start in starts], 0)
                em.continue_innermost()
                return begin + panel_count * self.panel_size

            next_index = em.emit_loop(self.axis, next_index, block_end, pack_panels, min_remaining=panel_count * self.panel_size)

        def pack_rest(begin: Value) -> Value:
            em.lanes = Lanes(self.axis, width, 1, is_masked=True)
            mask_idle_lanes(em, begin, block_end)
            panel = self.pointer_to_panel(value_number, block_begin, next_index)
            pack([panel], begin - next_index)
            em.continue_innermost()
            return begin + width

        em.emit_loop(self.axis, next_index, block_end, pack_rest)

    def find_run_table(self, e: Expr) -> Term | None:
        """Return the term by which the address of `e`, a load, depends on the axis of this side, if the term is an offset table.

        Return None if the address has no such term, or if the tables of the side have no runs (`Side.has_runs`).
        """
        if not self.side.has_runs:
            return None
        assert isinstance(e, Load)
        return next((t for t in e.address.terms if t.axis == self.axis and t.step_kind == "table"), None)

    def pack_runs(self, value_number: int, e: Expr, term: Term, block_begin: Value, block_end: Value) -> None:
        """Emit the packing of the value `e` for the block from `block_begin` to `block_end`, run by run; the offset table of `term` tells
        the runs.
        """

        def pack_panel(panel_begin: Value) -> Value:
            self.em.continue_innermost()
            next_panel = panel_begin + self.panel_size
            end = select_smaller(block_end, next_panel)
            self.copy_runs(e, term, (panel_begin, end), self.pointer_to_first_step(value_number, block_begin, panel_begin), self.step_range)
            return next_panel

        self.em.emit_loop(self.axis, block_begin, block_end, pack_panel, binds_axis=False)

    def copy_runs(self, e: Expr, term: Term, indices: tuple[Value, Value], into: Value, steps: tuple[Value, Value]) -> None:
        """Emit the copy of the runs of a panel to the panel at `into`.

        `indices` and `steps` are each a begin and an end, of the panel's indices and of the steps to copy. `into` points to step 0, which
        may be in front of the panel. `term` is from `find_run_table`.

        The stores have masks. Where masks cost much, whole vectors are stored, with their neighbours in the panel unchanged.
        """
        em, width, (begin, end) = self.em, self.em.width, indices
        assert isinstance(e, Load)
        element, under_mask = memory_type(e.dtype), em.target.has_cheap_masked_store
        kind, base = vector(element, width), self.pointer_to_stored(e, None)

        def copy_run(j: Value) -> Value:
            offset, mask, length = self.find_run(term, j, end)

            def copy_steps(count: int) -> Callable[[Value], Value]:
                def emit_iteration(k: Value) -> Value:
                    em.continue_innermost()
                    for n in range(count):
                        number = k + n
                        row_target = target.at(number * self.panel_size, element)
                        x = load_masked(
                            start.at(self.emit_step_offset(e, number), element), kind, mask, None if under_mask else row_target.load(kind)
                        )
                        store_masked(x, row_target, mask) if under_mask else row_target.store(x)
                    return k + count

                return emit_iteration

            em.continue_innermost()
            panel_offset = j - begin
            if not under_mask:  # begin earlier, if need be, so that the whole vector is in the panel
                too_far = select_larger(panel_offset - (self.panel_size - width), 0)
                mask = mask_first_lanes(too_far + length, width) & ~mask_first_lanes(too_far, width)
                panel_offset, offset = panel_offset - too_far, offset - too_far
            start, target = base.at(offset, element), into.at(panel_offset, element)
            k, end_of_steps = steps
            for count in (4, 1):
                k = em.emit_loop(self.axis, k, end_of_steps, copy_steps(count), min_remaining=count, binds_axis=False)
            em.continue_innermost()
            return j + length

        em.emit_loop(self.axis, begin, end, copy_run, binds_axis=False)

    def find_run(self, term: Term, j: Value, end: Value) -> tuple[Value, Value, Value]:
        """Emit the search for the run from index `j` on, up to a vector long and up to `end`, in the offset table of `term`.

        Return the offset of the first element, the mask of the run's lanes, and the number of indices in the run.
        """
        em, width = self.em, self.em.width
        table = pointer_to_table(em, term.value)
        em.continue_innermost()
        (inside,) = mask_lanes_before(end, j, 1, width)
        pointer = table.at(j, I64)
        offsets = load_under_mask(pointer, int64, width, inside)
        offset = pointer.load(I64)
        is_contiguous = inside & (offsets - offset.splat(width)).equals(em.builder.iota(I64, width))
        bits = is_contiguous.bitcast(int_type(width))
        if width > 1:
            bits = intrinsic("cttz", ~bits, em.builder.constant(I1, 0))
        length = bits if width == 64 else bits.cast("zext", I64)  # the mask of 64 lanes is a word
        return offset, mask_first_lanes(length, width), length

    def pack_transposed(self, value_number: int, e: Expr, block_begin: Value, block_end: Value) -> None:
        """Emit the packing of the value `e` for the block from `block_begin` to `block_end`, with lanes along the steps (`is_step_major`).

        The value is read in squares of rows and steps, transposed in registers, and stored.
        """
        em, dtype = self.em, e.dtype.compute_dtype
        max_side = min(em.target.loops.register_transpose_side, em.target.lane_count(dtype.itemsize))
        side = next(n for n in (8, 4, 2, 1) if self.panel_size % n == 0 and n <= max_side)

        def pack_band(begin: Value) -> Value:
            """Emit the packing of as many rows as a square has, from row `begin` on; return the row behind them."""
            offset = self.offset_in_panel(block_begin, begin)
            into = self.pointer_to_panel(value_number, block_begin, begin - offset)
            final = block_end - 1
            rows = [select_smaller(final, row) for row in [begin + r for r in range(side)]]

            def pack_square(k: Value, number: Value) -> Value:
                if em.lanes is not None and em.lanes.is_masked:
                    alone = self.packed_range if len(self.summed_axes) == 1 else None
                    mask_idle_lanes(em, k, em.load_extent(self.summed_axes[-1]) if alone is None else alone[1])
                vectors = [to_memory(dtype, self.value_at_row(e, row)) for row in rows]
                em.continue_innermost()
                to = number * self.panel_size + offset
                for column, x in enumerate(transpose(vectors)):
                    (pointer,) = vector_pointers(into, to + column * self.panel_size, dtype, side, 1)
                    pointer.store(x)
                return k + side

            stopped = None
            if len(self.summed_axes) == 1:
                em.lanes = Lanes(self.summed_axes[-1], side, 1)
                stopped = self.emit_step_loops(side, pack_square)
            em.lanes = Lanes(self.summed_axes[-1], side, 1, is_masked=True)
            self.emit_step_loops(1, pack_square, stopped)
            em.lanes = None
            em.continue_innermost()
            return begin + side

        em.emit_loop(self.axis, block_begin, block_end, pack_band, binds_axis=False)

    def value_at_row(self, e: Expr, row: Value) -> Value:
        """Emit the value `e` at the index `row` of the side's axis, as one vector with an element for each step of the present lanes."""
        with self.em.at_index(self.axis, row):
            (value,) = self.em.vector_value(e)
        return value

    # As tiles read it

    def pointer_to_steps(self, value_number: int, first_step: Value, k: Value, index: Value | int) -> Value:
        """Emit the pointer to the packed element at step `k` of the value with number `value_number`, `index` elements behind the first.

        `first_step` is the pointer to step 0 of the panel (`pointer_to_first_step`).
        """
        element = memory_type(self.side.values[value_number].dtype.compute_dtype)
        pointer = first_step.at(k * self.panel_size + index, element)
        return pointer.copy_opaque() if self.has_step_pointers else pointer

    def make_row_reader(self, begin: Value, end: Value, mr: int, block_begin: Value, *, has_all_rows: bool) -> ReadRows:
        """Return a function that emits elements of `mr` rows from row `begin` on, in a block of rows from `block_begin` up to `end`.

        The function takes the number of the first step of an iteration, and returns a function of a step, counted from there, a value
        number, a row and a load number. The latter emits the load of an element (`LoadRowElement`). Rows count from 0 to `mr` - 1. With
        `has_all_rows`, all rows of the tile are before `end`. Otherwise, rows beyond `end` give values without meaning; the reads stay
        inside the memory.
        """
        em = self.em
        if self.side.is_packed:
            offset = self.offset_in_panel(block_begin, begin) if mr < self.panel_size else em.builder.constant(I64, 0)
            em.continue_innermost()
            begin = begin - offset
            panels = [self.pointer_to_first_step(value_number, block_begin, begin) for value_number in range(len(self.side.values))]

            def read_packed(k: Value) -> LoadRowElement:
                pointers: dict[tuple[int, int], Value] = {}

                def load_packed(step: int, value_number: int, row: int, load_number: int) -> Value:
                    pointer = pointers.get((value_number, load_number))
                    if pointer is None:
                        pointer = self.pointer_to_steps(value_number, panels[value_number], k, offset)
                        pointers[value_number, load_number] = pointer
                    dtype = self.side.values[value_number].dtype.compute_dtype
                    return load(pointer.at(step * self.panel_size + row, memory_type(dtype)), dtype)

                return load_packed

            return read_packed
        em.continue_innermost()
        final = end - 1
        indices = [begin, *(begin + row if has_all_rows else select_smaller(final, begin + row) for row in range(1, mr))]
        starts = [[self.pointer_to_stored(e, i) for i in indices] for e in self.side.values]

        def read_stored(k: Value) -> LoadRowElement:
            def load_stored(step: int, value_number: int, row: int, load_number: int) -> Value:
                e = self.side.values[value_number]
                assert isinstance(e, Load)
                return load(starts[value_number][row].at(self.emit_step_offset(e, k + step if step else k), memory_type(e.dtype)), e.dtype)

            return load_stored

        return read_stored

    def make_column_reader(
        self, panel: tuple[Value, Value], columns: ColumnVectors, masks: ColumnMasks, block_begin: Value, steps: tuple[Value, Value]
    ) -> ReadColumns:
        """Return a function that emits the vectors of a panel's columns under `masks`.

        The function takes the number of the first step of an iteration, and returns a function of a step, counted from there, and a value
        number. The latter emits the loads (`LoadColumnVectors`). `panel` is the begin and the end of the columns, in a block from
        `block_begin` on, and `steps` the begin and the end of the steps to load. A mask is needed only for a side read in place: in a
        packed panel, whole vectors are loaded.
        """
        starts = [self.pointer_to_packed(value_number, panel, columns, block_begin, steps) for value_number in range(len(self.side.values))]
        pointer_lists = [
            self.pointers_to_columns(e, panel[0], columns) if start is None else []
            for e, start in zip(self.side.values, starts, strict=True)
        ]

        def read_columns(k: Value) -> LoadColumnVectors:
            rows = {n: self.pointer_to_steps(n, start, k, 0) for n, start in enumerate(starts) if start is not None}

            def load_vectors(step: int, value_number: int) -> ValueVectors:
                e = self.side.values[value_number]
                if value_number in rows:
                    dtype = e.dtype.compute_dtype
                    element = memory_type(dtype)
                    row = rows[value_number].at(step * self.panel_size, element)
                    return [load(row.at(offset, element), dtype, columns.width) for offset in columns.offsets]
                assert isinstance(e, Load)
                element, step_offset = memory_type(e.dtype), self.emit_step_offset(e, k + step if step else k)
                pointers = [pointer.at(step_offset, element) for pointer in pointer_lists[value_number]]
                return [
                    load(pointer, e.dtype, columns.width) if mask is None else load_under_mask(pointer, e.dtype, columns.width, mask)
                    for pointer, mask in zip(pointers, masks, strict=True)
                ]

            return load_vectors

        return read_columns

    def pointer_to_packed(
        self, value_number: int, panel: tuple[Value, Value], columns: ColumnVectors, block_begin: Value, steps: tuple[Value, Value]
    ) -> Value | None:
        """Emit the pointer to step 0 of a packed panel for value number `value_number`; return None for a value read in place.

        `panel` is the begin and the end of the columns, in a block from `block_begin` on, and `steps` the begin and the end of the steps to
        read. If a side read in place has its elements in several runs, the emitted code packs the panel for these `steps` alone.
        """
        if self.side.is_packed:
            return self.pointer_to_first_step(value_number, block_begin, panel[0])
        e = self.side.values[value_number]
        term = self.find_run_table(e)
        if term is None or columns.is_contiguous:
            return None
        self.em.continue_innermost()
        element = memory_type(e.dtype)
        into = self.memory.at(self.count_bytes_before(value_number) * self.panel_size * STEPS_PER_CHUNK, I8).at(
            steps[0] * -self.panel_size, element
        )
        self.copy_runs(e, term, panel, into, steps)
        return into

    def are_contiguous(self, begin: Value, end: Value, count: int) -> Value:
        """Emit whether each of `count` vectors of columns from `begin` on is a single run before `end`, for every value with runs.

        Return a scalar bool.
        """
        em = self.em
        result = em.builder.constant(I1, 1)
        for e in self.side.values:
            if (term := self.find_run_table(e)) is not None:
                for u in range(count):
                    em.continue_innermost()
                    *_, length = self.find_run(term, begin + u * em.width, end)
                    em.continue_innermost()
                    result &= length.equals(em.width)
        return result

    def pointers_to_columns(self, e: Expr, panel: Value, columns: ColumnVectors) -> list[Value]:
        """Emit a pointer to each vector of columns of the load `e`, read in place, at the first step.

        `panel` is the first column of the panel. If the side has runs, each vector must be one run.
        """
        em = self.em
        assert isinstance(e, Load)
        term, element = self.find_run_table(e), memory_type(e.dtype)
        em.continue_innermost()
        if term is None:
            start = self.pointer_to_stored(e, panel)
            return [start.at(offset, element) for offset in columns.offsets]
        base, table = self.pointer_to_stored(e, None), pointer_to_table(em, term.value)
        em.continue_innermost()
        return [base.at(table.at(panel + offset, I64).load(I64), element) for offset in columns.offsets]

    def pointer_to_stored(self, e: Expr, index: Value | None) -> Value:
        """Emit the pointer to the element of the load `e` at `index` of the side's axis, at the first step.

        If `index` is None, emit the pointer from which the offsets of the axis count.
        """
        em = self.em
        assert isinstance(e, Load)
        axis_terms = [t for t in e.address.terms if t.axis == self.axis]
        outer_terms = [t for t in e.address.terms if t.axis != self.axis and t.axis not in self.summed_axes]
        total = sum_scalar_terms(em, e.address, outer_terms)
        pointer = pointer_to(em, e.operand)
        if index is not None:
            for term in axis_terms:
                total = total + emit_term_offset(em, term, index)
        return pointer.at(total, memory_type(e.dtype))

    def store_step_offsets(self, memory: Value) -> Value:
        """Emit for each value a table with the offset of each step, from `memory` on, in front of all loops.

        Return the pointer behind the tables. They are needed for sums over several axes. An offset is the distance, in elements, from the
        element of the first step to the element of a step.
        """
        em = self.em
        for e in self.side.values:
            assert isinstance(e, Load)
            terms = [t for t in e.address.terms if t.axis in self.summed_axes]
            self.step_offset_tables[e] = start = memory

            def store_offset(k: Value, number: Value, terms: list[Term] = terms, start: Value = start) -> Value:
                offset = sum_scalar_terms(em, Address(tuple(terms)), terms)
                em.continue_innermost()
                start.at(number, I64).store(offset)
                return k + 1

            with em.outside_loops():
                self.emit_step_loops(1, store_offset)
            with em.in_scope(0):
                memory = memory.at(self.all_steps, I64)
        return memory

    def emit_step_offset(self, e: Load, k: Value) -> Value:
        """Emit the distance, in elements, from the element of the first step to the element of step `k`, for a load of this side."""
        if e in self.step_offset_tables:
            return self.step_offset_tables[e].at(k, I64).load(I64)
        term = next((t for t in e.address.terms if t.axis in self.summed_axes), None)
        return k.constant(0) if term is None else emit_term_offset(self.em, term, k)


def vector_pointers(start: Value, offset: Value | int, dtype: DType, width: int, count: int) -> ValueVectors:
    """Emit pointers to `count` vectors of `width` elements of `dtype`, side by side; the first is `offset` elements behind `start`."""
    element = memory_type(dtype)
    pointer = start.at(offset, element)
    return [pointer.at(u * width, element) for u in range(count)]


def load_under_mask(pointer: Value, dtype: DType, width: int, mask: Value) -> Value:
    """Emit the load of a vector of `width` lanes from `pointer` under a mask, in register form; the other lanes are 0."""
    return from_memory(dtype, load_masked(pointer, vector(memory_type(dtype), width), mask))
