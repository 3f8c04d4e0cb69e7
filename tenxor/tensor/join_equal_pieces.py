"""Joining of many small tensors or arrays of equal shape and dtype, by copying their memory as bytes.

NumPy takes 0.1 microseconds to examine each piece, and Python takes as long for two or three attribute reads. So this module reads few
attributes of each piece. It concatenates the whole memory blocks of the tensors as bytes, and copies the elements through a strided view of
the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..dtypes import DTYPE_BY_NUMPY_DTYPE, DType, Number, result_type
from ..graph.node import make_data_node
from ..graph.storage import ScalarStorage, Storage, get_known_numbers
from ..layout import Layout
from ..memory.buffer import allocate
from ..runtime.realize import compute_lock
from .core import TensorBase

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
_T = TypeVar("_T", bound=TensorBase)
MAX_EXAMINED_BLOCK_BYTES = 1 << 12  # bytes of the memory block of a piece, up to which examining the pieces takes longer than copying them
EXTRA_BLOCK_BYTES = 64  # extra bytes of a block, besides three times the bytes of its piece, that may be copied for nothing
CHUNK_BYTES = 1 << 20  # bytes of temporary copies at a time


class _JoinBuffer:
    """A buffer for `count` pieces of one shape and dtype; `pieces` is an array over it, with the pieces along its first axis.

    The pieces are joined along their axis `axis`, along a new axis if `stacked`, or flattened if `axis` is None.
    """

    def __init__(self, op: str, count: int, piece: Shape, dtype: DType, axis: int | None, stacked: bool) -> None:
        joined_axis = axis or 0
        separate_shape = (*piece[:joined_axis], count, *piece[joined_axis:])
        size = prod(separate_shape)
        if axis is None:
            self.shape: Shape = (size,)
        else:
            self.shape = separate_shape if stacked else (*piece[:joined_axis], count * piece[joined_axis], *piece[joined_axis + 1 :])
        self.dtype = dtype
        self.buffer = allocate(size * dtype.itemsize, op, self.shape, dtype)
        out = self.buffer.typed_view(dtype)[:size].reshape(separate_shape)
        self.pieces: Array = np.moveaxis(out, joined_axis, 0) if joined_axis else out  # with the pieces along the first axis

    def to_tensor(self, cls: type[_T]) -> _T:
        """Return a new tensor of class `cls` over the buffer."""
        return cls(Storage(make_data_node(self.buffer, self.shape, self.dtype)), Layout.contiguous(self.shape), self.dtype)


def join_equal_pieces(
    cls: type[_T],
    op: str,
    pieces: Sequence[Any],
    types: set[type],
    axis: int | None,
    *,
    stacked: bool = False,
    mixed_dtypes: bool = False,
) -> _T | None:
    """Return a new tensor of pieces of equal shape and dtype, or None if the pieces cannot be joined as bytes.

    The pieces are either tensors of class `cls` or NumPy arrays; `types` is the set of their types. They are joined along `axis`, along a
    new axis if `stacked`, or flattened if `axis` is None. If `mixed_dtypes`, arrays may differ in dtype. None also stands for empty pieces,
    and for pieces of more than `MAX_EXAMINED_BLOCK_BYTES` bytes. `op` names the operation for errors of too large a result.
    """
    if types == {np.ndarray}:
        return _join_arrays(cls, op, pieces, axis, stacked, mixed_dtypes)
    return _join_tensors(cls, op, pieces, axis, stacked) if types == {cls} else None


def _join_tensors(cls: type[_T], op: str, tensors: Sequence[_T], axis: int | None, stacked: bool) -> _T | None:
    """Return the joined tensors, or None unless they are small, of equal shape and dtype, in memory, and stored alike.

    They must be known scalars, or views of a single storage that differ in their offsets, or have equal layouts in memory blocks of equal
    size. Offset tables and view chains give None.
    """
    first_tensor = tensors[0]
    layout, dtype = first_tensor.layout, first_tensor.dtype
    if not 0 < layout.size * dtype.itemsize <= MAX_EXAMINED_BLOCK_BYTES or layout.base is not None or layout.tables is not None:
        return None
    if any([t.dtype is not dtype or t.layout.shape != layout.shape for t in (*tensors[1:2], tensors[-1])]):
        return None  # a quick test that rejects most unequal pieces
    with compute_lock:
        scalars = _find_scalars(tensors) if type(first_tensor.storage) is ScalarStorage and not layout.shape else None
        if scalars is not None:
            result = _JoinBuffer(op, len(tensors), (), dtype, axis, stacked)
            result.pieces[:] = scalars
            return result.to_tensor(cls)
        is_same_storage = tensors[-1].storage is first_tensor.storage
        offsets = _find_offsets(tensors) if is_same_storage else None
        blocks = None if is_same_storage else _find_blocks(tensors)
        if offsets is None and blocks is None:
            return None
        result = _JoinBuffer(op, len(tensors), layout.shape, dtype, axis, stacked)
        if blocks is not None:
            _copy_from_blocks(blocks, layout, result)
        elif offsets is not None:
            _copy_from_offsets(offsets, first_tensor, result)
        return result.to_tensor(cls)


def _find_offsets(tensors: Sequence[TensorBase]) -> list[int] | None:
    """Return the offsets of tensors that differ only in their offset in a single storage in memory. Return None for different or pending
    tensors.
    """
    first_tensor = tensors[0]
    storage, dtype = first_tensor.storage, first_tensor.dtype
    shape, strides = first_tensor.layout.shape, first_tensor.layout.strides
    if storage.node.buffer is None:
        return None
    offsets = [
        tensor_layout.offset
        for t in tensors
        if (tensor_layout := t.layout).strides == strides
        and tensor_layout.shape == shape
        and tensor_layout.base is None
        and tensor_layout.tables is None
        and t.dtype is dtype
        and t.storage is storage
    ]
    return offsets if len(offsets) == len(tensors) else None


def _copy_from_offsets(offsets: list[int], piece: TensorBase, result: _JoinBuffer) -> None:
    """Copy pieces from a single storage in memory into `result`, given their offsets in elements. `piece` is one of the pieces."""
    layout, dtype, size = piece.layout.at(0), piece.dtype, piece.dtype.itemsize
    reach = layout.range()
    assert reach is not None and piece.storage.node.buffer is not None
    memory = piece.storage.node.buffer.typed_view(dtype)
    low, high = reach
    strides = (size, *[s * size for s in layout.strides])
    shifted_views: Array = np.ndarray(
        (len(memory) - high + low, *layout.shape), dtype.numpy, memory, -low * size, strides
    )  # the view at every possible offset
    step = max(1, CHUNK_BYTES // (layout.size * size))
    for start in range(0, len(offsets), step):
        result.pieces[start : start + step] = shifted_views[np.array(offsets[start : start + step]) + low]


def _copy_from_blocks(blocks: list[Any], layout: Layout, result: _JoinBuffer) -> None:
    """Copy pieces into `result`, given their memory blocks of equal size and `layout`, the layout of each piece in its block."""
    dtype, block = result.dtype, len(blocks[0])
    step = max(1, CHUNK_BYTES // block)
    offset, *strides = [n * dtype.itemsize for n in (layout.offset, *layout.strides)]
    for start in range(0, len(blocks), step):
        chunk = b"".join(blocks[start : start + step])
        shape = (len(chunk) // block, *layout.shape)
        result.pieces[start : start + step] = np.ndarray(shape, dtype.numpy, chunk, offset, (block, *strides))


def _find_blocks(tensors: Sequence[TensorBase]) -> list[Any] | None:
    """Return the memory blocks of tensors with equal layouts and equal block sizes, as arrays of bytes.

    Return None for a pending or different tensor, and for blocks that are large or much larger than the piece.
    """
    first_tensor = tensors[0]
    layout, dtype, buffer = first_tensor.layout, first_tensor.dtype, first_tensor.storage.node.buffer
    if buffer is None or not len(buffer.array) <= min(MAX_EXAMINED_BLOCK_BYTES, EXTRA_BLOCK_BYTES + 4 * layout.size * dtype.itemsize):
        return None
    shape, strides, offset = layout.shape, layout.strides, layout.offset
    blocks = [
        buffer.array
        for t in tensors
        if (
            (tensor_layout := t.layout) is layout
            or (
                tensor_layout.strides == strides
                and tensor_layout.offset == offset
                and tensor_layout.shape == shape
                and tensor_layout.base is None
                and tensor_layout.tables is None
            )
        )
        and t.dtype is dtype
        and (buffer := t.storage.node.buffer) is not None
    ]
    if len(blocks) < len(tensors):
        return None
    return blocks if len(set(map(len, blocks))) == 1 else None


def _find_scalars(tensors: Sequence[TensorBase]) -> list[Number] | None:
    """Return the known scalars of 0-d tensors of equal dtype; None unless each is known."""
    layout, dtype = tensors[0].layout, tensors[0].dtype
    storages = [t.storage for t in tensors if t.layout is layout and t.dtype is dtype]
    return get_known_numbers(storages, dtype) if len(storages) == len(tensors) else None


def concatenate_bytes(rows: Sequence[Any], out: Array) -> None:
    """Copy small contiguous arrays, `rows`, into the 1-D array `out`, end to end. All have one dtype, and `rows` fill `out`."""
    step = max(1, CHUNK_BYTES * len(rows) // out.nbytes)
    start = 0
    for first_row in range(0, len(rows), step):
        chunk = np.frombuffer(b"".join(rows[first_row : first_row + step]), out.dtype)
        out[start : start + len(chunk)] = chunk
        start += len(chunk)


def dtypes_of(arrays: Sequence[Array]) -> list[np.dtype[Any]]:
    """Return the distinct dtypes of arrays. They are compared by identity, as NumPy takes longer to compare two than to copy a small array.

    So equal dtypes may be listed several times, as different objects.
    """
    dtypes = [a.dtype for a in arrays]
    if dtypes.count(dtypes[0]) == len(dtypes):  # `count` tests identity before equality
        return dtypes[:1]
    return list({id(d): d for d in dtypes}.values())


def _join_arrays(cls: type[_T], op: str, arrays: Sequence[Array], axis: int | None, stacked: bool, mixed_dtypes: bool) -> _T | None:
    """Return the joined arrays, or None unless they are small, of equal shape, and of supported dtypes.

    With `mixed_dtypes`, their dtypes may differ and are promoted. For `axis` and `stacked` see `join_equal_pieces`.
    """
    first_array, dtypes = arrays[0], dtypes_of(arrays)
    if (
        not 0 < first_array.nbytes <= MAX_EXAMINED_BLOCK_BYTES
        or (len(dtypes) > 1 and not mixed_dtypes)
        or not DTYPE_BY_NUMPY_DTYPE.keys() >= set(dtypes)
    ):
        return None
    dtype = result_type(*[DTYPE_BY_NUMPY_DTYPE[d] for d in dtypes])
    result = _JoinBuffer(op, len(arrays), first_array.shape, dtype, axis, stacked)
    step = CHUNK_BYTES // first_array.nbytes
    for start in range(0, len(arrays), step):
        try:
            chunk = np.array(arrays[start : start + step], dtype.numpy)
        except ValueError:  # raised for arrays of several shapes
            return None
        if chunk.shape[1:] != first_array.shape:
            return None
        result.pieces[start : start + step] = chunk
    return result.to_tensor(cls)
