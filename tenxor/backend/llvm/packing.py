"""The two sides of a product as its tiles read them: packed in panels, or where they are stored.

A panel has as many indices of the side's axis as a tile is high or wide (MR or NR). It holds one step after another, K in all. In each step
the panel's elements lie side by side, so a tile reads the panel from beginning to end. The last panel may be partly empty; the empty part
is never used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dtypes import DType, int64
from ...kernel.ir import Address, Load, Side, Term, surface
from ...kernel.pairs import AT_ONCE
from ...ops.expr import Expr
from ...records import NamedTuple
from .addresses import pointer_to, scalar_sum, scaled, table_at
from .builder import Value, intrinsic, larger, smaller
from .emitter import Emitter
from .loops import mask_idle_lanes
from .memory import first_lanes, lanes_before, transposed
from .rows import stored
from .scopes import Lanes, Parts
from .types import I1, I8, I64, int_type, vector
from .values import from_memory, load, load_masked, memory_type, store_masked, to_memory

Row = Callable[[Value, int, int], Value]  # emits the element at a step, of a value by number, in a row of the tile
Vectors = Callable[[Value, int], Parts]  # emits the vectors of elements at a step, of a value by number
Masks = Sequence[Value | None]  # the mask of each vector of columns; None for a full, contiguous vector


class Columns(NamedTuple):
    """The vectors of a tile's columns: the lanes of each vector, and the distance of each from the first column of the panel.

    With `whole`, all lanes of the vectors are columns of the block, and are written. With `together`, the elements of each vector are known
    to be contiguous.
    """

    width: int
    offsets: tuple[Value | int, ...]
    whole: bool = False
    together: bool = False


def bytes_of(side: Side) -> int:
    """Return the packed bytes of a side for a single index and step."""
    return sum(e.dtype.compute.itemsize for e in side.values)


class Panels:
    """A side of a product, packed in panels of `panel` indices, or read in place.

    `steps` are the number of all steps (K), and the number of steps in a panel: all, or the most packed at a time. A side read in place,
    but in runs, has memory for some hundred steps of a single panel.
    """

    def __init__(
        self, em: Emitter, side: Side, summed: tuple[int, ...], panel: int, steps: tuple[Value, Value], memory: Value
    ) -> None:
        self.em, self.side, self.summed, self.panel, (self.all_steps, self.steps) = em, side, summed, panel, steps
        self.memory = memory
        self.axis = side.axis
        self.offsets: dict[Expr, Value] = {}  # pointers to the table of step offsets of each value
        self.span: tuple[Value, Value] | None = None  # the part of the outermost summed axis that is packed now, if not all
        self.numbers = em.b.constant(I64, 0), self.all_steps  # begin and end of the numbers of the packed steps

    # Packed

    def fill(self, first: Value, last: Value) -> None:
        """Emit the packing of the indices `first..last`, unless the side is read in place."""
        if self.side.packed:
            for value_number, e in enumerate(self.side.values):
                term = self.table_of(e)
                if term is not None:
                    self.fill_runs(value_number, e, term, first, last)
                elif self.is_step_major(e):
                    self.fill_transposed(value_number, e, first, last)
                else:
                    self.fill_straight(value_number, e, first, last)

    def is_step_major(self, e: Expr) -> bool:
        """Return whether more of the loads of a value are contiguous along the steps than along the side's axis."""
        units = [t.axis for load in surface(e) if isinstance(load, Load) for t in load.address.terms if t.how == "unit"]
        return units.count(self.summed[-1]) > units.count(self.axis)

    def start(self, value_number: int) -> Value:
        """Emit the pointer to the panels of the value with number `value_number`."""
        padded = self.em.size(self.side.block) + self.panel
        return self.memory.at(padded * (self.steps + self.em.target.loops.square) * self.bytes_before(value_number), I8)

    def bytes_before(self, value_number: int) -> int:
        """Return the packed bytes of the values before `value_number`, for a single index and step."""
        return sum(e.dtype.compute.itemsize for e in self.side.values[:value_number])

    def panel_at(self, value_number: int, block_begin: Value, panel_begin: Value) -> Value:
        """Emit the pointer to the panel for the value with number `value_number`.

        The panel holds the side's axis from `panel_begin` on, and belongs to a block from `block_begin` on.
        """
        self.em.inmost()
        element = memory_type(self.side.values[value_number].dtype.compute)
        return self.start(value_number).at((panel_begin - block_begin) * self.steps, element)

    def first_step(self, value_number: int, block_begin: Value, panel_begin: Value) -> Value:
        """Emit the pointer to step 0 of the panel for the value with number `value_number`.

        The panel holds the side's axis from `panel_begin` on, and belongs to a block from `block_begin` on. If only later steps are packed,
        the pointer is in front of the panel; adding the offset of a packed step leads into the panel.
        """
        pointer = self.panel_at(value_number, block_begin, panel_begin)
        if self.span is None:
            return pointer
        return pointer.at(self.numbers[0] * -self.panel, memory_type(self.side.values[value_number].dtype.compute))

    def offset_in_panel(self, block_begin: Value, index: Value) -> Value:
        """Emit how far `index` is into its panel, in a block from `block_begin` on."""
        self.em.inmost()
        return self.em.b.binary("srem", index - block_begin, self.panel)

    def over_steps(self, needs: int, body: Callable[[Value, Value], Value], begin: Value | None = None) -> Value:
        """Emit loops over the packed steps of a product; return the index where the innermost loop stops.

        The innermost loop runs from `begin` on while `needs` steps are left. `body` emits an iteration, given the innermost index and the
        number of the step among the packed ones, and returns the next index.
        """
        em, zero = self.em, self.em.b.constant(I64, 0)
        stopped: list[Value] = []

        def emit_nested(axes: Sequence[int], number: Value | None) -> None:
            axis, *inner = axes
            start, end = self.span if number is None and self.span is not None else (zero, em.extent(axis))
            em.inmost()
            base = zero - start if number is None else number * end

            def emit_iteration(k: Value) -> Value:
                em.inmost()
                step_number = base + k
                if not inner:
                    return body(k, step_number)
                emit_nested(inner, step_number)
                em.inmost()
                return k + 1

            from_on = start if inner or begin is None else begin
            stopped.append(em.repeated(axis, from_on, end, emit_iteration, needs=1 if inner else needs))

        emit_nested(self.summed, None)
        return stopped[0]

    def fill_straight(self, value_number: int, e: Expr, first: Value, last: Value) -> None:
        """Emit the packing of a value with lanes along the panel."""
        em, dtype = self.em, e.dtype.compute
        width = next(w for w in (em.width, 8, 4, 2, 1) if self.panel % w == 0 and w <= em.width)

        def pack(panels: list[Value], offset: Value | int) -> None:
            def pack_step(k: Value, number: Value) -> Value:
                vectors = em.in_lanes(e)
                em.inmost()
                position = number * self.panel + offset
                per_panel = len(vectors) // len(panels)
                for n, panel in enumerate(panels):
                    stored(vector_pointers(panel, position, dtype, width, per_panel), dtype, vectors[n * per_panel : (n + 1) * per_panel])
                return k + 1

            self.over_steps(1, pack_step)
            em.lanes = None

        next_index = first
        for panel_count in (em.target.blocks.panels, 1):

            def pack_panels(begin: Value, panel_count: int = panel_count) -> Value:
                em.lanes = Lanes(self.axis, width, panel_count * self.panel // width)
                em.inmost()
                starts = [begin + n * self.panel for n in range(panel_count)]
                pack([self.panel_at(value_number, first, start) for start in starts], 0)
                em.inmost()
                return begin + panel_count * self.panel

            next_index = em.repeated(self.axis, next_index, last, pack_panels, needs=panel_count * self.panel)

        def pack_rest(begin: Value) -> Value:
            em.lanes = Lanes(self.axis, width, 1, masked=True)
            mask_idle_lanes(em, begin, last)
            panel = self.panel_at(value_number, first, next_index)
            pack([panel], begin - next_index)
            em.inmost()
            return begin + width

        em.repeated(self.axis, next_index, last, pack_rest)

    def table_of(self, e: Expr) -> Term | None:
        """Return the term of a value with a table for the side's axis, if the indices are stored in runs; else None."""
        if not self.side.runs:
            return None
        assert isinstance(e, Load)
        return next((t for t in e.address.terms if t.axis == self.axis and t.how == "table"), None)

    def fill_runs(self, value_number: int, e: Expr, term: Term, first: Value, last: Value) -> None:
        """Emit the packing of a value with indices in runs: each run is copied as a whole, panel by panel."""

        def pack_panel(panel_begin: Value) -> Value:
            self.em.inmost()
            next_panel = panel_begin + self.panel
            end = smaller(last, next_panel)
            self.copy_runs(e, term, (panel_begin, end), self.first_step(value_number, first, panel_begin), self.numbers)
            return next_panel

        self.em.repeated(self.axis, first, last, pack_panel, inside=False)

    def copy_runs(self, e: Expr, term: Term, indices: tuple[Value, Value], into: Value, steps: tuple[Value, Value]) -> None:
        """Emit the copy of the runs of a panel, for a range of steps.

        The stores have masks. Where masks cost much, whole vectors are stored, with their neighbours in the panel unchanged.
        """
        em, width, (begin, end) = self.em, self.em.width, indices
        assert isinstance(e, Load)
        element, under_mask = memory_type(e.dtype), em.target.stores_under_masks
        kind, base = vector(element, width), self.where_it_lies(e, None)

        def copy_run(j: Value) -> Value:
            offset, mask, length = self.find_run(term, j, end)

            def copy_steps(count: int) -> Callable[[Value], Value]:
                def emit_iteration(k: Value) -> Value:
                    em.inmost()
                    for n in range(count):
                        number = k + n
                        row_target = target.at(number * self.panel, element)
                        x = load_masked(
                            start.at(self.step_to(e, number), element), kind, mask, None if under_mask else row_target.load(kind)
                        )
                        store_masked(x, row_target, mask) if under_mask else row_target.store(x)
                    return k + count

                return emit_iteration

            em.inmost()
            panel_offset = j - begin
            if not under_mask:  # begin earlier, if need be, so that the whole vector is in the panel
                too_far = larger(panel_offset - (self.panel - width), 0)
                mask = first_lanes(too_far + length, width) & ~first_lanes(too_far, width)
                panel_offset, offset = panel_offset - too_far, offset - too_far
            start, target = base.at(offset, element), into.at(panel_offset, element)
            k, end_of_steps = steps
            for count in (4, 1):
                k = em.repeated(self.axis, k, end_of_steps, copy_steps(count), needs=count, inside=False)
            em.inmost()
            return j + length

        em.repeated(self.axis, begin, end, copy_run, inside=False)

    def find_run(self, term: Term, j: Value, end: Value) -> tuple[Value, Value, Value]:
        """Emit the run from index `j` on, up to a vector long and up to `end`: the offset of the first element, a mask, and the length."""
        em, width = self.em, self.em.width
        table = table_at(em, term.value)
        em.inmost()
        (inside,) = lanes_before(end, j, 1, width)
        pointer = table.at(j, I64)
        offsets = load_under_mask(pointer, int64, width, inside)
        offset = pointer.load(I64)
        is_contiguous = inside & (offsets - offset.splat(width)).equals(em.b.counting(I64, width))
        bits = is_contiguous.bitcast(int_type(width))
        if width > 1:
            bits = intrinsic("cttz", ~bits, em.b.constant(I1, 0))
        length = bits if width == 64 else bits.cast("zext", I64)  # the mask of 64 lanes is a word
        return offset, first_lanes(length, width), length

    def fill_transposed(self, value_number: int, e: Expr, first: Value, last: Value) -> None:
        """Emit the packing of a value with lanes along the steps: squares are loaded, transposed and stored."""
        em, dtype = self.em, e.dtype.compute
        max_side = min(em.target.loops.square, em.target.lanes(dtype.itemsize))
        side = next(n for n in (8, 4, 2, 1) if self.panel % n == 0 and n <= max_side)

        def pack_band(begin: Value) -> Value:
            """Emit the packing of as many rows as a square has."""
            offset = self.offset_in_panel(first, begin)
            into = self.panel_at(value_number, first, begin - offset)
            final = last - 1
            rows = [smaller(final, row) for row in [begin + r for r in range(side)]]

            def pack_square(k: Value, number: Value) -> Value:
                if em.lanes is not None and em.lanes.masked:
                    alone = self.span if len(self.summed) == 1 else None
                    mask_idle_lanes(em, k, em.extent(self.summed[-1]) if alone is None else alone[1])
                vectors = [to_memory(dtype, self.value_at_row(e, row)) for row in rows]
                em.inmost()
                to = number * self.panel + offset
                for column, x in enumerate(transposed(vectors)):
                    (pointer,) = vector_pointers(into, to + column * self.panel, dtype, side, 1)
                    pointer.store(x)
                return k + side

            stopped = None
            if len(self.summed) == 1:
                em.lanes = Lanes(self.summed[-1], side, 1)
                stopped = self.over_steps(side, pack_square)
            em.lanes = Lanes(self.summed[-1], side, 1, masked=True)
            self.over_steps(1, pack_square, stopped)
            em.lanes = None
            em.inmost()
            return begin + side

        em.repeated(self.axis, first, last, pack_band, inside=False)

    def value_at_row(self, e: Expr, row: Value) -> Value:
        """Emit a value at the present lanes, for a given index of the side's axis."""
        with self.em.standing(self.axis, row):
            (value,) = self.em.in_lanes(e)
        return value

    # As tiles read it

    def rows(self, begin: Value, end: Value, mr: int, block_begin: Value, *, whole: bool) -> Row:
        """Return a function that emits the elements of `mr` rows from `begin` on, in a block from `block_begin` on.

        All rows of a `whole` tile are before `end`. Otherwise, rows beyond `end` give values without meaning; the reads stay inside the
        memory.
        """
        em = self.em
        if self.side.packed:
            offset = self.offset_in_panel(block_begin, begin) if mr < self.panel else em.b.constant(I64, 0)
            em.inmost()
            begin = begin - offset
            panels = [self.first_step(value_number, block_begin, begin) for value_number in range(len(self.side.values))]

            def load_packed(k: Value, value_number: int, row: int) -> Value:
                dtype = self.side.values[value_number].dtype.compute
                return load(panels[value_number].at(k * self.panel + (offset + row), memory_type(dtype)), dtype)

            return load_packed
        em.inmost()
        final = end - 1
        indices = [begin, *(begin + row if whole else smaller(final, begin + row) for row in range(1, mr))]
        starts = [[self.where_it_lies(e, i) for i in indices] for e in self.side.values]

        def load_stored(k: Value, value_number: int, row: int) -> Value:
            e = self.side.values[value_number]
            assert isinstance(e, Load)
            return load(starts[value_number][row].at(self.step_to(e, k), memory_type(e.dtype)), e.dtype)

        return load_stored

    def columns(
        self, panel: tuple[Value, Value], columns: Columns, masks: Masks, block_begin: Value, steps: tuple[Value, Value]
    ) -> Vectors:
        """Return a function that emits vectors of a panel's columns under `masks`, in a block from `block_begin` on.

        `panel` is the begin and the end of the columns, and `steps` the begin and the end of the steps.
        """
        starts = [self.packed_at(value_number, panel, columns, block_begin, steps) for value_number in range(len(self.side.values))]
        pointer_lists = [
            self.first_pointers(e, panel[0], columns) if start is None else []
            for e, start in zip(self.side.values, starts, strict=True)
        ]

        def load_vectors(k: Value, value_number: int) -> Parts:
            e, start = self.side.values[value_number], starts[value_number]
            dtype = e.dtype.compute
            if start is not None:
                element = memory_type(dtype)
                row = start.at(k * self.panel, element)
                return [load(row.at(offset, element), dtype, columns.width) for offset in columns.offsets]
            assert isinstance(e, Load)
            element, step_offset = memory_type(e.dtype), self.step_to(e, k)
            pointers = [pointer.at(step_offset, element) for pointer in pointer_lists[value_number]]
            return [
                load(pointer, e.dtype, columns.width) if mask is None else load_under_mask(pointer, e.dtype, columns.width, mask)
                for pointer, mask in zip(pointers, masks, strict=True)
            ]

        return load_vectors

    def packed_at(
        self, value_number: int, panel: tuple[Value, Value], columns: Columns, block_begin: Value, steps: tuple[Value, Value]
    ) -> Value | None:
        """Emit the pointer to step 0 of a packed panel; return None for a value read in place.

        If the elements are in several runs, the emitted code packs the panel for these `steps` alone.
        """
        if self.side.packed:
            return self.first_step(value_number, block_begin, panel[0])
        e = self.side.values[value_number]
        term = self.table_of(e)
        if term is None or columns.together:
            return None
        self.em.inmost()
        element = memory_type(e.dtype)
        into = self.memory.at(self.bytes_before(value_number) * self.panel * AT_ONCE, I8).at(steps[0] * -self.panel, element)
        self.copy_runs(e, term, panel, into, steps)
        return into

    def are_together(self, begin: Value, end: Value, count: int) -> Value:
        """Emit whether each of so many vectors of columns from `begin` on is a single run before `end`."""
        em = self.em
        result = em.b.constant(I1, 1)
        for e in self.side.values:
            if (term := self.table_of(e)) is not None:
                for u in range(count):
                    em.inmost()
                    *_, length = self.find_run(term, begin + u * em.width, end)
                    em.inmost()
                    result &= length.equals(em.width)
        return result

    def first_pointers(self, e: Expr, panel: Value, columns: Columns) -> list[Value]:
        """Emit pointers to the vectors of a panel's columns at the first step. Each vector of a value in runs must be one run."""
        em = self.em
        assert isinstance(e, Load)
        term, element = self.table_of(e), memory_type(e.dtype)
        em.inmost()
        if term is None:
            start = self.where_it_lies(e, panel)
            return [start.at(offset, element) for offset in columns.offsets]
        base, table = self.where_it_lies(e, None), table_at(em, term.value)
        em.inmost()
        return [base.at(table.at(panel + offset, I64).load(I64), element) for offset in columns.offsets]

    def where_it_lies(self, e: Expr, index: Value | None) -> Value:
        """Emit the pointer to the element at `index` of the side's axis, at the first step.

        Without an index, emit the pointer from which the offsets of the axis count.
        """
        em = self.em
        assert isinstance(e, Load)
        axis_terms = [t for t in e.address.terms if t.axis == self.axis]
        outer_terms = [t for t in e.address.terms if t.axis != self.axis and t.axis not in self.summed]
        total = scalar_sum(em, e.address, outer_terms)
        pointer = pointer_to(em, e.operand)
        if index is not None:
            for term in axis_terms:
                total = total + scaled(em, term, index)
        return pointer.at(total, memory_type(e.dtype))

    def number_steps(self, memory: Value) -> Value:
        """Emit a table of the offsets of all steps, from `memory` on, in front of all loops; return the pointer behind the tables.

        The table is needed for sums over several axes. An offset is the distance between the elements of a step and of the first step.
        """
        em = self.em
        for e in self.side.values:
            assert isinstance(e, Load)
            terms = [t for t in e.address.terms if t.axis in self.summed]
            self.offsets[e] = start = memory

            def store_offset(k: Value, number: Value, terms: list[Term] = terms, start: Value = start) -> Value:
                offset = scalar_sum(em, Address(tuple(terms)), terms)
                em.inmost()
                start.at(number, I64).store(offset)
                return k + 1

            with em.outside():
                self.over_steps(1, store_offset)
            with em.within(0):
                memory = memory.at(self.all_steps, I64)
        return memory

    def step_to(self, e: Load, k: Value) -> Value:
        """Emit the distance between the elements of step `k` and of the first step."""
        if e in self.offsets:
            return self.offsets[e].at(k, I64).load(I64)
        term = next((t for t in e.address.terms if t.axis in self.summed), None)
        return k.constant(0) if term is None else scaled(self.em, term, k)


def vector_pointers(start: Value, offset: Value | int, dtype: DType, width: int, count: int) -> Parts:
    """Emit pointers to so many vectors, the first `offset` elements behind the start."""
    element = memory_type(dtype)
    pointer = start.at(offset, element)
    return [pointer.at(u * width, element) for u in range(count)]


def load_under_mask(pointer: Value, dtype: DType, width: int, mask: Value) -> Value:
    """Emit the load of a vector under a mask; the other lanes are 0."""
    return from_memory(dtype, load_masked(pointer, vector(memory_type(dtype), width), mask))
