"""A slow and simple back end, which runs loop IR statement by statement, element by element: the reference in tests.

`reference.py` defines the primitive operations. With `TENXOR_BACKEND=interpreter`, this back end does all the work. Such a run shows that
the rest of the library needs no compiler, and whether a wrong result comes from the compiler.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import DType
from ..errors import IndexOutOfRange
from ..kernel.ir import (
    Accumulate,
    Address,
    Factor,
    For,
    Index,
    Init,
    Keep,
    Kept,
    Kernel,
    Load,
    Position,
    Prefetch,
    Product,
    Result,
    ScalarParameter,
    Side,
    State,
    Statement,
    Store,
    TileElement,
    TileLoad,
    Update,
    expand,
    in_turn,
)
from ..memory import Buffer
from ..node import Scalar
from ..ops.expr import Arg, Call, Const, Expr, missing
from ..target import Target
from .interface import Arguments, Compiled, Given, Launch, Once, OnHost, only_once
from .kernels import Kernels
from .reference import Value, cast, from_memory, meaning, to_memory
from .threads import num_threads

_PLANNING_TARGET = Target(vector_bytes=32)  # loops have to be planned for some machine
Array = np.ndarray[Any, Any]


class Program(NamedTuple):
    """The steps to compute expressions. Each step is a function and the positions of its operands in a list of values.

    The list begins with the given values and the constants; each step appends its result. `result_positions` are the positions of the
    expressions' values.
    """

    constants: list[Value]
    steps: list[tuple[Callable[..., Value], tuple[int, ...]]]
    result_positions: list[int]


def _put_in_order(e: Expr, order: dict[Expr, Expr | None]) -> None:
    """Append an expression to `order`, after the expressions needed to compute it.

    The value in `order` is the formula of a composite operation, and None for any other expression.
    """
    for subexpr in missing(e, order):
        formula = expand(subexpr) if isinstance(subexpr, Call) else None
        if formula is not None:
            _put_in_order(formula, order)
        order[subexpr] = formula


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Interpreted:
    """A kernel for the interpreter, which runs loop IR directly."""

    kernel: Kernel
    origin: str = "interpreted"


class Interpreter(OnHost):
    """A back end that runs kernels on NumPy views of the buffers."""

    name = "interpreter"

    def __init__(self) -> None:
        self._kernels = Kernels(Interpreted)

    @property
    def kernels(self) -> Mapping[Kernel, Interpreted]:
        return self._kernels.alive

    def kernel_count(self) -> int:
        return len(self._kernels)

    def counts(self) -> tuple[int, int]:
        return 0, 0

    @property
    def target(self) -> Target:
        return _PLANNING_TARGET.shared_by(num_threads())

    def hurry(self, may_decline: bool) -> None:
        """Do nothing: the interpreter has no compiler to wait for."""

    def compile(self, kernel: Kernel) -> Interpreted:
        return self._kernels.get(kernel)

    def bind(self, compiled: Compiled, arguments: Arguments) -> Launch:
        assert isinstance(compiled, Interpreted)
        return partial(_launch, compiled.kernel, arguments)

    def listing(self, kernel: Kernel) -> str:
        return ""


def _launch(
    kernel: Kernel, arguments: Arguments, out: Buffer, given: Given, once: Once | None = None
) -> bool:
    """Run a kernel, and return whether the kernel met an index out of range; see `interface.Launch`.

    With `once`, the kernel writes to a copy of `out`, and a single call copies the result back. So an interrupt leaves `out` unchanged.
    """
    result = out.typed(kernel.operands[0].dtype)
    operands, origins = [result if once is None else result.copy()], [given.offsets[arguments.out[0]] + arguments.out[1]]
    for index, (k, offset_index, displacement) in enumerate(arguments.sources, 1):
        buffer = given.nodes[k].buffer
        assert buffer is not None, f"{kernel.name} reads what is not computed"
        operands.append(buffer.typed(kernel.operands[index].dtype))
        origins.append(given.offsets[offset_index] + displacement)
    flag = np.zeros(1, np.int64)
    if kernel.flagged:
        operands.append(flag)
        origins.append(0)
    scalars = [
        _scalar_part(given.scalars[k], imag, dtype) for (k, imag), dtype in zip(arguments.scalars, kernel.scalars, strict=True)
    ]
    run(kernel, operands, [t.offsets for t in arguments.tables], scalars, arguments.sizes, origins)
    if once is not None:
        only_once(partial(np.copyto, result, operands[0]), once)
    return bool(flag[0])


def _scalar_part(scalar: Scalar, imag: bool, dtype: DType) -> bool | int | float:
    """Return the real or imaginary part of a scalar for a kernel: a float64 if `dtype` is a float."""
    component = scalar.value.imag if imag else scalar.value.real
    return float(component) if dtype.is_float else component


def run(
    kernel: Kernel,
    operands: Sequence[Array],
    tables: Sequence[Array],
    scalars: Sequence[bool | int | float],
    sizes: Sequence[int],
    origins: Sequence[int],
) -> None:
    """Run `kernel`, and write its results into `operands`.

    Each operand is all the elements of a buffer as a 1-D array (`bfloat16` as its bits); its pointer stands at the element given in
    `origins`. An access outside of an operand raises IndexOutOfRange, which names the kernel, the operand and the position.
    """
    with np.errstate(all="ignore"):
        _Run(kernel, operands, tables, scalars, sizes, origins).body(kernel.body)


class _Run:
    """A call of a kernel: its arguments, the current index of each loop, and the states of reductions."""

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
        self.scalars = [cast(x, dtype) for x, dtype in zip(scalars, kernel.scalars, strict=True)]
        self.loop_index: dict[int, int] = {}  # the current index of each loop, by axis
        self.block: dict[int, tuple[int, int]] = {}  # the block that the loop over an axis runs through, by axis: begin and end
        self.tiles: dict[int, dict[tuple[int, int], Value | complex]] = {}  # the elements of each tile, by row and column
        self.row_values: dict[tuple[int, int], Value] = {}  # the values kept for a later loop, by row and index
        self.states: dict[tuple[int, int], list[Value]] = {}
        self.factors: tuple[list[Value], list[Value]] = [], []  # the current factors of the left and the right side of a product
        self.programs: dict[tuple[Expr, ...], Program] = {}
        for array, operand in zip(operands, kernel.operands, strict=True):
            assert array.dtype == operand.dtype.numpy, f"{kernel.name}: {array.dtype} is not {operand.dtype}"

    # Statements

    def body(self, statements: tuple[Statement, ...]) -> None:
        """Run statements in order. Stores side by side are a single step: their values are computed before the first write."""
        for s, *adjacent in in_turn(statements):
            if isinstance(s, For):
                self.loop(s)
            elif isinstance(s, Init):
                accumulator = self.kernel.accumulators[s.accumulator]
                self.states[self.state_key(s.accumulator)] = self.values(accumulator.reduction.identity(accumulator.states))
            elif isinstance(s, Update):
                self.states[self.state_key(s.accumulator)] = self.values(s.values)  # every value is computed from the old state
            elif isinstance(s, Keep):
                (self.row_values[s.row, self.loop_index[s.axis]],) = self.values((s.value,))
            elif isinstance(s, Accumulate):
                self.accumulate(s)
            elif isinstance(s, TileLoad):
                self.fill_tile(s)
            elif isinstance(s, Product):
                self.product(s)
            elif isinstance(s, Prefetch):
                pass  # an interpreter has no use for it
            else:
                self.store(s, *adjacent)  # type: ignore[arg-type]

    def state_key(self, accumulator: int) -> tuple[int, int]:
        """Return the key of a reduction's current state: the accumulator, and the index in a row of states, or 0 without a row."""
        row = self.kernel.accumulators[accumulator].row
        return accumulator, self.loop_index[row] if row >= 0 else 0

    def extent(self, axis: int) -> int:
        """Return the number of indices of an axis."""
        return self.sizes[self.kernel.axes[axis].extent]

    def loop(self, s: For) -> None:
        """Run a loop, or a loop over blocks, which sets the range for the loop inside."""
        begin, end = self.block.get(s.axis, (0, self.extent(s.axis)))
        for index in range(begin, end, s.block or 1):
            if s.block:
                self.block[s.axis] = index, min(index + s.block, end)
            else:
                self.loop_index[s.axis] = index
            self.body(s.body)
        if s.block:
            del self.block[s.axis]

    def product(self, s: Product) -> None:
        """Run a product: for every row and every column, the reduction over all steps, and then the statements about the result."""
        accumulator = self.kernel.accumulators[s.accumulator]
        steps = list(itertools.product(*(range(self.extent(a)) for a in s.summed)))
        left, right = self.side_factors(s.left, s.summed, steps), self.side_factors(s.right, s.summed, steps)
        for row, column in itertools.product(range(len(left)), range(len(right))):
            self.loop_index.update({s.left.axis: row, s.right.axis: column})
            state = self.state_key(s.accumulator)
            self.states[state] = self.values(accumulator.reduction.identity(accumulator.states))
            for factors in zip(left[row], right[column], strict=True):
                self.factors = factors
                self.states[state] = self.values(s.values)
            self.body(s.body)

    def side_factors(self, side: Side, summed: tuple[int, ...], steps: Sequence[tuple[int, ...]]) -> list[list[list[Value]]]:
        """Return the values of a product's side, for each index of the side's axis and each step."""
        factors: list[list[list[Value]]] = []
        for index in range(self.extent(side.axis)):
            self.loop_index[side.axis] = index
            factors.append([])
            for step in steps:
                self.loop_index.update(zip(summed, step, strict=True))
                factors[-1].append(self.values(side.values))
        return factors

    def fill_tile(self, s: TileLoad) -> None:
        """Fill a tile with an operand's elements over the present blocks of its two axes."""
        dtype = self.kernel.operands[s.operand].dtype
        tile = self.tiles[s.tile] = {}
        for row in range(*self.block[s.along]):
            for column in range(*self.block[s.last]):
                self.loop_index.update({s.along: row, s.last: column})
                raw = self.operands[s.operand][self.element(s.operand, s.address)]
                tile[row, column] = complex(raw) if dtype.is_complex else from_memory(raw, dtype)

    def store(self, *stores: Store) -> None:
        """Write values to operands, except for stores with a false predicate."""
        written = [s for s in stores if s.changes is None or self.values((s.changes,))[0]]
        for s, values in [(s, self.values(s.values)) for s in written]:
            assert self.kernel.operands[s.operand].written, f"{self.kernel.name}: p{s.operand} is only read"
            memory, position = self.operands[s.operand], self.element(s.operand, s.address)
            for component, value in zip((memory,) if s.imag is None else (memory.real, memory.imag), values, strict=True):
                component[position] = to_memory(value, s.value.dtype)

    def accumulate(self, s: Accumulate) -> None:
        """Update an element of an operand by a value."""
        assert self.kernel.operands[s.operand].written, f"{self.kernel.name}: p{s.operand} is only read"
        values, indices = self.values(s.values), [int(i) for i in self.values(s.indices)]
        memory, position = self.operands[s.operand], self.element(s.operand, s.address, indices)
        components = (memory,) if len(values) == 1 else (memory.real, memory.imag)
        dtypes = [e.dtype for e in s.values]
        old_values = [from_memory(component[position], dtype) for component, dtype in zip(components, dtypes, strict=True)]
        new_values = self.values(s.joined, old_values + values)
        for component, value, dtype in zip(components, new_values, dtypes, strict=True):
            component[position] = to_memory(value, dtype)

    # Addresses

    def element(self, operand: int, address: Address, indices: Sequence[int] = ()) -> int:
        """Return the position of an address in an operand, and check its range. `indices` are the values of the index expressions."""
        loop_index = self.loop_index | {~k: index for k, index in enumerate(indices)} if indices else self.loop_index
        position = self.origins[operand] + self.evaluate_address(address, loop_index)
        self.check_range(position, len(self.operands[operand]), f"operand p{operand}")
        return position

    def evaluate_address(self, address: Address, index: dict[int, int]) -> int:
        """Return the value of an address, given the index of each axis."""
        position = 0 if address.offset is None else self.sizes[address.offset]
        for term in address.terms:
            step = index[term.axis]
            if term.how == "table":
                table = self.tables[term.value]
                self.check_range(step, len(table), f"table t{term.value}")
                position += int(table[step])
            elif term.how == "stride":
                position += step * self.sizes[term.value]
            else:
                position += step * (1 if term.how == "unit" else term.value)
        if address.then is None:
            return position
        sizes = [self.sizes[d] for d in address.digits]
        self.check_range(position, math.prod(sizes), f"a view of sizes {tuple(sizes)}")
        digits: dict[int, int] = {}
        for axis in reversed(range(len(sizes))):
            position, digits[axis] = divmod(position, sizes[axis])
        return self.evaluate_address(address.then, digits)

    def check_range(self, position: int, size: int, domain: str) -> None:
        """Raise IndexOutOfRange unless `position` is in `domain`, which has `size` elements."""
        if not 0 <= position < size:
            raise IndexOutOfRange(f"{self.kernel.name}: position {position} in {domain} of {size} elements")

    # Values

    def values(self, expressions: tuple[Expr, ...], arg_values: Sequence[Value] = ()) -> list[Value]:
        """Return the present values of expressions, given the values of their `Arg`s; a shared subexpression is computed once."""
        program = self.programs.get(expressions)
        if program is None:
            program = self.programs[expressions] = self.make_program(expressions, len(arg_values))
        results = [*arg_values, *program.constants]
        for function, operands in program.steps:
            results.append(function(*[results[k] for k in operands]))
        return [results[k] for k in program.result_positions]

    def make_program(self, expressions: tuple[Expr, ...], arg_count: int) -> Program:
        """Return the steps to compute expressions from so many given values, with composite operations replaced by formulas."""
        order: dict[Expr, Expr | None] = {}  # each expression with its formula, or None
        for e in expressions:
            _put_in_order(e, order)
        position_of: dict[Expr, int] = {}
        constants: list[Value] = []
        for e in order:
            if isinstance(e, (Const, ScalarParameter)):
                position_of[e] = arg_count + len(constants)
                constants.append(cast(e.value, e.dtype) if isinstance(e, Const) else self.scalars[e.index])
        steps: list[tuple[Callable[..., Value], tuple[int, ...]]] = []
        for e, formula in order.items():
            if isinstance(e, Arg):
                assert e.index < arg_count, f"{self.kernel.name}: {e!r} is given by nobody"
                position_of[e] = e.index
            elif formula is not None:
                position_of[e] = position_of[formula]
            elif e not in position_of:
                position_of[e] = arg_count + len(constants) + len(steps)
                steps.append((self.make_step(e), tuple(position_of[a] for a in e.args)))
        return Program(constants, steps, [position_of[e] for e in expressions])

    def make_step(self, e: Expr) -> Callable[..., Value]:
        """Return a function from the values of an expression's operands to the value of the expression."""
        if isinstance(e, Call):
            return meaning(e)
        if isinstance(e, Load):
            return partial(self.load, e)
        if isinstance(e, Index):
            return lambda value: self.index(int(value), self.sizes[e.size])
        if isinstance(e, Kept):
            return lambda: self.row_values[e.row, self.loop_index[e.axis]]
        if isinstance(e, Factor):
            return lambda: self.factors[e.side][e.index]
        if isinstance(e, TileElement):
            return lambda: self.tile_element(e)
        if isinstance(e, Position):
            return lambda: cast(self.evaluate_address(e.address, self.loop_index), e.dtype)
        assert isinstance(e, (State, Result)), f"{self.kernel.name}: {e!r} is no value of the loop IR"
        return lambda: self.states[self.state_key(e.accumulator)][e.part]

    def load(self, e: Load, *indices: Value) -> Value:
        """Return an operand's element, or a part of a complex element, given the values of the load's index expressions."""
        raw = self.operands[e.operand][self.element(e.operand, e.address, [int(index) for index in indices])]
        return from_memory(raw if e.part is None else (raw.real, raw.imag)[e.part], e.dtype)

    def tile_element(self, e: TileElement) -> Value:
        """Return the element of a tile at the present indices, or a part of a complex element."""
        element = self.tiles[e.tile][self.loop_index[e.along], self.loop_index[e.last]]
        if isinstance(element, complex):
            return cast(element.imag if e.part else element.real, e.dtype)
        return element

    def index(self, value: int, size: int) -> int:
        """Return an index counted from 0; a negative `value` counts from the end. Out of range, set the flag and return 0."""
        index = value + size if value < 0 else value
        if 0 <= index < size:
            return index
        self.operands[-1][0] = 1
        return 0
