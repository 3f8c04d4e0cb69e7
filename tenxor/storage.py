"""Storage: a mutable cell that holds an immutable node.

Whatever reads a storage captures the node that it holds then; whatever writes puts a new node in. So a pending read
keeps seeing what was there when it was made, whatever is written later and whatever is computed first.
"""

from __future__ import annotations

from typing import Any

from .dtypes import DType, decoded
from .node import Node
from .realize import realize


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
