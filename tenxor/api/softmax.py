"""Normalised exponentials. Each is a formula over rows, fused so that a row is read from memory once, and then from the cache."""

from __future__ import annotations

from typing import Any

from .._utils.aliases import argument_aliases
from ..dtypes import DEFAULT_FLOAT, DType
from ..graph.node import disable_tape
from ..graph.spec import memoized_call
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes, check_flag, normalize_axes
from ..tensor.core import Operand
from .creation import asarray

__all__ = ["log_softmax", "logsumexp", "softmax"]


@memoized_call
@argument_aliases
def softmax(x: Operand, /, axis: Axes = -1, *, dim: Axes = None) -> Tensor:
    """Return exp(x) divided by its sum over axes, without overflow, as a new float tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex. For integers and bools, the result is float64; float16 and bfloat16 are computed in float32.
    axis : int, tuple of int, or None, default -1
        The axes of the sum; None for all. PyTorch's `dim` is an alias.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`.

    Raises
    ------
    AxisError
        If an axis does not exist.
    DTypeError
        If `x` is complex.

    Notes
    -----
    Rows that contain NaN or inf, or only -inf, become NaN.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.softmax(tx.asarray([1000.0, 1000.0, 999.0])).sum().item()
    1.0
    """
    wide, result_dtype = _to_float("softmax", x)
    axis = normalize_axes("softmax", axis, wide.ndim)
    powers: Any = (wide - detached_max(wide, axis) if wide.size else wide).exp()
    output: Tensor = (powers * (1.0 / powers.sum(axis, keepdims=True))).astype(result_dtype, copy=False)
    return output


@memoized_call
@argument_aliases
def log_softmax(x: Operand, /, axis: Axes = -1, *, dim: Axes = None) -> Tensor:
    """Return the logarithm of `softmax` over axes as a new float tensor, accurate even where softmax rounds to 0.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex. For integers and bools, the result is float64; float16 and bfloat16 are computed in float32.
    axis : int, tuple of int, or None, default -1
        The axes of the sum of `softmax`; None for all. PyTorch's `dim` is an alias.

    Returns
    -------
    Tensor
        New tensor of the shape of `x`.

    Raises
    ------
    AxisError
        If an axis does not exist.
    DTypeError
        If `x` is complex.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.log_softmax(tx.asarray([0.0, -1000.0])).tolist()
    [0.0, -1000.0]
    """
    wide, result_dtype = _to_float("log_softmax", x)
    axis = normalize_axes("log_softmax", axis, wide.ndim)
    shifted: Any = wide - detached_max(wide, axis) if wide.size else wide
    output: Tensor = (shifted - shifted.exp().sum(axis, keepdims=True).log()).astype(result_dtype, copy=False)
    return output


@memoized_call
@argument_aliases
def logsumexp(x: Operand, /, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool | None = None) -> Tensor:
    """Return log(sum(exp(x))) over axes, without overflow, as a new float tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex. For integers and bools, the result is float64; float16 and bfloat16 are computed in float32.
    axis : int or tuple of int, optional
        The axes of the sum; None for all. PyTorch's `dim` is an alias.
    keepdims : bool, default False
        If True, reduced axes stay with size 1. PyTorch's `keepdim` is an alias.

    Returns
    -------
    Tensor
        New tensor with the remaining axes.

    Raises
    ------
    AxisError
        If an axis does not exist.
    DTypeError
        If `x` is complex.

    Notes
    -----
    The result for no elements is -inf, as log(0).

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.logsumexp(tx.asarray([1000.0, 1000.0])).item() - 1000.0
    0.693147180559...
    """
    wide, result_dtype = _to_float("logsumexp", x)
    axis = normalize_axes("logsumexp", axis, wide.ndim)
    if wide.size == 0:
        return wide.exp().sum(axis, keepdims=keepdims).log().astype(result_dtype, copy=False)  # type: ignore[no-any-return]
    highest: Any = detached_max(wide, axis)
    shift: Any = Tensor._compute(OPS["where"], highest.isfinite(), highest, 0.0)  # inf - inf would be NaN
    log_sum: Any = (wide - shift).exp().sum(axis, keepdims=True).log() + shift
    result: Tensor = log_sum.astype(result_dtype, copy=False)
    return result if check_flag("keepdims", keepdims) else result.squeeze(axis)


def detached_max(x: Any, axis: Axes) -> Any:
    """Return the maxima of `x` over `axis`, with reduced axes of size 1, to be subtracted before `exp`.

    The tape records nothing, since the subtrahend does not change the result.
    """
    if not x.requires_grad:
        return x.max(axis, keepdims=True)
    with disable_tape():
        return x.max(axis, keepdims=True)


def _to_float(op: str, x: Operand) -> tuple[Any, DType]:
    """Return `x` as a tensor in the dtype of the computation, and the dtype of the result, to which the caller casts.

    The result has the dtype of `x` if that is a float, otherwise float64. Raise DTypeError, beginning with `op`, for complex dtypes, which
    have no order.
    """
    t = asarray(x)
    result_dtype = t.dtype if t.dtype.is_float else DEFAULT_FLOAT
    REDUCTIONS["max"].check_dtype(op, t.dtype)
    return t.astype(result_dtype.compute_dtype, copy=False), result_dtype
