"""Handwritten digits, told by their nearest neighbours.

Each image is 64 numbers, so each is a point in a space of 64 dimensions, and a new image most likely shows
what the images nearest to it show. All the distances are one line of broadcasting, the same in NumPy and in
Tenxor. NumPy computes it by way of two arrays of 599 x 1198 x 64 numbers; Tenxor compiles it to one loop
that keeps no more than the answer.

    python examples/knn_digits.py
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import NamedTuple, TypeVar

import numpy as np

import tenxor as tx

PIXELS = 64
DIGITS = 10
NEIGHBOURS = 3
ACCURACY = 0.98  # what this method must reach on these data

Array = TypeVar("Array", tx.Tensor, np.ndarray)


class Images(NamedTuple):
    """Images with what they show."""

    pixels: tx.Tensor  # (n, 64) float32, 0 (paper) to 16 (ink)
    labels: tx.Tensor  # (n,) int64, 0 to 9


def load() -> Images:
    """The images, each with the digit that it shows.

    >>> images = load()
    >>> images.pixels.shape, images.labels.shape
    ((1797, 64), (1797,))
    """
    return Images(*tx.data.digits())


def split(images: Images) -> tuple[Images, Images]:
    """Keep one image in three for the test and learn from the others: (train, test), all of them views.

    >>> train, test = split(load())
    >>> train.pixels.shape, test.pixels.shape
    ((1198, 64), (599, 64))
    """
    rest = [row for row in range(images.labels.size) if row % 3]
    train = Images(images.pixels.oindex[rest], images.labels.oindex[rest])
    test = Images(images.pixels[::3], images.labels[::3])
    return train, test


def distances(a: Array, b: Array) -> Array:
    """Return the squared distance of every row of `a` (n, d) to every row of `b` (m, d), as (n, m).

    >>> distances(tx.asarray([[0.0, 0.0], [3.0, 0.0]]), tx.asarray([[3.0, 4.0]])).tolist()
    [[25.0], [16.0]]
    """
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def classify(distances: tx.Tensor, labels: tx.Tensor, neighbours: int = NEIGHBOURS) -> tx.Tensor:
    """Return for each row of `distances` (n, m) the label that most of its nearest columns carry, as (n,).

    >>> near_two_ones = tx.asarray([[1.0, 2.0, 9.0, 0.5]])
    >>> classify(near_two_ones, tx.asarray([1, 1, 7, 7])).tolist()
    [1]
    """
    left = distances.copy()
    rows = tx.arange(left.shape[0])
    votes = tx.zeros((left.shape[0], DIGITS), dtype=tx.int64)
    for _ in range(neighbours):
        nearest = left.argmin(axis=1)
        votes[rows, labels[nearest]] += 1
        left[rows, nearest] = tx.inf  # so that the next nearest is found in the next round
    return votes.argmax(axis=1)


def confusion(actual: tx.Tensor, predicted: tx.Tensor) -> tx.Tensor:
    """Count how often each digit was taken for each, as (10, 10): rows are actual, columns predicted digits.

    >>> counts = confusion(tx.asarray([7, 7, 7]), tx.asarray([7, 7, 1]))
    >>> int(counts[7, 7]), int(counts[7, 1])
    (2, 1)
    """
    digit = tx.arange(DIGITS)
    is_actual = actual[:, None, None] == digit[:, None]
    is_predicted = predicted[:, None, None] == digit
    return (is_actual & is_predicted).count_nonzero(axis=0)


def confusion_table(counts: tx.Tensor) -> str:
    """Lay the counts out for reading, a dot for each zero."""
    lines = ["taken for " + "".join(f"{digit:5}" for digit in range(DIGITS))]
    for digit, row in enumerate(counts.tolist()):
        lines.append(f"{'a':>7} {digit} " + "".join(f"{count or '·':>5}" for count in row))
    return "\n".join(lines)


class Timing(NamedTuple):
    """The same line twice, in seconds."""

    tenxor: float
    numpy: float

    @property
    def ratio(self) -> float:
        return self.numpy / self.tenxor


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def compare(test: tx.Tensor, train: tx.Tensor, rounds: int = 7) -> Timing:
    """Time the line of `distances` in Tenxor and in NumPy by turns, both warm; the median of `rounds`."""
    test_array, train_array = np.array(test), np.array(train)

    def tenxor() -> None:
        distances(test, train).realize()

    def numpy() -> None:
        distances(test_array, train_array)

    _warm_up, *times = [(seconds(tenxor), seconds(numpy)) for _ in range(rounds + 1)]
    return Timing(*(median(column) for column in zip(*times, strict=True)))


def agree(test: tx.Tensor, train: tx.Tensor) -> bool:
    """Whether both libraries find the same distances, to the last bit.

    They must: pixels are whole numbers up to 16, so every sum stays below 2**24 and float32 holds it exactly.
    """
    return np.array_equal(np.asarray(distances(test, train)), distances(np.array(test), np.array(train)))


def main() -> None:
    before = tx.compile_counts()
    train, test = split(load())
    predicted = classify(distances(test.pixels, train.pixels), train.labels)
    right, total = int((predicted == test.labels).count_nonzero()), test.labels.size
    print(f"{total} handwritten digits, told by their {NEIGHBOURS} nearest of {train.labels.size:,} others\n")
    print(confusion_table(confusion(test.labels, predicted)))
    print(f"\naccuracy {right / total:.4f} ({right} of {total})\n")

    if not agree(test.pixels, train.pixels):
        raise SystemExit("the distances differ from NumPy's")
    timing = compare(test.pixels, train.pixels)
    print("((a[:, None] - b[None]) ** 2).sum(-1) in float32, the same distances to the bit; median of seven:")
    print(f"  NumPy   {timing.numpy * 1e3:7.2f} ms")
    print(f"  Tenxor  {timing.tenxor * 1e3:7.2f} ms, {timing.ratio:.1f} times as fast\n")
    compiled, found = (now - then for now, then in zip(tx.compile_counts(), before, strict=True))
    print(f"{compiled + found} kernels: {compiled} compiled now, {found} found on disk")
    if right / total < ACCURACY:
        raise SystemExit(f"the accuracy is below {ACCURACY}")


if __name__ == "__main__":
    main()
