"""Calling NumPy on our memory: operands where they lie, results in blocks of the pool, batches shared by threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from threading import Event
from typing import Any

import numpy as np

from ..apart import droppable
from ..dtypes import DType
from ..errors import LinearAlgebraError, ShapeError
from ..layout import Layout, broadcast_shapes
from ..memory import allocate
from ..node import Node, data, untracked
from ..ops import OPS
from ..realize import realize
from ..records import NamedTuple
from ..sizes import int_of
from .loops import Loop, call, loop_of
from .machine import by_machine, each_once
from .share import is_alone, share
from .table import Array, HostOp, whole

Shape = tuple[int, ...]
MAX_SIZES = 4096  # sets of shapes whose results are remembered
LIGHT = 250_000  # nanoseconds: less than that is not worth a second thread
LONG = 30_000_000  # nanoseconds of one call of NumPy's, from which it runs apart, as no signal is heard in it
FELT = 100_000_000  # the same of large matrices, as who stops it feels no less: a new thread has its memory from the system each time
SMOOTH, BLOCKED = 8, 48  # matrices of 100 rows, and of 600, take so many times less than by what small ones take: LAPACK multiplies blocks
_POSITIVE = OPS["positive"]


class Operand(NamedTuple):
    """What is read: a node through a layout, in a dtype that NumPy has."""

    node: Node
    layout: Layout
    dtype: DType


def seen(operand: Operand) -> tuple[Node, Array]:
    """The node that is in memory, and its elements as NumPy sees them there, read-only: the operand's own memory, or a copy that a
    kernel makes where NumPy has no strides to say. The elements are there as long as the caller holds the node; nothing is pinned.
    """
    node, layout, dtype = operand
    if layout.base is not None or layout.tables is not None:
        return _elements(_copied(operand), Layout.contiguous(layout.shape), dtype)
    realize(node)
    return _elements(node, layout, dtype)


def _copied(operand: Operand) -> Node:
    """The same elements in row-major order, in memory that nobody else reads."""
    node, layout, dtype = operand
    with untracked():  # what becomes of it is no copy to derivatives
        found = Node.of(_POSITIVE, layout.shape, dtype, (node,), (layout,))
    realize(found)
    return found


def _elements(node: Node, layout: Layout, dtype: DType) -> tuple[Node, Array]:
    assert node.buffer is not None
    size = dtype.itemsize
    strides = [s * size for s in layout.strides]
    offset = layout.offset if layout.size else 0
    found: Array = np.ndarray(layout.shape, dtype.numpy, node.buffer.typed(dtype), offset * size, strides)
    found.flags.writeable = False
    return node, found


def _written(node: Node) -> tuple[Node, Array]:
    """A node that nobody else has, and its memory, to write into."""
    assert node.buffer is not None
    return node, np.ndarray(node.shape, node.dtype.numpy, node.buffer.typed(node.dtype))


def _memory(op: str, shape: Shape, dtype: DType) -> tuple[Node, Array]:
    """New memory for a result."""
    return _written(data(allocate(prod(shape) * dtype.itemsize, op, shape, dtype), shape, dtype))


def run(op: HostOp, operands: Sequence[Operand], sizes: Mapping[str, int], options: Mapping[str, Any]) -> list[Node]:
    """The results of an operation, in memory and in row-major order. `sizes` are those of letters that no operand has.

    ShapeError where batches do not broadcast, LinearAlgebraError where NumPy finds a matrix that it cannot go on with.
    """
    shapes = tuple([x.layout.shape for x in operands])
    batch, shapes, dtypes, each = _sizes(op, shapes, operands[0].dtype, tuple(sizes.items()))
    if op.in_place:
        results = [_written(_copied(operands[0]))]
        given = results
    else:
        given = [seen(x) for x in operands]
        results = [_memory(op.name, shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=False)]
    arrays = [array for _, array in given]
    if len(arrays) > 1:
        arrays = [
            array if whole(letters) else np.broadcast_to(array, (*batch, *array.shape[array.ndim - len(letters) :]))
            for array, letters in zip(arrays, op.operands, strict=True)
        ]
    over = Event() if _is_long(op, each, prod(batch)) else None
    loop = None if op.in_place or op.into or op.found else loop_of(op, [x.dtype for x in operands], options)
    if loop is not None and loop.wider and each > op.most:  # what NumPy does of them in parts
        loop = None

    def compute(held: object = given) -> list[Node]:  # for as long as it computes, which may be when nobody waits for it any more
        if op.found:
            return _found(op, arrays, dtypes, options)
        _compute(op, arrays, [array for _, array in results], batch, each, options, over, loop)
        return [node for node, _ in results]

    try:
        return compute() if over is None else droppable(compute, over.set)
    except np.linalg.LinAlgError as error:
        raise LinearAlgebraError(_culprit(op, arrays, batch, options, error)) from None


def _is_long(op: HostOp, each: int, count: int) -> bool:
    """Whether one call of NumPy's, of which each of so many takes so long by our estimate, is to run apart."""
    return _likely(op, each) * count > FELT if each > op.most else each > LONG


def _likely(op: HostOp, each: int) -> int:
    """The nanoseconds that one of those takes that small ones would take so many for: the fewer the larger matrices are. Of two powers of
    two, which sizes that remember are asked for, all between have the same speed.
    """
    if each <= op.most:
        return each
    power = 1 << int_of(each).bit_length() - 1
    if not power <= each < 2 * power:  # which is never so, but is what such sizes note down
        raise AssertionError(f"{each} is not between {power} and its double")
    rows = (1.5 * power / op.cost) ** (1 / len(op.weight))
    return 100 * each // int(100 * min(BLOCKED, max(SMOOTH, SMOOTH * rows / 100)))


def results_of(op: HostOp, shapes: tuple[Shape, ...], dtype: DType, sizes: Mapping[str, int]) -> tuple[tuple[Shape, ...], list[DType]]:
    """The shapes of the results, unless only NumPy finds them, and their dtypes. ShapeError where batches do not broadcast."""
    _, found, dtypes, _ = _sizes(op, shapes, dtype, tuple(sizes.items()))
    return found, dtypes


def work_of(op: HostOp, shapes: Sequence[Shape], dtype: DType, sizes: Mapping[str, int]) -> tuple[int, bool]:
    """The nanoseconds that all takes, and whether more threads than one might share it."""
    batch, _, _, each = _sizes(op, tuple(shapes), dtype, tuple(sizes.items()))
    count = prod(batch)
    return _likely(op, each) * count, count > 1 and each <= op.most and not is_alone()


def has_batches(op: HostOp, axes: Sequence[int]) -> bool:
    """Whether there is a batch, for operands with so many axes, and several of them may have one."""
    more = [n > len(letters) for n, letters in zip(axes, op.operands, strict=True) if not whole(letters)]
    return len(more) > 1 and any(more)


def of_few(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> Callable[..., list[Array] | None]:
    """What gives the results, with these dtypes and in row-major order, of an operation on arrays of few elements, which are nobody
    else's, and of which no more than one `has_batches`; None where NumPy finds a matrix that it cannot go on with.
    """
    call, own = partial(op.call, **options) if options else op.call, [d.numpy for d in dtypes]

    def in_place(x: Array) -> list[Array]:
        call(x)
        return [x]

    def one(*arrays: Array) -> list[Array]:
        return [np.asarray(call(*arrays), own[0], "C")]

    def others(*arrays: Array) -> list[Array] | None:
        try:
            if op.quiet:
                found = call(*arrays)
            else:
                with np.errstate(all="ignore"):
                    found = call(*arrays)
        except np.linalg.LinAlgError:
            return None
        results = found if isinstance(found, tuple) else (found,)
        return [np.asarray(array, d, "C") for array, d in zip(results, own, strict=True)]

    if op.in_place:
        return in_place
    return one if len(own) == 1 and op.quiet and not op.fails else others


@lru_cache(maxsize=MAX_SIZES)
def _sizes(
    op: HostOp, shapes: tuple[Shape, ...], dtype: DType, sizes: tuple[tuple[str, int], ...]
) -> tuple[Shape, tuple[Shape, ...], list[DType], int]:
    """The shape of the batch, the shapes of the results, if they are known, their dtypes, and the nanoseconds that each takes."""
    known, batches = dict(sizes), []
    for shape, letters in zip(shapes, op.operands, strict=True):
        own = len(shape) - len(letters.lstrip("="))
        known.update(zip(letters.lstrip("="), shape[own:], strict=True))
        if not whole(letters):
            batches.append(shape[:own])
    try:
        batch = batches[0] if len(batches) == 1 else broadcast_shapes(*batches)
    except ShapeError as error:
        given = ", ".join(map(str, shapes))
        raise ShapeError(f"{op.name}: shapes {given} do not fit: before the last axes, {error}") from None
    results = () if op.found else tuple([(*batch, *[known[x] for x in letters]) for letters in op.results])
    return batch, results, op.dtypes_of(dtype), op.cost * prod([known[x] for x in op.weight])


def _compute(
    op: HostOp,
    arrays: list[Array],
    outs: list[Array],
    batch: Shape,
    each: int,
    options: Mapping[str, Any],
    over: Event | None,
    loop: Loop | None = None,
) -> None:
    """All at once where it is little, else in parts of the longest axis of the batch, until it is `over`. `each` takes so many
    nanoseconds. A `loop` does the same where it lies.
    """
    work = each * prod(batch)
    if work < LIGHT or max(batch, default=1) == 1 or (each > op.most and over is None):
        _part(op, arrays, outs, options, loop)
        return
    axis = max(range(len(batch)), key=lambda k: batch[k])

    def part(begin: int, end: int) -> None:
        key = (*(slice(None),) * axis, slice(begin, end))
        some = [array if whole(letters) else array[key] for array, letters in zip(arrays, op.operands, strict=True)]
        _part(op, some, [array[key] for array in outs], options, loop)

    if each <= op.most:
        share(part, batch[axis], work, over)
        return
    assert over is not None
    for k in range(batch[axis]):  # one after the other, shared by NumPy's own threads
        if not over.is_set():
            part(k, k + 1)


def _part(op: HostOp, arrays: Sequence[Array], outs: Sequence[Array], options: Mapping[str, Any], loop: Loop | None) -> None:
    if (loop is not None and call(loop, arrays, outs)) or by_machine(op, arrays, outs, options):
        return
    with np.errstate(all="ignore"):  # infinities and NaN are results like others, here as in kernels
        if op.in_place:
            op.call(*arrays, **options)
        elif op.into:
            op.call(*arrays, out=outs[0] if len(outs) == 1 else tuple(outs), **options)
        elif len(outs) == 1:
            np.copyto(outs[0], op.call(*arrays, **options))
        else:
            for out, found in zip(outs, op.call(*arrays, **options), strict=True):
                np.copyto(out, found)


def _found(op: HostOp, arrays: Sequence[Array], dtypes: Sequence[DType], options: Mapping[str, Any]) -> list[Node]:
    """Results whose sizes nobody knew."""
    nodes = list[Node]()
    if op.name == "unique_values":

        def memory(size: int) -> Array:
            node, where = _memory(op.name, (size,), dtypes[0])
            nodes.append(node)
            return where

        if each_once(arrays[0], memory):
            return nodes
    found = op.call(*arrays, **options)
    for array, dtype in zip(found if len(op.results) > 1 else (found,), dtypes, strict=True):
        node, its = _memory(op.name, array.shape, dtype)
        np.copyto(its, array)
        nodes.append(node)
    return nodes


_WHY = {
    "solve": "is singular: no or many x solve a @ x = b; tx.linalg.lstsq and tx.linalg.pinv take such matrices",
    "solve_triangular": "has 0 on its diagonal, so it is singular; tx.linalg.lstsq takes such matrices",
    **dict.fromkeys(("lstsq", "lstsq_wide"), "has no singular values, as LAPACK says; look for NaN and infinities, tx.isfinite(x).all()"),
    "inv": "is singular and has no inverse; tx.linalg.pinv gives its pseudo-inverse",
    "cholesky": "is not positive definite; tx.linalg.eigh takes any symmetric or Hermitian matrix",
}


def _culprit(
    op: HostOp, arrays: Sequence[Array], batch: Shape, options: Mapping[str, Any], error: Exception
) -> str:
    """What is wrong with which matrix: the first that NumPy cannot go on with alone."""
    why = _WHY.get(op.name, f"has no result, as NumPy says: {error}; look for NaN and infinities, tx.isfinite(x).all()")
    for key in np.ndindex(*batch) if batch else ():
        try:
            op.call(*[array[key] for array in arrays], **options)
        except np.linalg.LinAlgError:
            return f"{op.name}: the matrix at {key} {why}"
    return f"{op.name}: {'a' if batch else 'the'} matrix {why}"
