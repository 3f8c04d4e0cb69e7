"""The backward pass over a slice of the tape, newest tape node first: add up the cotangents of each tape node, and pass the sum to the
sources.

The nodes created for a segment of the tape follow from the recipes, layouts and shapes. So the rules of a segment run once, with
placeholders, and later passes replay the recording (`again.py`) after a single cache lookup. The results of a single tape node are replayed
as well (`single.py`), to speed up the recording of new segments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from ..node import MAX_PENDING, Node, next_number, watchers
from ..ops import Op
from ..past import Past, past_of
from ..plans.tracing import Traced
from ..realize import realize
from .adjoint import Part, seen_of
from .outline import STRETCH, Given, Graph, Outline
from .products import combined
from .rules import follows
from .seen import Seen
from .single import pulled, total_of

MAX_UNCOMPUTED_NODES = 4 * MAX_PENDING  # nodes created before the pending cotangents are computed
Parts = dict[Past, list[Part]]  # the partial cotangents so far, by tape node
Told = Callable[[Past, Seen], Seen]
Left = Callable[[Sequence[Past]], None]


def walk(cotangent_lists: Parts, graph: Graph, wanted: Collection[Past], on_cotangent: Told, on_visited: Left) -> None:
    """Run the backward pass over `graph`, starting with the cotangents in `cotangent_lists`. Visited tape nodes are removed from
    `cotangent_lists` and `graph.nodes`.

    `on_cotangent(past, g)` is called with the cotangent of each tape node in `wanted`, and returns the cotangent to continue with. The
    returned value matters only for tape nodes with hooks, which are visited alone. `on_visited(segment)` is called once the cotangents of
    the sources of a segment are known. Partial cotangents of tape nodes outside `graph` stay in `cotangent_lists`.
    """
    uncomputed: list[Node] = []  # cotangents passed to `on_cotangent`, maybe still pending

    def note_cotangent(past: Past, g: Seen) -> Seen:
        uncomputed.append(g.node)
        return on_cotangent(past, g)

    computed = next_number()
    for segment in _split_segments(graph):
        if len(segment) > 1:
            _visit_segment(segment, cotangent_lists, graph, wanted, note_cotangent)
        elif segment[0] in cotangent_lists:
            if getattr(segment[0].recipe.op, "again", False):
                _compute_pending(cotangent_lists, uncomputed)
            _visit_node(segment[0], cotangent_lists, graph, wanted, note_cotangent)
        if graph.nodes:
            for past in segment:
                graph.nodes.pop(past, None)
        on_visited(segment)
        if next_number() - computed > MAX_UNCOMPUTED_NODES:
            _compute_pending(cotangent_lists, uncomputed)
            computed = next_number()


def _compute_pending(cotangent_lists: Parts, uncomputed: list[Node]) -> None:
    """Replace the partial cotangents of each tape node by their sum, in place, and compute the sums and the nodes in `uncomputed`.

    So inputs can be freed. Clear `uncomputed`. Nothing is computed if a node is traced.
    """
    for past, cotangents in cotangent_lists.items():
        total_so_far = total_of(combined(cotangents), past.recipe)
        cotangents[:] = [total_so_far]
        uncomputed.append(total_so_far.node)
    if not any([node.traced for node in uncomputed]):
        realize(*uncomputed)
    uncomputed.clear()


def _split_segments(graph: Graph) -> Iterator[list[Past]]:
    """Yield the tape nodes in `graph.depends`, newest first, in segments of at most `STRETCH` tape nodes to be replayed.

    A tape node with hooks, or with a rule that cannot be replayed, is a segment of its own. While nodes are observed (`tx.check_nan`),
    every tape node is.
    """
    segment: list[Past] = []
    depends = graph.depends
    for past in reversed(graph.order):
        if past not in depends:
            graph.nodes.pop(past, None)
            continue
        recipe = past.recipe  # This loop visits the whole tape; most recipes are elementwise.
        is_alone = (type(recipe.op) is not Op or recipe.passing) and not follows(recipe)
        if is_alone or watchers or (past.watch is not None and past.watch.hooks):
            if segment:
                yield segment
            yield [past]
            segment = []
            continue
        segment.append(past)
        if len(segment) == STRETCH:
            yield segment
            segment = []
    if segment:
        yield segment


def _visit_node(past: Past, cotangent_lists: Parts, graph: Graph, wanted: Collection[Past], on_cotangent: Told) -> None:
    """Visit a tape node: add up its cotangents, pass the sum to `on_cotangent` if the tape node is in `wanted`, and append the sources'
    cotangents to `cotangent_lists`.

    The lists hold the partial cotangents so far by tape node; that of `past` is removed. Only sources in `graph.depends` get a cotangent.
    """
    g = total_of(combined(cotangent_lists.pop(past)), past.recipe)
    if past in wanted:
        g = on_cotangent(past, g)
    sources = [past_of(operand) for operand in past.sources]
    needed = tuple([k for k, source in enumerate(sources) if source in graph.depends])
    if needed:
        for k, cotangent in pulled(past, g, needed, graph.nodes.get(past)):
            for look in watchers:
                look(seen_of(cotangent).node, of=past)
            cotangent_lists.setdefault(sources[k], []).append(cotangent)  # type: ignore[arg-type]


def _visit_segment(segment: Sequence[Past], cotangent_lists: Parts, graph: Graph, wanted: Collection[Past], on_cotangent: Told) -> None:
    """Visit the tape nodes `segment`, newest first, replaying the recorded computation of an equal segment if possible.

    `cotangent_lists` holds the partial cotangents so far by tape node: those of the segment are removed, and those of its outer sources
    appended. `on_cotangent(past, g)` is called with the cotangent of each tape node in `wanted`.
    """
    arrived = [(past, cotangent) for past in segment if past in cotangent_lists for cotangent in combined(cotangent_lists.pop(past))]
    if not arrived:
        return
    outline = Outline("back", segment, arrived, graph, wanted)

    def compute(placeholders: Sequence[Given], numbers: Traced | None = None) -> list[tuple[int, Part]]:
        """Return (k, cotangent of tape node k of the segment) for those in `wanted`, and (~k, partial cotangent of outer tape node k).

        `placeholders` replace the inputs of the segment. `numbers` maps numbers to symbolic sizes, if given.
        """
        clones = outline.twins(placeholders, numbers)
        clone_cotangents: Parts = {}
        for past, cotangent in clones.parts:
            clone_cotangents.setdefault(past, []).append(cotangent)
        index_of = {clones.of[past]: k for k, past in enumerate(segment) if past in wanted}
        results: list[tuple[int, Part]] = []

        def note_cotangent(clone: Past, g: Seen) -> Seen:
            results.append((index_of[clone], g))
            return g

        for past in segment:
            if clones.of[past] in clone_cotangents:
                _visit_node(clones.of[past], clone_cotangents, Graph((), clones.nodes, set(clones.of.values())), index_of, note_cotangent)
        return results + [
            (~k, cotangent) for k, past in enumerate(outline.outer) for cotangent in clone_cotangents.get(clones.of[past], ())
        ]

    for index, cotangent in outline.made_again(compute):
        if index < 0:
            cotangent_lists.setdefault(outline.outer[~index], []).append(cotangent)
        else:
            on_cotangent(segment[index], cotangent)  # type: ignore[arg-type]
