"""Descriptions of counting operations for the fast path: `bincount` and `unique`, whose result sizes depend on the values."""

from __future__ import annotations

from ..dtypes import DType, float32, float64, int32, int64, uint8
from ..records import NamedTuple
from .orders import functions_to_sort

COUNTED = (int64, int32, uint8)  # dtypes that generated code counts
VALUES, COUNTS, INVERSE, ALL = range(4)  # which results of `unique` are wanted


class Count(NamedTuple):
    """A counting operation on elements of a dtype, in the form the fast path needs.

    The name "bincount" gives at least `least` counts, or sums of weights. The name "unique" has `sort` and `argsort`, the addresses of C
    functions for sorting the elements and their positions, and `wanted` selects the results.
    """

    name: str
    dtype: DType
    least: int = 0
    sort: int = 0
    argsort: int = 0
    wanted: int = VALUES


def counts_of(dtype: DType, min_count: int) -> Count | None:
    """Return the description of `bincount` with at least `min_count` counts, or None if generated code does not count the dtype."""
    return Count("bincount", dtype, min_count) if dtype in COUNTED else None


def each_once(dtype: DType, wanted: int, size: int) -> Count | None:
    """Return the description of `unique` for `size` elements of a dtype, or None if no C functions are known to sort them."""
    if not (dtype.is_integer or dtype in (float64, float32)):
        return None
    sort, argsort = (functions_to_sort(name, dtype, size) for name in ("sort", "argsort"))
    return Count("unique", dtype, 0, sort, argsort, wanted) if sort and argsort else None
