"""Distinct elements and their counts. They are returned in ascending order; each NaN is distinct, zeros of both signs are equal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from .._utils.aliases import argument_aliases
from .._utils.records import NamedTuple
from ..dtypes import bfloat16, boolean, float32, int64, uint64
from ..errors import ShapeError
from ..graph.spec import memoized_external_calls
from ..native.counting_ops import UNIQUE_ALL, UNIQUE_COUNTS, UNIQUE_INVERSE, UNIQUE_VALUES, CountingOp, describe_unique
from ..native.host_op_table import find_unique
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, normalize_axis
from ..tensor.core import Operand
from .concatenation import concat
from .creation import asarray, empty, make_flat_indices, ones
from .cumulative_sums import diff
from .gather_functions import take, take_along_axis
from .histograms import bincount
from .host_calls import call_host_op, call_on_copies, is_on_tape, report_direct_call
from .output_arguments import cast_to
from .sorting import MAX_UNRANKED_ELEMENTS, argsort, lexsort

__all__ = ["mode", "unique_all", "unique_counts", "unique_inverse", "unique_values"]

MAX_COPIED_ELEMENTS = 1 << 14  # elements up to which copies to NumPy and back are fastest
MAX_SORTED_FLOATS = 100_000  # floats that the fast path sorts, in some milliseconds; for integers in a small range counting is faster


class UniqueAll(NamedTuple):
    """Distinct `values`, the `indices` of their first occurrences, the `inverse_indices` that rebuild `x` from them, and their `counts`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct `values` and their `counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct `values`, and the `inverse_indices` that rebuild `x` from them."""

    values: Tensor
    inverse_indices: Tensor


@memoized_external_calls
def unique_all(x: Operand, /) -> UniqueAll:
    """Return the distinct elements, their first indices, the inverse and their counts.

    Parameters
    ----------
    x : Tensor
        Any dtype and shape.

    Returns
    -------
    values : Tensor
        The distinct elements, ascending: a new 1-D tensor of the dtype of `x`.
    indices : Tensor
        The first positions of the values in the flattened `x`, as int64.
    inverse_indices : Tensor
        The index of each element in `values`, of the shape of `x`, as int64.
    counts : Tensor
        The number of times that each value occurs, as int64.

    Notes
    -----
    Each NaN is distinct; zeros of both signs are equal. (Array API 2025.12, `unique_all`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> found = tx.unique_all(tx.asarray([[5, 3], [5, 9]]))
    >>> found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist()
    ([3, 5, 9], [1, 0, 3], [[1, 0], [1, 2]], [1, 2, 1])
    """
    x = asarray(x)
    if x.node.is_traced or x.size < MAX_UNRANKED_ELEMENTS:
        result = _unique_all_small(x)
    else:
        result = _unique_all_by_runs(x)
    _report_unique_call(x, result, UNIQUE_ALL)
    return result


def _unique_all_small(x: Tensor) -> UniqueAll:
    """Return the result of `unique_all` for few elements or a tracer, computed by NumPy.

    If derivatives are recorded for `x`, the result is computed by operations on the tape.
    """
    if is_on_tape(x) and not x.node.is_traced:
        return _unique_all_by_runs(x)
    values, indices, inverse, counts = call_host_op("unique_all", _flatten_for_numpy(x))
    return UniqueAll(cast_to(values, x.dtype), indices, inverse.reshape(x.shape), counts)


def _unique_all_by_runs(x: Tensor) -> UniqueAll:
    """Return the result of `unique_all`, computed from the runs of equal elements of `x` in sorted order."""
    runs = _Runs(x)
    return UniqueAll(runs.values, take(runs.order, runs.run_starts), runs.inverse(), runs.counts())


@memoized_external_calls
def unique_counts(x: Operand, /) -> UniqueCounts:
    """Return the distinct elements, and how often each occurs.

    Parameters
    ----------
    x : Tensor
        Any dtype and shape.

    Returns
    -------
    values : Tensor
        The distinct elements, ascending: a new 1-D tensor of the dtype of `x`.
    counts : Tensor
        The number of times that each value occurs: a new int64 tensor.

    Notes
    -----
    Each NaN is distinct; zeros of both signs are equal. (Array API 2025.12, `unique_counts`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> values, counts = tx.unique_counts(tx.asarray([5, 3, 5]))
    >>> values.tolist(), counts.tolist()
    ([3, 5], [1, 2])
    """
    x = asarray(x)
    if x.size < MAX_UNRANKED_ELEMENTS:
        distinct = _unique_all_small(x)
        result = UniqueCounts(distinct.values, distinct.counts)
    else:
        runs = _count_range(x) or _Runs(x)
        result = UniqueCounts(runs.values, runs.counts())
    _report_unique_call(x, result, UNIQUE_COUNTS)
    return result


@memoized_external_calls
def unique_inverse(x: Operand, /) -> UniqueInverse:
    """Return the distinct elements, and the index of each element among them.

    Parameters
    ----------
    x : Tensor
        Any dtype and shape.

    Returns
    -------
    values : Tensor
        The distinct elements, ascending: a new 1-D tensor of the dtype of `x`.
    inverse_indices : Tensor
        A new int64 tensor of the shape of `x`; `values[inverse_indices]` equals `x`.

    Notes
    -----
    Each NaN is distinct; zeros of both signs are equal. (Array API 2025.12, `unique_inverse`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> values, indices = tx.unique_inverse(tx.asarray([5, 3, 5]))
    >>> values.tolist(), indices.tolist()
    ([3, 5], [1, 0, 1])
    """
    x = asarray(x)
    if x.size < MAX_UNRANKED_ELEMENTS:
        distinct = _unique_all_small(x)
        result = UniqueInverse(distinct.values, distinct.inverse_indices)
    else:
        runs = _count_range(x) or _Runs(x)
        result = UniqueInverse(runs.values, runs.inverse())
    _report_unique_call(x, result, UNIQUE_INVERSE)
    return result


@memoized_external_calls
def unique_values(x: Operand, /) -> Tensor:
    """Return the distinct elements in ascending order, as a new 1-D tensor.

    Parameters
    ----------
    x : Tensor
        Any dtype and shape. The result has the same dtype.

    Returns
    -------
    Tensor
        New 1-D tensor of the dtype of `x`.

    Notes
    -----
    Each NaN is distinct; zeros of both signs are equal. (Array API 2025.12, `unique_values`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.unique_values(tx.asarray([5, 3, 5])).tolist()
    [3, 5]
    """
    x = asarray(x)
    if is_on_tape(x):
        return unique_all(x).values
    small_result = call_on_copies(lambda array: [find_unique(array.ravel())], x, max_elements=MAX_COPIED_ELEMENTS)
    if small_result is not None:
        _report_unique_call(x, small_result, UNIQUE_VALUES)
        return small_result[0]
    range_counts = _count_range(x)
    if range_counts is not None:
        return range_counts.values
    values = cast_to(call_host_op("unique_values", _flatten_for_numpy(x))[0], x.dtype)
    _report_unique_call(x, [values], UNIQUE_VALUES)
    return values


def _report_unique_call(x: Tensor, results: Sequence[Tensor], result_count: int) -> None:
    """Report to the fast path the `DirectCall` that gives `results` for `x`, to be replayed. Do nothing unless every result is 1-D.

    `result_count` tells which fields of `unique_all` the results are: a constant `UNIQUE_...`.
    """
    if all([t.ndim == 1 for t in results]):
        report_direct_call(partial(_find_unique_call, result_count), [x], results)


def _find_unique_call(result_count: int, x: Tensor) -> CountingOp | None:
    """Return the `DirectCall` that finds distinct elements of `x`, or None for many elements or an unsuitable dtype.

    `result_count` tells which fields of `unique_all` are wanted: a constant `UNIQUE_...`.
    """
    max_elements = MAX_SORTED_FLOATS if result_count == UNIQUE_VALUES and x.dtype.is_float else MAX_COPIED_ELEMENTS - 1
    return describe_unique(x.dtype, result_count, x.size) if x.size <= max_elements else None


def _flatten_for_numpy(x: Tensor) -> Tensor:
    """Return the elements of `x` flattened, in a dtype that NumPy has: bfloat16 becomes float32."""
    return cast_to(x, float32 if x.dtype is bfloat16 else x.dtype).ravel()


def unique_along(x: Tensor, axis: int) -> UniqueAll:
    """Return the distinct slices of `x` along `axis`, in lexicographic order, with the fields of `unique_all`.

    `values` has the slices along `axis`, counted from the start; the other fields are 1-D. A slice with NaN equals no other slice.
    (NumPy's `unique` with an axis.)
    """
    slices = x.moveaxis(axis, 0)
    rows = slices.reshape((slices.shape[0], prod(slices.shape[1:])))
    runs = _Runs(rows, lexsort(rows.T.flip(0)) if rows.shape[1] else make_flat_indices((rows.shape[0],)))
    first_indices = take(runs.order, runs.run_starts)
    return UniqueAll(take(slices, first_indices, 0).moveaxis(0, axis), first_indices, runs.inverse(), runs.counts())


class _Runs:
    """The runs of equal elements of `x` in sorted order, or of equal rows if `order`, the indices that sort the rows, is given.

    `order` are the sorting indices, `run_starts` the positions in sorted order where a run begins, and `starts_run` says so of each
    position. `values` has an element of each run, and `shape` is the shape of `inverse`.
    """

    def __init__(self, x: Tensor, order: Tensor | None = None) -> None:
        self.shape = x.shape if order is None else order.shape
        elements = x.ravel() if order is None else x
        self.order = argsort(elements) if order is None else order
        in_order = take(elements, self.order, 0)
        differ = in_order[1:] != in_order[:-1]
        self.starts_run = concat([ones(min(1, elements.shape[0]), dtype=boolean), differ if differ.ndim == 1 else differ.any(1)])
        (self.run_starts,) = self.starts_run.nonzero()
        self.values = take(in_order, self.run_starts, 0)

    def counts(self) -> Tensor:
        """Return the length of each run, as an int64 tensor."""
        return diff(self.run_starts, append=self.order.size)

    def inverse(self) -> Tensor:
        """Return the number of the run of each element, in the shape of `x`, or 1-D for rows."""
        run_numbers: Any = empty((self.order.size,), dtype=int64)
        run_numbers[self.order] = self.starts_run.astype(int64).cumulative_sum() - 1
        reshaped: Tensor = run_numbers.reshape(self.shape)
        return reshaped


class _CountedRange:
    """Counters for the integers of `x`, which lie in a range no wider than their number. `low` is the smallest of them.

    `counter_indices` has the index of the counter of each element, `occurrences` the counters, and `values` the distinct integers.
    """

    def __init__(self, x: Tensor, low: int) -> None:
        self.shape = x.shape
        wide = x if x.dtype in (int64, uint64) else x.astype(int64)
        self.counter_indices: Tensor = cast_to(wide - low if low else wide, int64).ravel()
        self.occurrences = bincount(self.counter_indices)
        (self.present_indices,) = self.occurrences.nonzero()
        self.values = cast_to(cast_to(self.present_indices, wide.dtype) + low, x.dtype)

    def counts(self) -> Tensor:
        """Return how often each of `values` occurs, as an int64 tensor."""
        return take(self.occurrences, self.present_indices)

    def inverse(self) -> Tensor:
        """Return the index in `values` of each element of `x`, in the shape of `x`."""
        numbers: Any = empty((self.occurrences.size,), dtype=int64)
        numbers[self.present_indices] = make_flat_indices((self.present_indices.size,))
        return take(numbers, self.counter_indices).reshape(self.shape)


def _count_range(x: Tensor) -> _CountedRange | None:
    """Return the counters of the integers in `x`, or None for few elements, other dtypes, wide ranges and tracers.

    A range is wide if the largest integer exceeds the smallest by the number of elements or more.
    """
    if not x.dtype.is_integer or x.size < MAX_UNRANKED_ELEMENTS or x.node.is_traced:
        return None
    low, high = int(x.min()), int(x.max())
    return _CountedRange(x, low) if high - low < x.size else None


class Mode(NamedTuple):
    """The most frequent `values`, and their `indices` along the axis."""

    values: Tensor
    indices: Tensor


@argument_aliases
def mode(x: Operand, /, axis: int = -1, *, keepdims: bool = False, dim: int | None = None, keepdim: bool | None = None) -> Mode:
    """Return the most frequent element along an axis, and its last index.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    axis : int, default -1
        The axis along which elements are counted. PyTorch's `dim` is an alias.
    keepdims : bool, default False
        If True, the axis stays with size 1. PyTorch's `keepdim` is an alias.

    Returns
    -------
    values, indices : Tensor
        New tensors without the axis: `values` of the dtype of `x`, `indices` of dtype int64. Of several most frequent elements, the
        smallest is taken.

    Raises
    ------
    AxisError
        If the axis does not exist.
    ShapeError
        If the axis has size 0.

    Notes
    -----
    PyTorch's `mode`.

    Examples
    --------
    >>> import tenxor as tx
    >>> found = tx.mode(tx.asarray([[3, 1, 3], [2, 2, 1]]))
    >>> found.values.tolist(), found.indices.tolist()
    ([3, 2], [2, 1])
    """
    x = asarray(x)
    axis_index = normalize_axis("mode", axis, x.ndim)
    keep = check_flag("keepdims", keepdims)
    size = x.shape[axis_index]
    if size == 0:
        raise ShapeError(
            f"mode: axis {axis_index} of shape {x.shape} has size 0, and the mode of no elements is undefined; give a tensor with elements"
            " there"
        )
    rows = x.moveaxis(axis_index, -1)
    order = argsort(rows)
    in_order = take_along_axis(rows, order)
    begins = concat([ones((*rows.shape[:-1], 1), dtype=boolean), in_order[..., 1:] != in_order[..., :-1]], -1)
    run_starts = Tensor._compute(OPS["where"], begins, make_flat_indices((size,)), 0)._cumulate("max", "mode", -1, None)
    best = (make_flat_indices((size,)) - run_starts).argmax(-1, True)  # the first of the longest runs, at the position of its last element
    fields = [take_along_axis(t, best) for t in (in_order, order)]
    return Mode(*[t.moveaxis(-1, axis_index) if keep else t.squeeze(-1) for t in fields])
