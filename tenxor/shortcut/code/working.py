"""The evaluator of size programs: guards and results that are sums of products of integers, encoded as 64-bit words.

The grammar is written by `sizes.Trace.words` and read also in Python by `known.holds`. A cursor in emitted code is three 64-bit words: the
address of the next word, whether an intermediate value overflowed, and the number of atoms so far.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER, Type, array
from ...known import BOUNDED, CONSTANT, DIVIDED
from ..objects import BYTES, SIZE, Objects
from ..rule import MOST_ATOMS, MOST_NUMBERS, MOST_RESULTS
from .function import Function

_CHECKED = Type("pair", "{ i64, i1 }")  # a result, and whether it overflows 64 bits


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    _sum(Function(module, objects, "sum_at", [("cursor", POINTER), ("atoms", POINTER)], I64))
    _divide(Function(module, objects, "divide_at", [("cursor", POINTER), ("atoms", POINTER)], I1))
    _work_out(Function(module, objects, "work_out", [(name, POINTER) for name in ("program", "numbers", "results")], I64))
    _worked_out(Function(module, objects, "numbers_worked_out", [("program", POINTER), ("numbers", POINTER)]))
    _for_python(Function(module, objects, "worked_out", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))


def next_word(cursor: Value) -> Value:
    """Emit a load of the word at a cursor, and advance the cursor by one word."""
    return following(cursor, 1).load(I64)


def following(cursor: Value, count: Value | int) -> Value:
    """Return the address of the next words, and emit code that advances the cursor by `count` words."""
    place = cursor.load(POINTER)
    cursor.store(place.at(count, I64))
    return place


def _without_overflow(f: Function, how: str, a: Value, b: Value, failed: Value) -> Value:
    """Emit a signed addition (`how` is "add") or multiplication ("mul"). An overflow of 64 bits sets the flag at `failed`."""
    both = f.call(f"llvm.s{how}.with.overflow.i64", _CHECKED, [a, b])
    is_beyond = f.define(I1, f"extractvalue {both!r}, 1")
    failed.store(failed.load(I64) | is_beyond.cast("zext", I64))
    return f.define(I64, f"extractvalue {both!r}, 0")


def _failed(cursor: Value) -> Value:
    """Return the address of the overflow flag of a cursor."""
    return cursor.at(1, I64)


def _sum(f: Function) -> None:
    """Emit `sum_at(cursor, atoms)`: return the sum of products that is encoded at the cursor, and advance the cursor behind it.

    `atoms` is the array of values that products refer to: the inputs, then the quotients and remainders found so far.
    """
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
    """Emit `divide_at(cursor, atoms)`: divide two sums, encoded at the cursor, as Python does, and append quotient and remainder to
    `atoms`.

    The function returns false for a divisor of 0, for a dividend of -2**63, and if there is no room for two more atoms.
    """
    cursor, atoms = f.arguments
    over, by = (f.call("sum_at", I64, [cursor, atoms]) for _ in range(2))
    f.refuse(by.equals(0) | over.equals(-(1 << 63)))
    quotient = f.binary("sdiv", over, by)
    rest = over - quotient * by
    is_below = rest.differs(0) & ((rest ^ by) < 0)  # `sdiv` rounds towards 0, Python rounds down
    place = _next_atom(cursor)
    at = place.load(I64)
    f.require(at < MOST_ATOMS - 1)
    atoms.at(at, I64).store(f.selected(is_below, quotient - 1, quotient))
    atoms.at(at + 1, I64).store(f.selected(is_below, rest + by, rest))
    place.store(at + 2)
    f.give(f.constant(I1, True))


def _next_atom(cursor: Value) -> Value:
    """Return the address of the number of atoms of a cursor."""
    return cursor.at(2, I64)


def _work_out(f: Function) -> None:
    """Emit `work_out(program, numbers, results)`: evaluate a size program for `numbers`, and write its results to `results`.

    The function returns the number of results, or 0 if a guard fails or a value overflows.
    """
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
    """Emit `numbers_worked_out(program, numbers)`: evaluate a size program for a tuple of integers. Return a tuple of results, or null if a
    guard fails.
    """
    program, numbers = f.arguments
    results = f.local(array(I64, MOST_RESULTS))
    count = f.call("work_out", I64, [program, numbers_of(f, program, numbers), results])
    f.require(count > 0)
    f.give(f.call("integers", POINTER, [results, count]))


def numbers_of(f: Function, program: Value, numbers: Value) -> Value:
    """Emit code to copy a tuple of integers into a local array, and return the address.

    The emitted function returns null or 0 if the program does not take as many inputs.
    """
    given, count = f.local(array(I64, MOST_NUMBERS)), f.word(numbers, SIZE)
    f.require(f.both(count <= MOST_NUMBERS, lambda: count.equals(f.word(program, BYTES))))
    f.each(count, lambda k: given.at(k, I64).store(f.integer(f.item(numbers, k))))
    return given


def _for_python(f: Function) -> None:
    """Emit `worked_out`, the entry for Python: evaluate a size program for a tuple of integers. It returns None if a guard fails."""
    given = f.arguments[1]
    f.give_or_none(f.call("numbers_worked_out", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(2)]))
