"""What all emitters of loops and memory share: the loops that are open, and the values that are known in each.

Every value is emitted in the outermost loop in which all that it depends on is known, and once per loop. So a scope
(one loop's body, or the function itself) keeps its block open while the loops inside it are written; its jump into them
comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from ...kernel.ir import ALIGNMENT, Kernel, Result, State, Statement, axis_name, expand, expressions, in_turn
from ...ops.expr import Call, Const, Expr, missing
from ...target import Target
from . import ENTRY, widths
from .analysis import Needs, dependencies
from .arithmetic import EXACT, PRIMITIVES
from .builder import Builder, Cursor, Module, Value
from .scopes import Lanes, Parts, Scope, Span
from .types import I64, POINTER, Type, array
from .values import converted, number_of, rounded

T = TypeVar("T")

Leaf = Callable[["Emitter", Any], Parts]  # the value of a leaf of an expression
Turn = Callable[[Value], Value]  # a turn of a loop: what it does at an index, and the next index


class Emitter:
    """A kernel being emitted. `leaves` and `statements` say what emits each kind of leaf and of statement."""

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        leaves: Mapping[type[Expr], Leaf],
        statements: Mapping[type, Callable[[Emitter, Any], None]],
    ) -> None:
        self.kernel, self.target, self.leaves, self.statements = kernel, target, leaves, statements
        self.listens = kernel.listens
        self.module = Module(target)
        parameters = [("arguments", POINTER), ("begin", I64), ("end", I64), ("worker", I64)]
        # Vectors that are spilled would lie across two lines if the stack were less aligned.
        stack = f"alignstack({ALIGNMENT}) " if target.processor.aligns_stack else ""
        calling = target.processor.calling
        self.b = Builder(self.module, ENTRY, parameters, attributes=f"{stack}nounwind", calling=calling)
        self.arguments, self.begin, self.end, self.worker = self.b.arguments
        self.scopes = [Scope(-1, self.b.cursor)]
        self.here = 0  # the depth of the scope that the builder is in
        self.lanes: Lanes | None = None
        self.width = widths.lane_count(kernel, target)
        self.spans: dict[int, Span] = {}  # what part of an axis the loop over it runs through
        self.states: dict[int, list[Parts]] = {}  # the running states, per part
        self.results: dict[int, tuple[int, list[Parts]]] = {}  # the latest states and the scope that they belong to
        self.state_rows: dict[int, Callable[[], list[Value]]] = {}  # where the results of products lie that are at hand
        self.needs: dict[Expr, Needs] = {}

    def body(self, body: tuple[Statement, ...], each: Callable[[Statement], None] | None = None) -> None:
        """Emit the statements of a body, each as told; what several stores write at once is known before the first of them."""
        for run in in_turn(body):
            if len(run) > 1:
                for e in expressions(run):
                    self.value(e)
            for s in run:
                (each or self.statement)(s)

    def statement(self, s: Statement) -> None:
        """Emit a statement."""
        self.statements[type(s)](self, s)

    # Scopes

    @property
    def scope(self) -> Scope:
        """The innermost scope."""
        return self.scopes[-1]

    def at(self, depth: int) -> None:
        """Go on where the scope at this depth does."""
        self.here = depth
        self.b.cursor = self.scopes[depth].cursor

    def inmost(self) -> None:
        """Go on where the innermost scope does."""
        self.at(len(self.scopes) - 1)

    def scope_of(self, axis: int) -> int:
        """The depth of the loop over an axis around us."""
        for depth in range(len(self.scopes) - 1, 0, -1):
            if self.scopes[depth].axis == axis:
                return depth
        raise AssertionError(f"axis {axis} is used outside its loop")

    def index(self, axis: int) -> Value:
        """Where the loop over an axis around us is."""
        found = self.scopes[self.scope_of(axis)].index
        assert found is not None
        return found

    @contextmanager
    def standing(self, axis: int, index: Value) -> Iterator[None]:
        """At one index of an axis, without a loop."""
        self.scopes.append(Scope(axis, self.scope.cursor, index))
        self.inmost()
        yield
        self.scopes.pop()
        self.inmost()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Before all loops."""
        inner, self.scopes = self.scopes[1:], self.scopes[:1]
        self.inmost()
        yield
        self.scopes += inner
        self.inmost()

    @contextmanager
    def within(self, depth: int) -> Iterator[None]:
        """In the scope at this depth, and then where we were."""
        came_from = self.here
        self.at(depth)
        yield
        self.at(came_from)

    def once(self, depth: int, key: object, make: Callable[[], T]) -> T:
        """What `make` emits in the scope at `depth`, emitted there once; the builder stays where it was."""
        known = self.scopes[depth].known
        found: T | None = known.get(key)
        if found is None:
            came_from = self.here
            self.at(depth)
            found = known[key] = make()
            self.at(came_from)
        return found

    # Arguments and memory

    def argument(self, index: int, name: str) -> Value:
        """The 64-bit argument number `index`, as an integer."""
        return self.once(0, ("argument", index), lambda: self.arguments.at(index, I64).load(I64, name))

    def size(self, index: int) -> Value:
        """A size parameter: a size, stride or offset. Behind those of the kernel stands whether it is to stop, if it listens, and then the
        address and the size of the memory for threads.
        """
        k = self.kernel
        return self.argument(len(k.operands) + k.tables + len(k.scalars) + index, f"s{index}")

    def stopped(self) -> Value:
        """Whether the kernel, which listens, is to stop: asked anew, here."""
        k = self.kernel
        place = self.arguments.at(len(k.operands) + k.tables + len(k.scalars) + k.sizes, I64)
        return place.load(I64, volatile=True).differs(0)

    def extent(self, axis: int) -> Value:
        """How many indices an axis has."""
        return self.size(self.kernel.axes[axis].extent)

    def range(self, axis: int) -> tuple[Value, Value]:
        """What part of an axis a loop over it runs through here."""
        if axis in self.spans:
            begin, end, _ = self.spans[axis]
            return begin, end
        if axis == self.kernel.split:
            return self.begin, self.end
        return self.b.constant(I64, 0), self.extent(axis)

    def scratch(self) -> Value:
        """The address of the memory that this thread has to itself."""
        behind = self.kernel.sizes + self.listens
        first, size = self.size(behind), self.size(behind + 1)
        return self.once(0, "scratch", lambda: first + self.worker * size)

    def on_stack(self, element: Type, size: int, name: str) -> Value:
        """Memory for so many elements, for as long as the kernel runs."""
        before, entry = self.b.cursor, self.b.entry
        self.b.cursor, written = Cursor(entry), entry.lines
        entry.lines = []
        place = self.b.define(POINTER, f"alloca {array(element, size).text}, align {ALIGNMENT}", name)
        memory = place.cast("ptrtoint", I64).cast("inttoptr", POINTER)
        entry.lines += written
        self.b.cursor = before
        return memory

    # Loops

    def repeated(
        self,
        axis: int,
        begin: Value,
        end: Value,
        turn: Turn,
        *,
        needs: int = 1,
        accumulators: Iterable[int] = (),
        inside: bool = True,
    ) -> Value:
        """What `turn` emits for an index of an axis, giving the next one, from `begin` on while `needs` more are before `end`;
        where it stopped. The states of some reductions go from turn to turn. If not `inside`, the index is not that of the axis
        for what is emitted, but that of a block of it.
        """
        b, depth, name = self.b, len(self.scopes) - 1, axis_name(axis)
        head, body, done = (b.block(f"{name}.{part}") for part in ("head", "body", "done"))
        entering = {f: self.states[f] for f in accumulators}

        b.cursor = Cursor(head)
        index = b.phi(I64, name)
        phis = {f: [[b.phi(v.type) for v in parts] for parts in states] for f, states in entering.items()}
        reaches = index if needs == 1 else index + (needs - 1)
        b.branch_if(reaches < end, body, done)

        for f, its in phis.items():
            self.states[f] = [[*parts] for parts in its]
        self.scopes.append(Scope(axis if inside else -1, Cursor(body), index))
        self.inmost()
        further = turn(index)
        b.cursor = self.scopes.pop().cursor
        after = b.cursor.block
        b.branch(head)

        b.cursor = self.scopes[depth].cursor  # only now is all there that the body wanted computed outside it
        before = b.cursor.block
        b.branch(head)
        index.comes(begin, before)
        index.comes(further, after)
        for f, its in phis.items():
            for parts, first, last in zip(its, entering[f], self.states[f], strict=True):
                for phi, x, y in zip(parts, first, last, strict=True):
                    phi.comes(x, before)
                    phi.comes(y, after)
            self.states[f] = [[*parts] for parts in its]
            self.results[f] = (depth, self.states[f])
        b.cursor.block = done
        self.inmost()
        return index

    def only_if(self, condition: Value, make: Callable[[], object], *, here: bool = False) -> None:
        """What `make` emits, where the condition holds. If `here`, so it is with all that it needs of the innermost loop's turn."""
        b, depth = self.b, len(self.scopes) - 1
        then, done = b.block("then"), b.block("otherwise")
        around = self.scope
        inner = Scope(around.axis, Cursor(then), around.index, dict(around.known)) if here else Scope(-1, Cursor(then), b.constant(I64, 0))
        self.scopes.append(inner)
        self.inmost()
        make()
        b.cursor = self.scopes.pop().cursor
        b.branch(done)
        b.cursor = self.scopes[depth].cursor  # only now is all there that was wanted computed outside
        b.branch_if(condition, then, done)
        b.cursor.block = done
        self.inmost()

    # Expressions

    def depth_of(self, e: Expr) -> int:
        """The innermost scope that an expression depends on."""
        axes, accumulators, running = dependencies(e, self.needs)
        if running:
            return len(self.scopes) - 1
        depth = 0
        for axis in axes:
            depth = max(depth, self.scope_of(axis))
        for f in accumulators:
            depth = max(depth, self.results[f][0])
        return depth

    def value(self, e: Expr) -> Parts:
        """The value of an expression, emitted in the outermost loop that it can be."""
        found = self.found(e)
        if found is None:
            for part in missing(e, self):
                found = self.computed(part)  # in the end that of `e` itself
        assert found is not None
        return found

    def __contains__(self, e: object) -> bool:
        """Whether the value of an expression is there already."""
        return isinstance(e, Expr) and self.found(e) is not None

    def found(self, e: Expr) -> Parts | None:
        """The value of an expression, if it is there."""
        if isinstance(e, Const):
            return [number_of(self.b, e.dtype, e.value)]
        if isinstance(e, State):
            return self.states[e.accumulator][e.part]
        if isinstance(e, Result):
            return self.results[e.accumulator][1][e.part]
        return self.scopes[self.depth_of(e)].known.get(e)

    def computed(self, e: Expr) -> Parts:
        """The value of an expression whose operands have theirs."""
        if not isinstance(e, Call):
            return self.once(self.depth_of(e), e, lambda: self.leaves[type(e)](self, e))
        args = [self.value(a) for a in e.args]
        if any(p[0].lanes for p in args):
            args = [self.widened(p, a) for p, a in zip(args, e.args, strict=True)]
        return self.once(self.depth_of(e), e, lambda: self.call(e, args))

    def in_lanes(self, e: Expr) -> Parts:
        """The value of an expression in vectors, if lanes are at work."""
        return self.widened(self.value(e), e)

    def widened(self, parts: Parts, of: Expr) -> Parts:
        """The value of `of` in vectors: as it is if it has lanes, else one scalar in all of them."""
        lanes = self.lanes
        if parts[0].lanes or lanes is None:
            return parts
        width = lanes.width
        if isinstance(of, Const):
            return [number_of(self.b, of.dtype, of.value, width)] * lanes.unroll
        return [self.once(self.depth_of(of), ("splat", of, width), lambda: parts[0].splat(width))] * lanes.unroll

    def inline(self, e: Expr, known: dict[Expr, Parts]) -> Parts:
        """An expression over given values, emitted right here."""
        for part in missing(e, known):
            if isinstance(part, Const):
                like = next(iter(known.values()))
                known[part] = [number_of(self.b, part.dtype, part.value, v.lanes) for v in like]
            else:
                assert isinstance(part, Call)
                known[part] = self.call(part, [known[a] for a in part.args])
        return known[e]

    def call(self, e: Call, args: list[Parts]) -> Parts:
        """An operation on scalars, or on as many vectors as there are."""
        formula = expand(e)
        if formula is not None:
            return self.inline(formula, dict(zip(e.args, args, strict=True)))
        source, name = e.args[0].dtype, e.op.name
        if name == "cast":
            return [converted(v, source, e.dtype, by_halves=self.target.takes_longs_apart) for v in args[0]]
        operand, emit = e.args[-1].dtype, PRIMITIVES[name]  # of `where`, the dtype of its values
        found = [emit(operand, *each) for each in zip(*args, strict=True)]
        return found if name in EXACT else [rounded(e.dtype, v) for v in found]
