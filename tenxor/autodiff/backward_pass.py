"""The backward pass over a slice of the tape, newest tape node first: add up the cotangents of each tape node, and pass the sum to the
sources. A tape node records how a graph node was computed from the sources, the operands. A cotangent belongs to the content: the elements
in row-major order. A segment is a list of tape nodes visited together.

The nodes created for a segment of the tape follow from the recipes, layouts and shapes. So the rules of a segment run once, with
placeholders, and later passes replay the recording (`replay.py`) after a single cache lookup. The results of a single tape node are
replayed as well (`node_replay.py`), to speed up the recording of new segments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from .._utils import upcalls
from ..graph.node import Node
from ..ops import Op
from ..runtime.plan_tracing import SymbolicSizes
from ..runtime.realize import realize
from .combine_matmuls import combine_matmuls
from .layout_adjoint import Cotangent, get_values
from .node_replay import apply_vjp, replay_sum
from .node_view import NodeView
from .rule_table import is_replayable
from .segment_signature import MAX_SEGMENT_NODES, SegmentInput, SegmentSignature, TapeGraph
from .tape import TapeNode, get_tape_node

# Tape nodes visited before the pending cotangents are computed. Graph nodes are not counted: a recorded pass makes more nodes than a
# replayed pass, and equal passes should make equal graphs.
MAX_UNCOMPUTED_VISITS = 2 * MAX_SEGMENT_NODES
CotangentLists = dict[TapeNode, list[Cotangent]]  # the partial cotangents so far, by tape node
CotangentCallback = Callable[[TapeNode, NodeView], NodeView]
VisitedCallback = Callable[[Sequence[TapeNode]], None]


def run_backward_pass(
    cotangent_lists: CotangentLists,
    graph: TapeGraph,
    wanted: Collection[TapeNode],
    on_cotangent: CotangentCallback,
    on_visited: VisitedCallback,
) -> None:
    """Run the backward pass over `graph`, newest tape node first, starting with the cotangents in `cotangent_lists`.

    `cotangent_lists` maps a tape node to a list of cotangents that add up. Only tape nodes in `graph.nodes_to_visit` are visited or receive
    cotangents. A visited tape node is removed from `cotangent_lists`. Cotangents of tape nodes outside `graph.order` are collected in
    `cotangent_lists`, and stay. `graph.result_nodes` loses every tape node of `graph.order`, to free results.

    `on_cotangent(tape_node, g)` is called with the total cotangent of each visited tape node in `wanted`, and returns the cotangent to
    continue with. The returned value matters only for tape nodes with hooks, each visited alone. A tape node without cotangents gets no
    call, even if it is in `wanted`. `on_visited(segment)` is called after each segment, once the cotangents of the sources are known.
    Pending cotangents are computed on the way.
    """
    uncomputed: list[Node] = []  # cotangents passed to `on_cotangent`, maybe still pending

    def note_cotangent(tape_node: TapeNode, g: NodeView) -> NodeView:
        uncomputed.append(g.node)
        return on_cotangent(tape_node, g)

    visited_count = 0  # tape nodes visited since the last computation
    for segment in _split_segments(graph):
        if len(segment) > 1:
            _visit_segment(segment, cotangent_lists, graph, wanted, note_cotangent)
        elif segment[0] in cotangent_lists:
            if getattr(segment[0].recipe.op, "recomputes", False):
                _compute_pending(cotangent_lists, uncomputed)
            _visit_node(segment[0], cotangent_lists, graph, wanted, note_cotangent)
        if graph.result_nodes:
            for tape_node in segment:
                graph.result_nodes.pop(tape_node, None)
        on_visited(segment)
        visited_count += len(segment)
        if visited_count >= MAX_UNCOMPUTED_VISITS:
            _compute_pending(cotangent_lists, uncomputed)
            visited_count = 0


def _compute_pending(cotangent_lists: CotangentLists, uncomputed: list[Node]) -> None:
    """Compute the nodes in `uncomputed`, and the total cotangent of each tape node in `cotangent_lists`, so that inputs can be freed.

    Each list in `cotangent_lists` is replaced, in place, by a list of the total alone, and `uncomputed` is cleared. If a node is traced by
    `vmap`, the nodes stay pending.
    """
    for tape_node, cotangents in cotangent_lists.items():
        total_so_far = replay_sum(combine_matmuls(cotangents), tape_node.recipe)
        cotangents[:] = [total_so_far]
        uncomputed.append(total_so_far.node)
    if not any([node.is_traced for node in uncomputed]):
        realize(*uncomputed)
    uncomputed.clear()


def _split_segments(graph: TapeGraph) -> Iterator[list[TapeNode]]:
    """Yield the tape nodes in `graph.nodes_to_visit`, newest first, in segments: lists of at most `MAX_SEGMENT_NODES` tape nodes, in this
    order.

    A tape node with hooks, or with a rule that cannot be replayed, is a segment of its own. While nodes are observed (`tx.check_nan`),
    every tape node is a segment of its own. The remaining tape nodes of `graph.order` are skipped, and removed from `graph.result_nodes`.
    """
    segment: list[TapeNode] = []
    depends = graph.nodes_to_visit
    for tape_node in reversed(graph.order):
        if tape_node not in depends:
            graph.result_nodes.pop(tape_node, None)
            continue
        recipe = tape_node.recipe  # This loop visits the whole tape; most recipes are elementwise.
        is_alone = (type(recipe.op) is not Op or recipe.is_uncacheable) and not is_replayable(recipe)
        if is_alone or upcalls.node_observer or (tape_node.grad_hook is not None and tape_node.grad_hook.hooks):
            if segment:
                yield segment
            yield [tape_node]
            segment = []
            continue
        segment.append(tape_node)
        if len(segment) == MAX_SEGMENT_NODES:
            yield segment
            segment = []
    if segment:
        yield segment


def _visit_node(
    tape_node: TapeNode, cotangent_lists: CotangentLists, graph: TapeGraph, wanted: Collection[TapeNode], on_cotangent: CotangentCallback
) -> None:
    """Visit a tape node: add up the cotangents, pass the total to `on_cotangent`, and append the cotangents of the sources to
    `cotangent_lists`.

    `cotangent_lists` maps tape nodes to lists of cotangents that add up; the entry of `tape_node` must exist, and is removed.
    `on_cotangent` is called only if `tape_node` is in `wanted`, and returns the cotangent to continue with. Only sources in
    `graph.nodes_to_visit` get a cotangent. `graph.result_nodes` must have the graph node of `tape_node` if the rule reads the result.
    """
    g = replay_sum(combine_matmuls(cotangent_lists.pop(tape_node)), tape_node.recipe)
    if tape_node in wanted:
        g = on_cotangent(tape_node, g)
    sources = [get_tape_node(operand) for operand in tape_node.sources]
    needed = tuple([k for k, source in enumerate(sources) if source in graph.nodes_to_visit])
    if needed:
        for k, cotangent in apply_vjp(tape_node, g, needed, graph.result_nodes.get(tape_node)):
            if (observer := upcalls.node_observer) is not None:
                observer.observe_derivative(get_values(cotangent).node, tape_node)
            cotangent_lists.setdefault(sources[k], []).append(cotangent)  # type: ignore[arg-type]


def _visit_segment(
    segment: Sequence[TapeNode],
    cotangent_lists: CotangentLists,
    graph: TapeGraph,
    wanted: Collection[TapeNode],
    on_cotangent: CotangentCallback,
) -> None:
    """Visit the tape nodes `segment`, newest first, replaying the recorded computation of an equal segment if possible.

    `cotangent_lists` maps tape nodes to lists of cotangents that add up. Entries of the segment are removed, and cotangents of sources
    outside the segment are appended. Without an entry of the segment, nothing is done. Only sources in `graph.nodes_to_visit` get a
    cotangent. `on_cotangent(tape_node, g)` is called with the total cotangent of each tape node in `wanted` with a cotangent. The result of
    `on_cotangent` is ignored.
    """
    arrived = [
        (tape_node, cotangent)
        for tape_node in segment
        if tape_node in cotangent_lists
        for cotangent in combine_matmuls(cotangent_lists.pop(tape_node))
    ]
    if not arrived:
        return
    signature = SegmentSignature("back", segment, arrived, graph, wanted)

    def compute(placeholders: Sequence[SegmentInput], numbers: SymbolicSizes | None = None) -> list[tuple[int, Cotangent]]:
        """Return pairs (k, total cotangent of tape node k of the segment) for tape nodes in `wanted`, and (~k, cotangent of outer tape node
        k).

        Outer tape nodes are listed in `signature.outer_nodes`; several pairs of a tape node add up. `placeholders` replace the inputs of
        the segment. `numbers` maps numbers to symbolic sizes, if given.
        """
        clones = signature.clone_segment(placeholders, numbers)
        clone_cotangents: CotangentLists = {}
        for tape_node, cotangent in clones.cotangents:
            clone_cotangents.setdefault(tape_node, []).append(cotangent)
        index_of = {clones.clone_of[tape_node]: k for k, tape_node in enumerate(segment) if tape_node in wanted}
        results: list[tuple[int, Cotangent]] = []

        def note_cotangent(clone: TapeNode, g: NodeView) -> NodeView:
            results.append((index_of[clone], g))
            return g

        for tape_node in segment:
            if clones.clone_of[tape_node] in clone_cotangents:
                _visit_node(
                    clones.clone_of[tape_node],
                    clone_cotangents,
                    TapeGraph((), clones.result_nodes, set(clones.clone_of.values())),
                    index_of,
                    note_cotangent,
                )
        return results + [
            (~k, cotangent)
            for k, tape_node in enumerate(signature.outer_nodes)
            for cotangent in clone_cotangents.get(clones.clone_of[tape_node], ())
        ]

    for index, cotangent in signature.replay_or_record(compute):
        if index < 0:
            cotangent_lists.setdefault(signature.outer_nodes[~index], []).append(cotangent)
        else:
            on_cotangent(segment[index], cotangent)  # type: ignore[arg-type]
