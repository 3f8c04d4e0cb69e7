"""Pairs of rows and steps, cut into blocks that are small enough to stay in caches, or at least not to fill memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from ..records import NamedTuple

ROWS = 512  # of a block at most, if it sees all steps
ROWS_IF_CAUSAL = (64, 128)  # and if its last row sees more of them than its first: of a few rows, and of many
MANY_ROWS = 1024
ALIKE = 64  # steps of which those that are not seen are left out together: so the others are added up in the same order


class Cut(NamedTuple):
    """A block: the slice of each axis in front of the rows, that of the rows, and how many steps they see."""

    before: tuple[slice, ...]
    rows: slice
    steps: int


def cuts(
    before: Sequence[int], length: int, steps: int, itemsize: int, seen: int | None, block_bytes: int, fewest: int
) -> Iterator[Cut]:
    """The blocks of so many rows, behind axes of some sizes: so many rows of all that is in front of them if that fits, else of some, or
    of one; `fewest` at least. If each row sees so many steps more than its own number, and no others, those that a block does not see
    are left out.
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
