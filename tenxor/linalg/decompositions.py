"""Decompositions of matrices into products of simpler matrices, and eigenvalues."""

from __future__ import annotations

from typing import Any

from ..creation import arange
from ..functions.into import as_dtype
from ..functions.selecting import take_along_axis
from ..functions.sorting import argsort
from ..ops import OPS
from ..records import NamedTuple
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import one_of, truth
from ..tensor.core import Operand
from .arguments import computed, matrices, result_of, square
from .lapack import hosted


class Eigen(NamedTuple):
    """The `eigenvalues` of each matrix, and its `eigenvectors` as columns in the same order."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class LU(NamedTuple):
    """`P`, a permutation of rows; `L`, unit lower triangular; and `U`, upper triangular."""

    P: Tensor
    L: Tensor
    U: Tensor


class QR(NamedTuple):
    """`Q`, with orthonormal columns, and `R`, upper triangular."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """`U`, with orthonormal columns; the singular values `S`, descending; and `Vh`, with orthonormal rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@called_again
def cholesky(x: Operand, /, *, upper: bool = False) -> Tensor:
    """New tensor of `x`'s shape: lower triangular matrices `L` with `L @ L.mT.conj()` equal to `x`, or with `upper` the upper triangular
    `L.mT.conj()`.

    Each matrix must be symmetric or Hermitian, and positive definite; only the requested triangle is read. Raises ShapeError, and
    LinearAlgebraError for a matrix that is not positive definite. (Array API 2025.12, `linalg.cholesky`.)

    >>> import tenxor as tx
    >>> tx.linalg.cholesky(tx.asarray([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    x = square("cholesky", x)
    factor = hosted("cholesky", computed(x), upper=truth("cholesky", "upper", upper))[0]
    return as_dtype(factor, result_of(x.dtype))


@called_again
def eig(x: Operand, /) -> Eigen:
    """New complex tensors, as `eigenvalues` of shape `(..., n)`, and `eigenvectors` of `x`'s shape: a column `v` of the latter, with its
    eigenvalue, satisfies `x @ v == v * value`.

    The columns have length 1; the order is LAPACK's. For symmetric and Hermitian matrices `eigh` is faster and more accurate. Raises
    ShapeError, and LinearAlgebraError for NaN and infinities. (Array API 2025.12, `linalg.eig`.)

    >>> import tenxor as tx
    >>> tx.linalg.eig(tx.asarray([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    return Eigen(*hosted("eig", computed(square("eig", x))))


@called_again
def eigvals(x: Operand, /) -> Tensor:
    """New complex tensor of shape `(..., n)`: the eigenvalues of each matrix, in LAPACK's order.

    Raises ShapeError, and LinearAlgebraError for NaN and infinities. (Array API 2025.12, `linalg.eigvals`.)

    >>> import tenxor as tx
    >>> tx.linalg.eigvals(tx.asarray([[2.0, 1.0], [0.0, 3.0]])).tolist()
    [(2+0j), (3+0j)]
    """
    return hosted("eigvals", computed(square("eigvals", x)))[0]


@called_again
def eigh(x: Operand, /, UPLO: str = "L") -> Eigen:
    """New tensors, as `eigenvalues`, real and ascending, of shape `(..., n)`, and `eigenvectors`, orthonormal columns, of `x`'s shape and
    dtype.

    Each matrix must be symmetric or Hermitian; only the lower triangle is read, or the upper one for `UPLO="U"`. Raises ShapeError,
    ArgumentError, and LinearAlgebraError if LAPACK does not converge. (Array API 2025.12, `linalg.eigh`.)

    >>> import tenxor as tx
    >>> tx.linalg.eigh(tx.asarray([[2.0, 1.0], [1.0, 2.0]])).eigenvalues.tolist()
    [1.0, 3.0]
    """
    x = _hermitian("eigh", x, UPLO)
    values, vectors = hosted("eigh", computed(x))
    dtype = result_of(x.dtype)
    return Eigen(as_dtype(values, dtype.part), as_dtype(vectors, dtype))


@called_again
def eigvalsh(x: Operand, /, UPLO: str = "L") -> Tensor:
    """New real tensor of shape `(..., n)`: the eigenvalues of symmetric or Hermitian matrices, ascending.

    Only the lower triangle is read, or the upper one for `UPLO="U"`. Raises ShapeError, ArgumentError, and LinearAlgebraError if LAPACK
    does not converge. (Array API 2025.12, `linalg.eigvalsh`.)

    >>> import tenxor as tx
    >>> tx.linalg.eigvalsh(tx.asarray([[2.0, 1j], [-1j, 2.0]])).tolist()
    [1.0, 3.0]
    """
    x = _hermitian("eigvalsh", x, UPLO)
    return as_dtype(hosted("eigvalsh", computed(x))[0], result_of(x.dtype).part)


def _hermitian(op: str, x: Any, triangle: str) -> Tensor:
    """Return Hermitian matrices, given by the triangle "L" or "U", as matrices of which the lower triangle is valid."""
    lower = one_of(op, "UPLO", triangle.upper() if isinstance(triangle, str) else triangle, "L", "U") == "L"
    x = square(op, x)
    hermitian: Tensor = x if lower else x.mT.conj()
    return hermitian


@called_again
def lu(x: Operand, /) -> LU:
    """New tensors, as `P`, `L` and `U` with `P @ L @ U` equal to `x`: the LU factorization with partial pivoting.

    For matrices of `m` rows and `n` columns, with `k` the smaller of the two, `P` is a permutation of shape `(m, m)`, `L` is unit lower
    triangular of shape `(m, k)`, and `U` is upper triangular of shape `(k, n)`. Singular matrices have factors too, but no derivative.
    Raises ShapeError. (SciPy, `linalg.lu`; PyTorch, `linalg.lu`.)

    >>> import tenxor as tx
    >>> p, l, u = tx.linalg.lu(tx.asarray([[1.0, 2.0], [4.0, 6.0]]))
    >>> l.tolist(), u.tolist()
    ([[1.0, 0.0], [0.25, 1.0]], [[4.0, 6.0], [0.0, 0.5]])
    >>> (p @ l @ u).tolist()
    [[1.0, 2.0], [4.0, 6.0]]
    """
    x = matrices("lu", x)
    rows = x.shape[-2]
    lower, upper, order = hosted("lu", computed(x), sizes={"k": min(x.shape[-2:])})
    dtype = result_of(x.dtype)
    permutation = order.expand_dims(-2) == arange(rows).expand_dims(-1)
    return LU(permutation.astype(dtype), as_dtype(lower, dtype), as_dtype(upper, dtype))


@called_again
def qr(x: Operand, /, mode: str = "reduced") -> QR:
    """New tensors, as `Q`, with orthonormal columns, and `R`, upper triangular, with `Q @ R` equal to `x`.

    For matrices of `m` rows and `n` columns the shapes are `(m, k)` and `(k, n)`, with `k` the smaller of the two, or for `mode="complete"`
    `(m, m)` and `(m, n)`. Raises ShapeError and ArgumentError. (Array API 2025.12, `linalg.qr`.)

    >>> import tenxor as tx
    >>> q, r = tx.linalg.qr(tx.asarray([[3.0, 1.0], [4.0, 2.0]]))
    >>> (q @ r).round().tolist()
    [[3.0, 1.0], [4.0, 2.0]]
    """
    mode = one_of("qr", "mode", mode, "reduced", "complete")
    x = matrices("qr", x)
    rows, columns = x.shape[-2:]
    factors = hosted("qr", computed(x), sizes={"p": rows if mode == "complete" else min(rows, columns)}, mode=mode)
    return QR(*[as_dtype(t, result_of(x.dtype)) for t in factors])


@called_again
def svd(x: Operand, /, full_matrices: bool = True, *, hermitian: bool = False) -> SVD:
    """New tensors, as `U`, `S` and `Vh`: `(U * S) @ Vh` equals `x`, for the first `k` columns of `U` and rows of `Vh`.

    The columns of `U` and the rows of `Vh` are orthonormal; `S` is real and descending. For matrices of `m` rows and `n` columns, with `k`
    the smaller of the two, the shapes are `(m, m)`, `(k,)` and `(n, n)`, or without `full_matrices` `(m, k)`, `(k,)` and `(k, n)`. With
    `hermitian`, matrices must be symmetric or Hermitian, and only the lower triangle is read: `eigh` then finds the result faster. Raises
    ShapeError, and LinearAlgebraError for NaN and infinities. (Array API 2025.12, `linalg.svd`.)

    >>> import tenxor as tx
    >>> tx.linalg.svd(tx.asarray([[0.0, 3.0], [4.0, 0.0]])).S.tolist()
    [4.0, 3.0]
    """
    full = truth("svd", "full_matrices", full_matrices)
    if truth("svd", "hermitian", hermitian):
        return _svd_of_hermitian("svd", x)
    x = matrices("svd", x)
    rows, columns = x.shape[-2:]
    k = min(rows, columns)
    sizes = {"k": k, "p": rows if full else k, "q": columns if full else k}
    u, s, vh = hosted("svd", computed(x), sizes=sizes, full_matrices=full)
    dtype = result_of(x.dtype)
    return SVD(as_dtype(u, dtype), as_dtype(s, dtype.part), as_dtype(vh, dtype))


def _svd_of_hermitian(op: str, x: Any) -> SVD:
    """Return the singular value decomposition of Hermitian matrices.

    Singular values are the absolute eigenvalues, in descending order; signs of negative eigenvalues go into `Vh`.
    """
    values, vectors = eigh(square(op, x))
    order = argsort(abs(values), descending=True)
    values, u = take_along_axis(values, order), take_along_axis(vectors, order.expand_dims(-2))
    signs = Tensor._compute(OPS["where"], values < 0, -1.0, 1.0).astype(values.dtype, copy=False)
    return SVD(u, abs(values), (u * signs.expand_dims(-2)).mT.conj())


@called_again
def svdvals(x: Operand, /) -> Tensor:
    """New real tensor of shape `(..., k)`, with `k` the smaller side: the singular values of each matrix, descending.

    Raises ShapeError, and LinearAlgebraError for NaN and infinities. (Array API 2025.12, `linalg.svdvals`.)

    >>> import tenxor as tx
    >>> tx.linalg.svdvals(tx.asarray([[0.0, 3.0], [4.0, 0.0]])).tolist()
    [4.0, 3.0]
    """
    x = matrices("svdvals", x)
    values = hosted("svdvals", computed(x), sizes={"k": min(x.shape[-2:])})[0]
    return as_dtype(values, result_of(x.dtype).part)
