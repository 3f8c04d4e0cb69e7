"""`numpy.linalg.qr`, without what is around it: two calls of LAPACK for a matrix, and what is above the diagonal."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
MOST = 1 << 14  # elements of a triangle that is remembered
_RAW, _REDUCED, _COMPLETE = [getattr(np.linalg._umath_linalg, f"qr_{name}", None) for name in ("r_raw", "reduced", "complete")]
_TYPES = {"d": ("d->d", "dd->d"), "D": ("D->D", "DD->D")}  # what NumPy computes others in, and rounds


def qr(x: Array, *, mode: str) -> tuple[Array, Array]:
    """Both factors, to the bit as NumPy's own gives them, which is asked where its parts are not where they are looked for."""
    rows, columns = x.shape[-2:]
    types, make = _TYPES.get(x.dtype.char), _COMPLETE if mode == "complete" and rows > columns else _REDUCED
    if types is None or not x.size or _RAW is None or make is None:
        q, r = np.linalg.qr(x, mode)  # type: ignore[call-overload]
        return q, r
    a = x.copy()  # which the first call writes over
    scales = _RAW(a, signature=types[0])
    q = make(a, scales, signature=types[1])
    kept = a[..., : q.shape[-1], :]
    return q, np.where(_below(*kept.shape[-2:]), kept.dtype.type(0), kept)


def _below(rows: int, columns: int) -> Array:
    """What is below the diagonal."""
    return _known_below(rows, columns) if rows * columns <= MOST else np.tri(rows, columns, -1, bool)


@lru_cache(maxsize=256)
def _known_below(rows: int, columns: int) -> Array:
    return np.tri(rows, columns, -1, bool)
