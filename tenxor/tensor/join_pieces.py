"""Joining of tensors and arrays by copying their elements at the call.

A kernel for each piece pays for large pieces, and for a few pending ones. Each kernel costs tens of microseconds, and planning thousands
takes longer than a copy by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any, TypeVar

import numpy as np

from .._utils import upcalls
from .._utils.cache_registry import register
from .._utils.lazy import LazyFunctions
from ..dtypes import DTYPE_BY_NUMPY_DTYPE, DType, bfloat16, decode_elements, encode_elements, result_type
from ..graph.node import EMPTY, Node, disable_tape, make_data_node, tape_mode
from ..graph.storage import Storage
from ..layout import Layout
from ..layout.interruptible_chunks import MAX_CHUNK_ELEMENTS, iterate_chunks
from ..memory.buffer import allocate
from ..ops import OPS
from ..runtime.realize import compute_lock, realize
from .core import TensorBase, check_element_count
from .join_by_fastpath import PARALLEL_COPY_BYTES, PieceCopy, join_by_fast_path, should_copy_by_kernels
from .join_equal_pieces import MAX_EXAMINED_BLOCK_BYTES, concatenate_bytes, dtypes_of, join_equal_pieces

join_rule, node_view = [LazyFunctions(f"tenxor.autodiff.{name}") for name in ("join_rule", "node_view")]

Array = np.ndarray[Any, Any]
Piece = TensorBase | Array  # an array that satisfies `are_arrays`
Shape = tuple[int, ...]
_T = TypeVar("_T", bound=TensorBase)
FAST_COPY_LIMIT_BYTES = 1 << 14  # bytes of a result, up to which copying is faster than kernels if the fast path evaluates the pieces
MAX_KERNEL_PIECES = 16  # pieces: up to this number, a kernel writes each piece directly into the result
MAX_BATCH_PIECES = 256  # pieces that NumPy copies in one call: the limit of temporary copies
MAX_OFFSET_READS = 1 << 12  # elements of a layout without strides, up to which reading by offsets is faster than a kernel
_POSITIVE = OPS["positive"]


def are_arrays(items: Sequence[Any]) -> bool:
    """Return whether all items are NumPy arrays of no subclass and of supported dtypes."""
    types = set(map(type, items))
    return not types or (types == {np.ndarray} and set(dtypes_of(items)) <= DTYPE_BY_NUMPY_DTYPE.keys())


def is_join_on_tape(pieces: Sequence[Piece]) -> bool:
    """Return whether the joined tensor needs a tape node, or has no value since a piece reads an argument of a traced function.

    With the tape off (`tape_mode`), only the second counts.
    """
    nodes = [p.storage.node for p in pieces if isinstance(p, TensorBase) and p._is_on_tape()]
    return any([node.is_traced for node in nodes]) or (bool(nodes) and bool(tape_mode.get()))


def is_single_tape_step(pieces: Sequence[Piece]) -> bool:
    """Return whether the tape records a join of the pieces as a single step. A join with a traced piece is not recorded so."""
    return is_join_on_tape(pieces) and not any([isinstance(p, TensorBase) and p.node.is_traced for p in pieces])


def join_as_tape_step(pieces: Sequence[Piece], make: Callable[[], _T], find_layouts: Callable[[_T], Sequence[Layout]]) -> _T:
    """Return `make()`, a tensor joined of the pieces, recorded on the tape as a single step. `make` runs with the tape off.

    `find_layouts(result)` returns the layout of each piece in the result.
    """
    with disable_tape():
        result = make()
    piece_views = [
        (node_view.NodeView(p.node, p.layout), layout)
        for p, layout in zip(pieces, find_layouts(result), strict=True)
        if isinstance(p, TensorBase)
    ]
    join_rule.record_join(result.storage.node, [x for x, _ in piece_views], tuple([layout for _, layout in piece_views]))
    return result


def joined_layouts(pieces: Sequence[Piece], axis: int | None, result_layout: Layout) -> Sequence[Layout]:
    """Return the layout of each piece, in its own shape, in a joined tensor of layout `result_layout`.

    The pieces are joined along `axis`, as a new axis if the result has more axes than they, or flattened for None.
    """
    return _layouts_of_shapes(
        tuple([piece.layout.shape if isinstance(piece, TensorBase) else piece.shape for piece in pieces]), axis, result_layout
    )


@register("layouts of pieces", "where the pieces of a join lie in the result, by shapes")
@lru_cache(1 << 8)
def _layouts_of_shapes(shapes: tuple[Shape, ...], axis: int | None, result_layout: Layout) -> Sequence[Layout]:
    """Return the result of `joined_layouts` for pieces of the shapes `shapes`."""
    contiguous = [Layout.contiguous(shape) for shape in shapes]
    moves = _piece_copies(contiguous, axis, result_layout)
    return [written.reshape(shape) for (*_, written), shape in zip(moves, shapes, strict=True)]


def should_join_by_kernels(pieces: Sequence[Piece], nbytes: int) -> bool:
    """Return whether kernels should write the pieces of a result of `nbytes` bytes when it is evaluated, rather than a copy at the call.

    True for a join on the tape, for large tensors (`should_copy_by_kernels`), and for at most `MAX_KERNEL_PIECES` pieces with a pending
    one. In the last case, results of up to `FAST_COPY_LIMIT_BYTES` are left to the fast path where it is expected.
    """
    if is_join_on_tape(pieces):
        return True
    if should_copy_by_kernels(nbytes, len(pieces)):
        return all(isinstance(p, TensorBase) for p in pieces)
    if nbytes <= FAST_COPY_LIMIT_BYTES and upcalls.is_expected():
        return False
    return len(pieces) <= MAX_KERNEL_PIECES and any(isinstance(p, TensorBase) and p.storage.node.buffer is None for p in pieces)


def join_fast(cls: type[_T], op: str, pieces: Sequence[Any], types: set[type], axis: int | None, *, stacked: bool = False) -> _T | None:
    """Return the joined pieces as a new tensor of class `cls`, or None if they do not fit or no fast method applies.

    The pieces are joined along `axis`, along a new axis if `stacked`, or flattened for None. `types` is the set of their types: a fast
    method takes tensors of class `cls` alone, or NumPy arrays alone. Contiguous tensors, and arrays that are not stacked, may differ in
    dtype and in size along the axis; the dtype is promoted. Many small pending tensors are computed first. Errors are raised only for a
    result that is too large (`check_element_count`, `allocate`).
    """
    if types == {cls}:
        result: _T | None = join_by_fast_path(cls, op, pieces, axis, stacked=stacked, mixed_dtypes=True)
        if result is None and len(pieces) > MAX_KERNEL_PIECES and _evaluate_pending(pieces):
            result = join_by_fast_path(cls, op, pieces, axis, stacked=stacked, mixed_dtypes=True)
        if result is not None:
            return result
    if types == {np.ndarray} and not stacked:
        return _join_arrays(cls, op, pieces, axis)
    if types != {np.ndarray} and is_join_on_tape(pieces):
        return None
    joined_pieces = join_equal_pieces(cls, op, pieces, types, axis, stacked=stacked, mixed_dtypes=True)
    if joined_pieces is not None:
        return joined_pieces
    return _join_rows(cls, op, pieces, axis, stacked) if types == {cls} and not axis else None


def _evaluate_pending(tensors: Sequence[TensorBase]) -> bool:
    """Compute the pending tensors among `tensors`, and return True. Return False, computing nothing, if none is pending.

    Also return False if a pending tensor is large or the join is on the tape: then kernels write the pieces into their places.
    """
    pending_nodes = [t.storage.node for t in tensors if t.storage.node.buffer is None]
    if not pending_nodes or max([node.recipe.nbytes for node in pending_nodes]) >= PARALLEL_COPY_BYTES or is_join_on_tape(tensors):
        return False
    with compute_lock:
        for node in pending_nodes:  # separately, as pending pieces often have equal signatures and share a plan
            realize(node)
    return True


def _join_arrays(cls: type[_T], op: str, arrays: Sequence[Array], axis: int | None) -> _T | None:
    """Return NumPy arrays joined along `axis`, or flattened for None, as a new tensor of class `cls` in the promoted dtype.

    Return None if a dtype is unsupported, if the arrays do not fit, or if their slices across `axis` have no elements. For too many
    elements raise the errors of `check_element_count`, naming `op`.
    """
    first_array, dtypes = arrays[0], dtypes_of(arrays)
    if not DTYPE_BY_NUMPY_DTYPE.keys() >= set(dtypes):
        return None
    total, dtype = sum([a.size for a in arrays]), result_type(*[DTYPE_BY_NUMPY_DTYPE[d] for d in dtypes])
    shape: Shape = (total,)
    if axis is not None:
        slice_size = prod(first_array.shape[:axis]) * prod(first_array.shape[axis + 1 :])
        if not slice_size or total % slice_size:
            return None
        shape = (*first_array.shape[:axis], total // slice_size, *first_array.shape[axis + 1 :])
    check_element_count(op, shape)
    buffer = allocate(total * dtype.itemsize, op, shape, dtype)
    try:
        np.concatenate(arrays, axis, out=buffer.typed_view(dtype)[:total].reshape(shape), casting="unsafe")
    except ValueError:  # the arrays do not fit; the caller raises the error
        return None
    return cls(Storage(make_data_node(buffer, shape, dtype)), Layout.contiguous(shape), dtype)


def _join_rows(cls: type[_T], op: str, tensors: Sequence[_T], axis: int | None, stacked: bool) -> _T | None:
    """Return tensors joined along their first axis, along a new first axis if `stacked`, or flattened for `axis` None.

    `axis` is 0 or None. Return None unless they fit and all are contiguous and in memory, for an empty result, for large pieces
    (`should_copy_by_kernels`), and for bfloat16 among several dtypes.
    """
    row = tensors[0].layout.shape[not stacked :]
    with compute_lock:
        flat_arrays, dtypes = _flat_arrays(tensors, None if axis is None else row, stacked)
        if not flat_arrays or (len(dtypes) > 1 and bfloat16 in dtypes):  # NumPy sees bfloat16 as integers
            return None
        dtype = result_type(*dtypes)
        total = sum(map(len, flat_arrays))
        nbytes = total * dtype.itemsize
        if not total or should_copy_by_kernels(nbytes, len(tensors)):
            return None
        shape = (total,) if axis is None else (len(tensors), *row) if stacked else (total // prod(row), *row)
        buffer = allocate(nbytes, op, shape, dtype)
        out = buffer.typed_view(dtype)[:total]
        if len(dtypes) > 1 or nbytes > MAX_EXAMINED_BLOCK_BYTES * len(flat_arrays):
            np.concatenate(flat_arrays, out=out, casting="unsafe")
        else:
            concatenate_bytes(flat_arrays, out)
    return cls(Storage(make_data_node(buffer, shape, dtype)), Layout.contiguous(shape), dtype)


def _flat_arrays(tensors: Sequence[TensorBase], row: Shape | None, stacked: bool) -> tuple[list[Array], list[DType]]:
    """Return the elements of tensors as 1-D arrays over their memory, and their distinct dtypes; two empty lists if a tensor does not fit.

    Each tensor must be contiguous and in memory, and have the shape `row` (no condition for None), after a first axis unless `stacked`.
    """
    arrays: list[Any] = []
    dtypes: dict[int, DType] = {}
    last_dtype: DType | None = None
    fitting: set[int] = set()  # ids of layouts that fit
    for t in tensors:
        layout, dtype, buffer = t.layout, t.dtype, t.storage.node.buffer
        if buffer is None:
            return [], []
        if id(layout) not in fitting:
            shape = layout.shape
            fits = row is None or (shape == row if stacked else shape and shape[1:] == row)
            if not fits or layout.strides != Layout.contiguous(shape).strides or layout.base or layout.tables:
                return [], []
            fitting.add(id(layout))
        if dtype is not last_dtype:
            last_dtype = dtypes[id(dtype)] = dtype
        elements: Any = buffer._cached_view if buffer._cached_dtype is dtype else buffer.typed_view(dtype)
        if len(elements) != layout.size:
            elements = elements[layout.offset : layout.offset + layout.size]
        arrays.append(elements)
    return arrays, list(dtypes.values())


def join_now(cls: type[_T], op: str, pieces: Sequence[Piece], axis: int | None, shape: Shape, dtype: DType) -> _T:
    """Return a new tensor of this shape and dtype, with the pieces evaluated and copied now.

    The pieces are joined along their axis `axis`, along a new last axis if `axis` is the number of their axes, or flattened for None. A
    `shape` with more axes splits the joined axis. The dtypes of the pieces must promote to `dtype`, or NumPy must cast to it as Tenxor
    does.
    """
    check_element_count(op, shape)
    size = prod(shape)
    with compute_lock:
        for piece in pieces:  # separately, as pending pieces often have equal signatures and share a plan
            if type(piece) is not np.ndarray and piece.storage.node.buffer is None:  # type: ignore[union-attr]
                realize(piece.storage.node)  # type: ignore[union-attr]
        buffer = allocate(size * dtype.itemsize, op, shape, dtype)
        if size:
            _copy_pieces(pieces, axis, buffer.typed_view(dtype)[:size], dtype)
    return cls(Storage(make_data_node(buffer, shape, dtype)), Layout.contiguous(shape), dtype)


def join_lazily(cls: type[_T], op: str, pieces: Sequence[Piece], axis: int | None, shape: Shape, dtype: DType) -> _T:
    """Return a new pending tensor of this shape and dtype. Kernels compute each piece directly into its place when the result is evaluated.

    The pieces, cast to `dtype`, are joined along `axis`, along a new last axis if `axis` is the number of their axes, or flattened for
    None.
    """
    tensors: list[Any] = [cls._from_numpy(p) if type(p) is np.ndarray else p for p in pieces]  # type: ignore[attr-defined]
    return _write_pieces(cls, op, tensors, piece_copies(tensors, axis, Layout.contiguous(shape)), shape, dtype)


def _write_pieces(cls: type[_T], op: str, tensors: Sequence[Any], moves: Iterable[PieceCopy], shape: Shape, dtype: DType) -> _T:
    """Return a new pending tensor of this shape and dtype, made of writes of `tensors`, one for each copy in `moves`.

    The copies must cover the result, whose other elements are undefined.
    """
    result: Any = cls._from_node(Node.of(EMPTY, shape, dtype))
    for k, read, target in moves:
        result._view(target)._write(tensors[k]._view(read), op)
    return result  # type: ignore[no-any-return]


def copy_regions(cls: type[_T], op: str, x: _T, moves: Sequence[PieceCopy], shape: Shape) -> _T:
    """Return a new tensor of the shape `shape`, filled with regions of `x`, copied now or, if large, by kernels on evaluation.

    Each of `moves` has the layout of a region of `x` and the layout of its place in the result; their `piece_index` is 0. The places must
    cover the result. With the tape on, the whole is a single step of the tape.
    """
    check_element_count(op, shape)
    if not is_single_tape_step([x]):
        return _copy_regions(cls, op, x, moves, shape)
    boxes = [x._view(read) for _, read, _ in moves]
    return join_as_tape_step(boxes, lambda: _copy_regions(cls, op, x, moves, shape), lambda result: [target for *_, target in moves])


def _copy_regions(cls: type[_T], op: str, x: _T, moves: Sequence[PieceCopy], shape: Shape) -> _T:
    """Return the result of `copy_regions`: pending if the regions are large or `x` is on the tape, otherwise copied now."""
    nbytes = prod(shape) * x.dtype.itemsize
    if is_join_on_tape([x]) or should_copy_by_kernels(nbytes, len(moves)):
        return _write_pieces(cls, op, [x], moves, shape, x.dtype)
    with compute_lock:
        realize(x.storage.node)
        buffer = allocate(prod(shape) * x.dtype.itemsize, op, shape, x.dtype)
        for _, read, target in moves:
            if read.size:
                buffer.strided_view(x.dtype, target)[...] = _as_arrays([x._view(read)], x.dtype)[0]
    return cls(Storage(make_data_node(buffer, shape, x.dtype)), Layout.contiguous(shape), x.dtype)


def piece_copies(pieces: Sequence[Any], axis: int | None, result_layout: Layout) -> Iterator[PieceCopy]:
    """Return an iterator over the copies that join pieces along `axis` of a tensor of layout `result_layout`, or flattened for None.

    Pieces with an axis less than the result get `axis` as a new axis of size 1. The sizes are not checked.
    """
    return _piece_copies((piece.layout for piece in pieces), axis, result_layout)


def _piece_copies(layouts: Iterable[Layout], axis: int | None, result_layout: Layout) -> Iterator[PieceCopy]:
    """Yield the copies of `piece_copies`, given the layouts of the pieces."""
    start, joined_axis = 0, axis or 0
    for k, layout in enumerate(layouts):
        if axis is None:
            layout = layout.reshape((layout.size,))
        elif layout.ndim < result_layout.ndim:
            layout = layout.expand_dims(axis)
        end = start + layout.shape[joined_axis]
        yield PieceCopy(k, layout, result_layout.index((*(slice(None),) * joined_axis, slice(start, end))))
        start = end


def _copy_pieces(pieces: Sequence[Piece], axis: int | None, out: Array, dtype: DType) -> None:
    """Copy the elements of the pieces, computed already, into the 1-D array `out`, cast to `dtype`.

    The pieces are joined along their axis `axis`, along a new last axis if `axis` is the number of their axes, or flattened for None.
    """
    inner: Shape = ()  # further axes of the result, beyond those of the pieces
    leading: tuple[slice, ...] = ()
    if axis is not None:
        shape = pieces[0].shape
        inner = (1,) if axis == len(shape) else ()
        out = out.reshape(*shape[:axis], -1, *shape[axis + 1 :])
        leading = (slice(None),) * axis
    start, batch_begin = 0, 0
    while batch_begin < len(pieces):
        batch_end, elements = batch_begin + 1, pieces[batch_begin].size
        while batch_end < min(batch_begin + MAX_BATCH_PIECES, len(pieces)) and elements + pieces[batch_end].size <= MAX_CHUNK_ELEMENTS:
            elements += pieces[batch_end].size
            batch_end += 1
        arrays = _as_arrays(pieces[batch_begin:batch_end], dtype, inner)
        end = start + sum([array.size if axis is None else array.shape[axis] for array in arrays])
        target = out[(*leading, slice(start, end))]
        if elements <= MAX_CHUNK_ELEMENTS or axis is None:
            np.concatenate(arrays, axis, out=target, casting="unsafe")
        else:
            for key in iterate_chunks(target.shape):
                np.copyto(target[key], arrays[0][key], casting="unsafe")
        start, batch_begin = end, batch_end


def _as_arrays(pieces: Sequence[Piece], dtype: DType, inner: Shape = ()) -> list[Array]:
    """Return the elements of pieces in memory as NumPy arrays, to be copied to memory of `dtype`.

    `inner`, () or (1,), are further axes of the arrays. The arrays are views of the memory where NumPy can represent them. Casts are left
    to NumPy, except from and to bfloat16: the elements of bfloat16 are decoded for another `dtype`, and others encoded as its bits.
    """
    arrays: list[Array] = []
    strides_by_layout: dict[tuple[DType, Shape], Shape] = {}  # strides in bytes, by dtype and strides in elements
    for piece in pieces:
        if type(piece) is np.ndarray:
            elements = piece if dtype is not bfloat16 else encode_elements(piece, dtype)
            arrays.append(elements.reshape(elements.shape + inner) if inner else elements)
            continue
        layout, piece_dtype = piece.layout, piece.dtype  # type: ignore[union-attr]
        if layout.base is not None or layout.tables is not None or layout.size == 0:
            elements = _copy_without_strides(piece).reshape(layout.shape + inner)  # type: ignore[arg-type]
        else:
            strides = strides_by_layout.get((piece_dtype, layout.strides))
            if strides is None:
                strides = strides_by_layout[piece_dtype, layout.strides] = (*[s * piece_dtype.itemsize for s in layout.strides], *inner)
            memory = piece.storage.node.buffer.typed_view(piece_dtype)  # type: ignore[union-attr]
            elements = np.ndarray(layout.shape + inner, piece_dtype.numpy, memory, layout.offset * piece_dtype.itemsize, strides)
        if piece_dtype is not dtype:
            if piece_dtype is bfloat16:
                elements = decode_elements(elements, piece_dtype)
            elif dtype is bfloat16:
                elements = encode_elements(elements, dtype)
        arrays.append(elements)
    return arrays


def _copy_without_strides(piece: TensorBase) -> Array:
    """Return a copy of the elements of a tensor in memory, in its shape, for a layout without strides, or of size 0."""
    layout, dtype = piece.layout, piece.dtype
    if layout.size == 0:
        return np.empty(layout.shape, dtype.numpy)
    if layout.size > MAX_OFFSET_READS:
        copied = piece._compute(_POSITIVE, piece).realize()
        return _as_arrays([copied], dtype)[0].copy()  # copied, since the memory of `copied` is reused when it is freed
    elements: Array = piece.storage.node.buffer.typed_view(dtype)[layout.offsets()]  # type: ignore[union-attr]
    return elements
