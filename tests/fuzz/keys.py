"""What stands between a tensor of the model and a key: `t.oindex[key]`, `t.at[key]`, `np.s_[key]`."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .counting import row_major, sums

if TYPE_CHECKING:
    from .model import Tensor


class Orthogonal:
    """`t.oindex`: each axis is indexed alone, and the result is a view."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __getitem__(self, key: Any) -> Tensor:
        tensor = self.tensor
        entries = list(key) if isinstance(key, tuple) else [key]
        entries += [None] * (tensor.ndim - len(entries))
        shape, axes, strided = [], [], True
        for entry, size, unit in zip(entries, tensor.shape, row_major(tensor.shape), strict=True):
            if isinstance(entry, list):
                chosen = [range(size)[n] for n in entry]
                strided = False
            elif isinstance(entry, int):
                axes.append([range(size)[entry] * unit])
                continue
            else:
                chosen = list(range(size)[slice(None) if entry is None else entry])
            axes.append([n * unit for n in chosen])
            shape.append(len(chosen))
        return tensor._pick(shape, sums(axes), strided)

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key]._write(value)


class At:
    """`t.at[key]`: copies with something written there."""

    __slots__ = ("key", "tensor")

    def __init__(self, tensor: Tensor, key: Any = ...) -> None:
        self.tensor = tensor
        self.key = key

    def __getitem__(self, key: Any) -> At:
        return At(self.tensor, key)

    def set(self, value: Any) -> Tensor:
        written = self.tensor.copy()
        written[self.key] = value
        return written

    def add(self, value: Any) -> Tensor:
        return self.tensor.copy()._join(self.key, value, operator.add)

    def max(self, value: Any) -> Tensor:
        return self.tensor.copy()._join(self.key, value, max)


class Keys:
    """`np.s_`: the key that stands between its brackets."""

    def __getitem__(self, key: Any) -> Any:
        return key
