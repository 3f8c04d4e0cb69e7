"""Machine code of ours (`shortcut/code/searching.py`, `finding.py`) that does what NumPy does, called where elements lie, without
Python's lock.

It is there once the short way is; before, and without it, NumPy does the same.
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

functions: dict[str, int] = {}  # by name, where each begins
_WORDS = {"search": 8, "interpolate": 13, "distinct": 2, "put": 3}  # arguments, of which those in `_FLOATS` are numbers
_FLOATS = {"interpolate": (10, 12)}
_FLOATING = {"f": "float", "d": "double"}
Ends = tuple[float | None, float | None]


def searches(dtype: DType) -> bool:
    """Whether numbers of a dtype are looked for by machine code."""
    return f"search_{dtype}" in functions


def by_machine(op: HostOp, arrays: Sequence[Array], outs: Sequence[Array], options: Mapping[str, Any]) -> bool:
    """Whether it was done by machine code."""
    if not functions or op.name not in ("searchsorted", "interp"):
        return False
    if op.name == "searchsorted":
        ordered, wanted = arrays
        name = f"search_{ordered.dtype.name}"
        more: Sequence[Any] = [int(options["side"] == "right")]
    else:
        wanted, ordered, heights = arrays
        name, more = "interpolate", [*_lies(heights)[::2], *words_of_ends((options["left"], options["right"]))]
    (out,) = outs
    step = one_step(wanted.shape, wanted.strides)
    if name not in functions or wanted.dtype != ordered.dtype or step is None or not wanted.size or not ordered.size:
        return False
    if not out.flags.c_contiguous:
        return False
    first, _, _ = _lies(wanted)
    return bool(_function(functions[name], name.split("_")[0])(*_lies(ordered), first, wanted.size, step, _lies(out)[0], *more))


def each_once(x: Array, memory: Callable[[int], Array]) -> bool:
    """Whether each element of an array was put once, ascending, into the `memory` of a result of so many: without a copy of that, and
    compared some at a time.
    """
    name = _FLOATING.get(x.dtype.char, "" if x.dtype.kind in "fc" else f"i{8 * x.itemsize}")
    if not x.size or f"distinct_{name}" not in functions:
        return False
    ordered = np.sort(x)
    start, count, _ = _lies(ordered)
    to = memory(_function(functions[f"distinct_{name}"], "distinct")(start, count))
    _function(functions[f"put_{name}"], "put")(start, count, _lies(to)[0])
    return True


def _lies(x: Array) -> tuple[int, int, int]:
    """Where an array begins, how many elements it has, and how far these are apart if it has one axis."""
    return x.__array_interface__["data"][0], x.size, x.strides[-1] if x.ndim else 0


def words_of_ends(ends: Ends) -> list[Any]:
    """Of either end whether there is a height, and which."""
    return [word for end in ends for word in (int(end is not None), float(end or 0))]


def bits_of(number: float) -> int:
    """The bits of a float as an integer."""
    return int(struct.unpack("=q", struct.pack("=d", number))[0])


@cache
def _function(address: int, name: str) -> Callable[..., int]:
    floats = _FLOATS.get(name, ())
    kinds = [ctypes.c_double if k in floats else ctypes.c_void_p for k in range(_WORDS[name])]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(address)
