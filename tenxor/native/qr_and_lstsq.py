"""QR and least squares by the inner loops of NumPy's functions, without the Python code around them.

NumPy's `qr` and `lstsq` check arguments and convert results for three times as long as a small matrix takes, and `lstsq` takes only one
matrix. If an inner loop is not as known here, NumPy's own functions are called. The fast path does without both (`qr_direct_call.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, wraps
from typing import Any

import numpy as np

from .._utils.cache_registry import register

Array = np.ndarray[Any, Any]
MAX_MASK_ELEMENTS = 1 << 14  # maximal elements of a cached triangular mask
_DOUBLE_CHARS = {"f": "d", "d": "d", "F": "D", "D": "D"}  # the precision of the computation, as in NumPy


def qr(x: Array, *, mode: str, out: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
    """Return the QR decomposition of `x`, a stack of matrices: Q with orthonormal columns and upper triangular R.

    `mode` is "complete" or "reduced". With `out`, write Q and R into these two arrays and return `out`. Without `out`, new arrays are
    returned, in double precision if the inner loops of NumPy are known.
    """
    rows, columns = x.shape[-2:]
    size = rows if mode == "complete" else min(rows, columns)
    factor, make = _find_loop("qr_r_raw"), _find_loop("qr_complete" if mode == "complete" and rows > columns else "qr_reduced")
    if factor is None or make is None or not x.size:
        factors = np.linalg.qr(x, "complete" if mode == "complete" else "reduced")
        if out is None:
            return factors
        for target, array in zip(out, factors, strict=True):
            np.copyto(target, array)
        return out
    computed_char = _DOUBLE_CHARS[x.dtype.char]
    packed: Array = x.astype(computed_char, "C")  # becomes R and the Householder vectors below
    with np.errstate(all="ignore"):
        reflector_factors = factor(packed, signature=f"{computed_char}->{computed_char}")
        q = make(
            packed,
            reflector_factors,
            signature=f"{computed_char}{computed_char}->{computed_char}",
            out=None if out is None or out[0].dtype.char != computed_char else out[0],
        )
        if out is None:
            return q, np.where(_upper_mask(size, columns), packed[..., :size, :], 0)
        if q is not out[0]:
            np.copyto(out[0], q, casting="same_kind")
        _copy_upper(out[1], packed[..., :size, :])
    return out


def _copy_upper(out: Array, x: Array) -> None:
    """Copy the upper triangles of the matrices `x` into `out`, with zeros below the diagonal; the shapes are equal.

    In double precision this is a bitwise "and" with a mask, which takes less than half the time if the mask is cached.
    """
    rows, columns = out.shape[-2:]
    if out.dtype != x.dtype or not out.flags.c_contiguous or rows * columns > MAX_MASK_ELEMENTS:
        out.fill(0)
        np.copyto(out, x, casting="same_kind", where=_upper_mask(rows, columns))
    else:
        np.bitwise_and(x.view(np.int64), _upper_bits(rows, columns, out.itemsize // 8), out=out.view(np.int64))


def _cache_small_masks(make: Callable[..., Array]) -> Callable[..., Array]:
    """Decorate `make`, a function of rows, columns and more ints, so that results of at most `MAX_MASK_ELEMENTS` elements are cached."""
    name = f"masks by {make.__name__.strip('_')}"
    cached_make = register(name, "a mask of an upper triangle, by rows and columns")(lru_cache(maxsize=256)(make))

    @wraps(make)
    def make_mask(rows: int, columns: int, *extra: int) -> Array:
        return (cached_make if rows * columns <= MAX_MASK_ELEMENTS else make)(rows, columns, *extra)

    return make_mask


@_cache_small_masks
def _upper_mask(rows: int, columns: int) -> Array:
    """Return a boolean matrix of shape `(rows, columns)`, True on the diagonal and above. Callers must not write to the matrix."""
    return ~np.tri(rows, columns, -1, bool)


@_cache_small_masks
def _upper_bits(rows: int, columns: int, words: int) -> Array:
    """Return a mask of the upper triangle, diagonal included, as `words` 64-bit integers per element: every bit set inside, 0 outside.

    The shape is `(rows, columns * words)`. Callers must not write to the mask.
    """
    return np.repeat(-_upper_mask(rows, columns).astype(np.int64), words, axis=-1)


def lstsq(a: Array, b: Array, *, rcond: float) -> tuple[Array, Array, Array, Array]:
    """Return least-squares solutions, sums of squared residuals, ranks and singular values, for a stack of systems `a @ x = b`.

    Unlike in NumPy, residuals are also returned for deficient ranks, and for fewer rows than columns. Singular values up to `rcond` times
    the largest count as 0. With NumPy's inner loop, the results are in double precision. Raise LinAlgError if LAPACK does not converge.
    """
    rows, columns = a.shape[-2:]
    computed_char, loop = _DOUBLE_CHARS[a.dtype.char], _find_loop("lstsq")
    if loop is None:
        return _solve_one_by_one(a, b, rcond)
    with np.errstate(all="ignore"):
        x, residuals, ranks, s = loop(a, b, rcond, signature=f"{computed_char}{computed_char}d->{computed_char}did")
        if np.isnan(s).any():
            raise np.linalg.LinAlgError("SVD did not converge in Linear Least Squares")
        if rows < columns or (ranks != columns).any():  # LAPACK gives no residuals in these cases
            residuals = _sum_residuals(a, b, x)
    return x, residuals, ranks, s


def _sum_residuals(a: Array, b: Array, x: Array) -> Array:
    """Return the sums of squared residuals of the solutions `x` of `a @ x = b`, for each system and each column of `b`."""
    errors = a.astype(x.dtype, copy=False) @ x - b
    sums: Array = (errors * errors.conj()).real.sum(-2)
    return sums


def _solve_one_by_one(a: Array, b: Array, rcond: float) -> tuple[Array, Array, Array, Array]:
    """Return the results of `lstsq` for the same arguments `a`, `b` and `rcond`, computed by NumPy's own function, matrix by matrix."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    solutions = [np.linalg.lstsq(a[key], b[key], rcond) for key in np.ndindex(*batch)]
    x, ranks, s = (np.array([solution[k] for solution in solutions]).reshape((*batch, *np.shape(solutions[0][k]))) for k in (0, 2, 3))
    return x, _sum_residuals(a, b, x), ranks, s


@register("ufuncs of linalg", "an inner ufunc of NumPy, by name")
@cache
def _find_loop(name: str) -> Any:
    """Return an inner generalized ufunc of NumPy's `linalg` by name; None without a ufunc of the signature in `_SIGNATURES`."""
    ufunc = getattr(np.linalg._umath_linalg, name, None)
    return ufunc if getattr(ufunc, "signature", None) == _SIGNATURES.get(name) else None


_SIGNATURES = {
    "qr_r_raw": "(m,n)->(p)",
    "qr_reduced": "(m,n),(k)->(m,k)",
    "qr_complete": "(m,n),(n)->(m,m)",
    "lstsq": "(m,n),(m,nrhs),()->(n,nrhs),(nrhs),(),(p)",
}
