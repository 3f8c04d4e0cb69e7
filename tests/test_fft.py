"""Fourier transforms, beside the sums that they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DTypeError, ShapeError, TenxorError
from tenxor.fft import transforms
from tenxor.fft.transforms import MIN_MIRRORED_SIZE

from .api.samples import SAMPLES, each_sample

F = tx.fft
Array = np.ndarray[Any, Any]
FULL = (tx.float32, tx.float64, tx.complex64, tx.complex128)
NORMS = (None, "backward", "ortho", "forward")
WIDE = {tx.float32: tx.complex64, tx.float64: tx.complex128}

each_dtype = pytest.mark.parametrize("dtype", FULL, ids=str)
each_norm = pytest.mark.parametrize("norm", NORMS)


def random(shape: tuple[int, ...], dtype: tx.DType, seed: int = 0) -> tx.Tensor:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.is_complex else 0)
    return tx.asarray(values).astype(dtype)


def fitted(row: Array, n: int) -> Array:
    """Cropped, or filled up with zeros."""
    padded = np.zeros((*row.shape[:-1], n), row.dtype)
    copied = min(n, row.shape[-1])
    padded[..., :copied] = row[..., :copied]
    return padded


def transform(row: Array, n: int, sign: int, norm: str | None) -> Array:
    """The sum itself, along the last axis, in 64 bits."""
    k = np.arange(n)
    result = fitted(row, n) @ np.exp(sign * 2j * np.pi * np.outer(k, k) / n)
    divided = {"ortho": n**0.5, "forward": n if sign < 0 else 1}.get(norm or "", 1 if sign < 0 else n)
    return result / divided


def assert_near(actual: tx.Tensor, expected: Any, dtype: tx.DType) -> None:
    assert actual.dtype is dtype and actual.shape == expected.shape
    scale = max(1.0, float(np.abs(expected).max())) if expected.size else 1.0
    eps = tx.finfo(dtype).eps
    np.testing.assert_allclose(actual.to_numpy(), expected, rtol=0, atol=50 * eps * scale)


@each_dtype
@each_norm
@pytest.mark.parametrize("size", [1, 2, 5, 8, 13])
def test_transforms_of_one_axis_equal_the_definition(dtype: tx.DType, norm: str | None, size: int) -> None:
    x = random((3, size), dtype)
    wide, array = WIDE.get(dtype, dtype), x.to_numpy()
    for n in (None, 1, size, size + 3, max(1, size - 2)):
        count = size if n is None else n
        assert_near(F.fft(x, n=n, norm=norm), transform(array, count, -1, norm), wide)
        assert_near(F.ifft(x, n=n, norm=norm), transform(array, count, 1, norm), wide)
        assert_near(F.fft(x.T.copy(), n=n, axis=0, norm=norm), transform(array, count, -1, norm).T, wide)
        if not dtype.is_complex:
            half = count // 2 + 1
            assert_near(F.rfft(x, n=n, norm=norm), transform(array, count, -1, norm)[:, :half], wide)
            opposite = {"forward": "backward", "ortho": "ortho"}.get(norm or "", "forward")
            assert_near(F.ihfft(x, n=n, norm=norm), transform(array, count, -1, opposite)[:, :half].conj(), wide)


@each_dtype
@each_norm
@pytest.mark.parametrize("size", [2, 3, 5])
def test_irfft_and_hfft_equal_the_transform_of_the_full_spectrum(dtype: tx.DType, norm: str | None, size: int) -> None:
    x = random((3, size), dtype)
    array = x.to_numpy().astype(complex)
    for n in (None, 1, 2 * size - 2, 2 * size - 1, 2 * size + 3, size):
        count = 2 * (size - 1) if n is None else n
        half = fitted(array, count // 2 + 1)
        half[:, 0] = half[:, 0].real
        if count % 2 == 0:
            half[:, -1] = half[:, -1].real
        full = np.concatenate([half, half[:, 1 : (count + 1) // 2][:, ::-1].conj()], axis=1)
        assert_near(F.irfft(x, n=n, norm=norm), transform(full, count, 1, norm).real, dtype.part)
        assert_near(F.hfft(x, n=n, norm=norm), transform(full, count, -1, norm).real, dtype.part)


@each_dtype
@each_norm
def test_inverse_transforms_return_the_input(dtype: tx.DType, norm: str | None) -> None:
    x = random((4, 5, 6), dtype)
    wide, array = WIDE.get(dtype, dtype), x.to_numpy()
    for axes in (None, (0, 1), (2,), (1, -1), (2, 0, 1), ()):
        assert_near(F.ifftn(F.fftn(x, axes=axes, norm=norm), axes=axes, norm=norm), array, wide)
        if dtype.is_complex or axes == ():
            continue
        sizes = x.shape if axes is None else [x.shape[a] for a in axes]
        assert_near(F.irfftn(F.rfftn(x, axes=axes, norm=norm), s=sizes, axes=axes, norm=norm), array, dtype)
        assert_near(F.irfft(F.rfft(x, norm=norm), n=6, norm=norm), array, dtype)
        assert_near(F.hfft(F.ihfft(x, axis=1, norm=norm), n=5, axis=1, norm=norm), array, dtype)


@each_dtype
def test_transform_of_several_axes_equals_transforms_one_after_the_other(dtype: tx.DType) -> None:
    x = random((3, 4, 5), dtype)
    wide = WIDE.get(dtype, dtype)
    both = F.fft(F.fft(x, axis=2, n=7), axis=0)
    assert_near(F.fftn(x, s=(-1, 7), axes=(0, 2)), both.to_numpy(), wide)
    assert_near(F.fftn(x, s=(4, 7)), F.fft(F.fft(x, n=7), axis=1).to_numpy(), wide)
    assert_near(F.fft2(x), F.fftn(x, axes=(1, 2)).to_numpy(), wide)
    assert_near(F.ifft2(x), F.ifftn(x, axes=(1, 2)).to_numpy(), wide)
    if not dtype.is_complex:
        assert_near(F.rfft2(x), F.fft2(x).to_numpy()[..., :3], wide)
        assert_near(F.irfft2(F.rfft2(x), s=(4, 5)), x.to_numpy(), dtype)
        assert_near(F.rfftn(x, s=(6, 5), axes=(0, 2)), F.fftn(x, s=(6, 5), axes=(0, 2)).to_numpy()[..., :3], wide)


@each_sample
def test_fft_of_every_layout_along_every_axis_equals_the_definition(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    for axis in range(-array.ndim, array.ndim):
        if array.shape[axis] == 0:
            with pytest.raises(ShapeError, match="0 elements to transform"):
                F.fft(tensor, axis=axis)
        else:
            expected = np.moveaxis(transform(np.moveaxis(array, axis, -1), array.shape[axis], -1, None), -1, axis)
            assert_near(F.fft(tensor, axis=axis), expected, tx.complex128)
    assert F.fftn(tensor, axes=()).dtype is tx.complex128


@pytest.mark.parametrize("dtype", [tx.bool, tx.uint8, tx.int64, tx.float16, tx.bfloat16], ids=str)
def test_fft_widens_integers_and_half_floats(dtype: tx.DType) -> None:
    x = tx.asarray([0, 1, 1, 0, 1]).astype(dtype)
    wide = tx.float32 if dtype.is_float else tx.float64
    assert_near(F.fft(x), F.fft(x.astype(wide)).to_numpy(), WIDE[wide])
    assert_near(F.irfft(x), F.irfft(x.astype(wide)).to_numpy(), wide)


def test_transforms_shared_among_threads_give_equal_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    x = random((40, 3, 16), tx.complex64)
    unshared = F.fft(x).to_numpy()
    monkeypatch.setattr("tenxor.native.host_execution.MAX_ONE_THREAD_NS", 0)
    np.testing.assert_array_equal(F.fft(x).to_numpy(), unshared)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_fftfreq_and_rfftfreq_equal_the_definition(n: int) -> None:
    for d in (1.0, 0.1, -2.0):
        for dtype in (None, tx.float32, tx.float64):
            kind = dtype or tx.float64
            signed = [k if k <= (n - 1) // 2 else k - n for k in range(n)]
            assert_near(F.fftfreq(n, d=d, dtype=dtype), np.asarray(signed) / (n * d), kind)
            assert_near(F.rfftfreq(n, d=d, dtype=dtype), np.arange(n // 2 + 1) / (n * d), kind)


@each_sample
def test_fftshift_and_ifftshift_equal_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    if array.ndim == 0:
        assert F.fftshift(tensor).item() == F.ifftshift(tensor).item() == array.item()
        return
    for axes in (None, *range(-array.ndim, array.ndim), (0, -1) if array.ndim > 1 else ()):
        for ours, theirs in ((F.fftshift, np.fft.fftshift), (F.ifftshift, np.fft.ifftshift)):
            shifted = ours(tensor, axes=axes)
            np.testing.assert_array_equal(shifted.to_numpy(), theirs(array, axes))
            assert shifted.storage is not tensor.storage
        np.testing.assert_array_equal(F.ifftshift(F.fftshift(tensor, axes=axes), axes=axes).to_numpy(), array)


@pytest.mark.parametrize("function", [F.fft, F.ifft, F.rfft, F.irfft, F.hfft, F.ihfft])
def test_wrong_axis_size_norm_or_dtype_raises_an_error(function: Callable[..., tx.Tensor]) -> None:
    x = tx.ones((2, 3))
    name = function.__name__
    with pytest.raises(AxisError, match=name):
        function(x, axis=2)
    with pytest.raises(ShapeError, match=rf"{name}: axis 1 of shape \(2, 3\) gives 0 elements"):
        function(x, n=0)
    with pytest.raises(ArgumentError, match=f"{name}: norm must be 'backward', 'ortho' or 'forward', not 'no'"):
        function(x, norm="no")
    if name in ("rfft", "ihfft"):
        with pytest.raises(DTypeError, match=f"{name}: x is complex128; it must be real; use tx.fft.i?fft, or"):
            function(x * 1j)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
def test_errors_name_the_called_transform_of_several_axes(name: str) -> None:
    function, x = getattr(F, name), tx.ones((2, 3))
    for wrong in ({"s": (2, 2, 2)}, {"s": ("a",)}, {"axes": (0, 5)}, {"axes": "a"}, {"norm": "no"}):
        with pytest.raises(TenxorError, match=f"^{name}: "):
            function(x, **wrong)


def test_real_transform_of_complex_numbers_advises_the_complex_transform_of_as_many_axes() -> None:
    for name, advised in (("rfft2", "fft2"), ("rfftn", "fftn"), ("rfft", "fft"), ("ihfft", "ifft")):
        with pytest.raises(DTypeError, match=f"^{name}: x is complex128; it must be real; use tx.fft.{advised}, or"):
            getattr(F, name)(tx.ones((2, 3)) * 1j)


def test_errors_name_the_called_function_of_frequencies_and_shifts() -> None:
    for name in ("fftfreq", "rfftfreq"):
        for arguments in ((0,), ("a",), (3, 0.0), (3, "a")):
            with pytest.raises(TenxorError, match=f"^{name}: "):
                getattr(F, name)(*arguments)
    for name in ("fftshift", "ifftshift"):
        with pytest.raises(TenxorError, match=f"^{name}: "):
            getattr(F, name)(tx.ones(3), axes=4)


def test_wrong_sizes_or_axes_of_fftn_raise_an_error() -> None:
    x = tx.ones((2, 3))
    with pytest.raises(ArgumentError, match="fftn: s has 1 sizes for 2 axes"):
        F.fftn(x, s=(2,), axes=(0, 1))
    with pytest.raises(ArgumentError, match=r"s has 3 sizes; it must have at most 2"):
        F.fftn(x, s=(2, 2, 2))
    with pytest.raises(ArgumentError, match="rfftn: axes is empty; it must name at least one axis"):
        F.rfftn(x, axes=())
    with pytest.raises(ArgumentError, match="n is 0"):
        F.fftfreq(0)
    with pytest.raises(DTypeError, match="real float, not int64"):
        F.fftfreq(3, dtype=tx.int64)


def test_repeated_axes_are_transformed_as_in_numpy() -> None:
    x = np.random.default_rng(7).normal(size=(2, 3))
    for name in ("rfftn", "fftn", "ifftn"):
        ours = getattr(tx.fft, name)(tx.asarray(x), axes=(0, 0, 1), s=(10, 20, 40))
        theirs = getattr(np.fft, name)(x, axes=(0, 0, 1), s=(10, 20, 40))
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(np.asarray(ours), theirs, atol=1e-12)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transform_of_an_empty_axis_padded_with_zeros_is_zero(name: str) -> None:
    function = getattr(tx.fft, name)
    for n in (1, 2, 3, 8):
        for dtype in (tx.float64, tx.float32):
            for _ in range(3):  # also where NumPy's loops are called in place
                result = function(tx.zeros((2, 0), dtype=dtype), n=n)
                assert result.shape == (2, n // 2 + 1 if name in ("rfft", "ihfft") else n) and not bool((result != 0).any())
        assert not bool((function(tx.zeros((0, 2)), n, 0) != 0).any())


@pytest.mark.parametrize("name", ["fftn", "ifft2", "rfftn", "rfft2", "irfftn", "irfft2"])
def test_transform_of_several_empty_axes_padded_with_zeros_is_zero(name: str) -> None:
    for dtype in (tx.float64, tx.float32):
        x = tx.zeros((3, 0), dtype=dtype)
        for _ in range(3):
            result = getattr(tx.fft, name)(x if name.startswith("r") else x + 0j, (2, 3))
            assert result.shape == (2, 2 if name.startswith("r") else 3) and not bool((result != 0).any())


def test_fft2_of_real_images_is_one_combined_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    real_transform, dtype_names = transforms._transform_combined, list[str]()
    monkeypatch.setattr(
        transforms, "_transform_combined", lambda steps, norm, x: dtype_names.append(x.dtype.name) or real_transform(steps, norm, x)
    )
    for dtype in FULL:
        x = random((30, 31), dtype, 4)
        assert_near(F.fft2(x), np.fft.fft2(x.to_numpy()), WIDE.get(dtype, dtype))
    assert dtype_names == ["float32", "float64"]


@pytest.mark.parametrize("n", [None, MIN_MIRRORED_SIZE, MIN_MIRRORED_SIZE + 1, 700])
@pytest.mark.parametrize("norm", NORMS)
def test_fft_of_long_real_rows_equals_that_of_complex_rows(n: int | None, norm: str | None) -> None:
    for dtype in (tx.float32, tx.float64):
        x = random((3, 2 * MIN_MIRRORED_SIZE + 3), dtype, 5)
        wide = x.astype(WIDE[dtype])
        for transform in (F.fft, F.ifft):
            assert_near(transform(x, n, norm=norm), transform(wide, n, norm=norm).to_numpy(), WIDE[dtype])
            transformed = transform(x.T.copy(), n, 0, norm)
            assert_near(transformed, transform(wide, n, norm=norm).T.to_numpy(), WIDE[dtype])
            assert bool((transformed[1:].flip(0).conj() == transformed[1:]).all())  # exactly, as the later half is the other's conjugate


def test_gradient_of_fft_of_real_rows_equals_that_of_complex_rows() -> None:
    x, weights = random((MIN_MIRRORED_SIZE + 1,), tx.float64, 6), random((MIN_MIRRORED_SIZE + 1,), tx.complex128, 7)
    for transform in (F.fft, F.ifft):
        gradients = [tx.grad(lambda y, t=transform: tx.real(t(y) * weights).sum())(x)]
        gradients.append(tx.grad(lambda y, t=transform: tx.real(t(y.astype(tx.complex128)) * weights).sum())(x))
        assert_near(gradients[0], gradients[1].to_numpy(), tx.float64)
