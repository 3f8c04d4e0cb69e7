"""Python's own protocols: length and iteration, pickling and copying, text and pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import show
from ..dtypes import dtype as dtype_of
from ..realize import realize
from .reducing import Reducing


class Protocols(Reducing):
    """What Python asks of a container, and notebooks of an object."""

    __slots__ = ()

    def __len__(self) -> int:
        if not self.layout.shape:
            raise TypeError("len() of a 0-d tensor; it has no axes")
        return self.layout.shape[0]

    def __iter__(self) -> Any:
        if not self.layout.shape:
            raise TypeError("iteration over a 0-d tensor; it has no axes, use item()")
        layout = self.layout
        return (self._view(layout.index((k,))) for k in range(layout.shape[0]))

    def __contains__(self, value: Any) -> bool:
        value = self.operand(value, "in", quietly=True)
        return value is not NotImplemented and bool((self == value).any())

    def __reduce__(self) -> Any:
        return _unpickled, (self.__class__, self.dtype.name, self.layout.shape, self._bytes())

    def _bytes(self) -> bytes:
        own: Any = self.copy()
        realize(own.storage.node)
        count: int = own.layout.size * self.dtype.itemsize
        return bytes(own.storage.node.buffer.array[:count])

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    # Text and pictures

    def __str__(self) -> str:
        return show.to_string(self)

    def __repr__(self) -> str:
        return show.format_repr(self)

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.layout.shape:
            raise TypeError(
                f"format {spec!r} is for one element; use to_string(fmt=...) for a tensor of shape {self.shape}"
            )
        return format(self.item(), spec)

    def to_string(self, dims: Any = None, fmt: Any = None, **options: Any) -> str:
        """The elements as text: rows on lines, matrices apart by `---`, cubes by `===`, and so on for any rank.

        `dims` picks a slice (an int or None an axis) and `fmt` formats an element, as `"%7.2f"`.

        >>> import tenxor as tx
        >>> tx.arange(4).reshape(2, 2).to_string(fmt="%2d")
        ' 0   1  \\n 2   3  \\n'
        """
        return show.to_string(self, dims, fmt, **options)

    def _repr_html_(self) -> str:
        return show.repr_html(self)


def _unpickled(cls: Any, dtype: str, shape: tuple[int, ...], content: bytes) -> Any:
    d = dtype_of(dtype)
    return cls._copied(np.frombuffer(content, d.numpy).reshape(shape), d)
