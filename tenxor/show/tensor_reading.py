"""The interface of a tensor needed for display, and partial reads: of a large tensor only the shown elements are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DTypeError, IndexOutOfRange, describe_value
from ..layout import Layout

Array = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]

#: The shown positions of one axis, as runs of consecutive positions, with a gap between two runs.
Runs = tuple[range, ...]


class ShownDType(Protocol):
    """A dtype: only its name is used."""

    @property
    def name(self) -> str: ...


class ShownStorage(Protocol):
    """The one-dimensional storage of a tensor, with `size` elements."""

    @property
    def size(self) -> int: ...


class ShownTensor(Protocol):
    """The interface of a tensor needed for display: basic indexing returns views, `to_numpy` returns a NumPy array."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> ShownDType: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def storage(self) -> ShownStorage: ...
    def to_numpy(self) -> Array: ...
    def __getitem__(self, key: Any, /) -> ShownTensor: ...


def check_tensor(op: str, t: object) -> None:
    """Raise DTypeError, naming the operation `op`, if `t` is not a tensor: an object with the attribute `layout`."""
    if not hasattr(t, "layout"):
        raise DTypeError(f"{op}: takes a tensor, not {describe_value(t)}; make one with tx.asarray")


def describe_header(t: ShownTensor) -> str:
    """Return a line with the shape and dtype of a tensor."""
    return f"Tensor {tuple(t.shape)} {t.dtype.name}"


def full_runs(shape: Sequence[int]) -> tuple[Runs, ...]:
    """Return, for each axis, a single run (a range) of every position."""
    return tuple((range(size),) for size in shape)


def choose_runs(shape: Sequence[int], edges: Sequence[int], limit: int, kept_index: Sequence[int] | None = None) -> tuple[Runs, ...]:
    """Return the positions to show of each axis of a tensor of `shape`, as runs (ranges), about `limit` elements at most.

    `edges` has for each axis the number of positions to show at either end; an axis of at most one position more than twice the number is
    shown whole. While more than `limit` elements would be shown, the axis with the most shown positions loses a position at either end, the
    outermost axis first. The positions of the index `kept_index`, unless None, are always shown.
    """
    edges = list(edges)

    def shown(axis: int) -> int:
        size, edge = shape[axis], edges[axis]
        return size if size <= 2 * edge + 1 else max(2 * edge, 1)

    while math.prod(map(shown, range(len(shape)))) > limit:
        axis = max(range(len(shape)), key=lambda a: (shown(a), -a))
        if shown(axis) == 1:
            break
        edges[axis] -= 1
    return tuple(
        _runs(size, edge, None if kept_index is None else kept_index[axis])
        for axis, (size, edge) in enumerate(zip(shape, edges, strict=True))
    )


def _runs(size: int, edge: int, keep: int | None) -> Runs:
    """Return the shown positions of an axis of `size` positions, as runs: `edge` at either end, at least the first position.

    All positions are shown if `size` is at most `2 * edge + 1`. The position `keep` is shown too, unless None.
    """
    if size <= 2 * edge + 1:
        return (range(size),)
    positions = {*range(max(edge, 1)), *range(size - edge, size)}
    if keep is not None:
        positions.add(keep)
    return group_runs(sorted(positions))


def group_runs(positions: Sequence[int]) -> Runs:
    """Group `positions`, strictly ascending, into runs of consecutive positions."""
    breaks = [i + 1 for i, (a, b) in enumerate(pairwise(positions)) if b != a + 1]
    bounds = [0, *breaks, len(positions)]
    return tuple(range(positions[a], positions[b - 1] + 1) for a, b in pairwise(bounds) if b > a)


def list_positions(runs: Runs) -> list[int]:
    """Return the shown positions of an axis, without its gaps."""
    return [position for run in runs for position in run]


def list_with_gaps(runs: Runs, size: int) -> list[int | None]:
    """Return the shown positions of an axis with `size` positions, with None for each gap between runs, and for one at the end."""
    result: list[int | None] = []
    for run in runs:
        if result and run:
            result.append(None)
        result.extend(run)
    if runs and runs[-1] and runs[-1][-1] < size - 1:
        result.append(None)
    return result


def is_complete(shape: Sequence[int], runs: Sequence[Runs]) -> bool:
    """Return whether `runs`, the shown positions of each axis, cover every element of a tensor of `shape`."""
    return all(sum(map(len, axis)) == size for size, axis in zip(shape, runs, strict=True))


def read_values(t: ShownTensor, runs: Sequence[Runs]) -> Array:
    """Return the elements at the positions `runs` of each axis, as an array with the tensor's number of axes, and read nothing more."""
    return _read_runs(t, runs, lambda view: view.to_numpy())


def read_offsets(t: ShownTensor, runs: Sequence[Runs]) -> Offsets:
    """Return the storage cells of the elements at the positions `runs` of each axis, as an array with the tensor's number of axes."""
    return _read_runs(t, runs, lambda view: np.asarray(view.layout.offsets(), dtype=np.int64))


def _read_runs(t: ShownTensor, runs: Sequence[Runs], read: Callable[[ShownTensor], Array]) -> Array:
    """Return `read(view)` for the elements at the positions `runs` of each axis, joined from one view for each combination of runs.

    `read` returns an array with an item for each element of a view, in row-major order.
    """
    if is_complete(t.shape, runs):
        return read(t).reshape(t.shape)

    def block(axis: int, key: tuple[slice, ...]) -> Array:
        if axis == len(runs):
            view = t[key]
            return read(view).reshape(view.shape)
        blocks = [block(axis + 1, (*key, slice(run.start, run.stop))) for run in runs[axis]]
        return np.concatenate(blocks, axis=axis)

    return block(0, ())


def check_index(index: Sequence[int], shape: Sequence[int], name: str) -> tuple[int, ...]:
    """Return the index with negative positions counted from the front, an int for each axis of `shape`.

    Raise IndexOutOfRange for a position outside its axis, or for a wrong number of positions. `name` begins the message.
    """
    if len(index) != len(shape):
        raise IndexOutOfRange(
            f"{name}: index {tuple(index)} has {len(index)} entries, but shape {tuple(shape)} has "
            f"{len(shape)} axes; give one integer per axis"
        )
    for axis, (position, size) in enumerate(zip(index, shape, strict=True)):
        if not -size <= position < size:
            raise IndexOutOfRange(
                f"{name}: index {position} is out of range for axis {axis} of shape {tuple(shape)}; it has {size} positions"
            )
    return tuple(int(p) + size if p < 0 else int(p) for p, size in zip(index, shape, strict=True))
