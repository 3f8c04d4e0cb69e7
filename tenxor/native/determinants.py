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

from .._utils.cache_registry import register

Array = np.ndarray[Any, Any]
MIN_LAPACK_ROWS = 256  # rows: a factorization takes some milliseconds
_LAPACK_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # NumPy's type character -> LAPACK's
_LAPACK_NAMES = (  # names of LAPACK's functions in NumPy's builds, with their integer types
    *(("scipy_{}getrf_64_", ctypes.c_int64), ("{}getrf_64_", ctypes.c_int64)),
    *(("scipy_{}getrf_", ctypes.c_int32), ("{}getrf_", ctypes.c_int32)),
)
FactorMatrix = Callable[[Array], tuple[int, Array]]


def slogdet(x: Array) -> tuple[Array, Array]:
    """Return the signs of the determinants of `x`, a stack of matrices, and the logarithms of their moduli. The signs have the modulus 1 or
    0.

    A singular matrix gives the sign 0 and minus infinity.
    """
    factor = _find_lapack_factor(x.dtype.char) if x.shape[-1] >= MIN_LAPACK_ROWS else None
    if factor is None:
        result: tuple[Array, Array] = np.linalg.slogdet(x)
        return result
    real_dtype = np.finfo(x.dtype).dtype
    signs, logs = np.empty(x.shape[:-2], x.dtype), np.empty(x.shape[:-2], real_dtype)
    for key in np.ndindex(x.shape[:-2]):
        signs[key], logs[key] = _slogdet_one(factor, x[key])
    return signs, logs


def det(x: Array) -> Array:
    """Return the determinants of `x`, a stack of square matrices, as an array of the shape of the stack."""
    if x.shape[-1] < MIN_LAPACK_ROWS:
        result: Array = np.linalg.det(x)
        return result
    sign, log = slogdet(x)
    return sign * np.exp(log)


def cofactors(x: Array) -> Array:
    """Return the cofactors of each matrix of a stack, in the shape of `x`: the derivatives of the determinant by the elements.

    This is the determinant times the transposed inverse, or the limit of this product for a singular matrix.
    """
    try:
        with np.errstate(all="ignore"):
            result: Array = det(x)[..., None, None] * np.linalg.inv(x).swapaxes(-2, -1)
        return result
    except np.linalg.LinAlgError:
        if x.ndim > 2:
            return np.stack([cofactors(matrix) for matrix in x])
    left, values, right = np.linalg.svd(x)
    products = [np.prod(np.delete(values, k)) for k in range(len(values))]
    return np.asarray(np.linalg.det(left) * np.linalg.det(right) * np.conj(left * np.asarray(products, values.dtype) @ right), x.dtype)


def cofactor_cotangents(x: Array, g: Array) -> Array:
    """Return the cotangents of the matrices `x`, given the cotangents `g` of their cofactors. The matrices may be singular.

    These are the second derivatives of determinants. In the coordinates of the singular vectors a matrix is diagonal, `s`. To first order
    in a change `d`, the cofactors change by `sum(p[i, j] * d[j, j])` on the diagonal and by `-p[i, j] * d[j, i]` off the diagonal. Here
    `p[i, j]` is the product of every `s` except two.
    """
    left, values, right = np.linalg.svd(x)
    phase = np.linalg.det(left) * np.linalg.det(right)
    inner = np.conj(phase)[..., None, None] * (left.swapaxes(-2, -1) @ g @ right.swapaxes(-2, -1))
    products = _products_without_two(values)
    cotangents = -products * inner.swapaxes(-2, -1)
    diagonal = np.arange(values.shape[-1])
    cotangents[..., diagonal, diagonal] = (products @ inner.diagonal(0, -2, -1)[..., None])[..., 0]
    return np.asarray(left @ cotangents @ right, x.dtype)


def _products_without_two(values: Array) -> Array:
    """Return a matrix for each row of `values`: at `[i, j]` the product of every number but numbers `i` and `j`, 0 for `i == j`."""
    size = values.shape[-1]
    is_later = np.triu(np.ones((size, size), bool), 1)
    unit_column = np.ones((*values.shape[:-1], 1), values.dtype)
    prefix = np.cumprod(np.concatenate([unit_column, values[..., :-1]], -1), -1)  # products of the numbers before each
    suffix = np.cumprod(np.concatenate([unit_column, values[..., :0:-1]], -1), -1)[..., ::-1]
    between = np.cumprod(np.where(is_later, values[..., None, :], 1), -1)  # products of the numbers between two
    between = np.concatenate([np.broadcast_to(unit_column[..., None], (*values.shape, 1)), between[..., :-1]], -1)
    upper = np.where(is_later, prefix[..., :, None] * between * suffix[..., None, :], 0)
    return np.asarray(upper + upper.swapaxes(-2, -1))


def _slogdet_one(factor: FactorMatrix, x: Array) -> tuple[Any, Any]:
    """Return the sign of the determinant of a single matrix, and the logarithm of the modulus: 0 and minus infinity for a singular matrix.

    `factor` is the result of `_find_lapack_factor` for the dtype of `x`.
    """
    exchange_count, diagonal = factor(x)
    moduli = np.abs(diagonal)
    if not moduli.all():  # a zero on the diagonal; NaN is passed on
        return 0.0, -np.inf
    units = diagonal / moduli if x.dtype.kind == "c" else np.where(diagonal < 0, -1.0, 1.0)
    return np.prod(units) * (-1.0 if exchange_count % 2 else 1.0), np.log(moduli).sum()


@register("factorisations of LAPACK", "a C function, by precision")
@cache
def _find_lapack_factor(char: str) -> FactorMatrix | None:
    """Return a function to factor a matrix of the dtype `char` (NumPy's type character) by LAPACK: the result of `_wrap_lapack`.

    Return None if LAPACK cannot be called directly, or gives wrong factors for a small matrix.
    """
    try:
        library = ctypes.CDLL(np.linalg._umath_linalg.__file__)
        for name, integer in _LAPACK_NAMES:
            function = getattr(library, name.format(_LAPACK_LETTERS[char]), None)
            if function is not None:
                factor = _wrap_lapack(function, integer)
                exchange_count, diagonal = factor(np.array([[1, 2], [4, 4]], char))
                return factor if exchange_count == 1 and diagonal.tolist() == [2, 2] else None
    except (AttributeError, OSError):  # NumPy has moved it, or the system cannot load it
        pass
    return None


def _wrap_lapack(function: Any, integer: Any) -> FactorMatrix:
    """Return a function to factor a square matrix by `function`: LAPACK's `getrf`, with integers of the ctypes type `integer`.

    The function leaves the matrix unchanged. It returns the number of row exchanges, and the diagonal of the upper triangular factor.
    """

    def factor(x: Array) -> tuple[int, Array]:
        memory = np.array(x, order="C")  # LAPACK reads this as the transpose, whose determinant is the same
        n, failed = integer(len(x)), integer(0)
        rows = np.empty(len(x), np.dtype(integer))
        matrix_arguments = (ctypes.byref(n), ctypes.byref(n), memory.ctypes.data_as(ctypes.c_void_p), ctypes.byref(n))
        function(*matrix_arguments, rows.ctypes.data_as(ctypes.c_void_p), ctypes.byref(failed))
        return int(np.count_nonzero(rows != np.arange(1, len(x) + 1))), memory.diagonal()

    return factor
