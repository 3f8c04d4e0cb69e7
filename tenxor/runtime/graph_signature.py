"""Signatures of pending graphs: the key under which the plan of a graph is cached, and the arguments of the plan. A pending node is a
recipe (an operation with shape, dtypes and layouts) on sources, nodes or scalars. The graph of the requested nodes, the roots, has the
pending nodes at and below the roots. A plan has the compiled kernels for a graph.

Two graphs have equal keys if the same plan computes both. Memory, scalars, and the offsets of views into memory are run-time
arguments: the second row of a matrix is read like the first.

A signal handler or a finalizer may run while a signature is captured or planned, and may compute some of the nodes. So plans are made of a
snapshot (`GraphSignature.snapshot`), whose nodes have no other owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from .._utils import upcalls
from ..graph.node import UNFINISHED, Node, Recipe, Scalar

if TYPE_CHECKING:
    from typing import Protocol

    class Symbolizer(Protocol):
        """A substitution of symbolic sizes for the dims of a signature: shapes, strides, and offsets into nodes of the graph.

        `symbolize_recipe` returns a recipe with symbolic sizes in place of dims, and `symbolize_dim` returns the symbolic size of a dim.
        """

        def symbolize_recipe(self, recipe: Recipe) -> Recipe:
            """Return `recipe` with symbolic sizes in place of dims."""
            ...

        def symbolize_dim(self, value: int) -> int:
            """Return the symbolic size of the dim `value`; 0 and 1 stay."""
            ...


OFFSET_SPACING = 1 << 48  # elements between placeholder offsets, more than a memory has
_STORED_MARK = "stored"  # marks a node with `is_stored` in a key


class GraphSignature:
    """The signature of a pending graph, with all its nodes and the nodes in memory that they read, in topological order.

    `key` is the structure as a recipe or a tuple, or bytes written by the fast path (`fastpath/emit/graph_walk.py`): two graphs with equal
    keys have the same plan. `root_slots` are the numbers of the requested nodes, indices into `nodes`. `nodes`, `scalars` and `offsets` are
    the arguments of the plan. `scalars` has the Python numbers read by the pending nodes, with repetitions (`iter_scalars`). `offsets` has
    the offsets of the pending nodes, in elements, node by node, and a 0 at the end. `pending_count` is the number of pending nodes at the
    time of the capture. `structure_and_dims` is the result of `generic_plans.split_structure`, None before the first request.
    """

    __slots__ = ("key", "nodes", "offsets", "pending_count", "root_slots", "scalars", "structure_and_dims")

    def __init__(
        self, key: object, root_slots: list[int], nodes: list[Node], scalars: list[Scalar], offsets: list[int], pending_count: int
    ) -> None:
        self.key = key
        self.root_slots = root_slots
        self.nodes = nodes
        self.scalars = scalars
        self.offsets = offsets
        self.pending_count = pending_count
        self.structure_and_dims: tuple[object, tuple[int, ...]] | None = None

    def snapshot(self) -> GraphSignature | None:
        """Return a snapshot: a signature of the same graph with new pending nodes without other owners.

        Nodes in memory are shared, and the key is the structure. Return None if a node was computed meanwhile.
        """
        clone_of: dict[Node, Node] = {}
        for node in self.nodes:
            sources, offsets, recipe = node.sources, node.offsets, node.recipe
            if node.buffer is not None:
                clone_of[node] = node
                continue
            clone = clone_of[node] = Node(recipe, tuple([clone_of[s] if type(s) is Node else s for s in sources]), offsets)
            clone.is_stored = node.is_stored
        if not self.is_unchanged():
            return None
        nodes = list(clone_of.values())
        return capture_in_python([nodes[k] for k in self.root_slots])

    def is_unchanged(self) -> bool:
        """Return whether no node was computed since the capture of the signature, by a signal handler, a finalizer or another thread.

        Counting suffices: a computed node never becomes pending again.
        """
        fast_path = upcalls.installed
        if fast_path is not None:
            return fast_path.refcount_queries.count_pending(self.nodes) == self.pending_count
        return [node.buffer for node in self.nodes if node.recipe.op is not UNFINISHED].count(None) == self.pending_count


def capture_signature(roots: Sequence[Node]) -> GraphSignature:
    """Return the signature of the pending nodes `roots` with everything they need, captured by the fast path if possible.

    The key is bytes if the fast path captured the signature, and otherwise a recipe or a tuple.
    """
    fast_path = upcalls.installed
    if fast_path is not None and (fields := fast_path.capture_signature(*roots)) is not None:
        return GraphSignature(*fields)
    return capture_in_python(roots)


def capture_in_python(roots: Sequence[Node]) -> GraphSignature:
    """Return the signature of the pending nodes `roots`, one or more, keyed by its structure: a recipe or a tuple. Never uses the fast
    path.
    """
    if len(roots) == 1 and (signature := capture_single_node(roots[0])) is not None:
        return signature
    return capture_by_traversal(roots)


def capture_single_node(root: Node) -> GraphSignature | None:
    """Return the signature of `root` with a key that is little more than the recipe; None if `root` needs a longer key.

    The recipe must read only memory and scalars, and no node more than twice. The key also tells the equal sources, and the equal views of
    a source. Return None, too, if `root` is not pending any more.
    """
    nodes: list[Node] = []
    scalars: list[Scalar] = []
    sources, starts, recipe = root.sources, root.offsets, root.recipe
    key: object = recipe
    if root.buffer is not None or recipe.op is UNFINISHED:
        return None  # computed meanwhile, or interrupted: then recipe, sources and offsets may not belong together
    for position, source in enumerate(sources):
        if type(source) is not Node:
            scalars.append(source)  # type: ignore[arg-type]
        elif source.buffer is None:
            return None
        elif source not in nodes:
            nodes.append(source)
        elif sources.count(source) > 2:
            return None
        else:
            earlier_position = sources.index(source)
            is_equal_read = starts[earlier_position] == starts[position]
            key = (key, position, nodes.index(source), earlier_position) if is_equal_read else (key, position, nodes.index(source))
    nodes.append(root)
    return GraphSignature(key, [len(nodes) - 1], nodes, scalars, [*starts, 0], 1)


def capture_by_traversal(roots: Sequence[Node]) -> GraphSignature:
    """Return the signature of the pending nodes `roots`, one or more, with the structure as a tuple for the key."""
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
            if node.is_stored:
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
    return GraphSignature(tuple(key), numbers, nodes, scalars, offsets, pending)


def iter_scalars(nodes: Iterable[Node]) -> Iterator[Scalar]:
    """Yield the scalars read by the pending nodes among `nodes`, with repetitions, in the order of `GraphSignature.scalars`."""
    for node in nodes:
        if node.buffer is None:
            for source in node.sources:
                if type(source) is not Node:
                    yield source  # type: ignore[misc]


def make_placeholders(signature: GraphSignature, symbolizer: Symbolizer | None = None) -> list[Node]:
    """Return placeholders for the nodes of `signature`, in the same order, to make a plan of.

    Each offset into memory is a multiple of `OFFSET_SPACING` and encodes its number among the signature's offsets: see `decode_offset`.
    Reads of the same node at the same offset share a number. Offsets into pending nodes stay. Each scalar is a new object, as two reads of
    a scalar may be two scalars in the next graph. With `symbolizer`, symbolic sizes take the place of dims; without, a node in memory is
    its own placeholder.
    """
    placeholder_of: dict[Node, Node] = {}
    offset_of: dict[tuple[Node, int], int] = {}
    end = 0
    for node in signature.nodes:
        if node.buffer is not None:
            placeholder_of[node] = node if symbolizer is None else Node(symbolizer.symbolize_recipe(node.recipe), buffer=node.buffer)
            continue
        start, end = end, end + len(node.offsets)
        offsets = [OFFSET_SPACING * number for number in range(start + 1, end + 1)]
        for k, (source, offset) in enumerate(zip(node.sources, node.offsets)):  # noqa: B905  # as above
            if type(source) is Node and source.buffer is not None:
                offsets[k] = offset_of.setdefault((source, offset), offsets[k])  # equal reads have the offset of the first
            else:
                offsets[k] = offset if symbolizer is None else symbolizer.symbolize_dim(offset)
        sources = tuple(
            [placeholder_of[s] if type(s) is Node else Scalar(s.value, s.dtype) for s in node.sources]  # type: ignore[union-attr]
        )
        placeholder_of[node] = Node(
            node.recipe if symbolizer is None else symbolizer.symbolize_recipe(node.recipe), sources, tuple(offsets)
        )
        placeholder_of[node].is_stored = node.is_stored
    return list(placeholder_of.values())


def decode_offset(offset: int) -> tuple[int, int]:
    """Decode `offset`, in elements, of a plan made of placeholders (`make_placeholders`).

    Return the number of the encoded offset among the signature's offsets, or -1 for none, and the elements to add to the offset.
    """
    number = int((offset + OFFSET_SPACING // 2) // OFFSET_SPACING)
    return number - 1, offset - number * OFFSET_SPACING
