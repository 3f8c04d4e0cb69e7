"""Replayed rules: the cotangents or tangents of a single tape node, and sums of cotangents. Each is recorded once and then replayed
(`again.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from ..node import Node, Recipe, Scalar
from ..past import Past
from .adjoint import Part, seen_of, total
from .again import made_again
from .rules import follows, rule_of
from .seen import Seen

ByRule = Callable[[Past, list[Seen], Node | None], Iterable[tuple[int, Part]]]  # takes a tape node, cotangents or tangents, and the result


def pulled(past: Past, g: Seen, needed: tuple[int, ...], result: Node | None) -> Iterable[tuple[int, Part]]:
    """Return the cotangents of the sources `needed` of a tape node, with their indices, given the cotangent `g` of the content (the VJP).
    `result` is the graph node if the rule reads the result.
    """
    pull = rule_of(past.recipe).pull
    return _by_rule("pull", past, [g], needed, result, lambda past, gs, result: pull(past, gs[0], needed, result))


def pushed(past: Past, tangents: Mapping[int, Seen], result: Node | None) -> Seen | None:
    """Return the tangent of the content of a tape node, given the tangents of sources by index (the JVP). None stands for 0. `result` is
    the graph node if the rule reads the result.
    """
    push, given = rule_of(past.recipe).push, tuple(tangents)

    def by_rule(past: Past, seen: list[Seen], result: Node | None) -> list[tuple[int, Part]]:
        found = push(past, dict(zip(given, seen, strict=True)), result)
        return [] if found is None else [(0, found)]

    for _, found in _by_rule("push", past, list(tangents.values()), given, result, by_rule):
        assert isinstance(found, Seen)
        return found
    return None


def _by_rule(
    way: str, past: Past, seen: list[Seen], which: tuple[int, ...], result: Node | None, make: ByRule
) -> Iterable[tuple[int, Part]]:
    """Return `make(past, seen, result)`, replayed if the result of the rule follows from the recipe.

    `way` ("pull" or "push") and `which` belong to the cache key; `seen` holds the given cotangents or tangents.
    """
    recipe = past.recipe
    if not follows(recipe):
        return make(past, seen, result)
    places = [k for k, kept in enumerate(past.sources) if type(kept) is Node or type(kept) is Scalar]
    shapes = [kept.shape if type(kept) is Node else kept.recipe.size if type(kept) is Past else None for kept in past.sources]
    key: list[Hashable] = [way, recipe, past.offsets, which, result is None, *shapes]
    for x in seen:
        key += (x.node.recipe.shape, x.layout.form, x.layout.offset)

    def again(given: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        sources = list(past.sources)
        for k, x in zip(places, given, strict=False):
            sources[k] = x
        own = Past(recipe, tuple(sources), past.offsets)
        nodes = given[len(places) :]
        return list(make(own, [Seen(node, x.layout) for node, x in zip(nodes, seen, strict=False)], None if result is None else given[-1]))  # type: ignore[arg-type]

    given = [*[past.sources[k] for k in places], *[x.node for x in seen], *([] if result is None else [result])]
    return made_again(tuple(key), given, again)


def total_of(parts: Sequence[Part], recipe: Recipe) -> Seen:
    """Return the sum of the cotangents `parts` of a content, in the shape of `recipe`. The sum is replayed if the same layouts occurred
    before.
    """
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
