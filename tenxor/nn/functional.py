"""Functions that networks are made of, without parameters of their own: activations, normalisations, losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import random
from ..creation import arange, asarray
from ..dtypes import DTypeLike, float32, int64, result_type
from ..errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError
from ..functions import elementwise
from ..functions.kinds import Ints, Some, explained
from ..functions.neural import log_softmax
from ..functions.selecting import take
from ..ops import OPS, custom
from ..ops.expr import Arg, call, where
from ..plans.indices import from_0
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import ints, one_of
from ..tensor.core import Operand

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "mish",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "rms_norm",
    "selu",
]

_op = elementwise.FUNCTIONS


# --- activations ------------------------------------------------------------------------------------------------------


@called_again
@explained
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """New tensor: x where positive, else `negative_slope * x`.

    >>> import tenxor as tx
    >>> tx.nn.functional.leaky_relu(tx.asarray([-1.0, 2.0])).tolist()
    [-0.01, 2.0]
    """
    return _op["where"](x > 0, x, x * negative_slope)


@called_again
@explained
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """New tensor: x where positive, else `alpha * (exp(x) - 1)`."""
    above = x > 0
    return _op["where"](above, x, _op["expm1"](_op["where"](above, 0.0, x)) * alpha)  # whose derivative at 0 is alpha


@called_again
@explained
def selu(x: Tensor) -> Tensor:
    """New tensor: `elu` scaled so that means of 0 and variances of 1 stay so (G. Klambauer et al., 2017, arXiv:1706.02515)."""
    return elu(x, 1.6732632423543772) * 1.0507009873554805


@called_again
@explained
def hardsigmoid(x: Tensor) -> Tensor:
    """New tensor: (x + 3) / 6, held between 0 and 1."""
    return (x / 6.0 + 0.5).clip(0.0, 1.0)


@called_again
@explained
def hardswish(x: Tensor) -> Tensor:
    """New tensor: x times `hardsigmoid` of it."""
    return x * hardsigmoid(x)


@called_again
@explained
def mish(x: Tensor) -> Tensor:
    """New tensor: x * tanh(softplus(x)) (D. Misra, 2019, arXiv:1908.08681)."""
    return x * _op["tanh"](_op["softplus"](x))


# --- layers -----------------------------------------------------------------------------------------------------------


@called_again
@explained
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """New tensor: `x @ weight.T + bias`, for x (..., in), weight (out, in) and bias (out,)."""
    if not x.ndim or not weight.ndim or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(f"linear: x of shape {x.shape} and weight of shape {weight.shape}: their last axes, the inputs, must be equal")
    found = x @ weight.mT
    return found if bias is None else found + bias


@called_again
@explained
def embedding(indices: Operand, weight: Tensor) -> Tensor:
    """New tensor: the rows of `weight`, (count, width), at indices of any shape: of that shape followed by the width."""
    indices = asarray(indices)
    if not indices.dtype.is_integer:
        raise DTypeError(f"embedding: indices are integers, not {indices.dtype}")
    return take(weight, indices.reshape(-1), axis=0).reshape((*indices.shape, weight.shape[-1]))


@explained
def dropout(x: Tensor, p: float = 0.5, training: bool = True, generator: random.Generator | None = None) -> Tensor:
    """New tensor: each element 0 with probability `p`, else divided by 1 - p; `x` itself if not `training`."""
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"dropout: p is a probability, from 0 to 1, not {p}")
    if not training or p == 0.0:
        return x
    draw = (random.Generator() if generator is None else generator).random(x.shape, dtype=float32)
    return _op["where"](draw >= p, x * (1.0 / (1.0 - p) if p < 1.0 else 0.0), 0.0)


@called_again
@explained
def layer_norm(x: Tensor, normalized_shape: Ints, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """New tensor: x less its mean, over its standard deviation, over the last axes, which have `normalized_shape`; times weight plus bias.

    J. Ba, J. Kiros, G. Hinton: Layer normalization, 2016 (arXiv:1607.06450).
    """
    shape = ints("layer_norm", (normalized_shape,))
    if x.shape[x.ndim - len(shape) :] != shape:
        raise ShapeError(f"layer_norm: the last axes of shape {x.shape} are to be {shape}")
    return _scaled(_normalized(x, tuple(range(-len(shape), 0)), eps), weight, bias, x)


@called_again
@explained
def rms_norm(x: Tensor, normalized_shape: Ints, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """New tensor: x over the root of its mean square, over the last axes, which have `normalized_shape`; times weight.

    B. Zhang, R. Sennrich: Root mean square layer normalization, 2019 (arXiv:1910.07467).
    """
    shape = ints("rms_norm", (normalized_shape,))
    if x.shape[x.ndim - len(shape) :] != shape:
        raise ShapeError(f"rms_norm: the last axes of shape {x.shape} are to be {shape}")
    own = x.astype(x.dtype.compute, copy=False)
    size = (own * own).mean(axis=tuple(range(-len(shape), 0)), keepdims=True)
    return _scaled(own * (size + eps).rsqrt(), weight, None, x)


@called_again
@explained
def group_norm(x: Tensor, num_groups: Some, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """New tensor: x, (N, C, ...), normalised as by `layer_norm` over each of `num_groups` groups of channels and all that
    follows; times weight plus bias, (C,) each.

    Y. Wu, K. He: Group normalization, 2018 (arXiv:1803.08494).
    """
    if x.ndim < 2 or x.shape[1] % num_groups:
        raise ShapeError(f"group_norm: {num_groups} groups do not divide the channels of shape {x.shape}, its axis 1")
    groups = x.reshape((x.shape[0], num_groups, -1))
    found = _normalized(groups, (-1,), eps).reshape(x.shape)
    beside = (-1, *(1,) * (x.ndim - 2))
    return _scaled(found, None if weight is None else weight.reshape(beside), None if bias is None else bias.reshape(beside), x)


def _normalized(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    apart, _, variance = centred(x, axes)
    return apart * (variance + eps).rsqrt()


def centred(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distances from the mean over some axes, that mean, and the variance, corrected for the rounding of the mean.

    They are computed in float32 at least, as squares of numbers above 256 are too large for float16.
    """
    x = x.astype(x.dtype.compute, copy=False)
    mean = x.mean(axis=axes, keepdims=True)
    apart = x - mean
    rest, squares = apart.mean(axis=axes, keepdims=True), (apart * apart).mean(axis=axes, keepdims=True)
    without = OPS["less_rounding"]
    return apart._with(without, rest), mean, squares._with(without, Tensor._compute(OPS["minimum"], rest * rest, squares))


def _scaled(found: Tensor, weight: Tensor | None, bias: Tensor | None, x: Tensor) -> Tensor:
    """Times weight plus bias, in the dtype that it has of `x`."""
    dtypes = [t.dtype for t in (x, weight, bias) if t is not None]
    if weight is not None:
        found = found * weight
    found = found if bias is None else found + bias
    return found if x.dtype.compute is x.dtype else found.astype(result_type(*dtypes), copy=False)


@explained
def one_hot(indices: Operand, num_classes: int | None = None, dtype: DTypeLike = float32) -> Tensor:
    """New tensor: for each index a row of zeros with a 1 in its place, of `num_classes` elements (by default one more than the
    largest index). IndexOutOfRange for one that is below 0, or too large; in a function that is traced its row is all zeros.

    >>> import tenxor as tx
    >>> tx.nn.functional.one_hot(tx.asarray([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    indices = asarray(indices)
    if not indices.dtype.is_integer:
        raise DTypeError(f"one_hot: indices are integers, not {indices.dtype}")
    if num_classes is None:
        num_classes = int(indices.max().item()) + 1 if indices.size else 0
    if not indices.node.traced and bool((wrong := (indices < 0) | (indices >= num_classes)).any()):
        raise IndexOutOfRange(f"one_hot: index {indices[wrong][0].item()} is no number of {num_classes} classes")
    return (indices.expand_dims(-1) == arange(num_classes)).astype(dtype)


# --- losses -----------------------------------------------------------------------------------------------------------


def _reduced(op: str, loss: Tensor, reduction: str) -> Tensor:
    how = one_of(op, "reduction", reduction, "mean", "sum", "none")
    return loss if how == "none" else loss.mean() if how == "mean" else loss.sum()


def _both(op: str, prediction: Tensor, target: Operand) -> Tensor:
    """The target, which must have the shape of the prediction: that one is broadcast to the other is never meant."""
    target = asarray(target)
    if prediction.shape != target.shape:
        raise ShapeError(
            f"{op}: the prediction has shape {prediction.shape}, the target {target.shape}; they must be equal: use reshape or squeeze"
        )
    return target


@called_again
@explained
def mse_loss(prediction: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """New tensor: the squared differences, of complex numbers the squares of their sizes; their mean, or their sum. ShapeError unless
    the shapes are equal.

    >>> import tenxor as tx
    >>> tx.nn.functional.mse_loss(tx.asarray([1.0, 2.0]), tx.asarray([1.0, 4.0])).item()
    2.0
    """
    target = _both("mse_loss", prediction, target)
    apart = prediction - target
    return _reduced("mse_loss", (apart * apart.conj()).real if apart.dtype.is_complex else _op["square"](apart), reduction)


@called_again
@explained
def l1_loss(prediction: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """New tensor: the absolute differences, their mean, or their sum. ShapeError unless the shapes are equal."""
    target = _both("l1_loss", prediction, target)
    return _reduced("l1_loss", abs(prediction - target), reduction)


@called_again
@explained
def huber_loss(prediction: Tensor, target: Operand, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """New tensor: half the squared differences where these are below `delta`, and beyond it straight lines; mean, sum, or as they are."""
    apart = abs(prediction - _both("huber_loss", prediction, target))
    return _reduced("huber_loss", _op["where"](apart < delta, apart * apart * 0.5, (apart - delta * 0.5) * delta), reduction)


def _held(logarithm: Callable[..., Any], x: Any, pole: float) -> Any:
    """A logarithm held above -100, also at its pole, where it would have an infinite derivative."""
    there = x == pole
    return _op["where"](there, -100.0, logarithm(_op["where"](there, pole + 0.5, x)).clip(-100.0))


@called_again
@explained
def binary_cross_entropy(prediction: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """New tensor: -(t log p + (1 - t) log(1 - p)) for probabilities p; logarithms are held above -100, as in PyTorch, and are constant
    where they are. ShapeError unless shapes are equal.
    """
    target = _both("binary_cross_entropy", prediction, target)
    yes, no = _held(_op["log"], prediction, 0.0), _held(_op["log1p"], -prediction, -1.0)
    return _reduced("binary_cross_entropy", -(yes * target + no * (1.0 - target)), reduction)


@called_again
@explained
def binary_cross_entropy_with_logits(prediction: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """New tensor: `binary_cross_entropy` of sigmoid(prediction), exact where that is 0 or 1. ShapeError unless shapes are equal."""
    target = _both("binary_cross_entropy_with_logits", prediction, target)
    return _reduced("binary_cross_entropy_with_logits", _op["softplus"](prediction) - prediction * target, reduction)


from_0.update(("cross_entropy", "nll_loss"))
_CLASS, _COUNT, _IGNORED = (Arg(k, int64) for k in range(3))
_lowered = where(call("less", _CLASS, 0), _CLASS - _COUNT, _CLASS)
_PLACE = custom("class_place", where(call("equal", _CLASS, _IGNORED), 0, _lowered), (int64, int64, int64))  # one node instead of four


def _of_classes(op: str, logs: Tensor, target: Tensor, ignore_index: int, reduction: str, smoothing: float = 0.0) -> Tensor:
    """Minus the logarithms at classes, reduced: those of the class to ignore are 0, and not counted. What else is no class is told as an
    index that is out of range, when they are computed.
    """
    target = target.astype(int64, copy=False)
    counts, axis = target != ignore_index, logs.ndim - 1
    places = Tensor._compute(_PLACE, target, logs.shape[-1], ignore_index)
    found = -logs._gather(logs._select_along(op, logs.layout, places.expand_dims(-1), axis)).squeeze(-1)
    if smoothing:
        found = found * (1.0 - smoothing) - logs.mean(axis=-1) * smoothing
    found = _op["where"](counts, found, 0.0)
    if one_of(op, "reduction", reduction, "mean", "sum", "none") != "mean":
        return _reduced(op, found, reduction)
    if found.dtype.compute is not found.dtype:  # which have no room for the sum
        return found.mean() / counts.astype(found.dtype).mean()
    return found.sum() / counts.sum().astype(found.dtype)


@called_again
@explained
def cross_entropy(
    logits: Tensor, target: Operand, reduction: str = "mean", label_smoothing: float = 0.0, ignore_index: int = -100
) -> Tensor:
    """New tensor: minus the logarithm of the probability that `log_softmax` gives the target, over the last axis.

    `logits` are (..., classes); `target` are classes, integers of the shape of all other axes, or probabilities of the logits'
    shape. With `label_smoothing` that much of each target is spread over all classes. Where the class is `ignore_index` the
    loss is 0, and the mean is over the others. DTypeError and ShapeError for other targets; IndexOutOfRange, when the loss or its
    gradient is computed, for other classes that are none, -1 among them. PyTorch has the classes on axis 1.

    >>> import tenxor as tx
    >>> round(tx.nn.functional.cross_entropy(tx.zeros((2, 4)), tx.asarray([0, 3])).item(), 4)
    1.3863
    """
    target = asarray(target)
    if target.dtype.is_integer:
        if target.shape != logits.shape[:-1]:
            raise ShapeError(
                f"cross_entropy: logits of shape {logits.shape} need classes of shape {logits.shape[:-1]}, not {target.shape};"
                " classes are on the last axis of the logits"
            )
        return _of_classes("cross_entropy", log_softmax(logits, axis=-1), target, ignore_index, reduction, label_smoothing)
    if target.dtype.is_float:
        target = _both("cross_entropy", logits, target)
        if label_smoothing:
            target = target * (1.0 - label_smoothing) + label_smoothing / logits.shape[-1]
        found = -(log_softmax(logits, axis=-1) * target).sum(axis=-1)
    else:
        raise DTypeError(f"cross_entropy: the target is classes, integers, or probabilities, floats; not {target.dtype}")
    return _reduced("cross_entropy", found, reduction)


@called_again
@explained
def nll_loss(logs: Tensor, target: Operand, reduction: str = "mean", ignore_index: int = -100) -> Tensor:
    """New tensor: minus the logarithm at the class, for logarithms of probabilities (..., classes) and classes of all other axes' shape;
    of `ignore_index`, and of what is no class, as in `cross_entropy`.
    """
    target = asarray(target)
    if not target.dtype.is_integer:
        raise DTypeError(f"nll_loss: the target is classes, integers, not {target.dtype}")
    if target.shape != logs.shape[:-1]:
        raise ShapeError(f"nll_loss: logarithms of shape {logs.shape} need classes of shape {logs.shape[:-1]}, not {target.shape}")
    return _of_classes("nll_loss", logs, target, ignore_index, reduction)


@called_again
@explained
def kl_div(logs: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """New tensor: t (log t - l) for logarithms l of probabilities, and probabilities t; 0 where t is 0. ShapeError unless shapes
    are equal.
    """
    target = _both("kl_div", logs, target)
    some = target > 0
    own = _op["where"](some, target, 1.0)
    return _reduced("kl_div", _op["where"](some, own * (_op["log"](own) - logs), 0.0), reduction)
