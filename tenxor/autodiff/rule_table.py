"""The table of differentiation rules by the kind of recipe."""

from __future__ import annotations

from typing import Any

from ..errors import DerivativeError
from ..graph.node import DATA, REINTERPRET, STORE, UPDATE, Gather, Recipe, Scan, Scatter, SpecialOp
from ..ops import Op
from ..ops.reductions import Reduction
from .blockwise_attention import ATTENTION, Attention, has_many_blocks
from .elementwise_rules import ELEMENTWISE_RULE, GATHER_RULE, REINTERPRET_RULE, SCATTER_RULE, STORE_RULE
from .grad_rule import GradRule
from .join_rule import JOIN_RULE, Join
from .reduction_rules import REDUCTION_RULE, RUNNING_RULE

_RULES: dict[object, GradRule] = {
    Attention: ATTENTION,
    Join: JOIN_RULE,
    Op: ELEMENTWISE_RULE,
    Reduction: REDUCTION_RULE,
    Scan: RUNNING_RULE,
    Gather: GATHER_RULE,
    Scatter: SCATTER_RULE,
    STORE: STORE_RULE,
    UPDATE: STORE_RULE,
    REINTERPRET: REINTERPRET_RULE,
}


def _find_rule_of_kind(op: Any) -> GradRule | None:
    """Return the rule for the kind of the operation `op`, or None if the kind has no rule."""
    return _RULES.get(op if type(op) is SpecialOp else type(op))


def has_custom_rule(recipe: Recipe) -> bool:
    """Return whether the derivative of `recipe` cannot be replayed from the recipe alone: the operation has a rule of its own, or the
    backward pass computes values.
    """
    op: Any = recipe.op
    if type(op) is Op or op is DATA:
        return False
    return _find_rule_of_kind(op) is None or (type(op) is Attention and has_many_blocks(recipe))


def is_replayable(recipe: Recipe) -> bool:
    """Return whether the nodes created by the rule of `recipe` follow from the recipe alone. Then a recording can be replayed for every
    node with this recipe.
    """
    return not (recipe.is_uncacheable or has_custom_rule(recipe))


def get_rule(recipe: Recipe) -> GradRule:
    """Return the rule for the operation of `recipe`: the rule of its kind, or the operation's own. Raise DerivativeError if no rule
    exists.
    """
    op: Any = recipe.op
    rule: GradRule | None = _find_rule_of_kind(op) or getattr(op, "rule", None)
    if rule is None:
        raise DerivativeError(f"{op}: has no derivative; compute it on x.detach() if none is meant")
    return rule
