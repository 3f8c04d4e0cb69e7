"""Conway's Game of Life: neighbours counted on slices of a board with a dead border, or by rolling one without borders."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def by_slices(board: Any, steps: int, copied: Any) -> Any:
    """All three libraries slice, compare and write alike; only copying has two names."""
    board = copied(board)
    inside = board[1:-1, 1:-1]
    for _ in range(steps):
        count = (
            board[:-2, :-2] + board[:-2, 1:-1] + board[:-2, 2:]
            + board[1:-1, :-2] + board[1:-1, 2:]
            + board[2:, :-2] + board[2:, 1:-1] + board[2:, 2:]
        )  # fmt: skip
        birth = (count == 3) & (inside == 0)
        survive = ((count == 2) | (count == 3)) & (inside == 1)
        inside[...] = 0
        inside[birth | survive] = 1
    return board


def by_slices_numpy(board: Any, steps: int) -> Any:
    return by_slices(board, steps, np.copy)


def by_slices_torch(board: Any, steps: int) -> Any:
    return by_slices(board, steps, torch.clone)


def by_slices_tenxor(board: Any, steps: int) -> Any:
    return by_slices(board, steps, tx.Tensor.copy)


AROUND = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]


def by_roll_numpy(board: Any, steps: int) -> Any:
    for _ in range(steps):
        count = sum(np.roll(board, shift, (0, 1)) for shift in AROUND)
        board = ((count == 3) | ((count == 2) & (board == 1))).astype(np.uint8)
    return board


def by_roll_torch(board: Any, steps: int) -> Any:
    for _ in range(steps):
        count = sum(torch.roll(board, shift, (0, 1)) for shift in AROUND)
        board = ((count == 3) | ((count == 2) & (board == 1))).to(torch.uint8)
    return board


def by_roll_tenxor(board: Any, steps: int) -> Any:
    for _ in range(steps):
        count = sum(tx.roll(board, shift, (0, 1)) for shift in AROUND)
        board = ((count == 3) | ((count == 2) & (board == 1))).astype(tx.uint8)
    return board


def bordered(rng: np.random.Generator, n: int, steps: int) -> tuple[Array, int]:
    """A board of integers with a border of zeros."""
    return np.pad(rng.integers(0, 2, (n - 2, n - 2)), 1), steps


def endless(rng: np.random.Generator, n: int, steps: int) -> tuple[Array, int]:
    """A board of bytes."""
    return rng.integers(0, 2, (n, n), np.uint8), steps


def programs() -> list[Program]:
    """Both, on two boards."""
    slices, roll = (by_slices_numpy, by_slices_torch, by_slices_tenxor), (by_roll_numpy, by_roll_torch, by_roll_tenxor)
    return [
        Program(f"Game of Life by {how}, {n}²", *lines, inputs, (n, steps), (9, 4), large)
        for how, lines, inputs in (("slices", slices, bordered), ("roll", roll, endless))
        for n, steps, large in ((100, 20, False), (1000, 3, True))
    ]
