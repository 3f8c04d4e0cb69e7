"""New tensors: by a recipe that reads numbers alone, or of what Python's lists, or buffers, have in memory."""

from __future__ import annotations

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import DOUBLE, I1, I64, POINTER, VOID
from .compute import in_memory
from .function import Function
from .objects import Objects
from .read import address_of, with_bytes
from .record import result


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    called = [("self", POINTER), ("args", POINTER), ("count", I64)]
    _waiting(Function(module, objects, "new_waiting", [(name, POINTER) for name in ("recipe", "sources", "offsets", "spec")]))
    _blank(Function(module, objects, "new_blank", [("recipe", POINTER), ("spec", POINTER)]))
    _fill_line(Function(module, objects, "fill_line", [("list", POINTER), ("to", POINTER), ("count", I64), ("are_floats", I1)], I1))
    _fill(
        Function(
            module,
            objects,
            "fill",
            [("list", POINTER), ("to", POINTER), ("rows", I64), ("count", I64), ("are_floats", I1)],
            I1,
        )
    )
    _copy(Function(module, objects, "copy_buffer", [("source", POINTER), ("to", POINTER), ("nbytes", I64)], I1))
    _makes(Function(module, objects, "waiting", called, exported=True), "new_waiting", 4)
    _makes(Function(module, objects, "blank", called, exported=True), "new_blank", 2)
    _fill_for_python(Function(module, objects, "fill_from_list", called, exported=True))
    _copy_for_python(Function(module, objects, "fill_from_buffer", called, exported=True))


def _given(f: Function, count: int) -> list[Value]:
    """So many arguments of a function that Python calls."""
    return [f.arguments[1].at(k, POINTER).load(POINTER) for k in range(count)]


def _makes(f: Function, function: str, count: int) -> None:
    """What a function gives, for Python; None if it declines."""
    f.give_or_none(f.call(function, POINTER, _given(f, count)))


def _waiting(f: Function) -> None:
    """The pending tensor of a recipe."""
    f.give(result(f, *[f.hold(x) for x in f.arguments]))


def _blank(f: Function) -> None:
    """A tensor in memory of its own, whose elements are whatever that held."""
    recipe, spec = f.arguments
    node = in_memory(f, recipe, f.made(f.call("new_buffer", POINTER, [recipe])))
    f.hold(spec)
    f.keeps(node, spec)
    f.give(f.call("tensor", POINTER, [node, spec]))


def _fill_for_python(f: Function) -> None:
    """Write a list of numbers, or of so many rows of them, into a buffer: whether all are of one kind, and each row has as many."""
    numbers, buffer, *others = _given(f, 5)
    rows, count, are_floats = (f.integer(x) for x in others)
    done = f.call("fill", I1, [numbers, address_of(f, buffer), rows, count, are_floats.differs(0)])
    f.give(f.truth(done))


def _fill(f: Function) -> None:
    """The same for machine code; of no rows it is a list of numbers."""
    numbers, to, rows, count, are_floats = f.arguments
    f.when_giving(rows.equals(0), lambda: f.call("fill_line", I1, [numbers, to, count, are_floats]))
    f.require(f.is_a(numbers, "list"))

    def row(k: Value) -> None:
        line = f.call("PyList_GetItem", POINTER, [numbers, k])
        f.require(f.call("fill_line", I1, [line, to.at(k * count, I64), count, are_floats]))

    f.require(f.call("PyList_Size", I64, [numbers]).equals(rows))
    f.each(rows, row)
    f.give(f.constant(I1, True))


def _fill_line(f: Function) -> None:
    """Write a list of so many floats, or of integers of 64 bits, to an address. Nothing of Python runs meanwhile."""
    numbers, to, count, are_floats = f.arguments
    f.require(f.is_a(numbers, "list"))
    f.require(f.call("PyList_Size", I64, [numbers]).equals(count))

    def real(k: Value) -> None:
        x = f.call("PyList_GetItem", POINTER, [numbers, k])
        f.require(f.is_a(x, "float"))
        to.at(k, DOUBLE).store(f.call("PyFloat_AsDouble", DOUBLE, [x]))

    def whole(k: Value) -> None:
        x = f.call("PyList_GetItem", POINTER, [numbers, k])
        f.require(f.is_a(x, "int"))
        value, fits = f.bounded(x)
        f.require(fits)
        to.at(k, I64).store(value)

    f.when(are_floats, lambda: f.each(count, real))
    f.when(~are_floats, lambda: f.each(count, whole))
    f.give(f.constant(I1, True))


def _copy_for_python(f: Function) -> None:
    """Copy so many bytes of another object's buffer into one: whether it has just as many, in C's order, and others may write them."""
    source, buffer, nbytes = _given(f, 3)
    done = f.call("copy_buffer", I1, [source, address_of(f, buffer), f.integer(nbytes)])
    f.call("PyErr_Clear", VOID, [])
    f.give(f.truth(done))


def _copy(f: Function) -> None:
    """The same for machine code."""
    source, to, nbytes = f.arguments
    f.give(with_bytes(f, source, nbytes, lambda start: f.call("memcpy", POINTER, [to, start, nbytes])))
