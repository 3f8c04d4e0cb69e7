"""The Mandelbrot set, with masked writes: what has left is left alone."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def escape_numpy(c: Any, steps: int) -> Any:
    z = np.zeros_like(c)
    count = np.zeros(c.shape, dtype=np.int64)
    for _ in range(steps):
        live = np.abs(z) <= 2
        z[live] = z[live] ** 2 + c[live]
        count[live] += 1
    return count


def escape_torch(c: Any, steps: int) -> Any:
    z = torch.zeros_like(c)
    count = torch.zeros(c.shape, dtype=torch.int64)
    for _ in range(steps):
        live = torch.abs(z) <= 2
        z[live] = z[live] ** 2 + c[live]
        count[live] += 1
    return count


def escape_tenxor(c: Any, steps: int) -> Any:
    z = tx.zeros_like(c)
    count = tx.zeros(c.shape, dtype=tx.int64)
    for _ in range(steps):
        live = tx.abs(z) <= 2
        z[live] = z[live] ** 2 + c[live]
        count[live] += 1
    return count


def plane(rng: np.random.Generator, height: int, width: int, steps: int) -> tuple[Array, int]:
    """Complex numbers around the set, moved off the grid by chance, so that none lies on a border."""
    x, y = np.linspace(-2, 0.6, width), np.linspace(-1.2, 1.2, height)
    return x + 1j * y[:, None] + 1e-3 * rng.random((height, width)), steps


def programs() -> list[Program]:
    """A small and a larger picture."""
    lines = (escape_numpy, escape_torch, escape_tenxor)
    return [
        Program(f"Mandelbrot, {h}×{w}", *lines, plane, (h, w, 30), (6, 8, 6), large) for h, w, large in ((40, 60, False), (300, 400, True))
    ]
