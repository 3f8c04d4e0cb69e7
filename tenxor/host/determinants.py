"""Determinants of large matrices and their derivatives, by direct calls of NumPy's LAPACK.

NumPy releases the GIL in `det` and `slogdet` only for 500 matrices or more in a call, of any size, because it counts results. While NumPy
factors a large matrix, no other thread runs, and no signal is delivered. A call through ctypes releases the GIL. If NumPy's LAPACK has no
known name, or gives wrong results for a small matrix, NumPy's functions are used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LARGE = 256  # rows: a factorization takes some milliseconds
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # NumPy's type character -> LAPACK's
_NAMES = (  # names of LAPACK's functions in NumPy's builds, with their integer types
    *(("scipy_{}getrf_64_", ctypes.c_int64), ("{}getrf_64_", ctypes.c_int64)),
    *(("scipy_{}getrf_", ctypes.c_int32), ("{}getrf_", ctypes.c_int32)),
)
Factor = Callable[[Array], tuple[int, Array]]


def slogdet(x: Array) -> tuple[Array, Array]:
    """Return the signs of determinants, of modulus 1 or 0, and the logarithms of their moduli."""
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
    """Return the determinants of a stack of matrices."""
    if x.shape[-1] < LARGE:
        found: Array = np.linalg.det(x)
        return found
    sign, log = slogdet(x)
    return sign * np.exp(log)


def cofactors(x: Array) -> Array:
    """Return the gradients of determinants: the determinant times the transposed inverse, or the limit of this for singular matrices."""
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
    """Return the cotangents of matrices, given those of their cofactors: second derivatives of determinants, singular matrices included.

    In the coordinates of the singular vectors a matrix is diagonal, `s`. To first order in a change `d`, its cofactors change by `sum(p[i,
    j] * d[j, j])` on the diagonal and by `-p[i, j] * d[j, i]` off the diagonal. Here `p[i, j]` is the product of all `s` except two.
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
    """Return the products of a row's numbers except two, for each pair of different positions; 0 on the diagonal."""
    size = values.shape[-1]
    later = np.triu(np.ones((size, size), bool), 1)
    ones = np.ones((*values.shape[:-1], 1), values.dtype)
    before = np.cumprod(np.concatenate([ones, values[..., :-1]], -1), -1)  # products of the numbers before each
    behind = np.cumprod(np.concatenate([ones, values[..., :0:-1]], -1), -1)[..., ::-1]
    between = np.cumprod(np.where(later, values[..., None, :], 1), -1)  # products of the numbers between two
    between = np.concatenate([np.broadcast_to(ones[..., None], (*values.shape, 1)), between[..., :-1]], -1)
    upper = np.where(later, before[..., :, None] * between * behind[..., None, :], 0)
    return np.asarray(upper + upper.swapaxes(-2, -1))


def _of_one(factor: Factor, x: Array) -> tuple[Any, Any]:
    """Return the sign of the determinant of a matrix, and the logarithm of the modulus."""
    turned, diagonal = factor(x)
    sizes = np.abs(diagonal)
    if not sizes.all():  # a zero on the diagonal; NaN is passed on
        return 0.0, -np.inf
    units = diagonal / sizes if x.dtype.kind == "c" else np.where(diagonal < 0, -1.0, 1.0)
    return np.prod(units) * (-1.0 if turned % 2 else 1.0), np.log(sizes).sum()


@cache
def _factor(char: str) -> Factor | None:
    """Return a function that factors a matrix of a dtype by LAPACK, or None if LAPACK cannot be called directly."""
    try:
        library = ctypes.CDLL(np.linalg._umath_linalg.__file__)
        for name, integer in _NAMES:
            own = getattr(library, name.format(_LETTERS[char]), None)
            if own is not None:
                factor = _called(own, integer)
                turned, diagonal = factor(np.array([[1, 2], [4, 4]], char))
                return factor if turned == 1 and diagonal.tolist() == [2, 2] else None
    except (AttributeError, OSError):  # NumPy has moved it, or the system cannot load it
        pass
    return None


def _called(own: Any, integer: Any) -> Factor:
    """Wrap LAPACK's function: return a function that gives the number of row exchanges and the diagonal of the upper triangle."""

    def factor(x: Array) -> tuple[int, Array]:
        memory = np.array(x, order="C")  # LAPACK reads this as the transpose, whose determinant is the same
        n, failed = integer(len(x)), integer(0)
        rows = np.empty(len(x), np.dtype(integer))
        given = (ctypes.byref(n), ctypes.byref(n), memory.ctypes.data_as(ctypes.c_void_p), ctypes.byref(n))
        own(*given, rows.ctypes.data_as(ctypes.c_void_p), ctypes.byref(failed))
        return int(np.count_nonzero(rows != np.arange(1, len(x) + 1))), memory.diagonal()

    return factor
