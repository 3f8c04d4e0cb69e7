"""Derivatives of scalar formulas: the cotangents of the operands of an elementwise operation, as elementwise operations. A formula (`Expr`)
is an expression over numbered arguments (`Arg`), constants, and calls of operations (`Call`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..dtypes import DType
from ..errors import DerivativeError
from ..ops import OPS, Op, make_custom_op
from ..ops.expr import Arg, Call, Expr, apply, cast, substitute, walk_unvisited

MAX_CACHED_FORMULAS = 4096
_CAST, _POSITIVE = OPS["cast"], OPS["positive"]


def is_smooth(dtype: DType) -> bool:
    """Return whether derivatives with respect to elements of this dtype exist: whether the dtype is floating-point or complex."""
    return dtype.is_float or dtype.is_complex


class DerivativeOp(NamedTuple):
    """The cotangent or tangent of an operand, as the operation `op` on the values numbered `reads`.

    With n operands, values 0 to n - 1 are the operands, n is the result, and n + 1 is the result's cotangent or the operand's tangent.
    """

    op: Op
    reads: tuple[int, ...]


def pull_back(e: Expr, g: Expr, wanted: Sequence[Expr], result: Expr | None = None) -> list[Expr | None]:
    """Return the cotangents of the subexpressions `wanted` of the formula `e`, in their order, given the cotangent `g` of `e`, as formulas.

    None stands for 0. A wanted subexpression counts as independent: nothing is passed on to the operands. Each cotangent has the dtype of
    the subexpression; only floating-point and complex dtypes get a cotangent. The formula `result`, if given, stands for the value of `e`
    in the derivative. Raise DerivativeError if an operation on the way has no derivative, but a differentiable result and operand.
    """
    order: list[Expr] = []
    visited: set[Expr] = set()
    for expr in walk_unvisited(e, visited):
        order.append(expr)
        visited.add(expr)
    depends = set(wanted)
    for expr in order:
        if not depends.isdisjoint(expr.args):
            depends.add(expr)
    totals: dict[Expr, Expr] = {e: g}
    for expr in reversed(order):
        total = totals.get(expr)
        if total is None or expr in wanted or expr not in depends or not isinstance(expr, Call):
            continue
        value = result if expr is e and result is not None else expr
        for operand, cotangent in zip(expr.args, _pull_back_call(expr, value, total), strict=True):
            if cotangent is not None and operand in depends and is_smooth(operand.dtype):
                cotangent = cast(cotangent, operand.dtype)
                totals[operand] = totals[operand] + cotangent if operand in totals else cotangent
    return [totals.get(expr) for expr in wanted]


def _pull_back_call(call: Call, value: Expr, g: Expr) -> Sequence[Expr | None]:
    """Return a formula for the cotangent of each operand of `call`; None means 0.

    `value` is a formula for the value of `call`, and `g` a formula for the cotangent. Raise DerivativeError if the operation has no
    derivative, but a differentiable result and operand.
    """
    op = call.op
    if op.vjp is not None:
        return op.vjp(g, value, *call.args)
    if op.formula is None:
        if any(is_smooth(a.dtype) for a in call.args) and is_smooth(call.dtype):
            raise DerivativeError(f"{op.name}: has no derivative; compute it on x.detach() if none is meant")
        return [None] * len(call.args)
    args = [Arg(k, a.dtype) for k, a in enumerate(call.args)]
    g_arg = Arg(len(args), call.dtype)
    formulas = pull_back(op.formula(*args), g_arg, args)
    return [None if e is None else substitute(e, [*call.args, g]) for e in formulas]


def _pull_back_op(op: Op, dtypes: tuple[DType, ...], dtype: DType) -> list[Expr | None]:
    """Return the cotangent of each operand of `op`, as a formula; None stands for 0. `dtypes` are the operands' dtypes, `dtype` the
    result's.

    With n operands, arguments 0 to n - 1 of the formula are the operands, n is the result, and n + 1 the result's cotangent.
    """
    args = [Arg(k, d) for k, d in enumerate(dtypes)]
    result, g = Arg(len(args), dtype), Arg(len(args) + 1, dtype)
    e = Call(_CAST, (args[0],), dtype) if op is _CAST else apply(op, args)
    formulas = pull_back(e, g, args, result) if isinstance(e, Call) else [g]
    return [None if e is None or not is_smooth(d) else cast(e, d) for e, d in zip(formulas, dtypes, strict=True)]


@register("cotangent operations", "the operations that pull a cotangent back, by operation and dtypes")
@lru_cache(MAX_CACHED_FORMULAS)
def derive_cotangent_ops(op: Op, dtypes: tuple[DType, ...], dtype: DType) -> tuple[DerivativeOp | None, ...]:
    """Return, for each operand of `op`, the operation that computes its cotangent, or None for 0. Cached.

    `dtypes` are the operands' dtypes, `dtype` is the result's. `DerivativeOp` numbers the values read; value n + 1 is the result's
    cotangent. Raise DerivativeError if an operation in the formula of `op` has no derivative.
    """
    name = f"{op.name}_pullback"
    return tuple([None if e is None else to_operation(e, name) for e in _pull_back_op(op, dtypes, dtype)])


@register("tangent operations", "the operations that push a tangent forward, by operation and dtypes")
@lru_cache(MAX_CACHED_FORMULAS)
def derive_tangent_ops(op: Op, dtypes: tuple[DType, ...], dtype: DType) -> tuple[DerivativeOp | None, ...]:
    """Return, for each operand of `op`, the operation that computes its contribution to the tangent of the result, or None for 0. Cached.

    `dtypes` are the operands' dtypes, and `dtype` is the result's. With n operands, value n + 1 is the operand's tangent (`DerivativeOp`).
    A cotangent is linear in the result's cotangent, so the transpose is the tangent. Raise DerivativeError as `derive_cotangent_ops` does.
    """
    tangent_ops: list[DerivativeOp | None] = []
    g = Arg(len(dtypes) + 1, dtype)
    for e, d in zip(_pull_back_op(op, dtypes, dtype), dtypes, strict=True):
        tangent = Arg(len(dtypes) + 1, d)
        formula = None if e is None else tangent if e is g else pull_back(e, tangent, [g])[0]
        tangent_ops.append(None if formula is None else to_operation(cast(formula, dtype), f"{op.name}_tangent"))
    return tuple(tangent_ops)


@register("operations of formulas", "a derivative as an operation, by formula")
@lru_cache(MAX_CACHED_FORMULAS)
def to_operation(e: Expr, name: str) -> DerivativeOp:
    """Return the formula `e` over arguments as an operation on only the arguments that occur, with their numbers in `reads`. Cached.

    A single argument, or a single call of arguments, uses an existing operation, and `reads` has the operands in order. A longer formula
    becomes a new operation called `name`, and `reads` has ascending numbers, each once; a constant formula reads nothing.
    """
    if isinstance(e, Arg):
        return DerivativeOp(_POSITIVE, (e.index,))
    if isinstance(e, Call) and e.op is not _CAST and all(isinstance(a, Arg) for a in e.args):
        return DerivativeOp(e.op, tuple([a.index for a in e.args if isinstance(a, Arg)]))
    if isinstance(e, Call) and e.op is _CAST and isinstance(e.args[0], Arg):
        return DerivativeOp(_CAST, (e.args[0].index,))
    visited: set[Expr] = set()
    cost = 0
    for expr in walk_unvisited(e, visited):
        visited.add(expr)
        if isinstance(expr, Call):
            cost += expr.op.cost
    reads = {expr.index: expr for expr in sorted((p for p in visited if isinstance(p, Arg)), key=lambda a: a.index)}
    new_args = {index: Arg(k, expr.dtype) for k, (index, expr) in enumerate(reads.items())}
    formula = substitute(e, [new_args.get(k, e) for k in range(max(reads, default=-1) + 1)])
    op = make_custom_op(name, formula, tuple([expr.dtype for expr in reads.values()]))
    op.cost = max(cost, 1)
    return DerivativeOp(op, tuple(reads))
