"""The table of differentiation rules by the kind of recipe."""

from __future__ import annotations

from typing import Any

from ..errors import DerivativeError
from ..node import DATA, REINTERPRET, STORE, UPDATE, Gather, Recipe, Scan, Scatter, Special
from ..ops import Op
from ..ops.reductions import Reduction
from .attention import ATTENTION, Attention, has_many_blocks
from .folds import REDUCED, REDUCED_SO_FAR
from .joining import JOINED, Join
from .parts import AT_INDICES, ELEMENTWISE, SEEN_OTHERWISE, WRITTEN, WRITTEN_AT_INDICES
from .rule import Rule

_RULES: dict[object, Rule] = {
    Attention: ATTENTION,
    Join: JOINED,
    Op: ELEMENTWISE,
    Reduction: REDUCED,
    Scan: REDUCED_SO_FAR,
    Gather: AT_INDICES,
    Scatter: WRITTEN_AT_INDICES,
    STORE: WRITTEN,
    UPDATE: WRITTEN,
    REINTERPRET: SEEN_OTHERWISE,
}


def _rule_of_kind(op: Any) -> Rule | None:
    """Return the rule for the kind of an operation, or None if its kind has no rule."""
    return _RULES.get(op if type(op) is Special else type(op))


def has_own_rule(recipe: Recipe) -> bool:
    """Return whether the derivative cannot be replayed from the recipe alone: the operation has a rule of its own, or the backward pass
    computes values.
    """
    op: Any = recipe.op
    if type(op) is Op or op is DATA:
        return False
    return _rule_of_kind(op) is None or (type(op) is Attention and has_many_blocks(recipe))


def follows(recipe: Recipe) -> bool:
    """Return whether the nodes created by the rule follow from the recipe alone, so that a recording can be replayed for every node with
    this recipe.
    """
    return not (recipe.passing or has_own_rule(recipe))


def rule_of(recipe: Recipe) -> Rule:
    """Return the rule for a recipe's operation: the rule of its kind, or the operation's own. Raise DerivativeError if no rule exists."""
    op: Any = recipe.op
    rule: Rule | None = _rule_of_kind(op) or getattr(op, "rule", None)
    if rule is None:
        raise DerivativeError(f"{op}: has no derivative; compute it on x.detach() if none is meant")
    return rule
