"""Execution of NumPy's functions on our memory: operands are read in place, results go to the memory pool, threads share batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from threading import Event
from typing import Any

import numpy as np

from .._utils.cache_registry import register
from .._utils.interruptible import run_abandonable
from .._utils.records import NamedTuple
from ..codegen.threads.thread_count import num_threads
from ..dtypes import DType
from ..errors import LinearAlgebraError, ShapeError
from ..graph.node import Node, disable_tape, make_data_node
from ..layout import Layout, broadcast_shapes
from ..memory.buffer import allocate
from ..ops import OPS
from ..runtime.realize import realize
from ..symbolic.symint import peek_value
from .batch_threads import run_in_threads
from .generated_searches import try_generated_code, write_distinct
from .host_op_table import Array, HostOp, is_unbatched
from .ufunc_loops import UfuncLoop, call_loop, find_verified_loop

Shape = tuple[int, ...]
MAX_CACHED_SIZES = 4096  # sets of shapes with cached results
MAX_ONE_THREAD_NS = 250_000  # nanoseconds of work up to which a second thread does not pay
# Nanoseconds of a NumPy call from which a worker thread makes the call, because signals are not delivered meanwhile
MIN_LONG_CALL_NS = 30_000_000
# the same limit for large matrices, where a delay of Ctrl-C matters less: a new thread gets its memory from the system
MIN_LONG_MATRIX_NS = 100_000_000
# speedup over the estimate from small matrices for 100 rows, and for 600: LAPACK multiplies blocks
SPEEDUP_100_ROWS, SPEEDUP_600_ROWS = 8, 48
_COPY_OP = OPS["positive"]


class HostOperand(NamedTuple):
    """An operand of a host operation: a node read through a layout, in a dtype known to NumPy."""

    node: Node
    layout: Layout
    dtype: DType


def view_operand(operand: HostOperand) -> tuple[Node, Array]:
    """Return an operand as a node in memory, and a read-only NumPy array of its elements. A pending node is computed.

    The array is the operand's own memory, or a copy made by a kernel if the layout has no strides (tables or view chains). The array stays
    valid while the caller holds the node; the memory is not marked as externally shared.
    """
    node, layout, dtype = operand
    if layout.base is not None or layout.tables is not None:
        return _view_elements(_copy_operand(operand), Layout.contiguous(layout.shape), dtype)
    realize(node)
    return _view_elements(node, layout, dtype)


def _copy_operand(operand: HostOperand) -> Node:
    """Return the elements of `operand`, read through its layout, in row-major order, as a node in new memory without other references."""
    node, layout, dtype = operand
    with disable_tape():  # the copy is not part of the tape
        copy_node = Node.of(_COPY_OP, layout.shape, dtype, (node,), (layout,))
    realize(copy_node)
    return copy_node


def _view_elements(node: Node, layout: Layout, dtype: DType) -> tuple[Node, Array]:
    """Return `node` and a read-only NumPy array, without a copy, of the elements read through `layout`, as elements of `dtype`.

    `node` must be in memory, `dtype` known to NumPy, and `layout` have strides: no tables, and no view chain.
    """
    assert node.buffer is not None
    elements = node.buffer.strided_view(dtype, layout)
    elements.flags.writeable = False
    return node, elements


def _view_writable(node: Node) -> tuple[Node, Array]:
    """Return `node`, and its memory as a writable NumPy array. The node must be in memory, row-major, and without further references."""
    assert node.buffer is not None
    return node, np.ndarray(node.shape, node.dtype.numpy, node.buffer.typed_view(node.dtype))


def _allocate_result(op: str, shape: Shape, dtype: DType) -> tuple[Node, Array]:
    """Return new memory of `shape` and `dtype` for a result of operation `op`, as a node and a writable NumPy array. Errors name `op`."""
    return _view_writable(make_data_node(allocate(prod(shape) * dtype.itemsize, op, shape, dtype), shape, dtype))


def run_host_op(op: HostOp, operands: Sequence[HostOperand], sizes: Mapping[str, int], options: Mapping[str, Any]) -> list[Node]:
    """Return the results of an operation as new nodes, in memory and in row-major order. `options` are passed to `op.compute` by name.

    `sizes` maps letters of the signature missing in the operands to sizes (see `host_op_table.py`). Raise ShapeError if batches do not
    broadcast, and LinearAlgebraError for a matrix without a result.
    """
    shapes = tuple([x.layout.shape for x in operands])
    batch, shapes, dtypes, element_ns = _infer_results(op, shapes, operands[0].dtype, tuple(sizes.items()))
    if op.overwrites_operand:
        results = [_view_writable(_copy_operand(operands[0]))]
        inputs = results
    else:
        inputs = [view_operand(x) for x in operands]
        results = [_allocate_result(op.name, shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=False)]
    arrays = [array for _, array in inputs]
    if len(arrays) > 1:
        arrays = [
            array if is_unbatched(letters) else np.broadcast_to(array, (*batch, *array.shape[array.ndim - len(letters) :]))
            for array, letters in zip(arrays, op.operand_axes, strict=True)
        ]
    stop = Event() if _is_long(op, element_ns, prod(batch)) else None
    loop = (
        None
        if op.overwrites_operand or op.takes_out or op.has_unsized_results
        else find_verified_loop(op, [x.dtype for x in operands], options)
    )
    # Too large to convert as a whole: NumPy computes it in parts
    if loop is not None and loop.is_widened and element_ns > op.max_shared_ns:
        loop = None

    def compute(held: object = inputs) -> list[Node]:  # holds the operands during the computation, even after the caller has left
        if op.has_unsized_results:
            return _compute_unsized(op, arrays, dtypes, options)
        _compute_batch(op, arrays, [array for _, array in results], batch, element_ns, options, stop, loop)
        return [node for node, _ in results]

    try:
        return compute() if stop is None else run_abandonable(compute, stop.set)
    except np.linalg.LinAlgError as error:
        raise LinearAlgebraError(_describe_failure(op, arrays, batch, options, error)) from None


def _is_long(op: HostOp, element_ns: int, count: int) -> bool:
    """Return whether an operation is so long that a worker thread makes the call, while the calling thread handles signals.

    `element_ns` is the estimate per batch element in nanoseconds, and `count` the number of batch elements. For large matrices, above
    `op.max_shared_ns`, the whole batch must take more than `MIN_LONG_MATRIX_NS`. For smaller ones, a single element must take more than
    `MIN_LONG_CALL_NS`, as signals are handled between parts of the batch.
    """
    return _estimate_ns(op, element_ns) * count > MIN_LONG_MATRIX_NS if element_ns > op.max_shared_ns else element_ns > MIN_LONG_CALL_NS


def _estimate_ns(op: HostOp, element_ns: int) -> int:
    """Return the expected nanoseconds per batch element, given `element_ns`, the estimate extrapolated from small matrices.

    Up to `op.max_shared_ns`, this is `element_ns`; larger matrices are up to `SPEEDUP_600_ROWS` times faster. The speed is constant between
    two powers of two, so symbolic sizes need only one comparison.
    """
    if element_ns <= op.max_shared_ns:
        return element_ns
    power = 1 << peek_value(element_ns).bit_length() - 1
    if not power <= element_ns < 2 * power:  # always false, but the comparison records a guard for symbolic sizes
        raise AssertionError(f"{element_ns} is not between {power} and its double")
    rows = (1.5 * power / op.unit_ns) ** (1 / len(op.cost_axes))
    return 100 * element_ns // int(100 * min(SPEEDUP_600_ROWS, max(SPEEDUP_100_ROWS, SPEEDUP_100_ROWS * rows / 100)))


def infer_result_types(
    op: HostOp, shapes: tuple[Shape, ...], dtype: DType, sizes: Mapping[str, int]
) -> tuple[tuple[Shape, ...], list[DType]]:
    """Return the shapes and the dtypes of the results of `op` for operands of `shapes`, the first of dtype `dtype`.

    The shapes are an empty tuple if sizes of results depend on the values. `sizes` are as in `run_host_op`. Raise ShapeError if batches do
    not broadcast.
    """
    _, result_shapes, dtypes, _ = _infer_results(op, shapes, dtype, tuple(sizes.items()))
    return result_shapes, dtypes


def estimate_work(op: HostOp, shapes: Sequence[Shape], dtype: DType, sizes: Mapping[str, int]) -> tuple[int, bool]:
    """Return the estimated nanoseconds of `op` on operands of `shapes`, and whether several threads might share the batch.

    `dtype` and `sizes` are as in `infer_result_types`.
    """
    batch, _, _, element_ns = _infer_results(op, tuple(shapes), dtype, tuple(sizes.items()))
    count = prod(batch)
    return _estimate_ns(op, element_ns) * count, count > 1 and element_ns <= op.max_shared_ns and num_threads() > 1


def has_several_batches(op: HostOp, axes: Sequence[int]) -> bool:
    """Return whether at least two operands of `op` may have a batch, and at least one has. `axes` has the number of axes of each operand.

    An operand has a batch if it has more axes than the signature of `op` names.
    """
    have_batches = [n > len(letters) for n, letters in zip(axes, op.operand_axes, strict=True) if not is_unbatched(letters)]
    return len(have_batches) > 1 and any(have_batches)


def make_small_call(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> Callable[..., list[Array] | None]:
    """Return a function that computes an operation on small NumPy arrays, which must have no further references.

    At most one of the arrays may have a batch. The function returns a list of row-major arrays of the dtypes `dtypes`, the dtypes of the
    results, or None for a matrix without a result. An operation with `overwrites_operand` overwrites and returns the operand. `options` are
    passed to `op.compute` by name.
    """
    call, numpy_dtypes = partial(op.compute, **options) if options else op.compute, [d.numpy for d in dtypes]

    def compute_in_place(x: Array) -> list[Array]:
        call(x)
        return [x]

    def compute_one(*arrays: Array) -> list[Array]:
        return [np.asarray(call(*arrays), numpy_dtypes[0], "C")]

    def compute_all(*arrays: Array) -> list[Array] | None:
        try:
            if op.is_quiet:
                computed = call(*arrays)
            else:
                with np.errstate(all="ignore"):
                    computed = call(*arrays)
        except np.linalg.LinAlgError:
            return None
        results = computed if isinstance(computed, tuple) else (computed,)
        return [np.asarray(array, d, "C") for array, d in zip(results, numpy_dtypes, strict=True)]

    if op.overwrites_operand:
        return compute_in_place
    return compute_one if len(numpy_dtypes) == 1 and op.is_quiet and not op.may_fail else compute_all


@register("results of host operations", "the shapes and dtypes of results that NumPy computes, by operands")
@lru_cache(maxsize=MAX_CACHED_SIZES)
def _infer_results(
    op: HostOp, shapes: tuple[Shape, ...], dtype: DType, sizes: tuple[tuple[str, int], ...]
) -> tuple[Shape, tuple[Shape, ...], list[DType], int]:
    """Return four facts about `op`: the shape of the batch, the shapes of the results, their dtypes, and the estimated nanoseconds per
    batch element.

    `shapes` are the shapes of the operands, `dtype` is the dtype of the first, and `sizes` holds pairs of a missing letter and a size. The
    shapes of the results are an empty tuple if sizes depend on the values. Raise ShapeError if batches do not broadcast.
    """
    letter_sizes, batches = dict(sizes), []
    for shape, letters in zip(shapes, op.operand_axes, strict=True):
        batch_ndim = len(shape) - len(letters.lstrip("="))
        letter_sizes.update(zip(letters.lstrip("="), shape[batch_ndim:], strict=True))
        if not is_unbatched(letters):
            batches.append(shape[:batch_ndim])
    try:
        batch = batches[0] if len(batches) == 1 else broadcast_shapes(*batches)
    except ShapeError as error:
        shape_list = ", ".join(map(str, shapes))
        raise ShapeError(f"{op.name}: shapes {shape_list} do not fit: before the last axes, {error.fact}") from None
    results = () if op.has_unsized_results else tuple([(*batch, *[letter_sizes[x] for x in letters]) for letters in op.result_axes])
    return batch, results, op.infer_dtypes(dtype), op.unit_ns * prod([letter_sizes[x] for x in op.cost_axes])


def _compute_batch(
    op: HostOp,
    arrays: list[Array],
    outs: list[Array],
    batch: Shape,
    element_ns: int,
    options: Mapping[str, Any],
    stop: Event | None,
    loop: UfuncLoop | None = None,
) -> None:
    """Write the results of an operation into `outs`: at once if the work is small, otherwise in parts of the longest axis of the batch.

    Small is less than `MAX_ONE_THREAD_NS`. Threads share the parts unless an element takes more than `op.max_shared_ns`. `arrays` are the
    operands, broadcast to the shape `batch` unless they never have a batch. `element_ns` is the estimate per batch element in nanoseconds.
    `options` are passed to `op.compute` by name. No part starts after `stop` is set. `loop` is a C function for the operation, or None.
    """
    work = element_ns * prod(batch)
    if work < MAX_ONE_THREAD_NS or max(batch, default=1) == 1 or (element_ns > op.max_shared_ns and stop is None):
        _compute_part(op, arrays, outs, options, loop)
        return
    axis = max(range(len(batch)), key=lambda k: batch[k])

    def compute_range(begin: int, end: int) -> None:
        key = (*(slice(None),) * axis, slice(begin, end))
        range_arrays = [array if is_unbatched(letters) else array[key] for array, letters in zip(arrays, op.operand_axes, strict=True)]
        _compute_part(op, range_arrays, [array[key] for array in outs], options, loop)

    if element_ns <= op.max_shared_ns:
        run_in_threads(compute_range, batch[axis], work, stop)
        return
    assert stop is not None
    for k in range(batch[axis]):  # one at a time: NumPy's own threads share each
        if not stop.is_set():
            compute_range(k, k + 1)


def _compute_part(op: HostOp, arrays: Sequence[Array], outs: Sequence[Array], options: Mapping[str, Any], loop: UfuncLoop | None) -> None:
    """Write the results for the operands `arrays` into `outs`: by the C function `loop` if possible, by generated code, or by NumPy.

    An operation with `overwrites_operand` writes to the first array instead. `options` are passed to `op.compute` by name.
    """
    if (loop is not None and call_loop(loop, arrays, outs)) or try_generated_code(op, arrays, outs, options):
        return
    with np.errstate(all="ignore"):  # infinities and NaN are ordinary results, as in kernels
        if op.overwrites_operand:
            op.compute(*arrays, **options)
        elif op.takes_out:
            op.compute(*arrays, out=outs[0] if len(outs) == 1 else tuple(outs), **options)
        elif len(outs) == 1:
            np.copyto(outs[0], op.compute(*arrays, **options))
        else:
            for out, result in zip(outs, op.compute(*arrays, **options), strict=True):
                np.copyto(out, result)


def _compute_unsized(op: HostOp, arrays: Sequence[Array], dtypes: Sequence[DType], options: Mapping[str, Any]) -> list[Node]:
    """Return the results, as new nodes in memory, of an operation whose result sizes depend on the values.

    `arrays` are the operands, `dtypes` the dtypes of the results, and `options` are passed to `op.compute` by name.
    """
    nodes = list[Node]()
    if op.name == "unique_values":

        def allocate_result(size: int) -> Array:
            node, array = _allocate_result(op.name, (size,), dtypes[0])
            nodes.append(node)
            return array

        if write_distinct(arrays[0], allocate_result):
            return nodes
    computed = op.compute(*arrays, **options)
    for array, dtype in zip(computed if len(op.result_axes) > 1 else (computed,), dtypes, strict=True):
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


def _describe_failure(op: HostOp, arrays: Sequence[Array], batch: Shape, options: Mapping[str, Any], error: Exception) -> str:
    """Return the message for `error`, raised by NumPy for a matrix without a result.

    The message names the operation, the reason, and the index in `batch` of the first matrix for which the operation fails alone, if there
    is one. `arrays` are broadcast to `batch`, the shape of the axes in front. `options` are passed to `op.compute` by name.
    """
    reason = _FAILURE_REASONS.get(op.name, f"has no result, as NumPy says: {error}; look for NaN and infinities, tx.isfinite(x).all()")
    for key in np.ndindex(*batch) if batch else ():
        try:
            op.compute(*[array[key] for array in arrays], **options)
        except np.linalg.LinAlgError:
            return f"{op.name}: the matrix at {key} {reason}"
    return f"{op.name}: {'a' if batch else 'the'} matrix {reason}"
