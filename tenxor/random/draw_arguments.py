"""Arguments of random draws: checks of numbers, dtypes and rows, and the indices from which elements are computed."""

from __future__ import annotations

from functools import cache
from math import inf, isfinite, prod
from numbers import Real
from operator import index as as_int
from typing import Any

import numpy as np

from .._utils.cache_registry import register
from ..api.creation import asarray, make_flat_indices, memoized_creation
from ..codegen import compiled_kernels
from ..dtypes import DEFAULT_FLOAT, DType, uint64
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..tensor import Tensor

# elements whose indices are kept in memory; below `HELD_BYTES_SMALL_RESULT`, so that readers may remain pending
MAX_CACHED_INDICES = 1 << 8


def get_flat_indices(shape: tuple[int, ...]) -> Tensor:
    """Return a uint64 tensor of `shape` with the flat index of each element, which must not be written to.

    Up to `MAX_CACHED_INDICES` indices are a view of memory shared by all calls, as planning would take longer than drawing. More are
    pending.
    """
    count = prod(shape)
    if count > MAX_CACHED_INDICES:
        return _make_flat_indices(shape)
    indices = _get_cached_indices()[:count]
    return indices if len(shape) == 1 else indices.reshape(shape)


@memoized_creation
def _make_flat_indices(shape: tuple[int, ...]) -> Tensor:
    """Return a pending uint64 tensor of `shape` with the flat index of each element."""
    return make_flat_indices(shape).astype(uint64)


@register("indices of draws", "the positions that random numbers are computed from", depends_on=(compiled_kernels,))
@cache
def _get_cached_indices() -> Tensor:
    """Return the integers below `MAX_CACHED_INDICES` as a uint64 tensor in memory, created once."""
    return asarray(np.arange(MAX_CACHED_INDICES, dtype=np.uint64)).copy()


def check_float_dtype(op: str, dtype: object) -> DType:
    """Return the dtype of a draw, float64 for None. Raise DTypeError, beginning with `op`, unless it is float32 or float64."""
    d = dtype_of(DEFAULT_FLOAT if dtype is None else dtype)
    if d.kind != "float" or d.bits < 32:
        raise DTypeError(f"{op}: dtype is {d}; it must be float32 or float64; cast the result with astype")
    return d


def to_float(op: str, name: str, value: Any) -> float:
    """Return `value`, the argument `name` of `op`, as a float. Raise ArgumentError unless `value` is a finite real number."""
    if type(value) is float and isfinite(value):
        return value
    try:
        number = float(value) if isinstance(value, Real) else inf
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise ArgumentError(
            f"{op}: {name} must be one finite number, not {describe_value(value)}; sizes come after the numbers, or as shape="
        )
    return number


def to_integer(op: str, name: str, value: Any) -> int:
    """Return `value`, the argument `name` of `op`, as an int. Raise ArgumentError unless `value` is an integer."""
    try:
        return as_int(value)
    except TypeError:
        raise ArgumentError(f"{op}: {name} must be an integer, not {describe_value(value)}") from None


def split_rows(op: str, x: Any) -> tuple[int, Tensor | None]:
    """Return the number of rows of `x`, a tensor or array-like, and `x` as a tensor. For an integer `x`, return `x` itself and None.

    Raise ShapeError, beginning with `op`, for a negative integer and a 0-d tensor.
    """
    if isinstance(x, (Tensor, np.ndarray)) or not hasattr(type(x), "__index__"):
        rows = asarray(x)
        if rows.ndim == 0:
            raise ShapeError(f"{op}: a 0-d tensor has no rows; give an int or a tensor with at least one axis")
        return rows.shape[0], rows
    count = as_int(x)
    if count < 0:
        raise ShapeError(f"{op}: {count} is a negative number of rows; it must be 0 or more")
    return count, None
