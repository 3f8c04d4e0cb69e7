"""Pooling: the view of all windows of a tensor, each reduced to its maximum or its mean."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, overload

from ..creation import arange, asarray
from ..dtypes import DEFAULT_FLOAT, DType
from ..errors import ArgumentError, DTypeError
from ..ops import OPS
from ..ops.reductions import REDUCTIONS
from ..records import NamedTuple
from ..tensor import Tensor
from ..tensor.arguments import truth
from .sliding import Ints, batched, both_sides, counted, extents, over_axes, padded, per_axis, windowed

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
    """The maxima of windows, `values`, and their flat `indices` in the axes of space."""

    values: Tensor
    indices: Tensor


def _max(
    op: str,
    space: int,
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute max pooling over `space` axes, the body of `max_pool1d`, `max_pool2d` and `max_pool3d`. `op` is the name."""
    x = asarray(x)
    lowest = -inf if x.dtype.is_float else x.dtype.lowest
    windows = _Windows(op, space, x, kernel_size, stride, padding, dilation, ceil_mode)
    maxima: Tensor = windows.reduce(x, lowest, "max")
    return Pooled(maxima, windows.indices(x, lowest)) if truth(op, "return_indices", return_indices) else maxima


def _with_indices(function: object) -> _MaxPool:
    """Return `function` with a type for which `return_indices` determines the type of the result."""
    return cast("_MaxPool", function)


@_with_indices
@over_axes(1, _max)
def max_pool1d() -> None:
    """New tensor: the maximum of each window along the last axis of `x`, (N, C, L) or (C, L). Arguments and errors as in `max_pool2d`.

    >>> import tenxor as tx
    >>> tx.max_pool1d(tx.asarray([[3, 1, 4, 1, 5, 9, 2]]), 2).tolist()
    [[3, 4, 9]]
    """


@_with_indices
@over_axes(2, _max)
def max_pool2d() -> None:
    """New tensor: the maximum of each window over the last two axes of `x`, or NaN if an element is NaN.

    `x` is (N, C, H, W), or (C, H, W) without a batch, of any dtype. Windows have `kernel_size` elements, `dilation` apart, and start
    `stride` apart, by default `kernel_size`: each is one number, or one for each axis. `padding`, at most half of the kernel, adds elements
    on both sides that are below all others; it may be a pair `(before, after)` for each axis. Elements left over at the end are in no
    window; with `ceil_mode`, one more window covers them and reaches beyond the end.

    With `return_indices` the result is a pair, `values` and `indices`: the maxima, and the int64 index of each in the flattened axes of
    space, the first of equal elements. Raise ShapeError for axes and sizes that do not fit, ArgumentError for other arguments out of range.

    >>> import tenxor as tx
    >>> tx.max_pool2d(tx.arange(25).reshape(1, 5, 5), 2).tolist()
    [[[6, 8], [16, 18]]]
    >>> tx.max_pool2d(tx.arange(25).reshape(1, 5, 5), 2, ceil_mode=True).tolist()
    [[[6, 8, 9], [16, 18, 19], [21, 23, 24]]]
    >>> tx.max_pool2d(tx.asarray([[[3, 9], [5, 1]]]), 2, return_indices=True)[1].tolist()
    [[[1]]]
    """


@_with_indices
@over_axes(3, _max)
def max_pool3d() -> None:
    """New tensor: the maximum of each window over the last three axes of `x`, (N, C, D, H, W) or (C, D, H, W). Arguments and errors as in
    `max_pool2d`.

    >>> import tenxor as tx
    >>> tx.max_pool3d(tx.arange(64).reshape(1, 4, 4, 4), 2).tolist()
    [[[[21, 23], [29, 31]], [[53, 55], [61, 63]]]]
    """


def _average(
    op: str,
    space: int,
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Compute average pooling over `space` axes, the body of `avg_pool1d`, `avg_pool2d` and `avg_pool3d`. `op` is the name."""
    x = asarray(x)
    if x.dtype.kind == "bool":
        raise DTypeError(f"{op}: does not accept bool; use x.astype(tx.float64)")
    result_dtype = x.dtype if x.dtype.is_float or x.dtype.is_complex else DEFAULT_FLOAT
    windows = _Windows(op, space, x, kernel_size, stride, padding, 1, ceil_mode)
    total = windows.reduce(x.astype(result_dtype.compute, copy=False), 0, "sum")
    means: Tensor = (total / windows.divisors(count_include_pad, result_dtype.compute)).astype(result_dtype, copy=False)
    return means


@over_axes(1, _average)
def avg_pool1d() -> None:
    """New float tensor: the mean of each window along the last axis of `x`, (N, C, L) or (C, L). Arguments and errors as in `avg_pool2d`.

    >>> import tenxor as tx
    >>> tx.avg_pool1d(tx.asarray([[3, 1, 4, 1, 5, 9]]), 2).tolist()
    [[2.0, 2.5, 7.0]]
    """


@over_axes(2, _average)
def avg_pool2d() -> None:
    """New float tensor: the mean of each window over the last two axes of `x`.

    Arguments and errors are those of `max_pool2d`, except for padding, which is with zeros. The zeros count as elements unless
    `count_include_pad` is False. With `ceil_mode`, the part of a window beyond the padding never counts. Integers become float64; float16
    and bfloat16 are summed in float32. Raise DTypeError for bool.

    >>> import tenxor as tx
    >>> tx.avg_pool2d(tx.ones((1, 2, 2)), 2, padding=1).tolist()
    [[[0.25, 0.25], [0.25, 0.25]]]
    >>> tx.avg_pool2d(tx.ones((1, 2, 2)), 2, padding=1, count_include_pad=False).tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]
    """


@over_axes(3, _average)
def avg_pool3d() -> None:
    """New float tensor: the mean of each window over the last three axes of `x`, (N, C, D, H, W) or (C, D, H, W). Arguments and errors as
    in `avg_pool2d`.

    >>> import tenxor as tx
    >>> tx.avg_pool3d(tx.arange(8).reshape(1, 2, 2, 2), 2).item()
    3.5
    """


# --- how --------------------------------------------------------------------------------------------------------------


class _Windows:
    """The windows of a pooling operation: checked sizes for each axis of space, and `counts`, the number of windows along each."""

    def __init__(
        self,
        op: str,
        space: int,
        x: Tensor,
        kernel: Ints,
        stride: Ints | None,
        padding: Ints,
        dilation: Ints,
        ceil_mode: bool,
    ) -> None:
        self.op, self.space = op, batched(op, x, space).shape[2:]
        self.kernel = per_axis(op, "kernel_size", kernel, space, 1)
        self.stride = self.kernel if stride is None else per_axis(op, "stride", stride, space, 1)
        self.pad_before, self.pad_after = both_sides(op, "padding", padding, space)
        self.dilation = per_axis(op, "dilation", dilation, space, 1)
        self.extent = extents(self.kernel, self.dilation)
        for axis, (p, k) in enumerate(zip(map(max, self.pad_before, self.pad_after), self.kernel, strict=True)):
            if 2 * p > k:
                raise ArgumentError(
                    f"{op}: padding {p} of axis {axis - space} is more than half of the kernel_size {k}; use tx.pad for more"
                )
        self.counts = counted(op, x, self.pad_before, self.pad_after, self.extent, self.stride, ceil_mode)

    def reduce(self, x: Any, padding_value: Any, reduction: str) -> Any:
        """Return each window of `x` reduced by the named reduction. Elements of a window outside `x` are `padding_value`."""
        view = self.view_windows(x, padding_value)
        return view._reduce(REDUCTIONS[reduction], self.op, tuple(range(-len(self.kernel), 0)), False)

    def indices(self, x: Any, lowest: Any) -> Any:
        """Return the index of each window's maximum in the flattened axes of space.

        If all elements of a window are `lowest`, the index is of one of its elements inside `x`, never in the padding.
        """
        space = len(self.kernel)
        view = self.view_windows(x.detach(), lowest)
        remaining = view.reshape((*view.shape[:-space], prod(self.kernel))).argmax(-1)
        flat_indices: Any = 0
        stride = 1
        for axis in range(space - 1, -1, -1):
            k, s, d, n = self.kernel[axis], self.stride[axis], self.dilation[axis], self.space[axis]
            start = (arange(self.counts[axis]) * s - self.pad_before[axis]).reshape((-1, *(1,) * (space - 1 - axis)))
            position = start + remaining % k * d
            first_inside = Tensor._compute(OPS["where"], start < 0, start % d, start)  # the window's first element inside the tensor
            is_inside: Any = (position >= 0) & (position < n)
            flat_indices = flat_indices + Tensor._compute(OPS["where"], is_inside, position, first_inside) * stride
            remaining, stride = remaining // k, stride * n
        return flat_indices

    def view_windows(self, x: Any, padding_value: Any) -> Any:
        """Return the view of all windows of `x`, padded with `padding_value`."""
        x = padded(x, self.counts, self.pad_before, self.extent, self.stride, padding_value)
        return x._view(windowed(x.layout, self.kernel, self.stride, self.dilation))

    def divisors(self, count_include_pad: bool, dtype: DType) -> Any:
        """Return the divisor of each window's sum: the number of its elements that count, in a shape that broadcasts to the windows."""
        result: Any = 1.0
        for axis, n in enumerate(self.space):
            p, k, s = self.pad_before[axis], self.kernel[axis], self.stride[axis]
            low, high = (-p, n + self.pad_after[axis]) if count_include_pad else (0, n)
            starts = [i * s - p for i in range(self.counts[axis])]
            divisors = [float(min(start + k, high) - max(start, low)) for start in starts]
            if len(set(divisors)) == 1:
                result = result * divisors[0]
            else:
                axis_divisors = asarray(divisors, dtype=dtype)
                result = axis_divisors.reshape(-1, *(1,) * (len(self.space) - 1 - axis)) * result
        return result
