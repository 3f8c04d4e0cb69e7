"""Normalisation layers: over the last axes, groups of channels, or the batch.

An input must have the dtype of the layer's parameters, by default float32, except where a layer says otherwise.
"""

from __future__ import annotations

from ..api.argument_validation import Ints, PositiveInt, explain_errors, validate_arguments
from ..api.creation import ones, zeros
from ..api.differentiation import no_grad
from ..dtypes import DTypeLike, float32, result_type
from ..errors import ShapeError
from ..tensor import Tensor
from ..tensor.argument_parsing import parse_ints
from . import functional
from .dtype_check import check_dtypes
from .module import Layer, Parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "GroupNorm", "LayerNorm", "RMSNorm"]


class LayerNorm(Layer):
    """`functional.layer_norm` over the last axes, of shape `normalized_shape` (J. Ba et al., 2016, arXiv:1607.06450).

    A call takes (..., *normalized_shape) and returns a new tensor of the shape of the input. The attributes `weight` and `bias`, initially
    1 and 0, have the shape `normalized_shape`. Input in float16 or bfloat16 may have float32 parameters; then the result is float32.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Shape of the last axes.
    eps : float, default 1e-5
        Number added to the variance.
    elementwise_affine, bias : bool, default True
        Without `bias` the layer has no bias. Without `elementwise_affine` it has no weight and no bias.
    dtype : dtype, default float32
        Dtype of the parameters.

    Raises
    ------
    ShapeError
        In a call, if the last axes of the input have another shape.
    DTypeError
        In a call, if the input has another dtype than the parameters.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.asarray([1.0, 2.0, 3.0], dtype=tx.float32)
    >>> [round(value, 4) for value in tx.nn.LayerNorm(3)(x).tolist()]
    [-1.2247, 0.0, 1.2247]
    """

    @validate_arguments
    def __init__(
        self,
        normalized_shape: Ints,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: DTypeLike = float32,
    ) -> None:
        self.shape, self.eps = parse_ints(type(self).__name__, "normalized_shape", (normalized_shape,)), eps
        self.weight = Parameter(ones(self.shape, dtype=dtype)) if elementwise_affine else None
        self.bias = Parameter(zeros(self.shape, dtype=dtype)) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.shape}"


class RMSNorm(Layer):
    """`functional.rms_norm` over the last axes, of shape `normalized_shape` (B. Zhang, R. Sennrich, 2019, arXiv:1910.07467).

    The attribute `weight`, initially 1, has the shape `normalized_shape`. Shapes, dtypes and errors of a call are as in `LayerNorm`.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Shape of the last axes.
    eps : float, optional
        Number added to the mean square, by default the machine epsilon of the dtype used for the computation.
    elementwise_affine : bool, default True
        If False, the layer has no weight.
    dtype : dtype, default float32
        Dtype of the weight.

    Raises
    ------
    ShapeError, DTypeError
        In a call, as in `LayerNorm`.

    Examples
    --------
    >>> import tenxor as tx
    >>> [round(value, 4) for value in tx.nn.RMSNorm(2)(tx.asarray([3.0, 4.0], dtype=tx.float32)).tolist()]
    [0.8485, 1.1314]
    """

    @validate_arguments
    def __init__(
        self, normalized_shape: Ints, eps: float | None = None, elementwise_affine: bool = True, *, dtype: DTypeLike = float32
    ) -> None:
        self.shape, self.eps = parse_ints(type(self).__name__, "normalized_shape", (normalized_shape,)), eps
        self.weight = Parameter(ones(self.shape, dtype=dtype)) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.shape}"


class GroupNorm(Layer):
    """`functional.group_norm` with `num_groups` groups of channels, over (N, num_channels, ...) (Y. Wu, K. He, 2018, arXiv:1803.08494).

    A call returns a new tensor of the shape of the input. The attributes `weight` and `bias`, initially 1 and 0, are (num_channels,).
    Input in float16 or bfloat16 may have float32 parameters; then the result is float32.

    Parameters
    ----------
    num_groups : int
        Number of groups, a divisor of `num_channels`.
    num_channels : int
        Number of channels, the size of axis 1.
    eps : float, default 1e-5
        Number added to the variance.
    affine : bool, default True
        If False, the layer has no weight and no bias.
    dtype : dtype, default float32
        Dtype of the parameters.

    Raises
    ------
    ShapeError
        In a call, if axis 1 of the input is not divisible by `num_groups`, or does not fit the parameters.
    DTypeError
        In a call, if the input has another dtype than the parameters.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.GroupNorm(2, 4)(tx.ones((3, 4, 5), dtype=tx.float32)).shape
    (3, 4, 5)
    """

    @validate_arguments
    def __init__(
        self, num_groups: PositiveInt, num_channels: int, eps: float = 1e-5, affine: bool = True, *, dtype: DTypeLike = float32
    ) -> None:
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter(ones(num_channels, dtype=dtype)) if affine else None
        self.bias = Parameter(zeros(num_channels, dtype=dtype)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}"


class _BatchNorm(Layer):
    """Each channel normalised to mean 0 and variance 1 over the batch; after `eval()` with the running averages from training.

    Without `affine` there is no weight and no bias. Without `track_running_stats`, mean and variance are the batch's, after `eval()` too.
    """

    _ignored_names = ("num_batches_tracked",)  # counts batches for an average without momentum

    @validate_arguments
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: DTypeLike = float32,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = Parameter(ones(num_features, dtype=dtype)) if affine else None
        self.bias = Parameter(zeros(num_features, dtype=dtype)) if affine else None
        self.running_mean = zeros(num_features, dtype=dtype) if track_running_stats else None
        self.running_var = ones(num_features, dtype=dtype) if track_running_stats else None

    @explain_errors
    def forward(self, x: Tensor) -> Tensor:
        name, count = type(self).__name__, self.num_features
        if x.ndim < 2 or x.shape[1] != count:
            raise ShapeError(f"{name}: x has shape {x.shape}; it must have {count} channels on axis 1")
        check_dtypes(name, x, {"weight": self.weight, "bias": self.bias, "running_mean": self.running_mean}, narrow=True)
        axes = (0, *range(2, x.ndim))
        channel_shape = (-1, *(1,) * (x.ndim - 2))
        if not self.training and self.running_mean is not None and self.running_var is not None:
            deviations = x - self.running_mean.reshape(channel_shape)
            scale = (self.running_var + self.eps).rsqrt()
            return self._add_bias(
                deviations * (scale if self.weight is None else scale * self.weight).reshape(channel_shape), channel_shape
            )
        deviations, mean, variance = functional.center(x, axes)
        if self.training:
            self._update_statistics(mean, variance, x)
        result = deviations * (variance + self.eps).rsqrt()
        result = self._add_bias(result if self.weight is None else result * self.weight.reshape(channel_shape), channel_shape)
        dtype = x.dtype if self.weight is None else result_type(x.dtype, self.weight.dtype)
        return result if deviations.dtype is x.dtype else result.astype(dtype, copy=False)

    def _add_bias(self, x: Tensor, channel_shape: tuple[int, ...]) -> Tensor:
        return x if self.bias is None else x + self.bias.reshape(channel_shape)

    def _update_statistics(self, mean: Tensor, variance: Tensor, x: Tensor) -> None:
        """Update the running averages, if kept, in place by `mean` and `variance` of the batch `x`; the variance is made unbiased.

        Raise ShapeError if the batch has fewer than two numbers for each channel.
        """
        count = x.size // self.num_features
        if count < 2:
            raise ShapeError(
                f"{type(self).__name__}: a batch of shape {x.shape} has one number per channel; in training there must be at least 2"
            )
        if self.running_mean is None or self.running_var is None:
            return
        with no_grad():
            decay = 1.0 - self.momentum
            self.running_mean[...] = self.running_mean * decay + mean.reshape(-1) * self.momentum
            self.running_var[...] = self.running_var * decay + variance.reshape(-1) * (self.momentum * count / (count - 1))

    def extra_repr(self) -> str:
        return str(self.num_features)


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L) (S. Ioffe, C. Szegedy, 2015, arXiv:1502.03167).

    Each channel is normalised to mean 0 and variance 1 over the batch; after `eval()` with the running averages from training. A call
    returns a new tensor of the shape of the input. Input in float16 or bfloat16 may have float32 parameters; then the result is float32.

    Parameters
    ----------
    num_features : int
        Number of channels C, the size of axis 1.
    eps : float, default 1e-5
        Number added to the variance.
    momentum : float, default 0.1
        Weight of a batch in the running averages.
    affine : bool, default True
        If False, the layer has no weight and no bias.
    track_running_stats : bool, default True
        If False, the layer keeps no running averages, and uses the mean and variance of the batch after `eval()`, too.
    dtype : dtype, default float32
        Dtype of the parameters and of the running averages.

    Attributes
    ----------
    weight, bias : Tensor or None
        (num_features,), initially 1 and 0.
    running_mean, running_var : Tensor or None
        (num_features,), initially 0 and 1. Each call in training updates both in place, with the unbiased variance of the batch.

    Raises
    ------
    ShapeError
        In a call, if axis 1 does not have `num_features` elements, or in training if a channel has a single number.
    DTypeError
        In a call, if the input has another dtype than the layer's tensors.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.asarray([[1.0], [3.0]], dtype=tx.float32)
    >>> [[round(value, 4) for value in row] for row in tx.nn.BatchNorm1d(1)(x).tolist()]
    [[-1.0], [1.0]]
    """


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W) (S. Ioffe, C. Szegedy, 2015, arXiv:1502.03167).

    A call returns a new tensor, as for `BatchNorm1d`. The attributes are those of `BatchNorm1d`.

    Parameters
    ----------
    num_features : int
        Number of channels C, the size of axis 1.
    eps, momentum, affine, track_running_stats, dtype
        As in `BatchNorm1d`.

    Raises
    ------
    ShapeError, DTypeError
        As in `BatchNorm1d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.BatchNorm2d(3)(tx.ones((2, 3, 4, 4), dtype=tx.float32)).shape
    (2, 3, 4, 4)
    """
