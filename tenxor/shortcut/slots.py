"""Operators in machine code, called by the interpreter itself.

For a class of Python's, what stands for `x[key]` or `x += y` in its type looks the method up by name, each time, and calls what it finds
as any function is called: that takes as long as to read an element. So machine code stands there, which calls the method's own. What is
not plain is left to what stood there. If somebody puts another method into the class, the interpreter puts its own function back.

Of `x + y` the interpreter asks first whether the same function stands there for both, and else asks a subclass first. So subclasses
that have no method of their own need ours, too. They get it where the methods say so themselves, as those of C's classes do: there
`__add__` and `__radd__` are wrappers of one function.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import I32, I64, POINTER, array
from .function import Function
from .objects import ITEMS, SIZE, Objects
from .record import asked

# Where a type has its tables as a number, a sequence and a mapping, and these their entries, in bytes; 0 is the type itself.
_NUMBER, _SEQUENCE, _MAPPING = 96, 104, 112
_IN_PLACE = {
    **{"iadd": 152, "isub": 160, "imul": 168, "imod": 176, "ilshift": 192, "irshift": 200, "iand": 208, "ixor": 216, "ior": 224},
    **{"ifloordiv": 248, "itruediv": 256},
}
_UNARY = {"neg": 48, "pos": 56, "abs": 64, "invert": 80, "int": 128, "float": 144}
_BINARY = {
    **{"add": 0, "sub": 8, "mul": 16, "mod": 24, "lshift": 88, "rshift": 96, "and": 104, "xor": 112, "or": 120},
    **{"floordiv": 232, "truediv": 240},
}
_COMPARED = ("lt", "le", "eq", "ne", "gt", "ge")  # in the order of C's numbers for them
# By the name of our function: the method that has the interpreter fill the entry, the table, and the place in it.
ENTRIES: dict[str, tuple[str, int, int]] = {
    "slot_getitem": ("__getitem__", _MAPPING, 8),
    "slot_setitem": ("__setitem__", _MAPPING, 16),
    "slot_item": ("__getitem__", _SEQUENCE, 24),
    "slot_bool": ("__bool__", _NUMBER, 72),
    "slot_compared": ("__lt__", 0, 200),
    **{f"slot_{name}": (f"__{name}__", _NUMBER, place) for name, place in (*_UNARY.items(), *_IN_PLACE.items())},
}
WRAPPED = {f"__{r}{name}__": f"number_{name}" for name in _BINARY for r in ("", "r")}  # the functions of which methods are wrappers
NUMBERS = tuple(dict.fromkeys(WRAPPED.values()))
# Where a wrapper has what it was made of, in bytes, which tells among others how its function is called.
_MADE_OF = 40
_BEFORE = {name: k for k, name in enumerate(ENTRIES)}


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    module.globals["stood_there"] = f"@stood_there = global [{len(ENTRIES)} x ptr] zeroinitializer"

    def function(name: str, *parameters: Any, result: Any = POINTER) -> Function:
        return Function(module, objects, name, parameters, result, exported=True)

    two = ("x", POINTER), ("y", POINTER)
    _getitem(function("slot_getitem", *two))
    _setitem(function("slot_setitem", *two, ("value", POINTER), result=I32))
    _item(function("slot_item", ("x", POINTER), ("k", I64)))
    _bool(function("slot_bool", ("x", POINTER), result=I32))
    _compared(function("slot_compared", *two, ("which", I32)))
    for name in _UNARY:
        _unary(function(f"slot_{name}", ("x", POINTER)), name)
    for name in _IN_PLACE:
        _in_place(function(f"slot_{name}", *two), name)
    for name in _BINARY:
        _binary(function(f"number_{name}", *two), name)


def _stood_there(f: Function, name: str, result: Any = POINTER) -> Value:
    """What the interpreter's own function gives."""
    place = f.define(POINTER, f"getelementptr ptr, ptr @stood_there, i64 {_BEFORE[name]}")
    given = ", ".join([f"{x.type.text} {x.text}" for x in f.arguments])
    return f.define(result, f"call {result.text} {place.load(POINTER).text}({given})")


def _own(f: Function, method: str, *given: Value) -> Value:
    """What a method's machine code gives, with all that it leaves to Python's."""
    return f.call(f"Tensor.{method}", POINTER, list(given))


def _is_plain(f: Function, y: Value) -> Value:
    """Whether this is a tensor, a float or an integer, and not of a subclass."""
    kind = f.type_of(y)
    others = lambda: f.either(f.is_the(kind, "float"), lambda: f.is_the(kind, "int"))  # noqa: E731
    return f.either(f.is_the(kind, "Tensor"), others)


def _getitem(f: Function) -> None:
    """`x[key]`"""
    x, key = f.arguments
    f.when_giving(f.is_a(x, "Tensor"), lambda: _own(f, "__getitem__", x, key))
    f.give(_stood_there(f, "slot_getitem"))


def _setitem(f: Function) -> None:
    """`x[key] = value`, or `del x[key]` if there is none; 0, or -1 for an error."""
    x, key, value = f.arguments
    plain = f.both(f.is_a(x, "Tensor"), lambda: ~f.is_null(value))
    f.when_giving(~plain, lambda: _stood_there(f, "slot_setitem", I32))
    given = f.local(array(POINTER, 2))
    given.store(key)
    given.at(1, POINTER).store(value)
    found = _own(f, "__setitem__", x, given, f.number(2))
    f.when_giving(f.is_null(found), lambda: f.constant(I32, -1))
    f.drop(found)
    f.give(f.constant(I32, 0))


def _item(f: Function) -> None:
    """`x[k]` for whoever goes through all of it: beyond the last there is an IndexError, of which nobody reads what it says."""
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
    f.call("PyErr_SetNone", I32, [f.the("IndexError")])
    return f.nothing()


def _bool(f: Function) -> None:
    """Whether it is true; -1 for an error. Mostly it is what a comparison of elements gave."""
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
    f.drop(found)  # there will always be both
    f.give(f.is_the(found, "True").cast("zext", I32))


def _compared(f: Function) -> None:
    """`x < y` and the like."""
    x, y, which = f.arguments
    plain = f.both(f.is_a(x, "Tensor"), lambda: _is_plain(f, y))
    f.when_giving(~plain, lambda: _stood_there(f, "slot_compared"))
    for k, name in enumerate(_COMPARED):
        f.when_giving(which.equals(k), lambda name=name: _own(f, f"__{name}__", x, y))  # type: ignore[misc]
    f.give(_stood_there(f, "slot_compared"))


def _in_place(f: Function, name: str) -> None:
    """`x += y` and the like."""
    x, y = f.arguments
    f.when_giving(f.both(f.is_a(x, "Tensor"), lambda: _is_plain(f, y)), lambda: _own(f, f"__{name}__", x, y))
    f.give(_stood_there(f, f"slot_{name}"))


def _unary(f: Function, name: str) -> None:
    """`-x` and the like."""
    (x,) = f.arguments
    f.when_giving(f.is_a(x, "Tensor"), lambda: _own(f, f"__{name}__", x, f.nothing()))
    f.give(_stood_there(f, f"slot_{name}"))


def _binary(f: Function, name: str) -> None:
    """`x + y` and the like, one of which is a tensor. If both are, the first is asked, which takes tensors of all classes."""
    x, y = f.arguments
    is_first = f.either(f.is_a(x, "Tensor"), lambda: f.call("PyType_IsSubtype", I32, [f.type_of(x), f.the("Tensor")]).differs(0))
    f.when_giving(is_first, lambda: _own(f, f"__{name}__", x, y))
    f.give(_own(f, f"__r{name}__", y, x))


class _Base(ctypes.Structure):
    """What a wrapper is made of, as C has it."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("place", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("wrapper", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("flags", ctypes.c_int),
        ("known_as", ctypes.c_void_p),
    )


_new_wrapper = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.POINTER(_Base), ctypes.c_void_p)(
    ("PyDescr_NewWrapper", ctypes.pythonapi)
)


def wrapper(cls: type, name: str, function: int, text: str, kept: list[Any]) -> Any:
    """A method that is a wrapper of a function, with a signature and documentation. LookupError unless those of `int` are made as is
    believed: this one is like them.
    """
    like = vars(int)[name]
    if type(like).__basicsize__ != _MADE_OF + 16:
        raise LookupError(f"a wrapper has {type(like).__basicsize__} bytes")
    base = ctypes.POINTER(_Base).from_address(id(like) + _MADE_OF).contents
    if base.name != name.encode() or base.known_as != id(like.__name__):
        raise LookupError(f"what {name} of an integer is made of is not where it is looked for")
    own = _Base(base.name, base.place, base.function, base.wrapper, text.encode(), base.flags, base.known_as)
    kept.append(own)
    return _new_wrapper(cls, ctypes.byref(own), function)


def _place(cls: type, table: int, entry: int) -> ctypes.c_void_p:
    """An entry of a type."""
    at = id(cls)
    if table:
        at = ctypes.c_void_p.from_address(at + table).value or 0
        if not at:
            raise LookupError(f"{cls.__name__} has no table of what it does")
    return ctypes.c_void_p.from_address(at + entry)


def stand_in(library: Mapping[str, int], cls: type) -> None:
    """Have the interpreter call machine code for a class whose methods it is. LookupError unless types are made as is believed: what
    stands in an entry is what stands there in any class that has the method, and nothing in one that has not; and where methods are
    wrappers, their function.
    """
    for name, entry in _BINARY.items():
        if _place(cls, _NUMBER, entry).value != library[f"number_{name}"]:
            raise LookupError(f"what is called for __{name}__ is not what its methods are wrappers of")
    nothing = type("Nothing", (), {"__slots__": ()})
    for name, (method, table, entry) in ENTRIES.items():
        place = _place(cls, table, entry)
        like = _place(type("Like", (), {method: lambda *_: None, "__hash__": None}), table, entry)
        without = _place(nothing, table, entry).value
        if not place.value or place.value != like.value or (without and without == like.value):
            raise LookupError(f"what is called for {method} is not where it is looked for")
        ctypes.c_void_p.from_address(library["stood_there"] + 8 * _BEFORE[name]).value = place.value
        place.value = library[name]
