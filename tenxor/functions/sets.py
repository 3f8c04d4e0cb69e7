"""Distinct elements and their counts. They are returned in ascending order; each NaN is distinct, zeros of both signs are equal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from ..creation import asarray, empty, ones, positions
from ..dtypes import bfloat16, boolean, float32, int64, uint64
from ..errors import ShapeError
from ..host.counts import ALL, COUNTS, INVERSE, VALUES, Count, each_once
from ..host.table import unique
from ..keywords import spelled
from ..ops import OPS
from ..records import NamedTuple
from ..spec import told_again
from ..tensor import Tensor
from ..tensor.arguments import axis_of, truth
from ..tensor.core import Operand
from .counting import bincount
from .hosted import at_once, has_past, hosted, tell
from .into import as_dtype
from .joining import concat
from .selecting import take, take_along_axis
from .sorting import FEW, argsort, lexsort
from .statistics import diff

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


@told_again
def unique_all(x: Operand, /) -> UniqueAll:
    """Return the distinct elements, their first indices, the inverse and their counts, as four new tensors.

    `values` are ascending. `indices` are the first positions in the flattened `x`. `inverse_indices`, of `x`'s shape, are the index of each
    element in `values`. `counts` says how often each value occurs. (Array API 2025.12, `unique_all`.)

    >>> import tenxor as tx
    >>> found = tx.unique_all(tx.asarray([[5, 3], [5, 9]]))
    >>> found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist()
    ([3, 5, 9], [1, 0, 3], [[1, 0], [1, 2]], [1, 2, 1])
    """
    x = asarray(x)
    if x.node.traced or x.size < FEW:
        result = _unique_all_small(x)
    else:
        result = _unique_all_by_runs(x)
    _report_call(x, result, ALL)
    return result


def _unique_all_small(x: Tensor) -> UniqueAll:
    """Compute `unique_all` by NumPy. If derivatives are recorded for `x`, compute it by operations on the tape instead."""
    if has_past(x) and not x.node.traced:
        return _unique_all_by_runs(x)
    values, indices, inverse, counts = hosted("unique_all", _flatten_for_numpy(x))
    return UniqueAll(as_dtype(values, x.dtype), indices, inverse.reshape(x.shape), counts)


def _unique_all_by_runs(x: Tensor) -> UniqueAll:
    """Compute `unique_all` from the runs of equal elements in sorted order."""
    runs = _Runs(x)
    return UniqueAll(runs.values, take(runs.order, runs.begin), runs.inverse(), runs.counts())


@told_again
def unique_counts(x: Operand, /) -> UniqueCounts:
    """Return the distinct elements in ascending order, `values`, and how often each occurs, `counts`, as two new tensors.

    (Array API 2025.12, `unique_counts`.)

    >>> import tenxor as tx
    >>> values, counts = tx.unique_counts(tx.asarray([5, 3, 5]))
    >>> values.tolist(), counts.tolist()
    ([3, 5], [1, 2])
    """
    x = asarray(x)
    if x.size < FEW:
        distinct = _unique_all_small(x)
        result = UniqueCounts(distinct.values, distinct.counts)
    else:
        runs = _count_range(x) or _Runs(x)
        result = UniqueCounts(runs.values, runs.counts())
    _report_call(x, result, COUNTS)
    return result


@told_again
def unique_inverse(x: Operand, /) -> UniqueInverse:
    """Return the distinct elements in ascending order, `values`, and the index of each element in `values`, as two new tensors.

    `inverse_indices` has `x`'s shape, and `values[inverse_indices]` equals `x`. (Array API 2025.12, `unique_inverse`.)

    >>> import tenxor as tx
    >>> values, indices = tx.unique_inverse(tx.asarray([5, 3, 5]))
    >>> values.tolist(), indices.tolist()
    ([3, 5], [1, 0, 1])
    """
    x = asarray(x)
    if x.size < FEW:
        distinct = _unique_all_small(x)
        result = UniqueInverse(distinct.values, distinct.inverse_indices)
    else:
        runs = _count_range(x) or _Runs(x)
        result = UniqueInverse(runs.values, runs.inverse())
    _report_call(x, result, INVERSE)
    return result


@told_again
def unique_values(x: Operand, /) -> Tensor:
    """Return the distinct elements of `x` in ascending order, as a new 1-D tensor. (Array API 2025.12, `unique_values`.)

    >>> import tenxor as tx
    >>> tx.unique_values(tx.asarray([5, 3, 5])).tolist()
    [3, 5]
    """
    x = asarray(x)
    if has_past(x):
        return unique_all(x).values
    small_result = at_once(lambda array: [unique(array.ravel())], x, few=MAX_COPIED_ELEMENTS)
    if small_result is not None:
        _report_call(x, small_result, VALUES)
        return small_result[0]
    range_counts = _count_range(x)
    if range_counts is not None:
        return range_counts.values
    values = as_dtype(hosted("unique_values", _flatten_for_numpy(x))[0], x.dtype)
    _report_call(x, [values], VALUES)
    return values


def _report_call(x: Tensor, results: Sequence[Tensor], wanted: int) -> None:
    """Report the direct call for these results to the fast path, if every result is 1-D."""
    if all([t.ndim == 1 for t in results]):
        tell(partial(_unique_call, wanted), [x], results)


def _unique_call(wanted: int, x: Tensor) -> Count | None:
    """Return the direct call that finds distinct elements, or None for many elements or an unsuitable dtype."""
    max_elements = MAX_SORTED_FLOATS if wanted == VALUES and x.dtype.is_float else MAX_COPIED_ELEMENTS - 1
    return each_once(x.dtype, wanted, x.size) if x.size <= max_elements else None


def _flatten_for_numpy(x: Tensor) -> Tensor:
    """Return the elements flattened, in a dtype that NumPy has."""
    return as_dtype(x, float32 if x.dtype is bfloat16 else x.dtype).ravel()


def unique_along(x: Tensor, axis: int) -> UniqueAll:
    """Return the distinct slices of `x` along an axis, in lexicographic order, with the fields of `unique_all`.

    `values` has the slices along that axis; the inverse is 1-D. A slice with NaN equals no other. (NumPy's `unique` with an axis.)
    """
    slices = x.moveaxis(axis, 0)
    rows = slices.reshape((slices.shape[0], prod(slices.shape[1:])))
    runs = _Runs(rows, lexsort(rows.T.flip(0)) if rows.shape[1] else positions((rows.shape[0],)))
    first_indices = take(runs.order, runs.begin)
    return UniqueAll(take(slices, first_indices, 0).moveaxis(0, axis), first_indices, runs.inverse(), runs.counts())


class _Runs:
    """Runs of equal elements, or rows, in sorted order: the sorting indices `order`, where runs `begin`, and one of each, `values`."""

    def __init__(self, x: Tensor, order: Tensor | None = None) -> None:
        self.shape = x.shape if order is None else order.shape
        elements = x.ravel() if order is None else x
        self.order = argsort(elements) if order is None else order
        in_order = take(elements, self.order, 0)
        differ = in_order[1:] != in_order[:-1]
        self.begins = concat([ones(min(1, elements.shape[0]), dtype=boolean), differ if differ.ndim == 1 else differ.any(1)])
        (self.begin,) = self.begins.nonzero()
        self.values = take(in_order, self.begin, 0)

    def counts(self) -> Tensor:
        """Return the lengths of the runs."""
        return diff(self.begin, append=self.order.size)

    def inverse(self) -> Tensor:
        """Return the number of the run of each element, in `x`'s shape."""
        run_numbers: Any = empty((self.order.size,), dtype=int64)
        run_numbers[self.order] = self.begins.astype(int64).cumulative_sum() - 1
        reshaped: Tensor = run_numbers.reshape(self.shape)
        return reshaped


class _Range:
    """Integers in a range no wider than their number, so that each gets a counter: `shifted` are the indices of the counters."""

    def __init__(self, x: Tensor, low: int) -> None:
        self.shape = x.shape
        wide = x if x.dtype in (int64, uint64) else x.astype(int64)
        self.shifted: Tensor = as_dtype(wide - low if low else wide, int64).ravel()
        self.occurrences = bincount(self.shifted)
        (self.present,) = self.occurrences.nonzero()
        self.values = as_dtype(as_dtype(self.present, wide.dtype) + low, x.dtype)

    def counts(self) -> Tensor:
        """Return how often each value occurs."""
        return take(self.occurrences, self.present)

    def inverse(self) -> Tensor:
        """Return the index of each element in `values`, in `x`'s shape."""
        numbers: Any = empty((self.occurrences.size,), dtype=int64)
        numbers[self.present] = positions((self.present.size,))
        return take(numbers, self.shifted).reshape(self.shape)


def _count_range(x: Tensor) -> _Range | None:
    """Return the counters of integers in a narrow range; None for few elements, other dtypes and wide ranges."""
    if not x.dtype.is_integer or x.size < FEW or x.node.traced:
        return None
    low, high = int(x.min()), int(x.max())
    return _Range(x, low) if high - low < x.size else None


class Mode(NamedTuple):
    """The most frequent `values`, and their `indices` along the axis."""

    values: Tensor
    indices: Tensor


@spelled
def mode(
    x: Operand, /, axis: int = -1, *, keepdims: bool = False, dim: int | None = None, keepdim: bool | None = None
) -> Mode:
    """Return the most frequent element along an axis, `values`, and its last index, `indices`, as two new tensors.

    Of several most frequent elements, the smallest is taken. Raise AxisError, and ShapeError for an axis of size 0. (PyTorch's `mode`.)

    >>> import tenxor as tx
    >>> found = tx.mode(tx.asarray([[3, 1, 3], [2, 2, 1]]))
    >>> found.values.tolist(), found.indices.tolist()
    ([3, 2], [2, 1])
    """
    x = asarray(x)
    axis_index = axis_of("mode", axis, x.ndim)
    keep = truth("mode", "keepdims", keepdims)
    size = x.shape[axis_index]
    if size == 0:
        raise ShapeError(
            f"mode: axis {axis_index} of shape {x.shape} has size 0, and nothing has no mode; give a tensor with elements there"
        )
    rows = x.moveaxis(axis_index, -1)
    order = argsort(rows)
    in_order = take_along_axis(rows, order)
    begins = concat([ones((*rows.shape[:-1], 1), dtype=boolean), in_order[..., 1:] != in_order[..., :-1]], -1)
    run_starts = Tensor._compute(OPS["where"], begins, positions((size,)), 0)._scan("max", "mode", -1, None)
    best = (positions((size,)) - run_starts).argmax(-1, True)  # the first of the longest runs, at the position of its last element
    fields = [take_along_axis(t, best) for t in (in_order, order)]
    return Mode(*[t.moveaxis(-1, axis_index) if keep else t.squeeze(-1) for t in fields])
