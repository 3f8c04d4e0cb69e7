"""What is normalised or summed up row by row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .workload import Array, Line, Sizes, Workload, floats


def workloads(sizes: Sizes) -> Iterator[Workload]:
    """Softmax and its kin, on a square matrix of float32."""
    n = sizes.side

    def matrix(rng: np.random.Generator) -> tuple[Array, ...]:
        return (rng.standard_normal((n, n), dtype=np.float32),)

    def targets(rng: np.random.Generator) -> tuple[Array, ...]:
        return (*matrix(rng), rng.integers(0, n, n))

    def weighted(rng: np.random.Generator) -> tuple[Array, ...]:
        return (*matrix(rng), *floats("float32", n, n)(rng))

    # A peer's own function, or the formula, whichever is faster.
    def either(own: Line, formula: Line) -> dict[str, tuple[Line, ...]]:
        return {"torch": (own, formula)}

    def row(name: str, line: Line, inputs: object, **more: object) -> Workload:
        return Workload(f"{name}, {n}×{n}", "row-wise", line, inputs, tolerance=2e-5, **more)  # type: ignore[arg-type]

    yield row("softmax", lambda xp, x: xp.softmax(x), matrix)
    yield row("log-softmax", lambda xp, x: xp.log_softmax(x), matrix)
    yield row("layer norm", lambda xp, x, weight, bias: xp.layer_norm(x, weight, bias), weighted)
    yield row(
        "RMS norm",
        lambda xp, x, weight: xp.rms_norm(x, weight),
        lambda rng: weighted(rng)[:2],
        spelled=either(
            lambda xp, x, weight: xp.rms_norm(x, weight),
            lambda xp, x, weight: x / xp.sqrt(xp.mean(x * x, -1, keepdim=True) + 1e-5) * weight,
        ),
    )
    yield row("log-sum-exp", lambda xp, x: xp.logsumexp(x), matrix)
    yield row(
        "cross-entropy",
        lambda xp, x, target: xp.cross_entropy(x, target),
        targets,
        spelled=either(
            lambda xp, x, target: xp.cross_entropy(x, target),
            lambda xp, x, target: xp.mean(xp.logsumexp(x) - xp.take_along_axis(x, target[:, None], axis=1)[:, 0]),
        ),
    )
