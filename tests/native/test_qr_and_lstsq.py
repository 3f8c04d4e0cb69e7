"""`qr` calls the C loops of NumPy with NumPy's bits; if they are missing, it calls NumPy's function."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tenxor.native import qr_and_lstsq

RNG = np.random.default_rng(4)
SHAPES = [(5, 3), (3, 5), (4, 4), (1, 1), (7, 1), (1, 7), (2, 5, 3), (2, 2, 3, 4), (150, 140), (0, 3), (3, 0), (0, 2, 2)]


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    found = RNG.normal(size=shape)
    return (found + 1j * RNG.normal(size=shape)).astype(dtype) if "c" in dtype else found.astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", SHAPES)
def test_qr_equals_numpy_bit_for_bit(shape: tuple[int, ...], mode: str, dtype: str) -> None:
    whole = drawn((*shape[:-1], 2 * shape[-1]), dtype)
    for x in (whole[..., : shape[-1]], whole[..., ::-2], drawn(shape, dtype)):
        before = x.copy()
        x.flags.writeable = False
        found, wanted = qr_and_lstsq.qr(x, mode=mode), np.linalg.qr(before, mode)
        assert [(a.shape, a.dtype, a.tobytes()) for a in found] == [(b.shape, b.dtype, b.tobytes()) for b in wanted]
        assert x.tobytes() == before.tobytes()


def test_qr_of_nan_gives_neither_error_nor_warning() -> None:
    x = drawn((4, 3), "float64")
    x[1, 2], x[0, 0] = np.nan, np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, wanted = qr_and_lstsq.qr(x, mode="reduced"), np.linalg.qr(x)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_qr_without_c_loops_uses_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    x = drawn((5, 3), "float64")
    wanted = np.linalg.qr(x)
    for missing in ("qr_r_raw", "qr_reduced"):
        monkeypatch.setattr(
            qr_and_lstsq, "_find_loop", lambda name, missing=missing, own=qr_and_lstsq._find_loop: None if name == missing else own(name)
        )
        found = qr_and_lstsq.qr(x, mode="reduced")
        monkeypatch.undo()
        assert [a.tobytes() for a in found] == [b.tobytes() for b in wanted]


def test_qr_does_not_call_the_python_function_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object, **named: object) -> None:
        raise AssertionError("NumPy's own is asked")

    monkeypatch.setattr(np.linalg, "qr", never)
    qr_and_lstsq.qr(drawn((5, 3), "float64"), mode="reduced")


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_upper_triangle_is_copied_bit_for_bit(dtype: str) -> None:
    """Elements below the diagonal are 0 whatever stood there; a product with a mask would give NaN."""
    below = np.array([[1.5, -0.0, 2.0], [np.nan, np.inf, -3.0], [-np.inf, 5.0, np.nan]]).astype(dtype)
    x, out = np.stack([below, -below]), np.full((2, 3, 3), 7.0).astype(dtype)
    qr_and_lstsq._copy_upper(out, x)
    assert out.tobytes() == np.triu(x).tobytes()
