"""The autograd tape: a record of how nodes were computed, kept as long as derivatives may be requested.

A node with an operand on the tape gets a tape node (`Past`, in PyTorch `grad_fn`) at creation. The tape node holds the recipe, the tape
nodes of the operands, and only the operand values needed by the derivative (the residuals). Derivatives do not depend on when a node is
computed or whether memory is reused, and a value not needed by a derivative is freed as early as without derivatives. A tape node never
refers to its own graph node. Where the derivative reads the result, the tape nodes of readers hold the graph node in place of its tape
node.

The package `derivatives/` determines the residuals. It is loaded before the first tape node exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .layout import Layout
from .node import CONSTANT, TRACED, Node, Recipe, next_number, tracking
from .records import NamedTuple

Kept = Any  # Past | Node | Scalar | None


class Needs(NamedTuple):
    """The residuals of a recipe: for each source whether the derivative reads its value, and whether the derivative reads the result. They
    follow from the operation and the dtypes, so recipes of several sizes may share a `Needs`.
    """

    sources: tuple[bool, ...]
    result: bool


NOTHING = Needs((), False)  # the residuals of an operation without derivatives


class Deriving(NamedTuple):
    """Two functions provided by `derivatives/` to this module.

    `needs(recipe, tracked)` returns the values read by the derivative of a recipe; bit k of `tracked` is set if source k is on the tape.
    `own_copy(node)` returns a node with the content and the tape node of `node`, in memory that is not externally shared.
    """

    needs: Callable[[Recipe, int], Needs]
    own_copy: Callable[[Node], Node]


deriving: list[Deriving] = []  # empty until `derivatives/` is loaded, then one element


class Again(NamedTuple):
    """Functions of the fast path for derivatives (`shortcut/code/follow.py`, `pasts.py`, `batches.py`).

    `make(nodes, steps)` appends the nodes of replay steps (`derivatives/again.py`) to `nodes`, as far as possible. `known(roots, first)`
    collects a slice of the tape (`derivatives/reverse.py`). `outlined` encodes the signature of a tape segment (`derivatives/outline.py`).
    `batched` encodes how nodes were computed from the placeholders of a batch, and appends the remaining inputs to the last argument
    (`derivatives/batching.py`). `known`, `outlined` and `batched` return None to decline. `found(outline, make)` returns the replay steps
    of a new tape segment, if possible from a segment of different sizes (`shortcut/stretches.py`).
    """

    make: Callable[[list[Any], Sequence[Any]], None]
    known: Callable[[list[Node], int], tuple[list[Any], dict[Any, Node], bool] | None]
    outlined: Callable[[Sequence[Any], Any, Any, dict[Any, Node], list[Any]], tuple[bytes, list[Any], list[Any]] | None]
    batched: Callable[[Sequence[Node], list[Node], list[Any]], bytes | None]
    found: Callable[[Any, Callable[..., Any]], Any]


short_again: list[Again] = []  # empty, or one element while the fast path is installed


class Past:
    """A node of the autograd tape: how a graph node was computed. In PyTorch this is a `grad_fn`.

    `sources` has an entry for each operand of the recipe. An operand on the tape is a `Node` if its value is a residual, or if its own
    derivative reads this value; else it is a `Past`. An operand not on the tape is a `Node` or `Scalar` if the value is a residual, else
    None. A tape node without sources is a leaf.

    `reads_result` is True if the derivative reads the value of the node. `number` is larger than the numbers of the operands. `watch`
    receives the cotangent in a backward pass, or is None. `traced` is True if the node reads an argument of a function being traced.
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
        """Return the tape node of `node`, a new node that reads a node with this tape node. `number` is the serial number of the new one.

        The result is `TRACED` or `CONSTANT` instead if nothing is recorded but an operand reads an argument of a function being traced. The
        result is None if nothing is recorded, or if the operation has no derivative, and no operand is traced. The fast path does the same
        in `shortcut/code/follow.py`.
        """
        recipe, sources = node.recipe, node.sources
        tracked, bit, traced = 0, 1, False  # This loop runs for every operation, so it is kept short.
        for s in sources:
            if type(s) is Node and s.past is not None:
                traced = traced or s.past.traced
                if type(s.past) is Past:
                    tracked |= bit
            bit += bit
        is_recording = tracking.get()
        if not is_recording:
            return None if not traced else CONSTANT if is_recording is False else TRACED
        cached_needs: Any = recipe.needs
        needs = None if cached_needs is None else cached_needs.get(tracked)
        if needs is None:
            needs = deriving[0].needs(recipe, tracked)
            if cached_needs is None:
                recipe.needs = {tracked: needs}
            else:
                cached_needs[tracked] = needs
        if needs is NOTHING:
            return TRACED if traced else None
        tape_sources: list[Kept] = []
        for s, needed in zip(sources, needs.sources):  # noqa: B905  # `needs.sources` has as many entries as `sources`
            if type(s) is not Node:
                tape_sources.append(s)
            elif not needed:
                past: Any = s.past
                tape_sources.append(None if type(past) is not Past else s if past.reads_result else past)
            elif s.buffer is not None and s.buffer.pins:
                tape_sources.append(deriving[0].own_copy(s))
            else:
                tape_sources.append(s)
        return Past(recipe, tuple(tape_sources), node.offsets, number=number, reads_result=needs.result, traced=traced)

    @property
    def layouts(self) -> tuple[Layout | None, ...]:
        """The layout through which each source was read; None for a number."""
        pairs = zip(self.recipe.forms, self.offsets)  # noqa: B905  # the last offset may be the target's
        return tuple([None if form is None else form.layout.at(offset) for form, offset in pairs])

    @property
    def target(self) -> Layout:
        """The layout through which a store, a scatter or a scan was written."""
        form = self.recipe.target
        assert form is not None
        layout: Layout = form.layout.at(self.offsets[-1])
        return layout

    def __repr__(self) -> str:
        return f"Past({self.recipe.op}, {self.recipe.shape})"


GONE: tuple[Kept, ...] = (None,)  # the sources of a tape node whose residuals were freed


def past_of(source: Kept) -> Past | None:
    """Return the tape node of `source`: a graph node, a tape node, a number or None. Return None if no tape node exists."""
    if type(source) is Node:
        source = source.past
    return source if type(source) is Past else None
