"""Where derivatives end, and what is to be done with the cotangents that come there."""

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
    """What is to be done with a cotangent: `hooks` may replace it, one after the other; if it is `kept`, it is added to `grad`, a
    storage of as many elements as the content has. What is `retained` lives as long as who asked for it: it has no hooks, as these may
    know that one.
    """

    __slots__ = ("grad", "hooks", "kept", "retained")

    def __init__(self, *, kept: bool) -> None:
        self.kept = kept
        self.retained: Watch | None = None
        self.grad: Storage | None = None
        self.hooks: dict[int, Callable[[Seen], Seen | None]] = {}

    def told(self, g: Seen) -> Seen:
        """Take note of the cotangent; what goes on from here."""
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
    """A node with the same content, and the past by which derivatives are taken. If the given one has a past, so has that."""
    recipe = node.recipe
    if node.buffer is None or is_pinned(node) or node.past is not None:
        same = Layout.contiguous(recipe.shape)
        found = Node.of(_POSITIVE, recipe.shape, recipe.dtype, (node,), (same,))
        if is_pinned(node):
            realize(found)
        elif node.buffer is not None:
            found.settle(node.buffer)
    else:
        found = data(node.buffer, recipe.shape, recipe.dtype)
    past = past_of(found)
    if past is None:
        past = found.past = Past(found.recipe.done, traced=found.traced)
    return found, past


def twin(node: Node) -> Node:
    """A node with the same content, of which derivatives know nothing: in the same memory, unless others may write that."""
    if node.buffer is not None and not is_pinned(node):
        return data(node.buffer, node.shape, node.dtype)
    with untracked():
        found = Node.of(_POSITIVE, node.shape, node.dtype, (node,), (Layout.contiguous(node.shape),))
    if is_pinned(node):
        realize(found)  # before others write that memory
    return found


def own_copy(source: Node) -> Node:
    """A node with the content and the past of one that others may write."""
    own = twin(source)
    own.past = source.past
    return own


def _needs_of(recipe: Recipe, tracked: int) -> Needs:
    """What the derivative of a recipe reads, where those sources have a past whose bits are set."""
    if not is_smooth(recipe.dtype):
        return NOTHING
    return rule_of(recipe).needs(recipe, tuple([bool(tracked >> k & 1) for k in range(len(recipe.dtypes))]))


deriving[:] = [Deriving(_needs_of, own_copy)]
