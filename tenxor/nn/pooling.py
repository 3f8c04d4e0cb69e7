"""Pooling layers: maximum and mean over windows, and unpooling of maxima."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..api.argument_validation import Ints, validate_arguments
from ..api.pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from ..tensor import Tensor
from .module import Layer, Module
from .unpooling import max_unpool1d, max_unpool2d, max_unpool3d

__all__ = [
    *("AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"),
    *("MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"),
]


class _MaxPool(Layer):
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
    """`tx.max_pool1d`. With `return_indices` the result is a pair: the maxima, and their flat indices."""

    function = staticmethod(max_pool1d)


class MaxPool2d(_MaxPool):
    """`tx.max_pool2d`. With `return_indices` the result is a pair: the maxima, and their flat indices, as `MaxUnpool2d` takes them.

    >>> import tenxor as tx
    >>> values, indices = tx.nn.MaxPool2d(2, return_indices=True)(tx.arange(16).reshape(1, 4, 4))
    >>> values.tolist(), indices.tolist()
    ([[[5, 7], [13, 15]]], [[[5, 7], [13, 15]]])
    """

    function = staticmethod(max_pool2d)


class MaxPool3d(_MaxPool):
    """`tx.max_pool3d`. With `return_indices` the result is a pair: the maxima, and their flat indices."""

    function = staticmethod(max_pool3d)


class _AvgPool(Layer):
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
    """`tx.avg_pool1d`."""

    function = staticmethod(avg_pool1d)


class AvgPool2d(_AvgPool):
    """`tx.avg_pool2d`."""

    function = staticmethod(avg_pool2d)


class AvgPool3d(_AvgPool):
    """`tx.avg_pool3d`."""

    function = staticmethod(avg_pool3d)


class _MaxUnpool(Module):
    function: Callable[..., Tensor]

    @validate_arguments
    def __init__(self, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self).function(x, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """`functional.max_unpool1d`, for the results of `MaxPool1d` with `return_indices`."""

    function = staticmethod(max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """`functional.max_unpool2d`, for the results of `MaxPool2d` with `return_indices`.

    >>> import tenxor as tx
    >>> pool, unpool = tx.nn.MaxPool2d(2, return_indices=True), tx.nn.MaxUnpool2d(2)
    >>> unpool(*pool(tx.arange(4).reshape(1, 2, 2))).tolist()
    [[[0, 0], [0, 3]]]
    """

    function = staticmethod(max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """`functional.max_unpool3d`, for the results of `MaxPool3d` with `return_indices`."""

    function = staticmethod(max_unpool3d)
