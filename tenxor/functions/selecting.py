"""Elements picked by index, and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..creation import asarray
from ..tensor import Tensor
from ..tensor.arguments import LAST_AXIS, axis_of, one_spelling

__all__ = ["argwhere", "isin", "nonzero", "take", "take_along_axis"]

FEW = 16  # values that are compared one by one; more are sorted first


def take(x: Tensor, indices: Any, /, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """New tensor: the elements of `x` at some indices along an axis (of the flattened tensor for None).

    `indices` may have any shape, which takes the place of the axis. Negative ones count from the end. BadIndex names what
    is no index, IndexOutOfRange the axis and the index; this is raised when the elements are needed if the indices are
    pending, or more than a few thousand.

    >>> import tenxor as tx
    >>> tx.take(tx.arange(12).reshape(3, 4), [2, 0], axis=0).tolist()
    [[8, 9, 10, 11], [0, 1, 2, 3]]
    """
    return asarray(x).take(indices, axis, dim=dim)


def take_along_axis(x: Tensor, indices: Any, /, axis: int = LAST_AXIS, *, dim: int | None = None) -> Tensor:
    """New tensor: along an axis the elements at `indices`, which say for each place of the other axes which ones.

    `indices` has as many axes as `x`; both broadcast on all but this one. Negative indices count from the end. ShapeError
    names the shapes that do not fit, IndexOutOfRange the axis and the index, as of `take`.

    >>> import tenxor as tx
    >>> t = tx.asarray([[3, 1, 2], [9, 7, 8]])
    >>> tx.take_along_axis(t, t.argmax(axis=1, keepdims=True), axis=1).tolist()
    [[3], [9]]
    """
    x = asarray(x)
    axis = axis_of(
        "take_along_axis", one_spelling("take_along_axis", "axis", axis, "dim", dim, default=LAST_AXIS), x.ndim
    )
    return x._gather(x._reach_along("take_along_axis", x.layout, indices, axis))


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """New int64 tensors, one an axis: the indices of the elements that are not zero, in row-major order.

    Raises ShapeError for a 0-d tensor.

    >>> import tenxor as tx
    >>> [i.tolist() for i in tx.nonzero(tx.asarray([[0, 1], [2, 0]]))]
    [[0, 1], [1, 0]]
    """
    return asarray(x).nonzero()


def argwhere(x: Tensor, /) -> Tensor:
    """New int64 tensor of shape `(count, ndim)`: the indices of the elements that are not zero, a row for each.

    >>> import tenxor as tx
    >>> tx.argwhere(tx.asarray([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    return asarray(np.argwhere(asarray(x).to_numpy()))


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """New bool tensor of `x1`'s shape: whether each element equals any element of `x2`, or none if `invert`.

    >>> import tenxor as tx
    >>> tx.isin(tx.arange(5), [1, 3]).tolist()
    [False, True, False, True, False]
    """
    elements, values = asarray(x1), asarray(x2).ravel()
    if values.size > FEW:
        return asarray(np.isin(elements.to_numpy(), values.to_numpy(), invert=invert))
    found: Tensor = (elements.expand_dims(elements.ndim) == values).any(-1)
    return found.logical_not() if invert else found
