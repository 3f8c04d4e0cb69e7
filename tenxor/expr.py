"""What is computed for one element: a tree of operations on dtyped scalars.

An `Expr` is immutable and compares by structure. Formulas (of composite operations, and of the user's own traced
functions) are trees over `Arg`; the loop IR adds leaves of its own (loads, run-time scalars, loop positions).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .dtypes import DType, Number, boolean

if TYPE_CHECKING:
    from .ops import Op

OPS: dict[str, Op] = {}  # filled by ops.py, so that expressions can use Python's operators


class Expr:
    """The root of all expressions; `dtype` is the type of its value, `key` all that tells it from others of its class."""

    __slots__ = ("_hash", "dtype", "key")

    dtype: DType
    key: tuple[object, ...]

    def _set(self, dtype: DType, *key: object) -> None:
        self.dtype = dtype
        self.key = key
        self._hash = hash((type(self).__name__, dtype.name, key))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(self) is type(other)
            and self._hash == other._hash
            and self.dtype is other.dtype
            and self.key == other.key
        )

    @property
    def args(self) -> tuple[Expr, ...]:
        """The operands; none for a leaf."""
        return ()

    def __add__(self, other: Operand) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return call("subtract", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return call("subtract", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return call("multiply", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return call("multiply", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return call("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return call("divide", other, self)

    def __neg__(self) -> Expr:
        return call("negative", self)

    def __lt__(self, other: Operand) -> Expr:
        return call("less", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return call("greater", self, other)

    def __and__(self, other: Operand) -> Expr:
        return call("logical_and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return call("logical_or", self, other)


Operand = Expr | Number


class Arg(Expr):
    """The `index`-th argument of a formula."""

    __slots__ = ("index",)

    def __init__(self, index: int, dtype: DType) -> None:
        self.index = index
        self._set(dtype, index)

    def __repr__(self) -> str:
        return "xyzuvw"[self.index] if self.index < 6 else f"x{self.index}"


class Const(Expr):
    """A number that is part of the formula itself, and so of the compiled code."""

    __slots__ = ("value",)

    def __init__(self, value: Number, dtype: DType) -> None:
        self.value = value
        self._set(dtype, repr(value))  # by text: 0.0 and -0.0 differ, nan equals itself

    def __repr__(self) -> str:
        return repr(self.value)


class Call(Expr):
    """`op` applied to operands that already have the dtypes it computes in."""

    __slots__ = ("_args", "op")

    def __init__(self, op: Op, args: tuple[Expr, ...], dtype: DType) -> None:
        self.op = op
        self._args = args
        self._set(dtype, op.name, op.formula_key, args)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def __repr__(self) -> str:
        return self.op.format([repr(a) for a in self._args], self.dtype)


def cast(x: Expr, dtype: DType) -> Expr:
    """`x` as `dtype`."""
    if x.dtype is dtype:
        return x
    if isinstance(x, Const) and dtype.kind == "float":
        return Const(float(x.value), dtype)
    return Call(OPS["cast"], (x,), dtype)


def call(name: str, *operands: Operand) -> Expr:
    """The operation `name` on expressions and Python numbers, with promotion by the table's rule."""
    return apply(OPS[name], operands)


def apply(op: Op, operands: Sequence[Operand]) -> Expr:
    """`op` on expressions and Python numbers; a number takes the dtype of the expressions beside it."""
    strong = [x.dtype for x in operands if isinstance(x, Expr)]
    of_numbers = strong[-1]
    typed = tuple(x if isinstance(x, Expr) else Const(x, of_numbers) for x in operands)
    wanted, result = op.rule(op.name, tuple(x.dtype for x in typed))
    return Call(op, tuple(cast(x, d) for x, d in zip(typed, wanted, strict=True)), result)


def where(condition: Expr, yes: Operand, no: Operand) -> Expr:
    """`yes` where the condition holds, else `no`."""
    return call("where", condition, yes, no)


def rebuild(e: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """`e` with every node for which `replace` gives an answer replaced by it, outermost first."""
    found = replace(e)
    if found is not None:
        return found
    if not e.args:
        return e
    assert isinstance(e, Call)
    return Call(e.op, tuple(rebuild(a, replace) for a in e.args), e.dtype)


def substitute(formula: Expr, args: Sequence[Expr]) -> Expr:
    """The formula with its `Arg`s replaced by the given expressions."""
    return rebuild(formula, lambda e: args[e.index] if isinstance(e, Arg) else None)


def true() -> Const:
    """The constant True."""
    return Const(True, boolean)
