"""Decompositions of matrices into products of simpler matrices, and eigenvalues."""

from __future__ import annotations

from typing import Any

from .._utils.records import NamedTuple
from ..api.creation import arange
from ..api.gather_functions import take_along_axis
from ..api.output_arguments import cast_to
from ..api.sorting import argsort
from ..graph.spec import memoized_call
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, check_flag
from ..tensor.core import Operand
from .arguments import as_lapack_dtype, as_matrices, as_square_matrices, result_dtype
from .register_vjps import call_host_op


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


@memoized_call
def cholesky(x: Operand, /, *, upper: bool = False) -> Tensor:
    """Return the Cholesky factor of each symmetric or Hermitian, positive definite matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., n, n)`. Only the requested triangle is read.
    upper : bool, default False
        Return the upper triangular factor instead of the lower one.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`: lower triangular matrices `L` with `L @ L.mT.conj()` equal to `x`, or with `upper` the
        upper triangular `L.mT.conj()`. Integers and bools give float64.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinearAlgebraError
        If a matrix is not positive definite.

    References
    ----------
    Array API 2025.12, `linalg.cholesky`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.cholesky(tx.asarray([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    x = as_square_matrices("cholesky", x)
    factor = call_host_op("cholesky", as_lapack_dtype(x), upper=check_flag("upper", upper))[0]
    return cast_to(factor, result_dtype(x.dtype))


@memoized_call
def eig(x: Operand, /) -> Eigen:
    """Return the eigenvalues and eigenvectors of each square matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., n, n)`. For symmetric and Hermitian matrices `eigh` is faster and more accurate.

    Returns
    -------
    eigenvalues : Tensor
        New complex tensor of shape `(..., n)`, in LAPACK's order.
    eigenvectors : Tensor
        New complex tensor of the shape of `x`. A column `v`, with its eigenvalue, satisfies `x @ v == v * value`. Columns have length 1.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinearAlgebraError
        If a matrix has NaN or infinities.

    References
    ----------
    Array API 2025.12, `linalg.eig`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.eig(tx.asarray([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    return Eigen(*call_host_op("eig", as_lapack_dtype(as_square_matrices("eig", x))))


@memoized_call
def eigvals(x: Operand, /) -> Tensor:
    """Return the eigenvalues of each square matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., n, n)`.

    Returns
    -------
    Tensor
        New complex tensor of shape `(..., n)`, in LAPACK's order.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinearAlgebraError
        If a matrix has NaN or infinities.

    References
    ----------
    Array API 2025.12, `linalg.eigvals`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.eigvals(tx.asarray([[2.0, 1.0], [0.0, 3.0]])).tolist()
    [(2+0j), (3+0j)]
    """
    return call_host_op("eigvals", as_lapack_dtype(as_square_matrices("eigvals", x)))[0]


@memoized_call
def eigh(x: Operand, /, UPLO: str = "L") -> Eigen:
    """Return the eigenvalues and eigenvectors of each symmetric or Hermitian matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., n, n)`. Only one triangle is read.
    UPLO : {"L", "U"}, default "L"
        The triangle that is read: the lower or the upper one.

    Returns
    -------
    eigenvalues : Tensor
        New real tensor of shape `(..., n)`, ascending.
    eigenvectors : Tensor
        New tensor of the shape and dtype of `x`, with orthonormal columns. Integers and bools become float64.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    ArgumentError
        If `UPLO` is neither "L" nor "U".
    LinearAlgebraError
        If LAPACK does not converge.

    References
    ----------
    Array API 2025.12, `linalg.eigh`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.eigh(tx.asarray([[2.0, 1.0], [1.0, 2.0]])).eigenvalues.tolist()
    [1.0, 3.0]
    """
    x = _hermitian("eigh", x, UPLO)
    values, vectors = call_host_op("eigh", as_lapack_dtype(x))
    dtype = result_dtype(x.dtype)
    return Eigen(cast_to(values, dtype.part), cast_to(vectors, dtype))


@memoized_call
def eigvalsh(x: Operand, /, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of each symmetric or Hermitian matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., n, n)`. Only one triangle is read.
    UPLO : {"L", "U"}, default "L"
        The triangle that is read: the lower or the upper one.

    Returns
    -------
    Tensor
        New real tensor of shape `(..., n)`, ascending.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    ArgumentError
        If `UPLO` is neither "L" nor "U".
    LinearAlgebraError
        If LAPACK does not converge.

    References
    ----------
    Array API 2025.12, `linalg.eigvalsh`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.eigvalsh(tx.asarray([[2.0, 1j], [-1j, 2.0]])).tolist()
    [1.0, 3.0]
    """
    x = _hermitian("eigvalsh", x, UPLO)
    return cast_to(call_host_op("eigvalsh", as_lapack_dtype(x))[0], result_dtype(x.dtype).part)


def _hermitian(op: str, x: Any, triangle: str) -> Tensor:
    """Return `x`, Hermitian matrices with a valid `triangle` "L" or "U", as matrices of which the lower triangle is valid.

    Raise MatrixShapeError, beginning with `op`, if the matrices are not square, and ArgumentError for another `triangle`.
    """
    lower = check_choice(op, "UPLO", triangle.upper() if isinstance(triangle, str) else triangle, "L", "U") == "L"
    x = as_square_matrices(op, x)
    hermitian: Tensor = x if lower else x.mT.conj()
    return hermitian


@memoized_call
def lu(x: Operand, /) -> LU:
    """Return the LU factorization of each matrix, with partial pivoting.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`; `k` is the smaller of `m` and `n`. Singular matrices have factors too, but no derivative.

    Returns
    -------
    P : Tensor
        New tensor of shape `(..., m, m)`: a permutation of rows. `P @ L @ U` equals `x`.
    L : Tensor
        New tensor of shape `(..., m, k)`: unit lower triangular.
    U : Tensor
        New tensor of shape `(..., k, n)`: upper triangular.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.

    References
    ----------
    SciPy, `linalg.lu`; PyTorch, `linalg.lu`.

    Examples
    --------
    >>> import tenxor as tx
    >>> p, l, u = tx.linalg.lu(tx.asarray([[1.0, 2.0], [4.0, 6.0]]))
    >>> l.tolist(), u.tolist()
    ([[1.0, 0.0], [0.25, 1.0]], [[4.0, 6.0], [0.0, 0.5]])
    >>> (p @ l @ u).tolist()
    [[1.0, 2.0], [4.0, 6.0]]
    """
    x = as_matrices("lu", x)
    rows = x.shape[-2]
    lower, upper, order = call_host_op("lu", as_lapack_dtype(x), sizes={"k": min(x.shape[-2:])})
    dtype = result_dtype(x.dtype)
    permutation = order.expand_dims(-2) == arange(rows).expand_dims(-1)
    return LU(permutation.astype(dtype), cast_to(lower, dtype), cast_to(upper, dtype))


@memoized_call
def qr(x: Operand, /, mode: str = "reduced") -> QR:
    """Return the QR factorization of each matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`; `k` is the smaller of `m` and `n`.
    mode : {"reduced", "complete"}, default "reduced"
        The shapes of the factors.

    Returns
    -------
    Q : Tensor
        New tensor with orthonormal columns, of shape `(..., m, k)`, or `(..., m, m)` if complete. `Q @ R` equals `x`.
    R : Tensor
        New upper triangular tensor, of shape `(..., k, n)`, or `(..., m, n)` if complete.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    ArgumentError
        If `mode` is unknown.

    References
    ----------
    Array API 2025.12, `linalg.qr`.

    Examples
    --------
    >>> import tenxor as tx
    >>> q, r = tx.linalg.qr(tx.asarray([[3.0, 1.0], [4.0, 2.0]]))
    >>> (q @ r).round().tolist()
    [[3.0, 1.0], [4.0, 2.0]]
    """
    mode = check_choice("qr", "mode", mode, "reduced", "complete")
    x = as_matrices("qr", x)
    rows, columns = x.shape[-2:]
    factors = call_host_op("qr", as_lapack_dtype(x), sizes={"p": rows if mode == "complete" else min(rows, columns)}, mode=mode)
    return QR(*[cast_to(t, result_dtype(x.dtype)) for t in factors])


@memoized_call
def svd(x: Operand, /, full_matrices: bool = True, *, hermitian: bool = False) -> SVD:
    """Return the singular value decomposition of each matrix.

    For the first `k` columns of `U` and rows of `Vh`, `(U * S) @ Vh` equals `x`.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`; `k` is the smaller of `m` and `n`.
    full_matrices : bool, default True
        Return square matrices `U` and `Vh`.
    hermitian : bool, default False
        The matrices are symmetric or Hermitian, and only the lower triangle is read. `eigh` then finds the result faster.

    Returns
    -------
    U : Tensor
        New tensor with orthonormal columns, of shape `(..., m, m)`, or `(..., m, k)` without `full_matrices`.
    S : Tensor
        New real tensor of shape `(..., k)`: the singular values, descending.
    Vh : Tensor
        New tensor with orthonormal rows, of shape `(..., n, n)`, or `(..., k, n)` without `full_matrices`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or if `hermitian` matrices are not square.
    LinearAlgebraError
        If LAPACK does not converge, as with NaN.

    References
    ----------
    Array API 2025.12, `linalg.svd`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.svd(tx.asarray([[0.0, 3.0], [4.0, 0.0]])).S.tolist()
    [4.0, 3.0]
    """
    full = check_flag("full_matrices", full_matrices)
    if check_flag("hermitian", hermitian):
        return _svd_of_hermitian("svd", x)
    x = as_matrices("svd", x)
    rows, columns = x.shape[-2:]
    k = min(rows, columns)
    sizes = {"k": k, "p": rows if full else k, "q": columns if full else k}
    u, s, vh = call_host_op("svd", as_lapack_dtype(x), sizes=sizes, full_matrices=full)
    dtype = result_dtype(x.dtype)
    return SVD(cast_to(u, dtype), cast_to(s, dtype.part), cast_to(vh, dtype))


def _svd_of_hermitian(op: str, x: Any) -> SVD:
    """Return the singular value decomposition of the Hermitian matrices `x`, of which only the lower triangle is read.

    Singular values are the absolute eigenvalues, in descending order; signs of negative eigenvalues go into `Vh`.
    """
    values, vectors = eigh(as_square_matrices(op, x))
    order = argsort(abs(values), descending=True)
    values, u = take_along_axis(values, order), take_along_axis(vectors, order.expand_dims(-2))
    signs = Tensor._compute(OPS["where"], values < 0, -1.0, 1.0).astype(values.dtype, copy=False)
    return SVD(u, abs(values), (u * signs.expand_dims(-2)).mT.conj())


@memoized_call
def svdvals(x: Operand, /) -> Tensor:
    """Return the singular values of each matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`; `k` is the smaller of `m` and `n`.

    Returns
    -------
    Tensor
        New real tensor of shape `(..., k)`, descending.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    LinearAlgebraError
        If LAPACK does not converge, as with NaN.

    References
    ----------
    Array API 2025.12, `linalg.svdvals`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.svdvals(tx.asarray([[0.0, 3.0], [4.0, 0.0]])).tolist()
    [4.0, 3.0]
    """
    x = as_matrices("svdvals", x)
    values = call_host_op("svdvals", as_lapack_dtype(x), sizes={"k": min(x.shape[-2:])})[0]
    return cast_to(values, result_dtype(x.dtype).part)
