"""New tensors with values written at indices, or joined to what is there."""

from __future__ import annotations

from ..creation import asarray
from ..keywords import spelled
from ..tensor import Tensor
from ..tensor.core import Operand

__all__ = ["index_add", "scatter_add", "scatter_reduce"]


@spelled
def index_add(
    x: Operand,
    /,
    axis: int | None = None,
    index: Operand | None = None,
    source: Operand | None = None,
    *,
    dim: int | None = None,
    alpha: Operand = 1,
) -> Tensor:
    """New tensor: `x`, with `alpha * source` added at some indices along an axis: the opposite of `tx.take`.

    `source` broadcasts to the shape that `x.take(index, axis)` has. Negative indices count from the end. All values for an
    element are added, in their order, so the bits are the same on any number of threads. `x.index_add_` works in place.
    Values of a higher kind than `x` (floats for integers) raise DTypeError; indices raise what those of `tx.take` do.

    >>> import tenxor as tx
    >>> tx.index_add(tx.zeros((3, 2)), 0, [0, 2, 0], tx.ones((3, 2))).tolist()
    [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    """
    return asarray(x).index_add(axis, index, source, alpha=alpha)


@spelled
def scatter_add(
    x: Operand, /, axis: int | None = None, index: Operand | None = None, src: Operand | None = None, *, dim: int | None = None
) -> Tensor:
    """New tensor: `x`, with elements of `src` added at indices along an axis: the opposite of `tx.take_along_axis`.

    `index` has as many axes as `x`, and broadcasts against it on all but this one; so does `src` against both. All else is as
    for `tx.index_add`. `x.scatter_add_` works in place.

    >>> import tenxor as tx
    >>> tx.scatter_add(tx.zeros((2, 3)), 1, [[0, 0], [2, -1]], tx.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 0.0, 0.0], [0.0, 0.0, 7.0]]
    """
    return asarray(x).scatter_add(axis, index, src)


@spelled
def scatter_reduce(
    x: Operand,
    /,
    axis: int | None = None,
    index: Operand | None = None,
    src: Operand | None = None,
    reduce: str | None = None,
    *,
    dim: int | None = None,
    include_self: bool = True,
) -> Tensor:
    """New tensor: `x`, each element reduced with those of `src` for it, found as by `tx.scatter_add`.

    `reduce` is "sum", "prod", "amax", "amin" (or "max", "min") or "mean", which rounds integers down. Without `include_self`
    an element that takes values is that of these alone; one that takes none stays. `x.scatter_reduce_` works in place.
    ArgumentError for another `reduce`.

    >>> import tenxor as tx
    >>> x = tx.asarray([5.0, 5.0, 5.0])
    >>> tx.scatter_reduce(x, 0, [0, 0, 2], tx.asarray([7.0, 9.0, 1.0]), "amax").tolist()
    [9.0, 5.0, 5.0]
    >>> tx.scatter_reduce(x, 0, [0, 0, 2], tx.asarray([7.0, 9.0, 1.0]), "mean", include_self=False).tolist()
    [8.0, 5.0, 1.0]
    """
    return asarray(x).scatter_reduce(axis, index, src, reduce, include_self=include_self)
