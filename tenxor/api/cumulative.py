"""Running maxima, minima and logarithms of sums, and division with remainder."""

from __future__ import annotations

from typing import Any

from .._utils.aliases import argument_aliases
from .._utils.records import NamedTuple
from ..dtypes import DEFAULT_FLOAT
from ..errors import ArgumentError, describe_value
from ..graph.spec import memoized_call
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import normalize_axis
from ..tensor.core import Operand
from .creation import asarray
from .elementwise import FUNCTIONS
from .gather_functions import take_along_axis
from .host_calls import is_on_tape
from .output_arguments import cast_to, write_out

TensorPair = tuple[Tensor, Tensor]
__all__ = ["cummax", "cummin", "divmod", "fmod", "logcumsumexp"]


class Extremes(NamedTuple):
    """Running extrema: the `values`, and the `indices` along the axis of the last occurrence of each so far."""

    values: Tensor
    indices: Tensor


@memoized_call
@argument_aliases
def cummax(x: Operand, /, axis: int = -1, *, dim: int | None = None, out: TensorPair | None = None) -> Extremes:
    """Return the running maxima along an axis, `values`, and their `indices`, as a pair of new tensors.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex ones.
    axis : int, default -1
        The axis along which the maxima run. `dim` is another name of `axis`.
    out : tuple of two Tensor, optional
        Tensors that receive the results and are returned.

    Returns
    -------
    values, indices : Tensor
        New tensors of the shape of `x`. Element `i` of `values` is the maximum of elements `0..i`. Element `i` of `indices`, of dtype
        int64, is the last position of this maximum up to `i`. From the first NaN on, all values are NaN.

    Raises
    ------
    AxisError
        If `axis` does not exist.
    DTypeError
        If `x` is complex.

    References
    ----------
    PyTorch, `cummax`; NumPy, `maximum.accumulate`.

    Examples
    --------
    >>> import tenxor as tx
    >>> found = tx.cummax(tx.asarray([1, 3, 2, 3]))
    >>> found.values.tolist(), found.indices.tolist()
    ([1, 3, 3, 3], [0, 1, 1, 3])
    """
    return Extremes(*_write_both("cummax", out, _running_extremes("max", "cummax", asarray(x), axis)))


@memoized_call
@argument_aliases
def cummin(x: Operand, /, axis: int = -1, *, dim: int | None = None, out: TensorPair | None = None) -> Extremes:
    """Return the running minima along an axis, `values`, and their `indices`, as a pair of new tensors.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex ones.
    axis : int, default -1
        The axis along which the minima run. `dim` is another name of `axis`.
    out : tuple of two Tensor, optional
        Tensors that receive the results and are returned.

    Returns
    -------
    values, indices : Tensor
        New tensors of the shape of `x`. Element `i` of `values` is the minimum of elements `0..i`. Element `i` of `indices`, of dtype
        int64, is the last position of this minimum up to `i`. From the first NaN on, all values are NaN.

    Raises
    ------
    AxisError
        If `axis` does not exist.
    DTypeError
        If `x` is complex.

    References
    ----------
    PyTorch, `cummin`; NumPy, `minimum.accumulate`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.cummin(tx.asarray([3, 1, 2])).values.tolist()
    [3, 1, 1]
    """
    return Extremes(*_write_both("cummin", out, _running_extremes("min", "cummin", asarray(x), axis)))


def _write_both(op: str, out: Any, results: TensorPair, mask: Any = None) -> TensorPair:
    """Return the two results, or the items of the pair `out` into which they are written. An item None stands for the result itself.

    `mask`, a bool tensor or None, restricts the writes to elements where the mask is true. Raise ArgumentError, beginning with `op`, for
    an `out` that is no pair, and for a mask without `out`.
    """
    if out is None:
        return write_out(op, None, results[0], where=mask), results[1]
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise ArgumentError(f"{op}: out is {describe_value(out)}; it must be a tuple of two tensors, as {op} returns two")
    first_result, second_result = [x if to is None else write_out(op, to, x, where=mask) for to, x in zip(out, results, strict=True)]
    return first_result, second_result


def _running_extremes(name: str, op: str, x: Tensor, axis: int) -> Extremes:
    """Return the running extrema of `x` along `axis`; `name` is "max" or "min", and `op` the name of the function in messages.

    If derivatives are recorded for `x`, the values are gathered by the indices, so that they have derivatives.
    """
    extremes = Extremes(*x.detach()._cumulative_extremes(name, op, axis))
    return extremes._replace(values=take_along_axis(x, extremes.indices, axis=axis)) if is_on_tape(x) else extremes


@argument_aliases
def logcumsumexp(x: Operand, /, axis: int = -1, *, dim: int | None = None, out: Tensor | None = None) -> Tensor:
    """Return the running `log(sum(exp(x)))` along an axis, without overflow.

    Parameters
    ----------
    x : Tensor
        Any dtype. Integers and bools become float64.
    axis : int, default -1
        The axis along which the sums run. `dim` is another name of `axis`.
    out : Tensor, optional
        Tensor that receives the result and is returned.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`, of a float or complex dtype. Element `i` is computed from elements `0..i`.

    Raises
    ------
    AxisError
        If `axis` does not exist.

    References
    ----------
    PyTorch, `logcumsumexp`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.logcumsumexp(tx.asarray([1000.0, 1000.0])).tolist()
    [1000.0, 1000.6931471805599]
    """
    x = asarray(x)
    axis_index = normalize_axis("logcumsumexp", axis, x.ndim)
    dtype = x.dtype if x.dtype.is_float or x.dtype.is_complex else DEFAULT_FLOAT
    return write_out(
        "logcumsumexp", out, cast_to(cast_to(x, dtype.compute_dtype)._cumulate("logaddexp", "logcumsumexp", axis_index, None), dtype)
    )


def divmod(x1: Operand, x2: Operand, /, *, out: TensorPair | None = None, where: Operand | None = None) -> TensorPair:
    """Return `floor_divide(x1, x2)` and `remainder(x1, x2)` as two new tensors.

    Parameters
    ----------
    x1, x2 : Tensor or number
        Real operands that broadcast.
    out : tuple of two Tensor, optional
        Tensors that receive the results and are returned.
    where : bool Tensor, optional
        Only with `out`: elements of `out` are written only where `where` is true.

    Returns
    -------
    tuple of two Tensor
        New tensors of the broadcast shape and the promoted dtype. With `out`, the tensors in `out`.

    Raises
    ------
    DTypeError, ShapeError
        If an operand is complex or bool, if dtypes do not promote, or if shapes do not broadcast.
    ArgumentError
        If `out` is no pair, or for `where` without `out`.

    References
    ----------
    NumPy, `divmod`.

    Examples
    --------
    >>> import tenxor as tx
    >>> [t.tolist() for t in tx.divmod(tx.asarray([7, -7]), 3)]
    [[2, -3], [1, 2]]
    """
    return _write_both("divmod", out, (FUNCTIONS["floor_divide"](x1, x2), FUNCTIONS["remainder"](x1, x2)), where)


def fmod(x1: Operand, x2: Operand, /, *, out: Tensor | None = None, where: Operand | None = None) -> Tensor:
    """Return the remainder of the division of `x1` by `x2` rounded towards 0, exact, as C's `fmod`, as a new tensor.

    The result has the sign of `x1`; the result of `remainder` has the sign of `x2`.

    Parameters
    ----------
    x1, x2 : Tensor or number
        Real operands that broadcast.
    out : Tensor, optional
        Tensor that receives the result and is returned.
    where : bool Tensor, optional
        Only with `out`: elements of `out` are written only where `where` is true.

    Returns
    -------
    Tensor
        New tensor of the broadcast shape and the promoted dtype. With `out`, `out` itself.

    Raises
    ------
    DTypeError, ShapeError
        If an operand is complex or bool, if dtypes do not promote, or if shapes do not broadcast.
    ArgumentError
        For `where` without `out`.

    References
    ----------
    C, NumPy and PyTorch, `fmod`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.fmod(tx.asarray([7, -7]), 3).tolist(), tx.remainder(tx.asarray([7, -7]), 3).tolist()
    ([1, -1], [1, 2])
    """
    remainder = FUNCTIONS["remainder"](x1, x2)
    a, b = (x if isinstance(x, Tensor) else asarray(x, dtype=remainder.dtype) for x in (x1, x2))
    if remainder.dtype.is_float:
        result = cast_to(FUNCTIONS["remainder"](a, FUNCTIONS["copysign"](b, a)), remainder.dtype)
    else:
        needs_shift: Any = (remainder != 0) & ((a < 0) != (b < 0))
        result = Tensor._compute(OPS["where"], needs_shift, remainder - cast_to(b, remainder.dtype), remainder)
    return write_out("fmod", out, result, where=where)
