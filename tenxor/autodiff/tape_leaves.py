"""Leaves of the tape, and the handling of the cotangents that arrive at tape nodes with a handler. A leaf is a tape node without operands:
an independent variable.
"""

from __future__ import annotations

from collections.abc import Callable

from ..graph.node import Node, is_externally_shared, make_data_node
from ..graph.storage import Storage
from ..layout import Layout
from ..ops import OPS
from ..runtime.realize import realize
from .node_view import NodeView, add_views
from .tape import TapeNode, get_tape_node

_POSITIVE = OPS["positive"]


class GradHandler:
    """The actions for the cotangent of a tape node in a backward pass.

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
        """Run the hooks on the cotangent `g`, and return the final cotangent, with which the backward pass continues.

        A hook that returns None leaves the cotangent unchanged. `retained_handler`, unless None, receives the final cotangent. With
        `keeps_grad`, the final cotangent is added to `grad`, as a pending sum; the first becomes the content of a new `grad`.
        """
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
    """Return a new node with the content of `node`, and the tape node of the new node.

    The tape node is a new leaf, unless a tape is recorded and `node` is on the tape. Then the tape node records a copy of `node`, and has a
    source. If `node` is in memory, both nodes share the buffer; only externally shared memory is copied, at once. For a pending `node` the
    new node is a pending copy.
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
