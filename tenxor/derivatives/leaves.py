"""Leaves of the tape, and the handling of the cotangents that arrive at watched tape nodes."""

from __future__ import annotations

from collections.abc import Callable

from ..layout import Layout
from ..node import Node, Recipe, data, is_pinned, untracked
from ..ops import OPS
from ..past import NOTHING, Deriving, Needs, Past, deriving, past_of
from ..realize import realize
from ..storage import Storage
from .partials import is_smooth
from .rules import rule_of
from .seen import Seen, added

_POSITIVE = OPS["positive"]


class Watch:
    """The actions for the cotangent of a tape node.

    The `hooks` run in order, and each may replace the cotangent. If `kept`, the cotangent is added to `grad`, a storage with as many
    elements as the content. `retained` is the watch of `retain_grad`, or None. It lives as long as the storage of the `retain_grad` call.
    It has no hooks, because a hook may refer to this storage.
    """

    __slots__ = ("grad", "hooks", "kept", "retained")

    def __init__(self, *, kept: bool) -> None:
        self.kept = kept
        self.retained: Watch | None = None
        self.grad: Storage | None = None
        self.hooks: dict[int, Callable[[Seen], Seen | None]] = {}

    def told(self, g: Seen) -> Seen:
        """Run the hooks on a cotangent, add it to `grad` if gradients are kept, and return the cotangent to continue with."""
        for hook in list(self.hooks.values()):
            g = hook(g) or g
        if self.retained is not None:
            self.retained.told(g)
        if self.kept:
            if self.grad is None:
                self.grad = Storage(g.flat())
            else:
                size = (g.layout.size,)
                self.grad.node = added(Seen(self.grad.node).reshaped(size), g.reshaped(size)).flat()
        return g


def leaf(node: Node) -> tuple[Node, Past]:
    """Return a node with the content of `node`, and the tape node of the result: a new leaf, unless `node` is on the tape already."""
    recipe = node.recipe
    if node.buffer is None or is_pinned(node) or node.past is not None:
        layout = Layout.contiguous(recipe.shape)
        result = Node.of(_POSITIVE, recipe.shape, recipe.dtype, (node,), (layout,))
        if is_pinned(node):
            realize(result)
        elif node.buffer is not None:
            result.settle(node.buffer)
    else:
        result = data(node.buffer, recipe.shape, recipe.dtype)
    past = past_of(result)
    if past is None:
        past = result.past = Past(result.recipe.done, traced=result.traced)
    return result, past


def twin(node: Node) -> Node:
    """Return a node with the content of `node` but without a tape node. It shares the memory of `node`, unless the memory is externally
    shared.
    """
    if node.buffer is not None and not is_pinned(node):
        return data(node.buffer, node.shape, node.dtype)
    with untracked():
        result = Node.of(_POSITIVE, node.shape, node.dtype, (node,), (Layout.contiguous(node.shape),))
    if is_pinned(node):
        realize(result)  # computed now, before foreign code writes the memory
    return result


def own_copy(source: Node) -> Node:
    """Return a new node with the content and the tape node of `source`; the content is copied if its memory is externally shared."""
    copy = twin(source)
    copy.past = source.past
    return copy


def _residuals_of(recipe: Recipe, tracked: int) -> Needs:
    """Return the values read by the derivative of a recipe; bit k of `tracked` is set if source k is on the tape."""
    if not is_smooth(recipe.dtype):
        return NOTHING
    return rule_of(recipe).needs(recipe, tuple([bool(tracked >> k & 1) for k in range(len(recipe.dtypes))]))


deriving[:] = [Deriving(_residuals_of, own_copy)]
