"""Copies and sums of what does not lie in a row: transposed, strided, reversed and gathered."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .workload import Array, Line, Sizes, Workload, floats


def workloads(sizes: Sizes) -> Iterator[Workload]:
    """Each way of lying, copied and added to something."""
    n = sizes.side
    one, two = floats("float32", (n, n)), floats("float32", (n, n), (n, n))

    def rows(rng: np.random.Generator) -> tuple[Array, ...]:
        return (*one(rng), rng.permutation(n))

    def rows_and_other(rng: np.random.Generator) -> tuple[Array, ...]:
        return (*two(rng), rng.permutation(n))

    def elements(rng: np.random.Generator) -> tuple[Array, ...]:
        size = sizes.gathered
        return (rng.random(size, dtype=np.float32), rng.integers(0, size, size))

    def row(name: str, line: Line, inputs: object, **more: object) -> Workload:
        tolerance = 0.0 if "copied" in name else 1e-5
        return Workload(name, "movement", line, inputs, tolerance=tolerance, **more)  # type: ignore[arg-type]

    half = n * n * 2  # bytes: every second row, or element
    yield row("a.T copied", lambda xp, a: xp.copy(a.T), one)
    yield row("a + b.T", lambda xp, a, b: a + b.T, two)
    yield row("a.T + b.T", lambda xp, a, b: a.T + b.T, two)
    yield row(
        "a.T.reshape(-1) + 1",
        lambda xp, a: a.T.reshape(-1) + 1,
        one,
    )
    yield row("a[::2, ::2] copied", lambda xp, a: xp.copy(a[::2, ::2]), one, read=half)
    yield row("a[:, ::2] + b[:, ::2]", lambda xp, a, b: a[:, ::2] + b[:, ::2], two)
    yield row("a[::-1] copied", lambda xp, a: xp.flip(a, 0), one)
    yield row("a[:, ::-1] copied", lambda xp, a: xp.flip(a, 1), one)
    yield row(
        "a + b[:, ::-1]",
        lambda xp, a, b: a + b[:, ::-1],
        two,
        spelled={"torch": (lambda xp, a, b: a + xp.flip(b, 1),)},
    )
    yield row("a[rows] copied", lambda xp, a, rows: a[rows], rows, spelled=_either(lambda xp, a, rows: xp.take(a, rows, 0)))
    yield row(
        "a + b[rows]",
        lambda xp, a, b, rows: a + b[rows],
        rows_and_other,
        spelled=_either(lambda xp, a, b, rows: a + xp.take(b, rows, 0), lambda xp, a, b, rows: a + b[rows]),
    )
    yield row(
        "x[indices] copied",
        lambda xp, x, indices: x[indices],
        elements,
        spelled=_either(lambda xp, x, indices: xp.take(x, indices, 0), lambda xp, x, indices: x[indices]),
    )


def _either(taken: Line, indexed: Line = lambda xp, a, rows: a[rows]) -> dict[str, tuple[Line, ...]]:
    """Indexing or `take`, whichever is faster."""
    return dict.fromkeys(("tenxor", "numpy", "torch", "jax"), (indexed, taken))
