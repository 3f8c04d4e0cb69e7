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
ENOUGH = MAX_PENDING * 3 // 4  # a graph of more pending nodes is computed in part; below, a recount would soon be due, and costs as much


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
    if any([way(node) for way in short_ways[-1:]]):
        return
    pattern = patterns.taken([node])
    if pattern.pending > ENOUGH:
        last = _last(pattern)
        del pattern  # the pattern refers to the nodes, and owners are counted below
        realize_by_plan(last)
        if node.buffer is not None:
            node.count = 1
            return
        pattern = patterns.taken([node])
    _count([each for each in pattern.nodes if each.buffer is None])
    del pattern
    if node.count > 4 * MAX_PENDING:  # no cut makes the graph smaller
        realize(node)


def _count(order: list[Node]) -> None:
    """Set `count` and `first` of the nodes of a graph as if they had just been made in this order, so that new nodes on top count exactly.
    """
    first = next_number() - len(order) + 1
    for below, node in enumerate(order):
        node.count, node.first = below + 1, first


_lasts: Remembered[list[int]] = Remembered(1 << 8)  # keyed by signature and the sizes of the operands in bytes


def _last(pattern: Pattern) -> list[Node]:
    """Return the last nodes of a graph that take no more memory than their operands: to compute them costs no memory."""
    key = pattern.key, *[node.recipe.nbytes for node in pattern.nodes if node.buffer is not None]
    found = _lasts.get(key)
    if found is None:
        narrow = _narrow([node for node in pattern.nodes if node.buffer is None])
        found = [k for k, node in enumerate(pattern.nodes) if node in narrow]
        _lasts.keep(key, found)
    return [pattern.nodes[k] for k in found]


def _narrow(order: list[Node]) -> set[Node]:
    """Return the nodes nearest to the last node of `order` that are no larger than their operands."""
    from .kernel.fuse import narrow  # imports a part of the planner on first use

    thin = narrow(order, lambda node: node.recipe.nbytes)
    found: set[Node] = set()
    seen: set[Node] = set()
    stack = order[-1:]
    while stack:
        node = stack.pop()
        if node.buffer is None and node not in seen:
            seen.add(node)
            if node in thin and node.op is not EMPTY:
                found.add(node)
            else:
                stack.extend(s for s in node.sources if type(s) is Node)
    return found


waiting: list[ref[Node]] = []  # weak references to pending results with large operands
OFTEN = 64  # new entries before the list is cleaned up
_many = OFTEN  # length of the list at the next clean-up


def remember(node: Node) -> None:
    """Record a new node if its recipe keeps much memory alive. The fast path does the same (`shortcut/code/record.py`)."""
    if node.heavy >= LARGE or (node.heavy >= HEAVY and _is_small(node)):
        waiting.append(ref(node))
        if len(waiting) % OFTEN == 0:
            forget_gone()


def forget_gone() -> None:
    """Remove computed and deallocated nodes from `waiting`, if it has doubled since the last time."""
    global _many
    if len(waiting) >= _many:
        looks = ownership.short_looks[:1]
        if looks:
            waiting[:] = looks[0].still_waiting(waiting)
        else:
            waiting[:] = [one for one in waiting if (node := one()) is not None and node.buffer is None]
        _many = max(OFTEN, 2 * len(waiting))


def _is_small(node: Node) -> bool:
    return node.size * node.dtype.itemsize * SMALL <= node.heavy


def relieve() -> None:
    """Compute the small pending results whose recipes hold the last references to some memory.

    Errors of their computation are suppressed: a later request for the value raises them again.
    """
    pool.relieved()
    with lock:
        for one in _accounts()[1]:
            node = one()
            if node is not None:
                with suppress(*EVALUATION_ERRORS):  # a request for the value raises the error again
                    realize(node)
    pool.relieved()


def waiting_bytes() -> int:
    """Return the bytes of memory kept alive by pending recipes alone. Recipes with little memory are not counted."""
    with lock:
        return _accounts()[0]


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
    known = _Known(nodes, [storage.node])
    waiting = [k for k in known.readers(storage.node) if k != root and nodes[k].recipe.nbytes <= storage.node.recipe.nbytes]
    is_read = known.at(storage.node) in known.others
    del known
    if waiting:
        _settled([nodes[k] for k in waiting])
    if not is_read:
        return
    nodes = _graph()
    readers = _Known(nodes, []).readers(storage.node)
    if sum([nodes[k].recipe.nbytes for k in readers]) * SMALL <= storage.node.recipe.nbytes and _is_little([nodes[k] for k in readers]):
        _settled([nodes[k] for k in readers])


def _settled(nodes: list[Node]) -> None:
    with suppress(*EVALUATION_ERRORS):  # a request for the values raises the error again
        realize(*nodes)


def _is_little(nodes: list[Node]) -> bool:
    """Return whether computing `nodes` is no more work than a copy: the operations are few and elementwise."""
    order = [node for node in patterns.taken(nodes).nodes if node.buffer is None] if nodes else []
    return len(order) <= 4 * SMALL and all([type(node.op) is Op for node in order])


class _Known:
    """The references between the nodes of a list in topological order: the operands of each node, and the nodes with owners outside
    (`others`).

    `once_more` lists nodes with a further known owner, such as a storage; the constructor clears this list.
    """

    def __init__(self, nodes: list[Node], once_more: list[Node]) -> None:
        self.nodes = nodes
        self.number_of = {id(node): k for k, node in enumerate(nodes)}
        self.reads = [[self.number_of[id(s)] for s in n.sources if type(s) is Node] if n.buffer is None else [] for n in nodes]
        self.times = Counter(k for each in self.reads for k in each)
        self.times.update([self.number_of[id(node)] for node in once_more])
        once_more.clear()
        self.others = ownership.held(nodes, range(len(nodes)), [self.times[k] for k in range(len(nodes))])

    def at(self, node: Node) -> int:
        """Return the number of `node` in the list, or -1."""
        return self.number_of.get(id(node), -1)

    def readers(self, node: Node) -> list[int]:
        """Return the numbers of pending nodes with outside owners: `node` itself and its dependents, except nodes of traced functions."""
        found = {self.at(node)}
        for k, each in enumerate(self.reads):
            if not found.isdisjoint(each):
                found.add(k)
        return sorted(k for k in found & self.others if self.nodes[k].buffer is None and not self.nodes[k].traced)


def _graph() -> list[Node]:
    """Return the pending graph of the nodes in `waiting`, in topological order, after the nodes in memory that it reads."""
    from .kernel.fuse import pending

    order = pending([node for one in waiting if (node := one()) is not None])
    return [*dict.fromkeys(s for n in order for s in n.sources if type(s) is Node and s.buffer is not None), *order]


def _accounts() -> tuple[int, list[ref[Node]]]:
    """Return the bytes kept alive by pending recipes alone, and the small results whose computation would free memory."""
    nodes = _graph()
    known = _Known(nodes, [])
    others, reads = known.others, known.reads
    alone = {k for k, node in enumerate(nodes) if node.buffer is not None and k not in others}
    nbytes = sum(memory.nbytes for k in alone if (memory := nodes[k].buffer) is not None)
    needed = {k for k in others if not _is_small(nodes[k])}  # large results stay pending, with everything they read
    frees: set[int] = set()
    for k in reversed(range(len(nodes))):
        if k in needed:
            needed.update(reads[k])
    for k, each in enumerate(reads):
        if (k in alone and k not in needed) or not frees.isdisjoint(each):
            frees.add(k)
    return nbytes, [ref(nodes[k]) for k in sorted((frees & others) - needed)]
