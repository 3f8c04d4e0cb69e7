"""Tensors and arrays made one by copying, at the call.

A kernel for each piece is what large ones want, and a few that are pending. But each costs tens of microseconds, and a
plan with thousands of them takes longer to make than NumPy takes to copy what they would write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from ..dtypes import OF_NUMPY, DType, bfloat16, decoded, encoded, result_type
from ..layout import Layout
from ..memory import Buffer, allocate
from ..node import data
from ..ops import OPS
from ..realize import lock, realize
from ..storage import Storage
from .core import Core, check_count

Array = np.ndarray[Any, Any]
Piece = Core | Array  # an array as `are_arrays` wants it
Shape = tuple[int, ...]
_T = TypeVar("_T", bound=Core)
FEW = 16  # pieces, some of them pending, each of which is computed straight into its place
LARGE = 1 << 20  # bytes of a piece from which threads share the copying
BATCH = 256  # pieces that NumPy copies in one call, and which may have copies of their own on the way
SPARSE = 1 << 12  # elements without strides up to which their offsets are quicker than a kernel
_POSITIVE = OPS["positive"]
_buffer_of, _layout_of, _dtype_of, _size_of = map(attrgetter, ("storage.node.buffer", "layout", "dtype", "size"))
_seen_as, _seen_before = map(attrgetter, ("_typed_as", "_typed"))  # of a buffer


def are_arrays(items: Iterable[Any]) -> bool:
    """Whether these are arrays that can be read as they are: of no derived type, and of dtypes that we have."""
    dtypes = {x.dtype if type(x) is np.ndarray else None for x in items}
    return dtypes <= OF_NUMPY.keys()


def want_kernels(pieces: Sequence[Piece], nbytes: int) -> bool:
    """Whether kernels should write the pieces of a result of `nbytes` bytes, when its values are asked for."""
    if nbytes >= LARGE * len(pieces):
        return all(isinstance(p, Core) for p in pieces)
    return len(pieces) <= FEW and any(isinstance(p, Core) and p.storage.node.buffer is None for p in pieces)


def joined_rows(
    cls: type[_T], op: str, tensors: Sequence[_T], axis: int | None = 0, *, stacked: bool = False
) -> _T | None:
    """The tensors one after another along their first axis, `stacked` along a new one, or flattened for `axis` None; None
    unless they fit and all are in memory without gaps.

    What `joined` does in general: for small tensors Python takes longer than the copying, so all are asked together, in C.
    """
    row = tensors[0].layout.shape[not stacked :]
    with lock:
        buffers: list[Buffer | None] = list(map(_buffer_of, tensors))
        if None in buffers:
            return None
        layouts: list[Layout] = list(map(_layout_of, tensors))
        for layout in dict(zip(map(id, layouts), layouts, strict=True)).values():  # which are often few
            shape = layout.shape
            fits = axis is None or (shape == row if stacked else shape and shape[1:] == row)
            if not fits or layout.strides != Layout.contiguous(shape).strides or layout.base or layout.tables:
                return None
        dtypes: set[DType] = set(map(_dtype_of, tensors))
        dtype = dtypes.pop()
        if dtypes and (bfloat16 in dtypes or dtype is bfloat16):  # NumPy sees it as integers
            return None
        if not dtypes and set(map(_seen_as, buffers)) == {dtype}:
            seen: list[Array] = list(map(_seen_before, buffers))
        else:
            seen = [buffer.typed(t.dtype) for buffer, t in zip(buffers, tensors, strict=True)]  # type: ignore[union-attr]
            dtype = result_type(dtype, *dtypes)
        total = sum(map(_size_of, layouts))
        nbytes = total * dtype.itemsize
        if not total or nbytes >= LARGE * len(tensors):
            return None
        if total != sum(map(len, seen)):  # some are part of what their storage holds
            seen = [e[x.offset : x.offset + x.size] for e, x in zip(seen, layouts, strict=True)]
        shape = (total,) if axis is None else (len(tensors), *row) if stacked else (total // prod(row), *row)
        buffer = allocate(nbytes, op, shape, dtype)
        np.concatenate(seen, out=buffer.typed(dtype)[:total], casting="unsafe")
    return cls(Storage(data(buffer, shape, dtype)), Layout.contiguous(shape), dtype)


def joined(cls: type[_T], op: str, pieces: Sequence[Piece], axis: int | None, shape: Shape, dtype: DType) -> _T:
    """New tensor of this shape and dtype: the pieces one after another along an axis of theirs, or along a new last one if
    `axis` is the number of their axes, or flattened for None.

    They are read now. Where the shape has more axes than that gives, the joined one is split. Their dtypes promote to the
    given one, or NumPy casts to it as we do.
    """
    check_count(op, shape)
    size = prod(shape)
    with lock:
        for piece in pieces:  # one by one, as they are often alike: then one plan serves all
            if type(piece) is not np.ndarray and piece.storage.node.buffer is None:  # type: ignore[union-attr]
                realize(piece.storage.node)  # type: ignore[union-attr]
        buffer = allocate(size * dtype.itemsize, op, shape, dtype)
        if size:
            _copy(pieces, axis, buffer.typed(dtype)[:size], dtype)
    return cls(Storage(data(buffer, shape, dtype)), Layout.contiguous(shape), dtype)


def _copy(pieces: Sequence[Piece], axis: int | None, out: Array, dtype: DType) -> None:
    """Put the pieces into `out`, which has one axis."""
    inner: Shape = ()  # axes that the pieces have not
    before: tuple[slice, ...] = ()
    if axis is not None:
        shape = pieces[0].shape
        inner = (1,) if axis == len(shape) else ()
        out = out.reshape(*shape[:axis], -1, *shape[axis + 1 :])
        before = (slice(None),) * axis
    start = 0
    for first in range(0, len(pieces), BATCH):
        seen = _seen(pieces[first : first + BATCH], dtype, inner)
        end = start + sum([elements.size if axis is None else elements.shape[axis] for elements in seen])
        np.concatenate(seen, axis, out=out[(*before, slice(start, end))], casting="unsafe")
        start = end


def _seen(pieces: Sequence[Piece], dtype: DType, inner: Shape = ()) -> list[Array]:
    """The elements of pieces in memory as NumPy sees them, where they lie if it can, to be copied to memory of `dtype`; with
    axes of size 1 as the last ones.
    """
    found: list[Array] = []
    known: dict[tuple[DType, Shape], Shape] = {}  # strides in bytes
    for piece in pieces:
        if type(piece) is np.ndarray:
            elements = piece if dtype is not bfloat16 else encoded(piece, dtype)
            found.append(elements.reshape(elements.shape + inner) if inner else elements)
            continue
        layout, own = piece.layout, piece.dtype  # type: ignore[union-attr]
        if layout.base is not None or layout.tables is not None or layout.size == 0:
            elements = _apart(piece).reshape(layout.shape + inner)  # type: ignore[arg-type]
        else:
            strides = known.get((own, layout.strides))
            if strides is None:
                strides = known[own, layout.strides] = (*[s * own.itemsize for s in layout.strides], *inner)
            memory = piece.storage.node.buffer.typed(own)  # type: ignore[union-attr]
            elements = np.ndarray(layout.shape + inner, own.numpy, memory, layout.offset * own.itemsize, strides)
        if own is not dtype:
            if own is bfloat16:
                elements = decoded(elements, own)
            elif dtype is bfloat16:
                elements = encoded(elements, dtype)
        found.append(elements)
    return found


def _apart(piece: Core) -> Array:
    """A copy of elements that have no strides."""
    layout, dtype = piece.layout, piece.dtype
    if layout.size == 0:
        return np.empty(layout.shape, dtype.numpy)
    if layout.size > SPARSE:
        copied = piece._compute(_POSITIVE, piece).realize()
        return _seen([copied], dtype)[0].copy()  # as its own memory is handed on when it dies
    elements: Array = piece.storage.node.buffer.typed(dtype)[layout.offsets()]  # type: ignore[union-attr]
    return elements
