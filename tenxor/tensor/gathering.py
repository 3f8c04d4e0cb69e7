"""New tensors of elements at indices: the consuming kernel reads them through the index arrays.

Up to `FEW` indices in memory are checked at the call, more or pending indices when the result is evaluated. Both raise the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..dtypes import DEFAULT_INT
from ..errors import ArgumentError, BadIndex, ShapeError, described
from ..keywords import spelled
from ..late import Late, LateModule
from ..layout import Layout, broadcast_shapes
from ..layout.indexing import counted
from ..memory import Buffer
from ..node import Node, gather
from ..records import NamedTuple
from .arguments import axis_of, into, one_of
from .core import Core, Operand, broadcast
from .movement import Movement

nested = LateModule("tenxor.tensor.nested")
wrong_index = Late("tenxor.plans.indices").wrong_index
check_nesting = Late("tenxor.tensor.nested").check_nesting

FEW = 4096  # indices that are checked at the call: it takes microseconds
MAX_INDICES_IN_PYTHON = 32  # indices that are checked in Python, faster than by NumPy


class Selection(NamedTuple):
    """A selection of elements by index tensors.

    `layout` has the axes of the selection, then the indexed axes. Each indexed axis has an index tensor in `indices` and the layout to read
    it in `throughs`. Errors name the operation `op` and the indexed axes `axes`. `known` says that the indices are known to be in range.
    """

    op: str
    layout: Layout
    indices: tuple[Core, ...]
    throughs: tuple[Layout, ...]
    axes: tuple[int, ...]
    known: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the selected elements."""
        return self.layout.shape[: self.layout.ndim - len(self.indices)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the indexed axes."""
        return self.layout.shape[self.layout.ndim - len(self.indices) :]


class Gathering(Movement):
    """The methods of `Tensor` that read elements at indices."""

    __slots__ = ()

    @spelled
    def take(
        self, indices: Operand, axis: int | None = None, *, dim: int | None = None, mode: str = "raise", out: Self | None = None
    ) -> Self:
        """Return a new tensor: the elements at indices along an axis, or of the flattened tensor for None.

        The shape of `indices` replaces the axis. Negative indices count from the end. `oindex` returns a view instead. Raise BadIndex for
        values that are no integers. Raise IndexOutOfRange, with the axis and the index, at the call or, for pending or more than a few
        thousand indices, when the result is evaluated. With `mode="wrap"`, indices are taken modulo the size; with "clip" they are limited
        to the first and the last.

        >>> import tenxor as tx
        >>> tx.arange(12).reshape(3, 4).take([2, 0], axis=0).tolist()
        [[8, 9, 10, 11], [0, 1, 2, 3]]
        """
        if not isinstance(indices, Core):
            return self.take(self._indices("take", indices), axis, mode=mode, out=out)  # with a tensor, the call can be replayed
        layout = self.layout if axis is not None else self.ravel().layout
        axis = axis_of("take", 0 if axis is None else axis, layout.ndim)
        index_tensor: Any = self._indices("take", indices)
        if one_of("take", "mode", mode, "raise", "wrap", "clip") != "raise" and (size := layout.shape[axis]):
            index_tensor = index_tensor.astype(DEFAULT_INT, copy=False)
            index_tensor = index_tensor % size if mode == "wrap" else index_tensor.clip(0, size - 1)
        return into("take", out, self._gather(self._select("take", layout, (axis,), (index_tensor,), axis, (axis,))))

    @spelled
    def gather(self, axis: int | None = None, index: Operand | None = None, *, dim: int | None = None) -> Self:
        """Return a new tensor of the shape of `index`: the elements at the indices along an axis. See `tx.gather`."""
        axis = self._check_index_axis("gather", axis, index)
        return self._gather(self._select_within("gather", self.layout, axis, index))

    @spelled
    def index_select(self, axis: int | None = None, index: Operand | None = None, *, dim: int | None = None) -> Self:
        """Return a new tensor: the slices at the indices of a 1-D `index` along an axis. See `tx.index_select`."""
        axis = self._check_index_axis("index_select", axis, index)
        indices = self._one_axis("index_select", index)
        return self._gather(self._select("index_select", self.layout, (axis,), (indices,), axis, (axis,)))

    @classmethod
    def _indices(cls, op: str, values: Any) -> Self:
        """Return indices as an integer tensor. Raise BadIndex for other dtypes."""
        if isinstance(values, cls):
            if not values.dtype.is_integer:
                raise BadIndex(f"{op}: indices are integers, not {values.dtype}; for booleans use x[mask]")
            return values
        array = array_of(op, values)
        if array.dtype.kind not in "iu":
            if array.size:
                raise BadIndex(f"{op}: indices are integers, not {array.dtype}; for booleans use x[mask]")
            array = array.astype(np.int64)
        return cls._of_array(array)

    def _select(
        self,
        op: str,
        layout: Layout,
        indexed: Sequence[int],
        indices: Sequence[Core],
        position: int,
        axes: Sequence[int],
    ) -> Selection:
        """Return the selection by index tensors along the `indexed` axes of a layout.

        The common shape of the index tensors stands at position `position` among the other axes.
        """
        shape = indices[0].layout.shape if indices else ()
        if len(indices) > 1:
            try:
                shape = broadcast_shapes(*[i.layout.shape for i in indices])
            except ShapeError:
                raise BadIndex(
                    f"{op}: index arrays of shapes {[i.layout.shape for i in indices]} do not broadcast together"
                ) from None
        remaining = [a for a in range(layout.ndim) if a not in indexed]
        leading, trailing, sizes = remaining[:position], remaining[position:], layout.shape
        selected_shape = (*[sizes[a] for a in leading], *shape, *[sizes[a] for a in trailing])
        order = (*leading, *[None] * len(shape), *trailing, *indexed)
        read = layout.arranged(order, (*selected_shape, *[sizes[a] for a in indexed]))
        throughs = []
        for i in indices:
            ndim = len(i.layout.shape)
            new_axes = [None] * (position + len(shape) - ndim)
            throughs.append(i.layout.arranged((*new_axes, *range(ndim), *[None] * len(trailing)), selected_shape))
        return Selection(op, read, tuple(indices), tuple(throughs), tuple(axes))

    def _select_along(self, op: str, layout: Layout, index: Any, axis: int) -> Selection:
        """Return the selection by an index tensor along an axis, as in `take_along_axis`: the other axes of both broadcast."""
        indices = self._indices(op, index)
        ndim, sizes = layout.ndim, layout.shape
        if indices.layout.ndim != ndim:
            raise ShapeError(
                f"{op}: indices of shape {indices.layout.shape} for a tensor of shape {sizes}; both need as many axes"
            )
        layout_sizes = (*sizes[:axis], 1, *sizes[axis + 1 :])
        count = indices.layout.shape[axis]
        common_sizes = broadcast(op, layout_sizes, (*indices.layout.shape[:axis], 1, *indices.layout.shape[axis + 1 :]))
        shape = (*common_sizes[:axis], count, *common_sizes[axis + 1 :])
        all_axes = range(ndim)
        read = layout.arranged((*all_axes[:axis], None, *all_axes[axis + 1 :], axis), (*shape, sizes[axis]))
        return Selection(op, read, (indices,), (indices.layout.arranged(all_axes, shape),), (axis,))

    def _select_within(self, op: str, layout: Layout, axis: int, index: Any) -> Selection:
        """Return the selection by an index tensor along `axis`, as PyTorch's `gather` and `scatter` read it.

        On axes other than `axis`, position p of the index belongs to position p of the layout. The index may be shorter on them, and is
        never broadcast.
        """
        indices = self._indices(op, index)
        shape, sizes, ndim = indices.layout.shape, layout.shape, layout.ndim
        if len(shape) != ndim:
            raise ShapeError(f"{op}: index has shape {shape} and the tensor {sizes}; both must have the same number of axes")
        if any([shape[a] > sizes[a] for a in range(ndim) if a != axis]):
            raise ShapeError(
                f"{op}: index has shape {shape} and the tensor {sizes}; index must be no longer than the tensor on all axes but {axis}"
            )
        window = layout.index(tuple([slice(None) if a == axis else slice(0, n) for a, n in enumerate(shape)]))
        read = window.arranged((*range(axis), None, *range(axis + 1, ndim), axis), (*shape, sizes[axis]))
        return Selection(op, read, (indices,), (indices.layout,), (axis,))

    def _one_axis(self, op: str, index: Any) -> Self:
        """Return 1-D indices. A single index becomes a 1-D tensor of length 1. Raise ShapeError for more axes."""
        indices = self._indices(op, index)
        if len(indices.layout.shape) > 1:
            raise ShapeError(f"{op}: index has shape {indices.layout.shape}; it must have one axis: use index.reshape(-1)")
        return indices._view(indices.layout.reshape((-1,)))

    def _check_index_axis(self, op: str, axis: Any, index: Any) -> int:
        """Return the axis as a non-negative number. Raise ArgumentError unless both the axis and the index were given."""
        if axis is None or index is None:
            raise ArgumentError(f"{op}: takes an axis and an index: x.{op}(axis, index)")
        return axis_of(op, axis, self.layout.ndim)

    def _gather(self, selection: Selection) -> Self:
        """Return a new tensor with the elements that a selection reads from this storage."""
        op, shape = selection.op, selection.shape
        is_empty = 0 in shape or 0 in selection.sizes  # an empty result is never evaluated, so indices with values are checked now
        for axis, size, index in zip(selection.axes, selection.sizes, selection.indices, strict=True):
            has_values = index.size and not (size and index.node.traced)
            if (is_empty and has_values) or (index.size <= FEW and type(index.storage.node.buffer) is Buffer):
                bad_index = outside(index.to_numpy(), size)  # type: ignore[attr-defined]
                if bad_index is not None:
                    raise wrong_index(op, bad_index, axis, size)
        sources = (self.node, *[i.node for i in selection.indices])
        layouts = (selection.layout, *selection.throughs)
        return self._of(Node.of(gather(op, selection.axes), shape, self.dtype, sources, layouts))


def outside(indices: Any, size: int) -> int | None:
    """Return the first index that is out of range along an axis of `size`, or None."""
    if 0 < indices.size <= MAX_INDICES_IN_PYTHON:
        numbers = indices.ravel().tolist()
        if -size <= min(numbers) and max(numbers) < size:
            return None
    return counted(indices, size)[1]


def array_of(op: str, indices: Any) -> Any:
    """Return nested lists as a NumPy array. Raise BadIndex for ragged ones."""
    check_nesting(indices, op)
    if hasattr(indices, "_fields"):
        nested.check_records([indices], {type(indices)}, op)
    try:
        return np.asarray(indices)
    except ValueError:
        raise BadIndex(
            f"{op}: the indices {described(indices)} are ragged; each list must be as long as its neighbours"
        ) from None
