"""A slow and simple back end, which runs loop IR statement by statement, element by element: the reference in tests.

`interpreter_primitives.py` defines the primitive operations. With `TENXOR_BACKEND=interpreter`, this back end does all the work. Such a
run shows that the rest of the library needs no compiler, and whether a wrong result comes from the compiler.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from .._utils.cache_registry import register
from ..dtypes import DType
from ..errors import IndexOutOfRange
from ..graph.node import Scalar
from ..lowering.ir import (
    Accumulate,
    Address,
    Contraction,
    Factor,
    For,
    Index,
    Init,
    Kernel,
    Load,
    Position,
    Prefetch,
    Result,
    RowLoad,
    RowStore,
    ScalarParameter,
    Side,
    State,
    Statement,
    Store,
    TileElement,
    TileLoad,
    Update,
    expand_formula,
    group_stores,
)
from ..memory.buffer import Buffer
from ..ops.expr import Arg, Call, Const, Expr, replace_subexprs, walk, walk_unvisited
from ..target import Target
from .interface import Compiled, HostBackend, KernelArguments, Launch, LaunchValues, ResumableLaunch, run_only_once
from .interpreter_primitives import ScalarValue, cast, from_memory, get_primitive, to_memory
from .kernel_cache import KernelCache
from .threads.thread_count import num_threads

_LOOP_PLANNING_TARGET = Target(vector_bytes=32)  # loops have to be planned for some machine
Array = np.ndarray[Any, Any]
Evaluator = Callable[..., tuple[ScalarValue, ...]]  # from the values of `Arg`s to the present values of some expressions


@register("interpreted expressions", "a function that makes evaluators, by the operands of each step")
@lru_cache(maxsize=1 << 12)
def _make_evaluator_factory(
    arg_count: int, constant_count: int, operands: tuple[tuple[int, ...], ...], results: tuple[int, ...]
) -> Callable[..., Evaluator]:
    """Return a generated function `make_evaluator(*constants, *functions)`, which returns an evaluator of expressions.

    An evaluator is a Python function from values to the values of expressions, in steps, without a walk of trees. It takes `arg_count`
    arguments, and returns the values with the numbers `results` as a tuple. The values are numbered: first the arguments, then the
    `constant_count` constants, then the result of each step. Step k calls `functions[k]` with the values numbered `operands[k]`. The
    constants and the functions are bound by `make_evaluator`, so expressions of one structure share the generated code.
    """
    functions = [f"f{k}" for k in range(len(operands))]
    values = [f"v{k}" for k in range(arg_count + constant_count + len(operands))]
    step_results = values[arg_count + constant_count :]
    source = [
        f"def make_evaluator({', '.join([*values[arg_count : arg_count + constant_count], *functions])}):",
        f"    def evaluate({', '.join(values[:arg_count])}):",
        *[
            f"        {result} = {function}({', '.join([values[k] for k in positions])})"
            for result, function, positions in zip(step_results, functions, operands, strict=True)
        ],
        f"        return ({''.join([values[k] + ', ' for k in results])})",
        "    return evaluate",
    ]
    scope: dict[str, Any] = {}
    exec("\n".join(source), scope)
    factory: Callable[..., Evaluator] = scope["make_evaluator"]
    return factory


def _order_subexpressions(e: Expr, order: dict[Expr, Expr | None]) -> None:
    """Append the expression `e` to the keys of `order`, after the expressions needed to compute `e`.

    Present keys are skipped. The value of a key is the formula of a composite operation, and None for any other
    expression. The formula is a key, too, in front of the operation.
    """
    for subexpr in walk_unvisited(e, order):
        formula = expand_formula(subexpr) if isinstance(subexpr, Call) else None
        if formula is not None:
            _order_subexpressions(formula, order)
        order[subexpr] = formula


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class InterpretedKernel:
    """The form of a kernel that the interpreter runs: the kernel itself, as the interpreter runs loop IR directly (`Compiled`)."""

    kernel: Kernel
    origin: str = "interpreted"


class Interpreter(HostBackend):
    """The back end that runs the loop IR of kernels element by element, on NumPy views of the buffers. It compiles and stores nothing.

    `Backend` describes the methods.
    """

    name = "interpreter"

    def __init__(self) -> None:
        self._kernels = KernelCache(InterpretedKernel)

    @property
    def kernels(self) -> Mapping[Kernel, InterpretedKernel]:
        """The kernels in memory, each with its interpreted form."""
        return self._kernels.live_kernels

    def kernel_count(self) -> int:
        """Return the number of kernels in memory."""
        return len(self._kernels)

    def drop_recent_kernels(self) -> None:
        """Drop the references to recently requested kernels."""
        self._kernels.drop_recent()

    def count_compilations(self) -> tuple[int, int]:
        """Return (0, 0): this back end neither compiles nor loads kernels."""
        return 0, 0

    @property
    def target(self) -> Target:
        """The machine that loops are planned for: a fixed one with vectors of 32 bytes, with the present number of threads."""
        return _LOOP_PLANNING_TARGET.with_threads(num_threads())

    def compile(self, kernel: Kernel) -> InterpretedKernel:
        """Return `kernel` in the form for `bind`; nothing is compiled. Equal kernels give the same object."""
        return self._kernels.get(kernel)

    def bind(self, compiled: Compiled, arguments: KernelArguments) -> Launch:
        """Return a function that interprets the kernel of `compiled`, a result of `compile`, with `arguments` (`_launch`)."""
        assert isinstance(compiled, InterpretedKernel)
        return partial(_launch, compiled.kernel, arguments)

    def listing(self, kernel: Kernel) -> str:
        """Return an empty text, as this back end has no code."""
        return ""


def _launch(
    kernel: Kernel, arguments: KernelArguments, out: Buffer, launch_values: LaunchValues, in_place_launch: ResumableLaunch | None = None
) -> bool:
    """Run a kernel with results in `out`, and return whether the kernel met an index out of range or a negative exponent.

    With `kernel` and `arguments` bound, this is the function that `Interpreter.bind` returns (`Launch`). `arguments` refer to the memory,
    scalars and offsets in `launch_values` (`KernelArguments`). With `in_place_launch`, the launch must not run twice: the kernel writes to
    a copy of `out`, and a single call copies the result back. So an interrupt leaves `out` unchanged.
    """
    result = out.typed_view(kernel.operands[0].dtype)
    operands, origins = [result if in_place_launch is None else result.copy()], [launch_values.offsets[arguments.out[0]] + arguments.out[1]]
    for index, (k, offset_index, displacement) in enumerate(arguments.sources, 1):
        buffer = launch_values.nodes[k].buffer
        assert buffer is not None, f"{kernel.name} reads what is not computed"
        operands.append(buffer.typed_view(kernel.operands[index].dtype))
        origins.append(launch_values.offsets[offset_index] + displacement)
    flag = np.zeros(1, np.int64)
    if kernel.can_fail:
        operands.append(flag)
        origins.append(0)
    scalars = [
        _scalar_part(launch_values.scalars[k], imag, dtype)
        for (k, imag), dtype in zip(arguments.scalars, kernel.scalar_dtypes, strict=True)
    ]
    run_kernel(kernel, operands, [t.offsets for t in arguments.tables], scalars, arguments.sizes, origins)
    if in_place_launch is not None:
        run_only_once(partial(np.copyto, result, operands[0]), in_place_launch)
    return bool(flag[0])


def _scalar_part(scalar: Scalar, imag: bool, dtype: DType) -> bool | int | float:
    """Return the real part of `scalar`, or with `imag` the imaginary part, as the argument for a scalar parameter of `dtype`.

    The result is a Python float for a float dtype, else the bool or int that the scalar has.
    """
    component = scalar.value.imag if imag else scalar.value.real
    return float(component) if dtype.is_float else component


def run_kernel(
    kernel: Kernel,
    operands: Sequence[Array],
    tables: Sequence[Array],
    scalars: Sequence[bool | int | float],
    sizes: Sequence[int],
    origins: Sequence[int],
) -> None:
    """Run `kernel`, and write the results into operands. Tests call this function with IR written by hand.

    An item of `operands` has all elements of a buffer as a 1-D array (`bfloat16` as its bits). Addresses of operand k count from element
    `origins[k]`. An item of `tables` has the offsets of a table, in elements. `scalars` and `sizes` are the values of the kernel's
    parameters, in the kernel's order. An access outside of an operand raises IndexOutOfRange, which names the kernel, the operand and the
    position. A value out of range in an `Index` does not raise: it sets the last operand, an int64 flag, to 1.
    """
    with np.errstate(all="ignore"):
        _KernelRun(kernel, operands, tables, scalars, sizes, origins).run_body(kernel.body)


class _KernelRun:
    """The state of one run of a kernel: the arguments of `run_kernel`, the current index of each loop, and the states of reductions.

    In the methods, an axis, an operand or an accumulator is a number in `kernel.axes`, `kernel.operands` or `kernel.accumulators`. A
    statement `s` and an expression `e` are loop IR, described by the docstring of their class in `lowering/ir`. An evaluator (`Evaluator`)
    is a function from the values of `Arg`s to the present values of some expressions, as a tuple.
    """

    def __init__(
        self,
        kernel: Kernel,
        operands: Sequence[Array],
        tables: Sequence[Array],
        scalars: Sequence[bool | int | float],
        sizes: Sequence[int],
        origins: Sequence[int],
    ) -> None:
        self.kernel, self.operands, self.tables = kernel, operands, tables
        self.sizes, self.origins = sizes, origins
        self.scalars = [cast(x, dtype) for x, dtype in zip(scalars, kernel.scalar_dtypes, strict=True)]
        self.loop_index: dict[int, int] = {}  # the current index of each loop, by axis
        self.block_ranges: dict[int, tuple[int, int]] = {}  # the block that the loop over an axis runs through, by axis: begin and end
        self.tiles: dict[int, dict[tuple[int, int], ScalarValue | complex]] = {}  # the elements of each tile, by row and column
        self.row_values: dict[tuple[int, int], ScalarValue] = {}  # the values kept for a later loop, by row and index
        self.states: dict[tuple[int, int], Sequence[ScalarValue]] = {}
        self.evaluators: dict[tuple[Expr, ...], Evaluator] = {}
        # The statements of a body as `group_stores` groups them, by the body's id
        self.statement_groups: dict[int, list[tuple[Statement, ...]]] = {}
        for array, operand in zip(operands, kernel.operands, strict=True):
            assert array.dtype == operand.dtype.numpy, f"{kernel.name}: {array.dtype} is not {operand.dtype}"

    # Statements

    def run_body(self, statements: tuple[Statement, ...]) -> None:
        """Run the statements of a body in order. Adjacent stores run together: all their values are computed before the first write."""
        groups = self.statement_groups.get(id(statements))
        if groups is None:
            # The kernel keeps the statements alive, so ids stay unique
            groups = self.statement_groups[id(statements)] = list(group_stores(statements))
        for s, *adjacent in groups:
            if isinstance(s, For):
                self.run_loop(s)
            elif isinstance(s, Init):
                accumulator = self.kernel.accumulators[s.accumulator]
                self.states[self.state_key(s.accumulator)] = self.evaluate(accumulator.reduction.identity(accumulator.state_dtypes))
            elif isinstance(s, Update):
                self.states[self.state_key(s.accumulator)] = self.evaluate(s.values)  # every value is computed from the old state
            elif isinstance(s, RowStore):
                (self.row_values[s.row_buffer, self.loop_index[s.axis]],) = self.evaluate((s.value,))
            elif isinstance(s, Accumulate):
                self.run_accumulate(s)
            elif isinstance(s, TileLoad):
                self.fill_tile(s)
            elif isinstance(s, Contraction):
                self.run_contraction(s)
            elif isinstance(s, Prefetch):
                pass  # an interpreter has no use for it
            else:
                self.run_stores(s, *adjacent)  # type: ignore[arg-type]

    def state_key(self, accumulator: int) -> tuple[int, int]:
        """Return the key in `self.states` of the current state of the reduction number `accumulator`.

        The key is a pair: this number, and the present index along the row of states (`Accumulator.row_axis`). The index is 0 if the
        reduction has a single state.
        """
        row = self.kernel.accumulators[accumulator].row_axis
        return accumulator, self.loop_index[row] if row >= 0 else 0

    def extent(self, axis: int) -> int:
        """Return the number of indices of the axis number `axis` of the kernel."""
        return self.sizes[self.kernel.axes[axis].extent]

    def run_loop(self, s: For) -> None:
        """Run a loop over its axis, or over the present block of the axis if an outer loop goes over its blocks.

        A loop over blocks (`s.block` > 0) runs its body once for each block, and sets the block for the loop inside.
        """
        begin, end = self.block_ranges.get(s.axis, (0, self.extent(s.axis)))
        for index in range(begin, end, s.block or 1):
            if s.block:
                self.block_ranges[s.axis] = index, min(index + s.block, end)
            else:
                self.loop_index[s.axis] = index
            self.run_body(s.body)
        if s.block:
            del self.block_ranges[s.axis]

    def run_contraction(self, s: Contraction) -> None:
        """Run a contraction: for every row and every column, the reduction over all steps, and then the statements about the result."""
        accumulator = self.kernel.accumulators[s.accumulator]
        steps = list(itertools.product(*(range(self.extent(a)) for a in s.summed_axes)))
        left, right = self.evaluate_side(s.left, s.summed_axes, steps), self.evaluate_side(s.right, s.summed_axes, steps)
        identity = self.find_evaluator(accumulator.reduction.identity(accumulator.state_dtypes))
        update = self.make_contraction_step(s)
        for row, column in itertools.product(range(len(left)), range(len(right))):
            self.loop_index.update({s.left.axis: row, s.right.axis: column})
            state = identity()
            for left_factors, right_factors in zip(left[row], right[column], strict=True):
                state = update(*state, *left_factors, *right_factors)
            self.states[self.state_key(s.accumulator)] = state
            self.run_body(s.body)

    def make_contraction_step(self, s: Contraction) -> Evaluator:
        """Return a function that computes a step of the contraction `s`: the next state of a result, as a tuple of components.

        The function takes the components of the state, the values of `s.left` and then the values of `s.right` (`evaluate_side`).
        """
        state_count, left_count = len(s.values), len(s.left.values)
        args: dict[Expr, Expr] = {}
        for e in walk(*s.values):
            if isinstance(e, Factor):
                args[e] = Arg(state_count + e.side * left_count + e.index, e.dtype)
            elif isinstance(e, State):
                assert e.accumulator == s.accumulator, f"{self.kernel.name}: {e!r} is no state of the contraction"
                args[e] = Arg(e.component, e.dtype)
        values = tuple([replace_subexprs(e, args) for e in s.values])
        return self.make_evaluator(values, state_count + left_count + len(s.right.values))

    def evaluate_side(
        self, side: Side, summed_axes: tuple[int, ...], steps: Sequence[tuple[int, ...]]
    ) -> list[list[Sequence[ScalarValue]]]:
        """Return the values of one side of a contraction as nested lists: item `[index][step]` has the values of `side.values`.

        `index` is an index along the side's axis, and `step` an index of `steps`. `summed_axes` are the summed axes of the contraction; an
        item of `steps` has an index along each.
        """
        factors: list[list[Sequence[ScalarValue]]] = []
        for index in range(self.extent(side.axis)):
            self.loop_index[side.axis] = index
            factors.append([])
            for step in steps:
                self.loop_index.update(zip(summed_axes, step, strict=True))
                factors[-1].append(self.evaluate(side.values))
        return factors

    def fill_tile(self, s: TileLoad) -> None:
        """Run `s`: fill a tile with the elements of an operand in the present blocks of two axes.

        The tile maps the pair of indices, along `s.contiguous_axis` and `s.read_axis`, to an element. Components of complex elements stay
        together, as a Python complex number.
        """
        dtype = self.kernel.operands[s.operand].dtype
        tile = self.tiles[s.tile] = {}
        for row in range(*self.block_ranges[s.contiguous_axis]):
            for column in range(*self.block_ranges[s.read_axis]):
                self.loop_index.update({s.contiguous_axis: row, s.read_axis: column})
                raw = self.operands[s.operand][self.locate_element(s.operand, s.address)]
                tile[row, column] = complex(raw) if dtype.is_complex else from_memory(raw, dtype)

    def run_stores(self, *stores: Store) -> None:
        """Run adjacent stores: first compute the values of every store, and then write the values to the operands.

        A store with a false predicate writes nothing, and computes no values. Raise IndexOutOfRange for an address outside of the operand.
        """
        written = [s for s in stores if s.predicate is None or self.evaluate((s.predicate,))[0]]
        for s, values in [(s, self.evaluate(s.values)) for s in written]:
            assert self.kernel.operands[s.operand].written, f"{self.kernel.name}: p{s.operand} is only read"
            memory, position = self.operands[s.operand], self.locate_element(s.operand, s.address)
            for component, value in zip((memory,) if s.imag is None else (memory.real, memory.imag), values, strict=True):
                component[position] = to_memory(value, s.value.dtype)

    def run_accumulate(self, s: Accumulate) -> None:
        """Run `s`: replace an element of an operand by `s.new_values`, computed from the old element and `s.values`.

        The address may depend on the values of `s.indices`. Raise IndexOutOfRange for an address outside of the operand.
        """
        assert self.kernel.operands[s.operand].written, f"{self.kernel.name}: p{s.operand} is only read"
        values, indices = self.evaluate(s.values), [int(i) for i in self.evaluate(s.indices)]
        memory, position = self.operands[s.operand], self.locate_element(s.operand, s.address, indices)
        components = (memory,) if len(values) == 1 else (memory.real, memory.imag)
        dtypes = [e.dtype for e in s.values]
        old_values = [from_memory(component[position], dtype) for component, dtype in zip(components, dtypes, strict=True)]
        new_values = self.evaluate(s.new_values, [*old_values, *values])
        for component, value, dtype in zip(components, new_values, dtypes, strict=True):
            component[position] = to_memory(value, dtype)

    # Addresses

    def locate_element(self, operand: int, address: Address, indices: Sequence[int] = ()) -> int:
        """Return the position in the array of operand number `operand` to which `address` refers at the present loop indices, in elements.

        `indices` are the values of the access's index operands, the axes -1, -2, ... of the address. Raise IndexOutOfRange for a position
        outside of the array.
        """
        loop_index = self.loop_index | {~k: index for k, index in enumerate(indices)} if indices else self.loop_index
        position = self.origins[operand] + self.evaluate_address(address, loop_index)
        self.check_range(position, len(self.operands[operand]), "operand p{}", operand)
        return position

    def evaluate_address(self, address: Address, index: dict[int, int]) -> int:
        """Return the value of an address, in elements. `index` maps each axis, or `~k` for index operand k, to its present index.

        Raise IndexOutOfRange for an index outside of an offset table, or a position outside of a view of a view chain.
        """
        position = 0 if address.offset is None else self.sizes[address.offset]
        for term in address.terms:
            step = index[term.axis]
            if term.step_kind == "table":
                table = self.tables[term.value]
                self.check_range(step, len(table), "table t{}", term.value)
                position += int(table[step])
            elif term.step_kind == "stride":
                position += step * self.sizes[term.value]
            else:
                position += step * (1 if term.step_kind == "unit" else term.value)
        if address.base is None:
            return position
        sizes = [self.sizes[d] for d in address.digit_sizes]
        self.check_range(position, math.prod(sizes), "a view of sizes {}", tuple(sizes))
        digits: dict[int, int] = {}
        for axis in reversed(range(len(sizes))):
            position, digits[axis] = divmod(position, sizes[axis])
        return self.evaluate_address(address.base, digits)

    def check_range(self, position: int, size: int, domain: str, label: object) -> None:
        """Raise IndexOutOfRange unless 0 <= position < size.

        The error names the domain of the positions: `domain` is a text like "table t{}", with `label` in place of `{}`.
        """
        if not 0 <= position < size:
            raise IndexOutOfRange(f"{self.kernel.name}: position {position} in {domain.format(label)} of {size} elements")

    # Values

    def evaluate(self, expressions: tuple[Expr, ...], arg_values: Sequence[ScalarValue] = ()) -> Sequence[ScalarValue]:
        """Return the present values of `expressions`, as a tuple; `Arg` number k has the value `arg_values[k]`.

        A shared subexpression is computed once.
        """
        return self.find_evaluator(expressions, len(arg_values))(*arg_values)

    def find_evaluator(self, expressions: tuple[Expr, ...], arg_count: int = 0) -> Evaluator:
        """Return the evaluator of `expressions`, which have `arg_count` `Arg`s. The first call for the same expressions makes it."""
        evaluator = self.evaluators.get(expressions)
        if evaluator is None:
            evaluator = self.evaluators[expressions] = self.make_evaluator(expressions, arg_count)
        return evaluator

    def make_evaluator(self, expressions: tuple[Expr, ...], arg_count: int) -> Evaluator:
        """Return a new evaluator of `expressions`, which have `arg_count` `Arg`s. Composite operations are computed by their formulas."""
        order: dict[Expr, Expr | None] = {}  # each expression with its formula, or None
        for e in expressions:
            _order_subexpressions(e, order)
        position_of: dict[Expr, int] = {}
        constants: list[ScalarValue] = []
        for e in order:
            if isinstance(e, (Const, ScalarParameter)):
                position_of[e] = arg_count + len(constants)
                constants.append(cast(e.value, e.dtype) if isinstance(e, Const) else self.scalars[e.index])
        functions: list[Callable[..., ScalarValue]] = []
        operands: list[tuple[int, ...]] = []
        for e, formula in order.items():
            if isinstance(e, Arg):
                assert e.index < arg_count, f"{self.kernel.name}: {e!r} is given by nobody"
                position_of[e] = e.index
            elif formula is not None:
                position_of[e] = position_of[formula]
            elif e not in position_of:
                position_of[e] = arg_count + len(constants) + len(functions)
                functions.append(self.make_step(e))
                operands.append(tuple([position_of[a] for a in e.args]))
        results = tuple([position_of[e] for e in expressions])
        return _make_evaluator_factory(arg_count, len(constants), tuple(operands), results)(*constants, *functions)

    def make_step(self, e: Expr) -> Callable[..., ScalarValue]:
        """Return a function that computes one expression, for an evaluator; `e` is a leaf or a primitive operation.

        The function takes the values of the operands of `e`, and returns the value of `e` at the present loop indices. `e` must be no
        `Arg`, no constant, no scalar parameter, and no operation with a formula: `make_evaluator` treats these itself.
        """
        if isinstance(e, Call):
            return get_primitive(e)
        if isinstance(e, Load):
            return self.make_load(e)
        if isinstance(e, Index):
            return lambda value: self.check_index(int(value), self.sizes[e.size])
        if isinstance(e, RowLoad):
            return lambda: self.row_values[e.row_buffer, self.loop_index[e.axis]]
        if isinstance(e, TileElement):
            return lambda: self.load_tile_element(e)
        if isinstance(e, Position):
            return lambda: cast(self.evaluate_address(e.address, self.loop_index), e.dtype)
        assert isinstance(e, (State, Result)), f"{self.kernel.name}: {e!r} is no value of the loop IR"
        if self.kernel.accumulators[e.accumulator].row_axis < 0:
            key, component = self.state_key(e.accumulator), e.component
            return lambda: self.states[key][component]
        return lambda: self.states[self.state_key(e.accumulator)][e.component]

    def make_load(self, e: Load) -> Callable[..., ScalarValue]:
        """Return a function that loads the element of `e` at the present loop indices; it takes the values of the load's index operands.

        With `e.component`, the function returns the real (0) or the imaginary part (1) of a complex element.
        """
        operand = self.operands[e.operand]
        memory = operand if e.component is None else (operand.real, operand.imag)[e.component]

        def load(*indices: ScalarValue) -> ScalarValue:
            raw: ScalarValue = memory[self.locate_element(e.operand, e.address, [int(index) for index in indices] if indices else ())]
            return raw if is_value else from_memory(raw, e.dtype)

        is_value = e.dtype.is_float and e.dtype.compute_dtype is e.dtype  # NumPy's scalar of such a dtype is a value
        return load

    def load_tile_element(self, e: TileElement) -> ScalarValue:
        """Return the element of a tile at the present loop indices. Of a complex element, return the real (`e.component` 0) or imaginary
        part (1).
        """
        element = self.tiles[e.tile][self.loop_index[e.contiguous_axis], self.loop_index[e.read_axis]]
        if isinstance(element, complex):
            return cast(element.imag if e.component else element.real, e.dtype)
        return element

    def check_index(self, value: int, size: int) -> int:
        """Return the index from 0 to `size` - 1 that `value` stands for; a negative `value` counts from the end.

        If `value` is out of range, set the flag of this launch (the last operand) to 1, and return 0.
        """
        index = value + size if value < 0 else value
        if 0 <= index < size:
            return index
        self.operands[-1][0] = 1
        return 0
