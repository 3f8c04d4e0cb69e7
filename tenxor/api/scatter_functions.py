"""New tensors with values written at indices, or combined there with the old elements."""

from __future__ import annotations

from .._utils.aliases import argument_aliases
from ..tensor import Tensor
from ..tensor.core import Operand
from .creation import asarray

__all__ = ["index_add", "index_copy", "masked_scatter", "scatter", "scatter_add", "scatter_reduce"]


@argument_aliases
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
    """Return `x` with `alpha * source` added at some indices along an axis, as a new tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype, which the result has, too.
    axis : int
        The axis of the indices. Must be given, like `index` and `source`. PyTorch's `dim` is an alias.
    index : Tensor or Sequence[int]
        Indices along the axis; negative ones count from the end.
    source : Tensor
        Broadcasts to the shape of `x.take(index, axis)`.
    alpha : number or Tensor, default 1
        A factor for `source`.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    DTypeError
        If the values have a higher kind than `x` (floats for integers).
    ShapeError
        If `source` does not broadcast.
    ArgumentError
        If `axis`, `index` or `source` is missing.
    AxisError, IndexOutOfRange, BadIndex
        If the axis does not exist, or if an index is invalid, as in `tx.take`.

    Notes
    -----
    All values for an element are added in order, so the bits are the same on any number of threads. This is the adjoint of `tx.take`.
    `x.index_add_` works in place.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.index_add(tx.zeros((3, 2)), 0, [0, 2, 0], tx.ones((3, 2))).tolist()
    [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    """
    return asarray(x).index_add(axis, index, source, alpha=alpha)


@argument_aliases
def index_copy(
    x: Operand,
    /,
    axis: int | None = None,
    index: Operand | None = None,
    source: Operand | None = None,
    *,
    dim: int | None = None,
) -> Tensor:
    """Return `x` with the slices of `source` written at indices along an axis, as a new tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype, which the result has, too.
    axis : int
        The axis of the indices. Must be given, like `index` and `source`. PyTorch's `dim` is an alias.
    index : Tensor or Sequence[int]
        1-D. Negative indices count from the end. Of several slices for one index the last one is kept.
    source : Tensor
        Of the shape of `x.take(index, axis)`.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `source` has another shape, or `index` several axes.
    ArgumentError
        If `axis`, `index` or `source` is missing.
    AxisError, IndexOutOfRange, BadIndex
        If the axis does not exist, or if an index is invalid, as in `tx.take`.

    Notes
    -----
    `x.index_copy_` works in place. (PyTorch's `index_copy`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.index_copy(tx.zeros((3, 2)), 0, [2, 0], tx.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    """
    return asarray(x).index_copy(axis, index, source)


def masked_scatter(x: Operand, mask: Operand, source: Operand, /) -> Tensor:
    """Return `x` with element k of `source` where `mask` is true for the k-th time, in row-major order, as a new tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    mask : Tensor
        A bool tensor that broadcasts to the shape of `x`.
    source : Tensor
        Of the dtype of `x`, of any shape, with an element for each true one.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    DTypeError
        If `mask` is not bool, or if `source` has another dtype than `x`.
    ShapeError
        If `mask` does not broadcast, or if `source` has no elements and `mask` is true for an element.
    IndexOutOfRange
        If `source` has fewer elements; raised when the elements are needed.

    Notes
    -----
    `x.masked_scatter_` works in place. (PyTorch's `masked_scatter`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.masked_scatter(tx.zeros(4), tx.asarray([True, False, True, False]), tx.asarray([5.0, 6.0, 7.0])).tolist()
    [5.0, 0.0, 6.0, 0.0]
    """
    return asarray(x).masked_scatter(mask, source)


@argument_aliases
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

    Parameters
    ----------
    x : Tensor
        Any dtype, which the result has, too. Elements beyond the index stay.
    axis : int
        The axis of the indices. Must be given, like `index`. PyTorch's `dim` is an alias.
    index : Tensor or Sequence[int]
        Of as many axes as `x`. It may be shorter than `x` on axes other than `axis`, and shorter than `src` on every axis. Negative indices
        count from the end.
    src : Tensor
        Elements beyond the index are not read. Nothing is broadcast, but `src` may be one number.
    value : number, optional
        One number in place of `src`.
    reduce : {"add", "multiply"}, optional
        Add all values for an element to the element, or multiply it by them. By default the last of several values is kept.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    ArgumentError
        If `axis`, `index` or the values are missing, or if `reduce` is another value.
    AxisError, IndexOutOfRange, BadIndex
        If the axis does not exist, or if an index is invalid, as in `tx.take`.

    Notes
    -----
    `x.scatter_` works in place. (PyTorch's `scatter`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.scatter(tx.zeros((2, 3)), 1, [[2], [0]], tx.asarray([[1.0], [2.0]])).tolist()
    [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    >>> tx.scatter(tx.zeros((2, 3)), 1, [[2], [0]], value=1.0).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return asarray(x).scatter(axis, index, src, value=value, reduce=reduce)


@argument_aliases
def scatter_add(
    x: Operand, /, axis: int | None = None, index: Operand | None = None, src: Operand | None = None, *, dim: int | None = None
) -> Tensor:
    """Return `x` with elements of `src` added at indices along an axis, as a new tensor: `out[i][index[i][j]] += src[i][j]` for axis 1.

    Parameters
    ----------
    x : Tensor
        Any dtype, which the result has, too.
    axis : int
        The axis of the indices. Must be given, like `index` and `src`. PyTorch's `dim` is an alias.
    index : Tensor or Sequence[int]
        Of as many axes as `x`. It may be shorter than `x` on axes other than `axis`, and shorter than `src` on every axis. Negative indices
        count from the end.
    src : Tensor
        Elements beyond the index are not read. Nothing is broadcast, but `src` may be one number.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    DTypeError
        If the values have a higher kind than `x` (floats for integers).
    ArgumentError
        If `axis`, `index` or `src` is missing.
    ShapeError, AxisError, IndexOutOfRange, BadIndex
        As in `tx.scatter`.

    Notes
    -----
    All values for an element are added in order, so the bits are the same on any number of threads. This is the adjoint of `tx.gather`.
    `x.scatter_add_` works in place. `tx.index_add` adds whole slices, and `x.at[key].add(values)` adds values that broadcast. (PyTorch's
    `scatter_add`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.scatter_add(tx.zeros((2, 3)), 1, [[0, 0], [2, -1]], tx.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 0.0, 0.0], [0.0, 0.0, 7.0]]
    """
    return asarray(x).scatter_add(axis, index, src)


@argument_aliases
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
    """Return `x` with each element reduced with the elements of `src` for it, as a new tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype, which the result has, too. Elements that receive no values stay.
    axis : int
        The axis of the indices. Must be given, like `index`, `src` and `reduce`. PyTorch's `dim` is an alias.
    index : Tensor or Sequence[int]
        The indices along `axis` of the elements that receive the elements of `src`, as in `tx.scatter`.
    src : Tensor
        Elements beyond the index are not read. Nothing is broadcast, but `src` may be one number.
    reduce : {"sum", "prod", "amax", "amin", "max", "min", "mean"}
        The reduction; "max" and "amax" are one, and so are "min" and "amin". "mean" rounds integers down.
    include_self : bool, default True
        If False, an element that receives values is the reduction of these alone.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    ArgumentError
        If `axis`, `index` or `src` is missing, or if `reduce` is another value.
    DTypeError
        If the values have a higher kind than `x`, or if `x` is complex and `reduce` is a maximum or minimum.
    ShapeError, AxisError, IndexOutOfRange, BadIndex
        As in `tx.scatter`.

    Notes
    -----
    `x.scatter_reduce_` works in place.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.asarray([5.0, 5.0, 5.0])
    >>> tx.scatter_reduce(x, 0, [0, 0, 2], tx.asarray([7.0, 9.0, 1.0]), "amax").tolist()
    [9.0, 5.0, 5.0]
    >>> tx.scatter_reduce(x, 0, [0, 0, 2], tx.asarray([7.0, 9.0, 1.0]), "mean", include_self=False).tolist()
    [8.0, 5.0, 1.0]
    """
    return asarray(x).scatter_reduce(axis, index, src, reduce, include_self=include_self)
