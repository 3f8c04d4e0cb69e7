"""Top-k selection and selection of order statistics, with a definite order of equal elements: the first comes first.

So the result does not depend on the algorithm, and generated code can compute the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SHORT, SMALL = 64, 4  # elements of a row up to which a full sort is fastest; minimal ratio of row to `count` for a partition


def best(x: Array, *, count: int, largest: bool) -> tuple[Array, Array]:
    """Return the `count` largest elements along the last axis, or the smallest, and their positions, best first.

    Of equal elements the first in the row comes first. NaN counts as the largest.
    """
    places = best_places(x, count=count, largest=largest)
    return _taken(x, places), places


def best_places(x: Array, *, count: int, largest: bool) -> Array:
    """Return the positions of the `count` largest elements along the last axis, or of the smallest, best first.

    Of equal elements the first in the row comes first. NaN counts as the largest.
    """
    size = x.shape[-1]
    if size > SHORT and 0 < count * SMALL < size and x.dtype.kind != "c":
        split = size - count if largest else count - 1
        some = x.argpartition(split, axis=-1)
        some = np.sort(some[..., split:] if largest else some[..., :count], axis=-1)
        found = _taken(some, _in_order(_taken(x, some), largest))
        if (_as_good(x, _taken(x, found[..., -1:]), largest) == count).all():
            return found
    return _in_order(x, largest)[..., :count]


def _taken(x: Array, places: Array) -> Array:
    """Return the elements at positions along the last axis."""
    found: Array = x[places] if x.ndim == 1 else np.take_along_axis(x, places, -1)
    return found


def _in_order(x: Array, largest: bool) -> Array:
    """Return the positions of all elements along the last axis, best first."""
    if not largest:
        return x.argsort(axis=-1, kind="stable")
    found: Array = (x.shape[-1] - 1) - x[..., ::-1].argsort(axis=-1, kind="stable")[..., ::-1]
    return found


def _as_good(x: Array, worst: Array, largest: bool) -> Any:
    """Return, per row, how many elements are at least as good as `worst`. More than found means `worst` was chosen among equal elements."""
    if (worst != worst).any():  # NaN counts as the largest
        return np.count_nonzero(np.where(worst != worst, (x != x) | (not largest), ~(x < worst) if largest else x <= worst), axis=-1)
    return x.shape[-1] - np.count_nonzero(x < worst, axis=-1) if largest else np.count_nonzero(x <= worst, axis=-1)


LONG, PIECE = 1 << 14, 1 << 16  # minimal elements of a row for selection by sampling; elements of a piece, which fits into a cache
SAMPLE, WIDE = 1 << 11, 4.0  # elements of the sample; half-width of the candidate range, in standard deviations


def elements_at(x: Array, places: list[int]) -> dict[int, Any] | None:
    """Map each position to the element there in the sorted order of a long row, NaN last. Return None if a full sort is as fast.

    `places` must ascend strictly. Elements far from the positions in a sample are only counted. (R. Floyd and R. Rivest, Expected time
    bounds for selection, 1975.)
    """
    if len(x) < LONG or not places:
        return None
    sample = np.sort(x[:: max(1, len(x) // SAMPLE)])
    found: dict[int, Any] = {}
    while len(found) < len(places):
        first = places[len(found)]
        near = [place for place in places[len(found) :] if place - first < 2]
        these = _sought(x, sample, near)
        if these is None:
            return None
        found.update(zip(near, these, strict=True))
    return found


def _sought(x: Array, sample: Array, near: list[int]) -> Array | None:
    """Return the elements at positions near each other; None if the sample misjudges the row, or a full sort is as fast."""
    share, size = near[0] / len(x), len(sample)
    middle, away = share * size, WIDE * (size * share * (1 - share)) ** 0.5 + 2
    low, high = (sample[min(max(int(at), 0), size - 1)] for at in (middle - away, middle + away))
    first, last = middle - away < 0, middle + away >= size
    below, within, most = 0, list[Array](), len(x) // 4  # with more candidates, a full sort is as fast
    for begin in range(0, len(x), PIECE):
        piece = x[begin : begin + PIECE]
        is_below = np.zeros(len(piece), bool) if first else piece < low
        below += int(np.count_nonzero(is_below))
        some = piece[~is_below if last else (piece <= high) & ~is_below]
        within.append(some)
        most -= len(some)
        if most < 0:
            return None
    every = np.concatenate(within)
    own = [place - below for place in near]
    if own[0] < 0 or own[-1] >= len(every):
        return None
    every.partition(own)
    found: Array = every[own]
    return found


def any_nan(x: Array) -> bool:
    """Return whether a row contains NaN."""
    return any([np.isnan(x[begin : begin + PIECE].max()) for begin in range(0, len(x), PIECE)])
