"""The cost of operations as kernels contain them, with all formulas expanded: about how many additions an operation is worth. A formula
expresses an operation by other operations of the op table.
"""

from __future__ import annotations

from ..dtypes import DType
from .complex.split_formulas import apply_op, make_pair
from .expr import OPS, Arg, Call, DTypes, Expr, Op, walk


def compute_expanded_cost(op: Op, dtypes: DTypes) -> int:
    """Return about how many additions the operation `op` on operands of `dtypes` is worth, with the formulas of the user and of complex
    numbers expanded. The answer is cached in `op`.

    >>> from tenxor.dtypes import complex128, float64
    >>> from tenxor.ops import OPS
    >>> [compute_expanded_cost(OPS["acos"], (float64,)), compute_expanded_cost(OPS["acos"], (complex128,)) > 400]
    [20, True]
    """
    cost = op.expanded_costs.get(dtypes)
    if cost is None:
        cost = op.expanded_costs[dtypes] = _expand_and_sum(op, dtypes)
    return cost


def _expand_and_sum(op: Op, dtypes: DTypes) -> int:
    """Return about how many additions `op` on operands of `dtypes` is worth: the result of `compute_expanded_cost`, without its cache for
    `op`.

    A formula is worth the sum of its distinct operations; an operation without a formula is worth `op.cost`.
    """
    if op is OPS["cast"]:  # a cast has no dtype rule
        return op.cost
    if op.uses_complex or any(d.is_complex for d in (*dtypes, op.result_dtype(dtypes))):
        expansion = apply_op(op, [_make_argument(k, d) for k, d in enumerate(dtypes)], op.result_dtype(dtypes))
    elif op.formula is not None:
        expansion = op.formula(*map(Arg, range(len(dtypes)), dtypes))
    else:
        return op.cost
    return sum(
        compute_expanded_cost(subexpr.op, tuple([a.dtype for a in subexpr.args]))
        for subexpr in walk(expansion)
        if isinstance(subexpr, Call)
    )


def _make_argument(k: int, dtype: DType) -> Expr:
    """Return operand number `k` of `dtype` as an `Arg` with the index 2 k. A complex operand is a `ComplexPair` of two `Arg`s, 2 k and 2 k
    + 1.
    """
    return make_pair(Arg(2 * k, dtype.part), Arg(2 * k + 1, dtype.part)) if dtype.is_complex else Arg(2 * k, dtype)
