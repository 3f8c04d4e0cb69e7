"""Counts of integers and histograms. Counting is an accumulating write, which kernels do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from math import isfinite, prod
from typing import Any

import numpy as np

from ..dtypes import DEFAULT_FLOAT, DType, boolean, int64, promote, uint8, uint64
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..graph.spec import memoized_call, memoized_external_calls
from ..layout.coords import validate_int
from ..native.counting_ops import CountingOp, describe_bincount
from ..ops import OPS
from ..runtime.realize import realize
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, check_flag
from ..tensor.core import Operand, check_element_count
from .argument_validation import check_argument
from .creation import asarray, zeros
from .cumulative_sums import diff
from .even_spacing import choose_step_scale, linspace
from .host_calls import MAX_NUMPY_COPY_ELEMENTS, call_on_copies, report_direct_call
from .sorted_search import searchsorted

Array = np.ndarray[Any, Any]
MAX_COUNTED_ELEMENTS = 1 << 21  # elements up to which the fast path counts or sums weights, sequentially: one or two milliseconds
SUM_CHUNK_ELEMENTS = 1 << 17  # elements up to which a kernel sums weights sequentially, too
BIN_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")
__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


@memoized_external_calls
def bincount(x: Operand, /, weights: Operand | None = None, minlength: int = 0) -> Tensor:
    """Return how often each of 0, 1, 2, ... occurs in `x`, up to the maximum of `x`.

    Parameters
    ----------
    x : Tensor
        1-D, of integers from 0 on, or of bools.
    weights : Tensor, optional
        Of the shape of `x`. Their sums replace the counts, as floats.
    minlength : int, default 0
        The least number of elements of the result.

    Returns
    -------
    Tensor
        A new int64 tensor, or a float or complex tensor with `weights`.

    Raises
    ------
    ShapeError
        If `x` is not 1-D, or if `weights` has another shape.
    DTypeError
        If `x` holds neither integers nor bools.
    ArgumentError
        If an element or `minlength` is negative.

    Notes
    -----
    NumPy's `bincount`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.bincount(tx.asarray([0, 2, 2, 5])).tolist()
    [1, 0, 2, 0, 0, 1]
    """
    x = asarray(x, dtype=int64 if isinstance(x, (list, tuple)) and not x else None)
    counts, weight_list = _bincount(x, weights, minlength)
    if not counts.dtype.is_complex:
        report_direct_call(partial(_find_counting_call, int(minlength)), [x, *weight_list], [counts])
    return counts


def _find_counting_call(min_length: int, x: Tensor, *weights: Tensor) -> CountingOp | None:
    """Return the direct call that counts the elements of `x`, or sums `weights`, with at least `min_length` results.

    A direct call is generated code that the fast path runs on the operands' memory. Return None for more than `MAX_COUNTED_ELEMENTS`
    elements, or if generated code does not count the dtype.
    """
    return describe_bincount(x.dtype, min_length) if x.size <= MAX_COUNTED_ELEMENTS else None


def _bincount(x: Tensor, weights: Any, minlength: int) -> tuple[Tensor, list[Tensor]]:
    """Return the counts, or the sums of `weights` if not None, with at least `minlength` items; and a list with the weights as a tensor.

    The list is empty without weights. Raise the errors of `bincount`.
    """
    if x.ndim != 1:
        raise ShapeError(f"bincount: x has shape {x.shape}; it must be 1-D; use x.ravel()")
    if not (x.dtype.is_integer or x.dtype is boolean):
        raise DTypeError(f"bincount: x has dtype {x.dtype}; it must be integers or bools; use x.astype(tx.int64), or tx.histogram")
    min_length = validate_int("bincount", "minlength", minlength)
    if min_length < 0:
        raise ArgumentError(f"bincount: minlength is {min_length}; it must be 0 or more")
    ends = [x.min(), x.max()] if x.size else []
    realize(*[t.node for t in ends])  # one kernel computes both
    low, high = map(int, ends or (0, -1))
    if low < 0:
        raise ArgumentError(f"bincount: the smallest element is {low}; elements must be 0 or more; add an offset, or use tx.unique_counts")
    size = max(min_length, high + 1)
    values, weight_tensor = x.astype(int64) if x.dtype is boolean else x, _check_weights("bincount", weights, x.shape)
    if weight_tensor is None:
        return _count_values(values, size, None), []
    return (_sum_weights if SUM_CHUNK_ELEMENTS < x.size <= MAX_COUNTED_ELEMENTS else _count_values)(values, size, weight_tensor), [
        weight_tensor
    ]


def _check_weights(op: str, weights: Any, shape: tuple[int, ...]) -> Tensor | None:
    """Return the weights as float64 or complex, or None for None.

    Raise ShapeError, beginning with `op`, unless they have `shape`, with a weight for each element.
    """
    if weights is None:
        return None
    tensor = asarray(weights)
    if tensor.shape != shape:
        raise ShapeError(f"{op}: weights have shape {tensor.shape}, and the data {shape}; there must be one weight for each element")
    if tensor.dtype.is_complex:
        return tensor
    return tensor.astype(DEFAULT_FLOAT, copy=False)


def _count_values(values: Tensor, size: int, weights: Tensor | None) -> Tensor:
    """Return the count, or the sum of `weights` if not None, of each value from 0 to `size` - 1 in `values`.

    The dtype is int64, or the dtype of the weights.
    """
    totals: Any = zeros((size,), dtype=int64 if weights is None else weights.dtype)
    return totals.index_add_(0, values, 1 if weights is None else weights)  # type: ignore[no-any-return]


def _sum_weights(values: Tensor, size: int, weights: Tensor) -> Tensor:
    """Return the sum of weights of each value from 0 to `size` - 1 in `values`, summed sequentially, part by part."""
    totals: Any = zeros((size,), dtype=weights.dtype)
    for k in range(0, values.size, SUM_CHUNK_ELEMENTS):
        totals.index_add_(0, values[k : k + SUM_CHUNK_ELEMENTS], weights[k : k + SUM_CHUNK_ELEMENTS])
    return totals  # type: ignore[no-any-return]


def histogram_bin_edges(x: Operand, /, bins: Operand | str = 10, range: Sequence[Any] | None = None) -> Tensor:
    """Return the edges of histogram bins, as a 1-D tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex.
    bins : int, str or Tensor, default 10
        A number of bins of equal width, or the name of NumPy's rule for that number, such as "auto". A tensor of ascending edges is
        returned itself, as NumPy returns an array of edges.
    range : pair of numbers, optional
        The bins divide this interval; by default they divide the interval from the least to the largest element of `x`.

    Returns
    -------
    Tensor
        New tensor, or `bins` if it is a tensor.

    Raises
    ------
    ArgumentError
        If `bins` is below 1 or unknown, or if `range` is no finite interval.
    DTypeError
        If `x` is complex.

    Notes
    -----
    NumPy's `histogram_bin_edges`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.histogram_bin_edges(tx.asarray([0, 1, 4]), bins=2).tolist()
    [0.0, 2.0, 4.0]
    """
    return _find_edges("histogram_bin_edges", asarray(x), bins, range)[0]


@memoized_call
def histogram(
    x: Operand, /, bins: Operand | str = 10, range: Sequence[Any] | None = None, density: bool = False, weights: Operand | None = None
) -> tuple[Tensor, Tensor]:
    """Return how many elements of `x` are in each bin, and the edges of the bins.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex. Elements outside of all bins, and NaN, are not counted.
    bins : int, str or Tensor, default 10
        A number of bins of equal width, the name of NumPy's rule for that number, such as "auto", or the ascending edges. A bin includes
        its lower edge, and the last one also its upper edge.
    range : pair of numbers, optional
        Bins of equal width divide this interval; by default they divide the interval from the least to the largest element.
    density : bool, default False
        If True, counts are divided by the width of the bin and by the sum over all bins.
    weights : Tensor, optional
        Of the shape of `x`. Their sums replace the counts, as floats.

    Returns
    -------
    counts : Tensor
        A new int64 tensor, or a float or complex tensor with `density` or `weights`.
    edges : Tensor
        A 1-D tensor with one element more, new unless `bins` are edges.

    Raises
    ------
    ArgumentError
        If `bins` is below 1, unknown or not ascending, if `range` is no finite interval, or if a rule is named with `weights`.
    ShapeError
        If `weights` has another shape than `x`.
    DTypeError
        If `x` is complex.

    Notes
    -----
    NumPy's `histogram`.

    Examples
    --------
    >>> import tenxor as tx
    >>> counts, edges = tx.histogram(tx.asarray([1.0, 2.0, 2.5, 4.0]), bins=3)
    >>> counts.tolist(), edges.tolist()
    ([1, 2, 1], [1.0, 2.0, 3.0, 4.0])
    """
    x = asarray(x)
    is_simple_count = weights is None and density is False and type(bins) is int and not x.dtype.is_complex
    small_result = (
        call_on_copies(partial(_histogram_of_small, _check_bins("histogram", bins), range, x.dtype), x) if is_simple_count else None
    )
    if small_result is not None:
        return small_result[0], small_result[1]
    if isinstance(bins, str) and weights is not None:
        raise ArgumentError(
            f"histogram: the rule {describe_value(bins)} chooses bins by the elements and cannot be used with weights; give a number of"
            " bins"
        )
    small_result = _small_by_edges(x, bins) if weights is None and density is False else None
    if small_result is not None:
        return small_result[0], small_result[1]
    edges, is_even = _find_edges("histogram", x, bins, range)
    weight_tensor = _check_weights("histogram", weights, x.shape)
    bin_indices = _find_bins(x.ravel(), edges, is_even)
    size = edges.size - 1
    counts = _count_values(bin_indices, size + 1, None if weight_tensor is None else weight_tensor.ravel())[:size].copy()
    if density is not None and check_flag("density", density):  # None is NumPy's default
        counts = counts / diff(edges) / counts.sum()
    return counts, edges


def _histogram_of_small(count: int, bin_range: Sequence[Any] | None, dtype: DType, x: Array) -> list[Array]:
    """Return counts and edges of `count` bins of equal width, by NumPy alone: the same steps as in `_find_edges` and `_find_bins`.

    `bin_range` is a pair of limits, or None for the extremes of `x`. `dtype` is the dtype of the tensor copied into `x`.
    """
    numpy, counted = _compute_dtype(dtype).numpy, np.arange(count + 1, dtype=np.float64)
    with np.errstate(all="ignore"):
        low, high = _find_limits("histogram", x, bin_range)
        scale = choose_step_scale(low, high)
        edges = counted * ((high * scale - low * scale) / count) + low * scale
        edges = (edges if scale == 1 else edges * (1 / scale)).astype(numpy)
        edges[-1] = high
        x = x.ravel().astype(numpy, copy=False)
        low, high = float(edges[0]), float(edges[-1])
        bin_indices = np.fmin(np.fmax((x - low) * (count / (high - low)), 0), count - 1).astype(np.int64)  # NaN becomes 0, as in kernels
        bin_indices = bin_indices - (x < edges[bin_indices])  # rounding may have chosen the neighbouring bin
        bin_indices = bin_indices + ((x >= edges[bin_indices + 1]) & (bin_indices != count - 1))
        is_inside = (x >= low) & (x <= high)
    return [np.asarray(np.bincount(bin_indices[is_inside], minlength=count), np.int64), edges]


def _small_by_edges(x: Tensor, bins: Any) -> tuple[Tensor, ...] | None:
    """Return counts and edges of small `x` for given edges, computed by NumPy, or None if the caller must compute them.

    None stands for `MAX_NUMPY_COPY_ELEMENTS` elements or more, `bins` other than 1-D edges, complex dtypes, and int64 beside uint64. Raise
    ArgumentError if the edges do not ascend.
    """
    if not (isinstance(bins, (list, tuple, Tensor)) and (type(bins) is not Tensor or bins.ndim == 1)) or x.size >= MAX_NUMPY_COPY_ELEMENTS:
        return None
    edges = asarray(bins)
    if edges.ndim != 1 or edges.size < 1 or edges.dtype.is_complex or x.dtype.is_complex or {x.dtype, edges.dtype} == {int64, uint64}:
        return None
    return call_on_copies(_histogram_by_edges, x, edges)


def _histogram_by_edges(x: Array, edges: Array) -> list[Array]:
    """Return the counts between ascending `edges`, and the edges, computed by NumPy alone.

    Sort the elements, possibly `x` in place, and search for the edges. The last bin includes its right edge. Raise ArgumentError if the
    edges do not ascend.
    """
    if not (edges[1:] >= edges[:-1]).all():
        raise _edges_error("histogram", Tensor._from_array(edges))
    x = x.ravel()
    x.sort()
    ends = np.empty(len(edges), np.int64)
    ends[:-1], ends[-1] = x.searchsorted(edges[:-1]), x.searchsorted(edges[-1], "right")
    return [ends[1:] - ends[:-1], edges]


def _edges_error(op: str, bins: Any) -> ArgumentError:
    """Return the error for `bins` that are not 1-D ascending edges."""
    return ArgumentError(f"{op}: edges must be 1-D and ascending, not {describe_value(bins)}")


def histogram2d(
    x: Operand,
    y: Operand,
    /,
    bins: Operand = 10,
    range: Sequence[Any] | None = None,
    density: bool = False,
    weights: Operand | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return how many points (x, y) are in each cell, and the edges along x and along y.

    Parameters
    ----------
    x, y : Tensor
        1-D and of one size.
    bins : int, str or Tensor, or a pair, default 10
        As for `histogram`, for both coordinates, or a pair with a value for each.
    range : pair of pairs of numbers, optional
        A pair of ranges as for `histogram`.
    density : bool, default False
        If True, counts are divided by the area of the cell and by the sum over all cells.
    weights : Tensor, optional
        A real weight for each point. Their sums replace the counts.

    Returns
    -------
    counts : Tensor
        A new float64 tensor of shape (bins of x, bins of y), as in NumPy.
    x_edges, y_edges : Tensor
        1-D tensors, new unless `bins` are edges.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError
        As for `histogram`; ShapeError also for coordinates that are not 1-D or not of one size.

    Notes
    -----
    NumPy's `histogram2d`.

    Examples
    --------
    >>> import tenxor as tx
    >>> counts, _, _ = tx.histogram2d(tx.asarray([0.0, 0.0, 1.0]), tx.asarray([0.0, 1.0, 1.0]), bins=2)
    >>> counts.tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    x, y = asarray(x), asarray(y)
    if x.ndim != 1 or x.shape != y.shape:
        raise ShapeError(f"histogram2d: coordinates must be 1-D and of equal size, not of shapes {x.shape} and {y.shape}")
    bins_per_axis = bins if isinstance(bins, (tuple, list)) and len(bins) == 2 else (bins, bins)
    counts, (along_x, along_y) = _count_cells("histogram2d", (x, y), bins_per_axis, range, density, weights)
    return counts, along_x, along_y


def histogramdd(
    sample: Operand,
    /,
    bins: Operand = 10,
    range: Sequence[Any] | None = None,
    density: bool = False,
    weights: Operand | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return how many points are in each cell, with one axis for each coordinate, and a tuple of the edges along each.

    Parameters
    ----------
    sample : Tensor or Sequence[Tensor]
        A 2-D tensor with a row for each point, or a list of 1-D tensors, one for each coordinate.
    bins : int, str or Sequence, default 10
        As for `histogram`, for all coordinates, or a sequence with one for each.
    range : Sequence of pairs of numbers, optional
        A range as for `histogram` for each coordinate.
    density : bool, default False
        If True, counts are divided by the volume of the cell and by the sum over all cells.
    weights : Tensor, optional
        A real weight for each point. Their sums replace the counts.

    Returns
    -------
    counts : Tensor
        A new float64 tensor, as in NumPy.
    edges : tuple of Tensor
        1-D tensors, new unless `bins` are edges.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError
        As for `histogram`; ArgumentError also for a wrong number of bins or ranges, ShapeError for coordinates of other shapes.

    Notes
    -----
    NumPy's `histogramdd`.

    Examples
    --------
    >>> import tenxor as tx
    >>> counts, edges = tx.histogramdd(tx.asarray([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), bins=2)
    >>> counts.tolist(), [e.tolist() for e in edges]
    ([[1.0, 1.0], [0.0, 1.0]], [[0.0, 0.5, 1.0], [0.0, 0.5, 1.0]])
    """
    if isinstance(sample, (list, tuple)):
        columns = [asarray(t) for t in sample]
    else:
        points = asarray(sample)
        if points.ndim != 2:
            raise ShapeError(f"histogramdd: points must be the rows of a 2-D tensor, not of shape {points.shape}")
        columns = list(points.T)
    if not columns or any(t.ndim != 1 or t.shape != columns[0].shape for t in columns):
        raise ShapeError(f"histogramdd: coordinates must be 1-D and equally long, not of shapes {', '.join(str(t.shape) for t in columns)}")
    is_per_axis = isinstance(bins, (tuple, list)) or getattr(bins, "ndim", False)
    bins_per_axis: Any = bins if is_per_axis else [bins] * len(columns)
    if len(bins_per_axis) != len(columns):
        raise ArgumentError(f"histogramdd: {len(bins_per_axis)} bins for {len(columns)} coordinates; give one for all, or one for each")
    return _count_cells("histogramdd", columns, bins_per_axis, range, density, weights)


def _count_cells(
    op: str, columns: Sequence[Tensor], bins: Sequence[Any], bin_range: Any, density: bool, weights: Any
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the count, or the sum of `weights`, of the points in each cell, as floats, and the edges along each coordinate.

    `columns` has a 1-D tensor for each coordinate. `bins` and `bin_range` have an item for each, as `bins` and `range` of `histogram`;
    `bin_range` may be None. With `density`, the counts are divided by their sum and the volume of the cell. Messages begin with `op`.
    """
    check_argument(op, "range, one for each coordinate,", bin_range, "None | Sequence")
    ranges = (None,) * len(columns) if bin_range is None else tuple(bin_range)
    if len(ranges) != len(columns):
        raise ArgumentError(
            f"{op}: range must be a sequence of {len(columns)} ranges, one for each coordinate, not {describe_value(bin_range)}"
        )
    edges_by_axis, cell_indices, all_inside = [], None, None
    for t, b, r in zip(columns, bins, ranges, strict=True):
        edges, is_even = _find_edges(op, t, b, r)
        bin_indices = _find_bins(t, edges, is_even)
        size, in_range = edges.size - 1, bin_indices < edges.size - 1
        cell_indices = bin_indices if cell_indices is None else cell_indices * size + bin_indices
        all_inside = in_range if all_inside is None else all_inside & in_range
        edges_by_axis.append(edges)
    shape = tuple([edges.size - 1 for edges in edges_by_axis])
    check_element_count(op, shape)
    count = prod(shape)
    cell_indices = Tensor._compute(OPS["where"], all_inside, cell_indices, count)
    counts = _count_values(cell_indices, count + 1, _check_weights(op, weights, columns[0].shape))[:-1].reshape(shape).astype(DEFAULT_FLOAT)
    if density is not None and check_flag("density", density):  # None is NumPy's default
        total = counts.sum()
        for k, edges in enumerate(edges_by_axis):
            counts = counts / diff(edges).reshape([-1 if j == k else 1 for j in range(len(edges_by_axis))])
        counts = counts / total
    return counts, tuple(edges_by_axis)


def _find_edges(op: str, x: Tensor, bins: Any, bin_range: Any) -> tuple[Tensor, bool]:
    """Return the edges of bins, and whether they are evenly spaced. `bins` is a number, a rule of NumPy, or a list or tensor of edges.

    `bin_range` is a pair of limits for evenly spaced edges, or None for the extremes of `x`. Raise DTypeError for complex `x`, and
    ArgumentError for invalid edges, or an invalid range; errors begin with `op`.
    """
    if x.dtype.is_complex:
        raise DTypeError(f"{op}: does not accept {x.dtype}, which has no order; use tx.real(x) or tx.abs(x)")
    bins = _count_by_rule(op, x, bins, bin_range) if isinstance(bins, str) else bins
    if isinstance(bins, (list, tuple)) or getattr(bins, "ndim", False):
        edges = asarray(bins)
        if edges.ndim != 1 or edges.size < 1 or edges.dtype.is_complex or not bool((edges[1:] >= edges[:-1]).all()):
            raise _edges_error(op, bins)
        return edges, False
    count = _check_bins(op, bins)
    low, high = _find_limits(op, x, bin_range)
    return linspace(low, high, count + 1, dtype=_compute_dtype(x.dtype)), True


def _count_by_rule(op: str, x: Tensor, rule: str, bin_range: Any) -> int:
    """Return the number of bins chosen by NumPy's rule `rule`, such as "auto", for the elements of `x` within `bin_range` (None: all).

    Raise ArgumentError, beginning with `op`, for an unknown rule, and for a range without finite limits.
    """
    check_choice(op, "bins", rule, *BIN_RULES)
    elements = x.detach() if x.dtype.is_integer or x.dtype.is_float else x.detach().astype(uint8)
    ends = _find_limits(op, x, bin_range)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of a rule limited in its number of bins
        return len(np.histogram_bin_edges(np.asarray(elements), rule, None if bin_range is None else ends)) - 1


def _check_bins(op: str, bins: Any) -> int:
    """Return `bins`, a number of bins, as an int. Raise ArgumentError, beginning with `op`, below 1 and for anything but integers."""
    count = validate_int(op, "bins", bins)
    if count < 1:
        raise ArgumentError(f"{op}: the number of bins is {count}; it must be 1 or more")
    return count


def _compute_dtype(dtype: DType) -> DType:
    """Return the dtype in which elements of `dtype` are compared with evenly spaced edges: at least float32, float64 for integers."""
    return dtype.compute_dtype if dtype.is_float else DEFAULT_FLOAT


def _find_limits(op: str, x: Tensor | Array, bin_range: Any) -> tuple[float, float]:
    """Return finite limits of the bins: `bin_range`, or for None the extremes of `x`, or 0 and 1 without elements.

    Equal limits are moved apart by 1. Raise ArgumentError, beginning with `op`, if `bin_range` is no ascending pair of numbers, or if
    the limits are not finite.
    """
    if bin_range is not None:
        try:
            low, high = (float(end) for end in bin_range)
        except (TypeError, ValueError, OverflowError):
            raise ArgumentError(f"{op}: range must be a pair of numbers, (low, high), not {describe_value(bin_range)}") from None
        if low > high:
            raise ArgumentError(f"{op}: range is {describe_value(bin_range)}; its low end must not be above its high end")
    elif x.size == 0:
        low, high = 0.0, 1.0
    else:
        low, high = float(x.min()), float(x.max())
    if not (isfinite(low) and isfinite(high)):
        raise ArgumentError(f"{op}: the bins would reach from {low} to {high}; their range must be finite; give range=(low, high)")
    if low == high:
        low, high = low - 0.5, high + 0.5
    if low == high:
        raise ArgumentError(
            f"{op}: the range begins and ends at {low}, where floats cannot represent a bin of width 1; give a wider range=(low, high)"
        )
    return low, high


def _find_bins(x: Tensor, edges: Tensor, is_even: bool) -> Tensor:
    """Return the bin of each element of `x`, or the number of bins for an element outside of every bin.

    A bin includes its left edge only, the last bin both edges. `is_even` says that `edges` are evenly spaced.
    """
    size, where_op = edges.size - 1, OPS["where"]
    if not is_even:
        dtype = edges.dtype if {x.dtype, edges.dtype} == {int64, uint64} else promote(x.dtype, edges.dtype, "histogram")
        bin_indices = searchsorted(edges, x, side="right") - 1
        is_inside = (bin_indices >= 0) & ((bin_indices < size) | (x.astype(dtype, copy=False) == edges[-1].astype(dtype)))
        bin_indices = bin_indices.clip(0, size - 1) if size else bin_indices
    else:
        x = x.astype(_compute_dtype(x.dtype), copy=False)
        low, high = float(edges[0]), float(edges[-1])
        is_inside = (x >= low) & (x <= high)
        guess: Any = ((x - low) * (size / (high - low))).astype(int64).clip(0, size - 1)
        guess = guess - (x < edges[guess])  # rounding may have chosen the neighbouring bin
        bin_indices = guess + ((x >= edges[guess + 1]) & (guess != size - 1))
    return Tensor._compute(where_op, is_inside, bin_indices, size)
