"""What specs remember that is made of tensors like them: tables by operation, or method, and in these by what is beside it."""

from __future__ import annotations

from typing import NamedTuple

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER
from ...spec import COUNTED
from ..objects import Objects
from .function import Function


class Table(NamedTuple):
    """A table of a spec, which there may be none of yet: how many bytes from the spec on it says so."""

    spec: Value
    slot: Value


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    _table_of(Function(module, objects, "table_of", [("spec", POINTER), ("slot", I64)]))
    module.variable("counted", "internal global i64 0")
    parts = [("spec", POINTER), ("slot", I64), *[(name, POINTER) for name in ("operation", "beside", "made")]]
    _remember(Function(module, objects, "remember", parts, I1))


def table(f: Function, spec: Value, name: str) -> Table:
    """A table of a spec, by its name."""
    return Table(spec, f.number(f.objects.offset_of(f"Spec.{name}")))


def found_every(f: Function, where: Table, operation: Value) -> Value:
    """What a table has for an operation, by what is beside; null if nothing."""
    there = _place(f, where).load(POINTER)
    return f.choose(f.is_null(there), lambda: [f.nothing()], lambda: [f.found_in(there, operation)])[0]


def found_at(f: Function, where: Table, operation: Value, beside: Value) -> Value:
    """What a table has; null if nothing."""
    every = found_every(f, where, operation)
    return f.choose(f.is_null(every), lambda: [f.nothing()], lambda: [f.found_in(every, beside)], (1, 1000))[0]


def _place(f: Function, where: Table) -> Value:
    """Where it stands which table that is."""
    return f.define(POINTER, f"getelementptr i8, ptr {where.spec.text}, i64 {where.slot.text}")


def _table_of(f: Function) -> None:
    """A table of a spec, which is made if there is none; owned."""
    place = _place(f, Table(*f.arguments))
    f.when_giving(~f.is_null(place.load(POINTER)), lambda: f.own(place.load(POINTER)))
    made = f.made(f.call("PyDict_New", POINTER, []))
    f.unseen(made)  # from CPython 3.14 on it looks at empty dictionaries, too
    f.when(f.is_null(place.load(POINTER)), lambda: place.store(f.own(made)))  # unless Python ran
    found = f.own(place.load(POINTER))
    f.let_go(made)
    f.give(found)


def _remember(f: Function) -> None:
    """Write down in a table of a spec what is made, as `spec.remember` does."""
    spec, slot, operation, beside, made = f.arguments
    count = f.define(POINTER, "getelementptr i64, ptr @counted, i64 0")

    def have_counted() -> None:
        count.store(f.number(0))
        f.ask_python("remembered")

    f.when(count.load(I64) >= COUNTED, have_counted)
    count.store(count.load(I64) + 1)
    table = f.made(f.call("table_of", POINTER, [spec, slot]))
    f.when(f.call("PyDict_Size", I64, [table]).equals(0), lambda: f.append(f.the("tables"), table))
    known = f.found_in(table, operation)

    def begin() -> list[Value]:
        every = f.made(f.call("PyDict_New", POINTER, []))
        f.require(f.call("PyDict_SetItem", I32, [table, operation, every]).equals(0))
        f.unseen(table)
        f.let_go(every)
        return [every]

    (every,) = f.choose(f.is_null(known), begin, lambda: [known])
    f.require(f.call("PyDict_SetItem", I32, [every, beside, made]).equals(0))
    f.unseen(every)
    f.when(f.is_a(beside, "tuple"), lambda: f.unseen(beside))
    f.let_go(table)
    f.give(f.constant(I1, True))
