"""Initialisers of weights. Each writes into a tensor in place, without recording, and returns the tensor.

`fan_in` is the number of inputs of one result, and `fan_out` the number of results of one input. For a weight (out, in, *kernel) they are
in and out, times the number of elements of the kernel.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from .. import random
from .._utils.lazy import make_public_dir, make_public_getattr
from ..api.argument_validation import explain_errors
from ..api.differentiation import no_grad
from ..errors import ShapeError
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
    return random if generator is None else generator


def _write_values(t: Tensor, values: Operand) -> Tensor:
    with no_grad():
        t[...] = values
    return t


def _compute_fans(op: str, t: Tensor) -> tuple[int, int]:
    """Return fan_in and fan_out of a weight. Raise ShapeError for fewer than 2 axes."""
    if t.ndim < 2:
        raise ShapeError(f"{op}: a tensor of shape {t.shape} has no fan-in and fan-out; it needs at least 2 axes")
    kernel = prod(t.shape[2:])
    return t.shape[1] * kernel, t.shape[0] * kernel


@explain_errors
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Source = None) -> Tensor:
    """Fill `tensor` with uniform random numbers from `a` to `b`.

    >>> import tenxor as tx
    >>> weight = tx.nn.init.uniform_(tx.zeros((2, 3)), -1.0, 1.0)
    >>> bool((abs(weight) <= 1.0).all())
    True
    """
    return _write_values(tensor, _get_draw_functions(generator).uniform(a, b, tensor.shape, dtype=tensor.dtype.compute_dtype))


@explain_errors
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Source = None) -> Tensor:
    """Fill `tensor` with normal random numbers."""
    return _write_values(tensor, _get_draw_functions(generator).normal(mean, std, tensor.shape, dtype=tensor.dtype.compute_dtype))


@explain_errors
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill `tensor` with one number."""
    return _write_values(tensor, val)


@explain_errors
def zeros_(tensor: Tensor) -> Tensor:
    """Fill `tensor` with 0."""
    return _write_values(tensor, 0.0)


@explain_errors
def ones_(tensor: Tensor) -> Tensor:
    """Fill `tensor` with 1."""
    return _write_values(tensor, 1.0)


@explain_errors
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Source = None) -> Tensor:
    """Fill with uniform random numbers of variance gain² 2 / (fan_in + fan_out) (X. Glorot, Y. Bengio, 2010)."""
    bound = gain * sqrt(6.0 / sum(_compute_fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound, generator)


@explain_errors
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Source = None) -> Tensor:
    """Fill with normal random numbers of variance gain² 2 / (fan_in + fan_out) (X. Glorot, Y. Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * sqrt(2.0 / sum(_compute_fans("xavier_normal_", tensor))), generator)


def _compute_deviation(op: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """Return the standard deviation of weights with which a nonlinearity preserves the variance; `a` is the slope of a leaky ReLU."""
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": sqrt(2.0), "leaky_relu": sqrt(2.0 / (1.0 + a * a)), "selu": 0.75}
    fan = _compute_fans(op, tensor)[check_choice(op, "mode", mode, "fan_in", "fan_out") == "fan_out"]
    return gains[check_choice(op, "nonlinearity", nonlinearity, *gains)] / sqrt(max(fan, 1))


@explain_errors
def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Source = None
) -> Tensor:
    """Fill with uniform random numbers of variance gain² / fan_in, or gain² / fan_out for `mode="fan_out"` (K. He et al., 2015,
    arXiv:1502.01852).

    The gain is that of the `nonlinearity`: "linear", "sigmoid", "tanh", "relu", "selu", or "leaky_relu" with slope `a`. The default is the
    gain of ReLU.
    """
    bound = sqrt(3.0) * _compute_deviation("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


@explain_errors
def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Source = None
) -> Tensor:
    """Fill with normal random numbers of variance gain² / fan_in, or gain² / fan_out for `mode="fan_out"` (K. He et al., 2015,
    arXiv:1502.01852).

    The gain is that of the `nonlinearity`: "linear", "sigmoid", "tanh", "relu", "selu", or "leaky_relu" with slope `a`. The default is the
    gain of ReLU.
    """
    return normal_(tensor, 0.0, _compute_deviation("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


@explain_errors
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Source = None) -> Tensor:
    """Fill with a random matrix of orthonormal rows, or columns if there are more rows, times `gain` (A. Saxe et al., 2013,
    arXiv:1312.6120). Axes after the first count as one.
    """
    import numpy as np

    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: a tensor of shape {tensor.shape} has no rows; it needs at least 2 axes")
    rows, columns = tensor.shape[0], prod(tensor.shape[1:])
    drawn = _get_draw_functions(generator).normal(0.0, 1.0, (max(rows, columns), min(rows, columns))).to_numpy()
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))
    values = np.ascontiguousarray((q if rows >= columns else q.T).reshape(tensor.shape) * gain)
    return _write_values(tensor, tensor._from_numpy(values).astype(tensor.dtype))
