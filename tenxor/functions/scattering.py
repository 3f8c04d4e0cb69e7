"""New tensors with values written at indices, or joined to what is there."""

from __future__ import annotations

from ..creation import asarray
from ..keywords import spelled
from ..tensor import Tensor
from ..tensor.core import Operand

__all__ = ["index_add", "index_copy", "masked_scatter", "scatter", "scatter_add", "scatter_reduce"]


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
def index_copy(
    x: Operand,
    /,
    axis: int | None = None,
    index: Operand | None = None,
    source: Operand | None = None,
    *,
    dim: int | None = None,
) -> Tensor:
    """New tensor: `x`, with the slices of `source` written at the indices of a 1-D `index` along an axis.

    `source` has the shape of `x.take(index, axis)`. Of several slices for one index the last one stays. Negative indices count
    from the end. Indices raise what those of `tx.take` do; ShapeError for a source of another shape. `x.index_copy_` works in
    place. (PyTorch's `index_copy`.)

    >>> import tenxor as tx
    >>> tx.index_copy(tx.zeros((3, 2)), 0, [2, 0], tx.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    """
    return asarray(x).index_copy(axis, index, source)


def masked_scatter(x: Operand, mask: Operand, source: Operand, /) -> Tensor:
    """New tensor: `x`, with element k of `source` where `mask` is true for the k-th time, in row-major order.

    `mask` is a bool tensor that broadcasts to the shape of `x`; `source` has the dtype of `x`, any shape, and an element for
    each true one: IndexOutOfRange, when the elements are needed, if there are fewer. `x.masked_scatter_` works in place.
    (PyTorch's `masked_scatter`.)

    >>> import tenxor as tx
    >>> tx.masked_scatter(tx.zeros(4), tx.asarray([True, False, True, False]), tx.asarray([5.0, 6.0, 7.0])).tolist()
    [5.0, 0.0, 6.0, 0.0]
    """
    return asarray(x).masked_scatter(mask, source)


@spelled
def scatter(
    x: Operand,
    /,
    axis: int | None = None,
    index: Operand | None = None,
    src: Operand | None = None,
    *,
    dim: int | None = None,
    value: Operand | None = None,
    reduce: str | None = None,
) -> Tensor:
    """New tensor: `x`, with elements of `src` written at indices along an axis: `out[i][index[i][j]] = src[i][j]` for axis 1.

    `index` has as many axes as `x`. It may be shorter than `x` on all axes but this one, and shorter than `src` on all axes; what
    it has no place for stays, or is not read. Nothing is broadcast, but `src` (or `value`) may be one number. Negative indices
    count from the end. Of several values for an element the last one stays; with `reduce`, "add" or "multiply", the element
    takes all. Raises ShapeError, and for indices what `tx.take` does. `x.scatter_` works in place. (PyTorch's `scatter`.)

    >>> import tenxor as tx
    >>> tx.scatter(tx.zeros((2, 3)), 1, [[2], [0]], tx.asarray([[1.0], [2.0]])).tolist()
    [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    >>> tx.scatter(tx.zeros((2, 3)), 1, [[2], [0]], value=1.0).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return asarray(x).scatter(axis, index, src, value=value, reduce=reduce)


@spelled
def scatter_add(
    x: Operand, /, axis: int | None = None, index: Operand | None = None, src: Operand | None = None, *, dim: int | None = None
) -> Tensor:
    """New tensor: `x`, with elements of `src` added at indices along an axis: the opposite of `tx.gather`.

    Shapes are as for `tx.scatter`: the index may be shorter than `x` and `src`, and nothing is broadcast. All values for an
    element are added, in their order, so the bits are the same on any number of threads. Values of a higher kind than `x` (floats
    for integers) raise DTypeError. `x.scatter_add_` works in place. `tx.index_add` adds whole slices, and `x.at[key].add(values)`
    values that broadcast. (PyTorch's `scatter_add`.)

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
    """New tensor: `x`, each element reduced with those of `src` for it, which are found as by `tx.scatter`.

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
