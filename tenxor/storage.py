"""Storage: a mutable cell that holds an immutable node.

Whatever reads a storage captures the node that it holds then; whatever writes puts a new node in. So a pending read
keeps seeing what was there when it was made, whatever is written later and whatever is computed first.
"""

from __future__ import annotations

from typing import Any

from .dtypes import DType, Number, bfloat16, decoded
from .layout import Layout
from .memory import allocate
from .node import MAX_PENDING, Node, data
from .ops import OPS
from .realize import lock, realize


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
        realize(self.node)
        buffer = self.node.buffer
        assert buffer is not None
        values: list[Any] = decoded(buffer.typed(self.dtype)[: self.size], self.dtype).tolist()
        return values

    def __repr__(self) -> str:
        return f"Storage({self.node.size} x {self.node.dtype})"


class Element(Storage):
    """The storage of one element that was read of another.

    Most elements are read for their number, so a node is made only when somebody asks for it. Until then there is
    `content`: the number (`bfloat16` as its bits), or the pending node that will have it, and the offset in it.
    """

    __slots__ = ("_dtype", "content")

    def __init__(self, dtype: DType, content: Number | tuple[Node, int] | None) -> None:
        self._dtype, self.content = dtype, content

    @property
    def dtype(self) -> DType:
        """The element's type."""
        return self._dtype

    def known(self, dtype: DType) -> Number | None:
        """The element as a Python number, if it need not be computed; None once there is a node, which may be written,
        and for another dtype than its own.
        """
        content = self.content
        if type(content) is tuple:
            if content[0].buffer is None:
                return None
            content = self._looked_up()
        return content if dtype is self._dtype and dtype is not bfloat16 else None  # type: ignore[return-value]

    def number(self, dtype: DType) -> Number | None:
        """What is `known` once the element is computed, with all that it was read of: more of that is likely to be read."""
        content = self.content
        if type(content) is tuple and content[0].weight >= 0:
            realize(content[0])
        return self.known(dtype)

    def hold(self, node: Node) -> None:
        """Let it hold this node from now on, without making the one of the number that it replaces."""
        with lock:
            self.node, self.content = node, None

    def __getattr__(self, name: str) -> Any:
        """The node, when first asked for."""
        if name != "node":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with lock:
            if self.content is None:
                return self.node  # another thread was faster
            node = self._made()
            self.node, self.content = node, None
        return node

    def _made(self) -> Node:
        content, dtype = self.content, self._dtype
        if type(content) is tuple:
            source, offset = content
            if source.buffer is None:
                node = Node(OPS["positive"], (), dtype, (source,), (Layout((), (), offset),))
                if node.weight > MAX_PENDING:
                    realize(node)
                return node
            content = self._looked_up()
        buffer = allocate(dtype.itemsize, "indexing", (), dtype)
        buffer.typed(dtype)[0] = content
        return data(buffer, (), dtype)

    def _looked_up(self) -> Number | tuple[Node, int] | None:
        """The content with the number in place of the node, which is in memory by now."""
        with lock:
            content = self.content
            if type(content) is tuple:
                source, offset = content
                assert source.buffer is not None
                content = self.content = source.buffer.typed(source.dtype).item(offset)
        return content
