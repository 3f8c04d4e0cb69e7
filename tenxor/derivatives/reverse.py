"""Reverse mode: cotangents go from results back to what they were made of, through each past once, those made last first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..errors import DerivativeError
from ..node import Node
from . import folds as _folds  # noqa: F401  # enters its rules
from .adjoint import Part, total
from .past import GONE, Kept, Past, past_of
from .rules import rule_of
from .seen import Seen

Root = tuple[Node, Seen]  # with the cotangent of its content


def cotangents(roots: Sequence[Root], wanted: Iterable[Past]) -> dict[Past, Seen]:
    """The cotangents of some pasts, given those of what was made of them; none for what nothing was made of."""
    asked = set(wanted)
    nodes: dict[Past, Node] = {}
    lowest = min([past.number for past in asked], default=0)
    order = graph([node for node, _ in roots], nodes, lowest)
    found: dict[Past, Seen] = {}
    for past, g in _walk(roots, order, depending(order, asked), nodes):
        if past in asked:
            found[past] = g
    return found


def tell_watched(roots: Sequence[Root], *, free: bool) -> None:
    """Tell all cotangents that are watched. With `free` each past lets go of what it kept when it has been passed; then this cannot be
    done again.
    """
    nodes: dict[Past, Node] = {}
    order = graph([node for node, _ in roots], nodes)
    for past, _ in _walk(roots, order, depending(order, [past for past in order if past.watch is not None]), nodes):
        if free and past.sources:
            past.sources = GONE


def _walk(roots: Sequence[Root], order: Sequence[Past], depends: Collection[Past], nodes: dict[Past, Node]) -> Iterable[tuple[Past, Seen]]:
    """Each past with its cotangent, after those of what it made; those that nobody depends on are left out."""
    parts: dict[Past, list[Part]] = {}
    for node, g in roots:
        past = past_of(node)
        if past in depends:
            parts.setdefault(past, []).append(g)
    for past in reversed(order):
        got = parts.pop(past, None)
        result = nodes.pop(past, None)
        if got is None:
            continue
        g = total(got, past.recipe.shape, past.recipe.dtype)
        if past.watch is not None:
            g = past.watch.told(g)
        sources = [past_of(kept) for kept in past.sources]
        needed = [k for k, source in enumerate(sources) if source in depends]
        if needed:
            for k, part in rule_of(past.recipe).pull(past, g, needed, result):
                parts.setdefault(sources[k], []).append(part)  # type: ignore[arg-type]
        yield past, g


def graph(roots: Sequence[Node], nodes: dict[Past, Node], lowest: int = 0) -> list[Past]:
    """All pasts that lead to some nodes, from one with the number `lowest` on, in the order in which they were made; `nodes` get those whose
    rules read their value.
    """
    seen: set[Past] = set()
    stack: list[Kept] = list(roots)
    while stack:
        kept = stack.pop()
        past = past_of(kept)
        if past is None or past.number < lowest:
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
    return sorted(seen, key=lambda past: past.number)


def depending(order: Sequence[Past], on: Iterable[Past]) -> set[Past]:
    """Those that depend on some of them, and these."""
    found = set(on)
    for past in order:
        if any(past_of(kept) in found for kept in past.sources):
            found.add(past)
    return found
