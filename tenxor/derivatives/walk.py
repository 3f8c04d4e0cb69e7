"""Back through a graph of pasts, those made last first: the cotangents of each are added up, and passed on to what it was made of.

What a stretch of pasts makes of what it is given follows from recipes, layouts and shapes. So it is gone through once, with stand-ins
for nodes, and from then on made again node by node (`again.py`), in one look-up; and so is what a single past makes, of which new
stretches consist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from ..node import PLACEHOLDER, Node, Recipe, Scalar, next_number, recipe_of, watchers
from ..past import Kept, Past, past_of
from ..pending import MAX_PENDING
from ..realize import realize
from ..records import NamedTuple
from .adjoint import Part, Placed, seen_of, total
from .again import made_again
from .products import combined
from .rules import has_own_rule, rule_of
from .seen import Seen

MAX_WAITING = 4 * MAX_PENDING  # nodes that are made until what a cotangent waits for is computed
STRETCH = 256  # pasts at most
Given = Node | Scalar


class Graph(NamedTuple):
    """Pasts in the order in which they were made, the nodes of those whose rules read their value, and those of them that matter."""

    order: Sequence[Past]
    nodes: dict[Past, Node]
    depends: Collection[Past]


Parts = dict[Past, list[Part]]  # those that have come so far
Told = Callable[[Past, Seen], Seen]
Left = Callable[[Past], None]


def walk(parts: Parts, graph: Graph, asked: Collection[Past], told: Told, left: Left) -> None:
    """Go through a graph. Those that are `asked` about are `told` their cotangents, which may be replaced; each is `left` when those
    of what it was made of are known.
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
        for past in stretch:
            graph.nodes.pop(past, None)
            left(past)
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
    for past in reversed(graph.order):
        if past not in graph.depends:
            graph.nodes.pop(past, None)
            continue
        if watchers or past.recipe.passing or (past.watch is not None and past.watch.hooks) or has_own_rule(past.recipe):
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
        for k, part in _pulled(past, g, needed, graph.nodes.get(past)):
            if watchers:
                watchers[0](seen_of(part).node)
            parts.setdefault(sources[k], []).append(part)  # type: ignore[arg-type]


# --- stretches --------------------------------------------------------------------------------------------------------


class Outline:
    """What a stretch consists of, but for the very nodes and numbers, which are `given` to it.

    `key` says it. `inner` are its pasts, by their place, and `outer` those of the others that it passes something on to, by places below 0.
    With stand-ins for what is given the same can be made once more.
    """

    def __init__(self, stretch: Sequence[Past], parts: Parts, graph: Graph, asked: Collection[Past]) -> None:
        self.stretch, self.asked, self.nodes = stretch, asked, graph.nodes
        self.inner = {past: k for k, past in enumerate(stretch)}
        self.outer: dict[Past, int] = {}
        self.given: list[Given] = []
        self.parts: list[tuple[Past, Part]] = [(past, part) for past in stretch if past in parts for part in combined(parts.pop(past))]
        self._number_of: dict[int, int] = {}
        key: list[object] = [len(self.parts)]
        depends, nodes = graph.depends, graph.nodes
        for past, part in self.parts:
            seen = seen_of(part)
            key += (self.inner[past], self._given(seen.node), seen.node.recipe.done, seen.layout.form, seen.layout.offset)
            key += (part.layout.form, part.layout.offset, part.apart) if isinstance(part, Placed) else (None,)
        for past in stretch:
            node = nodes.get(past)
            key += (past.recipe, past.offsets, past in asked, None if node is None else self._given(node))
            for kept in past.sources:  # this runs for all that a result was made of
                if kept is None:
                    key.append(None)
                    continue
                kind = type(kept)
                source: Any = kept if kind is Past else kept.past if kind is Node else None
                if source in depends:
                    place = self.inner.get(source)
                    key += (self.outer.setdefault(source, -1 - len(self.outer)) if place is None else place, source.recipe.size)
                if kind is Node:
                    key += ("value", self._given(kept), kept.recipe.shape)
                else:
                    key += ("number", self._given(kept)) if kind is Scalar else ("past",)
        self.key = tuple(key)

    def _given(self, x: Given) -> int:
        """The number of something that is given."""
        number = self._number_of.get(id(x))
        if number is None:
            number = self._number_of[id(x)] = len(self.given)
            self.given.append(x)
        return number

    def made(self, stand_ins: Sequence[Given]) -> list[tuple[int, Part]]:
        """What it passes on if other things are given: cotangents of those asked about, and parts for others, all by their places."""
        twins: dict[Past | None, Past] = {past: Past(recipe_of(PLACEHOLDER, (past.recipe.size,), past.recipe.dtype)) for past in self.outer}
        own: dict[int, Given] = {}

        def other(x: Given) -> Given:
            found = own.get(id(x))
            if found is None:
                found = own[id(x)] = stand_ins[self._number_of[id(x)]]
                if type(found) is Node and type(x) is Node:
                    found.past = twins.get(past_of(x))
            return found

        for past in reversed(self.stretch):
            sources: list[Kept] = []
            for kept in past.sources:
                is_given = type(kept) is Node or type(kept) is Scalar
                sources.append(other(kept) if is_given else twins.get(past_of(kept)))
            twins[past] = Past(past.recipe, tuple(sources), past.offsets)
        nodes: dict[Past, Any] = {twins[past]: other(self.nodes[past]) for past in self.stretch if past in self.nodes}
        parts: Parts = {}
        for past, part in self.parts:
            seen = Seen(other(seen_of(part).node), seen_of(part).layout)  # type: ignore[arg-type]
            parts.setdefault(twins[past], []).append(part._replace(values=seen) if isinstance(part, Placed) else seen)
        graph = Graph((), nodes, set(twins.values()))
        asked = {twins[past]: k for past, k in self.inner.items() if past in self.asked}
        found: list[tuple[int, Part]] = []

        def told(twin: Past, g: Seen) -> Seen:
            found.append((asked[twin], g))
            return g

        for past in self.stretch:
            if twins[past] in parts:
                _pass(twins[past], parts, graph, asked, told)
        for past, place in self.outer.items():
            found += [(place, part) for part in parts.get(twins[past], ())]
        return found


def _through(stretch: Sequence[Past], parts: Parts, graph: Graph, asked: Collection[Past], told: Told) -> None:
    """Through a stretch, as before."""
    outline = Outline(stretch, parts, graph, asked)
    if not outline.parts:
        return
    outer = list(outline.outer)
    for place, part in made_again(outline.key, outline.given, outline.made):
        if place < 0:
            parts.setdefault(outer[-1 - place], []).append(part)
        else:
            told(stretch[place], part)  # type: ignore[arg-type]


# --- single pasts -----------------------------------------------------------------------------------------------------


def total_of(parts: Sequence[Part], recipe: Recipe) -> Seen:
    """The sum of cotangents, found as it was before."""
    if len(parts) == 1 and isinstance(parts[0], Seen):
        return parts[0].reshaped(recipe.shape)
    key: list[object] = [recipe.shape, recipe.dtype]
    for part in parts:
        seen, place = (part, None) if isinstance(part, Seen) else (part.values, part.layout)
        key += (seen.node.recipe.shape, seen.layout.form, seen.layout.offset)
        key += (None,) if place is None else (place.form, place.offset, part.apart)  # type: ignore[union-attr]

    def make(nodes: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        own: list[Part] = []
        for part, node in zip(parts, nodes, strict=True):
            seen = Seen(node, seen_of(part).layout)  # type: ignore[arg-type]
            own.append(seen if isinstance(part, Seen) else part._replace(values=seen))
        return [(0, total(own, recipe.shape, recipe.dtype))]

    nodes = [seen_of(part).node for part in parts]
    ((_, found),) = made_again(tuple(key), nodes, make)
    assert isinstance(found, Seen)
    return found


def _pulled(past: Past, g: Seen, needed: tuple[int, ...], result: Node | None) -> Iterable[tuple[int, Part]]:
    """The cotangents of what something was made of, found as they were before."""
    rule, recipe = rule_of(past.recipe), past.recipe
    if has_own_rule(recipe) or recipe.passing:
        return rule.pull(past, g, needed, result)
    places = [k for k, kept in enumerate(past.sources) if type(kept) is Node or type(kept) is Scalar]
    shapes = [kept.shape if type(kept) is Node else kept.recipe.size if type(kept) is Past else None for kept in past.sources]
    key = (recipe, past.offsets, needed, g.node.recipe.shape, g.layout.form, g.layout.offset, result is None, *shapes)

    def make(given: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        sources = list(past.sources)
        for k, x in zip(places, given, strict=False):
            sources[k] = x
        own = Past(recipe, tuple(sources), past.offsets)
        node = given[len(places)]
        return list(rule.pull(own, Seen(node, g.layout), needed, None if result is None else given[-1]))  # type: ignore[arg-type]

    given = [*[past.sources[k] for k in places], g.node, *([] if result is None else [result])]
    return made_again(key, given, make)
