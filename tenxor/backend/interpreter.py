"""The slow, obvious back end: loop IR run statement by statement, element by element. The oracle in tests.

A value is a Python bool, a Python int, or a NumPy float of the type that its dtype computes in: a `float16`
or `bfloat16` is a `float32` that the narrow type can hold. Integers are computed exactly and then wrapped;
floats are rounded once per operation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..dtypes import DType, bfloat16, boolean, float16
from ..errors import IndexOutOfRange
from ..expr import Call, Const, Expr, missing
from ..kernel.ir import (
    Address,
    Factor,
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

Array = np.ndarray[Any, Any]
Float = np.floating[Any]
Value = bool | int | Float


def run(
    kernel: Kernel,
    operands: Sequence[Array],
    tables: Sequence[Array],
    numbers: Sequence[bool | int | float],
    slots: Sequence[int],
    origins: Sequence[int],
) -> None:
    """Run `kernel`, writing into those of its `operands` that it writes.

    Each operand is all the elements of a buffer as a 1-D array (`bfloat16` as its bits); its pointer stands
    at the element given in `origins`. An access outside of an operand raises IndexOutOfRange, which names
    the kernel, the operand and the position.
    """
    with np.errstate(all="ignore"):
        _Run(kernel, operands, tables, numbers, slots, origins).body(kernel.body)


class _Run:
    """One call of a kernel: its arguments, where its loops stand, and the states of its folds."""

    def __init__(
        self,
        kernel: Kernel,
        operands: Sequence[Array],
        tables: Sequence[Array],
        numbers: Sequence[bool | int | float],
        slots: Sequence[int],
        origins: Sequence[int],
    ) -> None:
        self.kernel, self.operands, self.tables = kernel, operands, tables
        self.slots, self.origins = slots, origins
        self.numbers = [cast(n, dtype) for n, dtype in zip(numbers, kernel.numbers, strict=True)]
        self.at: dict[int, int] = {}  # the index at which each loop stands
        self.block: dict[int, tuple[int, int]] = {}  # what part of an axis the loop over it runs through
        self.tiles: dict[int, dict[tuple[int, int], Value]] = {}  # their elements, by row and column
        self.kept: dict[tuple[int, int], Value] = {}  # by row and index
        self.states: dict[tuple[int, int], list[Value]] = {}
        self.factors: tuple[list[Value], list[Value]] = [], []  # of the left and the right side of a product
        self.expanded: dict[Call, Expr | None] = {}
        for array, operand in zip(operands, kernel.operands, strict=True):
            assert array.dtype == operand.dtype.numpy, f"{kernel.name}: {array.dtype} is not {operand.dtype}"

    # Statements

    def body(self, statements: tuple[Statement, ...]) -> None:
        for s in statements:
            if isinstance(s, For):
                self.loop(s)
            elif isinstance(s, Init):
                fold = self.kernel.folds[s.fold]
                self.states[self.state(s.fold)] = self.values(fold.reduction.identity(fold.states))
            elif isinstance(s, Update):
                self.states[self.state(s.fold)] = self.values(s.values)  # all of them see the state from before
            elif isinstance(s, Keep):
                (self.kept[s.row, self.at[s.axis]],) = self.values((s.value,))
            elif isinstance(s, Stage):
                self.fill(s)
            elif isinstance(s, Product):
                self.product(s)
            elif isinstance(s, Fetch):
                pass  # there is no cache here
            else:
                self.store(s)

    def state(self, fold: int) -> tuple[int, int]:
        """The key of a fold's state at present: one of a row, or the only one."""
        row = self.kernel.folds[fold].row
        return fold, self.at[row] if row >= 0 else 0

    def loop(self, s: For) -> None:
        begin, end = self.block.get(s.axis, (0, self.slots[self.kernel.axes[s.axis].extent]))
        for index in range(begin, end, s.block or 1):
            if s.block:
                self.block[s.axis] = index, min(index + s.block, end)
            else:
                self.at[s.axis] = index
            self.body(s.body)
        if s.block:
            del self.block[s.axis]

    def product(self, s: Product) -> None:
        fold = self.kernel.folds[s.fold]
        rows, columns, *summed = (
            self.slots[self.kernel.axes[a].extent] for a in (s.left.axis, s.right.axis, *s.summed)
        )
        for row, column in itertools.product(range(rows), range(columns)):
            self.at.update({s.left.axis: row, s.right.axis: column})
            self.states[self.state(s.fold)] = self.values(fold.reduction.identity(fold.states))
            for steps in itertools.product(*map(range, summed)):
                self.at.update(zip(s.summed, steps, strict=True))
                self.factors = self.values(s.left.values), self.values(s.right.values)
                self.states[self.state(s.fold)] = self.values(s.values)
            self.body(s.body)

    def fill(self, s: Stage) -> None:
        dtype = self.kernel.operands[s.operand].dtype
        tile = self.tiles[s.tile] = {}
        for row in range(*self.block[s.along]):
            for column in range(*self.block[s.last]):
                self.at.update({s.along: row, s.last: column})
                tile[row, column] = from_memory(self.operands[s.operand][self.element(s.operand, s.address)], dtype)

    def store(self, s: Store) -> None:
        assert self.kernel.operands[s.operand].written, f"{self.kernel.name}: p{s.operand} is only read"
        (value,) = self.values((s.value,))
        self.operands[s.operand][self.element(s.operand, s.address)] = to_memory(value, s.value.dtype)

    # Addresses

    def element(self, operand: int, address: Address, indices: Sequence[int] = ()) -> int:
        """The element of an operand that an address means."""
        at = self.at | {~k: index for k, index in enumerate(indices)} if indices else self.at
        position = self.origins[operand] + self.place(address, at)
        self.check(position, len(self.operands[operand]), f"operand p{operand}")
        return position

    def place(self, address: Address, index: dict[int, int]) -> int:
        """The number that an address comes to, given the index of each of its axes."""
        place = self.slots[address.offset] if address.offset >= 0 else 0
        for term in address.terms:
            step = index[term.axis]
            if term.how == "table":
                table = self.tables[term.slot]
                self.check(step, len(table), f"table t{term.slot}")
                place += int(table[step])
            elif term.how == "stride":
                place += step * self.slots[term.slot]
            else:
                place += step * (1 if term.how == "unit" else term.slot)
        if address.then is None:
            return place
        sizes = [self.slots[d] for d in address.digits]
        self.check(place, math.prod(sizes), f"a view of sizes {tuple(sizes)}")
        digits: dict[int, int] = {}
        for axis in reversed(range(len(sizes))):
            place, digits[axis] = divmod(place, sizes[axis])
        return self.place(address.then, digits)

    def check(self, position: int, size: int, what: str) -> None:
        if not 0 <= position < size:
            raise IndexOutOfRange(f"{self.kernel.name}: position {position} in {what} of {size} elements")

    # Values

    def values(self, expressions: tuple[Expr, ...]) -> list[Value]:
        """What the expressions come to now; a part that they share is computed once."""
        known: dict[Expr, Value] = {}
        return [self.value(e, known) for e in expressions]

    def value(self, e: Expr, known: dict[Expr, Value]) -> Value:
        for part in missing(e, known):
            known[part] = self.computed(part, known)
        return known[e]

    def computed(self, e: Expr, known: dict[Expr, Value]) -> Value:
        if isinstance(e, Call):
            if e not in self.expanded:
                self.expanded[e] = expand(e)
            formula = self.expanded[e]
            if formula is not None:
                return self.value(formula, known)
            return apply(e, [known[a] for a in e.args])
        if isinstance(e, Load):
            indices = [int(known[a]) for a in e.args]
            return from_memory(self.operands[e.operand][self.element(e.operand, e.address, indices)], e.dtype)
        if isinstance(e, Index):
            return self.index(int(known[e.args[0]]), self.slots[e.size])
        if isinstance(e, Kept):
            return self.kept[e.row, self.at[e.axis]]
        if isinstance(e, Factor):
            return self.factors[e.side][e.index]
        if isinstance(e, Staged):
            return self.tiles[e.tile][self.at[e.along], self.at[e.last]]
        if isinstance(e, Const):
            return cast(e.value, e.dtype)
        if isinstance(e, Number):
            return self.numbers[e.index]
        if isinstance(e, Position):
            return self.place(e.address, self.at)
        assert isinstance(e, (State, Result)), f"{self.kernel.name}: {e!r} is no value of the loop IR"
        return self.states[self.state(e.fold)][e.part]

    def index(self, value: int, size: int) -> int:
        """An index from 0 on; 0, and said so, where it is out of range."""
        index = value + size if value < 0 else value
        if 0 <= index < size:
            return index
        self.operands[-1][0] = 1
        return 0


def apply(e: Call, args: list[Value]) -> Value:
    """A primitive operation on values: exact, then wrapped or rounded to the dtype of its result."""
    name = e.op.name
    return fitted(BY_DTYPE[name](e.dtype, *args) if name in BY_DTYPE else PRIMITIVES[name](*args), e.dtype)


# --- dtypes -------------------------------------------------------------------------------------------------


def from_memory(raw: Any, dtype: DType) -> Value:
    """One element of memory as a value."""
    if dtype is bfloat16:
        bits = np.uint32(int(raw) << 16)
        return bits.view(np.float32)
    return cast(raw if dtype.is_float else raw.item(), dtype)


def to_memory(value: Value, dtype: DType) -> Any:
    """A value as one element of memory."""
    if dtype is bfloat16:
        return np.uint16(int(np.float32(value).view(np.uint32)) >> 16)
    return dtype.numpy.type(value)


def fitted(value: Any, dtype: DType) -> Value:
    """The result of an operation in its dtype: integers modulo 2**bits, narrow floats rounded once."""
    if dtype is boolean:
        return bool(value)
    if dtype.is_integer:
        return wrapped(int(value), dtype)
    return cast(dtype.compute.numpy.type(value), dtype)


def wrapped(value: int, dtype: DType) -> int:
    """The integer of `dtype` that is `value` modulo 2**bits."""
    lowest = int(dtype.lowest)
    return (value - lowest) % (1 << dtype.bits) + lowest


def cast(value: Any, dtype: DType) -> Value:
    """A number as a value of `dtype`; integers wrap, floats to integers truncate and saturate, NaN is 0."""
    if dtype is boolean:
        return bool(value != 0)
    if dtype.is_integer:
        return wrapped(int(value), dtype) if isinstance(value, int) else saturated(float(value), dtype)
    if dtype is bfloat16:
        return to_bfloat16(value)
    if isinstance(value, int):  # NumPy rounds its own 64-bit integers once, but Python's twice
        value = np.uint64(value) if value > 0 else np.int64(value)
    rounded: Any = np.asarray(value).astype(dtype.numpy)[()]
    return np.float32(rounded) if dtype is float16 else rounded


def saturated(value: float, dtype: DType) -> int:
    """The whole part of a float, held within the range of an integer dtype; 0 for NaN."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(dtype.highest if value > 0 else dtype.lowest)
    return int(max(dtype.lowest, min(dtype.highest, int(value))))


def to_bfloat16(value: Any) -> Value:
    """The bfloat16 nearest to a number, halves to even, as a float32."""
    single = value if isinstance(value, np.float32) else _to_odd(value)
    if np.isnan(single):
        return single
    bits = int(single.view(np.uint32))
    return np.uint32(bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def _to_odd(value: int | float) -> np.float32:
    """A float32 whose last bit is set where it is not exact, so that rounding it again is rounding once."""
    near = np.float32(value)
    if math.isnan(near) or float(near) == value:
        return near
    cut = near if abs(float(near)) < abs(value) else np.nextafter(near, np.float32(0))
    return np.uint32(cut.view(np.uint32) | 1).view(np.float32)


# --- the meaning of the primitives --------------------------------------------------------------------------


def _of_floats(function: Callable[[Any], Any]) -> Callable[[Value], Any]:
    """A rounding: integers are whole already."""
    return lambda x: x if isinstance(x, int) else function(x)


def _elementary(name: str) -> Callable[..., Any]:
    """The function of C's library on float64; where Python raises, the infinity or NaN that NumPy gives."""
    exact, special = getattr(math, name), getattr(np, name, None)

    def function(*args: Float) -> Any:
        try:
            return exact(*map(float, args))
        except (ValueError, OverflowError):
            assert special is not None
            return special(*map(np.float64, args))

    return function


def _pow(x: Any, y: Any) -> Any:
    if not isinstance(x, int):
        return _float_pow(x, y)
    if y >= 0:
        return pow(x, y, 1 << 64)
    return (x if y % 2 else 1) if abs(x) == 1 else 0  # the whole part of a reciprocal


_float_pow = _elementary("pow")


def _over_one_plus_exp(x: Any, t: Any, t_low: Any = 0) -> Any:
    """x / (1 + e**(t + t_low)); 0 with the sign of x where t is infinite, whatever x is."""
    if t == np.inf:
        return np.copysign(0, x)
    if t < 700:
        return x / (1 + np.exp(t) * (1 + t_low))
    return x * np.exp(-t / 2) * (1 - t_low) * np.exp(-t / 2)


def _gelu(x: Any) -> Any:
    """x/2 erfc(y) with y = -x / sqrt(2), whose rounding error counts where erfc is steep."""
    if x == -np.inf:
        return np.float64(-0.0)
    y = float(x) * -math.sqrt(0.5)
    found = np.float64(math.erfc(y))
    if 1 < y < 26:
        exact = Fraction(float(x)) * (Fraction(4.833646656726458e-17) - Fraction(math.sqrt(0.5)))
        found -= float(exact - Fraction(y)) * math.exp(-y * y) * 2 / math.sqrt(math.pi)
    return x * 0.5 * found


def _gelu_tanh(x: Any) -> Any:
    if not -20 < x < 20:
        return _over_one_plus_exp(np.float64(x), np.copysign(np.inf, -x))
    wide = Fraction(float(x))
    t = -(Fraction(1.5957691216057308) - Fraction(9.96930880911092e-17)) * (wide + Fraction("0.044715") * wide**3)
    rounded = float(t)
    return _over_one_plus_exp(np.float64(x), np.float64(rounded), float(t - Fraction(rounded)))


def _floor_divide(x: Any, y: Any) -> Any:
    if isinstance(x, int):
        return x // y if y else 0
    quotient = x / y
    if x == 0 or np.isinf(y) or not abs(quotient) < 2**53:
        return quotient  # a zero of either sign, an infinity, NaN, or so large that it is whole
    return Fraction(float(x)) // Fraction(float(y))  # exact: x / y may be rounded up to the next whole number


def _remainder(x: Any, y: Any) -> Any:
    if isinstance(x, int):
        return x % y if y else 0
    rest = np.fmod(x, y)
    if rest == 0:
        return np.copysign(rest, y)
    return rest + y if (rest < 0) != (y < 0) else rest


def _larger(x: Any, y: Any) -> Any:
    if x == y:
        return y if math.copysign(1, x) < 0 else x  # +0 is above -0
    return x if x > y or x != x else y


def _smaller(x: Any, y: Any) -> Any:
    if x == y:
        return x if math.copysign(1, x) < 0 else y
    return x if x < y or x != x else y


def _next_after(dtype: DType, x: Any, y: Any) -> Any:
    if x == y:
        return y
    if dtype is float16:
        return np.nextafter(np.float16(x), np.float16(y))
    near = np.nextafter(x, y)
    if dtype is not bfloat16 or np.isnan(near) or near == x:
        return near
    bits = int(near.view(np.uint32)) + (0xFFFF if abs(near) > abs(x) else 0)  # on to the next bfloat16
    return np.uint32(bits & 0xFFFF0000).view(np.float32)


PRIMITIVES: dict[str, Callable[..., Any]] = {
    # arithmetic
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "pow": _pow,
    "negative": lambda x: -x,
    "positive": lambda x: x,
    "abs": lambda x: abs(x),
    "sign": lambda x: (x > 0) - (x < 0) if isinstance(x, int) else np.sign(x),
    "sqrt": np.sqrt,
    "maximum": _larger,
    "minimum": _smaller,
    "where": lambda condition, x, y: x if condition else y,
    # rounding and parts
    "floor": _of_floats(np.floor),
    "ceil": _of_floats(np.ceil),
    "trunc": _of_floats(np.trunc),
    "round": _of_floats(np.rint),
    "copysign": np.copysign,
    "float_to_bits": lambda x: int(x.view(f"u{x.itemsize}")),
    "signbit": np.signbit,
    "isnan": lambda x: x != x,
    "isinf": lambda x: abs(x) == math.inf,
    "isfinite": lambda x: abs(x) < math.inf,
    # comparison and logic
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "logical_and": lambda x, y: x and y,
    "logical_or": lambda x, y: x or y,
    "logical_xor": lambda x, y: x != y,
    "logical_not": lambda x: not x,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "bitwise_invert": lambda x: not x if isinstance(x, bool) else ~x,
    # elementary functions
    **{
        name: _elementary(name)
        for name in (
            *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos"),
            *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "atan2", "hypot"),
        )
    },
    "logaddexp": lambda x, y: np.logaddexp(np.float64(x), np.float64(y)),
    "rsqrt": lambda x: 1 / np.sqrt(np.float64(x)),
    "sigmoid": lambda x: _over_one_plus_exp(np.float64(1), -np.float64(x)),
    "silu": lambda x: _over_one_plus_exp(np.float64(x), -np.float64(x)),
    "softplus": lambda x: np.logaddexp(np.float64(x), 0),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
}

# Those whose meaning depends on the dtype of the result, which comes first. A shift's count is unsigned.
BY_DTYPE: dict[str, Callable[..., Any]] = {
    "cast": lambda dtype, x: cast(x, dtype),
    "nextafter": _next_after,
    "bits_to_float": lambda dtype, x: np.uint64(x).astype(f"u{dtype.itemsize}").view(dtype.numpy),
    "bitwise_left_shift": lambda dtype, x, y: x << y if 0 <= y < dtype.bits else 0,
    "bitwise_right_shift": lambda dtype, x, y: x >> (y if 0 <= y < dtype.bits else dtype.bits),
    "multiply_high": lambda dtype, x, y: x * y >> dtype.bits,
}
