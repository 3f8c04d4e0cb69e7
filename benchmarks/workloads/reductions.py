"""Reductions over each axis, of integers and truth values, of comparisons, and running sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .workload import Array, Inputs, Line, Sizes, Workload, floats

AXES = {"first axis": 0, "middle axis": 1, "last axis": 2, "all axes": None}


def _reduction(name: str, axis: int | None) -> Line:
    if name == "var":
        return lambda xp, a: xp.var(a, axis=axis, correction=0)
    return lambda xp, a: getattr(xp, name)(a, axis=axis)


def _numexpr(name: str, axis: int | None) -> str | None:
    if name not in ("sum", "max"):
        return None  # it has none of the others
    return f"{name}(a)" if axis is None else f"{name}(a, axis={axis})"


def workloads(sizes: Sizes) -> Iterator[Workload]:
    """A cube over each of its axes, a matrix over its rows and columns, and the rest."""
    n, cube = sizes.side, (sizes.cube,) * 3
    for name in ("sum", "mean", "max", "argmax", "var"):
        for where, axis in AXES.items():
            yield Workload(
                f"{name} over the {where}" if axis is not None else f"{name} over all axes",
                f"reductions, {where}",
                _reduction(name, axis),
                floats("float32", cube, low=-1.0),
                tolerance=1e-4,
                numexpr=_numexpr(name, axis),
            )
        for where, family, axis in (("rows", "last axis", 1), ("columns", "first axis", 0)):
            yield Workload(
                f"{name} of {where}",
                f"reductions, {family}",
                _reduction(name, axis),
                floats("float32", (n, n), low=-1.0),
                tolerance=1e-4,
                numexpr=_numexpr(name, axis),
            )
    yield from whole_numbers(sizes)
    yield from counts(sizes)
    yield from running(sizes)


def integers(dtype: str, shape: tuple[int, ...] | int, low: int, high: int) -> Inputs:
    """Uniform integers from low to high, high excluded; truth values from 0 and 1."""

    def made(rng: np.random.Generator) -> tuple[Array, ...]:
        kind = np.int8 if dtype == "bool" else np.dtype(dtype).type
        found = rng.integers(low, high, shape, dtype=kind)
        return (found.astype(np.bool_) if dtype == "bool" else found,)

    return made


def whole_numbers(sizes: Sizes) -> Iterator[Workload]:
    """Integers and truth values. Nobody may stop early: `any` finds none, `all` finds all."""
    size, matrix = sizes.memory, (sizes.side, sizes.side)
    many, larger = 4 * size, (2 * sizes.side, 2 * sizes.side)  # of those with one byte: as many bytes, out of cache too

    def row(name: str, line: Line, inputs: Inputs, text: str | None = None) -> Workload:
        return Workload(name, "integer and boolean reductions", line, inputs, tolerance=0.0, numexpr=text)

    yield row("sum, int32", lambda xp, a: xp.sum(a), integers("int32", size, -100, 100))
    yield row("sum, int64", lambda xp, a: xp.sum(a), integers("int64", size, -100, 100), "sum(a)")
    yield row("max, int8", lambda xp, a: xp.max(a), integers("int8", many, -128, 128))
    yield row("sum of rows, uint8", lambda xp, a: xp.sum(a, axis=1), integers("uint8", larger, 0, 256))
    yield row("min of columns, int32", lambda xp, a: xp.min(a, axis=0), integers("int32", matrix, -(1 << 30), 1 << 30))
    yield row("any, bool", lambda xp, a: xp.any(a), integers("bool", many, 0, 1))
    yield row("all of rows, bool", lambda xp, a: xp.all(a, axis=1), integers("bool", larger, 1, 2))
    yield row("count_nonzero, bool", lambda xp, a: xp.count_nonzero(a), integers("bool", many, 0, 2))


def counts(sizes: Sizes) -> Iterator[Workload]:
    """How often a comparison holds."""
    size, n = sizes.memory, sizes.side

    def row(name: str, line: Line, inputs: Inputs, text: str | None = None, **more: Any) -> Workload:
        return Workload(name, "comparison and count", line, inputs, tolerance=0.0, numexpr=text, **more)

    yield row(
        "(a > b).sum(), float32",
        lambda xp, a, b: xp.sum(a > b),
        floats("float32", size, size),
        "sum(where(a > b, 1, 0))",
        spelled=_counted(lambda xp, a, b: a > b),
    )
    yield row(
        "((a > 0.25) & (a < 0.75)).sum(), float32",
        lambda xp, a: xp.sum((a > 0.25) & (a < 0.75)),
        floats("float32", size),
        "sum(where((a > low) & (a < high), 1, 0))",
        numbers={"low": np.float32(0.25), "high": np.float32(0.75)},
        spelled=_counted(lambda xp, a: (a > 0.25) & (a < 0.75)),
    )
    yield row(
        "(a > 0.5).sum(axis=1), float32",
        lambda xp, a: xp.sum(a > 0.5, axis=1),
        floats("float32", (n, n)),
    )


def _counted(condition: Line) -> dict[str, tuple[Line, ...]]:
    """Both spellings, for those who have a faster one for counting."""

    def summed(xp: Any, *arrays: Any) -> Any:
        return xp.sum(condition(xp, *arrays))

    def counted(xp: Any, *arrays: Any) -> Any:
        return xp.count_nonzero(condition(xp, *arrays))

    return dict.fromkeys(("numpy", "torch", "jax"), (summed, counted))


def running(sizes: Sizes) -> Iterator[Workload]:
    """Running sums, of numbers around 0, so that they stay as exact as float32 allows."""
    matrix = (sizes.side, sizes.side)
    for name, shape, axis in (
        ("1-D", (sizes.memory,), 0),
        ("along the last axis", matrix, 1),
        ("along the first axis", matrix, 0),
    ):
        yield Workload(
            f"cumulative sum, {name}",
            "cumulative sum",
            lambda xp, a, axis=axis: xp.cumsum(a, axis=axis),
            floats("float32", shape, low=-1.0),
            tolerance=2e-3,
        )
