"""The state shared by the emitters of loops and memory accesses: the open loops, and the values emitted in each loop.

A value is emitted once per loop, in the outermost loop in which all its operands are known. So a scope, the body of a loop or the function
itself, keeps its block open while the loops inside are written. The jump from the scope into an inner loop comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from ...lowering.ir import ALIGNMENT_BYTES, Kernel, Result, State, Statement, axis_name, expand_formula, group_stores, iterate_expressions
from ...ops.expr import Call, Const, Expr, walk_unvisited
from ...target import Target
from . import KERNEL_SYMBOL, vector_widths
from .builder import Builder, Cursor, Module, Value
from .dtype_conversions import convert_dtype, make_constant, round_to_dtype
from .loop_analysis import Dependencies, find_dependencies
from .primitives import EXACT_OPS, PRIMITIVES
from .scopes import AxisRange, Lanes, Scope, ValueVectors
from .types import I64, POINTER, Type, array

T = TypeVar("T")

EmitLeaf = Callable[["Emitter", Any], ValueVectors]  # emits the value of a leaf of an expression
EmitIteration = Callable[[Value], Value]  # emits one iteration of a loop at an index, and returns the next index


class Emitter:
    """A kernel being emitted: the open loops, the lanes, and the values and states emitted so far.

    `emit_kernel` makes an emitter, and passes the emitter as `em` to the functions for statements and leaves. The methods run while the
    kernel is compiled. They append LLVM IR at the cursor of `builder`, or in an outer scope; a `Value` stands for a value at run time.
    `ValueVectors` are a list with a single scalar, or with the `unroll` vectors of `lanes`. `leaf_emitters` and `statement_emitters` map
    the classes of leaves and statements to the functions that emit them.

    In all methods, an axis is the number of a loop in `kernel.axes`, and an accumulator the number of a reduction in
    `kernel.accumulators`. A depth is an index into `scopes`, the open loops and branches: 0 is the function itself.
    """

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        leaf_emitters: Mapping[type[Expr], EmitLeaf],
        statement_emitters: Mapping[type, Callable[[Emitter, Any], None]],
    ) -> None:
        self.kernel, self.target, self.leaf_emitters, self.statement_emitters = kernel, target, leaf_emitters, statement_emitters
        self.polls_stop_flag = kernel.is_interruptible
        self.module = Module(target)
        parameters = [("arguments", POINTER), ("begin", I64), ("end", I64), ("worker", I64)]
        # On a less aligned stack, spilled vectors would lie across two cache lines.
        stack = f"alignstack({ALIGNMENT_BYTES}) " if target.processor.can_align_stack else ""
        calling = target.processor.calling_convention
        self.builder = Builder(self.module, KERNEL_SYMBOL, parameters, attributes=f"{stack}nounwind", calling_convention=calling)
        self.arguments, self.begin, self.end, self.worker = self.builder.arguments
        self.scopes = [Scope(-1, self.builder.cursor)]
        self.depth = 0  # the depth of the scope that the builder is in
        self.lanes: Lanes | None = None
        self.width = vector_widths.choose_lane_count(kernel, target)
        self.axis_ranges: dict[int, AxisRange] = {}  # the parts of axes that loops run through, where not all of an axis
        self.states: dict[int, list[ValueVectors]] = {}  # the running states of each reduction, part by part
        self.results: dict[int, tuple[int, list[ValueVectors]]] = {}  # the latest states of each reduction, and the depth of their scope
        self.state_rows: dict[int, Callable[[], list[Value]]] = {}  # emits the pointers to a row of results of a product
        self.dependency_cache: dict[Expr, Dependencies] = {}

    def emit_body(self, body: tuple[Statement, ...], emit_statement: Callable[[Statement], None] | None = None) -> None:
        """Emit the statements `body`, of the kernel or of a loop, in order: each by a call of the argument `emit_statement`.

        If the argument is None, the method `emit_statement` emits each. The values of adjacent stores are all emitted before the first of
        these stores.
        """
        for run in group_stores(body):
            if len(run) > 1:
                for e in iterate_expressions(run):
                    self.emit_value(e)
            for s in run:
                (emit_statement or self.emit_statement)(s)

    def emit_statement(self, s: Statement) -> None:
        """Emit a statement, by the function for the class of `s` in `statement_emitters`."""
        self.statement_emitters[type(s)](self, s)

    # Scopes

    @property
    def scope(self) -> Scope:
        """The innermost scope."""
        return self.scopes[-1]

    def continue_at(self, depth: int) -> None:
        """Move the builder to the end of the open scope number `depth`, where emitted code is appended from now on."""
        self.depth = depth
        self.builder.cursor = self.scopes[depth].cursor

    def continue_innermost(self) -> None:
        """Move the builder to the end of the innermost open scope, where emitted code is appended from now on."""
        self.continue_at(len(self.scopes) - 1)

    def depth_of_axis(self, axis: int) -> int:
        """Return the depth of the innermost open loop over an axis, or of the innermost `at_index` scope for the axis.

        Raise AssertionError without either: the axis has no index here.
        """
        for depth in range(len(self.scopes) - 1, 0, -1):
            if self.scopes[depth].axis == axis:
                return depth
        raise AssertionError(f"axis {axis} is used outside its loop")

    def index(self, axis: int) -> Value:
        """Return the present index of the open loop over an axis; with lanes along the axis, that of the first lane."""
        index = self.scopes[self.depth_of_axis(axis)].index
        assert index is not None
        return index

    @contextmanager
    def at_index(self, axis: int, index: Value) -> Iterator[None]:
        """Open a scope in which the index of `axis` is `index`, without a loop, for the code that the `with` statement's body emits."""
        self.scopes.append(Scope(axis, self.scope.cursor, index))
        self.continue_innermost()
        yield
        self.scopes.pop()
        self.continue_innermost()

    @contextmanager
    def outside_loops(self) -> Iterator[None]:
        """Let the `with` statement's body emit code in front of the open loops, which are not in `scopes` meanwhile."""
        inner, self.scopes = self.scopes[1:], self.scopes[:1]
        self.continue_innermost()
        yield
        self.scopes += inner
        self.continue_innermost()

    @contextmanager
    def in_scope(self, depth: int) -> Iterator[None]:
        """Let the `with` statement's body emit code at the end of the scope at `depth`, and then continue in the scope of before."""
        old_depth = self.depth
        self.continue_at(depth)
        yield
        self.continue_at(old_depth)

    def emit_once(self, depth: int, key: object, emit_value: Callable[[], T]) -> T:
        """Return the result of `emit_value()`, which emits code at the end of the scope at `depth`. The result must not be None.

        Another call with an equal `key` and the same scope emits nothing, and returns the same result. The builder continues at its present
        place afterwards.
        """
        cache = self.scopes[depth].emitted_values
        result: T | None = cache.get(key)
        if result is None:
            old_depth = self.depth
            self.continue_at(depth)
            result = cache[key] = emit_value()
            self.continue_at(old_depth)
        return result

    # Arguments and memory

    def load_argument(self, index: int, name: str) -> Value:
        """Emit the load of the 64-bit word number `index` of the packed arguments, before the loops, and return an integer.

        `name` is a name for the value in the LLVM IR. Later calls emit nothing, and return the same value.
        """
        return self.emit_once(0, ("argument", index), lambda: self.arguments.at(index, I64).load(I64, name))

    def load_size_parameter(self, index: int) -> Value:
        """Emit the load of the size parameter number `index` of the kernel, a 64-bit integer: a size, a stride or an offset.

        Behind the parameters of the kernel follows the stop flag of an interruptible kernel. The address of the scratch memory and its
        bytes per thread come last. Later calls emit nothing, and return the same value.
        """
        k = self.kernel
        return self.load_argument(len(k.operands) + k.table_count + len(k.scalar_dtypes) + index, f"s{index}")

    def load_stop_flag(self) -> Value:
        """Emit a volatile load of the stop flag at the builder's place. Return a scalar bool: whether the kernel must stop.

        Only an interruptible kernel (`Kernel.is_interruptible`) has the flag.
        """
        k = self.kernel
        flag = self.arguments.at(len(k.operands) + k.table_count + len(k.scalar_dtypes) + k.size_count, I64)
        return flag.load(I64, volatile=True).differs(0)

    def load_extent(self, axis: int) -> Value:
        """Emit the load of the number of indices of an axis, a 64-bit integer."""
        return self.load_size_parameter(self.kernel.axes[axis].extent)

    def loop_range(self, axis: int) -> tuple[Value, Value]:
        """Return the first index, and the index behind the last, for a loop over `axis` at the present place.

        They bound the present block of the axis, if an outer loop runs over blocks. On the split axis (`Kernel.split_axis`) they are the
        arguments `begin` and `end` of the kernel's function. Otherwise they bound the full axis.
        """
        if axis in self.axis_ranges:
            begin, end, _ = self.axis_ranges[axis]
            return begin, end
        if axis == self.kernel.split_axis:
            return self.begin, self.end
        return self.builder.constant(I64, 0), self.load_extent(axis)

    def scratch_address(self) -> Value:
        """Emit the address of the scratch memory of the thread that runs the kernel (`worker`), as a 64-bit integer.

        The kernel must be launched with scratch memory (`KernelArguments.scratch_bytes`).
        """
        first_number = self.kernel.size_count + self.polls_stop_flag
        start, size = self.load_size_parameter(first_number), self.load_size_parameter(first_number + 1)
        return self.emit_once(0, "scratch", lambda: start + self.worker * size)

    def allocate_on_stack(self, element: Type, size: int, name: str) -> Value:
        """Emit the allocation of stack memory for `size` elements of type `element` at the entry of the function; return the pointer.

        The memory is aligned to `ALIGNMENT_BYTES` bytes. `name` is the name of the memory in the LLVM IR.
        """
        cursor, entry = self.builder.cursor, self.builder.entry
        self.builder.cursor, old_lines = Cursor(entry), entry.lines
        entry.lines = []
        slot = self.builder.define(POINTER, f"alloca {array(element, size).text}, align {ALIGNMENT_BYTES}", name)
        memory = slot.cast("ptrtoint", I64).cast("inttoptr", POINTER)
        entry.lines += old_lines
        self.builder.cursor = cursor
        return memory

    # Loops

    def emit_loop(
        self,
        axis: int,
        begin: Value,
        end: Value,
        emit_iteration: EmitIteration,
        *,
        min_remaining: int = 1,
        accumulators: Iterable[int] = (),
        binds_axis: bool = True,
    ) -> Value:
        """Emit a loop over `axis` from `begin` on, while at least `min_remaining` indices are left before `end`.

        Return the stop index. `emit_iteration(index)` is called once, emits the code of an iteration at an index, and
        returns the next index. The states of the reductions `accumulators` are carried from iteration to iteration; afterwards the final
        states are in `states` and `results`. If not `binds_axis`, the loop runs over blocks of the axis, and the code inside must not use
        the index as the axis's own.
        """
        b, depth, name = self.builder, len(self.scopes) - 1, axis_name(axis)
        head, body, exit_block = (b.block(f"{name}.{suffix}") for suffix in ("head", "body", "done"))
        initial_states = {f: self.states[f] for f in accumulators}

        b.cursor = Cursor(head)
        index = b.phi(I64, name)
        phis = {f: [[b.phi(v.type) for v in vectors] for vectors in states] for f, states in initial_states.items()}
        last_index = index if min_remaining == 1 else index + (min_remaining - 1)
        b.branch_if(last_index < end, body, exit_block)

        for f, state_phis in phis.items():
            self.states[f] = [[*vectors] for vectors in state_phis]
        self.scopes.append(Scope(axis if binds_axis else -1, Cursor(body), index))
        self.continue_innermost()
        next_index = emit_iteration(index)
        b.cursor = self.scopes.pop().cursor
        last_block = b.cursor.block
        b.branch(head)

        # The jump comes last, because the body may have emitted values in this scope.
        b.cursor = self.scopes[depth].cursor
        entry_block = b.cursor.block
        b.branch(head)
        index.add_incoming(begin, entry_block)
        index.add_incoming(next_index, last_block)
        for f, state_phis in phis.items():
            for vectors, initial, final in zip(state_phis, initial_states[f], self.states[f], strict=True):
                for phi, x, y in zip(vectors, initial, final, strict=True):
                    phi.add_incoming(x, entry_block)
                    phi.add_incoming(y, last_block)
            self.states[f] = [[*vectors] for vectors in state_phis]
            self.results[f] = (depth, self.states[f])
        b.cursor.block = exit_block
        self.continue_innermost()
        return index

    def only_if(self, condition: Value, emit_inner: Callable[[], object], *, inside_branch: bool = False) -> None:
        """Emit a branch around the code of `emit_inner()`, to run only if the scalar `condition` holds.

        Values that depend on the innermost loop are computed before the branch, or with `inside_branch` inside the branch.
        """
        b, depth = self.builder, len(self.scopes) - 1
        then_block, after_block = b.block("then"), b.block("otherwise")
        outer = self.scope
        inner = (
            Scope(outer.axis, Cursor(then_block), outer.index, dict(outer.emitted_values))
            if inside_branch
            else Scope(-1, Cursor(then_block), b.constant(I64, 0))
        )
        self.scopes.append(inner)
        self.continue_innermost()
        emit_inner()
        b.cursor = self.scopes.pop().cursor
        b.branch(after_block)
        b.cursor = self.scopes[depth].cursor  # the branch comes last, because `emit_inner` may have emitted values in this scope
        b.branch_if(condition, then_block, after_block)
        b.cursor.block = after_block
        self.continue_innermost()

    # Expressions

    def depth_of(self, e: Expr) -> int:
        """Return the depth of the innermost scope needed by the expression `e`: the outermost scope for the code of `e`.

        A running state (`State`) depends on the innermost scope.
        """
        axes, accumulators, running = find_dependencies(e, self.dependency_cache)
        if running:
            return len(self.scopes) - 1
        depth = 0
        for axis in axes:
            depth = max(depth, self.depth_of_axis(axis))
        for f in accumulators:
            depth = max(depth, self.results[f][0])
        return depth

    def emit_value(self, e: Expr) -> ValueVectors:
        """Return the value of the expression `e`, as a scalar or the vectors of a step. Emit missing code first.

        The code goes into the outermost loop with known operands.
        """
        emitted = self.find_emitted(e)
        if emitted is None:
            for subexpr in walk_unvisited(e, self):
                emitted = self.emit_operation(subexpr)  # the last subexpression is `e` itself
        assert emitted is not None
        return emitted

    def __contains__(self, e: object) -> bool:
        """Return whether `e` is an expression with a value already emitted, or one that needs no code (`find_emitted`)."""
        return isinstance(e, Expr) and self.find_emitted(e) is not None

    def find_emitted(self, e: Expr) -> ValueVectors | None:
        """Return the value of an expression if no code is needed, or None. Emit no code.

        The value is that of a constant, a state or a result, or a value emitted earlier in an open scope. It is a list with a scalar, or
        the vectors of a step. Raise AssertionError if `e` needs the index of an axis without an open loop.
        """
        if isinstance(e, Const):
            return [make_constant(self.builder, e.dtype, e.value)]
        if isinstance(e, State):
            return self.states[e.accumulator][e.component]
        if isinstance(e, Result):
            return self.results[e.accumulator][1][e.component]
        return self.scopes[self.depth_of(e)].emitted_values.get(e)

    def emit_operation(self, e: Expr) -> ValueVectors:
        """Emit the expression `e`, whose operands have been emitted, in the outermost loop possible. Return the value of `e`."""
        if not isinstance(e, Call):
            return self.emit_once(self.depth_of(e), e, lambda: self.leaf_emitters[type(e)](self, e))
        args = [self.emit_value(a) for a in e.args]
        if any(p[0].lanes for p in args):
            args = [self.widen(p, a) for p, a in zip(args, e.args, strict=True)]
        return self.emit_once(self.depth_of(e), e, lambda: self.emit_call(e, args))

    def vector_value(self, e: Expr) -> ValueVectors:
        """Return the value of the expression `e`, emitted if missing, as the vectors of a step. A scalar is repeated in every lane.

        Missing code goes into the outermost loop with known operands, as in `emit_value`. Without lanes (`self.lanes` is None), the value
        is a scalar.
        """
        return self.widen(self.emit_value(e), e)

    def widen(self, vectors: ValueVectors, e: Expr) -> ValueVectors:
        """Return `vectors`, the value of the expression `e`, as the vectors of a step: a scalar is repeated in every lane.

        Vectors are returned unchanged, and without lanes a scalar is, too.
        """
        lanes = self.lanes
        if vectors[0].lanes or lanes is None:
            return vectors
        width = lanes.width
        if isinstance(e, Const):
            return [make_constant(self.builder, e.dtype, e.value, width)] * lanes.unroll
        return [self.emit_once(self.depth_of(e), ("splat", e, width), lambda: vectors[0].splat(width))] * lanes.unroll

    def emit_inline(self, e: Expr, values: dict[Expr, ValueVectors]) -> ValueVectors:
        """Emit the expression `e` at the present place, even if it is emitted elsewhere already, and return the value of `e`.

        `values` maps the leaves of the expression, but for constants, to their values, which have equally many lanes. The values of all
        subexpressions are added to `values`.
        """
        for subexpr in walk_unvisited(e, values):
            if isinstance(subexpr, Const):
                sample = next(iter(values.values()))
                values[subexpr] = [make_constant(self.builder, subexpr.dtype, subexpr.value, v.lanes) for v in sample]
            else:
                assert isinstance(subexpr, Call)
                values[subexpr] = self.emit_call(subexpr, [values[a] for a in subexpr.args])
        return values[e]

    def emit_call(self, e: Call, args: list[ValueVectors]) -> ValueVectors:
        """Emit the operation of `e` on the operand values `args`, which are scalars, or vectors of a step. Return the result."""
        formula = expand_formula(e)
        if formula is not None:
            return self.emit_inline(formula, dict(zip(e.args, args, strict=True)))
        source_dtype, name = e.args[0].dtype, e.op.name
        if name == "cast":
            return [convert_dtype(v, source_dtype, e.dtype, split_halves=self.target.lacks_int64_to_float) for v in args[0]]
        operand_dtype, emit = e.args[-1].dtype, PRIMITIVES[name]  # of `where`, the dtype of its values
        results = [emit(operand_dtype, *operands) for operands in zip(*args, strict=True)]
        return results if name in EXACT_OPS else [round_to_dtype(e.dtype, v) for v in results]
