"""Grids of indices, compared with NumPy's, and windows, compared with their formulas."""

from __future__ import annotations

from math import cos, pi

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, ShapeError, UnknownAttribute

from .samples import assert_same


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3), (1, 2, 3, 4)])
def test_indices_equals_numpy(shape: tuple[int, ...]) -> None:
    assert_same(tx.indices(shape), np.indices(shape))
    assert_same(tx.indices(list(shape), tx.float32), np.indices(shape, np.float32))
    result, wanted = tx.indices(shape, sparse=True), np.indices(shape, sparse=True)
    assert type(result) is tuple and len(result) == len(wanted)
    for ours, theirs in zip(result, wanted, strict=True):
        assert_same(ours, theirs)
    with pytest.raises(ShapeError, match=r"indices: shape \(2, -1\) has a negative size"):
        tx.indices((2, -1))


SUMS = {"hanning": (0.5, 0.5, 0.0), "hamming": (0.54, 0.46, 0.0), "blackman": (0.42, 0.5, 0.08)}  # of cosines


@pytest.mark.parametrize("name", SUMS)
def test_cosine_windows_equal_their_formula(name: str) -> None:
    a, b, c = SUMS[name]
    for m in (2, 3, 8, 31):
        for periodic, steps in ((False, m - 1), (True, m)):
            wanted = [a - b * cos(2 * pi * k / steps) + c * cos(4 * pi * k / steps) for k in range(m)]
            np.testing.assert_allclose(getattr(tx, name)(m, periodic=periodic).to_numpy(), wanted, atol=1e-15)


def test_bartlett_and_kaiser_windows_equal_their_formula() -> None:
    for m in (2, 3, 8, 31):
        for periodic, steps in ((False, m - 1), (True, m)):
            positions = np.arange(m) * 2 / steps - 1
            np.testing.assert_allclose(tx.bartlett(m, periodic=periodic).to_numpy(), 1 - abs(positions), atol=1e-15)
            wanted = np.i0(8.6 * np.sqrt(np.maximum(1 - positions * positions, 0))) / np.i0(8.6)
            np.testing.assert_allclose(tx.kaiser(m, 8.6, periodic=periodic).to_numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning", "kaiser"])
def test_window_functions_check_size_and_dtype(name: str) -> None:
    beta = (5.0,) if name == "kaiser" else ()
    function = getattr(tx, name)
    for periodic in (False, True):
        assert function(0, *beta, periodic=periodic).shape == (0,)
        assert function(1, *beta, periodic=periodic).tolist() == [1.0]
        assert function(7, *beta, periodic=periodic).dtype is tx.float64
    assert function(7, *beta, dtype=tx.bfloat16).dtype is tx.bfloat16
    with pytest.raises(ArgumentError, match=f"{name}: the number of elements is -1"):
        function(-1, *beta)
    with pytest.raises(DTypeError, match=f"{name}: the dtype of a window must be a real float, not int64"):
        function(3, *beta, dtype=int)
    with pytest.raises(ArgumentError, match=f"{name}: m must be an integer"):
        function(2.5, *beta)
    with pytest.raises(MemoryError):
        function(1 << 60, *beta)


@pytest.mark.parametrize("name", ["bartlett_window", "hamming_window", "hann_window", "kaiser_window", "isscalar", "fromiter"])
def test_missing_names_raise_and_name_the_function_to_use(name: str) -> None:
    with pytest.raises(UnknownAttribute, match=r"use tx\.|use np\."):
        getattr(tx, name)
