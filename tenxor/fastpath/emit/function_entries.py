"""Emitters of the code that CPython calls in place of the public functions (`fastpath/vectorcall_switch.py`): an operation of the op table,
a replayed call, or a conversion. The emitters in `_EMITTERS_BY_KIND` write the fast path of one kind of functions, a part of its entry.

A call whose last argument is `out`, by name, is the call without it, and an assignment.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I64, POINTER, array
from ..object_layout import SIZE_OFFSET, ObjectTable
from ..vectorcall_switch import get_entry_symbol
from .function_builder import FunctionBuilder
from .pending_operations import compute_specs
from .python_conversion import is_known_scalar

_ARGUMENT_COUNT_MASK = (1 << 63) - 1  # the mask of the argument count: the highest bit is PY_VECTORCALL_ARGUMENTS_OFFSET
FastPathEmitter = Callable[[FunctionBuilder, Value, Value, Value, Value], Value]


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the vectorcall entries of the public functions, one for each kind of functions in `_EMITTERS_BY_KIND`."""
    out_parameters = [("function", POINTER), ("args", POINTER), ("count", I64), ("names", POINTER)]
    _emit_write_into_out(FunctionBuilder(module, objects, "write_into_out", out_parameters))
    _emit_new_tensor_in_memory(FunctionBuilder(module, objects, "new_tensor_in_memory", [("value", POINTER)]))
    called = [("self", POINTER), ("args", POINTER), ("flags", I64), ("names", POINTER)]
    for name, fast_path in _EMITTERS_BY_KIND.items():
        _emit_function_entry(FunctionBuilder(module, objects, get_entry_symbol(name), called, is_exported=True), fast_path)


def _emit_function_entry(f: FunctionBuilder, fast_path: FastPathEmitter) -> None:
    """Emit the entry of all public functions of one kind, called by CPython by the vectorcall protocol: return the result of the code of
    `fast_path`, a new reference. Where that is null, return the result of a call of the function in Python.

    `fast_path` is an emitter of `_EMITTERS_BY_KIND`. It gets the operation or name of the function, the address of the arguments, the
    number of positional arguments, and the tuple of keywords or null. A call that only adds `out=` goes to `write_into_out`. An error other
    than MemoryError is raised at once. An uninitialized tensor among the arguments raises AttributeError instead of the call of Python.
    """
    function, args, flags, names = f.arguments
    count = flags & _ARGUMENT_COUNT_MASK
    result = fast_path(f, f.get_slot(function, "PatchableFunction.routine_argument"), args, count, names)
    f.return_if(~f.is_null(result), lambda: result)
    written_out = f.choose(f.is_null(names), lambda: [names], lambda: [f.call("write_into_out", POINTER, [function, args, count, names])])[
        0
    ]
    f.return_if(~f.is_null(written_out), lambda: written_out)
    f.propagate_error()
    f.for_range(count, lambda k: f.raise_if_uninitialized(args.at(k, POINTER).load(POINTER)))
    f.emit_return(f.call("PyObject_Vectorcall", POINTER, [f.get_slot(function, "PatchableFunction.func"), args, flags, names]))


def _emit_write_into_out(f: FunctionBuilder) -> None:
    """Emit `write_into_out(function, args, count, names)`: call `function` without its last argument, if that is named `out`, write the
    result over this argument, and return `out` as a new reference. Entries call the function where the fast path gave null.

    Return null, before anything is written, unless the last keyword is `out`, `out` is a tensor, and the result is a tensor of its dtype
    and shape. Null is also the result of an error. `args` is the address of `count` positional arguments and of values for the keywords in
    the tuple `names`.
    """
    function, args, count, names = f.arguments
    name_count = f.load_word(names, SIZE_OFFSET)
    f.require(f.and_then(name_count > 0, lambda: f.is_object(f.tuple_item(names, name_count - 1), "'out'")))
    out = args.at(count + name_count - 1, POINTER).load(POINTER)
    f.require(f.is_instance(out, "Tensor"))
    other_names = f.require_new(f.call("PyTuple_GetSlice", POINTER, [names, f.i64(0), name_count - 1]))
    result = f.require_new(f.call("PyObject_Vectorcall", POINTER, [function, args, count, other_names]))
    f.require(f.is_instance(result, "Tensor"))
    compute_specs(f, result, out)
    spec, out_spec = f.get_slot(result, "Tensor.spec"), f.get_slot(out, "Tensor.spec")

    def has_shape() -> Value:
        has_dtype = f.get_slot(spec, "Spec.dtype").equals(f.get_slot(out_spec, "Spec.dtype"))
        shapes = [f.get_slot(s, "Spec.shape") for s in (spec, out_spec)]
        return f.and_then(has_dtype, lambda: f.call("are_equal_tuples", I1, shapes))

    f.require(f.or_else(spec.equals(out_spec), has_shape))
    call_arguments = f.local(array(POINTER, 2))
    call_arguments.store(f.load_object("..."))
    call_arguments.at(1, POINTER).store(result)
    done = f.require_new(f.call("Tensor.__setitem__", POINTER, [out, call_arguments, f.i64(2)]))
    f.release_held(result, other_names, done)
    f.emit_return(f.incref(out))


def _emit_new_tensor_in_memory(f: FunctionBuilder) -> None:
    """Emit `new_tensor_in_memory(value)`: convert a NumPy array, a list or a number to a new tensor by `convert_value`. A node in memory
    takes the place of a known scalar. Return the tensor, a new reference. Return null if `convert_value` does. The entry of conversions
    calls the function.
    """
    (value,) = f.arguments
    tensor = f.require_new(f.call("convert_value", POINTER, [value]))
    is_scalar = is_known_scalar(f, f.get_slot(tensor, "Tensor.storage"))
    (node,) = f.choose(is_scalar, lambda: [f.call("new_scalar_node", POINTER, [tensor])], lambda: [f.null()])
    f.decline_if(is_scalar & f.is_null(node))
    f.transfer_held(tensor)
    f.return_if(f.is_null(node), lambda: tensor)
    spec = f.incref(f.get_slot(tensor, "Tensor.spec"))
    f.decref(tensor)
    f.emit_return(f.call("new_tensor", POINTER, [node, spec]))


def _convert(f: FunctionBuilder, _: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the conversion of the only argument, at the address `args`, to a tensor. Return a new reference: to the argument itself if it is
    a tensor, or to a new tensor; null for other values (`convert_value`).

    Null is also the result for keywords or another `count` than 1: then the function in Python is called. `count` is the number of
    positional arguments, and `names` the tuple of keywords, or null. The second argument is not used.
    """

    def call() -> Value:
        value = args.load(POINTER)
        convert = lambda: [f.call("new_tensor_in_memory", POINTER, [value])]
        return f.choose(f.is_instance(value, "Tensor"), lambda: [f.incref(value)], convert)[0]

    return _call_if_positional(f, 1, count, names, call)


def _call_if_positional(f: FunctionBuilder, expected_count: int, count: Value, names: Value, call: Callable[[], Value]) -> Value:
    """Emit the code of `call`, run if `count`, the number of positional arguments, is `expected_count`, and `names`, the tuple of keywords,
    is null.

    Return the result of `call`, which emits a pointer, or null in the other case, so that the function in Python is called.
    """
    is_positional = f.and_then(count.equals(expected_count), lambda: f.is_null(names))
    return f.choose(is_positional, lambda: [call()], lambda: [f.null()])[0]


def _apply_unary(f: FunctionBuilder, op: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the operation `op` on one tensor. Return the result, a new reference, or null to have the function in Python called.

    `args` is the address of `count` positional arguments, then of the values for the keywords in the tuple `names` (null: no keywords). At
    run time, null is the result for keywords or another `count` than 1, and also with an exception set. The result is mostly pending
    (`apply_unary`); `abs` and `negative` of a scalar give a known scalar, a number in a storage.
    """
    return _call_if_positional(f, 1, count, names, lambda: f.call("apply_unary", POINTER, [args.load(POINTER), op]))


def _apply_binary(f: FunctionBuilder, op: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the operation `op` on the two operands at `args`. Return the result, a new reference, or null to have the function in Python
    called.

    One operand must be a tensor. Null is the result for keywords or another `count` than 2, and also with an exception set. The result is
    mostly pending (`apply_binary`); an operation of `SCALAR_OPS` on two scalars gives a known scalar, a number in a storage. `count` is the
    number of positional arguments, and `names` the tuple of keywords, or null.
    """

    def call() -> Value:
        x, y = args.load(POINTER), args.at(1, POINTER).load(POINTER)
        apply_in_order = lambda: [f.call("apply_binary", POINTER, [x, y, op, f.constant(I1, False)])]
        apply_reflected = lambda: [f.call("apply_binary", POINTER, [y, x, op, f.constant(I1, True)])]
        return f.choose(f.has_type(x, "Tensor"), apply_in_order, apply_reflected)[0]

    return _call_if_positional(f, 2, count, names, call)


def _apply_ternary(f: FunctionBuilder, op: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the operation `op` on a tensor and two more operands at `args`, tensors or numbers. Return the result, mostly pending, a new
    reference, or null to have the function in Python called.

    Null is the result for keywords or another `count` than 3, and also with an exception set. `count` is the number of positional
    arguments, and `names` the tuple of keywords, or null.
    """
    return _call_if_positional(
        f, 3, count, names, lambda: f.call("apply_operation", POINTER, [op, args.load(POINTER), args.at(1, POINTER), f.i64(2)])
    )


def _replay_call(f: FunctionBuilder, name: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the replay of a recorded call of the function `name` with equal specs and arguments (`replay_method`). Return the result as a
    new reference, or null to have the function in Python called.

    `args` is the address of `count` positional arguments, a tensor first, then of the values for the keywords in the tuple `names`, or
    null. Null is the result if no call is recorded and no size-generic template fits.
    """
    call = lambda: [f.call("replay_method", POINTER, [args.load(POINTER), args.at(1, POINTER), count - 1, names, name])]
    return f.choose(count > 0, call, lambda: [f.null()])[0]


_EMITTERS_BY_KIND: dict[str, FastPathEmitter] = {
    "unary": _apply_unary,
    "binary": _apply_binary,
    "ternary": _apply_ternary,
    "replay": _replay_call,
    "convert": _convert,
}
