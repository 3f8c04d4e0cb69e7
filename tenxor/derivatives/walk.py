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

MAX_WAITING = 4 * MAX_PENDING  # nodes created before the pending cotangents are computed
Parts = dict[Past, list[Part]]  # the partial cotangents so far, by tape node
Told = Callable[[Past, Seen], Seen]
Left = Callable[[Sequence[Past]], None]


def walk(parts: Parts, graph: Graph, asked: Collection[Past], told: Told, left: Left) -> None:
    """Run the backward pass over `graph`, starting with the cotangents in `parts`. Visited tape nodes are removed from `parts` and
    `graph.nodes`.

    `told(past, g)` is called with the cotangent of each tape node in `asked`, and returns the cotangent to continue with. The returned
    value matters only for tape nodes with hooks, which are visited alone. `left(segment)` is called once the cotangents of the sources of a
    segment are known. Partial cotangents of tape nodes outside `graph` stay in `parts`.
    """
    waiting: list[Node] = []  # cotangents passed to `told`, maybe still pending

    def noted(past: Past, g: Seen) -> Seen:
        waiting.append(g.node)
        return told(past, g)

    computed = next_number()
    for stretch in _stretches(graph):
        if len(stretch) > 1:
            _through(stretch, parts, graph, asked, noted)
        elif stretch[0] in parts:
            if getattr(stretch[0].recipe.op, "again", False):
                _compute(parts, waiting)
            _pass(stretch[0], parts, graph, asked, noted)
        if graph.nodes:
            for past in stretch:
                graph.nodes.pop(past, None)
        left(stretch)
        if next_number() - computed > MAX_WAITING:
            _compute(parts, waiting)
            computed = next_number()


def _compute(parts: Parts, waiting: list[Node]) -> None:
    """Add up the partial cotangents of each tape node, in place, and compute the sums and the nodes in `waiting`, so that inputs can be
    freed. Clear `waiting`. Nothing is computed if a node is traced.
    """
    for past, its in parts.items():
        total_so_far = total_of(combined(its), past.recipe)
        its[:] = [total_so_far]
        waiting.append(total_so_far.node)
    if not any([node.traced for node in waiting]):
        realize(*waiting)
    waiting.clear()


def _stretches(graph: Graph) -> Iterator[list[Past]]:
    """Yield the tape nodes in `graph.depends`, newest first, in segments of at most `STRETCH` tape nodes to be replayed.

    A tape node with hooks, or with a rule that cannot be replayed, is a segment of its own. While nodes are observed (`tx.check_nan`),
    every tape node is.
    """
    stretch: list[Past] = []
    depends = graph.depends
    for past in reversed(graph.order):
        if past not in depends:
            graph.nodes.pop(past, None)
            continue
        recipe = past.recipe  # This loop visits the whole tape; most recipes are elementwise.
        apart = (type(recipe.op) is not Op or recipe.passing) and not follows(recipe)
        if apart or watchers or (past.watch is not None and past.watch.hooks):
            if stretch:
                yield stretch
            yield [past]
            stretch = []
            continue
        stretch.append(past)
        if len(stretch) == STRETCH:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _pass(past: Past, parts: Parts, graph: Graph, asked: Collection[Past], told: Told) -> None:
    """Visit a tape node: add up its cotangents, pass the sum to `told` if the tape node is in `asked`, and add the sources' cotangents to
    `parts`.
    """
    g = total_of(combined(parts.pop(past)), past.recipe)
    if past in asked:
        g = told(past, g)
    sources = [past_of(kept) for kept in past.sources]
    needed = tuple([k for k, source in enumerate(sources) if source in graph.depends])
    if needed:
        for k, part in pulled(past, g, needed, graph.nodes.get(past)):
            for look in watchers:
                look(seen_of(part).node, of=past)
            parts.setdefault(sources[k], []).append(part)  # type: ignore[arg-type]


def _through(stretch: Sequence[Past], parts: Parts, graph: Graph, asked: Collection[Past], told: Told) -> None:
    """Visit a segment of the tape, replaying the recorded computation of an equal segment if possible. `parts` is changed in place."""
    given = [(past, part) for past in stretch if past in parts for part in combined(parts.pop(past))]
    if not given:
        return
    outline = Outline("back", stretch, given, graph, asked)

    def made(stand_ins: Sequence[Given], numbers: Traced | None = None) -> list[tuple[int, Part]]:
        """Return the cotangents of the tape nodes `asked` by their index in the segment, and the partial cotangents of outer tape node k by
        `~k`.
        """
        twins = outline.twins(stand_ins, numbers)
        own: Parts = {}
        for past, part in twins.parts:
            own.setdefault(past, []).append(part)
        asked_of = {twins.of[past]: k for k, past in enumerate(stretch) if past in asked}
        found: list[tuple[int, Part]] = []

        def noted(twin: Past, g: Seen) -> Seen:
            found.append((asked_of[twin], g))
            return g

        for past in stretch:
            if twins.of[past] in own:
                _pass(twins.of[past], own, Graph((), twins.nodes, set(twins.of.values())), asked_of, noted)
        return found + [(~k, part) for k, past in enumerate(outline.outer) for part in own.get(twins.of[past], ())]

    for place, part in outline.made_again(made):
        if place < 0:
            parts.setdefault(outline.outer[~place], []).append(part)
        else:
            told(stretch[place], part)  # type: ignore[arg-type]
