"""Sorting and searching for the fast path: NumPy's C functions to sort a dtype, and descriptions of searches in generated code.

A dtype of NumPy's has C functions (`PyArray_ArrFuncs` in `ndarraytypes.h`) that sort a row, `sort(begin, count, array)`, or the positions
of its elements, `argsort(begin, places, count, array)`, with several algorithms. The functions for numbers ignore `array`. Each function is
tried first, as in `loops.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..dtypes import DType, float16, float32, float64, int32, int64, uint32, uint64
from ..records import NamedTuple
from .interface import functions_of, other_interface, refused
from .table import Array, HostOp

RADIX_SORT_ELEMENTS = 64  # elements of at most 16 bits from which a radix sort is faster, NumPy's stable sort
QUICK, STABLE = 0, 2  # NumPy's numbers of its sorting algorithms
_SORT_OFFSET, _ARGSORT_OFFSET = 33, 36  # words before these functions: 21 casts and 12 others; then one for each of three algorithms
SEARCHED = (float64, float32, int64, int32, uint64, uint32)  # dtypes that generated code compares (`shortcut/code/ordering.py`)
_ALGORITHMS = {"quicksort": QUICK, "stable": STABLE}


class Order(NamedTuple):
    """A sorting or searching operation on elements of a dtype, in the form the fast path needs.

    `stable` and `quick` are addresses of C functions. `quick` may reorder zeros of both signs and change the bits of NaN; if the operation
    `keeps` such elements as they are, rows containing them use `stable`. `right` makes a search return positions after equal elements. A
    top-k selection has `wanted` elements, the `largest` or the smallest.

    An interpolation has the heights `ends` beyond its points, None to continue the last height. `keys` gives a stable function and an
    element size in bytes for each key of a sort by several keys. For an interpolation, `keys` gives only the sizes, for numbers, points and
    heights.
    """

    name: str
    dtype: DType
    stable: int = 0
    quick: int = 0
    keeps: bool = True
    right: bool = False
    wanted: int = 0
    largest: bool = False
    ends: tuple[float | None, float | None] = (None, None)
    keys: tuple[tuple[int, int], ...] = ()


def order_of(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> Order | None:
    """Return the description of a sorting or searching operation on operands of the given dtypes, or None if the fast path lacks it."""
    operand_dtype, *other_dtypes = dtypes
    if any([d is not operand_dtype for d in other_dtypes]):
        return None
    if op.name == "searchsorted":
        return Order(op.name, operand_dtype, right=options["side"] == "right") if operand_dtype in SEARCHED else None
    if op.name == "topk":
        return Order(op.name, operand_dtype, wanted=options["count"], largest=options["largest"]) if operand_dtype in SEARCHED else None
    if op.name == "interp":
        return line_through(dtypes, options["left"], options["right"])
    if op.name not in ("sort", "argsort") or other_interface():
        return None
    stable, quick = _find_functions(op.name, operand_dtype)
    if not (stable and quick):
        return None
    return Order(op.name, operand_dtype, stable, quick, _ALGORITHMS[options["kind"]] == STABLE)


def line_through(dtypes: Sequence[DType], left: float | None, right: float | None) -> Order | None:
    """Return the description of an interpolation of floats, with heights `left` and `right` beyond the points; None for other dtypes."""
    if not {float64, float32}.issuperset(dtypes):
        return None
    return Order("interp", float64, ends=(left, right), keys=tuple([(0, d.itemsize) for d in dtypes]))


def order_by_keys(dtypes: Sequence[DType]) -> Order | None:
    """Return the description of a sort of positions by several keys of these dtypes, or None if a C function is missing."""
    if other_interface():
        return None
    keys = tuple([(_find_functions("argsort", d)[0], d.itemsize) for d in dtypes])
    return Order("lexsort", dtypes[0], keys=keys) if all([function for function, _ in keys]) else None


def digits_of(dtype: DType, right: bool) -> Order | None:
    """Return the description of a search among ascending or descending edges (`digitize`); None if generated code lacks the dtype."""
    return Order("digitize", dtype, right=right) if dtype in SEARCHED else None


def functions_to_sort(name: str, dtype: DType, size: int) -> int:
    """Return the address of the fastest known function that sorts `size` elements of a dtype, or their positions; 0 without a function.

    `name` is "sort" or "argsort".
    """
    if other_interface():
        return 0
    stable, quick = _find_functions(name, dtype)
    return stable if name == "argsort" or is_counted(dtype, size) else quick


def is_counted(dtype: DType, size: int) -> bool:
    """Return whether the stable sort is the faster one for `size` elements, because it counts elements instead of comparing them."""
    return dtype.is_integer and dtype.bits <= 16 and size > RADIX_SORT_ELEMENTS


@lru_cache(maxsize=64)
def _find_functions(name: str, dtype: DType) -> tuple[int, int]:
    """Return the addresses of the stable and the quick C function, each 0 if it is missing or differs from NumPy."""
    table = (ctypes.c_void_p * (_ARGSORT_OFFSET + 3)).from_address(functions_of(dtype.numpy))
    offset = _SORT_OFFSET if name == "sort" else _ARGSORT_OFFSET
    addresses = {"stable": table[offset + STABLE] or 0, "quicksort": table[offset + QUICK] or 0}
    if name == "argsort" or dtype.is_complex or dtype is float16:
        addresses["quicksort"] = addresses["stable"]  # otherwise the positions of equal elements would differ, or equal complex numbers
    if all(addresses.values()) and all([_matches_numpy(name, function, algorithm, dtype) for algorithm, function in addresses.items()]):
        return addresses["stable"], addresses["quicksort"]
    refused[name] = f"what NumPy has for {dtype} is not what it does"
    return 0, 0


def _matches_numpy(name: str, function: int, algorithm: Any, dtype: DType) -> bool:
    """Return whether a function gives NumPy's result of `algorithm` for few and for many numbers, with equal ones among them."""
    algorithm = "stable" if name == "argsort" else algorithm
    for count in (5, 300):
        numbers = np.arange(count) * 37 % 101 - 20
        values: Array = np.abs(numbers).astype(dtype.numpy) if dtype.kind == "uint" else (numbers * 1.0).astype(dtype.numpy)
        if name == "sort":
            expected, result = np.sort(values, kind=algorithm), values.copy()
            status = _sort_type(2)(function)(result.ctypes.data, count, None)
        else:
            expected, result = np.argsort(values, kind=algorithm), np.arange(count)
            status = _sort_type(3)(function)(values.ctypes.data, result.ctypes.data, count, None)
        if status != 0 or not np.array_equal(expected, result):
            return False
    return True


def _sort_type(arguments: int) -> Callable[..., Any]:
    """Return the ctypes type of a C function that sorts, with this number of arguments before the last."""
    pointers = [ctypes.c_void_p] * (arguments - 1)
    return ctypes.CFUNCTYPE(ctypes.c_int, *pointers, ctypes.c_int64, ctypes.c_void_p)
