"""The division of pairs of rows and steps into blocks that fit into caches, or at least into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from ..records import NamedTuple

ROWS = 512  # maximal rows of a block without a causal mask
ROWS_IF_CAUSAL = (64, 128)  # maximal rows of a causal block: with fewer than MANY_ROWS rows in total, and with more
MANY_ROWS = 1024
ALIKE = 64  # unseen steps are left out in multiples of this number, so the rest is added in the same order


class Cut(NamedTuple):
    """A block: the slices of the axes before the rows, the slice of the rows, and the number of steps seen by the rows."""

    before: tuple[slice, ...]
    rows: slice
    steps: int


def cuts(
    before: Sequence[int], length: int, steps: int, itemsize: int, seen: int | None, block_bytes: int, fewest: int
) -> Iterator[Cut]:
    """Yield the blocks of `length` rows behind axes of the sizes `before`.

    A block holds rows of as many outer indices as fit into `block_bytes`, or a part of the rows of one outer index, and at least `fewest`
    rows. If `seen` is not None, row r sees the steps up to r + `seen`, and a block leaves out the steps seen by none of its rows.
    `itemsize` is in bytes.
    """
    nbytes = steps * itemsize
    most = ROWS if seen is None else ROWS_IF_CAUSAL[length >= MANY_ROWS]
    count = max(1, length // min(most, max(fewest, block_bytes // nbytes)))
    bounds = [length * k // count for k in range(count + 1)]
    high = -(-length // count)
    heads = max(1, -(-fewest // high), block_bytes // (high * nbytes))
    inner, axis = 1, len(before)
    while axis > 0 and inner * before[axis - 1] <= heads:
        axis -= 1
        inner *= before[axis]
    each = [1] * (axis - 1) + [max(1, heads // inner)] * (axis > 0) + list(before[axis:])
    outer = [[slice(start, min(start + step, n)) for start in range(0, n, step)] for n, step in zip(before, each, strict=True)]
    for its in product(*outer):
        for start, stop in pairwise(bounds):
            reach = steps if seen is None else min(-(-(stop + seen) // ALIKE) * ALIKE, steps)
            yield Cut(its, slice(start, stop), reach)
