"""Binary search in sorted arrays, and linear interpolation. Programs, 64-bit integers, describe such calls
(`fastpath/direct_call_programs.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...codegen.llvm.builder import Module, Value, intrinsic, select
from ...codegen.llvm.types import DOUBLE, FLOAT, I1, I8, I64, POINTER, Type, vector
from ...dtypes import SEARCHABLE_DTYPES, DType, float64
from ..direct_call_programs import DIGITIZE, INTERPOLATE, SEARCH
from ..object_layout import BYTES_CONTENT_OFFSET, ObjectTable
from .direct_calls import FUNCTION_BY_OPCODE, get_result_address, load_operand_extent
from .function_builder import FunctionBuilder
from .row_sorting import LLVM_TYPE_BY_DTYPE

INTERLEAVED_SEARCHES = 8  # values searched for together, to hide the latency of loads and compares
COMPARED_LANES, COMPARED_VECTORS = 8, 4  # lanes and vectors of values compared with each element of a short sorted array
MAX_LINEAR_SEARCH_ELEMENTS = 64  # elements of a sorted array up to which comparing with each is fastest
MAX_CHECKED_POINTS = 1 << 17  # points of a line; their order is checked at each call, and up to here that is faster than a call of NumPy
_SEARCH_PARAMETERS = [
    ("sorted_values", POINTER),
    ("size", I64),
    ("sorted_stride", I64),
    ("values", POINTER),
    ("count", I64),
    ("value_stride", I64),
    ("to", POINTER),
]
_POINT_PARAMETERS = [("points", POINTER), ("size", I64), ("point_stride", I64)]
_HEIGHT_PARAMETERS = [
    ("heights", POINTER),
    ("height_stride", I64),
    ("has_left", I64),
    ("left", DOUBLE),
    ("has_right", I64),
    ("right", DOUBLE),
]


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions for searches in sorted arrays, and for linear interpolation.

    For each searchable dtype: `search_DTYPE` writes insertion positions, and `is_ascending_DTYPE` tests whether an array ascends. For a
    float dtype, `count_non_nan_DTYPE` counts the elements that are not NaN. `interpolate` evaluates a line through points. `run_search`,
    `digitize` and `run_interpolation` each run a bytecode program of `fastpath/direct_call_programs.py`.
    """
    parameters = [(name, POINTER) for name in ("program", "nodes", "byte_offsets", "results")]
    for dtype in SEARCHABLE_DTYPES:
        if dtype.is_float:
            _emit_count_non_nan(FunctionBuilder(module, objects, f"count_non_nan_{dtype}", _SEARCH_PARAMETERS[:3], I64), dtype)
        for right in (False, True):
            _emit_search_linear(
                FunctionBuilder(module, objects, _get_search_name("linear", dtype, right), _SEARCH_PARAMETERS, I1), dtype, right
            )
            _emit_search_binary(
                FunctionBuilder(module, objects, _get_search_name("binary", dtype, right), _SEARCH_PARAMETERS, I1), dtype, right
            )
        _emit_search(
            FunctionBuilder(module, objects, f"search_{dtype}", [*_SEARCH_PARAMETERS, ("right", I64)], I64, is_exported=True), dtype
        )
        _emit_is_ascending(FunctionBuilder(module, objects, f"is_ascending_{dtype}", _SEARCH_PARAMETERS[:3], I1), dtype)
    _emit_run_search(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[SEARCH], parameters, I1))
    _emit_digitize(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[DIGITIZE], parameters, I1))
    _emit_interpolate(
        FunctionBuilder(
            module, objects, "interpolate", [*_POINT_PARAMETERS, *_SEARCH_PARAMETERS[3:], *_HEIGHT_PARAMETERS], I64, is_exported=True
        )
    )
    _emit_run_interpolation(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[INTERPOLATE], parameters, I1))


def _get_search_name(algorithm: str, dtype: DType, right: bool) -> str:
    """Return the name of the emitted search function for `dtype`, such as `search_linear_int64_left`.

    `algorithm` is "linear", for short sorted arrays, or "binary". With `right`, positions are after equal elements.
    """
    return f"search_{algorithm}_{dtype}_{'right' if right else 'left'}"


def _get_comparison_type(dtype: DType) -> tuple[Type, str]:
    """Return the LLVM type of `dtype`, and the first letter of the LLVM predicates that compare it: "o" (ordered float), "s" (signed) or
    "u" (unsigned), as in "olt".
    """
    return LLVM_TYPE_BY_DTYPE[dtype.name], {"float": "o", "int": "s", "uint": "u"}[dtype.kind]


def _emit_search(f: FunctionBuilder, dtype: DType) -> None:
    """Emit `search_DTYPE(sorted_values, size, sorted_stride, values, count, value_stride, to, right)`: write the insertion position in a
    sorted array of each of `count` wanted values to `to`, as `searchsorted` does; return 1. DTYPE is `dtype`.

    `sorted_values` and `values` are the addresses of the two arrays, `sorted_stride` and `value_stride` their strides in bytes. `size` is
    at least 1, and `to` is an array of int64. NaN sorts last. If `right` is not 0, a position is after equal elements, otherwise before
    them. `run_search` and `digitize` call the function, and Python code by address, without the GIL.
    """
    *arguments, right = f.arguments
    sorted_values, size, sorted_stride, _, _, value_stride, _ = arguments
    kind, _ = _get_comparison_type(dtype)
    last_element = sorted_values.at((size - 1) * sorted_stride, I8).load(kind)
    is_short = (size <= MAX_LINEAR_SEARCH_ELEMENTS) & value_stride.equals(kind.bytes)
    if dtype.is_float:
        is_short = is_short & ~last_element.is_nan()

    def search_side(is_right: bool) -> Value:
        search_linearly, search_by_halving = (
            partial(f.call, _get_search_name(algorithm, dtype, is_right), I1, arguments) for algorithm in ("linear", "binary")
        )
        return f.choose(is_short, lambda: [search_linearly()], lambda: [search_by_halving()])[0].cast("zext", I64)

    f.return_if(right.differs(0), lambda: search_side(True))
    f.emit_return(search_side(False))


def _emit_search_linear(f: FunctionBuilder, dtype: DType, right: bool) -> None:
    """Emit `search_linear_DTYPE_SIDE`, the search in a short sorted array without NaN for contiguous wanted values; return true.

    The arguments are those of `search_DTYPE` up to `to`, and SIDE is "right" if `right`, else "left". `search_DTYPE` calls the function.
    Each value is compared with each element. A wanted NaN gets the position `size`.
    """
    sorted_values, size, sorted_stride, values, count, _, to = f.arguments
    kind, _ = _get_comparison_type(dtype)
    predicate = {"float": "u", "int": "s", "uint": "u"}[dtype.kind] + ("le" if right else "lt")
    counts = vector(I64, COMPARED_LANES)

    def find_positions(k: Value, vectors: int, lanes: int) -> None:
        packed = [values.at(k + j * COMPARED_LANES, kind).load(vector(kind, lanes)) for j in range(vectors)]

        def compare(j: Value, totals: Sequence[Value]) -> Sequence[Value]:
            x = sorted_values.at(j * sorted_stride, I8).load(kind)
            x = x.splat(lanes) if lanes else x
            return [n + x.compare(predicate, y).cast("zext", I64) for n, y in zip(totals, packed, strict=True)]

        zeros = [f.zeros(counts) if lanes else f.i64(0) for _ in packed]
        for j, n in enumerate(f.fold_range_values(size, zeros, compare)):
            to.at(k + j * COMPARED_LANES, I64).store(n)

    step = COMPARED_LANES * COMPARED_VECTORS
    full_steps = count >> step.bit_length() - 1
    f.for_range(full_steps, lambda k: find_positions(k * step, COMPARED_VECTORS, COMPARED_LANES))
    vector_start = full_steps * step
    vector_steps = (count - vector_start) >> COMPARED_LANES.bit_length() - 1
    f.for_range(vector_steps, lambda k: find_positions(vector_start + k * COMPARED_LANES, 1, COMPARED_LANES))
    searched = vector_start + vector_steps * COMPARED_LANES
    f.for_range(count - searched, lambda k: find_positions(searched + k, 1, 0))
    f.emit_return(f.constant(I1, True))


def _emit_search_binary(f: FunctionBuilder, dtype: DType, right: bool) -> None:
    """Emit `search_binary_DTYPE_SIDE`: a uniform binary search for each wanted value; return true.

    The arguments are those of `search_DTYPE` up to `to`, and SIDE is "right" if `right`, else "left". `search_DTYPE` calls the function. A
    mask skips half of the rest: LLVM would turn a select into a branch, which is often mispredicted. (D. Knuth, The Art of Computer
    Programming, volume 3, 6.2.1: uniform binary search.)
    """
    sorted_values, size, sorted_stride, values, count, value_stride, to = f.arguments
    kind, letter = _get_comparison_type(dtype)

    def passed(position: Value, y: Value) -> Value:
        """Emit a 64-bit 1 if `y` belongs after the sorted element `position`, else 0."""
        return sorted_values.at(position * sorted_stride, I8).load(kind).compare(letter + ("le" if right else "lt"), y).cast("zext", I64)

    def find_positions(k: Value, value_count: int) -> None:
        """Emit a search for `value_count` wanted values together, from value `k` on, and the store of their positions."""
        searched = [values.at((k + j) * value_stride, I8).load(kind) for j in range(value_count)]

        def halve(state: Sequence[Value]) -> Sequence[Value]:
            left, *starts = state
            half = left.logical_shift_right(1)
            positions = [begin + (half & (f.i64(0) - passed(begin + half - 1, y))) for begin, y in zip(starts, searched, strict=True)]
            return [left - half, *positions]

        _, *starts = f.iterate_while([size, *[f.i64(0) for _ in searched]], lambda state: state[0] > 1, halve)
        for j, (position, y) in enumerate(zip(starts, searched, strict=True)):
            address = to.at(k + j, I64)
            address.store(position + passed(position, y))
            if dtype.is_float:
                end = size if right else None
                f.only_if_unlikely(
                    y.is_nan(),
                    lambda address=address, end=end: address.store(_count_non_nan(f, dtype) if end is None else end),  # type: ignore[misc]
                )

    full_steps = count >> INTERLEAVED_SEARCHES.bit_length() - 1
    f.for_range(full_steps, lambda k: find_positions(k * INTERLEAVED_SEARCHES, INTERLEAVED_SEARCHES))
    f.for_range(count - full_steps * INTERLEAVED_SEARCHES, lambda k: find_positions(full_steps * INTERLEAVED_SEARCHES + k, 1))
    f.emit_return(f.constant(I1, True))


def _count_non_nan(f: FunctionBuilder, dtype: DType) -> Value:
    """Emit a call of `count_non_nan_DTYPE` for the number of elements that are not NaN in a sorted array of the float dtype `dtype`. Return
    the number, an `i64`. The first three arguments of the function being emitted give the array.
    """
    return f.call(f"count_non_nan_{dtype}", I64, f.arguments[:3])


def _emit_count_non_nan(f: FunctionBuilder, dtype: DType) -> None:
    """Emit `count_non_nan_DTYPE(sorted_values, size, sorted_stride)`: return how many of the `size` >= 1 ascending floats at the address
    `sorted_values`, `sorted_stride` bytes apart, are not NaN. DTYPE is `dtype`.

    NaN sorts last. `search_binary_DTYPE_SIDE` calls the function.
    """
    sorted_values, size, sorted_stride = f.arguments

    def is_number(position: Value) -> Value:
        return ~sorted_values.at(position * sorted_stride, I8).load(LLVM_TYPE_BY_DTYPE[dtype.name]).is_nan()

    def halve(state: Sequence[Value]) -> Sequence[Value]:
        left, position = state
        half = left.logical_shift_right(1)
        return [left - half, select(is_number(position + half - 1), position + half, position)]

    _, final_position = f.iterate_while([size, f.i64(0)], lambda state: state[0] > 1, halve)
    f.emit_return(final_position + is_number(final_position).cast("zext", I64))


def _emit_is_ascending(f: FunctionBuilder, dtype: DType) -> None:
    """Emit `is_ascending_DTYPE(sorted_values, size, sorted_stride)`: return whether the `size` >= 1 elements at the address
    `sorted_values`, `sorted_stride` bytes apart, ascend, without NaN.

    Equal neighbours are allowed. DTYPE is `dtype`. `digitize` and `interpolate` call the function.
    """
    sorted_values, size, sorted_stride = f.arguments
    kind, letter = _get_comparison_type(dtype)
    count = size - 1

    def rises(k: Value) -> Value:
        left, right = (sorted_values.at((k + j) * sorted_stride, I8).load(kind) for j in range(2))
        return left.compare(f"{letter}le", right)

    def compare_vectors(k: Value, are_ascending: Value) -> Value:
        start = sorted_values.at(k * COMPARED_LANES, kind)
        left, right = (start.at(j, kind).load(vector(kind, COMPARED_LANES)) for j in range(2))
        return are_ascending & left.compare(f"{letter}le", right)

    vector_steps = f.select_value(sorted_stride.equals(kind.bytes), count >> COMPARED_LANES.bit_length() - 1, f.i64(0))
    lane_results = f.fold_range(vector_steps, f.constant(vector(I1, COMPARED_LANES), True), compare_vectors)
    is_ascending = intrinsic("vector.reduce.and", lane_results, result=I1, suffix=lane_results.type.mangled)
    if dtype.is_float:
        is_ascending = is_ascending & ~sorted_values.at(count * sorted_stride, I8).load(kind).is_nan() & ~sorted_values.load(kind).is_nan()
    f.emit_return(
        f.fold_range(
            count - vector_steps * COMPARED_LANES,
            is_ascending,
            lambda k, are_ascending: are_ascending & rises(vector_steps * COMPARED_LANES + k),
        )
    )


def _emit_run_search(f: FunctionBuilder) -> None:
    """Emit `run_search(program, nodes, byte_offsets, results)`: run the program of a `searchsorted`, and write the positions into the only
    result. Return true; false only for an unknown dtype number in the program.

    `program` is the address of the integers of the program. `nodes` is the tuple of the operands' nodes, `byte_offsets` the array of their
    byte offsets, and `results` the tuple with the tensor for the positions, an int64 tensor in memory. `run_program` calls the function.
    """
    program, _, _, results = f.arguments
    number, right = f.load_word(program, 8), f.load_word(program, 16)
    arguments = [*load_operand_extent(f, (24, 56)), get_result_address(f, results, 0), right]
    for k, dtype in enumerate(SEARCHABLE_DTYPES):
        f.return_if(number.equals(k), lambda dtype=dtype: f.call(f"search_{dtype}", I64, arguments).differs(0))  # type: ignore[misc]
    f.decline()


def _emit_digitize(f: FunctionBuilder) -> None:
    """Emit `digitize(program, nodes, byte_offsets, results)`: run a program that searches for values in edges, and write the positions, as
    NumPy's `digitize`. Return true, or false, to decline, if the edges neither ascend nor descend or hold NaN.

    The arguments are those of `run_search`. Descending edges are searched from the end. `run_program` calls the function.
    """
    program, _, _, results = f.arguments
    number, right = f.load_word(program, 8), f.load_word(program, 16)
    edges, size, stride, *value_extent = load_operand_extent(f, (24, 56))
    to = get_result_address(f, results, 0)
    reversed_edges = [edges.at((size - 1) * stride, I8), size, f.i64(0) - stride]
    for k, dtype in enumerate(SEARCHABLE_DTYPES):

        def search_edges(dtype: DType = dtype) -> None:
            def search(sorted_extent: Sequence[Value]) -> Value:
                return f.call(f"search_{dtype}", I64, [*sorted_extent, *value_extent, to, right]).differs(0)

            f.return_if(f.call(f"is_ascending_{dtype}", I1, [edges, size, stride]), lambda: search([edges, size, stride]))
            f.require(f.call(f"is_ascending_{dtype}", I1, reversed_edges))
            f.require(search(reversed_edges))
            f.for_range(value_extent[1], lambda j: to.at(j, I64).store(size - to.at(j, I64).load(I64)))

        f.emit_if(number.equals(k), search_edges)
    f.emit_return(f.constant(I1, True))


def _emit_interpolate(f: FunctionBuilder) -> None:
    """Emit `interpolate(points, size, point_stride, values, count, value_stride, to, heights, height_stride, has_left, left, has_right,
    right)`: evaluate a line through `size` points at `count` wanted values. Return 1, or 0 if the points are unsuitable.

    `points` and `heights` are the coordinates of the points. The results go into `to`, which is contiguous. All numbers are float64, and
    computed by the same steps as in NumPy (`arr_interp`). `point_stride`, `value_stride` and `height_stride` are strides in bytes, of
    `points`, `values` and `heights`. If `has_left` is not 0, `left` is the height before the first point; otherwise the first height is.
    `has_right` and `right` do the same behind the last point. The points must be at least two and ascend, without NaN; equal neighbours are
    allowed. With the result 0, nothing is written. `run_interpolation` calls the function, and Python code by address, without the GIL.
    """
    points, size, point_stride, values, count, value_stride, to, heights, height_stride, has_left, left, has_right, right = f.arguments
    f.require(size > 1)
    f.require(f.call(f"is_ascending_{float64}", I1, [points, size, point_stride]))
    # the positions are written into the memory of the result, which has as many bytes for each
    f.call(f"search_{float64}", I64, [*f.arguments[:7], f.i64(1)])

    def load_height(k: Value) -> Value:
        return heights.at(k * height_stride, I8).load(DOUBLE)

    def load_point(k: Value) -> Value:
        return points.at(k * point_stride, I8).load(DOUBLE)

    left_height = select(has_left.differs(0), left, load_height(f.i64(0)))
    right_height = select(has_right.differs(0), right, load_height(size - 1))
    last_point = load_point(size - 1)

    def interpolate_value(k: Value) -> None:
        x, position = values.at(k * value_stride, I8).load(DOUBLE), to.at(k, I64).load(I64)
        interval, result = position - 1, to.at(k, DOUBLE)

        def interpolate() -> None:
            x0, x1, y0, y1 = load_point(interval), load_point(position), load_height(interval), load_height(position)
            slope = (y1 - y0) / (x1 - x0)
            y = slope * (x - x0) + y0
            result.store(select(x.equals(x0), y0, y))

            def recompute_from_right() -> None:
                """Recompute from the right point: one of the two heights may be infinite."""
                y_from_right = slope * (x - x1) + y1
                result.store(select(y_from_right.is_nan() & y0.equals(y1), y0, y_from_right))

            f.only_if_unlikely(y.is_nan() & x.differs(x0), recompute_from_right)

        def extrapolate() -> None:
            right_value = select(x.equals(last_point), load_height(size - 1), right_height)
            result.store(select(x.is_nan(), x, select(position.equals(0), left_height, right_value)))

        inside = (position > 0) & (position < size)
        f.only_if(inside, interpolate)
        f.only_if_unlikely(~inside, extrapolate)

    f.for_range(count, interpolate_value)
    f.emit_return(f.i64(1))


def _emit_run_interpolation(f: FunctionBuilder) -> None:
    """Emit `run_interpolation(program, nodes, byte_offsets, results)`: run an interpolation program, and write the heights into the only
    result. Return true, or false to decline.

    The arguments are those of `run_search`. The function returns false for unsuitable points (`interpolate`). Many points with few wanted
    values also give false: checking the order of the points would take too long. `run_program` calls the function.
    """
    program, _, _, results = f.arguments
    has_left, left, has_right, right = (f.load_word(program, 8 * k) for k in range(1, 5))
    memory = f.require_new(f.call("PyBytes_FromStringAndSize", POINTER, [f.null(), f.load_word(program, 40)]))
    (x, count, value_stride), (points, size, point_stride), (heights, _, height_stride) = (
        _load_float64_operand(f, 48 + 48 * k, memory) for k in range(3)
    )
    f.require(size < count * 16 + MAX_CHECKED_POINTS)
    search_arguments = [points, size, point_stride, x, count, value_stride, get_result_address(f, results, 0)]
    arguments = [*search_arguments, heights, height_stride, has_left, left.as_float(), has_right, right.as_float()]
    f.require(f.call("interpolate", I64, arguments).differs(0))
    f.release_held(memory)
    f.emit_return(f.constant(I1, True))


def _load_float64_operand(f: FunctionBuilder, first_byte: int, memory: Value) -> list[Value]:
    """Emit the address, length and stride in bytes of a float64 operand. Return the three values, in a list.

    The description of the operand begins at byte `first_byte` of the program, the first argument of the function being emitted. A float32
    operand is first converted into `memory`, a bytes object with room for it; then the stride is 8.
    """
    program, *_ = f.arguments
    start, count, step = load_operand_extent(f, (first_byte,))
    is_single, scratch_offset = f.load_word(program, first_byte + 32), f.load_word(program, first_byte + 40)

    def convert_to_double() -> list[Value]:
        to = f.address_at(memory, BYTES_CONTENT_OFFSET).at(scratch_offset, I8)
        f.for_range(count, lambda k: to.at(k, DOUBLE).store(start.at(k * step, I8).load(FLOAT).to_double()))
        return [to, f.i64(8)]

    address, stride = f.choose(is_single.differs(0), convert_to_double, lambda: [start, step])
    return [address, count, stride]
