"""Reverse mode: cotangents go from results back to what they were made of, through each past once, those made last first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from ..errors import DerivativeError
from ..node import TRACED, Node, untracked
from ..records import NamedTuple
from .adjoint import Part, total
from .past import GONE, Kept, Past, past_of
from .rules import rule_of
from .seen import Seen

Root = tuple[Node, Seen]  # with the cotangent of its content


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
    """Tell all that are watched their cotangents. With `free` each past lets go of what it kept when it has been passed; then this cannot be
    done again.
    """
    graph = graph_of([node for node, _ in roots])

    def passed(past: Past, g: Seen) -> Seen:
        return g if past.watch is None else past.watch.told(g)

    def left(past: Past) -> None:
        if free and past.sources:
            past.sources = GONE

    _walk(roots, graph, depending(graph.order, [past for past in graph.order if past.watch is not None]), passed, left)


def forget(node: Node, first: int) -> None:
    """Have a node know nothing of what it was made of, unless that goes on to what was made before the past with the number `first`."""
    graph = graph_of([node], first)
    if not graph.goes_on:
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
    """Go through those that matter, those made last first. Each is `passed` with its cotangent, which may be replaced, and `left` when that of
    what it was made of is known.
    """
    parts: dict[Past, list[Part]] = {}
    for node, g in roots:
        past = past_of(node)
        if past in depends:
            parts.setdefault(past, []).append(g)
    for past in reversed(graph.order):
        got = parts.pop(past, None)
        result = graph.nodes.pop(past, None)
        if got is None:
            continue
        g = passed(past, total(got, past.recipe.shape, past.recipe.dtype))
        sources = [past_of(kept) for kept in past.sources]
        needed = [k for k, source in enumerate(sources) if source in depends]
        if needed:
            for k, part in rule_of(past.recipe).pull(past, g, needed, result):
                parts.setdefault(sources[k], []).append(part)  # type: ignore[arg-type]
        left(past)
