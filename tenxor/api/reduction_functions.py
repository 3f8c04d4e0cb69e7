"""Reductions and cumulative reductions as functions.

`axis` is an int, a tuple, or None for all axes; with `keepdims` reduced axes stay with size 1. PyTorch's `dim` and `keepdim` are aliases of
the two. `where` is a bool tensor, true for the elements to reduce; `initial` is one more element; `out` is a tensor for the result, which
is returned.
"""

from __future__ import annotations

from .._utils.aliases import argument_aliases
from ..dtypes import DTypeLike, Number
from ..errors import ArgumentError, ShapeError
from ..graph.spec import memoized_call
from ..layout.coords import validate_int
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes, check_flag, normalize_axis
from ..tensor.core import Operand
from .concatenation import concat
from .creation import asarray, full
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
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
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

    Integers and bools in `x` are multiplied in 64 bits, unless `dtype` is given. `initial` is one more factor, treated as in `sum`. `axis`,
    `keepdims`, `out`, `where` and the errors are as in `sum`. PyTorch's `dim` and `keepdim` are aliases of `axis` and `keepdims`.

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

    `axis` (all by default), `keepdims`, `out`, `initial`, `where` and the errors are as in `max`.

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

    `axis` (all by default), `correction`, `keepdims`, `mean`, `out`, `where`, the dtypes and the errors are as in `var`.

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

    `x` has any dtype. `axis` (None for all), `keepdims`, `out` and `where` are as in `sum`.

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

    `x` has any dtype. `axis` (None for all), `keepdims`, `out` and `where` are as in `sum`.

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

    `axis` (None for all), `keepdims` and `out` are as in `sum`.

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

    NaN counts as the largest. With `keepdims`, reduced axes stay with size 1. `out` receives the result and is returned. Raise ShapeError
    for an axis of size 0, AxisError for several axes or one that does not exist, and DTypeError for complex `x`.

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

    NaN counts as the smallest. `keepdims`, `out` and the errors are as in `argmax`.

    >>> import tenxor as tx
    >>> tx.argmin(tx.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [0, 1]
    """
    return write_out("argmin", out, asarray(x).argmin(axis, keepdims))


# --- along an axis ----------------------------------------------------------------------------------------------------


@memoized_call
@argument_aliases
def cumulative_sum(
    x: Operand,
    /,
    axis: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    dim: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the cumulative sums along an axis, as a new tensor: element `i` is the sum of elements `0..i`. A 1-D tensor needs no `axis`.

    With `include_initial`, the sum of no elements, 0, comes first. `dtype` and `out` are as in `sum`: integers and bools in `x` are summed
    in 64 bits by default. Raise AxisError if the axis does not exist, and ArgumentError without `axis` unless `x` is 1-D.

    >>> import tenxor as tx
    >>> tx.cumulative_sum(tx.arange(4), include_initial=True).tolist()
    [0, 0, 1, 3, 6]
    """
    initial = 0 if check_flag("include_initial", include_initial) else None
    return _cumulate("cumulative_sum", asarray(x), axis, dtype, initial, out)


@memoized_call
@argument_aliases
def cumulative_prod(
    x: Operand,
    /,
    axis: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    dim: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the cumulative products along an axis, as a new tensor: element `i` is the product of elements `0..i`.

    With `include_initial`, the product of no elements, 1, comes first. `axis`, `dtype`, `out` and the errors are as in `cumulative_sum`.

    >>> import tenxor as tx
    >>> tx.cumulative_prod(tx.asarray([2, 3, 4])).tolist()
    [2, 6, 24]
    """
    initial = 1 if check_flag("include_initial", include_initial) else None
    return _cumulate("cumulative_prod", asarray(x), axis, dtype, initial, out)


def _cumulate(op: str, x: Tensor, axis: int | None, dtype: object, initial: Number | None, out: Tensor | None) -> Tensor:
    """Return the cumulative reduction `op` of `x` along `axis`, with `initial` in front unless None, or `out` if given.

    `op` is the name of a method of tensors. Raise ArgumentError if `axis` is None and `x` is not 1-D.
    """
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"{op}: a tensor of shape {x.shape} needs an axis to run along; for all elements use x.ravel()")
    axis_index = normalize_axis(op, 0 if axis is None else axis, x.ndim)
    result: Tensor = getattr(x, op)(axis_index, dtype)
    if initial is not None:
        initial_slice = full((*result.shape[:axis_index], 1, *result.shape[axis_index + 1 :]), initial, dtype=result.dtype)
        result = concat([initial_slice, result], axis_index)
    return write_out(op, out, result)


@memoized_call
@argument_aliases
def cumsum(
    x: Operand, /, axis: int | None = None, *, dtype: DTypeLike | None = None, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the cumulative sums of `x` along `axis`, or of the flattened tensor for None, as a new tensor, as in NumPy.

    The first sum is the first element itself, even -0. `dtype` and `out` are as in `sum`: integers and bools are summed in 64 bits by
    default. Raise AxisError if the axis does not exist.

    >>> import tenxor as tx
    >>> tx.cumsum(tx.asarray([[1, 2], [3, 4]])).tolist()
    [1, 3, 6, 10]
    """
    return write_out("cumsum", out, asarray(x).cumulative_sum(axis, dtype))


@memoized_call
@argument_aliases
def cumprod(
    x: Operand, /, axis: int | None = None, *, dtype: DTypeLike | None = None, dim: int | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the cumulative products of `x` along `axis`, or of the flattened tensor for None, as a new tensor, as in NumPy.

    `dtype`, `out` and the error are as in `cumsum`.

    >>> import tenxor as tx
    >>> tx.cumprod(tx.asarray([[1, 2], [3, 4]])).tolist()
    [1, 2, 6, 24]
    """
    return write_out("cumprod", out, asarray(x).cumulative_prod(axis, dtype))


@memoized_call
@argument_aliases
def diff(
    x: Operand,
    /,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: Tensor | Number | None = None,
    append: Tensor | Number | None = None,
    dim: int | None = None,
) -> Tensor:
    """Return the differences of neighbours along `axis`, taken `n` times, as a new tensor. For bools, return whether they differ.

    `prepend` and `append`, unless None, are joined to `x` first, before and after: tensors that fit as in `concat`, or single numbers.
    Raise AxisError if the axis does not exist, ShapeError if tensors do not fit, and ArgumentError for a negative `n`.

    >>> import tenxor as tx
    >>> tx.diff(tx.asarray([1, 4, 9]), prepend=0).tolist()
    [1, 3, 5]
    """
    x = asarray(x)
    axis = normalize_axis("diff", axis, x.ndim)
    n = validate_int("diff", "n", n)
    if n < 0:
        raise ArgumentError(f"diff: n is {n}; it must be 0 or more")
    pieces = [_end_piece(piece, x, axis) for piece in (prepend, x, append) if piece is not None]
    result = concat(pieces, axis) if len(pieces) > 1 else x
    leading_axes = (slice(None),) * axis
    for _ in range(n if n < result.shape[axis] else result.shape[axis]):  # after as many steps as elements nothing is left
        later, earlier = result[(*leading_axes, slice(1, None))], result[(*leading_axes, slice(None, -1))]
        result = later != earlier if result.dtype.kind == "bool" else later - earlier
    return result if n else result.copy()


def _end_piece(piece: Tensor | Number, x: Tensor, axis: int) -> Tensor:
    """Return `piece`, a tensor or number, as the tensor to join to an end of `x` along `axis`.

    A single number is repeated along the other axes. Raise ShapeError for a 0-d tensor.
    """
    if isinstance(piece, (bool, int, float, complex)):
        return full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), piece, dtype=x.dtype)
    tensor = asarray(piece)
    if tensor.ndim == 0:
        raise ShapeError(f"diff: a 0-d tensor cannot be put at an end of shape {x.shape}; give its item(), or a tensor")
    return tensor
