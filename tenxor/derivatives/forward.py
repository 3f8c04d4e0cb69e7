"""Forward mode: tangents go from what varies on to results, through the same pasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..node import Node
from ..past import Past, past_of
from .reverse import depending, known_of
from .rules import rule_of
from .seen import Seen


def tangents(results: Sequence[Node], given: Mapping[Past, Seen]) -> list[Seen | None]:
    """The tangents of the contents of some nodes, given those of some pasts; None for 0."""
    graph = known_of(results, min([past.number for past in given], default=0))
    depends = depending(graph.order, given)
    known: dict[Past | None, Seen] = {past: tangent.reshaped(past.recipe.shape) for past, tangent in given.items()}
    with graph.tracking(given.values()):
        for past in graph.order:
            if past in known or past not in depends:
                continue
            each = {k: known[source] for k, kept in enumerate(past.sources) if (source := past_of(kept)) in known}
            found = rule_of(past.recipe).push(past, each, graph.nodes.get(past)) if each else None  # 0 of what has none
            if found is not None:
                known[past] = found.reshaped(past.recipe.shape)
    return [known.get(past_of(node)) for node in results]
