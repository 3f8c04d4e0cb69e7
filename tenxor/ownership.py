"""Who can still read a node, or a buffer: the interpreter counts, and is asked where no frame takes part.

All that can read a node refers to it: a storage, the `sources` of a recipe, a local variable of some thread, what is kept
for a gradient or compiled. So it is nobody's but ours if its references are those that we know of. `sys.getrefcount(x)` does
not tell: whether the evaluation stack, an argument or a local variable owns a reference is up to the version, the tier and
the compiler of Python. So here objects go from hand to hand in C alone (`map`, `attrgetter`, and `references`, a property
that *is* `getrefcount`), where each hand owns what it holds, and how many hands there are is found out at import, by doing
it. Where that gives no clear answer, all is held by others.

Three rules make the answers last:

- Whoever asks holds the lock and has unlinked what it asks about from all that others can reach, or writes to it at once.
  Then nobody can come by a reference who has none.
- A buffer belongs to the one node that holds it. Memory that others see otherwise, such as exports, is pinned instead.
- One reference too many, say of a debugger, costs a copy. Never the other way round: a mistake costs a copy, never a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any
from weakref import ref

from .dtypes import boolean
from .memory import allocate
from .node import Node, data
from .records import NamedTuple

_node_and_buffer: Any = attrgetter("node.references", "node.buffer.references")  # of a storage
_buffer: Any = attrgetter("buffer.references")  # of a node
_UNKNOWN = -1  # no count is equal to it
NOBODY: frozenset[int] = frozenset()  # can read any of some numbered nodes


class Looks(NamedTuple):
    """What looks at many nodes in less time than Python (`shortcut/code/looks.py`): how many of a list are pending, but for those whose
    computation was broken off; which of some weak references to nodes are to such as wait; and what `held` tells.
    """

    count_waiting: Callable[[list[Node]], int]
    still_waiting: Callable[[list[ref[Node]]], list[ref[Node]]]
    held: Callable[[list[Node], list[int], list[int]], list[int]]


short_looks: list[Looks] = []


def _listed(items: Sequence[object], numbers: Iterable[int]) -> list[int]:
    """References to those of the items that have these numbers, with the list's own and the counting's."""
    return list(map(getrefcount, map(items.__getitem__, numbers)))


class _Holder:
    """Stands for a storage, to measure with."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


def _measured() -> tuple[int, tuple[int, int], int]:
    """The counts where nobody else holds anything: of an item of a list, of what a storage holds, of a node's buffer."""
    found = set()
    for _ in range(5):  # of four rounds each: an interpreter adapts after fewer
        storage, items = _Holder(data(allocate(0), (0,), boolean)), [data(allocate(0), (0,), boolean)]
        others: list[object] = []
        for more in range(4):
            (listed,), (node, own), buffer = _listed(items, (0,)), _node_and_buffer(storage), _buffer(items[0])
            found.add((listed - more, (node - more, own - more), buffer - more))
            held = (items[0], items[0].buffer, storage.node, storage.node.buffer)
            others.append([held, list(map(_Holder, held)), dict(enumerate(held))][more % 3])  # type: ignore[arg-type]
            del held
    return found.pop() if len(found) == 1 else (_UNKNOWN, (_UNKNOWN, _UNKNOWN), _UNKNOWN)


_IN_LIST, _IN_STORAGE, _IN_NODE = _measured()
# Without Python's lock a count is the sum of two numbers, which are not read at once: exact while nobody else runs.
_FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()


def _others_run() -> bool:
    return len(sys._current_frames()) > 1


def alone(storage: Any) -> bool:
    """Whether nobody but this storage can read its content, which is in memory. The caller has the lock."""
    return bool(_node_and_buffer(storage) == _IN_STORAGE) and not (_FREE_THREADED and _others_run())


def held(nodes: list[Node], numbers: Sequence[int], reads: Sequence[int]) -> set[int]:
    """Those of the numbered nodes that others can read than this list and recipes in it. The caller has the lock.

    `reads` says how often recipes of the list refer to each of the numbered ones.
    """
    if _FREE_THREADED and _others_run():
        return set(numbers)
    if _IN_LIST != _UNKNOWN and type(numbers) is list and type(reads) is list:
        for looks in short_looks:
            return set(looks.held(nodes, numbers, reads))
    return {k for k, n, read in zip(numbers, _listed(nodes, numbers), reads, strict=True) if n != read + _IN_LIST}


def sole(holder: Any) -> bool:
    """Whether nobody has the buffer of a node, or of a plan's own cell, but this."""
    return bool(_buffer(holder) == _IN_NODE) and not (_FREE_THREADED and _others_run())
