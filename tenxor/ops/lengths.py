"""The length of operations as kernels contain them, with all formulas expanded."""

from __future__ import annotations

from ..dtypes import DType
from .complexes.pairs import applied, pair
from .expr import OPS, Arg, Call, DTypes, Expr, Op, walk


def length(op: Op, dtypes: DTypes) -> int:
    """Return about how many additions an operation on operands of these dtypes is worth, with the formulas of the user and of complex
    numbers expanded.

    >>> from tenxor.dtypes import complex128, float64
    >>> from tenxor.ops import OPS
    >>> [length(OPS["acos"], (float64,)), length(OPS["acos"], (complex128,)) > 400]
    [20, True]
    """
    cost = op.lengths.get(dtypes)
    if cost is None:
        cost = op.lengths[dtypes] = _compute_length(op, dtypes)
    return cost


def _compute_length(op: Op, dtypes: DTypes) -> int:
    if op is OPS["cast"]:  # a cast has no dtype rule
        return op.cost
    if op.in_complex or any(d.is_complex for d in (*dtypes, op.result(dtypes))):
        expansion = applied(op, [_argument(k, d) for k, d in enumerate(dtypes)], op.result(dtypes))
    elif op.formula is not None:
        expansion = op.formula(*map(Arg, range(len(dtypes)), dtypes))
    else:
        return op.cost
    return sum(length(subexpr.op, tuple([a.dtype for a in subexpr.args])) for subexpr in walk(expansion) if isinstance(subexpr, Call))


def _argument(k: int, dtype: DType) -> Expr:
    """Return an operand as an expression, a complex one as a `Pair` of its parts."""
    return pair(Arg(2 * k, dtype.part), Arg(2 * k + 1, dtype.part)) if dtype.is_complex else Arg(2 * k, dtype)
