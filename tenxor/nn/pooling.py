"""Pooling layers: maximum and mean over windows, and unpooling of maxima."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..api.argument_validation import Ints, validate_arguments
from ..api.pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from ..tensor import Tensor
from .module import Layer, Module
from .unpooling import max_unpool1d, max_unpool2d, max_unpool3d

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]
__all__ += ["MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]  # type checkers do not see names in starred tuples


class _MaxPool(Layer):
    """The base of `MaxPool1d` to `MaxPool3d`: `function` is the function of the layer."""

    function: Callable[..., Any]

    @validate_arguments
    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = type(self).function(
            x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )
        return result

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool1d(_MaxPool):
    """`tx.max_pool1d` over (N, C, L) or (C, L).

    A call returns a new tensor ([N,] C, L').

    Parameters
    ----------
    kernel_size, stride, padding, dilation, return_indices, ceil_mode
        As in `MaxPool2d`, for one axis. With `return_indices` the result is a pair: the maxima, and their flat indices.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `MaxPool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.MaxPool1d(2)(tx.asarray([[3, 1, 4, 1, 5, 9]])).tolist()
    [[3, 4, 9]]
    """

    function = staticmethod(max_pool1d)


class MaxPool2d(_MaxPool):
    """`tx.max_pool2d` over (N, C, H, W) or (C, H, W).

    A call returns a new tensor ([N,] C, H', W') of the dtype of the input, any dtype but complex.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Number of elements of a window: one number, or one for each axis.
    stride : int or tuple of int, optional
        Distance of the windows in elements, by default `kernel_size`.
    padding : int or tuple of int, default 0
        Number of elements added on both sides, at most half of the kernel. They are never the maximum.
    dilation : int or tuple of int, default 1
        Distance of the elements within a window.
    return_indices : bool, default False
        If True, the result is a pair: the maxima, and their flat int64 indices, as `MaxUnpool2d` takes them.
    ceil_mode : bool, default False
        If True, one more window covers the elements left over at the end.

    Raises
    ------
    ShapeError
        In a call, if axes and sizes do not fit.
    ArgumentError
        In a call, if a parameter is out of range.
    DTypeError
        In a call, if the input is complex.

    Examples
    --------
    >>> import tenxor as tx
    >>> values, indices = tx.nn.MaxPool2d(2, return_indices=True)(tx.arange(16).reshape(1, 4, 4))
    >>> values.tolist(), indices.tolist()
    ([[[5, 7], [13, 15]]], [[[5, 7], [13, 15]]])
    """

    function = staticmethod(max_pool2d)


class MaxPool3d(_MaxPool):
    """`tx.max_pool3d` over (N, C, D, H, W) or (C, D, H, W).

    A call returns a new tensor ([N,] C, D', H', W').

    Parameters
    ----------
    kernel_size, stride, padding, dilation, return_indices, ceil_mode
        As in `MaxPool2d`, for three axes. With `return_indices` the result is a pair: the maxima, and their flat indices.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `MaxPool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.MaxPool3d(2)(tx.ones((2, 1, 4, 4, 4))).shape
    (2, 1, 2, 2, 2)
    """

    function = staticmethod(max_pool3d)


class _AvgPool(Layer):
    """The base of `AvgPool1d` to `AvgPool3d`: `function` is the function of the layer."""

    function: Callable[..., Tensor]

    @validate_arguments
    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return type(self).function(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """`tx.avg_pool1d` over (N, C, L) or (C, L).

    A call returns a new tensor ([N,] C, L').

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode, count_include_pad
        As in `AvgPool2d`, for one axis.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `AvgPool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.AvgPool1d(2)(tx.asarray([[3.0, 1.0, 4.0, 1.0]])).tolist()
    [[2.0, 2.5]]
    """

    function = staticmethod(avg_pool1d)


class AvgPool2d(_AvgPool):
    """`tx.avg_pool2d` over (N, C, H, W) or (C, H, W).

    A call returns a new tensor ([N,] C, H', W') of the dtype of the input; for integers the dtype is float64.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Number of elements of a window: one number, or one for each axis.
    stride : int or tuple of int, optional
        Distance of the windows in elements, by default `kernel_size`.
    padding : int or tuple of int, default 0
        Number of zeros added on both sides, at most half of the kernel.
    ceil_mode : bool, default False
        If True, one more window covers the elements left over at the end.
    count_include_pad : bool, default True
        If False, the zeros of the padding do not count as elements.

    Raises
    ------
    ShapeError
        In a call, if axes and sizes do not fit.
    ArgumentError
        In a call, if a parameter is out of range.
    DTypeError
        In a call, if the input is bool.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.AvgPool2d(2)(tx.arange(16.0).reshape(1, 4, 4)).tolist()
    [[[2.5, 4.5], [10.5, 12.5]]]
    """

    function = staticmethod(avg_pool2d)


class AvgPool3d(_AvgPool):
    """`tx.avg_pool3d` over (N, C, D, H, W) or (C, D, H, W).

    A call returns a new tensor ([N,] C, D', H', W').

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode, count_include_pad
        As in `AvgPool2d`, for three axes.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As in `AvgPool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.AvgPool3d(2)(tx.ones((1, 4, 4, 4))).shape
    (1, 2, 2, 2)
    """

    function = staticmethod(avg_pool3d)


class _MaxUnpool(Module):
    """The base of `MaxUnpool1d` to `MaxUnpool3d`: `function` is the function of the layer."""

    function: Callable[..., Tensor]

    @validate_arguments
    def __init__(self, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self).function(x, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """`functional.max_unpool1d`, for the results of `MaxPool1d` with `return_indices`, (N, C, L) or (C, L).

    The arguments of a call are those of `MaxUnpool2d`.

    Parameters
    ----------
    kernel_size, stride, padding
        As in `MaxUnpool2d`, for one axis.

    Raises
    ------
    ShapeError, BadIndex, IndexOutOfRange, ArgumentError
        As in `MaxUnpool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.MaxUnpool1d(2)(tx.asarray([[5, 6]]), tx.asarray([[1, 2]])).tolist()
    [[0, 5, 6, 0]]
    """

    function = staticmethod(max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """`functional.max_unpool2d`, for the results of `MaxPool2d` with `return_indices`.

    `forward(x, indices, output_size=None)` takes maxima and their integer indices, both ([N,] C, H, W), and returns a new tensor of the
    dtype of `x`. Each axis has `(n - 1) * stride - 2 * padding + kernel_size` elements, unless `output_size` replaces this default.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Number of elements of a window of the pooling: one number, or one for each axis.
    stride : int or tuple of int, optional
        Stride of the pooling, by default `kernel_size`.
    padding : int or tuple of int, default 0
        Padding of the pooling.

    Raises
    ------
    ShapeError
        In a call, if `x` and `indices` have unequal shapes, or a number of axes that does not fit.
    BadIndex
        In a call, if the indices are not integers.
    IndexOutOfRange
        In a call, if an index is beyond the result.
    ArgumentError
        In a call, if a parameter is out of range, or if `output_size` is not within a stride of the default.

    Examples
    --------
    >>> import tenxor as tx
    >>> pool, unpool = tx.nn.MaxPool2d(2, return_indices=True), tx.nn.MaxUnpool2d(2)
    >>> unpool(*pool(tx.arange(4).reshape(1, 2, 2))).tolist()
    [[[0, 0], [0, 3]]]
    """

    function = staticmethod(max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """`functional.max_unpool3d`, for the results of `MaxPool3d` with `return_indices`, (N, C, D, H, W) or (C, D, H, W).

    The arguments of a call are those of `MaxUnpool2d`.

    Parameters
    ----------
    kernel_size, stride, padding
        As in `MaxUnpool2d`, for three axes.

    Raises
    ------
    ShapeError, BadIndex, IndexOutOfRange, ArgumentError
        As in `MaxUnpool2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.MaxUnpool3d(2)(tx.asarray([[[[5]]]]), tx.asarray([[[[7]]]])).tolist()
    [[[[0, 0], [0, 0]], [[0, 0], [0, 5]]]]
    """

    function = staticmethod(max_unpool3d)
