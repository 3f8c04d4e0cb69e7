"""Back through a graph of pasts, those made last first: the cotangents of each are added up, and passed on to what it was made of.

What a stretch of pasts makes of what it is given follows from recipes, layouts and shapes. So it is gone through once, with stand-ins
for nodes, and from then on made again node by node (`again.py`), in one look-up; and so is what a single past makes (`single.py`), of which
new stretches consist.
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

MAX_WAITING = 4 * MAX_PENDING  # nodes that are made until what a cotangent waits for is computed
Parts = dict[Past, list[Part]]  # those that have come so far
Told = Callable[[Past, Seen], Seen]
Left = Callable[[Sequence[Past]], None]


def walk(parts: Parts, graph: Graph, asked: Collection[Past], told: Told, left: Left) -> None:
    """Go through a graph. Those that are `asked` about are `told` their cotangents, which may be replaced; they are `left` when those
    of what they were made of are known.
    """
    waiting: list[Node] = []  # cotangents that were told, and may not be computed yet

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
    """Compute all cotangents that are known so far, those of each past added up: so what they were made of can go."""
    for past, its in parts.items():
        total_so_far = total_of(combined(its), past.recipe)
        its[:] = [total_so_far]
        waiting.append(total_so_far.node)
    if not any([node.traced for node in waiting]):
        realize(*waiting)
    waiting.clear()


def _stretches(graph: Graph) -> Iterator[list[Past]]:
    """Those that matter, those made last first, in stretches that can be made again."""
    stretch: list[Past] = []
    depends = graph.depends
    for past in reversed(graph.order):
        if past not in depends:
            graph.nodes.pop(past, None)
            continue
        recipe = past.recipe  # this runs for all that a result was made of, and most are plain
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
    """Through one past."""
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
    """Through a stretch, as before."""
    given = [(past, part) for past in stretch if past in parts for part in combined(parts.pop(past))]
    if not given:
        return
    outline = Outline("back", stretch, given, graph, asked)

    def made(stand_ins: Sequence[Given], numbers: Traced | None = None) -> list[tuple[int, Part]]:
        """Cotangents of those asked about, by their places, and parts for others, by places below 0."""
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
