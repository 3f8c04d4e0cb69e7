"""Activations with PyTorch's names and arguments, beside the elementwise functions such as `tx.relu`."""

from __future__ import annotations

from ..api import elementwise
from ..api.argument_validation import explain_errors
from ..api.softmax import softmax
from ..errors import ArgumentError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, normalize_axis, to_number
from .dtype_check import check_dtypes

_op = elementwise.FUNCTIONS


@memoized_call
@explain_errors
def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Return `input` where positive, and `negative_slope * input` elsewhere.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    negative_slope : float, default 0.01
        Slope of the result for negative elements.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.leaky_relu(tx.asarray([-1.0, 2.0])).tolist()
    [-0.01, 2.0]
    """
    return _op["where"](input > 0, input, input * negative_slope)


@memoized_call
@explain_errors
def elu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `input` where positive, and `alpha * (exp(input) - 1)` elsewhere.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    alpha : float, default 1.0
        The result approaches `-alpha` for large negative elements.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    References
    ----------
    D. Clevert et al., 2015, arXiv:1511.07289.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.elu(tx.asarray([-tx.inf, 0.0, 2.0])).tolist()
    [-1.0, 0.0, 2.0]
    """
    above = input > 0
    return _op["where"](above, input, _op["expm1"](_op["where"](above, 0.0, input)) * alpha)  # the derivative at 0 is alpha


@memoized_call
@explain_errors
def selu(input: Tensor) -> Tensor:
    """Return `elu` of `input`, scaled so that layers preserve mean 0 and variance 1.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    References
    ----------
    G. Klambauer et al., 2017, arXiv:1706.02515.

    Examples
    --------
    >>> import tenxor as tx
    >>> [round(x, 4) for x in tx.nn.functional.selu(tx.asarray([-1.0, 0.0, 1.0])).tolist()]
    [-1.1113, 0.0, 1.0507]
    """
    return elu(input, 1.6732632423543772) * 1.0507009873554805


@memoized_call
@explain_errors
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return `tx.gelu(input)`, or its approximation `tx.gelu_tanh(input)`.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    approximate : {"none", "tanh"}, default "none"
        "tanh" selects the approximation.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Raises
    ------
    ArgumentError
        If `approximate` is another text.

    Examples
    --------
    >>> import tenxor as tx
    >>> [round(x, 4) for x in tx.nn.functional.gelu(tx.asarray([-1.0, 0.0, 1.0]), approximate="tanh").tolist()]
    [-0.1588, 0.0, 0.8412]
    """
    return _op["gelu" if check_choice("gelu", "approximate", approximate, "none", "tanh") == "none" else "gelu_tanh"](input)


@memoized_call
@explain_errors
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `input` where positive, and `alpha * (exp(input / alpha) - 1)` elsewhere.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    alpha : float, default 1.0
        The result approaches `-alpha` for large negative elements.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    References
    ----------
    J. Barron, 2017, arXiv:1704.07483.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.celu(tx.asarray([-tx.inf, 0.0, 2.0]), alpha=0.5).tolist()
    [-0.5, 0.0, 2.0]
    """
    above = input > 0
    return _op["where"](above, input, _op["expm1"](_op["where"](above, 0.0, input) / alpha) * alpha)


@memoized_call
@explain_errors
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of `input` along an axis times the `sigmoid` of the second half.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    dim : int, default -1
        The axis, of even size.

    Returns
    -------
    Tensor
        New tensor of the dtype of `input`, with half the size along the axis `dim`.

    Raises
    ------
    ShapeError
        If the axis has an odd size.
    AxisError
        If `input` lacks the axis.

    References
    ----------
    Y. Dauphin et al., 2017, arXiv:1612.08083.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.glu(tx.asarray([3.0, 4.0, 0.0, tx.inf])).tolist()
    [1.5, 4.0]
    """
    axis = normalize_axis("glu", dim, input.ndim)
    if input.shape[axis] % 2:
        raise ShapeError(f"glu: input has shape {input.shape}; its axis {axis} must have an even size")
    halves = input.unflatten(axis, (2, -1))
    values, gate_inputs = halves.unbind(axis)
    return values * _op["sigmoid"](gate_inputs)


@memoized_call
@explain_errors
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return `input`, with 0 where `abs(input) <= lambd`.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    lambd : float, default 0.5
        The largest magnitude that becomes 0.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.hardshrink(tx.asarray([-2.0, 0.5, 1.0])).tolist()
    [-2.0, 0.0, 1.0]
    """
    return _op["where"](abs(input) <= lambd, 0.0, input)


@memoized_call
@explain_errors
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return `input` moved towards 0 by `lambd`, and 0 where `abs(input) <= lambd`.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    lambd : float, default 0.5
        The distance, 0 or more.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Raises
    ------
    ArgumentError
        If `lambd` is negative or no real number.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.softshrink(tx.asarray([-2.0, 0.5, 1.0])).tolist()
    [-1.5, 0.0, 0.5]
    """
    bound = to_number(lambd, "softshrink")
    if isinstance(bound, complex) or not bound >= 0:
        raise ArgumentError(f"softshrink: lambd is {describe_value(lambd)}; it must be a number of 0 or more")
    return _op["where"](abs(input) <= bound, 0, input - input.clip(-bound, bound))  # the derivative at the bounds is 0, as inside


@memoized_call
@explain_errors
def tanhshrink(input: Tensor) -> Tensor:
    """Return `input - tanh(input)`.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> [round(x, 4) for x in tx.nn.functional.tanhshrink(tx.asarray([-1.0, 0.0, 1.0])).tolist()]
    [-0.2384, 0.0, 0.2384]
    """
    return input - _op["tanh"](input)


@memoized_call
@explain_errors
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """Return `input` where above `threshold` or NaN, and `value` elsewhere.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    threshold : float
        The largest element that is replaced.
    value : float
        The replacement.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.threshold(tx.asarray([0.0, 1.0, 2.0]), 1.0, -5.0).tolist()
    [-5.0, -5.0, 2.0]
    """
    return _op["where"](input <= threshold, value, input)


@memoized_call
@explain_errors
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return `input` where positive, and `weight * input` elsewhere.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    weight : Tensor
        One slope, of shape () or (1,), or a slope for each channel, of shape (channels,), in the dtype of `input`. The channels are axis 1,
        or axis 0 of a 1-D input.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Raises
    ------
    ShapeError
        If `weight` has another shape.
    DTypeError
        If `weight` has another dtype than `input`.

    References
    ----------
    K. He et al., 2015, arXiv:1502.01852.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.prelu(tx.asarray([[-1.0, -1.0], [2.0, 2.0]]), tx.asarray([0.5, 0.25])).tolist()
    [[-0.5, -0.25], [2.0, 2.0]]
    """
    channels = input.shape[min(input.ndim - 1, 1)] if input.ndim else 1
    if weight.ndim > 1 or weight.size not in (1, channels):
        raise ShapeError(f"prelu: weight has shape {weight.shape} and input {input.shape}; weight must be (), (1,) or ({channels},)")
    check_dtypes("prelu", input, {"weight": weight}, name="input")
    slopes = weight.reshape((-1, *(1,) * max(input.ndim - 2, 0))) if weight.size > 1 else weight.reshape(())
    return _op["where"](input > 0, input, input * slopes)


@memoized_call
@explain_errors
def softmin(input: Tensor, dim: int = -1) -> Tensor:
    """Return the `softmax` of `-input` along an axis.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    dim : int, default -1
        The axis.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Raises
    ------
    AxisError
        If `input` lacks the axis.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.softmin(tx.asarray([1.0, 1.0, tx.inf])).tolist()
    [0.5, 0.5, 0.0]
    """
    return softmax(-input, axis=dim)


@memoized_call
@explain_errors
def hardsigmoid(input: Tensor) -> Tensor:
    """Return `(input + 3) / 6`, clipped to the range from 0 to 1.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.hardsigmoid(tx.asarray([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return (input / 6.0 + 0.5).clip(0.0, 1.0)


@memoized_call
@explain_errors
def hardswish(input: Tensor) -> Tensor:
    """Return `input * hardsigmoid(input)`.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    References
    ----------
    A. Howard et al., 2019, arXiv:1905.02244.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.hardswish(tx.asarray([-4.0, 0.0, 4.0])).tolist()
    [-0.0, 0.0, 4.0]
    """
    return input * hardsigmoid(input)


@memoized_call
@explain_errors
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return `input`, clipped to the range from `min_val` to `max_val`.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    min_val, max_val : float, default -1.0 and 1.0
        The bounds.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.hardtanh(tx.asarray([-4.0, 0.5, 4.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    return input.clip(min_val, max_val)


@memoized_call
@explain_errors
def relu6(input: Tensor) -> Tensor:
    """Return `input`, clipped to the range from 0 to 6.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.relu6(tx.asarray([-4.0, 0.5, 8.0])).tolist()
    [0.0, 0.5, 6.0]
    """
    return input.clip(0.0, 6.0)


@memoized_call
@explain_errors
def logsigmoid(input: Tensor) -> Tensor:
    """Return the logarithm of `sigmoid(input)`, accurate also where `sigmoid` underflows to 0.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.logsigmoid(tx.asarray([-1000.0, 1000.0])).tolist()
    [-1000.0, -0.0]
    """
    return -_op["softplus"](-input)


@memoized_call
@explain_errors
def mish(input: Tensor) -> Tensor:
    """Return `input * tanh(softplus(input))`.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    References
    ----------
    D. Misra, 2019, arXiv:1908.08681.

    Examples
    --------
    >>> import tenxor as tx
    >>> [round(x, 4) for x in tx.nn.functional.mish(tx.asarray([-1.0, 0.0, 1.0])).tolist()]
    [-0.3034, 0.0, 0.8651]
    """
    return input * _op["tanh"](_op["softplus"](input))


@memoized_call
@explain_errors
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return `log(1 + exp(beta * input)) / beta`, and `input` itself where `beta * input` is above `threshold`.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.
    beta : float, default 1.0
        The sharpness: for large `beta` the result approaches `relu(input)`.
    threshold : float, default 20.0
        The largest `beta * input` for which the formula is computed.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> [round(x, 4) for x in tx.nn.functional.softplus(tx.asarray([0.0, 30.0]), 2.0).tolist()]
    [0.3466, 30.0]
    """
    scaled = input * beta
    return _op["where"](scaled > threshold, input, _op["softplus"](scaled) / beta)


@memoized_call
@explain_errors
def softsign(input: Tensor) -> Tensor:
    """Return `input / (1 + abs(input))`.

    Parameters
    ----------
    input : Tensor
        A tensor of a floating-point dtype.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `input`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.functional.softsign(tx.asarray([-1.0, 0.0, 1.0])).tolist()
    [-0.5, 0.0, 0.5]
    """
    return input / (abs(input) + 1.0)
