"""Repeated calls of NumPy functions and ufuncs on tensors: the translated call is cached, and gives the same results."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError, ShapeError
from tenxor.tensor import numpy_ufuncs

for_numpy = import_module("tenxor.api.numpy_dispatch")
A = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4))
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: np.sum(x),
    "sum by place": lambda x: np.sum(x, 0),
    "sum by name": lambda x: np.sum(x, axis=1, keepdims=True),
    "sum by other names": lambda x: np.sum(x, keepdims=True, axis=(0, 1)),
    "sum over all": lambda x: np.sum(x, axis=None),
    "mean": lambda x: np.mean(x, axis=-1),
    "std": lambda x: np.std(x, axis=0, ddof=1),
    "where": lambda x: np.where(x > 0.5, x, 0.0),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "stack": lambda x: np.stack((x, x), 1),
    "reshape": lambda x: np.reshape(x, (4, 3)),
    "clip": lambda x: np.clip(x, 0.2, 0.5),
    "clip by name": lambda x: np.clip(x, a_max=0.5, a_min=0.2),
    "sort": lambda x: np.sort(x, axis=0),
    "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), x[1], side="right"),
    "roll": lambda x: np.roll(x, 1, axis=0),
    "transpose": lambda x: np.transpose(x, (1, 0)),
    "norm": lambda x: np.linalg.norm(x, axis=0),
    "zeros_like": lambda x: np.zeros_like(x),
    "percentile": lambda x: np.percentile(x, 30, axis=0),
    "trapezoid": lambda x: np.trapezoid(x, dx=0.5),
    "rfft": lambda x: np.fft.rfft(x, 6),
}
UFUNCS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: np.exp(x),
    "add": lambda x: np.add(x, x),
    "maximum of a number": lambda x: np.maximum(x, 0.5),
    "a number first": lambda x: np.subtract(1, x),
    "matmul": lambda x: np.matmul(x, x.T),
    "divmod": lambda x: np.divmod(x, 0.3),
    "power": lambda x: np.power(x, 2),
}
WITH_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "an array first": lambda x: A * x,
    "an array last": lambda x: np.arctan2(x, A),
    "a number of NumPy's": lambda x: np.multiply(np.float64(2), x),
    "an integer array": lambda x: np.arange(4) + x,
}


def agree(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            agree(one, other)
        return
    assert type(found) is tx.Tensor and found.shape == expected.shape and found.dtype.numpy == expected.dtype
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_call_of_a_numpy_function_uses_the_recorded_dispatch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, x = FUNCTIONS[name], tx.asarray(A)
    expected = call(A)
    for_numpy._dispatches.clear()
    agree(call(x), expected)
    monkeypatch.setattr(for_numpy, "_call_tenxor_function", None)
    for other in (x, tx.asarray(A)):
        agree(call(other), expected)


def test_numpy_function_arguments_are_distinguished_at_each_call() -> None:
    x = tx.asarray(A)
    for dtype in (None, np.float32, None):
        agree(np.sum(x, axis=0, dtype=dtype), np.sum(A, axis=0, dtype=dtype))
    for out in (np.empty(4), None, np.empty(4)):
        found = np.sum(x, axis=0, out=out)
        assert type(found) is (tx.Tensor if out is None else np.ndarray)
        np.testing.assert_allclose(np.asarray(found), A.sum(0))
    for initial in (np._NoValue, 1.0, np._NoValue):
        agree(np.sum(x, axis=0, initial=initial), np.sum(A, axis=0, initial=initial))  # type: ignore[call-overload]
    for pair in ((x, x), (x, None), (x, x)):
        assert np.broadcast_arrays(*pair)[1] is not None  # an array of objects for None
    for given in ([x, x], [x, A], [x, x]):
        agree(np.concatenate(given), np.concatenate([A, A]))
    agree(np.sort(x, axis=0, order=None), np.sort(A, axis=0))
    agree(np.sort(x, axis=0, stable=None), np.sort(A, axis=0))
    assert not [key for key in for_numpy._dispatches if {"order", "stable"}.intersection(key)]


@pytest.mark.parametrize("name", UFUNCS)
def test_repeated_ufunc_call_uses_the_recorded_dispatch(name: str, machine_code: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    call, x = UFUNCS[name], tx.asarray(A)
    expected = call(A)
    agree(call(x), expected)
    monkeypatch.setattr(numpy_ufuncs, "apply_ufunc", None)
    if machine_code:
        monkeypatch.setattr(numpy_ufuncs, "FUNCTION_OF_UFUNC", None)
    for other in (x, tx.asarray(A)):
        agree(call(other), expected)


@pytest.mark.parametrize("name", WITH_ARRAYS)
def test_repeated_ufunc_call_with_arrays_uses_the_recorded_dispatch(name: str, machine_code: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    call, x = WITH_ARRAYS[name], tx.asarray(A)
    agree(call(x), call(A))
    monkeypatch.setattr(numpy_ufuncs, "apply_ufunc", None)
    agree(call(x), call(A))


def test_ufuncs_with_options_and_methods_match_numpy(machine_code: bool) -> None:
    x = tx.asarray(A)
    np.add(x, x)
    out = tx.zeros((3, 4))
    assert np.add(x, x, out=out) is out
    agree(out, A + A)
    agree(np.add(x, x, dtype=np.float32), np.add(A, A, dtype=np.float32))
    agree(np.add.reduce(x, axis=1), A.sum(1))
    agree(np.add.outer(x, x), np.add.outer(A, A))
    with pytest.raises(ShapeError, match=r"add: shapes \(3, 4\) and \(4, 3\)"):
        np.add(x, x.T)
    with pytest.raises((DTypeError, TypeError)):
        np.add(x, np.array(["a"]))
    assert type(np.add(x, [1.0, 2.0, 3.0, 4.0])) is tx.Tensor


def test_other_classes_override_ufuncs(machine_code: bool) -> None:
    class Theirs:
        def __array_ufunc__(self, *args: Any, **options: Any) -> str:
            return "theirs"

    class Ours(tx.Tensor):
        pass

    x = tx.asarray(A)
    np.add(x, x)
    assert np.add(x, Theirs()) == "theirs"
    ours = Ours(x.storage, x.layout, x.dtype)
    agree(tx.asarray(np.add(x, ours)), A + A)
    agree(tx.asarray(np.add(ours, ours)), A + A)
