"""Entries of `Tensor` methods with a fast path: machine-code functions that CPython calls. An entry tries emitted code first, and calls the
fallback in Python where that gives null. Most emitters here take the builder `f` of an entry, and return the entry's result as a `Value` of
run time. The entry's arguments, `f.arguments`, are the tensor and those of its calling convention.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I32, I64, POINTER, VOID, array
from ...tensor.core import LAZY_ATTRIBUTES
from ..method_table import METHODS, CallingConvention, Method
from ..object_layout import SIZE_OFFSET, ObjectTable
from . import (
    assignment,
    basic_indexing,
    batch_key,
    binary_search,
    bincount_unique,
    block_allocator,
    call_replay,
    call_signatures,
    concat_few,
    concat_many,
    creation_calls,
    direct_calls,
    free_lists,
    function_entries,
    graph_evaluation,
    graph_walk,
    index_gather,
    inplace_update,
    instantiate_templates,
    kernel_launch,
    node_creation,
    node_evaluation,
    numpy_values,
    pending_operations,
    plan_steps,
    python_conversion,
    qr_decomposition,
    refcount_queries,
    row_selection,
    row_sorting,
    row_writes,
    scalar_arithmetic,
    size_eval,
    slot_functions,
    snapshot_operands,
    spec_table,
    tape_nodes,
    tape_segments,
    template_cache,
)
from .assignment import decline_if_shared
from .function_builder import FunctionBuilder
from .pending_operations import is_number, is_operand
from .python_conversion import has_unrecorded_node, is_known_scalar
from .scalar_arithmetic import compute_known_scalars

_SPEC_ATTRIBUTE_LOADS: dict[str, Callable[[FunctionBuilder, Value], Value]] = {
    "shape": lambda f, spec: f.incref(f.get_slot(spec, "Spec.shape")),
    "size": lambda f, spec: f.incref(f.get_slot(spec, "Spec.size")),
    "ndim": lambda f, spec: f.call("PyLong_FromLongLong", POINTER, [f.load_word(f.get_slot(spec, "Spec.shape"), SIZE_OFFSET)]),
}


def _make_unary(op: str) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of a unary operation; `op` is the operation's name. The emitter takes the builder of the method's
    entry, and returns the result at run time: a new reference, or null for the fallback.
    """
    return lambda f: f.call("apply_unary", POINTER, [f.arguments[0], f.load_object(f"op {op}")])


def _make_binary(op: str, comes_last: bool = False) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of a binary operator; `op` is the operation's name. If `comes_last`, the tensor is the second
    operand, as in `__radd__`. The emitter takes the builder of the method's entry, and returns the result at run time: a new reference, or
    null for the fallback.
    """
    return lambda f: _apply_binary(f, op, f.arguments[0], f.arguments[1], f.constant(I1, comes_last))


def _apply_binary(f: FunctionBuilder, op: str, x: Value, y: Value, comes_last: Value) -> Value:
    """Emit the operation named `op` on the tensor `x` and `y`, a tensor or a number. If the `i1` `comes_last` holds, `y` is the first
    operand.

    Return the result at run time: a new reference, or null to leave the call to the fallback. Known scalars (0-d tensors whose storage
    holds a Python number) give a known scalar; otherwise the result is mostly pending.
    """
    scalar_result = compute_known_scalars(f, op, x, y, comes_last)
    emit_binary = lambda: [f.call("apply_binary", POINTER, [x, y, f.load_object(f"op {op}"), comes_last])]
    return f.choose(f.is_null(scalar_result), emit_binary, lambda: [scalar_result])[0]


def _make_binary_method(op: str) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of a binary operation as a method, like `x.add(y)`; `op` is the operation's name. The emitter
    takes the builder of the method's entry, and returns the result at run time: a new reference, or null for the fallback.

    The result is null without exactly one positional argument, or with keywords.
    """

    def emit_call(f: FunctionBuilder) -> Value:
        x, args, count, names = f.arguments
        plain = f.and_then(count.equals(1), lambda: f.is_null(names))
        call = lambda: [_apply_binary(f, op, x, args.load(POINTER), f.constant(I1, False))]
        return f.choose(plain, call, lambda: [f.null()])[0]

    return emit_call


def _make_in_place(op: str) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of an in-place operator, such as `+=`; `op` is the operation's name. The emitter returns the
    tensor itself as a new reference, or null for the fallback.
    """

    def emit_call(f: FunctionBuilder) -> Value:
        x, y = f.arguments[:2]
        return f.call(
            "apply_in_place", POINTER, [x, y, f.load_object(f"op {op}"), compute_known_scalars(f, op, x, y, f.constant(I1, False))]
        )

    return emit_call


def _make_forwarding(function: str) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of a method without arguments: a call of the emitted function named `function` with the tensor.
    The emitter returns the result of the call: a new reference, or null for the fallback.
    """
    return lambda f: f.call(function, POINTER, f.arguments[:1])


def _make_replay(name: str, kind: CallingConvention) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of the method `name`: a call of `replay_method`, which repeats a call recorded for equal
    arguments. `kind` is the method's calling convention. The emitter returns the result, a new reference, or null for the fallback.
    """

    def emit_call(f: FunctionBuilder) -> Value:
        if kind is CallingConvention.WITH_KEYWORDS:
            call_arguments = f.arguments[1:]
        elif kind is CallingConvention.ONE_ARGUMENT:
            argument_slot = f.local(POINTER, f.arguments[1])
            call_arguments = [argument_slot, f.i64(1), f.null()]
        else:
            call_arguments = [f.null(), f.i64(0), f.null()]
        return f.call("replay_method", POINTER, [f.arguments[0], *call_arguments, f.load_object(f"'{name}'")])

    return emit_call


def _apply_power(f: FunctionBuilder) -> Value:
    """Emit the fast path of `x ** y`; `x` and `y` are the arguments of the entry. An exponent of 2 gives the operation `square`, except for
    booleans, and an exponent other than a Python number the operation `pow`. In other cases, and where these decline, a recorded call is
    replayed.

    Return the result at run time: a new reference, or null to leave the call to the fallback.
    """
    x, y = f.arguments
    is_square = f.and_then(
        f.is_object(y, "2"), lambda: f.and_then(f.is_instance(x, "Tensor"), lambda: ~f.is_object(f.get_slot(x, "Tensor.dtype"), "bool"))
    )
    apply_power = lambda: [f.call("apply_binary", POINTER, [x, y, f.load_object("op pow"), f.constant(I1, False)])]
    (power,) = f.choose(
        is_square,
        lambda: [f.call("apply_unary", POINTER, [x, f.load_object("op square")])],
        lambda: f.choose(is_number(f, y), lambda: [f.null()], apply_power),
    )

    def replay_call() -> list[Value]:
        f.emit_if(~f.is_null(f.call("PyErr_Occurred", POINTER, [])), f.propagate_error)
        return [_make_replay("__pow__", CallingConvention.ONE_ARGUMENT)(f)]

    return f.choose(f.is_null(power), replay_call, lambda: [power])[0]


def _make_copy(name: str) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of the method `name`, "copy" or "clone": a new tensor with the same immutable node
    (`share_copy`), or else the replay of a recorded call. The emitter takes the builder of the method's entry, and returns the result at
    run time: a new reference, or null for the fallback.
    """
    return lambda f: _share_copy_or(f, lambda: [_make_replay(name, CallingConvention.NO_ARGUMENTS)(f)])[0]


def _make_cast(name: str) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of the method `name`, "astype" or "to": for the tensor's own dtype, also given as a type, a new
    tensor with the same node, otherwise the replay of a recorded call. The emitter takes the builder of the method's entry, and returns the
    result at run time: a new reference, or null for the fallback.
    """

    def emit_call(f: FunctionBuilder) -> Value:
        x, args, count, names = f.arguments
        replay_call = lambda: [_make_replay(name, CallingConvention.WITH_KEYWORDS)(f)]

        def is_own() -> Value:
            dtype = args.load(POINTER)
            find_dtype = lambda: [f.look_up(f.load_object("dtype of type"), dtype)]
            dtype = f.choose(f.is_instance(dtype, "type"), find_dtype, lambda: [dtype])[0]
            return f.and_then(f.is_instance(x, "Tensor"), lambda: dtype.equals(f.get_slot(x, "Tensor.dtype")))

        plain = f.and_then(count.equals(1), lambda: f.and_then(f.is_null(names), is_own))
        return f.choose(plain, lambda: _share_copy_or(f, replay_call), replay_call)[0]

    return emit_call


def _share_copy_or(f: FunctionBuilder, replay_call: Callable[[], list[Value]]) -> list[Value]:
    """Emit a copy of the entry's first argument, a tensor, with the same node (`share_copy`). If that declines without an error, the code
    of `replay_call` runs; it gives a list with a result.

    Return a list of one item, the result at run time: a new reference, or null for the fallback.
    """
    copy = f.call("share_copy", POINTER, f.arguments[:1])
    declined = f.and_then(f.is_null(copy), lambda: f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    return f.choose(declined, replay_call, lambda: [copy])


def _make_slot_read(name: str, find: Callable[[FunctionBuilder, Value], Value]) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of an attribute of a tensor, computed by `find` from the slot `name`.

    `find` is an emitter: it takes the builder and the content of the slot, and returns a new reference, the attribute. While the slot is
    unset, the emitter's result is null, which leaves the attribute to the fallback.
    """

    def emit_read(f: FunctionBuilder) -> Value:
        slot_value = f.get_slot(f.arguments[0], f"Tensor.{name}")
        return f.choose(f.is_null(slot_value), lambda: [f.null()], lambda: [find(f, slot_value)])[0]

    return emit_read


def _make_two_argument(function: str) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of a method with two arguments besides the tensor: a call of the emitted function named
    `function`.

    The emitter takes the builder of the method's entry, and returns the result of the call, a new reference. The result is null, for the
    fallback, with another number of arguments.
    """

    def emit_call(f: FunctionBuilder) -> Value:
        x, args, count = f.arguments
        call = lambda: [f.call(function, POINTER, [x, args.load(POINTER), args.at(1, POINTER).load(POINTER)])]
        return f.choose(count.equals(2), call, lambda: [f.null()])[0]

    return emit_call


def _load_item(f: FunctionBuilder) -> Value:
    """Emit the fast path of `item(*index)`: without arguments the only element, otherwise the element at the given coordinates. Return the
    result at run time: a Python number, a new reference, or null for the fallback, as for coordinates in a tuple.
    """
    x, args, count = f.arguments

    def read_element() -> list[Value]:
        key = f.build_tuple(count, lambda k: f.incref(args.at(k, POINTER).load(POINTER)))
        number = f.call("item_at", POINTER, [x, key])
        f.release_held(key)
        return [number]

    return f.choose(count.equals(0), lambda: [f.call("load_only_element", POINTER, [x])], read_element)[0]


def _add_at_indices(f: FunctionBuilder) -> Value:
    """Emit the fast path of `index_add_(0, index, source)`: add the rows of `source` to the rows at `index` along the first axis.

    Return, at run time, the tensor itself as a new reference, or null for the fallback: for another axis or number of arguments, for
    keyword arguments, and if `accumulate_selection` declines.
    """
    x, args, count, names = f.arguments
    plain = f.and_then(count.equals(3), lambda: f.and_then(f.is_null(names), lambda: f.is_object(args.load(POINTER), "0")))

    def add() -> list[Value]:
        result = f.call("accumulate_selection", POINTER, [x, *[args.at(k, POINTER).load(POINTER) for k in (1, 2)]])
        return f.choose(f.is_null(result), lambda: [result], lambda: [_release_and_return(f, result, x)])

    return f.choose(plain, add, lambda: [f.null()])[0]


def _fill_tensor(f: FunctionBuilder) -> Value:
    """Emit the fast path of `fill_(value)`: write a Python float or int to every element. Return, at run time, the tensor itself as a new
    reference, or null for the fallback: for other values, and if `set_item` declines.
    """
    x, args, count, names = f.arguments
    value = args.load(POINTER)
    is_number = lambda: f.or_else(f.is_instance(value, "float"), lambda: f.is_instance(value, "int"))
    plain = f.and_then(count.equals(1), lambda: f.and_then(f.is_null(names), is_number))

    def fill() -> list[Value]:
        result = f.call("set_item", POINTER, [x, f.load_object("..."), value])
        return f.choose(f.is_null(result), lambda: [result], lambda: [_release_and_return(f, result, x)])

    return f.choose(plain, fill, lambda: [f.null()])[0]


def _release_and_return(f: FunctionBuilder, result: Value, x: Value) -> Value:
    """Emit the release of the reference `result`, which is not held. Return `x` as a new reference."""
    f.decref(result)
    return f.incref(x)


def _apply_round(f: FunctionBuilder) -> Value:
    """Emit the fast path of `round`: without arguments the operation `round`, with arguments the replay of a recorded call. Return the
    result at run time: a new reference, or null to leave the call to the fallback.
    """
    x, args, count, names = f.arguments
    plain = f.and_then(count.equals(0), lambda: f.is_null(names))
    to_digits = lambda: [f.call("replay_method", POINTER, [x, args, count, names, f.load_object("'round'")])]
    return f.choose(plain, lambda: [f.call("apply_unary", POINTER, [x, f.load_object("op round")])], to_digits)[0]


def _apply_any_operation(f: FunctionBuilder) -> Value:
    """Emit the fast path of the method `Tensor._apply(op, *operands)`, which applies the operation `op` to the tensor and further operands.
    Return the result at run time: a new reference, or null for the fallback.
    """
    x, args, count = f.arguments

    def load_argument(k: int) -> Value:
        return args.at(k, POINTER).load(POINTER)

    def emit_unary() -> list[Value]:
        return [f.call("apply_unary", POINTER, [x, load_argument(0)])]

    def emit_binary() -> list[Value]:
        return [f.call("apply_binary", POINTER, [x, load_argument(1), load_argument(0), f.constant(I1, False)])]

    def emit_applied() -> list[Value]:
        return [f.call("apply_operation", POINTER, [load_argument(0), x, args.at(1, POINTER), count - 1])]

    emit_operation = lambda: f.choose(count.equals(1), emit_unary, lambda: f.choose(count.equals(2), emit_binary, emit_applied))
    return f.choose(count.equals(0), lambda: [f.null()], emit_operation)[0]


def _emit_call_ufunc(f: FunctionBuilder) -> None:
    """Emit `call_ufunc(x, args, count, names)`: call the function of this library that stands for a NumPy ufunc, and return its result, a
    new reference. The entry of `Tensor.__array_ufunc__` calls the function.

    `args` is the address of `count` arguments: the ufunc, the name of its method and the inputs; `names` is the tuple of keywords, or null.
    `x` is not used. The function returns null for keywords, for another method than `"__call__"`, for a ufunc without a counterpart, and
    for inputs other than tensors, numbers, and NumPy's arrays and scalars. Null with an error set means that the counterpart raised the
    error.
    """
    _, args, count, names = f.arguments
    f.require(f.and_then(count > 2, lambda: f.is_null(names)))
    method = args.at(1, POINTER).load(POINTER)
    f.require(f.is_instance(method, "str"))
    f.require(f.call("PyUnicode_Compare", I32, [method, f.load_object("'__call__'")]).equals(0))  # NumPy passes another string object
    counterpart = f.look_up(f.load_object("ufuncs"), args.load(POINTER))
    f.decline_if(f.is_null(counterpart))
    inputs = args.at(2, POINTER)

    def has_known_dtype(x: Value) -> Value:
        dtype = f.require_new(f.call("PyObject_GetAttr", POINTER, [x, f.load_object("'dtype'")]))
        is_known = ~f.is_null(f.look_up(f.load_object("dtype of NumPy dtype"), dtype))
        f.release_held(dtype)
        return is_known

    def require_operand(k: Value) -> None:
        x = inputs.at(k, POINTER).load(POINTER)
        is_array = lambda: f.and_then(f.has_type(x, "ndarray"), lambda: has_known_dtype(x))
        is_of_numpy = lambda: f.or_else(~f.is_null(f.look_up(f.load_object("dtype of type"), f.type_of(x))), is_array)
        f.require(f.or_else(is_operand(f, x), is_of_numpy))

    f.for_range(count - 2, require_operand)
    f.hold_borrowed(counterpart)
    result = f.require_new(f.call("PyObject_Vectorcall", POINTER, [counterpart, inputs, count - 2, f.null()]))
    f.release_held(counterpart)
    f.transfer_held(result)
    f.emit_return(result)


_EMITTERS_BY_NAME: dict[str, Callable[[FunctionBuilder], Value]] = {
    "__pow__": _apply_power,
    **{name: _make_slot_read("spec", find) for name, find in _SPEC_ATTRIBUTE_LOADS.items()},
    **{name: _make_slot_read(name, FunctionBuilder.incref) for name in LAZY_ATTRIBUTES},
    **{
        "realize": _make_forwarding("realize_tensor"),
        "to_numpy": _make_forwarding("to_numpy"),
        "numpy": _make_forwarding("to_numpy"),
        "tolist": _make_forwarding("to_list"),
    },
    **{name: _make_copy(name) for name in ("copy", "clone")},
    **{name: _make_cast(name) for name in ("astype", "to")},
    **{"__bool__": _make_forwarding("to_bool"), "__float__": _make_forwarding("to_float"), "__int__": _make_forwarding("to_int")},
    "__index__": _make_forwarding("to_index"),
    **{"__len__": _make_forwarding("load_length"), "__iter__": _make_forwarding("iterate_tensor")},
    "__getitem__": lambda f: f.call("get_item", POINTER, f.arguments),
    "__setitem__": _make_two_argument("set_item"),
    **{"item": _load_item, "index_add_": _add_at_indices, "fill_": _fill_tensor, "round": _apply_round, "_apply": _apply_any_operation},
    "__array_ufunc__": lambda f: f.call("call_ufunc", POINTER, f.arguments),
}


def _find_emitter(method: Method) -> Callable[[FunctionBuilder], Value]:
    """Return the emitter of the fast path of `method`. `_emit_method` calls the emitter with the builder of the method's entry. The emitter
    returns the result at run time: a new reference, or null to leave the call to the fallback.
    """
    if method.in_place_op:
        return _make_in_place(method.in_place_op)
    if method.op and method.convention is CallingConvention.WITH_KEYWORDS:
        return _make_binary_method(method.op)
    if method.op:
        return _make_unary(method.op) if method.convention is CallingConvention.NO_ARGUMENTS else _make_binary(method.op, method.comes_last)
    return _EMITTERS_BY_NAME.get(method.name) or _make_replay(method.name, method.convention)


_PARAMETERS_BY_CONVENTION = {
    CallingConvention.NO_ARGUMENTS: [("x", POINTER), ("unused", POINTER)],
    CallingConvention.ONE_ARGUMENT: [("x", POINTER), ("y", POINTER)],
    CallingConvention.POSITIONAL: [("x", POINTER), ("args", POINTER), ("count", I64)],
    CallingConvention.WITH_KEYWORDS: [("x", POINTER), ("args", POINTER), ("count", I64), ("names", POINTER)],
    CallingConvention.ATTRIBUTE: [("x", POINTER), ("closure", POINTER)],
}


def emit_module(object_table: ObjectTable, llvm_module: Module) -> Module:
    """Emit all functions of the fast path into the LLVM module `llvm_module`, and return this module. The build calls this if the machine
    code is neither prebuilt nor in the disk cache (`fastpath/machine_code.py`). `object_table` gives the indices of Python objects and the
    offsets of slots in the code.
    """
    evaluation_modules = (
        node_evaluation,
        kernel_launch,
        graph_walk,
        refcount_queries,
        graph_evaluation,
        plan_steps,
        tape_segments,
        batch_key,
    )
    creation_modules = (
        free_lists,
        block_allocator,
        scalar_arithmetic,
        tape_nodes,
        spec_table,
        template_cache,
        node_creation,
        pending_operations,
        size_eval,
        call_signatures,
        instantiate_templates,
    )
    direct_call_modules = (direct_calls, qr_decomposition, row_sorting, binary_search, bincount_unique)
    write_modules = (
        basic_indexing,
        assignment,
        inplace_update,
        snapshot_operands,
        row_selection,
        row_writes,
        index_gather,
        concat_few,
        concat_many,
        creation_calls,
        numpy_values,
    )
    for emitter in (*creation_modules, *evaluation_modules, python_conversion, *direct_call_modules, call_replay, *write_modules):
        emitter.emit_functions(llvm_module, object_table)
    _emit_call_fallback_short(
        FunctionBuilder(llvm_module, object_table, "call_fallback_short", [("fallback", POINTER), ("x", POINTER), ("argument", POINTER)])
    )
    _emit_call_fallback(
        FunctionBuilder(
            llvm_module,
            object_table,
            "call_fallback",
            [("fallback", POINTER), ("x", POINTER), ("args", POINTER), ("count", I64), ("names", POINTER)],
        )
    )
    _emit_apply_in_place(
        FunctionBuilder(
            llvm_module, object_table, "apply_in_place", [("x", POINTER), ("y", POINTER), ("op", POINTER), ("scalar_result", POINTER)]
        )
    )
    _emit_call_ufunc(FunctionBuilder(llvm_module, object_table, "call_ufunc", _PARAMETERS_BY_CONVENTION[CallingConvention.WITH_KEYWORDS]))
    for method in METHODS:
        _emit_method(
            FunctionBuilder(llvm_module, object_table, method.symbol, _PARAMETERS_BY_CONVENTION[method.convention], is_exported=True),
            method,
        )
    slot_functions.emit_functions(llvm_module, object_table)
    function_entries.emit_functions(llvm_module, object_table)
    llvm_module.define_global("objects", f"global [{len(object_table.indices)} x ptr] zeroinitializer")
    return llvm_module


def _emit_method(f: FunctionBuilder, method: Method) -> None:
    """Emit the entry of `method`, called by CPython: return the result of the fast path (`_find_emitter`), a new reference. Where that is
    null, return the result of a call of the fallback in Python. An error of the fast path other than MemoryError is raised instead of the
    call.
    """
    result = _find_emitter(method)(f)
    f.return_if(~f.is_null(result), lambda: result)
    fallback, null = f.load_object(f"fallback {method.name}"), f.null()
    x, *call_arguments = f.arguments
    if method.convention is CallingConvention.POSITIONAL:
        call_arguments = [*call_arguments, null]
    elif method.convention is not CallingConvention.WITH_KEYWORDS:
        call_arguments = call_arguments if method.convention is CallingConvention.ONE_ARGUMENT else [null]
    f.emit_return(f.call("call_fallback" if len(call_arguments) > 1 else "call_fallback_short", POINTER, [fallback, x, *call_arguments]))


def _emit_call_fallback_short(f: FunctionBuilder) -> None:
    """Emit `call_fallback_short(fallback, x, argument)`: return the result of the method `fallback` in Python for the tensor `x`, a new
    reference. Entries call the function where the fast path gave null.

    `argument` is a second argument, or null. The function returns null with an error set if the fast path set an error other than
    MemoryError, for an uninitialized tensor, and if the fallback raises.
    """
    fallback, x, argument = f.arguments
    f.propagate_error()
    f.raise_if_uninitialized(x)
    f.emit_if(~f.is_null(argument), lambda: f.raise_if_uninitialized(argument))
    args = f.local(array(POINTER, 2))
    args.store(x)
    args.at(1, POINTER).store(argument)
    count = f.select_value(f.is_null(argument), f.i64(1), f.i64(2))
    f.emit_return(f.call("PyObject_Vectorcall", POINTER, [fallback, args, count, f.null()]))


def _emit_call_fallback(f: FunctionBuilder) -> None:
    """Emit `call_fallback(fallback, x, args, count, names)`: return the result of the method `fallback` in Python for the tensor `x` and an
    array of arguments, a new reference. Entries call the function where the fast path gave null.

    `args` has `count` positional arguments, then the values of the keywords in `names`, a tuple or null. The function returns null with an
    error set in the same cases as `call_fallback_short`.
    """
    fallback, x, args, count, names = f.arguments
    f.propagate_error()
    f.raise_if_uninitialized(x)
    named = f.choose(f.is_null(names), lambda: [f.i64(0)], lambda: [f.load_word(names, SIZE_OFFSET)])[0]
    f.for_range(count + named, lambda k: f.raise_if_uninitialized(args.at(k, POINTER).load(POINTER)))
    args_with_x = f.call("PyMem_Malloc", POINTER, [(count + named + 1) * 8])
    f.return_if(f.is_null(args_with_x), lambda: f.call("PyErr_NoMemory", POINTER, []))
    args_with_x.store(x)
    f.for_range(count + named, lambda k: args_with_x.at(k + 1, POINTER).store(args.at(k, POINTER).load(POINTER)))
    result = f.call("PyObject_Vectorcall", POINTER, [fallback, args_with_x, count + 1, names])
    f.call("PyMem_Free", VOID, [args_with_x])
    f.emit_return(result)


def _emit_apply_in_place(f: FunctionBuilder) -> None:
    """Emit `apply_in_place(x, y, op, scalar_result)`, for the entries of `+=` and the like: write the result of the operation `op` on `x`
    and `y` into `x`. `x` is a tensor, `y` a tensor or a number. Return `x` as a new reference, or null to decline, before `x` changes.

    `scalar_result` is a new tensor with the result if the operands are known scalars, otherwise null. The function takes over the reference
    to `scalar_result`, also on failure. Declined are `x` in externally shared memory, and the cases of `apply_binary`, `replace_elements`
    and `_set_known_scalar`.
    """
    x, y, op, scalar_result = f.arguments

    def compute_result() -> list[Value]:
        decline_if_shared(f, x)
        return [f.call("apply_binary", POINTER, [x, y, op, f.constant(I1, False)])]

    result = f.require_new(f.choose(f.is_null(scalar_result), compute_result, lambda: [scalar_result])[0])
    storage = f.get_slot(x, "Tensor.storage")
    f.return_if(f.is_instance(storage, "ScalarStorage"), lambda: _set_known_scalar(f, x, storage, result))
    f.require(f.call("replace_elements", I1, [x, result, y]))
    f.release_held(result)
    f.emit_return(f.incref(x))


def _set_known_scalar(f: FunctionBuilder, x: Value, storage: Value, result: Value) -> Value:
    """Emit the update of the 0-d tensor `x` with a known scalar in `storage`: the scalar of the tensor `result` replaces the old scalar.

    Return `x` as a new reference. The held reference to `result` is released. The emitted function returns null or 0, with `x` unchanged,
    if `x` has axes, another spec than `result` or another dtype than `storage`. Further reasons: the scalar of `result` cannot be read or
    has a tape node, or `storage` holds a node by now.
    """
    held = list(f._held)
    spec = f.get_slot(x, "Tensor.spec")
    f.require(f.get_slot(result, "Tensor.spec").equals(spec))
    result_storage = f.get_slot(result, "Tensor.storage")
    f.require(f.or_else(is_known_scalar(f, result_storage), lambda: has_unrecorded_node(f, result_storage)))
    f.require(f.get_slot(spec, "Spec.shape").equals(f.load_object("()")))
    f.require(f.get_slot(storage, "ScalarStorage._dtype").equals(f.get_slot(spec, "Spec.dtype")))
    number = f.require_new(f.call("load_only_element", POINTER, [result]))
    old_number = f.get_slot(storage, "ScalarStorage._number")  # read late: Python code may have run and changed the scalar
    f.decline_if(f.is_object(old_number, "None"))
    f.set_slot(storage, "ScalarStorage._number", number)
    f.transfer_held(number, result)
    f.decref(old_number)
    f.decref(result)
    f._held[:] = held
    return f.incref(x)
