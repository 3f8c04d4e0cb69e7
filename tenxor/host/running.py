"""Execution of NumPy's functions on our memory: operands are read in place, results go to the memory pool, threads share batches."""

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
MAX_CACHED_SIZES = 4096  # sets of shapes with cached results
LIGHT = 250_000  # nanoseconds of work up to which a second thread does not pay
LONG = 30_000_000  # nanoseconds of a NumPy call from which a worker thread makes the call, because signals are not delivered meanwhile
# the same limit for large matrices, where a delay of Ctrl-C matters less: a new thread gets its memory from the system
LARGE_MATRIX_LONG_NS = 100_000_000
# speedup over the estimate from small matrices for 100 rows, and for 600: LAPACK multiplies blocks
SPEEDUP_100_ROWS, SPEEDUP_600_ROWS = 8, 48
_POSITIVE = OPS["positive"]


class Operand(NamedTuple):
    """An operand of NumPy's: a node read through a layout, in a dtype known to NumPy."""

    node: Node
    layout: Layout
    dtype: DType


def seen(operand: Operand) -> tuple[Node, Array]:
    """Return an operand as a node in memory and a read-only NumPy array of its elements. Pending nodes are computed.

    The array is the operand's own memory, or a copy made by a kernel if the layout has no strides (tables or view chains). It stays valid
    while the caller holds the node; the memory is not marked as externally shared.
    """
    node, layout, dtype = operand
    if layout.base is not None or layout.tables is not None:
        return _view_elements(_copy_operand(operand), Layout.contiguous(layout.shape), dtype)
    realize(node)
    return _view_elements(node, layout, dtype)


def _copy_operand(operand: Operand) -> Node:
    """Return the elements of an operand in row-major order, as a node in new memory without other references."""
    node, layout, dtype = operand
    with untracked():  # the copy is not part of the tape
        copy_node = Node.of(_POSITIVE, layout.shape, dtype, (node,), (layout,))
    realize(copy_node)
    return copy_node


def _view_elements(node: Node, layout: Layout, dtype: DType) -> tuple[Node, Array]:
    """Return a node in memory and a read-only NumPy array of its elements through a layout."""
    assert node.buffer is not None
    elements = node.buffer.strided_view(dtype, layout)
    elements.flags.writeable = False
    return node, elements


def _view_writable(node: Node) -> tuple[Node, Array]:
    """Return a node without outside references, and the node's memory as a writable NumPy array."""
    assert node.buffer is not None
    return node, np.ndarray(node.shape, node.dtype.numpy, node.buffer.typed(node.dtype))


def _allocate_result(op: str, shape: Shape, dtype: DType) -> tuple[Node, Array]:
    """Return new memory for a result of operation `op`, as a node and a writable NumPy array."""
    return _view_writable(data(allocate(prod(shape) * dtype.itemsize, op, shape, dtype), shape, dtype))


def run(op: HostOp, operands: Sequence[Operand], sizes: Mapping[str, int], options: Mapping[str, Any]) -> list[Node]:
    """Return the results of an operation, in memory and in row-major order. `sizes` are the sizes of letters that no operand has.

    Raise ShapeError if batches do not broadcast, and LinearAlgebraError for a matrix without a result.
    """
    shapes = tuple([x.layout.shape for x in operands])
    batch, shapes, dtypes, element_ns = _infer_results(op, shapes, operands[0].dtype, tuple(sizes.items()))
    if op.in_place:
        results = [_view_writable(_copy_operand(operands[0]))]
        inputs = results
    else:
        inputs = [seen(x) for x in operands]
        results = [_allocate_result(op.name, shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=False)]
    arrays = [array for _, array in inputs]
    if len(arrays) > 1:
        arrays = [
            array if whole(letters) else np.broadcast_to(array, (*batch, *array.shape[array.ndim - len(letters) :]))
            for array, letters in zip(arrays, op.operands, strict=True)
        ]
    stop = Event() if _is_long(op, element_ns, prod(batch)) else None
    loop = None if op.in_place or op.into or op.found else loop_of(op, [x.dtype for x in operands], options)
    if loop is not None and loop.wider and element_ns > op.most:  # too large to convert as a whole: NumPy computes it in parts
        loop = None

    def compute(held: object = inputs) -> list[Node]:  # holds the operands during the computation, even after the caller has left
        if op.found:
            return _compute_unsized(op, arrays, dtypes, options)
        _compute_batch(op, arrays, [array for _, array in results], batch, element_ns, options, stop, loop)
        return [node for node, _ in results]

    try:
        return compute() if stop is None else droppable(compute, stop.set)
    except np.linalg.LinAlgError as error:
        raise LinearAlgebraError(_describe_failure(op, arrays, batch, options, error)) from None


def _is_long(op: HostOp, element_ns: int, count: int) -> bool:
    """Return whether a NumPy call is long enough for a worker thread.

    `element_ns` is the estimate per batch element in nanoseconds, and `count` the number of batch elements.
    """
    return _estimate_ns(op, element_ns) * count > LARGE_MATRIX_LONG_NS if element_ns > op.most else element_ns > LONG


def _estimate_ns(op: HostOp, element_ns: int) -> int:
    """Return the expected nanoseconds per batch element, given `element_ns`, the estimate extrapolated from small matrices.

    Larger matrices are faster than the estimate. The speed is constant between two powers of two, so symbolic sizes need only one
    comparison.
    """
    if element_ns <= op.most:
        return element_ns
    power = 1 << int_of(element_ns).bit_length() - 1
    if not power <= element_ns < 2 * power:  # always false, but the comparison records a guard for symbolic sizes
        raise AssertionError(f"{element_ns} is not between {power} and its double")
    rows = (1.5 * power / op.cost) ** (1 / len(op.weight))
    return 100 * element_ns // int(100 * min(SPEEDUP_600_ROWS, max(SPEEDUP_100_ROWS, SPEEDUP_100_ROWS * rows / 100)))


def results_of(op: HostOp, shapes: tuple[Shape, ...], dtype: DType, sizes: Mapping[str, int]) -> tuple[tuple[Shape, ...], list[DType]]:
    """Return the shapes of the results, empty if the values decide them, and the dtypes. Raise ShapeError if batches do not broadcast."""
    _, result_shapes, dtypes, _ = _infer_results(op, shapes, dtype, tuple(sizes.items()))
    return result_shapes, dtypes


def work_of(op: HostOp, shapes: Sequence[Shape], dtype: DType, sizes: Mapping[str, int]) -> tuple[int, bool]:
    """Return the estimated nanoseconds of an operation, and whether several threads might share it."""
    batch, _, _, element_ns = _infer_results(op, tuple(shapes), dtype, tuple(sizes.items()))
    count = prod(batch)
    return _estimate_ns(op, element_ns) * count, count > 1 and element_ns <= op.most and not is_alone()


def has_batches(op: HostOp, axes: Sequence[int]) -> bool:
    """Return whether several operands may have a batch, and at least one has, given the number of axes of each operand."""
    have_batches = [n > len(letters) for n, letters in zip(axes, op.operands, strict=True) if not whole(letters)]
    return len(have_batches) > 1 and any(have_batches)


def of_few(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> Callable[..., list[Array] | None]:
    """Return a function that computes an operation on small NumPy arrays without outside references, at most one of them with a batch.

    The function returns a list of row-major arrays of the given dtypes, or None for a matrix without a result.
    """
    call, numpy_dtypes = partial(op.call, **options) if options else op.call, [d.numpy for d in dtypes]

    def compute_in_place(x: Array) -> list[Array]:
        call(x)
        return [x]

    def compute_one(*arrays: Array) -> list[Array]:
        return [np.asarray(call(*arrays), numpy_dtypes[0], "C")]

    def compute_all(*arrays: Array) -> list[Array] | None:
        try:
            if op.quiet:
                computed = call(*arrays)
            else:
                with np.errstate(all="ignore"):
                    computed = call(*arrays)
        except np.linalg.LinAlgError:
            return None
        results = computed if isinstance(computed, tuple) else (computed,)
        return [np.asarray(array, d, "C") for array, d in zip(results, numpy_dtypes, strict=True)]

    if op.in_place:
        return compute_in_place
    return compute_one if len(numpy_dtypes) == 1 and op.quiet and not op.fails else compute_all


@lru_cache(maxsize=MAX_CACHED_SIZES)
def _infer_results(
    op: HostOp, shapes: tuple[Shape, ...], dtype: DType, sizes: tuple[tuple[str, int], ...]
) -> tuple[Shape, tuple[Shape, ...], list[DType], int]:
    """Return the shape of the batch, the shapes of the results, their dtypes, and the estimated nanoseconds per batch element.

    The shapes of the results are an empty tuple if the values decide them. Raise ShapeError if batches do not broadcast.
    """
    letter_sizes, batches = dict(sizes), []
    for shape, letters in zip(shapes, op.operands, strict=True):
        batch_ndim = len(shape) - len(letters.lstrip("="))
        letter_sizes.update(zip(letters.lstrip("="), shape[batch_ndim:], strict=True))
        if not whole(letters):
            batches.append(shape[:batch_ndim])
    try:
        batch = batches[0] if len(batches) == 1 else broadcast_shapes(*batches)
    except ShapeError as error:
        shape_list = ", ".join(map(str, shapes))
        raise ShapeError(f"{op.name}: shapes {shape_list} do not fit: before the last axes, {error}") from None
    results = () if op.found else tuple([(*batch, *[letter_sizes[x] for x in letters]) for letters in op.results])
    return batch, results, op.dtypes_of(dtype), op.cost * prod([letter_sizes[x] for x in op.weight])


def _compute_batch(
    op: HostOp,
    arrays: list[Array],
    outs: list[Array],
    batch: Shape,
    element_ns: int,
    options: Mapping[str, Any],
    stop: Event | None,
    loop: Loop | None = None,
) -> None:
    """Write the results of an operation into `outs`: at once if the work is small, else in parts of the longest axis of the batch.

    `element_ns` is the estimate per batch element in nanoseconds. No part starts after `stop` is set. `loop` is a C function for the
    operation, or None.
    """
    work = element_ns * prod(batch)
    if work < LIGHT or max(batch, default=1) == 1 or (element_ns > op.most and stop is None):
        _compute_part(op, arrays, outs, options, loop)
        return
    axis = max(range(len(batch)), key=lambda k: batch[k])

    def compute_range(begin: int, end: int) -> None:
        key = (*(slice(None),) * axis, slice(begin, end))
        range_arrays = [array if whole(letters) else array[key] for array, letters in zip(arrays, op.operands, strict=True)]
        _compute_part(op, range_arrays, [array[key] for array in outs], options, loop)

    if element_ns <= op.most:
        share(compute_range, batch[axis], work, stop)
        return
    assert stop is not None
    for k in range(batch[axis]):  # one at a time: NumPy's own threads share each
        if not stop.is_set():
            compute_range(k, k + 1)


def _compute_part(op: HostOp, arrays: Sequence[Array], outs: Sequence[Array], options: Mapping[str, Any], loop: Loop | None) -> None:
    """Compute one part: by the C function `loop`, by generated code, or by NumPy."""
    if (loop is not None and call(loop, arrays, outs)) or by_machine(op, arrays, outs, options):
        return
    with np.errstate(all="ignore"):  # infinities and NaN are ordinary results, as in kernels
        if op.in_place:
            op.call(*arrays, **options)
        elif op.into:
            op.call(*arrays, out=outs[0] if len(outs) == 1 else tuple(outs), **options)
        elif len(outs) == 1:
            np.copyto(outs[0], op.call(*arrays, **options))
        else:
            for out, result in zip(outs, op.call(*arrays, **options), strict=True):
                np.copyto(out, result)


def _compute_unsized(op: HostOp, arrays: Sequence[Array], dtypes: Sequence[DType], options: Mapping[str, Any]) -> list[Node]:
    """Return the results of an operation whose result sizes depend on the values."""
    nodes = list[Node]()
    if op.name == "unique_values":

        def allocate_result(size: int) -> Array:
            node, array = _allocate_result(op.name, (size,), dtypes[0])
            nodes.append(node)
            return array

        if each_once(arrays[0], allocate_result):
            return nodes
    computed = op.call(*arrays, **options)
    for array, dtype in zip(computed if len(op.results) > 1 else (computed,), dtypes, strict=True):
        node, result = _allocate_result(op.name, array.shape, dtype)
        np.copyto(result, array)
        nodes.append(node)
    return nodes


_FAILURE_REASONS = {
    "solve": "is singular: no or many x solve a @ x = b; tx.linalg.lstsq and tx.linalg.pinv take such matrices",
    "solve_triangular": "has 0 on its diagonal, so it is singular; tx.linalg.lstsq takes such matrices",
    **dict.fromkeys(("lstsq", "lstsq_wide"), "has no singular values, as LAPACK says; look for NaN and infinities, tx.isfinite(x).all()"),
    "inv": "is singular and has no inverse; tx.linalg.pinv gives its pseudo-inverse",
    "cholesky": "is not positive definite; tx.linalg.eigh takes any symmetric or Hermitian matrix",
}


def _describe_failure(
    op: HostOp, arrays: Sequence[Array], batch: Shape, options: Mapping[str, Any], error: Exception
) -> str:
    """Return the error message for a matrix without a result, naming the first matrix of the batch that fails alone."""
    reason = _FAILURE_REASONS.get(op.name, f"has no result, as NumPy says: {error}; look for NaN and infinities, tx.isfinite(x).all()")
    for key in np.ndindex(*batch) if batch else ():
        try:
            op.call(*[array[key] for array in arrays], **options)
        except np.linalg.LinAlgError:
            return f"{op.name}: the matrix at {key} {reason}"
    return f"{op.name}: {'a' if batch else 'the'} matrix {reason}"
