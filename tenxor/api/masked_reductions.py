"""NumPy's extra arguments of reductions: `where`, to reduce only some elements, `initial`, one more element, and `out`, the tensor for the
result.
"""

from __future__ import annotations

from math import isfinite, prod
from typing import Any

import numpy as np

from ..dtypes import DType, DTypeLike
from ..errors import ArgumentError, DTypeError, ShapeError
from ..layout import broadcast_shapes
from ..ops import OPS
from ..ops.reductions import COMBINING_OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes, check_correction, check_flag, normalize_axes
from ..tensor.variances import correct_rounded_mean
from .creation import asarray, full
from .output_arguments import cast_to, write_out

_IDENTITIES: dict[str, Any] = {"sum": 0, "prod": 1, "any": False, "all": True}  # identities: elements without influence on the result


def reduce_where(
    op: str,
    x: Any,
    axis: Axes,
    keepdims: Any,
    *,
    out: Any,
    where: Any,
    initial: Any = None,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the reduction of `x` over `axis` by the method `op`, of the elements where `where` is true, and of `initial`, unless None.

    `op` is "sum", "prod", "max", "min", "any" or "all"; for the last two, `initial` must be None. `where` is None or True for every
    element, or a bool mask that broadcasts to the shape of `x`. "sum" and "prod" of integers drop the fraction of `initial` first, as NumPy
    does. `keepdims` and, for "sum" and "prod", `dtype` are the arguments of the method. The result is written into `out`, if
    given, and is then `out` itself. Raise ArgumentError if `where` is given, but the reduction has neither an identity nor `initial`.
    """
    x = asarray(x)
    keep = check_flag("keepdims", keepdims)
    if where is not None and where is not True:
        identity = _IDENTITIES.get(op, initial)
        if identity is None:
            raise ArgumentError(f"{op}: where may select no elements, and {op} of no elements is undefined; give its value as initial=")
        x = Tensor._compute(OPS["where"], to_mask(op, where, x), x, identity)
    axes = normalize_axes(op, axis, x.ndim)
    if initial is not None and op not in _IDENTITIES and prod([x.shape[a] for a in axes]) == 0:
        shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keep or a not in axes]
        result = full(shape, initial, dtype=x.dtype)
    else:
        result = getattr(x, op)(axes, dtype, keep) if op in ("sum", "prod") else getattr(x, op)(axes, keep)
        if initial is not None:
            if op in ("sum", "prod") and result.dtype.is_integer:
                initial = _drop_fraction(op, initial, result.dtype)
            operand = result._to_operand(initial, op)
            result = cast_to(Tensor._compute(OPS[COMBINING_OPS[op]], result, operand), result.dtype)
    return write_out(op, out, result)


def _drop_fraction(op: str, initial: Any, dtype: DType) -> Any:
    """Return `initial` as an integer, or as a tensor of the integer dtype `dtype` if it is a tensor or array of floats; other values stay.

    Raise ArgumentError, beginning with `op`, for infinity and NaN.
    """
    if isinstance(initial, (float, np.floating)):
        if not isfinite(initial):
            raise ArgumentError(f"{op}: initial is {initial}, which {dtype} cannot hold; give an integer, or dtype=tx.float64")
        return int(initial)
    is_float = getattr(initial, "ndim", None) is not None and asarray(initial).dtype.is_float
    return cast_to(asarray(initial), dtype) if is_float else initial


def to_mask(op: str, where: Any, x: Tensor) -> Tensor:
    """Return the mask `where` as a bool tensor, broadcast to the shape of `x`.

    Raise DTypeError, beginning with `op`, if the mask is not bool, and ShapeError if it does not broadcast to this shape.
    """
    mask = asarray(where)
    if mask.dtype.kind != "bool":
        raise DTypeError(f"{op}: where must be a bool tensor, not one of {mask.dtype}; use where=tx.asarray(mask) != 0")
    if broadcast_shapes(mask.shape, x.shape) != x.shape:
        raise ShapeError(f"{op}: where has shape {mask.shape}, which does not broadcast to the shape of the tensor, {x.shape}")
    return mask.expand(x.shape)


def mean_where(x: Any, axis: Axes, keepdims: bool, where: Any) -> Tensor:
    """Return the mean over `axis` of the elements of `x` where `where` is true, or NaN where there are none.

    `where` is a bool mask that broadcasts to the shape of `x`; `to_mask` raises its errors. Other elements, also NaN, have no influence.
    `axis`, `keepdims` and the dtype of the result are as in `tx.mean`.
    """
    wide, dtype = asarray(x)._prepare_average("mean")
    return cast_to(_mean_where(wide, to_mask("mean", where, wide), normalize_axes("mean", axis, wide.ndim), keepdims), dtype)


def _mean_where(wide: Tensor, mask: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    """Return the mean over `axis` of the elements of `wide` at which the bool tensor `mask` is true; NaN if there are none.

    With `keepdims`, reduced axes stay with size 1.
    """
    total = Tensor._compute(OPS["where"], mask, wide, 0).sum(axis, keepdims=keepdims)
    return total / mask.count_nonzero(axis, keepdims).astype(wide.dtype.part)


def var_where(op: str, x: Any, axis: Axes, correction: float, keepdims: bool, where: Any, mean: Any = None) -> Tensor:
    """Return the variance over `axis` of the elements of `x` where `where` is true, or its square root if `op` is "std".

    The divisor is the number of these elements less `correction`, but not below 0. `mean`, if given, must have reduced axes of size 1.
    Raise ShapeError if `mean` does not fit.
    """
    correction = check_correction(op, correction)
    wide, dtype = asarray(x)._prepare_average(op)
    mask, axis = to_mask(op, where, wide), normalize_axes(op, axis, wide.ndim)
    centre = _mean_where(wide, mask, axis, True) if mean is None else asarray(mean)
    deviations = wide - centre
    if deviations.shape != wide.shape:
        raise ShapeError(
            f"{op}: a mean of shape {centre.shape} does not broadcast to shape {wide.shape}; give x.mean(axis, keepdims=True, where=where)"
        )
    squares = deviations.square() if not deviations.dtype.is_complex else deviations.real.square() + deviations.imag.square()
    total = Tensor._compute(OPS["where"], mask, squares, 0.0).sum(axis, keepdims=keepdims)
    count = mask.count_nonzero(axis, keepdims).astype(total.dtype)
    if mean is None:
        total = correct_rounded_mean(total, Tensor._compute(OPS["where"], mask, deviations, 0.0).sum(axis, keepdims=keepdims), count)
    divisor = (count - correction).clip(0, None)
    variance = total / divisor
    return cast_to(variance.sqrt() if op == "std" else variance, dtype.part)
