"""Rewrite the comparisons of a `hypot` in a kernel, before it is emitted, so that `abs(z) <= 2` needs no square root. Squares are compared,
with exactly the same result.

The comparisons of a kernel's `hypot` become operations of their own. The op table does not have these operations: only this back end knows
their meaning.
"""

from __future__ import annotations

from math import inf
from typing import TypeGuard

from ...lowering.ir import Kernel, iterate_expressions, map_expressions, walk
from ...ops.dtype_rules import no_rule
from ...ops.expr import Call, Expr, Op, call, replace_subexprs, where

_LLVM_PREDICATES = {"less": "olt", "less_equal": "ole", "greater": "ogt", "greater_equal": "oge"}
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
# By the bits of a float: the limits of squared bounds within which a sum of two squares near the bound has full precision; and the relative
# distance from the squared bound beyond which the comparison of squares is safe. This distance is far more than the rounding of the sum, or
# of its root.
_SQUARE_LIMITS = {32: (2.0**-60, 2.0**100, 2.0**-17), 64: (2.0**-900, 2.0**1000, 2.0**-46)}
_COST_ADDITIONS = 6
COMPARISON_OPS = {name: Op(f"hypot_{name}", 5, no_rule, f"hypot(x, y) {name} z", cost=_COST_ADDITIONS) for name in _LLVM_PREDICATES}
HYPOT_PREDICATES = {op.name: _LLVM_PREDICATES[name] for name, op in COMPARISON_OPS.items()}


def compare_hypot_by_squares(kernel: Kernel) -> Kernel:
    """Return the kernel with each comparison of a `hypot` replaced by one operation on the operands of the `hypot` (`COMPARISON_OPS`).

    A comparison is left alone if the value of the `hypot` is needed for anything else. The kernel itself is returned if none changes.
    """
    roots = list(iterate_expressions(kernel.body))
    comparisons: dict[Expr, Expr] = {}
    needed: set[Expr] = set()  # the values of `hypot` that another expression needs
    for e in dict.fromkeys(subexpr for root in roots for subexpr in walk(root)):
        comparison = _match_hypot_comparison(e)
        if comparison is None:
            needed.update(filter(_is_hypot, e.args))
        else:
            comparisons[e] = comparison
    needed.update(filter(_is_hypot, roots))
    replacements = {e: comparison for e, comparison in comparisons.items() if needed.isdisjoint(filter(_is_hypot, e.args))}
    return kernel._replace(body=map_expressions(kernel.body, lambda e: replace_subexprs(e, replacements))) if replacements else kernel


def _is_hypot(e: object) -> TypeGuard[Call]:
    """Return whether an expression is a `hypot` of float32 or float64: narrow floats are computed in another dtype."""
    return isinstance(e, Call) and e.op.name == "hypot" and e.dtype is e.dtype.compute_dtype


def _match_hypot_comparison(e: Expr) -> Expr | None:
    """Return the operation (`COMPARISON_OPS`) that replaces `e` if it compares a `hypot` with another value by <, <=, > or >=.

    Return None for another expression, and for a comparison of two `hypot`s.
    """
    if not isinstance(e, Call) or e.op.name not in _LLVM_PREDICATES:
        return None
    (hypot, bound), name = e.args, e.op.name
    if not _is_hypot(hypot):
        hypot, bound, name = bound, hypot, _MIRRORED[name]
    if not _is_hypot(hypot) or _is_hypot(bound):
        return None
    lowest, highest, relative_margin = _SQUARE_LIMITS[bound.dtype.bits]
    square = call("multiply", bound, call("abs", bound))  # negative where the bound is
    is_moderate = call("greater_equal", square, lowest) & call("less_equal", square, highest)
    margin = where(is_moderate, square * relative_margin, inf)  # infinite where the bound is not moderate, so that roots are compared
    return Call(COMPARISON_OPS[name], (*hypot.args, bound, square, margin), e.dtype)
