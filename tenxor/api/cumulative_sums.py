"""Cumulative sums and products as functions, and differences of neighbours."""

from __future__ import annotations

from .._utils.aliases import argument_aliases
from ..dtypes import DTypeLike, Number
from ..errors import ArgumentError, ShapeError
from ..graph.spec import memoized_call
from ..layout.coords import validate_int
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, normalize_axis
from ..tensor.core import Operand
from .concatenation import concat
from .creation import asarray, full
from .output_arguments import write_out

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff"]


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

    Parameters
    ----------
    x : Tensor
        Any dtype. Integers and bools are summed in 64 bits, unless `dtype` is given.
    axis : int, optional
        The axis along which the sums run. PyTorch's `dim` is an alias.
    dtype : dtype, optional
        The dtype of the sums.
    include_initial : bool, default False
        If True, the sum of no elements, 0, comes first, and the axis is longer by 1.
    out : Tensor, optional
        A tensor of the result's shape that receives the result and is returned.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`, but for `include_initial`. With `out`, `out` itself.

    Raises
    ------
    AxisError
        If the axis does not exist.
    ArgumentError
        Without `axis`, unless `x` is 1-D.
    ShapeError, DTypeError
        If `out` has another shape, or a dtype that cannot hold the result.

    Examples
    --------
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

    Parameters
    ----------
    x : Tensor
        Any dtype. Integers and bools are multiplied in 64 bits, unless `dtype` is given.
    axis, dtype, out
        As in `cumulative_sum`: the axis, which a 1-D tensor does not need, the dtype of the products, and the tensor for the result.
    include_initial : bool, default False
        If True, the product of no elements, 1, comes first, and the axis is longer by 1.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`, but for `include_initial`. With `out`, `out` itself.

    Raises
    ------
    AxisError, ArgumentError, ShapeError, DTypeError
        As in `cumulative_sum`.

    Examples
    --------
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

    The first sum is the first element itself, even -0.

    Parameters
    ----------
    x : Tensor
        Any dtype. Integers and bools are summed in 64 bits, unless `dtype` is given.
    axis : int, optional
        The axis along which the sums run. None flattens `x` first, in row-major order. PyTorch's `dim` is an alias.
    dtype : dtype, optional
        The dtype of the sums.
    out : Tensor, optional
        A tensor of the result's shape that receives the result and is returned.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`, or 1-D without `axis`. With `out`, `out` itself.

    Raises
    ------
    AxisError
        If the axis does not exist.
    ShapeError, DTypeError
        If `out` has another shape, or a dtype that cannot hold the result.

    Examples
    --------
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

    Parameters
    ----------
    x : Tensor
        Any dtype. Integers and bools are multiplied in 64 bits, unless `dtype` is given.
    axis, dtype, out
        As in `cumsum`: the axis (None flattens `x` first), the dtype of the products, and the tensor for the result.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`, or 1-D without `axis`. With `out`, `out` itself.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        As in `cumsum`.

    Examples
    --------
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

    Parameters
    ----------
    x : Tensor
        Any dtype, with at least one axis. Differences of unsigned integers wrap around.
    n : int, default 1
        How often differences are taken, 0 or more. 0 gives a copy of `x`.
    axis : int, default -1
        The axis of the neighbours. Each time it becomes shorter by 1, down to 0. PyTorch's `dim` is an alias.
    prepend, append : Tensor or number, optional
        Elements joined to `x` first, before and after. A tensor fits as in `concat`. A number is converted to the dtype of `x`.

    Returns
    -------
    Tensor
        New tensor of the dtype to which `x`, `prepend` and `append` promote.

    Raises
    ------
    AxisError
        If `x`, `prepend` or `append` does not have the axis.
    ShapeError
        If a tensor does not fit `x`, or is 0-d.
    ArgumentError
        If `n` is negative, or no integer.
    DTypeError, OutOfBounds
        If dtypes do not promote to one, or if the dtype of `x` cannot hold a number.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.diff(tx.asarray([1, 4, 9]), prepend=0).tolist()
    [1, 3, 5]
    """
    x = asarray(x)
    axis = normalize_axis("diff", axis, x.ndim)
    n = validate_int("diff", "n", n)
    if n < 0:
        raise ArgumentError(f"diff: n is {n}; it must be 0 or more")
    pieces = [_end_piece(name, piece, x, axis) for name, piece in (("prepend", prepend), ("x", x), ("append", append)) if piece is not None]
    result = concat(pieces, axis) if len(pieces) > 1 else x
    leading_axes = (slice(None),) * axis
    for _ in range(n if n < result.shape[axis] else result.shape[axis]):  # after as many steps as elements nothing is left
        later, earlier = result[(*leading_axes, slice(1, None))], result[(*leading_axes, slice(None, -1))]
        result = later != earlier if result.dtype.kind == "bool" else later - earlier
    return result if n else result.copy()


def _end_piece(name: str, piece: Tensor | Number, x: Tensor, axis: int) -> Tensor:
    """Return `piece`, the argument `name`, a tensor or number, as the tensor to join to an end of `x` along `axis`.

    A single number is repeated along the other axes. Raise ShapeError for a 0-d tensor.
    """
    if isinstance(piece, (bool, int, float, complex)):
        return full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), piece, dtype=x.dtype)
    tensor = asarray(piece)
    if tensor.ndim == 0:
        raise ShapeError(f"diff: {name} is a 0-d tensor, which cannot be joined to shape {x.shape}; use {name}={name}.item()")
    return tensor
