"""Determinants of large matrices, which LAPACK factors while the GIL is released."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tenxor.native import determinants


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat matrices of one row and more as large."""
    monkeypatch.setattr(determinants, "MIN_LAPACK_ROWS", 1)


@pytest.mark.parametrize("char", "fdFD")
def test_determinants_of_large_matrices_equal_numpy(char: str, small: None) -> None:
    numbers = np.random.default_rng(7)
    assert determinants._find_lapack_factor(char) is not None, "NumPy's LAPACK goes by another name here; say which in _NAMES"
    for n in (1, 2, 3, 5, 8, 33):
        given = numbers.normal(size=(2, 3, n, n)) + (1j * numbers.normal(size=(2, 3, n, n)) if char in "FD" else 0)
        x = given.astype(char)
        x[0, 1, 0] = 0  # singular
        x[1, 2, 0, 0] = np.nan
        for own in (x, x.mT, x[:, ::-1], x[0, 0]):
            with np.errstate(all="ignore"):
                sign, log = determinants.slogdet(own)
                signs, logs = np.linalg.slogdet(own)
                det, dets = determinants.det(own), np.linalg.det(own)
            eps = float(np.finfo(char).eps) * n * 16
            assert (sign.dtype, log.dtype, det.dtype) == (signs.dtype, logs.dtype, dets.dtype)
            told = ~np.isnan(logs)  # NaN has no sign
            np.testing.assert_allclose(sign[told], signs[told], rtol=0, atol=eps)
            np.testing.assert_allclose(log, logs, rtol=eps, atol=eps * n)
            np.testing.assert_allclose(det, dets, rtol=eps * n, atol=eps)


def test_det_without_lapack_uses_numpy(monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    monkeypatch.setattr(determinants, "_find_lapack_factor", lambda char: None)
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert determinants.det(x) == np.linalg.det(x)


@pytest.mark.large
def test_other_threads_run_during_a_large_determinant() -> None:
    """NumPy's own function holds the GIL."""
    x = np.random.default_rng(3).normal(size=(1800, 1800))
    determinants.det(x[:300, :300])
    times = []

    def look() -> None:
        while not over.wait(0.001):
            times.append(time.perf_counter())

    shares = []
    for _ in range(3):  # others may have the processors
        over = threading.Event()
        watching = threading.Thread(target=look)
        times.clear()
        watching.start()
        begun = time.perf_counter()
        determinants.slogdet(x)
        ended = time.perf_counter()
        over.set()
        watching.join()
        within = [begun, *[t for t in times if begun < t < ended], ended]
        shares.append(np.diff(within).max() / (ended - begun))
    assert min(shares) < 0.5, shares
