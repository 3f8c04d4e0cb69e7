"""Storage: a mutable cell that holds an immutable node, a value in memory or pending. Tensors are views of storages. A read captures the
present node of the storage; a write puts in a new node. So a pending read sees the old content, regardless of later writes and of the order
of computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType, Number, bfloat16, decode_elements
from ..memory.buffer import allocate
from ..runtime.realize import compute_lock, realize
from .node import Node, make_data_node


class Storage:
    """The one-dimensional memory behind tensors, which are views of it: `size` elements of `dtype`, whatever the shapes of the views.

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
        """The shape: always a single axis."""
        return (self.node.size,)

    @property
    def ndim(self) -> int:
        """The number of axes: always 1."""
        return 1

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.node.dtype

    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes."""
        return self.node.size * self.node.dtype.itemsize

    def __len__(self) -> int:
        return self.node.size

    def tolist(self) -> list[Any]:
        """Return the elements in memory order, as Python numbers. Pending content is computed first."""
        node = self.node  # read once: another thread may write meanwhile
        realize(node)
        assert node.buffer is not None
        values: list[Any] = decode_elements(node.buffer.typed_view(self.dtype)[: self.size], self.dtype).tolist()
        return values

    def __repr__(self) -> str:
        return f"Storage({self.node.size} x {self.node.dtype})"


class ScalarStorage(Storage):
    """The storage of a 0-d tensor of `dtype` that was read as an element of another tensor.

    Most elements are read for their value, so the node is made at the first request. Until then the storage has the Python number `number`
    (`bfloat16` as its bits).
    """

    __slots__ = ("_dtype", "_number")

    def __init__(self, dtype: DType, number: Number) -> None:
        self._dtype = dtype
        self._number: Number | None = number

    @property
    def dtype(self) -> DType:
        """The dtype of the element."""
        return self._dtype

    def get_known_number(self, dtype: DType) -> Number | None:
        """Return the element as a Python number of the dtype `dtype`, or None.

        None stands for a storage with a node, which may have been written, for a `dtype` other than the element's, and for bfloat16, a
        dtype without Python numbers.
        """
        return self._number if dtype is self._dtype and dtype is not bfloat16 else None

    def replace_node(self, node: Node) -> None:
        """Replace the content by `node`, in a write over the whole element, without making a node of the number first."""
        with compute_lock:
            self.node, self._number = node, None

    def __getattr__(self, name: str) -> Any:
        """Make the node at the first request for the attribute `node`, and return the node."""
        if name != "node":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with compute_lock:
            if self._number is None:
                return self.node  # another thread was faster
            dtype = self._dtype
            buffer = allocate(dtype.itemsize, "indexing", (), dtype)
            buffer.typed_view(dtype)[0] = self._number
            node = make_data_node(buffer, (), dtype)
            self.node, self._number = node, None
        return node


def get_known_numbers(storages: Sequence[Storage], dtype: DType) -> list[Number] | None:
    """Return the Python numbers of `storages`, as a list, as `ScalarStorage.get_known_number` gives them.

    Return None unless every number is known and of the dtype `dtype`. Return None, too, for no storages.
    """
    if dtype is bfloat16 or set(map(type, storages)) != {ScalarStorage}:
        return None
    numbers = [x._number for x in storages if x._dtype is dtype]  # type: ignore[attr-defined]
    return numbers if len(numbers) == len(storages) and None not in numbers else None
