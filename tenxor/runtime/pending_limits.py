"""Limits on pending work: on the length of a pending graph, and on the memory kept alive by pending recipes. A pending node is a recipe, an
operation not computed yet, on other nodes. The graph of a node has the pending nodes below the node. A recipe keeps operands in memory. So
a long graph is computed in part before the graph grows further, where this takes no additional memory. And a small result that keeps much
memory alive is computed when memory use grows.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Protocol
from weakref import ref

from .._utils import upcalls
from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.lazy import LazyModule
from ..errors import EVALUATION_ERRORS
from ..graph.node import EMPTY, HELD_BYTES_ANY_RESULT, HELD_BYTES_SMALL_RESULT, MAX_PENDING_NODES, Node, next_serial
from ..memory.block_pool import pool
from ..ops import Op
from .call_recording import open_context_count
from .graph_signature import capture_signature
from .realize import compute_lock, realize, realize_by_plan

ownership = LazyModule("tenxor.graph.ownership")

MAX_RECORDED_NODES = 2 * MAX_PENDING_NODES  # nodes in a pending graph while a call is recorded (`call_recording.py`)
SMALL_RESULT_RATIO = 8  # a result this many times smaller than its operands is computed rather than kept pending


class NodeOwner(Protocol):
    """The owner of a node, with `node` as an attribute: a storage, which may get a new node."""

    @property
    def node(self) -> Node:
        """The node, read anew at each access: another thread may put in a new node."""
        ...


def cap_graph_size(node: Node) -> None:
    """Shorten the pending graph of `node`, a new node whose `graph_node_count` exceeds `MAX_PENDING_NODES`, by computing a part.

    The part consists of the nearest nodes below `node` with no more memory than their operands, so memory use does not grow. The fast path
    cuts at operands, too, so a program makes equal graphs with and without the fast path. The whole graph is computed if the fast path can,
    or if no part makes the graph short enough. While a call is recorded, a graph of up to `MAX_RECORDED_NODES` nodes stays. The graph of a
    traced node may have any length, as the node has no value.
    """
    if node.is_traced or (open_context_count.value and count_pending(node) <= MAX_RECORDED_NODES):
        return
    fast_path = upcalls.request()
    if fast_path is not None and fast_path.compute_one_of_several(node):
        return
    if count_pending(node) > MAX_PENDING_NODES:
        realize_by_plan(_find_cut(node))
        if count_pending(node) > 4 * MAX_PENDING_NODES:  # no cut makes the graph smaller
            realize(node)


def count_pending(*roots: Node) -> int:
    """Return the number of pending nodes in the graph of `roots`, pending nodes, and set the `graph_node_count` and `oldest_serial` of
    each as for new nodes.

    `graph_node_count` bounds the number of pending nodes below a node, and limits the size of graphs. The bound is too large where a
    shared node was counted twice, or a part of the graph was computed meanwhile. After this function, new nodes on top count exactly.
    """
    signature = capture_signature(roots)
    if len(roots) == 1 and roots[0].graph_node_count == signature.pending_count:  # counted exactly
        return signature.pending_count
    order = [node for node in signature.nodes if node.buffer is None]
    first_number = next_serial() - len(order) + 1
    for position, node in enumerate(order):
        node.graph_node_count, node.oldest_serial = position + 1, first_number
    return len(order)


_cut_slots: BoundedCache[list[int]] = register(
    "nodes to compute under memory pressure", "positions of nodes, by graph signature and the bytes of the operands"
)(BoundedCache(1 << 8))


def _find_cut(root: Node) -> list[Node]:
    """Return the pending nodes to compute now, so that the graph of `root` becomes shorter without additional memory.

    Each path down from `root` is cut at its first node with no more memory than the operands need (`find_nonexpanding`). The result is
    cached by the signature and the sizes of the operands in memory.
    """
    signature = capture_signature([root])
    key = signature.key, *[node.recipe.nbytes for node in signature.nodes if node.buffer is not None]
    positions = _cut_slots.get(key)
    if positions is None:
        narrow_nodes = _find_narrow_nodes([node for node in signature.nodes if node.buffer is None])
        positions = [k for k, node in enumerate(signature.nodes) if node in narrow_nodes]
        _cut_slots.put(key, positions)
    return [signature.nodes[k] for k in positions]


def _find_narrow_nodes(order: list[Node]) -> set[Node]:
    """Return, on each path down from the last node of `order`, the first node with no more memory than the operands need.

    `order` has the pending nodes of a graph in topological order, sources first; it is empty if another thread has computed the graph.
    """
    from ..lowering.graph_facts import find_nonexpanding  # imports a part of the planner on first use

    narrow_nodes = find_nonexpanding(order, lambda node: node.recipe.nbytes)
    nearest_nodes: set[Node] = set()
    visited: set[Node] = set()
    stack = [source for node in order[-1:] for source in node.sources]
    while stack:
        node = stack.pop()
        if type(node) is Node and node.buffer is None and node not in visited:
            visited.add(node)
            if node in narrow_nodes and node.op is not EMPTY:
                nearest_nodes.add(node)
            else:
                stack += node.sources
    return nearest_nodes


pending_refs: list[ref[Node]] = []  # weak references to pending results with large operands
REFS_PER_CLEANUP = 64  # new entries before the list is cleaned up
_cleanup_length = REFS_PER_CLEANUP  # length of the list at the next clean-up


def record_pending(node: Node) -> None:
    """Add a weak reference to `node`, a new node, to `pending_refs` if its recipe keeps much memory alive.

    The graph of `node` must read a buffer of `HELD_BYTES_ANY_RESULT` bytes, or of `HELD_BYTES_SMALL_RESULT` bytes if `node` is small beside
    that buffer. The fast path does the same (`fastpath/emit/node_creation.py`).
    """
    if node.max_operand_nbytes >= HELD_BYTES_ANY_RESULT or (node.max_operand_nbytes >= HELD_BYTES_SMALL_RESULT and _is_small(node)):
        pending_refs.append(ref(node))
        if len(pending_refs) % REFS_PER_CLEANUP == 0:
            prune_pending_refs()


def forget_pending_refs() -> None:
    """Clear `pending_refs`: memory pressure then computes no node that is pending now. The builder of the package calls this function."""
    pending_refs.clear()


def prune_pending_refs() -> None:
    """Remove computed and deallocated nodes from `pending_refs`, if the list has doubled since the last time."""
    global _cleanup_length
    if len(pending_refs) >= _cleanup_length:
        fast_path = upcalls.installed
        if fast_path is not None:
            pending_refs[:] = fast_path.refcount_queries.filter_pending(pending_refs)
        else:
            pending_refs[:] = [reference for reference in pending_refs if (node := reference()) is not None and node.buffer is None]
        _cleanup_length = max(REFS_PER_CLEANUP, 2 * len(pending_refs))


def _is_small(node: Node) -> bool:
    """Return whether `node` is at least `SMALL_RESULT_RATIO` times smaller than the largest buffer read by the graph of `node`."""
    return node.size * node.dtype.itemsize * SMALL_RESULT_RATIO <= node.max_operand_nbytes


def free_pending_memory() -> None:
    """Compute the small pending results that hold, through their operands, the last references to memory.

    Operations call this function when the pool is under pressure (`Pool.is_under_pressure`). Errors of the computation are suppressed: a
    later request for the value raises them again.
    """
    pool.reset_pressure()
    with compute_lock:
        for reference in _account_memory()[1]:
            node = reference()
            if node is not None:
                with suppress(*EVALUATION_ERRORS):  # a request for the value raises the error again
                    realize(node)
    pool.reset_pressure()


def count_pending_bytes() -> int:
    """Return the bytes of the buffers kept alive by pending results alone, as their operands.

    Only results of graphs that read a large buffer count (`record_pending`). `tx.memory()` reports this number as `waiting`.
    """
    with compute_lock:
        return _account_memory()[0]


def realize_readers(storage: NodeOwner, value: Node | None) -> None:
    """Compute pending readers of `storage`, which is about to be overwritten in part.

    While readers are pending, the write must copy the memory. `value` is the node to write, possibly pending, or None. Readers inside the
    graph of `value` are computed if they have other owners and are no larger than the storage. Readers elsewhere are computed if they are
    small, and no more work than the copy. Errors of the computation are suppressed.
    """
    nodes = [] if value is None or value.buffer is not None else capture_signature([value]).nodes
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
    if sum([nodes[k].recipe.nbytes for k in readers]) * SMALL_RESULT_RATIO <= storage.node.recipe.nbytes and _is_cheap(
        [nodes[k] for k in readers]
    ):
        _try_realize([nodes[k] for k in readers])


def _try_realize(nodes: list[Node]) -> None:
    """Compute `nodes`, and suppress errors of the computation: a later request for a value raises them again."""
    with suppress(*EVALUATION_ERRORS):  # a request for the values raises the error again
        realize(*nodes)


def _is_cheap(nodes: list[Node]) -> bool:
    """Return whether computing the pending nodes `nodes` is no more work than a copy of the memory to be overwritten.

    Their graph must have at most 4 * `SMALL_RESULT_RATIO` operations, each elementwise. Return True for an empty list.
    """
    order = [node for node in capture_signature(nodes).nodes if node.buffer is None] if nodes else []
    return len(order) <= 4 * SMALL_RESULT_RATIO and all([type(node.op) is Op for node in order])


class _ReaderGraph:
    """The references between `nodes`, a list in topological order. Nodes are named by their indices in the list.

    `reads` has the operands of each node, and `externally_owned` the set of nodes with owners outside the list, like a tensor of the user.
    `owned_nodes` lists nodes with a further known owner, a storage for example, not counted as outside; the constructor clears this list.
    """

    def __init__(self, nodes: list[Node], owned_nodes: list[Node]) -> None:
        self.nodes = nodes
        self.index_by_id = {id(node): k for k, node in enumerate(nodes)}
        self.reads = [[self.index_by_id[id(s)] for s in n.sources if type(s) is Node] if n.buffer is None else [] for n in nodes]
        self.reference_counts = Counter(k for operands in self.reads for k in operands)
        self.reference_counts.update([self.index_by_id[id(node)] for node in owned_nodes])
        owned_nodes.clear()
        self.externally_owned = ownership.find_externally_owned(
            nodes, range(len(nodes)), [self.reference_counts[k] for k in range(len(nodes))]
        )

    def index_of(self, node: Node) -> int:
        """Return the index of `node` in the list, or -1 if it is missing."""
        return self.index_by_id.get(id(node), -1)

    def readers(self, node: Node) -> list[int]:
        """Return the indices of the pending nodes with outside owners among `node` and its dependents, in ascending order.

        Nodes of traced functions are left out.
        """
        dependents = {self.index_of(node)}
        for k, operands in enumerate(self.reads):
            if not dependents.isdisjoint(operands):
                dependents.add(k)
        return sorted(k for k in dependents & self.externally_owned if self.nodes[k].buffer is None and not self.nodes[k].is_traced)


def _collect_pending() -> list[Node]:
    """Return the pending graph of the nodes in `pending_refs`, in topological order, after the nodes in memory read by the graph."""
    from ..lowering.fuse import collect_pending

    order = collect_pending([node for reference in pending_refs if (node := reference()) is not None])
    return [*dict.fromkeys(s for n in order for s in n.sources if type(s) is Node and s.buffer is not None), *order]


def _account_memory() -> tuple[int, list[ref[Node]]]:
    """Return a pair: the bytes kept alive by the recipes of `pending_refs` alone, and the small results whose computation would free
    memory.

    The results are given as a list of weak references, sources first.
    """
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
