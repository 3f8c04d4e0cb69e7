"""`bincount` and `unique`: the sizes of the results are known only when the values are found. A program, 64-bit integers
(`fastpath/direct_call_programs.py`), describes such a call; a run is a sequence of equal elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...codegen.llvm.builder import Module, Value, intrinsic, select
from ...codegen.llvm.types import DOUBLE, FLOAT, I1, I8, I16, I32, I64, POINTER, Type, int_type, vector
from ...dtypes import DType
from ...native.counting_ops import COUNTABLE_DTYPES, UNIQUE_ALL, UNIQUE_COUNTS, UNIQUE_INVERSE
from ..direct_call_programs import BINCOUNT
from ..limits import MAX_SMALL_BLOCK_BYTES, SORTABLE_LLVM_TYPES
from ..object_layout import BYTES_CONTENT_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from .direct_calls import collect_operands, copy_operand, get_result_address, load_operand_extent, pack_results
from .function_builder import FunctionBuilder

COMPARED_LANES = 8  # of the vectors in which elements are compared
COUNTING_UNROLL = 4  # iterations of a counting loop
_COMPARED_BITS = (8, 16, 32, 64)  # bits of elements that are compared
SORTED_TYPES = (I8, I16, I32, I64, FLOAT, DOUBLE)  # types of sorted elements, compared as numbers in vectors: NaN differs from NaN


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions for `bincount` and `unique`: the entry `replay_counted`, and loops for each dtype."""
    for dtype in COUNTABLE_DTYPES:
        integer_parameters = [("start", POINTER), ("count", I64), ("stride", I64)]
        _emit_find_range(FunctionBuilder(module, objects, f"find_range_{dtype}", [*integer_parameters, ("ends", POINTER)], I1), dtype)
        _emit_count_integers(FunctionBuilder(module, objects, f"count_integers_{dtype}", [*integer_parameters, ("to", POINTER)], I1), dtype)
        _emit_add_weights(
            FunctionBuilder(
                module,
                objects,
                f"add_weights_{dtype}",
                [*integer_parameters, ("weights", POINTER), ("weight_stride", I64), ("to", POINTER)],
                I1,
            ),
            dtype,
        )
    for name, kind in zip(SORTABLE_LLVM_TYPES, SORTED_TYPES, strict=True):
        sorted_parameters, to = [("start", POINTER), ("count", I64)], ("to", POINTER)
        _emit_count_distinct(FunctionBuilder(module, objects, f"count_distinct_{name}", sorted_parameters, I64, is_exported=True), kind)
        _emit_store_distinct(
            FunctionBuilder(module, objects, f"store_distinct_{name}", [*sorted_parameters, to], I64, is_exported=True), kind
        )
    for bits in _COMPARED_BITS:
        run_parameters = [(name, POINTER) for name in ("start", "permutation", "values", "indices", "inverse", "counts")]
        _emit_count_runs(FunctionBuilder(module, objects, f"count_runs_{bits}", [*run_parameters[:2], ("count", I64)], I64), bits)
        _emit_store_runs(FunctionBuilder(module, objects, f"store_runs_{bits}", [*run_parameters, ("count", I64)], I1), bits)
    program_parameters = [(name, POINTER) for name in ("program", "nodes", "byte_offsets", "templates_by_size")]
    _emit_new_vector(FunctionBuilder(module, objects, "new_vector", [("table", POINTER), ("size", I64)]))
    _emit_bincount(FunctionBuilder(module, objects, "bincount", program_parameters))
    _emit_unique(FunctionBuilder(module, objects, "unique", program_parameters))
    arguments = [("x", POINTER), ("args", POINTER), ("argument_count", I64), ("tensor_count", I64), ("template", POINTER)]
    _emit_replay_counted(FunctionBuilder(module, objects, "replay_counted", arguments))


def _emit_replay_counted(f: FunctionBuilder) -> None:
    """Emit `replay_counted(x, args, argument_count, tensor_count, template)`: return the result of a recorded call of `bincount` or
    `unique`, as a new reference; null to decline. `replay_method` calls the function.

    `template` is the recorded template (`DirectCallTemplate`). `args` is the address of the `argument_count` arguments after `x`;
    `tensor_count` counts the tensors with `x`.
    """
    x, args, argument_count, tensor_count, template = f.arguments
    program, templates_by_size = (
        f.address_at(f.get_slot(template, "DirectCallTemplate.loop_bytecode"), BYTES_CONTENT_OFFSET),
        f.get_slot(template, "TupleTemplate.element_templates"),
    )
    nodes, byte_offsets = collect_operands(f, x, args, argument_count, tensor_count)

    def run(name: str) -> list[Value]:
        return [f.call(name, POINTER, [program, nodes, byte_offsets, templates_by_size])]

    (results,) = f.choose(f.load_word(program, 0).equals(BINCOUNT), lambda: run("bincount"), lambda: run("unique"))
    f.require_new(results)
    f.release_held(nodes)
    f.emit_return(pack_results(f, template, results))


def _emit_new_vector(f: FunctionBuilder) -> None:
    """Emit `new_vector(table, size)`: return a new, uninitialized 1-d tensor of `size` elements, a new reference; null if memory is short
    or `table` raises an error.

    `table` is a Python mapping from sizes to templates, which have the recipe and the spec of the tensor. `bincount` and `unique` call the
    function.
    """
    table, size = f.arguments
    key = f.box_integer(size)
    template = f.require_new(f.call("PyObject_GetItem", POINTER, [table, key]))
    tensor = f.require_new(
        f.call("new_blank", POINTER, [f.get_slot(template, "RecipeTemplate.recipe"), f.get_slot(template, "ResultTemplate.spec")])
    )
    f.release_held(key, template)
    f.transfer_held(tensor)
    f.emit_return(tensor)


def _new_vectors(f: FunctionBuilder, templates_by_size: Value, sizes: Sequence[Value]) -> Value:
    """Emit the creation of a tuple of uninitialized 1-d tensors. Return the tuple, which is held (see `FunctionBuilder.hold_owned`).

    Tensor k has `sizes[k]` elements, and item k of the tuple `templates_by_size` maps sizes to templates of tensor k. The emitted function
    returns null or 0 on a failure.
    """
    vectors = f.require_new(f.call("PyTuple_New", POINTER, [f.i64(len(sizes))]))
    for k, size in enumerate(sizes):
        vector = f.require_new(f.call("new_vector", POINTER, [f.tuple_item(templates_by_size, k), size]))
        f.address_at(vectors, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(vector)
        f.transfer_held(vector)
    return vectors


# --- bincount ---------------------------------------------------------------------------------------------------------


def _load_integer(f: FunctionBuilder, dtype: DType, address: Value) -> Value:
    """Emit the load of an integer of `dtype` at `address`, extended to 64 bits. Return the integer, an `i64`."""
    kind = int_type(dtype.bits)
    integer = address.load(kind)
    return integer if kind is I64 else integer.cast("sext" if dtype.kind == "int" else "zext", I64)


def _emit_find_range(f: FunctionBuilder, dtype: DType) -> None:
    """Emit `find_range_<dtype>(start, count, stride, ends)`: store the minimum and the maximum of `count` >= 1 integers of the dtype
    `dtype`, at the address `start`, as two 64-bit words at `ends`; return true.

    `stride` is the stride of the integers in bytes. `bincount` calls the function.
    """
    start, count, stride, ends = f.arguments
    kind, letter = int_type(dtype.bits), "s" if dtype.kind == "int" else "u"
    first_integer = start.load(kind)
    vector_steps = f.select_value(stride.equals(kind.bytes), count >> COMPARED_LANES.bit_length() - 1, f.i64(0))

    def extreme(name: str, x: Value, y: Value) -> Value:
        return intrinsic(f"{letter}{name}", x, y)

    def fold_vector(k: Value, extrema: Sequence[Value]) -> Sequence[Value]:
        x = start.at(k * COMPARED_LANES, kind).load(vector(kind, COMPARED_LANES))
        return [extreme(name, y, x) for name, y in zip(("min", "max"), extrema, strict=True)]

    def fold_scalar(k: Value, extrema: Sequence[Value]) -> Sequence[Value]:
        x = start.at((vector_steps * COMPARED_LANES + k) * stride, I8).load(kind)
        return [extreme(name, y, x) for name, y in zip(("min", "max"), extrema, strict=True)]

    lane_extrema = f.fold_range_values(vector_steps, [first_integer.splat(COMPARED_LANES)] * 2, fold_vector)
    joined = [
        intrinsic(f"vector.reduce.{letter}{name}", x, result=kind, suffix=x.type.mangled)
        for name, x in zip(("min", "max"), lane_extrema, strict=True)
    ]
    for k, x in enumerate(f.fold_range_values(count - vector_steps * COMPARED_LANES, joined, fold_scalar)):
        ends.at(k, I64).store(x if kind is I64 else x.cast("sext" if letter == "s" else "zext", I64))
    f.emit_return(f.constant(I1, True))


def _emit_count_integers(f: FunctionBuilder, dtype: DType) -> None:
    """Emit `count_integers_<dtype>(start, count, stride, to)`: add 1 to `to[i]` for each of `count` integers i of the dtype `dtype`, at the
    address `start`; return true.

    No integer may be negative. `to` is an array of int64 with room for the largest integer. `stride` is the stride of the integers in
    bytes. `bincount` calls the function.
    """
    start, count, stride, to = f.arguments

    def count_integer(integer_address: Value, _: Value) -> None:
        counter = to.at(_load_integer(f, dtype, integer_address), I64)
        counter.store(counter.load(I64) + 1)

    _for_each_integer(f, dtype, start, count, stride, count_integer, f.constant(I1, True))


def _emit_add_weights(f: FunctionBuilder, dtype: DType) -> None:
    """Emit `add_weights_<dtype>(start, count, stride, weights, weight_stride, to)`: add the weight of each of `count` integers i of the
    dtype `dtype`, at the address `start`, to `to[i]`, in order; return true.

    No integer may be negative. `weights` and `to` are arrays of float64; `to` has room for the largest integer. `stride` and
    `weight_stride` are the strides in bytes of the integers and the weights. `bincount` calls the function.
    """
    start, count, stride, weights, weight_stride, to = f.arguments

    def add_weight(integer_address: Value, weight: Value) -> None:
        total = to.at(_load_integer(f, dtype, integer_address), DOUBLE)
        total.store(total.load(DOUBLE) + weight.load(DOUBLE))

    _for_each_integer(f, dtype, start, count, stride, add_weight, weight_stride.equals(8), weights, weight_stride)


def _for_each_integer(
    f: FunctionBuilder,
    dtype: DType,
    start: Value,
    count: Value,
    stride: Value,
    emit_body: Callable[[Value, Value], None],
    are_weights_dense: Value,
    weights: Value | None = None,
    weight_stride: Value | None = None,
) -> None:
    """Emit a loop that runs the code of `emit_body(address of integer, address of weight)` for each integer, and then a return of true from
    the function being emitted.

    There are `count` integers of `dtype`, beginning at `start`. `stride` and `weight_stride` are the strides in bytes of integers and
    weights. Without weights (None), the second address has no meaning. The loop is unrolled if the integers are contiguous and, at run
    time, `are_weights_dense` holds: the weights are contiguous, or there are none.
    """
    kind, second_start = int_type(dtype.bits), start if weights is None else weights
    unrolled_steps = f.select_value(stride.equals(kind.bytes) & are_weights_dense, count >> COUNTING_UNROLL.bit_length() - 1, f.i64(0))

    def run_unrolled(k: Value) -> None:
        integers, second = start.at(k * COUNTING_UNROLL, kind), second_start.at(k * COUNTING_UNROLL, I64)
        for j in range(COUNTING_UNROLL):
            emit_body(integers.at(j, kind), second.at(j, I64))

    def run_single(k: Value) -> None:
        position = k + unrolled_steps * COUNTING_UNROLL
        emit_body(start.at(position * stride, I8), second_start.at(position * (stride if weight_stride is None else weight_stride), I8))

    f.for_range(unrolled_steps, run_unrolled)
    f.for_range(count - unrolled_steps * COUNTING_UNROLL, run_single)
    f.emit_return(f.constant(I1, True))


def _emit_bincount(f: FunctionBuilder) -> None:
    """Emit `bincount(program, nodes, byte_offsets, templates_by_size)`: return a new tuple with one tensor, the counts of the integers or
    the sums of their weights.

    `program` is the address of the integers of the program. `nodes` is the tuple of the operands' nodes, `byte_offsets` the array of their
    byte offsets, and `templates_by_size` the tuple of a mapping from sizes to templates of the result. `replay_counted` calls the function.
    Return null, to decline, for negative integers, for a result of more than `MAX_SMALL_BLOCK_BYTES` bytes, and if memory runs out.
    """
    program, _, _, templates_by_size = f.arguments
    number, min_size, has_weights = (f.load_word(program, 8 * k) for k in range(1, 4))
    integer_extent = load_operand_extent(f, (32,))
    ends = f.local(vector(I64, 2))
    for k, dtype in enumerate(COUNTABLE_DTYPES):
        f.emit_if(number.equals(k), lambda dtype=dtype: f.call(f"find_range_{dtype}", I1, [*integer_extent, ends]))  # type: ignore[misc]
    low, high = ends.load(I64), ends.at(1, I64).load(I64)
    f.require(low >= 0)
    f.require(high < MAX_SMALL_BLOCK_BYTES // 8)
    size = select(high < min_size, min_size, high + 1)
    f.require(size <= MAX_SMALL_BLOCK_BYTES // 8)
    results = _new_vectors(f, templates_by_size, [size])
    to = get_result_address(f, results, 0)
    f.for_range(size, lambda k: to.at(k, I64).store(f.i64(0)))
    for k, dtype in enumerate(COUNTABLE_DTYPES):

        def count_integers(dtype: DType = dtype) -> None:
            def add_weights() -> Sequence[Value]:
                weights, _, weight_stride = load_operand_extent(f, (64,))
                return [f.call(f"add_weights_{dtype}", I1, [*integer_extent, weights, weight_stride, to])]

            f.choose(has_weights.differs(0), add_weights, lambda: [f.call(f"count_integers_{dtype}", I1, [*integer_extent, to])])

        f.emit_if(number.equals(k), count_integers)
    f.transfer_held(results)
    f.emit_return(results)


# --- unique -----------------------------------------------------------------------------------------------------------


def _load_sorted(f: FunctionBuilder, kind: Type, permutation: Value | None, k: Value) -> tuple[Value, Value]:
    """Emit the load of element `k` in sorted order, of LLVM type `kind`. Return the element, and its position in memory.

    `permutation` is the address of the permutation that sorts the elements, or None if they are stored in order. The elements begin at the
    first argument of the function being emitted.
    """
    start = f.arguments[0]
    position = k if permutation is None else permutation.at(k, I64).load(I64)
    return start.at(position, kind).load(kind), position


def _compare_with_previous(start: Value, kind: Type, k: Value, lanes: int) -> tuple[Value, Value]:
    """Emit the load of `lanes` elements of LLVM type `kind` (0 lanes: a scalar) of the array at `start`, from position `k` >= 1 on.

    Return the elements, and for each a flag: whether it differs from the element before it.
    """
    x, previous = (start.at(k - j, kind).load(vector(kind, lanes)) for j in (0, 1))
    return x, x.differs(previous)


def _emit_count_distinct(f: FunctionBuilder, kind: Type) -> None:
    """Emit `count_distinct_<type>(start, count)`: return the number of distinct values among `count` >= 1 sorted elements of LLVM type
    `kind` at the address `start`. Python code also calls the function by address.
    """
    start, count = f.arguments
    vector_steps = (count - 1) >> COMPARED_LANES.bit_length() - 1

    def count_vector(k: Value, lane_counts: Value) -> Value:
        return lane_counts + _compare_with_previous(start, kind, k * COMPARED_LANES + 1, COMPARED_LANES)[1].cast("zext", I64)

    lane_counts = f.fold_range(vector_steps, f.zeros(vector(I64, COMPARED_LANES)), count_vector)
    distinct_count = intrinsic("vector.reduce.add", lane_counts, result=I64, suffix=lane_counts.type.mangled) + 1
    scalar_start = vector_steps * COMPARED_LANES + 1
    f.emit_return(
        f.fold_range(
            count - scalar_start,
            distinct_count,
            lambda k, distinct_count: distinct_count + _compare_with_previous(start, kind, scalar_start + k, 0)[1].cast("zext", I64),
        )
    )


def _emit_store_distinct(f: FunctionBuilder, kind: Type) -> None:
    """Emit `store_distinct_<type>(start, count, to)`: store the distinct values among `count` >= 1 sorted elements at the address `start`,
    in order, at the address `to`; return their number.

    `kind` is the LLVM type of the elements. Python code also calls the function by address.
    """
    start, count, to = f.arguments
    vector_steps = (count - 1) >> COMPARED_LANES.bit_length() - 1

    def store(x: Value, differs: Value, last_index: Value, last_value: Value) -> list[Value]:
        last_index, last_value = last_index + differs.cast("zext", I64), select(differs, x, last_value)
        to.at(last_index, kind).store(last_value)  # without a new value, the last one again: of zeros of both signs the first stays
        return [last_index, last_value]

    def store_vectors_or_lanes(k: Value, state: Sequence[Value]) -> Sequence[Value]:
        x, differ = _compare_with_previous(start, kind, k * COMPARED_LANES + 1, COMPARED_LANES)
        bits = differ.bitcast(int_type(COMPARED_LANES))

        def store_vector() -> Sequence[Value]:
            to.at(state[0] + 1, kind).store(x)
            return [state[0] + COMPARED_LANES, x.lane(COMPARED_LANES - 1)]

        def store_lanes() -> Sequence[Value]:
            lane_state = state
            for j in range(COMPARED_LANES):
                lane_state = store(x.lane(j), differ.lane(j), *lane_state)
            return lane_state

        return f.choose(bits.equals(-1), store_vector, lambda: f.choose(bits.equals(0), lambda: state, store_lanes))

    first_value, scalar_start = start.load(kind), vector_steps * COMPARED_LANES + 1
    to.store(first_value)
    final_state = f.fold_range_values(vector_steps, [f.i64(0), first_value], store_vectors_or_lanes)
    final_state = f.fold_range_values(
        count - scalar_start, final_state, lambda k, state: store(*_compare_with_previous(start, kind, scalar_start + k, 0), *state)
    )
    f.emit_return(final_state[0] + 1)


def _emit_count_runs(f: FunctionBuilder, bits: int) -> None:
    """Emit `count_runs_<bits>(start, permutation, count)`: return the number of runs of equal elements among `count` >= 1 elements at
    `start`.

    The elements are read in the order given by `permutation`, or as they stand if `permutation` is null. `unique` calls the function.
    """
    start, permutation, count = f.arguments
    kind = int_type(bits)

    f.return_if(f.is_null(permutation), lambda: f.call(f"count_distinct_{kind.text}", I64, [start, count]))
    first_value, _ = _load_sorted(f, kind, permutation, f.i64(0))

    def count_run(k: Value, state: Sequence[Value]) -> Sequence[Value]:
        x, _ = _load_sorted(f, kind, permutation, k + 1)
        return [state[0] + x.differs(state[1]).cast("zext", I64), x]

    f.emit_return(f.fold_range_values(count - 1, [f.i64(1), first_value], count_run)[0])


def _emit_store_runs(f: FunctionBuilder, bits: int) -> None:
    """Emit `store_runs_<bits>(start, permutation, values, indices, inverse, counts, count)`: store one value for each run of equal elements
    at `values`; return true.

    The `count` elements at `start` are read in the order given by `permutation`, or as they stand if `permutation` is null. Unless null,
    `counts` takes the length of each run. With a permutation, `inverse` takes the run of each element, and must not be null; `indices`,
    unless null, takes the position of the first element of each run. `counts`, `inverse` and `indices` are arrays of int64. `unique` calls
    the function.
    """
    start, permutation, values, indices, inverse, counts, count = f.arguments
    kind = int_type(bits)
    has_values_only = f.is_null(permutation) & f.is_null(counts)
    f.return_if(has_values_only, lambda: f.call(f"store_distinct_{kind.text}", I64, [start, count, values]).differs(0))

    def store_in_order(order: Value | None) -> Sequence[Value]:
        first_value, _ = _load_sorted(f, kind, order, f.i64(0))
        is_counted, has_indices = ~f.is_null(counts), ~f.is_null(indices)

        def store_element(k: Value, state: Sequence[Value]) -> Sequence[Value]:
            run, last_value, run_start, first_position = state
            x, position = _load_sorted(f, kind, order, k)
            is_new = x.differs(last_value)
            run = run + is_new.cast("zext", I64)
            run_start, first_position = select(is_new, k, run_start), select(is_new, position, first_position)
            values.at(run, kind).store(x)
            f.only_if(is_counted, lambda: counts.at(run, I64).store(k - run_start + 1))
            if order is not None:
                inverse.at(position, I64).store(run)
                f.only_if(has_indices, lambda: indices.at(run, I64).store(first_position))
            return [run, x, run_start, first_position]

        initial_position = f.i64(0) if order is None else order.load(I64)
        f.fold_range_values(count, [f.i64(0), first_value, f.i64(0), initial_position], store_element)
        return [f.constant(I1, True)]

    f.emit_return(f.choose(f.is_null(permutation), lambda: store_in_order(None), lambda: store_in_order(permutation))[0])


def _emit_unique(f: FunctionBuilder) -> None:
    """Emit `unique(program, nodes, byte_offsets, templates_by_size)`: return a new tuple of tensors; null, to decline, if an element is NaN
    or a negative zero, if sorting fails, or if memory runs out.

    `replay_counted` calls the function. The tensors are the distinct values, followed by the wanted ones of indices, inverse and counts, in
    this order. The arguments are those of `bincount`; item k of `templates_by_size` maps sizes to templates of tensor k. A C function of
    NumPy sorts a copy of the elements, or a permutation of it if positions are wanted.
    """
    program, nodes, byte_offsets, templates_by_size = f.arguments
    bits, nan_check, sort, argsort, wanted, n, item_bytes = (f.load_word(program, 8 * k) for k in range(1, 8))
    copy_descriptor = f.address_at(program, 8 * 8)
    needs_permutation = wanted >= UNIQUE_INVERSE
    byte_count = n * item_bytes + f.select_value(needs_permutation, n * 8 + 8, f.i64(0))
    memory = f.require_new(f.call("PyBytes_FromStringAndSize", POINTER, [f.null(), byte_count]))
    start = f.address_at(memory, BYTES_CONTENT_OFFSET)
    copy_operand(f, nodes, byte_offsets, copy_descriptor, start)
    for k, kind in enumerate((DOUBLE, FLOAT)):
        f.emit_if(nan_check.equals(k + 1), lambda kind=kind: f.decline_if(f.call(f"has_irregular_{kind.text}", I1, [start, n])))  # type: ignore[misc]
    data_end = start.at(n * item_bytes, I8)
    misalignment = data_end.cast("ptrtoint", I64) & 7
    permutation = f.select_value(needs_permutation, data_end.at((f.i64(8) - misalignment) & 7, I8), f.null())

    def sort_permutation() -> Sequence[Value]:
        f.for_range(n, lambda k: permutation.at(k, I64).store(k))
        function = argsort.cast("inttoptr", POINTER)
        return [f.define(I32, f"call i32 {function.text}({start!r}, {permutation!r}, {n!r}, ptr null)")]

    def sort_elements() -> Sequence[Value]:
        function = sort.cast("inttoptr", POINTER)
        return [f.define(I32, f"call i32 {function.text}({start!r}, {n!r}, ptr null)")]

    f.require(f.choose(needs_permutation, sort_permutation, sort_elements)[0].equals(0))
    size = f.local(I64, f.i64(0))
    for width in _COMPARED_BITS:
        count_runs = lambda width=width: size.store(f.call(f"count_runs_{width}", I64, [start, permutation, n]))
        f.emit_if(bits.equals(width), count_runs)
    runs = size.load(I64)
    sizes = {0: [runs], UNIQUE_COUNTS: [runs, runs], UNIQUE_INVERSE: [runs, n], UNIQUE_ALL: [runs, runs, n, runs]}
    roles = {0: [0], UNIQUE_COUNTS: [0, 3], UNIQUE_INVERSE: [0, 2], UNIQUE_ALL: [0, 1, 2, 3]}
    for output_kind, vector_sizes in sizes.items():

        def store_results(output_kind: int = output_kind, vector_sizes: Sequence[Value] = vector_sizes) -> Value:
            results = _new_vectors(f, templates_by_size, vector_sizes)
            to = [f.null()] * 4
            for k, role in enumerate(roles[output_kind]):
                to[role] = get_result_address(f, results, k)
            for width in _COMPARED_BITS:
                store_runs = lambda width=width: f.call(f"store_runs_{width}", I1, [start, permutation, *to, n])
                f.emit_if(bits.equals(width), store_runs)
            held_references = list(f._held)
            f.transfer_held(results)
            f.release_held(memory)
            f._held[:] = [x for x in held_references if x is not results]
            return results

        f.return_if(wanted.equals(output_kind), store_results)
    f.decline()
