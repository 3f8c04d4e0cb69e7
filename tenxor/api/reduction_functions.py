"""Reductions as functions. `axis` is an int, a tuple, or None for all axes; with `keepdims` reduced axes stay with size 1. PyTorch's `dim`
and `keepdim` are aliases of the two. `where` is a bool tensor, true for the elements to reduce; `initial` is one more element; `out` is a
tensor for the result, which is returned.
"""

from __future__ import annotations

from .._utils.aliases import argument_aliases
from ..dtypes import DTypeLike
from ..graph.spec import memoized_call
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes
from ..tensor.core import Operand
from .creation import asarray
from .masked_reductions import mean_where, reduce_where, var_where
from .output_arguments import write_out

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

KeepDims = bool | None


@memoized_call
@argument_aliases
def sum(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: KeepDims = None,
    out: Tensor | None = None,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Tensor:
    """Return the sum of the elements over axes, as a new tensor. The sum starts from 0, so it is never -0.

    Parameters
    ----------
    x : Tensor
        Any dtype. Integers and bools are summed in 64 bits, unless `dtype` is given.
    axis : int or tuple of int, optional
        The axes to reduce; None for all. PyTorch's `dim` is an alias.
    dtype : dtype, optional
        The dtype of the sum.
    keepdims : bool, default False
        If True, reduced axes stay with size 1. PyTorch's `keepdim` is an alias.
    out : Tensor, optional
        A tensor of the result's shape that receives the result and is returned.
    initial : number, optional
        One more term. The dtype of the sum stays; for a sum of integers, the fraction of `initial` is dropped first, as in NumPy.
    where : Tensor, optional
        A bool tensor that broadcasts to the shape of `x`, true for the elements to sum.

    Returns
    -------
    Tensor
        New tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        If an axis does not exist or is named twice, or if `out` or `where` has a wrong shape or dtype.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.sum(tx.asarray([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
    if out is not None or initial is not None or where is not None:
        return reduce_where("sum", x, axis, keepdims, out=out, where=where, initial=initial, dtype=dtype)
    return asarray(x).sum(axis, dtype, keepdims)


@memoized_call
@argument_aliases
def prod(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: KeepDims = None,
    out: Tensor | None = None,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Tensor:
    """Return the product of the elements over axes, as a new tensor; the product of no elements is 1.

    Parameters
    ----------
    x : Tensor
        Any dtype. Integers and bools are multiplied in 64 bits, unless `dtype` is given.
    axis, dtype, keepdims, out, where
        As in `sum`: the axes to reduce (None for all), the dtype of the product, whether reduced axes stay with size 1, the tensor for the
        result, and a mask. PyTorch's `dim` and `keepdim` are aliases of `axis` and `keepdims`.
    initial : number, optional
        One more factor, treated as in `sum`.

    Returns
    -------
    Tensor
        New tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        As in `sum`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.prod(tx.asarray([2, 3, 7])).item()
    42
    """
    if out is not None or initial is not None or where is not None:
        return reduce_where("prod", x, axis, keepdims, out=out, where=where, initial=initial, dtype=dtype)
    return asarray(x).prod(axis, dtype, keepdims)


@memoized_call
@argument_aliases
def max(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: KeepDims = None,
    out: Tensor | None = None,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Tensor:
    """Return the maximum of the elements over axes, as a new tensor, or NaN if an element is NaN.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex. The result has the same dtype.
    axis : int or tuple of int, optional
        The axes to reduce; None for all. PyTorch's `dim` is an alias.
    keepdims : bool, default False
        If True, reduced axes stay with size 1. PyTorch's `keepdim` is an alias.
    out : Tensor, optional
        A tensor of the result's shape that receives the result and is returned.
    initial : number, optional
        One more element to compare.
    where : Tensor, optional
        A bool tensor, true for the elements to compare. It needs `initial`.

    Returns
    -------
    Tensor
        New tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    ShapeError, ArgumentError
        Without `initial`, for an axis of size 0 or a `where`.
    AxisError, DTypeError
        If an axis does not exist or is named twice, or if `x` is complex.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.max(tx.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [5, 7]
    """
    if out is not None or initial is not None or where is not None:
        return reduce_where("max", x, axis, keepdims, out=out, where=where, initial=initial)
    return asarray(x).max(axis, keepdims)


@memoized_call
@argument_aliases
def min(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: KeepDims = None,
    out: Tensor | None = None,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Tensor:
    """Return the minimum of the elements over axes, as a new tensor of the dtype of `x`, or NaN if an element is NaN.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex.
    axis, keepdims, out, initial, where
        As in `max`: the axes to reduce (None for all), whether reduced axes stay with size 1, the tensor for the result, one more element,
        and a mask, which needs `initial`.

    Returns
    -------
    Tensor
        New tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    ShapeError, ArgumentError, AxisError, DTypeError
        As in `max`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.min(tx.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [1, 2]
    """
    if out is not None or initial is not None or where is not None:
        return reduce_where("min", x, axis, keepdims, out=out, where=where, initial=initial)
    return asarray(x).min(axis, keepdims)


amax, amin = max, min


@memoized_call
@argument_aliases
def mean(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    dim: Axes = None,
    keepdim: KeepDims = None,
    out: Tensor | None = None,
    where: Operand | None = None,
) -> Tensor:
    """Return the mean over axes, as a new float or complex tensor; the mean of no elements is NaN.

    Parameters
    ----------
    x : Tensor
        Any dtype. For integers and bools, the result is float64.
    axis, keepdims, out, where
        As in `sum`: the axes to reduce (None for all), whether they stay with size 1, the tensor for the result, and a mask.
    dtype : dtype, optional
        The dtype to which `x` is cast first.

    Returns
    -------
    Tensor
        New tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        As in `sum`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.mean(tx.asarray([1, 2, 3, 4])).item()
    2.5
    """
    if where is not None:
        result = mean_where(asarray(x)._cast_or_self(dtype), axis, keepdims, where)
    else:
        result = asarray(x).mean(axis, keepdims, dtype=dtype)
    return write_out("mean", out, result)


@memoized_call
@argument_aliases
def var(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: KeepDims = None,
    ddof: float | None = None,
    mean: Operand | None = None,
    out: Tensor | None = None,
    where: Operand | None = None,
) -> Tensor:
    """Return the variance over axes as a new float tensor: the sum of squared deviations from the mean, divided by `count - correction`.

    Parameters
    ----------
    x : Tensor
        Any dtype but bool. Integers give float64, and complex numbers the dtype of their real part.
    axis, keepdims, out, where
        As in `sum`: the axes to reduce (None for all), whether they stay with size 1, the tensor for the result, and a mask.
    correction : float, default 0
        As in NumPy; PyTorch's default is 1. The divisor is not below 0. NumPy's `ddof` is an alias.
    mean : Tensor, optional
        The mean if it is known already, as from `tx.mean(x, axis, keepdims=True)`.

    Returns
    -------
    Tensor
        New tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    AxisError, DTypeError, ShapeError, ArgumentError
        If an axis does not exist, if `x` is bool, if `mean` or `where` does not fit `x`, or if `correction` is no number.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.var(tx.asarray([1.0, 2.0, 3.0]), correction=1).item()
    1.0
    """
    if where is not None:
        result = var_where("var", x, axis, correction, keepdims, where, mean)
    else:
        result = asarray(x).var(axis, correction, keepdims, mean=mean)
    return write_out("var", out, result)


@memoized_call
@argument_aliases
def std(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: KeepDims = None,
    ddof: float | None = None,
    mean: Operand | None = None,
    out: Tensor | None = None,
    where: Operand | None = None,
) -> Tensor:
    """Return the standard deviation over axes, the square root of `var`, as a new float tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype but bool, as in `var`.
    axis, correction, keepdims, mean, out, where
        As in `var`: the axes to reduce (None for all), the number subtracted from the count, whether reduced axes stay with size 1, a known
        mean, the tensor for the result, and a mask.

    Returns
    -------
    Tensor
        New tensor with the remaining axes, of the dtype of `var`. With `out`, `out` itself.

    Raises
    ------
    AxisError, DTypeError, ShapeError, ArgumentError
        As in `var`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.std(tx.asarray([1.0, 3.0])).item()
    1.0
    """
    if where is not None:
        result = var_where("std", x, axis, correction, keepdims, where, mean)
    else:
        result = asarray(x).std(axis, correction, keepdims, mean=mean)
    return write_out("std", out, result)


@memoized_call
@argument_aliases
def any(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: KeepDims = None,
    out: Tensor | None = None,
    where: Operand | None = None,
) -> Tensor:
    """Return whether any element over axes is true, that is, not zero, as a new bool tensor; for no elements False.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    axis, keepdims, out, where
        As in `sum`: the axes to reduce (None for all), whether they stay with size 1, the tensor for the result, and a mask.

    Returns
    -------
    Tensor
        New bool tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        As in `sum`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.any(tx.asarray([[0, 0], [0, 1]]), axis=1).tolist()
    [False, True]
    """
    if out is not None or where is not None:
        return reduce_where("any", x, axis, keepdims, out=out, where=where)
    return asarray(x).any(axis, keepdims)


@memoized_call
@argument_aliases
def all(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: KeepDims = None,
    out: Tensor | None = None,
    where: Operand | None = None,
) -> Tensor:
    """Return whether all elements over axes are true, that is, not zero, as a new bool tensor; for no elements True.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    axis, keepdims, out, where
        As in `sum`: the axes to reduce (None for all), whether they stay with size 1, the tensor for the result, and a mask.

    Returns
    -------
    Tensor
        New bool tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        As in `sum`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.all(tx.asarray([[1, 0], [1, 1]]), axis=1).tolist()
    [False, True]
    """
    if out is not None or where is not None:
        return reduce_where("all", x, axis, keepdims, out=out, where=where)
    return asarray(x).all(axis, keepdims)


@memoized_call
@argument_aliases
def count_nonzero(
    x: Operand, /, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: KeepDims = None, out: Tensor | None = None
) -> Tensor:
    """Return how many elements of `x` over axes are not zero, as a new int64 tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    axis, keepdims, out
        As in `sum`: the axes to reduce (None for all), whether they stay with size 1, and the tensor for the result.

    Returns
    -------
    Tensor
        New int64 tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        If an axis does not exist or is named twice, or if `out` has a wrong shape or dtype.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.count_nonzero(tx.asarray([0, 3, 0, 4])).item()
    2
    """
    return write_out("count_nonzero", out, asarray(x).count_nonzero(axis, keepdims))


@memoized_call
@argument_aliases
def argmax(
    x: Operand,
    /,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    dim: int | None = None,
    keepdim: KeepDims = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the index of the first maximum of `x` along `axis`, or in the flattened tensor for None, as a new int64 tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex. NaN counts as the largest.
    axis : int, optional
        The axis to reduce. None reduces all axes, and the index counts elements in row-major order. PyTorch's `dim` is an alias.
    keepdims : bool, default False
        If True, reduced axes stay with size 1. PyTorch's `keepdim` is an alias.
    out : Tensor, optional
        A tensor of the result's shape that receives the result and is returned.

    Returns
    -------
    Tensor
        New int64 tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    ShapeError
        For an axis of size 0, or if `out` has another shape.
    AxisError
        For several axes, or if the axis does not exist.
    DTypeError
        If `x` is complex, or if the dtype of `out` cannot hold integers.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.argmax(tx.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [1, 0]
    """
    return write_out("argmax", out, asarray(x).argmax(axis, keepdims))


@memoized_call
@argument_aliases
def argmin(
    x: Operand,
    /,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    dim: int | None = None,
    keepdim: KeepDims = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the index of the first minimum of `x` along `axis`, or in the flattened tensor for None, as a new int64 tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex. NaN counts as the smallest.
    axis, keepdims, out
        As in `argmax`: the axis to reduce (None for all), whether reduced axes stay with size 1, and the tensor for the result.

    Returns
    -------
    Tensor
        New int64 tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    ShapeError, AxisError, DTypeError
        As in `argmax`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.argmin(tx.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [0, 1]
    """
    return write_out("argmin", out, asarray(x).argmin(axis, keepdims))
