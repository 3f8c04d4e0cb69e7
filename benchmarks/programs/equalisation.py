"""Histogram equalisation of a grey picture."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def equalised_numpy(picture: Any) -> Any:
    histogram = np.bincount(picture.ravel(), minlength=256)
    below = histogram.cumsum()
    lowest = below[below > 0].min()
    table = np.round(255 * (below - lowest) / (picture.size - lowest)).astype(np.uint8)
    return table[picture]


def equalised_torch(picture: Any) -> Any:
    histogram = torch.bincount(picture.ravel(), minlength=256)
    below = histogram.cumsum(0)
    lowest = below[below > 0].min()
    table = torch.round(255 * (below - lowest) / (picture.numel() - lowest)).to(torch.uint8)
    return table[picture.to(torch.int64)]


def equalised_tenxor(picture: Any) -> Any:
    histogram = tx.bincount(picture.ravel(), minlength=256)
    below = histogram.cumsum()
    lowest = below[below > 0].min()
    table = tx.round(255 * (below - lowest) / (picture.size - lowest)).astype(tx.uint8)
    return table[picture]


def picture(rng: np.random.Generator, n: int) -> tuple[Array]:
    """A dark one."""
    return (np.clip(rng.normal(70, 20, (n, n)), 5, 255).astype(np.uint8),)


def programs() -> list[Program]:
    """A small and a larger picture."""
    lines = (equalised_numpy, equalised_torch, equalised_tenxor)
    return [Program(f"histogram equalisation, {n}²", *lines, picture, (n,), (9,), large) for n, large in ((64, False), (1000, True))]
