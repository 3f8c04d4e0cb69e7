"""Medians and quantiles: a number that so much of the elements is below."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..creation import asarray
from ..dtypes import DEFAULT_FLOAT, DType
from ..errors import ArgumentError, DTypeError, ShapeError
from ..keywords import spelled
from ..node import watchers
from ..ops import OPS
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import Axes, axes_of, truth
from ..tensor.core import Operand
from .hosted import FEW, as_dtype, at_once, has_past, hosted
from .sorting import sort

__all__ = ["median", "percentile", "quantile"]

Array = np.ndarray[Any, Any]
# Where among n elements the quantile q lies, from 0 on, and how the two elements beside it are weighed (Hyndman and Fan 1996).
_CONTINUOUS: dict[str, tuple[float, float]] = {  # alpha and beta of their formula
    "linear": (1, 1),
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_OF_TWO: dict[str, Callable[[Array], Array]] = {  # what of the linear place is taken
    "lower": np.floor,
    "higher": np.ceil,
    "midpoint": lambda place: (np.floor(place) + np.ceil(place)) / 2,
    "nearest": np.rint,
}


@called_again
@spelled
def median(x: Operand, /, axis: Axes = None, *, keepdims: bool = False, dim: Axes = None, keepdim: bool | None = None) -> Tensor:
    """New float tensor: the element in the middle over `axis` (an int, a tuple, or None for all), or the mean of the
    two in the middle; NaN if there is one. Integers become float64. ShapeError where there are no elements. (NumPy's
    `median`.)

    >>> import tenxor as tx
    >>> tx.median(tx.asarray([[1, 9, 3], [4, 4, 8]]), axis=1).tolist(), tx.median(tx.asarray([1, 2, 9, 9])).item()
    ([3.0, 4.0], 5.5)
    """
    return _quantile("median", asarray(x), np.asarray(0.5), axis, "linear", truth("median", "keepdims", keepdims))


@spelled
def quantile(
    x: Operand,
    q: Operand,
    /,
    axis: Axes = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool | None = None,
    interpolation: str | None = None,
) -> Tensor:
    """New tensor: the numbers that the parts `q` of the elements over `axis` are below, a float from 0 to 1 or a
    tensor of them, whose axes come first in the result. NaN if there is one.

    Between two elements `method` says what to take: "linear", "lower", "higher", "midpoint", "nearest", "hazen",
    "weibull", "median_unbiased", "normal_unbiased" or "interpolated_inverted_cdf" (PyTorch's `interpolation` works
    too). "lower", "higher" and "nearest" keep the dtype; for the others integers become float64. Raises AxisError,
    ArgumentError, and ShapeError where there are no elements. (NumPy's `quantile`.)

    >>> import tenxor as tx
    >>> tx.quantile(tx.asarray([1.0, 2.0, 4.0, 8.0]), [0.0, 0.5]).tolist()
    [1.0, 3.0]
    """
    return _of_part("quantile", x, q, 1, axis, method, keepdims)


@spelled
def percentile(
    x: Operand,
    q: Operand,
    /,
    axis: Axes = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool | None = None,
) -> Tensor:
    """New tensor: `quantile`, with `q` from 0 to 100. (NumPy's `percentile`.)

    >>> import tenxor as tx
    >>> tx.percentile(tx.asarray([1.0, 2.0, 4.0, 8.0]), 50).item()
    3.0
    """
    return _of_part("percentile", x, q, 100, axis, method, keepdims)


def _of_part(op: str, x: Operand, q: Any, most: int, axis: Axes, method: str, keepdims: bool) -> Tensor:
    x, keepdims = asarray(x), truth(op, "keepdims", keepdims)
    if type(q) is float or type(q) is int:
        return _of_number(x, op, q, most, axis, method, keepdims)
    return _quantile(op, x, _parts(op, q, most), axis, method, keepdims)


@called_again
def _of_number(x: Tensor, op: str, q: float, most: int, axis: Axes, method: str, keepdims: bool) -> Tensor:
    """The same for one part that is known, on which alone it depends what is made."""
    return _quantile(op, x, _parts(op, q, most), axis, method, keepdims)


def _parts(op: str, q: Any, most: int) -> Array:
    found = asarray(q).astype(DEFAULT_FLOAT).to_numpy() / most
    if not ((found >= 0) & (found <= 1)).all():
        raise ArgumentError(f"{op}: q is from 0 to {most}, not {q!r}")
    return found


def _quantile(op: str, x: Tensor, q: Array, axis: Axes, method: str, keepdims: bool) -> Tensor:
    if not isinstance(method, str) or (method not in _CONTINUOUS and method not in _OF_TWO):
        raise ArgumentError(f"{op}: there is no method {method!r}; there are {', '.join((*_CONTINUOUS, *_OF_TWO))}")
    dtype = x.dtype
    if dtype.is_complex:
        raise DTypeError(f"{op}: does not accept {dtype}, whose numbers have no order; take tx.real(x) or tx.abs(x)")
    axes = axes_of(op, axis, x.ndim)
    kept = [a for a in range(x.ndim) if a not in axes]
    if x.size == 0:
        _check_elements(op, x, axes)
        empty = x.astype(dtype if dtype.is_float else DEFAULT_FLOAT).sum(axes, keepdims=keepdims)
        return empty.expand((*q.shape, *empty.shape))
    exact = method in ("lower", "higher", "nearest")
    places = _places(prod([x.shape[a] for a in axes]), q, method)
    if q.ndim == 0:
        few = _Few(axes, kept, places, None if exact and not dtype.is_float else dtype, keepdims)
        found_at_once = at_once(few, x)
        if found_at_once is not None:
            return found_at_once[0]
    rows = x.permute((*kept, *axes)).reshape((*[x.shape[a] for a in kept], -1))
    if not dtype.is_float and not exact:
        rows = rows.astype(DEFAULT_FLOAT)
    elif dtype.is_float:
        rows = as_dtype(rows, dtype.compute)
    found = _between(rows, *places)
    found = as_dtype(found, dtype if dtype.is_float or exact else DEFAULT_FLOAT)
    found = found.reshape((*found.shape[:-1], *q.shape)).moveaxis(tuple(range(-q.ndim, 0)), tuple(range(q.ndim)))
    return found.expand_dims(tuple([q.ndim + a for a in axes])) if keepdims else found


def _check_elements(op: str, x: Tensor, axes: tuple[int, ...]) -> None:
    for a in axes:
        if x.shape[a] == 0:
            raise ShapeError(
                f"{op}: axis {a} of shape {x.shape} has size 0, and nothing has no {op}; give a tensor with elements there"
            )


def _places(size: int, q: Array, method: str) -> tuple[Array, Array]:
    """For each part the element below it, and how much of the way to the next one it lies."""
    alpha, beta = _CONTINUOUS.get(method, (1, 1))
    place = size * q + (alpha + q * (1 - alpha - beta)) - 1
    if alpha == beta == 1:
        place = q * (size - 1)
    if method in _OF_TWO:
        place = _OF_TWO[method](place)
    place = np.clip(place, 0, size - 1).ravel()
    below = np.floor(place).astype(np.int64)
    return below, place - below


class _Few:
    """One quantile of few elements, by NumPy alone: over `axes`, with `kept` ones left, at the place that is told; of a dtype, or of
    integers as they are.
    """

    def __init__(
        self, axes: tuple[int, ...], kept: list[int], places: tuple[Array, Array], dtype: DType | None, keepdims: bool
    ) -> None:
        self.axes, self.kept, self.keepdims = axes, kept, keepdims
        (self.below,), (way,) = places[0].tolist(), places[1]
        self.wanted = None if dtype is None else (dtype if dtype.is_float else DEFAULT_FLOAT).numpy
        self.computed = None if dtype is None else (dtype.compute if dtype.is_float else DEFAULT_FLOAT).numpy
        self.way = 0 if self.computed is None else self.computed.type(way)

    def __call__(self, x: Array) -> list[Array]:
        rows = x
        if self.kept or x.ndim != 1:
            rows = x.transpose((*self.kept, *self.axes)).reshape((*[x.shape[a] for a in self.kept], -1))
        if self.computed is not None and rows.dtype != self.computed:
            rows = rows.astype(self.computed)
        below, last = self.below, rows.shape[-1] - 1
        above = min(below + (self.way > 0), last)
        rows.partition(sorted({below, above, last}))
        found = rows[..., below]
        if self.computed is not None:
            largest = rows[..., last]
            if self.way > 0:
                found = self._between(found, rows[..., above])
            found = np.where(largest != largest, largest, found)
        if self.keepdims:
            found = np.expand_dims(found, self.axes)
        return [np.asarray(found, self.wanted, "C")]

    def _between(self, low: Array, high: Array) -> Array:
        with np.errstate(all="ignore"):
            step = high - low  # as in `_blended`
            found: Array = low + step * self.way if self.way < 0.5 else high - step * (1 - self.way)
            return found


def _between(rows: Tensor, below: Array, way: Array) -> Tensor:
    """Numbers that lie so much of the way between an element, by its place in order, and the next one."""
    last = rows.shape[-1] - 1
    above = np.minimum(below + (way > 0), last)
    places = sorted({*below.tolist(), *above.tolist(), last})
    tracked = has_past(rows)
    in_order = sort(rows) if tracked else hosted("partition", rows, places=places)[0]
    if not rows.dtype.is_float:
        return in_order.take(below, -1)
    way = way.astype(rows.dtype.numpy)
    if tracked or rows.size >= FEW or rows.node.traced or watchers:
        found: Tensor = _blended(in_order, below, above, asarray(way), lambda *given: Tensor._compute(OPS["where"], *given))
        return found
    with np.errstate(all="ignore"):
        return Tensor._of_array(_blended(in_order.to_numpy(), below, above, way, np.where))


def _blended(in_order: Any, below: Array, above: Array, way: Any, where: Callable[..., Any]) -> Any:
    """So much of the way from some elements in order to others; of tensors, or of NumPy's arrays."""
    low, high = in_order.take(below, -1), in_order.take(above, -1)
    step = high - low  # from the nearer end, so that no result is beyond the other one, and equal ends give themselves
    found = where(way < 0.5, low + step * way, high - step * (1 - way))
    found = where(way == 0, low, found)  # also where the step is infinite
    largest = in_order[..., -1:]
    return where(largest != largest, largest, found)  # NaN
