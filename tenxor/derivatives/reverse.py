"""Reverse mode: cotangents go from results back to what they were made of, through each past once, those made last first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from ..errors import DerivativeError
from ..node import TRACED, Node, Recipe, Scalar, next_number, untracked, watchers
from ..pending import MAX_PENDING, bounded
from ..records import NamedTuple
from .adjoint import Part, seen_of, total
from .again import made_again
from .past import GONE, Kept, Past, past_of
from .rules import rule_of
from .seen import Seen

Root = tuple[Node, Seen]  # with the cotangent of its content
MAX_WAITING = 4 * MAX_PENDING  # nodes that are made until what a cotangent waits for is computed


class Graph(NamedTuple):
    """All pasts that lead to some nodes, in the order in which they were made; the nodes of those whose rules read their value; and whether
    some lead on to what was made before the first that was looked for.
    """

    order: list[Past]
    nodes: dict[Past, Node]
    goes_on: bool

    def tracking(self) -> AbstractContextManager[None]:
        """What is made of it has a past only if somebody may ask for derivatives by what it goes on to."""
        return nullcontext() if self.goes_on else untracked()


def graph_of(roots: Iterable[Node], first: int = 0) -> Graph:
    """The graph of some nodes, from the past with the number `first` on."""
    seen: set[Past] = set()
    nodes: dict[Past, Node] = {}
    goes_on = False
    stack: list[Kept] = list(roots)
    while stack:
        kept = stack.pop()
        past = past_of(kept)
        if past is None:
            continue
        if past.number < first:
            goes_on = True
            continue
        if past.sources is GONE:
            raise DerivativeError(
                "backward: what this was computed from was let go of by a backward() before; call that with retain_graph=True"
            )
        if type(kept) is Node and past.reads_result:
            nodes[past] = kept
        if past not in seen:
            seen.add(past)
            stack += past.sources
    return Graph(sorted(seen, key=lambda past: past.number), nodes, goes_on)


def depending(order: Sequence[Past], on: Iterable[Past]) -> set[Past]:
    """Those that depend on some of them, and these."""
    found = set(on)
    for past in order:
        if any([past_of(kept) in found for kept in past.sources]):
            found.add(past)
    return found


def cotangents(roots: Sequence[Root], wanted: Collection[Past]) -> dict[Past, Seen]:
    """The cotangents of some pasts, given those of what was made of them; none for what nothing was made of."""
    graph = graph_of([node for node, _ in roots], min([past.number for past in wanted], default=0))
    found: dict[Past, Seen] = {}

    def passed(past: Past, g: Seen) -> Seen:
        if past in wanted:
            found[past] = g
        return g

    with graph.tracking():
        _walk(roots, graph, depending(graph.order, wanted), passed)
    return found


def tell_watched(roots: Sequence[Root], *, free: bool) -> None:
    """Tell all that are watched their cotangents. With `free` each past lets go of what it kept when it has been passed; then
    this cannot be done again.
    """
    graph = graph_of([node for node, _ in roots])

    def passed(past: Past, g: Seen) -> Seen:
        return g if past.watch is None else past.watch.told(g)

    def left(past: Past) -> None:
        if free and past.sources:
            past.sources = GONE

    _walk(roots, graph, depending(graph.order, [past for past in graph.order if past.watch is not None]), passed, left)


def edge_of(roots: Iterable[Node], first: int) -> list[Kept]:
    """What some nodes were made of that was made before the past with the number `first`, each once."""
    found = {past_of(kept): kept for past in graph_of(roots, first).order for kept in past.sources}
    return [kept for past, kept in found.items() if past is not None and past.number < first]


def forget(node: Node, first: int, *, all_of_it: bool = False) -> None:
    """Have a node know nothing of what it was made of, from the past with the number `first` on; if that goes on to what was made
    before, only where `all_of_it` is meant.
    """
    graph = graph_of([node], first)
    if all_of_it or not graph.goes_on:
        for past in graph.order:
            past.sources = ()
        node.past = TRACED if node.traced else None


def _walk(
    roots: Sequence[Root],
    graph: Graph,
    depends: Collection[Past],
    passed: Callable[[Past, Seen], Seen],
    left: Callable[[Past], None] = lambda past: None,
) -> None:
    """Go through those that matter, those made last first. Each is `passed` with its cotangent, which may be replaced, and `left`
    when that of what it was made of is known.
    """
    parts: dict[Past, list[Part]] = {}
    for node, g in roots:
        past = past_of(node)
        if past is not None and past in depends:
            parts.setdefault(past, []).append(g)
    flushed = next_number()
    for past in reversed(graph.order):
        got = parts.pop(past, None)
        result = graph.nodes.pop(past, None)
        if got is None:
            continue
        g = passed(past, _total(got, past.recipe))
        if next_number() - flushed > MAX_WAITING:
            bounded(g.node)
            flushed = next_number()
        sources = [past_of(kept) for kept in past.sources]
        needed = tuple([k for k, source in enumerate(sources) if source in depends])
        if needed:
            for k, part in _pulled(past, g, needed, result):
                if watchers:
                    watchers[0](seen_of(part).node)
                parts.setdefault(sources[k], []).append(part)  # type: ignore[arg-type]
        left(past)


def _total(parts: Sequence[Part], recipe: Recipe) -> Seen:
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
    if rule is getattr(recipe.op, "rule", None) or recipe.passing:
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
