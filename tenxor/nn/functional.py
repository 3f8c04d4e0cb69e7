"""Stateless functions for networks, with PyTorch's names: activations, layers, losses.

Functions such as `tx.relu` are available here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import random
from .._utils.lazy import make_public_dir, make_public_getattr
from ..api import elementwise
from ..api.argument_validation import Ints, PositiveInt, explain_errors
from ..api.attention import scaled_dot_product_attention
from ..api.convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from ..api.creation import arange, asarray
from ..api.elementwise import relu, sigmoid, silu, tanh
from ..api.gather_functions import take
from ..api.padding import pad as _pad
from ..api.pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from ..api.resampling import interpolate
from ..api.softmax import log_softmax, softmax
from ..dtypes import DTypeLike, Number, finfo, float32, int64, result_type
from ..errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError
from ..graph.spec import memoized_call
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, check_flag, parse_ints
from ..tensor.core import Operand
from .activations import (
    celu,
    elu,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    prelu,
    relu6,
    selu,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from .dtype_check import check_dtypes
from .losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from .unpooling import max_unpool1d, max_unpool2d, max_unpool3d

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "pad",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]
__dir__ = make_public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = make_public_getattr(globals())


# --- layers -----------------------------------------------------------------------------------------------------------


@memoized_call
@explain_errors
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `input @ weight.T + bias`, a new tensor (..., out), for operands of one dtype.

    Parameters
    ----------
    input : Tensor
        (..., in).
    weight, bias : Tensor
        (out, in) and (out,). `bias` is optional.

    Raises
    ------
    ShapeError
        If shapes do not fit.
    DTypeError
        If the dtypes are unequal.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.linear(tx.asarray([1.0, 2.0]), tx.asarray([[3.0, 4.0]]), tx.asarray([0.5])).tolist()
    [11.5]
    """
    if not input.ndim or not weight.ndim or input.shape[-1] != weight.shape[-1]:
        raise ShapeError(f"linear: input has shape {input.shape} and weight {weight.shape}; their last axes, the inputs, must be equal")
    check_dtypes("linear", input, {"weight": weight, "bias": bias}, name="input")
    result = input @ weight.mT
    return result if bias is None else result + bias


@memoized_call
@explain_errors
def embedding(input: Operand, weight: Tensor) -> Tensor:
    """Return the rows of `weight` at integer indices.

    Parameters
    ----------
    input : Tensor or data for `tx.asarray`
        Integer indices of any shape. Negative indices count from the end.
    weight : Tensor
        (count, width), of any dtype.

    Returns
    -------
    Tensor
        New tensor of the dtype of `weight`, of the shape of the indices, followed by width.

    Raises
    ------
    DTypeError
        If the indices are not integers.
    IndexOutOfRange
        If an index has no row.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.embedding([2, 0], tx.asarray([[1.0], [2.0], [3.0]])).tolist()
    [[3.0], [1.0]]
    """
    indices = asarray(input)
    if not indices.dtype.is_integer:
        raise DTypeError(f"embedding: indices must be integers, not {indices.dtype}")
    return take(weight, indices.reshape(-1), axis=0).reshape((*indices.shape, weight.shape[-1]))


@explain_errors
def dropout(input: Tensor, p: float = 0.5, training: bool = True, *, generator: random.Generator | None = None) -> Tensor:
    """Return `input` with each element set to 0 with probability `p`, else divided by `1 - p` (N. Srivastava et al.: Dropout, 2014).

    Parameters
    ----------
    input : Tensor
        Any shape.
    p : float, default 0.5
        Probability, from 0 to 1. Raises ArgumentError for another number.
    training : bool, default True
        If False, or if `p` is 0, the result is `input` itself, otherwise a new tensor.
    generator : tx.random.Generator, optional
        Source of the mask, by default the default generator of `tx.random`.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.ones(1000)
    >>> tx.nn.functional.dropout(x, 0.2, generator=tx.random.Generator(0)).max().item()
    1.25
    >>> tx.nn.functional.dropout(x, 0.2, training=False) is x
    True
    """
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"dropout: p must be a probability, from 0 to 1, not {p}")
    if not check_flag("training", training) or p == 0.0:
        return input
    draw = (random if generator is None else generator).random(input.shape, dtype=float32)
    return elementwise.FUNCTIONS["where"](draw >= p, input * (1.0 / (1.0 - p) if p < 1.0 else 0.0), 0.0)


@memoized_call
@explain_errors
def layer_norm(
    input: Tensor, normalized_shape: Ints, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Return `input` normalised to mean 0 and variance 1 over its last axes, times weight plus bias, as a new tensor.

    Parameters
    ----------
    input : Tensor
        (..., *normalized_shape).
    normalized_shape : int or tuple of int
        Shape of the last axes.
    weight, bias : Tensor, optional
        Of shape `normalized_shape`, in the dtype of `input`. For float16 and bfloat16 they may be float32.
    eps : float, default 1e-5
        Number added to the variance.

    Raises
    ------
    ShapeError
        If shapes do not fit.
    DTypeError
        If the dtypes do not fit.

    References
    ----------
    J. Ba, J. Kiros, G. Hinton: Layer normalization, 2016 (arXiv:1607.06450).

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.layer_norm(tx.asarray([[1.0, 3.0], [5.0, 9.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    shape = parse_ints("layer_norm", "normalized_shape", (normalized_shape,))
    _check_normalized("layer_norm", input, shape, weight, bias)
    return _scale_and_shift(_normalize(input, tuple(range(-len(shape), 0)), eps), weight, bias, input)


@memoized_call
@explain_errors
def rms_norm(input: Tensor, normalized_shape: Ints, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Return `input` divided by the root mean square over its last axes, times weight, as a new tensor.

    Parameters
    ----------
    input : Tensor
        (..., *normalized_shape).
    normalized_shape : int or tuple of int
        Shape of the last axes.
    weight : Tensor, optional
        Of shape `normalized_shape`, in the dtype of `input`. For float16 and bfloat16 the weight may be float32.
    eps : float, optional
        Number added to the mean square, by default the machine epsilon of the dtype used for the computation.

    Raises
    ------
    ShapeError, DTypeError
        If shapes or dtypes do not fit.

    References
    ----------
    B. Zhang, R. Sennrich: Root mean square layer normalization, 2019 (arXiv:1910.07467).

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.rms_norm(tx.asarray([3.0, -3.0]), 2, eps=0.0).tolist()
    [1.0, -1.0]
    """
    shape = parse_ints("rms_norm", "normalized_shape", (normalized_shape,))
    _check_normalized("rms_norm", input, shape, weight)
    wide = input.astype(input.dtype.compute_dtype, copy=False)
    epsilon = float(finfo(wide.dtype).eps) if eps is None else eps
    size = (wide * wide).mean(axis=tuple(range(-len(shape), 0)), keepdims=True)
    return _scale_and_shift(wide * (size + epsilon).rsqrt(), weight, None, input)


@memoized_call
@explain_errors
def group_norm(
    input: Tensor, num_groups: PositiveInt, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Return `input` normalised like `layer_norm` over each group of channels, with the axes after the channels.

    The result is a new tensor, times weight plus bias (Y. Wu, K. He: Group normalization, 2018, arXiv:1803.08494).

    Parameters
    ----------
    input : Tensor
        (N, C, ...).
    num_groups : int
        Number of groups, a divisor of C. Raises ShapeError for another number.
    weight, bias : Tensor, optional
        (C,), in dtypes as in `layer_norm`. Raises DTypeError for another dtype.
    eps : float, default 1e-5
        Number added to the variance.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.group_norm(tx.asarray([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    if input.ndim < 2 or input.shape[1] % num_groups:
        raise ShapeError(f"group_norm: {num_groups} groups do not divide the channels of shape {input.shape}, its axis 1")
    check_dtypes("group_norm", input, {"weight": weight, "bias": bias}, name="input", narrow=True)
    groups = input.reshape((input.shape[0], num_groups, -1))
    normalized = _normalize(groups, (-1,), eps).reshape(input.shape)
    channel_shape = (-1, *(1,) * (input.ndim - 2))
    return _scale_and_shift(
        normalized, None if weight is None else weight.reshape(channel_shape), None if bias is None else bias.reshape(channel_shape), input
    )


def _check_normalized(op: str, input: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None = None) -> None:
    """Raise ShapeError, beginning with `op`, unless the last axes of `input` have `shape`.

    Raise DTypeError unless `weight` and `bias`, if not None, have the dtype of `input`, or are float32 beside narrower floats.
    """
    if input.shape[input.ndim - len(shape) :] != shape:
        raise ShapeError(f"{op}: input has shape {input.shape}; its last axes must be {shape}, the normalized_shape")
    check_dtypes(op, input, {"weight": weight, "bias": bias}, name="input", narrow=True)


def _normalize(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """Return `x` normalised to mean 0 and variance 1 over `axes`, in float32 at least. `eps` is added to the variance."""
    deviations, _, variance = center(x, axes)
    return deviations * (variance + eps).rsqrt()


def center(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the deviations of `x` from the mean over `axes`, the mean, and the variance, corrected for rounding of the mean.

    Reduced axes stay with size 1. The dtype is float32 at least, as squares of numbers above 256 overflow float16.
    """
    x = x.astype(x.dtype.compute_dtype, copy=False)
    mean = x.mean(axis=axes, keepdims=True)
    deviations = x - mean
    rounding_error, squares = deviations.mean(axis=axes, keepdims=True), (deviations * deviations).mean(axis=axes, keepdims=True)
    less_rounding = OPS["less_rounding"]
    return (
        deviations._apply(less_rounding, rounding_error),
        mean,
        squares._apply(less_rounding, Tensor._compute(OPS["minimum"], rounding_error * rounding_error, squares)),
    )


def _scale_and_shift(result: Tensor, weight: Tensor | None, bias: Tensor | None, x: Tensor) -> Tensor:
    """Return `result` times `weight` plus `bias`, each unless None. For a narrow `x`, cast to the common dtype of `x` and both."""
    dtypes = [t.dtype for t in (x, weight, bias) if t is not None]
    if weight is not None:
        result = result * weight
    result = result if bias is None else result + bias
    return result if x.dtype.compute_dtype is x.dtype else result.astype(result_type(*dtypes), copy=False)


@explain_errors
def one_hot(tensor: Operand, num_classes: int = -1, *, dtype: DTypeLike = int64) -> Tensor:
    """Return a row of zeros with a 1 at the index, for each index.

    Parameters
    ----------
    tensor : Tensor or data for `tx.asarray`
        Integer indices of any shape.
    num_classes : int, default -1
        Number of elements of a row, for -1 one more than the largest index.
    dtype : dtype, default int64
        Dtype of the result; int64 as in PyTorch.

    Returns
    -------
    Tensor
        New tensor of the shape of the indices, followed by the number of classes.

    Raises
    ------
    IndexOutOfRange
        For an index below 0 or too large; in a traced function such an index gives a row of zeros.
    DTypeError, ArgumentError
        If the indices are not integers; if `num_classes` is below -1.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.one_hot(tx.asarray([2, 0])).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    indices = asarray(tensor)
    if not indices.dtype.is_integer:
        raise DTypeError(f"one_hot: indices must be integers, not {indices.dtype}")
    if num_classes < -1:
        raise ArgumentError(f"one_hot: num_classes is {num_classes}; it must be 0 or more, or -1 for one more than the largest index")
    if num_classes == -1:
        num_classes = int(indices.max().item()) + 1 if indices.size else 0
    if not indices.node.is_traced and bool((wrong := (indices < 0) | (indices >= num_classes)).any()):
        raise IndexOutOfRange(f"one_hot: index {indices[wrong][0].item()} is not a class; classes are 0 to {num_classes - 1}")
    return (indices.expand_dims(-1) == arange(num_classes)).astype(dtype)


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@explain_errors
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Number | None = None) -> Tensor:
    """Return a new tensor: `input` with elements added at the ends of the last axes, as by PyTorch's `pad`; `tx.pad` is NumPy's.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    pad : sequence of int
        Two numbers for each axis, from the last axis backwards: the widths before and after. A negative number removes elements.
    mode : {"constant", "reflect", "replicate", "circular"}, default "constant"
        Rule for the new elements, as in `tx.pad`; "replicate" is NumPy's "edge", and "circular" is "wrap".
    value : number, optional
        New elements in mode "constant", by default 0.

    Raises
    ------
    ArgumentError
        For an odd count of numbers, or more than two for each axis, for an unknown mode, and for a `value` in another mode.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.pad(tx.asarray([[1, 2], [3, 4]]), (1, 0)).tolist()
    [[0, 1, 2], [0, 3, 4]]
    >>> tx.nn.functional.pad(tx.asarray([[1, 2], [3, 4]]), (0, 0, 1, 0), "replicate").tolist()
    [[1, 2], [1, 2], [3, 4]]
    """
    widths = parse_ints("pad", "pad", (pad,))
    if len(widths) % 2 or len(widths) > 2 * input.ndim:
        raise ArgumentError(
            f"pad: pad has {len(widths)} numbers for {input.ndim} axes; give an even count, at most {2 * input.ndim}: "
            "two for each axis, from the last axis backwards"
        )
    pad_mode = _PAD_MODES[check_choice("pad", "mode", mode, *_PAD_MODES)]
    if pad_mode != "constant" and value is not None:
        raise ArgumentError(f"pad: value is {value} and mode {mode!r}; only mode 'constant' takes a value")
    pairs = [(0, 0)] * (input.ndim - len(widths) // 2) + list(zip(widths[-2::-2], widths[-1::-2], strict=True))
    cut = tuple([slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(input.shape, pairs, strict=True)])
    grown = [(max(low, 0), max(high, 0)) for low, high in pairs]
    cropped = input[cut] if any([p < 0 for p in widths]) else input
    return _pad(cropped, grown, pad_mode) if value is None else _pad(cropped, grown, pad_mode, constant_values=value)
