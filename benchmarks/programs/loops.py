"""Small loops, as they stand in many programs: over rows, until something is small, over what is gathered in a list."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def recurrence(x: Any) -> Any:
    """Each row from the one before: what all three libraries say alike."""
    for i in range(1, len(x)):
        x[i] = 3.5 * x[i - 1] * (1 - x[i - 1])
    return x


def recurrence_numpy(x: Any) -> Any:
    return recurrence(np.copy(x))


def recurrence_torch(x: Any) -> Any:
    return recurrence(torch.clone(x))


def recurrence_tenxor(x: Any) -> Any:
    return recurrence(tx.Tensor.copy(x))


def bisection_numpy(a: Any) -> Any:
    low, high = np.zeros_like(a), np.maximum(a, 1)
    while (high - low).max() > 1e-12:
        middle = (low + high) / 2
        above = middle**3 > a
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return low


def bisection_torch(a: Any) -> Any:
    low, high = torch.zeros_like(a), torch.clamp(a, min=1)
    while (high - low).max() > 1e-12:
        middle = (low + high) / 2
        above = middle**3 > a
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return low


def bisection_tenxor(a: Any) -> Any:
    low, high = tx.zeros_like(a), tx.maximum(a, 1)
    while (high - low).max() > 1e-12:
        middle = (low + high) / 2
        above = middle**3 > a
        low, high = tx.where(above, low, middle), tx.where(above, middle, high)
    return low


def newton(a: Any) -> Any:
    """Cube roots: what all three libraries say alike."""
    x = a + 1
    while abs(x**3 - a).max() > 1e-12:
        x = x - (x**3 - a) / (3 * x**2)
    return x


def scalar_newton(a: Any) -> Any:
    """The same with one number, an array without axes."""
    x = a + 1
    while abs(x * x * x - a) > 1e-12:
        x = x - (x * x * x - a) / (3 * x * x)
    return x


def gradients(a: Any, b: Any) -> Any:
    """Conjugate gradients until they are small: what all three libraries say alike."""
    x = 0 * b
    r = b
    p = r
    square = r @ r
    while square > 1e-20:
        ap = a @ p
        step = square / (p @ ap)
        x = x + step * p
        r = r - step * ap
        before, square = square, r @ r
        p = r + square / before * p
    return x


def longest(t: Any) -> Any:
    """A number of each row, and the best of them: what all three libraries say alike."""
    best, total = 0.0, t[0] * 0
    for row in t:
        length = float((row * row).sum())
        if length > best:
            best = length
        total = total + row / length
    return total / best


def correlation_numpy(x: Any, lags: int) -> Any:
    x = x - x.mean()
    return np.stack([(x[lag:] * x[: len(x) - lag]).mean() for lag in range(lags)]) / x.var()


def correlation_torch(x: Any, lags: int) -> Any:
    x = x - x.mean()
    return torch.stack([(x[lag:] * x[: len(x) - lag]).mean() for lag in range(lags)]) / x.var(correction=0)


def correlation_tenxor(x: Any, lags: int) -> Any:
    x = x - x.mean()
    return tx.stack([(x[lag:] * x[: len(x) - lag]).mean() for lag in range(lags)]) / x.var()


def numbers(rng: np.random.Generator, *shape: int) -> tuple[Array]:
    """From 0 to 1."""
    return (rng.random(shape),)


def equations(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """A symmetric matrix with eigenvalues from 1 to some 5, and a right side."""
    a = rng.normal(size=(n, n)) / n**0.5
    return a @ a.T + np.eye(n), rng.normal(size=n)


def series(rng: np.random.Generator, n: int, lags: int) -> tuple[Array, int]:
    """A random walk that is pulled back."""
    x = rng.normal(size=n)
    for k in range(1, n):
        x[k] += 0.9 * x[k - 1]
    return x, lags


def programs() -> list[Program]:
    """All on little at once."""
    recurrences = (recurrence_numpy, recurrence_torch, recurrence_tenxor)
    bisections = (bisection_numpy, bisection_torch, bisection_tenxor)
    correlations = (correlation_numpy, correlation_torch, correlation_tenxor)
    return [
        Program("rows from rows, 200×100", *recurrences, numbers, (200, 100), (6, 5), tolerance=1e-6),
        Program("bisection of 100 roots", *bisections, numbers, (100,), (4,)),
        Program("Newton of 100 roots", *(newton,) * 3, numbers, (100,), (4,)),
        Program("Newton of one root", *(scalar_newton,) * 3, numbers, (), ()),
        Program("conjugate gradients, 50", *(gradients,) * 3, equations, (50,), (6,)),
        Program("conjugate gradients, 1,000", *(gradients,) * 3, equations, (1000,), (6,), large=True),
        Program("numbers of rows, 200×50", *(longest,) * 3, numbers, (200, 50), (6, 5)),
        Program("autocorrelation, 1,000 at 50 lags", *correlations, series, (1000, 50), (30, 4)),
    ]
