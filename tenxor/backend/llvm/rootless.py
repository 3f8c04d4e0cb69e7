"""Sizes that are only compared need no root: `abs(z) <= 2` by squares, with the very result that the root would give.

Of a kernel's comparisons of `hypot` with something these are made operations of their own, which the table does not have: what they
mean is no concern of anybody else's.
"""

from __future__ import annotations

from math import inf
from typing import TypeGuard

from ...kernel.ir import Kernel, expressions, walk, with_expressions
from ...ops.expr import Call, Expr, Op, call, replaced, where
from ...ops.rules import never

_PREDICATES = {"less": "olt", "less_equal": "ole", "greater": "ogt", "greater_equal": "oge"}
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
# By bits: squares of bounds between which a sum of two squares that is near has all its digits, and how far from the square it has to be,
# as a part of that, to be told from it: far further than the sum, or its root, is rounded.
_SQUARES = {32: (2.0**-60, 2.0**100, 2.0**-17), 64: (2.0**-900, 2.0**1000, 2.0**-46)}
_COST = 6  # additions
COMPARED = {name: Op(f"hypot_{name}", 5, never, f"hypot(x, y) {name} z", cost=_COST) for name in _PREDICATES}
PREDICATES = {op.name: _PREDICATES[name] for name, op in COMPARED.items()}


def rootless(kernel: Kernel) -> Kernel:
    """The kernel, with those comparisons in it of sizes that nothing else needs as operations on the sides."""
    roots = list(expressions(kernel.body))
    compared: dict[Expr, Expr] = {}
    needed: set[Expr] = set()  # sizes, by something else
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
    return isinstance(e, Call) and e.op.name == "hypot" and e.dtype is e.dtype.compute


def _compared(e: Expr) -> Expr | None:
    """A comparison of a size with something as an operation on the sides; None for anything else."""
    if not isinstance(e, Call) or e.op.name not in _PREDICATES:
        return None
    (one, other), name = e.args, e.op.name
    if not _is_size(one):
        one, other, name = other, one, _MIRRORED[name]
    if not _is_size(one) or _is_size(other):
        return None
    lowest, highest, near = _SQUARES[other.dtype.bits]
    square = call("multiply", other, call("abs", other))  # below 0 where the bound is
    is_moderate = call("greater_equal", square, lowest) & call("less_equal", square, highest)
    margin = where(is_moderate, square * near, inf)  # beyond which nothing is: then roots tell
    return Call(COMPARED[name], (*one.args, other, square, margin), e.dtype)
