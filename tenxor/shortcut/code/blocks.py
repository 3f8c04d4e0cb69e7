"""Small memory: blocks of up to `LARGEST` bytes, each an object of its own that goes back to its list when it dies.

They are counted beside what the pool has: `@counts` says how many bytes are in use, the most that were, those kept for reuse, and
how many there may be; beyond that nothing is given here, and Python sees to it (`Pool.allow_small`).
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER, VOID
from ...pool import PAGE, SHADE, SHADED
from ..limits import COUNTS, LARGEST
from ..objects import REFERENCES, TYPE, Objects
from .function import Function

UNIT = 64  # bytes, to which blocks are aligned, too
CLASSES = LARGEST // UNIT + 1
EXACT, FINE = 64, 3  # units up to which a size is exact; beyond, so many bits of it tell after the first, as in the pool
KEPT = 1 << 25  # bytes for reuse at the most
UNITS, NUMBER, NEXT, RAW, DATA = 16, 24, 32, 40, UNIT  # in a block; NUMBER is where the data begin, as Python's integer
IN_USE, PEAK, POOLED, ALLOWED = 0, 8, 16, 24  # in `@counts`


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    module.variable("free", f"internal global [{CLASSES} x ptr] zeroinitializer")
    module.variable("shade", "internal global i64 0")
    module.variable("counts", f"global [{COUNTS} x i64] zeroinitializer")
    _lend(Function(module, objects, "lend", [("nbytes", I64)]))
    _made(Function(module, objects, "new_block", [("units", I64)]))
    _back(Function(module, objects, "block_dies", [("block", POINTER)], VOID, exported=True))
    _release(Function(module, objects, "release_blocks", [], VOID, exported=True))
    _bytes(Function(module, objects, "block_shows", [("block", POINTER), ("view", POINTER), ("flags", I32)], I32, exported=True))


def _lend(f: Function) -> None:
    """A block of so many bytes, or nothing."""
    (nbytes,) = f.arguments
    units = (nbytes + (UNIT - 1)).shifted_right(6)
    units = _rounded(f, f.selected(units.equals(0), f.number(1), units))
    size = units * UNIT
    in_use = count(f, IN_USE).load(I64) + size
    pooled = count(f, POOLED).load(I64)
    first = free_list(f, units)
    block = first.load(POINTER)
    is_new = f.is_null(block)
    after = f.selected(is_new, pooled, pooled - size)
    f.require(in_use + after <= count(f, ALLOWED).load(I64))

    def reuse() -> list[Value]:
        first.store(f.at(block, NEXT).load(POINTER))
        count(f, POOLED).store(after)
        f.at(block, REFERENCES).store(f.number(1))
        return [block]

    (found,) = f.choose(is_new, lambda: [f.call("new_block", POINTER, [units])], reuse)
    f.refuse(f.is_null(found))
    count(f, IN_USE).store(in_use)
    f.when(in_use > count(f, PEAK).load(I64), lambda: count(f, PEAK).store(in_use))
    f.give(found)


def _rounded(f: Function, units: Value) -> Value:
    """As many, or a few more: so a block is used again for what is a little larger or smaller, while a near cache has it."""
    step = f.number(1) << (f.number(63 - FINE) - f.call("llvm.ctlz.i64", I64, [units, f.constant(I1, True)]))
    return f.choose(units <= EXACT, lambda: [units], lambda: [(units + step - 1) & -step])[0]


def _made(f: Function) -> None:
    """A new block, or nothing. It has its type for ever, so it does not count as a reference to it.

    Large blocks begin at different offsets in their pages (see `pool.SHADE`).
    """
    (units,) = f.arguments
    last = f.define(POINTER, "getelementptr i8, ptr @shade, i64 0")
    period = f.selected(units < SHADED // UNIT, f.number(UNIT), f.number(PAGE))
    raw = f.call("PyMem_RawMalloc", POINTER, [units * UNIT + period + DATA])
    f.refuse(f.is_null(raw))
    last.store((last.load(I64) + SHADE) & (PAGE - 1))
    start = raw.cast("ptrtoint", I64)
    block = (start + ((last.load(I64) - start - DATA) & (period - 1))).cast("inttoptr", POINTER)
    number = f.call("PyLong_FromLongLong", POINTER, [block.cast("ptrtoint", I64) + DATA])
    f.at(block, REFERENCES).store(f.number(1))
    f.at(block, TYPE).store(f.the("Block"))
    f.at(block, UNITS).store(units)
    f.at(block, NUMBER).store(number)
    f.at(block, RAW).store(raw)
    none = f.is_null(number)
    f.when(none, lambda: f.call("PyMem_RawFree", VOID, [raw]))
    f.give(f.selected(none, f.nothing(), block))


def _back(f: Function) -> None:
    """A block dies: it is kept for reuse. If too much is kept by then, all of that goes, as other sizes are wanted now."""
    (block,) = f.arguments
    units = f.word(block, UNITS)
    size = units * UNIT
    count(f, IN_USE).store(count(f, IN_USE).load(I64) - size)
    f.when(count(f, POOLED).load(I64) + size > KEPT, lambda: f.call("release_blocks", VOID, []))
    first = free_list(f, units)
    f.at(block, NEXT).store(first.load(POINTER))
    first.store(block)
    count(f, POOLED).store(count(f, POOLED).load(I64) + size)
    f.do("ret void")


def _bytes(f: Function) -> None:
    """The buffer protocol: the bytes of a block, which lives as long as they are seen."""
    block, view, flags = f.arguments
    size = f.word(block, UNITS) * UNIT
    f.give(f.call("PyBuffer_FillInfo", I32, [view, block, f.at(block, DATA), size, f.constant(I32, 0), flags]))


def _release(f: Function) -> None:
    """Give all that is kept for reuse back."""
    f.each(f.number(CLASSES), lambda units: _release_size(f, units))
    count(f, POOLED).store(f.number(0))
    f.do("ret void")


def _release_size(f: Function, units: Value) -> None:
    place = f.local(POINTER, free_list(f, units).load(POINTER))
    free_list(f, units).store(f.nothing())

    def one() -> None:
        block = place.load(POINTER)
        place.store(f.at(block, NEXT).load(POINTER))
        _give_back(f, block)

    f.as_long_as(lambda: ~f.is_null(place.load(POINTER)), one)


def _give_back(f: Function, block: Value) -> None:
    """A block's memory is the system's again."""
    f.drop(f.at(block, NUMBER).load(POINTER))
    f.call("PyMem_RawFree", VOID, [f.at(block, RAW).load(POINTER)])


def count(f: Function, which: int) -> Value:
    """The place of one of the counts."""
    return f.define(POINTER, f"getelementptr i8, ptr @counts, i64 {which}")


def data_of(f: Function, block: Value) -> Value:
    """Where the bytes of a block begin."""
    return f.at(block, DATA)


def free_list(f: Function, units: Value) -> Value:
    """The place of the first free block of a size."""
    return f.define(POINTER, f"getelementptr ptr, ptr @free, i64 {units.text}")
