"""Direct calls: results computed in our memory by C loops of NumPy or code of ours. A program, 64-bit integers with an opcode first
(`fastpath/direct_call_programs.py`), describes such a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import DOUBLE, FLOAT, I1, I8, I64, POINTER, Type, array, vector
from ...graph.spec import FLOAT64_EXACT_LIMIT
from ...native.ufunc_loops import ARGUMENT_OPERAND, ARGUMENT_RESULT, ARGUMENT_SCRATCH, CALL_OPCODE, HEADER_WORDS, MAX_ARGUMENTS
from ..direct_call_programs import ARGSORT, DIGITIZE, INTERPOLATE, LEXSORT, QR, SEARCH, SORT, TOPK, WIDENED_CALL
from ..object_layout import BYTES_CONTENT_OFFSET, FLOAT_VALUE_OFFSET, SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from ..strided_copy import COPY_DESCRIPTOR_BYTES, SOURCE_INDEX_OFFSET, SOURCE_START_OFFSET
from .function_builder import FunctionBuilder
from .kernel_launch import emit_kernel_call
from .pending_operations import load_computed_slot
from .python_conversion import compute_tensor_node, has_unrecorded_node, is_known_scalar, load_data_address

MAX_HELD_OPERANDS = 4  # operands of a program, at most
FUNCTION_BY_OPCODE = {
    CALL_OPCODE: "call_loop",
    SORT: "sort_rows",
    ARGSORT: "argsort_rows",
    SEARCH: "run_search",
    TOPK: "topk_rows",
    WIDENED_CALL: "call_widened",
}
FUNCTION_BY_OPCODE |= {DIGITIZE: "digitize", INTERPOLATE: "run_interpolation", LEXSORT: "lexsort", QR: "factor_qr"}
CONVERTED_LANES = 8  # of the vectors in which floats are converted


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to run C loops on operands and results in memory, with the entry `run_program`.

    The functions emitted include `call_loop`, `call_loop_on_scratch`, `call_widened`, `widen` and `narrow`.
    """
    program_parameters = [(name, POINTER) for name in ("program", "nodes", "byte_offsets", "results")]
    _emit_call_loop_on_scratch(FunctionBuilder(module, objects, "call_loop_on_scratch", [*program_parameters, ("scratch", POINTER)], I1))
    _emit_call_loop(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[CALL_OPCODE], program_parameters, I1))
    conversion_parameters = [("start", POINTER), ("to", POINTER), ("count", I64)]
    for name, kinds in (("widen", (FLOAT, DOUBLE)), ("narrow", (DOUBLE, FLOAT))):
        _emit_convert_floats(FunctionBuilder(module, objects, name, conversion_parameters, I1), *kinds)
    _emit_call_widened(FunctionBuilder(module, objects, FUNCTION_BY_OPCODE[WIDENED_CALL], program_parameters, I1))
    arguments = [("x", POINTER), ("args", POINTER), ("argument_count", I64), ("tensor_count", I64), ("template", POINTER)]
    _emit_run_program(FunctionBuilder(module, objects, "run_program", arguments))


def get_operand_address(f: FunctionBuilder, nodes: Value, byte_offsets: Value, operand_index: Value, displacement: Value) -> Value:
    """Emit the address `displacement` bytes behind the beginning of operand `operand_index`, a tensor in memory or a number. Both numbers
    are `i64`. Return the address.

    `nodes` is the tuple of the operands' nodes, with None for a number. `byte_offsets` is the array of their byte offsets, with the address
    of a number in place of its offset.
    """
    node = f.tuple_item(nodes, operand_index)
    (begin,) = f.choose(f.is_object(node, "None"), lambda: [f.null()], lambda: [load_data_address(f, f.get_slot(node, "Node.buffer"))])
    return begin.at(byte_offsets.at(operand_index, I64).load(I64) + displacement, I8)


def get_source_address(f: FunctionBuilder, nodes: Value, byte_offsets: Value, copy_descriptor: Value) -> Value:
    """Emit the address of the first element that a strided copy reads. Return the address. `copy_descriptor` is the address of the copy
    descriptor (`fastpath/strided_copy.py`); `nodes` and `byte_offsets` are the operands' nodes and byte offsets.
    """
    operand_index, start = (f.load_word(copy_descriptor, offset) for offset in (SOURCE_INDEX_OFFSET, SOURCE_START_OFFSET))
    return get_operand_address(f, nodes, byte_offsets, operand_index, start)


def copy_operand(f: FunctionBuilder, nodes: Value, byte_offsets: Value, copy_descriptor: Value, to: Value) -> None:
    """Emit the copy of an operand's elements, contiguously, to the address `to`. Return None. The first arguments are those of
    `get_source_address`.
    """
    f.call("copy_region", I1, [get_source_address(f, nodes, byte_offsets, copy_descriptor), to, copy_descriptor])


def load_operand_extent(f: FunctionBuilder, program_offsets: Sequence[int]) -> list[Value]:
    """Emit the address, element count and stride in bytes of operands, each described by four words of the program. Return three `Value`s
    for each operand, in one list.

    The description of operand k begins at byte `program_offsets[k]` of the program. The function being emitted has four arguments, of which
    the first three are `program`, `nodes` and `byte_offsets`.
    """
    program, nodes, byte_offsets, _ = f.arguments
    extents: list[Value] = []
    for program_offset in program_offsets:
        operand_index, start, count, step = (f.load_word(program, program_offset + 8 * k) for k in range(4))
        extents += (get_operand_address(f, nodes, byte_offsets, operand_index, start), count, step)
    return extents


def get_result_address(f: FunctionBuilder, results: Value, result_index: int | Value) -> Value:
    """Emit the address of the data of tensor `result_index` in the tuple `results` of result tensors in memory. Return the address, at the
    beginning of the memory of the tensor; its offset is not added.
    """
    node = f.get_slot(f.get_slot(f.tuple_item(results, result_index), "Tensor.storage"), "Storage.node")
    return load_data_address(f, f.get_slot(node, "Node.buffer"))


def collect_operands(
    f: FunctionBuilder, x: Value, args: Value, argument_count: Value, tensor_count: Value, number: Value | None = None
) -> tuple[Value, Value]:
    """Emit the collection of the operands of a call: `x`, and the tensors among the `argument_count` arguments at `args`.

    Return a tuple of their nodes, which is held (see `FunctionBuilder.hold_owned`), and the address of the array of their byte offsets. The
    nodes are computed. `tensor_count` is the number of tensors, with `x`.

    `number`, if given, is at run time the dtype in which the call reads a Python number, or Python's None. With a dtype, the only number
    among the arguments is stored in local memory, in that dtype. The address of the number then stands last in the array, with None for its
    node. The emitted function returns null or 0 for `MAX_HELD_OPERANDS` tensors or more, tensors with a tape node, and tensors that
    `compute_tensor_node` declines. Null or 0 is also the result for a number that `_store_scalar` does not store.
    """
    f.require(tensor_count < MAX_HELD_OPERANDS)
    is_read = f.constant(I1, False) if number is None else ~f.is_object(number, "None")
    nodes = f.require_new(f.call("PyTuple_New", POINTER, [tensor_count + is_read.cast("zext", I64)]))
    byte_offsets, filled, scalar_address = f.local(array(I64, MAX_HELD_OPERANDS)), f.local(I64, f.i64(0)), f.local(I64)

    def read(tensor: Value) -> None:
        storage = f.get_slot(tensor, "Tensor.storage")
        f.require(f.or_else(is_known_scalar(f, storage), lambda: has_unrecorded_node(f, storage)))
        size = f.unbox_integer(f.get_slot(f.get_slot(tensor, "Tensor.dtype"), "DType.itemsize"))
        start, node = f.unbox_integer(load_computed_slot(f, tensor, "offset")) * size, compute_tensor_node(f, tensor)
        k = filled.load(I64)
        byte_offsets.at(k, I64).store(start)
        f.address_at(nodes, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(node)
        f.transfer_held(node)
        filled.store(k + 1)

    def read_if(k: Value) -> None:
        argument = args.at(k, POINTER).load(POINTER)
        f.emit_if(f.is_instance(argument, "Tensor"), lambda: read(argument))
        if number is not None:
            is_number = f.or_else(f.is_instance(argument, "float"), lambda: f.is_instance(argument, "int"))
            f.emit_if(is_read & is_number, lambda: _store_scalar(f, argument, number, scalar_address))

    read(x)
    f.for_range(argument_count, read_if)

    def append_scalar() -> None:
        byte_offsets.at(tensor_count, I64).store(scalar_address.cast("ptrtoint", I64))
        f.address_at(nodes, TUPLE_ITEMS_OFFSET).at(tensor_count, POINTER).store(f.incref(f.load_object("None")))

    f.emit_if(is_read, append_scalar)
    return nodes, byte_offsets


def _store_scalar(f: FunctionBuilder, argument: Value, dtype: Value, address: Value) -> None:
    """Emit the store of `argument`, a Python float or integer, at `address`, in the dtype `dtype`: float64, float32 or int64. Return None.

    The emitted function returns null or 0 for an integer that might be rounded or does not fit, and for a float with int64. Floats are
    rounded to float32.
    """

    def store_float() -> None:
        x = f.address_at(argument, FLOAT_VALUE_OFFSET).load(DOUBLE)
        f.emit_if(f.is_object(dtype, "float64"), lambda: address.store(x))
        f.emit_if(f.is_object(dtype, "float32"), lambda: address.store(x.to_single()))
        f.decline_if(f.is_object(dtype, "int64"))

    def store_integer() -> None:
        x, fits = f.unbox_checked(argument)
        f.require(fits)
        exact_limit = f.select_value(f.is_object(dtype, "float64"), f.i64(FLOAT64_EXACT_LIMIT), f.i64(1 << 24))
        f.require(f.or_else(f.is_object(dtype, "int64"), lambda: (x <= exact_limit) & (x >= f.i64(0) - exact_limit)))
        f.emit_if(f.is_object(dtype, "float64"), lambda: address.store(x.cast("sitofp", DOUBLE)))
        f.emit_if(f.is_object(dtype, "float32"), lambda: address.store(x.cast("sitofp", FLOAT)))
        f.emit_if(f.is_object(dtype, "int64"), lambda: address.store(x))

    is_float = f.is_instance(argument, "float")
    f.emit_if(is_float, store_float)
    f.emit_if(~is_float, store_integer)


def pack_results(f: FunctionBuilder, template: Value, results: Value) -> Value:
    """Emit the return value of a call with the template `template` (`TupleTemplate`), made of the held tuple `results`, which is released.
    Return a new reference, not held.

    The value is the only result, or the tuple converted to the tuple type of the template; null if that raises.
    """
    kind = f.get_slot(template, "TupleTemplate.result_constructor")
    take_single = lambda: [f.incref(f.tuple_item(results, f.i64(0)))]
    (result,) = f.choose(f.is_object(kind, "None"), take_single, lambda: [f.call("PyObject_CallOneArg", POINTER, [kind, results])])
    f.release_held(results)
    return result


def _emit_run_program(f: FunctionBuilder) -> None:
    """Emit `run_program(x, args, argument_count, tensor_count, template)`: return the result of a recorded call, computed at once by the
    program of its `DirectCallTemplate`, as a new reference. `replay_method` calls the function.

    `args` is the address of the `argument_count` arguments after `x`; `tensor_count` counts the tensors with `x`. Return null to decline:
    where the program fails or `collect_operands` declines.
    """
    x, args, argument_count, tensor_count, template = f.arguments
    program = f.address_at(f.get_slot(template, "DirectCallTemplate.loop_bytecode"), BYTES_CONTENT_OFFSET)
    nodes, byte_offsets = collect_operands(
        f, x, args, argument_count, tensor_count, f.get_slot(template, "DirectCallTemplate.number_dtype")
    )
    element_templates = f.get_slot(template, "TupleTemplate.element_templates")
    results = f.require_new(f.call("PyTuple_New", POINTER, [f.load_word(element_templates, SIZE_OFFSET)]))

    def allocate_result(k: Value) -> None:
        element_template = f.tuple_item(element_templates, k)
        tensor = f.require_new(
            f.call(
                "new_blank",
                POINTER,
                [f.get_slot(element_template, "RecipeTemplate.recipe"), f.get_slot(element_template, "ResultTemplate.spec")],
            )
        )
        shift = f.get_slot(element_template, "InMemoryTemplate.offset")

        def apply_shift() -> None:
            old_offset = f.get_slot(tensor, "Tensor.offset")
            f.set_slot(tensor, "Tensor.offset", f.incref(shift))
            f.decref(old_offset)

        f.emit_if(~f.is_object(shift, "0"), apply_shift)
        f.address_at(results, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(tensor)
        f.transfer_held(tensor)

    f.for_range(f.load_word(element_templates, SIZE_OFFSET), allocate_result)
    success = f.local(I64, f.i64(0))
    for opcode, name in FUNCTION_BY_OPCODE.items():
        run_loop = lambda name=name: success.store(f.call(name, I1, [program, nodes, byte_offsets, results]).cast("zext", I64))
        f.emit_if(f.load_word(program, 0).equals(opcode), run_loop)
    f.decline_if(success.load(I64).equals(0))
    result = pack_results(f, template, results)
    f.release_held(nodes)
    f.emit_return(result)


def _emit_call_loop(f: FunctionBuilder) -> None:
    """Emit `call_loop(program, nodes, byte_offsets, results)`, for the opcode `CALL_OPCODE`: run a C loop of NumPy by
    `call_loop_on_scratch`, with the same arguments and no scratch memory. Return whether that succeeded. `run_program` calls the function.
    """
    f.emit_return(f.call("call_loop_on_scratch", I1, [*f.arguments, f.null()]))


def _emit_call_widened(f: FunctionBuilder) -> None:
    """Emit `call_widened(program, nodes, byte_offsets, results)`: run a C loop of NumPy in double precision on data in single precision,
    for the opcode `WIDENED_CALL`. Return true, or false on a failure, as `call_loop_on_scratch`.

    `program` is the address of the integers of the program. The operands (`nodes`, byte offsets `byte_offsets`) are converted into scratch
    memory, and the results from there into `results`, a tuple. `run_program` calls the function.
    """
    program, nodes, byte_offsets, results = f.arguments
    size, operand_count, result_count, inner_offset = (f.load_word(program, 8 * k) for k in range(1, 5))
    memory = f.require_new(f.call("PyBytes_FromStringAndSize", POINTER, [f.null(), size]))
    scratch, words = f.address_at(memory, BYTES_CONTENT_OFFSET), 16 + COPY_DESCRIPTOR_BYTES

    def read(k: Value) -> None:
        """Emit the copy of operand `k` to the upper half of its scratch memory, and its conversion into the whole."""
        descriptor = f.address_at(program, 5 * 8).at(k * words, I8)
        to, count, copy_descriptor = scratch.at(f.load_word(descriptor, 0), I8), f.load_word(descriptor, 8), f.address_at(descriptor, 16)
        single_data = to.at(count, FLOAT)
        copy_operand(f, nodes, byte_offsets, copy_descriptor, single_data)
        f.call("widen", I1, [single_data, to, count])

    f.for_range(operand_count, read)
    inner_program = program.at(inner_offset, I8)
    f.require(f.call("call_loop_on_scratch", I1, [inner_program, nodes, byte_offsets, results, scratch]))

    def write(k: Value) -> None:
        descriptor = f.address_at(program, 5 * 8).at(operand_count * words + k * 16, I8)
        start, to, count = scratch.at(f.load_word(descriptor, 0), I8), get_result_address(f, results, k), f.load_word(descriptor, 8)
        f.emit_if(count >= 0, lambda: f.call("narrow", I1, [start, to, count]))
        f.emit_if(count < 0, lambda: f.for_range(f.i64(0) - count, lambda j: to.at(j, I64).store(start.at(j, I64).load(I64))))

    f.for_range(result_count, write)
    f.release_held(memory)
    f.emit_return(f.constant(I1, True))


def _emit_convert_floats(f: FunctionBuilder, source_type: Type, result_type: Type) -> None:
    """Emit `widen(start, to, count)` or `narrow`: copy `count` floats from the address `start` to the address `to`, converted from LLVM
    type `source_type` to `result_type`. Return true.

    They are copied in ascending order, so the source may stand further on in the memory of the result. `call_widened` and `factor_qr` call
    the function.
    """
    start, to, count = f.arguments

    def convert(k: Value, lanes: int) -> None:
        x = start.at(k, source_type).load(vector(source_type, lanes))
        to.at(k, result_type).store(x.to_double() if result_type is DOUBLE else x.to_single())

    vector_steps = count >> CONVERTED_LANES.bit_length() - 1
    f.for_range(vector_steps, lambda k: convert(k * CONVERTED_LANES, CONVERTED_LANES))
    f.for_range(count - vector_steps * CONVERTED_LANES, lambda k: convert(vector_steps * CONVERTED_LANES + k, 0))
    f.emit_return(f.constant(I1, True))


def _emit_call_loop_on_scratch(f: FunctionBuilder) -> None:
    """Emit `call_loop_on_scratch(program, nodes, byte_offsets, results, scratch)`: run a C loop of NumPy as the program says. Return true,
    or false on a failure.

    `program` is the address of the integers of the program, and `scratch` the address of scratch memory, or null. `nodes` and
    `byte_offsets` are the operands' nodes and byte offsets. `results` is the tuple of result tensors. Failures are an error of the loop, a
    result with the NaN of a failure, and a non-finite operand if it must be finite. `call_loop`, `call_widened` and `factor_qr` call the
    function.
    """
    program, nodes, byte_offsets, results, scratch = f.arguments
    words = [f.load_word(program, 8 * k) for k in range(1, HEADER_WORDS)]
    loop, data, count, at_dimensions, at_steps, at_constant, nan_checks, nan_stride, floats, first_result, counts, counted, no_gil = words
    argument_addresses = f.local(array(POINTER, MAX_ARGUMENTS))

    def store_address(k: Value) -> None:
        descriptor = f.address_at(program, 8 * HEADER_WORDS).at(k * 3, I64)
        argument_kind, index, start = (descriptor.at(j, I64).load(I64) for j in range(3))

        def resolve_scratch() -> list[Value]:
            return f.choose(argument_kind.equals(ARGUMENT_SCRATCH), lambda: [scratch.at(start, I8)], lambda: [program.at(at_constant, I8)])

        def resolve_non_operand() -> list[Value]:
            return f.choose(argument_kind.equals(ARGUMENT_RESULT), lambda: [get_result_address(f, results, index)], resolve_scratch)

        resolve_operand = lambda: [get_operand_address(f, nodes, byte_offsets, index, start)]
        argument_addresses.at(k, POINTER).store(f.choose(argument_kind.equals(ARGUMENT_OPERAND), resolve_operand, resolve_non_operand)[0])

    f.for_range(count, store_address)
    at_counts = argument_addresses.at(counts, POINTER).load(POINTER)
    f.for_range(counted, lambda k: at_counts.at(k, I64).store(f.i64(0)))  # the loop writes 32-bit integers, the lower halves
    # before the call: a loop advances these pointers
    first_operand, result = argument_addresses.load(POINTER), argument_addresses.at(first_result, POINTER).load(POINTER)
    f.for_range(
        floats, lambda k: f.require((first_operand.at(k, DOUBLE).load(DOUBLE) - first_operand.at(k, DOUBLE).load(DOUBLE)).equals(0))
    )
    call_arguments = (argument_addresses, program.at(at_dimensions, I8), program.at(at_steps, I8), data.cast("inttoptr", POINTER))
    emit_kernel_call(f, f"call void {loop.cast('inttoptr', POINTER).text}({', '.join(map(repr, call_arguments))})", no_gil.differs(0))
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.for_range(nan_checks, lambda k: f.decline_if(result.at(k * nan_stride, I8).load(DOUBLE).is_nan()))
    f.emit_return(f.constant(I1, True))
