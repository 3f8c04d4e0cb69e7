"""Backward passes (VJPs) of decompositions and solutions; each function is named like its operation in the host table.
Such a function takes the cotangents `g` of the results (never None), the `results`, the `operands` and the options of the operation, and
returns a tuple with the cotangents of the operands.

The cotangent of a complex matrix `x` is a `g` for which the value changes by the real part of `sum(conj(g) *
dx)`. The formulas are from M. Giles, An extended collection of matrix derivative results (2008), and from M. Seeger et al.,
Auto-differentiating linear algebra (2017). For equal eigenvalues or singular values, the vectors have no derivative; the result is infinite
if it depends on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..api.concatenation import concat
from ..api.creation import eye
from ..api.custom_derivatives import custom_derivative
from ..api.differentiation import vjp
from ..api.gather_functions import take_along_axis
from ..api.grids import tril, triu
from ..api.host_calls import call_host_op
from ..api.sorting import argsort
from ..errors import DerivativeError
from ..ops import OPS
from ..tensor import Tensor

Tensors = tuple[Any, ...]
Options = Mapping[str, Any]


def _conj(x: Any) -> Any:
    """Return the complex conjugate of `x`, or `x` itself if real."""
    return x.conj() if x.dtype.is_complex else x


def _adjoint(x: Any) -> Any:
    """Return the adjoint matrices of `x`: transposed and conjugated."""
    return _conj(x.mT)


def _real(x: Any) -> Any:
    """Return the real parts of `x` in the dtype of `x`, which may be complex."""
    return (x + x.conj()) / 2 if x.dtype.is_complex else x


def _diagonal(x: Any) -> Any:
    """Return the diagonals of the matrices `x`, as a view."""
    return x.diagonal(0, -2, -1)


def _embed_diagonal(values: Any, size: int) -> Any:
    """Return matrices of `size` rows and columns with the diagonals `values`, and 0 elsewhere."""
    return values.expand_dims(-2) * eye(size, dtype=values.dtype)


def _divide_by_gaps(numerators: Any, values: Any, conjugated: bool = False) -> Any:
    """Return `numerators` over the differences of each pair of values: element (i, j) over `values[j] - values[i]`; 0 on the diagonal.

    The result is also 0 where both numerator and difference are 0: vectors of equal values are allowed if no result depends on them. With
    `conjugated`, the differences are conjugated.
    """
    gaps = values.expand_dims(-2) - values.expand_dims(-1)
    is_zero = (eye(values.shape[-1]) != 0) | ((gaps == 0) & (numerators == 0))
    gaps = Tensor._compute(OPS["where"], is_zero, 1.0, gaps.conj() if conjugated else gaps)
    return Tensor._compute(OPS["where"], is_zero, 0.0, numerators) / gaps


def _sum_to_shape(g: Any, shape: tuple[int, ...]) -> Any:
    """Return the cotangent `g` summed over the axes along which an operand of `shape` was broadcast, so that the sum has `shape`."""
    added_axes = g.ndim - len(shape)
    if added_axes:
        g = g.sum(tuple(range(added_axes)))
    stretched_axes = tuple([a for a in range(len(shape)) if shape[a] == 1 and g.shape[a] != 1])
    return g.sum(stretched_axes, keepdims=True) if stretched_axes else g


def inv(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of matrices, given the cotangent `g[0]` of their inverses `results[0]`."""
    h = _adjoint(results[0])
    return (-(h @ g[0] @ h),)


def solve(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return the cotangents of the `operands`, matrices and right-hand sides, given the cotangent `g[0]` of the solutions `results[0]`."""
    a, b = operands
    right = call_host_op("solve", _adjoint(a), g[0])[0]
    return _sum_to_shape(-(right @ _adjoint(results[0])), a.shape), _sum_to_shape(right, b.shape)


def det(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of the matrices `operands[0]`, given the cotangent `g[0]` of their determinants."""
    return (g[0].expand_dims((-2, -1)) * _conj(call_host_op("cofactors", operands[0])[0]),)


def cofactors(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of the matrices `operands[0]`, given the cotangent `g[0]` of their cofactors."""
    return (call_host_op("cofactor_cotangents", operands[0], g[0])[0],)


def cofactor_cotangents(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return the cotangents of both operands of the host operation `cofactor_cotangents`, given the cotangent `g[0]` of the result.

    They are needed for third derivatives of determinants. The formula for the matrix, the first operand, uses the inverse, so third
    derivatives exist only for regular matrices. The cotangent of the matrix is returned as a function, called only if wanted.
    """
    x, g_cofactors = operands

    def by_inverse(x: Any) -> Any:
        h, cofactors_of_x = _adjoint(call_host_op("inv", x)[0]), _conj(call_host_op("cofactors", x)[0])
        return (g_cofactors * h).sum((-2, -1), keepdims=True) * cofactors_of_x - cofactors_of_x @ g_cofactors.mT @ h

    return lambda: vjp(by_inverse, x)[1](g[0])[0], _conj(call_host_op("cofactor_cotangents", x, _conj(g[0]))[0])


def slogdet(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of the matrices `operands[0]`, given the cotangents `g` of signs and logarithms (`results`).

    Raise LinearAlgebraError for a singular matrix.
    """
    (g_sign, g_log), x = g, operands[0]
    factor = g_log
    if x.dtype.is_complex:
        factor = g_log - 1j * (g_sign.conj() * results[0]).imag  # a change of the sign is a rotation
    return (factor.expand_dims((-2, -1)) * _adjoint(call_host_op("inv", x)[0]),)


def cholesky(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of matrices, given the cotangent `g[0]` of their Cholesky factors `results[0]`.

    `options["upper"]` tells whether the factors are upper triangular.
    """
    lower, g_lower = (_adjoint(results[0]), _adjoint(g[0])) if options["upper"] else (results[0], g[0])
    size = lower.shape[-1]
    inner = tril(_adjoint(lower) @ g_lower)
    inner = inner - _embed_diagonal(_diagonal(inner), size) / 2
    inner = _real_diagonal(inner, size)
    outer = call_host_op("solve", _adjoint(lower), inner)[0]
    outer = _adjoint(call_host_op("solve", _adjoint(lower), _adjoint(outer))[0])
    return ((outer + _adjoint(outer)) / 2,)


def _real_diagonal(x: Any, size: int) -> Any:
    """Return the matrices `x`, of `size` rows and columns, without the imaginary parts of their diagonals."""
    if not x.dtype.is_complex:
        return x
    diagonal = _diagonal(x)
    return x - _embed_diagonal(diagonal - _real(diagonal), size)


def eigh(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of Hermitian matrices, given the cotangents `g` of eigenvalues and eigenvectors (`results`)."""
    (g_values, g_vectors), (values, vectors), size = g, results, operands[0].shape[-1]
    inner = _divide_by_gaps(_skew_part(_adjoint(vectors) @ g_vectors) / 2, values) + _embed_diagonal(g_values, size)
    outer = vectors @ inner @ _adjoint(vectors)
    return ((outer + _adjoint(outer)) / 2,)


def eigvalsh(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of the Hermitian matrices `operands[0]`, given the cotangent `g[0]` of their eigenvalues."""
    vectors = call_host_op("eigh", operands[0])[1]
    return ((vectors * g[0].expand_dims(-2)) @ _adjoint(vectors),)


def eig(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of `operands[0]`, given the cotangents `g` of eigenvalues and eigenvectors (`results`)."""
    (g_values, g_vectors), (values, vectors), size = g, results, operands[0].shape[-1]
    product = _adjoint(vectors) @ g_vectors
    length = _adjoint(vectors) @ (vectors * _real(_diagonal(product)).expand_dims(-2))
    return _leave_eigenbasis(
        operands[0], vectors, _divide_by_gaps(product - length, values, conjugated=True) + _embed_diagonal(g_values, size)
    )


def eigvals(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of the matrices `operands[0]`, given the cotangent `g[0]` of their eigenvalues."""
    return _leave_eigenbasis(operands[0], call_host_op("eig", operands[0])[1], _embed_diagonal(g[0], operands[0].shape[-1]))


def _leave_eigenbasis(x: Any, vectors: Any, inner: Any) -> Tensors:
    """Return a tuple with the cotangent of the matrices `x`, given their eigenvectors `vectors` and the cotangent `inner` in this basis.

    For real `x` the result is the real part.
    """
    outer = call_host_op("solve", _adjoint(vectors), inner @ _adjoint(vectors))[0]
    return (outer if x.dtype.is_complex else outer.real,)


def svdvals(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of the matrices `operands[0]`, given the cotangent `g[0]` of their singular values."""
    u, _, vh = _thin_svd(operands[0])
    return ((u * g[0].expand_dims(-2)) @ vh,)


def svd(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of matrices, given the cotangents `g` of `U`, singular values and `Vh` (`results`).

    Raise DerivativeError for oblong matrices with `options["full_matrices"]`, whose further vectors have no derivative.
    """
    (g_u, g_s, g_vh), (u, s, vh) = g, results
    rows, columns = operands[0].shape[-2:]
    if options["full_matrices"] and rows != columns:
        raise DerivativeError("svd: vectors beyond the shorter side have no derivative; use full_matrices=False")
    size = min(rows, columns)
    v, g_v, squares = _adjoint(vh), _adjoint(g_vh), s.square()
    left, right = _divide_by_gaps(_skew_part(_adjoint(u) @ g_u), squares), _divide_by_gaps(_skew_part(vh @ g_v), squares)
    inner = left * s.expand_dims(-2) + s.expand_dims(-1) * right + _embed_diagonal(g_s, size)
    if operands[0].dtype.is_complex:  # u and v are defined up to common phases
        phases = _diagonal(_adjoint(u) @ g_u)
        inner = inner + _embed_diagonal((phases - _real(phases)) / s, size)
    outer = u @ inner @ vh
    if rows > columns:
        g_outside = (g_u - u @ (_adjoint(u) @ g_u)) / s.expand_dims(-2)
        outer = outer + g_outside @ vh
    if columns > rows:
        g_outside = (g_vh - (g_vh @ v) @ vh) / s.expand_dims(-1)
        outer = outer + u @ g_outside
    return (outer,)


def pseudo_inverse(g: Any, p: Any, x: Any, hermitian: bool) -> Any:
    """Return the cotangent of matrices `x` of constant rank, given the cotangent `g` of their pseudo-inverses `p`.

    If `hermitian`, only the lower triangle of `x` is read. G. Golub, V. Pereyra: The differentiation of pseudo-inverses and nonlinear least
    squares problems whose variables separate, 1973. Each product has the shape of the shorter side squared, or of both sides, at most.
    """
    if hermitian:
        hermitian_x = tril(x) + _adjoint(tril(x, k=-1))
        cotangent = pseudo_inverse(g, p, _real_diagonal(hermitian_x, x.shape[-1]), False)
        return (cotangent + _adjoint(cotangent)) / 2
    if x.shape[-2] < x.shape[-1]:
        return _adjoint(pseudo_inverse(_adjoint(g), _adjoint(p), _adjoint(x), False))
    to_g, to_p = _adjoint(g), _adjoint(p)
    by_columns, inner = to_g @ (p @ to_p), p @ to_g
    return by_columns - x @ (p @ by_columns) + to_p @ (inner - (inner @ p) @ x - g @ to_p)


def polar_factor(x: Any) -> Any:
    """Return the unitary factors `u @ vh` of the polar decompositions of the matrices `x`.

    The derivative divides by sums of singular values, so it exists even if singular values are equal.
    """

    def call(x: Any) -> Any:
        u, _, vh = _thin_svd(x)
        return u @ vh

    def backward(g: Any, factor: Any, x: Any) -> Any:
        u, s, vh = _thin_svd(x)
        inner = _adjoint(u) @ g @ _adjoint(vh)
        rotation = _skew_part(inner) / (s.expand_dims(-2) + s.expand_dims(-1))
        outside_rows, outside_columns = g - u @ (_adjoint(u) @ g), g - (g @ _adjoint(vh)) @ vh
        outer = u @ rotation @ vh
        if x.shape[-2] > x.shape[-1]:
            outer = outer + ((outside_rows @ _adjoint(vh)) / s.expand_dims(-2)) @ vh
        if x.shape[-2] < x.shape[-1]:
            outer = outer + u @ ((_adjoint(u) @ outside_columns) / s.expand_dims(-1))
        return outer

    return custom_derivative(call, backward)(x)


def _thin_svd(x: Any) -> Tensors:
    """Return `U`, the singular values and `Vh` of the matrices `x`, without the vectors beyond the shorter side."""
    k = min(x.shape[-2:])
    return call_host_op("svd", x, sizes={"k": k, "p": k, "q": k}, full_matrices=False)


def _skew_part(x: Any) -> Any:
    """Return `x` minus its adjoint."""
    return x - _adjoint(x)


def lu(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of the matrices `operands[0]`, given the cotangents in `g` of their factors `L` and `U`.

    The third result is the order of the rows. For a square matrix with its rows in the order of the pivots, `inv(L) @ dX @ inv(U)` is
    `inv(L) @ dL`, below the diagonal, plus `dU @ inv(U)`. The columns of U, or the rows of L, beyond a square are solutions of systems with
    the square factors.
    """
    (g_l, g_u, _), (lower, upper, order), (x,) = g, results, operands
    rows, columns = x.shape[-2:]
    k = min(rows, columns)
    left, u = lower[..., :k, :], upper[..., :k]
    below = _adjoint(left) @ g_l[..., :k, :] - g_u[..., k:] @ _adjoint(upper[..., k:])
    above = g_u[..., :k] @ _adjoint(u) - _adjoint(lower[..., k:, :]) @ g_l[..., k:, :]
    square = _divide_by_adjoint(tril(below, k=-1) + triu(above), u)
    solved = call_host_op("solve", _adjoint(left), concat([square, g_u[..., k:]], -1))[0]
    cotangent = concat([solved, _divide_by_adjoint(g_l[..., k:, :], u)], -2) if rows > k else solved
    return (take_along_axis(cotangent, argsort(order, axis=-1).expand_dims(-1).expand(cotangent.shape), axis=-2),)


def _divide_by_adjoint(x: Any, u: Any) -> Any:
    """Return `x` times the inverse of the adjoint of `u`."""
    return _adjoint(call_host_op("solve", u, _adjoint(x))[0])


def qr(g: Tensors, results: Tensors, operands: Tensors, options: Options) -> Tensors:
    """Return a tuple with the cotangent of the matrices `operands[0]`, given the cotangents `g` of their factors `Q` and `R` (`results`).

    Raise DerivativeError for more rows than columns if `options["mode"]` is "complete". Raise LinearAlgebraError if the square part of an
    `R` is singular.
    """
    (g_q, g_r), (q, r), x = g, results, operands[0]
    rows, columns = x.shape[-2:]
    if options["mode"] == "complete" and rows > columns:
        raise DerivativeError("qr: columns of Q beyond those of the matrix have no derivative; use mode='reduced'")
    if rows >= columns:
        return (_tall_qr(q, r, g_q, g_r),)
    g_right = g_r[..., rows:]
    g_left = _tall_qr(q, r[..., :rows], g_q + x[..., rows:] @ _adjoint(g_right), g_r[..., :rows])
    return (concat([g_left, q @ g_right], -1),)


def _tall_qr(q: Any, r: Any, g_q: Any, g_r: Any) -> Any:
    """Return the cotangent of `q @ r`, matrices with at least as many rows as columns, given the cotangents `g_q` and `g_r` of both.

    `r` must be regular; a singular one raises LinearAlgebraError.
    """
    size = r.shape[-1]
    inner = r @ _adjoint(g_r) - _adjoint(g_q) @ q
    lower = tril(inner, k=-1)
    symmetric = lower + _adjoint(lower) + _embed_diagonal(_real(_diagonal(inner)), size)
    return _adjoint(call_host_op("solve", r, _adjoint(g_q + q @ symmetric))[0])


solve_triangular = solve
