"""The derivative of `concat` and `stack` as a single tape node. Each operand gets a region of the cotangent as a view, without a copy for
the remaining operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from .._utils.cache_registry import register
from ..graph.node import Node, Recipe, Residuals, intern_recipe
from ..layout import Layout
from ..runtime.plan_tracing import SymbolicSizes
from .formula_derivatives import is_smooth
from .grad_rule import CotangentIterator, GradRule, SourceTangents, TapeNodeLike, convert_cotangent, pull_to_source, read_tangent
from .node_view import DeferredTerm, NodeView, apply_store, full_view
from .tape import TapeNode, TapeSource, get_tape_node


class Join:
    """The operation of a tape node for the operands joined by `concat` or `stack`. `layouts` has for each operand the layout of the write
    into the result.
    """

    __slots__ = ("kind", "layouts", "name", "rule")

    def __init__(self, layouts: tuple[Layout, ...]) -> None:
        self.kind = self.name = "join"
        self.layouts, self.rule = layouts, JOIN_RULE

    def with_symbolic_sizes(self, symbolic_sizes: SymbolicSizes) -> Join:
        """Return this operation with symbolic sizes in the layouts: `symbolic_sizes` maps each number but 0 and 1 to a symbolic size."""
        return Join(tuple(map(symbolic_sizes.symbolize_layout, self.layouts)))

    def __repr__(self) -> str:
        return self.name


# Interned, as recipes compare operations by identity
_intern_join = register("joins", "an operation that joins tensors, by layouts")(lru_cache(1 << 8)(Join))


def record_join(node: Node, operands: Sequence[NodeView], layouts: tuple[Layout, ...]) -> None:
    """Give `node`, a new node without further references, a tape node for the join of `operands`, written through `layouts`.

    Item k of `layouts` is the part of `node` into which item k of `operands` was written. The caller checks that a tape is recorded, and
    that an operand is on the tape. Do nothing if the dtype has no derivative. Do nothing either if the node is on the tape already: the
    node is then itself the only operand with elements.
    """
    if node.tape_node is not None or not is_smooth(node.dtype):
        return
    op = _intern_join(layouts)
    dtypes, layout_keys = tuple([x.dtype for x in operands]), tuple([x.layout.layout_key for x in operands])
    sources: list[TapeSource] = []
    for x in operands:
        tape_node = get_tape_node(x.node)
        sources.append(None if tape_node is None else x.node if tape_node.reads_result else tape_node)
    recipe = intern_recipe(op, node.shape, node.dtype, dtypes, layout_keys)  # type: ignore[arg-type]
    node.tape_node = TapeNode(recipe, tuple(sources), tuple([x.layout.offset for x in operands]))


def _residuals_of(recipe: Recipe, tracked: tuple[bool, ...]) -> Residuals:
    """Return flags for the residuals of a join: False for every operand and for the result. This is the `residuals_of` of a `GradRule`.

    `tracked` has an item for each operand; `recipe` is not read.
    """
    return Residuals((False,) * len(tracked), False)


def _join_vjp(tape_node: TapeNodeLike, g: NodeView, wanted: Sequence[int], result: Node | None) -> CotangentIterator:
    """Yield (k, cotangent of operand k) for the operands `wanted` of a join with the tape node `tape_node`, given the cotangent `g` of the
    result.

    This is the `vjp` of a `GradRule`; `result` is not read.
    """
    op: Join = tape_node.recipe.op  # type: ignore[assignment]
    g = g.reshape((tape_node.recipe.size,))
    for k in wanted:
        yield k, pull_to_source(tape_node, k, DeferredTerm.of(g.view_through(op.layouts[k])))


def _join_jvp(tape_node: TapeNodeLike, source_tangents: SourceTangents, result: Node | None) -> NodeView:
    """Return the tangent of the result of a join with the tape node `tape_node`, given `source_tangents`, the tangents of operands by
    index.

    This is the `jvp` of a `GradRule`; `result` is not read.
    """
    op: Join = tape_node.recipe.op  # type: ignore[assignment]
    joined = full_view(0, (tape_node.recipe.size,), tape_node.recipe.dtype)
    for k, tangent in source_tangents.items():
        joined = apply_store(joined, op.layouts[k], convert_cotangent(read_tangent(tape_node, k, tangent), tape_node.recipe.dtype))
    return joined


JOIN_RULE = GradRule(_residuals_of, _join_vjp, _join_jvp)
