"""What another sum may read once waits for that with the short way, too, however small it is itself."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor import shortcut
from tenxor.target import Passes
from tenxor.tensor import Tensor

TIMES = 8  # from the third on the short way knows what to do
LEAST, (SHORTEST, LONGEST) = Passes().least, Passes().short


def matrix(row: int, nbytes: int) -> tuple[Tensor, Tensor]:
    """A matrix of so many bytes in rows of so many, and a vector along them."""
    random = np.random.default_rng(row)
    made = random.normal(size=(nbytes // row, row // 8)), random.normal(size=row // 8)
    x, v = (tx.asarray(values) for values in made)
    return x.realize(), v.realize()


def waits(x: Tensor, v: Tensor) -> bool:
    """Whether a product of both is computed no sooner than it is asked for, the last time of several."""
    for _ in range(TIMES):
        u = x @ v
        found = u.storage.node.buffer is None
        u.realize()
    return found


@pytest.mark.parametrize("row", [SHORTEST, LONGEST])
def test_the_bits_are_the_same(row: int) -> None:
    x, v = matrix(row, LEAST)
    with shortcut.aside():
        u = (x @ v).realize()
        expected = np.asarray(x.T @ u).tobytes()
    for _ in range(TIMES):
        assert np.asarray(x.T @ (x @ v)).tobytes() == expected
        u = (x @ v).realize()
        assert np.asarray(x.T @ u).tobytes() == expected


@pytest.mark.parametrize("row", [SHORTEST, LONGEST])
def test_a_product_with_much_in_short_rows_waits(row: int) -> None:
    assert waits(*matrix(row, LEAST))


@pytest.mark.parametrize(("row", "nbytes"), [(SHORTEST, LEAST // 2), (2 * LONGEST, LEAST)])
def test_others_do_not(row: int, nbytes: int) -> None:
    assert not waits(*matrix(row, nbytes))
