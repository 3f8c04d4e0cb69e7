"""Matrices of every dtype, shape and layout, and a comparison up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx

Array = np.ndarray[Any, Any]
FULL = (tx.float32, tx.float64, tx.complex64, tx.complex128)
NARROW = (tx.float16, tx.bfloat16)
WHOLE = (tx.bool, tx.int8, tx.uint16, tx.int32, tx.int64, tx.uint64)
BATCHES: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (2, 3), (0,), (2, 0))

each_dtype = pytest.mark.parametrize("dtype", FULL, ids=str)
each_batch = pytest.mark.parametrize("batch", BATCHES, ids=str)


def eps(dtype: tx.DType) -> float:
    """Return the distance from 1 to the next float."""
    return float(tx.finfo(dtype).eps)


def random(shape: tuple[int, ...], dtype: tx.DType = tx.float64, seed: int = 0) -> tx.Tensor:
    """Return normally distributed numbers; for complex dtypes, both parts are."""
    rng = np.random.default_rng(seed)
    result = rng.standard_normal(shape)
    if dtype.is_complex:
        result = result + 1j * rng.standard_normal(shape)
    return tx.asarray(result).astype(dtype)


def definite(shape: tuple[int, ...], dtype: tx.DType = tx.float64) -> tx.Tensor:
    """Return symmetric or Hermitian matrices with all eigenvalues above 1."""
    x = random(shape, dtype)
    return (x @ x.mT.conj() + tx.eye(shape[-1], dtype=dtype)).realize()


def adjoint(x: tx.Tensor) -> tx.Tensor:
    return x.mT.conj()


def close(result: tx.Tensor, expected: Any, scale: float = 1.0) -> bool:
    """Return whether elements are equal up to rounding, 100 times `scale` roundings of the largest. Shapes and dtypes must be equal."""
    wanted = expected if isinstance(expected, tx.Tensor) else tx.asarray(expected)
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
    if result.size == 0:
        return True
    dtype = result.dtype
    if not (dtype.is_float or dtype.is_complex):
        return result.tolist() == wanted.tolist()
    difference = np.abs(result.to_numpy() - wanted.to_numpy()).max()
    return bool(difference <= 100 * scale * eps(dtype) * max(1.0, float(np.abs(wanted.to_numpy()).max())))


MOVES = {
    "contiguous": lambda t: t.copy(),
    "transposed": lambda t: t.mT.copy().mT,
    "backwards": lambda t: t.flip((-2, -1)).copy().flip((-2, -1)),
    "strided": lambda t: tx.repeat(tx.repeat(t, 2, axis=-1), 3, axis=-2)[..., ::3, ::2],
    "gathered": lambda t: t.flip(-2).oindex[..., list(range(t.shape[-2]))[::-1], :],
    "a chain": lambda t: t.mT.reshape(-1).reshape(t.mT.shape).mT,
    "pending": lambda t: t + 0,
}
each_layout = pytest.mark.parametrize("move", MOVES)
