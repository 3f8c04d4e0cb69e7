"""Loss functions, with PyTorch's names, arguments and shapes.

PyTorch's deprecated `size_average` and `reduce` are left out. Arguments that come after them in PyTorch, except for `reduction`, are
keyword-only here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from ..api import elementwise
from ..api.argument_validation import explain_errors
from ..api.creation import asarray
from ..api.softmax import log_softmax
from ..dtypes import int64
from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph.spec import memoized_call
from ..ops import make_custom_op
from ..ops.expr import Arg, call, where
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, check_flag
from ..tensor.core import Operand
from .dtype_check import check_dtypes

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
]

_op = elementwise.FUNCTIONS


def _reduce(op: str, loss: Tensor, reduction: str) -> Tensor:
    """Return `loss` reduced to a 0-d tensor by `reduction` "mean" or "sum", or unchanged for "none".

    Raise ArgumentError, beginning with `op`, for another `reduction`.
    """
    mode = check_choice(op, "reduction", reduction, "mean", "sum", "none")
    return loss if mode == "none" else loss.mean() if mode == "mean" else loss.sum()


def _reduce_weighted(op: str, loss: Tensor, reduction: str, weight: Tensor | None, mean_of_weights: bool = True) -> Tensor:
    """Return `loss` times `weight`, unless None, reduced by `reduction` "mean" or "sum" to a 0-d tensor, or unchanged for "none".

    A mean is divided by the sum of the weights if `mean_of_weights`, otherwise by their number. Raise ShapeError, beginning with `op`,
    unless `weight` has the shape of `loss`.
    """
    if weight is None:
        return _reduce(op, loss, reduction)
    if weight.shape != loss.shape:
        raise ShapeError(f"{op}: weight has shape {weight.shape} and input {loss.shape}; they must be equal: use weight.expand")
    if mean_of_weights and check_choice(op, "reduction", reduction, "mean", "sum", "none") == "mean":
        mean: Tensor = (loss * weight).sum() / weight.sum()
        return mean
    return _reduce(op, loss * weight, reduction)


def _check_target(op: str, input: Tensor, target: Operand) -> Tensor:
    """Return `target` as a tensor. Raise ShapeError, beginning with `op`, unless it has the shape of `input`: a broadcast is a mistake."""
    target = asarray(target)
    if input.shape != target.shape:
        raise ShapeError(f"{op}: input has shape {input.shape} and target {target.shape}; they must be equal: use reshape or squeeze")
    return target


@memoized_call
@explain_errors
def mse_loss(input: Tensor, target: Operand, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Return the squared differences of input and target (for complex numbers the squared magnitudes), reduced.

    Parameters
    ----------
    input : Tensor
        Predictions, of any shape.
    target : Tensor or data for `tx.asarray`
        Values of the shape of `input`.
    reduction : {"mean", "sum", "none"}, default "mean"
        "none" returns the loss of each element.
    weight : Tensor, optional
        A weight for each element, of the shape of `input`. The mean is the weighted mean.

    Returns
    -------
    Tensor
        New tensor: 0-d, or with "none" of the shape of `input`. For complex operands the dtype is real.

    Raises
    ------
    ShapeError
        Unless the shapes are equal.
    ArgumentError
        If `reduction` is unknown.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.mse_loss(tx.asarray([1.0, 2.0]), tx.asarray([1.0, 4.0])).item()
    2.0
    """
    target = _check_target("mse_loss", input, target)
    differences = input - target
    squares = (differences * differences.conj()).real if differences.dtype.is_complex else _op["square"](differences)
    return _reduce_weighted("mse_loss", squares, reduction, weight)


@memoized_call
@explain_errors
def l1_loss(input: Tensor, target: Operand, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Return the absolute differences of input and target, reduced.

    Parameters
    ----------
    input : Tensor
        Predictions, of any shape.
    target : Tensor or data for `tx.asarray`
        Values of the shape of `input`.
    reduction : {"mean", "sum", "none"}, default "mean"
        "none" returns the loss of each element.
    weight : Tensor, optional
        A weight for each element, of the shape of `input`. The mean is the weighted mean.

    Returns
    -------
    Tensor
        New tensor: 0-d, or with "none" of the shape of `input`. For complex operands the dtype is real.

    Raises
    ------
    ShapeError
        Unless the shapes are equal.
    ArgumentError
        If `reduction` is unknown.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.l1_loss(tx.asarray([1.0, 2.0]), tx.asarray([1.0, 4.0])).item()
    1.0
    """
    target = _check_target("l1_loss", input, target)
    return _reduce_weighted("l1_loss", abs(input - target), reduction, weight)


@memoized_call
@explain_errors
def huber_loss(input: Tensor, target: Operand, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Return the Huber loss: half the squared difference below `delta`, continued as a straight line beyond.

    Parameters
    ----------
    input : Tensor
        Predictions, of any shape.
    target : Tensor or data for `tx.asarray`
        Values of the shape of `input`.
    reduction : {"mean", "sum", "none"}, default "mean"
        "none" returns the loss of each element.
    delta : float, default 1.0
        Absolute difference at which the parabola ends.
    weight : Tensor, optional
        A weight for each element, of the shape of `input`. The mean is over the number of elements, as in PyTorch.

    Returns
    -------
    Tensor
        New tensor: 0-d, or with "none" of the shape of `input`.

    Raises
    ------
    ShapeError
        Unless the shapes are equal.
    ArgumentError
        Unless `delta` is positive, or if `reduction` is unknown.

    References
    ----------
    P. Huber: Robust estimation of a location parameter, 1964.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.huber_loss(tx.asarray([0.0, 0.0]), tx.asarray([0.5, 3.0]), reduction="none").tolist()
    [0.125, 2.5]
    """
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta is {delta}; it must be positive")
    distances = abs(input - _check_target("huber_loss", input, target))
    loss = _op["where"](distances < delta, distances * distances * 0.5, (distances - delta * 0.5) * delta)
    return _reduce_weighted("huber_loss", loss, reduction, weight, mean_of_weights=False)


@memoized_call
@explain_errors
def smooth_l1_loss(input: Tensor, target: Operand, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Return `huber_loss` divided by `beta`: a parabola below `beta`, and the absolute difference less `beta / 2` beyond.

    Parameters
    ----------
    input : Tensor
        Predictions, of any shape.
    target : Tensor or data for `tx.asarray`
        Values of the shape of `input`.
    reduction : {"mean", "sum", "none"}, default "mean"
        "none" returns the loss of each element.
    beta : float, default 1.0
        Absolute difference at which the parabola ends. For 0 the loss is `l1_loss`.

    Returns
    -------
    Tensor
        New tensor: 0-d, or with "none" of the shape of `input`.

    Raises
    ------
    ShapeError
        Unless the shapes are equal.
    ArgumentError
        If `beta` is negative, or `reduction` unknown.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.smooth_l1_loss(tx.asarray([0.0, 0.0]), tx.asarray([1.0, 3.0]), "none", beta=2.0).tolist()
    [0.25, 2.0]
    """
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta is {beta}; it must be 0 or more")
    distances = abs(input - _check_target("smooth_l1_loss", input, target))
    if beta > 0:
        distances = _op["where"](distances < beta, distances * distances * (0.5 / beta), distances - beta * 0.5)
    return _reduce("smooth_l1_loss", distances, reduction)


def _clip_logarithm(logarithm: Callable[..., Any], x: Any, pole: float) -> Any:
    """Return `logarithm(x)`, clipped below at -100, with derivative 0 there. `pole` is the number at which the logarithm is -inf.

    At the pole `x` is replaced, as the derivative would be infinite.
    """
    is_pole = x == pole
    return _op["where"](is_pole, -100.0, logarithm(_op["where"](is_pole, pole + 0.5, x)).clip(-100.0))


@memoized_call
@explain_errors
def binary_cross_entropy(input: Tensor, target: Operand, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Return -(t log p + (1 - t) log(1 - p)) for probabilities p = `input` and targets t, reduced.

    Logarithms are clipped below at -100, as in PyTorch, with gradient 0 there.

    Parameters
    ----------
    input : Tensor
        Probabilities from 0 to 1, of any shape and floating-point dtype.
    target : Tensor or data for `tx.asarray`
        Probabilities of the shape of `input`.
    weight : Tensor, optional
        Factor of the loss, which broadcasts.
    reduction : {"mean", "sum", "none"}, default "mean"
        "none" returns the loss of each element. A mean is over the number of elements.

    Returns
    -------
    Tensor
        New tensor: 0-d, or with "none" of the shape of `input`.

    Raises
    ------
    ShapeError
        Unless input and target have one shape.
    ArgumentError
        If `reduction` is unknown.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.binary_cross_entropy(tx.asarray([0.0, 1.0]), tx.asarray([1.0, 0.0]), reduction="none").tolist()
    [100.0, 100.0]
    """
    target = _check_target("binary_cross_entropy", input, target)
    log_yes, log_no = _clip_logarithm(_op["log"], input, 0.0), _clip_logarithm(_op["log1p"], -input, -1.0)
    loss = -(log_yes * target + log_no * (1.0 - target))
    return _reduce("binary_cross_entropy", loss if weight is None else loss * weight, reduction)


@memoized_call
@explain_errors
def binary_cross_entropy_with_logits(
    input: Tensor, target: Operand, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None
) -> Tensor:
    """Return `binary_cross_entropy` of sigmoid(input), accurate also where the sigmoid rounds to 0 or 1.

    Parameters
    ----------
    input : Tensor
        Logits, of any shape and floating-point dtype.
    target : Tensor or data for `tx.asarray`
        Probabilities of the shape of `input`.
    weight : Tensor, optional
        Factor of the loss, which broadcasts.
    reduction : {"mean", "sum", "none"}, default "mean"
        "none" returns the loss of each element. A mean is over the number of elements.
    pos_weight : Tensor, optional
        Factor of the term of positive targets, `t log p`, which broadcasts.

    Returns
    -------
    Tensor
        New tensor: 0-d, or with "none" of the shape of `input`.

    Raises
    ------
    ShapeError
        Unless input and target have one shape.
    ArgumentError
        If `reduction` is unknown.

    Examples
    --------
    >>> import tenxor as tx
    >>> x, t = tx.asarray([0.0, 0.0]), tx.asarray([1.0, 0.0])
    >>> loss = tx.nn.functional.binary_cross_entropy_with_logits(x, t, reduction="none", pos_weight=tx.asarray([3.0, 3.0]))
    >>> [round(each, 4) for each in loss.tolist()]
    [2.0794, 0.6931]
    """
    op = "binary_cross_entropy_with_logits"
    target = _check_target(op, input, target)
    if pos_weight is None:
        loss = _op["softplus"](input) - input * target
    else:
        loss = (1.0 - target) * input + ((pos_weight - 1.0) * target + 1.0) * _op["softplus"](-input)
    return _reduce(op, loss if weight is None else loss * weight, reduction)


_CLASS, _COUNT, _IGNORED = (Arg(k, int64) for k in range(3))
_nonnegative_class = where(call("less", _CLASS, 0), _CLASS - _COUNT, _CLASS)
# One node instead of four; `runtime/index_errors.py` shows the index before the shift
_CLASS_INDEX_OP = make_custom_op("class_place", where(call("equal", _CLASS, _IGNORED), 0, _nonnegative_class), (int64, int64, int64))


def _class_axis(op: str, input: Tensor) -> int:
    """Return the axis of the classes of `input`: 1, or 0 for a single example without a batch axis. Raise ShapeError for a 0-d tensor."""
    if input.ndim == 0:
        raise ShapeError(f"{op}: input is 0-d; it must have an axis of classes: (classes,), (N, classes) or (N, classes, ...)")
    return min(input.ndim - 1, 1)


def _check_classes(op: str, input: Tensor, target: Tensor, axis: int) -> None:
    """Raise ShapeError unless `target` has the shape of `input` without the axis of classes."""
    wanted = (*input.shape[:axis], *input.shape[axis + 1 :])
    if target.shape != wanted:
        advice = "; use input.moveaxis(-1, 1) where classes are on the last axis" if target.shape == input.shape[:-1] else ""
        raise ShapeError(
            f"{op}: input has shape {input.shape} and target {target.shape}; classes are on axis {axis} of input, so target must have"
            f" shape {wanted}{advice}"
        )


def _check_class_weights(op: str, input: Tensor, weight: Tensor | None, axis: int) -> None:
    """Raise ShapeError unless `weight` is None or has a number for each class, `axis` of `input`; raise DTypeError for another dtype."""
    if weight is not None:
        if weight.shape != (input.shape[axis],):
            raise ShapeError(f"{op}: weight has shape {weight.shape}; it must be ({input.shape[axis]},), a number for each class")
        check_dtypes(op, input, {"weight": weight}, name="input")


def _class_loss(
    op: str, logs: Tensor, target: Tensor, axis: int, weight: Tensor | None, ignore_index: int, reduction: str, smoothing: float = 0.0
) -> Tensor:
    """Return minus the log-probabilities `logs` at the classes `target`, times the weights of the classes, reduced by `reduction`.

    `axis` is the axis of the classes in `logs`. `smoothing` is the part of a target that is spread over all classes. A mean is divided by
    the sum of the weights. Where the class is `ignore_index`, loss and weight are 0. An index of no class raises IndexOutOfRange, for many
    indices when the loss is computed.
    """
    target = target.astype(int64, copy=False)
    counts, class_shape = target != ignore_index, (-1, *(1,) * (logs.ndim - 1 - axis))
    class_indices = Tensor._compute(_CLASS_INDEX_OP, target, logs.shape[axis], ignore_index)
    loss = -logs._gather(logs._select_along(op, logs.layout, class_indices.expand_dims(axis), axis)).squeeze(axis)
    if weight is None:
        if smoothing:
            loss = loss * (1.0 - smoothing) - logs.mean(axis=axis) * smoothing
    else:
        weights = weight._gather(weight._select(op, weight.layout, (0,), (class_indices,), 0, (axis,)))
        loss = loss * weights
        if smoothing:
            loss = loss * (1.0 - smoothing) - (logs * weight.reshape(class_shape)).mean(axis=axis) * smoothing
    loss = _op["where"](counts, loss, 0.0)
    if check_choice(op, "reduction", reduction, "mean", "sum", "none") != "mean":
        return _reduce(op, loss, reduction)
    total: Any = counts if weight is None else _op["where"](counts, weights, 0.0)
    if loss.dtype.compute_dtype is not loss.dtype:  # the sum may overflow or round in float16 and bfloat16
        average: Tensor = loss.mean() / total.astype(loss.dtype).mean()
    else:
        average = loss.sum() / total.sum().astype(loss.dtype)
    return average


@memoized_call
@explain_errors
def cross_entropy(
    input: Tensor,
    target: Operand,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return minus the logarithm of the target's probability, for probabilities softmax(input).

    Parameters
    ----------
    input : Tensor
        Logits (N, classes), (N, classes, d1, ...) or (classes,): classes are on axis 1, as in PyTorch.
    target : Tensor or data for `tx.asarray`
        Integer classes, with the shape of the remaining axes, or floating-point probabilities of the shape of `input`. A class of
        probability 0 adds nothing, even for a logit of -inf.
    weight : Tensor, optional
        (classes,), in the dtype of `input`. A number for each class multiplies the loss of the class.
    ignore_index : int, default -100
        Class for which the loss is 0. It must be negative if the targets are probabilities.
    reduction : {"mean", "sum", "none"}, default "mean"
        A mean over classes is divided by the sum of their weights, a mean over probabilities by their number.
    label_smoothing : float, default 0.0
        Part of each target, from 0 to 1, that is spread evenly over the classes.

    Returns
    -------
    Tensor
        New tensor: 0-d, or with "none" of the shape of `input` without the axis of classes.

    Raises
    ------
    DTypeError
        If the target is neither integer nor floating-point, or if `weight` has another dtype than `input`.
    ShapeError
        If the shape of `target` or `weight` does not fit, or if `input` is 0-d.
    ArgumentError
        If `label_smoothing` is not from 0 to 1, if `ignore_index` is 0 or more with probabilities, or if `reduction` is
        unknown.
    IndexOutOfRange
        When the loss or the gradient is computed, for an index of no class, including -1.

    Examples
    --------
    >>> import tenxor as tx
    >>> round(tx.nn.functional.cross_entropy(tx.zeros((2, 4)), tx.asarray([0, 3])).item(), 4)
    1.3863
    >>> tx.nn.functional.cross_entropy(tx.zeros((2, 4, 5)), tx.zeros((2, 5), dtype=tx.int64), reduction="none").shape
    (2, 5)
    """
    op, target = "cross_entropy", asarray(target)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"{op}: label_smoothing is {label_smoothing}; it must be from 0 to 1")
    axis = _class_axis(op, input)
    _check_class_weights(op, input, weight, axis)
    if target.dtype.is_integer:
        _check_classes(op, input, target, axis)
        return _class_loss(op, log_softmax(input, axis=axis), target, axis, weight, ignore_index, reduction, label_smoothing)
    if not target.dtype.is_float:
        raise DTypeError(f"{op}: target has dtype {target.dtype}; it must be integers, the classes, or floats, their probabilities")
    target = _check_target(op, input, target)
    if ignore_index >= 0:
        raise ArgumentError(
            f"{op}: ignore_index is {ignore_index} with a target of probabilities; target must be classes; leave ignore_index out"
        )
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / input.shape[axis]
    logs = log_softmax(input, axis=axis)
    products = target * _op["where"](_op["logical_and"](target == 0, logs == -inf), 0.0, logs)
    if weight is not None:
        products = products * weight.reshape((-1, *(1,) * (input.ndim - 1 - axis)))
    return _reduce(op, -products.sum(axis=axis), reduction)


@memoized_call
@explain_errors
def nll_loss(input: Tensor, target: Operand, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Return minus the log-probability at the target class.

    Parameters
    ----------
    input : Tensor
        Log-probabilities (N, classes), (N, classes, d1, ...) or (classes,).
    target : Tensor or data for `tx.asarray`
        Integer classes, with the shape of the remaining axes.
    weight : Tensor, optional
        (classes,), in the dtype of `input`. A number for each class multiplies the loss of the class.
    ignore_index : int, default -100
        Class for which the loss is 0.
    reduction : {"mean", "sum", "none"}, default "mean"
        A mean is divided by the sum of the weights.

    Returns
    -------
    Tensor
        New tensor: 0-d, or with "none" of the shape of `target`.

    Raises
    ------
    DTypeError
        If the target is not integer, or if `weight` has another dtype than `input`.
    ShapeError
        If the shape of `target` or `weight` does not fit, or if `input` is 0-d.
    ArgumentError
        If `reduction` is unknown.
    IndexOutOfRange
        When the loss or the gradient is computed, for an index of no class, including -1.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.nll_loss(tx.asarray([[-1.0, -2.0], [-3.0, -4.0]]), tx.asarray([1, 0])).item()
    2.5
    """
    op, target = "nll_loss", asarray(target)
    if not target.dtype.is_integer:
        raise DTypeError(f"{op}: target has dtype {target.dtype}; it must be integers, the classes")
    axis = _class_axis(op, input)
    _check_class_weights(op, input, weight, axis)
    _check_classes(op, input, target, axis)
    return _class_loss(op, input, target, axis, weight, ignore_index, reduction)


@memoized_call
@explain_errors
def kl_div(input: Tensor, target: Operand, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Return the Kullback–Leibler divergence t (log t - l), for log-probabilities l = `input` and probabilities t = `target`.

    The loss is 0 where t is 0, also for l = -inf. It is NaN where l or t is NaN, or t is negative.

    Parameters
    ----------
    input : Tensor
        Log-probabilities, of any shape.
    target : Tensor or data for `tx.asarray`
        Probabilities of the shape of `input`.
    reduction : {"mean", "sum", "none", "batchmean"}, default "mean"
        "batchmean" is the sum divided by the size of axis 0.
    log_target : bool, default False
        If True, `target` holds log-probabilities.

    Returns
    -------
    Tensor
        New tensor: 0-d, or with "none" of the shape of `input`.

    Raises
    ------
    ShapeError
        Unless the shapes are equal, and for a 0-d `input` with "batchmean".
    ArgumentError
        If `reduction` is unknown.

    References
    ----------
    S. Kullback, R. Leibler: On information and sufficiency, 1951.

    Examples
    --------
    >>> import tenxor as tx
    >>> loss = tx.nn.functional.kl_div(tx.asarray([0.5, 0.5]).log(), tx.asarray([0.25, 0.75]), reduction="sum")
    >>> round(loss.item(), 4)
    0.1308
    """
    target = _check_target("kl_div", input, target)
    log_target = check_flag("log_target", log_target)
    is_zero = target == (-inf if log_target else 0.0)
    safe_target = _op["where"](is_zero, 0.0 if log_target else 1.0, target)
    probability, logarithm = (_op["exp"](safe_target), safe_target) if log_target else (safe_target, _op["log"](safe_target))
    loss = _op["where"](_op["logical_and"](is_zero, input == input), 0.0, probability * (logarithm - input))  # NaN stays NaN
    mode = check_choice("kl_div", "reduction", reduction, "mean", "sum", "none", "batchmean")
    if mode == "batchmean":
        if not input.ndim:
            raise ShapeError("kl_div: input is 0-d; it must have a batch axis for reduction='batchmean'")
        return loss.sum() / input.shape[0]
    return _reduce("kl_div", loss, mode)
