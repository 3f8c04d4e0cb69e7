"""Determinants of large matrices, by the LAPACK that NumPy has brought, and their derivatives.

NumPy lets go of Python's lock in `det` and `slogdet` only for 500 matrices or more in one call, whatever their size: it counts results.
While one large matrix is factored, no other thread runs, and nobody hears a signal. A call through ctypes lets go of it. Where NumPy's
LAPACK has no name that is known here, or does not give what it should of a small matrix, NumPy does it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LARGE = 256  # rows: some milliseconds
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # LAPACK's, by NumPy's
_NAMES = (  # what NumPy's builds call its functions, and their integers
    *(("scipy_{}getrf_64_", ctypes.c_int64), ("{}getrf_64_", ctypes.c_int64)),
    *(("scipy_{}getrf_", ctypes.c_int32), ("{}getrf_", ctypes.c_int32)),
)
Factor = Callable[[Array], tuple[int, Array]]


def slogdet(x: Array) -> tuple[Array, Array]:
    """The signs of determinants, of modulus 1 or 0, and the logarithms of their moduli."""
    factor = _factor(x.dtype.char) if x.shape[-1] >= LARGE else None
    if factor is None:
        found: tuple[Array, Array] = np.linalg.slogdet(x)
        return found
    part = np.finfo(x.dtype).dtype
    signs, logs = np.empty(x.shape[:-2], x.dtype), np.empty(x.shape[:-2], part)
    for key in np.ndindex(x.shape[:-2]):
        signs[key], logs[key] = _of_one(factor, x[key])
    return signs, logs


def det(x: Array) -> Array:
    """The determinants."""
    if x.shape[-1] < LARGE:
        found: Array = np.linalg.det(x)
        return found
    sign, log = slogdet(x)
    return sign * np.exp(log)


def cofactors(x: Array) -> Array:
    """What determinants change by with each element: the determinant times the transposed inverse, and where there is no inverse what
    that comes to.
    """
    try:
        with np.errstate(all="ignore"):
            found: Array = det(x)[..., None, None] * np.linalg.inv(x).swapaxes(-2, -1)
        return found
    except np.linalg.LinAlgError:
        if x.ndim > 2:
            return np.stack([cofactors(each) for each in x])
    left, values, right = np.linalg.svd(x)
    others = [np.prod(np.delete(values, k)) for k in range(len(values))]
    return np.asarray(np.linalg.det(left) * np.linalg.det(right) * np.conj(left * np.asarray(others, values.dtype) @ right), x.dtype)


def cofactor_cotangents(x: Array, g: Array) -> Array:
    """The cotangents of matrices, given those of their cofactors: second derivatives of determinants, where there is no inverse, too.

    In the coordinates of singular vectors a matrix is its diagonal `s`, and its cofactors change, to the first order in a change `d`, by
    `sum(p[i, j] * d[j, j])` on the diagonal and `-p[i, j] * d[j, i]` off it, where `p[i, j]` is the product of all `s` but two.
    """
    left, values, right = np.linalg.svd(x)
    turn = np.linalg.det(left) * np.linalg.det(right)
    inner = np.conj(turn)[..., None, None] * (left.swapaxes(-2, -1) @ g @ right.swapaxes(-2, -1))
    others = _but_two(values)
    own = -others * inner.swapaxes(-2, -1)
    each = np.arange(values.shape[-1])
    own[..., each, each] = (others @ inner.diagonal(0, -2, -1)[..., None])[..., 0]
    return np.asarray(left @ own @ right, x.dtype)


def _but_two(values: Array) -> Array:
    """The products of all numbers of a row but two, for each pair of different ones; 0 on the diagonal."""
    size = values.shape[-1]
    later = np.triu(np.ones((size, size), bool), 1)
    ones = np.ones((*values.shape[:-1], 1), values.dtype)
    before = np.cumprod(np.concatenate([ones, values[..., :-1]], -1), -1)  # of all before each
    behind = np.cumprod(np.concatenate([ones, values[..., :0:-1]], -1), -1)[..., ::-1]
    between = np.cumprod(np.where(later, values[..., None, :], 1), -1)  # of all behind one, up to another
    between = np.concatenate([np.broadcast_to(ones[..., None], (*values.shape, 1)), between[..., :-1]], -1)
    upper = np.where(later, before[..., :, None] * between * behind[..., None, :], 0)
    return np.asarray(upper + upper.swapaxes(-2, -1))


def _of_one(factor: Factor, x: Array) -> tuple[Any, Any]:
    turned, diagonal = factor(x)
    sizes = np.abs(diagonal)
    if not sizes.all():  # where one is 0; NaN goes on
        return 0.0, -np.inf
    units = diagonal / sizes if x.dtype.kind == "c" else np.where(diagonal < 0, -1.0, 1.0)
    return np.prod(units) * (-1.0 if turned % 2 else 1.0), np.log(sizes).sum()


@cache
def _factor(char: str) -> Factor | None:
    """How matrices of a dtype are factored; None where only NumPy knows."""
    try:
        library = ctypes.CDLL(np.linalg._umath_linalg.__file__)
        for name, integer in _NAMES:
            own = getattr(library, name.format(_LETTERS[char]), None)
            if own is not None:
                factor = _called(own, integer)
                turned, diagonal = factor(np.array([[1, 2], [4, 4]], char))
                return factor if turned == 1 and diagonal.tolist() == [2, 2] else None
    except (AttributeError, OSError):  # NumPy has moved it, or the system loads no such library
        pass
    return None


def _called(own: Any, integer: Any) -> Factor:
    """LAPACK's function as one that gives how many rows were exchanged, and the diagonal of the upper triangle."""

    def factor(x: Array) -> tuple[int, Array]:
        memory = np.array(x, order="C")  # which LAPACK reads as the transpose: of the same determinant
        n, failed = integer(len(x)), integer(0)
        rows = np.empty(len(x), np.dtype(integer))
        given = (ctypes.byref(n), ctypes.byref(n), memory.ctypes.data_as(ctypes.c_void_p), ctypes.byref(n))
        own(*given, rows.ctypes.data_as(ctypes.c_void_p), ctypes.byref(failed))
        return int(np.count_nonzero(rows != np.arange(1, len(x) + 1))), memory.diagonal()

    return factor
