"""Functions of numbers that are written in words (`Trace.words`): sums of products, of which some are compared with 0 or divided."""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER, Type, array
from ...known import BOUNDED, CONSTANT, DIVIDED
from ..objects import BYTES, SIZE, Objects
from ..rule import MOST_ATOMS, MOST_NUMBERS, MOST_RESULTS
from .function import Function

_CHECKED = Type("pair", "{ i64, i1 }")  # a result, and whether it is beyond 64 bits


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    _sum(Function(module, objects, "sum_at", [("cursor", POINTER), ("atoms", POINTER)], I64))
    _divide(Function(module, objects, "divide_at", [("cursor", POINTER), ("atoms", POINTER)], I1))
    _work_out(Function(module, objects, "work_out", [(name, POINTER) for name in ("program", "numbers", "results")], I64))
    _worked_out(Function(module, objects, "numbers_worked_out", [("program", POINTER), ("numbers", POINTER)]))
    _for_python(Function(module, objects, "worked_out", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))


def next_word(cursor: Value) -> Value:
    """The word that a cursor is at, which goes on."""
    return following(cursor, 1).load(I64)


def following(cursor: Value, count: Value | int) -> Value:
    """Where the next words begin, so many, behind which the cursor is then."""
    place = cursor.load(POINTER)
    cursor.store(place.at(count, I64))
    return place


def _without_overflow(f: Function, how: str, a: Value, b: Value, failed: Value) -> Value:
    """A sum or a product; what is beyond 64 bits is noted."""
    both = f.call(f"llvm.s{how}.with.overflow.i64", _CHECKED, [a, b])
    is_beyond = f.define(I1, f"extractvalue {both!r}, 1")
    failed.store(failed.load(I64) | is_beyond.cast("zext", I64))
    return f.define(I64, f"extractvalue {both!r}, 0")


def _failed(cursor: Value) -> Value:
    """Where it stands whether some number on the way was too large."""
    return cursor.at(1, I64)


def _sum(f: Function) -> None:
    """A sum of products of atoms."""
    cursor, atoms = f.arguments
    failed = _failed(cursor)

    def product(_: Value, before: Value) -> Value:
        times, count = next_word(cursor), next_word(cursor)
        found = f.fold(count, times, multiplied)
        return _without_overflow(f, "add", before, found, failed)

    def multiplied(_: Value, before: Value) -> Value:
        return _without_overflow(f, "mul", before, atoms.at(next_word(cursor), I64).load(I64), failed)

    f.give(f.fold(next_word(cursor), f.number(0), product))


def _divide(f: Function) -> None:
    """Two sums, divided as Python does: quotient and remainder are the next atoms."""
    cursor, atoms = f.arguments
    over, by = (f.call("sum_at", I64, [cursor, atoms]) for _ in range(2))
    f.refuse(by.equals(0) | over.equals(-(1 << 63)))
    quotient = f.binary("sdiv", over, by)
    rest = over - quotient * by
    is_below = rest.differs(0) & ((rest ^ by) < 0)  # C rounds to 0
    place = _next_atom(cursor)
    at = place.load(I64)
    f.require(at < MOST_ATOMS - 1)
    atoms.at(at, I64).store(f.selected(is_below, quotient - 1, quotient))
    atoms.at(at + 1, I64).store(f.selected(is_below, rest + by, rest))
    place.store(at + 2)
    f.give(f.constant(I1, True))


def _next_atom(cursor: Value) -> Value:
    """Where it stands how many atoms there are."""
    return cursor.at(2, I64)


def _work_out(f: Function) -> None:
    """Work out the results of a program for some numbers: how many there are; 0 if it does not suit these."""
    program, given, results = f.arguments
    cursor, atoms = f.local(array(I64, 3)), f.local(array(I64, MOST_ATOMS))
    cursor.store(f.at(program, BYTES))
    count = next_word(cursor)
    _failed(cursor).store(f.number(0))
    _next_atom(cursor).store(count)
    f.require(count <= MOST_ATOMS)
    f.each(count, lambda k: atoms.at(k, I64).store(given.at(k, I64).load(I64)))

    def line(_: Value) -> None:
        how = next_word(cursor)

        def divide() -> Sequence[Value]:
            f.require(f.call("divide_at", I1, [cursor, atoms]))
            return []

        def check() -> Sequence[Value]:
            number = f.call("sum_at", I64, [cursor, atoms])
            answers = number.equals(0), number.differs(0), number < 0, number >= 0
            for k, answer in enumerate(answers):
                f.refuse(how.equals(k) & ~answer)
            return []

        def bound() -> Sequence[Value]:
            number, least, most = atoms.at(next_word(cursor), I64).load(I64), next_word(cursor), next_word(cursor)
            f.refuse((number < least) | (number > most))
            return []

        f.choose(how.equals(BOUNDED), bound, lambda: f.choose(how.equals(DIVIDED), divide, check))

    f.each(next_word(cursor), line)
    count = next_word(cursor)
    f.require(count <= MOST_RESULTS)

    def result(k: Value) -> None:
        what, number = (cursor.load(POINTER).at(j, I64).load(I64) for j in range(2))

        def known() -> Sequence[Value]:
            following(cursor, 2)
            return f.choose(what.equals(CONSTANT), lambda: [number], lambda: [atoms.at(number, I64).load(I64)])

        results.at(k, I64).store(f.choose(what < 0, known, lambda: [f.call("sum_at", I64, [cursor, atoms])])[0])

    f.each(count, result)
    f.require(_failed(cursor).load(I64).equals(0))
    f.give(count)


def _worked_out(f: Function) -> None:
    """The same for a tuple of numbers, as a tuple."""
    program, numbers = f.arguments
    results = f.local(array(I64, MOST_RESULTS))
    count = f.call("work_out", I64, [program, numbers_of(f, program, numbers), results])
    f.require(count > 0)
    f.give(f.call("integers", POINTER, [results, count]))


def numbers_of(f: Function, program: Value, numbers: Value) -> Value:
    """The numbers of a tuple, one after another; it declines if they are not as many as the program takes."""
    given, count = f.local(array(I64, MOST_NUMBERS)), f.word(numbers, SIZE)
    f.require(f.both(count <= MOST_NUMBERS, lambda: count.equals(f.word(program, BYTES))))
    f.each(count, lambda k: given.at(k, I64).store(f.integer(f.item(numbers, k))))
    return given


def _for_python(f: Function) -> None:
    """For Python: the results of a program for a tuple of numbers; None if it does not suit them."""
    given = f.arguments[1]
    f.give_or_none(f.call("numbers_worked_out", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(2)]))
