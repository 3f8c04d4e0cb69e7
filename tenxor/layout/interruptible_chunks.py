"""Work on large arrays in chunks, between which Python can deliver a signal (Ctrl-C); NumPy cannot be interrupted within one call."""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from .coords import Shape

MAX_CHUNK_ELEMENTS = 1 << 20  # elements: some milliseconds


def iterate_chunks(shape: Shape, max_elements: int = MAX_CHUNK_ELEMENTS) -> Iterator[tuple[Any, ...]]:
    """Iterate over indexing keys of chunks of an array of `shape`, in row-major order, each of `max_elements` elements or fewer.

    The chunks together are the whole array, each element once. `max_elements` must be at least 1. An array with an axis of size 0 may have
    no chunk.

    >>> list(iterate_chunks((2, 5), 3))
    [(0, slice(0, 3, None)), (0, slice(3, 6, None)), (1, slice(0, 3, None)), (1, slice(3, 6, None))]
    """
    axis = 0
    while axis < len(shape) and prod(shape[axis + 1 :]) > max_elements:
        axis += 1
    if not shape:
        yield ()
        return
    step = max(1, max_elements // max(1, prod(shape[axis + 1 :])))
    for leading in product(*map(range, shape[:axis])):
        for start in range(0, shape[axis], step):
            yield (*leading, slice(start, start + step))


def nonzero(array: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Return the indices of the elements of `array` that are not zero, in row-major order, as a list with one array for each axis.

    `array` must have at least one axis. Signals are handled between chunks of `MAX_CHUNK_ELEMENTS` elements.

    >>> [indices.tolist() for indices in nonzero(np.asarray([[0, 1], [2, 0]]))]
    [[0, 1], [1, 0]]
    """
    if array.size <= MAX_CHUNK_ELEMENTS:
        return list(np.nonzero(array))
    flat = array.reshape(-1)
    counts = [int(np.count_nonzero(flat[key])) for key in iterate_chunks(flat.shape)]
    indices_by_axis = [np.empty(sum(counts), np.int64) for _ in array.shape]
    end = 0
    for count, (key,) in zip(counts, iterate_chunks(flat.shape), strict=True):
        flat_indices = np.flatnonzero(flat[key])
        flat_indices += key.start
        for axis, indices in enumerate(np.unravel_index(flat_indices, array.shape)):
            indices_by_axis[axis][end : end + count] = indices
        end += count
    return indices_by_axis
