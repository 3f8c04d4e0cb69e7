"""Determinants, powers, exponentials, and products."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DTypeError, LinearAlgebraError, ShapeError

from .matrices import FULL, WHOLE, close, definite, each_batch, each_dtype, random

L = tx.linalg


@each_dtype
@each_batch
def test_det_and_slogdet_equal_the_cofactor_expansion(dtype: tx.DType, batch: tuple[int, ...]) -> None:
    for size in (0, 1, 4):
        x = random((*batch, size, size), dtype)
        sign, size_ = L.slogdet(x)
        assert sign.dtype is dtype and size_.dtype is dtype.part
        assert close(L.det(x), sign * size_.exp().astype(dtype), 10)
        if size == 4:
            model = sum(
                (x[..., 0, k] * (-1) ** k * L.det(x[..., 1:, [j for j in range(4) if j != k]]) for k in range(4)),
                tx.zeros(batch, dtype=dtype),
            )
            assert close(L.det(x), model, 10)  # cofactor expansion along the first row


def test_slogdet_is_finite_for_determinants_beyond_the_float_range() -> None:
    sign, size = L.slogdet(tx.eye(4) * -1e-200)
    assert sign.item() == 1.0 and abs(size.item() + 800 * np.log(10)) < 1e-9
    sign, size = L.slogdet(tx.ones((2, 2)))
    assert sign.item() == 0.0 and size.item() == -inf
    assert L.det(tx.eye(4) * 1e200).item() == inf


@pytest.mark.parametrize("dtype", (*FULL, *WHOLE), ids=str)
def test_trace_and_diagonal_equal_numpy(dtype: tx.DType) -> None:
    array = np.arange(24).reshape(2, 3, 4) % 7
    x = tx.asarray(array).astype(dtype)
    for offset in range(-4, 6):
        elements = x.to_numpy()
        assert L.diagonal(x, offset=offset).tolist() == np.diagonal(elements, offset, -2, -1).tolist()
        result = L.trace(x, offset=offset)
        assert result.tolist() == np.trace(elements, offset, -2, -1).tolist()
        assert result.dtype is (dtype if dtype.is_float or dtype.is_complex else tx.sum(x).dtype)
    assert L.trace(x, dtype=tx.complex128).dtype is tx.complex128


def test_diagonal_returns_a_writable_view() -> None:
    x = tx.zeros((2, 2, 2))
    L.diagonal(x)[...] = 1.0
    assert x.tolist() == [[[1.0, 0.0], [0.0, 1.0]]] * 2


@pytest.mark.parametrize("dtype", (*FULL, tx.int8, tx.int64, tx.uint64, tx.float16), ids=str)
def test_cross_equals_numpy(dtype: tx.DType) -> None:
    drawn = random((2, 4, 1, 3), tx.complex128 if dtype.is_complex else tx.float64) * 5
    a, b = drawn[0].astype(dtype), drawn[1].astype(dtype).reshape(1, 4, 3)
    result = L.cross(a, b)
    assert result.dtype is dtype and result.shape == (4, 4, 3)
    with np.errstate(over="ignore"):
        wanted = np.cross(a.to_numpy(), b.to_numpy())
    tolerance = 0.1 if dtype is tx.float16 else 1e-4
    np.testing.assert_allclose(result.to_numpy(), wanted, rtol=tolerance, atol=tolerance)
    assert close(L.cross(a.moveaxis(-1, 0), b.moveaxis(-1, 0), axis=-3), result.moveaxis(-1, 0).copy())
    assert close(L.cross(a, a), tx.zeros_like(a))


@pytest.mark.parametrize("n", range(-4, 9))
def test_matrix_power_equals_numpy(n: int) -> None:
    for dtype in FULL:
        x = definite((2, 3, 3), dtype) / 5
        wanted = np.stack([np.linalg.matrix_power(m, n) for m in x.to_numpy()])
        result = L.matrix_power(x, n)
        assert result.dtype is dtype
        np.testing.assert_allclose(result.to_numpy(), wanted, rtol=1e-3 if dtype.part is tx.float32 else 1e-9)
    integers = tx.asarray([[2, 1], [1, 1]], dtype=tx.int32)
    result = L.matrix_power(integers, n)
    np.testing.assert_allclose(result.to_numpy(), np.linalg.matrix_power(integers.to_numpy(), n))
    assert result.dtype is (tx.int32 if n >= 0 else tx.float64)


def test_matrix_power_returns_a_new_tensor() -> None:
    x = tx.eye(2)
    for n in (0, 1):
        result = L.matrix_power(x, n)
        result[...] = 7.0
    assert x.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@each_dtype
@each_batch
def test_expm_equals_its_series(dtype: tx.DType, batch: tuple[int, ...]) -> None:
    for size in (0, 1, 4):
        x = random((*batch, size, size), dtype) / 4
        term = np.broadcast_to(np.eye(size, dtype=dtype.numpy), x.shape)
        series = term.copy()
        for k in range(1, 20):
            term = term @ x.to_numpy() / k
            series += term
        assert close(L.expm(x), series, 10)
        twice = L.expm(x * 8)  # expm scales and squares this matrix at least three times
        for _ in range(3):
            series = series @ series
        assert close(twice, series, 100)


def test_expm_scales_each_matrix_of_a_stack() -> None:
    x = tx.stack([tx.asarray([[0.0, 1.0], [-1.0, 0.0]]) * t for t in (1e-3, 1.0, 30.0)])
    result = L.expm(x)
    for k, t in enumerate((1e-3, 1.0, 30.0)):
        wanted = [[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]]
        np.testing.assert_allclose(result[k].to_numpy(), wanted, atol=1e-13)
    assert L.expm(tx.asarray([[np.nan, 0.0], [0.0, 1.0]])).isnan().any().item()


def test_multi_dot_equals_numpy() -> None:
    shapes = ((3, 20), (20, 2), (2, 15), (15, 4))
    factors = [random(s, seed=k) for k, s in enumerate(shapes)]
    assert close(L.multi_dot(factors), np.linalg.multi_dot([f.to_numpy() for f in factors]), 100)
    assert close(L.multi_dot([factors[0][0], *factors[1:]]), L.multi_dot(factors)[0].copy(), 100)
    assert L.multi_dot([factors[0][0], factors[1], factors[1][0]]).shape == ()


def test_linalg_functions_shared_with_the_main_namespace_are_identical() -> None:
    for name in ("matmul", "matrix_transpose", "outer", "tensordot", "vecdot"):
        assert getattr(L, name) is getattr(tx, name)


def test_matrix_functions_reject_invalid_matrices_and_arguments() -> None:
    x = tx.ones((2, 3))
    for function in (L.det, L.slogdet, L.expm, lambda t: L.matrix_power(t, 2)):
        with pytest.raises(ShapeError, match=r"\(2, 3\) are not square"):
            function(x)
    with pytest.raises(LinearAlgebraError, match="singular"):
        L.matrix_power(tx.ones((2, 2)), -1)
    with pytest.raises(ShapeError, match=r"cross: axis -1 of x2, of shape \(2, 2\), has size 2"):
        L.cross(x, tx.ones((2, 2)))
    with pytest.raises(AxisError, match="cross"):
        L.cross(x, x, axis=2)
    with pytest.raises(DTypeError, match="bool"):
        L.cross(x > 0, x > 0)
    with pytest.raises(ShapeError, match=r"tensors 0 and 1 have shapes \(2, 3\) and \(2, 3\)"):
        L.multi_dot([x, x])
    with pytest.raises(ArgumentError, match="at least 2"):
        L.multi_dot([x])
