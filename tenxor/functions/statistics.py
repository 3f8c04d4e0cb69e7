"""Reductions as functions, under the array API's signatures; what each does is said at the method of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..creation import full
from ..dtypes import boolean
from ..errors import ArgumentError
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.arguments import Axes, axis_of
from .joining import concat

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "log_softmax",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "softmax",
    "std",
    "sum",
    "var",
]


def _function(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def function(x: Tensor, /, *args: Any, **options: Any) -> Any:
        return method(x, *args, **options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The method `Tensor.{name}` as a function: {method.__doc__}"
    return function


all = _function("all")
any = _function("any")
argmax = _function("argmax")
argmin = _function("argmin")
count_nonzero = _function("count_nonzero")
max = amax = _function("max")
mean = _function("mean")
min = amin = _function("min")
prod = _function("prod")
std = _function("std")
sum = _function("sum")
var = _function("var")


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: object = None, include_initial: bool = False
) -> Tensor:
    """New tensor of running sums along an axis; `include_initial` puts the empty sum, 0, first.

    >>> import tenxor as tx
    >>> tx.cumulative_sum(tx.arange(4), include_initial=True).tolist()
    [0, 0, 1, 3, 6]
    """
    return _running(x, "cumulative_sum", axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: object = None, include_initial: bool = False
) -> Tensor:
    """New tensor of running products along an axis; `include_initial` puts the empty product, 1, first."""
    return _running(x, "cumulative_prod", axis, dtype, 1 if include_initial else None)


def _running(x: Tensor, name: str, axis: int | None, dtype: object, initial: int | None) -> Tensor:
    if axis is None and x.ndim != 1:
        raise ArgumentError(
            f"{name}: a tensor of shape {x.shape} needs an axis to run along; for all its elements use x.ravel()"
        )
    found: Tensor = getattr(x, name)(axis, dtype)
    if initial is None:
        return found
    place = axis_of(name, 0 if axis is None else axis, x.ndim)
    shape = tuple(1 if a == place else n for a, n in enumerate(found.shape))
    return concat([full(shape, initial, dtype=found.dtype), found], axis=place)


def cumsum(x: Tensor, /, axis: int | None = None, dtype: object = None) -> Tensor:
    """New tensor of running sums along an axis, of the flattened tensor for None, as in NumPy."""
    found: Tensor = x.cumulative_sum(axis, dtype)
    return found


def cumprod(x: Tensor, /, axis: int | None = None, dtype: object = None) -> Tensor:
    """New tensor of running products along an axis, of the flattened tensor for None, as in NumPy."""
    found: Tensor = x.cumulative_prod(axis, dtype)
    return found


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """New tensor: the differences of neighbours along an axis, `n` times over.

    >>> import tenxor as tx
    >>> tx.diff(tx.asarray([1, 4, 9])).tolist()
    [3, 5]
    """
    axis = axis_of("diff", axis, x.ndim)
    x = (
        concat([t for t in (prepend, x, append) if t is not None], axis=axis)
        if prepend is not None or append is not None
        else x
    )
    before = (slice(None),) * axis
    for _ in range(n):
        later, earlier = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = later != earlier if x.dtype is boolean else later - earlier
    return x


# --- along rows: one kernel reads each row from memory once -----------------------------------------------------------


def logsumexp(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """New tensor: log(sum(exp(x))) over an axis without overflow.

    >>> import tenxor as tx
    >>> tx.logsumexp(tx.asarray([1000.0, 1000.0])).item() - 1000.0
    0.693147180559...
    """
    highest = x.max(axis, keepdims=True)
    shift = Tensor.compute(OPS["where"], highest.isfinite(), highest, 0)
    total: Any = (x - shift).exp().sum(axis, keepdims=True).log() + shift
    found: Tensor = total if keepdims else total.squeeze(tuple(range(x.ndim)) if axis is None else axis)
    return found


def softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """New tensor: exp(x) divided by its sum along an axis, without overflow.

    >>> import tenxor as tx
    >>> tx.softmax(tx.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    powers: Any = (x - x.max(axis, keepdims=True)).exp()
    found: Tensor = powers / powers.sum(axis, keepdims=True)
    return found


def log_softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """New tensor: the logarithm of softmax along an axis, without overflow or loss."""
    apart: Any = x - x.max(axis, keepdims=True)
    found: Tensor = apart - apart.exp().sum(axis, keepdims=True).log()
    return found
