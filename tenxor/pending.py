"""What is pending is bounded: in how many operations wait, and in how much memory waits with them.

A recipe keeps what it reads. So a long one is computed before it gets longer, where that costs no memory; and a small result
that much memory lives on for is computed when memory grows.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol
from weakref import ref

from .errors import IndexOutOfRange
from .late import LateModule
from .node import EMPTY, HEAVY, LARGE, MAX_PENDING, Node, next_number
from .ops import Op
from .pool import pool
from .realize import lock, making, realize, realize_by_plan, short_ways
from .remembered import Remembered

if TYPE_CHECKING:
    from .plans.pattern import Pattern

ownership, patterns = LateModule("tenxor.ownership"), LateModule("tenxor.plans.pattern")

SMALL = 8  # times smaller than those is a result that is sooner computed than kept waiting
ENOUGH = MAX_PENDING * 3 // 4  # nodes that are computed at once where more were reckoned: to count them again and again costs as much


class Holder(Protocol):
    """What has a node, and may have another one next: a storage."""

    @property
    def node(self) -> Node: ...


def bounded(node: Node) -> None:
    """Compute a part of a new node's pending graph, if that is too large; all of it if it is small work. What has no value, as a
    function is being traced, is left as long as it is.
    """
    if node.traced:
        return
    for make in making:  # what was written down is small work, or much of it is
        make()
    if any([way(node) for way in short_ways[-1:]]):
        return
    pattern = patterns.taken([node])
    if pattern.pending > ENOUGH:
        last = _last(pattern)
        del pattern  # who else holds a node is counted
        realize_by_plan(last)
        if node.buffer is not None:
            node.count = 1
            return
        pattern = patterns.taken([node])
    _count([each for each in pattern.nodes if each.buffer is None])
    del pattern
    if node.count > 4 * MAX_PENDING:  # it is as large as this wherever it is cut
        realize(node)


def _count(order: list[Node]) -> None:
    """Have the nodes of a graph know how many it has, as if they had just been made: then what is made of them next knows it, too."""
    first = next_number() - len(order) + 1
    for below, node in enumerate(order):
        node.count, node.first = below + 1, first


_lasts: Remembered[list[int]] = Remembered(1 << 8)  # by patterns, and the sizes of what these read


def _last(pattern: Pattern) -> list[Node]:
    """The last nodes of a graph that take no more memory than what they are made of: computing them costs none."""
    key = pattern.key, *[node.recipe.nbytes for node in pattern.nodes if node.buffer is not None]
    found = _lasts.get(key)
    if found is None:
        narrow = _narrow([node for node in pattern.nodes if node.buffer is None])
        found = [k for k, node in enumerate(pattern.nodes) if node in narrow]
        _lasts.keep(key, found)
    return [pattern.nodes[k] for k in found]


def _narrow(order: list[Node]) -> set[Node]:
    from .kernel.fuse import narrow  # what makes plans is loaded with the first

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


waiting: list[ref[Node]] = []  # results of recipes that read much memory
OFTEN = 64  # of them may come until somebody looks for those that are gone
_many = OFTEN  # of them, until those that are gone are forgotten


def remember(node: Node) -> None:
    """Take note of a new node, if its recipe keeps much memory. The short way does the same (`shortcut/code/record.py`)."""
    if node.heavy >= LARGE or (node.heavy >= HEAVY and _is_small(node)):
        waiting.append(ref(node))
        if len(waiting) % OFTEN == 0:
            forget_gone()


def forget_gone() -> None:
    """Forget those that wait no more, if there may be many."""
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
    """Compute the small results whose recipes alone keep memory."""
    pool.relieved()
    with lock:
        for one in _accounts()[1]:
            node = one()
            if node is not None:
                with suppress(MemoryError, IndexOutOfRange):  # whoever asks for it will hear
                    realize(node)
    pool.relieved()


def waiting_bytes() -> int:
    """The memory that lives for pending recipes alone, in bytes; of small pieces not all is known."""
    with lock:
        return _accounts()[0]


def have_read(storage: Holder, value: Node | None) -> None:
    """Compute what else waits for memory of which a part is about to be written over, by a value that may be pending itself: else all of
    that would be copied for it. What the value is made of is as large as it at most; all else is computed only if it is small.
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
    with suppress(MemoryError, IndexOutOfRange):  # whoever asks for them will hear
        realize(*nodes)


def _is_little(nodes: list[Node]) -> bool:
    """Whether to compute these is no more work than to copy."""
    order = [node for node in patterns.taken(nodes).nodes if node.buffer is None] if nodes else []
    return len(order) <= 4 * SMALL and all([type(node.op) is Op for node in order])


class _Known:
    """Nodes, each after what it reads: which of them `others` can read than recipes among them, and who holds some of them once more."""

    def __init__(self, nodes: list[Node], once_more: list[Node]) -> None:
        self.nodes = nodes
        self.number_of = {id(node): k for k, node in enumerate(nodes)}
        self.reads = [[self.number_of[id(s)] for s in n.sources if type(s) is Node] if n.buffer is None else [] for n in nodes]
        self.times = Counter(k for each in self.reads for k in each)
        self.times.update([self.number_of[id(node)] for node in once_more])
        once_more.clear()
        self.others = ownership.held(nodes, range(len(nodes)), [self.times[k] for k in range(len(nodes))])

    def at(self, node: Node) -> int:
        """Which of the nodes it is, or -1."""
        return self.number_of.get(id(node), -1)

    def readers(self, node: Node) -> list[int]:
        """Those that wait, and others can read, of what reads a node."""
        found = {self.at(node)}
        for k, each in enumerate(self.reads):
            if not found.isdisjoint(each):
                found.add(k)
        return sorted(k for k in found & self.others if self.nodes[k].buffer is None and not self.nodes[k].traced)


def _graph() -> list[Node]:
    """The nodes that wait and all that they read, each after what it reads itself."""
    from .kernel.fuse import pending

    order = pending([node for one in waiting if (node := one()) is not None])
    return [*dict.fromkeys(s for n in order for s in n.sources if type(s) is Node and s.buffer is not None), *order]


def _accounts() -> tuple[int, list[ref[Node]]]:
    """The bytes that only recipes keep, and the small results that would set some of them free if they were computed."""
    nodes = _graph()
    known = _Known(nodes, [])
    others, reads = known.others, known.reads
    alone = {k for k, node in enumerate(nodes) if node.buffer is not None and k not in others}
    nbytes = sum(memory.nbytes for k in alone if (memory := nodes[k].buffer) is not None)
    needed = {k for k in others if not _is_small(nodes[k])}  # that stays pending, with all it reads
    frees: set[int] = set()
    for k in reversed(range(len(nodes))):
        if k in needed:
            needed.update(reads[k])
    for k, each in enumerate(reads):
        if (k in alone and k not in needed) or not frees.isdisjoint(each):
            frees.add(k)
    return nbytes, [ref(nodes[k]) for k in sorted((frees & others) - needed)]
