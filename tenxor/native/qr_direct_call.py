"""QR for the fast path by two C functions: the first factors a matrix in scratch memory, the second builds Q from the result.

Both functions are found and tried like those in `ufunc_loops.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..dtypes import DType, complex64, complex128, float32, float64
from .host_op_table import Array, HostOp
from .numpy_abi import explain_abi_mismatch, refusal_reasons
from .ufunc_loops import WIDER_CHARS, UfuncLoop, call_loop, find_linalg_loop


class QrFunctions(NamedTuple):
    """The C functions of a QR decomposition.

    `factor_loop` overwrites a matrix with R and Householder vectors, and gives the factors of the vectors. `reduced_loop` or
    `complete_loop` builds Q from the vectors and their factors; `complete_loop` is for the complete mode (`is_complete`) with more rows
    than columns. If `is_widened`, matrices in single precision are computed in double precision.
    """

    factor_loop: UfuncLoop
    reduced_loop: UfuncLoop
    complete_loop: UfuncLoop
    is_complete: bool
    is_widened: bool

    def with_gil_released(self, releases_gil: bool) -> QrFunctions:
        """Return a copy whose three loops have the field `releases_gil` set to `releases_gil`.

        For True the fast path releases the GIL for the calls, and for False it holds the GIL.
        """
        factor, reduced, complete = (loop._replace(releases_gil=releases_gil) for loop in self[:3])
        return self._replace(factor_loop=factor, reduced_loop=reduced, complete_loop=complete)


def find_qr_functions(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> QrFunctions | None:
    """Return the QR functions for the operation `op` on matrices of dtype `dtypes[0]`, and the mode `options["mode"]`.

    Return None for operations other than "qr", or if NumPy's functions are missing or give different results.
    """
    if op.name != "qr" or explain_abi_mismatch():
        return None
    return _find_verified_qr(dtypes[0], options["mode"] == "complete")


def try_qr_functions() -> None:
    """Find the QR functions for every dtype and mode, and compare their results with NumPy's; put the reason of a refusal into
    `refusal_reasons`.
    """
    for dtype in (float64, complex128, float32, complex64):
        for is_complete in (False, True):
            _find_verified_qr(dtype, is_complete)


@register("C functions of qr", "the C functions of a QR decomposition that passed a test, by dtype")
@lru_cache(maxsize=16)
def _find_verified_qr(dtype: DType, is_complete: bool) -> QrFunctions | None:
    """Return the functions for a dtype and mode; None if they are missing or differ from NumPy on a few numbers.

    `is_complete` stands for the mode "complete", otherwise "reduced". For None, `refusal_reasons` tells the reason.
    """
    wide_char = WIDER_CHARS.get(dtype.numpy.char, dtype.numpy.char)
    try:
        first_loop = find_linalg_loop("qr_r_raw", f"{wide_char}->{wide_char}")
        reduced, complete = (find_linalg_loop(f"qr_{name}", f"{wide_char}{wide_char}->{wide_char}") for name in ("reduced", "complete"))
    except (AttributeError, ImportError, LookupError) as error:  # NumPy has moved or changed them
        refusal_reasons["qr"] = str(error)
        return None
    trials = [("reduced", reduced, (5, 3)), ("reduced", reduced, (3, 5)), ("complete", complete, (5, 3))]
    if all(
        [
            _matches_numpy(first_loop, second_loop, mode, (np.arange(15).reshape(shape) * 7 % 11 - 4.0).astype(wide_char))
            for mode, second_loop, shape in trials
        ]
    ):
        return QrFunctions(first_loop, reduced, complete, is_complete, wide_char != dtype.numpy.char)
    refusal_reasons["qr"] = "it does not give what NumPy gives"
    return None


def _matches_numpy(first_loop: UfuncLoop, second_loop: UfuncLoop, mode: Any, matrix: Array) -> bool:
    """Return whether two loops give the factors of `numpy.linalg.qr` for `matrix` in `mode`, "reduced" or "complete".

    `first_loop` factors the matrix, and `second_loop` builds Q for the mode.
    """
    q, r = np.linalg.qr(matrix, mode)
    packed, reflector_factors, computed_q = matrix.copy(), np.empty(3, matrix.dtype), np.empty_like(q)
    is_done = call_loop(first_loop, [packed], [reflector_factors]) and call_loop(second_loop, [packed, reflector_factors], [computed_q])
    return is_done and np.array_equal(computed_q, q) and np.array_equal(np.triu(packed[: len(r)]), r)
