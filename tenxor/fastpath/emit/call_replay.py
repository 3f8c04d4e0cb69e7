"""Replay of recorded calls: a method called with equal specs and arguments gives a view or pending nodes by its result template
(`ResultTemplate`). A spec is the interned shape, strides and dtype of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I32, I64, POINTER, array
from ..direct_call_programs import BINCOUNT
from ..limits import MAX_TUPLE_DEPTH
from ..object_layout import BYTES_CONTENT_OFFSET, FLOAT_VALUE_OFFSET, SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from .direct_calls import pack_results
from .function_builder import FunctionBuilder
from .node_creation import load_shared_read_count
from .pending_operations import has_plain_node, load_computed_slot, read_operand
from .python_conversion import has_unrecorded_node, is_known_scalar, load_data_address
from .spec_table import load_nbytes
from .tape_nodes import build_tape_mask
from .template_cache import find_cached_template, find_operation_entries, get_cache_table

MAX_KEYWORD_CALL_ARGUMENTS = 24  # arguments of a call with keywords, plus the keywords


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to replay recorded calls, and to build the keys of the calls.

    The functions emitted include `replay_call`, `replay_method`, `replay_keyword_call`, `find_call_template`, `apply_template`,
    `call_numpy`, `build_key`, `replay_steps` and `apply_view`.
    """
    _emit_replay_call(
        FunctionBuilder(module, objects, "replay_call", [("self", POINTER), ("args", POINTER), ("count", I64)], is_exported=True)
    )
    _emit_is_integer_tuple(FunctionBuilder(module, objects, "is_integer_tuple", [("x", POINTER), ("depth", I64)], I1))
    _emit_build_key(FunctionBuilder(module, objects, "build_key", [("x", POINTER)]))
    call_parameters = [("x", POINTER), ("args", POINTER), ("count", I64), ("names", POINTER), ("name", POINTER)]
    _emit_find_call_template(FunctionBuilder(module, objects, "find_call_template", call_parameters))
    _emit_replay_method(FunctionBuilder(module, objects, "replay_method", call_parameters))
    named_call_parameters = [("x", POINTER), ("args", POINTER), ("count", I64), ("keyword_count", I64), ("name", POINTER)]
    _emit_replay_keyword_call(FunctionBuilder(module, objects, "replay_keyword_call", named_call_parameters))
    _emit_apply_view(FunctionBuilder(module, objects, "apply_view", [("x", POINTER), ("template", POINTER)]))
    arguments = [("x", POINTER), ("args", POINTER), ("argument_count", I64), ("tensor_count", I64), ("template", POINTER)]
    _emit_share_copy(FunctionBuilder(module, objects, "share_copy", [("x", POINTER)]))
    _emit_replay_steps(FunctionBuilder(module, objects, "replay_steps", [("template", POINTER), ("operands", POINTER)]))
    _emit_apply_template(FunctionBuilder(module, objects, "apply_template", arguments))
    _emit_call_numpy(FunctionBuilder(module, objects, "call_numpy", arguments))
    _emit_tensor_from_array(FunctionBuilder(module, objects, "tensor_from_array", [("array", POINTER), ("template", POINTER)]))
    _emit_replay_step(
        FunctionBuilder(
            module, objects, "replay_step", [(name, POINTER) for name in ("recipe", "step_operands", "operands", "earlier_nodes")]
        )
    )


def _emit_replay_call(f: FunctionBuilder) -> None:
    """Emit `replay_call(name, args, named)`, called from Python: return the result of a recorded call of a function, or None to decline.
    `name` is the name under which the call is recorded, `args` the tuple of positional arguments (a tensor first), and `named` the
    dictionary of keyword arguments. `args` must not be empty; a first argument of another type is declined."""
    name, args, named = (f.arguments[1].at(k, POINTER).load(POINTER) for k in range(3))

    def call(further_args: Value, count: Value, keyword_count: Value) -> Value:
        call_arguments = [f.tuple_item(args, 0), further_args, count]
        call_positional = lambda: [f.call("replay_method", POINTER, [*call_arguments, f.null(), name])]
        return f.choose(
            keyword_count.equals(0),
            call_positional,
            lambda: [f.call("replay_keyword_call", POINTER, [*call_arguments, keyword_count, name])],
        )[0]

    f.return_or_none(spread_arguments(f, args, named, call))


def _emit_replay_keyword_call(f: FunctionBuilder) -> None:
    """Emit `replay_keyword_call(x, args, count, keyword_count, name)`: replay a recorded call of the method `name` of `x`, with keyword
    arguments.

    `args` is the address of `count` positional arguments, then `keyword_count` keyword values, then the keywords. Return the result as a
    new reference, or null to decline. `replay_call` calls the function."""
    x, args, count, keyword_count, name = f.arguments
    return_keyword_call(f, args, count, keyword_count, lambda names: f.call("replay_method", POINTER, [x, args, count, names, name]))


def return_keyword_call(f: FunctionBuilder, args: Value, count: Value, keyword_count: Value, emit_call: Callable[[Value], Value]) -> None:
    """Emit the return of the reference emitted by `emit_call(names)`, where `names` is the tuple of keywords; null is returned too. The
    code of the function being emitted ends here.

    `args` is the address of `count` positional arguments, then `keyword_count` keyword values, then the keywords."""
    names = f.build_tuple(keyword_count, lambda k: f.incref(args.at(count + keyword_count + k, POINTER).load(POINTER)))
    result = f.require_new(emit_call(names))
    f.release_held(names)
    f.transfer_held(result)
    f.emit_return(result)


def spread_arguments(
    f: FunctionBuilder, args: Value, keywords: Value, emit_call: Callable[[Value, Value, Value], Value], first_item: int = 1
) -> Value:
    """Emit code that lays the arguments of a Python call out in an array, and the code of `emit_call(arguments, count, keyword_count)` for
    them. The arguments are the tuple `args` from item `first_item` on, and the dictionary `keywords`. Return the result of `emit_call`, a
    pointer.

    `arguments` is the address of `count` positional arguments, then `keyword_count` keyword values, then the keywords. The result is null,
    without a call, for more than `MAX_KEYWORD_CALL_ARGUMENTS` of these in a call with keywords. The pointers in the array are borrowed."""
    positional, count = f.address_at(args, TUPLE_ITEMS_OFFSET + 8 * first_item), f.load_word(args, SIZE_OFFSET) - first_item
    keyword_count = f.call("PyDict_Size", I64, [keywords])

    def spread_if_few() -> list[Value]:
        return f.choose(count + keyword_count * 2 > MAX_KEYWORD_CALL_ARGUMENTS, lambda: [f.null()], lambda: [spread()])

    def spread() -> Value:
        spread_args = f.local(array(POINTER, MAX_KEYWORD_CALL_ARGUMENTS))
        position, key, value = f.local(I64, f.i64(0)), f.local(POINTER), f.local(POINTER)
        f.for_range(count, lambda k: spread_args.at(k, POINTER).store(positional.at(k, POINTER).load(POINTER)))

        def spread_keyword(k: Value) -> None:
            f.call("PyDict_Next", I32, [keywords, position, key, value])
            spread_args.at(count + k, POINTER).store(value.load(POINTER))
            spread_args.at(count + keyword_count + k, POINTER).store(key.load(POINTER))

        f.for_range(keyword_count, spread_keyword)
        return emit_call(spread_args, count, keyword_count)

    return f.choose(keyword_count.equals(0), lambda: [emit_call(positional, count, keyword_count)], spread_if_few)[0]


def _emit_build_key(f: FunctionBuilder) -> None:
    """Emit `build_key(x)`: return the key of the argument `x` in cache tables, as `recorder.build_key` does, a new reference; null for
    types without a key.

    The key of a tensor is its spec, of a float its 8 bytes, of a bool one of two markers, and of a `NamedDefault` its class. None, a
    string, a type, a dtype, an integer, and a tuple of integers are their own keys."""
    (x,) = f.arguments
    kind = f.type_of(x)
    f.return_if(f.is_instance(x, "Tensor"), lambda: f.incref(load_computed_slot(f, x, "spec")))
    f.return_if(f.is_object(kind, "int"), lambda: f.incref(x))
    f.return_if(
        f.is_object(kind, "bool type"),
        lambda: f.incref(f.select_value(f.is_object(x, "True"), f.load_object("TRUE"), f.load_object("FALSE"))),
    )
    bits = lambda: f.call("PyBytes_FromStringAndSize", POINTER, [f.address_at(x, FLOAT_VALUE_OFFSET), f.i64(8)])
    f.return_if(f.is_object(kind, "float"), bits)
    for name in ("NoneType", "DType", "str", "type"):
        f.return_if(f.is_object(kind, name), lambda: f.incref(x))
    f.return_if(f.is_object(kind, "NamedDefault"), lambda: f.incref(kind))
    f.require(f.is_object(kind, "tuple"))
    f.require(f.call("is_integer_tuple", I1, [x, f.i64(0)]))
    f.emit_return(f.incref(x))


def _emit_is_integer_tuple(f: FunctionBuilder) -> None:
    """Emit `is_integer_tuple(x, depth)`: return whether the tuple `x` holds only integers and tuples of integers, nested less than
    `MAX_TUPLE_DEPTH` deep. `depth` is the number of tuples around `x`."""
    x, depth = f.arguments
    f.require(depth < MAX_TUPLE_DEPTH)

    def check_item(k: Value) -> None:
        item = f.tuple_item(x, k)
        is_tuple = f.is_instance(item, "tuple")
        f.require(f.or_else(f.is_instance(item, "int"), lambda: is_tuple))
        f.emit_if(is_tuple, lambda: f.require(f.call("is_integer_tuple", I1, [item, depth + 1])))

    f.for_range(f.load_word(x, SIZE_OFFSET), check_item)
    f.emit_return(f.constant(I1, True))


def count_arguments(f: FunctionBuilder, count: Value, names: Value) -> Value:
    """Emit the number of arguments of a call: `count` positional ones, and one for each keyword in the tuple `names`, which is null without
    keywords. Return the number, an `i64`."""
    return count + f.choose(f.is_null(names), lambda: [f.i64(0)], lambda: [f.load_word(names, SIZE_OFFSET)])[0]


def _emit_find_call_template(f: FunctionBuilder) -> None:
    """Emit `find_call_template(x, args, count, names, name)`: return the template (`ResultTemplate`) of a call of the method `name` of `x`,
    a new reference; null to decline. `args` is the address of `count` positional arguments, then the values for the keywords in the tuple
    `names`, or null.

    The function looks for equal arguments, then for any value of the only number among them, then for a size-generic template. It declines
    if there is none, if an argument has no key (`build_key`), or if the call is recorded as impossible to replay. `replay_method` and
    `gather_elements` call the function."""
    x, args, count, names, name = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    no_names, argument_count = f.is_null(names), count_arguments(f, count, names)
    tape_mask = build_tape_mask(f, x, args, argument_count)
    size = argument_count + f.select_value(no_names, f.i64(0), f.i64(1))
    key = f.require_new(f.call("PyTuple_New", POINTER, [size + f.select_value(tape_mask.equals(0), f.i64(0), f.i64(2))]))

    def store_item_key(k: Value) -> None:
        item_key = f.call("build_key", POINTER, [args.at(k, POINTER).load(POINTER)])
        f.decline_if(f.is_null(item_key))
        f.address_at(key, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(item_key)

    f.for_range(argument_count, store_item_key)
    f.emit_if(~no_names, lambda: f.address_at(key, TUPLE_ITEMS_OFFSET).at(argument_count, POINTER).store(f.incref(names)))

    def append_tape_mask() -> None:
        f.address_at(key, TUPLE_ITEMS_OFFSET).at(size, POINTER).store(f.incref(f.load_object("TAPE_MASK_MARKER")))
        number = f.box_integer(tape_mask)
        f.address_at(key, TUPLE_ITEMS_OFFSET).at(size + 1, POINTER).store(number)
        f.transfer_held(number)

    f.emit_if(tape_mask.differs(0), append_tape_mask)
    cache_table = get_cache_table(f, load_computed_slot(f, x, "spec"), "call_templates")
    cached_template = find_cached_template(f, cache_table, name, key)

    def find_for_any_number() -> list[Value]:
        entries = find_operation_entries(f, cache_table, name)
        return f.choose(f.is_null(entries), lambda: [f.null()], lambda: [_find_any_number_template(f, entries, key, args, argument_count)])

    (template,) = f.choose(f.is_null(cached_template), find_for_any_number, lambda: [cached_template], (1, 1000))
    instantiate_rule = lambda: [_instantiate_for_call(f, (*cache_table, name, key), x, args, argument_count, names, tape_mask)]
    (template,) = f.choose(f.is_null(template), instantiate_rule, lambda: [template], (1, 1000))
    f.decline_if(f.is_null(template))
    f.decline_if(f.is_object(template, "None"))
    f.incref(template)
    f.release_held(key)
    f.emit_return(template)


def _instantiate_for_call(
    f: FunctionBuilder, cache_entry: Sequence[Value], x: Value, args: Value, argument_count: Value, names: Value, tape_mask: Value
) -> Value:
    """Emit a call of `instantiate_call`: make the template of a call by a size-generic template, and record it at `cache_entry`. Return the
    template, borrowed, or null if no size-generic template fits. The emitted function returns null for more than
    `MAX_KEYWORD_CALL_ARGUMENTS` arguments.

    `cache_entry` has the first four arguments of `instantiate_call`: the spec with the table, the table's byte offset, the method's name
    and the key. The call has `x` and `argument_count` arguments at `args`, the last by the keywords `names`, or null; arguments with a bit
    in `tape_mask` are on the tape."""
    all_arguments = f.local(array(POINTER, MAX_KEYWORD_CALL_ARGUMENTS + 1))
    f.require(argument_count <= MAX_KEYWORD_CALL_ARGUMENTS)
    all_arguments.store(x)
    f.for_range(argument_count, lambda k: all_arguments.at(k + 1, POINTER).store(args.at(k, POINTER).load(POINTER)))
    return f.call("instantiate_call", POINTER, [*cache_entry, all_arguments, argument_count + 1, names, tape_mask])


def _find_any_number_template(f: FunctionBuilder, entries: Value, key: Value, args: Value, argument_count: Value) -> Value:
    """Emit the lookup of a template recorded for any value of the only number among the `argument_count` arguments at `args`. Return the
    template, borrowed; null on a miss, or without exactly one float or int (no bool). In the dictionary `entries`, the template has the key
    `key` of the call, with the type of the number in place of the number."""
    count, number_position = f.local(I64, f.i64(0)), f.local(I64)

    def count_number(k: Value) -> None:
        argument = args.at(k, POINTER).load(POINTER)

        def note_number() -> None:
            count.store(count.load(I64) + 1)
            number_position.store(k)

        f.emit_if(f.or_else(f.is_instance(argument, "float"), lambda: f.is_instance(argument, "int")), note_number)

    f.for_range(argument_count, count_number)

    def look_up_template() -> list[Value]:
        position, size = number_position.load(I64), f.load_word(key, SIZE_OFFSET)
        number_key = f.build_tuple(size, lambda k: f.incref(f.tuple_item(key, k)))
        key_item = f.address_at(number_key, TUPLE_ITEMS_OFFSET).at(position, POINTER)
        f.decref(key_item.load(POINTER))
        key_item.store(f.incref(f.type_of(args.at(position, POINTER).load(POINTER))))
        template = f.look_up(entries, number_key)
        f.release_held(number_key)
        return [template]

    return f.choose(count.load(I64).equals(1), look_up_template, lambda: [f.null()])[0]


def _emit_replay_method(f: FunctionBuilder) -> None:
    """Emit `replay_method(x, args, count, names, name)`: return the result of a recorded call of the method `name` of `x`, as a new
    reference; null to decline. The arguments are those of `find_call_template`. Entries of methods and functions, and `replay_call`, call
    the function."""
    x, args, count, names, _ = f.arguments
    template = f.require_new(f.call("find_call_template", POINTER, f.arguments))
    argument_count, tensor_count = count_arguments(f, count, names), f.local(I64, f.i64(1))

    def count_tensor(k: Value) -> None:
        tensor_count.store(tensor_count.load(I64) + f.is_instance(args.at(k, POINTER).load(POINTER), "Tensor").cast("zext", I64))

    f.for_range(argument_count, count_tensor)
    call_arguments = [x, args, argument_count, tensor_count.load(I64)]
    run_program, call_numpy, replay_counted, build_pending = (
        partial(f.call, name, POINTER, [*call_arguments, template])
        for name in ("run_program", "call_numpy", "replay_counted", "apply_template")
    )

    def run_bytecode() -> list[Value]:
        opcode = f.load_word(f.get_slot(template, "DirectCallTemplate.loop_bytecode"), BYTES_CONTENT_OFFSET)
        return f.choose(opcode < BINCOUNT, lambda: [run_program()], lambda: [replay_counted()])

    def build_if_tuple() -> list[Value]:
        build_tuple = lambda: [_build_result_tuple(f, call_arguments, template)]
        return f.choose(f.has_type(template, "TupleTemplate"), build_tuple, lambda: [build_pending()])

    def call_numpy_or_build() -> list[Value]:
        return f.choose(f.has_type(template, "NumpyCallTemplate"), lambda: [call_numpy()], build_if_tuple)

    (result,) = f.choose(f.has_type(template, "DirectCallTemplate"), run_bytecode, call_numpy_or_build)
    f.transfer_held(template)
    f.decref(template)
    f.emit_return(result)


def _for_each_tensor(f: FunctionBuilder, read: Callable[[Value], object]) -> None:
    """Emit the code of `read(tensor)` for the tensor `x`, and for each tensor among the `argument_count` arguments at the address `args`.
    Return None. These three are the first arguments of the function being emitted (`f.arguments`)."""
    x, args, argument_count, *_ = f.arguments

    def read_if(k: Value) -> None:
        argument = args.at(k, POINTER).load(POINTER)
        f.emit_if(f.is_instance(argument, "Tensor"), lambda: read(argument))

    read(x)
    f.for_range(argument_count, read_if)


def _emit_apply_template(f: FunctionBuilder) -> None:
    """Emit `apply_template(x, args, argument_count, tensor_count, template)`: return the view of `x`, or the pending result, by `template`,
    as a new reference; null to decline. `replay_method` and `gather_elements` call the function. `args` is the address of the
    `argument_count` further arguments; `tensor_count` is the number of tensors among these and `x`.

    A `StepsTemplate` gives a pending result; other templates give a view (`apply_view`)."""
    x, _, _, tensor_count, template = f.arguments
    f.return_if(~f.has_type(template, "StepsTemplate"), lambda: f.call("apply_view", POINTER, [x, template]))
    f.return_if(tensor_count.equals(1), lambda: _apply_to_one_tensor(f, x, template))
    operands = f.require_new(f.call("PyTuple_New", POINTER, [tensor_count * 2]))
    filled = f.local(I64, f.i64(0))

    def read(tensor: Value) -> None:
        node, offset = _load_node(f, tensor)
        f.transfer_held(node, offset)
        item_address = f.address_at(operands, TUPLE_ITEMS_OFFSET).at(filled.load(I64), POINTER)
        item_address.store(node)
        item_address.at(1, POINTER).store(offset)
        filled.store(filled.load(I64) + 2)

    _for_each_tensor(f, read)
    result = f.require_new(f.call("replay_steps", POINTER, [template, f.address_at(operands, TUPLE_ITEMS_OFFSET)]))
    f.release_held(operands)
    f.transfer_held(result)
    f.emit_return(result)


def _load_node(f: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """Emit loads of the node that the tensor `x` reads, and of the offset, a Python integer, in elements. A known scalar (a Python number
    in the storage) gets a new node. Return both, which are held. The emitted function returns null or 0 where `read_operand` declines, or
    if a known scalar gets no node (`new_scalar_node`)."""

    def read_node() -> list[Value]:
        _, node, is_node, offset = read_operand(f, x)
        f.require(is_node)
        return [f.incref(node), f.incref(offset)]

    def new_node() -> list[Value]:
        node = f.call("new_scalar_node", POINTER, [x])
        f.decline_if(f.is_null(node))
        return [node, f.incref(f.load_object("0"))]

    node, offset = f.choose(is_known_scalar(f, f.get_slot(x, "Tensor.storage")), new_node, read_node)
    return f.hold_owned(node), f.hold_owned(offset)


def _apply_to_one_tensor(f: FunctionBuilder, x: Value, template: Value) -> Value:
    """Emit the replay of the steps of the `StepsTemplate` `template` for a call with the single tensor `x`. Return the new tensor as a new
    reference, not held.

    The emitted function returns null or 0 if `read_operand` declines `x`, or if a step fails (with an error set if memory runs out)."""
    node, offset = _load_node(f, x)
    operands = f.local(array(POINTER, 2))
    operands.store(node)
    operands.at(1, POINTER).store(offset)
    result = f.require_new(f.call("replay_steps", POINTER, [template, operands]))
    f.release_held(node, offset)
    f.transfer_held(result)
    return result


def _emit_replay_steps(f: FunctionBuilder) -> None:
    """Emit `replay_steps(template, operands)`: make the nodes of the steps of the `StepsTemplate` `template`, mostly one. Return a new
    tensor of the last node; null to decline (`new_user_node`, `new_user_tensor`), or if memory runs out.

    `operands` is the address of pairs of a node and an offset in elements, a Python integer, owned by the caller. It is null without
    operands."""
    template, operands = f.arguments
    recipes, step_operands, initial_read_count = (
        f.get_slot(template, "StepsTemplate.step_recipes"),
        f.get_slot(template, "StepsTemplate.step_operands"),
        load_shared_read_count(f),
    )

    def wrap_node(node: Value) -> Value:
        return f.call(
            "new_user_tensor",
            POINTER,
            [node, f.incref(f.get_slot(template, "ResultTemplate.spec")), load_shared_read_count(f).differs(initial_read_count)],
        )

    def replay_step(k: int | Value, nodes: Value) -> Value:
        return f.call("replay_step", POINTER, [f.tuple_item(recipes, k), f.tuple_item(step_operands, k), operands, nodes])

    def replay_single() -> Value:
        node = f.require_new(replay_step(0, f.null()))
        f.transfer_held(node)
        return wrap_node(node)

    f.return_if(f.load_word(recipes, SIZE_OFFSET).equals(1), replay_single)
    nodes = f.require_new(f.call("PyTuple_New", POINTER, [f.load_word(recipes, SIZE_OFFSET)]))

    def store_step_node(k: Value) -> None:
        node = replay_step(k, nodes)
        f.decline_if(f.is_null(node))
        f.address_at(nodes, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(node)

    f.for_range(f.load_word(recipes, SIZE_OFFSET), store_step_node)
    last_node = f.incref(f.tuple_item(nodes, f.load_word(recipes, SIZE_OFFSET) - 1))
    f.release_held(nodes)
    f.emit_return(wrap_node(last_node))


def _emit_call_numpy(f: FunctionBuilder) -> None:
    """Emit `call_numpy(x, args, argument_count, tensor_count, template)`: return the result of the NumPy function of a `NumpyCallTemplate`,
    called with the tensors as arrays. The result is a new tensor, or a new tuple of tensors, as the template says; null to decline. The
    arguments are those of `apply_template`.

    Declined are tensors on the tape, tensors that `to_numpy` declines, and results that do not fit the template (`tensor_from_array`). An
    error in the function also gives null, with the error set. `replay_method` calls the function."""
    *_, tensor_count, template = f.arguments
    arrays = f.require_new(f.call("PyTuple_New", POINTER, [tensor_count]))
    filled = f.local(I64, f.i64(0))

    def read(tensor: Value) -> None:
        storage = f.get_slot(tensor, "Tensor.storage")
        f.require(f.or_else(is_known_scalar(f, storage), lambda: has_unrecorded_node(f, storage)))
        array = f.call("to_numpy", POINTER, [tensor])
        f.decline_if(f.is_null(array))
        f.address_at(arrays, TUPLE_ITEMS_OFFSET).at(filled.load(I64), POINTER).store(array)
        filled.store(filled.load(I64) + 1)

    _for_each_tensor(f, read)
    results = f.require_new(f.call("PyObject_CallObject", POINTER, [f.get_slot(template, "NumpyCallTemplate.compute_arrays"), arrays]))
    element_templates = f.get_slot(template, "TupleTemplate.element_templates")
    f.require(f.is_instance(results, "list"))
    result_tensors = f.build_tuple(
        f.load_word(element_templates, SIZE_OFFSET),
        lambda k: f.call("tensor_from_array", POINTER, [f.list_item(results, k), f.tuple_item(element_templates, k)]),
    )
    f.release_held(arrays, results)
    f.emit_return(pack_results(f, template, result_tensors))


def _emit_tensor_from_array(f: FunctionBuilder) -> None:
    """Emit `tensor_from_array(array, template)`: return a new tensor with the elements of a NumPy array, and the recipe and spec of
    `template`, an `InMemoryTemplate`, as a new reference. Return null if `array` is null, has another number of bytes than the spec, or is
    not C-contiguous and writable."""
    array, template = f.arguments
    f.decline_if(f.is_null(array))
    tensor = f.require_new(
        f.call("new_blank", POINTER, [f.get_slot(template, "RecipeTemplate.recipe"), f.get_slot(template, "ResultTemplate.spec")])
    )
    node = f.get_slot(f.get_slot(tensor, "Tensor.storage"), "Storage.node")
    to = load_data_address(f, f.get_slot(node, "Node.buffer"))
    f.require(f.call("copy_buffer", I1, [array, to, load_nbytes(f, f.get_slot(template, "ResultTemplate.spec"))]))
    f.transfer_held(tensor)
    f.emit_return(tensor)


def _build_result_tuple(f: FunctionBuilder, call_arguments: Sequence[Value], template: Value) -> Value:
    """Emit the building of the results of a call by `template`, a `TupleTemplate`: one result for each of its element templates. Return a
    new reference to a tuple, or to the tuple type of the template; null, with an error set, if its construction raises. The emitted
    function returns null if a result cannot be made.

    `call_arguments` are the arguments of `apply_template` before the template: `x`, `args`, `argument_count` and `tensor_count`."""
    element_templates, result_constructor = (
        f.get_slot(template, "TupleTemplate.element_templates"),
        f.get_slot(template, "TupleTemplate.result_constructor"),
    )
    results = f.build_tuple(
        f.load_word(element_templates, SIZE_OFFSET),
        lambda k: f.call("apply_template", POINTER, [*call_arguments, f.tuple_item(element_templates, k)]),
    )
    f.transfer_held(results)

    def construct_result() -> list[Value]:
        constructed = f.call("PyObject_CallOneArg", POINTER, [result_constructor, results])
        f.decref(results)
        return [constructed]

    return f.choose(
        f.or_else(f.is_object(result_constructor, "None"), lambda: f.is_object(result_constructor, "tuple")),
        lambda: [results],
        construct_result,
    )[0]


def _emit_apply_view(f: FunctionBuilder) -> None:
    """Emit `apply_view(x, template)`: return the view of the tensor `x` that `template` describes, or `x` itself for an `OperandTemplate`,
    as a new reference. Return null if the template is a view chain recorded for another offset, or if memory runs out. `apply_template`
    calls the function."""
    x, template = f.arguments
    f.return_if(f.has_type(template, "OperandTemplate"), lambda: f.incref(x))
    offset = load_computed_slot(f, x, "offset")

    def take_chain_offset() -> list[Value]:
        required_offset = f.unbox_integer(f.get_slot(template, "ChainViewTemplate.required_offset"))
        f.require(f.or_else(required_offset < 0, lambda: f.unbox_integer(offset).equals(required_offset)))
        return [f.incref(f.get_slot(template, "ChainViewTemplate.offset"))]

    def shift_offset() -> list[Value]:
        shift = f.get_slot(template, "ViewTemplate.shift")
        add_shift = lambda: [f.call("PyLong_FromLongLong", POINTER, [f.unbox_integer(offset) + f.unbox_integer(shift)])]
        return f.choose(f.is_object(shift, "0"), lambda: [f.incref(offset)], add_shift)

    (new_offset,) = f.choose(f.has_type(template, "ChainViewTemplate"), take_chain_offset, shift_offset)
    f.require_new(new_offset)
    view = new_view(f, f.get_slot(x, "Tensor.storage"), f.hold_borrowed(f.get_slot(template, "ResultTemplate.spec")), new_offset)
    f.transfer_held(view)
    f.emit_return(view)


def _emit_share_copy(f: FunctionBuilder) -> None:
    """Emit `share_copy(x)`: return a copy-on-write copy of the tensor `x`: a new tensor, with a new storage of the same node. Return null
    unless `x` is contiguous, covers its storage, has the dtype of the node, and its buffer is not externally shared. A pending tensor may
    be copied so."""
    (x,) = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    spec, offset, storage = load_computed_slot(f, x, "spec"), load_computed_slot(f, x, "offset"), f.get_slot(x, "Tensor.storage")
    f.require(f.and_then(has_plain_node(f, storage), lambda: f.is_object(f.get_slot(spec, "Spec.is_contiguous"), "True")))
    f.require(f.is_object(offset, "0"))
    node = f.get_slot(storage, "Storage.node")
    recipe, buffer = f.get_slot(node, "Node.recipe"), f.get_slot(node, "Node.buffer")
    f.require(f.get_slot(recipe, "Recipe.dtype").equals(f.get_slot(spec, "Spec.dtype")))
    f.require(f.unbox_integer(f.get_slot(recipe, "Recipe.nbytes")).equals(load_nbytes(f, spec)))
    f.require(f.or_else(f.is_object(buffer, "None"), lambda: f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0")))
    f.emit_return(f.call("new_tensor", POINTER, [f.incref(node), f.incref(spec)]))


def new_view(f: FunctionBuilder, storage: Value, spec: Value, offset: Value) -> Value:
    """Emit the creation of a tensor on `storage`, with the spec `spec` and the offset `offset`, a Python integer, in elements. Return the
    tensor, which is held (see `FunctionBuilder.hold_owned`). The tensor takes over the references to the spec and the offset; if held, they
    are held no more. The emitted function exits early if memory runs out."""
    f.hold_borrowed(storage)
    return f.new_instance("Tensor", storage=storage, spec=spec, dtype=f.incref(f.get_slot(spec, "Spec.dtype")), offset=offset)


def _emit_replay_step(f: FunctionBuilder) -> None:
    """Emit `replay_step(recipe, step_operands, operands, earlier_nodes)`: return a new pending node with the recipe `recipe`; null to
    decline or if memory runs out (`new_user_node`). `step_operands` is an item of `StepsTemplate.step_operands`: sources, offsets, and
    whether derivatives record the step.

    A source k >= 0 is operand k, and k < 0 the node of step -1 - k, an item of the tuple `earlier_nodes`; a scalar is taken as it is.
    `operands` is the address of pairs of a node and an offset. The offset of an operand is added to the recorded offset. `replay_steps`
    calls the function."""
    recipe, step_operands, operands, earlier_nodes = f.arguments
    sources, recorded_offsets, tracks_derivative = (f.tuple_item(step_operands, k) for k in range(3))
    read_sources = f.require_new(f.call("PyTuple_New", POINTER, [f.load_word(sources, SIZE_OFFSET)]))
    offsets = f.require_new(f.call("PyTuple_New", POINTER, [f.load_word(recorded_offsets, SIZE_OFFSET)]))

    def store_source(k: Value) -> None:
        source = f.tuple_item(sources, k)

        def select_node() -> list[Value]:
            number = f.unbox_integer(source)
            load_operand, load_step_node = (
                lambda: [operands.at(number * 2, POINTER).load(POINTER)],
                lambda: [f.tuple_item(earlier_nodes, -1 - number)],
            )
            return f.choose(number >= 0, load_operand, load_step_node)

        (source_node,) = f.choose(f.is_instance(source, "int"), select_node, lambda: [source])
        f.address_at(read_sources, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(f.incref(source_node))

    f.for_range(f.load_word(sources, SIZE_OFFSET), store_source)

    def store_offset(k: Value) -> None:
        recorded_offset = f.tuple_item(recorded_offsets, k)
        item_address = f.address_at(offsets, TUPLE_ITEMS_OFFSET).at(k, POINTER)
        is_recorded_source = f.and_then(k < f.load_word(sources, SIZE_OFFSET), lambda: f.is_instance(f.tuple_item(sources, k), "int"))
        is_operand = f.and_then(is_recorded_source, lambda: f.unbox_integer(f.tuple_item(sources, k)) >= 0)

        def add_offset() -> list[Value]:
            operand_offset = operands.at(f.unbox_integer(f.tuple_item(sources, k)) * 2 + 1, POINTER).load(POINTER)
            return f.choose(
                f.is_object(recorded_offset, "0"),
                lambda: [f.incref(operand_offset)],
                lambda: [f.call("PyLong_FromLongLong", POINTER, [f.unbox_integer(operand_offset) + f.unbox_integer(recorded_offset)])],
            )

        (offset,) = f.choose(is_operand, add_offset, lambda: [f.incref(recorded_offset)])
        f.decline_if(f.is_null(offset))
        item_address.store(offset)

    f.for_range(f.load_word(recorded_offsets, SIZE_OFFSET), store_offset)
    f.transfer_held(read_sources, offsets)
    f.emit_return(f.call("new_user_node", POINTER, [f.incref(recipe), read_sources, offsets, f.is_object(tracks_derivative, "True")]))
