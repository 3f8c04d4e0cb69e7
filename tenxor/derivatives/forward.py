"""Forward mode: pass tangents along the tape, from the independent variables to the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..node import Node, watchers
from ..past import Past, past_of
from ..plans.tracing import Traced
from .adjoint import Part
from .outline import STRETCH, Given, Graph, Outline
from .reverse import depending, known_of
from .rules import follows
from .seen import Seen
from .single import pushed

Known = dict[Past, Seen]


def tangents(results: Sequence[Node], given: Mapping[Past, Seen]) -> list[Seen | None]:
    """Return the tangents of the contents of `results`, given the tangents of tape nodes; None stands for 0."""
    graph = known_of(results, min([past.number for past in given], default=0))
    depends = depending(graph.order, given)
    order = [past for past in graph.order if past in depends]
    known = {past: tangent.reshaped(past.recipe.shape) for past, tangent in given.items()}
    wanted = frozenset([past for node in results if (past := past_of(node)) in depends])
    with graph.tracking(given.values()):
        if not watchers and len(order) <= STRETCH and all([follows(past.recipe) for past in order]):
            _go_on_as_before(known, Graph(order, graph.nodes, depends), wanted)
        else:
            _go_on(known, order, graph.nodes)
    return [known.get(past_of(node)) for node in results]  # type: ignore[arg-type]


def _go_on(known: Known, order: Sequence[Past], nodes: Mapping[Past, Node]) -> None:
    """Add the tangents of the tape nodes in `order`, oldest first, to `known`. `nodes` holds the results read by rules."""
    for past in order:
        if past not in known:
            each = {k: known[source] for k, kept in enumerate(past.sources) if (source := past_of(kept)) in known}
            found = pushed(past, each, nodes.get(past)) if each else None  # a source without an entry has the tangent 0
            if found is not None:
                for look in watchers:
                    look(found.node, of=past)
                known[past] = found.reshaped(past.recipe.shape)


def _go_on_as_before(known: Known, graph: Graph, wanted: frozenset[Past]) -> None:
    """Add the tangents of the tape nodes `wanted` to `known`, replaying the recorded computation of an equal tape segment if possible."""
    order = graph.order
    outline = Outline("forward", order, [(past, known[past]) for past in order if past in known], graph, wanted)

    def made(stand_ins: Sequence[Given], numbers: Traced | None = None) -> list[tuple[int, Part]]:
        twins = outline.twins(stand_ins, numbers)
        own: Known = dict(twins.parts)  # type: ignore[arg-type]
        _go_on(own, [twins.of[past] for past in order], twins.nodes)
        return [(k, own[twins.of[past]]) for k, past in enumerate(order) if past in wanted and twins.of[past] in own]

    for place, tangent in outline.made_again(made):
        known[order[place]] = tangent  # type: ignore[assignment]
