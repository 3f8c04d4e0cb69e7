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
        self, em: Emitter, side: Side, summed: tuple[int, ...], panel: int, steps: tuple[Value, Value], place: Value
    ) -> None:
        self.em, self.side, self.summed, self.panel, (self.all_steps, self.steps) = em, side, summed, panel, steps
        self.place = place
        self.axis = side.axis
        self.offsets: dict[Expr, Value] = {}  # pointers to the table of step offsets of each value
        self.span: tuple[Value, Value] | None = None  # the part of the outermost summed axis that is packed now, if not all
        self.numbers = em.b.constant(I64, 0), self.all_steps  # begin and end of the numbers of the packed steps

    # Packed

    def fill(self, first: Value, last: Value) -> None:
        """Emit the packing of the indices `first..last`, unless the side is read in place."""
        if self.side.packed:
            for index, e in enumerate(self.side.values):
                term = self.table_of(e)
                if term is not None:
                    self.fill_runs(index, e, term, first, last)
                elif self.lies_along_steps(e):
                    self.fill_transposed(index, e, first, last)
                else:
                    self.fill_straight(index, e, first, last)

    def lies_along_steps(self, e: Expr) -> bool:
        """Return whether more of the loads of a value are contiguous along the steps than along the side's axis."""
        units = [t.axis for load in surface(e) if isinstance(load, Load) for t in load.address.terms if t.how == "unit"]
        return units.count(self.summed[-1]) > units.count(self.axis)

    def start(self, index: int) -> Value:
        """Emit the pointer to the panels of value number `index`."""
        padded = self.em.size(self.side.block) + self.panel
        return self.place.at(padded * (self.steps + self.em.target.loops.square) * self.bytes_before(index), I8)

    def bytes_before(self, index: int) -> int:
        """Return the packed bytes of the values before number `index`, for a single index and step."""
        return sum(e.dtype.compute.itemsize for e in self.side.values[:index])

    def panel_at(self, index: int, first: Value, at: Value) -> Value:
        """Emit the pointer to the panel for value number `index`, from index `at` of the side's axis on, in a block from `first` on."""
        self.em.inmost()
        element = memory_type(self.side.values[index].dtype.compute)
        return self.start(index).at((at - first) * self.steps, element)

    def first_step(self, index: int, first: Value, at: Value) -> Value:
        """Emit the pointer to step 0 of the panel from index `at` on, in a block from `first` on, for value number `index`.

        If only later steps are packed, the pointer is in front of the panel; adding the offset of a packed step leads into the panel.
        """
        place = self.panel_at(index, first, at)
        if self.span is None:
            return place
        return place.at(self.numbers[0] * -self.panel, memory_type(self.side.values[index].dtype.compute))

    def within(self, first: Value, at: Value) -> Value:
        """Emit how far index `at` is into its panel, in a block from `first` on."""
        self.em.inmost()
        return self.em.b.binary("srem", at - first, self.panel)

    def over_steps(self, needs: int, body: Callable[[Value, Value], Value], begin: Value | None = None) -> Value:
        """Emit loops over the packed steps of a product; return the index where the innermost loop stops.

        The innermost loop runs from `begin` on while `needs` steps are left. `body` emits an iteration, given the innermost index and the
        number of the step among the packed ones, and returns the next index.
        """
        em, zero = self.em, self.em.b.constant(I64, 0)
        stopped: list[Value] = []

        def nested(axes: Sequence[int], number: Value | None) -> None:
            axis, *inner = axes
            start, end = self.span if number is None and self.span is not None else (zero, em.extent(axis))
            em.inmost()
            before = zero - start if number is None else number * end

            def turn(k: Value) -> Value:
                em.inmost()
                at = before + k
                if not inner:
                    return body(k, at)
                nested(inner, at)
                em.inmost()
                return k + 1

            from_on = start if inner or begin is None else begin
            stopped.append(em.repeated(axis, from_on, end, turn, needs=1 if inner else needs))

        nested(self.summed, None)
        return stopped[0]

    def fill_straight(self, index: int, e: Expr, first: Value, last: Value) -> None:
        """Emit the packing of a value with lanes along the panel."""
        em, dtype = self.em, e.dtype.compute
        width = next(w for w in (em.width, 8, 4, 2, 1) if self.panel % w == 0 and w <= em.width)

        def copied(panels: list[Value], within: Value | int) -> None:
            def step(k: Value, number: Value) -> Value:
                parts = em.in_lanes(e)
                em.inmost()
                at = number * self.panel + within
                each = len(parts) // len(panels)
                for n, panel in enumerate(panels):
                    stored(places(panel, at, dtype, width, each), dtype, parts[n * each : (n + 1) * each])
                return k + 1

            self.over_steps(1, step)
            em.lanes = None

        rest = first
        for together in (em.target.blocks.panels, 1):

            def whole(at: Value, together: int = together) -> Value:
                em.lanes = Lanes(self.axis, width, together * self.panel // width)
                em.inmost()
                starts = [at + n * self.panel for n in range(together)]
                copied([self.panel_at(index, first, start) for start in starts], 0)
                em.inmost()
                return at + together * self.panel

            rest = em.repeated(self.axis, rest, last, whole, needs=together * self.panel)

        def few(at: Value) -> Value:
            em.lanes = Lanes(self.axis, width, 1, masked=True)
            mask_idle_lanes(em, at, last)
            panel = self.panel_at(index, first, rest)
            copied([panel], at - rest)
            em.inmost()
            return at + width

        em.repeated(self.axis, rest, last, few)

    def table_of(self, e: Expr) -> Term | None:
        """Return the term of a value with a table for the side's axis, if the indices are stored in runs; else None."""
        if not self.side.runs:
            return None
        assert isinstance(e, Load)
        return next((t for t in e.address.terms if t.axis == self.axis and t.how == "table"), None)

    def fill_runs(self, index: int, e: Expr, term: Term, first: Value, last: Value) -> None:
        """Emit the packing of a value with indices in runs: each run is copied as a whole, panel by panel."""

        def panel(at: Value) -> Value:
            self.em.inmost()
            further = at + self.panel
            end = smaller(last, further)
            self.copy_runs(e, term, (at, end), self.first_step(index, first, at), self.numbers)
            return further

        self.em.repeated(self.axis, first, last, panel, inside=False)

    def copy_runs(self, e: Expr, term: Term, indices: tuple[Value, Value], into: Value, steps: tuple[Value, Value]) -> None:
        """Emit the copy of the runs of a panel, for a range of steps.

        The stores have masks. Where masks cost much, whole vectors are stored, with their neighbours in the panel unchanged.
        """
        em, width, (at, end) = self.em, self.em.width, indices
        assert isinstance(e, Load)
        element, under_mask = memory_type(e.dtype), em.target.stores_under_masks
        kind, base = vector(element, width), self.where_it_lies(e, None)

        def run(j: Value) -> Value:
            offset, mask, length = self.run(term, j, end)

            def some(count: int) -> Callable[[Value], Value]:
                def turn(k: Value) -> Value:
                    em.inmost()
                    for n in range(count):
                        number = k + n
                        there = to.at(number * self.panel, element)
                        x = load_masked(start.at(self.step_to(e, number), element), kind, mask, None if under_mask else there.load(kind))
                        store_masked(x, there, mask) if under_mask else there.store(x)
                    return k + count

                return turn

            em.inmost()
            within = j - at
            if not under_mask:  # begin earlier, if need be, so that the whole vector is in the panel
                too_far = larger(within - (self.panel - width), 0)
                mask = first_lanes(too_far + length, width) & ~first_lanes(too_far, width)
                within, offset = within - too_far, offset - too_far
            start, to = base.at(offset, element), into.at(within, element)
            k, end_of_steps = steps
            for count in (4, 1):
                k = em.repeated(self.axis, k, end_of_steps, some(count), needs=count, inside=False)
            em.inmost()
            return j + length

        em.repeated(self.axis, at, end, run, inside=False)

    def run(self, term: Term, j: Value, end: Value) -> tuple[Value, Value, Value]:
        """Emit the run from index `j` on, up to a vector long and up to `end`: the offset of the first element, a mask, and the length."""
        em, width = self.em, self.em.width
        table = table_at(em, term.value)
        em.inmost()
        (inside,) = lanes_before(end, j, 1, width)
        place = table.at(j, I64)
        offsets = masked(place, int64, width, inside)
        offset = place.load(I64)
        together = inside & (offsets - offset.splat(width)).equals(em.b.counting(I64, width))
        bits = together.bitcast(int_type(width))
        if width > 1:
            bits = intrinsic("cttz", ~bits, em.b.constant(I1, 0))
        length = bits if width == 64 else bits.cast("zext", I64)  # the mask of 64 lanes is a word
        return offset, first_lanes(length, width), length

    def fill_transposed(self, index: int, e: Expr, first: Value, last: Value) -> None:
        """Emit the packing of a value with lanes along the steps: squares are loaded, transposed and stored."""
        em, dtype = self.em, e.dtype.compute
        most = min(em.target.loops.square, em.target.lanes(dtype.itemsize))
        side = next(n for n in (8, 4, 2, 1) if self.panel % n == 0 and n <= most)

        def band(at: Value) -> Value:
            """Emit the packing of as many rows as a square has."""
            within = self.within(first, at)
            into = self.panel_at(index, first, at - within)
            final = last - 1
            rows = [smaller(final, row) for row in [at + r for r in range(side)]]

            def square(k: Value, number: Value) -> Value:
                if em.lanes is not None and em.lanes.masked:
                    alone = self.span if len(self.summed) == 1 else None
                    mask_idle_lanes(em, k, em.extent(self.summed[-1]) if alone is None else alone[1])
                vectors = [to_memory(dtype, self.at_row(e, row)) for row in rows]
                em.inmost()
                to = number * self.panel + within
                for column, x in enumerate(transposed(vectors)):
                    (place,) = places(into, to + column * self.panel, dtype, side, 1)
                    place.store(x)
                return k + side

            stopped = None
            if len(self.summed) == 1:
                em.lanes = Lanes(self.summed[-1], side, 1)
                stopped = self.over_steps(side, square)
            em.lanes = Lanes(self.summed[-1], side, 1, masked=True)
            self.over_steps(1, square, stopped)
            em.lanes = None
            em.inmost()
            return at + side

        em.repeated(self.axis, first, last, band, inside=False)

    def at_row(self, e: Expr, row: Value) -> Value:
        """Emit a value at the present lanes, for a given index of the side's axis."""
        with self.em.standing(self.axis, row):
            (found,) = self.em.in_lanes(e)
        return found

    # As tiles read it

    def rows(self, at: Value, end: Value, mr: int, first: Value, *, whole: bool) -> Row:
        """Return a function that emits the elements of `mr` rows from `at` on, in a block from `first` on.

        All rows of a `whole` tile are before `end`. Otherwise, rows beyond `end` give values without meaning; the reads stay inside the
        memory.
        """
        em = self.em
        if self.side.packed:
            within = self.within(first, at) if mr < self.panel else em.b.constant(I64, 0)
            em.inmost()
            at = at - within
            panels = [self.first_step(index, first, at) for index in range(len(self.side.values))]

            def packed(k: Value, index: int, row: int) -> Value:
                dtype = self.side.values[index].dtype.compute
                return load(panels[index].at(k * self.panel + (within + row), memory_type(dtype)), dtype)

            return packed
        em.inmost()
        final = end - 1
        indices = [at, *(at + row if whole else smaller(final, at + row) for row in range(1, mr))]
        starts = [[self.where_it_lies(e, i) for i in indices] for e in self.side.values]

        def loaded(k: Value, index: int, row: int) -> Value:
            e = self.side.values[index]
            assert isinstance(e, Load)
            return load(starts[index][row].at(self.step_to(e, k), memory_type(e.dtype)), e.dtype)

        return loaded

    def columns(
        self, panel: tuple[Value, Value], wide: Columns, masks: Masks, first: Value, steps: tuple[Value, Value]
    ) -> Vectors:
        """Return a function that emits vectors of a panel's columns under `masks`, in a block from `first` on.

        `panel` is the begin and the end of the columns, and `steps` the begin and the end of the steps.
        """
        starts = [self.packed_at(index, panel, wide, first, steps) for index in range(len(self.side.values))]
        there = [self.pieces(e, panel[0], wide) if start is None else [] for e, start in zip(self.side.values, starts, strict=True)]

        def loaded(k: Value, index: int) -> Parts:
            e, start = self.side.values[index], starts[index]
            dtype = e.dtype.compute
            if start is not None:
                element = memory_type(dtype)
                row = start.at(k * self.panel, element)
                return [load(row.at(offset, element), dtype, wide.width) for offset in wide.offsets]
            assert isinstance(e, Load)
            element, at = memory_type(e.dtype), self.step_to(e, k)
            its = [place.at(at, element) for place in there[index]]
            return [
                load(place, e.dtype, wide.width) if mask is None else masked(place, e.dtype, wide.width, mask)
                for place, mask in zip(its, masks, strict=True)
            ]

        return loaded

    def packed_at(
        self, index: int, panel: tuple[Value, Value], wide: Columns, first: Value, steps: tuple[Value, Value]
    ) -> Value | None:
        """Emit the pointer to step 0 of a packed panel; return None for a value read in place.

        If the elements are in several runs, the emitted code packs the panel for these `steps` alone.
        """
        if self.side.packed:
            return self.first_step(index, first, panel[0])
        e = self.side.values[index]
        term = self.table_of(e)
        if term is None or wide.together:
            return None
        self.em.inmost()
        element = memory_type(e.dtype)
        into = self.place.at(self.bytes_before(index) * self.panel * AT_ONCE, I8).at(steps[0] * -self.panel, element)
        self.copy_runs(e, term, panel, into, steps)
        return into

    def are_together(self, at: Value, end: Value, count: int) -> Value:
        """Emit whether each of so many vectors of columns from `at` on is a single run before `end`."""
        em = self.em
        found = em.b.constant(I1, 1)
        for e in self.side.values:
            if (term := self.table_of(e)) is not None:
                for u in range(count):
                    em.inmost()
                    *_, length = self.run(term, at + u * em.width, end)
                    em.inmost()
                    found &= length.equals(em.width)
        return found

    def pieces(self, e: Expr, panel: Value, wide: Columns) -> list[Value]:
        """Emit pointers to the vectors of a panel's columns at the first step. Each vector of a value in runs must be one run."""
        em = self.em
        assert isinstance(e, Load)
        term, element = self.table_of(e), memory_type(e.dtype)
        em.inmost()
        if term is None:
            first = self.where_it_lies(e, panel)
            return [first.at(offset, element) for offset in wide.offsets]
        base, table = self.where_it_lies(e, None), table_at(em, term.value)
        em.inmost()
        return [base.at(table.at(panel + offset, I64).load(I64), element) for offset in wide.offsets]

    def where_it_lies(self, e: Expr, at: Value | None) -> Value:
        """Emit the pointer to the element at index `at` of the side's axis, at the first step.

        Without an index, emit the pointer from which the offsets of the axis count.
        """
        em = self.em
        assert isinstance(e, Load)
        own = [t for t in e.address.terms if t.axis == self.axis]
        rest = [t for t in e.address.terms if t.axis != self.axis and t.axis not in self.summed]
        total = scalar_sum(em, e.address, rest)
        pointer = pointer_to(em, e.operand)
        if at is not None:
            for term in own:
                total = total + scaled(em, term, at)
        return pointer.at(total, memory_type(e.dtype))

    def number_steps(self, place: Value) -> Value:
        """Emit a table of the offsets of all steps, from `place` on, in front of all loops; return the pointer behind the tables.

        The table is needed for sums over several axes. An offset is the distance between the elements of a step and of the first step.
        """
        em = self.em
        for e in self.side.values:
            assert isinstance(e, Load)
            terms = [t for t in e.address.terms if t.axis in self.summed]
            self.offsets[e] = start = place

            def step(k: Value, number: Value, terms: list[Term] = terms, start: Value = start) -> Value:
                offset = scalar_sum(em, Address(tuple(terms)), terms)
                em.inmost()
                start.at(number, I64).store(offset)
                return k + 1

            with em.outside():
                self.over_steps(1, step)
            with em.within(0):
                place = place.at(self.all_steps, I64)
        return place

    def step_to(self, e: Load, k: Value) -> Value:
        """Emit the distance between the elements of step `k` and of the first step."""
        if e in self.offsets:
            return self.offsets[e].at(k, I64).load(I64)
        term = next((t for t in e.address.terms if t.axis in self.summed), None)
        return k.constant(0) if term is None else scaled(self.em, term, k)


def places(start: Value, at: Value | int, dtype: DType, width: int, count: int) -> Parts:
    """Emit pointers to so many vectors, the first `at` elements behind the start."""
    element = memory_type(dtype)
    first = start.at(at, element)
    return [first.at(u * width, element) for u in range(count)]


def masked(place: Value, dtype: DType, width: int, mask: Value) -> Value:
    """Emit the load of a vector under a mask; the other lanes are 0."""
    return from_memory(dtype, load_masked(place, vector(memory_type(dtype), width), mask))
