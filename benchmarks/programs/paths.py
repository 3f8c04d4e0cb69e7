"""Shortest paths between all pairs of nodes, by Floyd and Warshall."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def paths_numpy(d: Any) -> Any:
    for k in range(len(d)):
        d = np.minimum(d, d[:, k, None] + d[k])
    return d


def paths_torch(d: Any) -> Any:
    for k in range(len(d)):
        d = torch.minimum(d, d[:, k, None] + d[k])
    return d


def paths_tenxor(d: Any) -> Any:
    for k in range(len(d)):
        d = tx.minimum(d, d[:, k, None] + d[k])
    return d


def graph(rng: np.random.Generator, n: int) -> tuple[Array]:
    """The lengths of edges; a fifth of all are there."""
    d = np.where(rng.random((n, n)) < 0.2, rng.random((n, n)), np.inf)
    d[np.arange(n), np.arange(n) - 1] = 1.0  # so that every node can be reached
    np.fill_diagonal(d, 0.0)
    return (d,)


def programs() -> list[Program]:
    """On a small and a larger graph."""
    lines = (paths_numpy, paths_torch, paths_tenxor)
    return [Program(f"Floyd–Warshall, {n} nodes", *lines, graph, (n,), (7,), large) for n, large in ((34, False), (300, True))]
