"""Functions for the type slots of `Tensor`. The interpreter calls them for operators (`../slots.py`).

Each function calls the fast path of a method. It passes operands outside of this path to the function that was in the slot before.
"""

from __future__ import annotations

from typing import Any

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I32, I64, POINTER, array
from ..objects import ITEMS, SIZE, Objects
from ..slots import BEFORE, BINARY, COMPARED, ENTRIES, IN_PLACE, UNARY
from .function import Function
from .record import asked


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    module.variable("stood_there", f"global [{len(ENTRIES)} x ptr] zeroinitializer")

    def function(name: str, *parameters: Any, result: Any = POINTER) -> Function:
        return Function(module, objects, name, parameters, result, exported=True)

    two = ("x", POINTER), ("y", POINTER)
    _getitem(function("slot_getitem", *two))
    _setitem(function("slot_setitem", *two, ("value", POINTER), result=I32))
    _item(function("slot_item", ("x", POINTER), ("k", I64)))
    _bool(function("slot_bool", ("x", POINTER), result=I32))
    _compared(function("slot_compared", *two, ("which", I32)))
    for name in UNARY:
        _unary(function(f"slot_{name}", ("x", POINTER)), name)
    for name in IN_PLACE:
        _in_place(function(f"slot_{name}", *two), name)
    for name in BINARY:
        _binary(function(f"number_{name}", *two), name)


def _stood_there(f: Function, name: str, result: Any = POINTER) -> Value:
    """Emit a call, with the arguments of the emitted function, of the function that was in the slot of entry `name` before.

    Return its result, of LLVM type `result`.
    """
    place = f.define(POINTER, f"getelementptr ptr, ptr @stood_there, i64 {BEFORE[name]}")
    given = ", ".join([f"{x.type.text} {x.text}" for x in f.arguments])
    return f.define(result, f"call {result.text} {place.load(POINTER).text}({given})")


def _own(f: Function, method: str, *given: Value) -> Value:
    """Emit a call of the fast path of a `Tensor` method, which falls back to the method in Python itself. Return its result, null for an
    error.
    """
    return f.call(f"Tensor.{method}", POINTER, list(given))


def is_plain(f: Function, y: Value) -> Value:
    """Emit a test whether the type of `y` is exactly Tensor, float or int, and no subclass."""
    kind = f.type_of(y)
    others = lambda: f.either(f.is_the(kind, "float"), lambda: f.is_the(kind, "int"))  # noqa: E731
    return f.either(f.has_type(y, "Tensor"), others)


def _getitem(f: Function) -> None:
    """Emit the slot function of `x[key]`."""
    x, key = f.arguments
    f.when_giving(f.has_type(x, "Tensor"), lambda: _own(f, "__getitem__", x, key))
    f.give(_stood_there(f, "slot_getitem"))


def _setitem(f: Function) -> None:
    """Emit the slot function of `x[key] = value`; a null `value` means `del x[key]`. The function returns 0, or -1 for an error."""
    x, key, value = f.arguments
    plain = f.both(f.has_type(x, "Tensor"), lambda: ~f.is_null(value))
    f.when_giving(~plain, lambda: _stood_there(f, "slot_setitem", I32))
    given = f.local(array(POINTER, 2))
    given.store(key)
    given.at(1, POINTER).store(value)
    found = _own(f, "__setitem__", x, given, f.number(2))
    f.when_giving(f.is_null(found), lambda: f.constant(I32, -1))
    f.drop(found)
    f.give(f.constant(I32, 0))


def _item(f: Function) -> None:
    """Emit the slot function of `x[k]` for iteration. Beyond the last element the function raises an IndexError; its message is never read.
    """
    x, k = f.arguments
    f.when_giving(~f.is_a(x, "Tensor"), lambda: _stood_there(f, "slot_item"))
    shape = f.get(asked(f, x, "spec"), "Spec.shape")
    is_one = f.both(f.word(shape, SIZE) > 0, lambda: f.integer(f.at(shape, ITEMS).load(POINTER)) > k)
    f.when_giving(~f.both(k >= 0, lambda: is_one), lambda: _beyond(f))
    key = f.as_object(k)
    found = f.made(_own(f, "__getitem__", x, key))
    f.let_go(key)
    f.keeps(found)
    f.give(found)


def _beyond(f: Function) -> Value:
    """Emit the setting of an IndexError. Return null."""
    f.call("PyErr_SetNone", I32, [f.the("IndexError")])
    return f.nothing()


def _bool(f: Function) -> None:
    """Emit the slot function of `bool(x)`: 1, 0, or -1 for an error. The usual operand is the result of comparing two elements."""
    (x,) = f.arguments
    f.when_giving(~f.is_a(x, "Tensor"), lambda: _stood_there(f, "slot_bool", I32))
    is_one = f.both(f.is_the(f.get(x, "Tensor.spec"), "point bool"), lambda: f.is_a(f.get(x, "Tensor.storage"), "Element"))

    def known() -> None:
        number = f.get(f.get(x, "Tensor.storage"), "Element._number")
        f.when_giving(f.is_the(number, "True"), lambda: f.constant(I32, 1))
        f.when_giving(f.is_the(number, "False"), lambda: f.constant(I32, 0))

    f.when(is_one, known)
    found = _own(f, "__bool__", x, f.nothing())
    f.when_giving(f.is_null(found), lambda: f.constant(I32, -1))
    f.drop(found)  # True and False are never deallocated, so the comparison below is safe
    f.give(f.is_the(found, "True").cast("zext", I32))


def _compared(f: Function) -> None:
    """Emit the slot function of the six comparisons, like `x < y`; the argument `which` numbers them in the order of `COMPARED`."""
    x, y, which = f.arguments
    plain = f.both(f.has_type(x, "Tensor"), lambda: is_plain(f, y))
    f.when_giving(~plain, lambda: _stood_there(f, "slot_compared"))
    for k, name in enumerate(COMPARED):
        f.when_giving(which.equals(k), lambda name=name: _own(f, f"__{name}__", x, y))  # type: ignore[misc]
    f.give(_stood_there(f, "slot_compared"))


def _in_place(f: Function, name: str) -> None:
    """Emit the slot function of an in-place operator, like `x += y`."""
    x, y = f.arguments
    f.when_giving(f.both(f.has_type(x, "Tensor"), lambda: is_plain(f, y)), lambda: _own(f, f"__{name}__", x, y))
    f.give(_stood_there(f, f"slot_{name}"))


def _unary(f: Function, name: str) -> None:
    """Emit the slot function of a unary operator, like `-x`."""
    (x,) = f.arguments
    f.when_giving(f.has_type(x, "Tensor"), lambda: _own(f, f"__{name}__", x, f.nothing()))
    f.give(_stood_there(f, f"slot_{name}"))


def _binary(f: Function, name: str) -> None:
    """Emit the slot function of a binary operator, like `x + y`, with a tensor on at least one side.

    If `x` is of `Tensor` or of a subclass, the method of `x` is called, otherwise the reflected method of `y`.
    """
    x, y = f.arguments
    is_first = f.either(f.has_type(x, "Tensor"), lambda: f.call("PyType_IsSubtype", I32, [f.type_of(x), f.the("Tensor")]).differs(0))
    f.when_giving(is_first, lambda: _own(f, f"__{name}__", x, y))
    f.give(_own(f, f"__r{name}__", y, x))
