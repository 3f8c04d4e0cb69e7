"""Storage: a mutable cell that holds an immutable node.

Whatever reads a storage captures the node that it holds then; whatever writes puts a new node in. So a pending read
keeps seeing what was there when it was made, whatever is written later and whatever is computed first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .dtypes import DType, Number, bfloat16, decoded
from .memory import allocate
from .node import Node, data
from .realize import lock, realize

# What a watched storage holds when a node is written to it: `derivatives/watched.py` says it.
watching: list[Callable[[Storage, Node], Node]] = []


class Storage:
    """The one-dimensional memory that tensors are views of: `size` elements of `dtype`, whatever the shapes of its
    views.

    >>> import tenxor as tx
    >>> t = tx.arange(6).reshape(2, 3)
    >>> t.storage.size, t.T.storage is t.storage, t.T.storage.tolist()
    (6, True, [0, 1, 2, 3, 4, 5])
    """

    __slots__ = ("__weakref__", "node")

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.node.size

    @property
    def shape(self) -> tuple[int]:
        """One axis, always."""
        return (self.node.size,)

    @property
    def ndim(self) -> int:
        """1, always."""
        return 1

    @property
    def dtype(self) -> DType:
        """The elements' type."""
        return self.node.dtype

    @property
    def nbytes(self) -> int:
        """The memory it takes, in bytes."""
        return self.node.size * self.node.dtype.itemsize

    def __len__(self) -> int:
        return self.node.size

    def tolist(self) -> list[Any]:
        """The elements in memory order, as Python numbers."""
        node = self.node  # asked once, as another thread may write meanwhile
        realize(node)
        assert node.buffer is not None
        values: list[Any] = decoded(node.buffer.typed(self.dtype)[: self.size], self.dtype).tolist()
        return values

    def __repr__(self) -> str:
        return f"Storage({self.node.size} x {self.node.dtype})"


_node: Any = Storage.__dict__["node"]  # the slot
put_unwatched: Callable[[Storage, Node], None] = _node.__set__  # by who knows what becomes of the leaf


def _write_watched(storage: Storage, node: Node) -> None:
    _node.__set__(storage, watching[0](storage, node))


class Watched(Storage):
    """A storage that requires a gradient: what is written to it derivatives look at."""

    __slots__ = ()
    node = property(_node.__get__, _write_watched)


class Element(Storage):
    """The storage of one element that was read of another.

    Most elements are read for their number, so a node is made only when somebody asks for it. Until then there is the
    number (`bfloat16` as its bits).
    """

    __slots__ = ("_dtype", "_number")

    def __init__(self, dtype: DType, number: Number) -> None:
        self._dtype = dtype
        self._number: Number | None = number

    @property
    def dtype(self) -> DType:
        """The element's type."""
        return self._dtype

    def known(self, dtype: DType) -> Number | None:
        """The element as a Python number; None once there is a node, which may be written, for another dtype than its own,
        and for one that Python has no numbers of.
        """
        return self._number if dtype is self._dtype and dtype is not bfloat16 else None

    def hold(self, node: Node) -> None:
        """Let it hold this node from now on, without making the one of the number that it replaces."""
        with lock:
            self.node, self._number = node, None

    def __getattr__(self, name: str) -> Any:
        """The node, when first asked for."""
        if name != "node":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with lock:
            if self._number is None:
                return self.node  # another thread was faster
            dtype = self._dtype
            buffer = allocate(dtype.itemsize, "indexing", (), dtype)
            buffer.typed(dtype)[0] = self._number
            node = data(buffer, (), dtype)
            self.node, self._number = node, None
        return node


class WatchedElement(Element):
    """The same as `Watched` of one element."""

    __slots__ = ()
    node = property(_node.__get__, _write_watched)


def known_numbers(cells: Sequence[Storage], dtype: DType) -> list[Number] | None:
    """What `Element.known` says of each of many, asked together; None unless each is known."""
    if dtype is bfloat16 or set(map(type, cells)) != {Element}:
        return None
    found = [x._number for x in cells if x._dtype is dtype]  # type: ignore[attr-defined]
    return found if len(found) == len(cells) and None not in found else None
