"""Top-k selection and selection of order statistics, with a definite order of equal elements: the first comes first.

So the result does not depend on the algorithm, and generated code can compute the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FULL_SORT_ELEMENTS, MIN_PARTITION_RATIO = (
    64,
    4,
)  # elements of a row up to which a full sort is fastest; minimal ratio of row to `count` for a partition


def select_topk(x: Array, *, count: int, largest: bool) -> tuple[Array, Array]:
    """Return `count` elements of `x` along the last axis, and their positions, best first: the largest, or (if not `largest`) the smallest.

    Of equal elements the first in the row comes first. NaN counts as the largest.
    """
    positions = select_topk_positions(x, count=count, largest=largest)
    return _take_along(x, positions), positions


def select_topk_positions(x: Array, *, count: int, largest: bool) -> Array:
    """Return the positions of `count` elements of `x` along the last axis, best first: of the largest, or (if not `largest`) of the
    smallest.

    Of equal elements the first in the row comes first. NaN counts as the largest.
    """
    size = x.shape[-1]
    if size > FULL_SORT_ELEMENTS and 0 < count * MIN_PARTITION_RATIO < size and x.dtype.kind != "c":
        split = size - count if largest else count - 1
        candidates = x.argpartition(split, axis=-1)
        candidates = np.sort(candidates[..., split:] if largest else candidates[..., :count], axis=-1)
        positions = _take_along(candidates, _sort_positions(_take_along(x, candidates), largest))
        if (_count_at_least_as_good(x, _take_along(x, positions[..., -1:]), largest) == count).all():
            return positions
    return _sort_positions(x, largest)[..., :count]


def _take_along(x: Array, positions: Array) -> Array:
    """Return the elements of each row of `x` at the row's `positions`, along the last axis."""
    elements: Array = x[positions] if x.ndim == 1 else np.take_along_axis(x, positions, -1)
    return elements


def _sort_positions(x: Array, largest: bool) -> Array:
    """Return the positions of all elements of `x` along the last axis, sorted by element: in descending order if `largest`, else ascending.

    Equal elements stay in row order.
    """
    if not largest:
        return x.argsort(axis=-1, kind="stable")
    positions: Array = (x.shape[-1] - 1) - x[..., ::-1].argsort(axis=-1, kind="stable")[..., ::-1]
    return positions


def _count_at_least_as_good(x: Array, worst: Array, largest: bool) -> Any:
    """Return, per row of `x`, how many elements are at least as good as `worst`: as large if `largest`, else as small.

    `worst` has one element per row, the worst selected element. A count above the number selected means `worst` was chosen among equal
    elements.
    """
    if (worst != worst).any():  # NaN counts as the largest
        return np.count_nonzero(np.where(worst != worst, (x != x) | (not largest), ~(x < worst) if largest else x <= worst), axis=-1)
    return x.shape[-1] - np.count_nonzero(x < worst, axis=-1) if largest else np.count_nonzero(x <= worst, axis=-1)


# minimal elements of a row for selection by sampling; elements of a piece, which fits into a cache
MIN_SAMPLED_ELEMENTS, PIECE_ELEMENTS = 1 << 14, 1 << 16
SAMPLE_ELEMENTS, RANGE_DEVIATIONS = 1 << 11, 4.0  # elements of the sample; half-width of the candidate range, in standard deviations


def select_ranks(x: Array, positions: list[int]) -> dict[int, Any] | None:
    """Return a dict from each of `positions` to the element at this position in the sorted order of the long 1-D array `x`, NaN last.

    `positions` must ascend strictly. Return None for a row of fewer than `MIN_SAMPLED_ELEMENTS` elements, without positions, and if the
    search fails (`_select_near`): the caller then sorts the row. Elements far from the positions in a sample are only counted. (R. Floyd
    and R. Rivest, Expected time bounds for selection, 1975.)
    """
    if len(x) < MIN_SAMPLED_ELEMENTS or not positions:
        return None
    sample = np.sort(x[:: max(1, len(x) // SAMPLE_ELEMENTS)])
    elements: dict[int, Any] = {}
    while len(elements) < len(positions):
        lowest = positions[len(elements)]
        near_positions = [position for position in positions[len(elements) :] if position - lowest < 2]
        near_elements = _select_near(x, sample, near_positions)
        if near_elements is None:
            return None
        elements.update(zip(near_positions, near_elements, strict=True))
    return elements


def _select_near(x: Array, sample: Array, positions: list[int]) -> Array | None:
    """Return the elements at `positions` (in the sorted order of `x`, near each other), as an array.

    `sample` is a sorted sample of the row. Return None if the sample misjudges the row, or if more than a quarter of the elements remain as
    candidates: a full sort is then as fast.
    """
    fraction, size = positions[0] / len(x), len(sample)
    middle, half_width = fraction * size, RANGE_DEVIATIONS * (size * fraction * (1 - fraction)) ** 0.5 + 2
    low, high = (sample[min(max(int(index), 0), size - 1)] for index in (middle - half_width, middle + half_width))
    is_open_below, is_open_above = middle - half_width < 0, middle + half_width >= size
    below_count, candidate_chunks, remaining = 0, list[Array](), len(x) // 4  # with more candidates, a full sort is as fast
    for begin in range(0, len(x), PIECE_ELEMENTS):
        piece = x[begin : begin + PIECE_ELEMENTS]
        is_below = np.zeros(len(piece), bool) if is_open_below else piece < low
        below_count += int(np.count_nonzero(is_below))
        chunk = piece[~is_below if is_open_above else (piece <= high) & ~is_below]
        candidate_chunks.append(chunk)
        remaining -= len(chunk)
        if remaining < 0:
            return None
    candidates = np.concatenate(candidate_chunks)
    ranks = [position - below_count for position in positions]
    if ranks[0] < 0 or ranks[-1] >= len(candidates):
        return None
    candidates.partition(ranks)
    elements: Array = candidates[ranks]
    return elements


def has_nan(x: Array) -> bool:
    """Return whether the 1-D array `x` of floats contains NaN; False for an empty array."""
    return any([np.isnan(x[begin : begin + PIECE_ELEMENTS].max()) for begin in range(0, len(x), PIECE_ELEMENTS)])
