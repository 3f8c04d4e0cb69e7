"""Decompositions: the factors multiply to the matrix, and are triangular, orthonormal or sorted as documented."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, LinearAlgebraError, ShapeError

from .matrices import FULL, MOVES, NARROW, WHOLE, adjoint, close, definite, each_batch, each_dtype, each_layout, eps, random

L = tx.linalg
SIDES = ((1, 1), (4, 4), (6, 3), (3, 6), (0, 0), (0, 3), (3, 0))


def has_orthonormal_columns(x: tx.Tensor, columns: int) -> bool:
    """Return whether the columns are orthonormal."""
    return close(adjoint(x) @ x, tx.eye(columns, dtype=x.dtype).expand((*x.shape[:-2], columns, columns)).copy(), 10)


@each_dtype
@each_batch
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_factor_is_triangular_and_multiplies_to_the_matrix(dtype: tx.DType, batch: tuple[int, ...], upper: bool) -> None:
    for size in (0, 1, 4):
        x = definite((*batch, size, size), dtype)
        result = L.cholesky(x, upper=upper)
        assert close(adjoint(result) @ result if upper else result @ adjoint(result), x, 10)
        assert close(result, tx.triu(result) if upper else tx.tril(result))
        assert (tx.real(result.diagonal(0, -2, -1)) > 0).all().item()
        half = tx.triu(x) if upper else tx.tril(x)
        assert close(L.cholesky(half, upper=upper), result)  # only this triangle is read


@each_dtype
@each_batch
def test_eig_satisfies_its_equation(dtype: tx.DType, batch: tuple[int, ...]) -> None:
    for size in (0, 1, 5):
        x = random((*batch, size, size), dtype)
        values, vectors = L.eig(x)
        wide = {tx.float32: tx.complex64, tx.float64: tx.complex128}.get(dtype, dtype)
        assert (values.dtype, values.shape, vectors.dtype, vectors.shape) == (wide, x.shape[:-1], wide, x.shape)
        assert close(x.astype(wide) @ vectors, vectors * values.expand_dims(-2), 100)
        assert close(tx.sort(abs(L.eigvals(x))), tx.sort(abs(values)), 100)
        assert close(values.sum(-1), L.trace(x).astype(wide), 100)


@each_dtype
@each_batch
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigh_reads_one_triangle_and_satisfies_its_equation(dtype: tx.DType, batch: tuple[int, ...], triangle: str) -> None:
    for size in (0, 1, 5):
        x = definite((*batch, size, size), dtype)
        result = L.eigh(tx.tril(x) if triangle == "L" else tx.triu(x), UPLO=triangle)
        values, vectors = result
        assert result._fields == ("eigenvalues", "eigenvectors") and values.dtype is dtype.part
        assert has_orthonormal_columns(vectors, size) and close((vectors * values.expand_dims(-2)) @ adjoint(vectors), x, 100)
        assert close(values, tx.sort(values)) and close(L.eigvalsh(x, UPLO=triangle), values, 10)


@each_dtype
@each_batch
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_factors_are_orthonormal_and_triangular(dtype: tx.DType, batch: tuple[int, ...], mode: str) -> None:
    for rows, columns in SIDES:
        x = random((*batch, rows, columns), dtype)
        result = L.qr(x, mode=mode)
        inner = rows if mode == "complete" else min(rows, columns)
        assert result.Q.shape == (*batch, rows, inner) and result.R.shape == (*batch, inner, columns)
        assert close(result.Q @ result.R, x, 10) and has_orthonormal_columns(result.Q, inner) and close(result.R, tx.triu(result.R))


@each_dtype
@each_batch
def test_lu_has_triangular_factors_and_multipliers_of_at_most_1(dtype: tx.DType, batch: tuple[int, ...]) -> None:
    for rows, columns in (*SIDES, (70, 50)):  # enough columns for the blocked algorithm
        k = min(rows, columns)
        x = random((*batch, rows, columns), dtype)
        p, lower, upper = result = L.lu(x)
        assert result._fields == ("P", "L", "U") and {t.dtype for t in result} == {dtype}
        assert (p.shape, lower.shape, upper.shape) == ((*batch, rows, rows), (*batch, rows, k), (*batch, k, columns))
        assert close(p @ lower @ upper, x, 10) and close(lower, tx.tril(lower)) and close(upper, tx.triu(upper))
        assert (p.sum(-1) == 1).all().item() and (p.sum(-2) == 1).all().item() and (lower.diagonal(0, -2, -1) == 1).all().item()
        assert (abs(lower) <= (2**0.5 + 1e-6 if dtype.is_complex else 1)).all().item()


def test_lu_factors_of_singular_matrices_multiply_to_the_matrix() -> None:
    for x in ([[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 2.0]], [[1.0, 2.0], [2.0, 4.0]]):
        p, lower, upper = L.lu(tx.asarray(x))
        assert (p @ lower @ upper).tolist() == x


@each_dtype
@each_batch
@pytest.mark.parametrize("full", [True, False])
def test_svd_factors_are_orthonormal_and_sorted(dtype: tx.DType, batch: tuple[int, ...], full: bool) -> None:
    for rows, columns in SIDES:
        k = min(rows, columns)
        x = random((*batch, rows, columns), dtype)
        u, s, vh = result = L.svd(x, full_matrices=full)
        assert result._fields == ("U", "S", "Vh") and (s.dtype, s.shape) == (dtype.part, (*batch, k))
        assert u.shape == (*batch, rows, rows if full else k) and vh.shape == (*batch, columns if full else k, columns)
        assert has_orthonormal_columns(u, u.shape[-1]) and has_orthonormal_columns(adjoint(vh), vh.shape[-2])
        assert close((u[..., :k] * s.expand_dims(-2)) @ vh[..., :k, :], x, 10)
        assert close(s, tx.sort(s, descending=True)) and (s >= 0).all().item()
        assert close(L.svdvals(x), s, 10)


@each_layout
def test_decompositions_of_every_layout_are_equal(move: str) -> None:
    x = random((2, 4, 4), tx.complex128)
    h = definite((2, 4, 4), tx.complex128)
    moved, hermitian = MOVES[move](x), MOVES[move](h)
    np.testing.assert_array_equal(moved.to_numpy(), x.to_numpy())
    assert close(L.svdvals(moved), L.svdvals(x)) and close(L.eigvals(moved), L.eigvals(x), 10)
    assert close(L.cholesky(hermitian), L.cholesky(h)) and close(L.eigvalsh(hermitian), L.eigvalsh(h))
    assert close(L.qr(moved).Q @ L.qr(moved).R, x, 10)


def test_svdvals_of_broadcast_matrices_are_equal() -> None:
    x = random((3, 3)).expand(4, 2, 3, 3)
    assert close(L.svdvals(x), L.svdvals(x[0, 0]).expand(4, 2, 3).copy())


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_decompositions_of_narrow_floats_are_computed_in_float32(dtype: tx.DType) -> None:
    x = random((4, 4), dtype)
    for function in (L.svdvals, L.eigvalsh, lambda t: L.qr(t).R, lambda t: L.svd(t).U):
        assert close(function(x), function(x.astype(tx.float32)).astype(dtype))
    assert L.eig(x).eigenvalues.dtype is tx.complex64


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_decompositions_of_integers_are_computed_in_float64(dtype: tx.DType) -> None:
    x = tx.asarray([[2, 1], [1, 3]]).astype(dtype)
    wide = x.astype(tx.float64)
    for function in (L.svdvals, L.eigvalsh, lambda t: L.eigh(t).eigenvectors, lambda t: L.qr(t).R, L.eigvals):
        assert close(function(x), function(wide))


def test_eigvals_of_a_batch_on_several_threads_equal_those_of_single_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenxor.native.host_execution.MAX_ONE_THREAD_NS", 0)
    x = random((40, 4, 4))
    values = L.eigvals(x)
    for k in range(40):
        assert close(values[k], L.eigvals(x[k]))


def test_decompositions_reject_invalid_matrices_and_arguments() -> None:
    with pytest.raises(ShapeError, match=r"cholesky: matrices of shape \(2, 3\) are not square: .* sizes 2 and 3"):
        L.cholesky(tx.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"svd: shape \(3,\) has 1 axis; it must have 2"):
        L.svd(tx.ones(3))
    with pytest.raises(ShapeError, match=r"eig: shape \(\) has 0 axes"):
        L.eig(tx.asarray(1.0))
    with pytest.raises(LinearAlgebraError, match=r"cholesky: the matrix is not positive definite; tx\.linalg\.eigh"):
        L.cholesky(tx.asarray([[1.0, 2.0], [2.0, 1.0]]))
    stack = tx.eye(2).expand(3, 2, 2).copy()
    stack[2] = -1.0
    with pytest.raises(LinearAlgebraError, match=r"the matrix at \(2,\) is not positive"):
        L.cholesky(stack)
    with pytest.raises(LinearAlgebraError, match=r"eig: the matrix has no result.*NaN and infinities"):
        L.eig(tx.asarray([[np.nan, 1.0], [1.0, 1.0]]))
    with pytest.raises(ArgumentError, match="mode must be 'reduced' or 'complete', not 'r'"):
        L.qr(tx.eye(2), mode="r")
    with pytest.raises(ArgumentError, match="UPLO must be 'L' or 'U'"):
        L.eigh(tx.eye(2), UPLO="lower")


def test_singular_values_of_different_magnitude_are_accurate() -> None:
    for dtype in FULL:
        size = 6
        q, _ = L.qr(random((size, size), dtype))
        values = (2.0 ** -tx.arange(size).astype(dtype.part)).astype(dtype)
        x = (q * values) @ adjoint(q)
        assert close(L.svdvals(x), tx.sort(abs(values), descending=True), 10)
        assert eps(dtype) < 1e-6


@pytest.mark.parametrize("dtype", [tx.float32, tx.complex128])
def test_hermitian_svd_reads_the_lower_triangle(dtype: tx.DType) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, 4, 4)) + (1j * rng.normal(size=(3, 4, 4)) if dtype.is_complex else 0)
    x = x + x.conj().swapaxes(-1, -2)
    x[2] = 0.0
    x[2, 0, 0] = -3.0  # a singular matrix
    t = tx.asarray(x, dtype=dtype)
    u, s, vh = tx.linalg.svd(t, hermitian=True)
    tolerance = 1e-5 if dtype is tx.float32 else 1e-12
    np.testing.assert_allclose(np.asarray((u * s.expand_dims(-2)) @ vh), x, atol=tolerance)
    np.testing.assert_allclose(np.asarray(s), np.linalg.svd(x, compute_uv=False), atol=tolerance)
    for side in (u, vh):
        np.testing.assert_allclose(np.asarray(side @ side.mT.conj()), np.broadcast_to(np.eye(4), (3, 4, 4)), atol=tolerance)
    upper = tx.triu(t, k=1)
    below = tx.linalg.svd(t - upper, hermitian=True)  # only the lower triangle is read
    np.testing.assert_allclose(np.asarray(below.S), np.asarray(s), atol=tolerance)


def test_eigh_accepts_uplo_by_position_and_in_lower_case() -> None:
    x = tx.asarray([[2.0, 9.0], [1.0, 2.0]])
    assert tx.linalg.eigvalsh(x, "l").tolist() == tx.linalg.eigvalsh(x, UPLO="L").tolist() == [1.0, 3.0]
    assert tx.linalg.eigh(x, "u").eigenvalues.round().tolist() == [-7.0, 11.0]
