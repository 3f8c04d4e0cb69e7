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

TangentMap = dict[Past, Seen]


def tangents(results: Sequence[Node], source_tangents: Mapping[Past, Seen]) -> list[Seen | None]:
    """Return the tangent of the content of each of `results`; None stands for 0. `source_tangents` maps independent tape nodes to tangents.
    """
    graph = known_of(results, min([past.number for past in source_tangents], default=0))
    depends = depending(graph.order, source_tangents)
    order = [past for past in graph.order if past in depends]
    tangent_of = {past: tangent.reshaped(past.recipe.shape) for past, tangent in source_tangents.items()}
    wanted = frozenset([past for node in results if (past := past_of(node)) in depends])
    with graph.tracking(source_tangents.values()):
        if not watchers and len(order) <= STRETCH and all([follows(past.recipe) for past in order]):
            _replay_segment(tangent_of, Graph(order, graph.nodes, depends), wanted)
        else:
            _push_in_order(tangent_of, order, graph.nodes)
    return [tangent_of.get(past_of(node)) for node in results]  # type: ignore[arg-type]


def _push_in_order(tangent_of: TangentMap, order: Sequence[Past], nodes: Mapping[Past, Node]) -> None:
    """Add the tangents of the tape nodes in `order`, oldest first, to `tangent_of`, which holds the given tangents.

    A tape node with tangent 0 gets no entry. `nodes` maps tape nodes to their graph nodes, where the rule reads the result.
    """
    for past in order:
        if past not in tangent_of:
            source_tangents = {
                k: tangent_of[source] for k, operand in enumerate(past.sources) if (source := past_of(operand)) in tangent_of
            }
            # A source without an entry has the tangent 0.
            tangent = pushed(past, source_tangents, nodes.get(past)) if source_tangents else None
            if tangent is not None:
                for look in watchers:
                    look(tangent.node, of=past)
                tangent_of[past] = tangent.reshaped(past.recipe.shape)


def _replay_segment(tangent_of: TangentMap, graph: Graph, wanted: frozenset[Past]) -> None:
    """Add the tangents of the tape nodes `wanted` of the segment `graph` to `tangent_of`, which holds the given tangents.

    The recorded computation of an equal tape segment is replayed if possible.
    """
    order = graph.order
    outline = Outline("forward", order, [(past, tangent_of[past]) for past in order if past in tangent_of], graph, wanted)

    def compute(placeholders: Sequence[Given], numbers: Traced | None = None) -> list[tuple[int, Part]]:
        clones = outline.twins(placeholders, numbers)
        clone_tangents: TangentMap = dict(clones.parts)  # type: ignore[arg-type]
        _push_in_order(clone_tangents, [clones.of[past] for past in order], clones.nodes)
        return [
            (k, clone_tangents[clones.of[past]]) for k, past in enumerate(order) if past in wanted and clones.of[past] in clone_tangents
        ]

    for index, tangent in outline.made_again(compute):
        tangent_of[order[index]] = tangent  # type: ignore[assignment]
