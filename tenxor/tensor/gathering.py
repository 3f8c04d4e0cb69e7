"""New tensors of the elements at some indices, which are read where they are by the kernel that needs them.

Few indices that are in memory are looked at when they are given, all others when they are used: when the result is
computed. If one is out of range, either raises the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..errors import BadIndex
from ..indices import wrong_index
from ..layout import Layout
from ..layout.indexing import counted
from ..node import Node, gather
from .arguments import axis_of, one_spelling
from .core import Core
from .movement import Movement

FEW = 4096  # indices that are looked at when they are given: it takes microseconds
FEWER = 32  # those that Python is faster to look at than NumPy


class Gathering(Movement):
    """Elements at indices."""

    __slots__ = ()

    def take(self, indices: Any, axis: int | None = None, *, dim: int | None = None) -> Self:
        """New tensor: the elements at some indices along an axis (of the flattened tensor for None).

        `indices` may have any shape, which takes the place of the axis. Negative ones count from the end. `oindex` gives
        a view instead. BadIndex names what is no index, IndexOutOfRange the axis and the index; this is raised when the
        elements are needed if the indices are pending, or more than a few thousand.

        >>> import tenxor as tx
        >>> tx.arange(12).reshape(3, 4).take([2, 0], axis=0).tolist()
        [[8, 9, 10, 11], [0, 1, 2, 3]]
        """
        axis = one_spelling("take", "axis", axis, "dim", dim)
        layout = self.layout if axis is not None else self.ravel().layout
        axis = axis_of("take", 0 if axis is None else axis, layout.ndim)
        return self._at("take", layout, (axis,), (self._indices("take", indices),), axis, (axis,))

    @classmethod
    def _indices(cls, op: str, given: Any) -> Self:
        """Indices as a tensor of integers."""
        if isinstance(given, cls):
            if not given.dtype.is_integer:
                raise BadIndex(f"{op}: indices are integers, not {given.dtype}; for booleans use x[mask]")
            return given
        array = array_of(op, given)
        if array.dtype.kind not in "iu":
            if array.size:
                raise BadIndex(f"{op}: indices are integers, not {array.dtype}; for booleans use x[mask]")
            array = array.astype(np.int64)
        return cls._from_numpy(array)

    def _at(
        self,
        op: str,
        layout: Layout,
        indexed: Sequence[int],
        indices: Sequence[Core],
        place: int,
        axes: Sequence[int],
    ) -> Self:
        """New tensor: this storage through `layout`, some of whose axes are `indexed`.

        The common shape of the indices takes the `place` among the other axes. Errors call the indexed ones `axes`.
        """
        shape = indices[0].layout.shape
        if len(indices) > 1:
            try:
                shape = np.broadcast_shapes(*(i.layout.shape for i in indices))
            except ValueError:
                raise BadIndex(
                    f"{op}: index arrays of shapes {[i.layout.shape for i in indices]} do not broadcast together"
                ) from None
        rest = [a for a in range(layout.ndim) if a not in indexed]
        before, after, sizes = rest[:place], rest[place:], layout.shape
        whole = (*[sizes[a] for a in before], *shape, *[sizes[a] for a in after])
        order = (*before, *[None] * len(shape), *after, *indexed)
        read = layout.arranged(order, (*whole, *[sizes[a] for a in indexed]))
        throughs = []
        for i in indices:
            ndim = len(i.layout.shape)
            new = [None] * (place + len(shape) - ndim)
            throughs.append(i.layout.arranged((*new, *range(ndim), *[None] * len(after)), whole))
        return self._gather(op, read, indices, throughs, axes)

    def _gather(
        self, op: str, layout: Layout, indices: Sequence[Core], throughs: Sequence[Layout], axes: Sequence[int]
    ) -> Self:
        """New tensor: this storage through `layout`, of whose last axes each has its own indices, read through a layout."""
        kept = layout.ndim - len(indices)
        shape, sizes = layout.shape[:kept], layout.shape[kept:]
        never = 0 in shape or 0 in sizes  # computed, so they are looked at now
        for axis, size, index in zip(axes, sizes, indices, strict=True):
            if never or (index.size <= FEW and index.storage.node.buffer is not None):
                outside = _outside(index.to_numpy(), size)  # type: ignore[attr-defined]
                if outside is not None:
                    raise wrong_index(op, outside, axis, size)
        sources = (self.node, *[i.node for i in indices])
        return self._of(Node(gather(op, tuple(axes)), shape, self.dtype, sources, (layout, *throughs)))


def _outside(indices: Any, size: int) -> int | None:
    """The first index that is out of range along an axis of this size."""
    if 0 < indices.size <= FEWER:
        numbers = indices.ravel().tolist()
        if -size <= min(numbers) and max(numbers) < size:
            return None
    return counted(indices, size)[1]


def array_of(op: str, indices: Any) -> Any:
    """Nested lists as an array."""
    try:
        return np.asarray(indices)
    except ValueError:
        raise BadIndex(
            f"{op}: the indices {indices!r} are ragged; each list must be as long as its neighbours"
        ) from None
