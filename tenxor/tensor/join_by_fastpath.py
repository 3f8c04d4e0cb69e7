"""Joining of many tensors in memory by the fast path: examining a piece in Python takes longer than copying it. Pieces are the tensors to
join. A copy table has a column for each piece, and four rows of int64: the address of the piece's spec, the address of its target, its
bytes per copied row, and its bytes per element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from .._utils import upcalls
from .._utils.records import NamedTuple
from ..codegen.threads.thread_count import num_threads
from ..dtypes import DType, bfloat16, result_type
from ..graph.node import make_data_node
from ..graph.spec import Spec
from ..graph.storage import Storage
from ..layout import Layout
from ..memory.buffer import allocate
from ..runtime.realize import compute_lock
from .core import TensorBase, check_element_count

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
_T = TypeVar("_T", bound=TensorBase)
PARALLEL_COPY_BYTES = 1 << 20  # bytes of a piece from which on threads share the copying
MAX_SINGLE_COPY_BYTES = 1 << 25  # bytes of a copy in one call, up to which one thread is faster than a kernel: milliseconds
MAX_SCANNED_SPECS = 8  # number of distinct specs up to which a linear search is faster than sorting
COPY_TABLE_FIELDS = (
    4  # fields of each piece in the table: the address of the spec, the destination, the bytes of a row, the bytes of an element
)


def should_copy_by_kernels(nbytes: int, count: int) -> bool:
    """Return whether kernels should copy `count` pieces of `nbytes` bytes in total, rather than a single call of the fast path or of NumPy.

    The pieces must have at least `PARALLEL_COPY_BYTES` on average. Also, several threads must be able to share the work, or `nbytes` must
    exceed `MAX_SINGLE_COPY_BYTES`.
    """
    return nbytes >= PARALLEL_COPY_BYTES * count and (nbytes > MAX_SINGLE_COPY_BYTES or num_threads() > 1)


class PieceCopy(NamedTuple):
    """A copy of a piece: its index, the layout to read it, and the layout to write it.

    Both layouts have one shape; the second is a layout of the joined tensor.
    """

    piece_index: int
    source_layout: Layout
    target_layout: Layout


Arrangement = tuple[Layout, Sequence[PieceCopy]]  # the layout of a result, and the copies that fill it
Arrange = Callable[..., Arrangement | None]  # a function of another function's arguments, pieces first


def join_by_fast_path(
    cls: type[_T], op: str, tensors: Sequence[_T], axis: int | None, *, stacked: bool = False, mixed_dtypes: bool = False
) -> _T | None:
    """Return a new tensor of contiguous tensors in memory, copied by the fast path, or None if the fast path cannot join them.

    The tensors are joined along their axis `axis`, along a new axis if `stacked`, or flattened if `axis` is None. If `mixed_dtypes`, they
    may differ in dtype, unless one is bfloat16; the dtype is promoted. None also stands for shapes that do not fit, an empty result, and
    pieces of `PARALLEL_COPY_BYTES` or more on average. Raise OutOfMemory or ShapeError for too large a result, naming `op`.
    """
    fast_path = upcalls.installed
    if fast_path is None or type(tensors[0]) is not cls:
        return None
    write_spec_addresses, copy_rows, copy_equal_specs = fast_path.copy_functions
    pieces = tuple(tensors)
    result = _join_equal_specs(copy_equal_specs, cls, op, pieces, axis, stacked)
    if result is not None:
        return result
    table = np.empty((COPY_TABLE_FIELDS, len(pieces)), np.int64)
    if not write_spec_addresses(pieces, _address(table)):
        return None
    specs, spec_indices = _distinct_specs(pieces, table[0])
    dtypes = list({spec.dtype for spec in specs})
    if len(dtypes) > 1 and (not mixed_dtypes or bfloat16 in dtypes):  # NumPy sees bfloat16 as integers
        return None
    counts = np.bincount(spec_indices, minlength=len(specs)).tolist()
    shape = _join_shape([spec.shape for spec in specs], counts, axis, stacked)
    if shape is None or not all([spec.layout.is_contiguous() for spec in specs]):
        return None
    dtype = dtypes[0] if len(dtypes) == 1 else result_type(*dtypes)
    check_element_count(op, shape)
    size = prod(shape)
    nbytes = size * dtype.itemsize
    if not size or nbytes >= PARALLEL_COPY_BYTES * len(pieces):
        return None
    with compute_lock:
        buffer = allocate(nbytes, op, shape, dtype)
        out = buffer.typed_view(dtype)[:size].reshape(shape)
        if len(dtypes) == 1:
            rows = prod(shape[: axis or 0])
            table[2] = _gather_per_piece([spec.nbytes // rows for spec in specs], spec_indices)
            table[1] = _compute_start_offsets(table[2]) + _address(out)
            table[3] = dtype.itemsize
            is_copied = copy_rows(pieces, _address(table), rows, nbytes // rows)
        else:
            is_copied = _join_by_dtype(copy_rows, pieces, table, specs, spec_indices, out, axis, stacked)
    return cls(Storage(make_data_node(buffer, shape, dtype)), Layout.contiguous(shape), dtype) if is_copied else None


def _join_equal_specs(
    copy_equal_specs: Callable[..., bool], cls: type[_T], op: str, pieces: tuple[_T, ...], axis: int | None, stacked: bool
) -> _T | None:
    """Return a new tensor of contiguous pieces of equal spec, or None for pieces that are large, empty or of different specs.

    `copy_equal_specs` is the function of the fast path that compares all specs and copies; its decline gives None, too. For `axis` and
    `stacked` see `join_by_fast_path`.
    """
    spec = pieces[0].spec
    if any([type(x) is not cls or x.spec is not spec for x in (*pieces[1:2], pieces[-1])]):
        return None
    shape = _join_shape([spec.shape], [len(pieces)], axis, stacked)
    if shape is None or not 0 < spec.nbytes < PARALLEL_COPY_BYTES or not spec.layout.is_contiguous():
        return None
    check_element_count(op, shape)
    dtype, size, rows = spec.dtype, spec.size * len(pieces), prod(shape[: axis or 0])
    nbytes, width = size * dtype.itemsize, spec.nbytes // rows
    with compute_lock:
        buffer = allocate(nbytes, op, shape, dtype)
        is_copied = copy_equal_specs(pieces, _address(buffer.array), width, dtype.itemsize, rows, nbytes // rows)
    return cls(Storage(make_data_node(buffer, shape, dtype)), Layout.contiguous(shape), dtype) if is_copied else None


def _address(array: Array) -> int:
    """Return the address of the first element of an array."""
    address: int = array.__array_interface__["data"][0]
    return address


def _distinct_specs(pieces: Sequence[TensorBase], addresses: Array) -> tuple[list[Spec], Array]:
    """Return the distinct specs of the pieces, and for each piece the index of its spec. `addresses` are the addresses of the pieces'
    specs.
    """
    unassigned = addresses != addresses[0]
    specs, spec_indices = [pieces[0].spec], np.zeros(len(pieces), np.int64)
    while unassigned.any():
        if len(specs) == MAX_SCANNED_SPECS:
            _, first_pieces, spec_indices = np.unique(addresses, return_index=True, return_inverse=True)
            return [pieces[k].spec for k in first_pieces], spec_indices
        k = unassigned.argmax()
        has_same_spec = addresses == addresses[k]
        spec_indices[has_same_spec] = len(specs)
        specs.append(pieces[k].spec)
        unassigned &= ~has_same_spec
    return specs, spec_indices


def _gather_per_piece(spec_values: list[int], spec_indices: Array) -> Array:
    """Return for each piece the item of `spec_values` for the spec of the piece."""
    piece_values: Array = np.array(spec_values)[spec_indices]
    return piece_values


def _compute_start_offsets(sizes: Array) -> Array:
    """Return the start of each item of a sequence packed without gaps, given the sizes: [2, 3, 1] gives [0, 2, 5]."""
    return np.cumsum(sizes) - sizes


def _join_shape(shapes: list[Shape], counts: list[int], axis: int | None, stacked: bool) -> Shape | None:
    """Return the shape of joined pieces, `counts[k]` of shape `shapes[k]`, or None unless the shapes fit together.

    The pieces are joined along `axis`, along a new axis at this position if `stacked`, or flattened if `axis` is None. `axis` must exist,
    and counts from the start.
    """
    first_shape = shapes[0]
    if axis is None:
        return (sum([prod(shape) * n for shape, n in zip(shapes, counts, strict=True)]),)
    if stacked:
        return (*first_shape[:axis], sum(counts), *first_shape[axis:]) if shapes.count(first_shape) == len(shapes) else None
    leading, trailing = first_shape[:axis], first_shape[axis + 1 :]
    if any([len(shape) != len(first_shape) or shape[:axis] != leading or shape[axis + 1 :] != trailing for shape in shapes]):
        return None
    return (*leading, sum([shape[axis] * n for shape, n in zip(shapes, counts, strict=True)]), *trailing)


def _join_by_dtype(
    copy_rows: Callable[..., bool],
    pieces: tuple[Any, ...],
    table: Array,
    specs: list[Spec],
    spec_indices: Array,
    out: Array,
    axis: int | None,
    stacked: bool,
) -> bool:
    """Join pieces of several dtypes into `out`: copy the pieces of each dtype end to end, then cast these buffers; return success.

    `table` is the copy table, and its rows after the first are overwritten. `spec_indices` has the index of each piece's spec in `specs`.
    False stands for pieces of several shapes joined along an axis after the first, or a copy declined by `copy_rows`.
    """
    addresses, widths = table[1], table[2]
    in_order = not axis  # the pieces follow one another in memory; otherwise they are cut into rows
    if not in_order and not stacked and len({spec.shape for spec in specs}) > 1:
        return False
    widths[:] = _gather_per_piece([spec.nbytes for spec in specs], spec_indices)
    table[3] = _gather_per_piece([spec.dtype.itemsize for spec in specs], spec_indices)
    dtypes: list[DType] = list({spec.dtype: None for spec in specs})
    dtype_indices = _gather_per_piece([dtypes.index(spec.dtype) for spec in specs], spec_indices)
    dtype_buffers = []
    for k, dtype in enumerate(dtypes):
        has_dtype = dtype_indices == k
        dtype_widths = widths[has_dtype]
        dtype_buffer = np.empty(int(dtype_widths.sum()) // dtype.itemsize, dtype.numpy)
        addresses[has_dtype] = _compute_start_offsets(dtype_widths) + _address(dtype_buffer)
        dtype_buffers.append(dtype_buffer)
    if not copy_rows(pieces, _address(table), 1, 0):
        return False
    if in_order:
        flat, sizes = out.reshape(-1), [spec.size for spec in specs]
        if set(sizes) != {1}:
            dtype_indices = np.repeat(dtype_indices, _gather_per_piece(sizes, spec_indices))
        for k, dtype_buffer in enumerate(dtype_buffers):
            flat[dtype_indices == k] = dtype_buffer
        return True
    shape = specs[0].shape
    assert axis is not None
    separate_pieces = out if stacked else out.reshape(*shape[:axis], len(pieces), *shape[axis:])
    for k, dtype_buffer in enumerate(dtype_buffers):
        np.moveaxis(separate_pieces, axis, 0)[dtype_indices == k] = dtype_buffer.reshape(-1, *shape)
    return True
