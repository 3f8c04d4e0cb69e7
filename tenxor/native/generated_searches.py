"""Calls of generated code (`fastpath/emit/binary_search.py`, `fastpath/emit/bincount_unique.py`) in place of NumPy's searches, without
the GIL and without copies.

The functions exist once the fast path is built. Before, and without the fast path, NumPy computes the same results.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from .._utils import upcalls
from .._utils.cache_registry import register
from ..dtypes import SEARCHABLE_DTYPES, DType
from ..layout.coords import find_constant_step
from .host_op_table import Array, HostOp

_ARGUMENT_COUNTS = {
    "search": 8,
    "interpolate": 13,
    "count_distinct": 2,
    "store_distinct": 3,
}  # number of arguments; those in `_FLOAT_ARGUMENTS` are floats
_FLOAT_ARGUMENTS = {"interpolate": (10, 12)}
_FLOAT_NAMES = {"f": "float", "d": "double"}
EndHeights = tuple[float | None, float | None]


def can_search(dtype: DType) -> bool:
    """Return whether generated code can search among numbers of a dtype; False while the fast path is not built."""
    return upcalls.installed is not None and dtype in SEARCHABLE_DTYPES


def _find_address(name: str) -> int | None:
    """Return the address of the generated function `name`, such as "search_float64"; None for an unknown name, or without the fast path."""
    functions = upcalls.installed
    return None if functions is None else functions.numpy_substitutes.get(name)


def try_generated_code(op: HostOp, arrays: Sequence[Array], outs: Sequence[Array], options: Mapping[str, Any]) -> bool:
    """Try to compute the operation `op` by generated code, and return whether this was possible.

    Only `searchsorted` and `interp` are computed. The result must be contiguous. The queries must be at a constant step in memory, and have
    the dtype of the sorted operand; neither may be empty. `arrays` and `options` are the arguments of `HostOp.compute`. The result goes
    into `outs`, a single array. If the function returns False, NumPy must compute the result.
    """
    if op.name not in ("searchsorted", "interp"):
        return False
    if op.name == "searchsorted":
        ordered, queries = arrays
        name = f"search_{ordered.dtype.name}"
        extra_arguments: Sequence[Any] = [int(options["side"] == "right")]
    else:
        queries, ordered, heights = arrays
        name, extra_arguments = "interpolate", [*_describe_memory(heights)[::2], *encode_ends((options["left"], options["right"]))]
    (out,) = outs
    step = find_constant_step(queries.shape, queries.strides)
    address = _find_address(name)
    if address is None or queries.dtype != ordered.dtype or step is None or not queries.size or not ordered.size:
        return False
    if not out.flags.c_contiguous:
        return False
    query_address, _, _ = _describe_memory(queries)
    return bool(
        _make_function(address, name.split("_")[0])(
            *_describe_memory(ordered), query_address, queries.size, step, _describe_memory(out)[0], *extra_arguments
        )
    )


def write_distinct(x: Array, allocate_result: Callable[[int], Array]) -> bool:
    """Try to write the distinct elements of the array `x`, ascending, by generated code, and return whether this was possible.

    `allocate_result(count)` must return an array for the result, written without a further copy. If the function returns False, as for
    empty or complex arrays or without the fast path, `allocate_result` is not called.
    """
    name = _FLOAT_NAMES.get(x.dtype.char, "" if x.dtype.kind in "fc" else f"i{8 * x.itemsize}")
    count_address, write_address = _find_address(f"count_distinct_{name}"), _find_address(f"store_distinct_{name}")
    if not x.size or count_address is None or write_address is None:
        return False
    ordered = np.sort(x)
    start, count, _ = _describe_memory(ordered)
    result = allocate_result(_make_function(count_address, "count_distinct")(start, count))
    _make_function(write_address, "store_distinct")(start, count, _describe_memory(result)[0])
    return True


def _describe_memory(x: Array) -> tuple[int, int, int]:
    """Return the address of the array `x`, the number of elements, and the step along the last axis in bytes (0 for a scalar)."""
    return x.__array_interface__["data"][0], x.size, x.strides[-1] if x.ndim else 0


def encode_ends(ends: EndHeights) -> list[Any]:
    """Return four words, arguments of a generated function, for `ends`, the values of an interpolation below and above all points.

    For each of the two there are an int and a float: 1 and the value, or 0 and 0.0 for None, which stands for the value at the nearest
    point.
    """
    return [word for end in ends for word in (int(end is not None), float(end or 0))]


def float_to_bits(number: float) -> int:
    """Return the bits of `number`, a double, as a signed 64-bit integer."""
    return int(struct.unpack("=q", struct.pack("=d", number))[0])


@register("generated searches", "a callable search function of the fast path, by address")
@cache
def _make_function(address: int, name: str) -> Callable[..., int]:
    """Return the generated function at `address` as a ctypes function with a 64-bit integer as the result; calls release the GIL.

    `name` is a key of `_ARGUMENT_COUNTS`, for example "search".
    """
    floats = _FLOAT_ARGUMENTS.get(name, ())
    argument_types = [ctypes.c_double if k in floats else ctypes.c_void_p for k in range(_ARGUMENT_COUNTS[name])]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *argument_types)(address)
