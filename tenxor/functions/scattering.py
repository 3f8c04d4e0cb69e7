"""New tensors with values written at indices, or combined there with the old elements."""

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
    """Return `x` with `alpha * source` added at some indices along an axis, as a new tensor. This is the adjoint of `tx.take`.

    `source` broadcasts to the shape of `x.take(index, axis)`. Negative indices count from the end. All values for an element are added in
    order, so the bits are the same on any number of threads. `x.index_add_` works in place. Raise DTypeError for values of a higher kind
    than `x` (floats for integers); invalid indices raise the errors of `tx.take`.

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
    """Return `x` with the slices of `source` written at the indices of a 1-D `index` along an axis, as a new tensor.

    `source` has the shape of `x.take(index, axis)`. Of several slices for one index the last one is kept. Negative indices count from the
    end. Invalid indices raise the errors of `tx.take`; a source of another shape raises ShapeError. `x.index_copy_` works in place.
    (PyTorch's `index_copy`.)

    >>> import tenxor as tx
    >>> tx.index_copy(tx.zeros((3, 2)), 0, [2, 0], tx.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    """
    return asarray(x).index_copy(axis, index, source)


def masked_scatter(x: Operand, mask: Operand, source: Operand, /) -> Tensor:
    """Return `x` with element k of `source` where `mask` is true for the k-th time, in row-major order, as a new tensor.

    `mask` is a bool tensor that broadcasts to the shape of `x`. `source` has the dtype of `x`, any shape, and an element for each true one;
    if it has fewer, IndexOutOfRange is raised when the elements are needed. `x.masked_scatter_` works in place. (PyTorch's
    `masked_scatter`.)

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
    """Return `x` with elements of `src` written at indices along an axis, as a new tensor: `out[i][index[i][j]] = src[i][j]` for axis 1.

    `index` has as many axes as `x`. It may be shorter than `x` on axes other than `axis`, and shorter than `src` on every axis. Elements of
    `x` beyond the index stay, and elements of `src` beyond the index are not read. Nothing is broadcast, but `src` (or `value`) may be one
    number. Negative indices count from the end. Of several values for an element the last one is kept; with `reduce`, "add" or "multiply",
    the element is combined with all. Raise ShapeError; invalid indices raise the errors of `tx.take`. `x.scatter_` works in place.
    (PyTorch's `scatter`.)

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
    """Return `x` with elements of `src` added at indices along an axis, as a new tensor. This is the adjoint of `tx.gather`.

    Shapes are as for `tx.scatter`: the index may be shorter than `x` and `src`, and nothing is broadcast. All values for an element are
    added in order, so the bits are the same on any number of threads. Raise DTypeError for values of a higher kind than `x` (floats for
    integers). `x.scatter_add_` works in place. `tx.index_add` adds whole slices, and `x.at[key].add(values)` adds values that broadcast.
    (PyTorch's `scatter_add`.)

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
    """Return `x` with each element reduced with the elements of `src` for it, as a new tensor. `index` assigns them as in `tx.scatter`.

    `reduce` is "sum", "prod", "amax", "amin" (or "max", "min") or "mean", which rounds integers down. Without `include_self`, an element
    that receives values is the reduction of these alone; other elements stay. `x.scatter_reduce_` works in place. Raise ArgumentError for
    another `reduce`.

    >>> import tenxor as tx
    >>> x = tx.asarray([5.0, 5.0, 5.0])
    >>> tx.scatter_reduce(x, 0, [0, 0, 2], tx.asarray([7.0, 9.0, 1.0]), "amax").tolist()
    [9.0, 5.0, 5.0]
    >>> tx.scatter_reduce(x, 0, [0, 0, 2], tx.asarray([7.0, 9.0, 1.0]), "mean", include_self=False).tolist()
    [8.0, 5.0, 1.0]
    """
    return asarray(x).scatter_reduce(axis, index, src, reduce, include_self=include_self)
