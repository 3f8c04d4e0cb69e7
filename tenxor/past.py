"""What is kept of how a node was made, for as long as somebody may ask for derivatives.

A node that reads one with a past gets one, when it is made: its recipe, the pasts of what it reads, and those values alone that
its derivative reads. So nothing depends on when a node is computed, or whether its memory is used again; a value that no
derivative reads dies as it does without derivatives. A past never refers to its own node. Where its derivative reads the result, whoever
reads that node keeps the node itself instead of its past.

What a derivative reads is known to those who make derivatives (`derivatives/`), which are loaded before there is any past.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .layout import Layout
from .node import CONSTANT, TRACED, Node, Recipe, next_number, tracking
from .records import NamedTuple

Kept = Any  # Past | Node | Scalar | None


class Needs(NamedTuple):
    """What a derivative reads: of each source whether its value, and whether the result. That follows from the operation and the dtypes, so
    recipes of several sizes may share what is known of it.
    """

    sources: tuple[bool, ...]
    result: bool


NOTHING = Needs((), False)  # of what has no derivatives


class Deriving(NamedTuple):
    """What a derivative reads of a recipe, where those sources have a past whose bits are set; and a node with the content and the past
    of one that others may write.
    """

    needs: Callable[[Recipe, int], Needs]
    own_copy: Callable[[Node], Node]


deriving: list[Deriving] = []  # one, or none yet


class Again(NamedTuple):
    """What machine code does of derivatives (`shortcut/code/follow.py`, `pasts.py`, `batches.py`): append the nodes of steps
    (`derivatives/again.py`) to a list, as far as it can; say what is known of nodes (`derivatives/reverse.py`), what a stretch of pasts
    consists of (`derivatives/outline.py`), and how nodes were made of what stands for a batch's members (`derivatives/batching.py`), with
    a list for what else is given; or None. `found` are the steps that go through a stretch that is new, by what was learnt of those of
    other sizes (`shortcut/stretches.py`).
    """

    make: Callable[[list[Any], Sequence[Any]], None]
    known: Callable[[list[Node], int], tuple[list[Any], dict[Any, Node], bool] | None]
    outlined: Callable[[Sequence[Any], Any, Any, dict[Any, Node], list[Any]], tuple[bytes, list[Any], list[Any]] | None]
    batched: Callable[[Sequence[Node], list[Node], list[Any]], bytes | None]
    found: Callable[[Any, Callable[..., Any]], Any]


short_again: list[Again] = []  # one, or none


class Past:
    """How a node was made. `sources` are what its recipe reads: a past, or a node with one if its value is needed; of what has no
    past a node or a number if that is needed, else None. What has no sources is where derivatives end: a leaf.

    `reads_result` tells that the derivative reads the value of the node. `number` is larger than those of all that it reads.
    `watch` has what is to be done with the cotangent, if anything. `traced` is as in `node.py`.
    """

    __slots__ = ("__weakref__", "number", "offsets", "reads_result", "recipe", "sources", "traced", "watch")

    def __init__(
        self,
        recipe: Recipe,
        sources: tuple[Kept, ...] = (),
        offsets: tuple[int, ...] = (),
        *,
        number: int | None = None,
        reads_result: bool = False,
        traced: bool = False,
    ) -> None:
        self.recipe, self.sources, self.offsets, self.traced = recipe, sources, offsets, traced
        self.number = next_number() if number is None else number
        self.reads_result = reads_result
        self.watch: Any = None

    def followed(self, node: Node, number: int) -> Any:
        """The past of a new node that reads one with this past: none while nothing is tracked, or if there are no derivatives by it. The
        short way does the same (`shortcut/code/follow.py`).
        """
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
        known: Any = recipe.needs
        needs = None if known is None else known.get(tracked)
        if needs is None:
            needs = deriving[0].needs(recipe, tracked)
            if known is None:
                recipe.needs = {tracked: needs}
            else:
                known[tracked] = needs
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
                kept.append(deriving[0].own_copy(s))
            else:
                kept.append(s)
        return Past(recipe, tuple(kept), node.offsets, number=number, reads_result=needs.result, traced=traced)

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


GONE: tuple[Kept, ...] = (None,)  # the sources of a past that has let go of what it kept


def past_of(kept: Kept) -> Past | None:
    """The past that something kept has, or is."""
    if type(kept) is Node:
        kept = kept.past
    return kept if type(kept) is Past else None
