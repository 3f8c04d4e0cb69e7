"""The heat equation: a stencil on slices, in place."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def spread(u: Any, steps: int) -> Any:
    """What all three libraries say alike."""
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    return u


def heat_numpy(u: Any, steps: int) -> Any:
    return spread(np.copy(u), steps)


def heat_torch(u: Any, steps: int) -> Any:
    return spread(torch.clone(u), steps)


def heat_tenxor(u: Any, steps: int) -> Any:
    return spread(tx.Tensor.copy(u), steps)


def plate(rng: np.random.Generator, n: int, steps: int) -> tuple[Array, int]:
    """Temperatures of a plate."""
    return rng.random((n, n)), steps


def programs() -> list[Program]:
    """On three plates."""
    return [
        Program(f"heat equation, {n}²", heat_numpy, heat_torch, heat_tenxor, plate, (n, steps), (9, 5), large)
        for n, steps, large in ((64, 100, False), (256, 50, True), (1000, 5, True))
    ]
