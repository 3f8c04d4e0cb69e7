"""Derivatives of functions computed by NumPy, compared with finite differences, and derivatives of derivatives."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DerivativeError, LinearAlgebraError, TraceError

from .matrices import adjoint, random

L, F = tx.linalg, tx.fft
Function = Callable[[Any], Any]
STEP = 1e-6


def hermitian(x: Any) -> Any:
    return (x + adjoint(x)) / 2


def definite(x: Any) -> Any:
    return x @ adjoint(x) + tx.eye(x.shape[-1], dtype=x.dtype)


def squared_magnitudes(x: Any) -> Any:
    """Return squared magnitudes, which do not depend on phases and signs."""
    return (x * x.conj()).real if x.dtype.is_complex else x * x


def eigh_results(x: Any) -> Any:
    values, vectors = L.eigh(hermitian(x))
    return values, squared_magnitudes(vectors)


def eig_results(x: Any) -> Any:
    values, vectors = L.eig(x)
    return values, squared_magnitudes(vectors)


def svd_results(x: Any) -> Any:
    u, s, vh = L.svd(x, full_matrices=x.shape[-1] == x.shape[-2])
    return squared_magnitudes(u), s, squared_magnitudes(vh), u @ vh


SQUARE: dict[str, Function] = {
    "inv": L.inv,
    "det": L.det,
    "slogdet": lambda x: tuple(L.slogdet(x)) if x.dtype.is_complex else L.slogdet(x).logabsdet,
    "solve": lambda x: L.solve(x, x[..., :2] * 2),
    "solve, one vector": lambda x: L.solve(x, tx.ones(4)),
    "solve, one matrix for many": lambda x: L.solve(x[:1], x),
    "cholesky": lambda x: L.cholesky(definite(x)),
    "cholesky, upper": lambda x: L.cholesky(definite(x), upper=True),
    "eigvalsh": lambda x: L.eigvalsh(hermitian(x)),
    "eigh": eigh_results,
    "eigh, upper": lambda x: L.eigh(hermitian(x), UPLO="U").eigenvalues,
    "eigvals": L.eigvals,
    "eig": eig_results,
    "solve_triangular": lambda x: L.solve_triangular(x, x * x, upper=True),
    "expm": lambda x: L.expm(x / 4),
    "matrix_power": lambda x: L.matrix_power(x, -2),
    "cond": lambda x: L.cond(x, 1),
    "norm": lambda x: L.matrix_norm(x, ord="nuc"),
}
ANY: dict[str, Function] = {
    "svdvals": L.svdvals,
    "svd": svd_results,
    "qr": lambda x: tuple(L.qr(x)),
    "lu": lambda x: tuple(L.lu(x))[1:],
    "pinv": L.pinv,
    "lstsq": lambda x: L.lstsq(x, x[..., :2] ** 2).solution,
    "fft": F.fft,
    "fft, cropped": lambda x: F.fft(x, n=2, axis=-2, norm="ortho"),
    "ifft, filled": lambda x: F.ifft(x, n=9),
    "fftn": lambda x: F.fftn(x, norm="forward"),
    "irfft": F.irfft,
    "irfft, odd": lambda x: F.irfft(x, n=5, axis=-2, norm="ortho"),
    "hfft": lambda x: F.hfft(x, n=7),
    "irfftn": lambda x: F.irfftn(x, axes=(-2, -1)),
}
REAL: dict[str, Function] = {
    "rfft": F.rfft,
    "rfft, filled": lambda x: F.rfft(x, n=9, norm="forward"),
    "ihfft": lambda x: F.ihfft(x, n=3),
    "rfftn": lambda x: F.rfftn(x, axes=(-2, -1)),
    "sort": lambda x: tx.sort(x, axis=-2, descending=True),
    "topk": lambda x: tx.topk(x, 2).values,
    "median": lambda x: tx.median(x, axis=-1),
    "quantile": lambda x: tx.quantile(x, [0.1, 0.5], axis=-1),
    "unique": lambda x: tx.unique_values(x[..., :3, :3]) ** 2,
    "cummax": lambda x: tx.cummax(x).values,
    "logcumsumexp": tx.logcumsumexp,
    "interp": lambda x: tx.interp(x, [-9.0, 0.0, 1.0, 9.0], [0.0, 2.0, 1.0, 5.0]),
    "fmod": lambda x: tx.fmod(x, 0.3),
}


def loss(function: Function, x: Any) -> Any:
    """Return a weighted sum of all results of a function, with a different weight for each element."""
    result = function(x)
    total = 0.0
    for k, t in enumerate(result if isinstance(result, tuple) else (result,)):
        weights = random(t.shape, t.dtype, seed=10 + k)
        product = t * weights.conj() if t.dtype.is_complex else t * weights
        total = total + (product.real if t.dtype.is_complex else product).sum()
    return total


def check(function: Function, x: Any) -> None:
    along = random(x.shape, x.dtype, seed=5)
    gradient = tx.grad(lambda t: loss(function, t))(x)
    assert gradient.shape == x.shape and gradient.dtype is x.dtype
    product = gradient.conj() * along if x.dtype.is_complex else gradient * along
    result = float((product.real if x.dtype.is_complex else product).sum())
    wanted = float(loss(function, x + STEP * along) - loss(function, x - STEP * along)) / (2 * STEP)
    forward = float(tx.jvp(lambda t: loss(function, t), (x,), (along,))[1])
    for slope in (result, forward):
        assert abs(slope - wanted) <= 1e-6 * max(1.0, abs(wanted), float(abs(gradient).max()))


def check_batches(function: Function, x: Any, axis: int = 0) -> None:
    """Check that vmap of a function and of its gradient equals single calls, and the gradient through vmap equals vmap of the gradient."""
    members = [x.moveaxis(axis, 0)[k].copy() for k in range(x.shape[axis])]
    gradient = tx.grad(lambda t: loss(function, t))
    for derive in (function, gradient):
        result = tx.vmap(derive, in_axes=axis)(x)
        wanted = [derive(member) for member in members]
        for k, t in enumerate(result if isinstance(result, tuple) else (result,)):
            single_results = [w[k] if isinstance(w, tuple) else w for w in wanted]
            assert t.dtype is single_results[0].dtype
            np.testing.assert_allclose(t.to_numpy(), np.stack([w.to_numpy() for w in single_results]), rtol=1e-9, atol=1e-9)
    result = tx.grad(lambda t: tx.vmap(lambda member: loss(function, member), in_axes=axis)(t).sum())(x)
    np.testing.assert_allclose(result.to_numpy(), tx.vmap(gradient, in_axes=axis, out_axes=axis)(x).to_numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("dtype", [tx.float64, tx.complex128], ids=str)
def test_gradients_of_square_matrix_functions_equal_differences(name: str, dtype: tx.DType) -> None:
    check(SQUARE[name], random((3, 4, 4), dtype))


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("dtype", [tx.float64, tx.complex128], ids=str)
@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (3, 5)])
def test_gradients_of_matrix_functions_equal_differences(name: str, dtype: tx.DType, shape: tuple[int, ...]) -> None:
    check(ANY[name], random(shape, dtype))


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (40, 40)])
def test_gradients_of_real_functions_equal_differences(name: str, shape: tuple[int, ...]) -> None:
    check(REAL[name], random(shape))


@pytest.mark.parametrize("name", SQUARE)
def test_vmap_of_square_matrix_functions_equals_single_calls(name: str) -> None:
    check_batches(SQUARE[name], random((3, 2, 4, 4)), axis=1)


@pytest.mark.parametrize("name", ANY)
def test_vmap_of_matrix_functions_equals_single_calls(name: str) -> None:
    check_batches(ANY[name], random((3, 4, 3), tx.complex128))


@pytest.mark.parametrize("name", [name for name in REAL if name != "unique"])
@pytest.mark.parametrize("shape", [(2, 4, 4), (2, 40, 40)])
def test_vmap_of_real_functions_equals_single_calls(name: str, shape: tuple[int, ...]) -> None:
    check_batches(REAL[name], random(shape))


@pytest.mark.parametrize("dtype", [tx.bool, tx.int8, tx.uint64, tx.int64, tx.bfloat16, tx.float16, tx.float64], ids=str)
@pytest.mark.parametrize("size", [5, 2000])
def test_vmap_of_sorting_functions_equals_single_calls(dtype: tx.DType, size: int) -> None:
    """Covers few and many elements, which take different paths."""
    numbers = np.random.default_rng(size).integers(0, 100, (3, size)) - (50 if dtype.kind in ("int", "float") else 0)
    x = tx.asarray(numbers).astype(dtype)
    for function in (
        tx.sort,
        lambda t: tx.sort(t, descending=True, stable=False),
        tx.argsort,
        lambda t: tx.argsort(t, descending=True),
        lambda t: tx.topk(t, 3).values,
        lambda t: tx.lexsort([t, t % 7]) if dtype.kind in ("int", "uint") else tx.argsort(t),
        lambda t: tx.quantile(t.astype(tx.float32), 0.3),
        lambda t: tx.searchsorted(tx.sort(t), t[:4]),
        lambda t: tx.searchsorted(tx.sort(x[0]), t, side="right"),
        lambda t: tx.searchsorted(tx.sort(t), x[1, :3]),
    ):
        result, wanted = tx.vmap(function)(x), [function(member) for member in x]
        assert result.tolist() == [member.tolist() for member in wanted]


def test_solve_under_nested_vmap_and_with_unbatched_operands_equals_numpy() -> None:
    a, b = random((2, 3, 4, 4)), random((3, 4))
    result = tx.vmap(tx.vmap(L.solve), in_axes=(0, None))(a, b)
    wanted = np.linalg.solve(a.to_numpy(), b.to_numpy()[..., None])[..., 0]
    np.testing.assert_allclose(result.to_numpy(), wanted, rtol=1e-10)
    result = tx.vmap(lambda m: L.solve(m, b.T))(a[0])  # the matrices differ, the right-hand sides do not
    np.testing.assert_allclose(result.to_numpy(), np.linalg.solve(a.to_numpy()[0], b.to_numpy().T), rtol=1e-10)
    result = tx.vmap(lambda v: L.solve(a, v[:, None]))(b)  # for each batch element, `solve` has a batch of matrices
    assert result.shape == (3, 2, 3, 4, 1)
    np.testing.assert_allclose(result[1].to_numpy(), np.linalg.solve(a.to_numpy(), b.to_numpy()[1][:, None]), rtol=1e-10)
    points = tx.vmap(tx.vmap(lambda t: tx.searchsorted(tx.sort(t), 0.0)))(a[0])
    assert points.tolist() == (np.sort(a[0].to_numpy()) < 0).sum(-1).tolist()
    assert tx.vmap(L.inv)(tx.zeros((0, 2, 2))).shape == (0, 2, 2) == tx.vmap(lambda t: t * L.det(t))(tx.zeros((0, 2, 2))).shape


def test_singular_matrix_error_under_vmap_names_the_matrix() -> None:
    with pytest.raises(LinearAlgebraError, match=r"inv: the matrix at \(1,\) is singular"):
        tx.vmap(L.inv)(tx.stack([tx.eye(2), tx.zeros((2, 2))]))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "solve", "cholesky", "eigvalsh", "eigh", "expm"])
def test_second_derivatives_of_matrix_functions_equal_differences(name: str) -> None:
    def gradient(x: Any) -> Any:
        return tx.grad(lambda t: loss(SQUARE[name], t))(x)

    check(gradient, random((3, 4, 4)))


def test_backward_of_inv_through_views_of_a_matrix_equals_that_of_solve() -> None:
    x = random((4, 4)).requires_grad_()
    L.inv(x.T[::-1]).sum().backward()
    y = x.detach().requires_grad_()
    L.solve(y.T[::-1], tx.eye(4)).sum().backward()
    np.testing.assert_allclose(x.grad.to_numpy(), y.grad.to_numpy(), rtol=1e-10)


def test_linalg_results_without_derivative_raise_and_name_the_option_to_use() -> None:
    x = random((4, 2)).requires_grad_()
    assert not tx.argsort(x).requires_grad and not tx.searchsorted(tx.sort(x[:, 0]), 0.5).requires_grad
    for function, words in (
        (lambda t: L.svd(t).U, "full_matrices=False"),
        (lambda t: L.qr(t, mode="complete").Q, "mode='reduced'"),
    ):
        with pytest.raises(DerivativeError, match=words):
            function(x).sum().backward()
    with pytest.raises(TraceError, match=r"unique_values: the number of elements of its result depends on values"):
        tx.vmap(tx.unique_values)(tx.ones((2, 3)))


def cofactors(x: Any) -> Any:
    """Return the cofactors of a matrix, computed as determinants of its submatrices."""
    n = len(x)
    minors = [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(n)] for i in range(n)]
    return np.array(minors).reshape(n, n)


def matrices_of_every_rank(n: int, dtype: Any) -> tuple[Any, Any]:
    """Return integer matrices of each rank, and as many integer directions for derivatives."""
    rng = np.random.default_rng(n)
    integers = lambda *shape: rng.integers(-3, 4, shape).astype(dtype) * (1 if dtype is np.float64 else 1 + 1j)
    return np.stack([integers(n, rank) @ integers(rank, n) for rank in range(n + 1)]), integers(n + 1, n, n)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_gradient_of_det_of_singular_matrices_equals_cofactors(n: int, dtype: Any) -> None:
    x, _ = matrices_of_every_rank(n, dtype)
    wanted = np.stack([cofactors(matrix) for matrix in x]).conj()
    for gradient in (tx.grad(lambda x: L.det(x).real.sum()), tx.vmap(tx.grad(lambda x: L.det(x).real))):
        assert np.allclose(gradient(tx.asarray(x)).to_numpy(), wanted, rtol=1e-9, atol=1e-9)
    exact = tx.asarray(np.diag([2.0] * (n - 1) + [0.0]))
    assert tx.grad(L.det)(exact).tolist() == np.diag([0.0] * (n - 1) + [2.0 ** (n - 1)]).tolist()


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_second_derivatives_of_det_of_singular_matrices_equal_cofactors(n: int, dtype: Any) -> None:
    x, along = matrices_of_every_rank(n, dtype)
    gradient = tx.grad(lambda x: L.det(x).real.sum())
    wanted = []
    for matrix, change in zip(x, along, strict=True):  # cofactors of cofactors
        second = np.zeros((n, n), dtype)
        for i, j in np.ndindex(n, n):
            remaining = [[a for a in range(n) if a != k] for k in (i, j)]
            for k, m in np.ndindex(n - 1, n - 1):
                minor = np.delete(np.delete(np.delete(np.delete(matrix, i, 0), j, 1), k, 0), m, 1)
                second[i, j] += (-1) ** (i + j + k + m) * np.linalg.det(minor) * change[remaining[0][k], remaining[1][m]]
        wanted.append(second.conj())
    result = tx.jvp(gradient, [tx.asarray(x)], [tx.asarray(along)])[1].to_numpy()
    assert np.allclose(result, np.stack(wanted), rtol=1e-9, atol=1e-9)
    # For real functions the way back is the way forward.
    back = tx.vjp(gradient, tx.asarray(x))[1](tx.asarray(along))[0].to_numpy()
    assert np.allclose(back, np.stack(wanted), rtol=1e-9, atol=1e-9)


def test_third_derivatives_of_det_equal_differences() -> None:
    x, y = random((4, 4)), random((4, 4))
    second = lambda x: (tx.grad(lambda t: (tx.grad(L.det)(t) * y).sum())(x) * y.T).sum()
    check(lambda x: tx.grad(second)(x), x)
    assert np.allclose(tx.grad(second)(tx.eye(4)).to_numpy(), tx.grad(second)(tx.eye(4) + 1e-9 * y).to_numpy(), rtol=1e-6)
    with pytest.raises(LinearAlgebraError, match="singular"):
        tx.grad(second)(tx.ones((4, 4)))


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, inf, -inf])
def test_gradient_of_norms_at_zero_is_the_least_subgradient(order: float) -> None:
    """At zero, norms have no derivative and give the least subgradient, as in PyTorch."""
    norm = lambda x: L.vector_norm(x, ord=order)
    assert tx.grad(norm)(tx.zeros(3)).tolist() == [0.0] * 3
    assert tx.jvp(norm, [tx.zeros(3)], [tx.ones(3)])[1].item() == 0.0
    assert bool(tx.grad(norm)(tx.asarray([0.0, 1.0, 2.0])).isfinite().all())
    assert tx.grad(L.matrix_norm)(tx.zeros((2, 2))).tolist() == [[0.0] * 2] * 2


EQUAL: dict[str, Function] = {  # of matrices with equal singular values or eigenvalues
    "pinv": L.pinv,
    "pinv, Hermitian": lambda x: L.pinv(hermitian(x), hermitian=True),
    "lstsq": lambda x: tuple(L.lstsq(x, random(x.shape[:-1], x.dtype, seed=3) + 0 * x[..., 0])[:2]),
    "nuclear norm": lambda x: L.matrix_norm(x, ord="nuc"),
}
SEPARATE: dict[str, Function] = {  # of matrices whose largest value stands alone, and others are equal
    "spectral norm": lambda x: L.matrix_norm(x, ord=2),
    "first singular vector": lambda x: squared_magnitudes(L.svd(x, full_matrices=False).U[..., 0]),
    "last eigenvector": lambda x: squared_magnitudes(L.eigh(hermitian(x)).eigenvectors[..., -1]),
    "largest eigenvalue": lambda x: L.eigvalsh(hermitian(x))[..., -1],
}


def check_twice(function: Function, x: Any) -> None:
    """Check first and second derivatives against finite differences, also forward over backward and under vmap."""
    check(function, x)
    along = random(x.shape, x.dtype, seed=6)

    def slope(t: Any) -> Any:
        product = tx.grad(lambda t: loss(function, t))(t) * along.conj()
        return (product.real if x.dtype.is_complex else product).sum()

    check(slope, x)
    pair = tx.stack([x, x * 2])
    np.testing.assert_allclose(tx.vmap(tx.grad(slope))(pair)[0].to_numpy(), tx.grad(slope)(x).to_numpy(), atol=1e-12)


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("dtype", [tx.float64, tx.complex128], ids=str)
def test_derivatives_at_equal_singular_values_equal_differences(name: str, dtype: tx.DType) -> None:
    unitary = L.qr(random((4, 4), dtype)).Q
    matrices = [tx.eye(4, dtype=dtype), unitary] if "Hermitian" not in name else [tx.eye(4, dtype=dtype), unitary @ adjoint(unitary)]
    for x in matrices if "Hermitian" in name else [*matrices, unitary[:, :3] * 2, unitary[:3]]:
        check_twice(EQUAL[name], x)


@pytest.mark.parametrize("name", SEPARATE)
@pytest.mark.parametrize("dtype", [tx.float64, tx.complex128], ids=str)
def test_derivatives_of_the_largest_value_equal_differences_if_others_are_equal(name: str, dtype: tx.DType) -> None:
    check_twice(SEPARATE[name], tx.diag(tx.asarray([3.0, 1.0, 1.0, 1.0])).astype(dtype))


def test_derivative_of_pinv_along_matrices_of_constant_rank_equals_its_formula() -> None:
    """The pseudo-inverse of `u v^T` is `v u^T / (|u|^2 |v|^2)`. It is continuous only along matrices of rank 1."""
    u, v = np.array([1.0, 2.0, 3.0]), np.array([2.0, -1.0])
    weights = random((2, 3))

    def direct(u: Any, v: Any) -> Any:
        return (v[:, None] * u / ((u * u).sum() * (v * v).sum()) * weights).sum()

    def by_pinv(u: Any, v: Any) -> Any:
        return (L.pinv(u[:, None] * v) * weights).sum()

    for wanted, result in zip(*[tx.grad(f, argnums=(0, 1))(tx.asarray(u), tx.asarray(v)) for f in (direct, by_pinv)], strict=True):
        np.testing.assert_allclose(result.to_numpy(), wanted.to_numpy(), rtol=1e-12)
