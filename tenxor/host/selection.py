"""The best of rows, in a definite order: of equal elements the first, so that it does not matter who finds them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SHORT, SMALL = 64, 4  # elements of a row that are soonest sorted; and the part of longer ones that is not


def best(x: Array, *, count: int, largest: bool) -> tuple[Array, Array]:
    """So many of the largest elements along the last axis, or of the smallest, and their places: the best come first, and of equal ones
    those that are first. NaN counts as the largest.
    """
    places = best_places(x, count=count, largest=largest)
    return _taken(x, places), places


def best_places(x: Array, *, count: int, largest: bool) -> Array:
    """The places alone."""
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
    found: Array = x[places] if x.ndim == 1 else np.take_along_axis(x, places, -1)
    return found


def _in_order(x: Array, largest: bool) -> Array:
    """The places of all elements, the best first."""
    if not largest:
        return x.argsort(axis=-1, kind="stable")
    found: Array = (x.shape[-1] - 1) - x[..., ::-1].argsort(axis=-1, kind="stable")[..., ::-1]
    return found


def _as_good(x: Array, worst: Array, largest: bool) -> Any:
    """How many elements are as good as one: if more than were found, it was chosen among equal ones."""
    if (worst != worst).any():  # NaN, than which nothing is larger
        return np.count_nonzero(np.where(worst != worst, (x != x) | (not largest), ~(x < worst) if largest else x <= worst), axis=-1)
    return x.shape[-1] - np.count_nonzero(x < worst, axis=-1) if largest else np.count_nonzero(x <= worst, axis=-1)
