"""Emitters for launches of kernels by launch records (`frames.py`)."""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import DOUBLE, I1, I64, POINTER, VOID, array
from ..frames import EACH, FLOAT, HEAD, IMAGINARY, LITERAL, MEMORY, MOST, RESULT, SIGNED, SIZED
from ..objects import BYTES, VALUE, Objects
from .function import Function
from .specs import read_through


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    _size_by(Function(module, objects, "size_by", [("recipe", POINTER), ("which", I64)], I64))
    parts = [(name, POINTER) for name in ("frame", "recipe", "sources", "offsets", "out")]
    _launch(Function(module, objects, "launch", parts, I1))


def _launch(f: Function) -> None:
    """Emit `launch(frame, recipe, sources, offsets, out)`: run a kernel by the launch record `frame`; return true, or false on a failure.

    The kernel reads `sources`, a tuple of nodes in memory and scalars, from `offsets` on. Element counts are taken from `recipe`, which is
    null for a write. The result goes into the buffer `out`.
    """
    frame, recipe, sources, offsets, out = f.arguments
    program = f.at(frame, BYTES)
    args = f.local(array(I64, MOST))

    def one(k: Value) -> None:
        row = f.at(program, 8 * HEAD).at(k * EACH, I64)
        args.at(k, I64).store(_argument(f, row, recipe, sources, offsets, out))

    f.each(f.word(program, 16), one)
    kernel, given = program.load(POINTER), f.word(program, 8)
    (extent,) = f.choose(given < 0, lambda: [f.call("size_by", I64, [recipe, -1 - given])], lambda: [given])
    launch_it(f, f"call void {kernel.text}(ptr {args.text}, i64 0, i64 {extent.text}, i64 0)", f.word(program, 24).differs(0))
    f.give(f.constant(I1, True))


def _size_by(f: Function) -> None:
    """Emit `size_by(recipe, which)`: return the element count of a recipe of the fast path (`which` = 0), or of the view by which it reads
    source k (`which` = k + 1).
    """
    recipe, which = f.arguments
    its = lambda: [f.get(read_through(f, recipe, which - 1), "Spec.size")]  # noqa: E731
    f.give(f.integer(f.choose(which.equals(0), lambda: [f.get(recipe, "Recipe.size")], its)[0]))


def _argument(f: Function, row: Value, recipe: Value, sources: Value, offsets: Value, out: Value) -> Value:
    """Emit the evaluation of one kernel argument, a 64-bit word: an address, a scalar, a size or a literal.

    `row` is the address of the argument in the launch record. `sources`, `offsets`, `recipe` (for sizes) and `out` are those of `launch`.
    """
    kind, more = row.load(I64), f.word(row, 32)

    def source() -> Value:
        return f.item(sources, f.word(row, 8))

    def place(buffer: Value) -> list[Value]:
        at = f.word(row, 16)
        offset = f.choose(at >= 0, lambda: [f.integer(f.item(offsets, at))], lambda: [f.number(0)])[0]
        return [f.address(f.get(buffer, "Buffer.address")) + offset * f.word(row, 24) + more]

    def memory() -> list[Value]:
        buffer = f.get(source(), "Node.buffer")
        f.refuse(f.is_the(buffer, "None"))
        return place(buffer)

    def number() -> list[Value]:
        sized = lambda: [f.call("size_by", I64, [recipe, f.word(row, 8)])]  # noqa: E731
        return f.choose(kind.equals(SIZED), sized, lambda: [number_as(f, kind, f.get(source(), "Scalar.value"))])

    def other() -> list[Value]:
        return f.choose(kind.equals(RESULT), lambda: place(out), number)

    return f.choose(kind.equals(LITERAL), lambda: [more], lambda: f.choose(kind.equals(MEMORY), memory, other))[0]


def number_as(f: Function, kind: Value, value: Value) -> Value:
    """Emit the conversion of a Python number to the 64-bit word of a kernel argument of `kind` `FLOAT`, `IMAGINARY`, `SIGNED` or
    `UNSIGNED`.
    """

    def as_float() -> list[Value]:
        is_plain = f.both(f.is_a(value, "int"), lambda: f.is_small(value))
        plain = lambda: [f.integer(value).cast("sitofp", DOUBLE)]  # noqa: E731
        of_any = lambda: [f.call("PyComplex_RealAsDouble", DOUBLE, [value])]  # noqa: E731
        others = lambda: f.choose(is_plain, plain, of_any)  # noqa: E731
        (found,) = f.choose(f.is_a(value, "float"), lambda: [f.at(value, VALUE).load(DOUBLE)], others)
        return [found.bitcast(I64)]

    def as_imaginary() -> list[Value]:
        return [f.call("PyComplex_ImagAsDouble", DOUBLE, [value]).bitcast(I64)]

    def part() -> list[Value]:
        return f.choose(kind.equals(FLOAT), as_float, as_imaginary)

    def as_int() -> list[Value]:
        unsigned = lambda: [f.call("PyLong_AsUnsignedLongLong", I64, [value])]  # noqa: E731
        return f.choose(kind.equals(SIGNED), lambda: [f.integer(value)], unsigned)

    return f.choose(kind.equals(FLOAT) | kind.equals(IMAGINARY), part, as_int)[0]


def without_the_lock(f: Function, do: Callable[[], object]) -> list[Value]:
    """Emit the code of `do` with the GIL released around it, and return an empty list, for `choose`. The code must not touch Python
    objects.
    """
    state = f.call("PyEval_SaveThread", POINTER, [])
    do()
    f.call("PyEval_RestoreThread", VOID, [state])
    return []


def launch_it(f: Function, launch: str, releases: Value) -> None:
    """Emit the call of a kernel. `launch` is the text of the LLVM instruction. The GIL is released during the call if `releases` holds."""

    def with_it() -> list[Value]:
        f.do(launch)
        return []

    f.choose(releases, lambda: without_the_lock(f, with_it), with_it)
