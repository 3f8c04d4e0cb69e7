"""Integer arguments that vary with the sizes of tensors: a rule that the fast path finds for some calls gives others NumPy's values, too.

The fast path generalises a call by its numbers. Sizes and integer arguments that are equal in one call are equal in each call of the
same signature, so each function is called with arguments that equal sizes, with arguments that do not, and with both by turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx

pytestmark = [pytest.mark.usefixtures("on"), pytest.mark.usefixtures("afresh")]

CALLS = 24  # of each function with arguments of one family; a rule is looked for after three
Random = np.random.Generator
Case = tuple[tuple[int, ...], tuple[Any, ...]]  # a shape, and the integer arguments


def rolls(random: Random) -> Iterator[Case]:
    """Yield shapes and shifts: half of the axis, one of its sizes, and any number."""
    for n in range(20, 20 + CALLS):
        yield (n, 6), (n // 2, 0)
        yield (n, n + 7), (n + 7, 0)
        yield (6, n), (int(random.integers(-60, 60)), 1)


def shifts(random: Random) -> Iterator[Case]:
    """Yield shapes and the axis whose middle becomes the first."""
    for n in range(20, 20 + CALLS):
        yield (n, 6), (0,)
        yield (5, n), (-1,)


def axes(random: Random) -> Iterator[Case]:
    """Yield shapes of four axes, and an axis whose number is one of the sizes."""
    for n in range(5, 5 + CALLS):
        yield (2, n, 7, 9), (2,)
        yield (3, n, 7, 9), (3,)
        yield (3, 2, n, 9), (int(random.integers(-4, 4)),)


def counts(random: Random) -> Iterator[Case]:
    """Yield square shapes, and a number that is below, at or above the size, or not related to it."""
    for n in range(17, 17 + CALLS):
        yield (n, n), (n - 1,)
        yield (n, n + 3), (n,)
        yield (n, n), (int(random.integers(1, 40)),)


CASES: dict[str, tuple[Callable[[Random], Iterator[Case]], Callable[..., Any], Callable[..., Any]]] = {
    "roll": (rolls, lambda x, shift, axis: tx.roll(x, shift, axis=axis), lambda x, shift, axis: np.roll(x, shift, axis)),
    "roll by names": (rolls, lambda x, n, a: tx.roll(x, axis=a, shift=n), lambda x, n, a: np.roll(x, n, a)),
    "roll of tuples": (rolls, lambda x, n, a: tx.roll(x, (n, 1), (a, 1 - a)), lambda x, n, a: np.roll(x, (n, 1), (a, 1 - a))),
    "roll of a flat tensor": (rolls, lambda x, n, a: tx.roll(x, n), lambda x, n, a: np.roll(x, n)),
    "fftshift": (shifts, lambda x, a: tx.fft.fftshift(x, axes=a), lambda x, a: np.fft.fftshift(x, axes=a)),
    "ifftshift": (shifts, lambda x, a: tx.fft.ifftshift(x, axes=a), lambda x, a: np.fft.ifftshift(x, axes=a)),
    "concat": (axes, lambda x, a: tx.concat([x, x[:, ::-1]], axis=a), lambda x, a: np.concat([x, x[:, ::-1]], axis=a)),
    "stack": (axes, lambda x, a: tx.stack([x, -x], axis=a), lambda x, a: np.stack([x, -x], axis=a)),
    "stack by names": (axes, lambda x, a: tx.stack([x, -x], dim=a), lambda x, a: np.stack([x, -x], axis=a)),
    "sum": (axes, lambda x, a: tx.sum(x, axis=a), lambda x, a: x.sum(axis=a)),
    "cumulative sum": (axes, lambda x, a: tx.cumulative_sum(x, axis=a), lambda x, a: x.cumsum(axis=a)),
    "flip": (axes, lambda x, a: tx.flip(x, axis=a), lambda x, a: np.flip(x, axis=a)),
    "sort": (axes, lambda x, a: tx.sort(x, axis=a), lambda x, a: np.sort(x, axis=a)),
    "diff": (axes, lambda x, a: tx.diff(x, axis=a), lambda x, a: np.diff(x, axis=a)),
    "moveaxis": (axes, lambda x, a: tx.moveaxis(x, a, 0) + 1, lambda x, a: np.moveaxis(x, a, 0) + 1),
    "expand_dims": (axes, lambda x, a: tx.expand_dims(x, axis=a) + 1, lambda x, a: np.expand_dims(x, a) + 1),
    "repeat along an axis": (axes, lambda x, a: tx.repeat(x, 2, axis=a), lambda x, a: np.repeat(x, 2, axis=a)),
    "repeat": (counts, lambda x, n: tx.repeat(x, n), lambda x, n: np.repeat(x, n)),
    "tile": (counts, lambda x, n: tx.tile(x, n), lambda x, n: np.tile(x, n)),
    "tril": (counts, lambda x, n: tx.tril(x, n - 5), lambda x, n: np.tril(x, n - 5)),
    "triu": (counts, lambda x, n: tx.triu(x, n), lambda x, n: np.triu(x, n)),
    "diagonal": (counts, lambda x, n: tx.diagonal(x, n - 3) + 1, lambda x, n: np.diagonal(x, n - 3) + 1),
    "pad": (counts, lambda x, n: tx.pad(x, ((n, 2), (0, n))), lambda x, n: np.pad(x, ((n, 2), (0, n)))),
    "slice": (counts, lambda x, n: x[: n // 2, -n:] * 2, lambda x, n: x[: n // 2, -n:] * 2),
    "reshape": (counts, lambda x, n: tx.tile(x, n).reshape(-1, n) + 1, lambda x, n: np.tile(x, n).reshape(-1, n) + 1),
    "eye": (counts, lambda x, n: tx.eye(len(x), n + 2, n - len(x)), lambda x, n: np.eye(len(x), n + 2, n - len(x))),
    "arange": (counts, lambda x, n: tx.arange(n, 3 * len(x), 2), lambda x, n: np.arange(n, 3 * len(x), 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_integer_arguments_of_other_calls_are_not_reused(name: str) -> None:
    cases, ours, numpys = CASES[name]
    random = np.random.default_rng(0)
    for shape, given in cases(random):
        array = random.integers(-99, 99, shape).astype(np.float64)
        found, expected = ours(tx.asarray(array), *given).to_numpy(), numpys(array, *given)
        assert found.shape == expected.shape and np.array_equal(found, expected), (shape, given)
