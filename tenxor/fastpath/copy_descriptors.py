"""Copy descriptors: integers that tell the generated code of the fast path which memory to copy where, without Python. Some descriptors
select rows: `x[key]`, where `key` is an index tensor, a mask or a list of integers. A row is an element along the indexed axes, such as
`x[2]`. Other descriptors join tensors, as `concat` does. A descriptor depends on specs alone: a `Spec` is the interned shape, strides and
dtype of a tensor. The first call by Python records the descriptor, in a `CopyTemplate` in the tables of a spec. Later calls with equal
specs find the template. A size-generic template (`SizedTemplate`) serves all sizes that satisfy recorded conditions, the guards.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from .._utils.records import NamedTuple
from ..dtypes import DTYPE_BY_NUMPY_DTYPE, DType, boolean, int8, int16, int32, int64, uint8, uint16, uint32
from ..graph.node import DATA, Recipe, intern_recipe
from ..graph.spec import CopyTemplate, InMemoryTemplate, Spec, intern_spec, record_template
from ..layout import Layout
from ..layout.coords import find_constant_step
from ..runtime.plan_tracing import SymbolicSizes
from ..symbolic.symint import IntOrSymInt
from ..tensor import Tensor
from ..tensor.gather_methods import MAX_EAGER_INDEX_CHECKS
from ..tensor.join_by_fastpath import PARALLEL_COPY_BYTES, Arrange, Arrangement, should_copy_by_kernels
from .limits import MAX_SMALL_BLOCK_BYTES
from .recorder import build_keys
from .size_generic import SplitCall, make_symbolic_argument
from .sized_template import RESULT_RECORD, SizedTemplate
from .strided_copy import describe_copy
from .write_recorder import compute_if_small

ROW_KEY_TYPES = frozenset((Tensor, list))  # types of keys that select rows
_ELLIPSIS_TYPE = type(...)
_AXIS_KEY_TYPES = frozenset((int, slice, type(None), _ELLIPSIS_TYPE, Tensor))  # types of key items that index a known number of axes
INDEX_DTYPES = (int64, int32, uint8, int16, int8, uint16, uint32)
MAX_JOINED_TENSORS, MAX_FIRST_CALL_TENSORS = 64, 4  # tensors joined by a record at most; up to so many are recorded at their first call
MAX_SELECTED_BYTES = 1 << 28  # bytes selected by a mask: to copy them takes 0.1 s, in which no other Python thread runs
MASK_KEY_KIND = len(INDEX_DTYPES)  # the kind of a mask; the kind of an index tensor is the position of its dtype in `INDEX_DTYPES`
# Byte offsets into a descriptor of rows. Of the key: kind, element count, bytes of an element, and bytes between two. Of the tensor: rows
# along the indexed axes, bytes of an element, bytes between two rows, and bytes of a row; and whether no two rows overlap.
(
    KEY_KIND_OFFSET,
    KEY_COUNT_OFFSET,
    KEY_ITEMSIZE_OFFSET,
    KEY_STRIDE_OFFSET,
    ROW_COUNT_OFFSET,
    TENSOR_ITEMSIZE_OFFSET,
    ROW_STRIDE_OFFSET,
    ROW_BYTES_OFFSET,
    ROWS_DISJOINT_OFFSET,
) = (8 * k for k in range(9))


def convert_numpy_key(x: Tensor, key: Any) -> Any:
    """Return `key`, an index key of `x`, with NumPy integers replaced by Python integers, and arrays by tensors.

    Arrays are replaced only if `x` is a `Tensor`. They must have axes, native byte order, and bools or integers of a dtype in
    `INDEX_DTYPES`. Items of a tuple are converted by `_convert_key_item`, which also replaces lists of integers, and masks of one axis, by
    index tensors. Return `key` itself if nothing is replaced.
    """
    if type(key) is tuple:
        converted = tuple([_convert_key_item(x, key, k) for k in range(len(key))])
        return converted if any([a is not b for a, b in zip(converted, key, strict=True)]) else key
    if isinstance(key, np.integer):
        return int(key)
    dtype = DTYPE_BY_NUMPY_DTYPE.get(key.dtype) if type(key) is np.ndarray and type(x) is Tensor else None
    is_convertible = dtype is not None and key.ndim > 0 and key.dtype.isnative and (dtype is boolean or dtype in INDEX_DTYPES)
    return Tensor._from_array(key) if is_convertible else key


def _convert_key_item(x: Tensor, key: tuple[Any, ...], k: int) -> Any:
    """Return item `k` of the tuple `key`, an index key of `x`, with a NumPy integer as a Python integer, and an array as a tensor
    (`convert_numpy_key`). If `x` is a `Tensor`, a non-empty list of integers that fit int64 becomes an index tensor, too.

    A non-empty mask of one axis, as long as its axis, in memory or small, becomes the tensor of the indices of its true elements. Without a
    replacement, return the item itself.
    """
    item = convert_numpy_key(x, key[k])
    if type(x) is not Tensor:
        return item
    if type(item) is list and set(map(type, item)) == {int}:
        array = np.array(item)
        return Tensor._from_array(array) if array.dtype == np.int64 else item
    is_mask = type(item) is Tensor and item.dtype is boolean and item.ndim == 1
    return item.nonzero()[0] if is_mask and _get_indexed_size(x, key, k) == item.size and _is_in_memory(item, (boolean,)) else item


def _get_indexed_size(x: Tensor, key: tuple[Any, ...], k: int) -> int:
    """Return the size of the axis of `x` that item `k` of the index key `key` selects from. The item is a mask of one axis.

    Return -1 if the axis is unknown, since `key` has an item of an unusual type or too many items.
    """
    if not _AXIS_KEY_TYPES.issuperset(map(type, key)):
        return -1
    axes = [0 if item is None or item is ... else item.ndim if type(item) is Tensor and item.dtype is boolean else 1 for item in key]
    ellipsis_axes = x.ndim - sum(axes) if any([item is ... for item in key[:k]]) else 0
    axis = sum(axes[:k]) + ellipsis_axes
    return x.shape[axis] if 0 <= axis < x.ndim else -1


def _is_in_memory(key: object, dtypes: Sequence[DType] = INDEX_DTYPES) -> bool:
    """Return whether `key` is a non-empty tensor in memory, with axes and one of `dtypes`. Compute a small pending tensor
    (`compute_if_small`) first.
    """
    if type(key) is not Tensor or key.dtype not in dtypes or not key.ndim or not key.size:
        return False
    compute_if_small(key.storage)
    return key.storage.node.buffer is not None


def merge_index_keys(x: Tensor, key: Any) -> tuple[Tensor, Tensor] | None:
    """Return a view of `x` and an index tensor along the view's first axis, equivalent to `key` for a write `x[key] = value`; None if that
    is impossible.

    `key` is a tuple with several index tensors of one shape, or with a single index tensor after integers or slices. The index tensors must
    be in memory, or small. If an index is out of range, return None, and the fallback raises the error. Also return None if `x` is empty,
    traced, on the autograd tape or without strides. Unless only integers precede the index tensor, the indexed axes must have a constant
    step. After whole axes, at most `MAX_EAGER_INDEX_CHECKS` positions may be indexed.
    """
    if type(x) is not Tensor or type(key) is not tuple or not x.size or x._is_on_tape() or x.storage.node.is_traced:
        return None
    x, *items = apply_slices(x, key) or (x, *key)
    strides = x.spec.strides
    while items and items[-1] is slice:
        items.pop()
    axes = len(items)
    if strides is None or not 1 <= axes <= x.ndim or not _is_in_memory(items[-1]):
        return None
    *leading_items, index = items
    if not leading_items:
        return x, index
    if all([type(k) is int and -n <= k < n for k, n in zip(leading_items, x.shape, strict=False)]):
        return x[tuple(leading_items)], index
    if find_constant_step(x.shape[:axes], strides[:axes]) is None:
        return None
    leading_shape = x.shape[: axes - 1]
    # For more indices, kernels need no indices along whole axes.
    if all([k is slice for k in leading_items]) and prod(leading_shape) * index.size <= MAX_EAGER_INDEX_CHECKS:
        leading_indices = np.arange(prod(leading_shape)).reshape(*leading_shape, *[1] * index.ndim)
        flat_index = _compute_flat_indices([index], x.shape[axes - 1 :], Tensor._from_array(leading_indices))
    elif all([_is_in_memory(k) and k.shape == index.shape for k in leading_items]):
        flat_index = _compute_flat_indices(items, x.shape)
    else:
        return None
    return None if flat_index is None else (x.reshape(prod(x.shape[:axes]), *x.shape[axes:]), flat_index)


def _compute_flat_indices(keys: Sequence[Any], sizes: Sequence[int], flat_indices: Any = None) -> Any:
    """Return the flat row-major indices of the elements that several index tensors select, as an int64 tensor in memory.

    `keys` are the index tensors, one for each of the axes with the sizes `sizes`; negative indices count from the end. `flat_indices` is a
    tensor of flat indices along further axes in front, or None without such axes. Return None if an index is out of range, or if the result
    is empty or too large to compute now.
    """
    fits: Any = None
    for k, size in zip(keys, sizes, strict=False):
        index = k if k.dtype is int64 else k.astype(int64)
        position = index + (index < 0) * size
        is_in_range = (position >= 0) & (position < size)
        flat_indices, fits = (
            position if flat_indices is None else flat_indices * size + position,
            is_in_range if fits is None else fits & is_in_range,
        )
    checked_indices = (flat_indices + 1) * fits - 1  # -1 for an index out of range
    return checked_indices if _is_in_memory(checked_indices) and checked_indices.min().item() >= 0 else None


def record_row_selection(x: Tensor, key: Tensor | list[object]) -> None:
    """Record the copy descriptor for rows of a tensor like `x`, selected by a key like `key`: an index tensor, a mask or a list.

    The methods that read, write or add to selected rows call this function after the fallback. The record is a `CopyTemplate` in the tables
    of the spec of `x`. If no descriptor can copy the rows, an empty template says so. Do nothing if a record exists, or for a list of other
    items than integers. Also do nothing if the offset tables of `x` are too large to cache (`is_uncacheable`). After a few calls of one
    signature, also trace a size-generic template.
    """
    if type(key) is list and set(map(type, key)) != {int}:
        return
    spec_or_length: Spec | int = len(key) if type(key) is list else key.spec  # type: ignore[union-attr]
    if spec_or_length in x.spec.call_templates.get("select_rows", ()) or x.spec.layout_key.is_uncacheable:
        return
    descriptor = _describe_rows_by_key(x.spec, spec_or_length)
    template = CopyTemplate(x.spec) if descriptor is None else descriptor.build_template()
    record_template(x.spec.call_templates, "select_rows", spec_or_length, template)
    split_call = None if descriptor is None else SplitCall.of("select_rows", (x, spec_or_length if type(key) is list else key))
    if split_call is not None:
        split_call.trace_template(template, lambda: _trace_row_selection(split_call.dims, x.spec, spec_or_length, template))


def describe_index_keys(x: Tensor, *key_items: object) -> list[IntOrSymInt] | None:
    """Return the integers by which generated code checks the indices in `x[key_items]` (`fastpath/emit/index_gather.py`), or None.

    An item of `key_items` is an index tensor, an integer, None, or the class `slice` for a whole axis. Each index tensor gets five
    integers: index of the dtype in `INDEX_DTYPES`, number of indices to check now (0: the kernel checks them), bytes of an index, distance
    of indices in bytes, and size of the axis. Return None without index tensors, for items of other types, and for an empty `x`. Also
    return None for an index tensor that is empty, has no axes or another dtype, or needs more than one loop.
    """
    words: list[IntOrSymInt] = []
    sizes = iter(x.shape)
    for key_item in key_items:
        if type(key_item) not in (Tensor, int, type(None)) and key_item is not slice:
            return None
        size = None if key_item is None else next(sizes, None)
        if type(key_item) is not Tensor:
            continue
        key, count = key_item.spec, key_item.size
        if (
            size is None
            or key.dtype not in INDEX_DTYPES
            or not key.shape
            or not count
            or key.strides is None
            or key.layout_key.is_uncacheable
        ):
            return None
        step = find_constant_step(key.shape, key.strides)
        if step is None:
            return None
        itemsize = key.dtype.itemsize
        words += INDEX_DTYPES.index(key.dtype), count if count <= MAX_EAGER_INDEX_CHECKS else 0, itemsize, step * itemsize, size
    return words if words and x.size else None


def gather(x: Tensor, *key_items: Any) -> Any:
    """Return the pending tensor `x[key_items]`, a gather by index tensors.

    An item is an index tensor, an integer, None, or the class `slice` for a whole axis. Raise the errors of indexing for an invalid index.
    """
    return x._gather(x._select_by_key("indexing", x.layout, tuple([slice(None) if item is slice else item for item in key_items])))


def apply_slices(x: Tensor, key: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return a view of `x`, followed by the items of an equivalent key without slices, as one tuple; None for other keys.

    `key` holds index tensors, slices and at most one ellipsis. Among the returned items the class `slice` stands for a whole axis. Return
    None, too, if the key has neither a slice nor an ellipsis, or more items than `x` has axes.
    """
    kinds = list(map(type, key))
    ellipsis_count = kinds.count(_ELLIPSIS_TYPE)
    if (
        not {slice, _ELLIPSIS_TYPE, Tensor}.issuperset(kinds)
        or ellipsis_count > 1
        or not ellipsis_count + kinds.count(slice)
        or len(key) > x.ndim
    ):
        return None
    ellipsis_items = [slice] * (x.ndim + 1 - len(key))
    items = [item for k in key for item in (ellipsis_items if k is ... else [k if type(k) is Tensor else slice])]
    return (x[tuple([slice(None) if type(k) is Tensor else k for k in key])], *items)


def wrap_index_add(fallback: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method `index_add_` that calls the fallback `fallback` and returns its result.

    After a call `x.index_add_(0, index, source)`, the method records the copy descriptor of the rows (`record_row_selection`).
    """

    def method(x: Tensor, *args: Any, **keywords: Any) -> Any:
        """Call the fallback `index_add_`, record the rows if the axis is 0, and return the result."""
        result = fallback(x, *args, **keywords)
        if type(x) is Tensor and len(args) == 3 and type(args[0]) is int and args[0] == 0 and type(args[1]) is Tensor:
            record_row_selection(x, args[1])
        return result

    return method


def record_row_count(row_template: CopyTemplate, count: int) -> None:
    """Record the template by which the generated code makes a tensor of `count` rows, selected by a mask.

    The generated code calls this function after it has counted the true elements of the mask and found a new count. `row_template` is the
    template of the selection; its spec is that of one row, and the record is stored with this spec. Do nothing for a result of more than
    `MAX_SELECTED_BYTES` bytes.
    """
    shape = (count, *row_template.spec.shape)
    spec = intern_spec(Layout.contiguous(shape), row_template.spec.dtype)
    if spec.nbytes <= MAX_SELECTED_BYTES:
        record_template(
            row_template.spec.call_templates, "row_count", count, InMemoryTemplate(spec, intern_recipe(DATA, shape, spec.dtype))
        )


class _CopyDescriptor(NamedTuple):
    """A copy descriptor: the integers `words`, with the `spec` and the `recipe` of the result.

    The recipe is that of data in memory (`DATA`). If the size of the result depends on a mask, `recipe` is None and `spec` is the spec of
    one row. The words may be symbolic sizes.
    """

    spec: Spec
    recipe: Recipe | None
    words: tuple[IntOrSymInt, ...]

    def build_template(self) -> CopyTemplate:
        """Return the result template with the words packed as 64-bit integers. No word may be symbolic."""
        return CopyTemplate(self.spec, self.recipe, struct.pack(f"={len(self.words)}q", *self.words))

    def build_sized_template(self, traced: SymbolicSizes, concrete_template: CopyTemplate) -> SizedTemplate:
        """Return the size-generic template of this descriptor, whose words are symbolic sizes.

        `traced` has the trace of the sizes. `concrete_template` is the template of the same call for concrete sizes.
        """
        symbolic_template = CopyTemplate(self.spec, self.recipe)
        return SizedTemplate(traced.trace, symbolic_template, concrete_template, [(RESULT_RECORD, None, self.words, None)])


def _trace_row_selection(dims: Sequence[int], spec: Spec, spec_or_length: Spec | int, template: CopyTemplate) -> SizedTemplate | None:
    """Return the size-generic template for rows of a tensor of `spec`, selected by a key; None if no descriptor can copy the rows.

    `spec_or_length` is the spec of an index tensor or mask, or the length of a list. `dims` are the sizes to become symbolic, and
    `template` is the template for these sizes.
    """
    traced = SymbolicSizes(dims)
    sized_key = (
        traced.symbolize_dims((spec_or_length,))[0]
        if isinstance(spec_or_length, int)
        else intern_spec(traced.symbolize_layout(spec_or_length.layout), spec_or_length.dtype)
    )
    descriptor = _describe_rows_by_key(intern_spec(traced.symbolize_layout(spec.layout), spec.dtype), sized_key)
    return None if descriptor is None else descriptor.build_sized_template(traced, template)


def _describe_rows_by_key(spec: Spec, spec_or_length: Spec | int) -> _CopyDescriptor | None:
    """Return the copy descriptor of rows of a tensor of `spec`, selected by a key; None if no descriptor can copy the rows.

    `spec_or_length` is the spec of an index tensor or mask, or the length of a list of integers.
    """
    return (
        _describe_rows_by_tensor(spec, spec_or_length)
        if isinstance(spec_or_length, Spec)
        else _describe_rows(spec, (spec_or_length,), 1, 0, int64.itemsize, int64.itemsize)
    )


def _describe_rows_by_tensor(spec: Spec, key: Spec) -> _CopyDescriptor | None:
    """Return the copy descriptor of rows of a tensor of `spec`, selected by a mask or index tensor of spec `key`.

    Return None if no descriptor can copy the rows: for a key that is empty, has no axes, or needs more than one loop. Also return None for
    a mask with gaps or of another shape than the leading axes, for other dtypes, and where `_describe_rows` returns None.
    """
    if key.strides is None or key.layout_key.is_uncacheable or not key.size:
        return None
    step = find_constant_step(key.shape, key.strides)
    if step is None:
        return None
    itemsize = key.dtype.itemsize
    if key.dtype is boolean:
        # The mask is read as 64-bit words.
        is_supported = key.shape == spec.shape[: len(key.shape)] and key.shape and (step == 1 or key.size == 1)
        return _describe_rows(spec, key.shape, len(key.shape), MASK_KEY_KIND, itemsize, step * itemsize) if is_supported else None
    is_supported = key.dtype in INDEX_DTYPES and key.shape
    return _describe_rows(spec, key.shape, 1, INDEX_DTYPES.index(key.dtype), itemsize, step * itemsize) if is_supported else None


def _describe_rows(spec: Spec, shape: tuple[int, ...], axes: int, kind: int, key_itemsize: int, key_step: int) -> _CopyDescriptor | None:
    """Return the copy descriptor of rows that a key selects along the first `axes` axes of a tensor of `spec`, or None.

    The key is a mask or a set of indices. `kind` is `MASK_KEY_KIND`, or the position of the dtype of the indices in `INDEX_DTYPES`. The key
    has the shape `shape`, and elements of `key_itemsize` bytes that are `key_step` bytes apart. Return None unless one loop walks the first
    axes, and a row is contiguous. Also return None for an empty tensor, and for a key or a result too large for copies
    (`MAX_SELECTED_BYTES`, `MAX_SMALL_BLOCK_BYTES`, `PARALLEL_COPY_BYTES`).
    """
    if spec.strides is None or len(spec.shape) < axes or not spec.size:
        return None
    itemsize, row_shape, count = spec.dtype.itemsize, spec.shape[axes:], prod(shape)
    step, element_step = find_constant_step(spec.shape[:axes], spec.strides[:axes]), find_constant_step(row_shape, spec.strides[axes:])
    result_shape = (*shape, *row_shape)
    if step is None or element_step not in (1, 0) or (element_step == 0 and prod(row_shape) > 1):
        return None
    if (
        count * itemsize > MAX_SELECTED_BYTES
        if kind == MASK_KEY_KIND
        else (count * 8 > MAX_SMALL_BLOCK_BYTES or prod(result_shape) * itemsize > PARALLEL_COPY_BYTES)
    ):
        return None
    size = prod(spec.shape[:axes])
    are_disjoint = abs(step) >= prod(row_shape) or size == 1
    words = kind, count, key_itemsize, key_step, size, itemsize, step * itemsize, prod(row_shape) * itemsize, are_disjoint
    if kind == MASK_KEY_KIND:
        return _CopyDescriptor(intern_spec(Layout.contiguous(row_shape), spec.dtype), None, words)
    return _CopyDescriptor(intern_spec(Layout.contiguous(result_shape), spec.dtype), intern_recipe(DATA, result_shape, spec.dtype), words)


def record_join(
    op: str, tensors: Sequence[Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any], result: Tensor, arrange: Arrange
) -> None:
    """Record how to join tensors like `tensors` by copies, or record that copies alone cannot join them.

    The joining functions (`api/concatenation.py`) call this function after the fallback. `op` names the function, `tensors` are its first
    argument, `arguments` and `keywords` the further arguments, and `result` is the tensor returned. `arrange` takes the tensors and the
    further arguments, and returns the layout of the result and the copy of each piece (`Arrangement`), or None.

    Do nothing if a record exists, or for more than `MAX_JOINED_TENSORS` tensors. Also do nothing with a tensor among the further arguments,
    an item that is not exactly a `Tensor`, or a layout too large to cache. More than `MAX_FIRST_CALL_TENSORS` tensors are recorded at the
    second call. A size-generic template may be traced, too.
    """
    if not 0 < len(tensors) <= MAX_JOINED_TENSORS or set(map(type, tensors)) != {Tensor}:
        return
    key_values = (*arguments, *keywords.values(), *keywords)
    keys = build_keys(key_values)
    if keys is None or Tensor in map(type, key_values):
        return  # the result depends on the value of a tensor argument, and keys hold no values
    specs = [x.spec for x in tensors]
    key = (*keys, *specs)
    templates = specs[0].call_templates.get(op, {})
    if any([spec.layout_key.is_uncacheable for spec in specs]) or templates.get(key) is not None:
        return
    if len(tensors) > MAX_FIRST_CALL_TENSORS and key not in templates:
        record_template(specs[0].call_templates, op, key, None)
        return
    descriptor = _describe_join(tensors, result.dtype, arrange(tensors, *arguments, **keywords))
    if descriptor is None or result.spec is not descriptor.spec or result.offset or _is_left_to_kernels(result):
        record_template(specs[0].call_templates, op, key, CopyTemplate(result.spec))
        return
    template = descriptor.build_template()
    record_template(specs[0].call_templates, op, key, template)
    split_call = SplitCall.of(op, (*key_values, *tensors))
    if split_call is not None:
        split_call.trace_template(
            template, lambda: _trace_join(split_call.dims, tensors, arguments, keywords, result.dtype, arrange, template)
        )


def _is_left_to_kernels(result: Tensor) -> bool:
    """Return whether `result`, a joined tensor, is pending and has `PARALLEL_COPY_BYTES` bytes or more: then kernels write it."""
    return result.spec.nbytes >= PARALLEL_COPY_BYTES and result.storage.node.buffer is None


def _trace_join(
    dims: Sequence[int],
    tensors: Sequence[Tensor],
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    dtype: DType,
    arrange: Arrange,
    template: CopyTemplate,
) -> SizedTemplate | None:
    """Return the size-generic template for joining `tensors`, a sequence of tensors; None if the copies are not size-generic.

    `dims` are the sizes to become symbolic, and `template` is the template for these sizes. `arguments`, `keywords` and `arrange` are
    those of `record_join`, and `dtype` is the dtype of the result.
    """
    traced = SymbolicSizes(dims)
    placeholders = [make_symbolic_argument(traced, x) for x in tensors]
    arrangement = arrange(
        placeholders,
        *[make_symbolic_argument(traced, x) for x in arguments],
        **{name: make_symbolic_argument(traced, x) for name, x in keywords.items()},
    )
    descriptor = _describe_join(placeholders, dtype, arrangement)
    return None if descriptor is None else descriptor.build_sized_template(traced, template)


def _describe_join(tensors: Sequence[Tensor], dtype: DType, arrangement: Arrangement | None) -> _CopyDescriptor | None:
    """Return the copy descriptor that joins `tensors` to a result of `dtype`: the number of copies, and a strided copy for each.

    `arrangement` is the layout of the result and a `PieceCopy` for each copy, or None. Return None if `arrangement` is None, if the result
    is empty, or if kernels copy faster (`should_copy_by_kernels`). Also return None if a piece has another dtype than the result, is read
    through a view chain or tables, or needs more than three loops.
    """
    if arrangement is None:
        return None
    layout, moves = arrangement
    spec, itemsize, moves = intern_spec(layout, dtype), dtype.itemsize, list(moves)
    if should_copy_by_kernels(spec.nbytes, len(moves)) or not spec.size:
        return None
    strided_copies = []
    for tensor_index, read_layout, written_layout in moves:
        x = tensors[tensor_index]
        if x.dtype is not dtype or read_layout.base is not None or read_layout.tables is not None:
            return None
        if not read_layout.size:
            continue
        strided_copy = describe_copy(
            read_layout.shape,
            read_layout.strides,
            written_layout.strides,
            itemsize,
            tensor_index,
            read_layout.offset - x.offset,
            written_layout.offset,
        )
        if strided_copy is None:
            return None
        strided_copies.append(strided_copy)
    words = [n for strided_copy in strided_copies for n in strided_copy]
    return _CopyDescriptor(spec, intern_recipe(DATA, spec.shape, dtype), (len(strided_copies), *words))
