"""Principal components by iteration: one after the other, each freed of those before; or several together."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def power_numpy(x: Any, start: Any, steps: int) -> Any:
    x = x - x.mean(0)
    found = []
    for v in start:
        for _ in range(steps):
            v = x.T @ (x @ v)
            for other in found:
                v = v - (v @ other) * other
            v = v / np.linalg.norm(v)
        found.append(v)
    return ((x @ np.stack(found).T) ** 2).mean(0)


def power_torch(x: Any, start: Any, steps: int) -> Any:
    x = x - x.mean(0)
    found: list[Any] = []
    for v in start:
        for _ in range(steps):
            v = x.T @ (x @ v)
            for other in found:
                v = v - (v @ other) * other
            v = v / torch.linalg.norm(v)
        found.append(v)
    return ((x @ torch.stack(found).T) ** 2).mean(0)


def power_tenxor(x: Any, start: Any, steps: int) -> Any:
    x = x - x.mean(0)
    found: list[Any] = []
    for v in start:
        for _ in range(steps):
            v = x.T @ (x @ v)
            for other in found:
                v = v - (v @ other) * other
            v = v / tx.linalg.norm(v)
        found.append(v)
    return ((x @ tx.stack(found).T) ** 2).mean(0)


def subspace_numpy(x: Any, start: Any, steps: int) -> Any:
    x = x - x.mean(0)
    q = start.T
    for _ in range(steps):
        q, _ = np.linalg.qr(x.T @ (x @ q))
    return ((x @ q) ** 2).mean(0)


def subspace_torch(x: Any, start: Any, steps: int) -> Any:
    x = x - x.mean(0)
    q = start.T
    for _ in range(steps):
        q, _ = torch.linalg.qr(x.T @ (x @ q))
    return ((x @ q) ** 2).mean(0)


def subspace_tenxor(x: Any, start: Any, steps: int) -> Any:
    x = x - x.mean(0)
    q = start.T
    for _ in range(steps):
        q, _ = tx.linalg.qr(x.T @ (x @ q))
    return ((x @ q) ** 2).mean(0)


def samples(rng: np.random.Generator, n: int, d: int, k: int, steps: int) -> tuple[Array, Array, int]:
    """Samples whose variances fall from axis to axis, and k directions to begin with."""
    return rng.normal(size=(n, d)) * 0.8 ** np.arange(d), rng.normal(size=(k, d)), steps


def programs() -> list[Program]:
    """Variances along the first four components."""
    power, subspace = (power_numpy, power_torch, power_tenxor), (subspace_numpy, subspace_torch, subspace_tenxor)
    return [
        Program(f"PCA by {how} iteration, {n}×{d}", *lines, samples, (n, d, 4, steps), (30, 6, 2, 5), large)
        for how, lines in (("power", power), ("subspace", subspace))
        for n, d, steps, large in ((200, 50, 20, False), (5000, 100, 10, True))
    ]
