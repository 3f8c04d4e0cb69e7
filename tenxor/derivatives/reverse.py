"""Reverse mode: cotangents go from results back to what they were made of, through each past once, those made last first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from ..errors import DerivativeError
from ..node import Node, tracked
from ..past import GONE, Kept, Past, past_of, short_again
from ..records import NamedTuple
from .outline import Graph, in_order
from .seen import Seen
from .single import total_of
from .walk import Left, Parts, Told, walk

Root = tuple[Node, Seen]  # with the cotangent of its content


class Known(NamedTuple):
    """All pasts that lead to some nodes, in the order in which they were made; the nodes of those whose rules read their value; and whether
    some lead on to what was made before the first that was looked for.
    """

    order: list[Past]
    nodes: dict[Past, Node]
    goes_on: bool

    def tracking(self, given: Iterable[Seen]) -> AbstractContextManager[None]:
        """What is made of it, and of what is given, has a past only if somebody may ask for derivatives by what these go on to."""
        asked = self.goes_on or any([past_of(g.node) is not None for g in given])
        return nullcontext() if asked else tracked(None)


def known_of(roots: Iterable[Node], first: int = 0) -> Known:
    """What is known of some nodes, from the past with the number `first` on."""
    stack: list[Kept] = list(roots)
    for short in short_again:
        found = short.known(stack, first)
        if found is not None:
            return Known(sorted(found[0], key=in_order), *found[1:])
    seen: set[Past] = set()
    nodes: dict[Past, Node] = {}
    goes_on = False
    while stack:  # this runs for all that a result was made of, so it asks for as little as it can
        kept = stack.pop()
        kind = type(kept)
        past = kept if kind is Past else kept.past if kind is Node else None
        if type(past) is not Past or past in seen:
            continue
        if past.number < first:
            goes_on = True
            continue
        if past.sources is GONE:
            raise DerivativeError(
                "backward: what this was computed from was let go of by a backward() before; call that with retain_graph=True"
            )
        if past.reads_result and kind is Node:  # whoever reads it has the node
            nodes[past] = kept
        seen.add(past)
        stack += past.sources
    return Known(sorted(seen, key=in_order), nodes, goes_on)


def depending(order: Sequence[Past], on: Iterable[Past]) -> set[Past]:
    """Those that depend on some of them, and these."""
    found = set(on)
    for past in order:
        for kept in past.sources:
            if (kept if type(kept) is Past else kept.past if type(kept) is Node else None) in found:
                found.add(past)
                break
    return found


def cotangents(roots: Sequence[Root], wanted: Collection[Past]) -> dict[Past, Seen]:
    """The cotangents of some pasts, given those of what was made of them; none for what nothing was made of."""
    known = known_of([node for node, _ in roots], min([past.number for past in wanted], default=0))
    asked = frozenset(wanted)
    found: dict[Past, Seen] = {}

    def told(past: Past, g: Seen) -> Seen:
        found[past] = g
        return g

    with known.tracking([g for _, g in roots]):
        _walk(roots, known, asked, told)
    return found


def cotangents_at(roots: Sequence[Root], wanted: Collection[Past], edge: Collection[Past]) -> dict[Past, Seen]:
    """The same, but not by way of pasts at the `edge`, to which all that are wanted belong: where one was made from another, that has only
    what comes to it by itself.
    """
    known = known_of([node for node, _ in roots], min([past.number for past in wanted], default=0))
    depends = depending(known.order, wanted)
    within = Graph([past for past in known.order if past not in edge], known.nodes, depends)
    with known.tracking([g for _, g in roots]):
        parts = _parts_of(roots, depends)
        walk(parts, within, frozenset(), lambda past, g: g, lambda past: None)
        return {past: total_of(parts[past], past.recipe) for past in wanted if past in parts}


def tell_watched(roots: Sequence[Root], *, free: bool) -> None:
    """Tell all that are watched their cotangents. With `free` each past lets go of what it kept when it has been passed; then
    this cannot be done again.
    """
    known = known_of([node for node, _ in roots])

    def told(past: Past, g: Seen) -> Seen:
        assert past.watch is not None
        found: Seen = past.watch.told(g)
        return found

    def left(past: Past) -> None:
        if free and past.sources and not past.traced:  # a batch is yet to be made like what is traced
            past.sources = GONE

    _walk(roots, known, frozenset([past for past in known.order if past.watch is not None]), told, left)


def _walk(roots: Sequence[Root], known: Known, asked: frozenset[Past], told: Told, left: Left = lambda past: None) -> None:
    """Go through what leads to some nodes, as far as it depends on what is asked about."""
    depends = depending(known.order, asked)
    walk(_parts_of(roots, depends), Graph(known.order, known.nodes, depends), asked, told, left)


def _parts_of(roots: Sequence[Root], depends: Collection[Past]) -> Parts:
    """The cotangents of those nodes that matter."""
    parts: Parts = {}
    for node, g in roots:
        past = past_of(node)
        if past is not None and past in depends:
            parts.setdefault(past, []).append(g)
    return parts


def edge_of(roots: Iterable[Node], first: int) -> list[Kept]:
    """What some nodes were made of that was made before the past with the number `first`, each once."""
    roots = list(roots)
    found = {past_of(kept): kept for kept in (*roots, *[kept for past in known_of(roots, first).order for kept in past.sources])}
    return [kept for past, kept in found.items() if past is not None and past.number < first]


def forget(node: Node, first: int, *, all_of_it: bool = False) -> None:
    """Have a node know nothing of what it was made of, from the past with the number `first` on; if that goes on to what was made
    before, only where `all_of_it` is meant. What was made before knows what it knew; so does what is traced, as a batch is yet to be
    made like it.
    """
    past = past_of(node)
    if past is None or past.number < first or node.traced:
        return
    known = known_of([node], first)
    if all_of_it or not known.goes_on:
        for past in known.order:
            past.sources = ()
        node.past = None
