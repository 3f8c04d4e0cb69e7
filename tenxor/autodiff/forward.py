"""Forward mode: pass tangents along the tape, from the independent variables to the results. A tape node records how a graph node was
computed from the sources, the operands. The tangent of a tape node belongs to the graph node's content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._utils import upcalls
from ..graph.node import Node
from ..runtime.plan_tracing import SymbolicSizes
from .layout_adjoint import Cotangent
from .node_replay import apply_jvp
from .node_view import NodeView
from .reverse import collect_tape, reachable_from
from .rule_table import is_replayable
from .segment_signature import MAX_SEGMENT_NODES, SegmentInput, SegmentSignature, TapeGraph
from .tape import TapeNode, get_tape_node

TangentMap = dict[TapeNode, NodeView]


def compute_tangents(results: Sequence[Node], source_tangents: Mapping[TapeNode, NodeView]) -> list[NodeView | None]:
    """Return the tangent of the content of each of `results`, in their order; None stands for 0, also for a result off the tape.

    `source_tangents` maps tape nodes, the independent variables, to tangents with as many elements as their contents. The tangents returned
    are pending, in the shapes of the results. Raise DerivativeError if a backward pass has freed the tape, or an operation has no
    derivative.
    """
    graph = collect_tape(results, min([tape_node.serial for tape_node in source_tangents], default=0))
    depends = reachable_from(graph.order, source_tangents)
    order = [tape_node for tape_node in graph.order if tape_node in depends]
    tangent_of = {tape_node: tangent.reshape(tape_node.recipe.shape) for tape_node, tangent in source_tangents.items()}
    wanted = frozenset([tape_node for node in results if (tape_node := get_tape_node(node)) in depends])
    with graph.recording_context(source_tangents.values()):
        if not upcalls.node_observer and len(order) <= MAX_SEGMENT_NODES and all([is_replayable(tape_node.recipe) for tape_node in order]):
            _push_segment(tangent_of, TapeGraph(order, graph.result_nodes, depends), wanted)
        else:
            _push_in_order(tangent_of, order, graph.result_nodes)
    return [tangent_of.get(get_tape_node(node)) for node in results]  # type: ignore[arg-type]


def _push_in_order(tangent_of: TangentMap, order: Sequence[TapeNode], nodes: Mapping[TapeNode, Node]) -> None:
    """Compute the tangents of the tape nodes in `order`, oldest first, and enter them in `tangent_of`, a dict with the given tangents.

    Entries stay; a tape node with tangent 0 gets no entry. `nodes` maps tape nodes to their graph nodes, where the rule reads the result.
    """
    for tape_node in order:
        if tape_node not in tangent_of:
            source_tangents = {
                k: tangent_of[source] for k, operand in enumerate(tape_node.sources) if (source := get_tape_node(operand)) in tangent_of
            }
            # A source without an entry has the tangent 0.
            tangent = apply_jvp(tape_node, source_tangents, nodes.get(tape_node)) if source_tangents else None
            if tangent is not None:
                if (observer := upcalls.node_observer) is not None:
                    observer.observe_derivative(tangent.node, tape_node)
                tangent_of[tape_node] = tangent.reshape(tape_node.recipe.shape)


def _push_segment(tangent_of: TangentMap, graph: TapeGraph, wanted: frozenset[TapeNode]) -> None:
    """Compute the tangents of the tape nodes `wanted` of the segment `graph`, and enter them in the dict `tangent_of`.

    `tangent_of` already has the given tangents. A tape node with tangent 0 gets no entry. Every tape node of `graph.order` must have a rule
    that can be replayed. The recording of a segment of equal signature is replayed; otherwise, the computation is recorded.
    """
    order = graph.order
    signature = SegmentSignature(
        "forward", order, [(tape_node, tangent_of[tape_node]) for tape_node in order if tape_node in tangent_of], graph, wanted
    )

    def compute(placeholders: Sequence[SegmentInput], numbers: SymbolicSizes | None = None) -> list[tuple[int, Cotangent]]:
        clones = signature.clone_segment(placeholders, numbers)
        clone_tangents: TangentMap = dict(clones.cotangents)  # type: ignore[arg-type]
        _push_in_order(clone_tangents, [clones.clone_of[tape_node] for tape_node in order], clones.result_nodes)
        return [
            (k, clone_tangents[clones.clone_of[tape_node]])
            for k, tape_node in enumerate(order)
            if tape_node in wanted and clones.clone_of[tape_node] in clone_tangents
        ]

    for index, tangent in signature.replay_or_record(compute):
        tangent_of[order[index]] = tangent  # type: ignore[assignment]
