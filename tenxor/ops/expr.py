"""What is computed for one element: a tree of operations on dtyped scalars.

An `Expr` is immutable and compares by structure, through a digest of it: parts may be shared, so what looks like a small
graph may be an enormous tree, and nothing here walks it as a tree. Formulas (of composite operations, and of the user's own traced
functions) are expressions over `Arg`; the loop IR adds leaves of its own (loads, run-time scalars, loop positions).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from ..dtypes import DType, Number, boolean
from ..late import LateModule

hashing = LateModule("tenxor.hashing")  # with the first expression
_END = b"\0"  # ends text among the bytes that tell expressions apart; digests have their length
LONGEST_TEXT = 2000  # characters of an expression that are shown

DTypes = tuple[DType, ...]
# (operation, dtypes given) -> (dtypes computed in, dtype of the result)
Rule = Callable[[str, DTypes], tuple[DTypes, DType]]


class Expr:
    """The root of all expressions; `dtype` is the type of its value, `digest` the same for equal ones in all processes."""

    __slots__ = ("_hash", "digest", "dtype")

    dtype: DType
    digest: bytes

    def _set(self, dtype: DType, *parts: object) -> None:
        """Say what tells this from other expressions of its class."""
        told = [p.digest if isinstance(p, Expr) else repr(p).encode() + _END for p in parts]
        self._tell(type(self).__name__.encode() + _END, dtype, told)

    def _tell(self, kind: bytes, dtype: DType, told: list[bytes]) -> None:
        self.dtype = dtype
        self.digest = hashing.blake2b(b"".join((kind, dtype.name.encode(), _END, *told)), digest_size=16).digest()
        self._hash = hash(self.digest)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self.digest == other.digest)

    @property
    def args(self) -> tuple[Expr, ...]:
        """The operands; none for a leaf."""
        return ()

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        """The same of other operands."""
        assert not args, f"{self!r} has no operands"
        return self

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
Exprs = tuple[Expr, ...]


class Op:
    """One elementwise operation.

    `rule` maps the operands' dtypes to those it computes in and its result's; `formula`, if any, expresses it by other entries;
    `parts` gives it for complex operands, each a pair of real expressions; `pullback` is its derivative (`pullbacks.py`), which
    else is that of the formula; `infix` is how it prints; `meaning` is its documentation; `cost` is about how many additions it
    is worth. `in_complex` tells of a formula that has complex numbers in it, whatever it is given; `key` of which formula an operation
    is that is in no table, in any process. `lengths` is what `ops.lengths` found.
    """

    __slots__ = (
        "_results",
        "arity",
        "cost",
        "formula",
        "in_complex",
        "infix",
        "key",
        "kind",
        "lengths",
        "meaning",
        "name",
        "parts",
        "pullback",
        "rule",
        "told",
    )

    def __init__(
        self,
        name: str,
        arity: int,
        rule: Rule,
        meaning: str = "",
        *,
        infix: str = "",
        cost: int = 1,
        formula: Callable[..., Expr] | None = None,
        formula_key: Expr | None = None,
        parts: Callable[..., Expr] | None = None,
        pullback: Callable[..., tuple[Expr | None, ...]] | None = None,
    ) -> None:
        self.name, self.arity, self.rule, self.meaning = name, arity, rule, meaning
        self.infix, self.cost, self.formula = infix, cost, formula
        self.parts, self.pullback, self.in_complex = parts, pullback, False
        self.kind = "elementwise"
        self.key = b"" if formula_key is None else formula_key.digest
        self.told = b"Call\0" + name.encode() + _END + self.key
        self._results: dict[DTypes, DType] = {}
        self.lengths: dict[DTypes, int] = {}

    def __repr__(self) -> str:
        return self.name

    def result(self, dtypes: DTypes) -> DType:
        """The dtype of the result for operands of these dtypes; DTypeError where there is none."""
        found = self._results.get(dtypes)
        if found is None:
            found = self._results[dtypes] = self.rule(self.name, dtypes)[1]
        return found

    def format(self, args: list[str], dtype: DType) -> str:
        """The operation written on the texts of its arguments."""
        if self.infix and self.arity == 2:
            return f"({args[0]} {self.infix} {args[1]})"
        if self.name == "cast":
            return f"{dtype.name}({args[0]})"
        return f"{self.name}({', '.join(args)})"


OPS: dict[str, Op] = {}  # by name; filled by table.py, whose formulas are expressions of these very entries


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
        self._tell(op.told, dtype, [a.digest for a in args])

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Call(self.op, args, self.dtype)

    def __repr__(self) -> str:
        texts: dict[Expr, str] = {}
        for e in missing(self, texts):
            text = e.op.format([texts[a] for a in e.args], e.dtype) if isinstance(e, Call) else repr(e)
            texts[e] = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " ..."
        return texts[self]


class Pair(Expr):
    """A complex number as its real and its imaginary part."""

    __slots__ = ("_args",)

    def __init__(self, real: Expr, imag: Expr, dtype: DType) -> None:
        assert real.dtype is imag.dtype is dtype.part, f"{real.dtype} and {imag.dtype} are no parts of {dtype}"
        self._args = (real, imag)
        self._set(dtype, real, imag)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Pair(args[0], args[1], self.dtype)

    def __repr__(self) -> str:
        return f"({self.args[0]!r} + {self.args[1]!r}j)"


def missing(e: Expr, known: Container[Expr]) -> Iterator[Expr]:
    """What `known` lacks of `e` and all below it, operands before what uses them. Each must be known before the next."""
    stack = [e]
    while stack:
        e = stack[-1]
        if e in known:
            stack.pop()
            continue
        operands = [a for a in reversed(e.args) if a not in known]
        if operands:
            stack += operands
        else:
            yield stack.pop()


def walk(e: Expr) -> list[Expr]:
    """The expression and all below it, each once, operands before what uses them."""
    found: dict[Expr, None] = {}
    for part in missing(e, found):
        found[part] = None
    return list(found)


def cast(x: Expr, dtype: DType) -> Expr:
    """`x` as `dtype`."""
    if x.dtype is dtype:
        return x
    if isinstance(x, Const) and dtype.kind == "float":
        assert not isinstance(x.value, complex)
        return Const(float(x.value), dtype)
    if isinstance(x, Const) and dtype.kind == "complex":
        return Const(complex(x.value), dtype)
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


def rebuild(e: Expr, other: Callable[[Expr, tuple[Expr, ...]], Expr], known: Mapping[Expr, Expr] | None = None) -> Expr:
    """`e` with all but its operations replaced by what is `other` for them and their new operands, and the parts that are
    `known` as they are known; what it shares stays shared.
    """
    found: dict[Expr, Expr] = dict(known or {})
    stack = [e]
    while stack:
        part = stack[-1]
        if part in found:
            stack.pop()
            continue
        args: list[Expr] = []
        for a in reversed(part.args):
            done = found.get(a)
            if done is None:
                stack.append(a)
            else:
                args.append(done)
        if part is stack[-1]:
            args.reverse()
            made = tuple(args)
            found[stack.pop()] = part.with_args(made) if isinstance(part, Call) else other(part, made)
    return found[e]


def replaced(e: Expr, by: Mapping[Expr, Expr]) -> Expr:
    """`e` with some of its parts replaced."""
    return rebuild(e, lambda part, args: part.with_args(args), by)


def substitute(formula: Expr, args: Sequence[Expr]) -> Expr:
    """The formula with its `Arg`s replaced by the given expressions."""
    return rebuild(formula, lambda e, _: args[e.index] if isinstance(e, Arg) else e)


def zero(dtype: DType) -> Const:
    """The constant 0 of a numeric dtype."""
    return Const(0.0 if dtype.is_float else 0j if dtype.is_complex else 0, dtype)


def true() -> Const:
    """The constant True."""
    return Const(True, boolean)
