"""What derivatives need to know of how a node was made, kept for as long as somebody may ask.

A node that reads one with a past gets one, when it is made: its recipe, the pasts of what it reads, and those values alone that
its derivative reads. So nothing depends on when a node is computed, or whether its memory is used again; a value that no
derivative reads dies as it does without derivatives. A past never refers to its own node. Where its derivative reads the result, whoever
reads that node keeps the node itself instead of its past.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from ..layout import Layout
from ..node import CONSTANT, TRACED, Node, Recipe, data, is_pinned, tracking, untracked
from ..ops import OPS
from ..realize import realize
from ..storage import Storage
from .partials import is_smooth
from .rule import Needs
from .rules import rule_of
from .seen import Seen, added

_POSITIVE = OPS["positive"]
_number = count(1).__next__


def next_number() -> int:
    """A number above those of all that was made before."""
    return _number()


Kept = Any  # Past | Node | Scalar | None


class Past:
    """How a node was made. `sources` are what its recipe reads: a past, or a node with one if its value is needed; of what has no
    past a node or a number if that is needed, else None. What has no sources is where derivatives end: a leaf.

    `reads_result` tells that the derivative reads the value of the node. `number` is larger than those of all that it reads.
    `watch` has what is to be done with the cotangent, if anything. `traced` is as in `node.py`.
    """

    __slots__ = ("__weakref__", "number", "offsets", "reads_result", "recipe", "sources", "traced", "watch")

    def __init__(self, recipe: Recipe, sources: tuple[Kept, ...] = (), offsets: tuple[int, ...] = (), *, traced: bool = False) -> None:
        self.recipe, self.sources, self.offsets, self.traced = recipe, sources, offsets, traced
        self.number = _number()
        self.reads_result = False
        self.watch: Watch | None = None

    def followed(self, node: Node) -> Any:
        """The past of a new node that reads one with this past: none while nothing is tracked, or if there are no derivatives by it."""
        recipe, sources = node.recipe, node.sources
        tracked, bit, traced = 0, 1, False  # this runs for every operation
        for s in sources:
            if type(s) is Node and s.past is not None:
                traced = traced or s.past.traced
                if type(s.past) is Past:
                    tracked |= bit
            bit += bit
        asked = tracking.get()
        if not asked:
            return None if not traced else CONSTANT if asked is False else TRACED
        needs = _needs.get((recipe, tracked)) or _needs_of(recipe, tracked)
        if needs is NOTHING:
            return TRACED if traced else None
        kept: list[Kept] = []
        for s, needed in zip(sources, needs.sources):  # noqa: B905  # one for each
            if type(s) is not Node:
                kept.append(s)
            elif not needed:
                past: Any = s.past
                kept.append(None if type(past) is not Past else s if past.reads_result else past)
            elif s.buffer is not None and s.buffer.pins:
                kept.append(own_copy(s))
            else:
                kept.append(s)
        found = Past(recipe, tuple(kept), node.offsets, traced=traced)
        found.reads_result = needs.result
        return found

    @property
    def layouts(self) -> tuple[Layout | None, ...]:
        """What each source was read through; None for a number."""
        each = zip(self.recipe.forms, self.offsets)  # noqa: B905  # the last offset may be the target's
        return tuple([None if form is None else form.layout.at(offset) for form, offset in each])

    @property
    def target(self) -> Layout:
        """What a store, a scatter or a scan was written through."""
        form = self.recipe.target
        assert form is not None
        found: Layout = form.layout.at(self.offsets[-1])
        return found

    def __repr__(self) -> str:
        return f"Past({self.recipe.op}, {self.recipe.shape})"


class Watch:
    """What is to be done with a cotangent: `hooks` may replace it, one after the other; if it is `kept`, it is added to `grad`, a
    storage of as many elements as the content has.
    """

    __slots__ = ("grad", "hooks", "kept")

    def __init__(self, *, kept: bool) -> None:
        self.kept = kept
        self.grad: Storage | None = None
        self.hooks: dict[int, Callable[[Seen], Seen | None]] = {}

    def told(self, g: Seen) -> Seen:
        """Take note of the cotangent; what goes on from here."""
        for hook in list(self.hooks.values()):
            g = hook(g) or g
        if self.kept:
            if self.grad is None:
                self.grad = Storage(g.flat())
            else:
                size = (g.layout.size,)
                self.grad.node = added(Seen(self.grad.node).reshaped(size), g.reshaped(size)).flat()
        return g


GONE: tuple[Kept, ...] = (None,)  # the sources of a past that has let go of what it kept


def past_of(kept: Kept) -> Past | None:
    """The past that something kept has, or is."""
    if type(kept) is Node:
        kept = kept.past
    return kept if type(kept) is Past else None


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


MAX_NEEDS = 1 << 14
NOTHING = Needs((), False)  # of what has no derivatives
_needs: dict[tuple[Recipe, int], Needs] = {}


def _needs_of(recipe: Recipe, tracked: int) -> Needs:
    """What the derivative of a recipe reads, where those sources have a past whose bits are set."""
    if is_smooth(recipe.dtype):
        found = rule_of(recipe).needs(recipe, tuple([bool(tracked >> k & 1) for k in range(len(recipe.dtypes))]))
    else:
        found = NOTHING
    if not recipe.passing:
        if len(_needs) >= MAX_NEEDS:
            _needs.clear()
        _needs[recipe, tracked] = found
    return found
