"""Normalised exponentials. Each is a formula over rows, fused so that a row is read from memory once, and then from the cache."""

from __future__ import annotations

from typing import Any

from ..creation import asarray
from ..dtypes import DEFAULT_FLOAT, DType
from ..keywords import spelled
from ..node import untracked
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import Axes, axes_of, truth
from ..tensor.core import Operand

__all__ = ["log_softmax", "logsumexp", "softmax"]


@called_again
@spelled
def softmax(x: Operand, /, axis: Axes = -1, *, dim: Axes = None) -> Tensor:
    """Return exp(x) divided by its sum over `axis` (an int, a tuple, or None for all), without overflow, as a new float tensor.

    Integers become float64; float16 and bfloat16 are computed in float32. Rows that contain NaN or inf, or only -inf, become NaN. Raise
    AxisError for a missing axis, DTypeError for complex numbers.

    >>> import tenxor as tx
    >>> tx.softmax(tx.asarray([1000.0, 1000.0, 999.0])).sum().item()
    1.0
    """
    wide, result_dtype = _to_float("softmax", x)
    axis = axes_of("softmax", axis, wide.ndim)
    powers: Any = (wide - highest_of(wide, axis) if wide.size else wide).exp()
    output: Tensor = (powers * (1.0 / powers.sum(axis, keepdims=True))).astype(result_dtype, copy=False)
    return output


@called_again
@spelled
def log_softmax(x: Operand, /, axis: Axes = -1, *, dim: Axes = None) -> Tensor:
    """Return the logarithm of `softmax` over `axis` as a new float tensor, accurate even where softmax rounds to 0.

    Dtypes and errors are those of `softmax`.

    >>> import tenxor as tx
    >>> tx.log_softmax(tx.asarray([0.0, -1000.0])).tolist()
    [0.0, -1000.0]
    """
    wide, result_dtype = _to_float("log_softmax", x)
    axis = axes_of("log_softmax", axis, wide.ndim)
    shifted: Any = wide - highest_of(wide, axis) if wide.size else wide
    output: Tensor = (shifted - shifted.exp().sum(axis, keepdims=True).log()).astype(result_dtype, copy=False)
    return output


@called_again
@spelled
def logsumexp(
    x: Operand, /, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool | None = None
) -> Tensor:
    """Return log(sum(exp(x))) over `axis` (an int, a tuple, or None for all), without overflow, as a new float tensor.

    The result for no elements is -inf, as log(0). Dtypes and errors are those of `softmax`.

    >>> import tenxor as tx
    >>> tx.logsumexp(tx.asarray([1000.0, 1000.0])).item() - 1000.0
    0.693147180559...
    """
    wide, result_dtype = _to_float("logsumexp", x)
    axis = axes_of("logsumexp", axis, wide.ndim)
    if wide.size == 0:
        return wide.exp().sum(axis, keepdims=keepdims).log().astype(result_dtype, copy=False)  # type: ignore[no-any-return]
    highest: Any = highest_of(wide, axis)
    shift: Any = Tensor._compute(OPS["where"], highest.isfinite(), highest, 0.0)  # inf - inf would be NaN
    log_sum: Any = (wide - shift).exp().sum(axis, keepdims=True).log() + shift
    result: Tensor = log_sum.astype(result_dtype, copy=False)
    return result if truth("logsumexp", "keepdims", keepdims) else result.squeeze(axis)


def highest_of(x: Any, axis: Axes) -> Any:
    """Return the maxima over `axis`, to be subtracted before `exp`. The tape records nothing: they do not change the result."""
    if not x.requires_grad:
        return x.max(axis, keepdims=True)
    with untracked():
        return x.max(axis, keepdims=True)


def _to_float(op: str, x: Operand) -> tuple[Any, DType]:
    """Return the tensor in the dtype of the computation, and the dtype of the result. Raise an error for dtypes without an order."""
    t = asarray(x)
    result_dtype = t.dtype if t.dtype.is_float else DEFAULT_FLOAT
    REDUCTIONS["max"].check(op, t.dtype)
    return t.astype(result_dtype.compute, copy=False), result_dtype
