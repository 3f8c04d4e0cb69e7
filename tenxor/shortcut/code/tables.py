"""What specs remember that is made of tensors like them: tables by operation, or method, and in these by what is beside it.

What machine code writes down first stands in the spec itself, with what it is found by (`spec.NEAR`): two tables more for each of many
sizes are more memory than all else.
"""

from __future__ import annotations

from typing import NamedTuple

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER
from ...spec import COUNTED, NEAR
from ..objects import SIZE, Objects
from .function import Function

EQUAL = 2  # Py_EQ
SLOTS = {"made": "_made", "called": "_called"}  # of tables for which something may stand in the spec itself


class Table(NamedTuple):
    """A table of a spec, which there may be none of yet: how many bytes from the spec on it says so."""

    spec: Value
    slot: Value


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    _table_of(Function(module, objects, "table_of", [("spec", POINTER), ("slot", I64)]))
    module.variable("counted", "internal global i64 0")
    place = [("spec", POINTER), ("slot", I64), ("operation", POINTER), ("beside", POINTER)]
    _at(Function(module, objects, "remembered_at", place))
    _is_same(Function(module, objects, "is_same_key", [("key", POINTER), ("other", POINTER)], I1))
    parts = [("spec", POINTER), ("slot", I64), *[(name, POINTER) for name in ("operation", "beside", "made")]]
    _remember(Function(module, objects, "remember", parts, I1))
    _write_near(Function(module, objects, "write_near", [parts[0], *parts[2:]], I1))


def table(f: Function, spec: Value, name: str) -> Table:
    """A table of a spec, by its name."""
    return Table(spec, f.number(f.objects.offset_of(f"Spec.{SLOTS.get(name, name)}")))


def found_every(f: Function, where: Table, operation: Value) -> Value:
    """What a table has for an operation, by what is beside; null if nothing."""
    there = _place(f, where).load(POINTER)
    return f.choose(f.is_null(there), lambda: [f.nothing()], lambda: [f.found_in(there, operation)])[0]


def found_at(f: Function, where: Table, operation: Value, beside: Value) -> Value:
    """What a table has; null if nothing."""
    return f.call("remembered_at", POINTER, [*where, operation, beside])


def _at(f: Function) -> None:
    """The same."""
    spec, slot, operation, beside = f.arguments
    may_be_near = _may_be_near(f, slot)
    for slot_of_one in NEAR:
        made = f.get(spec, f"Spec.{slot_of_one}")

        def is_here(made: Value = made) -> Value:
            is_such = f.get(made, "Made.operation").equals(operation)
            return f.both(is_such, lambda: _is_same_key(f, f.get(made, "Made.beside"), beside))

        is_there = f.both(may_be_near, lambda slot=slot_of_one: ~_is_free(f, spec, slot))  # type: ignore[misc]
        f.when_giving(f.both(is_there, is_here), lambda made=made: made)  # type: ignore[misc]
    every = found_every(f, Table(spec, slot), operation)
    f.give(f.choose(f.is_null(every), lambda: [f.nothing()], lambda: [f.found_in(every, beside)])[0])


def _may_be_near(f: Function, slot: Value) -> Value:
    """Whether what is in a table may stand in the spec: of operations on numbers by what comes after them there is a table alone."""
    return slot.differs(f.objects.offset_of("Spec.made_after"))


def _is_same_key(f: Function, key: Value, other: Value) -> Value:
    return f.either(key.equals(other), lambda: f.call("is_same_key", I1, [key, other]))


def _is_same(f: Function) -> None:
    """Whether two keys, which are two objects, are equal: integers, or tuples of what keys are made of. No Python runs."""
    key, other = f.arguments
    kind = f.type_of(key)
    f.require(f.type_of(other).equals(kind))
    f.when(f.is_the(kind, "tuple"), lambda: f.require(f.word(key, SIZE).equals(f.word(other, SIZE))))
    f.require(f.either(f.is_the(kind, "tuple"), lambda: f.is_the(kind, "int")))
    f.give(f.call("PyObject_RichCompareBool", I32, [key, other, f.constant(I32, EQUAL)]) > 0)


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
    is_new = lambda: f.is_the(f.get(made, "Made.operation"), "None")  # noqa: E731
    may_be_near = f.both(_may_be_near(f, slot), lambda: f.both(_has_room(f, spec), is_new))
    is_near = f.both(may_be_near, lambda: f.call("write_near", I1, [spec, operation, beside, made]))
    f.when_giving(is_near, lambda: f.constant(I1, True))
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


def _has_room(f: Function, spec: Value) -> Value:
    """Whether there is room in the spec itself."""
    return _is_free(f, spec, NEAR[0]) | _is_free(f, spec, NEAR[1])


def _is_free(f: Function, spec: Value, slot: str) -> Value:
    """Whether nothing stands there, as nothing ever did, or as Python has forgotten it."""
    there = f.get(spec, f"Spec.{slot}")
    return f.is_null(there) | f.is_the(there, "None")


def _write_near(f: Function) -> None:
    """Write what is made down in the spec itself, where there is room; it is forgotten with all tables."""
    spec, operation, beside, made = f.arguments
    is_first = _is_free(f, spec, NEAR[0])
    f.when(is_first, lambda: f.append(f.the("tables"), spec))
    f.when(f.is_a(beside, "tuple"), lambda: f.unseen(beside))
    for slot, x in (("operation", operation), ("beside", beside)):
        f.drop(f.the("None"))
        f.set(made, f"Made.{slot}", f.own(x))

    def into(slot: str) -> list[Value]:
        before = f.get(spec, f"Spec.{slot}")
        f.set(spec, f"Spec.{slot}", f.own(made))
        f.when(~f.is_null(before), lambda: f.drop(before))
        return []

    f.choose(is_first, lambda: into(NEAR[0]), lambda: into(NEAR[1]))
    f.give(f.constant(I1, True))
