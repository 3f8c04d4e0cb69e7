"""Functions of the module, called as machine code with no frame of Python's before it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import I1, I64, POINTER
from ..frameless import Frameless
from .function import Function
from .objects import Objects

# Where a type says where its instances have what calls them, and its flags, in bytes; and the flag that says that they have.
_CALLED_BY, _FLAGS, _HAS = 56, 168, 1 << 11
_COUNT = (1 << 63) - 1  # what is beside the number of arguments says who may write before them
Machine = Callable[[Function, Value, Value, Value, Value], Value]


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    called = [("self", POINTER), ("args", POINTER), ("flags", I64), ("names", POINTER)]
    for name, short in _SHORT.items():
        _function(Function(module, objects, symbol_of(name), called, exported=True), short)


def symbol_of(machine: str) -> str:
    """The name of the machine code of a kind of functions."""
    return f"function_{machine}"


def _function(f: Function, short: Machine) -> None:
    """What the short way gives, and where that declines Python's own function."""
    me, args, flags, names = f.arguments
    found = short(f, f.get(me, "Frameless.subject"), args, flags & _COUNT, names)
    f.when_giving(~f.is_null(found), lambda: found)
    f.tell_what_was_met()
    f.give(f.call("PyObject_Vectorcall", POINTER, [f.get(me, "Frameless.func"), args, flags, names]))


def _just(f: Function, wanted: int, count: Value, names: Value, call: Callable[[], Value]) -> Value:
    """What is called with just so many arguments, none of which is named; else nothing."""
    plain = f.both(count.equals(wanted), lambda: f.is_null(names))
    return f.choose(plain, lambda: [call()], lambda: [f.nothing()])[0]


def _unary(f: Function, op: Value, args: Value, count: Value, names: Value) -> Value:
    """An operation on a tensor."""
    return _just(f, 1, count, names, lambda: f.call("unary", POINTER, [args.load(POINTER), op]))


def _binary(f: Function, op: Value, args: Value, count: Value, names: Value) -> Value:
    """An operation on two, the first of which may be a number."""

    def call() -> Value:
        x, y = args.load(POINTER), args.at(1, POINTER).load(POINTER)
        kind = f.type_of(x)
        is_number = f.either(f.is_the(kind, "float"), lambda: f.is_the(kind, "int"))
        first = lambda: [f.call("binary", POINTER, [x, y, op, f.constant(I1, False)])]  # noqa: E731
        last = lambda: [f.call("binary", POINTER, [y, x, op, f.constant(I1, True)])]  # noqa: E731
        return f.choose(is_number, last, first)[0]

    return _just(f, 2, count, names, call)


def _ternary(f: Function, op: Value, args: Value, count: Value, names: Value) -> Value:
    """An operation on a tensor and two more."""
    return _just(f, 3, count, names, lambda: f.call("applied", POINTER, [op, args.load(POINTER), args.at(1, POINTER), f.number(2)]))


def _again(f: Function, name: Value, args: Value, count: Value, names: Value) -> Value:
    """What was made before of arguments like these."""
    call = lambda: [f.call("called", POINTER, [args.load(POINTER), args.at(1, POINTER), count - 1, names, name])]  # noqa: E731
    return f.choose(count > 0, call, lambda: [f.nothing()])[0]


_SHORT: dict[str, Machine] = {"unary": _unary, "binary": _binary, "ternary": _ternary, "again": _again}
MACHINES = tuple([symbol_of(name) for name in _SHORT])


def _word(x: object, place: int) -> ctypes.c_ssize_t:
    return ctypes.c_ssize_t.from_address(id(x) + place)


def _nothing() -> None:
    """Any function of Python's."""


def _place() -> int:
    """Where such functions have what calls them, in bytes. LookupError unless types say where, as is believed."""
    place = _word(Frameless, _CALLED_BY).value
    like, other = partial(_nothing), Frameless(_nothing)
    there = 0 < place <= partial.__basicsize__ - 8 and place == _word(partial, _CALLED_BY).value
    flagged = all([_word(cls, _FLAGS).value == cls.__flags__ for cls in (partial, Frameless)]) and partial.__flags__ & _HAS
    if not there or not flagged or not _word(like, place).value or _word(like, place).value != _word(other, place).value:
        raise LookupError("what calls a function is not where it is looked for")
    return place


class Calling:
    """Who has functions called by machine code, or as before."""

    def __init__(self, library: Mapping[str, Any]) -> None:
        self._place = _place()
        self._before = _word(Frameless(_nothing), self._place).value
        self._by = {name: library[symbol_of(name)] for name in _SHORT}

    def stand_in(self, function: Frameless) -> None:
        """Have a function called by machine code."""
        _word(Frameless, _FLAGS).value |= _HAS  # before CPython 3.12 classes do not get it from those that they are made of
        _word(function, self._place).value = self._by[function.machine]

    def leave(self, functions: Iterable[Frameless]) -> None:
        """Have them called as before."""
        for function in functions:
            _word(function, self._place).value = self._before
