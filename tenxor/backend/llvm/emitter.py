"""The state shared by the emitters of loops and memory accesses: the open loops, and the values emitted in each loop.

A value is emitted once per loop, in the outermost loop in which all its operands are known. So a scope, the body of a loop or the function
itself, keeps its block open while the loops inside are written. The jump from the scope into an inner loop comes last.
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

Leaf = Callable[["Emitter", Any], Parts]  # emits the value of a leaf of an expression
EmitIteration = Callable[[Value], Value]  # emits one iteration of a loop at an index, and returns the next index


class Emitter:
    """A kernel being emitted. `leaves` and `statements` map the classes of leaves and statements to the functions that emit them."""

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
        # On a less aligned stack, spilled vectors would lie across two cache lines.
        stack = f"alignstack({ALIGNMENT}) " if target.processor.aligns_stack else ""
        calling = target.processor.calling
        self.b = Builder(self.module, ENTRY, parameters, attributes=f"{stack}nounwind", calling=calling)
        self.arguments, self.begin, self.end, self.worker = self.b.arguments
        self.scopes = [Scope(-1, self.b.cursor)]
        self.depth = 0  # the depth of the scope that the builder is in
        self.lanes: Lanes | None = None
        self.width = widths.lane_count(kernel, target)
        self.spans: dict[int, Span] = {}  # the parts of axes that loops run through, where not all of an axis
        self.states: dict[int, list[Parts]] = {}  # the running states of each reduction, part by part
        self.results: dict[int, tuple[int, list[Parts]]] = {}  # the latest states of each reduction, and the depth of their scope
        self.state_rows: dict[int, Callable[[], list[Value]]] = {}  # emits the pointers to a row of results of a product
        self.needs: dict[Expr, Needs] = {}

    def body(self, body: tuple[Statement, ...], emit_statement: Callable[[Statement], None] | None = None) -> None:
        """Emit the statements of a body in order, each by `emit_statement` or `statement`.

        The values of stores side by side are all emitted before the first of these stores.
        """
        for run in in_turn(body):
            if len(run) > 1:
                for e in expressions(run):
                    self.value(e)
            for s in run:
                (emit_statement or self.statement)(s)

    def statement(self, s: Statement) -> None:
        """Emit a statement."""
        self.statements[type(s)](self, s)

    # Scopes

    @property
    def scope(self) -> Scope:
        """The innermost scope."""
        return self.scopes[-1]

    def at(self, depth: int) -> None:
        """Continue at the end of the scope at this depth."""
        self.depth = depth
        self.b.cursor = self.scopes[depth].cursor

    def inmost(self) -> None:
        """Continue at the end of the innermost scope."""
        self.at(len(self.scopes) - 1)

    def scope_of(self, axis: int) -> int:
        """Return the depth of the innermost open loop over an axis."""
        for depth in range(len(self.scopes) - 1, 0, -1):
            if self.scopes[depth].axis == axis:
                return depth
        raise AssertionError(f"axis {axis} is used outside its loop")

    def index(self, axis: int) -> Value:
        """Return the present index of the open loop over an axis."""
        index = self.scopes[self.scope_of(axis)].index
        assert index is not None
        return index

    @contextmanager
    def standing(self, axis: int, index: Value) -> Iterator[None]:
        """Emit the code of the `with` statement's body at one index of an axis, without a loop."""
        self.scopes.append(Scope(axis, self.scope.cursor, index))
        self.inmost()
        yield
        self.scopes.pop()
        self.inmost()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Emit the code of the `with` statement's body in front of all loops."""
        inner, self.scopes = self.scopes[1:], self.scopes[:1]
        self.inmost()
        yield
        self.scopes += inner
        self.inmost()

    @contextmanager
    def within(self, depth: int) -> Iterator[None]:
        """Emit the code of the `with` statement's body at the end of the scope at this depth, and then continue in the scope of before."""
        old_depth = self.depth
        self.at(depth)
        yield
        self.at(old_depth)

    def once(self, depth: int, key: object, make: Callable[[], T]) -> T:
        """Return the result of `make()`, which emits code in the scope at `depth`. A second call with the same key emits nothing.

        The builder continues at its present place afterwards.
        """
        cache = self.scopes[depth].known
        result: T | None = cache.get(key)
        if result is None:
            old_depth = self.depth
            self.at(depth)
            result = cache[key] = make()
            self.at(old_depth)
        return result

    # Arguments and memory

    def argument(self, index: int, name: str) -> Value:
        """Return the 64-bit argument number `index`, as an integer."""
        return self.once(0, ("argument", index), lambda: self.arguments.at(index, I64).load(I64, name))

    def size(self, index: int) -> Value:
        """Return a size parameter: a size, a stride or an offset.

        Behind those of the kernel follow the stop flag, if the kernel listens, and then the address of the scratch memory and its bytes per
        thread.
        """
        k = self.kernel
        return self.argument(len(k.operands) + k.tables + len(k.scalars) + index, f"s{index}")

    def stopped(self) -> Value:
        """Emit whether the kernel must stop: a volatile load of the stop flag, at this very place. The kernel must listen."""
        k = self.kernel
        flag = self.arguments.at(len(k.operands) + k.tables + len(k.scalars) + k.sizes, I64)
        return flag.load(I64, volatile=True).differs(0)

    def extent(self, axis: int) -> Value:
        """Return the number of indices of an axis."""
        return self.size(self.kernel.axes[axis].extent)

    def range(self, axis: int) -> tuple[Value, Value]:
        """Return the begin and the end of the part of an axis that a loop here runs through."""
        if axis in self.spans:
            begin, end, _ = self.spans[axis]
            return begin, end
        if axis == self.kernel.split:
            return self.begin, self.end
        return self.b.constant(I64, 0), self.extent(axis)

    def scratch(self) -> Value:
        """Return the address of this thread's scratch memory, as an integer."""
        first_number = self.kernel.sizes + self.listens
        start, size = self.size(first_number), self.size(first_number + 1)
        return self.once(0, "scratch", lambda: start + self.worker * size)

    def on_stack(self, element: Type, size: int, name: str) -> Value:
        """Emit stack memory for `size` elements, allocated at the entry of the function, and return its pointer."""
        cursor, entry = self.b.cursor, self.b.entry
        self.b.cursor, old_lines = Cursor(entry), entry.lines
        entry.lines = []
        slot = self.b.define(POINTER, f"alloca {array(element, size).text}, align {ALIGNMENT}", name)
        memory = slot.cast("ptrtoint", I64).cast("inttoptr", POINTER)
        entry.lines += old_lines
        self.b.cursor = cursor
        return memory

    # Loops

    def repeated(
        self,
        axis: int,
        begin: Value,
        end: Value,
        emit_iteration: EmitIteration,
        *,
        needs: int = 1,
        accumulators: Iterable[int] = (),
        inside: bool = True,
    ) -> Value:
        """Emit a loop from `begin` on, while at least `needs` indices are left before `end`; return the index where it stops.

        `emit_iteration` emits one iteration at an index, and returns the next index. The states of the reductions `accumulators` are
        carried from iteration to iteration. If not `inside`, the loop runs over blocks of the axis, and the code inside must not use the
        index as the axis's own.
        """
        b, depth, name = self.b, len(self.scopes) - 1, axis_name(axis)
        head, body, exit_block = (b.block(f"{name}.{suffix}") for suffix in ("head", "body", "done"))
        initial_states = {f: self.states[f] for f in accumulators}

        b.cursor = Cursor(head)
        index = b.phi(I64, name)
        phis = {f: [[b.phi(v.type) for v in vectors] for vectors in states] for f, states in initial_states.items()}
        last_index = index if needs == 1 else index + (needs - 1)
        b.branch_if(last_index < end, body, exit_block)

        for f, state_phis in phis.items():
            self.states[f] = [[*vectors] for vectors in state_phis]
        self.scopes.append(Scope(axis if inside else -1, Cursor(body), index))
        self.inmost()
        next_index = emit_iteration(index)
        b.cursor = self.scopes.pop().cursor
        last_block = b.cursor.block
        b.branch(head)

        # The jump comes last, because the body may have emitted values in this scope.
        b.cursor = self.scopes[depth].cursor
        entry_block = b.cursor.block
        b.branch(head)
        index.comes(begin, entry_block)
        index.comes(next_index, last_block)
        for f, state_phis in phis.items():
            for vectors, initial, final in zip(state_phis, initial_states[f], self.states[f], strict=True):
                for phi, x, y in zip(vectors, initial, final, strict=True):
                    phi.comes(x, entry_block)
                    phi.comes(y, last_block)
            self.states[f] = [[*vectors] for vectors in state_phis]
            self.results[f] = (depth, self.states[f])
        b.cursor.block = exit_block
        self.inmost()
        return index

    def only_if(self, condition: Value, make: Callable[[], object], *, here: bool = False) -> None:
        """Emit the code that `make` emits, to run if the condition holds.

        Values that depend on the innermost loop are computed before the branch, or with `here` inside the branch.
        """
        b, depth = self.b, len(self.scopes) - 1
        then_block, after_block = b.block("then"), b.block("otherwise")
        outer = self.scope
        inner = (
            Scope(outer.axis, Cursor(then_block), outer.index, dict(outer.known))
            if here
            else Scope(-1, Cursor(then_block), b.constant(I64, 0))
        )
        self.scopes.append(inner)
        self.inmost()
        make()
        b.cursor = self.scopes.pop().cursor
        b.branch(after_block)
        b.cursor = self.scopes[depth].cursor  # the branch comes last, because `make` may have emitted values in this scope
        b.branch_if(condition, then_block, after_block)
        b.cursor.block = after_block
        self.inmost()

    # Expressions

    def depth_of(self, e: Expr) -> int:
        """Return the depth of the innermost scope that an expression depends on."""
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
        """Return the value of an expression, emitted in the outermost loop possible."""
        emitted = self.found(e)
        if emitted is None:
            for subexpr in missing(e, self):
                emitted = self.compute(subexpr)  # the last subexpression is `e` itself
        assert emitted is not None
        return emitted

    def __contains__(self, e: object) -> bool:
        """Return whether the value of an expression has been emitted."""
        return isinstance(e, Expr) and self.found(e) is not None

    def found(self, e: Expr) -> Parts | None:
        """Return the value of an expression if it has been emitted, else None."""
        if isinstance(e, Const):
            return [number_of(self.b, e.dtype, e.value)]
        if isinstance(e, State):
            return self.states[e.accumulator][e.part]
        if isinstance(e, Result):
            return self.results[e.accumulator][1][e.part]
        return self.scopes[self.depth_of(e)].known.get(e)

    def compute(self, e: Expr) -> Parts:
        """Return the value of an expression whose operands have been emitted."""
        if not isinstance(e, Call):
            return self.once(self.depth_of(e), e, lambda: self.leaves[type(e)](self, e))
        args = [self.value(a) for a in e.args]
        if any(p[0].lanes for p in args):
            args = [self.widened(p, a) for p, a in zip(args, e.args, strict=True)]
        return self.once(self.depth_of(e), e, lambda: self.call(e, args))

    def in_lanes(self, e: Expr) -> Parts:
        """Return the value of an expression, in vectors if there are lanes."""
        return self.widened(self.value(e), e)

    def widened(self, vectors: Parts, e: Expr) -> Parts:
        """Return the value `vectors` of the expression `e` in vectors: unchanged if already in vectors, else a scalar in every lane."""
        lanes = self.lanes
        if vectors[0].lanes or lanes is None:
            return vectors
        width = lanes.width
        if isinstance(e, Const):
            return [number_of(self.b, e.dtype, e.value, width)] * lanes.unroll
        return [self.once(self.depth_of(e), ("splat", e, width), lambda: vectors[0].splat(width))] * lanes.unroll

    def inline(self, e: Expr, values: dict[Expr, Parts]) -> Parts:
        """Emit an expression over given values at the present place, and return its value.

        `values` maps expressions to their values, and is extended.
        """
        for subexpr in missing(e, values):
            if isinstance(subexpr, Const):
                sample = next(iter(values.values()))
                values[subexpr] = [number_of(self.b, subexpr.dtype, subexpr.value, v.lanes) for v in sample]
            else:
                assert isinstance(subexpr, Call)
                values[subexpr] = self.call(subexpr, [values[a] for a in subexpr.args])
        return values[e]

    def call(self, e: Call, args: list[Parts]) -> Parts:
        """Emit an operation on scalars or on the vectors of a step, and return its value."""
        formula = expand(e)
        if formula is not None:
            return self.inline(formula, dict(zip(e.args, args, strict=True)))
        source_dtype, name = e.args[0].dtype, e.op.name
        if name == "cast":
            return [converted(v, source_dtype, e.dtype, by_halves=self.target.takes_longs_apart) for v in args[0]]
        operand_dtype, emit = e.args[-1].dtype, PRIMITIVES[name]  # of `where`, the dtype of its values
        results = [emit(operand_dtype, *operands) for operands in zip(*args, strict=True)]
        return results if name in EXACT else [rounded(e.dtype, v) for v in results]
