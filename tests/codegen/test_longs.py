"""Conversion of 64-bit integers to the nearest doubles, in vectors of any length, with and without instructions for it."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tenxor as tx
from tests.machines import current, use, vectors

EDGES = [
    0,
    1,
    *[(1 << k) + offset for k in (31, 32, 33, 51, 52, 53, 54, 62, 63) for offset in (-513, -512, -3, -2, -1, 0, 1, 2, 3, 512, 513)],
]


def numbers(low: int, high: int, draw: random.Random) -> list[int]:
    """Return edge cases, halves between two doubles with their neighbours, and integers of all bit lengths."""
    values = [sign * n for n in EDGES for sign in (1, -1)]
    for _ in range(3000):
        n = draw.getrandbits(draw.randrange(1, 65))
        excess_bits = max(n.bit_length() - 53, 0)
        half = n >> excess_bits << excess_bits | (1 << excess_bits >> 1)
        values += [sign * m for m in (n, half, half + 1, half - 1) for sign in (1, -1)]
    draw.shuffle(values)
    return [n for n in (low, high, *values) if low <= n <= high]


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("nbytes", [0, 16, 32, None], ids=["alone", "16", "32", "here"])
@pytest.mark.parametrize("dtype", [tx.int64, tx.uint64], ids=str)
def test_int64_converts_to_the_nearest_float64(nbytes: int | None, dtype: tx.DType, monkeypatch: pytest.MonkeyPatch) -> None:
    values = numbers(int(dtype.lowest), int(dtype.highest), random.Random(str(dtype)))
    x = tx.asarray(np.array(values, dtype=str(dtype)))
    if nbytes == 0:
        use(monkeypatch, current()._replace(vector_bytes=0))
    elif nbytes is not None:
        vectors(monkeypatch, nbytes)
    expected = [float(n).hex() for n in values]  # Python rounds to the nearest, of two to the even one
    assert [y.hex() for y in x.astype(tx.float64).tolist()] == expected
    assert [y.hex() for y in (x[::-1] * 1.0).tolist()] == expected[::-1]
    for count in range(1, 40):
        assert [y.hex() for y in x[count : 2 * count].astype(tx.float64).tolist()] == expected[count : 2 * count]
