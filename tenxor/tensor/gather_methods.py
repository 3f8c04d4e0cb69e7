"""New tensors of elements at indices: the consuming kernel reads them through the index arrays.

Up to `MAX_EAGER_INDEX_CHECKS` indices in memory are checked at the call, more or pending indices when the result is evaluated. Both
raise the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .._utils.aliases import argument_aliases
from .._utils.lazy import LazyFunctions, LazyModule
from .._utils.records import NamedTuple
from ..dtypes import DEFAULT_INT
from ..errors import ArgumentError, BadIndex, ShapeError, describe_value
from ..graph.node import Node, intern_gather
from ..layout import Layout, broadcast_shapes
from ..layout.indexing import count_from_start
from ..memory.buffer import Buffer
from .argument_parsing import check_choice, normalize_axis, write_out
from .conversion_methods import ConversionMethods
from .core import Operand, TensorBase
from .view_methods import ViewMethods

nested_lists = LazyModule("tenxor.tensor.nested_lists")
build_index_error = LazyFunctions("tenxor.runtime.index_errors").build_index_error
check_nesting = LazyFunctions("tenxor.tensor.nested_lists").check_nesting

MAX_EAGER_INDEX_CHECKS = 4096  # number of indices up to which the call itself checks them, in microseconds
MAX_PYTHON_CHECKS = 32  # indices that are checked in Python, faster than by NumPy


class Selection(NamedTuple):
    """A selection of elements of a storage by index tensors.

    `layout`, a layout of the storage, has the axes of the selection, then the indexed axes. Each indexed axis has an index tensor in
    `indices` and the layout to read it, in the shape of the selection, in `index_layouts`. Errors name the operation `op` and the indexed
    axes `axes`. `is_in_range` says that the indices are known to be in range.
    """

    op: str
    layout: Layout
    indices: tuple[TensorBase, ...]
    index_layouts: tuple[Layout, ...]
    axes: tuple[int, ...]
    is_in_range: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the selected elements."""
        return self.layout.shape[: self.layout.ndim - len(self.indices)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the indexed axes."""
        return self.layout.shape[self.layout.ndim - len(self.indices) :]


class GatherMethods(ViewMethods, ConversionMethods):
    """The methods of `Tensor` that read elements at indices."""

    __slots__ = ()

    @argument_aliases
    def take(
        self, indices: Operand, axis: int | None = None, *, dim: int | None = None, mode: str = "raise", out: Self | None = None
    ) -> Self:
        """Return the elements at indices along an axis, as a new tensor. See `tx.take`.

        Parameters
        ----------
        indices : Tensor or Sequence[int]
            Integers of any shape, which replaces the axis. Negative indices count from the end.
        axis : int, optional
            None takes elements of the flattened tensor. PyTorch's `dim` is an alias.
        mode : {"raise", "wrap", "clip"}, default "raise"
            "wrap" takes indices modulo the size, and "clip" limits them to the first and the last.
        out : Tensor, optional
            Receives the result, and is returned.

        Returns
        -------
        Tensor
            New tensor; `oindex` returns a view instead. With `out`, `out` itself.

        Raises
        ------
        AxisError
            If the axis does not exist.
        ArgumentError
            If `mode` is unknown.
        BadIndex
            For values that are no integers.
        IndexOutOfRange
            With the axis and the index: at the call or, for pending or more than a few thousand indices, when the result is evaluated.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.arange(12).reshape(3, 4).take([2, 0], axis=0).tolist()
        [[8, 9, 10, 11], [0, 1, 2, 3]]
        """
        if not isinstance(indices, TensorBase):
            return self.take(self._to_index_tensor("take", indices), axis, mode=mode, out=out)  # with a tensor, the call can be replayed
        layout = self.layout if axis is not None else self.ravel().layout
        axis = normalize_axis("take", 0 if axis is None else axis, layout.ndim)
        index_tensor: Any = self._to_index_tensor("take", indices)
        if check_choice("take", "mode", mode, "raise", "wrap", "clip") != "raise" and (size := layout.shape[axis]):
            index_tensor = index_tensor.astype(DEFAULT_INT, copy=False)
            index_tensor = index_tensor % size if mode == "wrap" else index_tensor.clip(0, size - 1)
        return write_out("take", out, self._gather(self._select("take", layout, (axis,), (index_tensor,), axis, (axis,))))

    @argument_aliases
    def gather(self, axis: int | None = None, index: Operand | None = None, *, dim: int | None = None) -> Self:
        """Return the elements at the indices along an axis: `out[i][j] = x[i][index[i][j]]` for axis 1. See `tx.gather`.

        Parameters
        ----------
        axis : int
            PyTorch's `dim` is an alias.
        index : Tensor or Sequence[int]
            Integers with as many axes as this tensor, and no longer on axes other than `axis`. `index` is never broadcast.

        Returns
        -------
        Tensor
            New tensor of the shape of `index`.

        Raises
        ------
        ArgumentError
            If `axis` or `index` is missing.
        ShapeError
            If the shape of `index` does not fit.
        AxisError, BadIndex, IndexOutOfRange
            As in `take`.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([[1, 2], [3, 4]]).gather(1, [[1], [0]]).tolist()
        [[2], [3]]
        """
        axis = self._check_index_axis("gather", axis, index)
        return self._gather(self._select_for_gather("gather", self.layout, axis, index))

    @argument_aliases
    def index_select(self, axis: int | None = None, index: Operand | None = None, *, dim: int | None = None) -> Self:
        """Return the slices at the indices of a 1-D `index` along an axis. See `tx.index_select`.

        Parameters
        ----------
        axis : int
            PyTorch's `dim` is an alias.
        index : Tensor, Sequence[int] or int
            Integers with at most one axis. A single integer leaves an axis of size 1. Negative indices count from the end.

        Returns
        -------
        Tensor
            New tensor, with the length of `index` in place of the axis.

        Raises
        ------
        ArgumentError
            If `axis` or `index` is missing.
        ShapeError
            If `index` has several axes.
        AxisError, BadIndex, IndexOutOfRange
            As in `take`.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([[1, 2], [3, 4]]).index_select(0, [1]).tolist()
        [[3, 4]]
        """
        axis = self._check_index_axis("index_select", axis, index)
        indices = self._to_1d_indices("index_select", index)
        return self._gather(self._select("index_select", self.layout, (axis,), (indices,), axis, (axis,)))

    @classmethod
    def _to_index_tensor(cls, op: str, values: Any) -> Self:
        """Return indices, a tensor, array or nested lists, as an integer tensor; a tensor is returned itself.

        An empty list gives int64. Raise BadIndex for other dtypes and for ragged lists; errors name `op`.
        """
        if isinstance(values, cls):
            if not values.dtype.is_integer:
                raise BadIndex(f"{op}: indices must be integers, not {values.dtype}; for booleans use x[mask]")
            return values
        array = to_index_array(op, values)
        if array.dtype.kind not in "iu":
            if array.size:
                raise BadIndex(f"{op}: indices must be integers, not {array.dtype}; for booleans use x[mask]")
            array = array.astype(np.int64)
        return cls._from_array(array)

    def _select(
        self,
        op: str,
        layout: Layout,
        indexed_axes: Sequence[int],
        indices: Sequence[TensorBase],
        position: int,
        axes: Sequence[int],
    ) -> Selection:
        """Return the selection by `indices`, a tensor for each axis in `indexed_axes` of `layout`, a layout of this storage.

        The common shape of the index tensors stands at position `position` among the remaining axes. Errors name the operation `op` and the
        axes `axes`. Raise BadIndex if the index tensors do not broadcast together.
        """
        shape = indices[0].layout.shape if indices else ()
        if len(indices) > 1:
            try:
                shape = broadcast_shapes(*[i.layout.shape for i in indices])
            except ShapeError:
                raise BadIndex(
                    f"{op}: index arrays of shapes {[i.layout.shape for i in indices]} do not broadcast together; their sizes must be equal"
                    " or 1"
                ) from None
        remaining = [a for a in range(layout.ndim) if a not in indexed_axes]
        leading, trailing, sizes = remaining[:position], remaining[position:], layout.shape
        selected_shape = (*[sizes[a] for a in leading], *shape, *[sizes[a] for a in trailing])
        order = (*leading, *[None] * len(shape), *trailing, *indexed_axes)
        read = layout.arranged(order, (*selected_shape, *[sizes[a] for a in indexed_axes]))
        throughs = []
        for i in indices:
            ndim = len(i.layout.shape)
            new_axes = [None] * (position + len(shape) - ndim)
            throughs.append(i.layout.arranged((*new_axes, *range(ndim), *[None] * len(trailing)), selected_shape))
        return Selection(op, read, tuple(indices), tuple(throughs), tuple(axes))

    def _select_along(self, op: str, layout: Layout, index: Any, axis: int) -> Selection:
        """Return the selection by an index tensor along `axis`, as in `take_along_axis`: the remaining axes of both broadcast.

        `layout` is a layout of this storage, and `axis` a non-negative number. Raise ShapeError if the index has another number of axes
        than `layout`, or if the shapes do not broadcast.
        """
        indices = self._to_index_tensor(op, index)
        ndim, sizes = layout.ndim, layout.shape
        if indices.layout.ndim != ndim:
            raise ShapeError(
                f"{op}: indices of shape {indices.layout.shape} for a tensor of shape {sizes}; both must have the same number of axes"
            )
        layout_sizes = (*sizes[:axis], 1, *sizes[axis + 1 :])
        count = indices.layout.shape[axis]
        common_sizes = broadcast_shapes(layout_sizes, (*indices.layout.shape[:axis], 1, *indices.layout.shape[axis + 1 :]))
        shape = (*common_sizes[:axis], count, *common_sizes[axis + 1 :])
        all_axes = range(ndim)
        read = layout.arranged((*all_axes[:axis], None, *all_axes[axis + 1 :], axis), (*shape, sizes[axis]))
        return Selection(op, read, (indices,), (indices.layout.arranged(all_axes, shape),), (axis,))

    def _select_for_gather(self, op: str, layout: Layout, axis: int, index: Any) -> Selection:
        """Return the selection by an index tensor along `axis`, as read by PyTorch's `gather` and `scatter`.

        `layout` is a layout of this storage, and `axis` a non-negative number. On axes other than `axis`, position p of the index belongs
        to position p of the layout. The index may be shorter on them, and is never broadcast. Raise ShapeError if `index` has another
        number of axes or is longer there, and BadIndex for indices that are no integers.
        """
        indices = self._to_index_tensor(op, index)
        shape, sizes, ndim = indices.layout.shape, layout.shape, layout.ndim
        if len(shape) != ndim:
            raise ShapeError(f"{op}: index has shape {shape} and the tensor {sizes}; both must have the same number of axes")
        if any([shape[a] > sizes[a] for a in range(ndim) if a != axis]):
            raise ShapeError(
                f"{op}: index has shape {shape} and the tensor {sizes}; on axes other than axis {axis}, index must not be longer"
            )
        window = layout.index(tuple([slice(None) if a == axis else slice(0, n) for a, n in enumerate(shape)]))
        read = window.arranged((*range(axis), None, *range(axis + 1, ndim), axis), (*shape, sizes[axis]))
        return Selection(op, read, (indices,), (indices.layout,), (axis,))

    def _to_1d_indices(self, op: str, index: Any) -> Self:
        """Return the indices `index` as a 1-D integer tensor; a single index gives length 1. Raise ShapeError for more axes, and BadIndex
        for other dtypes.
        """
        indices = self._to_index_tensor(op, index)
        if len(indices.layout.shape) > 1:
            raise ShapeError(f"{op}: index has shape {indices.layout.shape}; it must have one axis: use index.reshape(-1)")
        return indices._view(indices.layout.reshape((-1,)))

    def _check_index_axis(self, op: str, axis: Any, index: Any) -> int:
        """Return the axis as a non-negative number. Raise ArgumentError unless both the axis and the index were given."""
        if axis is None or index is None:
            raise ArgumentError(f"{op}: takes an axis and an index: x.{op}(axis, index)")
        return normalize_axis(op, axis, self.layout.ndim)

    def _gather(self, selection: Selection) -> Self:
        """Return a new pending tensor with the elements of a selection of this storage.

        Up to `MAX_EAGER_INDEX_CHECKS` indices in memory are checked now, and so is every index of an empty result: raise IndexOutOfRange. A
        kernel checks the remaining indices, unless `is_in_range` is set.
        """
        op, shape = selection.op, selection.shape
        is_empty = 0 in shape or 0 in selection.sizes  # an empty result is never evaluated, so indices with values are checked now
        for axis, size, index in zip(selection.axes, selection.sizes, selection.indices, strict=True):
            has_values = index.size and not (size and index.node.is_traced)
            if (is_empty and has_values) or (index.size <= MAX_EAGER_INDEX_CHECKS and type(index.storage.node.buffer) is Buffer):
                bad_index = find_out_of_range(index.to_numpy(), size)  # type: ignore[attr-defined]
                if bad_index is not None:
                    raise build_index_error(op, bad_index, axis, size)
        sources = (self.node, *[i.node for i in selection.indices])
        layouts = (selection.layout, *selection.index_layouts)
        return self._from_node(Node.of(intern_gather(op, selection.axes), shape, self.dtype, sources, layouts))


def find_out_of_range(indices: Any, size: int) -> int | None:
    """Return the value of the first index out of range along an axis of `size`, or None.

    `indices` is a NumPy array of integers. Values from -size to size - 1 are in range.
    """
    if 0 < indices.size <= MAX_PYTHON_CHECKS:
        numbers = indices.ravel().tolist()
        if -size <= min(numbers) and max(numbers) < size:
            return None
    return count_from_start(indices, size)[1]


def to_index_array(op: str, indices: Any) -> Any:
    """Return nested lists of indices, or an array, as a NumPy array of any dtype; a NumPy array is returned itself.

    Raise BadIndex for ragged lists, ShapeError for lists nested too deeply, and DTypeError for a named tuple of tensors; errors name `op`.
    """
    check_nesting(indices, op)
    if hasattr(indices, "_fields"):
        nested_lists.reject_result_tuples([indices], {type(indices)}, op)
    try:
        return np.asarray(indices)
    except ValueError:
        raise BadIndex(f"{op}: the indices {describe_value(indices)} are ragged; each list must be as long as its neighbours") from None
