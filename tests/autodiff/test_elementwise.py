"""Derivatives of all elementwise operations, compared with differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx

from .differences import check
from .elementwise import COMPLEX, DISCRETE, PUBLIC, REAL, complex_drawn, drawn

UNARY = [name for name, intervals in REAL.items() if len(intervals) == 1]
BINARY = [name for name, intervals in REAL.items() if len(intervals) == 2]


def test_every_elementwise_operation_is_listed() -> None:
    assert {*REAL, *DISCRETE} == set(PUBLIC)
    assert set(COMPLEX) <= set(REAL)


@pytest.mark.parametrize("name", UNARY)
def test_gradients_of_unary_operations_match_differences(name: str) -> None:
    check(getattr(tx, name), [drawn(name, 0, (5,))])


@pytest.mark.parametrize("name", BINARY)
def test_gradients_of_broadcasting_operations_match_differences(name: str) -> None:
    check(getattr(tx, name), [drawn(name, 0, (2, 1)), drawn(name, 1, (3,))])


@pytest.mark.parametrize("name", BINARY)
def test_gradients_of_operations_with_numbers_match_differences(name: str) -> None:
    function, number = getattr(tx, name), drawn(name, 1, ()).item()
    check(lambda x: function(x, number), [drawn(name, 0, (3,))], second=False)
    other = drawn(name, 0, ()).item()
    check(lambda y: function(other, y), [drawn(name, 1, (3,))], second=False)


@pytest.mark.parametrize("name", [name for name in COMPLEX if name in UNARY])
def test_gradients_of_complex_unary_operations_match_differences(name: str) -> None:
    check(getattr(tx, name), [complex_drawn(name, 0, (3,))])


@pytest.mark.parametrize("name", [name for name in COMPLEX if name in BINARY])
def test_gradients_of_complex_binary_operations_match_differences(name: str) -> None:
    function = getattr(tx, name)
    check(function, [complex_drawn(name, 0, (2, 1)), complex_drawn(name, 1, (2,))])
    check(function, [complex_drawn(name, 0, (2,)), drawn(name, 1, (2,))])  # one of them real
    check(function, [drawn(name, 0, (2,)), complex_drawn(name, 1, (2,))])


@pytest.mark.parametrize("name", DISCRETE)
def test_results_without_floats_are_constant_in_gradients(name: str) -> None:
    function, x = getattr(tx, name), tx.asarray([0.5, -1.5, 2.5])
    whole = name.startswith("bitwise")

    def loss(x: Any) -> Any:
        operand = x.astype(tx.int64) if whole else x
        args = [operand] if function.__code__.co_argcount == 1 else [operand, 1]
        return (x * x * function(*args).astype(tx.float64)).sum()

    value = function(*([x.astype(tx.int64) if whole else x] + [1] * (function.__code__.co_argcount - 1))).astype(tx.float64)
    assert tx.grad(loss)(x).tolist() == (2 * x * value).tolist()


def condition() -> Any:
    return tx.asarray([[True, False, True], [False, False, True]])


def test_gradients_of_where_match_differences() -> None:
    x, y = np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(2, 3, 3)
    check(lambda x, y: tx.where(condition(), x, y), [x, y])
    check(lambda x: tx.where(condition(), x * x, 2.0), [x])
    check(lambda x: tx.where(x > 0.1, x.sin(), tx.exp(x)), [x])
    check(lambda x, y: tx.where(condition(), x, y), [x + 1j, y])
    check(lambda x: tx.where(condition(), 1.0, x), [x[0] * 1j])


@pytest.mark.parametrize("bounds", [(-0.5, 0.5), (None, 0.3), (-0.3, None), (0.5, -0.5)])
def test_gradients_of_clip_match_differences(bounds: tuple[Any, Any]) -> None:
    x = np.linspace(-1, 1, 6)
    check(lambda x: x.clip(*bounds), [x])
    check(lambda x, low, high: tx.clip(x, low, high), [x, np.array(-0.5), np.linspace(0.05, 0.7, 6)])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 2.0, 3.0])
def test_gradients_of_powers_with_number_exponents_match_differences(exponent: float) -> None:
    check(lambda x: x**exponent, [drawn("pow", 0, (3,))])
    if isinstance(exponent, int):
        check(lambda x: x**exponent, [-drawn("pow", 0, (3,))])
    check(lambda x: x**exponent, [complex_drawn("pow", 0, (2,))])


def test_gradients_of_numbers_raised_to_tensors_match_differences() -> None:
    check(lambda x: 2**x, [np.linspace(-1, 1, 3)])
    check(lambda x: 0.7**x, [np.linspace(-1, 1, 3)])
    check(lambda x: (1 + 2j) ** x, [np.linspace(-1, 1, 3)])


def test_gradients_pass_through_casts() -> None:
    check(lambda x: x.astype(tx.complex128) * (1 + 2j), [np.linspace(-1, 1, 3)])
    check(lambda x: (x.astype(tx.int64) * 2).astype(tx.float64) * x, [np.linspace(0.3, 2.4, 3)])
    x = tx.asarray([0.5, 1.5], dtype=tx.float32)
    assert tx.grad(lambda x: (x.astype(tx.float64) ** 2).sum())(x).dtype is tx.float32


def test_gradients_of_complex_tensors_with_numbers_match_differences() -> None:
    z = complex_drawn("multiply", 0, (3,))
    check(lambda z: (2 + 1j) * z - z / (1 - 2j) + 3 / z, [z])
    check(lambda x: x * (2 + 1j), [drawn("multiply", 0, (3,))])
    check(lambda z: tx.real(z) * tx.imag(z) + tx.abs(z), [z])
    check(lambda z: z * tx.conj(z), [z])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("name", ["exp", "tanh", "multiply", "divide", "sqrt", "reciprocal", "pow"])
def test_gradients_of_narrow_dtypes_keep_dtype_and_accuracy(name: str, dtype: str) -> None:
    narrow = tx.dtype(dtype)
    wide = tx.complex128 if narrow.is_complex else tx.float64
    args = [tx.asarray(drawn(name, k, (4,))).astype(narrow) for k in range(len(REAL[name]))]
    every = tuple(range(len(args)))

    def loss(*args: Any) -> Any:
        found = getattr(tx, name)(*args)
        return tx.real(found * (1 - 2j if found.dtype.is_complex else 1)).sum()

    found = tx.grad(loss, every)(*args)
    wanted = tx.grad(loss, every)(*[x.astype(wide) for x in args])
    for g, w in zip(found, wanted, strict=True):
        assert g.dtype is narrow
        error = tx.abs(g.astype(wide) - w).max().item()
        assert error <= 16 * tx.finfo(narrow).eps * max(1.0, tx.abs(w).max().item())
