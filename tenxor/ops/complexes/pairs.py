"""Conversion of formulas with complex numbers into formulas over real numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dtypes import DType, complex_of
from ..expr import Arg, Call, Const, Expr, Op, Pair, call, cast, missing, walk, zero


def pair(real: Expr, imag: Expr) -> Pair:
    """Return the complex number with these parts."""
    return Pair(real, imag, complex_of(real.dtype))


def has_complex(e: Expr) -> bool:
    """Return whether any subexpression is a complex number, or an operation with complex numbers in its formula."""
    return any(subexpr.dtype.is_complex or (isinstance(subexpr, Call) and subexpr.op.in_complex) for subexpr in walk(e))


def converted(x: Expr, dtype: DType) -> Expr:
    """Return `x`, real or a `Pair`, converted to `dtype`."""
    if x.dtype is dtype:
        return x
    if isinstance(x, Pair):
        real, imag = x.args
        if dtype.is_complex:
            return Pair(cast(real, dtype.part), cast(imag, dtype.part), dtype)
        assert dtype.kind == "bool", f"a complex number is no {dtype}"
        return call("logical_or", real, imag)
    return Pair(cast(x, dtype.part), zero(dtype.part), dtype) if dtype.is_complex else cast(x, dtype)


def applied(op: Op, args: Sequence[Expr], dtype: DType) -> Expr:
    """Return `op` on operands that are real or `Pair`s, with a result of `dtype`, as a real expression or a `Pair`."""
    if op.name == "cast":
        return converted(args[0], dtype)
    operand_dtypes, result = op.rule(op.name, tuple(x.dtype for x in args))
    args = [converted(x, d) for x, d in zip(args, operand_dtypes, strict=True)]
    if not (op.in_complex or result.is_complex or any(d.is_complex for d in operand_dtypes)):
        return Call(op, tuple(args), result)
    if op.parts is not None:
        return op.parts(*args)
    assert op.formula is not None, f"{op} has no formula for complex numbers"
    parameters = [Arg(k, d) for k, d in enumerate(operand_dtypes)]
    return in_parts(op.formula(*parameters), dict(zip(parameters, args, strict=True)))


def in_parts(formula: Expr, arguments: Mapping[Expr, Expr]) -> Expr:
    """Return a formula as a real expression or a `Pair`. `arguments` maps the arguments of the formula to real expressions or `Pair`s."""
    results = dict(arguments)
    for e in missing(formula, results):
        if isinstance(e, Call):
            results[e] = applied(e.op, [results[a] for a in e.args], e.dtype)
        elif isinstance(e, Const) and e.dtype.is_complex:
            value = complex(e.value)
            results[e] = pair(Const(value.real, e.dtype.part), Const(value.imag, e.dtype.part))
        else:
            results[e] = e.with_args(tuple([results[a] for a in e.args]))
    return results[formula]
