"""Replayed rules: the cotangents or tangents of a single tape node, and sums of cotangents. Each is recorded once and then replayed
(`replay.py`). A tape node records how a graph node was computed from the sources, the operands. The content is the elements computed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from ..graph.node import Node, Recipe, Scalar
from .layout_adjoint import Cotangent, get_values, sum_cotangents
from .node_view import NodeView
from .replay import replay_or_record
from .rule_table import get_rule, is_replayable
from .tape import TapeNode

# Takes a tape node, cotangents or tangents, and the result
RuleCall = Callable[[TapeNode, list[NodeView], Node | None], Iterable[tuple[int, Cotangent]]]


def apply_vjp(tape_node: TapeNode, g: NodeView, needed: tuple[int, ...], result: Node | None) -> Iterable[tuple[int, Cotangent]]:
    """Return pairs (k, cotangent of source k) for the sources `needed` of the tape node `tape_node`, given the cotangent `g` of its
    content. This is the VJP.

    `g` has as many elements as the content. Several pairs of a source add up; a source without a pair has the cotangent 0. `result` is the
    graph node of `tape_node`, or None if the rule does not read the result. The pairs may be an iterator. Raise DerivativeError for an
    operation without a rule.
    """
    vjp = get_rule(tape_node.recipe).vjp
    return _replay_rule("vjp", tape_node, [g], needed, result, lambda node, gs, result: vjp(node, gs[0], needed, result))


def apply_jvp(tape_node: TapeNode, tangents: Mapping[int, NodeView], result: Node | None) -> NodeView | None:
    """Return the tangent of the content of the tape node `tape_node`, given `tangents`, the tangents of sources by index; None stands for
    0. This is the JVP.

    Each tangent is that of the whole content of a source. A source without an entry has the tangent 0. `result` is the graph node of
    `tape_node`, or None if the rule does not read the result. Raise DerivativeError for an operation without a rule.
    """
    jvp, indices = get_rule(tape_node.recipe).jvp, tuple(tangents)

    def call_jvp(node: TapeNode, views: list[NodeView], result: Node | None) -> list[tuple[int, Cotangent]]:
        tangent = jvp(node, dict(zip(indices, views, strict=True)), result)
        return [] if tangent is None else [(0, tangent)]

    for _, tangent in _replay_rule("jvp", tape_node, list(tangents.values()), indices, result, call_jvp):
        assert isinstance(tangent, NodeView)
        return tangent
    return None


def _replay_rule(
    mode: str, tape_node: TapeNode, views: list[NodeView], indices: tuple[int, ...], result: Node | None, make: RuleCall
) -> Iterable[tuple[int, Cotangent]]:
    """Return the result of `make(tape_node, views, result)`, a call of a derivative rule, replayed from a recording where that is possible.

    The result is pairs: for "vjp" of a source's index and its cotangent, for "jvp" of 0 and the tangent of the result. `views` holds the
    cotangent of the result, or the tangents of the sources with the numbers `indices`, in this order. `result` is the graph node of
    `tape_node`, or None if the rule does not read it. A replay creates the recorded nodes from new sources. The cache key has `mode`,
    `indices`, the recipe, and the shapes and layouts of sources and views. A rule whose nodes do not follow from these is called directly
    (`is_replayable`).
    """
    recipe = tape_node.recipe
    if not is_replayable(recipe):
        return make(tape_node, views, result)
    value_indices = [k for k, source in enumerate(tape_node.sources) if type(source) is Node or type(source) is Scalar]
    shapes = [
        source.shape if type(source) is Node else source.recipe.size if type(source) is TapeNode else None for source in tape_node.sources
    ]
    key: list[Hashable] = [mode, recipe, tape_node.offsets, indices, result is None, *shapes]
    for x in views:
        key += (x.node.recipe.shape, x.layout.layout_key, x.layout.offset)

    def apply_rule(inputs: Sequence[Node | Scalar]) -> list[tuple[int, Cotangent]]:
        sources = list(tape_node.sources)
        for k, x in zip(value_indices, inputs, strict=False):
            sources[k] = x
        clone = TapeNode(recipe, tuple(sources), tape_node.offsets)
        nodes = inputs[len(value_indices) :]
        return list(
            make(
                clone,
                [NodeView(node, x.layout) for node, x in zip(nodes, views, strict=False)],  # type: ignore[arg-type]
                None if result is None else inputs[-1],  # type: ignore[arg-type]
            )
        )

    inputs = [*[tape_node.sources[k] for k in value_indices], *[x.node for x in views], *([] if result is None else [result])]
    return replay_or_record(tuple(key), inputs, apply_rule)


def replay_sum(cotangents: Sequence[Cotangent], recipe: Recipe) -> NodeView:
    """Return the sum of `cotangents`, at least one, whole or partial, of the content of a node with `recipe`, in the shape of this node.

    The computation is replayed if the same layouts occurred before. A single whole cotangent is only reshaped.
    """
    if len(cotangents) == 1 and isinstance(cotangents[0], NodeView):
        return cotangents[0].reshape(recipe.shape)
    key: list[object] = [recipe.shape, recipe.dtype]
    for cotangent in cotangents:
        view, layout = (cotangent, None) if isinstance(cotangent, NodeView) else (cotangent.values, cotangent.layout)
        key += (view.node.recipe.shape, view.layout.layout_key, view.layout.offset)
        key += (None,) if layout is None else (layout.layout_key, layout.offset, cotangent.is_injective)  # type: ignore[union-attr]

    def make(nodes: Sequence[Node | Scalar]) -> list[tuple[int, Cotangent]]:
        new_cotangents: list[Cotangent] = []
        for cotangent, node in zip(cotangents, nodes, strict=True):
            view = NodeView(node, get_values(cotangent).layout)  # type: ignore[arg-type]
            new_cotangents.append(view if isinstance(cotangent, NodeView) else cotangent._replace(values=view))
        return [(0, sum_cotangents(new_cotangents, recipe.shape, recipe.dtype))]

    nodes = [get_values(cotangent).node for cotangent in cotangents]
    ((_, result),) = replay_or_record(tuple(key), nodes, make)
    assert isinstance(result, NodeView)
    return result
