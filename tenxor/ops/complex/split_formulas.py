"""Conversion of formulas with complex numbers into formulas over real numbers, while a kernel is built. A complex number becomes a
`ComplexPair` of the expressions of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dtypes import DType, complex_dtype_of
from ..expr import Arg, Call, ComplexPair, Const, Expr, Op, call, cast, walk, walk_unvisited, zero


def make_pair(real: Expr, imag: Expr) -> ComplexPair:
    """Return the complex number with the parts `real` and `imag`, which have the same real dtype, float32 or float64."""
    return ComplexPair(real, imag, complex_dtype_of(real.dtype))


def has_complex(e: Expr) -> bool:
    """Return whether any subexpression of `e` is a complex number, or an operation with complex numbers in its formula."""
    return any(subexpr.dtype.is_complex or (isinstance(subexpr, Call) and subexpr.op.uses_complex) for subexpr in walk(e))


def convert(x: Expr, dtype: DType) -> Expr:
    """Return `x`, a real expression or a `ComplexPair`, converted to `dtype`. A real expression becomes complex with the imaginary part 0.

    A `ComplexPair` can become complex or bool, but no number of a real dtype (AssertionError). `x` itself is returned if it has the dtype.
    """
    if x.dtype is dtype:
        return x
    if isinstance(x, ComplexPair):
        real, imag = x.args
        if dtype.is_complex:
            return ComplexPair(cast(real, dtype.part), cast(imag, dtype.part), dtype)
        assert dtype.kind == "bool", f"a complex number is no {dtype}"
        return call("logical_or", real, imag)
    return ComplexPair(cast(x, dtype.part), zero(dtype.part), dtype) if dtype.is_complex else cast(x, dtype)


def apply_op(op: Op, args: Sequence[Expr], dtype: DType) -> Expr:
    """Return `op` on the operands `args`, real expressions or `ComplexPair`s, as a real expression or a `ComplexPair`.

    The operands are converted as the dtype rule of `op` says; DTypeError if it does not accept them. `dtype` is the dtype of the result; it
    is read for a cast alone. An operation without a formula for complex numbers raises AssertionError.
    """
    if op.name == "cast":
        return convert(args[0], dtype)
    operand_dtypes, result = op.rule(op.name, tuple(x.dtype for x in args))
    args = [convert(x, d) for x, d in zip(args, operand_dtypes, strict=True)]
    if not (op.uses_complex or result.is_complex or any(d.is_complex for d in operand_dtypes)):
        return Call(op, tuple(args), result)
    if op.complex_formula is not None:
        return op.complex_formula(*args)
    assert op.formula is not None, f"{op} has no formula for complex numbers"
    parameters = [Arg(k, d) for k, d in enumerate(operand_dtypes)]
    return split_formula(op.formula(*parameters), dict(zip(parameters, args, strict=True)))


def split_formula(formula: Expr, arguments: Mapping[Expr, Expr]) -> Expr:
    """Return `formula` without complex subexpressions, as a real expression or a `ComplexPair`.

    `arguments` maps each `Arg` of the formula, or another leaf, to a real expression or a `ComplexPair`. A real leaf without an entry stays
    as it is; a complex constant becomes a pair.
    """
    results = dict(arguments)
    for e in walk_unvisited(formula, results):
        if isinstance(e, Call):
            results[e] = apply_op(e.op, [results[a] for a in e.args], e.dtype)
        elif isinstance(e, Const) and e.dtype.is_complex:
            value = complex(e.value)
            results[e] = make_pair(Const(value.real, e.dtype.part), Const(value.imag, e.dtype.part))
        else:
            results[e] = e.with_args(tuple([results[a] for a in e.args]))
    return results[formula]
