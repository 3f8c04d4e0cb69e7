"""The division of attention into blocks that fit into caches, or at least into memory. Each row (a query) has one weight for each step (a
key), and a block computes the weights of some rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from .._utils.records import NamedTuple

MAX_BLOCK_ROWS = 512  # maximal rows of a block without a causal mask
MAX_CAUSAL_BLOCK_ROWS = (64, 128)  # maximal rows of a causal block: with fewer than LARGE_ROW_COUNT rows in total, and with more
LARGE_ROW_COUNT = 1024
SEEN_STEP_MULTIPLE = 64  # unseen steps are left out in multiples of this number, so the rest is added in the same order


class AttentionBlock(NamedTuple):
    """A block of rows: the slices of the axes before the rows (batch, heads), the slice of the rows, and the number of steps seen by the
    rows.

    The rows of a block take the steps from 0 on; steps after `seen_step_count` are left out.
    """

    outer_slices: tuple[slice, ...]
    row_slice: slice
    seen_step_count: int


def iter_attention_blocks(
    outer_shape: Sequence[int], row_count: int, step_count: int, itemsize: int, reach: int | None, block_bytes: int, min_rows: int
) -> Iterator[AttentionBlock]:
    """Yield the blocks of `row_count` rows, with `step_count` steps each, behind axes of the sizes `outer_shape`.

    A block holds the rows of several outer indices if they fit into `block_bytes`, or a part of the rows of a single outer index, with at
    least `min_rows` rows if possible. If `reach` is not None, row r sees the steps up to r + `reach`. Then a block leaves out steps unseen
    by the rows, in multiples of `SEEN_STEP_MULTIPLE`. `itemsize` is the bytes of a weight. Both counts must be at least 1.
    """
    nbytes = step_count * itemsize
    max_rows = MAX_BLOCK_ROWS if reach is None else MAX_CAUSAL_BLOCK_ROWS[row_count >= LARGE_ROW_COUNT]
    block_count = max(1, row_count // min(max_rows, max(min_rows, block_bytes // nbytes)))
    bounds = [row_count * k // block_count for k in range(block_count + 1)]
    block_rows = -(-row_count // block_count)
    block_heads = max(1, -(-min_rows // block_rows), block_bytes // (block_rows * nbytes))
    inner, axis = 1, len(outer_shape)
    while axis > 0 and inner * outer_shape[axis - 1] <= block_heads:
        axis -= 1
        inner *= outer_shape[axis]
    outer_steps = [1] * (axis - 1) + [max(1, block_heads // inner)] * (axis > 0) + list(outer_shape[axis:])
    outer = [[slice(start, min(start + step, n)) for start in range(0, n, step)] for n, step in zip(outer_shape, outer_steps, strict=True)]
    for outer_slices in product(*outer):
        for start, stop in pairwise(bounds):
            seen_steps = step_count if reach is None else min(-(-(stop + reach) // SEEN_STEP_MULTIPLE) * SEEN_STEP_MULTIPLE, step_count)
            yield AttentionBlock(outer_slices, slice(start, stop), seen_steps)
