"""Writes at indices: the last value for an element, or all of them added up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .workload import Array, Inputs, Line, Sizes, Workload

COLUMNS, SEGMENTS, BINS = 64, 10_000, 256


def _added(xp: Any, x: Array, indices: Array, values: Array) -> Array:
    found = x.copy()
    np.add.at(found, indices, values)
    return found


def _written(xp: Any, x: Array, indices: Array, values: Array) -> Array:
    found = x.copy()
    found[indices] = values
    return found


def _written_by_torch(xp: Any, x: Any, indices: Any, values: Any) -> Any:
    return x.index_put((indices,), values)


def workloads(sizes: Sizes) -> Iterator[Workload]:
    """Single elements, whole rows, and many values for few elements."""
    size = sizes.gathered

    def inputs(count: int, places: int, *columns: int) -> Inputs:
        def made(rng: np.random.Generator) -> tuple[Array, ...]:
            x, values = (rng.random((n, *columns), dtype=np.float32) for n in (places, count))
            return x, rng.integers(0, places, count), values

        return made

    def row(name: str, line: Line, numpy: Line, torch: Line, given: Inputs) -> Workload:
        spelled = {"numpy": (numpy,), "torch": (torch,)}
        return Workload(name, "scattering", line, given, tolerance=1e-4, spelled=spelled)

    def add(xp: Any, x: Any, indices: Any, values: Any) -> Any:
        return x.at[indices].add(values)

    def add_by_torch(xp: Any, x: Any, indices: Any, values: Any) -> Any:
        return x.index_add(0, indices, values)

    yield row(
        "x[indices] = values",
        lambda xp, x, indices, values: x.at[indices].set(values),
        _written,
        _written_by_torch,
        lambda rng: (
            rng.random(size, dtype=np.float32),
            rng.permutation(size),  # or who writes last is left open by some
            rng.random(size, dtype=np.float32),
        ),
    )
    yield row("values added at indices", add, _added, add_by_torch, inputs(size, size))
    yield row("rows added in segments", add, _added, add_by_torch, inputs(size // 8, SEGMENTS, COLUMNS))
    yield row("values added in bins", add, _added, add_by_torch, inputs(2 * size, BINS))
