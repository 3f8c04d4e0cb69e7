"""Emitters of the code called in place of the public functions (`functions.py`): an operation of the op table, or a replayed call."""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER
from ..functions import symbol_of
from ..objects import Objects
from .function import Function

_COUNT = (1 << 63) - 1  # the mask of the argument count: the highest bit is PY_VECTORCALL_ARGUMENTS_OFFSET
Machine = Callable[[Function, Value, Value, Value, Value], Value]


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    called = [("self", POINTER), ("args", POINTER), ("flags", I64), ("names", POINTER)]
    for name, short in _SHORT.items():
        _function(Function(module, objects, symbol_of(name), called, exported=True), short)


def _function(f: Function, short: Machine) -> None:
    """Emit the vectorcall entry of a public function: the fast path `short`, or, where it gives null, a call of the function in Python."""
    me, args, flags, names = f.arguments
    found = short(f, f.get(me, "Frameless.subject"), args, flags & _COUNT, names)
    f.when_giving(~f.is_null(found), lambda: found)
    f.tell_what_was_met()
    f.each(flags & _COUNT, lambda k: f.raise_if_uninitialized(args.at(k, POINTER).load(POINTER)))
    f.give(f.call("PyObject_Vectorcall", POINTER, [f.get(me, "Frameless.func"), args, flags, names]))


def _just(f: Function, wanted: int, count: Value, names: Value, call: Callable[[], Value]) -> Value:
    """Emit `call`, run if `count`, the number of positional arguments, is `wanted`, and `names`, the tuple of keywords, is null. Return its
    result, or null, so that the function in Python is called.
    """
    plain = f.both(count.equals(wanted), lambda: f.is_null(names))
    return f.choose(plain, lambda: [call()], lambda: [f.nothing()])[0]


def _unary(f: Function, op: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the operation `op` on one tensor, the only argument at `args`. Return its pending result; null for other arguments."""
    return _just(f, 1, count, names, lambda: f.call("unary", POINTER, [args.load(POINTER), op]))


def _binary(f: Function, op: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the operation `op` on the two operands at `args`. Return its pending result; null for other arguments.

    One operand may be a Python number. If it is the first, the second must be a tensor.
    """

    def call() -> Value:
        x, y = args.load(POINTER), args.at(1, POINTER).load(POINTER)
        kind = f.type_of(x)
        is_number = f.either(f.is_the(kind, "float"), lambda: f.is_the(kind, "int"))
        first = lambda: [f.call("binary", POINTER, [x, y, op, f.constant(I1, False)])]  # noqa: E731
        last = lambda: [f.call("binary", POINTER, [y, x, op, f.constant(I1, True)])]  # noqa: E731
        return f.choose(is_number, last, first)[0]

    return _just(f, 2, count, names, call)


def _ternary(f: Function, op: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the operation `op` on a tensor and two more operands at `args`. Return its pending result; null for other arguments."""
    return _just(f, 3, count, names, lambda: f.call("applied", POINTER, [op, args.load(POINTER), args.at(1, POINTER), f.number(2)]))


def _again(f: Function, name: Value, args: Value, count: Value, names: Value) -> Value:
    """Emit the replay of a recorded call of the function `name` with equal specs and arguments (`call.py`). Return the result, or null.

    `args` is the address of `count` positional arguments and of values for the keywords in the tuple `names`, or null.
    """
    call = lambda: [f.call("called", POINTER, [args.load(POINTER), args.at(1, POINTER), count - 1, names, name])]  # noqa: E731
    return f.choose(count > 0, call, lambda: [f.nothing()])[0]


_SHORT: dict[str, Machine] = {"unary": _unary, "binary": _binary, "ternary": _ternary, "again": _again}
