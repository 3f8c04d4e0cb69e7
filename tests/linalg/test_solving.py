"""Solutions satisfy their equations, and inverses invert."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, LinearAlgebraError, ShapeError

from .matrices import MOVES, NARROW, WHOLE, adjoint, close, definite, each_batch, each_dtype, each_layout, random

L = tx.linalg


@each_dtype
@each_batch
def test_inv_times_the_matrix_is_the_identity(dtype: tx.DType, batch: tuple[int, ...]) -> None:
    for size in (0, 1, 5):
        x = definite((*batch, size, size), dtype)
        assert close(x @ L.inv(x), tx.eye(size, dtype=dtype).expand(x.shape).copy(), 100)


@each_dtype
@each_batch
@pytest.mark.parametrize("right", ["one", "columns", "no columns", "broadcast"])
def test_solve_satisfies_its_equation(dtype: tx.DType, batch: tuple[int, ...], right: str) -> None:
    for size in (0, 1, 5):
        a = definite((*batch, size, size), dtype)
        shape = {"one": (size,), "columns": (*batch, size, 3), "no columns": (*batch, size, 0), "broadcast": (size, 2)}[right]
        b = random(shape, dtype, seed=1)
        x = L.solve(a, b)
        product = (a @ x.expand_dims(-1)).squeeze(-1) if right == "one" else a @ x
        assert close(product, b.expand(product.shape).copy(), 100)


def test_solve_reads_two_axes_as_a_matrix() -> None:
    a, b = definite((3, 3)), random((3, 3), seed=1)
    assert close(a @ L.solve(a, b), b, 10)
    assert L.solve(definite((4, 3, 3)), random((3, 3))).shape == (4, 3, 3)


@each_layout
def test_solve_inv_and_pinv_of_every_layout_are_equal(move: str) -> None:
    a, b = definite((2, 4, 4), tx.complex64), random((2, 4, 4), tx.complex64, 1)
    assert close(L.solve(MOVES[move](a), MOVES[move](b)), L.solve(a, b), 10)
    assert close(L.inv(MOVES[move](a)), L.inv(a), 10)
    assert close(L.pinv(MOVES[move](b)), L.pinv(b), 100)


def test_solve_inv_and_pinv_widen_integers_and_keep_the_dtype_of_narrow_floats() -> None:
    a = tx.asarray([[2, 1], [0, 3]])
    for dtype in (*WHOLE, *NARROW):
        wide = tx.float32 if dtype in NARROW else tx.float64
        result_dtype = dtype if dtype in NARROW else tx.float64
        x = a.astype(dtype)
        assert close(L.inv(x), L.inv(x.astype(wide)).astype(result_dtype))
        assert close(L.solve(x, x), L.solve(x.astype(wide), x.astype(wide)).astype(result_dtype))
        assert close(L.pinv(x), L.pinv(x.astype(wide), rtol=0.01).astype(result_dtype), 10)
    assert L.solve(a.astype(tx.float32), a.astype(tx.complex64)).dtype is tx.complex64
    assert L.solve(a.astype(tx.float32), a.astype(tx.float64)).dtype is tx.float64


@each_dtype
@each_batch
def test_pinv_satisfies_the_penrose_equations(dtype: tx.DType, batch: tuple[int, ...]) -> None:
    for rows, columns in ((1, 1), (5, 3), (3, 5), (4, 4), (0, 3), (3, 0)):
        x = random((*batch, rows, columns), dtype)
        if rows == columns == 4:
            x = x[..., :1] @ x[..., :1, :]  # of rank 1
        result = L.pinv(x)
        assert result.shape == (*batch, columns, rows)
        assert close(x @ result @ x, x, 100) and close(result @ x @ result, result, 100)
        assert close(adjoint(x @ result), x @ result, 100) and close(adjoint(result @ x), result @ x, 100)


def test_pinv_ignores_singular_values_below_the_tolerance() -> None:
    x = tx.asarray([[1.0, 0.0], [0.0, 1e-3]]).expand(2, 2, 2)
    assert L.pinv(x).tolist()[0] == [[1.0, 0.0], [0.0, 1000.0]]
    assert L.pinv(x, rtol=0.01).tolist()[0] == [[1.0, 0.0], [0.0, 0.0]]
    assert [m[1][1] for m in L.pinv(x, rtol=tx.asarray([0.01, 1e-9])).tolist()] == [0.0, 1000.0]


@each_dtype
@each_batch
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (20, 3), (3, 5)])
def test_lstsq_residuals_are_orthogonal_to_the_columns(dtype: tx.DType, batch: tuple[int, ...], shape: tuple[int, int]) -> None:
    rows, columns = shape
    a = random((*batch, rows, columns), dtype)
    for right in ((rows,), (*batch, rows, 2)):
        b = random(right, dtype, seed=2)
        x, residuals, rank, s = L.lstsq(a, b)
        columns_of_x = x if len(right) > 1 else x.expand_dims(-1)
        columns_of_b = b if len(right) > 1 else b.expand_dims(-1)
        residual = a @ columns_of_x - columns_of_b
        assert close(adjoint(a) @ residual, tx.zeros_like(adjoint(a) @ residual), 1000)  # the residual is orthogonal to all columns
        squares = abs(residual).square().sum(-2)
        assert close(residuals, squares if len(right) > 1 else squares.squeeze(-1), 100)
        assert close(rank, tx.full(batch, min(rows, columns), dtype=tx.int64)) and close(s, L.svdvals(a), 10)


def test_lstsq_of_deficient_rank_equals_numpy() -> None:
    a = np.random.default_rng(0).standard_normal((6, 2)) @ np.random.default_rng(1).standard_normal((2, 4))  # rank 2
    b = np.random.default_rng(2).standard_normal((6, 3))
    result, wanted = L.lstsq(tx.asarray(a), tx.asarray(b)), np.linalg.lstsq(a, b, rcond=None)
    np.testing.assert_allclose(result.solution.to_numpy(), wanted[0], atol=1e-12)
    assert result.rank.item() == wanted[2] == 2


@each_dtype
@pytest.mark.parametrize("size", [0, 1, 5, 64, 150])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_solve_triangular_satisfies_its_equation(dtype: tx.DType, size: int, upper: bool, unit_diagonal: bool) -> None:
    a = random((2, size, size), dtype) * 0.05 + 2 * tx.eye(size, dtype=dtype)
    triangle = tx.triu(a) if upper else tx.tril(a)
    if unit_diagonal:
        triangle = triangle - triangle * tx.eye(size, dtype=dtype) + tx.eye(size, dtype=dtype)
    b = random((2, size, 3), dtype, seed=1)
    assert close(triangle @ L.solve_triangular(a, b, upper=upper, unitriangular=unit_diagonal), b, 100)
    x = L.solve_triangular(a, b.mT, upper=upper, left=False, unitriangular=unit_diagonal)
    assert close(x @ triangle, b.mT.copy(), 100)
    vector = L.solve_triangular(a[0], b[0, :, 0], upper=upper, unitriangular=unit_diagonal)
    assert close(triangle[0] @ vector, b[0, :, 0].copy(), 100)


def test_solve_triangular_broadcasts() -> None:
    a, b = tx.triu(definite((3, 1, 4, 4))), random((2, 4, 5))
    x = L.solve_triangular(a, b, upper=True)
    assert x.shape == (3, 2, 4, 5) and close(a @ x, b.expand(3, 2, 4, 5).copy(), 100)
    assert b.shape == (2, 4, 5)


def test_solving_functions_reject_invalid_equations() -> None:
    with pytest.raises(LinearAlgebraError, match="solve: the matrix is singular: no or many x solve"):
        L.solve(tx.ones((2, 2)), tx.ones(2))
    with pytest.raises(
        ShapeError, match=r"solve: shapes \(2, 2\) and \(3,\) do not fit: the first has 2 rows \(axis -2\), the second 3 \(axis -1\)"
    ):
        L.solve(tx.eye(2), tx.ones(3))
    with pytest.raises(ShapeError, match=r"solve: shapes \(2, 2, 2\), \(3, 2, 1\) do not fit: before the last axes"):
        L.solve(tx.ones((2, 2, 2)), tx.ones((3, 2, 1)))
    with pytest.raises(ShapeError, match="not square"):
        L.inv(tx.ones((2, 3)))
    with pytest.raises(ShapeError, match="has no axes"):
        L.solve(tx.eye(2), tx.asarray(1.0))
    with pytest.raises(LinearAlgebraError, match="0 on its diagonal"):
        L.solve_triangular(tx.asarray([[1.0, 2.0], [3.0, 0.0]]), tx.ones(2), upper=True)
    with pytest.raises(ShapeError, match="solve_triangular: shapes"):
        L.solve_triangular(tx.ones((2, 2, 2)), tx.ones((3, 2, 1)), upper=True)
    with pytest.raises(DTypeError, match="is not a number"):
        L.inv([["a"]])


def test_tensorinv_and_tensorsolve_satisfy_their_equations() -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(size=(2, 3, 6))
    b = rng.normal(size=(2, 3))
    t = tx.asarray(a)
    inverse = tx.linalg.tensorinv(t)
    assert inverse.shape == (6, 2, 3)
    np.testing.assert_allclose(np.tensordot(np.asarray(inverse), a, 2), np.eye(6), atol=1e-12)
    result = np.asarray(tx.linalg.tensorsolve(t, tx.asarray(b)))
    np.testing.assert_allclose(np.tensordot(a, result, 1), b, atol=1e-12)
    moved = np.asarray(tx.linalg.tensorsolve(tx.asarray(a.transpose(2, 0, 1)), tx.asarray(b), axes=(0,)))
    np.testing.assert_allclose(moved, result, rtol=1e-12)
    with pytest.raises(ShapeError, match="others 18"):
        tx.linalg.tensorinv(t, 1)
    with pytest.raises(ArgumentError, match="tensorinv: ind is 0"):
        tx.linalg.tensorinv(t, 0)
    with pytest.raises(ShapeError, match="tensorsolve"):
        tx.linalg.tensorsolve(t, tx.ones(2))
    with pytest.raises(LinearAlgebraError):
        tx.linalg.tensorinv(t * 0)


def test_pinv_accepts_hermitian_rtol_and_rcond() -> None:
    x = tx.asarray([[4.0, 1.0], [1.0, 0.25]])  # of rank 1
    wanted = tx.linalg.pinv(x)
    np.testing.assert_allclose(np.asarray(tx.linalg.pinv(x, hermitian=True, rtol=1e-9)), np.asarray(wanted), rtol=1e-9)
    y = tx.asarray([[4.0, 0.0], [0.0, 1.0]])
    assert tx.linalg.pinv(y, 0.5).tolist() == tx.linalg.pinv(y, rtol=0.5).tolist() == [[0.25, 0.0], [0.0, 0.0]]
    assert tx.linalg.pinv(y, rcond=0.5).tolist() == tx.linalg.pinv(y, 0.5).tolist()
    for both in (lambda: tx.linalg.pinv(y, 0.5, rcond=0.1), lambda: tx.linalg.pinv(y, rtol=0.5, rcond=0.1)):
        with pytest.raises(ArgumentError, match="rtol and rcond are two names of one argument"):
            both()
    with pytest.raises(TypeError, match="rtol"):
        tx.linalg.pinv(y, 0.5, rtol=0.1)  # type: ignore[misc]


def test_shape_errors_are_also_numpy_linalg_errors() -> None:
    x = tx.ones((2, 3))
    for call in (
        *(tx.linalg.inv, tx.linalg.det, tx.linalg.eig, tx.linalg.cholesky, lambda x: tx.linalg.matrix_power(x, 2)),
        *(lambda x: tx.linalg.svd(x[0]), lambda x: tx.linalg.lstsq(x, tx.ones(3)), lambda x: tx.linalg.tensorinv(x, 1)),
        lambda x: tx.linalg.cond(x[:0]),
    ):
        for error in (np.linalg.LinAlgError, ShapeError):
            with pytest.raises(error):
                call(x)
