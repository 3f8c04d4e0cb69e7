"""Limits on pending work: on the length of a pending graph, and on the memory that pending recipes keep alive.

A recipe keeps its operands in memory. So a long graph is computed in part before it grows further, where this takes no additional memory.
And a small result that keeps much memory alive is computed when memory use grows.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol
from weakref import ref

from .errors import EVALUATION_ERRORS
from .late import LateModule
from .node import EMPTY, HEAVY, LARGE, MAX_PENDING, Node, next_number
from .ops import Op
from .pool import pool
from .realize import lock, making, realize, realize_by_plan, short_ways
from .remembered import Remembered

if TYPE_CHECKING:
    from .plans.pattern import Pattern

ownership, patterns = LateModule("tenxor.ownership"), LateModule("tenxor.plans.pattern")

SMALL = 8  # a result this many times smaller than its operands is computed rather than kept pending
# A graph of more pending nodes is computed in part; below, a recount would soon be due, and costs as much.
MAX_RECOUNTED_NODES = MAX_PENDING * 3 // 4


class Holder(Protocol):
    """An owner of a node that may get another node: a storage."""

    @property
    def node(self) -> Node: ...


def bounded(node: Node) -> None:
    """Compute a part of the pending graph of a new node whose `count` exceeds `MAX_PENDING`, or the whole graph if the fast path can.

    The part is made of the nodes nearest to `node` that are no larger than their operands, so memory use does not grow. A node of a traced
    function has no value, so its graph may have any length.
    """
    if node.traced:
        return
    for make in making:  # a graph of this length consists of small work: build the fast path
        make()
    if any([hook(node) for hook in short_ways[-1:]]):
        return
    pattern = patterns.taken([node])
    if pattern.pending > MAX_RECOUNTED_NODES:
        last_nodes = _find_last_nodes(pattern)
        del pattern  # the pattern refers to the nodes, and owners are counted below
        realize_by_plan(last_nodes)
        if node.buffer is not None:
            node.count = 1
            return
        pattern = patterns.taken([node])
    _recount([pending_node for pending_node in pattern.nodes if pending_node.buffer is None])
    del pattern
    if node.count > 4 * MAX_PENDING:  # no cut makes the graph smaller
        realize(node)


def _recount(order: list[Node]) -> None:
    """Set `count` and `first` of the nodes of a graph as if they had just been made in this order, so that new nodes on top count exactly.
    """
    first_number = next_number() - len(order) + 1
    for position, node in enumerate(order):
        node.count, node.first = position + 1, first_number


_last_nodes_of: Remembered[list[int]] = Remembered(1 << 8)  # keyed by signature and the sizes of the operands in bytes


def _find_last_nodes(pattern: Pattern) -> list[Node]:
    """Return the last nodes of a graph that take no more memory than their operands: to compute them costs no memory."""
    key = pattern.key, *[node.recipe.nbytes for node in pattern.nodes if node.buffer is not None]
    positions = _last_nodes_of.get(key)
    if positions is None:
        narrow_nodes = _find_narrow_nodes([node for node in pattern.nodes if node.buffer is None])
        positions = [k for k, node in enumerate(pattern.nodes) if node in narrow_nodes]
        _last_nodes_of.keep(key, positions)
    return [pattern.nodes[k] for k in positions]


def _find_narrow_nodes(order: list[Node]) -> set[Node]:
    """Return the nodes nearest to the last node of `order` that are no larger than their operands."""
    from .kernel.fuse import narrow  # imports a part of the planner on first use

    narrow_nodes = narrow(order, lambda node: node.recipe.nbytes)
    nearest_nodes: set[Node] = set()
    visited: set[Node] = set()
    stack = order[-1:]
    while stack:
        node = stack.pop()
        if node.buffer is None and node not in visited:
            visited.add(node)
            if node in narrow_nodes and node.op is not EMPTY:
                nearest_nodes.add(node)
            else:
                stack.extend(s for s in node.sources if type(s) is Node)
    return nearest_nodes


waiting: list[ref[Node]] = []  # weak references to pending results with large operands
OFTEN = 64  # new entries before the list is cleaned up
_cleanup_length = OFTEN  # length of the list at the next clean-up


def remember(node: Node) -> None:
    """Record a new node if its recipe keeps much memory alive. The fast path does the same (`shortcut/code/record.py`)."""
    if node.heavy >= LARGE or (node.heavy >= HEAVY and _is_small(node)):
        waiting.append(ref(node))
        if len(waiting) % OFTEN == 0:
            forget_gone()


def forget_gone() -> None:
    """Remove computed and deallocated nodes from `waiting`, if it has doubled since the last time."""
    global _cleanup_length
    if len(waiting) >= _cleanup_length:
        queries = ownership.short_looks[:1]
        if queries:
            waiting[:] = queries[0].still_waiting(waiting)
        else:
            waiting[:] = [reference for reference in waiting if (node := reference()) is not None and node.buffer is None]
        _cleanup_length = max(OFTEN, 2 * len(waiting))


def _is_small(node: Node) -> bool:
    return node.size * node.dtype.itemsize * SMALL <= node.heavy


def relieve() -> None:
    """Compute the small pending results whose recipes hold the last references to some memory.

    Errors of their computation are suppressed: a later request for the value raises them again.
    """
    pool.relieved()
    with lock:
        for reference in _account_memory()[1]:
            node = reference()
            if node is not None:
                with suppress(*EVALUATION_ERRORS):  # a request for the value raises the error again
                    realize(node)
    pool.relieved()


def waiting_bytes() -> int:
    """Return the bytes of memory kept alive by pending recipes alone. Recipes with little memory are not counted."""
    with lock:
        return _account_memory()[0]


def have_read(storage: Holder, value: Node | None) -> None:
    """Compute pending readers of a storage that is about to be overwritten in part: as long as they are pending, the write must copy the
    memory.

    `value` is the node to write, possibly pending, or None. Readers inside the graph of `value` are computed if they have other owners and
    are no larger than the storage. Readers elsewhere are computed if they are small, and their computation is no more work than the copy.
    """
    nodes = [] if value is None or value.buffer is not None else patterns.taken([value]).nodes
    root = len(nodes) - 1
    if not any([node is storage.node for node in nodes]):
        nodes.append(storage.node)
    graph = _ReaderGraph(nodes, [storage.node])
    reader_numbers = [k for k in graph.readers(storage.node) if k != root and nodes[k].recipe.nbytes <= storage.node.recipe.nbytes]
    has_other_readers = graph.index_of(storage.node) in graph.externally_owned
    del graph
    if reader_numbers:
        _try_realize([nodes[k] for k in reader_numbers])
    if not has_other_readers:
        return
    nodes = _collect_pending()
    readers = _ReaderGraph(nodes, []).readers(storage.node)
    if sum([nodes[k].recipe.nbytes for k in readers]) * SMALL <= storage.node.recipe.nbytes and _is_cheap([nodes[k] for k in readers]):
        _try_realize([nodes[k] for k in readers])


def _try_realize(nodes: list[Node]) -> None:
    with suppress(*EVALUATION_ERRORS):  # a request for the values raises the error again
        realize(*nodes)


def _is_cheap(nodes: list[Node]) -> bool:
    """Return whether computing `nodes` is no more work than a copy: the operations are few and elementwise."""
    order = [node for node in patterns.taken(nodes).nodes if node.buffer is None] if nodes else []
    return len(order) <= 4 * SMALL and all([type(node.op) is Op for node in order])


class _ReaderGraph:
    """The references between the nodes of a list in topological order: the operands of each node, and the nodes with owners outside
    (`externally_owned`).

    `owned_nodes` lists nodes with a further known owner, such as a storage; the constructor clears this list.
    """

    def __init__(self, nodes: list[Node], owned_nodes: list[Node]) -> None:
        self.nodes = nodes
        self.index_by_id = {id(node): k for k, node in enumerate(nodes)}
        self.reads = [[self.index_by_id[id(s)] for s in n.sources if type(s) is Node] if n.buffer is None else [] for n in nodes]
        self.reference_counts = Counter(k for operands in self.reads for k in operands)
        self.reference_counts.update([self.index_by_id[id(node)] for node in owned_nodes])
        owned_nodes.clear()
        self.externally_owned = ownership.held(nodes, range(len(nodes)), [self.reference_counts[k] for k in range(len(nodes))])

    def index_of(self, node: Node) -> int:
        """Return the number of `node` in the list, or -1."""
        return self.index_by_id.get(id(node), -1)

    def readers(self, node: Node) -> list[int]:
        """Return the numbers of pending nodes with outside owners: `node` itself and its dependents, except nodes of traced functions."""
        dependents = {self.index_of(node)}
        for k, operands in enumerate(self.reads):
            if not dependents.isdisjoint(operands):
                dependents.add(k)
        return sorted(k for k in dependents & self.externally_owned if self.nodes[k].buffer is None and not self.nodes[k].traced)


def _collect_pending() -> list[Node]:
    """Return the pending graph of the nodes in `waiting`, in topological order, after the nodes in memory that it reads."""
    from .kernel.fuse import pending

    order = pending([node for reference in waiting if (node := reference()) is not None])
    return [*dict.fromkeys(s for n in order for s in n.sources if type(s) is Node and s.buffer is not None), *order]


def _account_memory() -> tuple[int, list[ref[Node]]]:
    """Return the bytes kept alive by pending recipes alone, and the small results whose computation would free memory."""
    nodes = _collect_pending()
    graph = _ReaderGraph(nodes, [])
    externally_owned, reads = graph.externally_owned, graph.reads
    freeable = {k for k, node in enumerate(nodes) if node.buffer is not None and k not in externally_owned}
    nbytes = sum(memory.nbytes for k in freeable if (memory := nodes[k].buffer) is not None)
    needed = {k for k in externally_owned if not _is_small(nodes[k])}  # large results stay pending, with everything they read
    freeing: set[int] = set()
    for k in reversed(range(len(nodes))):
        if k in needed:
            needed.update(reads[k])
    for k, operands in enumerate(reads):
        if (k in freeable and k not in needed) or not freeing.isdisjoint(operands):
            freeing.add(k)
    return nbytes, [ref(nodes[k]) for k in sorted((freeing & externally_owned) - needed)]
