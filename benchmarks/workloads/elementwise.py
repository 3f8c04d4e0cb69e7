"""Fused chains, elementary functions, choices, and outer operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .workload import Line, Sizes, Workload, bits, floats

NO_ERF = {"numpy": "has no erf", "numexpr": "has no erf"}


def ten(xp: Any, a: Any, b: Any, c: Any) -> Any:
    """Ten operations: + - * and a square root."""
    t = (a * b + c) * a - b
    return xp.sqrt(t * t + 0.5 * c) * b - a


CHAINS: tuple[tuple[str, Line, str, int], ...] = (
    ("a + b", lambda xp, a, b: a + b, "a + b", 1),
    ("(a*b + c)**2", lambda xp, a, b, c: (a * b + c) ** 2, "(a*b + c)**2", 3),
    ("10 operations", ten, "sqrt(((a*b + c)*a - b)*((a*b + c)*a - b) + half*c)*b - a", 10),
)

# name, line, numexpr, the inputs' bounds, in float32, and who lacks it
ELEMENTARY: tuple[tuple[str, Line, str | None, tuple[float, float], dict[str, str]], ...] = (
    ("exp", lambda xp, a: xp.exp(a), "exp(a)", (-10, 10), {}),
    ("log", lambda xp, a: xp.log(a), "log(a)", (0.01, 100), {}),
    ("sin", lambda xp, a: xp.sin(a), "sin(a)", (-10, 10), {}),
    ("tanh", lambda xp, a: xp.tanh(a), "tanh(a)", (-3, 3), {}),
    ("erf", lambda xp, a: xp.erf(a), None, (-3, 3), NO_ERF),
    ("pow", lambda xp, a, b: a**b, "a**b", (0.1, 4), {}),
    ("sigmoid", lambda xp, a: xp.sigmoid(a), "one/(one + exp(-a))", (-8, 8), {}),
    ("gelu", lambda xp, a: xp.gelu(a), None, (-5, 5), NO_ERF),
)

CHOICES: tuple[tuple[str, Line, str | None], ...] = (
    ("where(a > 0.5, a, 0.1*a)", lambda xp, a, b: xp.where(a > 0.5, a, 0.1 * a), "where(a > half, a, tenth*a)"),
    ("clip(a*b, 0.2, 0.8)", lambda xp, a, b: xp.clip(a * b, 0.2, 0.8), None),
    (
        "where(a < b, clip(a, 0.2, 0.8), b*b) + a",
        lambda xp, a, b: xp.where(a < b, xp.clip(a, 0.2, 0.8), b * b) + a,
        None,
    ),
)


def workloads(sizes: Sizes) -> Iterator[Workload]:
    """Each of the lines, in and out of cache."""
    yield from chains(sizes)
    yield from elementary(sizes)
    for name, line, text in CHOICES:
        inputs = floats("float32", sizes.memory, sizes.memory)
        numbers = {"half": np.float32(0.5), "tenth": np.float32(0.1)}
        yield Workload(f"{name}, float32", "where/clip chains", line, inputs, numexpr=text, numbers=numbers)
    n = sizes.side
    yield Workload("a[:, None] + b", "outer", lambda xp, a, b: a[:, None] + b, floats("float32", n, n), flops=n * n)
    yield Workload(
        "a[:, None] * b + c",
        "outer",
        lambda xp, a, b, c: a[:, None] * b + c,
        floats("float32", n, n, (n, n)),
        flops=2 * n * n,
    )


def chains(sizes: Sizes) -> Iterator[Workload]:
    """1, 3 and 10 operations on small arrays, in cache, and in memory."""
    for dtype in ("float32", "float64"):
        of_cache = sizes.cache_bytes * 8 // bits(dtype)
        for where, size in (("small", sizes.small), ("in cache", of_cache), ("in memory", sizes.memory)):
            for name, line, text, operations in CHAINS:
                operands = 2 if operations == 1 else 3
                yield Workload(
                    f"{name}, {dtype} {where}",
                    f"chains {where}",
                    line,
                    floats(dtype, *[size] * operands),
                    tolerance=1e-5 if dtype == "float32" else 1e-12,
                    flops=operations * size,
                    numexpr=text,
                    numbers={"half": np.dtype(dtype).type(0.5)} if "half" in text else {},
                )


def elementary(sizes: Sizes) -> Iterator[Workload]:
    """Each function in both float types in cache, and float32 in memory."""
    for dtype, where in (("float32", "in cache"), ("float64", "in cache"), ("float32", "in memory")):
        size = sizes.memory if where == "in memory" else sizes.cache_bytes * 8 // bits(dtype)
        for name, line, text, (low, high), absent in ELEMENTARY:
            yield Workload(
                f"{name}, {dtype} {where}",
                f"functions {where}",
                line,
                floats(dtype, *[size] * (2 if name == "pow" else 1), low=low, high=high),
                tolerance=1e-5 if dtype == "float32" else 1e-11,
                compute_bound=where == "in memory",
                numexpr=text,
                numbers={"one": np.dtype(dtype).type(1)} if text and "one" in text else {},
                absent=absent,
            )
