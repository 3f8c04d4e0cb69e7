"""`logspace`, `geomspace`, `gradient` and `diag`, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES
from tenxor.errors import ArgumentError, AxisError, ShapeError

from .samples import assert_same, check_refused

STARTS, ENDS = np.array([1.0, 2.0]), np.array([4.0, 50.0])
# Arguments and options for both libraries.
SPACED: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "numbers": ((1, 4), {}),
    "few": ((1, 1000, 4), {}),
    "downwards": ((8, 1, 4), {}),
    "without the end": ((1, 256, 8, False), {}),
    "one": ((3, 5, 1), {}),
    "one without the end": ((3, 5, 1), {"endpoint": False}),
    "none": ((3, 5, 0), {}),
    "below 0": ((-1.0, -8.0, 4), {}),
    "complex": ((1j, 8j, 4), {}),
    "turning": ((1 + 0j, -1.0, 5), {}),
    "in float32": ((1, 8, 4), {"dtype": "float32"}),
    "elements": ((STARTS, ENDS, 3), {}),
    "elements to a number": ((STARTS, 8.0, 3), {"axis": 1}),
    "integers": ((np.array([1, 2]), np.array([16, 2]), 5), {"axis": -1}),
}


@pytest.mark.parametrize("name", ["logspace", "geomspace"])
@pytest.mark.parametrize("case", SPACED)
def test_logspace_and_geomspace_equal_numpy(name: str, case: str) -> None:
    args, options = SPACED[case]
    ours, theirs = getattr(tx, name), getattr(np, name)
    with np.errstate(all="ignore"):
        wanted = theirs(*args, **options)
    result = ours(*[tx.asarray(x) if isinstance(x, np.ndarray) else x for x in args], **options)
    assert str(result.dtype) == str(wanted.dtype) and result.shape == wanted.shape
    np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-6 if options.get("dtype") else 1e-12)


def test_geomspace_ends_are_exact() -> None:
    result = tx.geomspace(0.1, 0.3, 7)
    assert result[0].item() == 0.1 and result[-1].item() == 0.3


def test_logspace_accepts_other_bases_and_tensors_of_bases() -> None:
    assert tx.logspace(0, 4, 5, base=2).tolist() == [1.0, 2.0, 4.0, 8.0, 16.0]
    result = tx.logspace(0, 2, 3, base=tx.asarray([2.0, 3.0]))
    assert_same(result, np.logspace(0, 2, 3, base=np.array([2.0, 3.0])))


def test_geomspace_between_opposite_signs_is_nan() -> None:
    assert tx.isnan(tx.geomspace(-1.0, 4.0, 5)).tolist() == [False, True, True, True, False]


V = np.array([1.0, 4.0, 9.0, 25.0, 24.0])
SLOPES: dict[str, Callable[[Any, Any], Any]] = {
    "of a vector": lambda gradient, x: gradient(x[0]),
    "along both axes": lambda gradient, x: gradient(x),
    "along one": lambda gradient, x: gradient(x, axis=1),
    "along a tuple of one": lambda gradient, x: gradient(x, axis=(0,)),
    "another distance": lambda gradient, x: gradient(x, 0.5),
    "distances": lambda gradient, x: gradient(x, 0.5, 2.0),
    "coordinates": lambda gradient, x: gradient(x[0], x[0] ** 2),
    "ends of second order": lambda gradient, x: gradient(x, edge_order=2),
    "coordinates, of second order": lambda gradient, x: gradient(x, x[:, 0] * 2, 2.0, edge_order=2),
}


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int8"])
def test_gradient_equals_numpy(name: str, dtype: str) -> None:
    model = (np.outer(np.array([1, 2, 3]), np.array([1, 3, 4, 5])) + np.arange(12).reshape(3, 4) ** 2 % 5).astype(dtype)
    wanted = SLOPES[name](np.gradient, model.astype(float) if dtype == "int8" else model)
    result = SLOPES[name](tx.gradient, tx.asarray(model))
    assert isinstance(result, tuple) == isinstance(wanted, tuple)
    for ours, theirs in zip(result, wanted, strict=True) if isinstance(result, tuple) else [(result, wanted)]:
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-12, atol=1e-12)


def test_gradient_function_is_differentiable() -> None:
    x = tx.asarray(V)
    result = tx.grad(lambda x: (tx.gradient(x, edge_order=2) ** 2).sum())(x)
    step = 1e-6
    for k in range(5):
        up, down = V.copy(), V.copy()
        up[k], down[k] = V[k] + step, V[k] - step
        wanted = sum(sign * (np.gradient(v, edge_order=2) ** 2).sum() for sign, v in ((1, up), (-1, down))) / (2 * step)
        assert result[k].item() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("k", [-3, -1, 0, 1, 2])
def test_diag_equals_numpy(dtype: Any, k: int) -> None:
    x = tx.asarray([1, 0, 1]).astype(dtype)
    model = np.asarray(x)
    result = tx.diag(x, k)
    assert result.dtype is dtype and np.array_equal(np.asarray(result), np.diag(model, k))
    assert tx.diag(result, k).tolist() == x.tolist()
    tx.diag(result, k)[...] = 0  # a view
    assert not bool((result != 0).any())
    assert tx.diag(tx.zeros(0, dtype=dtype), k).shape == (abs(k), abs(k))


WRONG: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "from 0": (lambda: tx.geomspace(0, 1), ArgumentError, "no factor leads from 0"),
    "to 0": (lambda: tx.geomspace(tx.asarray([1.0, 2.0]), tx.asarray([1.0, 0.0])), ArgumentError, "or to it"),
    "fewer than none": (lambda: tx.logspace(0, 1, -1), ArgumentError, "num is -1"),
    "half a number": (lambda: tx.geomspace(1, 2, 2.5), ArgumentError, "num"),  # type: ignore[arg-type]
    "an axis": (lambda: tx.logspace(0, 1, 3, axis=1), AxisError, "axis 1"),
    "spacings": (lambda: tx.gradient(tx.ones((3, 3)), 1.0, 2.0, 3.0), ArgumentError, "3 spacings for 2 axes"),
    "a short axis": (lambda: tx.gradient(tx.ones((3, 1))), ShapeError, "axis 1 of shape (3, 1) must have at least 2"),
    "coordinates": (lambda: tx.gradient(tx.ones(3), tx.ones(4)), ShapeError, "one for each element"),
    "an order": (lambda: tx.gradient(tx.ones(3), edge_order=3), ArgumentError, "edge_order must be 1 or 2"),
    "a diagonal of three axes": (lambda: tx.diag(tx.ones((2, 2, 2))), ShapeError, "3 axes"),
    "half a diagonal": (lambda: tx.diag(tx.ones(2), 0.5), ArgumentError, "k"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", WRONG)
def test_grid_functions_reject_invalid_arguments(wrong: str) -> None:
    call, error, text = WRONG[wrong]
    check_refused(call, error, [text])
