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

from ..dtypes import OF_NUMPY, DType, Number, result_type
from ..layout import Layout
from ..memory import allocate
from ..node import data
from ..realize import lock
from ..storage import Element, Storage, known_numbers
from .core import Core

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
_T = TypeVar("_T", bound=Core)
SMALL = 1 << 12  # bytes of the memory block of a piece, up to which examining the pieces takes longer than copying them
APART = 64  # extra bytes of a block, besides three times the bytes of its piece, that may be copied for nothing
PORTION = 1 << 20  # bytes of temporary copies at a time


class _Result:
    """A buffer for `count` pieces of one shape and dtype.

    The pieces are joined along their axis `axis`, along a new axis if `stacked`, or flattened if `axis` is None.
    """

    def __init__(self, op: str, count: int, piece: Shape, dtype: DType, axis: int | None, stacked: bool) -> None:
        at = axis or 0
        apart = (*piece[:at], count, *piece[at:])
        size = prod(apart)
        if axis is None:
            self.shape: Shape = (size,)
        else:
            self.shape = apart if stacked else (*piece[:at], count * piece[at], *piece[at + 1 :])
        self.dtype = dtype
        self.buffer = allocate(size * dtype.itemsize, op, self.shape, dtype)
        out = self.buffer.typed(dtype)[:size].reshape(apart)
        self.pieces: Array = np.moveaxis(out, at, 0) if at else out  # with the pieces along the first axis

    def of(self, cls: type[_T]) -> _T:
        """Return the tensor over the buffer."""
        return cls(Storage(data(self.buffer, self.shape, self.dtype)), Layout.contiguous(self.shape), self.dtype)


def joined_alike(
    cls: type[_T],
    op: str,
    pieces: Sequence[Any],
    types: set[type],
    axis: int | None,
    *,
    stacked: bool = False,
    mixed: bool = False,
) -> _T | None:
    """Return a new tensor of pieces of equal shape and dtype, or None if the pieces cannot be joined as bytes.

    The pieces are either tensors of class `cls` or NumPy arrays; `types` is the set of their types. They are joined along `axis`, along a
    new axis if `stacked`, or flattened if `axis` is None. If `mixed`, arrays may differ in dtype.
    """
    if types == {np.ndarray}:
        return _joined_arrays(cls, op, pieces, axis, stacked, mixed)
    return _joined_tensors(cls, op, pieces, axis, stacked) if types == {cls} else None


def _joined_tensors(cls: type[_T], op: str, tensors: Sequence[_T], axis: int | None, stacked: bool) -> _T | None:
    """Return the joined tensors, or None unless they are small, of equal shape and dtype, and stored alike.

    They must be known scalars, or views of a single storage that differ in their offsets, or have equal layouts in memory blocks of equal
    size.
    """
    one = tensors[0]
    layout, dtype = one.layout, one.dtype
    if not 0 < layout.size * dtype.itemsize <= SMALL or layout.base is not None or layout.tables is not None:
        return None
    if any([t.dtype is not dtype or t.layout.shape != layout.shape for t in (*tensors[1:2], tensors[-1])]):
        return None  # a quick test that rejects most unequal pieces
    with lock:
        numbers = _numbers(tensors) if type(one.storage) is Element and not layout.shape else None
        if numbers is not None:
            found = _Result(op, len(tensors), (), dtype, axis, stacked)
            found.pieces[:] = numbers
            return found.of(cls)
        one_memory = tensors[-1].storage is one.storage
        places = _places(tensors) if one_memory else None
        blocks = None if one_memory else _blocks(tensors)
        if places is None and blocks is None:
            return None
        found = _Result(op, len(tensors), layout.shape, dtype, axis, stacked)
        if blocks is not None:
            _put_blocks(blocks, layout, found)
        elif places is not None:
            _put_places(places, one, found)
        return found.of(cls)


def _places(tensors: Sequence[Core]) -> list[int] | None:
    """Return the offsets of tensors that differ only in their offset in a single storage in memory; None for different tensors."""
    one = tensors[0]
    storage, dtype = one.storage, one.dtype
    shape, strides = one.layout.shape, one.layout.strides
    if storage.node.buffer is None:
        return None
    places = [
        own.offset
        for t in tensors
        if (own := t.layout).strides == strides
        and own.shape == shape
        and own.base is None
        and own.tables is None
        and t.dtype is dtype
        and t.storage is storage
    ]
    return places if len(places) == len(tensors) else None


def _put_places(places: list[int], one: Core, found: _Result) -> None:
    """Copy pieces from a single storage into the result, given their offsets. `one` is one of the pieces."""
    layout, dtype, size = one.layout.at(0), one.dtype, one.dtype.itemsize
    reach = layout.range()
    assert reach is not None and one.storage.node.buffer is not None
    memory = one.storage.node.buffer.typed(dtype)
    low, high = reach
    strides = (size, *[s * size for s in layout.strides])
    everywhere: Array = np.ndarray(
        (len(memory) - high + low, *layout.shape), dtype.numpy, memory, -low * size, strides
    )  # the view at every possible offset
    step = max(1, PORTION // (layout.size * size))
    for first in range(0, len(places), step):
        found.pieces[first : first + step] = everywhere[np.array(places[first : first + step]) + low]


def _put_blocks(blocks: list[Any], layout: Layout, found: _Result) -> None:
    """Copy pieces into the result, given their memory blocks of equal size."""
    dtype, block = found.dtype, len(blocks[0])
    step = max(1, PORTION // block)
    offset, *strides = [n * dtype.itemsize for n in (layout.offset, *layout.strides)]
    for first in range(0, len(blocks), step):
        some = b"".join(blocks[first : first + step])
        shape = (len(some) // block, *layout.shape)
        found.pieces[first : first + step] = np.ndarray(shape, dtype.numpy, some, offset, (block, *strides))


def _blocks(tensors: Sequence[Core]) -> list[Any] | None:
    """Return the memory blocks of tensors with equal layouts and equal block sizes; None for different tensors."""
    one = tensors[0]
    layout, dtype, buffer = one.layout, one.dtype, one.storage.node.buffer
    if buffer is None or not len(buffer.array) <= min(SMALL, APART + 4 * layout.size * dtype.itemsize):
        return None
    shape, strides, offset = layout.shape, layout.strides, layout.offset
    blocks = [
        buffer.array
        for t in tensors
        if (
            (own := t.layout) is layout
            or (
                own.strides == strides
                and own.offset == offset
                and own.shape == shape
                and own.base is None
                and own.tables is None
            )
        )
        and t.dtype is dtype
        and (buffer := t.storage.node.buffer) is not None
    ]
    if len(blocks) < len(tensors):
        return None
    return blocks if len(set(map(len, blocks))) == 1 else None


def _numbers(tensors: Sequence[Core]) -> list[Number] | None:
    """Return the known scalars of element tensors of equal dtype; None unless each is known."""
    layout, dtype = tensors[0].layout, tensors[0].dtype
    cells = [t.storage for t in tensors if t.layout is layout and t.dtype is dtype]
    return known_numbers(cells, dtype) if len(cells) == len(tensors) else None


def put_bytes(rows: Sequence[Any], out: Array) -> None:
    """Copy small contiguous rows of equal dtype into `out`, end to end."""
    step = max(1, PORTION * len(rows) // out.nbytes)
    start = 0
    for first in range(0, len(rows), step):
        some = np.frombuffer(b"".join(rows[first : first + step]), out.dtype)
        out[start : start + len(some)] = some
        start += len(some)


def dtypes_of(arrays: Sequence[Array]) -> list[np.dtype[Any]]:
    """Return the distinct dtypes of arrays. They are compared by identity, as NumPy takes longer to compare two than to copy a small array.
    """
    dtypes = [a.dtype for a in arrays]
    if dtypes.count(dtypes[0]) == len(dtypes):  # `count` tests identity before equality
        return dtypes[:1]
    return list({id(d): d for d in dtypes}.values())


def _joined_arrays(
    cls: type[_T], op: str, arrays: Sequence[Array], axis: int | None, stacked: bool, mixed: bool
) -> _T | None:
    """Return the joined arrays, or None unless they are small, of equal shape, and of supported dtypes."""
    one, dtypes = arrays[0], dtypes_of(arrays)
    if not 0 < one.nbytes <= SMALL or (len(dtypes) > 1 and not mixed) or not OF_NUMPY.keys() >= set(dtypes):
        return None
    dtype = result_type(*[OF_NUMPY[d] for d in dtypes])
    found = _Result(op, len(arrays), one.shape, dtype, axis, stacked)
    step = PORTION // one.nbytes
    for first in range(0, len(arrays), step):
        try:
            some = np.array(arrays[first : first + step], dtype.numpy)
        except ValueError:  # raised for arrays of several shapes
            return None
        if some.shape[1:] != one.shape:
            return None
        found.pieces[first : first + step] = some
    return found.of(cls)
