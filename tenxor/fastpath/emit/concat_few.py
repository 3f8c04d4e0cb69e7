"""Concatenating and stacking a few tensors as recorded: regions of their elements are copied to the result. The recorded template has copy
descriptors, integers that describe each region (`fastpath/strided_copy.py`).
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I8, I64, POINTER, array
from ...tensor.join_by_fastpath import PARALLEL_COPY_BYTES
from ..copy_descriptors import MAX_JOINED_TENSORS
from ..object_layout import BYTES_CONTENT_OFFSET, SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from ..strided_copy import (
    COPY_DESCRIPTOR_BYTES,
    COPY_ROW_BYTES_OFFSET,
    DESTINATION_START_OFFSET,
    LOOPS_OFFSET,
    SOURCE_INDEX_OFFSET,
    SOURCE_START_OFFSET,
)
from .call_replay import spread_arguments
from .function_builder import FunctionBuilder
from .kernel_launch import emit_without_gil
from .node_evaluation import new_node_in_memory
from .pending_operations import compute_specs, find_or_instantiate
from .python_conversion import load_data_address
from .row_selection import emit_by_row_width
from .template_cache import get_cache_table

MAX_JOIN_ARGUMENTS = 16  # operands and further arguments for which size-generic templates exist


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to concatenate or stack a few tensors as recorded.

    The functions emitted include `replay_join`, `join_tensors`, `instantiate_join`, `build_join_key`, `copy_region` and `copy_rows`.
    """
    row_parameters = [(name, I64) for name in ("count", "source_stride", "to_stride", "width")]
    _emit_copy_rows(FunctionBuilder(module, objects, "copy_rows", [("source", POINTER), ("to", POINTER), *row_parameters], I1))
    _emit_copy_region(
        FunctionBuilder(module, objects, "copy_region", [("source", POINTER), ("to", POINTER), ("copy_descriptor", POINTER)], I1)
    )
    _emit_build_join_key(
        FunctionBuilder(module, objects, "build_join_key", [("tensors", POINTER), ("further_args", POINTER), ("count", I64)])
    )
    parameters = [("op", POINTER), ("tensors", POINTER), ("further_args", POINTER), ("count", I64)]
    rule_parameters = [("spec", POINTER), ("slot", I64), ("op", POINTER), ("key", POINTER), *parameters[1:]]
    _emit_instantiate_join(FunctionBuilder(module, objects, "instantiate_join", rule_parameters))
    _emit_join_tensors(FunctionBuilder(module, objects, "join_tensors", parameters))
    _emit_replay_join(
        FunctionBuilder(module, objects, "replay_join", [("self", POINTER), ("args", POINTER), ("count", I64)], is_exported=True)
    )


def _emit_replay_join(f: FunctionBuilder) -> None:
    """Emit `replay_join(name, args, named)`, called from Python: replay a call of `concat`, `stack` and the like, recorded under `name`.
    Return the joined tensor, or None to decline.

    The first item of the tuple `args` holds the operands: a list or tuple of tensors, or one tensor. `named` is the dictionary of keyword
    arguments.
    """
    op, args, named = (f.arguments[1].at(k, POINTER).load(POINTER) for k in range(3))
    call = lambda further_args, count, size: f.call("join_tensors", POINTER, [op, f.tuple_item(args, 0), further_args, count + size * 2])
    f.return_or_none(spread_arguments(f, args, named, call))


def _emit_build_join_key(f: FunctionBuilder) -> None:
    """Emit `build_join_key(tensors, further_args, count)`: return the key under which a call is recorded, a new tuple: the keys
    (`build_key`) of the `count` further arguments at the address `further_args`, then the specs of the tensors in the tuple `tensors`.

    Return null if an argument has no key, or an item of `tensors` is no tensor. `join_tensors` calls the function.
    """
    tensors, further_args, count = f.arguments
    size = f.load_word(tensors, SIZE_OFFSET)
    key = f.require_new(f.call("PyTuple_New", POINTER, [count + size]))

    def store_argument_key(k: Value) -> None:
        argument_key = f.call("build_key", POINTER, [further_args.at(k, POINTER).load(POINTER)])
        f.decline_if(f.is_null(argument_key))
        f.address_at(key, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(argument_key)

    def store_spec(k: Value) -> None:
        x = f.tuple_item(tensors, k)
        f.require(f.is_instance(x, "Tensor"))
        compute_specs(f, x)
        f.address_at(key, TUPLE_ITEMS_OFFSET).at(count + k, POINTER).store(f.incref(f.get_slot(x, "Tensor.spec")))

    f.for_range(count, store_argument_key)
    f.for_range(size, store_spec)
    f.transfer_held(key)
    f.emit_return(key)


def _emit_join_tensors(f: FunctionBuilder) -> None:
    """Emit `join_tensors(op, tensors, further_args, count)`: return a new tensor in memory of the operands put together, as recorded for
    the function name `op` or by a size-generic template; null to decline.

    `tensors` is a list or tuple of at most `MAX_JOINED_TENSORS` tensors, or one tensor. `further_args` is the address of the `count`
    further arguments, keyword values and keywords. Declined are calls without a template or recorded as impossible, and tensors that
    `compute_content` declines. `replay_join` calls the function.
    """
    op, operands, further_args, count = f.arguments

    def wrap_tensor() -> list[Value]:
        single = f.new_tuple(f.hold_borrowed(operands))
        f.transfer_held(single)
        return [single]

    def copy_to_tuple() -> list[Value]:
        f.require(f.or_else(f.is_instance(operands, "list"), lambda: f.is_instance(operands, "tuple")))
        return [f.call("PySequence_Tuple", POINTER, [operands])]

    # a tuple, which no other thread can change
    tensors = f.require_new(f.choose(f.is_instance(operands, "Tensor"), wrap_tensor, copy_to_tuple)[0])
    size = f.load_word(tensors, SIZE_OFFSET)
    f.require(f.and_then(size > 0, lambda: size <= MAX_JOINED_TENSORS))
    key = f.require_new(f.call("build_join_key", POINTER, [tensors, further_args, count]))
    cache_table = get_cache_table(f, f.tuple_item(key, count), "call_templates")
    instantiate_rule = lambda: [f.call("instantiate_join", POINTER, [*cache_table, op, key, tensors, further_args, count])]
    template = f.hold_borrowed(find_or_instantiate(f, cache_table, op, key, instantiate_rule))
    f.decline_if(f.is_object(template, "None"))
    f.decline_if(f.is_object(f.get_slot(template, "ResultTemplate.launch_record"), "NO_LAUNCH_RECORD"))
    nodes = f.build_tuple(size, lambda k: f.call("compute_content", POINTER, [f.tuple_item(tensors, k), f.constant(I1, False)]))
    recipe = f.get_slot(template, "RecipeTemplate.recipe")
    out = f.require_new(f.call("allocate_result", POINTER, [recipe]))
    program = f.address_at(f.get_slot(template, "ResultTemplate.launch_record"), BYTES_CONTENT_OFFSET)
    itemsize = f.unbox_integer(f.get_slot(f.get_slot(recipe, "Recipe.dtype"), "DType.itemsize"))

    def copy(k: Value) -> None:
        copy_descriptor = program.at(k * (COPY_DESCRIPTOR_BYTES // 8) + 1, I64)
        source_index = f.load_word(copy_descriptor, SOURCE_INDEX_OFFSET)
        offset = f.unbox_integer(f.get_slot(f.tuple_item(tensors, source_index), "Tensor.offset")) * itemsize + f.load_word(
            copy_descriptor, SOURCE_START_OFFSET
        )
        source = load_data_address(f, f.get_slot(f.tuple_item(nodes, source_index), "Node.buffer")).at(offset, I8)
        f.call(
            "copy_region",
            I1,
            [source, load_data_address(f, out).at(f.load_word(copy_descriptor, DESTINATION_START_OFFSET), I8), copy_descriptor],
        )

    def copy_all() -> list[Value]:
        f.for_range(program.load(I64), copy)
        return []

    def copy_without_gil() -> list[Value]:
        """Emit the copies with the GIL released, under the lock of the runtime: other threads run, but write no tensor. Return an empty
        list.
        """
        f.require(f.is_object(f.call_python("acquire lock", f.load_object("False")), "True"))
        emit_without_gil(f, copy_all)
        f.call_python("release lock")
        return []

    f.choose(f.unbox_integer(f.get_slot(recipe, "Recipe.nbytes")) >= PARALLEL_COPY_BYTES, copy_without_gil, copy_all)
    node = new_node_in_memory(f, recipe, out)
    spec = f.incref(f.get_slot(template, "ResultTemplate.spec"))
    f.transfer_held(node)
    f.release_held(nodes, template, key, tensors)
    f.emit_return(f.call("new_tensor", POINTER, [node, spec]))


def _emit_instantiate_join(f: FunctionBuilder) -> None:
    """Emit `instantiate_join(spec, slot, op, key, tensors, further_args, count)`: make the template of a join by a size-generic template,
    and record it in the table at byte `slot` of `spec`, under `op` and `key`.

    Return the template, borrowed from the table; null without a size-generic template, or for more than `MAX_JOIN_ARGUMENTS` operands and
    arguments. The further arguments are those of `join_tensors`. `join_tensors` calls the function.
    """
    *cache_entry, tensors, further_args, count = f.arguments
    size = f.load_word(tensors, SIZE_OFFSET)
    f.require(count + size <= MAX_JOIN_ARGUMENTS)
    all_arguments = f.local(array(POINTER, MAX_JOIN_ARGUMENTS))
    f.for_range(count, lambda k: all_arguments.at(k, POINTER).store(further_args.at(k, POINTER).load(POINTER)))
    f.for_range(size, lambda k: all_arguments.at(count + k, POINTER).store(f.tuple_item(tensors, k)))
    f.emit_return(f.call("instantiate_call", POINTER, [*cache_entry, all_arguments, count + size, f.null(), f.i64(0)]))


def _emit_copy_region(f: FunctionBuilder) -> None:
    """Emit `copy_region(source, to, copy_descriptor)`: copy a strided region of elements from the address `source` to the address `to`, and
    return true.

    `copy_descriptor` is the address of the copy descriptor (`fastpath/strided_copy.py`): three nested loops over rows. `source` and `to`
    are the addresses of the first row. Joins, sorts and programs of direct calls call the function.
    """
    source, to, copy_descriptor = f.arguments
    (n, source_stride, to_stride), (m, inner_source_stride, inner_to_stride), row_layout = (
        [f.load_word(copy_descriptor, LOOPS_OFFSET + 24 * k + 8 * j) for j in range(3)] for k in range(3)
    )
    width = f.load_word(copy_descriptor, COPY_ROW_BYTES_OFFSET)

    def copy_plane(i: Value) -> None:
        def copy_rows(j: Value) -> None:
            addresses = [source.at(i * source_stride + j * inner_source_stride, I8), to.at(i * to_stride + j * inner_to_stride, I8)]
            f.call("copy_rows", I1, [*addresses, *row_layout, width])

        f.for_range(m, copy_rows)

    f.for_range(n, copy_plane)
    f.emit_return(f.constant(I1, True))


def _emit_copy_rows(f: FunctionBuilder) -> None:
    """Emit `copy_rows(source, to, count, source_stride, to_stride, width)`: copy `count` rows of `width` bytes, and return true.
    `copy_region` calls the function.

    The rows are `source_stride` bytes apart at the address `source`, and `to_stride` bytes apart at the address `to`.
    """
    source, to, count, source_stride, to_stride, width = f.arguments
    emit_by_row_width(f, width, lambda copy: f.for_range(count, lambda k: copy(to.at(k * to_stride, I8), source.at(k * source_stride, I8))))
