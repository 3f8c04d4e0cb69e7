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
    """Return pairs (k, cotangent of source k) for the sources `needed` of the tape node `past`, given the cotangent `g` of its content.

    This is the VJP. `result` is the graph node of `past`, or None if the rule does not read the result.
    """
    pull = rule_of(past.recipe).pull
    return _replay_rule("pull", past, [g], needed, result, lambda past, gs, result: pull(past, gs[0], needed, result))


def pushed(past: Past, tangents: Mapping[int, Seen], result: Node | None) -> Seen | None:
    """Return the tangent of the content of the tape node `past`, given the tangents of sources by index; None stands for 0.

    This is the JVP. `result` is the graph node of `past`, or None if the rule does not read the result.
    """
    push, indices = rule_of(past.recipe).push, tuple(tangents)

    def call_push(past: Past, views: list[Seen], result: Node | None) -> list[tuple[int, Part]]:
        tangent = push(past, dict(zip(indices, views, strict=True)), result)
        return [] if tangent is None else [(0, tangent)]

    for _, tangent in _replay_rule("push", past, list(tangents.values()), indices, result, call_push):
        assert isinstance(tangent, Seen)
        return tangent
    return None


def _replay_rule(
    way: str, past: Past, views: list[Seen], indices: tuple[int, ...], result: Node | None, make: ByRule
) -> Iterable[tuple[int, Part]]:
    """Return `make(past, views, result)`, replayed from a recording if the nodes that the rule creates follow from the recipe.

    `views` holds the given cotangents or tangents, and `result` the graph node of `past`, or None if the rule does not read it. `way`
    ("pull" or "push") and `indices`, of the sources concerned, belong to the cache key.
    """
    recipe = past.recipe
    if not follows(recipe):
        return make(past, views, result)
    value_indices = [k for k, source in enumerate(past.sources) if type(source) is Node or type(source) is Scalar]
    shapes = [source.shape if type(source) is Node else source.recipe.size if type(source) is Past else None for source in past.sources]
    key: list[Hashable] = [way, recipe, past.offsets, indices, result is None, *shapes]
    for x in views:
        key += (x.node.recipe.shape, x.layout.form, x.layout.offset)

    def apply_rule(inputs: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        sources = list(past.sources)
        for k, x in zip(value_indices, inputs, strict=False):
            sources[k] = x
        clone = Past(recipe, tuple(sources), past.offsets)
        nodes = inputs[len(value_indices) :]
        return list(
            make(
                clone,
                [Seen(node, x.layout) for node, x in zip(nodes, views, strict=False)],  # type: ignore[arg-type]
                None if result is None else inputs[-1],  # type: ignore[arg-type]
            )
        )

    inputs = [*[past.sources[k] for k in value_indices], *[x.node for x in views], *([] if result is None else [result])]
    return made_again(tuple(key), inputs, apply_rule)


def total_of(cotangents: Sequence[Part], recipe: Recipe) -> Seen:
    """Return the sum of `cotangents`, the partial cotangents of a content, in the shape of `recipe`. The sum is replayed if the same
    layouts occurred before.
    """
    if len(cotangents) == 1 and isinstance(cotangents[0], Seen):
        return cotangents[0].reshaped(recipe.shape)
    key: list[object] = [recipe.shape, recipe.dtype]
    for cotangent in cotangents:
        view, layout = (cotangent, None) if isinstance(cotangent, Seen) else (cotangent.values, cotangent.layout)
        key += (view.node.recipe.shape, view.layout.form, view.layout.offset)
        key += (None,) if layout is None else (layout.form, layout.offset, cotangent.apart)  # type: ignore[union-attr]

    def make(nodes: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        new_cotangents: list[Part] = []
        for cotangent, node in zip(cotangents, nodes, strict=True):
            view = Seen(node, seen_of(cotangent).layout)  # type: ignore[arg-type]
            new_cotangents.append(view if isinstance(cotangent, Seen) else cotangent._replace(values=view))
        return [(0, total(new_cotangents, recipe.shape, recipe.dtype))]

    nodes = [seen_of(cotangent).node for cotangent in cotangents]
    ((_, result),) = made_again(tuple(key), nodes, make)
    assert isinstance(result, Seen)
    return result
