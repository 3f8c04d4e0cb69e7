"""The one table of rules, by the kind of recipe."""

from __future__ import annotations

from typing import Any

from ..errors import DerivativeError
from ..node import REINTERPRET, STORE, Gather, Recipe, Scan, Scatter, Special
from ..ops import Op
from ..ops.reductions import Reduction
from .folds import REDUCED, REDUCED_SO_FAR
from .parts import AT_INDICES, ELEMENTWISE, SEEN_OTHERWISE, WRITTEN, WRITTEN_AT_INDICES
from .rule import Rule

_RULES: dict[object, Rule] = {
    Op: ELEMENTWISE,
    Reduction: REDUCED,
    Scan: REDUCED_SO_FAR,
    Gather: AT_INDICES,
    Scatter: WRITTEN_AT_INDICES,
    STORE: WRITTEN,
    REINTERPRET: SEEN_OTHERWISE,
}


def rule_of(recipe: Recipe) -> Rule:
    """The rule for a recipe's operation: that of its kind, or its own."""
    op: Any = recipe.op
    found: Rule | None = _RULES.get(op if type(op) is Special else type(op)) or getattr(op, "rule", None)
    if found is None:
        raise DerivativeError(f"{op}: has no derivative; compute it on x.detach() if none is meant")
    return found
