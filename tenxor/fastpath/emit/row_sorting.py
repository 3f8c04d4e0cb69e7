"""Sorting of rows, by values or by positions, and the selection of their extreme elements. A program, 64-bit integers
(`fastpath/direct_call_programs.py`), describes such a call, and `run_program` runs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.llvm.builder import Module, Value, intrinsic
from ...codegen.llvm.types import DOUBLE, FLOAT, I1, I8, I32, I64, POINTER, Type, vector
from ...dtypes import SEARCHABLE_DTYPES, DType
from ..direct_call_programs import ARGSORT, LEXSORT, SORT, TOPK
from ..object_layout import BYTES_CONTENT_OFFSET, ObjectTable
from .direct_calls import FUNCTION_BY_OPCODE, copy_operand, get_operand_address, get_result_address, get_source_address
from .function_builder import FunctionBuilder

EXAMINED_LANES = 8  # floats examined together
_FLOATS = (DOUBLE, FLOAT)
LLVM_TYPE_BY_DTYPE = {"float64": DOUBLE, "float32": FLOAT, "int64": I64, "uint64": I64, "int32": I32, "uint32": I32}


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to sort rows and select extreme elements.

    The functions emitted include `sort_rows`, `argsort_rows`, `lexsort`, `topk_rows` and `has_irregular_TYPE`.
    """
    parameters = [(name, POINTER) for name in ("program", "nodes", "byte_offsets", "results")]
    for kind in _FLOATS:
        _emit_has_irregular(FunctionBuilder(module, objects, f"has_irregular_{kind.text}", [("start", POINTER), ("count", I64)], I1), kind)
    _emit_sort_rows(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[SORT], parameters, I1))
    _emit_argsort_rows(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[ARGSORT], parameters, I1))
    _emit_lexsort(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[LEXSORT], parameters, I1))
    for dtype in SEARCHABLE_DTYPES:
        rows = [
            ("row", POINTER),
            ("size", I64),
            ("stride", I64),
            ("values", POINTER),
            ("positions", POINTER),
            ("count", I64),
            ("max_moves", I64),
        ]
        for largest in (False, True):
            _emit_row_topk(FunctionBuilder(module, objects, _get_topk_name(dtype, largest), rows, I1), dtype, largest)
    _emit_topk_rows(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[TOPK], parameters, I1))


def _emit_has_irregular(f: FunctionBuilder, kind: Type) -> None:
    """Emit `has_irregular_TYPE(start, count)`: return whether NaN or a negative zero is among `count` contiguous floats of LLVM type `kind`
    at the address `start`. `sort_rows` and `unique` call the function.
    """
    start, count = f.arguments

    def odd_at(k: Value, lanes: int) -> Value:
        x = start.at(k, kind).load(vector(kind, lanes))
        return x.is_nan() | x.as_bits().equals(-(1 << kind.bits - 1))

    vector_count = count >> EXAMINED_LANES.bit_length() - 1
    lane_flags = f.fold_range(
        vector_count, f.zeros(vector(I1, EXAMINED_LANES)), lambda k, flags: flags | odd_at(k * EXAMINED_LANES, EXAMINED_LANES)
    )
    vector_flag = intrinsic("vector.reduce.or", lane_flags, result=I1, suffix=lane_flags.type.mangled)
    has_irregular = f.fold_range(
        count - vector_count * EXAMINED_LANES, vector_flag, lambda k, flags: flags | odd_at(vector_count * EXAMINED_LANES + k, 0)
    )
    f.emit_return(has_irregular)


def _emit_sort_rows(f: FunctionBuilder) -> None:
    """Emit `sort_rows(program, nodes, byte_offsets, results)`: copy rows to the result, and sort them there; return true.

    `program` is the address of the integers of the program. `nodes` and `byte_offsets` are the operand's node and byte offset, and
    `results` is the tuple with the result tensor. With NaN or a negative zero among the elements, a stable sort calls the stable function
    of NumPy; for another sort the emitted function returns false. It also returns false if memory runs out.
    """
    program, nodes, byte_offsets, results = f.arguments
    stable, quick, rows, n, item, looked_at, keeps = (f.load_word(program, 8 * k) for k in range(1, 8))
    to = get_result_address(f, results, 0)
    copy_operand(f, nodes, byte_offsets, f.address_at(program, 8 * 8), to)
    no = f.constant(I1, False)

    def examine(kind: Type) -> list[Value]:
        return [f.call(f"has_irregular_{kind.text}", I1, [to, rows * n])]

    examine_second = lambda: f.choose(looked_at.equals(2), lambda: examine(_FLOATS[1]), lambda: [no])
    (is_odd,) = f.choose(looked_at.equals(1), lambda: examine(_FLOATS[0]), examine_second)
    f.decline_if(is_odd & keeps.equals(0))
    function = f.select_value(is_odd, stable, quick).cast("inttoptr", POINTER)
    f.for_range(rows, lambda k: _call_numpy_sort(f, function, [to.at(k * n * item, I8), n]))
    f.emit_return(f.constant(I1, True))


def _emit_argsort_rows(f: FunctionBuilder) -> None:
    """Emit `argsort_rows(program, nodes, byte_offsets, results)`: write the positions that sort each row (argsort), as int64, into the
    result; return true.

    The arguments are those of `sort_rows`. Rows that are not contiguous are copied first. The function returns false if memory runs out.
    """
    program, nodes, byte_offsets, results = f.arguments
    stable, rows, n, item, is_direct = (f.load_word(program, 8 * k) for k in range(1, 6))
    copy_descriptor, to = f.address_at(program, 6 * 8), get_result_address(f, results, 0)
    nbytes = f.select_value(is_direct.equals(0), rows * n * item, f.i64(0))
    memory = f.require_new(f.call("PyBytes_FromStringAndSize", POINTER, [f.null(), nbytes]))

    def copy_rows() -> list[Value]:
        copy_operand(f, nodes, byte_offsets, copy_descriptor, f.address_at(memory, BYTES_CONTENT_OFFSET))
        return [f.address_at(memory, BYTES_CONTENT_OFFSET)]

    get_address = lambda: [get_source_address(f, nodes, byte_offsets, copy_descriptor)]
    (source,) = f.choose(is_direct.equals(0), copy_rows, get_address)
    function = stable.cast("inttoptr", POINTER)

    def row(k: Value) -> None:
        positions = to.at(k * n, I64)
        f.for_range(n, lambda j: positions.at(j, I64).store(j))
        _call_numpy_sort(f, function, [source.at(k * n * item, I8), positions, n])

    f.for_range(rows, row)
    f.release_held(memory)
    f.emit_return(f.constant(I1, True))


def _emit_lexsort(f: FunctionBuilder) -> None:
    """Emit `lexsort(program, nodes, byte_offsets, results)`: write positions sorted by several keys in turn, as int64, into the result;
    return true.

    The arguments are those of `sort_rows`, with a node and a byte offset for each key. The last key decides first. The function returns
    false if memory runs out.
    """
    program, nodes, byte_offsets, results = f.arguments
    keys, n = f.load_word(program, 8), f.load_word(program, 16)
    to = get_result_address(f, results, 0)
    f.for_range(n, lambda k: to.at(k, I64).store(k))

    def by_key(k: Value) -> None:
        stable, key_index, start = (f.address_at(program, 24).at(k * 3 + j, I64).load(I64) for j in range(3))
        _call_numpy_sort(f, stable.cast("inttoptr", POINTER), [get_operand_address(f, nodes, byte_offsets, key_index, start), to, n])

    f.for_range(keys, by_key)
    f.emit_return(f.constant(I1, True))


def _call_numpy_sort(f: FunctionBuilder, function: Value, arguments: Sequence[Value]) -> None:
    """Emit a call of a sorting function of NumPy, at the address `function`, with `arguments`, and null for the array object. Return None.

    The emitted function returns null or 0 if the call runs out of memory.
    """
    argument_text = ", ".join([*map(repr, arguments), "ptr null"])
    f.require(f.define(I32, f"call i32 {function.text}({argument_text})").equals(0))


def _get_topk_name(dtype: DType, largest: bool) -> str:
    """Return the name of the emitted function that finds the largest, or smallest, elements of a row: `largest_DTYPE` or
    `smallest_DTYPE`.
    """
    return f"{'largest' if largest else 'smallest'}_{dtype}"


def _emit_row_topk(f: FunctionBuilder, dtype: DType, largest: bool) -> None:
    """Emit `largest_DTYPE(row, size, stride, values, positions, count, max_moves)`, or without `largest` `smallest_DTYPE`: write the
    `count` extreme elements of a row to `values`, the most extreme first, and their positions, as int64, to `positions`; return true.

    The row at the address `row` has `size` elements of `dtype`, `stride` bytes apart, at least `count`. NaN counts as larger than every
    number. Each element is inserted among the best so far. Elements no better than the last of the best are skipped, several at a time.
    After more than `max_moves` moves, the function returns false. `topk_rows` calls the function.
    """
    row, size, stride, values, positions, count, max_moves = f.arguments
    kind, moved = LLVM_TYPE_BY_DTYPE[dtype.name], f.local(I64, f.i64(0))
    greater_than, less_than = ("ugt", "ult") if dtype.kind in ("float", "uint") else ("sgt", "slt")

    def is_better(x: Value, y: Value) -> Value:
        holds = x.compare(greater_than if largest else less_than, y)
        return holds & ~(y if largest else x).is_nan() if dtype.is_float else holds

    def insert(x: Value, k: Value, best_count: Value) -> None:
        """Emit the insertion of `x`, element `k` of the row, among the first `best_count` of the best elements."""
        index = f.local(I64, best_count)
        is_before = lambda: is_better(x, values.at(index.load(I64) - 1, kind).load(kind))

        def move_next() -> None:
            to = index.load(I64)
            for items, item_type in ((values, kind), (positions, I64)):
                items.at(to, item_type).store(items.at(to - 1, item_type).load(item_type))
            index.store(to - 1)

        f.repeat_while(lambda: f.and_then(index.load(I64) > 0, is_before), move_next)
        values.at(index.load(I64), kind).store(x)
        positions.at(index.load(I64), I64).store(k)
        moved.store(moved.load(I64) + best_count - index.load(I64))

    def examine_element(k: Value) -> None:
        x = row.at(k * stride, I8).load(kind)
        f.only_if_unlikely(is_better(x, values.at(count - 1, kind).load(kind)), lambda: insert(x, k, count - 1))

    def examine_vector(k: Value) -> None:
        start = count + k * EXAMINED_LANES
        worst, elements = (
            values.at(count - 1, kind).load(kind).splat(EXAMINED_LANES),
            row.at(start, kind).load(vector(kind, EXAMINED_LANES)),
        )
        may_be_better = elements.compare(greater_than if largest else less_than, worst)

        def examine_each() -> None:
            f.for_range(f.i64(EXAMINED_LANES), lambda j: examine_element(start + j))
            f.require(moved.load(I64) <= max_moves)

        f.only_if_unlikely(intrinsic("vector.reduce.or", may_be_better, result=I1, suffix=may_be_better.type.mangled), examine_each)

    f.for_range(count, lambda k: insert(row.at(k * stride, I8).load(kind), k, k))
    remaining = size - count
    vector_count = f.select_value(stride.equals(kind.bytes), remaining >> EXAMINED_LANES.bit_length() - 1, f.i64(0))
    f.for_range(vector_count, examine_vector)
    f.for_range(remaining - vector_count * EXAMINED_LANES, lambda k: examine_element(count + vector_count * EXAMINED_LANES + k))
    f.emit_return(moved.load(I64) <= max_moves)


def _emit_topk_rows(f: FunctionBuilder) -> None:
    """Emit `topk_rows(program, nodes, byte_offsets, results)`: write the extreme elements of each row and their positions (topk); return
    true.

    The arguments are those of `sort_rows`, with two result tensors: values, and positions as int64. The function returns false if a row
    takes too many moves; then the results are written in part.
    """
    program, nodes, byte_offsets, results = f.arguments
    number, largest, node_index, start, rows, step, n, stride, count, max_moves = (f.load_word(program, 8 * k) for k in range(1, 11))
    source, values, positions = (
        get_operand_address(f, nodes, byte_offsets, node_index, start),
        get_result_address(f, results, 0),
        get_result_address(f, results, 1),
    )
    for k, dtype in enumerate(SEARCHABLE_DTYPES):
        for j in range(2):

            def row(i: Value, dtype: DType = dtype, j: int = j) -> None:
                to = [values.at(i * count, LLVM_TYPE_BY_DTYPE[dtype.name]), positions.at(i * count, I64)]
                f.require(f.call(_get_topk_name(dtype, j == 1), I1, [source.at(i * step, I8), n, stride, *to, count, max_moves]))

            f.emit_if(number.equals(k) & largest.equals(j), lambda row=row: f.for_range(rows, row))  # type: ignore[misc]
    f.emit_return(f.constant(I1, True))
