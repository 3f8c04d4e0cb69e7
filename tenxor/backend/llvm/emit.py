"""The loop IR as LLVM IR: loops become blocks, expressions become vector code.

Every value is emitted in the outermost loop in which all that it depends on is known, and once per loop. So a scope
(one loop's body, or the function itself) keeps its block open while the loops inside it are written; its jump into them
comes last.

Lanes run along one axis of each nest. That loop is written twice: steps of `unroll` whole vectors, then masked single
vectors for the rest; or, where much is computed, once, and only its loads and stores twice. A fold across the lanes
keeps one state per lane; they are combined, in a fixed order, behind the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ...expr import Call, Const, Expr, missing
from ...kernel.columns import SHORT
from ...kernel.ir import (
    ALIGNMENT,
    Accumulate,
    Fetch,
    For,
    Index,
    Init,
    Keep,
    Kept,
    Kernel,
    Load,
    Number,
    Position,
    Product,
    Result,
    Stage,
    Staged,
    State,
    Statement,
    Store,
    Update,
    expand,
)
from . import access, folds, indices, pairs, products, rows, scatter, tiles, widths
from .analysis import Needs, carried, dependencies, runs_along
from .arithmetic import EXACT, PRIMITIVES
from .scopes import Block, Lanes, Parts, Scope
from .values import (
    I64,
    POINTER,
    Type,
    Value,
    constant,
    converted,
    lanes_of,
    number_of,
    rounded,
    smaller,
    splat,
)

ENTRY = "kernel"


def emit(kernel: Kernel, vector_bytes: int) -> str:
    """The LLVM module, as text, with `kernel(args, begin, end, worker)`: the loops, the shared one from `begin` to `end`.

    `worker` is the number of the thread that runs it.
    """
    return _Emitter(kernel, vector_bytes).module_text()


class _Emitter:
    def __init__(self, kernel: Kernel, vector_bytes: int) -> None:
        self.kernel, self.vector_bytes = kernel, vector_bytes
        self.module = ir.Module(name=kernel.name)
        signature = ir.FunctionType(ir.VoidType(), [POINTER, I64, I64, I64])
        self.function = ir.Function(self.module, signature, ENTRY)
        self.function.attributes.add("nounwind")
        self.function.attributes.alignstack = ALIGNMENT  # or vectors that are spilled would lie across two lines
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.scopes = [Scope(-1, self.builder.block)]
        self.here = 0  # the depth of the scope that the builder is in
        self.lanes: Lanes | None = None
        self.width = widths.lane_count(kernel, vector_bytes)
        self.block: dict[int, Block] = {}  # what part of an axis the loop over it runs through
        self.states: dict[int, list[Parts]] = {}  # the running states, per part
        self.results: dict[int, tuple[int, list[Parts]]] = {}  # the latest states and the scope that they belong to
        self.needs: dict[Expr, Needs] = {}
        self.products: dict[int, products.Work] = {}  # whose results are at hand
        self.streamed = False

    def module_text(self) -> str:
        for s in self.kernel.body:
            self.statement(s)
        self.at(0)
        if self.streamed:
            self.builder.fence("seq_cst")  # what went past the cache is there before anybody is told so
        self.builder.ret_void()
        return str(self.module)

    # Scopes

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def at(self, depth: int) -> Any:
        """The builder, set to where the scope at this depth goes on."""
        self.here = depth
        self.builder.position_at_end(self.scopes[depth].block)
        return self.builder

    def inmost(self) -> Any:
        """The builder, set to where the innermost scope goes on."""
        return self.at(len(self.scopes) - 1)

    def scope_of(self, axis: int) -> int:
        """The depth of the loop over an axis; 0, the function, if it is not around us."""
        for depth in range(len(self.scopes) - 1, 0, -1):
            if self.scopes[depth].axis == axis:
                return depth
        raise AssertionError(f"axis {axis} is used outside its loop")

    def outside(self, make: Callable[[], object]) -> None:
        """Have `make` emit before all loops."""
        inner, self.scopes = self.scopes[1:], self.scopes[:1]
        self.inmost()
        make()
        self.scopes += inner
        self.inmost()

    def once(self, depth: int, key: object, make: Any) -> Parts:
        """What `make` emits in the scope at `depth`, emitted there once; the builder stays where it was."""
        scope = self.scopes[depth]
        found = scope.known.get(key)
        if found is None:
            came_from = self.here
            found = make(self.at(depth))
            scope.known[key] = found
            self.at(came_from)
        return found

    def argument(self, index: int) -> Value:
        """The 64-bit argument number `index`, as an integer."""

        def load(b: Any) -> Parts:
            place = b.gep(self.function.args[0], [constant(I64, index)], source_etype=I64)
            return [b.load(place, typ=I64)]

        return self.once(0, ("argument", index), load)[0]

    def slot(self, slot: int) -> Value:
        k = self.kernel
        return self.argument(len(k.operands) + k.tables + len(k.numbers) + slot)

    def scratch(self) -> Value:
        """The address of the memory that this thread has to itself."""
        k = self.kernel
        (first, size), worker = [self.slot(k.slots + n) for n in range(2)], self.function.args[3]
        return self.once(0, "scratch", lambda b: [b.add(first, b.mul(worker, size))])[0]

    def on_stack(self, element: Type, size: int, name: str) -> Value:
        """Memory for so many elements, for as long as the kernel runs."""
        entry = ir.IRBuilder(self.function.entry_basic_block)
        entry.position_at_start(self.function.entry_basic_block)
        place = entry.alloca(ir.ArrayType(element, size), name=name)
        place.align = ALIGNMENT
        return entry.inttoptr(entry.ptrtoint(place, I64), POINTER)

    # Statements

    def statement(self, s: Statement) -> None:
        if isinstance(s, For):
            self.loop(s)
        elif isinstance(s, Product):
            products.Work(self, s).emit()
        elif isinstance(s, Init):
            self.start(s.fold)
        elif isinstance(s, Update):
            self.update(s)
        elif isinstance(s, Keep):
            rows.keep(self, s)
        elif isinstance(s, Fetch):
            access.fetch(self, s)
        elif isinstance(s, Stage):
            tiles.fill(self, s)
        elif isinstance(s, Accumulate):
            scatter.accumulate(self, s)
        else:
            self.store(s)

    def statement_in(self, s: Statement) -> None:
        """A statement of a loop. Around the loop with lanes, what is not on the way to that has none, or its own."""
        lanes = self.lanes
        if lanes is None or any(scope.axis == lanes.axis for scope in self.scopes) or runs_along(s, lanes.axis):
            self.statement(s)
        else:
            self.lanes = None
            self.statement(s)
            self.lanes = lanes

    def start(self, fold: int) -> None:
        f = self.kernel.folds[fold]
        identity = f.reduction.identity(f.states)
        states = [self.widened(self.value(e), e) for e in identity]
        self.states[fold] = states
        self.results[fold] = (len(self.scopes) - 1, states)

    def update(self, s: Update) -> None:
        old = self.states[s.fold]
        new = [self.widened(self.value(e), e) for e in s.values]
        if self.lanes is not None and self.lanes.mask is not None:
            b, mask = self.inmost(), self.lanes.mask
            new = [[b.select(mask, n, o) for n, o in zip(ns, os, strict=True)] for ns, os in zip(new, old, strict=True)]
        self.states[s.fold] = new
        self.results[s.fold] = (len(self.scopes) - 1, new)

    def store(self, s: Store) -> None:
        self.inmost()
        values = [self.value(e) for e in s.values]
        if access.has_lanes(s.address, self.lanes):
            values = [self.widened(parts, e) for parts, e in zip(values, s.values, strict=True)]
        if s.imag is None:
            access.store(self, s.operand, s.address, values[0], s.streamed)
        else:
            pairs.store(self, s, values[0], values[1])
        self.streamed |= s.streamed

    # Loops

    def range(self, axis: int) -> tuple[Value, Value]:
        """What part of an axis a loop over it runs through here."""
        if axis in self.block:
            begin, end, _ = self.block[axis]
            return begin, end
        if axis == self.kernel.shared:
            return self.function.args[1], self.function.args[2]
        return constant(I64, 0), self.slot(self.kernel.axes[axis].extent)

    def loop(self, s: For) -> None:
        axis = self.kernel.axes[s.axis]
        begin, end = self.range(s.axis)
        if s.block:
            self.block_loop(s, begin, end)
        elif axis.vector and self.width > 1:
            self.vector_loop(s, begin, end)
        elif self.lanes is None and (lanes := folds.lanes_inside(self, s)) is not None:
            self.folding_across(lanes, carried(s, self.kernel.folds), lambda: self.whole_steps(s, begin, end, 1))
        else:
            self.whole_steps(s, begin, end, 1)

    def block_loop(self, s: For, begin: Value, end: Value) -> None:
        """The loop over blocks of an axis; what is inside it runs from the first index of a block to the last."""

        def turn(index: Value) -> Value:
            b = self.inmost()
            further = b.add(index, constant(I64, s.block))
            self.block[s.axis] = Block(index, smaller(b, further, end), s.block)
            for inner in s.body:
                self.statement(inner)
            del self.block[s.axis]
            return further

        self.repeated(s, -1, begin, end, 1, turn)

    def whole_steps(self, s: For, begin: Value, end: Value, step: int) -> Value:
        """The loop in whole steps from `begin` on, in chunks if it adds up floats; where it stopped."""
        chunk = folds.chunk(self, s, carried(s, self.kernel.folds))
        if not chunk:
            return self.plain_loop(s, begin, end, step)

        def one(first: Value, last: Value) -> Value:
            before = {f: self.states[f] for f in carried(s, self.kernel.folds)}
            for f in before:
                self.start(f)
            stop = self.plain_loop(s, first, last, step)
            for f, states in before.items():
                self.states[f] = folds.combined(self, f, states, self.states[f])
            return stop

        if s.axis in self.block and self.block[s.axis].size == chunk * step:
            return one(begin, end)

        def turn(first: Value) -> Value:
            b = self.inmost()
            last = b.add(first, constant(I64, chunk * step))
            return one(first, smaller(b, last, end))

        return self.repeated(s, -1, begin, end, step, turn)

    def plain_loop(self, s: For, begin: Value, end: Value, step: int) -> Value:
        """The loop in whole steps from `begin` on, or with a mask in steps that may reach past the end; where it
        stopped.
        """
        masked = self.lanes is not None and self.lanes.axis == s.axis and self.lanes.masked
        changed, read = rows.in_rows(self, s)

        def turn(index: Value) -> Value:
            if masked:
                self.mask_idle_lanes(index, end)
            rows.load_states(self, read)
            for inner in s.body:
                self.statement_in(inner)
            rows.store_states(self, changed)
            return self.inmost().add(index, constant(I64, step))

        return self.repeated(s, s.axis, begin, end, 1 if masked else step, turn)

    def repeated(
        self, s: For, axis: int, begin: Value, end: Value, needs: int, turn: Callable[[Value], Value]
    ) -> Value:
        """What `turn` emits for an index, giving the next one, from `begin` on while `needs` more are before `end`; where
        it stopped. The states of the folds in `s` go from turn to turn.
        """
        depth = len(self.scopes) - 1
        header, body, done = (self.function.append_basic_block(f"{n}{s.axis}") for n in ("head", "body", "done"))
        entering = {f: self.states[f] for f in carried(s, self.kernel.folds)}

        b = self.builder
        b.position_at_end(header)
        index = b.phi(I64, f"i{s.axis}")
        running = {f: [[b.phi(v.type) for v in parts] for parts in states] for f, states in entering.items()}
        reaches = index if needs == 1 else b.add(index, constant(I64, needs - 1))
        b.cbranch(b.icmp_signed("<", reaches, end), body, done)

        self.states.update(running)
        self.scopes.append(Scope(axis, body, index))
        self.inmost()
        further = turn(index)
        after = self.scopes.pop().block
        b.position_at_end(after)
        b.branch(header)

        before = self.scopes[depth].block  # only now is all there that the body wanted computed outside it
        b.position_at_end(before)
        b.branch(header)
        index.add_incoming(begin, before)
        index.add_incoming(further, after)
        for f, phis in running.items():
            for k, parts in enumerate(phis):
                for u, phi in enumerate(parts):
                    phi.add_incoming(entering[f][k][u], before)
                    phi.add_incoming(self.states[f][k][u], after)
            self.states[f] = phis
            self.results[f] = (depth, phis)
        self.scopes[depth].block = done
        self.inmost()
        return index

    def vector_loop(self, s: For, begin: Value, end: Value) -> None:
        """Whole steps of several vectors, then masked single vectors."""
        across = carried(s, self.kernel.folds)
        if across and self.lanes is None:
            self.folding_across(s.axis, across, lambda: self.vector_loop(s, begin, end))
            return
        around, (changed, _) = self.lanes, rows.in_rows(self, s)
        width = self.width if around is None else around.width
        if not across and widths.is_written_once(s):
            self.lanes = Lanes(s.axis, width, 1, masked=True, either=True)
            self.plain_loop(s, begin, end, width)
            self.lanes = around
            return
        short = bool(changed) and self.block[s.axis].size <= SHORT
        widest = max(1, self.block[s.axis].size // width) if s.axis in self.block else widths.WIDEST
        for unroll in widths.unrollings(s, across=bool(across), short_rows=short):
            unroll = min(unroll, widest)
            self.lanes = Lanes(s.axis, width, unroll)
            begin = self.whole_steps(s, begin, end, width * unroll)
        self.lanes = Lanes(s.axis, width, 1, masked=True)
        others = {f: [parts[1:] for parts in self.states[f]] for f in across}
        for f in across:
            self.states[f] = [parts[:1] for parts in self.states[f]]
        self.plain_loop(s, begin, end, width)
        for f, rest in others.items():
            self.states[f] = [one + more for one, more in zip(self.states[f], rest, strict=True)]
        self.lanes = around

    def folding_across(self, axis: int, across: list[int], run: Callable[[], object]) -> None:
        """What `run` emits, with a state for each lane along an axis of the folds `across`, which end as one state.

        There are as many lanes as a vector holds of what these folds keep, and only these: so they add in the same order
        whatever else the kernel computes.
        """
        entered = {f: self.states[f] for f in across}
        widest = max(d.itemsize for f in across for d in self.kernel.folds[f].states)
        self.lanes = Lanes(axis, max(2, self.vector_bytes // widest), widths.ACROSS)
        for f in across:
            self.start(f)
        run()
        self.lanes = None
        for f, before in entered.items():
            states = folds.across(self, f, folds.together(self, f, self.states[f]))
            self.states[f] = folds.combined(self, f, before, states)
            self.results[f] = (len(self.scopes) - 1, self.states[f])

    def mask_idle_lanes(self, index: Value, end: Value) -> None:
        """In the last vector only the lanes before the end are at work."""
        assert self.lanes is not None
        b, width = self.inmost(), self.lanes.width
        left = b.sub(end, index)
        if self.lanes.either:
            self.lanes.left = left
            return
        left = smaller(b, left, constant(I64, width))
        self.lanes.mask = access.first_lanes(b, left, width)

    def inline(self, e: Expr, known: dict[Expr, Parts]) -> Parts:
        """An expression over given values, emitted right here."""
        for part in missing(e, known):
            if isinstance(part, Const):
                like = next(iter(known.values()))
                known[part] = [number_of(part.dtype, part.value, lanes_of(v)) for v in like]
            else:
                assert isinstance(part, Call)
                known[part] = self.call(part, [known[a] for a in part.args])
        return known[e]

    # Expressions

    def depth_of(self, e: Expr) -> int:
        """The innermost scope that an expression depends on."""
        axes, folds, running = dependencies(e, self.needs)
        if running:
            return len(self.scopes) - 1
        depths = [self.scope_of(a) for a in axes] + [self.results[f][0] for f in folds]
        return max(depths, default=0)

    def value(self, e: Expr) -> Parts:
        """The value of an expression, emitted in the outermost loop that it can be."""
        for part in missing(e, self):
            self.computed(part)
        found = self.found(e)
        assert found is not None
        return found

    def __contains__(self, e: object) -> bool:
        """Whether the value of an expression is there already."""
        return isinstance(e, Expr) and self.found(e) is not None

    def found(self, e: Expr) -> Parts | None:
        """The value of an expression, if it is there."""
        if isinstance(e, Const):
            return [number_of(e.dtype, e.value)]
        if isinstance(e, State):
            return self.states[e.fold][e.part]
        if isinstance(e, Result):
            return self.results[e.fold][1][e.part]
        return self.scopes[self.depth_of(e)].known.get(e)

    def computed(self, e: Expr) -> Parts:
        """The value of an expression whose operands have theirs."""
        depth = self.depth_of(e)
        if isinstance(e, Load):
            if e.part is not None:
                return self.once(depth, e, lambda b: pairs.load(self, e))
            return self.once(depth, e, lambda b: access.load(self, e.operand, e.address, e.dtype, e.args))
        if isinstance(e, Index):
            return self.once(depth, e, lambda b: indices.checked(self, e))
        if isinstance(e, Kept):
            return self.once(depth, e, lambda b: rows.kept(self, e))
        if isinstance(e, Staged):
            return self.once(depth, e, lambda b: tiles.load(self, e))
        if isinstance(e, Position):
            return self.once(depth, e, lambda b: access.position(self, e.address))
        if isinstance(e, Number):
            return self.once(depth, e, lambda b: [access.number(self, b, e)])
        assert isinstance(e, Call)
        args = [self.value(a) for a in e.args]
        if any(lanes_of(p[0]) for p in args):
            args = [self.widened(p, a) for p, a in zip(args, e.args, strict=True)]
        return self.once(depth, e, lambda b: self.call(e, args))

    def widened(self, parts: Parts, of: Expr) -> Parts:
        """The value of `of` in vectors: as it is if it has lanes, else one scalar in all of them."""
        if lanes_of(parts[0]) or self.lanes is None:
            return parts
        lanes = self.lanes
        if isinstance(of, Const):
            return [number_of(of.dtype, of.value, lanes.width)] * lanes.unroll
        wide = self.once(self.depth_of(of), ("splat", of, lanes.width), lambda b: [splat(b, parts[0], lanes.width)])
        return wide * lanes.unroll

    def call(self, e: Call, args: list[Parts]) -> Parts:
        """An operation on scalars, or on as many vectors as there are."""
        formula = expand(e)
        if formula is not None:
            wide = {a: p for a, p in zip(e.args, args, strict=True)}
            return self.inline(formula, wide)
        b = self.builder
        source, name = e.args[0].dtype, e.op.name
        if name == "cast":
            return [converted(b, v, source, e.dtype) for v in args[0]]
        operand = e.args[-1].dtype  # of `where`, the dtype of its values
        found = [PRIMITIVES[name](b, operand, *each) for each in zip(*args, strict=True)]
        self.scopes[self.here].block = b.block  # some functions add blocks of their own
        return found if name in EXACT else [rounded(b, e.dtype, v) for v in found]
