"""Products: blocks of results in registers, from packed pieces of both sides.

The scheme is that of Goto and van de Geijn ("Anatomy of high-performance matrix multiplication", 2008) as BLIS has it. A
*tile* of results, a few rows of a few vectors, is kept in registers while the steps run; each step takes an element of
every row and a vector or two of columns. Before, the elements of a block are packed in panels, as high or as wide as a
tile, in the order in which they are needed. Of the steps some hundred are done at a time, so that the right panel stays
in the first cache meanwhile, and sums grow in chunks; the states wait in a buffer. What the kernel does with the results
is done from the registers if it is little, else row by row.

    for a block of columns:                          pack the right side
      for a block of rows:                           pack the left side
        for each panel of columns:
          for some hundred steps:
            for each tile of rows:                   the steps, in registers
          for each row:                              what is done with the results
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ...expr import Call, Const, Expr
from ...kernel.ir import Factor, For, Product, State, Update, expand, expressions, walk, work
from ...kernel.products import AT_ONCE, ROWS
from . import folds, packing
from .rows import stored
from .scopes import Block, Lanes, Scope
from .values import I8, I32, I64, POINTER, Value, constant, intrinsic, memory_type, smaller, splat

if TYPE_CHECKING:
    from .emit import _Emitter
    from .scopes import Parts

LINE = 64  # bytes
LITTLE = 4  # additions' worth of work with a result, up to which it is done straight from the registers
MOST_TERMS = 2  # of a step, that are added to a state one by one


def tile_shape(vector_bytes: int, states: int) -> tuple[tuple[int, ...], int]:
    """The heights of tiles, in rows, and how many vectors wide they are: as the registers allow.

    The first height is for whole tiles, the others are for the last rows.
    """
    if vector_bytes == 64:  # 32 registers
        return ((12, 4), 2) if states == 1 else ((6, 2), 2)
    return ((6, 2), 2) if states == 1 else ((4, 2), 1)


class Work:
    """A product being emitted: its loops, and what is done with its results."""

    def __init__(self, em: _Emitter, s: Product) -> None:
        self.em, self.s = em, s
        self.fold = em.kernel.folds[s.fold]
        self.width = em.width
        self.heights, self.vectors = tile_shape(em.vector_bytes, len(self.fold.states))
        self.high, self.wide = self.heights[0], self.vectors * self.width
        self.direct = all(work(e) <= LITTLE for e in expressions(s.body))
        self.once = s.once and self.direct
        self.steps = self.steps_in_all()
        self.states, left, right, offsets = self.scratch()
        self.left = packing.Panels(em, s.left, s.summed, self.high, self.steps, left)
        self.right = packing.Panels(em, s.right, s.summed, self.wide, self.steps, right)
        for side in (self.left, self.right):
            if (side.side.runs or not side.side.packed) and len(s.summed) > 1:
                offsets = side.number_steps(offsets)
            if side.side.fixed:
                em.outside(partial(side.fill, *em.range(side.axis)))

    def steps_in_all(self) -> Value:
        """How many steps there are."""
        em = self.em
        extents = [em.slot(em.kernel.axes[axis].extent) for axis in self.s.summed]
        b = em.at(0)
        total = reduce(b.mul, extents)
        em.inmost()
        return total

    def scratch(self) -> list[Value]:
        """Where states, left and right panels, and numbers of steps lie, in what this thread has to itself."""
        em, s = self.em, self.s
        state = 0 if self.once else sum(d.itemsize for d in self.fold.states)
        if not (s.left.packed or s.right.packed) and len(s.summed) == 1:
            place = em.on_stack(I8, (ROWS[1] + self.high) * self.wide * state, "states")
            return [place] * 4
        columns = em.slot(s.right.block)
        place = em.scratch()
        b = em.at(0)
        columns = b.add(columns, constant(I64, self.wide))
        rows, steps = self.padded(b), b.add(self.steps, constant(I64, packing.SQUARE))
        sizes = (
            b.mul(rows, constant(I64, self.wide * state)),
            b.mul(b.mul(rows, steps), constant(I64, s.left.packed * packing.bytes_of(s.left))),
            b.mul(b.mul(columns, steps), constant(I64, s.right.packed * packing.bytes_of(s.right))),
        )
        found = [b.inttoptr(place, POINTER)]
        for size in sizes:
            place = b.and_(b.add(b.add(place, size), constant(I64, LINE - 1)), constant(I64, -LINE))
            found.append(b.inttoptr(place, POINTER))
        em.inmost()
        return found

    # Loops

    def emit(self) -> None:
        """All blocks of columns with all blocks of rows."""
        em, s = self.em, self.s
        rows, columns = em.range(s.left.axis), em.range(s.right.axis)

        def column_block(first: Value, last: Value) -> None:
            if not s.right.fixed:
                self.right.fill(first, last)

            def block(top: Value, bottom: Value) -> None:
                if s.left.packed and not s.left.fixed:
                    b = em.inmost()  # a single block of rows is still there for the next columns
                    missing = b.or_(
                        b.icmp_signed("==", first, columns[0]),
                        b.icmp_signed("<", b.sub(bottom, top), b.sub(rows[1], rows[0])),
                    )
                    only_if(em, missing, lambda: self.left.fill(top, bottom))
                self.block(top, bottom, first, last)

            self.blocks(s.left.axis, *rows, s.left.block, block)

        self.blocks(s.right.axis, *columns, s.right.block, column_block)

    def blocks(
        self, axis: int, begin: Value, end: Value, size: int | Value, body: Callable[[Value, Value], None]
    ) -> None:
        """What `body` emits, for blocks of an axis; the size is a slot or a value."""
        em = self.em
        step = em.slot(size) if isinstance(size, int) else size

        def turn(first: Value) -> Value:
            further = em.inmost().add(first, step)
            body(first, smaller(em.inmost(), further, end))
            return em.inmost().add(first, step)

        em.repeated(For(axis, ()), -1, begin, end, 1, turn)

    def block(self, top: Value, bottom: Value, first: Value, last: Value) -> None:
        """A block of rows with a block of columns."""
        s = self.s

        def panel(left: Value, right: Value) -> None:
            def some_steps(begin: Value, end: Value) -> None:
                self.tiles((top, bottom), (first, left, right), (begin, end))

            if self.once:
                some_steps(constant(I64, 0), self.steps)
            else:
                self.blocks(s.summed[0], constant(I64, 0), self.steps, constant(I64, AT_ONCE), some_steps)
            if not self.direct:
                self.finish((top, bottom), (left, right))

        self.blocks(s.right.axis, first, last, constant(I64, self.wide), panel)

    def padded(self, b: Any) -> Value:
        """The rows of a block, and a tile's."""
        return b.add(self.em.slot(self.s.left.block), constant(I64, self.high))

    def tiles(self, rows: tuple[Value, Value], columns: tuple[Value, Value, Value], steps: tuple[Value, Value]) -> None:
        """Some steps of all tiles in a column panel: one that is narrow takes fewer vectors, the last rows a lower tile."""
        em, (top, bottom), (first, left, right) = self.em, rows, columns
        for vectors in range(self.vectors, 0, -1):

            def narrow(j: Value, vectors: int = vectors) -> Value:
                row: Value = top
                for k, high in enumerate(self.heights):
                    least = high - 3 if k + 1 < len(self.heights) else 1

                    def tile(i: Value, high: int = high) -> Value:
                        _Tile(self, high, vectors, rows, (first, j, right), i, steps).emit()
                        return em.inmost().add(i, constant(I64, high))

                    row = em.repeated(For(self.s.left.axis, ()), -1, row, bottom, least, tile)
                return em.inmost().add(j, constant(I64, self.wide))

            em.repeated(For(self.s.right.axis, ()), -1, left, right, (vectors - 1) * self.width + 1, narrow)
            if vectors > 1:
                left = em.inmost().select(self.is_wide(left, right, vectors), right, left)

    def is_wide(self, left: Value, right: Value, vectors: int) -> Value:
        """Whether a panel has more columns than one vector less would hold."""
        b = self.em.inmost()
        return b.icmp_signed(">", b.sub(right, left), constant(I64, (vectors - 1) * self.width))

    def place_of(self, part: int, rows: Value, row: Value) -> Value:
        """Where part `part` of the states of a row lie, the `rows`-th being the first of the block."""
        b = self.em.builder
        size = self.fold.states[part].itemsize
        before = self.wide * sum(d.itemsize for d in self.fold.states[:part])
        start = self.states
        if before:
            start = b.gep(start, [b.mul(self.padded(b), constant(I64, before))], source_etype=I8)
        return b.gep(start, [b.mul(b.sub(row, rows), constant(I64, self.wide * size))], source_etype=I8)

    def finish(self, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
        """What is done with the results of a block of rows in a panel, row by row."""
        em, s = self.em, self.s
        em.block[s.left.axis] = Block(*rows, 0)
        em.block[s.right.axis] = Block(*columns, self.wide)
        em.products[s.fold] = self
        em.statement(For(s.left.axis, (For(s.right.axis, s.body),)))
        del em.block[s.left.axis], em.block[s.right.axis], em.products[s.fold]

    def state_row(self) -> list[Value]:
        """Where the states lie of the row that the loops stand at."""
        em, axis = self.em, self.s.left.axis
        depth = em.scope_of(axis)
        top = em.block[axis].begin
        row = em.scopes[depth].index
        return em.once(
            depth,
            ("state row", self.s.fold),
            lambda b: [self.place_of(part, top, row) for part in range(len(self.fold.states))],
        )


class _Tile:
    """Some steps of a tile in registers: `high` rows of so many vectors, from row `i` and column `j` on."""

    def __init__(
        self,
        product: Work,
        high: int,
        vectors: int,
        rows: tuple[Value, Value],
        columns: tuple[Value, Value, Value],
        i: Value,
        steps: tuple[Value, Value],
    ) -> None:
        self.product, self.em, self.s = product, product.em, product.s
        self.high, self.vectors, self.i, self.steps = high, vectors, i, steps
        self.top, self.bottom = rows
        self.first, self.j, self.right = columns
        self.width = product.width

    def emit(self) -> None:
        em, s, n = self.em, self.s, self.high * self.vectors
        em.lanes = Lanes(s.right.axis, self.width, self.vectors)
        fold = self.product.fold
        identity = fold.reduction.identity(fold.states)
        start = [em.widened(em.value(e), e)[:1] * n for e in identity]
        em.states[s.fold] = start
        left = self.product.left.rows(self.i, self.bottom, self.high, self.top)
        right = self.product.right.columns(self.j, self.right, self.vectors, self.width, self.first)
        fixed = {e: em.widened(em.value(e), e)[:1] * self.vectors for v in s.values for e in walk(v) if _is_given(e)}

        def step(k: Value) -> Value:
            vectors = [right(k, index) for index in range(len(s.right.values))]
            old = em.states[s.fold]
            new: list[Parts] = [[] for _ in s.values]
            for row in range(self.high):
                known: dict[Expr, Parts] = dict(fixed)
                for index, e in enumerate(s.right.values):
                    known[Factor(1, index, e.dtype)] = vectors[index]
                for index, e in enumerate(s.left.values):
                    known[Factor(0, index, e.dtype)] = [
                        splat(em.builder, left(k, index, row), self.width)
                    ] * self.vectors
                for part, dtype in enumerate(fold.states):
                    own = slice(row * self.vectors, (row + 1) * self.vectors)
                    known[State(s.fold, part, dtype)] = old[part][own]
                for part, value in enumerate(s.values):
                    new[part] += next_state(em, value, known)
            em.states[s.fold] = new
            return em.inmost().add(k, constant(I64, 1))

        if not self.product.once:
            self.fetch()
        em.repeated(For(s.summed[0], (Update(s.fold, s.values),)), -1, *self.steps, 1, step)
        if self.product.once:
            self.finish()
        else:
            places = self.join(start)
            if self.product.direct:
                more = em.inmost().icmp_signed("<", self.steps[1], self.product.steps)
                only_if(em, more, lambda: self.keep(places))
                only_if(em, em.inmost().not_(more), self.finish)
            else:
                self.keep(places)
        em.lanes = None

    def finish(self) -> None:
        """What is done with the results, straight from the registers, vector by vector."""
        em, s = self.em, self.s
        states, masks = (
            em.states[s.fold],
            packing.first_lanes(em.inmost(), self.right, self.j, self.vectors, self.width),
        )
        final = em.inmost().sub(self.bottom, constant(I64, 1))
        for row in range(self.high):
            b = em.inmost()
            i = b.add(self.i, constant(I64, row))
            inside = splat(b, b.icmp_signed("<=", i, final), self.width)
            i = smaller(b, i, final)  # what is read once for a row is read for idle ones too
            em.scopes.append(Scope(s.left.axis, b.block, i))
            for u in range(self.vectors):
                em.scopes.append(Scope(s.right.axis, b.block, b.add(self.j, constant(I64, u * self.width))))
                em.inmost()
                em.lanes = Lanes(s.right.axis, self.width, 1, masked=True, mask=b.and_(masks[u], inside))
                of_row = [[parts[row * self.vectors + u]] for parts in states]
                em.states[s.fold], em.results[s.fold] = of_row, (len(em.scopes) - 1, of_row)
                for statement in s.body:
                    em.statement(statement)
                em.scopes.pop()
                em.scope.block = b.block
            em.scopes.pop()
            em.scope.block = b.block

    def waiting(self) -> list[Value]:
        """Where each part of the states of the first row waits."""
        return [self.product.place_of(part, self.top, self.i) for part in range(len(self.product.fold.states))]

    def fetch(self) -> None:
        """Ask for the lines in which the states wait, as there is time until they are needed."""
        em = self.em
        for place, dtype in zip(self.waiting(), self.product.fold.states, strict=True):
            b = em.inmost()
            for at in range(0, self.high * self.product.wide * dtype.itemsize, LINE):
                line = b.gep(place, [constant(I64, at)], source_etype=I8)
                intrinsic(b, "prefetch", ir.VoidType(), line, *(constant(I32, n) for n in (1, 3, 1)), suffix="p0")

    def join(self, start: list[Parts]) -> list[Parts]:
        """Join the states with those of the steps before, if there are any; where these are."""
        em, fold = self.em, self.product.fold
        b = em.inmost()
        later = splat(b, b.icmp_signed(">", self.steps[0], constant(I64, 0)), self.width)
        offsets = [row * self.product.wide + u * self.width for row in range(self.high) for u in range(self.vectors)]
        places = [
            [b.gep(first, [constant(I64, o)], source_etype=memory_type(dtype)) for o in offsets]
            for first, dtype in zip(self.waiting(), fold.states, strict=True)
        ]
        before = [
            [
                b.select(later, packing.vector(b, place, dtype, self.width), none)
                for place, none in zip(its, nones, strict=True)
            ]
            for its, dtype, nones in zip(places, fold.states, start, strict=True)
        ]
        em.states[self.s.fold] = folds.combined(em, self.s.fold, before, em.states[self.s.fold])
        return places

    def keep(self, places: list[Parts]) -> None:
        """Put the states where they wait for more steps, or for what is done with them."""
        em = self.em
        for its, parts, dtype in zip(places, em.states[self.s.fold], self.product.fold.states, strict=True):
            stored(em, its, dtype, parts)


def only_if(em: _Emitter, condition: Value, make: Callable[[], object]) -> None:
    """What `make` emits, where the condition holds."""

    def turn(index: Value) -> Value:
        make()
        return em.inmost().add(index, constant(I64, 1))

    skipped = em.inmost().zext(em.inmost().not_(condition), I64)
    em.repeated(For(0, ()), -1, skipped, constant(I64, 1), 1, turn)


def _is_given(e: Expr) -> bool:
    """Whether a leaf of a step is the same for all steps."""
    return not isinstance(e, (Call, Const, Factor, State))


def next_state(em: _Emitter, value: Expr, known: dict[Expr, Parts]) -> Parts:
    """The next state; products that are added to it, or taken from it, are rounded once each."""
    products = _added_products(value)
    if products is None:
        return em.inline(value, known)
    b, found = em.builder, known[products[0]]
    for one, other, less in products[1]:
        left, right = em.inline(one, known), em.inline(other, known)
        left = [b.fneg(x) for x in left] if less else left
        found = [intrinsic(b, "fma", z.type, x, y, z) for x, y, z in zip(left, right, found, strict=True)]
    return found


Products = list[tuple[Expr, Expr, bool]]  # factors, and whether the product is subtracted


def _added_products(value: Expr) -> tuple[State, Products] | None:
    """The state and the products of floats of which a value is the sum."""
    if not (isinstance(value, Call) and value.op.name == "add" and value.dtype.is_float):
        return None
    state, term = value.args
    found: Products = []
    if isinstance(state, State) and _collected(term, False, found):
        return state, found
    return None


def _collected(term: Expr, less: bool, found: Products) -> bool:
    """Whether a term is a sum or difference of products, as those of complex numbers are, which are then `found`."""
    dtype = term.dtype
    while isinstance(term, Call) and (formula := expand(term)) is not None:
        term = formula
    if not isinstance(term, Call) or term.dtype is not dtype:
        return False
    if term.op.name in ("add", "subtract"):
        one, other = term.args
        return _collected(other, less ^ (term.op.name == "subtract"), found) and _collected(one, less, found)
    if term.op.name != "multiply" or len(found) == MOST_TERMS:
        return False
    one, other = term.args
    found.append((one, other, less))
    return True
