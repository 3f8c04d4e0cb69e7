"""QR by two functions of C, one after the other: the first makes of a matrix in memory apart what the second makes the orthonormal one of.

They are found, and tried, as others in `loops.py` are.
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
    """How a matrix becomes a product: `first` overwrites it with a triangle, and what is to become of the rest, and tells numbers; another
    takes both and gives the matrix beside the triangle: `reduced`, or where it `is_complete` and there are more rows than columns the
    `complete` one. If they are `wider`, they compute in double precision what is in single precision.
    """

    first: Loop
    reduced: Loop
    complete: Loop
    is_complete: bool
    wider: bool

    def letting_in(self, others: bool) -> Factors:
        """The same, whose loops let other threads of Python's in."""
        first, reduced, complete = (loop._replace(lets_in=others) for loop in self[:3])
        return self._replace(first=first, reduced=reduced, complete=complete)


def factors_of(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> Factors | None:
    """How matrices are factored; None for another operation, or where what NumPy does is not known."""
    if op.name != "qr" or other_interface():
        return None
    return _found(dtypes[0], options["mode"] == "complete")


def try_all() -> None:
    """Try all of it, so that `refused` tells."""
    for dtype in (float64, complex128, float32, complex64):
        for is_complete in (False, True):
            _found(dtype, is_complete)


@lru_cache(maxsize=16)
def _found(dtype: DType, is_complete: bool) -> Factors | None:
    """The functions for a dtype, if they give of a few numbers what NumPy gives."""
    wide = WIDER.get(dtype.numpy.char, dtype.numpy.char)
    try:
        first = loop_of_matrices("qr_r_raw", f"{wide}->{wide}")
        reduced, complete = (loop_of_matrices(f"qr_{name}", f"{wide}{wide}->{wide}") for name in ("reduced", "complete"))
    except (AttributeError, ImportError, LookupError) as error:  # NumPy has moved them, or has them otherwise
        refused["qr"] = str(error)
        return None
    tried = [("reduced", reduced, (5, 3)), ("reduced", reduced, (3, 5)), ("complete", complete, (5, 3))]
    if all([_is_numpys(first, second, mode, (np.arange(15).reshape(shape) * 7 % 11 - 4.0).astype(wide)) for mode, second, shape in tried]):
        return Factors(first, reduced, complete, is_complete, wide != dtype.numpy.char)
    refused["qr"] = "it does not give what NumPy gives"
    return None


def _is_numpys(first: Loop, second: Loop, mode: Any, given: Array) -> bool:
    """Whether these give the factors that NumPy gives."""
    q, r = np.linalg.qr(given, mode)
    own, more, found = given.copy(), np.empty(3, given.dtype), np.empty_like(q)
    done = call(first, [own], [more]) and call(second, [own, more], [found])
    return done and np.array_equal(found, q) and np.array_equal(np.triu(own[: len(r)]), r)
