"""Writes at indices, in place or into new tensors. Several values for an element are reduced into the element, or the last value stays.

Values are taken in order, so results do not depend on the number of threads. If memory is overwritten at once, the indices are checked
first; otherwise they are checked as for a gather.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any, Self

from .._utils.lazy import LazyFunctions
from ..dtypes import DType, Number, boolean, default_dtype_of
from ..errors import DTypeError
from ..graph.node import Node, Scalar, intern_scatter
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import COMBINING_OPS, REDUCTIONS, Reduction
from ..runtime.realize import compute_lock, realize
from .core import DTYPE_KIND_RANKS, TensorBase
from .gather_methods import MAX_EAGER_INDEX_CHECKS, Selection, find_out_of_range
from .write_methods import ScatterTarget, WriteMethods, broadcast_layout

build_index_error = LazyFunctions("tenxor.runtime.index_errors").build_index_error

# Many values for few elements are reduced in SPLIT_PART_COUNT separate parts, if there are at least MIN_SPLIT_VALUES values, and at least
# MIN_VALUES_PER_ELEMENT for each element.
SPLIT_PART_COUNT, MIN_SPLIT_VALUES, MIN_VALUES_PER_ELEMENT = 16, 1 << 18, 256
# Parts of more than MIN_FINE_SPLIT_VALUES values; signals are handled between two parts
FINE_SPLIT_PART_COUNT, MIN_FINE_SPLIT_VALUES = 1024, 1 << 28
_BOOL_REDUCTIONS = {"sum": "any", "prod": "all", "max": "any", "min": "all"}
_NUMERIC_REDUCTIONS = {"sum": "sum_in_width", "prod": "prod", "max": "max", "min": "min"}


class IndexedWriteMethods(WriteMethods):
    """The base methods of `Tensor` that write at indices."""

    __slots__ = ()

    def _scatter(self, op: str, selection: Selection, value: TensorBase | Number, reduce: str | None = None) -> None:
        """Write `value` to a selection of this storage, in place, or with `reduce` reduce `value` into the elements.

        `reduce` is "sum", "prod", "max" or "min". Without `reduce`, the last of several values for an element stays. `value` broadcasts to
        the shape of the selection. Raise IndexOutOfRange for an index out of range, now or when the write is evaluated (`_check_indices`).
        Raise DTypeError for complex values and a real dtype, and with `reduce` for values of a higher kind. Without `reduce`, raise
        ReadOnlyError for a tensor of values and a view with an element at several positions.
        """
        reduction = self._resolve_reduction(op, reduce, value)
        if reduction is None:
            self._check_writable(value, op)
        source, through = self._resolve_source(value, op, selection.shape)
        layout = self.layout
        with compute_lock:  # the indices must not change after they were checked
            is_in_memory = self.storage.node.buffer is not None
            is_checked = self._check_indices(selection, any_count=is_in_memory, pending=is_in_memory)
            if 0 in selection.shape:
                return
            if reduction is not None and layout.is_contiguous() and _find_split_axis(selection, layout.size) is not None:
                rows = Layout(selection.layout.shape, selection.layout.strides, selection.layout.offset - layout.offset)
                self._write(self._scatter_copy(op, selection._replace(layout=rows, is_in_range=is_checked), value, reduce), op)
                return
            self._store(source, through, self._prepare_shared_buffer(), _describe_write(selection, reduction, is_checked))

    def _scatter_copy(self, op: str, selection: Selection, value: TensorBase | Number, reduce: str | None = None) -> Self:
        """Return a new pending tensor: the elements of this tensor, with `value` written as by `_scatter`.

        The layout of the selection must refer to a row-major copy of this tensor, not to this storage. A reduction of very many values per
        element is done in parts, which are then combined.
        """
        reduction = self._resolve_reduction(op, reduce, value)
        axis = None if reduction is None else _find_split_axis(selection, self.layout.size)
        if reduction is None or axis is None:
            return self._scatter_in_order(op, selection, value, reduction)
        if isinstance(value, TensorBase):
            value = value._view(broadcast_layout(value.layout, selection.shape, op))
        size, count = self.layout.size, selection.shape[axis]
        huge = (
            prod(selection.shape) > max(MIN_FINE_SPLIT_VALUES, MIN_VALUES_PER_ELEMENT * FINE_SPLIT_PART_COUNT * size)
            and count >= FINE_SPLIT_PART_COUNT
        )
        part_count = FINE_SPLIT_PART_COUNT if huge else SPLIT_PART_COUNT
        split_count = count - count % part_count
        shape = (part_count, *self.layout.shape)
        start = Scalar(identity_element(reduction, self.dtype), self.dtype)
        partials = self._from_node(Node.of(OPS["cast"], shape, self.dtype, (start,), (None,)))
        part_selection, part_values = _slice_selection(selection, value, axis, slice(0, split_count))
        if isinstance(part_values, TensorBase):
            part_values = part_values._view(part_values.layout.unflatten(axis, (part_count, -1)))
        partials = partials._scatter_in_order(op, _select_per_part(part_selection, axis, part_count, size), part_values, reduction)
        rows = partials.layout.permute((*range(1, len(shape)), 0))
        total = Node.of(reduction, self.layout.shape, self.dtype, (partials.node,), (rows,))
        result = self._compute(OPS[COMBINING_OPS[reduction.name]], self, self._from_node(total))
        if split_count == count:
            return result
        return result._scatter_in_order(op, *_slice_selection(selection, value, axis, slice(split_count, count)), reduction)

    def _scatter_in_order(self, op: str, selection: Selection, value: TensorBase | Number, reduction: Reduction | None) -> Self:
        """Return a new pending tensor: the elements of this tensor, with `value` written, or reduced by `reduction`, at a selection.

        Each element takes its values in order. The layout of the selection must refer to a row-major copy of this tensor.
        """
        source, through = self._resolve_source(value, op, selection.shape)
        with compute_lock:
            is_pending = self.storage.node.buffer is None
            result = self.copy()  # type: ignore[attr-defined]
            # the update may overwrite the operand's memory
            is_checked = self._check_indices(selection, any_count=is_pending, pending=False)
            if 0 in selection.shape:
                return result  # type: ignore[no-any-return]
            node = result._build_stored_node(source, through, False, _describe_write(selection, reduction, is_checked))
            return self._from_node(node)._view(result.layout)

    def _resolve_reduction(self, op: str, reduce: str | None, value: TensorBase | Number) -> Reduction | None:
        """Return the reduction called `reduce` ("sum", "prod", "max" or "min") for elements of this dtype; None if `reduce` is None.

        For bools this is "any" or "all". Raise DTypeError if `value` is of a higher kind than this dtype, or if the reduction refuses this
        dtype.
        """
        if reduce is None:
            return None
        value_dtype = value.dtype if isinstance(value, TensorBase) else default_dtype_of(value)
        if DTYPE_KIND_RANKS[value_dtype.kind] > DTYPE_KIND_RANKS[self.dtype.kind]:
            raise DTypeError(
                f"{op}: values of {value_dtype} do not fit into {self.dtype}; convert one of them, for example by x.astype({value_dtype})"
            )
        reduction = REDUCTIONS[_BOOL_REDUCTIONS[reduce] if self.dtype is boolean else _NUMERIC_REDUCTIONS[reduce]]
        reduction.check_dtype(op, self.dtype)
        return reduction

    def _check_indices(self, selection: Selection, *, any_count: bool, pending: bool) -> bool:
        """Return whether the indices are known to be in range. Raise IndexOutOfRange for an index found out of range.

        Up to `MAX_EAGER_INDEX_CHECKS` indices in memory are always checked, and so are the indices of an empty selection. `any_count`
        extends the check to any number in memory, `pending` to pending indices, which are then computed. Traced indices have no values and
        give False: the kernel checks the indices of the batch.
        """
        if selection.is_in_range:
            return True
        are_known, is_empty = True, 0 in selection.shape  # an empty selection is never evaluated, so the indices are checked now
        for axis, size, index in zip(selection.axes, selection.sizes, selection.indices, strict=True):
            is_few = index.layout.size <= MAX_EAGER_INDEX_CHECKS
            if index.node.is_traced or not (is_empty or ((is_few or any_count) and (pending or index.storage.node.buffer is not None))):
                are_known = False
                continue
            bad_index = find_out_of_range(index.to_numpy(), size) if is_few else _find_out_of_range(index, size)  # type: ignore[attr-defined]
            if bad_index is not None:
                raise build_index_error(selection.op, bad_index, axis, size)
        return are_known


def identity_element(reduction: Reduction, dtype: DType) -> Number:
    """Return the identity of the reduction "sum", "prod", "max", "min", "any" or "all" as a Python number.

    For "max" of floats it is -infinity, and of integers the least number of `dtype`; "min" likewise. Other reductions have no identity.
    """
    if reduction.name in ("max", "min"):
        is_max = reduction.name == "max"
        return (-inf if is_max else inf) if dtype.is_float else dtype.lowest if is_max else dtype.highest
    return int(reduction.name in ("prod", "all"))


def _describe_write(selection: Selection, reduction: Reduction | None, in_range: bool) -> ScatterTarget:
    """Return the `ScatterTarget` of a write at a selection. `in_range` says that indices are in range, so that no kernel checks them."""
    scatter_op = intern_scatter(selection.op, reduction, selection.axes, in_range)
    return ScatterTarget(scatter_op, selection.layout, selection.indices, selection.index_layouts)


def _find_split_axis(selection: Selection, size: int) -> int | None:
    """Return the longest axis of the selection along which the target elements do not change, if very many values go to few elements.

    There must be `MIN_SPLIT_VALUES` values, and `MIN_VALUES_PER_ELEMENT` for each of the `size` elements of the tensor. Return None for
    fewer, without such an axis of enough positions, and if the target is a view chain or has offset tables.
    """
    layout, shape = selection.layout, selection.shape
    if layout.base is not None or layout.tables is not None or prod(shape) < max(MIN_SPLIT_VALUES, MIN_VALUES_PER_ELEMENT * size):
        return None
    candidate_axes = [axis for axis, n in enumerate(shape) if layout.strides[axis] == 0 and n >= MIN_SPLIT_VALUES // MIN_VALUES_PER_ELEMENT]
    return max(candidate_axes, key=lambda axis: shape[axis], default=None)


def _slice_selection(selection: Selection, value: Any, axis: int, bounds: slice) -> tuple[Selection, Any]:
    """Return a slice of a selection along an axis, with the values for it.

    `bounds` are the positions along `axis`. `value` is a tensor of the selection's shape, or a number, which is returned unchanged.
    """
    key = (*[slice(None)] * axis, bounds)
    throughs = tuple([x.index(key) for x in selection.index_layouts])
    sliced = selection._replace(layout=selection.layout.index(key), index_layouts=throughs)
    return sliced, value._view(value.layout.index(key)) if isinstance(value, TensorBase) else value


def _select_per_part(selection: Selection, axis: int, part_count: int, size: int) -> Selection:
    """Return the selection into a larger tensor, which has the `size` elements once for each of `part_count` parts of `axis`.

    In the result `axis` is split into two axes: the part, and the position within the part. The size of `axis` must be a multiple of
    `part_count`.
    """
    layout = selection.layout.unflatten(axis, (part_count, -1))
    strides = tuple([size if k == axis else step for k, step in enumerate(layout.strides)])
    throughs = tuple([x.unflatten(axis, (part_count, -1)) for x in selection.index_layouts])
    return selection._replace(layout=Layout(layout.shape, strides, layout.offset), index_layouts=throughs)


def _find_out_of_range(index: Any, size: int) -> int | None:
    """Return the value of the first out-of-range index along an axis of `size`, or None. A kernel tests the many indices.

    `index` is an integer tensor with values; a pending one is computed.
    """
    realize(index.storage.node)
    beyond = index._compute(OPS["greater_equal"], index, size)
    if index.dtype.kind == "int":
        beyond = beyond._compute(OPS["logical_or"], beyond, index._compute(OPS["less"], index, -size))
    return find_out_of_range(index.to_numpy(), size) if bool(beyond.any()) else None
