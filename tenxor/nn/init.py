"""Initialisers of weights. Each writes into a tensor in place, without recording, and returns the tensor. `fan_in` is the number of inputs
of one result, and `fan_out` the number of results of one input. For a weight (out, in, *kernel) they are in and out, times the number of
elements of the kernel.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from .. import random
from .._utils.lazy import make_public_dir, make_public_getattr
from ..api.argument_validation import explain_errors
from ..api.differentiation import no_grad
from ..errors import DTypeError, ShapeError
from ..random import Source
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice
from ..tensor.core import Operand

__all__ = [
    "constant_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]
__dir__ = make_public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = make_public_getattr(globals())


def _get_draw_functions(generator: Source) -> Any:
    """Return `generator`, or the module `tx.random` for None; both have the same functions."""
    return random if generator is None else generator


def _check_dtype(op: str, t: Tensor) -> None:
    """Raise DTypeError, beginning with `op`, unless random numbers can be written into `t`: its dtype must be real floating-point."""
    if not t.dtype.is_float:
        raise DTypeError(f"{op}: a tensor of dtype {t.dtype} cannot hold the random numbers; its dtype must be real floating-point")


def _write_values(t: Tensor, values: Operand) -> Tensor:
    """Write `values` into `t` in place, without recording, and return `t`."""
    with no_grad():
        t[...] = values
    return t


def _compute_fans(op: str, t: Tensor) -> tuple[int, int]:
    """Return fan_in and fan_out of the weight `t`, (out, in, *kernel). Raise ShapeError, beginning with `op`, for fewer than 2 axes."""
    if t.ndim < 2:
        raise ShapeError(f"{op}: a tensor of shape {t.shape} has no fan-in and fan-out; it needs at least 2 axes")
    kernel = prod(t.shape[2:])
    return t.shape[1] * kernel, t.shape[0] * kernel


@explain_errors
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Source = None) -> Tensor:
    """Fill `tensor` with uniform random numbers from `a` to `b`.

    Parameters
    ----------
    tensor : Tensor
        Any shape, of real floating-point dtype.
    a, b : float, default 0.0 and 1.0
        Bounds of the numbers.
    generator : tx.random.Generator, optional
        Source of the numbers, by default the generator of `tx.random`.

    Returns
    -------
    Tensor
        `tensor` itself, written in place.

    Raises
    ------
    ArgumentError
        If `a` is above `b`.
    DTypeError
        If the dtype is not real floating-point.

    Examples
    --------
    >>> import tenxor as tx
    >>> weight = tx.nn.init.uniform_(tx.zeros((2, 3)), -1.0, 1.0)
    >>> bool((abs(weight) <= 1.0).all())
    True
    """
    _check_dtype("uniform_", tensor)
    return _write_values(tensor, _get_draw_functions(generator).uniform(a, b, tensor.shape, dtype=tensor.dtype.compute_dtype))


@explain_errors
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Source = None) -> Tensor:
    """Fill `tensor` with normal random numbers.

    Parameters
    ----------
    tensor : Tensor
        Any shape, of real floating-point dtype.
    mean, std : float, default 0.0 and 1.0
        Mean and standard deviation of the numbers.
    generator : tx.random.Generator, optional
        Source of the numbers, by default the generator of `tx.random`.

    Returns
    -------
    Tensor
        `tensor` itself, written in place.

    Raises
    ------
    ArgumentError
        If `std` is negative.
    DTypeError
        If the dtype is not real floating-point.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.init.normal_(tx.zeros(2), 5.0, 0.0).tolist()
    [5.0, 5.0]
    """
    _check_dtype("normal_", tensor)
    return _write_values(tensor, _get_draw_functions(generator).normal(mean, std, tensor.shape, dtype=tensor.dtype.compute_dtype))


@explain_errors
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill `tensor`, of any dtype, with the number `val`, in place. Return `tensor` itself. Raise DTypeError for a complex `val` in reals.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.init.constant_(tx.zeros(2), 0.5).tolist()
    [0.5, 0.5]
    """
    return _write_values(tensor, val)


@explain_errors
def zeros_(tensor: Tensor) -> Tensor:
    """Fill `tensor`, of any dtype, with 0. Return `tensor` itself.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.init.zeros_(tx.ones(2)).tolist()
    [0.0, 0.0]
    """
    return _write_values(tensor, 0.0)


@explain_errors
def ones_(tensor: Tensor) -> Tensor:
    """Fill `tensor`, of any dtype, with 1. Return `tensor` itself.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.init.ones_(tx.zeros(2)).tolist()
    [1.0, 1.0]
    """
    return _write_values(tensor, 1.0)


@explain_errors
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Source = None) -> Tensor:
    """Fill `tensor` with uniform random numbers of variance gain² 2 / (fan_in + fan_out).

    Parameters
    ----------
    tensor : Tensor
        Weight of at least 2 axes, (out, in, *kernel), of real floating-point dtype.
    gain : float, default 1.0
        Factor of the standard deviation.
    generator : tx.random.Generator, optional
        Source of the numbers, by default the generator of `tx.random`.

    Returns
    -------
    Tensor
        `tensor` itself, written in place.

    Raises
    ------
    ShapeError
        If `tensor` has fewer than 2 axes.
    DTypeError
        If the dtype is not real floating-point.

    References
    ----------
    X. Glorot, Y. Bengio: Understanding the difficulty of training deep feedforward neural networks, 2010.

    Examples
    --------
    >>> import tenxor as tx
    >>> weight = tx.nn.init.xavier_uniform_(tx.empty((2, 4)))  # within ± sqrt(6 / (2 + 4))
    >>> bool((abs(weight) <= 1.0).all())
    True
    """
    bound = gain * sqrt(6.0 / sum(_compute_fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound, generator)


@explain_errors
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Source = None) -> Tensor:
    """Fill `tensor` with normal random numbers of variance gain² 2 / (fan_in + fan_out).

    Parameters
    ----------
    tensor : Tensor
        Weight of at least 2 axes, (out, in, *kernel), of real floating-point dtype.
    gain : float, default 1.0
        Factor of the standard deviation.
    generator : tx.random.Generator, optional
        Source of the numbers, by default the generator of `tx.random`.

    Returns
    -------
    Tensor
        `tensor` itself, written in place.

    Raises
    ------
    ShapeError
        If `tensor` has fewer than 2 axes.
    DTypeError
        If the dtype is not real floating-point.

    References
    ----------
    X. Glorot, Y. Bengio: Understanding the difficulty of training deep feedforward neural networks, 2010.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.init.xavier_normal_(tx.empty((2, 4)), gain=0.0).tolist()
    [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    return normal_(tensor, 0.0, gain * sqrt(2.0 / sum(_compute_fans("xavier_normal_", tensor))), generator)


def _compute_deviation(op: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """Return the standard deviation of the weights `tensor` with which `nonlinearity` preserves the variance.

    `mode` is "fan_in" or "fan_out", and `a` is the slope of a leaky ReLU. Raise ShapeError for fewer than 2 axes, and ArgumentError for
    unknown names, both beginning with `op`.
    """
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": sqrt(2.0), "leaky_relu": sqrt(2.0 / (1.0 + a * a)), "selu": 0.75}
    fan = _compute_fans(op, tensor)[check_choice(op, "mode", mode, "fan_in", "fan_out") == "fan_out"]
    return gains[check_choice(op, "nonlinearity", nonlinearity, *gains)] / sqrt(max(fan, 1))


@explain_errors
def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Source = None
) -> Tensor:
    """Fill `tensor` with uniform random numbers of variance gain² / fan_in, or gain² / fan_out for `mode="fan_out"`.

    Parameters
    ----------
    tensor : Tensor
        Weight of at least 2 axes, (out, in, *kernel), of real floating-point dtype.
    a : float, default 0.0
        Slope of the leaky ReLU.
    mode : {"fan_in", "fan_out"}, default "fan_in"
        Count by which the variance is divided.
    nonlinearity : {"linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"}, default "leaky_relu"
        Function that follows the weight and determines the gain. The default is the gain of ReLU.
    generator : tx.random.Generator, optional
        Source of the numbers, by default the generator of `tx.random`.

    Returns
    -------
    Tensor
        `tensor` itself, written in place.

    Raises
    ------
    ShapeError
        If `tensor` has fewer than 2 axes.
    ArgumentError
        If `mode` or `nonlinearity` is unknown.
    DTypeError
        If the dtype is not real floating-point.

    References
    ----------
    K. He et al.: Delving deep into rectifiers, 2015 (arXiv:1502.01852).

    Examples
    --------
    >>> import tenxor as tx
    >>> weight = tx.nn.init.kaiming_uniform_(tx.empty((2, 6)))  # within ± sqrt(3) * sqrt(2 / 6)
    >>> bool((abs(weight) <= 1.0).all())
    True
    """
    bound = sqrt(3.0) * _compute_deviation("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


@explain_errors
def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Source = None
) -> Tensor:
    """Fill `tensor` with normal random numbers of variance gain² / fan_in, or gain² / fan_out for `mode="fan_out"`.

    Parameters
    ----------
    tensor : Tensor
        Weight of at least 2 axes, (out, in, *kernel), of real floating-point dtype.
    a : float, default 0.0
        Slope of the leaky ReLU.
    mode : {"fan_in", "fan_out"}, default "fan_in"
        Count by which the variance is divided.
    nonlinearity : {"linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"}, default "leaky_relu"
        Function that follows the weight and determines the gain. The default is the gain of ReLU.
    generator : tx.random.Generator, optional
        Source of the numbers, by default the generator of `tx.random`.

    Returns
    -------
    Tensor
        `tensor` itself, written in place.

    Raises
    ------
    ShapeError
        If `tensor` has fewer than 2 axes.
    ArgumentError
        If `mode` or `nonlinearity` is unknown.
    DTypeError
        If the dtype is not real floating-point.

    References
    ----------
    K. He et al.: Delving deep into rectifiers, 2015 (arXiv:1502.01852).

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.init.kaiming_normal_(tx.empty((8, 3, 3, 3)), nonlinearity="relu").shape
    (8, 3, 3, 3)
    """
    return normal_(tensor, 0.0, _compute_deviation("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


@explain_errors
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Source = None) -> Tensor:
    """Fill `tensor` with a random matrix of orthonormal rows, or columns if there are more rows, times `gain`.

    Parameters
    ----------
    tensor : Tensor
        At least 2 axes, of real floating-point dtype. Axes after the first count as one.
    gain : float, default 1.0
        Norm of a row or column.
    generator : tx.random.Generator, optional
        Source of the numbers, by default the generator of `tx.random`.

    Returns
    -------
    Tensor
        `tensor` itself, written in place.

    Raises
    ------
    ShapeError
        If `tensor` has fewer than 2 axes.
    DTypeError
        If the dtype is not real floating-point.

    References
    ----------
    A. Saxe, J. McClelland, S. Ganguli: Exact solutions to the nonlinear dynamics of learning in deep linear neural networks, 2013
    (arXiv:1312.6120).

    Examples
    --------
    >>> import tenxor as tx
    >>> q = tx.nn.init.orthogonal_(tx.empty((2, 3)))
    >>> bool((abs(q @ q.T - tx.eye(2)) < 1e-9).all())
    True
    """
    import numpy as np

    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: a tensor of shape {tensor.shape} has no rows; it needs at least 2 axes")
    _check_dtype("orthogonal_", tensor)
    rows, columns = tensor.shape[0], prod(tensor.shape[1:])
    drawn = _get_draw_functions(generator).normal(0.0, 1.0, (max(rows, columns), min(rows, columns))).to_numpy()
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))
    values = np.ascontiguousarray((q if rows >= columns else q.T).reshape(tensor.shape) * gain)
    return _write_values(tensor, tensor._from_numpy(values).astype(tensor.dtype))
