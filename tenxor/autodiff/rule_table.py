"""Differentiation rules by the kind of recipe, and the residuals that follow from them. A recipe is an operation with parameters, shapes,
dtypes and operand layouts, but without operands. A residual is a value of the forward pass that the derivative reads.
"""

from __future__ import annotations

from typing import Any

from ..errors import DerivativeError
from ..graph.node import DATA, NO_RESIDUALS, REINTERPRET, STORE, UPDATE, Gather, Recipe, Residuals, Scan, Scatter, SpecialOp
from ..ops import Op
from ..ops.reductions import Reduction
from .elementwise_rules import ELEMENTWISE_RULE, GATHER_RULE, REINTERPRET_RULE, SCATTER_RULE, STORE_RULE
from .formula_derivatives import is_smooth
from .grad_rule import GradRule
from .reduction_rules import REDUCTION_RULE, RUNNING_RULE

# Further operations have a rule of their own (`rule`)
_RULES: dict[object, GradRule] = {
    Op: ELEMENTWISE_RULE,
    Reduction: REDUCTION_RULE,
    Scan: RUNNING_RULE,
    Gather: GATHER_RULE,
    Scatter: SCATTER_RULE,
    STORE: STORE_RULE,
    UPDATE: STORE_RULE,
    REINTERPRET: REINTERPRET_RULE,
}


def _find_rule(op: Any) -> GradRule | None:
    """Return the rule for the operation `op`, or None if it has no rule.

    The rule belongs to the kind of the operation (`_RULES`), or is the operation's own, `op.rule`.
    """
    rule: GradRule | None = _RULES.get(op if type(op) is SpecialOp else type(op)) or getattr(op, "rule", None)
    return rule


def has_custom_rule(recipe: Recipe) -> bool:
    """Return whether the derivative of `recipe` cannot be replayed from the recipe alone.

    This holds for a function of the user, an operation without a rule, and an operation whose backward pass computes values at once
    (`GradRule.can_replay`).
    """
    op: Any = recipe.op
    if type(op) is Op or op is DATA:
        return False
    rule = _find_rule(op)
    return rule is None or not rule.can_replay(recipe)


def is_replayable(recipe: Recipe) -> bool:
    """Return whether the nodes created by the rule of `recipe` follow from the recipe alone. Then a recording can be replayed for every
    node with this recipe. A recipe with an uncacheable layout key (`Recipe.is_uncacheable`) gives False.
    """
    return not (recipe.is_uncacheable or has_custom_rule(recipe))


def get_rule(recipe: Recipe) -> GradRule:
    """Return the rule for the operation of `recipe`. Raise DerivativeError if no rule exists."""
    rule = _find_rule(recipe.op)
    if rule is None:
        raise DerivativeError(f"{recipe.op}: has no derivative; compute it on x.detach() if none is meant")
    return rule


def find_residuals(recipe: Recipe, tracked: int) -> Residuals:
    """Return flags for the values read by the derivative of `recipe`: a flag for each source, and a flag for the result (`Residuals`).

    Bit k of `tracked` is set if source k is on the tape. The result is `NO_RESIDUALS` for a dtype without derivatives. Raise
    DerivativeError for an operation without a rule.
    """
    if not is_smooth(recipe.dtype):
        return NO_RESIDUALS
    return get_rule(recipe).residuals_of(recipe, tuple([bool(tracked >> k & 1) for k in range(len(recipe.dtypes))]))
