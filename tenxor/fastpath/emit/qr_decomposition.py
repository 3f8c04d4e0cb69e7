"""The QR decomposition by two C loops of NumPy on scratch memory, and the copies of the triangular factors to the result."""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import DOUBLE, FLOAT, I1, I8, I64, POINTER, Type, vector
from ..direct_call_programs import QR, QR_HEADER_WORDS
from ..object_layout import BYTES_CONTENT_OFFSET, ObjectTable
from .direct_calls import FUNCTION_BY_OPCODE, copy_operand, get_result_address
from .function_builder import FunctionBuilder

COPIED_LANES = 8  # of the vectors in which floats are copied


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the function `factor_qr` to run a QR decomposition, and copies of triangular factors (`copy_triangles_TYPE`)."""
    copy_parameters = [
        ("start", POINTER),
        ("to", POINTER),
        *[(name, I64) for name in ("batch", "copied_rows", "row_count", "row_floats", "element_floats")],
    ]
    for kind in (DOUBLE, FLOAT):
        _emit_copy_triangles(FunctionBuilder(module, objects, f"copy_triangles_{kind.text}", copy_parameters, I1), kind)
    qr_parameters = [(name, POINTER) for name in ("program", "nodes", "byte_offsets", "results")]
    _emit_factor_qr(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[QR], qr_parameters, I1))


def _emit_factor_qr(f: FunctionBuilder) -> None:
    """Emit `factor_qr(program, nodes, byte_offsets, results)`: run the QR decomposition that `program` describes
    (`fastpath/direct_call_programs.py`). `run_program` calls the function. Return true, or false on a failure: after it, the tensors in
    `results` may hold anything.

    `program` is the address of the integers of the program. `nodes` and `byte_offsets` are the operands' nodes and byte offsets. The
    factors are written into the two tensors of the tuple `results`, in memory.
    """
    program, nodes, byte_offsets, results = f.arguments
    words = [f.load_word(program, 8 * k) for k in range(1, QR_HEADER_WORDS)]
    (
        size,
        first_loop,
        second_loop,
        wider,
        operand_floats,
        matrix_floats,
        matrix_offset,
        batch,
        copied_rows,
        row_count,
        row_floats,
        element_floats,
    ) = words
    copy_descriptor = f.address_at(program, 8 * QR_HEADER_WORDS)
    memory = f.require_new(f.call("PyBytes_FromStringAndSize", POINTER, [f.null(), size]))
    scratch, is_wider = f.address_at(memory, BYTES_CONTENT_OFFSET), wider.differs(0)
    operand_copy = f.select_value(is_wider, scratch.at(operand_floats, FLOAT), scratch)  # single precision stands in the upper half first
    copy_operand(f, nodes, byte_offsets, copy_descriptor, operand_copy)
    f.emit_if(is_wider, lambda: f.call("widen", I1, [operand_copy, scratch, operand_floats]))
    for loop_offset in (first_loop, second_loop):
        f.require(f.call("call_loop_on_scratch", I1, [program.at(loop_offset, I8), nodes, byte_offsets, results, scratch]))
    matrix, triangles = (get_result_address(f, results, k) for k in range(2))
    copy_arguments = [scratch, triangles, batch, copied_rows, row_count, row_floats, element_floats]

    def round_results() -> None:
        f.call("narrow", I1, [scratch.at(matrix_offset, I8), matrix, matrix_floats])
        f.call("copy_triangles_float", I1, copy_arguments)

    f.emit_if(is_wider, round_results)
    f.emit_if(~is_wider, lambda: f.call("copy_triangles_double", I1, copy_arguments))
    f.release_held(memory)
    f.emit_return(f.constant(I1, True))


def _emit_copy_triangles(f: FunctionBuilder, kind: Type) -> None:
    """Emit `copy_triangles_KIND(start, to, batch, copied_rows, row_count, row_floats, element_floats)`: copy the upper triangles of `batch`
    matrices; return true. `factor_qr` calls the function.

    The matrices at `start` are in double precision, and the copies at `to` in precision `kind`, with 0 below the diagonal. A source matrix
    has `row_count` rows, of which `copied_rows` are copied; a row has `row_floats` floats, and an element `element_floats` (2 if complex).
    """
    start, to, batch, copied_rows, row_count, row_floats, element_floats = f.arguments

    def copy_row(source_matrix: Value, target_matrix: Value, k: Value) -> None:
        source_row, target_row = source_matrix.at(k * row_floats, DOUBLE), target_matrix.at(k * row_floats, kind)
        below = f.select_value(k * element_floats < row_floats, k * element_floats, row_floats)
        f.for_range(below, lambda j: target_row.at(j, kind).store(f.zeros(kind)))
        vector_count = (row_floats - below) >> COPIED_LANES.bit_length() - 1

        def copy(j: Value, lanes: int) -> None:
            x = source_row.at(j, DOUBLE).load(vector(DOUBLE, lanes))
            target_row.at(j, kind).store(x if kind is DOUBLE else x.to_single())

        f.for_range(vector_count, lambda j: copy(below + j * COPIED_LANES, COPIED_LANES))
        tail_start = below + vector_count * COPIED_LANES
        f.for_range(row_floats - tail_start, lambda j: copy(tail_start + j, 0))

    def copy_matrix(k: Value) -> None:
        source_matrix, target_matrix = start.at(k * row_count * row_floats, DOUBLE), to.at(k * copied_rows * row_floats, kind)
        f.for_range(copied_rows, lambda j: copy_row(source_matrix, target_matrix, j))

    f.for_range(batch, copy_matrix)
    f.emit_return(f.constant(I1, True))
