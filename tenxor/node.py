"""Nodes: the immutable content of a storage, as data in memory or as a recipe.

A recipe is an operation and what it reads: pairs of a node and a layout (or a Python number, `Scalar`, with None). The
content of a node of shape `s` is its elements in row-major order. A node never changes its content: `realize` only
swaps the recipe for the data. That is all that laziness rests on, so there are two exceptions:

- **Sole ownership.** A write may reuse the old node's memory when nobody else can read that node, or its buffer, any more
  (`ownership.py`).
- **Pins.** A buffer that others may write (`Buffer.pins`) breaks the promise, so no recipe ever reads one: what reads it is
  computed at the call.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from math import prod
from sys import getrefcount
from typing import Final

from .dtypes import DType, Number
from .layout import Layout
from .memory import Buffer
from .ops import Op
from .ops.reductions import Reduction


class Scalar:
    """A Python number that a recipe reads: a run-time argument of its kernel, so no new number needs a new kernel."""

    __slots__ = ("dtype", "value")

    def __init__(self, value: Number, dtype: DType) -> None:
        self.value, self.dtype = value, dtype

    def __repr__(self) -> str:
        return repr(self.value)


class Special:
    """An operation that is neither elementwise nor a reduction."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: str) -> None:
        self.kind = self.name = kind

    def __repr__(self) -> str:
        return self.name


class Scan:
    """A running reduction along the last axis of what it reads: element `i` is the reduction of elements `0..i`."""

    __slots__ = ("kind", "name", "reduction")

    def __init__(self, reduction: Reduction) -> None:
        self.kind, self.name, self.reduction = "scan", f"cumulative_{reduction.name}", reduction

    def __repr__(self) -> str:
        return self.name


class Gather:
    """Elements at indices that are known when it runs. The other sources are the indices along the last axes of what is
    read of the first, one for each of these axes.

    `name` is the operation that asked for it, and `axes` are its numbers of those axes: what errors say.
    """

    __slots__ = ("axes", "kind", "name")

    def __init__(self, name: str, axes: tuple[int, ...]) -> None:
        self.kind, self.name, self.axes = "gather", name, axes

    def __repr__(self) -> str:
        return self.name


class Scatter:
    """A write at indices that are known when it runs: the first source, with the second written through `target`, in the
    order of its elements. The other sources are the indices along the last axes of `target`.

    With a `reduction` each value is combined with what is there; without, the last of those for one place stays there.
    `name` and `axes` are what errors say, as for a gather. `checked` tells that all indices are known to be in range.
    """

    __slots__ = ("axes", "checked", "kind", "name", "reduction")

    def __init__(self, name: str, reduction: Reduction | None, axes: tuple[int, ...], checked: bool) -> None:
        self.kind, self.name, self.reduction, self.axes, self.checked = "scatter", name, reduction, axes, checked

    def __repr__(self) -> str:
        return self.name


gather, scatter = cache(Gather), cache(Scatter)  # the same object each time, as recipes are compared by it

Operation = Op | Reduction | Scan | Gather | Scatter | Special

DATA: Final = Special("data")  # in memory already
POSITION: Final = Special("position")  # element n is n: what arange, eye and random numbers are made of
EMPTY: Final = Special("empty")  # memory with no content yet
STORE: Final = Special("store")  # the first source, with the second written through `target`
REINTERPRET: Final = Special("reinterpret")  # the bytes of the source as another dtype
PLACEHOLDER: Final = Special("placeholder")  # an argument of a function being traced; it has no value
_number = count(1).__next__  # of the next node


class Node:
    """One content: `buffer` if it is in memory, else `op` on `sources` read through `layouts`.

    For a reduction, `shape` is that of the result and the layout of the source has the reduced axes last; for a gather,
    those that are indexed. `target` is the layout that a store, a scatter or a scan writes through. What is `stored` gets memory
    of its own when it is computed, and is never computed in passing. What is `traced` reads an argument of a function being
    traced.

    Of the pending graph below, `count` bounds how many nodes it has (exact for a tree, and where nothing else was made since
    its `first` node was), and `heavy` is the largest memory it reads, in bytes.
    """

    count: int
    first: int
    heavy: int

    __slots__ = (
        "__weakref__",
        "buffer",
        "count",
        "dtype",
        "first",
        "heavy",
        "layouts",
        "op",
        "shape",
        "size",
        "sources",
        "stored",
        "target",
        "traced",
    )

    def __init__(
        self,
        op: Operation,
        shape: tuple[int, ...],
        dtype: DType,
        sources: tuple[Node | Scalar, ...] = (),
        layouts: tuple[Layout | None, ...] = (),
        target: Layout | None = None,
        buffer: Buffer | None = None,
    ) -> None:
        self.op = op
        self.shape = shape
        self.dtype = dtype
        self.sources = sources
        self.layouts = layouts
        self.target = target
        self.buffer = buffer
        self.stored = False
        self.size = prod(shape)
        self.traced = op is PLACEHOLDER
        number = first = _number()
        count, heavy = 1, 0
        for s in sources:
            if type(s) is Node:
                memory = s.buffer
                if memory is None:
                    count += s.count
                    if s.first < first:
                        first = s.first
                    if s.heavy > heavy:
                        heavy = s.heavy
                    if s.traced:
                        self.traced = True
                elif memory.nbytes > heavy:
                    heavy = memory.nbytes
        since = number - first + 1  # nodes were made, so a graph made in one go has no more of them
        self.count = count if count < since else since
        self.first, self.heavy = first, heavy

    references = property(getrefcount)  # asked in C alone: see `ownership.py`

    def settle(self, buffer: Buffer) -> None:
        """Swap the recipe for the data it gave."""
        self.buffer = buffer
        self.op = DATA
        self.sources = ()
        self.layouts = ()
        self.target = None

    def __repr__(self) -> str:
        state = "in memory" if self.buffer is not None else f"pending {self.op}"
        return f"Node({self.shape}, {self.dtype}, {state})"


def writes(op: Operation) -> bool:
    """Whether a recipe is its first source, some elements of which are written."""
    return op is STORE or type(op) is Scatter


def data(buffer: Buffer, shape: tuple[int, ...], dtype: DType) -> Node:
    """A node that is in memory already."""
    return Node(DATA, shape, dtype, buffer=buffer)


def reinterpreted(node: Node, dtype: DType) -> Node:
    """The same bytes as elements of another dtype: the same buffer, at once or when there is one."""
    shape = (node.size * node.dtype.itemsize // dtype.itemsize,)
    if node.buffer is not None:
        return data(node.buffer, shape, dtype)
    if node.op is REINTERPRET:
        source = node.sources[0]
        assert type(source) is Node
        return source if source.dtype is dtype else reinterpreted(source, dtype)
    return Node(REINTERPRET, shape, dtype, (node,), (Layout.contiguous(node.shape),))


def is_pinned(source: Node | Scalar) -> bool:
    """Whether others may write what this source reads."""
    return type(source) is Node and source.buffer is not None and source.buffer.pins > 0
