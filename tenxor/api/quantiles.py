"""Medians and quantiles. The q-quantile is the number below which a fraction q of the elements lies. A position among the elements in
sorted order is an index, counted from 0, and a weight from 0 to 1 for the way to the next element.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, prod
from typing import Any

import numpy as np

from .._utils import upcalls
from .._utils.aliases import argument_aliases
from ..dtypes import DEFAULT_FLOAT, DType, bfloat16, int64
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..native.host_execution import HostOperand, view_operand
from ..native.selection import has_nan, select_ranks
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes, check_flag, normalize_axes
from ..tensor.core import Operand
from .creation import asarray
from .gather_functions import take_along_axis
from .host_calls import MAX_NUMPY_COPY_ELEMENTS, call_host_op, call_on_copies, is_on_tape
from .output_arguments import cast_to, write_out
from .sorting import argsort, sort

__all__ = ["median", "percentile", "quantile"]

Array = np.ndarray[Any, Any]
MAX_PARTITION_ELEMENTS = 1 << 14  # elements up to which NumPy computes the whole quantile with `partition`: threads would not pay
MAX_SEARCHED_QUANTILES = 8  # quantiles of one long row up to which each is searched for, instead of sorting the row
# Positions of the quantile q among n sorted elements, from 0 on, and the weights of its two neighbours (Hyndman and Fan 1996).
_CONTINUOUS_METHODS: dict[str, tuple[float, float]] = {  # alpha and beta of their formula
    "linear": (1, 1),
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_STEPPED_METHODS: dict[str, Callable[[int, Array], Array]] = {  # position of one element, or half-way between two neighbours
    "lower": lambda n, q: np.floor(q * (n - 1)),
    "higher": lambda n, q: np.ceil(q * (n - 1)),
    "midpoint": lambda n, q: (np.floor(q * (n - 1)) + np.ceil(q * (n - 1))) / 2,
    "nearest": lambda n, q: np.rint(q * (n - 1)),
    "inverted_cdf": lambda n, q: np.ceil(n * q - 1),
    "averaged_inverted_cdf": lambda n, q: np.floor(n * q - 1) + np.where(n * q % 1 == 0, 0.5, 1.0),
    "closest_observation": lambda n, q: np.floor(n * q - 0.5) - ((n * q % 1 == 0.5) & (np.floor(n * q - 1.5) % 2 == 1)),
}
_ELEMENT_METHODS = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")  # methods whose results are elements, unchanged


@memoized_call
@argument_aliases
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
    """Return the median over axes as a new float tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex. For integers and bools, the result is float64.
    axis : int or tuple of int, optional
        The axes to reduce; None for all. PyTorch's `dim` is an alias.
    keepdims : bool, default False
        If True, reduced axes stay with size 1. PyTorch's `keepdim` is an alias.
    out : Tensor, optional
        A tensor of the result's shape that receives the result and is returned.

    Returns
    -------
    Tensor
        New tensor with the remaining axes. With `out`, `out` itself.

    Raises
    ------
    ShapeError
        If a reduced axis has size 0.
    AxisError
        If an axis does not exist or is named twice.
    DTypeError
        If `x` is complex.

    Notes
    -----
    For an even number of elements the median is the mean of the middle two. It is NaN if an element is NaN. (NumPy's `median`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.median(tx.asarray([[1, 9, 3], [4, 4, 8]]), axis=1).tolist(), tx.median(tx.asarray([1, 2, 9, 9])).item()
    ([3.0, 4.0], 5.5)
    """
    return write_out("median", out, _quantile("median", asarray(x), np.asarray(0.5), axis, "linear", check_flag("keepdims", keepdims)))


@argument_aliases
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
    """Return the quantiles over axes as a new tensor: the numbers below which the fractions `q` of the elements lie.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex.
    q : float or Tensor
        Fractions from 0 to 1. The axes of a tensor come first in the result.
    axis : int or tuple of int, optional
        The axes to reduce; None for all. PyTorch's `dim` is an alias.
    method : str, default "linear"
        The result between two elements: "linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf",
        "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased" or "normal_unbiased". PyTorch's
        `interpolation` is an alias.
    keepdims : bool, default False
        If True, reduced axes stay with size 1. PyTorch's `keepdim` is an alias.
    weights : Tensor, optional
        With "inverted_cdf": weights of the elements, finite, 0 or more, not all 0; of the shape of `x`, or of its sizes along `axis`.
    out : Tensor, optional
        A tensor of the result's shape that receives the result and is returned.

    Returns
    -------
    Tensor
        A new tensor. The methods "lower", "higher", "nearest", "inverted_cdf" and "closest_observation" return elements, and keep the
        dtype; for the rest integers become float64. A quantile is NaN if an element is NaN.

    Raises
    ------
    ArgumentError
        If `q`, `method` or a weight is out of range, or if another method has weights.
    ShapeError
        If a reduced axis has size 0, or if `weights` has a wrong shape.
    AxisError
        If an axis does not exist or is named twice.
    DTypeError
        If `x` or `weights` is complex.

    References
    ----------
    NumPy's `quantile`; R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", 1996.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.quantile(tx.asarray([1.0, 2.0, 4.0, 8.0]), q=[0.0, 0.5]).tolist()
    [1.0, 3.0]
    >>> tx.quantile(tx.asarray([1, 2, 4]), 0.5, method="inverted_cdf", weights=[1.0, 1.0, 5.0]).item()
    4
    """
    return write_out("quantile", out, _scaled_quantile("quantile", x, q, 1, axis, method, keepdims, weights))


@argument_aliases
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
    """Return the percentiles over axes as a new tensor: the numbers below which `q` percent of the elements lie.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex.
    q : float or Tensor
        Percentages from 0 to 100. The axes of a tensor come first in the result.
    axis : int or tuple of int, optional
        The axes to reduce; None for all. PyTorch's `dim` is an alias.
    method : str, default "linear"
        The result between two elements, one of the methods of `quantile`.
    keepdims : bool, default False
        If True, reduced axes stay with size 1. PyTorch's `keepdim` is an alias.
    weights : Tensor, optional
        With "inverted_cdf": weights of the elements, as in `quantile`.
    out : Tensor, optional
        A tensor of the result's shape that receives the result and is returned.

    Returns
    -------
    Tensor
        New tensor: the axes of `q`, then the remaining axes of `x`. With `out`, `out` itself.

    Raises
    ------
    ArgumentError, ShapeError, AxisError, DTypeError
        As in `quantile`.

    Notes
    -----
    Dtypes and NaN are treated as in `quantile`. (NumPy's `percentile`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.percentile(tx.asarray([1.0, 2.0, 4.0, 8.0]), 50).item()
    3.0
    """
    return write_out("percentile", out, _scaled_quantile("percentile", x, q, 100, axis, method, keepdims, weights))


def _scaled_quantile(op: str, x: Operand, q: Any, scale: int, axis: Axes, method: str, keepdims: bool, weights: Operand | None) -> Tensor:
    """Return the result of `quantile` (`scale` 1) or `percentile` (100) for `q` from 0 to `scale`. Messages begin with `op`.

    The further arguments are as in `quantile`. The fast path records calls with one or a few Python numbers `q`.
    """
    x, keepdims = asarray(x), check_flag("keepdims", keepdims)
    if weights is None and (type(q) is float or type(q) is int):
        return _one_quantile(x, op, q, scale, axis, method, keepdims)
    if weights is None and type(q) in (list, tuple) and len(q) <= MAX_SEARCHED_QUANTILES and {float, int}.issuperset(map(type, q)):
        return _few_quantiles(x, op, scale, axis, method, keepdims, *q)
    is_tracked = weights is None and isinstance(method, str) and method in _CONTINUOUS_METHODS and isinstance(q, Tensor) and is_on_tape(q)
    return _quantile(op, x, _tracked_fractions(op, q, scale) if is_tracked else _fractions(op, q, scale), axis, method, keepdims, weights)


@memoized_call
def _one_quantile(x: Tensor, op: str, q: float, scale: int, axis: Axes, method: str, keepdims: bool) -> Tensor:
    """Return one quantile. `q` is a Python number from 0 to `scale`, part of the key under which the fast path records the call.

    The further arguments are as in `_scaled_quantile`.
    """
    return _quantile(op, x, _fractions(op, q, scale), axis, method, keepdims, None)


@memoized_call
def _few_quantiles(x: Tensor, op: str, scale: int, axis: Axes, method: str, keepdims: bool, *q: float) -> Tensor:
    """Return a few quantiles, along a new first axis. The numbers `q`, from 0 to `scale`, are part of the fast path's key of the call.

    The further arguments are as in `_scaled_quantile`.
    """
    return _quantile(op, x, _fractions(op, q, scale), axis, method, keepdims, None)


def _fractions(op: str, q: Any, scale: int) -> Array:
    """Return `q / scale` as a float64 array of the shape of `q`. Raise ArgumentError for a value outside 0 to `scale`, or NaN."""
    are_numbers = isinstance(q, (list, tuple)) and {float, int}.issuperset(map(type, q))
    fractions = (np.asarray(q, np.float64) if are_numbers else asarray(q).astype(DEFAULT_FLOAT).to_numpy()) / scale
    if not ((fractions >= 0) & (fractions <= 1)).all():
        raise ArgumentError(f"{op}: q must be from 0 to {scale}, not {describe_value(q)}")
    return fractions


def _tracked_fractions(op: str, q: Tensor, scale: int) -> Tensor:
    """Return `q / scale` as floats, for a `q` on the tape or a tracer. Raise ArgumentError if known values are outside 0 to `scale`."""
    if not q.node.is_traced:
        _fractions(op, q.detach(), scale)
    return q.astype(DEFAULT_FLOAT) / scale


def _quantile(op: str, x: Tensor, q: Any, axis: Axes, method: str, keepdims: bool, weights: Any = None) -> Tensor:
    """Return the quantiles of `x` over `axis`, with the axes of `q` first. `q` is an array of fractions from 0 to 1.

    If derivatives are recorded for the fractions, `q` is a tensor. `method` is a name as in `numpy.quantile`. `weights` (None: equal ones)
    are for the method "inverted_cdf" alone. Raise the errors of `quantile`, beginning with `op`.
    """
    if not isinstance(method, str) or (method not in _CONTINUOUS_METHODS and method not in _STEPPED_METHODS):
        raise ArgumentError(
            f"{op}: there is no method {describe_value(method)}; there are {', '.join((*_CONTINUOUS_METHODS, *_STEPPED_METHODS))}"
        )
    dtype = x.dtype
    if dtype.is_complex:
        raise DTypeError(f"{op}: does not accept {dtype}, which has no order; use tx.real(x) or tx.abs(x)")
    axes = normalize_axes(op, axis, x.ndim)
    kept_axes = [a for a in range(x.ndim) if a not in axes]
    if x.size == 0:
        _check_elements(op, x, axes)
        empty = x.astype(dtype if dtype.is_float else DEFAULT_FLOAT).sum(axes, keepdims=keepdims)
        return empty.expand((*q.shape, *empty.shape))
    keeps_elements = method in _ELEMENT_METHODS
    size = prod([x.shape[a] for a in axes])
    positions: Any = _tracked_positions(size, q, method) if isinstance(q, Tensor) else _positions(size, q, method)
    if weights is None and not isinstance(q, Tensor):
        numpy_quantiles = _NumpyQuantiles(
            axes, kept_axes, positions, None if keeps_elements and not dtype.is_float else dtype, keepdims, q.shape
        )
        small_result = call_on_copies(numpy_quantiles, x, max_elements=MAX_PARTITION_ELEMENTS) or _long_row_quantile(numpy_quantiles, x)
        if small_result is not None:
            return small_result[0]
    rows = x.permute((*kept_axes, *axes)).reshape((*[x.shape[a] for a in kept_axes], -1))
    if not dtype.is_float and not keeps_elements:
        rows = rows.astype(DEFAULT_FLOAT)
    elif dtype.is_float:
        rows = cast_to(rows, dtype.compute_dtype)
    if isinstance(q, Tensor):
        below, fraction = positions
        above = (below + (fraction > 0)).clip(0, rows.shape[-1] - 1)
        result = _interpolate_sorted(
            sort(rows), below, above, fraction.astype(rows.dtype, copy=False), lambda *arguments: Tensor._compute(OPS["where"], *arguments)
        )
    elif weights is None:
        result = _interpolate_rows(rows, *positions)
    elif method == "inverted_cdf":
        result = _weighted_quantile(rows, _check_weights(op, asarray(weights), x, kept_axes, axes), q)
    else:
        raise ArgumentError(f"{op}: weights need method='inverted_cdf', not {describe_value(method)}")
    result = cast_to(result, dtype if dtype.is_float or keeps_elements else DEFAULT_FLOAT)
    result = result.reshape((*result.shape[:-1], *q.shape)).moveaxis(tuple(range(-q.ndim, 0)), tuple(range(q.ndim)))
    return result.expand_dims(tuple([q.ndim + a for a in axes])) if keepdims else result


def _check_elements(op: str, x: Tensor, axes: tuple[int, ...]) -> None:
    """Raise ShapeError, beginning with `op`, if one of the axes `axes` of `x` has size 0."""
    for a in axes:
        if x.shape[a] == 0:
            raise ShapeError(
                f"{op}: axis {a} of shape {x.shape} has size 0, and the {op} of no elements is undefined; give a tensor with elements there"
            )


def _positions(size: int, q: Array, method: str) -> tuple[Array, Array]:
    """Return an index and a weight for each fraction in `q`, flattened, as two arrays: int64 and float64.

    The quantile lies between the element at the index in sorted order (weight 0) and the next element (weight 1). `size` is the number of
    sorted elements, and `method` a name as in `quantile`.
    """
    position = _STEPPED_METHODS[method](size, q) if method in _STEPPED_METHODS else _fractional_position(size, q, method)
    position = np.clip(position, 0, size - 1).ravel()
    below = np.floor(position).astype(np.int64)
    return below, position - below


def _tracked_positions(size: int, q: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """Return an index and a weight for each fraction in the tensor `q`, as `_positions` does, by operations that the tape records.

    `size` is the number of sorted elements. `method` must be a key of `_CONTINUOUS_METHODS`.
    """
    position = _fractional_position(size, q, method).clip(0, size - 1).reshape(-1)
    below = position.floor().astype(int64)
    return below, position - below


def _fractional_position(size: int, q: Any, method: str) -> Any:
    """Return the fractional position of the quantile `q` among `size` sorted elements, from 0 on, for the continuous method `method`.

    The position may lie outside 0 to `size` - 1.
    """
    alpha, beta = _CONTINUOUS_METHODS[method]
    return q * (size - 1) if alpha == beta == 1 else size * q + (alpha + q * (1 - alpha - beta)) - 1


def _check_weights(op: str, w: Tensor, x: Tensor, kept_axes: list[int], axes: tuple[int, ...]) -> Tensor:
    """Return the weights `w` as float64: in the shape of the rows, or as one row for every row.

    `w` has the shape of `x`, or the sizes of `axes`, the axes over which quantiles are computed; `kept_axes` are the other axes of `x`.
    Raise ShapeError for another shape, DTypeError for complex weights, and ArgumentError for weights that are negative, infinite or all 0.
    """
    axis_sizes = tuple([x.shape[a] for a in axes])
    if w.shape not in (x.shape, axis_sizes):
        raise ShapeError(
            f"{op}: weights have shape {w.shape}; they must have the shape of x, {x.shape}, or the sizes of the axes, {axis_sizes}"
        )
    if w.dtype.is_complex:
        raise DTypeError(f"{op}: weights must be real, not {w.dtype}")
    weights = w.permute((*kept_axes, *axes)).reshape((*[x.shape[a] for a in kept_axes], -1)) if w.shape == x.shape else w.reshape(-1)
    weights = cast_to(weights, DEFAULT_FLOAT)
    total = weights.sum(-1)
    if not w.node.is_traced and not bool(((weights >= 0).all(-1) & (total > 0) & total.isfinite()).all()):
        raise ArgumentError(f"{op}: weights must be 0 or more, finite, and not all 0")
    return weights


def _weighted_quantile(rows: Tensor, weights: Tensor, q: Array) -> Tensor:
    """Return, in each row, the first element in sorted order up to which the fraction `q` of the row's total weight is reached.

    `rows` has a row along the last axis. The result is NaN for a row with NaN. `weights` are as returned by `_check_weights`. The fractions
    run along a new last axis.
    """
    order = argsort(rows)
    in_order = take_along_axis(rows, order)
    cumulative = take_along_axis(weights.expand(rows.shape), order).cumulative_sum(-1)
    cumulative = cumulative / cumulative[..., -1:]
    is_below = (cumulative.expand_dims(-2) < asarray(q.reshape(-1, 1))) | (cumulative == 0).expand_dims(-2)
    quantiles = take_along_axis(in_order, is_below.count_nonzero(-1).clip(0, rows.shape[-1] - 1))
    return Tensor._compute(OPS["where"], in_order[..., -1:].isnan(), in_order[..., -1:], quantiles) if rows.dtype.is_float else quantiles


def _long_row_quantile(numpy_quantiles: _NumpyQuantiles, x: Tensor) -> tuple[Tensor, ...] | None:
    """Return the quantiles `numpy_quantiles` of `x` as one long row, read in place, as a tuple of one tensor.

    Return None for several rows, many quantiles, a row on the tape, bfloat16, or if a full sort is as fast.
    """
    if (
        numpy_quantiles.kept_axes
        or numpy_quantiles.count > MAX_SEARCHED_QUANTILES
        or upcalls.node_observer
        or x.node.tape_node is not None
        or x.dtype is bfloat16
    ):
        return None
    node, elements = view_operand(HostOperand(x.node, x.layout, x.dtype))
    result = numpy_quantiles.quantiles_of_row(elements.reshape(-1))
    del elements, node
    return None if result is None else (Tensor._from_array(result),)


class _NumpyQuantiles:
    """A function that computes quantiles of an array by NumPy alone, and returns a list of one array. The argument may be reordered.

    The quantiles are taken over `axes`; the axes `kept_axes` remain. `positions` are the indices and weights from `_positions`. `dtype` is
    the dtype of the operand, or None to return integers unchanged. `shape` is the shape of the fractions `q`, whose axes come first in the
    result.
    """

    def __init__(
        self,
        axes: tuple[int, ...],
        kept_axes: list[int],
        positions: tuple[Array, Array],
        dtype: DType | None,
        keepdims: bool,
        shape: tuple[int, ...],
    ) -> None:
        self.axes, self.kept_axes, self.keepdims, self.shape = axes, kept_axes, keepdims, shape
        self.positions, self.count = positions, positions[0].size
        self.below: int = positions[0].tolist()[0] if self.count else 0
        fraction = positions[1][0] if self.count else np.float64(0)
        self.result_dtype = None if dtype is None else (dtype if dtype.is_float else DEFAULT_FLOAT).numpy
        self.compute_dtype = None if dtype is None else (dtype.compute_dtype if dtype.is_float else DEFAULT_FLOAT).numpy
        self.fraction = 0 if self.compute_dtype is None else self.compute_dtype.type(fraction)

    def __call__(self, x: Array) -> list[Array]:
        rows = x
        if self.kept_axes or x.ndim != 1:
            rows = x.transpose((*self.kept_axes, *self.axes)).reshape((*[x.shape[a] for a in self.kept_axes], -1))
        is_float = rows.dtype.kind == "f"
        if is_float and rows.dtype != self.compute_dtype:
            rows = rows.astype(self.compute_dtype)
        if self.shape:
            return [self._compute_several(rows)]
        below, last_index = self.below, rows.shape[-1] - 1
        above = min(below + (self.fraction > 0), last_index)
        rows.partition(sorted({below, above, last_index} if is_float else {below, above}))
        result = rows[..., below]
        if self.compute_dtype is not None:
            result = result.astype(self.compute_dtype, copy=False)
            if self.fraction > 0:
                result = self._interpolate_pair(result, rows[..., above].astype(self.compute_dtype, copy=False))
        if is_float:
            largest = rows[..., last_index]
            result = np.where(largest != largest, largest, result)
        if self.keepdims:
            result = np.expand_dims(result, self.axes)
        return [np.asarray(result, self.result_dtype, "C")]

    def _compute_several(self, rows: Array) -> Array:
        """Return several quantiles of each row. `rows`, with a row along the last axis, are reordered in place."""
        (below, fraction), last_index = self.positions, rows.shape[-1] - 1
        above = np.minimum(below + (fraction > 0), last_index)
        rows.partition(sorted({*below.tolist(), *above.tolist(), last_index}))
        return self._arrange_result(self._interpolate(rows.take(below, -1), rows.take(above, -1), rows[..., -1:]))

    def quantiles_of_row(self, x: Array) -> Array | None:
        """Return the quantiles of one long row, which is not changed, or None if sorting it is as fast."""
        below, fraction = self.positions
        above = np.minimum(below + (fraction > 0), len(x) - 1)
        element_of = select_ranks(x, sorted({*below.tolist(), *above.tolist()}))
        if element_of is None:
            return None
        low, high = (np.array([element_of[position] for position in indices.tolist()], x.dtype) for indices in (below, above))
        return self._arrange_result(
            self._interpolate(low, high, np.array([np.nan if has_nan(x) else 0], x.dtype) if x.dtype.kind == "f" else low[:1])
        )

    def _interpolate(self, low: Array, high: Array, largest: Array) -> Array:
        """Return the interpolation between the elements below (`low`) and above (`high`), or `low` itself for integers kept unchanged.

        The result is NaN where `largest` is NaN.
        """
        if self.compute_dtype is None:
            return low
        low, high, largest = (t.astype(self.compute_dtype, copy=False) for t in (low, high, largest))
        with np.errstate(all="ignore"):
            result: Array = _interpolate(low, high, self.positions[1].astype(self.compute_dtype), largest, np.where)
            return result

    def _arrange_result(self, result: Array) -> Array:
        """Return `result`, with the quantiles along its last axis, as the array to return.

        Move the axes of `q` to the front, insert axes of size 1 for `keepdims`, and cast to the result's dtype.
        """
        count = len(self.shape)
        result = np.moveaxis(result.reshape((*result.shape[:-1], *self.shape)), tuple(range(-count, 0)), tuple(range(count)))
        if self.keepdims:
            result = np.expand_dims(result, tuple([count + a for a in self.axes]))
        return np.asarray(result, self.result_dtype, "C")

    def _interpolate_pair(self, low: Array, high: Array) -> Array:
        """Return the interpolation between `low` and `high` for a single quantile, by its weight `fraction`."""
        with np.errstate(all="ignore"):
            step = high - low  # from the nearer end, as in the function `_interpolate`
            result: Array = low + step * self.fraction if self.fraction < 0.5 else high - step * (1 - self.fraction)
            is_finite = np.isfinite(step).all() if step.ndim else isfinite(step)
            return result if is_finite else np.where(np.isfinite(step), result, low * (1 - self.fraction) + high * self.fraction)


def _interpolate_rows(rows: Tensor, below: Array, fraction: Array) -> Tensor:
    """Return, for each row, the numbers `fraction` of the way from the element at index `below` in sorted order to the next one.

    `rows` has a row along the last axis; the results run along a new last axis. Integers are not interpolated: the result is the element
    at `below`.
    """
    last_index = rows.shape[-1] - 1
    above = np.minimum(below + (fraction > 0), last_index)
    positions = sorted({*below.tolist(), *above.tolist(), last_index})
    is_tracked = is_on_tape(rows)
    in_order = sort(rows) if is_tracked else call_host_op("partition", rows, positions=positions)[0]
    if not rows.dtype.is_float:
        return in_order.take(below, -1)
    fraction = fraction.astype(rows.dtype.numpy)
    if is_tracked or rows.size >= MAX_NUMPY_COPY_ELEMENTS or rows.node.is_traced or upcalls.node_observer:
        result: Tensor = _interpolate_sorted(
            in_order, below, above, asarray(fraction), lambda *arguments: Tensor._compute(OPS["where"], *arguments)
        )
        return result
    with np.errstate(all="ignore"):
        return Tensor._from_array(_interpolate_sorted(in_order.to_numpy(), below, above, fraction, np.where))


def _interpolate_sorted(in_order: Any, below: Array, above: Array, fraction: Any, where_function: Callable[..., Any]) -> Any:
    """Return the numbers `fraction` of the way between the elements at indices `below` and `above` of each sorted row in `in_order`.

    The rows are tensors or NumPy arrays, and `where_function` is the function `where` of the same library.
    """
    return _interpolate(in_order.take(below, -1), in_order.take(above, -1), fraction, in_order[..., -1:], where_function)


def _interpolate(low: Any, high: Any, fraction: Any, largest: Any, where_function: Callable[..., Any]) -> Any:
    """Return the numbers `fraction` of the way from `low` to `high`, tensors or arrays, or NaN where `largest` is NaN.

    `where_function` is the function `where` for tensors or for arrays.
    """
    step = high - low  # from the nearer end: no result lies beyond the other end, and equal ends are returned exactly
    result = where_function(fraction < 0.5, low + step * fraction, high - step * (1 - fraction))
    # Where `step - step` is NaN, an end, or the distance of the ends, is infinite.
    result = where_function(step - step == 0, result, low * (1 - fraction) + high * fraction)
    result = where_function(fraction == 0, low, result)
    return where_function(largest != largest, largest, result)  # sorting puts NaN last
