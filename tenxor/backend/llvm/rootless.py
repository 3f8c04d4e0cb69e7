"""Compare `hypot` without a square root: `abs(z) <= 2` by squares, with exactly the same result.

The comparisons of a kernel's `hypot` become operations of their own. The op table does not have these operations: only this back end knows
their meaning.
"""

from __future__ import annotations

from math import inf
from typing import TypeGuard

from ...kernel.ir import Kernel, expressions, walk, with_expressions
from ...ops.expr import Call, Expr, Op, call, replaced, where
from ...ops.rules import never

_PREDICATES = {"less": "olt", "less_equal": "ole", "greater": "ogt", "greater_equal": "oge"}
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
# By the bits of a float: the limits of squared bounds within which a sum of two squares near the bound has full precision; and the relative
# distance from the squared bound beyond which the comparison of squares is safe. This distance is far more than the rounding of the sum, or
# of its root.
_SQUARES = {32: (2.0**-60, 2.0**100, 2.0**-17), 64: (2.0**-900, 2.0**1000, 2.0**-46)}
_COST = 6  # additions
COMPARED = {name: Op(f"hypot_{name}", 5, never, f"hypot(x, y) {name} z", cost=_COST) for name in _PREDICATES}
PREDICATES = {op.name: _PREDICATES[name] for name, op in COMPARED.items()}


def rootless(kernel: Kernel) -> Kernel:
    """Return the kernel with operations on the operands of `hypot` in the place of comparisons of `hypot`.

    A comparison is left alone if the value of the `hypot` is needed for anything else.
    """
    roots = list(expressions(kernel.body))
    compared: dict[Expr, Expr] = {}
    needed: set[Expr] = set()  # the values of `hypot` that another expression needs
    for e in dict.fromkeys(part for root in roots for part in walk(root)):
        found = _compared(e)
        if found is None:
            needed.update(filter(_is_size, e.args))
        else:
            compared[e] = found
    needed.update(filter(_is_size, roots))
    instead = {e: found for e, found in compared.items() if needed.isdisjoint(filter(_is_size, e.args))}
    return kernel._replace(body=with_expressions(kernel.body, lambda e: replaced(e, instead))) if instead else kernel


def _is_size(e: object) -> TypeGuard[Call]:
    """Return whether an expression is a `hypot` computed in its own dtype."""
    return isinstance(e, Call) and e.op.name == "hypot" and e.dtype is e.dtype.compute


def _compared(e: Expr) -> Expr | None:
    """Return a comparison of a `hypot` with another value as an operation on their operands; None for an expression of another kind."""
    if not isinstance(e, Call) or e.op.name not in _PREDICATES:
        return None
    (one, other), name = e.args, e.op.name
    if not _is_size(one):
        one, other, name = other, one, _MIRRORED[name]
    if not _is_size(one) or _is_size(other):
        return None
    lowest, highest, near = _SQUARES[other.dtype.bits]
    square = call("multiply", other, call("abs", other))  # negative where the bound is
    is_moderate = call("greater_equal", square, lowest) & call("less_equal", square, highest)
    margin = where(is_moderate, square * near, inf)  # infinite where the bound is not moderate, so that roots are compared
    return Call(COMPARED[name], (*one.args, other, square, margin), e.dtype)
