"""Emitters of the code called in place of the public functions (`fastpath/vectorcall_switch.py`): an operation of the op table, or a
replayed call.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I64, POINTER
from ..object_layout import ObjectTable
from ..vectorcall_switch import get_entry_symbol
from .function_builder import FunctionBuilder

_ARGUMENT_COUNT_MASK = (1 << 63) - 1  # the mask of the argument count: the highest bit is PY_VECTORCALL_ARGUMENTS_OFFSET
FastPathEmitter = Callable[[FunctionBuilder, Value, Value, Value, Value], Value]


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the vectorcall entries of the public functions, one for each kind of functions in `_EMITTERS_BY_KIND`."""
    called = [("self", POINTER), ("args", POINTER), ("flags", I64), ("names", POINTER)]
    for name, fast_path in _EMITTERS_BY_KIND.items():
        _emit_function_entry(FunctionBuilder(module, objects, get_entry_symbol(name), called, is_exported=True), fast_path)


def _emit_function_entry(f: FunctionBuilder, fast_path: FastPathEmitter) -> None:
    """Emit a vectorcall entry of public functions: return the result of the code of `fast_path`, or, where that is null, of a call of the
    function in Python.

    `fast_path` gets the operation or name of the function, the address of the arguments, the number of positional arguments, and the tuple
    of keywords or null. An error other than MemoryError is raised at once. An uninitialized tensor among the arguments raises
    AttributeError instead of the call of Python.
    """
    function, args, flags, names = f.arguments
    result = fast_path(f, f.get_slot(function, "PatchableFunction.routine_argument"), args, flags & _ARGUMENT_COUNT_MASK, names)
    f.return_if(~f.is_null(result), lambda: result)
    f.propagate_error()
    f.for_range(flags & _ARGUMENT_COUNT_MASK, lambda k: f.raise_if_uninitialized(args.at(k, POINTER).load(POINTER)))
    f.emit_return(f.call("PyObject_Vectorcall", POINTER, [f.get_slot(function, "PatchableFunction.func"), args, flags, names]))


def _call_if_positional(f: FunctionBuilder, expected_count: int, count: Value, names: Value, call: Callable[[], Value]) -> Value:
    """Emit the code of `call`, run if `count`, the number of positional arguments, is `expected_count`, and `names`, the tuple of keywords,
    is null.

    Return the result, or null, so that the function in Python is called.
    """
    is_positional = f.and_then(count.equals(expected_count), lambda: f.is_null(names))
    return f.choose(is_positional, lambda: [call()], lambda: [f.null()])[0]


def _apply_unary(f: FunctionBuilder, op: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the operation `op` on one tensor. Return the result, or null to have the function in Python called.

    `args` is the address of `count` positional arguments, then of the values for the keywords in the tuple `names` (null: no keywords).
    At run time, null is the result for keywords or another `count` than 1, and also with an exception set. The result is pending, except
    for `abs` and `negative` of a scalar, which give a known scalar.
    """
    return _call_if_positional(f, 1, count, names, lambda: f.call("unary", POINTER, [args.load(POINTER), op]))


def _apply_binary(f: FunctionBuilder, op: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the operation `op` on the two operands at `args`. Return the result, mostly pending; null to decline.

    One operand may be a Python number. If it is the first, the second must be a tensor. `count` and `names` are as in `_apply_unary`.
    """

    def call() -> Value:
        x, y = args.load(POINTER), args.at(1, POINTER).load(POINTER)
        kind = f.type_of(x)
        is_number = f.or_else(f.is_object(kind, "float"), lambda: f.is_object(kind, "int"))
        apply_in_order = lambda: [f.call("binary", POINTER, [x, y, op, f.constant(I1, False)])]
        apply_reflected = lambda: [f.call("binary", POINTER, [y, x, op, f.constant(I1, True)])]
        return f.choose(is_number, apply_reflected, apply_in_order)[0]

    return _call_if_positional(f, 2, count, names, call)


def _apply_ternary(f: FunctionBuilder, op: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the operation `op` on a tensor and two more operands at `args`, tensors or numbers. Return the pending result; null to decline.

    `count` and `names` are as in `_apply_unary`.
    """
    return _call_if_positional(
        f, 3, count, names, lambda: f.call("applied", POINTER, [op, args.load(POINTER), args.at(1, POINTER), f.i64(2)])
    )


def _replay_call(f: FunctionBuilder, name: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the replay of a recorded call of the function `name` with equal specs and arguments (`call_replay.py`). Return the result, or
    null to decline.

    `args` is the address of `count` positional arguments, a tensor first, then of the values for the keywords in the tuple `names`, or
    null.
    """
    call = lambda: [f.call("called", POINTER, [args.load(POINTER), args.at(1, POINTER), count - 1, names, name])]
    return f.choose(count > 0, call, lambda: [f.null()])[0]


_EMITTERS_BY_KIND: dict[str, FastPathEmitter] = {
    "unary": _apply_unary,
    "binary": _apply_binary,
    "ternary": _apply_ternary,
    "again": _replay_call,
}
