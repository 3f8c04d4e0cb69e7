"""k-means: each point goes to its nearest centre, each centre to the mean of its points."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def k_means_numpy(points: Any, centres: Any, steps: int) -> Any:
    for _ in range(steps):
        label = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
        centres = np.stack([points[label == k].mean(0) for k in range(len(centres))])
    return centres


def k_means_torch(points: Any, centres: Any, steps: int) -> Any:
    for _ in range(steps):
        label = torch.cdist(points, centres).argmin(1)
        centres = torch.stack([points[label == k].mean(0) for k in range(len(centres))])
    return centres


def k_means_tenxor(points: Any, centres: Any, steps: int) -> Any:
    for _ in range(steps):
        label = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
        centres = tx.stack([points[label == k].mean(0) for k in range(len(centres))])
    return centres


def by_adding_numpy(points: Any, centres: Any, steps: int) -> Any:
    k = len(centres)
    for _ in range(steps):
        label = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
        sums = np.zeros_like(centres)
        np.add.at(sums, label, points)
        centres = sums / np.bincount(label, minlength=k)[:, None]
    return centres


def by_adding_torch(points: Any, centres: Any, steps: int) -> Any:
    k = len(centres)
    for _ in range(steps):
        label = torch.cdist(points, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, label, points)
        centres = sums / torch.bincount(label, minlength=k)[:, None]
    return centres


def by_adding_tenxor(points: Any, centres: Any, steps: int) -> Any:
    k = len(centres)
    for _ in range(steps):
        label = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
        sums = tx.zeros_like(centres).index_add_(0, label, points)
        centres = sums / tx.bincount(label, minlength=k)[:, None]
    return centres


def blobs(rng: np.random.Generator, n: int, d: int, k: int, steps: int) -> tuple[Array, Array, int]:
    """Points around k middles, and the first k of them, one of each, to begin with."""
    middles = rng.normal(0, 4, (k, d))
    points = middles[np.arange(n) % k] + rng.normal(size=(n, d))
    return points, points[:k].copy(), steps


def programs() -> list[Program]:
    """Few points in a plane, and many in 8 dimensions."""
    masks, adding = (k_means_numpy, k_means_torch, k_means_tenxor), (by_adding_numpy, by_adding_torch, by_adding_tenxor)
    return [
        Program(f"k-means by {how}, {size[0]:,} points", *lines, blobs, size, (40, 2, 3, 3), large)
        for how, lines in (("masks", masks), ("adding", adding))
        for size, large in (((500, 2, 5, 10), False), ((20_000, 8, 10, 5), True))
    ]
