"""The edit distance of two texts: by rows, each of which needs a running minimum; or element by element."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def rows_numpy(a: Any, b: Any) -> Any:
    place = np.arange(len(b) + 1)
    above = place
    for letter in a:
        best = above + 1
        best[1:] = np.minimum(best[1:], above[:-1] + (b != letter))
        above = np.minimum.accumulate(best - place) + place
    return above


def rows_torch(a: Any, b: Any) -> Any:
    place = torch.arange(len(b) + 1)
    above = place
    for letter in a:
        best = above + 1
        best[1:] = torch.minimum(best[1:], above[:-1] + (b != letter))
        above = torch.cummin(best - place, 0).values + place
    return above


def rows_tenxor(a: Any, b: Any) -> Any:
    place = tx.arange(len(b) + 1)
    above = place
    for letter in a:
        best = above + 1
        best[1:] = tx.minimum(best[1:], above[:-1] + (b != letter))
        above = tx.cummin(best - place).values + place
    return above


def elements(a: Any, b: Any, d: Any) -> Any:
    """What all three libraries say alike, once there is a table of zeros."""
    for i in range(len(a) + 1):
        d[i, 0] = i
    for j in range(len(b) + 1):
        d[0, j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            change = d[i - 1, j - 1] + int(a[i - 1] != b[j - 1])
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, change)
    return d


def elements_numpy(a: Any, b: Any) -> Any:
    return elements(a, b, np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64))


def elements_torch(a: Any, b: Any) -> Any:
    return elements(a, b, torch.zeros((len(a) + 1, len(b) + 1), dtype=torch.int64))


def elements_tenxor(a: Any, b: Any) -> Any:
    return elements(a, b, tx.zeros((len(a) + 1, len(b) + 1), dtype=tx.int64))


def texts(rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    """Two of them, of four letters."""
    return rng.integers(0, 4, n), rng.integers(0, 4, m)


def programs() -> list[Program]:
    """The last row, and the whole table."""
    return [
        Program("edit distance by rows, 200×200", rows_numpy, rows_torch, rows_tenxor, texts, (200, 200), (6, 9)),
        Program("edit distance by elements, 20×20", elements_numpy, elements_torch, elements_tenxor, texts, (20, 20), (4, 5)),
    ]
