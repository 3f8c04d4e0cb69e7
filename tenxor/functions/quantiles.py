"""Medians and quantiles. The q-quantile is the number below which a fraction q of the elements lies."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, prod
from typing import Any

import numpy as np

from ..creation import asarray
from ..dtypes import DEFAULT_FLOAT, DType, bfloat16, int64
from ..errors import ArgumentError, DTypeError, ShapeError, described
from ..host.running import Operand as Read
from ..host.running import seen
from ..host.selection import any_nan, elements_at
from ..keywords import spelled
from ..node import watchers
from ..ops import OPS
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import Axes, axes_of, truth
from ..tensor.core import Operand
from .hosted import FEW, at_once, has_past, hosted
from .into import as_dtype, into
from .selecting import take_along_axis
from .sorting import argsort, sort

__all__ = ["median", "percentile", "quantile"]

Array = np.ndarray[Any, Any]
PARTED = 1 << 14  # elements up to which NumPy computes the whole quantile with `partition`: threads would not pay
MOST_SOUGHT = 8  # quantiles of one long row up to which each is searched for, instead of sorting the row
# Positions of the quantile q among n sorted elements, from 0 on, and the weights of its two neighbours (Hyndman and Fan 1996).
_CONTINUOUS: dict[str, tuple[float, float]] = {  # alpha and beta of their formula
    "linear": (1, 1),
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_STEPPED: dict[str, Callable[[int, Array], Array]] = {  # position of one element, or half-way between two neighbours
    "lower": lambda n, q: np.floor(q * (n - 1)),
    "higher": lambda n, q: np.ceil(q * (n - 1)),
    "midpoint": lambda n, q: (np.floor(q * (n - 1)) + np.ceil(q * (n - 1))) / 2,
    "nearest": lambda n, q: np.rint(q * (n - 1)),
    "inverted_cdf": lambda n, q: np.ceil(n * q - 1),
    "averaged_inverted_cdf": lambda n, q: np.floor(n * q - 1) + np.where(n * q % 1 == 0, 0.5, 1.0),
    "closest_observation": lambda n, q: np.floor(n * q - 0.5) - ((n * q % 1 == 0.5) & (np.floor(n * q - 1.5) % 2 == 1)),
}
_ELEMENTS = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")  # methods whose results are elements, unchanged


@called_again
@spelled
def median(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the median over `axis` (an int, a tuple, or None for all) as a new float tensor.

    For an even number of elements it is the mean of the middle two. It is NaN if an element is NaN. Integers become float64. `out`, if
    given, receives the result and is returned. Raise ShapeError for an axis of size 0. (NumPy's `median`.)

    >>> import tenxor as tx
    >>> tx.median(tx.asarray([[1, 9, 3], [4, 4, 8]]), axis=1).tolist(), tx.median(tx.asarray([1, 2, 9, 9])).item()
    ([3.0, 4.0], 5.5)
    """
    return into("median", out, _quantile("median", asarray(x), np.asarray(0.5), axis, "linear", truth("median", "keepdims", keepdims)))


@spelled
def quantile(
    x: Operand,
    /,
    q: Operand,
    axis: Axes = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool | None = None,
    interpolation: str | None = None,
    weights: Operand | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the quantiles of the elements over `axis` as a new tensor: the numbers below which the fractions `q` of the elements lie.

    `q` is a float from 0 to 1, or a tensor of floats, whose axes come first in the result. A quantile is NaN if an element is NaN.

    `method` selects the result between two elements: "linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf",
    "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased" or
    "normal_unbiased" (PyTorch's `interpolation` is an alias). The methods "lower", "higher", "nearest", "inverted_cdf" and
    "closest_observation" return elements, and keep the dtype; for the rest integers become float64.

    With "inverted_cdf", elements may have `weights`, finite, 0 or more, not all 0: a tensor of `x`'s shape, or of its sizes along `axis`.
    `out`, if given, receives the result and is returned. Raise AxisError, ArgumentError, and ShapeError for an axis of
    size 0. (NumPy's `quantile`; Hyndman and Fan, "Sample quantiles in statistical packages", 1996.)

    >>> import tenxor as tx
    >>> tx.quantile(tx.asarray([1.0, 2.0, 4.0, 8.0]), q=[0.0, 0.5]).tolist()
    [1.0, 3.0]
    >>> tx.quantile(tx.asarray([1, 2, 4]), 0.5, method="inverted_cdf", weights=[1.0, 1.0, 5.0]).item()
    4
    """
    return into("quantile", out, _of_part("quantile", x, q, 1, axis, method, keepdims, weights))


@spelled
def percentile(
    x: Operand,
    /,
    q: Operand,
    axis: Axes = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    dim: Axes = None,
    keepdim: bool | None = None,
    weights: Operand | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return percentiles as a new tensor: like `quantile`, with `q` from 0 to 100. (NumPy's `percentile`.)

    >>> import tenxor as tx
    >>> tx.percentile(tx.asarray([1.0, 2.0, 4.0, 8.0]), 50).item()
    3.0
    """
    return into("percentile", out, _of_part("percentile", x, q, 100, axis, method, keepdims, weights))


def _of_part(
    op: str, x: Operand, q: Any, most: int, axis: Axes, method: str, keepdims: bool, weights: Operand | None
) -> Tensor:
    """Compute `quantile` or `percentile`, where `q` is from 0 to `most`. The fast path records calls with one or a few numbers `q`."""
    x, keepdims = asarray(x), truth(op, "keepdims", keepdims)
    if weights is None and (type(q) is float or type(q) is int):
        return _of_number(x, op, q, most, axis, method, keepdims)
    if weights is None and type(q) in (list, tuple) and len(q) <= MOST_SOUGHT and {float, int}.issuperset(map(type, q)):
        return _of_numbers(x, op, most, axis, method, keepdims, *q)
    follow = weights is None and isinstance(method, str) and method in _CONTINUOUS and isinstance(q, Tensor) and has_past(q)
    return _quantile(op, x, _followed(op, q, most) if follow else _parts(op, q, most), axis, method, keepdims, weights)


@called_again
def _of_number(x: Tensor, op: str, q: float, most: int, axis: Axes, method: str, keepdims: bool) -> Tensor:
    """Compute one quantile. `q` is a Python number from 0 to `most`, part of the key under which the fast path records the call."""
    return _quantile(op, x, _parts(op, q, most), axis, method, keepdims, None)


@called_again
def _of_numbers(x: Tensor, op: str, most: int, axis: Axes, method: str, keepdims: bool, *q: float) -> Tensor:
    """Compute a few quantiles, along a new first axis. The numbers `q`, from 0 to `most`, are part of the fast path's key of the call."""
    return _quantile(op, x, _parts(op, q, most), axis, method, keepdims, None)


def _parts(op: str, q: Any, most: int) -> Array:
    """Return `q / most` as a float64 array. Raise ArgumentError for a value out of range."""
    are_plain = isinstance(q, (list, tuple)) and {float, int}.issuperset(map(type, q))
    found = (np.asarray(q, np.float64) if are_plain else asarray(q).astype(DEFAULT_FLOAT).to_numpy()) / most
    if not ((found >= 0) & (found <= 1)).all():
        raise ArgumentError(f"{op}: q is from 0 to {most}, not {described(q)}")
    return found


def _followed(op: str, q: Tensor, most: int) -> Tensor:
    """Return `q / most` as floats, for a `q` on the tape or a tracer. Raise ArgumentError if known values are out of range."""
    if not q.node.traced:
        _parts(op, q.detach(), most)
    return q.astype(DEFAULT_FLOAT) / most


def _quantile(op: str, x: Tensor, q: Any, axis: Axes, method: str, keepdims: bool, weights: Any = None) -> Tensor:
    """Compute the quantiles over `axis`. `q` are fractions from 0 to 1, an array, or a tensor recorded for derivatives."""
    if not isinstance(method, str) or (method not in _CONTINUOUS and method not in _STEPPED):
        raise ArgumentError(f"{op}: there is no method {described(method)}; there are {', '.join((*_CONTINUOUS, *_STEPPED))}")
    dtype = x.dtype
    if dtype.is_complex:
        raise DTypeError(f"{op}: does not accept {dtype}, which has no order; use tx.real(x) or tx.abs(x)")
    axes = axes_of(op, axis, x.ndim)
    kept = [a for a in range(x.ndim) if a not in axes]
    if x.size == 0:
        _check_elements(op, x, axes)
        empty = x.astype(dtype if dtype.is_float else DEFAULT_FLOAT).sum(axes, keepdims=keepdims)
        return empty.expand((*q.shape, *empty.shape))
    exact = method in _ELEMENTS
    size = prod([x.shape[a] for a in axes])
    places: Any = _tracked_places(size, q, method) if isinstance(q, Tensor) else _places(size, q, method)
    if weights is None and not isinstance(q, Tensor):
        few = _Few(axes, kept, places, None if exact and not dtype.is_float else dtype, keepdims, q.shape)
        found_at_once = at_once(few, x, few=PARTED) or _of_a_long_row(few, x)
        if found_at_once is not None:
            return found_at_once[0]
    rows = x.permute((*kept, *axes)).reshape((*[x.shape[a] for a in kept], -1))
    if not dtype.is_float and not exact:
        rows = rows.astype(DEFAULT_FLOAT)
    elif dtype.is_float:
        rows = as_dtype(rows, dtype.compute)
    if isinstance(q, Tensor):
        below, way = places
        above = (below + (way > 0)).clip(0, rows.shape[-1] - 1)
        found = _blended(sort(rows), below, above, way.astype(rows.dtype, copy=False), lambda *given: Tensor._compute(OPS["where"], *given))
    elif weights is None:
        found = _between(rows, *places)
    elif method == "inverted_cdf":
        found = _weighted(rows, _weights(op, asarray(weights), x, kept, axes), q)
    else:
        raise ArgumentError(f"{op}: there are weights for method='inverted_cdf' alone, not for {described(method)}")
    found = as_dtype(found, dtype if dtype.is_float or exact else DEFAULT_FLOAT)
    found = found.reshape((*found.shape[:-1], *q.shape)).moveaxis(tuple(range(-q.ndim, 0)), tuple(range(q.ndim)))
    return found.expand_dims(tuple([q.ndim + a for a in axes])) if keepdims else found


def _check_elements(op: str, x: Tensor, axes: tuple[int, ...]) -> None:
    """Raise ShapeError if one of `axes` has size 0."""
    for a in axes:
        if x.shape[a] == 0:
            raise ShapeError(
                f"{op}: axis {a} of shape {x.shape} has size 0, and nothing has no {op}; give a tensor with elements there"
            )


def _places(size: int, q: Array, method: str) -> tuple[Array, Array]:
    """Return, for each fraction in `q`, flattened, the index of the element below in sorted order, and the fraction of the way to the next.
    """
    place = _STEPPED[method](size, q) if method in _STEPPED else _place(size, q, method)
    place = np.clip(place, 0, size - 1).ravel()
    below = np.floor(place).astype(np.int64)
    return below, place - below


def _tracked_places(size: int, q: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """Return, for each fraction in the tensor `q`, the index of the element below in sorted order, and the fraction of the way to the next.

    The result depends on `q` by operations that the tape records.
    """
    place = _place(size, q, method).clip(0, size - 1).reshape(-1)
    below = place.floor().astype(int64)
    return below, place - below


def _place(size: int, q: Any, method: str) -> Any:
    """Return the fractional position of the quantile `q` among `size` sorted elements, from 0 on, for a continuous method."""
    alpha, beta = _CONTINUOUS[method]
    return q * (size - 1) if alpha == beta == 1 else size * q + (alpha + q * (1 - alpha - beta)) - 1


def _weights(op: str, w: Tensor, x: Tensor, kept: list[int], axes: tuple[int, ...]) -> Tensor:
    """Return float64 weights, in the shape of the rows or of one row for all. Raise an error for an invalid shape, dtype or value."""
    along = tuple([x.shape[a] for a in axes])
    if w.shape not in (x.shape, along):
        raise ShapeError(f"{op}: weights have shape {w.shape}, and what they belong to {x.shape}; give them that, or {along}, of the axes")
    if w.dtype.is_complex:
        raise DTypeError(f"{op}: weights are real, not {w.dtype}")
    found = w.permute((*kept, *axes)).reshape((*[x.shape[a] for a in kept], -1)) if w.shape == x.shape else w.reshape(-1)
    found = as_dtype(found, DEFAULT_FLOAT)
    total = found.sum(-1)
    if not w.node.traced and not bool(((found >= 0).all(-1) & (total > 0) & total.isfinite()).all()):
        raise ArgumentError(f"{op}: weights are 0 or more, finite, and not all 0")
    return found


def _weighted(rows: Tensor, weights: Tensor, q: Array) -> Tensor:
    """Return, in each row, the first element in sorted order up to which the fraction `q` of the row's weight is reached; NaN if there is
    one.
    """
    order = argsort(rows)
    in_order = take_along_axis(rows, order)
    reached = take_along_axis(weights.expand(rows.shape), order).cumulative_sum(-1)
    reached = reached / reached[..., -1:]
    short = (reached.expand_dims(-2) < asarray(q.reshape(-1, 1))) | (reached == 0).expand_dims(-2)
    found = take_along_axis(in_order, short.count_nonzero(-1).clip(0, rows.shape[-1] - 1))
    return Tensor._compute(OPS["where"], in_order[..., -1:].isnan(), in_order[..., -1:], found) if rows.dtype.is_float else found


def _of_a_long_row(few: _Few, x: Tensor) -> tuple[Tensor, ...] | None:
    """Return quantiles of one long row, read in place, as a tuple of one tensor; None for several rows, many quantiles, or a need to sort.
    """
    if few.kept or few.count > MOST_SOUGHT or watchers or x.node.past is not None or x.dtype is bfloat16:
        return None
    node, elements = seen(Read(x.node, x.layout, x.dtype))
    found = few.of_row(elements.reshape(-1))
    del elements, node
    return None if found is None else (Tensor._of_array(found),)


class _Few:
    """Quantiles computed by NumPy alone, in one call.

    They are taken over `axes`; the axes `kept` remain. `places` are the indices and fractions from `_places`. `dtype` is that of the
    operand, or None to return integers unchanged. `shape` is the shape of the fractions `q`, whose axes come first in the result.
    """

    def __init__(
        self,
        axes: tuple[int, ...],
        kept: list[int],
        places: tuple[Array, Array],
        dtype: DType | None,
        keepdims: bool,
        shape: tuple[int, ...],
    ) -> None:
        self.axes, self.kept, self.keepdims, self.shape = axes, kept, keepdims, shape
        self.places, self.count = places, places[0].size
        self.below: int = places[0].tolist()[0] if self.count else 0
        way = places[1][0] if self.count else np.float64(0)
        self.wanted = None if dtype is None else (dtype if dtype.is_float else DEFAULT_FLOAT).numpy
        self.computed = None if dtype is None else (dtype.compute if dtype.is_float else DEFAULT_FLOAT).numpy
        self.way = 0 if self.computed is None else self.computed.type(way)

    def __call__(self, x: Array) -> list[Array]:
        rows = x
        if self.kept or x.ndim != 1:
            rows = x.transpose((*self.kept, *self.axes)).reshape((*[x.shape[a] for a in self.kept], -1))
        is_float = rows.dtype.kind == "f"
        if is_float and rows.dtype != self.computed:
            rows = rows.astype(self.computed)
        if self.shape:
            return [self._several(rows)]
        below, last = self.below, rows.shape[-1] - 1
        above = min(below + (self.way > 0), last)
        rows.partition(sorted({below, above, last} if is_float else {below, above}))
        found = rows[..., below]
        if self.computed is not None:
            found = found.astype(self.computed, copy=False)
            if self.way > 0:
                found = self._between(found, rows[..., above].astype(self.computed, copy=False))
        if is_float:
            largest = rows[..., last]
            found = np.where(largest != largest, largest, found)
        if self.keepdims:
            found = np.expand_dims(found, self.axes)
        return [np.asarray(found, self.wanted, "C")]

    def _several(self, rows: Array) -> Array:
        """Return several quantiles of each row. The rows are reordered in place."""
        (below, way), last = self.places, rows.shape[-1] - 1
        above = np.minimum(below + (way > 0), last)
        rows.partition(sorted({*below.tolist(), *above.tolist(), last}))
        return self._shown(self._weighed(rows.take(below, -1), rows.take(above, -1), rows[..., -1:]))

    def of_row(self, x: Array) -> Array | None:
        """Return the quantiles of one long row, which is not changed, or None if sorting it is as fast."""
        below, way = self.places
        above = np.minimum(below + (way > 0), len(x) - 1)
        found = elements_at(x, sorted({*below.tolist(), *above.tolist()}))
        if found is None:
            return None
        low, high = (np.array([found[place] for place in some.tolist()], x.dtype) for some in (below, above))
        return self._shown(self._weighed(low, high, np.array([np.nan if any_nan(x) else 0], x.dtype) if x.dtype.kind == "f" else low[:1]))

    def _weighed(self, low: Array, high: Array, largest: Array) -> Array:
        """Interpolate between the elements below (`low`) and above (`high`). The result is NaN where `largest` is NaN."""
        if self.computed is None:
            return low
        low, high, largest = (t.astype(self.computed, copy=False) for t in (low, high, largest))
        with np.errstate(all="ignore"):
            found: Array = _weighed(low, high, self.places[1].astype(self.computed), largest, np.where)
            return found

    def _shown(self, found: Array) -> Array:
        """Move the axes of `q` to the front, insert axes of size 1 for `keepdims`, and cast to the wanted dtype."""
        count = len(self.shape)
        found = np.moveaxis(found.reshape((*found.shape[:-1], *self.shape)), tuple(range(-count, 0)), tuple(range(count)))
        if self.keepdims:
            found = np.expand_dims(found, tuple([count + a for a in self.axes]))
        return np.asarray(found, self.wanted, "C")

    def _between(self, low: Array, high: Array) -> Array:
        with np.errstate(all="ignore"):
            step = high - low  # from the nearer end, as in the function `_weighed`
            found: Array = low + step * self.way if self.way < 0.5 else high - step * (1 - self.way)
            is_finite = np.isfinite(step).all() if step.ndim else isfinite(step)
            return found if is_finite else np.where(np.isfinite(step), found, low * (1 - self.way) + high * self.way)


def _between(rows: Tensor, below: Array, way: Array) -> Tensor:
    """Interpolate in each row between the element at index `below` in sorted order and the next one, by the fractions `way`."""
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
    """Interpolate in sorted rows between the elements at indices `below` and `above`, by the fractions `way`.

    The rows are tensors or NumPy arrays, and `where` is the function of that library.
    """
    return _weighed(in_order.take(below, -1), in_order.take(above, -1), way, in_order[..., -1:], where)


def _weighed(low: Any, high: Any, way: Any, largest: Any, where: Callable[..., Any]) -> Any:
    """Interpolate by the fractions `way` between `low` and `high`, of tensors or arrays. The result is NaN where `largest` is NaN."""
    step = high - low  # from the nearer end: no result lies beyond the other end, and equal ends are returned exactly
    found = where(way < 0.5, low + step * way, high - step * (1 - way))
    found = where(step - step == 0, found, low * (1 - way) + high * way)  # an end, or the distance of the ends, is infinite
    found = where(way == 0, low, found)
    return where(largest != largest, largest, found)  # sorting puts NaN last
