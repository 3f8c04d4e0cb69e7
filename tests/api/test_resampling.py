"""`interpolate`, compared with its definition point by point, and with PyTorch if installed."""

from __future__ import annotations

from itertools import product
from math import floor
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, ShapeError

from .samples import Array

X = np.random.default_rng(0).normal(size=(2, 3, 5, 4, 3))


def kernel(mode: str, d: float) -> float:
    """Return the weight of an element at a distance."""
    d, a = abs(d), -0.75
    if mode == "linear":
        return max(1 - d, 0.0)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def along(row: Array, length: int, step: float, mode: str, corners: bool) -> Array:
    """Return a row resized to another length."""
    n = len(row)
    result = []
    for i in range(length):
        if mode.startswith("nearest"):
            result.append(row[min(floor((i + 0.5 * (mode != "nearest")) * step), n - 1)])
            continue
        center = i * (n - 1) / max(length - 1, 1) if corners else (i + 0.5) * step - 0.5
        center = max(center, 0.0) if mode == "linear" else center
        neighbours = range(floor(center) - 1, floor(center) + 3)
        result.append(sum(row[min(max(k, 0), n - 1)] * kernel(mode, center - k) for k in neighbours))
    return np.array(result)


def reference_resize(x: Array, lengths: Any, steps: Any, mode: str, corners: bool) -> Array:
    for axis, (length, step) in enumerate(zip(lengths, steps, strict=True), start=2):
        x = np.apply_along_axis(along, axis, x, length, step, mode, corners)
    return x


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "cubic"])
@pytest.mark.parametrize("space", [1, 2, 3])
def test_interpolate_equals_its_definition(space: int, mode: str) -> None:
    x = X[(..., *(0,) * (3 - space))]
    for corners in (False,) if "nearest" in mode else (False, True):
        for lengths in ((7, 2, 4)[:space], (1, 9, 3)[:space]):
            steps = [n / length for n, length in zip(x.shape[2:], lengths, strict=True)]
            result = tx.interpolate(x, lengths, mode=mode, align_corners=corners)
            np.testing.assert_allclose(np.asarray(result), reference_resize(x, lengths, steps, mode, corners), atol=1e-12)
        for factor in (2.3, 0.6):
            lengths = tuple(floor(n * factor) for n in x.shape[2:])
            result = tx.interpolate(x, scale_factor=factor, mode=mode, align_corners=corners)
            np.testing.assert_allclose(np.asarray(result), reference_resize(x, lengths, [1 / factor] * space, mode, corners), atol=1e-12)


def test_interpolate_equals_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[interop]' to compare with it")
    modes: dict[str, tuple[str, str, str]] = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("", "bicubic", "")}
    options: tuple[dict[str, Any], ...] = ({"size": 7}, {"size": 1}, {"scale_factor": 1.7}, {"scale_factor": 0.5})
    for space, mode, option in product((1, 2, 3), ("nearest", "nearest-exact", "linear", "cubic"), options):
        torch_mode = modes.get(mode, (mode,) * 3)[space - 1]
        x = X[(..., *(0,) * (3 - space))]
        for corners in (None,) if "nearest" in mode else (False, True):
            if torch_mode:
                wanted = torch.nn.functional.interpolate(torch.from_numpy(x.copy()), mode=torch_mode, align_corners=corners, **option)
                result = tx.interpolate(x, mode=torch_mode, align_corners=bool(corners), **option)
                np.testing.assert_allclose(np.asarray(result), wanted.numpy(), atol=1e-10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_interpolate_keeps_the_dtype(dtype: str) -> None:
    x = tx.asarray([[[0.0, 1.0, 2.0]]], dtype=dtype)
    assert tx.interpolate(x, 5, mode="linear", align_corners=True).tolist() == [[[0.0, 0.5, 1.0, 1.5, 2.0]]]
    assert tx.interpolate(x, 5, mode="linear").dtype is x.dtype


def test_interpolate_nearest_accepts_integers_and_bools_and_returns_a_new_tensor() -> None:
    x = tx.arange(3).reshape(1, 1, 3)
    result = tx.interpolate(x, 3)
    result[...] = 7
    assert x.tolist() == [[[0, 1, 2]]] and tx.interpolate(x > 0, 2).dtype is tx.bool


WRONG = {
    "axes": (lambda: tx.interpolate(tx.ones((2, 2)), 3), ShapeError, ("(2, 2)",)),
    "mode": (lambda: tx.interpolate(tx.ones((1, 1, 2)), 3, mode="area"), ArgumentError, ("'area'", "'cubic'")),
    "other axes": (lambda: tx.interpolate(tx.ones((1, 1, 2)), 3, mode="bilinear"), ArgumentError, ("'bilinear'", "2 spatial axes")),
    "both": (lambda: tx.interpolate(tx.ones((1, 1, 2)), 3, 2.0), ArgumentError, ("size", "scale_factor")),
    "neither": (lambda: tx.interpolate(tx.ones((1, 1, 2))), ArgumentError, ("size", "scale_factor")),
    "no size": (lambda: tx.interpolate(tx.ones((1, 1, 2)), 0), ArgumentError, ("size", "0")),
    "sizes": (lambda: tx.interpolate(tx.ones((1, 1, 2)), (2, 2)), ArgumentError, ("(2, 2)", "1 axes")),
    "factor": (lambda: tx.interpolate(tx.ones((1, 1, 2)), scale_factor=-1), ArgumentError, ("scale_factor", "-1")),
    "too small": (lambda: tx.interpolate(tx.ones((1, 1, 2)), scale_factor=0.1), ArgumentError, ("0.1", "(2,)")),
    "integers": (lambda: tx.interpolate(tx.arange(2).reshape(1, 1, 2), 3, mode="linear"), DTypeError, ("int64",)),
    "corners": (lambda: tx.interpolate(tx.ones((1, 1, 2)), 3, align_corners=True), ArgumentError, ("'nearest'", "corners")),
    "nothing": (lambda: tx.interpolate(tx.ones((1, 1, 0)), 3), ShapeError, ("(1, 1, 0)",)),
}


@pytest.mark.parametrize("name", WRONG)
def test_interpolate_rejects_invalid_arguments(name: str) -> None:
    call, error, names = WRONG[name]
    with pytest.raises(error) as caught:
        call()
    assert all(text in str(caught.value) for text in ("interpolate", *names))


def test_interpolate_in_portions_gives_equal_results(monkeypatch: pytest.MonkeyPatch) -> None:
    from tenxor.layout import interruptible_chunks

    x = tx.asarray(np.random.default_rng(5).normal(size=(2, 1, 7)))
    ways = list(product(("nearest", "nearest-exact", "linear", "cubic"), (5, 23)))
    wanted = {(mode, n): tx.interpolate(x, n, mode=mode).tolist() for mode, n in ways}
    monkeypatch.setattr(interruptible_chunks.iterate_chunks, "__defaults__", (4,))
    for (mode, n), values in wanted.items():
        assert tx.interpolate(x, n, mode=mode).tolist() == values
