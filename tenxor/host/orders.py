"""What puts rows in order where they lie: NumPy's functions of C for a dtype, and how machine code of ours searches.

A dtype of NumPy's has functions (`PyArray_ArrFuncs` in `ndarraytypes.h`) that sort a row, `sort(begin, count, array)`, or the places of its
elements, `argsort(begin, places, count, array)`, in one of several ways. Those of numbers do not look at the array. Each is tried first,
as `loops.py` tries its functions.
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

SHORT = 64  # integers of up to 16 bits: for more of them one that counts is quicker, which NumPy calls stable
QUICK, STABLE = 0, 2  # NumPy's numbers of ways to sort
_SORTS, _ARGSORTS = 33, 36  # words that stand before those functions: 21 that convert, and 12 others; then one for each of three ways
SEARCHED = (float64, float32, int64, int32, uint64, uint32)  # those that machine code compares (`shortcut/code/ordering.py`)
_KINDS = {"quicksort": QUICK, "stable": STABLE}


class Order(NamedTuple):
    """How an operation, of this `name`, orders elements of a dtype: by functions of C. The `quick` one may leave zeros of both signs in any
    order and change the bits of NaN; where one `keeps` these, the `stable` one is for them. A search is `right` of what is equal;
    of the best so many are wanted, the `largest` or the smallest. A line through points has heights beyond its `ends`, or goes on as there.
    Of several `keys` each has its own stable function, and elements of so many bytes; so have numbers, points and heights.
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
    """How an operation orders elements of these dtypes; None if that is not known."""
    first, *others = dtypes
    if any([d is not first for d in others]):
        return None
    if op.name == "searchsorted":
        return Order(op.name, first, right=options["side"] == "right") if first in SEARCHED else None
    if op.name == "topk":
        return Order(op.name, first, wanted=options["count"], largest=options["largest"]) if first in SEARCHED else None
    if op.name == "interp":
        return line_through(dtypes, options["left"], options["right"])
    if op.name not in ("sort", "argsort") or other_interface():
        return None
    stable, quick = _functions(op.name, first)
    if not (stable and quick):
        return None
    return Order(op.name, first, stable, quick, _KINDS[options["kind"]] == STABLE)


def line_through(dtypes: Sequence[DType], left: float | None, right: float | None) -> Order | None:
    """How heights are found of numbers among points, all of which are floats; None for others."""
    if not {float64, float32}.issuperset(dtypes):
        return None
    return Order("interp", float64, ends=(left, right), keys=tuple([(0, d.itemsize) for d in dtypes]))


def order_by_keys(dtypes: Sequence[DType]) -> Order | None:
    """How places are ordered by several keys of these dtypes, one after the other; None if that is not known."""
    if other_interface():
        return None
    keys = tuple([(_functions("argsort", d)[0], d.itemsize) for d in dtypes])
    return Order("lexsort", dtypes[0], keys=keys) if all([function for function, _ in keys]) else None


def digits_of(dtype: DType, right: bool) -> Order | None:
    """How numbers of a dtype are looked for among edges, which ascend or descend."""
    return Order("digitize", dtype, right=right) if dtype in SEARCHED else None


def functions_to_sort(name: str, dtype: DType, size: int) -> int:
    """The function that sorts so many elements of a dtype soonest, or their places in order; 0 if there is none that is known."""
    if other_interface():
        return 0
    stable, quick = _functions(name, dtype)
    return stable if name == "argsort" or is_counted(dtype, size) else quick


def is_counted(dtype: DType, size: int) -> bool:
    """Whether the stable function is the quicker one for so many elements: it counts them."""
    return dtype.is_integer and dtype.bits <= 16 and size > SHORT


@lru_cache(maxsize=64)
def _functions(name: str, dtype: DType) -> tuple[int, int]:
    """The functions of C that sort in order, and quickly; 0 for what is not there, or gives something else than NumPy."""
    table = (ctypes.c_void_p * (_ARGSORTS + 3)).from_address(functions_of(dtype.numpy))
    at = _SORTS if name == "sort" else _ARGSORTS
    ways = {"stable": table[at + STABLE] or 0, "quicksort": table[at + QUICK] or 0}
    if name == "argsort" or dtype.is_complex or dtype is float16:
        ways["quicksort"] = ways["stable"]  # the places of what is equal are told apart, and so are complex numbers with zeros or NaN
    if all(ways.values()) and all([_is_numpys(name, function, way, dtype) for way, function in ways.items()]):
        return ways["stable"], ways["quicksort"]
    refused[name] = f"what NumPy has for {dtype} is not what it does"
    return 0, 0


def _is_numpys(name: str, function: int, way: Any, dtype: DType) -> bool:
    """Whether a function does with a few numbers, and with more, some of them equal, what NumPy does in a way of this name."""
    way = "stable" if name == "argsort" else way
    for count in (5, 300):
        numbers = np.arange(count) * 37 % 101 - 20
        given: Array = np.abs(numbers).astype(dtype.numpy) if dtype.kind == "uint" else (numbers * 1.0).astype(dtype.numpy)
        if name == "sort":
            wanted, found = np.sort(given, kind=way), given.copy()
            done = _sorting(2)(function)(found.ctypes.data, count, None)
        else:
            wanted, found = np.argsort(given, kind=way), np.arange(count)
            done = _sorting(3)(function)(given.ctypes.data, found.ctypes.data, count, None)
        if done != 0 or not np.array_equal(wanted, found):
            return False
    return True


def _sorting(arguments: int) -> Callable[..., Any]:
    pointers = [ctypes.c_void_p] * (arguments - 1)
    return ctypes.CFUNCTYPE(ctypes.c_int, *pointers, ctypes.c_int64, ctypes.c_void_p)
