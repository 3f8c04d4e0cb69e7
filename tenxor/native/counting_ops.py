"""Descriptions of counting operations for the fast path: `bincount` and `unique`, whose result sizes depend on the values."""

from __future__ import annotations

from .._utils.records import NamedTuple
from ..dtypes import DType, float32, float64, int32, int64, uint8
from .ordering_ops import find_sort_address

COUNTABLE_DTYPES = (int64, int32, uint8)  # dtypes that generated code counts
UNIQUE_VALUES, UNIQUE_COUNTS, UNIQUE_INVERSE, UNIQUE_ALL = range(4)  # which results of `unique` are wanted


class CountingOp(NamedTuple):
    """A counting operation on elements of a dtype, in the form the fast path needs.

    The name "bincount" gives at least `min_count` counts, or sums of weights. The name "unique" has `sort_address` and
    `argsort_address`, the addresses of C functions for sorting the elements and their positions. `selected_results`, a constant
    `UNIQUE_...`, selects the results of "unique".
    """

    name: str
    dtype: DType
    min_count: int = 0
    sort_address: int = 0
    argsort_address: int = 0
    selected_results: int = UNIQUE_VALUES


def describe_bincount(dtype: DType, min_count: int) -> CountingOp | None:
    """Return the description of `bincount` with at least `min_count` counts, or None if generated code does not count the dtype."""
    return CountingOp("bincount", dtype, min_count) if dtype in COUNTABLE_DTYPES else None


def describe_unique(dtype: DType, selected_results: int, size: int) -> CountingOp | None:
    """Return the description of `unique` for `size` elements of a dtype, or None for a dtype without C functions for sorting.

    `selected_results` says which arrays `unique` returns: see the constants `UNIQUE_...`.
    """
    if not (dtype.is_integer or dtype in (float64, float32)):
        return None
    sort, argsort = (find_sort_address(name, dtype, size) for name in ("sort", "argsort"))
    return CountingOp("unique", dtype, 0, sort, argsort, selected_results) if sort and argsort else None
