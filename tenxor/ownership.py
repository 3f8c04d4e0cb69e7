"""Reference counts: which nodes and buffers have owners besides the caller, measured without a Python frame.

A node or buffer can only be read through a reference: from a storage, the `sources` of a recipe, a local variable of a thread, the tape, or
a compiled object. So if the reference count equals the number of known references, the object has no further reader. `sys.getrefcount(x)`
gives no exact count: depending on the version, the tier and the compiler of Python, the evaluation stack, an argument or a local variable
may or may not own a reference. So here objects pass through C code alone (`map`, `attrgetter`, and `references`, a property that *is*
`getrefcount`), where each holder owns a reference. An experiment at import counts these holders. If its answers vary, every object counts
as externally referenced.

Three rules keep an answer valid:

- The caller holds the lock, and has unlinked the object from everything within reach of other threads, or writes to it at once. Then no new
  reference can arise.
- A buffer belongs to a single node. Memory visible by another way, such as an export, is externally shared (`Buffer.pins`) instead.
- A reference too many, say of a debugger, costs a copy. The reverse never happens: a mistake costs a copy, never a value.
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

_storage_counts: Any = attrgetter("node.references", "node.buffer.references")  # of a storage: the node, and the buffer of the node
_buffer_count: Any = attrgetter("buffer.references")  # of a node: the buffer
_UNKNOWN = -1  # different from every count
NOBODY: frozenset[int] = frozenset()  # the empty set of node numbers


class Looks(NamedTuple):
    """Functions of the fast path (`shortcut/code/looks.py`) that examine many nodes in less time than Python.

    `count_waiting` returns the number of pending nodes in a list, without UNFINISHED nodes. `still_waiting` filters weak references: it
    returns the references to live, pending nodes. `held` does the work of the function `held`, for three lists.
    """

    count_waiting: Callable[[list[Node]], int]
    still_waiting: Callable[[list[ref[Node]]], list[ref[Node]]]
    held: Callable[[list[Node], list[int], list[int]], list[int]]


short_looks: list[Looks] = []


def _count_references(items: Sequence[object], numbers: Iterable[int]) -> list[int]:
    """Return the reference counts of the items with the given numbers, with the references of the list and of the measurement."""
    return list(map(getrefcount, map(items.__getitem__, numbers)))


class _Holder:
    """A substitute for a storage in the measurement."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


def _measure_counts() -> tuple[int, tuple[int, int], int]:
    """Measure the reference counts of objects without further owners: an item of a list, the node and buffer of a storage, the buffer of a
    node.

    If the measurements vary, return `_UNKNOWN` for each count.
    """
    measurements = set()
    for _ in range(5):  # of four rounds each: the interpreter specialises bytecode after fewer
        storage, items = _Holder(data(allocate(0), (0,), boolean)), [data(allocate(0), (0,), boolean)]
        extra_owners: list[object] = []
        for extra_count in range(4):
            (listed,), (node_count, data_count), in_node = _count_references(items, (0,)), _storage_counts(storage), _buffer_count(items[0])
            measurements.add((listed - extra_count, (node_count - extra_count, data_count - extra_count), in_node - extra_count))
            held = (items[0], items[0].buffer, storage.node, storage.node.buffer)
            extra_owners.append([held, list(map(_Holder, held)), dict(enumerate(held))][extra_count % 3])  # type: ignore[arg-type]
            del held
    return measurements.pop() if len(measurements) == 1 else (_UNKNOWN, (_UNKNOWN, _UNKNOWN), _UNKNOWN)


_IN_LIST, _IN_STORAGE, _IN_NODE = _measure_counts()
# Without the GIL a count is the sum of two numbers that are not read at the same time: exact only while no other thread runs.
_FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()


def _has_other_threads() -> bool:
    return len(sys._current_frames()) > 1


def alone(storage: Any) -> bool:
    """Return whether the node in memory of `storage`, and the buffer of the node, have no further owner. The caller must hold the lock."""
    return bool(_storage_counts(storage) == _IN_STORAGE) and not (_FREE_THREADED and _has_other_threads())


def held(nodes: list[Node], numbers: Sequence[int], reads: Sequence[int]) -> set[int]:
    """Return the members of `numbers` whose nodes have owners besides the list `nodes` and its recipes. The caller must hold the lock.

    `reads` has, for each of the numbers, how many references recipes of the list have to the node.
    """
    if _FREE_THREADED and _has_other_threads():
        return set(numbers)
    if _IN_LIST != _UNKNOWN and type(numbers) is list and type(reads) is list:
        for queries in short_looks:
            return set(queries.held(nodes, numbers, reads))
    return {k for k, n, read_count in zip(numbers, _count_references(nodes, numbers), reads, strict=True) if n != read_count + _IN_LIST}


def sole(holder: Any) -> bool:
    """Return whether the buffer of a node, or of a plan's own `Cell`, has no owner besides `holder`. The caller must hold the lock."""
    return bool(_buffer_count(holder) == _IN_NODE) and not (_FREE_THREADED and _has_other_threads())
