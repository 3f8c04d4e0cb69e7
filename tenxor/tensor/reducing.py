"""Reductions over axes, and cumulative reductions along an axis. Every result is a new, pending tensor.

`axis` is an int, a tuple, or None for every axis; `keepdims` leaves the axes with size 1 (PyTorch's `dim` and `keepdim` work, too). `where`
is a bool tensor that selects the elements to reduce. `initial` is a further element. `out` is a tensor to write the result into, and is
returned.
"""

from __future__ import annotations

from functools import cache
from math import isfinite
from typing import Any, Self

from ..dtypes import DEFAULT_FLOAT, DEFAULT_INT, DType, DTypeLike, boolean
from ..errors import ArgumentError, DTypeError, ShapeError, described
from ..keywords import spelled
from ..layout import Layout, memory_order
from ..layout.coords import as_float
from ..node import POSITION, Node, Scan
from ..ops import OPS
from ..ops.reductions import REDUCTIONS, Reduction, running
from .arguments import Axes, axes_of, axis_of, left_to, truth
from .arithmetic import Arithmetic
from .core import Core, Operand

_scan = cache(Scan)  # cached, since recipes compare operations by identity


def _find_memory_order(layout: Layout, kept_axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the memory order of some axes of a layout, or None if they are in row-major order. A result is stored in the same order."""
    if layout.base is not None or layout.tables is not None:
        return None
    steps = [abs(layout.strides[axis]) for axis in kept_axes]
    if steps == sorted(steps, reverse=True):
        return None
    return memory_order([Layout(tuple([layout.shape[axis] for axis in kept_axes]), tuple(steps))])


class Reducing(Arithmetic):
    """The reduction methods of `Tensor`."""

    __slots__ = ()

    def _reduce(
        self, reduction: Reduction, op: str, axis: Any, keepdims: bool
    ) -> Self:
        keepdims = truth(op, "keepdims", keepdims)
        reduction.check(op, self.dtype)
        layout = self.layout
        shape = layout.shape
        axes = axes_of(op, axis, len(shape))
        kept_axes = tuple([a for a in range(len(shape)) if a not in axes])
        if not reduction.has_identity:
            for a in axes:
                if shape[a] == 0:
                    raise ShapeError(
                        f"{op}: axis {a} of shape {shape} has size 0, and nothing has no {op}; give a tensor with elements there"
                    )
        kept_order = None if len(kept_axes) < 2 else _find_memory_order(layout, kept_axes)
        if kept_order is not None:
            kept_axes = tuple([kept_axes[k] for k in kept_order])
        order = kept_axes + axes
        source = layout if order == tuple(range(len(shape))) else layout.permute(order)
        t = self._reduce_trailing_axes(reduction, source, len(kept_axes))
        if kept_order is not None:
            t = t._view(t.layout.permute([kept_order.index(k) for k in range(len(kept_order))]))
            return t._view(t.layout.expand_dims(axes)) if keepdims else t
        return (
            t._view(Layout.contiguous(tuple([1 if a in axes else n for a, n in enumerate(shape)]))) if keepdims else t
        )

    def _reduce_trailing_axes(self, reduction: Reduction, source: Layout, kept_count: int) -> Self:
        """Return the reduction of this storage, seen through `source`, over all axes but the first `kept_count`."""
        return self._of(Node.of(reduction, source.shape[:kept_count], reduction.result(self.dtype), (self.node,), (source,)))

    def _typed(self, dtype: DTypeLike | None) -> Self:
        return self if dtype is None else self.astype(dtype, copy=False)

    @left_to("sum")
    @spelled
    def sum(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return a new tensor: the sum over `axis`. Integers are summed in 64 bits. The sum of no elements is 0.

        >>> import tenxor as tx
        >>> tx.arange(24).reshape(4, 3, 2).sum(axis=0).tolist()
        [[36, 40], [44, 48], [52, 56]]
        """
        return self._typed(dtype)._reduce(REDUCTIONS["sum"], "sum", axis, keepdims)._typed(dtype)

    @left_to("prod")
    @spelled
    def prod(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return a new tensor: the product over `axis`. Integers are multiplied in 64 bits. The product of no elements is 1."""
        return self._typed(dtype)._reduce(REDUCTIONS["prod"], "prod", axis, keepdims)._typed(dtype)

    @left_to("max")
    @spelled
    def max(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return a new tensor: the largest element over `axis`, or NaN if an element is NaN. Raise ShapeError without elements."""
        return self._reduce(REDUCTIONS["max"], "max", axis, keepdims)

    @left_to("min")
    @spelled
    def min(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return a new tensor: the smallest element over `axis`, or NaN if an element is NaN. Raise ShapeError without elements."""
        return self._reduce(REDUCTIONS["min"], "min", axis, keepdims)

    amax, amin = max, min

    @left_to("any")
    @spelled
    def any(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return a new bool tensor: whether any element over `axis` is true (not zero)."""
        return self._reduce(REDUCTIONS["any"], "any", axis, keepdims)

    @left_to("all")
    @spelled
    def all(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return a new bool tensor: whether all elements over `axis` are true (not zero)."""
        return self._reduce(REDUCTIONS["all"], "all", axis, keepdims)

    @spelled
    def count_nonzero(
        self, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: bool | None = None
    ) -> Self:
        """Return a new int64 tensor: the number of elements over `axis` that are not zero."""
        return self._reduce(REDUCTIONS["count_nonzero"], "count_nonzero", axis, keepdims)

    @left_to("argmax")
    @spelled
    def argmax(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool | None = None,
        out: Self | None = None,
    ) -> Self:
        """Return a new int64 tensor: the first position of the largest element along `axis`, or in the flattened tensor for None.

        NaN counts as the largest.
        """
        return self._reduce(REDUCTIONS["argmax"], "argmax", axis, keepdims)

    @left_to("argmin")
    @spelled
    def argmin(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        *,
        dim: int | None = None,
        keepdim: bool | None = None,
        out: Self | None = None,
    ) -> Self:
        """Return a new int64 tensor: the first position of the smallest element along `axis`, or in the flattened tensor for None.

        NaN counts as the smallest.
        """
        return self._reduce(REDUCTIONS["argmin"], "argmin", axis, keepdims)

    # Averages: sums in float32 or wider, divided once

    def _averaging(self, op: str) -> tuple[Self, DType]:
        """Return the tensor in the dtype for computing its average, and the dtype of the result."""
        result = self.dtype if self.dtype.is_float or self.dtype.is_complex else DEFAULT_FLOAT
        if self.dtype is boolean and op != "mean":
            raise DTypeError(f"{op}: does not accept bool; use x.astype(tx.float64)")
        return self._typed(result.compute), result

    @left_to("mean")
    @spelled
    def mean(
        self,
        axis: Axes = None,
        keepdims: bool = False,
        *,
        dtype: DTypeLike | None = None,
        dim: Axes = None,
        keepdim: bool | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return a new float tensor: the mean over `axis`, computed in `dtype` if one is given. The mean of no elements is NaN.

        >>> import tenxor as tx
        >>> tx.asarray([1, 2, 3, 4]).mean().item()
        2.5
        """
        wide, result = self._typed(dtype)._averaging("mean")
        return wide._reduce_to_mean("mean", axis, keepdims)._typed(result)

    def _reduce_to_mean(
        self, op: str, axis: Axes, keepdims: bool
    ) -> Self:
        total = self._reduce(REDUCTIONS["sum"], op, axis, keepdims)
        count = as_float(self._count(op, axis))
        return total._with(OPS["divide_by_real" if self.dtype.is_complex else "divide"], count)

    @left_to("var")
    @spelled
    def var(
        self,
        axis: Axes = None,
        correction: float = 0.0,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        ddof: float | None = None,
        mean: Operand | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return a new float tensor: the mean squared distance from the mean over `axis`, with the divisor `count - correction`.

        For complex numbers, the distance is the magnitude of the difference. A known `mean`, computed as `mean(axis, keepdims=True)`, may
        be given.
        """
        variance, result = self._variance("var", axis, correction, keepdims, mean)
        return variance._typed(result)

    def _variance(
        self, op: str, axis: Axes, correction: float, keepdims: bool, mean: Operand | None
    ) -> tuple[Self, DType]:
        """Return the variance in the dtype of the computation, and the dtype of the result."""
        if not isinstance(correction, (int, float)):
            raise ArgumentError(f"{op}: correction is a number, not {described(correction)}")
        wide, result = self._averaging(op)
        squared = OPS["squared_abs" if wide.dtype.is_complex else "square"]
        centre = wide._reduce_to_mean(op, axis, True) if mean is None else wide._operand(mean, op)
        distances = wide - centre
        if distances.layout.shape != wide.layout.shape:
            raise ShapeError(
                f"{op}: a mean of shape {wide.layout.shape} has that, or sizes of 1, as x.mean(axis, keepdims=True); this gives"
                f" {distances.layout.shape}"
            )
        total = self._compute(squared, distances)._reduce(REDUCTIONS["sum"], op, axis, keepdims)
        if mean is None:
            # a separate node: with two readers, `distances` would be stored
            distance_sums = (wide - centre)._reduce(REDUCTIONS["sum"], op, axis, keepdims)
            total = total._less_rounded_mean(distance_sums, self._count(op, axis))
        exact_correction = int(correction) if isfinite(correction) and correction == int(correction) else correction
        divisor = max(self._count(op, axis) - exact_correction, 0)
        return total._with(OPS["divide"], as_float(divisor)), result.part

    def _less_rounded_mean(self, distance_sums: Self, count: int | Self) -> Self:
        """Return the sums of squared distances from the exact mean; this tensor holds the sums of squared distances from a rounded mean.

        `distance_sums` are the sums of the distances, 0 in exact arithmetic. The correction is `distance_sums ** 2 / count` (the corrected
        two-pass algorithm).

        T. Chan, G. Golub, R. LeVeque: Algorithms for computing the sample variance, 1983.
        """
        magnitude = distance_sums.abs() if distance_sums.dtype.is_complex else distance_sums
        excess = magnitude * (magnitude / (count if isinstance(count, Core) else as_float(count)))
        return self._with(OPS["less_rounding"], self._compute(OPS["minimum"], excess, self))

    @left_to("std")
    @spelled
    def std(
        self,
        axis: Axes = None,
        correction: float = 0.0,
        keepdims: bool = False,
        *,
        dim: Axes = None,
        keepdim: bool | None = None,
        ddof: float | None = None,
        mean: Operand | None = None,
        out: Self | None = None,
        where: Operand | None = None,
    ) -> Self:
        """Return a new float tensor: the square root of `var`."""
        variance, result = self._variance("std", axis, correction, keepdims, mean)
        return variance._compute(OPS["deviation"], variance)._typed(result)

    def _count(self, op: str, axis: Axes) -> int:
        count = 1
        for a in axes_of(op, axis, self.layout.ndim):
            count *= self.layout.shape[a]
        return count

    # Cumulative reductions

    def _scan(self, reduction_like: str | Reduction, op: str, axis: Any, dtype: DTypeLike | None) -> Self:
        """Return a cumulative reduction along an axis, or of the flattened tensor for None. `reduction_like` is a reduction or the name
        of one.
        """
        t = self._typed(dtype)
        if axis is None:
            if t.layout.ndim != 1:
                t = t.ravel()
            axis = 0
        scan_axis = axis_of(op, axis, t.layout.ndim)
        layout = t.layout
        in_memory = _find_memory_order(layout, tuple(range(layout.ndim))) or tuple(range(layout.ndim))
        memory_layout = Layout.contiguous(tuple([layout.shape[a] for a in in_memory]))
        axis_positions = [in_memory.index(a) for a in range(layout.ndim)]
        loops = [*(a for a in in_memory if a != scan_axis), scan_axis]
        target = memory_layout.permute([axis_positions[a] for a in loops])
        reduction = running(reduction_like, t.dtype) if isinstance(reduction_like, str) else reduction_like
        reduction.check(op, t.dtype)
        result_dtype = reduction.result(t.dtype)
        result = self._of(Node.of(_scan(reduction), memory_layout.shape, result_dtype, (t.node,), (layout.permute(loops),), target))
        return result._view(result.layout.permute(axis_positions))._typed(dtype)

    def _extremes(self, reduction_name: str, op: str, axis: int) -> tuple[Self, Self]:
        """Return the largest or smallest of elements `0..i` along an axis, and its last position. From the first NaN on, values are NaN."""
        axis = axis_of(op, axis, self.ndim)
        values = self._scan(reduction_name, op, axis, None)
        is_extreme: Any = self == values
        if self.dtype.is_float:
            is_extreme = is_extreme | self.isnan()
        shape = tuple([n if a == axis else 1 for a, n in enumerate(self.shape)])
        positions = self._of(Node.of(POSITION, shape, DEFAULT_INT))
        return values, self._compute(OPS["where"], is_extreme, positions, 0)._scan("max", op, axis, None)

    @left_to("cumsum")
    @spelled
    def cumulative_sum(
        self,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        *,
        dim: int | None = None,
        out: Self | None = None,
    ) -> Self:
        """Return a new tensor whose element `i` is the sum of elements `0..i` along `axis`, or of the flattened tensor for None.

        >>> import tenxor as tx
        >>> tx.arange(5).cumulative_sum().tolist()
        [0, 1, 3, 6, 10]
        """
        return self._scan("sum", "cumulative_sum", axis, dtype)

    @left_to("cumprod")
    @spelled
    def cumulative_prod(
        self,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        *,
        dim: int | None = None,
        out: Self | None = None,
    ) -> Self:
        """Return a new tensor whose element `i` is the product of elements `0..i` along `axis`, or of the flattened tensor for None."""
        return self._scan("prod", "cumulative_prod", axis, dtype)

    cumsum, cumprod = cumulative_sum, cumulative_prod
