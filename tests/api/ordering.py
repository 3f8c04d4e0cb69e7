"""A model of order, element by element, for the tests of sorting, sets and searches."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenxor as tx

REAL = (
    *(tx.bool, tx.int8, tx.int16, tx.int32, tx.int64, tx.uint8, tx.uint16, tx.uint32, tx.uint64),
    *(tx.float16, tx.bfloat16, tx.float32, tx.float64),
)


def key(value: Any) -> Any:
    """Return a sort key: numbers by value, complex numbers by their parts, and NaN last."""
    if isinstance(value, complex):
        return (*key(value.real), *key(value.imag))
    return (1, 0) if value != value else (0, value)


def in_order(row: list[Any], descending: bool = False) -> list[int]:
    """Return the indices that sort a row; the sort is stable."""
    return sorted(range(len(row)), key=lambda k: key(row[k]), reverse=descending)  # `reverse` keeps the order of equal elements


def drawn(dtype: tx.DType, shape: tuple[int, ...], seed: int = 0, most: int | None = None) -> tx.Tensor:
    """Return a random tensor. It has many equal elements if `most` is small; floats include NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(seed)
    if dtype is tx.bool:
        return tx.asarray(rng.integers(0, 2, shape).astype(bool))
    if dtype.is_integer:
        low, high = (int(dtype.lowest), int(dtype.highest)) if most is None else (max(int(dtype.lowest), -most), most)
        return tx.asarray(rng.integers(low, high, shape, dtype=dtype.numpy, endpoint=True))
    result = rng.standard_normal(shape) * 100 if most is None else rng.integers(-most, most, shape, endpoint=True) / 2
    odd = np.asarray([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, -0.0])
    result = np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), result)
    if dtype.is_complex:
        result = result + 1j * np.roll(result, 3, axis=-1)
    with np.errstate(invalid="ignore"):
        return tx.asarray(result).astype(dtype)


def same(result: list[Any], expected: list[Any]) -> bool:
    """Return whether elements are equal, including the signs of zeros; NaN equals NaN."""
    return [_shown(x) for x in result] == [_shown(x) for x in expected]


def _shown(value: Any) -> str:
    return "nan" if value != value else repr(value)
