"""What is pending, as a pattern: what a plan is known by, and what is given to it when it runs.

Two pending graphs are alike if the same plan computes both. Which memory they read is given, and so are the numbers, and
where in memory each view of it begins: the second row of a matrix is read as the first one is.

While a pattern is taken, and while it is planned, some of its nodes may be computed: a signal's handler may run, or a finalizer, and
either may ask for anything. So plans are made of nodes apart, which nobody else has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..node import UNFINISHED, Node, Recipe, Scalar
from ..ownership import short_looks

if TYPE_CHECKING:
    from typing import Protocol

    class Numbers(Protocol):
        """What stands for the numbers of a pattern: its shapes, strides, and offsets in what is computed itself."""

        def recipe(self, recipe: Recipe) -> Recipe: ...

        def number(self, value: int) -> int: ...


APART = 1 << 48  # elements between stand-ins for offsets: more than those within any memory
_STORED = "stored"  # stands in keys before a node that is


class Pattern:
    """Pending nodes and all that they read, numbered, each after what it reads itself.

    `key` is equal for what is alike: their structure, or words that stand for it (`shortcut/code/walk.py`). The `roots` are those asked
    for. `offsets` are those of all pending nodes, one node after another, in elements; and 0. So many of the nodes were `pending`.
    """

    __slots__ = ("key", "nodes", "offsets", "pending", "roots", "scalars")

    def __init__(
        self, key: object, roots: list[int], nodes: list[Node], scalars: list[Scalar], offsets: list[int], pending: int
    ) -> None:
        self.key, self.roots, self.nodes, self.scalars, self.offsets = key, roots, nodes, scalars, offsets
        self.pending = pending

    def apart(self) -> Pattern | None:
        """The same of nodes that nobody else has, known by its structure; None if it is of none, as some were computed since it was
        asked for.
        """
        twin: dict[Node, Node] = {}
        for node in self.nodes:
            sources, offsets, recipe = node.sources, node.offsets, node.recipe
            if node.buffer is not None:
                twin[node] = node
                continue
            own = twin[node] = Node(recipe, tuple([twin[s] if type(s) is Node else s for s in sources]), offsets)
            own.stored = node.stored
        if not self.is_as_it_was():
            return None
        nodes = list(twin.values())
        return structured([nodes[k] for k in self.roots])

    def is_as_it_was(self) -> bool:
        """Whether what was pending still is, as it was. What is computed once stays so: till now, then, it was."""
        for looks in short_looks:
            return looks.count_waiting(self.nodes) == self.pending
        return [node.buffer for node in self.nodes if node.recipe.op is not UNFINISHED].count(None) == self.pending


# What takes patterns in less time (`shortcut/code/walk.py`): all that one of these pending nodes is made of, or None.
short_walks: list[Callable[..., tuple[Any, ...] | None]] = []


def taken(roots: Sequence[Node]) -> Pattern:
    """The pattern of what `roots`, which are pending, need."""
    for walk in short_walks:
        found = walk(*roots)
        if found is not None:
            return Pattern(*found)
    return structured(roots)


def structured(roots: Sequence[Node]) -> Pattern:
    """The same, known by its structure."""
    return (of_one(roots[0]) if len(roots) == 1 else None) or pattern_of(roots)


def of_one(root: Node) -> Pattern | None:
    """The pattern of a node that reads only what is in memory; else None. Its recipe says all but which sources are the same."""
    nodes: list[Node] = []
    scalars: list[Scalar] = []
    places: list[tuple[Node, int]] = []
    sources, starts = root.sources, root.offsets
    key: object = root.recipe
    if root.buffer is not None or root.recipe.op is UNFINISHED:
        return None  # computed meanwhile, or begun: these may not belong together
    for position, source in enumerate(sources):
        if type(source) is not Node:
            scalars.append(source)  # type: ignore[arg-type]
            continue
        if source.buffer is None:
            return None
        place = source, starts[position]
        if source not in nodes:
            nodes.append(source)
        elif place in places:
            key = key, position, nodes.index(source), places.index(place)
        else:
            key = key, position, nodes.index(source)
        places.append(place)
    nodes.append(root)
    return Pattern(key, [len(nodes) - 1], nodes, scalars, [*starts, 0], 1)


def pattern_of(roots: Sequence[Node]) -> Pattern:
    """The pattern of any roots, known by its structure."""
    nodes: list[Node] = []
    scalars: list[Scalar] = []
    offsets: list[int] = []
    key: list[object] = []
    number_of: dict[Node, int] = {}
    places: dict[tuple[int, int], int] = {}
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
                key.append(_STORED)
            key.append(node.recipe)
            offsets += node.offsets
            for source, offset in zip(node.sources, node.offsets):  # noqa: B905  # the last offset may be the target's
                if type(source) is not Node:
                    scalars.append(source)  # type: ignore[arg-type]
                    continue
                k = number_of[source]
                key.append(k)
                if source.buffer is not None:
                    key.append(places.setdefault((k, offset), len(places)))  # which reads are one
                elif offset:
                    key.append((offset,))  # of what is computed itself
            number_of[stack.pop()] = len(nodes)
            nodes.append(node)
            pending += 1
    numbers = [number_of[root] for root in roots]
    offsets.append(0)
    key += numbers
    return Pattern(tuple(key), numbers, nodes, scalars, offsets, pending)


def scalars_of(nodes: Iterable[Node]) -> Iterator[Scalar]:
    """The scalars that pending nodes read, as a pattern of these numbers them."""
    for node in nodes:
        if node.buffer is None:
            for source in node.sources:
                if type(source) is not Node:
                    yield source  # type: ignore[misc]


def stand_ins(pattern: Pattern, numbers: Numbers | None = None) -> list[Node]:
    """Nodes like those of a pattern, with a number for each offset of memory that is given when it runs: see `given`; and with a scalar
    for each one that is given: two reads of one scalar are two the next time. All else that they have is theirs, or `numbers` that
    stand for it.
    """
    twin: dict[Node, Node] = {}
    places: dict[tuple[Node, int], int] = {}
    end = 0
    for node in pattern.nodes:
        if node.buffer is not None:
            twin[node] = node if numbers is None else Node(numbers.recipe(node.recipe), buffer=node.buffer)
            continue
        start, end = end, end + len(node.offsets)
        offsets = [APART * number for number in range(start + 1, end + 1)]
        for k, (source, offset) in enumerate(zip(node.sources, node.offsets)):  # noqa: B905  # as above
            if type(source) is Node and source.buffer is not None:
                offsets[k] = places.setdefault((source, offset), offsets[k])  # that of the first of reads that are one
            else:
                offsets[k] = offset if numbers is None else numbers.number(offset)
        sources = tuple([twin[s] if type(s) is Node else Scalar(s.value, s.dtype) for s in node.sources])  # type: ignore[union-attr]
        twin[node] = Node(node.recipe if numbers is None else numbers.recipe(node.recipe), sources, tuple(offsets))
        twin[node].stored = node.stored
    return list(twin.values())


def given(offset: int) -> tuple[int, int]:
    """Which of a pattern's offsets one is that was found with stand-ins, and how many elements further; -1 for none."""
    at = int((offset + APART // 2) // APART)
    return at - 1, offset - at * APART
