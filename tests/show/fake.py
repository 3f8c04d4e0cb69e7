"""A minimal tensor: a flat NumPy array seen through a layout, which counts the elements read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tenxor.layout import Layout


@dataclass(frozen=True)
class FakeDType:
    name: str


@dataclass(eq=False)
class FakeStorage:
    data: Any
    reads: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(eq=False)
class Fake:
    """`fake(array)` makes one; `seen(layout)` is another view of the same storage."""

    storage: FakeStorage
    layout: Layout
    dtype: FakeDType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    def to_numpy(self) -> Any:
        self.storage.reads.append(self.layout.size)
        return self.storage.data[self.layout.offsets()].reshape(self.shape)

    def __getitem__(self, key: Any) -> Fake:
        return self.seen(self.layout.index(key if isinstance(key, tuple) else (key,)))

    def seen(self, layout: Layout) -> Fake:
        return Fake(self.storage, layout, self.dtype)


def fake(values: Any, dtype: str | None = None) -> Fake:
    array = np.asarray(values)
    layout = Layout.contiguous(array.shape)
    return Fake(FakeStorage(array.ravel().copy()), layout, FakeDType(dtype or array.dtype.name))


def counting(*shape: int) -> Fake:
    """0, 1, 2, … in row-major order."""
    return fake(np.arange(int(np.prod(shape))).reshape(shape))
