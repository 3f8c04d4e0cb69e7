"""Patterns: pending graphs in canonical form. A pattern has the signature of the graph, the key of its plan, and the arguments of the plan.

Two graphs have equal signatures if the same plan computes both. Memory, scalars, and the offsets of views into memory are run-time
arguments: the second row of a matrix is read like the first.

A signal handler or a finalizer may run while a pattern is captured or planned, and may compute some of the nodes. So plans are made of a
snapshot (`Pattern.apart`), whose nodes have no other owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..node import UNFINISHED, Node, Recipe, Scalar
from ..ownership import short_looks

if TYPE_CHECKING:
    from typing import Protocol

    class Numbers(Protocol):
        """A substitution of symbolic sizes for the dims of a pattern: shapes, strides, and offsets into nodes of the graph."""

        def recipe(self, recipe: Recipe) -> Recipe: ...

        def number(self, value: int) -> int: ...


OFFSET_SPACING = 1 << 48  # elements between placeholder offsets: larger than any memory
_STORED_MARK = "stored"  # marks a node with `stored` in a key


class Pattern:
    """A pending graph: its nodes and the memory they read, numbered in topological order.

    `key` is the signature: the structure as a recipe or a tuple, or bytes written by the fast path (`shortcut/code/walk.py`). `roots` are
    the numbers of the requested nodes. `nodes`, `scalars` and `offsets` are the arguments of the plan. `offsets` has the offsets of the
    pending nodes, in elements, node by node, and a 0 at the end. `pending` is the number of pending nodes at the time of the capture.
    """

    __slots__ = ("key", "nodes", "offsets", "pending", "roots", "scalars")

    def __init__(
        self, key: object, roots: list[int], nodes: list[Node], scalars: list[Scalar], offsets: list[int], pending: int
    ) -> None:
        self.key, self.roots, self.nodes, self.scalars, self.offsets = key, roots, nodes, scalars, offsets
        self.pending = pending

    def apart(self) -> Pattern | None:
        """Return a snapshot: the same graph of new nodes without other owners, keyed by structure; None if a node was computed meanwhile.
        """
        clone_of: dict[Node, Node] = {}
        for node in self.nodes:
            sources, offsets, recipe = node.sources, node.offsets, node.recipe
            if node.buffer is not None:
                clone_of[node] = node
                continue
            clone = clone_of[node] = Node(recipe, tuple([clone_of[s] if type(s) is Node else s for s in sources]), offsets)
            clone.stored = node.stored
        if not self.is_as_it_was():
            return None
        nodes = list(clone_of.values())
        return structured([nodes[k] for k in self.roots])

    def is_as_it_was(self) -> bool:
        """Return whether no node was computed since the capture of the pattern. Counting suffices: a computed node never becomes pending
        again.
        """
        for queries in short_looks:
            return queries.count_waiting(self.nodes) == self.pending
        return [node.buffer for node in self.nodes if node.recipe.op is not UNFINISHED].count(None) == self.pending


# The fast path's `taken` (`shortcut/code/walk.py`): takes the roots, and returns the arguments of `Pattern`, or None to decline.
short_walks: list[Callable[..., tuple[Any, ...] | None]] = []


def taken(roots: Sequence[Node]) -> Pattern:
    """Return the pattern of the pending nodes `roots` with everything they need, captured by the fast path if possible."""
    for walk in short_walks:
        fields = walk(*roots)
        if fields is not None:
            return Pattern(*fields)
    return structured(roots)


def structured(roots: Sequence[Node]) -> Pattern:
    """Return the pattern of the pending nodes `roots`, keyed by its structure. Never uses the fast path."""
    return (pattern_of_one(roots[0]) if len(roots) == 1 else None) or pattern_of(roots)


def pattern_of_one(root: Node) -> Pattern | None:
    """Return the pattern of a node that reads only memory and scalars; None for another node.

    The recipe is nearly the whole key. Equal sources, and equal views of a source, are the only additions.
    """
    nodes: list[Node] = []
    scalars: list[Scalar] = []
    reads: list[tuple[Node, int]] = []
    sources, starts = root.sources, root.offsets
    key: object = root.recipe
    if root.buffer is not None or root.recipe.op is UNFINISHED:
        return None  # computed meanwhile, or interrupted: then recipe, sources and offsets may not belong together
    for position, source in enumerate(sources):
        if type(source) is not Node:
            scalars.append(source)  # type: ignore[arg-type]
            continue
        if source.buffer is None:
            return None
        read = source, starts[position]
        if source not in nodes:
            nodes.append(source)
        elif read in reads:
            key = key, position, nodes.index(source), reads.index(read)
        else:
            key = key, position, nodes.index(source)
        reads.append(read)
    nodes.append(root)
    return Pattern(key, [len(nodes) - 1], nodes, scalars, [*starts, 0], 1)


def pattern_of(roots: Sequence[Node]) -> Pattern:
    """Return the pattern of one or more pending roots, keyed by its structure as a tuple."""
    nodes: list[Node] = []
    scalars: list[Scalar] = []
    offsets: list[int] = []
    key: list[object] = []
    number_of: dict[Node, int] = {}
    read_ids: dict[tuple[int, int], int] = {}
    pending = 0
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in number_of:
            stack.pop()
            continue
        for source in node.sources:
            if type(source) is Node and source not in number_of:
                if source.buffer is None:
                    stack.append(source)
                    break
                number_of[source] = len(nodes)
                nodes.append(source)
                key.append(source.recipe.dtype)
        else:
            if node.stored:
                key.append(_STORED_MARK)
            key.append(node.recipe)
            offsets += node.offsets
            for source, offset in zip(node.sources, node.offsets):  # noqa: B905  # the last offset may be the target's
                if type(source) is not Node:
                    scalars.append(source)  # type: ignore[arg-type]
                    continue
                k = number_of[source]
                key.append(k)
                if source.buffer is not None:
                    key.append(read_ids.setdefault((k, offset), len(read_ids)))  # equal ids for reads of the same node at the same offset
                elif offset:
                    key.append((offset,))  # an offset into a node that the graph computes is part of the structure
            number_of[stack.pop()] = len(nodes)
            nodes.append(node)
            pending += 1
    numbers = [number_of[root] for root in roots]
    offsets.append(0)
    key += numbers
    return Pattern(tuple(key), numbers, nodes, scalars, offsets, pending)


def scalars_of(nodes: Iterable[Node]) -> Iterator[Scalar]:
    """Yield the scalars that pending `nodes` read, in the order of `Pattern.scalars`."""
    for node in nodes:
        if node.buffer is None:
            for source in node.sources:
                if type(source) is not Node:
                    yield source  # type: ignore[misc]


def stand_ins(pattern: Pattern, numbers: Numbers | None = None) -> list[Node]:
    """Return placeholders for the nodes of a pattern, to make a plan of.

    Each offset into memory is a multiple of `OFFSET_SPACING` and encodes its number among the pattern's offsets: see `given`. Reads of the
    same node at the same offset share a number. Each scalar is a new object, as two reads of a scalar may be two scalars in the next graph.
    With `numbers`, symbolic sizes take the place of dims.
    """
    placeholder_of: dict[Node, Node] = {}
    offset_of: dict[tuple[Node, int], int] = {}
    end = 0
    for node in pattern.nodes:
        if node.buffer is not None:
            placeholder_of[node] = node if numbers is None else Node(numbers.recipe(node.recipe), buffer=node.buffer)
            continue
        start, end = end, end + len(node.offsets)
        offsets = [OFFSET_SPACING * number for number in range(start + 1, end + 1)]
        for k, (source, offset) in enumerate(zip(node.sources, node.offsets)):  # noqa: B905  # as above
            if type(source) is Node and source.buffer is not None:
                offsets[k] = offset_of.setdefault((source, offset), offsets[k])  # equal reads have the offset of the first
            else:
                offsets[k] = offset if numbers is None else numbers.number(offset)
        sources = tuple(
            [placeholder_of[s] if type(s) is Node else Scalar(s.value, s.dtype) for s in node.sources]  # type: ignore[union-attr]
        )
        placeholder_of[node] = Node(node.recipe if numbers is None else numbers.recipe(node.recipe), sources, tuple(offsets))
        placeholder_of[node].stored = node.stored
    return list(placeholder_of.values())


def given(offset: int) -> tuple[int, int]:
    """Decode an offset found with placeholders: return the number of the pattern's offset, or -1 for none, and the elements to add."""
    number = int((offset + OFFSET_SPACING // 2) // OFFSET_SPACING)
    return number - 1, offset - number * OFFSET_SPACING
