"""Variances: sums of squared distances from the mean, corrected for the rounding of the mean."""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeVar

from ..dtypes import DType
from ..errors import ShapeError
from ..layout.coords import as_float
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from .argument_parsing import Axes, check_correction
from .core import Operand, TensorBase
from .reduction_methods import ReductionMethods

T = TypeVar("T", bound=ReductionMethods)


def compute_variance(op: str, x: T, axis: Axes, correction: float, keepdims: bool, mean: Operand | None) -> tuple[T, DType]:
    """Return the variance of `x` in the dtype of the computation, and the real dtype of the result, to which the caller casts.

    The arguments are those of `Tensor.var`: `correction` is subtracted from the number of elements; `mean`, if not None, is used instead of
    the computed mean. `op` is for messages. Raise the errors of `Tensor.var`.
    """
    correction = check_correction(op, correction)
    wide, result = x._prepare_average(op)
    squared = OPS["squared_abs" if wide.dtype.is_complex else "square"]
    centre = wide._reduce_to_mean(op, axis, True) if mean is None else wide._to_operand(mean, op)
    distances = wide - centre
    if distances.layout.shape != wide.layout.shape:
        raise ShapeError(
            f"{op}: mean must broadcast to {wide.layout.shape}, the shape of x, as x.mean(axis, keepdims=True) does; x - mean has shape"
            f" {distances.layout.shape}"
        )
    total = x._compute(squared, distances)._reduce(REDUCTIONS["sum"], op, axis, keepdims)
    if mean is None:
        # a separate node: with two readers, `distances` would be stored
        distance_sums = (wide - centre)._reduce(REDUCTIONS["sum"], op, axis, keepdims)
        total = correct_rounded_mean(total, distance_sums, x._count_reduced(op, axis))
    exact_correction = int(correction) if isfinite(correction) and correction == int(correction) else correction
    divisor = max(x._count_reduced(op, axis) - exact_correction, 0)
    return total._apply(OPS["divide"], as_float(divisor)), result.part


def correct_rounded_mean(total: T, distance_sums: T, count: int | T) -> T:
    """Return the sums of squared distances from the exact mean; `total` holds the sums of squared distances from a rounded mean.

    `distance_sums` are the sums of the distances, 0 in exact arithmetic, and `count` is the number of elements of a sum. The correction,
    subtracted, is `distance_sums ** 2 / count`, at most `total` (the corrected two-pass algorithm).

    T. Chan, G. Golub, R. LeVeque: Algorithms for computing the sample variance, 1983.
    """
    magnitude: Any = distance_sums.abs() if distance_sums.dtype.is_complex else distance_sums
    excess = magnitude * (magnitude / (count if isinstance(count, TensorBase) else as_float(count)))
    return total._apply(OPS["less_rounding"], total._compute(OPS["minimum"], excess, total))
