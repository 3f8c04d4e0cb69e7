"""Markov chains by Metropolis: one, with a decision in Python at each step, or many side by side."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def one_numpy(x: Any, moves: Any, chances: Any) -> Any:
    visited = np.empty_like(moves)
    density = -((x**2 - 1) ** 2).sum()
    for k in range(len(moves)):
        new = x + moves[k]
        there = -((new**2 - 1) ** 2).sum()
        if chances[k] < np.exp(there - density):
            x, density = new, there
        visited[k] = x
    return visited


def one_torch(x: Any, moves: Any, chances: Any) -> Any:
    visited = torch.empty_like(moves)
    density = -((x**2 - 1) ** 2).sum()
    for k in range(len(moves)):
        new = x + moves[k]
        there = -((new**2 - 1) ** 2).sum()
        if chances[k] < torch.exp(there - density):
            x, density = new, there
        visited[k] = x
    return visited


def one_tenxor(x: Any, moves: Any, chances: Any) -> Any:
    visited = tx.empty_like(moves)
    density = -((x**2 - 1) ** 2).sum()
    for k in range(len(moves)):
        new = x + moves[k]
        there = -((new**2 - 1) ** 2).sum()
        if chances[k] < tx.exp(there - density):
            x, density = new, there
        visited[k] = x
    return visited


def many_numpy(x: Any, moves: Any, chances: Any) -> Any:
    density = -((x**2 - 1) ** 2)
    total = np.zeros_like(x)
    for move, chance in zip(moves, chances, strict=True):
        new = x + move
        there = -((new**2 - 1) ** 2)
        accept = chance < np.exp(there - density)
        x = np.where(accept, new, x)
        density = np.where(accept, there, density)
        total += x
    return x, total / len(moves)


def many_torch(x: Any, moves: Any, chances: Any) -> Any:
    density = -((x**2 - 1) ** 2)
    total = torch.zeros_like(x)
    for move, chance in zip(moves, chances, strict=True):
        new = x + move
        there = -((new**2 - 1) ** 2)
        accept = chance < torch.exp(there - density)
        x = torch.where(accept, new, x)
        density = torch.where(accept, there, density)
        total += x
    return x, total / len(moves)


def many_tenxor(x: Any, moves: Any, chances: Any) -> Any:
    density = -((x**2 - 1) ** 2)
    total = tx.zeros_like(x)
    for move, chance in zip(moves, chances, strict=True):
        new = x + move
        there = -((new**2 - 1) ** 2)
        accept = chance < tx.exp(there - density)
        x = tx.where(accept, new, x)
        density = tx.where(accept, there, density)
        total += x
    return x, total / len(moves)


def drawing_numpy(chains: int, steps: int) -> Any:
    rng = np.random.default_rng(0)
    x = np.zeros(chains)
    for _ in range(steps):
        new = x + rng.normal(0, 2, chains)
        accept = np.log(rng.random(chains)) < (x**2 - new**2) / 2
        x[accept] = new[accept]
    return np.abs(x).mean(), x.var()


def drawing_torch(chains: int, steps: int) -> Any:
    torch.manual_seed(0)
    x = torch.zeros(chains, dtype=torch.float64)
    for _ in range(steps):
        new = x + 2 * torch.randn(chains, dtype=torch.float64)
        accept = torch.log(torch.rand(chains, dtype=torch.float64)) < (x**2 - new**2) / 2
        x[accept] = new[accept]
    return torch.abs(x).mean(), x.var()


def drawing_tenxor(chains: int, steps: int) -> Any:
    rng = tx.random.Generator(0)
    x = tx.zeros(chains)
    for _ in range(steps):
        new = x + rng.normal(0, 2, chains)
        accept = tx.log(rng.random(chains)) < (x**2 - new**2) / 2
        x[accept] = new[accept]
    return tx.abs(x).mean(), x.var()


def chances(rng: np.random.Generator, chains: int, steps: int) -> tuple[Array, Array, Array]:
    """Where chains begin, how they would move, and what decides whether they do."""
    return rng.normal(size=chains), rng.normal(size=(steps, chains)), rng.random((steps, chains))


def chance(rng: np.random.Generator, axes: int, steps: int) -> tuple[Array, Array, Array]:
    """The same for one chain in a space of some axes."""
    return rng.normal(size=axes), rng.normal(0, 0.5, (steps, axes)), rng.random(steps)


def programs() -> list[Program]:
    """One chain in a space of two axes, and many on a line."""
    many = (many_numpy, many_torch, many_tenxor)
    drawing = (drawing_numpy, drawing_torch, drawing_tenxor)
    drawn = {"inputs": lambda rng, *size: size, "tolerance": 0.1}  # other random numbers in each library
    return [
        Program("Metropolis, 1 chain", one_numpy, one_torch, one_tenxor, chance, (2, 200), (2, 20)),
        Program("Metropolis, 1,000 chains", *many, chances, (1_000, 50), (30, 5)),
        Program("Metropolis, 100,000 chains", *many, chances, (100_000, 10), (30, 5), large=True),
        Program("Metropolis that draws, 1,000 chains", *drawing, size=(1_000, 50), tiny=(4_000, 20), **drawn),
        Program("Metropolis that draws, 100,000 chains", *drawing, size=(100_000, 10), tiny=(4_000, 20), large=True, **drawn),
    ]
