"""Random programs that update slices, for `test_updating.py`: each line is applied to a NumPy array and to a tensor."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import tenxor as tx

N = 64  # rows and columns; parts are most of them, as less is not computed in place
SIZES = ((48, 48), (50, 60), (62, 40))  # so what is learnt is met again
Pair = tuple[Any, Any]  # a tensor, and the same as NumPy has it


def _part(rng: random.Random, size: tuple[int, int]) -> tuple[slice, slice]:
    rows, columns = (rng.randrange(N - n + 1) for n in size)
    found = [slice(rows, rows + size[0]), slice(columns, columns + size[1])]
    if rng.random() < 0.2:
        found[0] = slice(rows + size[0] - 1, rows - 1 if rows else None, -1)
    return found[0], found[1]


def _beside(rng: random.Random, size: tuple[int, int]) -> Callable[[Any, Any], Any]:
    """Return a right operand, from the memory that is written or from other memory."""
    r, c, s = rng.randrange(N), rng.randrange(N), rng.choice((1, -1))
    rows, columns = _part(rng, size)
    number = rng.choice((0.5, -1.0, 2.0))
    column, row = (rows, c, None), (r, slice(columns.start, columns.stop))
    ways: list[Callable[[Any, Any], Any]] = [
        lambda a, b: number,
        lambda a, b: a[column] * a[row],
        lambda a, b: a[column] + b[row] * number,
        lambda a, b: (a[column] * number) * a[row],
        lambda a, b: a[column] - a[r, c],
        lambda a, b: b[rows, columns],
        lambda a, b: b[rows, columns] * a[row],
        lambda a, b: a[rows, columns] * number,
        lambda a, b: a[rows, columns][::s] - b[column],
        lambda a, b: a[r, c],
        lambda a, b: a[row],
        lambda a, b: np.exp(-(b[column] ** 2)).round(1) if isinstance(b, np.ndarray) else tx.exp(-(b[column] ** 2)).round(1),
    ]
    return rng.choice(ways)


def run(seed: int) -> None:
    """Run the program of a seed: array and tensor agree to the bit after each line, as do all intermediate results at the end."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    a, b = (numbers.integers(-8, 9, (N, N)) / 8 for _ in range(2))
    t, other = tx.asarray(a), tx.asarray(b)
    if rng.random() < 0.3:
        t, a = t.T, a.T
    held: list[Pair] = []
    for line in range(14):
        size = rng.choice(SIZES)
        key, make = _part(rng, size), _beside(rng, size)
        y, right = make(t, other), make(a, b)
        if isinstance(right, np.ndarray) and right.base is not None:
            right = right.copy()  # a view of ours is one, too, but what is held is to be what it was
            y = y.copy() if isinstance(y, tx.Tensor) else y
        if rng.random() < 0.4:
            held.append((y, right))
        if rng.random() < 0.3:
            held.append((y + 1.0, right + 1.0))
        if rng.random() < 0.3:
            held.append((t[key] * 2.0, a[key] * 2.0))
        if rng.random() < 0.1:
            held.append((t.copy(), a.copy()))
        kind = rng.randrange(5)
        for x, beside in ((t, y), (a, right)):
            if kind == 0:
                x[key] += beside
            elif kind == 1:
                x[key] -= beside
            elif kind == 2:
                x[key] *= beside
            elif kind == 3:
                part = x[key]
                part -= beside
            else:
                part = x[key]
                part[part > 1.0] = 0.25
        if np.abs(a).max() > 1e3:
            for x in (t, a):
                x[...] = 0.125
        if rng.random() < 0.6:
            assert t.to_numpy().tobytes() == a.tobytes(), (seed, line)
    for k, (mine, right) in enumerate([(t, a), *held]):
        found = mine.to_numpy() if isinstance(mine, tx.Tensor) else np.float64(mine)
        assert found.tobytes() == np.asarray(right).tobytes(), (seed, "held", k)
