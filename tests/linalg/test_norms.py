"""Norms, ranks and condition numbers, compared with NumPy's."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DerivativeError, ShapeError

from .matrices import FULL, NARROW, WHOLE, close, each_batch, each_dtype, random

L = tx.linalg
VECTOR = (0, 1, 2, 3, 0.5, -0.5, -1, -2, inf, -inf)
MATRIX: tuple[Any, ...] = ("fro", None, "nuc", 1, -1, 2, -2, inf, -inf)


@each_dtype
@pytest.mark.parametrize("ord", VECTOR)
def test_vector_norm_equals_numpy(dtype: tx.DType, ord: float) -> None:
    x = random((3, 1, 4), dtype)
    for axis in (None, 0, -1, (0, 2), (2, 1, 0), (1,)):
        axes = tuple(range(3)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        kept_axes = [a for a in range(3) if a not in [b % 3 for b in axes]]
        rows = x.to_numpy().transpose(*kept_axes, *axes).reshape(*[x.shape[a] for a in kept_axes], -1)
        wanted = np.linalg.norm(rows, ord, axis=-1)
        result = L.vector_norm(x, axis=axis, ord=ord)
        assert result.dtype is dtype.part and result.shape == wanted.shape
        np.testing.assert_allclose(result.to_numpy(), wanted, rtol=1e-5 if dtype.part is tx.float32 else 1e-12)
        with_kept_axes = L.vector_norm(x, axis=axis, ord=ord, keepdims=True)
        assert with_kept_axes.ndim == 3 and with_kept_axes.size == result.size


@each_dtype
@each_batch
@pytest.mark.parametrize("ord", MATRIX)
def test_matrix_norm_equals_numpy(dtype: tx.DType, batch: tuple[int, ...], ord: Any) -> None:
    x = random((*batch, 3, 4), dtype)
    result = L.matrix_norm(x, ord=ord)
    wanted = np.linalg.norm(x.to_numpy(), ord, axis=(-2, -1)) if x.size else np.zeros(batch)
    assert result.dtype is dtype.part and result.shape == batch
    np.testing.assert_allclose(result.to_numpy(), wanted, rtol=1e-5 if dtype.part is tx.float32 else 1e-12)
    assert L.matrix_norm(x, ord=ord, keepdims=True).shape == (*batch, 1, 1)


@each_dtype
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3)])
def test_norms_without_elements_are_zero(dtype: tx.DType, shape: tuple[int, ...]) -> None:
    x = tx.zeros(shape, dtype=dtype)
    for ord in (1, 2, inf, "fro", "nuc"):
        for keepdims in (False, True):
            result, wanted = L.matrix_norm(x, ord=ord, keepdims=keepdims), np.zeros((*shape[:-2], *(1, 1) * keepdims))
            np.testing.assert_array_equal(result.numpy(), wanted)
            assert result.dtype is dtype.part
    for axis in (None, 0, -1, (-2, -1)):
        for ord in (0, 1, 2, 3, inf):
            np.testing.assert_array_equal(L.vector_norm(x, axis=axis, ord=ord).numpy(), np.zeros(x.sum(axis).shape))


def test_norm_equals_numpy() -> None:
    x = random((3, 4))
    array = x.to_numpy()
    cases: list[tuple[tx.Tensor, dict[str, Any]]] = [
        (x, {}),
        (x[0], {}),
        (x[0], {"ord": 3}),
        (x, {"ord": 1}),
        (x, {"ord": "nuc"}),
        (x, {"axis": 0}),
        (x, {"axis": 1, "ord": inf, "keepdims": True}),
        (x.reshape(3, 2, 2), {"axis": (0, 2), "ord": 2}),
        (x.reshape(3, 2, 2), {"axis": (2, 0), "ord": 1, "keepdims": True}),
        (x.reshape(3, 2, 2), {}),
    ]
    for t, options in cases:
        assert close(L.norm(t, **options), np.linalg.norm(t.to_numpy(), **options), 10)
    assert close(L.norm(x, dim=1), np.linalg.norm(array, axis=1))
    with pytest.raises(ShapeError, match="3 axes; axis must name one for vectors"):
        L.norm(x.reshape(3, 2, 2), ord=1)


def test_norms_widen_integers_and_keep_the_dtype_of_narrow_floats() -> None:
    x = tx.asarray([[2, 1], [1, 1]])
    for dtype in WHOLE:
        assert L.vector_norm(x.astype(dtype)).dtype is L.matrix_norm(x.astype(dtype), ord=2).dtype is tx.float64
        assert L.cond(x.astype(dtype), 1).dtype is tx.float64
    for dtype in NARROW:
        assert L.vector_norm(x.astype(dtype)).dtype is L.matrix_norm(x.astype(dtype), ord="nuc").dtype is dtype
    assert L.vector_norm(tx.asarray([300.0, 400.0], dtype=tx.float16)).item() == 500.0  # the squares exceed the range of float16


def test_vector_norm_propagates_nan_and_infinities() -> None:
    assert L.vector_norm(tx.asarray([1.0, np.nan])).isnan().item()
    assert L.vector_norm(tx.asarray([1.0, np.nan]), ord=inf).isnan().item()
    assert L.vector_norm(tx.asarray([1.0, -inf]), ord=1).item() == inf
    assert L.vector_norm(tx.zeros(0)).item() == 0.0 and L.vector_norm(tx.zeros((0, 2)), axis=0).tolist() == [0.0, 0.0]


@each_dtype
@each_batch
def test_matrix_rank_finds_the_rank_of_products_of_known_rank(dtype: tx.DType, batch: tuple[int, ...]) -> None:
    for rank in (1, 2, 3):
        x = random((*batch, 5, rank), dtype) @ random((*batch, rank, 3), dtype, seed=1)
        assert close(L.matrix_rank(x), tx.full(batch, rank, dtype=tx.int64))
    assert close(L.matrix_rank(tx.zeros((*batch, 2, 2), dtype=dtype)), tx.zeros(batch, dtype=tx.int64))
    assert close(L.matrix_rank(tx.zeros((*batch, 0, 2), dtype=dtype)), tx.zeros(batch, dtype=tx.int64))


def test_matrix_rank_ignores_singular_values_below_rtol() -> None:
    x = tx.asarray([[1.0, 0.0], [0.0, 0.01]]).expand(2, 2, 2)
    assert L.matrix_rank(x, rtol=0.1).tolist() == [1, 1]
    assert L.matrix_rank(x, rtol=tx.asarray([0.1, 0.001])).tolist() == [1, 2]


@pytest.mark.parametrize("p", [None, 1, -1, 2, -2, inf, -inf, "fro", "nuc"])
def test_cond_equals_numpy(p: Any) -> None:
    for dtype in FULL:
        x = random((2, 4, 4), dtype)
        wanted = np.stack([np.linalg.cond(m, p) for m in x.to_numpy()])
        np.testing.assert_allclose(L.cond(x, p).to_numpy(), wanted, rtol=1e-3 if dtype.part is tx.float32 else 1e-9)
    singular = tx.asarray([[[1.0, 1.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    if p not in (None, 2, -2):
        assert L.cond(singular, p)[0].item() == inf and L.cond(singular, p)[1].item() < 5


def test_norms_reject_invalid_orders_and_shapes() -> None:
    with pytest.raises(ArgumentError, match="ord is 3; for matrices it must be 'fro'"):
        L.matrix_norm(tx.eye(2), ord=3)
    with pytest.raises(ArgumentError, match="ord, the order of a vector norm, must be a number, not 'fro'"):
        L.vector_norm(tx.eye(2), ord="fro")
    with pytest.raises(AxisError):
        L.vector_norm(tx.eye(2), axis=2)
    with pytest.raises(ShapeError, match=r"vector_norm: axis 0"):
        L.vector_norm(tx.zeros(0), ord=-inf)
    with pytest.raises(ShapeError, match=r"cond: matrices .* not square"):
        L.cond(tx.ones((2, 3)), 1)
    with pytest.raises(DerivativeError, match="no derivative with respect to the order"):
        tx.grad(lambda order: L.vector_norm(tx.ones(3), ord=order))(tx.asarray(3.0))


def test_matrix_rank_accepts_hermitian_matrices_vectors_and_numbers() -> None:
    x = tx.asarray([[[2.0, 1e-3], [1e-3, 0.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]])
    assert tx.linalg.matrix_rank(x, hermitian=True).tolist() == tx.linalg.matrix_rank(x).tolist() == [2, 0, 1]
    assert tx.linalg.matrix_rank(x, 1e-2).tolist() == tx.linalg.matrix_rank(x, 1e-2, True).tolist() == [1, 0, 1]
    assert tx.linalg.matrix_rank(tx.asarray([[0.0, 7.0], [1.0, 0.0]]), hermitian=True).item() == 2  # the lower triangle: 0, 1, 0
    assert [tx.linalg.matrix_rank(v).item() for v in ([0, 3], [0.0, 0.0], 5)] == [1, 0, 1]
    with pytest.raises(ArgumentError, match="tol"):
        tx.linalg.matrix_rank(x, 1e-2, rtol=1e-3)


@pytest.mark.parametrize("p", [None, 2, -2, "fro", 1, -1])
def test_cond_of_a_zero_matrix_is_infinite(p: Any) -> None:
    x = tx.asarray([[[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 2.0]]])
    result = tx.linalg.cond(x, p)
    assert result[0].item() == inf and result[1].item() < 3
