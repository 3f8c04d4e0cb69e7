"""Elements picked by index. The indices are read, and checked, at the call."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..creation import asarray
from ..errors import IndexOutOfRange, ShapeError
from ..tensor import Tensor
from ..tensor.arguments import axis_of

__all__ = ["argwhere", "nonzero", "take", "take_along_axis"]


def take(x: Tensor, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """New tensor: the elements of `x` at some indices along an axis (of the flattened tensor for None).

    `indices` may have any shape, which takes the place of the axis. Negative ones count from the end; IndexOutOfRange
    names the axis and the index.

    >>> import tenxor as tx
    >>> tx.take(tx.arange(12).reshape(3, 4), [2, 0], axis=0).tolist()
    [[8, 9, 10, 11], [0, 1, 2, 3]]
    """
    if axis is None:
        x, axis = x.ravel(), 0
    axis = axis_of("take", axis, x.ndim)
    try:
        return x[(*([slice(None)] * axis), asarray(indices))]
    except IndexOutOfRange as error:
        raise IndexOutOfRange(f"take: {error}") from None


def take_along_axis(x: Tensor, indices: Any, /, *, axis: int = -1) -> Tensor:
    """New tensor: along an axis the elements at `indices`, which are given for every place of the other axes (and
    broadcast).

    >>> import tenxor as tx
    >>> t = tx.asarray([[3, 1, 2], [9, 7, 8]])
    >>> tx.take_along_axis(t, t.argmax(axis=1, keepdims=True), axis=1).tolist()
    [[3], [9]]
    """
    axis = axis_of("take_along_axis", axis, x.ndim)
    places = asarray(indices)
    if places.ndim != x.ndim:
        raise ShapeError(
            f"take_along_axis: indices of shape {places.shape} for shape {x.shape}; both need as many axes"
        )
    key: list[Any] = []
    for a, size in enumerate(x.shape):
        if a == axis:
            key.append(places)
            continue
        if places.shape[a] not in (1, size) and size != 1:
            raise ShapeError(
                f"take_along_axis: indices of shape {places.shape} do not broadcast to {x.shape} on axis {a}: {places.shape[a]} and {size}"
            )
        count = size if size != 1 else places.shape[a]
        own = np.arange(size) if size != 1 else np.zeros(count, np.int64)
        key.append(own.reshape([-1 if b == a else 1 for b in range(x.ndim)]))
    return x[tuple(key)]


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """New int64 tensors, one an axis: the indices of the elements that are not zero, in row-major order.

    >>> import tenxor as tx
    >>> [i.tolist() for i in tx.nonzero(tx.asarray([[0, 1], [2, 0]]))]
    [[0, 1], [1, 0]]
    """
    if x.ndim == 0:
        raise ShapeError("nonzero: a 0-d tensor has no indices; use x != 0")
    return tuple(asarray(i) for i in np.nonzero(x.to_numpy()))


def argwhere(x: Tensor, /) -> Tensor:
    """New int64 tensor: the indices of the elements that are not zero, one row each.

    >>> import tenxor as tx
    >>> tx.argwhere(tx.asarray([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    return asarray(np.argwhere(x.to_numpy()))
