"""Result caches of specs: nested tables by operation or method name, then by the second operand or the arguments.

The first two results that the fast path caches stand in the spec itself, as an inline cache (`spec.NEAR`). With many sizes, two
dictionaries for each spec would take more memory than everything else.
"""

from __future__ import annotations

from typing import NamedTuple

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER
from ...spec import COUNTED, NEAR
from ..objects import SIZE, Objects
from .function import Function

EQUAL = 2  # Py_EQ
SLOTS = {"made": "_made", "called": "_called"}  # the tables whose entries may stand in the inline cache


class Table(NamedTuple):
    """A cache table of a spec: the spec, and the byte offset of its slot. The slot is null until the table is first filled."""

    spec: Value
    slot: Value


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    _table_of(Function(module, objects, "table_of", [("spec", POINTER), ("slot", I64)]))
    module.variable("counted", "internal global i64 0")
    place = [("spec", POINTER), ("slot", I64), ("operation", POINTER), ("beside", POINTER)]
    _at(Function(module, objects, "remembered_at", place))
    _is_same(Function(module, objects, "is_same_key", [("key", POINTER), ("other", POINTER)], I1))
    parts = [("spec", POINTER), ("slot", I64), *[(name, POINTER) for name in ("operation", "beside", "made")]]
    _remember(Function(module, objects, "remember", parts, I1))
    _write_near(Function(module, objects, "write_near", [parts[0], *parts[2:]], I1))


def table(f: Function, spec: Value, name: str) -> Table:
    """Return the cache table of a spec that is called `name`: "made", "made_after" or "called"."""
    return Table(spec, f.number(f.objects.offset_of(f"Spec.{SLOTS.get(name, name)}")))


def found_every(f: Function, where: Table, operation: Value) -> Value:
    """Emit a lookup of the entries for an operation or method: a dictionary by the key of the further operands. Borrowed; null on a miss.
    """
    there = _place(f, where).load(POINTER)
    return f.choose(f.is_null(there), lambda: [f.nothing()], lambda: [f.found_in(there, operation)])[0]


def found_at(f: Function, where: Table, operation: Value, beside: Value) -> Value:
    """Emit a lookup of the result template for an operation or method. Borrowed; null on a miss.

    `beside` is the key of the second operand, or a tuple with the keys of all further operands.
    """
    return f.call("remembered_at", POINTER, [*where, operation, beside])


def _at(f: Function) -> None:
    """Emit `remembered_at(spec, slot, operation, beside)`: return a cached result template, borrowed, or null on a miss.

    `slot` is the byte offset of the table in `spec`, and `beside` the key of the further operands.
    """
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
    """Emit a test whether the table at byte offset `slot` of a spec uses the inline cache. The table `made_after`, of operations with a
    scalar first, does not.
    """
    return slot.differs(f.objects.offset_of("Spec.made_after"))


def _is_same_key(f: Function, key: Value, other: Value) -> Value:
    """Emit a test whether two keys are one object, or equal integers or tuples."""
    return f.either(key.equals(other), lambda: f.call("is_same_key", I1, [key, other]))


def _is_same(f: Function) -> None:
    """Emit `is_same_key(key, other)`: return whether two distinct objects are equal keys: integers, or tuples. No Python code runs."""
    key, other = f.arguments
    kind = f.type_of(key)
    f.require(f.type_of(other).equals(kind))
    f.when(f.is_the(kind, "tuple"), lambda: f.require(f.word(key, SIZE).equals(f.word(other, SIZE))))
    f.require(f.either(f.is_the(kind, "tuple"), lambda: f.is_the(kind, "int")))
    f.give(f.call("PyObject_RichCompareBool", I32, [key, other, f.constant(I32, EQUAL)]) > 0)


def _place(f: Function, where: Table) -> Value:
    """Return the address of the slot, in the spec, that refers to a table."""
    return f.define(POINTER, f"getelementptr i8, ptr {where.spec.text}, i64 {where.slot.text}")


def _table_of(f: Function) -> None:
    """Emit `table_of(spec, slot)`: return a table of a spec, created if necessary, as a new reference."""
    place = _place(f, Table(*f.arguments))
    f.when_giving(~f.is_null(place.load(POINTER)), lambda: f.own(place.load(POINTER)))
    made = f.made(f.call("PyDict_New", POINTER, []))
    f.unseen(made)  # from CPython 3.14 on, the collector also tracks empty dictionaries
    f.when(f.is_null(place.load(POINTER)), lambda: place.store(f.own(made)))  # Python code may have run and created the table
    found = f.own(place.load(POINTER))
    f.let_go(made)
    f.give(found)


def _remember(f: Function) -> None:
    """Emit `remember(spec, slot, operation, beside, made)`: cache a result template, as `spec.remember` does. Return true, or false to
    leave the work to the fallback.
    """
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
    """Emit a test whether the inline cache of a spec has a free entry."""
    return _is_free(f, spec, NEAR[0]) | _is_free(f, spec, NEAR[1])


def _is_free(f: Function, spec: Value, slot: str) -> Value:
    """Emit a test whether an inline cache entry is free: never written (null), or cleared by Python code (None)."""
    there = f.get(spec, f"Spec.{slot}")
    return f.is_null(there) | f.is_the(there, "None")


def _write_near(f: Function) -> None:
    """Emit `write_near(spec, operation, beside, made)`: write a result template into a free inline cache entry. Return true, or false to
    leave the work to the fallback.

    Clearing the result caches also clears this entry.
    """
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
