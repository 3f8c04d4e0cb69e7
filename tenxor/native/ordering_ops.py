"""Sorting and searching for the fast path: NumPy's C functions to sort a dtype, and descriptions of searches in generated code.

A dtype of NumPy's has C functions (`PyArray_ArrFuncs` in `ndarraytypes.h`) that sort a row, `sort(begin, count, array)`, or the positions
of its elements, `argsort(begin, places, count, array)`, with several algorithms. The functions for numbers ignore `array`. Each function is
tried first, as in `ufunc_loops.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..dtypes import SEARCHABLE_DTYPES, DType, float16, float32, float64
from .host_op_table import Array, HostOp
from .numpy_abi import explain_abi_mismatch, get_arrfuncs_address, refusal_reasons

RADIX_SORT_ELEMENTS = 64  # elements of at most 16 bits from which a radix sort is faster, NumPy's stable sort
QUICKSORT_INDEX, STABLE_SORT_INDEX = 0, 2  # NumPy's numbers of its sorting algorithms
_SORT_OFFSET, _ARGSORT_OFFSET = 33, 36  # words before these functions: 21 casts and 12 others; then one for each of three algorithms
_ALGORITHMS = {"quicksort": QUICKSORT_INDEX, "stable": STABLE_SORT_INDEX}


class OrderingOp(NamedTuple):
    """A sorting or searching operation on elements of a dtype, in the form the fast path needs.

    `stable_address` and `quick_address` are addresses of C functions, 0 for a search. `quick_address` may reorder zeros of both signs and
    change the bits of NaN. If `is_stable`, rows with zeros or NaN use `stable_address` instead. With `is_right_side`, a search returns
    positions after equal elements. A top-k selection has `selected_count` elements: the largest with `selects_largest`, otherwise the
    smallest.

    An interpolation has the heights `end_heights` beyond its points, None to continue the last height. `keys` gives a stable function
    and an element size in bytes for each key of a sort by several keys. For an interpolation, `keys` gives only the sizes, for numbers,
    points and heights.
    """

    name: str
    dtype: DType
    stable_address: int = 0
    quick_address: int = 0
    is_stable: bool = True
    is_right_side: bool = False
    selected_count: int = 0
    selects_largest: bool = False
    end_heights: tuple[float | None, float | None] = (None, None)
    keys: tuple[tuple[int, int], ...] = ()


def find_ordering_op(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> OrderingOp | None:
    """Return the description of a sorting or searching operation on operands of `dtypes`, or None if the fast path lacks it.

    `options` are the options of `op.compute`, like `kind` or `side`. Operands of several dtypes give None.
    """
    operand_dtype, *other_dtypes = dtypes
    if any([d is not operand_dtype for d in other_dtypes]):
        return None
    if op.name == "searchsorted":
        return OrderingOp(op.name, operand_dtype, is_right_side=options["side"] == "right") if operand_dtype in SEARCHABLE_DTYPES else None
    if op.name == "topk":
        return (
            OrderingOp(op.name, operand_dtype, selected_count=options["count"], selects_largest=options["largest"])
            if operand_dtype in SEARCHABLE_DTYPES
            else None
        )
    if op.name == "interp":
        return describe_interp(dtypes, options["left"], options["right"])
    if op.name not in ("sort", "argsort") or explain_abi_mismatch():
        return None
    stable, quick = _find_functions(op.name, operand_dtype)
    if not (stable and quick):
        return None
    return OrderingOp(op.name, operand_dtype, stable, quick, _ALGORITHMS[options["kind"]] == STABLE_SORT_INDEX)


def describe_interp(dtypes: Sequence[DType], left: float | None, right: float | None) -> OrderingOp | None:
    """Return the description of an interpolation; None for dtypes other than float32 and float64.

    `dtypes` are the dtypes of the numbers, the points and the heights. `left` and `right` are the results before the first and after the
    last point, None for the height of that point.
    """
    if not {float64, float32}.issuperset(dtypes):
        return None
    return OrderingOp("interp", float64, end_heights=(left, right), keys=tuple([(0, d.itemsize) for d in dtypes]))


def describe_lexsort(dtypes: Sequence[DType]) -> OrderingOp | None:
    """Return the description of a sort of positions by several keys of these dtypes, or None if a C function is missing."""
    if explain_abi_mismatch():
        return None
    keys = tuple([(_find_functions("argsort", d)[0], d.itemsize) for d in dtypes])
    return OrderingOp("lexsort", dtypes[0], keys=keys) if all([function for function, _ in keys]) else None


def describe_digitize(dtype: DType, is_right_side: bool) -> OrderingOp | None:
    """Return the description of a search among ascending or descending edges (`digitize`); None if generated code lacks the dtype.

    With `is_right_side`, an element equal to an edge belongs to the bin after the edge.
    """
    return OrderingOp("digitize", dtype, is_right_side=is_right_side) if dtype in SEARCHABLE_DTYPES else None


def find_sort_address(name: str, dtype: DType, size: int) -> int:
    """Return the address of the fastest known function that sorts `size` elements of a dtype, or their positions; 0 without a function.

    `name` is "sort" or "argsort". Positions are sorted stably.
    """
    if explain_abi_mismatch():
        return 0
    stable, quick = _find_functions(name, dtype)
    return stable if name == "argsort" or is_radix_sort_best(dtype, size) else quick


def is_radix_sort_best(dtype: DType, size: int) -> bool:
    """Return whether NumPy's stable sort, a radix sort for narrow integers, is faster than its quicksort for `size` elements."""
    return dtype.is_integer and dtype.bits <= 16 and size > RADIX_SORT_ELEMENTS


@register("C functions of sorts", "the addresses of NumPy's sorting functions, by name and dtype")
@lru_cache(maxsize=64)
def _find_functions(name: str, dtype: DType) -> tuple[int, int]:
    """Return the addresses of the stable and the quick C function for `name`, "sort" or "argsort"; both 0 if either is missing or refused.

    A function is refused if the results differ from NumPy's; `refusal_reasons` then says so. The quick function is the stable one where the
    order of equal elements shows.
    """
    table = (ctypes.c_void_p * (_ARGSORT_OFFSET + 3)).from_address(get_arrfuncs_address(dtype.numpy))
    offset = _SORT_OFFSET if name == "sort" else _ARGSORT_OFFSET
    addresses = {"stable": table[offset + STABLE_SORT_INDEX] or 0, "quicksort": table[offset + QUICKSORT_INDEX] or 0}
    if name == "argsort" or dtype.is_complex or dtype is float16:
        addresses["quicksort"] = addresses["stable"]  # otherwise the positions of equal elements would differ, or equal complex numbers
    if all(addresses.values()) and all([_matches_numpy(name, function, algorithm, dtype) for algorithm, function in addresses.items()]):
        return addresses["stable"], addresses["quicksort"]
    refusal_reasons[name] = f"what NumPy has for {dtype} is not what it does"
    return 0, 0


def _matches_numpy(name: str, function: int, algorithm: Any, dtype: DType) -> bool:
    """Return whether the C function at address `function` sorts as NumPy's `algorithm` does, for few and for many numbers.

    Some of the numbers are equal. `name` is "sort" or "argsort"; an "argsort" function is always compared with the stable algorithm.
    """
    algorithm = "stable" if name == "argsort" else algorithm
    for count in (5, 300):
        numbers = np.arange(count) * 37 % 101 - 20
        values: Array = np.abs(numbers).astype(dtype.numpy) if dtype.kind == "uint" else (numbers * 1.0).astype(dtype.numpy)
        if name == "sort":
            expected, result = np.sort(values, kind=algorithm), values.copy()
            status = _make_sort_type(2)(function)(result.ctypes.data, count, None)
        else:
            expected, result = np.argsort(values, kind=algorithm), np.arange(count)
            status = _make_sort_type(3)(function)(values.ctypes.data, result.ctypes.data, count, None)
        if status != 0 or not np.array_equal(expected, result):
            return False
    return True


def _make_sort_type(arguments: int) -> Callable[..., Any]:
    """Return the ctypes type of a C function for sorting with a status as its result, and `arguments` + 1 arguments.

    The arguments are `arguments` - 1 pointers, the element count, and an unused pointer.
    """
    pointers = [ctypes.c_void_p] * (arguments - 1)
    return ctypes.CFUNCTYPE(ctypes.c_int, *pointers, ctypes.c_int64, ctypes.c_void_p)
