"""The two sides of a product as its tiles want them: packed in panels first, or read where they lie.

A panel has as many indices of the side's axis as a tile is high or wide. It holds one step after another, and for each
step the panel's elements side by side, so a tile reads it from beginning to end. The last panel may be partly empty;
what lies there is never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ...dtypes import DType, int64
from ...expr import Expr
from ...kernel.ir import Address, For, Load, Side, Term, surface
from . import access
from .rows import stored
from .scopes import Lanes, Scope
from .tiles import turned
from .values import (
    I8,
    I32,
    I64,
    Value,
    constant,
    counting,
    from_memory,
    intrinsic,
    load_masked,
    memory_type,
    smaller,
    splat,
    store_masked,
    to_memory,
)

if TYPE_CHECKING:
    from .emit import _Emitter
    from .scopes import Parts

TOGETHER = 4  # panels that are filled at once: memory is read in longer pieces
SQUARE = 8  # elements of a side of what is turned in registers, at most

Row = Callable[[Value, int, int], Value]  # the element at a step, of a value, in a row of the tile
Vectors = Callable[[Value, int], "Parts"]  # the elements at a step, of a value


def bytes_of(side: Side) -> int:
    """The memory that the values of one index at one step take when packed."""
    return sum(e.dtype.compute.itemsize for e in side.values)


class Panels:
    """One side: packed in panels of `panel` indices, or where it lies. `steps` is how many there are in all."""

    def __init__(
        self, em: _Emitter, side: Side, summed: tuple[int, ...], panel: int, steps: Value, place: Value
    ) -> None:
        self.em, self.side, self.summed, self.panel, self.steps = em, side, summed, panel, steps
        self.place = place
        self.axis = side.axis
        self.offsets: dict[Expr, Value] = {}  # where the offsets of all steps are written down

    # Packed

    def fill(self, first: Value, last: Value) -> None:
        """Pack a block of indices, unless they are read where they lie."""
        if self.side.packed:
            for index, e in enumerate(self.side.values):
                term = self.table_of(e)
                if term is not None:
                    self.fill_runs(index, e, term, first, last)
                elif self.lies_along_steps(e):
                    self.fill_turned(index, e, first, last)
                else:
                    self.fill_straight(index, e, first, last)

    def lies_along_steps(self, e: Expr) -> bool:
        """Whether more of what a value reads has neighbouring steps side by side than neighbouring indices."""
        units = [t.axis for load in surface(e) if isinstance(load, Load) for t in load.address.terms if t.how == "unit"]
        return units.count(self.summed[-1]) > units.count(self.axis)

    def start(self, index: int, b: Any) -> Value:
        """Where the panels of a value begin."""
        size = sum(e.dtype.compute.itemsize for e in self.side.values[:index])
        padded = b.add(self.em.slot(self.side.block), constant(I64, self.panel))
        count = b.mul(padded, b.add(self.steps, constant(I64, SQUARE)))
        return b.gep(self.place, [b.mul(count, constant(I64, size))], source_etype=I8)

    def panel_at(self, index: int, first: Value, at: Value) -> Value:
        """The panel that begins with index `at`, in a block from `first` on."""
        b = self.em.inmost()
        element = memory_type(self.side.values[index].dtype.compute)
        return b.gep(self.start(index, b), [b.mul(b.sub(at, first), self.steps)], source_etype=element)

    def within(self, first: Value, at: Value) -> Value:
        """How far into its panel index `at` is, in a block from `first` on."""
        b = self.em.inmost()
        return b.srem(b.sub(at, first), constant(I64, self.panel))

    def over_steps(self, needs: int, body: Callable[[Value, Value], Value], begin: Value | None = None) -> Value:
        """Loops over the steps, the innermost from `begin` on while `needs` are left; `body` is given the index there and the
        number of the step, and says where to go on. Where the innermost stopped.
        """
        em = self.em
        *outer, inner = self.summed
        stopped: list[Value] = []

        def nested(axes: Sequence[int], number: Value) -> None:
            axis = axes[0] if axes else inner
            extent = em.slot(em.kernel.axes[axis].extent)
            before = em.inmost().mul(number, extent)

            def turn(k: Value) -> Value:
                at = em.inmost().add(before, k)
                if not axes:
                    return body(k, at)
                nested(axes[1:], at)
                return em.inmost().add(k, constant(I64, 1))

            start = constant(I64, 0) if axes or begin is None else begin
            stopped.append(em.repeated(For(axis, ()), axis, start, extent, 1 if axes else needs, turn))

        nested(outer, constant(I64, 0))
        return stopped[0]

    def fill_straight(self, index: int, e: Expr, first: Value, last: Value) -> None:
        """Lanes run along the panel."""
        em, dtype = self.em, e.dtype.compute
        width = next(w for w in (em.width, 8, 4, 2, 1) if self.panel % w == 0 and w <= em.width)

        def copied(panels: list[Value], within: Value) -> None:
            def step(k: Value, number: Value) -> Value:
                parts = em.widened(em.value(e), e)
                b = em.inmost()
                at = b.add(b.mul(number, constant(I64, self.panel)), within)
                each = len(parts) // len(panels)
                for n, panel in enumerate(panels):
                    its = parts[n * each : (n + 1) * each]
                    stored(em, places(b, panel, at, dtype, width, each), dtype, its)
                return b.add(k, constant(I64, 1))

            self.over_steps(1, step)
            em.lanes = None

        rest = first
        for together in (TOGETHER, 1):

            def whole(at: Value, together: int = together) -> Value:
                em.lanes = Lanes(self.axis, width, together * self.panel // width)
                starts = [em.inmost().add(at, constant(I64, n * self.panel)) for n in range(together)]
                copied([self.panel_at(index, first, start) for start in starts], constant(I64, 0))
                return em.inmost().add(at, constant(I64, together * self.panel))

            rest = em.repeated(For(self.axis, ()), self.axis, rest, last, together * self.panel, whole)

        def few(at: Value) -> Value:
            em.lanes = Lanes(self.axis, width, 1, masked=True)
            em.mask_idle_lanes(at, last)
            copied([self.panel_at(index, first, rest)], em.inmost().sub(at, rest))
            return em.inmost().add(at, constant(I64, width))

        em.repeated(For(self.axis, ()), self.axis, rest, last, 1, few)

    def table_of(self, e: Expr) -> Term | None:
        """The table that says where the indices of a value lie in runs, if one does."""
        if not self.side.runs:
            return None
        assert isinstance(e, Load)
        return next((t for t in e.address.terms if t.axis == self.axis and t.how == "table"), None)

    def fill_runs(self, index: int, e: Expr, term: Term, first: Value, last: Value) -> None:
        """What lies side by side is copied together."""
        em, width = self.em, self.em.width
        assert isinstance(e, Load)
        kind = ir.VectorType(memory_type(e.dtype), width)

        def panel(at: Value) -> Value:
            further = em.inmost().add(at, constant(I64, self.panel))
            end = smaller(em.inmost(), further, last)
            into, base = self.panel_at(index, first, at), self.where_it_lies(e, None)

            def run(j: Value) -> Value:
                offset, mask, length = self.run(term, j, end)

                def steps(count: int) -> Callable[[Value], Value]:
                    def some(k: Value) -> Value:
                        b = em.inmost()
                        for number in (b.add(k, constant(I64, n)) for n in range(count)):
                            there = b.gep(start, [self.step_to(e, number)], source_etype=kind.element)
                            v = load_masked(b, there, kind, mask)
                            here = b.gep(to, [b.mul(number, constant(I64, self.panel))], source_etype=kind.element)
                            store_masked(b, v, here, mask)
                        return b.add(k, constant(I64, count))

                    return some

                b = em.inmost()
                start = b.gep(base, [offset], source_etype=kind.element)
                to = b.gep(into, [b.sub(j, at)], source_etype=kind.element)
                k: Value = constant(I64, 0)
                for count in (4, 1):
                    k = em.repeated(For(self.axis, ()), -1, k, self.steps, count, steps(count))
                return em.inmost().add(j, length)

            em.repeated(For(self.axis, ()), -1, at, end, 1, run)
            return further

        em.repeated(For(self.axis, ()), -1, first, last, 1, panel)

    def run(self, term: Term, j: Value, end: Value) -> tuple[Value, Value, Value]:
        """Of the indices from `j` on that lie side by side: where the first lies, a mask for them, and how many there are, no
        more than a vector has.
        """
        em, width = self.em, self.em.width
        table = access.table_at(em, term.slot)
        b = em.inmost()
        (inside,) = first_lanes(b, end, j, 1, width)
        place = b.gep(table, [j], source_etype=I64)
        offsets = masked(b, place, int64, width, inside)
        offset = b.load(place, typ=I64, align=8)
        together = b.and_(inside, b.icmp_signed("==", b.sub(offsets, splat(b, offset, width)), counting(width)))
        bits = b.bitcast(together, ir.IntType(width))
        length = intrinsic(b, "cttz", bits.type, b.not_(bits), ir.Constant(ir.IntType(1), 0), suffix=f"i{width}")
        length = b.zext(length, I64)
        return offset, access.first_lanes(b, length, width), length

    def fill_turned(self, index: int, e: Expr, first: Value, last: Value) -> None:
        """Lanes run along the steps; squares of them are turned."""
        em, dtype = self.em, e.dtype.compute
        side = next(n for n in (SQUARE, 4, 2, 1) if self.panel % n == 0 and n * dtype.itemsize <= em.vector_bytes)

        def band(at: Value) -> Value:
            """As many rows as a square has."""
            b = em.inmost()
            within = self.within(first, at)
            into = self.panel_at(index, first, b.sub(at, within))
            b = em.inmost()
            final = b.sub(last, constant(I64, 1))
            rows = [b.add(at, constant(I64, r)) for r in range(side)]
            rows = [smaller(b, row, final) for row in rows]

            def square(k: Value, number: Value) -> Value:
                if em.lanes is not None and em.lanes.masked:
                    em.mask_idle_lanes(k, em.slot(em.kernel.axes[self.summed[-1]].extent))
                vectors = [to_memory(em.builder, dtype, self.at_row(e, row)) for row in rows]
                b = em.inmost()
                to = b.add(b.mul(number, constant(I64, self.panel)), within)
                for column, v in enumerate(turned(b, vectors)):
                    (place,) = places(b, into, b.add(to, constant(I64, column * self.panel)), dtype, side, 1)
                    b.store(v, place, align=dtype.itemsize)
                return b.add(k, constant(I64, side))

            stopped = None
            if len(self.summed) == 1:
                em.lanes = Lanes(self.summed[-1], side, 1)
                stopped = self.over_steps(side, square)
            em.lanes = Lanes(self.summed[-1], side, 1, masked=True)
            self.over_steps(1, square, stopped)
            em.lanes = None
            return em.inmost().add(at, constant(I64, side))

        em.repeated(For(self.axis, ()), -1, first, last, 1, band)

    def at_row(self, e: Expr, row: Value) -> Value:
        """A value at the present lanes and a given index of the side's axis."""
        em = self.em
        em.scopes.append(Scope(self.axis, em.scope.block, row))
        em.inmost()
        (vector,) = em.widened(em.value(e), e)
        block = em.scopes.pop().block
        em.scope.block = block
        em.inmost()
        return vector

    # As tiles read it

    def rows(self, at: Value, end: Value, high: int, first: Value) -> Row:
        """The elements of so many rows from `at` on, in a block that begins at `first`; none lies beyond the `end`."""
        em = self.em
        if self.side.packed:
            within = self.within(first, at) if high < self.panel else constant(I64, 0)
            at = em.inmost().sub(at, within)
            panels = [self.panel_at(index, first, at) for index in range(len(self.side.values))]

            def element(k: Value, index: int, row: int) -> Value:
                b, dtype = em.builder, self.side.values[index].dtype.compute
                place = b.add(b.mul(k, constant(I64, self.panel)), b.add(within, constant(I64, row)))
                return load(b, b.gep(panels[index], [place], source_etype=memory_type(dtype)), dtype)

            return element
        b = em.inmost()
        final = b.sub(end, constant(I64, 1))
        indices = [b.add(at, constant(I64, row)) for row in range(high)]
        indices = [smaller(b, i, final) for i in indices]
        starts = [[self.where_it_lies(e, i) for i in indices] for e in self.side.values]

        def loaded(k: Value, index: int, row: int) -> Value:
            e = self.side.values[index]
            assert isinstance(e, Load)
            b = em.builder
            place = b.gep(starts[index][row], [self.step_to(e, k)], source_etype=memory_type(e.dtype))
            return load(b, place, e.dtype)

        return loaded

    def columns(self, at: Value, end: Value, vectors: int, width: int, first: Value) -> Vectors:
        """The elements of a few vectors of columns from `at` on, in a block that begins at `first`; none beyond the `end`."""
        em = self.em
        if self.side.packed:
            panels = [self.panel_at(index, first, at) for index in range(len(self.side.values))]

            def packed(k: Value, index: int) -> Parts:
                b, dtype = em.builder, self.side.values[index].dtype.compute
                there = places(b, panels[index], b.mul(k, constant(I64, self.panel)), dtype, width, vectors)
                return [vector(b, p, dtype, width) for p in there]

            return packed
        pieces = [self.pieces(e, at, end, vectors, width) for e in self.side.values]

        def loaded(k: Value, index: int) -> Parts:
            e = self.side.values[index]
            assert isinstance(e, Load)
            further, found = self.step_to(e, k), []
            for its in pieces[index]:
                lanes = None
                for start, mask in its:
                    place = em.builder.gep(start, [further], source_etype=memory_type(e.dtype))
                    lanes = masked(em.builder, place, e.dtype, width, mask, lanes)
                found.append(lanes)
            return found

        return loaded

    def pieces(self, e: Expr, at: Value, end: Value, vectors: int, width: int) -> list[list[tuple[Value, Value]]]:
        """Where each of a few vectors of columns lies before the first step, and masks for that: in two pieces if they lie in
        runs.
        """
        em = self.em
        assert isinstance(e, Load)
        masks = first_lanes(em.inmost(), end, at, vectors, width)
        term = self.table_of(e)
        if term is None:
            there = places(em.inmost(), self.where_it_lies(e, at), constant(I64, 0), e.dtype, width, vectors)
            return [[piece] for piece in zip(there, masks, strict=True)]
        base, element, found = self.where_it_lies(e, None), memory_type(e.dtype), []
        final = em.inmost().sub(end, constant(I64, 1))
        for u, inside in enumerate(masks):
            j = em.inmost().add(at, constant(I64, u * width))
            offset, first, length = self.run(term, j, end)
            b = em.inmost()
            after = smaller(b, b.add(j, length), final)
            table = access.table_at(em, term.slot)
            other = em.inmost().load(em.builder.gep(table, [after], source_etype=I64), typ=I64, align=8)
            offsets = offset, em.builder.sub(other, length)
            parts = first, em.builder.and_(inside, em.builder.not_(first))
            found.append(
                [(em.builder.gep(base, [o], source_etype=element), m) for o, m in zip(offsets, parts, strict=True)]
            )
        return found

    def where_it_lies(self, e: Expr, at: Value | None) -> Value:
        """The place of the element at an index of the side's axis, before the first step; without an index, that of what tables
        count from.
        """
        em = self.em
        assert isinstance(e, Load)
        own = [t for t in e.address.terms if t.axis == self.axis]
        rest = [t for t in e.address.terms if t.axis != self.axis and t.axis not in self.summed]
        total = access.scalar_sum(em, e.address, rest)
        pointer = access.pointer_to(em, e.operand)
        for term in own if at is not None else ():
            step = access.scaled(em, term, at)
            total = em.builder.add(total, step)
        return em.builder.gep(pointer, [total], source_etype=memory_type(e.dtype))

    def number_steps(self, place: Value) -> Value:
        """Write down from `place` on how far the elements of each step are from those of the first, as several axes are summed
        over; where there is room again.
        """
        em = self.em

        def written(e: Load, place: Value) -> None:
            def step(k: Value, number: Value) -> Value:
                terms = [t for t in e.address.terms if t.axis in self.summed]
                offset = access.scalar_sum(em, Address(tuple(terms)), terms)
                b = em.inmost()
                b.store(offset, b.gep(place, [number], source_etype=I64), align=8)
                return b.add(k, constant(I64, 1))

            self.over_steps(1, step)

        for e in self.side.values:
            assert isinstance(e, Load)
            self.offsets[e] = place
            em.outside(partial(written, e, place))
            b = em.at(0)
            place = b.gep(place, [self.steps], source_etype=I64)
            em.inmost()
        return place

    def step_to(self, e: Load, k: Value) -> Value:
        """How far the elements of step `k` are from those of the first."""
        if e in self.offsets:
            b = self.em.builder
            return b.load(b.gep(self.offsets[e], [k], source_etype=I64), typ=I64, align=8)
        term = next((t for t in e.address.terms if t.axis in self.summed), None)
        return constant(I64, 0) if term is None else access.scaled(self.em, term, k)


def first_lanes(b: Any, end: Value, at: Value, vectors: int, width: int) -> Parts:
    """Masks for a few vectors from `at` on, of what is before the `end`."""
    left = b.trunc(b.sub(end, at), I32)
    return [
        b.icmp_signed("<", counting(width, I32), splat(b, b.sub(left, constant(I32, u * width)), width))
        for u in range(vectors)
    ]


def places(b: Any, start: Value, at: Value, dtype: DType, width: int, count: int) -> Parts:
    """Where so many vectors begin, the first `at` elements behind the start."""
    element = memory_type(dtype)
    first = b.gep(start, [at], source_etype=element)
    return [b.gep(first, [constant(I64, u * width)], source_etype=element) for u in range(count)]


def load(b: Any, place: Value, dtype: DType) -> Value:
    """One element."""
    return from_memory(b, dtype, b.load(place, typ=memory_type(dtype), align=dtype.itemsize))


def vector(b: Any, place: Value, dtype: DType, width: int) -> Value:
    """A vector of elements."""
    return from_memory(b, dtype, b.load(place, typ=ir.VectorType(memory_type(dtype), width), align=dtype.itemsize))


def masked(b: Any, place: Value, dtype: DType, width: int, mask: Value, others: Value | None = None) -> Value:
    """A vector of elements, only those lanes that a mask has; the others are as given, or 0."""
    kind = ir.VectorType(memory_type(dtype), width)
    rest = None if others is None else to_memory(b, dtype, others)
    return from_memory(b, dtype, load_masked(b, place, kind, mask, rest))
