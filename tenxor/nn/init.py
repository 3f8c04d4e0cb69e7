"""What weights begin with: each function writes into a tensor, and gives it back.

`fan_in` and `fan_out` are how many numbers go into one result, and how many results one number goes into: for a weight (out, in,
*kernel), in and out times the size of the kernel.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from .. import random
from ..errors import ShapeError
from ..functions.differentiation import no_grad
from ..functions.kinds import explained
from ..late import public_dir, public_getattr
from ..random import Source
from ..tensor import Tensor
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
__dir__ = public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = public_getattr(globals())


def _draws(generator: Source) -> Any:
    return random if generator is None else generator


def _written(t: Tensor, values: Operand) -> Tensor:
    with no_grad():
        t[...] = values
    return t


def _fans(op: str, t: Tensor) -> tuple[int, int]:
    if t.ndim < 2:
        raise ShapeError(f"{op}: a tensor of shape {t.shape} has no fan-in and fan-out; it needs at least 2 axes")
    kernel = prod(t.shape[2:])
    return t.shape[1] * kernel, t.shape[0] * kernel


@explained
def uniform_(t: Tensor, low: float = 0.0, high: float = 1.0, generator: Source = None) -> Tensor:
    """Fill with uniform numbers from `low` to `high`.

    >>> import tenxor as tx
    >>> weight = tx.nn.init.uniform_(tx.zeros((2, 3)), -1.0, 1.0)
    >>> bool((abs(weight) <= 1.0).all())
    True
    """
    return _written(t, _draws(generator).uniform(low, high, t.shape, dtype=t.dtype.compute))


@explained
def normal_(t: Tensor, mean: float = 0.0, std: float = 1.0, generator: Source = None) -> Tensor:
    """Fill with normal numbers."""
    return _written(t, _draws(generator).normal(mean, std, t.shape, dtype=t.dtype.compute))


@explained
def constant_(t: Tensor, value: float) -> Tensor:
    """Fill with one number."""
    return _written(t, value)


@explained
def zeros_(t: Tensor) -> Tensor:
    """Fill with 0."""
    return _written(t, 0.0)


@explained
def ones_(t: Tensor) -> Tensor:
    """Fill with 1."""
    return _written(t, 1.0)


@explained
def xavier_uniform_(t: Tensor, gain: float = 1.0, generator: Source = None) -> Tensor:
    """Uniform numbers whose variance is 2 / (fan_in + fan_out), times the gain squared (X. Glorot, Y. Bengio, 2010)."""
    bound = gain * sqrt(6.0 / sum(_fans("xavier_uniform_", t)))
    return uniform_(t, -bound, bound, generator)


@explained
def xavier_normal_(t: Tensor, gain: float = 1.0, generator: Source = None) -> Tensor:
    """Normal numbers of that variance."""
    return normal_(t, 0.0, gain * sqrt(2.0 / sum(_fans("xavier_normal_", t))), generator)


@explained
def kaiming_uniform_(t: Tensor, gain: float = sqrt(2.0), generator: Source = None) -> Tensor:
    """Uniform numbers whose variance is the gain squared over fan_in; the default gain is that of ReLU (K. He et al., 2015,
    arXiv:1502.01852).
    """
    bound = gain * sqrt(3.0 / max(_fans("kaiming_uniform_", t)[0], 1))
    return uniform_(t, -bound, bound, generator)


@explained
def kaiming_normal_(t: Tensor, gain: float = sqrt(2.0), generator: Source = None) -> Tensor:
    """Normal numbers of that variance."""
    return normal_(t, 0.0, gain / sqrt(max(_fans("kaiming_normal_", t)[0], 1)), generator)


@explained
def orthogonal_(t: Tensor, gain: float = 1.0, generator: Source = None) -> Tensor:
    """Rows, or columns if there are more rows, at right angles to each other (A. Saxe et al., 2013, arXiv:1312.6120)."""
    import numpy as np

    if t.ndim < 2:
        raise ShapeError(f"orthogonal_: a tensor of shape {t.shape} has no rows; it needs at least 2 axes")
    rows, columns = t.shape[0], prod(t.shape[1:])
    drawn = _draws(generator).normal(0.0, 1.0, (max(rows, columns), min(rows, columns))).to_numpy()
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))
    return _written(t, t._from_numpy(np.ascontiguousarray((q if rows >= columns else q.T).reshape(t.shape) * gain)).astype(t.dtype))
