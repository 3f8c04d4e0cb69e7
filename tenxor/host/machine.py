"""Calls of generated code (`shortcut/code/searching.py`, `finding.py`) in place of NumPy's searches, without the GIL and without copies.

The functions exist once the fast path is built. Before, and without the fast path, NumPy computes the same results.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..dtypes import DType
from .loops import one_step
from .table import Array, HostOp

functions: dict[str, int] = {}  # name -> address
_ARGUMENT_COUNTS = {"search": 8, "interpolate": 13, "distinct": 2, "put": 3}  # number of arguments; those in `_FLOAT_ARGUMENTS` are floats
_FLOAT_ARGUMENTS = {"interpolate": (10, 12)}
_FLOAT_NAMES = {"f": "float", "d": "double"}
Ends = tuple[float | None, float | None]


def searches(dtype: DType) -> bool:
    """Return whether generated code searches among numbers of a dtype."""
    return f"search_{dtype}" in functions


def by_machine(op: HostOp, arrays: Sequence[Array], outs: Sequence[Array], options: Mapping[str, Any]) -> bool:
    """Try to compute an operation by generated code, and return whether this was possible.

    Only `searchsorted` and `interp` with contiguous results are computed. The arguments are as in `HostOp.call`; the result goes into
    `outs`.
    """
    if not functions or op.name not in ("searchsorted", "interp"):
        return False
    if op.name == "searchsorted":
        ordered, queries = arrays
        name = f"search_{ordered.dtype.name}"
        extra_arguments: Sequence[Any] = [int(options["side"] == "right")]
    else:
        queries, ordered, heights = arrays
        name, extra_arguments = "interpolate", [*_describe_memory(heights)[::2], *words_of_ends((options["left"], options["right"]))]
    (out,) = outs
    step = one_step(queries.shape, queries.strides)
    if name not in functions or queries.dtype != ordered.dtype or step is None or not queries.size or not ordered.size:
        return False
    if not out.flags.c_contiguous:
        return False
    query_address, _, _ = _describe_memory(queries)
    return bool(
        _make_function(functions[name], name.split("_")[0])(
            *_describe_memory(ordered), query_address, queries.size, step, _describe_memory(out)[0], *extra_arguments
        )
    )


def each_once(x: Array, memory: Callable[[int], Array]) -> bool:
    """Try to write the distinct elements of an array, ascending, by generated code, and return whether this was possible.

    `memory(count)` must return an array for the result, which is written without a further copy.
    """
    name = _FLOAT_NAMES.get(x.dtype.char, "" if x.dtype.kind in "fc" else f"i{8 * x.itemsize}")
    if not x.size or f"distinct_{name}" not in functions:
        return False
    ordered = np.sort(x)
    start, count, _ = _describe_memory(ordered)
    result = memory(_make_function(functions[f"distinct_{name}"], "distinct")(start, count))
    _make_function(functions[f"put_{name}"], "put")(start, count, _describe_memory(result)[0])
    return True


def _describe_memory(x: Array) -> tuple[int, int, int]:
    """Return the address of an array, the number of elements, and the step along the last axis in bytes (0 for a scalar)."""
    return x.__array_interface__["data"][0], x.size, x.strides[-1] if x.ndim else 0


def words_of_ends(ends: Ends) -> list[Any]:
    """Return, for both ends of an interpolation, whether a height is given (0 or 1), and the height."""
    return [word for end in ends for word in (int(end is not None), float(end or 0))]


def bits_of(number: float) -> int:
    """Return the bits of a float as an integer."""
    return int(struct.unpack("=q", struct.pack("=d", number))[0])


@cache
def _make_function(address: int, name: str) -> Callable[..., int]:
    """Return a generated function as a ctypes function."""
    floats = _FLOAT_ARGUMENTS.get(name, ())
    argument_types = [ctypes.c_double if k in floats else ctypes.c_void_p for k in range(_ARGUMENT_COUNTS[name])]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *argument_types)(address)
