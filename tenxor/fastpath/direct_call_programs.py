"""Programs of direct calls: 64-bit integers by which the generated code of the fast path computes a result on our memory, without NumPy
arrays. A program begins with an opcode: `CALL_OPCODE` for a C function of NumPy, or a constant from `SORT` to `UNIQUE` for code of ours.
Python builds a program when a call is recorded; the generated code runs the program at later calls with tensors of equal specs. A
description of the computation, a `DirectCall`, has addresses and options, but no sizes; the program adds them. A byte layout is a pair of a
shape and strides in bytes. Scratch memory is a temporary block.

`fastpath/emit/direct_calls.py` and `fastpath/emit/row_sorting.py` emit the code that runs programs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod

from ..dtypes import SEARCHABLE_DTYPES, float32, float64
from ..layout.coords import find_constant_step
from ..native.counting_ops import COUNTABLE_DTYPES, CountingOp
from ..native.direct_call import DirectCall
from ..native.generated_searches import encode_ends, float_to_bits
from ..native.ordering_ops import OrderingOp, is_radix_sort_best
from ..native.qr_direct_call import QrFunctions
from ..native.ufunc_loops import CALL_OPCODE, ByteLayout, UfuncLoop, encode_call, encode_call_words
from .strided_copy import describe_copy

# Opcodes. From BINCOUNT on, the size of the result depends on the values.
SORT, ARGSORT, SEARCH, TOPK, WIDENED_CALL, DIGITIZE, INTERPOLATE, LEXSORT, QR, BINCOUNT, UNIQUE = (CALL_OPCODE + 1 + k for k in range(11))
_SIGNED_ZERO_DTYPES = {float64: 1, float32: 2}  # dtypes with signed zeros and NaN, which a quick sort may reorder or change
FLOAT32_BYTES = 4  # bytes of a float in single precision
QR_HEADER_WORDS = 13  # integers before the copy descriptor of the matrix
MAX_TOPK = 64  # elements wanted of a row: the search may compare each with each
MAX_SCRATCH_BYTES = 1 << 23  # bytes of scratch memory: a larger block comes from the system each time, page by page
MAX_CANDIDATE_MOVES = 1 << 20  # moves of candidates per row before the search gives up: some milliseconds
LocatedOperands = Sequence[tuple[int, int, ByteLayout]]  # for each operand: the tensor's index, the offset in bytes, and shape and strides


def pack_program(
    direct_call: DirectCall, operands: LocatedOperands, results: Sequence[ByteLayout], float_count: int, itemsizes: Sequence[int]
) -> bytes | None:
    """Return the program of a direct call as bytes of 64-bit integers; None if the generated code cannot do it.

    `direct_call` describes the computation. `operands` says where each operand is stored: the index of its tensor among the arguments, the
    offset in bytes, and the shape and strides in bytes. `results` has the shape and strides in bytes of each result. `float_count` is the
    number of real floats in the first operand, which must be finite (0: not tested). `itemsizes` are the bytes of an element of each
    result.
    """
    if isinstance(direct_call, UfuncLoop):
        return (
            _pack_widened_call(direct_call, operands, results, float_count, itemsizes)
            if direct_call.is_widened
            else encode_call(direct_call, operands, results, float_count)
        )
    if isinstance(direct_call, QrFunctions):
        return _pack_qr(direct_call, operands[0], results, itemsizes[0])
    words = _build_ordering_program(direct_call, operands)
    return None if words is None else struct.pack(f"={len(words)}q", *words)


def build_program(
    direct_call: DirectCall, operands: LocatedOperands, results: Sequence[ByteLayout], float_count: int
) -> Sequence[int] | None:
    """Return the program of a direct call as integers, possibly symbolic sizes, to be packed for concrete sizes later.

    `direct_call` describes the computation. `operands`, `results` and `float_count` are as in `pack_program`. Return None if the program
    needs more than integers, as for a widened call and QR, or if the generated code cannot do the call.
    """
    if isinstance(direct_call, UfuncLoop):
        words = (
            None
            if direct_call.is_widened or len(direct_call.constant_bytes) % 8
            else encode_call_words(direct_call, operands, results, float_count)
        )
        return None if words is None else [*words, *struct.unpack(f"={len(direct_call.constant_bytes) // 8}q", direct_call.constant_bytes)]
    return None if isinstance(direct_call, QrFunctions) else _build_ordering_program(direct_call, operands)


def _build_ordering_program(operation: OrderingOp | CountingOp, operands: LocatedOperands) -> Sequence[int] | None:
    """Return the program of a sort, a search or a count as integers; None if the generated code cannot do it.

    `operation` describes the computation. `operands` says how each operand is stored: index of its tensor among the arguments, offset in
    bytes, and shape and strides in bytes.
    """
    if isinstance(operation, CountingOp):
        return _build_bincount(operation, operands) if operation.name == "bincount" else _build_unique(operation, operands[0])
    if operation.name == "interp":
        return _build_interpolation(operation, operands)
    if operation.name in _SEARCH_OPCODES:
        return _build_search(operation, operands)
    if operation.name == "lexsort":
        return _build_lexsort(operation, operands)
    return _build_topk(operation, operands[0]) if operation.name == "topk" else _build_sort(operation, operands[0])


def _pack_widened_call(
    loop: UfuncLoop, operands: LocatedOperands, results: Sequence[ByteLayout], float_count: int, itemsizes: Sequence[int]
) -> bytes | None:
    """Return the program, as bytes, of a loop in double precision for data in single precision, as NumPy computes them.

    When the program runs, the operands are converted into scratch memory, the loop runs on them, and the results are rounded. `loop`
    describes the loop. `operands`, `results`, `float_count` and `itemsizes` are those of `pack_program`.

    Return None if operands and results need more than `MAX_SCRATCH_BYTES` of scratch memory, or if a stride is no multiple of the item
    size. Also return None if an operand needs more than three nested loops to copy, or if a single loop cannot walk the arrays.
    """
    itemsize = FLOAT32_BYTES * float_count // prod(operands[0][2][0]) if float_count else FLOAT32_BYTES
    words, scratch_offsets, scratch_layouts, end = list[int](), list[int](), list[ByteLayout](), 0
    for tensor_index, start, (shape, strides) in operands:
        if any([s % itemsize for s in strides]):
            return None
        copy_descriptor = describe_copy(
            shape,
            [s // itemsize for s in strides],
            _get_dense_strides(shape, 1),
            itemsize,
            source_index=tensor_index,
            source_start=start // itemsize,
        )
        if copy_descriptor is None:
            return None
        words += (end, prod(shape) * itemsize // FLOAT32_BYTES, *copy_descriptor)
        scratch_offsets.append(end)
        scratch_layouts.append((shape, _get_dense_strides(shape, 2 * itemsize)))
        end += prod(shape) * 2 * itemsize
    for k, ((shape, _), itemsize) in enumerate(zip(results, itemsizes, strict=True)):
        scratch_offsets.append(end)
        if k == loop.int32_result_index:  # an integer result, not rounded
            words += (end, -prod(shape))
            scratch_layouts.append((shape, _get_dense_strides(shape, itemsize)))
            end += prod(shape) * itemsize
            continue
        words += (end, prod(shape) * itemsize // FLOAT32_BYTES)
        scratch_layouts.append((shape, _get_dense_strides(shape, 2 * itemsize)))
        end += prod(shape) * 2 * itemsize
    if end > MAX_SCRATCH_BYTES:
        return None
    inner = encode_call(
        loop._replace(is_widened=False),
        [(0, 0, layout) for layout in scratch_layouts[: len(operands)]],
        scratch_layouts[len(operands) :],
        float_count,
        scratch_offsets,
    )
    if inner is None:
        return None
    head = (WIDENED_CALL, end, len(operands), len(results), 8 * (5 + len(words)))
    return struct.pack(f"={len(head) + len(words)}q", *head, *words) + inner


def _pack_qr(functions: QrFunctions, operand: tuple[int, int, ByteLayout], results: Sequence[ByteLayout], itemsize: int) -> bytes | None:
    """Return the program of a QR factorisation as bytes; None if the generated code cannot do it.

    `functions` describes the factorisation. `operand` says how the matrices are stored, as in `pack_program`; `results` are the byte
    layouts of both factors, and `itemsize` is the bytes of an element. When the program runs, the matrices are copied into scratch memory.
    The first C function makes triangles of them, the second makes the orthonormal factor, and both are copied to the results.

    Return None for empty matrices, for more than `MAX_SCRATCH_BYTES` of scratch memory, and for a stride that is no multiple of `itemsize`.
    Also return None for matrices that need more than three nested loops to copy, and for layouts that a single loop cannot walk.
    """
    (tensor_index, start, (shape, strides)), (factor_shape, triangle_shape) = operand, [shape for shape, _ in results]
    if not prod(shape) or any([s % itemsize for s in strides]):
        return None
    copy_descriptor = describe_copy(
        shape,
        [s // itemsize for s in strides],
        _get_dense_strides(shape, 1),
        itemsize,
        source_index=tensor_index,
        source_start=start // itemsize,
    )
    if copy_descriptor is None:
        return None
    (*batch, rows, columns), scratch_itemsize = shape, itemsize * 2 if functions.is_widened else itemsize
    tau_shape = (*batch, min(rows, columns))
    scratch_offsets = [0, prod(shape) * scratch_itemsize, (prod(shape) + prod(tau_shape)) * scratch_itemsize]
    end = scratch_offsets[2] + (prod(factor_shape) * scratch_itemsize if functions.is_widened else 0)
    if end > MAX_SCRATCH_BYTES:
        return None
    scratch_layouts = [
        (scratch_shape, _get_dense_strides(scratch_shape, scratch_itemsize)) for scratch_shape in (shape, tau_shape, factor_shape)
    ]
    (_, tau_layout, factor_layout), scratch_operands = scratch_layouts, [(0, 0, layout) for layout in scratch_layouts[:2]]
    triangle_program = encode_call(functions.factor_loop, scratch_operands[:1], [tau_layout], 0, scratch_offsets[:2])
    loop = functions.complete_loop if functions.is_complete and rows > columns else functions.reduced_loop
    orthonormal_program = encode_call(
        loop, scratch_operands, [factor_layout], 0, scratch_offsets if functions.is_widened else scratch_offsets[:2]
    )
    if triangle_program is None or orthonormal_program is None:
        return None
    element_floats, header_bytes = scratch_itemsize // 8, (QR_HEADER_WORDS + len(copy_descriptor)) * 8
    head = (
        QR,
        end,
        header_bytes,
        header_bytes + len(triangle_program),
        int(functions.is_widened),
        prod(shape) * element_floats,
        prod(factor_shape) * element_floats,
        scratch_offsets[2],
    )
    size_words = (prod(batch), triangle_shape[-2], rows, columns * element_floats, element_floats)
    return struct.pack(f"={header_bytes // 8}q", *head, *size_words, *copy_descriptor) + triangle_program + orthonormal_program


def _get_dense_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides of a contiguous array of shape `shape`, in the unit of `itemsize`.

    The strides are in elements if `itemsize` is 1, and in bytes if `itemsize` is the bytes of an element.
    """
    return tuple([itemsize * prod(shape[k + 1 :]) for k in range(len(shape))])


def _build_sort(operation: OrderingOp, operand: tuple[int, int, ByteLayout]) -> tuple[int, ...] | None:
    """Return the program of `operation`, which sorts rows along the last axis, or (`argsort`) returns the positions in sorted order.

    `operand` says how the elements are stored, as in `pack_program`. Return None if the operand is empty, or if a stride is no multiple of
    the item size. Also return None if up to three nested loops cannot copy the operand.
    """
    (_, start, (shape, strides)), itemsize = operand, operation.dtype.itemsize
    if not prod(shape) or any([s % itemsize for s in strides]):
        return None
    rows, n = prod(shape[:-1]), shape[-1]
    result_strides = [itemsize * prod(shape[k + 1 :]) for k in range(len(shape))]
    copy_descriptor = describe_copy(
        shape, [s // itemsize for s in strides], [s // itemsize for s in result_strides], itemsize, source_start=start // itemsize
    )
    if copy_descriptor is None:
        return None
    if operation.name == "argsort":
        return (ARGSORT, operation.stable_address, rows, n, itemsize, int(list(strides) == result_strides), *copy_descriptor)
    quick = operation.stable_address if is_radix_sort_best(operation.dtype, n) else operation.quick_address
    return (
        SORT,
        operation.stable_address,
        quick,
        rows,
        n,
        itemsize,
        _SIGNED_ZERO_DTYPES.get(operation.dtype, 0),
        int(operation.is_stable),
        *copy_descriptor,
    )


_SEARCH_OPCODES = {"searchsorted": SEARCH, "digitize": DIGITIZE}


def _build_search(operation: OrderingOp, operands: LocatedOperands) -> tuple[int, ...] | None:
    """Return the program of the search `operation` ("searchsorted" or "digitize") for elements in a sorted array.

    `operands` says how two arrays are stored, as in `pack_program`: the sorted array, then the wanted values. Return None unless each has
    elements, and one loop with a constant stride walks it.
    """
    words = [_SEARCH_OPCODES[operation.name], SEARCHABLE_DTYPES.index(operation.dtype), int(operation.is_right_side)]
    operand_words = _describe_operands(operands)
    return None if operand_words is None else (*words, *operand_words)


def _build_interpolation(operation: OrderingOp, operands: LocatedOperands) -> tuple[int, ...] | None:
    """Return the program of the linear interpolation `operation`.

    `operands` says how three arrays are stored, as in `pack_program`. They are the coordinates at which values are wanted, the coordinates
    of the points, and the heights of the points. The program converts operands in single precision into scratch memory first. Return None
    unless each array has elements, and one loop with a constant stride walks it.
    """
    words, end = list[int](), 0
    for operand, (_, itemsize) in zip(operands, operation.keys, strict=True):
        operand_words = _describe_operands([operand])
        if operand_words is None:
            return None
        words += (*operand_words, int(itemsize == FLOAT32_BYTES), end)
        end += 8 * operand_words[2] if itemsize == FLOAT32_BYTES else 0
    ends = [float_to_bits(x) if isinstance(x, float) else x for x in encode_ends(operation.end_heights)]
    return (INTERPOLATE, *ends, end, *words)


def _describe_operands(operands: LocatedOperands) -> list[int] | None:
    """Return four integers for each of `operands`, in one list: the tensor's index, the offset in bytes, the element count, and the stride
    in bytes.

    Return None unless one loop with a constant stride walks each operand, and each has elements.
    """
    words: list[int] = []
    for tensor_index, start, (shape, strides) in operands:
        step = find_constant_step(shape, strides)
        if step is None or not prod(shape):
            return None
        words += (tensor_index, start, prod(shape), step)
    return words


def _build_bincount(operation: CountingOp, operands: LocatedOperands) -> tuple[int, ...] | None:
    """Return the program of `operation`, which counts how often each integer occurs, or sums the weights of each integer.

    `operands` says how the integers are stored, and then the weights, if any, as in `pack_program`. Return None unless each operand has
    elements, and one loop with a constant stride walks it.
    """
    words = _describe_operands(operands)
    return None if words is None else (BINCOUNT, COUNTABLE_DTYPES.index(operation.dtype), operation.min_count, len(operands) - 1, *words)


def _build_unique(operation: CountingOp, operand: tuple[int, int, ByteLayout]) -> tuple[int, ...] | None:
    """Return the program of `operation`, which finds the distinct elements, and their counts and positions if selected.

    The program sorts a copy of the elements; `operation.selected_results` selects the results. `operand` locates the elements, as in
    `pack_program`. Return None if the operand is empty, or if a stride is no multiple of the item size. Also return None if up to three
    nested loops cannot copy the operand.
    """
    (tensor_index, start, (shape, strides)), itemsize = operand, operation.dtype.itemsize
    if not prod(shape) or any([s % itemsize for s in strides]):
        return None
    copy_descriptor = describe_copy(
        shape,
        [s // itemsize for s in strides],
        _get_dense_strides(shape, 1),
        itemsize,
        source_index=tensor_index,
        source_start=start // itemsize,
    )
    if copy_descriptor is None:
        return None
    return (
        UNIQUE,
        operation.dtype.bits,
        _SIGNED_ZERO_DTYPES.get(operation.dtype, 0),
        operation.sort_address,
        operation.argsort_address,
        operation.selected_results,
        prod(shape),
        itemsize,
        *copy_descriptor,
    )


def _build_lexsort(operation: OrderingOp, operands: LocatedOperands) -> tuple[int, ...] | None:
    """Return the program of `operation`, an indirect sort by several keys.

    `operands` says how each key is stored, as in `pack_program`, the least significant key first. Return None unless each key is one
    contiguous row of two elements or more.
    """
    words = list[int]()
    for (tensor_index, start, (shape, strides)), (function, itemsize) in zip(operands, operation.keys, strict=True):
        if len(shape) != 1 or shape[0] < 2 or strides[0] != itemsize:
            return None
        words += (function, tensor_index, start)
    return (LEXSORT, len(operands), operands[0][2][0][0], *words)


def _build_topk(operation: OrderingOp, operand: tuple[int, int, ByteLayout]) -> tuple[int, ...] | None:
    """Return the program of `operation`, which finds the largest or smallest elements of rows along the last axis.

    `operand` says how the elements are stored: index of the tensor, offset in bytes, and shape and strides in bytes. Return None for an
    operand without elements, and for rows that are not a constant step apart. Also return None unless 1 to `MAX_TOPK` elements of a row are
    wanted.
    """
    tensor_index, start, (shape, strides) = operand
    step = find_constant_step(shape[:-1], strides[:-1])
    if step is None or not prod(shape) or not 0 < operation.selected_count <= MAX_TOPK:
        return None
    rows, n = prod(shape[:-1]), shape[-1]
    words = (
        tensor_index,
        start,
        rows,
        step,
        n,
        strides[-1],
        operation.selected_count,
        min(16 * n, MAX_CANDIDATE_MOVES) + operation.selected_count**2,
    )
    return (TOPK, SEARCHABLE_DTYPES.index(operation.dtype), int(operation.selects_largest), *words)
