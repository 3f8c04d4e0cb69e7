"""Single-step layers: affine maps, convolutions, embeddings and dropout.

An input must have the dtype of the layer's parameters, by default float32.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

from ..api.argument_validation import Ints, PositiveInt, explain_errors, validate_arguments
from ..api.convolution import conv1d, conv2d
from ..api.creation import empty
from ..api.sliding_windows import parse_per_axis
from ..dtypes import DTypeLike, float32
from ..errors import ArgumentError, ShapeError
from ..random import Source
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice
from ..tensor.core import Operand
from . import functional, init
from .dtype_check import check_dtypes
from .module import Layer, Module, Parameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Dropout",
    "Embedding",
    "Flatten",
    "Lambda",
    "Linear",
]


def _make_weights(shape: tuple[int, ...], dtype: DTypeLike, generator: Source, bias: int | None) -> tuple[Tensor, Tensor | None]:
    """Return a weight of `shape`, (out, in, *kernel), and a bias of `bias` elements or None, both uniform within ± 1 / sqrt(fan_in)."""
    values = empty(shape, dtype=dtype)
    bound = 1.0 / sqrt(max(prod(shape[1:]), 1))
    weight = Parameter(init.uniform_(values, -bound, bound, generator))
    return weight, None if bias is None else Parameter(init.uniform_(empty(bias, dtype=dtype), -bound, bound, generator))


class Linear(Layer):
    """An affine map `x @ weight.T + bias`, from (..., in_features) to (..., out_features).

    A call returns a new tensor. The attributes `weight`, (out_features, in_features), and `bias`, (out_features,) or None, are initially
    uniform within ± 1 / sqrt(in_features).

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last axis of the input and of the result.
    bias : bool, default True
        Whether to add a bias. If False, the attribute `bias` is None.
    dtype : dtype, default float32
        Floating-point dtype of the parameters, of the input and of the result.
    generator : tx.random.Generator, optional
        Source of the initial values, by default the generator of `tx.random`.

    Raises
    ------
    ShapeError
        If a size is negative, or, in a call, if the last axis of the input does not have `in_features` elements.
    DTypeError
        If `dtype` is not a floating-point dtype, or, in a call, if the input has another dtype.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.Linear(3, 2)
    Linear(3, 2)  # 8 parameters
    >>> tx.nn.Linear(3, 2)(tx.ones((5, 3), dtype=tx.float32)).shape
    (5, 2)
    """

    @validate_arguments
    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, dtype: DTypeLike = float32, generator: Source = None
    ) -> None:
        self.weight, self.bias = _make_weights((out_features, in_features), dtype, generator, out_features if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}"


class _Convolution(Layer):
    """The base of `Conv1d` and `Conv2d`: `function` is the function of the layer, and `spatial_ndim` the number of spatial axes."""

    function: Callable[..., Any]
    spatial_ndim: int

    @validate_arguments
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: PositiveInt = 1,
        bias: bool = True,
        *,
        dtype: DTypeLike = float32,
        generator: Source = None,
    ) -> None:
        name, spatial_ndim = type(self).__name__, self.spatial_ndim
        kernel = parse_per_axis(name, "kernel_size", kernel_size, spatial_ndim, 1)
        for argument, value in (("stride", stride), ("dilation", dilation)):
            parse_per_axis(name, argument, value, spatial_ndim, 1)
        if isinstance(padding, str):
            check_choice(name, "padding, if a text,", padding, "same", "valid")
        else:
            parse_per_axis(name, "padding", padding, spatial_ndim, 0)
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(f"{name}: {groups} groups do not divide {in_channels} and {out_channels} channels; use a common divisor")
        shape = (out_channels, in_channels // groups, *kernel)
        self.weight, self.bias = _make_weights(shape, dtype, generator, out_channels if bias else None)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    @explain_errors
    def forward(self, x: Tensor) -> Tensor:
        check_dtypes(type(self).__name__, x, {"weight": self.weight, "bias": self.bias})
        options = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        result: Tensor = type(self).function(x, self.weight, self.bias, **options)
        return result

    def extra_repr(self) -> str:
        out, into, *kernel = self.weight.shape
        return f"{into * self.groups}, {out}, kernel_size={tuple(kernel)}, stride={self.stride}, padding={self.padding}"


class Conv1d(_Convolution):
    """`tx.conv1d` with the layer's weight and bias, over (N, in_channels, L) or (in_channels, L).

    A call returns a new tensor ([N,] out_channels, L'). `weight` is (out_channels, in_channels / groups, kernel_size).

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of channels of the input and of the result.
    kernel_size, stride, padding, dilation, groups, bias, dtype, generator
        As in `Conv2d`, with one number for each of `kernel_size`, `stride`, `padding` and `dilation`.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError
        As in `Conv2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.Conv1d(4, 8, 3, stride=2)(tx.ones((2, 4, 9), dtype=tx.float32)).shape
    (2, 8, 4)
    """

    function, spatial_ndim = staticmethod(conv1d), 1


class Conv2d(_Convolution):
    """`tx.conv2d` with the layer's weight and bias, over (N, in_channels, H, W) or (in_channels, H, W).

    A call returns a new tensor ([N,] out_channels, H', W') of the dtype of the parameters.

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of channels of the input and of the result.
    kernel_size : int or tuple of int
        Number of elements of a window: one number, or one for each axis.
    stride : int or tuple of int, default 1
        Distance of the windows in elements.
    padding : int, tuple of int or str, default 0
        Number of zeros on both sides, "valid" for none, or "same" for a result as large as the input, which needs stride 1.
    dilation : int or tuple of int, default 1
        Distance of the elements within a window.
    groups : int, default 1
        Number of groups of channels. The kernels of a group see only the channels of that group.
    bias : bool, default True
        Whether to add a bias. If False, the attribute `bias` is None.
    dtype : dtype, default float32
        Floating-point dtype of the parameters, of the input and of the result.
    generator : tx.random.Generator, optional
        Source of the initial values, by default the generator of `tx.random`.

    Attributes
    ----------
    weight : Tensor
        (out_channels, in_channels / groups, KH, KW), initially uniform within ± 1 / sqrt(in_channels / groups * KH * KW).
    bias : Tensor or None
        (out_channels,), initially uniform within the bounds of `weight`.

    Raises
    ------
    ArgumentError
        If `groups` does not divide `in_channels` and `out_channels`, or if `kernel_size`, `stride`, `padding` or `dilation` is invalid.
    ShapeError
        In a call, if the shape of the input does not fit.
    DTypeError
        If `dtype` is not a floating-point dtype, or, in a call, if the input has another dtype.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.Conv2d(3, 8, 3, padding=1)(tx.ones((2, 3, 5, 5), dtype=tx.float32)).shape
    (2, 8, 5, 5)
    """

    function, spatial_ndim = staticmethod(conv2d), 2


class Flatten(Layer):
    """Flattening of the axes from `start_dim` to `end_dim`, inclusive, to one axis; by default of every axis but the first.

    A call returns a view. With the defaults, (N,) becomes (N, 1).

    Parameters
    ----------
    start_dim : int, default 1
        First axis to flatten.
    end_dim : int, default -1
        Last axis to flatten.

    Raises
    ------
    ShapeError, AxisError
        In a call, if the input is 0-d, or lacks an axis.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.Flatten()(tx.ones((2, 3, 4))).shape
    (2, 12)
    """

    @validate_arguments
    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    @explain_errors
    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 0:
            raise ShapeError("Flatten: x has no axes; it must have at least one, the batch")
        if self.start_dim == 1 and x.ndim == 1 and self.end_dim == -1:
            return x.reshape((x.shape[0], 1))
        return x.flatten(self.start_dim, self.end_dim)


class Lambda(Module):
    """A module that returns `function(*args)` for a call with `args`.

    Parameters
    ----------
    function : callable
        The function to call, of any number of arguments.

    Raises
    ------
    ArgumentError
        If `function` is not callable.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.Lambda(tx.relu)(tx.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    @validate_arguments
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)

    def extra_repr(self) -> str:
        return str(getattr(self.function, "__name__", self.function))


class Dropout(Layer):
    """`functional.dropout` in training; after `eval()` the input is returned unchanged.

    In training a call returns a new tensor of the shape of the input (N. Srivastava et al.: Dropout, 2014).

    Parameters
    ----------
    p : float, default 0.5
        Probability of setting an element to 0. Kept elements are divided by 1 - p.
    generator : tx.random.Generator, optional
        Source of the mask, by default the generator of `tx.random`.

    Raises
    ------
    ArgumentError
        In a call, if `p` is not from 0 to 1.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.Dropout(0.5).eval()(tx.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    @validate_arguments
    def __init__(self, p: float = 0.5, *, generator: Source = None) -> None:
        self.p, self.generator = p, generator

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training, generator=self.generator)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Embedding(Module):
    """A table of vectors, looked up by integer indices of any shape; the result has this shape, followed by `embedding_dim`.

    A call returns a new tensor of the dtype of the table, the attribute `weight`, (num_embeddings, embedding_dim). The table is initially
    normal with mean 0 and variance 1. Negative indices count from the end.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Number of vectors, and number of elements of a vector.
    dtype : dtype, default float32
        Floating-point dtype of the table and of the result.
    generator : tx.random.Generator, optional
        Source of the initial values, by default the generator of `tx.random`.

    Raises
    ------
    DTypeError
        In a call, if the indices are not integers.
    IndexOutOfRange
        If an index has no vector.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.Embedding(10, 4)([[0, 1], [2, 9]]).shape
    (2, 2, 4)
    """

    @validate_arguments
    def __init__(self, num_embeddings: int, embedding_dim: int, *, dtype: DTypeLike = float32, generator: Source = None) -> None:
        self.weight = Parameter(init.normal_(empty((num_embeddings, embedding_dim), dtype=dtype), generator=generator))

    def forward(self, indices: Operand) -> Tensor:
        return functional.embedding(indices, self.weight)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"
