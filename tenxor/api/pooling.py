"""Pooling: the view of all windows of a tensor, each reduced to its maximum or its mean."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, overload

from .._utils.records import NamedTuple
from ..dtypes import DEFAULT_FLOAT, DType
from ..errors import ArgumentError, DTypeError
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag
from .creation import arange, asarray
from .sliding_windows import (
    Ints,
    add_batch_axis,
    count_windows,
    define_for_spatial_axes,
    pad_for_windows,
    parse_both_sides,
    parse_per_axis,
    window_extents,
    window_layout,
)

__all__ = ["avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d"]

if TYPE_CHECKING:

    class _MaxPool(Protocol):
        @overload
        def __call__(
            self,
            x: Tensor,
            kernel_size: Ints,
            stride: Ints | None = None,
            padding: Ints = 0,
            dilation: Ints = 1,
            ceil_mode: bool = False,
            return_indices: Literal[False] = False,
        ) -> Tensor: ...
        @overload
        def __call__(
            self,
            x: Tensor,
            kernel_size: Ints,
            stride: Ints | None = None,
            padding: Ints = 0,
            dilation: Ints = 1,
            ceil_mode: bool = False,
            *,
            return_indices: Literal[True],
        ) -> tuple[Tensor, Tensor]: ...


class Pooled(NamedTuple):
    """The maxima of windows, `values`, and their flat `indices` in the spatial axes."""

    values: Tensor
    indices: Tensor


def _pool_max(
    op: str,
    spatial_ndim: int,
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maxima of windows over `spatial_ndim` axes, or with `return_indices` the pair of maxima and indices (`Pooled`).

    This is the body of `max_pool1d`, `max_pool2d` and `max_pool3d`; `op` is the name. The further parameters are those of `max_pool2d`.
    """
    x = asarray(x)
    lowest = -inf if x.dtype.is_float else x.dtype.lowest
    windows = _Windows(op, spatial_ndim, x, kernel_size, stride, padding, dilation, ceil_mode)
    maxima: Tensor = windows.reduce(x, lowest, "max")
    return Pooled(maxima, windows.argmax_indices(x, lowest)) if check_flag("return_indices", return_indices) else maxima


def _with_indices(function: object) -> _MaxPool:
    """Return `function` with a type for which `return_indices` determines the type of the result."""
    return cast("_MaxPool", function)


@_with_indices
@define_for_spatial_axes(1, _pool_max)
def max_pool1d() -> None:
    """Return the maximum of each window along the last axis of `x`, as a new tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, L), or (C, L) without a batch, of any dtype but complex.
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        As in `max_pool2d`, for one axis: each size is one number, and `padding` one number or `[(before, after)]`.

    Returns
    -------
    Tensor, or (values, indices)
        ([N,] C, L'), as in `max_pool2d`. `indices`, int64, count along the last axis of `x`.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `max_pool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.max_pool1d(tx.asarray([[3, 1, 4, 1, 5, 9, 2]]), 2).tolist()
    [[3, 4, 9]]
    """


@_with_indices
@define_for_spatial_axes(2, _pool_max)
def max_pool2d() -> None:
    """Return the maximum of each window over the last two axes of `x`, or NaN if an element is NaN, as a new tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, H, W), or (C, H, W) without a batch, of any dtype but complex.
    kernel_size : int or Sequence[int]
        The number of elements of a window along each axis; like the next three, one number, or one for each axis.
    stride : int or Sequence[int], optional
        The distance between the beginnings of windows, by default `kernel_size`.
    padding : int, Sequence[int] or Sequence of pairs, default 0
        Elements added on both sides, below all others; at most half of the kernel. It may be a pair `(before, after)` for each axis.
    dilation : int or Sequence[int], default 1
        The distance between the elements of a window.
    ceil_mode : bool, default False
        Elements left over at the end are in no window. If True, one more window covers them and reaches beyond the end.
    return_indices : bool, default False
        If True, the result is a pair, `values` and `indices`.

    Returns
    -------
    Tensor, or (values, indices)
        The maxima, of the dtype of `x`, in the shape of `x` with the number of windows in place of each of the last two sizes. `indices`
        has the same shape: the int64 index of each maximum in the flattened last two axes of `x`, the first of equal elements.

    Raises
    ------
    ShapeError
        If axes and sizes do not fit.
    ArgumentError
        If another argument is out of range.
    DTypeError
        If `x` is complex.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.max_pool2d(tx.arange(25).reshape(1, 5, 5), 2).tolist()
    [[[6, 8], [16, 18]]]
    >>> tx.max_pool2d(tx.arange(25).reshape(1, 5, 5), 2, ceil_mode=True).tolist()
    [[[6, 8, 9], [16, 18, 19], [21, 23, 24]]]
    >>> tx.max_pool2d(tx.asarray([[[3, 9], [5, 1]]]), 2, return_indices=True)[1].tolist()
    [[[1]]]
    """


@_with_indices
@define_for_spatial_axes(3, _pool_max)
def max_pool3d() -> None:
    """Return the maximum of each window over the last three axes of `x`, as a new tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, D, H, W), or (C, D, H, W) without a batch, of any dtype but complex.
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        As in `max_pool2d`, for three axes.

    Returns
    -------
    Tensor, or (values, indices)
        ([N,] C, D', H', W'), as in `max_pool2d`. `indices` count in the flattened last three axes of `x`.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `max_pool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.max_pool3d(tx.arange(64).reshape(1, 4, 4, 4), 2).tolist()
    [[[[21, 23], [29, 31]], [[53, 55], [61, 63]]]]
    """


def _pool_average(
    op: str,
    spatial_ndim: int,
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the means of windows over `spatial_ndim` axes, as a new tensor.

    This is the body of `avg_pool1d`, `avg_pool2d` and `avg_pool3d`; `op` is the name. The further parameters are those of `avg_pool2d`.
    """
    x = asarray(x)
    if x.dtype.kind == "bool":
        raise DTypeError(f"{op}: x is bool; it must have numbers; use x.astype(tx.float64)")
    result_dtype = x.dtype if x.dtype.is_float or x.dtype.is_complex else DEFAULT_FLOAT
    windows = _Windows(op, spatial_ndim, x, kernel_size, stride, padding, 1, ceil_mode)
    count_include_pad = check_flag("count_include_pad", count_include_pad)
    total = windows.reduce(x.astype(result_dtype.compute_dtype, copy=False), 0, "sum")
    means: Tensor = (total / windows.count_divisors(count_include_pad, result_dtype.compute_dtype)).astype(result_dtype, copy=False)
    return means


@define_for_spatial_axes(1, _pool_average)
def avg_pool1d() -> None:
    """Return the mean of each window along the last axis of `x`, as a new float tensor; for complex `x` a complex tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, L), or (C, L) without a batch, of any dtype but bool. For integers the result is float64.
    kernel_size, stride, padding, ceil_mode, count_include_pad
        As in `avg_pool2d`. Sizes are one number, as there is one axis.

    Returns
    -------
    Tensor
        New tensor ([N,] C, L'), as in `avg_pool2d`.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `avg_pool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.avg_pool1d(tx.asarray([[3, 1, 4, 1, 5, 9]]), 2).tolist()
    [[2.0, 2.5, 7.0]]
    """


@define_for_spatial_axes(2, _pool_average)
def avg_pool2d() -> None:
    """Return the mean of each window over the last two axes of `x`, as a new float tensor; for complex `x` a complex tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, H, W), or (C, H, W) without a batch, of any dtype but bool. For integers the result is float64; float16 and bfloat16 are
        summed in float32.
    kernel_size : int or Sequence[int]
        The number of elements of a window along each axis.
    stride : int or Sequence[int], optional
        The distance between the beginnings of windows, by default `kernel_size`.
    ceil_mode : bool, default False
        If True, one more window covers the elements left over at the end. The part of a window beyond the padding never counts.
    padding : int, Sequence[int] or Sequence of pairs, default 0
        Zeros added on both sides, at most half of the kernel, as in `max_pool2d`.
    count_include_pad : bool, default True
        If False, the zeros of the padding do not count as elements.

    Returns
    -------
    Tensor
        New tensor of the dtype of `x` for floats and complex numbers, in the shape of `x` with the number of windows in place of each of
        the last two sizes.

    Raises
    ------
    ShapeError
        If axes and sizes do not fit.
    ArgumentError
        If another argument is out of range.
    DTypeError
        If `x` is bool.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.avg_pool2d(tx.ones((1, 2, 2)), 2, padding=1).tolist()
    [[[0.25, 0.25], [0.25, 0.25]]]
    >>> tx.avg_pool2d(tx.ones((1, 2, 2)), 2, padding=1, count_include_pad=False).tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]
    """


@define_for_spatial_axes(3, _pool_average)
def avg_pool3d() -> None:
    """Return the mean of each window over the last three axes of `x`, as a new float tensor; for complex `x` a complex tensor.

    Parameters
    ----------
    x : Tensor
        (N, C, D, H, W), or (C, D, H, W) without a batch, of any dtype but bool. For integers the result is float64.
    kernel_size, stride, padding, ceil_mode, count_include_pad
        As in `avg_pool2d`, for three axes.

    Returns
    -------
    Tensor
        New tensor ([N,] C, D', H', W'), as in `avg_pool2d`.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `avg_pool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.avg_pool3d(tx.arange(8).reshape(1, 2, 2, 2), 2).item()
    3.5
    """


# --- how --------------------------------------------------------------------------------------------------------------


class _Windows:
    """The windows of the pooling operation `op` over the last `spatial_ndim` axes of `x`.

    The further arguments are those of `max_pool2d`; the attributes have a checked number for each spatial axis. `counts` is the number of
    windows along each axis. The constructor raises the errors of `max_pool2d`.
    """

    def __init__(
        self,
        op: str,
        spatial_ndim: int,
        x: Tensor,
        kernel: Ints,
        stride: Ints | None,
        padding: Ints,
        dilation: Ints,
        ceil_mode: bool,
    ) -> None:
        self.op, self.spatial_shape = op, add_batch_axis(op, x, spatial_ndim).shape[2:]
        self.kernel = parse_per_axis(op, "kernel_size", kernel, spatial_ndim, 1)
        self.stride = self.kernel if stride is None else parse_per_axis(op, "stride", stride, spatial_ndim, 1)
        self.pad_before, self.pad_after = parse_both_sides(op, "padding", padding, spatial_ndim)
        self.dilation = parse_per_axis(op, "dilation", dilation, spatial_ndim, 1)
        self.extent = window_extents(self.kernel, self.dilation)
        for axis, (p, k) in enumerate(zip(map(max, self.pad_before, self.pad_after), self.kernel, strict=True)):
            if 2 * p > k:
                raise ArgumentError(
                    f"{op}: padding {p} of axis {axis - spatial_ndim} is more than half of the kernel_size {k}; use tx.pad for more"
                )
        self.counts = count_windows(op, x, self.pad_before, self.pad_after, self.extent, self.stride, check_flag("ceil_mode", ceil_mode))

    def reduce(self, x: Any, padding_value: Any, reduction: str) -> Any:
        """Return each window of `x` reduced by `REDUCTIONS[reduction]`, in the shape of `x` with `counts` as the last sizes.

        Elements of a window outside `x` are `padding_value`.
        """
        view = self.view_windows(x, padding_value)
        return view._reduce(REDUCTIONS[reduction], self.op, tuple(range(-len(self.kernel), 0)), False)

    def argmax_indices(self, x: Any, lowest: Any) -> Any:
        """Return the int64 index of each window's maximum in the flattened spatial axes of `x`. `lowest` is the value of the padding.

        If all elements of a window are `lowest`, the index is of one of its elements inside `x`, never in the padding.
        """
        space = len(self.kernel)
        view = self.view_windows(x.detach(), lowest)
        remaining = view.reshape((*view.shape[:-space], prod(self.kernel))).argmax(-1)
        flat_indices: Any = 0
        stride = 1
        for axis in range(space - 1, -1, -1):
            k, s, d, n = self.kernel[axis], self.stride[axis], self.dilation[axis], self.spatial_shape[axis]
            start = (arange(self.counts[axis]) * s - self.pad_before[axis]).reshape((-1, *(1,) * (space - 1 - axis)))
            position = start + remaining % k * d
            first_inside = Tensor._compute(OPS["where"], start < 0, start % d, start)  # the window's first element inside the tensor
            is_inside: Any = (position >= 0) & (position < n)
            flat_indices = flat_indices + Tensor._compute(OPS["where"], is_inside, position, first_inside) * stride
            remaining, stride = remaining // k, stride * n
        return flat_indices

    def view_windows(self, x: Any, padding_value: Any) -> Any:
        """Return the view of all windows of `x`, padded with `padding_value`.

        The spatial axes count windows; new last axes, one for each, count the elements of a window.
        """
        x = pad_for_windows(x, self.counts, self.pad_before, self.extent, self.stride, padding_value)
        return x._view(window_layout(x.layout, self.kernel, self.stride, self.dilation))

    def count_divisors(self, count_include_pad: bool, dtype: DType) -> Any:
        """Return the divisor of each window's sum: the number of counted elements, in a shape that broadcasts to the windows.

        Elements of the padding count only with `count_include_pad`. The result is a float, or a tensor of `dtype`.
        """
        result: Any = 1.0
        for axis, n in enumerate(self.spatial_shape):
            p, k, s = self.pad_before[axis], self.kernel[axis], self.stride[axis]
            low, high = (-p, n + self.pad_after[axis]) if count_include_pad else (0, n)
            starts = [i * s - p for i in range(self.counts[axis])]
            divisors = [float(min(start + k, high) - max(start, low)) for start in starts]
            if len(set(divisors)) == 1:
                result = result * divisors[0]
            else:
                axis_divisors = asarray(divisors, dtype=dtype)
                result = axis_divisors.reshape(-1, *(1,) * (len(self.spatial_shape) - 1 - axis)) * result
        return result
