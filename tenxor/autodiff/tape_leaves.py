"""Leaves of the tape, and the handling of the cotangents that arrive at tape nodes with a handler."""

from __future__ import annotations

from collections.abc import Callable

from ..graph.node import Node, Recipe, disable_tape, is_externally_shared, make_data_node
from ..graph.storage import Storage
from ..graph.tape import NO_RESIDUALS, DerivativeHooks, Residuals, TapeNode, derivative_hooks, get_tape_node
from ..layout import Layout
from ..ops import OPS
from ..runtime.realize import realize
from .formula_derivatives import is_smooth
from .node_view import NodeView, add_views
from .rule_table import get_rule

_POSITIVE = OPS["positive"]


class GradHandler:
    """The actions for the cotangent of a tape node.

    The `hooks` run in order, and each may replace the cotangent. If `keeps_grad`, the cotangent is added to `grad`, a storage with as many
    elements as the content, or None before the first cotangent. `retained_handler` is the handler of `retain_grad`, or None. It lives as
    long as the storage of the `retain_grad` call. It has no hooks, because a hook may refer to this storage.
    """

    __slots__ = ("grad", "hooks", "keeps_grad", "retained_handler")

    def __init__(self, *, keeps_grad: bool) -> None:
        self.keeps_grad = keeps_grad
        self.retained_handler: GradHandler | None = None
        self.grad: Storage | None = None
        self.hooks: dict[int, Callable[[NodeView], NodeView | None]] = {}

    def receive(self, g: NodeView) -> NodeView:
        """Run the hooks on the cotangent `g`, add it to `grad` if gradients are kept, and return the cotangent to continue with."""
        for hook in list(self.hooks.values()):
            g = hook(g) or g
        if self.retained_handler is not None:
            self.retained_handler.receive(g)
        if self.keeps_grad:
            if self.grad is None:
                self.grad = Storage(g.to_node())
            else:
                size = (g.layout.size,)
                self.grad.node = add_views(NodeView(self.grad.node).reshape(size), g.reshape(size)).to_node()
        return g


def make_leaf(node: Node) -> tuple[Node, TapeNode]:
    """Return a new node with the content of `node`, and the tape node of this new node: a new leaf, unless a tape is recorded and `node` is
    on the tape.
    """
    recipe = node.recipe
    if node.buffer is None or is_externally_shared(node) or node.tape_node is not None:
        layout = Layout.contiguous(recipe.shape)
        result = Node.of(_POSITIVE, recipe.shape, recipe.dtype, (node,), (layout,))
        if is_externally_shared(node):
            realize(result)
        elif node.buffer is not None:
            result.set_buffer(node.buffer)
    else:
        result = make_data_node(node.buffer, recipe.shape, recipe.dtype)
    tape_node = get_tape_node(result)
    if tape_node is None:
        tape_node = result.tape_node = TapeNode(result.recipe.data_recipe, is_traced=result.is_traced)
    return result, tape_node


def copy_detached(node: Node) -> Node:
    """Return a node with the content of `node` but without a tape node. It shares the memory of `node`, unless the memory is externally
    shared.
    """
    if node.buffer is not None and not is_externally_shared(node):
        return make_data_node(node.buffer, node.shape, node.dtype)
    with disable_tape():
        result = Node.of(_POSITIVE, node.shape, node.dtype, (node,), (Layout.contiguous(node.shape),))
    if is_externally_shared(node):
        realize(result)  # computed now, before foreign code writes the memory
    return result


def clone_unshared(source: Node) -> Node:
    """Return a new node with the content and the tape node of `source`; the content is copied if its memory is externally shared."""
    copy = copy_detached(source)
    copy.tape_node = source.tape_node
    return copy


def _residuals_of(recipe: Recipe, tracked: int) -> Residuals:
    """Return the values read by the derivative of `recipe`; bit k of `tracked` is set if source k is on the tape."""
    if not is_smooth(recipe.dtype):
        return NO_RESIDUALS
    return get_rule(recipe).residuals_of(recipe, tuple([bool(tracked >> k & 1) for k in range(len(recipe.dtypes))]))


derivative_hooks[:] = [DerivativeHooks(_residuals_of, clone_unshared)]
