"""Scalar expressions: trees of operations on dtyped scalars, which describe the computation of one element. A formula is an expression over
arguments (`Arg`); an operation (`Op`) is an entry of the op table. An expression computes nothing.

An `Expr` is immutable and compares by structure, through a digest. Subexpressions may be shared, so a small graph can be an enormous tree;
nothing here walks it as a tree. Formulas (of composite operations, and of the user's traced functions) are expressions over `Arg`; the loop
IR adds leaves of its own (loads, run-time scalars, loop positions).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from .._utils.lazy import LazyModule
from ..dtypes import DType, Number, boolean

hashing = LazyModule("tenxor._utils.hashing")  # imported with the first expression
_END = b"\0"  # terminates text in the input of a digest; digests have a fixed length
MAX_TEXT_CHARS = 2000  # characters of an expression in its repr

DTypes = tuple[DType, ...]
# (name of the operation, operand dtypes) -> (dtypes of the computation, dtype of the result)
DTypeRule = Callable[[str, DTypes], tuple[DTypes, DType]]


class Expr:
    """The base class of expressions. `dtype` is the type of the value; `digest` is equal for equal expressions, in all processes."""

    __slots__ = ("_hash", "_subexprs", "digest", "dtype")

    dtype: DType
    digest: bytes
    _subexprs: tuple[Expr, ...] | None  # the subexpressions below this expression, in the order of `walk`; None before the first walk

    def _set(self, dtype: DType, *fields: object) -> None:
        """Set `dtype`, `digest` and the hash, and forget the list of subexpressions. Each `__init__` calls this once.

        `fields`, for instance operands, distinguish the expressions of a class and dtype: an operand by its digest, another object by its
        `repr`.
        """
        encoded = [p.digest if isinstance(p, Expr) else repr(p).encode() + _END for p in fields]
        self._set_digest(type(self).__name__.encode() + _END, dtype, encoded)

    def _set_digest(self, kind: bytes, dtype: DType, encoded: list[bytes]) -> None:
        """Set `dtype`, and the digest of the bytes `kind`, the dtype, and the bytes `encoded`, each of known length or with an end.

        Set the hash, and forget the list of subexpressions. Equal digests make expressions equal, so `kind` and `encoded` must hold
        everything that distinguishes them.
        """
        self.dtype = dtype
        self.digest = hashing.blake2b(b"".join((kind, dtype.name.encode(), _END, *encoded)), digest_size=16).digest()
        self._hash = hash(self.digest)
        self._subexprs = None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self.digest == other.digest)

    @property
    def args(self) -> tuple[Expr, ...]:
        """The operands; empty for a leaf."""
        return ()

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        """Return this operation on the operands `args`. A leaf, which has no operands, is returned unchanged."""
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
    """An elementwise operation, with its `name` in the op table and its number of operands, `arity`.

    `rule` maps the name and the operand dtypes to the dtypes of the computation and of the result. `formula`, if any, expresses the
    operation by other entries of the table. `complex_formula` is the formula for complex operands, each a `ComplexPair` of real
    expressions. `vjp` is the derivative (a VJP formula, `vjp_formulas.py`); by default it is derived from the formula. `infix` is the
    printed operator, `meaning` the documentation, and `cost` about how many additions the operation is worth. `uses_complex` tells of a
    formula with complex numbers in it, whatever the operands. `formula_digest` identifies the formula of an operation outside the table, in
    any process: the digest of the expression `formula_key`. `expanded_costs` is the cache of `ops.expanded_cost`.
    """

    __slots__ = (
        "_results",
        "arity",
        "cost",
        "formula",
        "uses_complex",
        "infix",
        "formula_digest",
        "kind",
        "expanded_costs",
        "meaning",
        "name",
        "complex_formula",
        "vjp",
        "rule",
        "digest_prefix",
    )

    def __init__(
        self,
        name: str,
        arity: int,
        rule: DTypeRule,
        meaning: str = "",
        *,
        infix: str = "",
        cost: int = 1,
        formula: Callable[..., Expr] | None = None,
        formula_key: Expr | None = None,
        complex_formula: Callable[..., Expr] | None = None,
        vjp: Callable[..., tuple[Expr | None, ...]] | None = None,
    ) -> None:
        self.name, self.arity, self.rule, self.meaning = name, arity, rule, meaning
        self.infix, self.cost, self.formula = infix, cost, formula
        self.complex_formula, self.vjp, self.uses_complex = complex_formula, vjp, False
        self.kind = "elementwise"
        self.formula_digest = b"" if formula_key is None else formula_key.digest
        self.digest_prefix = b"Call\0" + name.encode() + _END + self.formula_digest
        self._results: dict[DTypes, DType] = {}
        self.expanded_costs: dict[DTypes, int] = {}

    def __repr__(self) -> str:
        return self.name

    def result_dtype(self, dtypes: DTypes) -> DType:
        """Return the dtype of the result for operands of these dtypes, in order. Raise DTypeError if the operation does not accept them.
        The answer is cached. A cast has no rule, and raises AssertionError.
        """
        dtype = self._results.get(dtypes)
        if dtype is None:
            dtype = self._results[dtypes] = self.rule(self.name, dtypes)[1]
        return dtype

    def format(self, args: list[str], dtype: DType) -> str:
        """Return the operation as text, given the texts `args` of the operands: an infix in parentheses, else a call. `dtype`, of the
        result, is printed for a cast alone.
        """
        if self.infix and self.arity == 2:
            return f"({args[0]} {self.infix} {args[1]})"
        if self.name == "cast":
            return f"{dtype.name}({args[0]})"
        return f"{self.name}({', '.join(args)})"


OPS: dict[str, Op] = {}  # by name; filled by op_table.py, whose formulas refer to these entries


class Arg(Expr):
    """The argument number `index`, from 0 on, of a formula: a placeholder that `substitute` replaces."""

    __slots__ = ("index",)

    def __init__(self, index: int, dtype: DType) -> None:
        self.index = index
        self._set(dtype, index)

    def __repr__(self) -> str:
        return "xyzuvw"[self.index] if self.index < 6 else f"x{self.index}"


class Const(Expr):
    """A number that is part of the formula, and so of the compiled code."""

    __slots__ = ("value",)

    def __init__(self, value: Number, dtype: DType) -> None:
        self.value = value
        self._set(dtype, repr(value))  # as text, in which 0.0 and -0.0 differ and nan equals itself

    def __repr__(self) -> str:
        return repr(self.value)


class Call(Expr):
    """An operation on operands that already have the dtypes of the computation."""

    __slots__ = ("_args", "op")

    def __init__(self, op: Op, args: tuple[Expr, ...], dtype: DType) -> None:
        self.op = op
        self._args = args
        self._set_digest(op.digest_prefix, dtype, [a.digest for a in args])

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Call(self.op, args, self.dtype)

    def __repr__(self) -> str:
        texts: dict[Expr, str] = {}
        for e in walk_unvisited(self, texts):
            text = e.op.format([texts[a] for a in e.args], e.dtype) if isinstance(e, Call) else repr(e)
            texts[e] = text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS] + " ..."
        return texts[self]


class ComplexPair(Expr):
    """A complex number, given by the expressions of its real and imaginary parts."""

    __slots__ = ("_args",)

    def __init__(self, real: Expr, imag: Expr, dtype: DType) -> None:
        assert real.dtype is imag.dtype is dtype.part, f"{real.dtype} and {imag.dtype} are no parts of {dtype}"
        self._args = (real, imag)
        self._set(dtype, real, imag)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return ComplexPair(args[0], args[1], self.dtype)

    def __repr__(self) -> str:
        return f"({self.args[0]!r} + {self.args[1]!r}j)"


def walk_unvisited(e: Expr, visited: Container[Expr]) -> Iterator[Expr]:
    """Iterate over the subexpressions of `e`, itself included, that `visited` lacks, each after its operands. The caller must add each to
    `visited` before the next step.

    The operands of a visited expression are not looked at.
    """
    stack: list[Expr | None] = [e]  # the operands of the expression below None are visited
    while stack:
        top = stack.pop()
        if top is None:
            top = stack.pop()
            assert top is not None
            yield top
        elif top not in visited:
            operands = [a for a in reversed(top.args) if a not in visited]
            if operands:
                stack += (top, None, *operands)
            else:
                yield top


def walk(*values: Expr) -> list[Expr]:
    """Return the expressions `values` and all their subexpressions in a new list, each once, operands first. Equal expressions count as
    one.
    """
    if len(values) == 1 and values[0]._subexprs is not None:
        return [*values[0]._subexprs, values[0]]
    visited: dict[Expr, None] = {}
    for e in values:
        for subexpr in walk_unvisited(e, visited):
            visited[subexpr] = None
    subexprs = list(visited)
    if len(values) == 1:
        values[0]._subexprs = tuple(subexprs[:-1])  # without the expression itself, which would be a reference cycle
    return subexprs


def cast(x: Expr, dtype: DType) -> Expr:
    """Return `x` converted to `dtype`. `x` itself is returned if it has the dtype. A constant becomes a constant if `dtype` is float or
    complex; any other result is a call of the operation "cast".

    A complex constant cannot become a float: AssertionError.
    """
    if x.dtype is dtype:
        return x
    if isinstance(x, Const) and dtype.kind == "float":
        assert not isinstance(x.value, complex)
        return Const(float(x.value), dtype)
    if isinstance(x, Const) and dtype.kind == "complex":
        return Const(complex(x.value), dtype)
    return Call(OPS["cast"], (x,), dtype)


def call(name: str, *operands: Operand) -> Expr:
    """Return the operation `name` of the op table on expressions and Python numbers, at least one expression; see `apply`. Raise KeyError
    for an unknown name.
    """
    return apply(OPS[name], operands)


def apply(op: Op, operands: Sequence[Operand]) -> Expr:
    """Return `op` on expressions and Python numbers, at least one expression, converted as the dtype rule of `op` says.

    A number takes the dtype of the last expression among the operands. Raise DTypeError for dtypes that `op` does not accept.
    """
    strong = [x.dtype for x in operands if isinstance(x, Expr)]
    number_dtype = strong[-1]
    typed = tuple(x if isinstance(x, Expr) else Const(x, number_dtype) for x in operands)
    operand_dtypes, result = op.rule(op.name, tuple(x.dtype for x in typed))
    return Call(op, tuple(cast(x, d) for x, d in zip(typed, operand_dtypes, strict=True)), result)


def where(condition: Expr, yes: Operand, no: Operand) -> Expr:
    """Return an expression with the value of `yes` where the boolean `condition` holds, else of `no`; the dtypes of both are promoted.

    At least one of the three is an expression; a number takes the dtype of the last expression (`apply`).
    """
    return call("where", condition, yes, no)


def rebuild(e: Expr, rebuild_other: Callable[[Expr, tuple[Expr, ...]], Expr], results: dict[Expr, Expr] | None = None) -> Expr:
    """Return `e` rebuilt from its leaves. Subexpressions in `results` are replaced, and operations (`Call`) are applied to their new
    operands.

    Any other subexpression, a leaf or a pair, becomes `rebuild_other(subexpression, new_operands)`. Shared subexpressions stay shared.
    `results`, changed in place, receives the result of each subexpression, for further calls. New operands must keep the dtypes.
    """
    results = {} if results is None else results
    stack = [e]
    while stack:
        subexpr = stack[-1]
        if subexpr in results:
            stack.pop()
            continue
        args: list[Expr] = []
        for a in reversed(subexpr.args):
            new_arg = results.get(a)
            if new_arg is None:
                stack.append(a)
            else:
                args.append(new_arg)
        if subexpr is stack[-1]:
            args.reverse()
            new_args = tuple(args)
            results[stack.pop()] = subexpr.with_args(new_args) if isinstance(subexpr, Call) else rebuild_other(subexpr, new_args)
    return results[e]


def replace_subexprs(e: Expr, replacements: Mapping[Expr, Expr]) -> Expr:
    """Return `e` with each subexpression that is a key of `replacements` replaced by its value there. Replacements are not searched.

    A replacement must have the dtype of its key. `replacements` stays unchanged.
    """
    return rebuild(e, lambda subexpr, args: subexpr.with_args(args), dict(replacements))


def substitute(formula: Expr, args: Sequence[Expr]) -> Expr:
    """Return the formula with each `Arg` replaced by the item of `args` at the same index, which must have the dtype of the `Arg`."""
    return rebuild(formula, lambda e, _: args[e.index] if isinstance(e, Arg) else e)


def zero(dtype: DType) -> Const:
    """Return the constant 0 of `dtype`; for bool, its value is the integer 0."""
    return Const(0.0 if dtype.is_float else 0j if dtype.is_complex else 0, dtype)


def true() -> Const:
    """Return the constant True."""
    return Const(True, boolean)
