"""Reference counts: which nodes and buffers have owners besides the caller, measured without a Python frame. A node is a value of the
graph, and its buffer is the memory with the data. The runtime asks before it overwrites memory in place.

A node or buffer can only be read through a reference: from a storage, the `sources` of a recipe, a local variable of a thread, the tape, or
a compiled object. So if the reference count equals the number of known references, the object has no further reader. `sys.getrefcount(x)`
gives no exact count: depending on the version, the tier and the compiler of Python, the evaluation stack, an argument or a local variable
may or may not own a reference. So here objects pass through C code alone (`map`, `attrgetter`, and `reference_count`, a property that *is*
`getrefcount`), where each holder owns a reference. An experiment at import counts these holders. If its answers vary, every object counts
as externally referenced.

Three rules keep an answer valid:

- The caller holds the lock, and has unlinked the object from everything within reach of other threads, or writes to it at once. Then no new
  reference can arise.
- A buffer belongs to a single node. Memory visible by another way, such as an export, is externally shared
  (`Buffer.externally_shared`) instead.
- A reference too many, say of a debugger, costs a copy. The reverse never happens: a mistake costs a copy, never a value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any

from .._utils import upcalls
from ..dtypes import boolean
from ..memory.buffer import allocate
from .node import Node, make_data_node

# The reference counts of a storage's node and of the node's buffer
_storage_counts: Any = attrgetter("node.reference_count", "node.buffer.reference_count")
_buffer_count: Any = attrgetter("buffer.reference_count")  # of a node: the buffer
_UNKNOWN = -1  # different from every count
NO_NODES: frozenset[int] = frozenset()  # the empty set of node numbers


def _count_references(items: Sequence[object], numbers: Iterable[int]) -> list[int]:
    """Return the reference count of `items[n]` for each n in `numbers`, as a list. References by `items` and by the measurement are
    included.
    """
    return list(map(getrefcount, map(items.__getitem__, numbers)))


class _Holder:
    """A substitute for a storage in the measurement, with a `node`."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


def _measure_counts() -> tuple[int, tuple[int, int], int]:
    """Measure the reference counts of objects without further owners, as they appear to the functions of this module.

    Return three items: the count of an item of a list; a pair of the counts of the node and the buffer of a storage; the count of the
    buffer of a node. If the measurements vary, return `_UNKNOWN` for each count. The module calls this function once, at import.
    """
    measurements = set()
    for _ in range(5):  # of four rounds each: the interpreter specialises bytecode after fewer
        storage, items = _Holder(make_data_node(allocate(0), (0,), boolean)), [make_data_node(allocate(0), (0,), boolean)]
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
    """Return whether the process has threads of Python besides the current one."""
    return len(sys._current_frames()) > 1


def is_sole_owner(storage: Any) -> bool:
    """Return whether the node in memory of `storage`, and the buffer of the node, have no further owner. A write may then reuse the buffer.

    The caller must hold `compute_lock`.
    """
    return bool(_storage_counts(storage) == _IN_STORAGE) and not (_FREE_THREADED and _has_other_threads())


def find_externally_owned(nodes: list[Node], node_numbers: Sequence[int], recipe_reference_counts: Sequence[int]) -> set[int]:
    """Return the members of `node_numbers`, indices into `nodes`, whose nodes have owners besides the list `nodes` and its recipes.

    The nodes of `nodes` are a pending graph. `recipe_reference_counts` has, for each of the numbers, how many references recipes of the
    list have to the node. The caller must hold `compute_lock`.
    """
    if _FREE_THREADED and _has_other_threads():
        return set(node_numbers)
    if _IN_LIST != _UNKNOWN and type(node_numbers) is list and type(recipe_reference_counts) is list:
        fast_path = upcalls.installed
        if fast_path is not None:
            return set(fast_path.refcount_queries.find_externally_owned(nodes, node_numbers, recipe_reference_counts))
    return {
        k
        for k, n, read_count in zip(node_numbers, _count_references(nodes, node_numbers), recipe_reference_counts, strict=True)
        if n != read_count + _IN_LIST
    }


def is_sole_buffer_owner(holder: Any) -> bool:
    """Return whether the buffer of `holder`, a node or a plan's own `BufferSlot`, has no owner besides `holder`.

    The caller must hold `compute_lock`.
    """
    return bool(_buffer_count(holder) == _IN_NODE) and not (_FREE_THREADED and _has_other_threads())
