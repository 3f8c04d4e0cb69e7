"""QR for the fast path by two C functions: the first factors a matrix in scratch memory, the second builds Q from the result.

Both functions are found and tried like those in `loops.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..dtypes import DType, complex64, complex128, float32, float64
from ..records import NamedTuple
from .interface import other_interface, refused
from .loops import WIDER, Loop, call, loop_of_matrices
from .table import Array, HostOp


class Factors(NamedTuple):
    """The C functions of a QR decomposition.

    `first` overwrites a matrix with R and Householder vectors, and gives the factors of the vectors. `reduced` or `complete` builds Q from
    both; `complete` is for the complete mode (`is_complete`) with more rows than columns. If `wider`, matrices in single precision are
    computed in double precision.
    """

    first: Loop
    reduced: Loop
    complete: Loop
    is_complete: bool
    wider: bool

    def letting_in(self, releases_gil: bool) -> Factors:
        """Return the functions with loops that release the GIL if `releases_gil` is True."""
        first, reduced, complete = (loop._replace(lets_in=releases_gil) for loop in self[:3])
        return self._replace(first=first, reduced=reduced, complete=complete)


def factors_of(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> Factors | None:
    """Return the QR functions for operands of these dtypes, or None for another operation, or if NumPy's functions are not as known."""
    if op.name != "qr" or other_interface():
        return None
    return _find_factors(dtypes[0], options["mode"] == "complete")


def try_all() -> None:
    """Try the functions for every dtype and mode, so that `refused` is complete."""
    for dtype in (float64, complex128, float32, complex64):
        for is_complete in (False, True):
            _find_factors(dtype, is_complete)


@lru_cache(maxsize=16)
def _find_factors(dtype: DType, is_complete: bool) -> Factors | None:
    """Return the functions for a dtype and mode, if they give NumPy's results on a few numbers, else None."""
    wide_char = WIDER.get(dtype.numpy.char, dtype.numpy.char)
    try:
        first_loop = loop_of_matrices("qr_r_raw", f"{wide_char}->{wide_char}")
        reduced, complete = (loop_of_matrices(f"qr_{name}", f"{wide_char}{wide_char}->{wide_char}") for name in ("reduced", "complete"))
    except (AttributeError, ImportError, LookupError) as error:  # NumPy has moved or changed them
        refused["qr"] = str(error)
        return None
    trials = [("reduced", reduced, (5, 3)), ("reduced", reduced, (3, 5)), ("complete", complete, (5, 3))]
    if all(
        [
            _matches_numpy(first_loop, second_loop, mode, (np.arange(15).reshape(shape) * 7 % 11 - 4.0).astype(wide_char))
            for mode, second_loop, shape in trials
        ]
    ):
        return Factors(first_loop, reduced, complete, is_complete, wide_char != dtype.numpy.char)
    refused["qr"] = "it does not give what NumPy gives"
    return None


def _matches_numpy(first_loop: Loop, second_loop: Loop, mode: Any, matrix: Array) -> bool:
    """Return whether two loops give the factors that `np.linalg.qr` gives for a matrix in this mode."""
    q, r = np.linalg.qr(matrix, mode)
    packed, reflector_factors, computed_q = matrix.copy(), np.empty(3, matrix.dtype), np.empty_like(q)
    is_done = call(first_loop, [packed], [reflector_factors]) and call(second_loop, [packed, reflector_factors], [computed_q])
    return is_done and np.array_equal(computed_q, q) and np.array_equal(np.triu(packed[: len(r)]), r)
