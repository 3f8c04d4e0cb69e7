"""Tensors and arrays made one by copying, at the call.

A kernel for each piece is what large ones want, and a few that are pending. But each costs tens of microseconds, and a
plan with thousands of them takes longer to make than NumPy takes to copy what they would write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..dtypes import OF_NUMPY, DType, bfloat16, decoded, encoded, result_type
from ..layout import Layout
from ..memory import allocate
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
    cls: type[_T], op: str, pieces: Sequence[Any], axis: int | None = 0, *, stacked: bool = False
) -> _T | None:
    """The tensors one after another along their first axis, `stacked` along a new one, or flattened for `axis` None; None
    unless they fit and all are in memory without gaps.

    What `joined` does in general, in one pass: for small tensors Python takes longer than the copying.
    """
    first = pieces[0]
    if type(first) is not cls:
        return None
    dtype, layout = first.dtype, Layout.contiguous(first.layout.shape)
    shape, strides = layout.shape, layout.strides
    row = shape if stacked else shape[1:]
    others: set[DType] = set()
    seen: list[Array] = []
    total = 0
    with lock:
        for piece in pieces:
            if type(piece) is not cls:
                return None
            if piece.layout is not layout:
                layout = piece.layout
                if layout.shape != shape:
                    shape = layout.shape
                    if axis is None:
                        strides = Layout.contiguous(shape).strides
                    elif stacked or shape[1:] != row or not shape:  # else the strides are those of the first
                        return None
                if layout.strides != strides or layout.base is not None or layout.tables is not None:
                    return None
            own, buffer = piece.dtype, piece.storage.node.buffer
            if buffer is None:
                return None
            if own is not dtype:
                others.add(own)
            elements, size, start = buffer.typed(own), layout.size, layout.offset
            seen.append(elements if len(elements) == size else elements[start : start + size])
            total += size
        if others:
            if dtype is bfloat16 or bfloat16 in others:  # NumPy sees it as integers
                return None
            dtype = result_type(dtype, *others)
        nbytes = total * dtype.itemsize
        if not total or nbytes >= LARGE * len(pieces):
            return None
        shape = (total,) if axis is None else (len(pieces), *row) if stacked else (total // prod(row), *row)
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
    last = False
    before: tuple[slice, ...] = ()
    if axis is not None:
        shape = pieces[0].shape
        last = axis == len(shape)
        out = out.reshape(*shape[:axis], -1, *shape[axis + 1 :])
        before = (slice(None),) * axis
    start = 0
    for first in range(0, len(pieces), BATCH):
        seen = _seen(pieces[first : first + BATCH], dtype)
        if last:
            seen = [elements[..., None] for elements in seen]
        end = start + sum([elements.size if axis is None else elements.shape[axis] for elements in seen])
        np.concatenate(seen, axis, out=out[(*before, slice(start, end))], casting="unsafe")
        start = end


def _seen(pieces: Sequence[Piece], dtype: DType) -> list[Array]:
    """The elements of pieces in memory as NumPy sees them, where they lie if it can, to be copied to memory of `dtype`."""
    found: list[Array] = []
    known: dict[tuple[DType, Shape], Shape] = {}  # strides in bytes
    for piece in pieces:
        if type(piece) is np.ndarray:
            found.append(piece if dtype is not bfloat16 else encoded(piece, dtype))
            continue
        layout, own = piece.layout, piece.dtype  # type: ignore[union-attr]
        if layout.base is not None or layout.tables is not None or layout.size == 0:
            elements = _apart(piece)  # type: ignore[arg-type]
        else:
            strides = known.get((own, layout.strides))
            if strides is None:
                strides = known[own, layout.strides] = tuple([s * own.itemsize for s in layout.strides])
            memory = piece.storage.node.buffer.typed(own)  # type: ignore[union-attr]
            elements = np.ndarray(layout.shape, own.numpy, memory, layout.offset * own.itemsize, strides)
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
