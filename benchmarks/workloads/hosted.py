"""What NumPy computes for Tenxor, and what is made of it: order, counts, matrices and transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .workload import Array, Inputs, Line, Sizes, Workload, complexes, floats

BINS = 1000
_OTHER_BINS = {"torch": "has no histogram of float64 with equal edges"}


def workloads(sizes: Sizes) -> Iterator[Workload]:
    """Small and large, in one row and in many."""
    yield from _order(sizes)
    yield from _counts(sizes)
    yield from _matrices(sizes)
    yield from _transforms(sizes)


def _order(sizes: Sizes) -> Iterator[Workload]:
    many, rows, few = sizes.gathered // 4, (sizes.side // 4, sizes.side // 4), sizes.small // 64
    by_torch: dict[str, tuple[Line, ...]] = {"torch": (lambda xp, x: xp.sort(x, dim=-1).values,)}
    for dtype in ("float32", "float64"):
        for where, shape in (("in a row", many), ("rows", rows), ("small", few)):
            drawn = floats(dtype, shape)
            yield Workload(f"sort {where}, {dtype}", "sorting", lambda xp, x: xp.sort(x), drawn, spelled=by_torch)
            yield Workload(f"argsort {where}, {dtype}", "sorting", lambda xp, x: xp.argsort(x, stable=True), drawn)
    whole = _integers(many)
    yield Workload("sort in a row, int64", "sorting", lambda xp, x: xp.sort(x), whole, spelled=by_torch)
    yield Workload("argsort in a row, int64", "sorting", lambda xp, x: xp.argsort(x, stable=True), whole)
    yield Workload("sort columns, float32", "sorting", lambda xp, x: xp.sort(x, axis=0), floats("float32", rows), spelled={
        "torch": (lambda xp, x: xp.sort(x, dim=0).values,)
    })  # fmt: skip
    for where, size in (("many", many), ("few", few)):
        yield Workload(
            f"searchsorted, {where}",
            "searching",
            lambda xp, x, y: xp.searchsorted(x, y),
            _sorted_and_not(size),
        )


def _counts(sizes: Sizes) -> Iterator[Workload]:
    many, rows = sizes.gathered // 4, (sizes.side // 4, sizes.side // 4)
    yield Workload("bincount", "counting", lambda xp, x: xp.bincount(x), _integers(many), absent={
        "jax": "compiles no results whose shape depends on values"
    })  # fmt: skip
    yield Workload(
        "histogram",
        "counting",
        lambda xp, x: xp.histogram(x, 100)[0],
        floats("float64", many),
        absent=_OTHER_BINS | {"jax": "gives counts in floats"},
    )
    yield Workload(
        "median of rows",
        "counting",
        lambda xp, x: xp.median(x, axis=-1),
        floats("float64", rows),
        spelled={"torch": (lambda xp, x: xp.quantile(x, 0.5, dim=-1),)},
    )


def _matrices(sizes: Sizes) -> Iterator[Workload]:
    count, side = sizes.batches[1]
    for where, shape in (("one", (sizes.product, sizes.product)), (f"{count}", (count, side, side)), ("small", (3, 3))):
        for name in ("inv", "cholesky", "eigvalsh", "svdvals", "det"):
            yield Workload(
                f"{name}, {where} of {shape[-1]}",
                "linear algebra",
                lambda xp, x, name=name: getattr(xp.linalg, name)(x),
                _definite(shape),
                tolerance=1e-6,
            )
        yield Workload(
            f"solve, {where} of {shape[-1]}",
            "linear algebra",
            lambda xp, x, y: xp.linalg.solve(x, y),
            _definite(shape, columns=4),
            tolerance=1e-6,
        )


def _transforms(sizes: Sizes) -> Iterator[Workload]:
    rows = (sizes.side // 4, sizes.side // 4)
    for where, shape in (("in a row", (sizes.gathered // 4,)), ("rows", rows), ("small", (sizes.small // 64,))):
        yield Workload(f"fft {where}", "Fourier transforms", lambda xp, x: xp.fft.fft(x), complexes("complex64", shape), 1e-4)
    yield Workload("fft of columns", "Fourier transforms", lambda xp, x: xp.fft.fft(x, None, 0), complexes("complex64", rows), 1e-4)
    yield Workload("fft2", "Fourier transforms", lambda xp, x: xp.fft.fft2(x), complexes("complex64", rows), 1e-4)


def _integers(size: int) -> Inputs:
    return lambda rng: (rng.integers(0, BINS, size),)


def _sorted_and_not(size: int) -> Inputs:
    return lambda rng: (np.sort(rng.random(size)), rng.random(size))


def _definite(shape: tuple[int, ...], columns: int = 0) -> Inputs:
    """Symmetric matrices with eigenvalues from about 1 to 5, and right-hand sides."""

    def made(rng: np.random.Generator) -> tuple[Array, ...]:
        x: Any = rng.standard_normal(shape) / shape[-1] ** 0.5
        found = x @ x.swapaxes(-1, -2) + np.eye(shape[-1])
        return (found, rng.standard_normal((*shape[:-1], columns))) if columns else (found,)

    return made
