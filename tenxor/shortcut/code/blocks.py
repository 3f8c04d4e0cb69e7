"""Emitters for small memory: blocks of up to `LARGEST` bytes, objects that return to the free list of their size when deallocated.

Blocks are counted apart from the pool. `@counts` has the bytes in use, the peak of these, the bytes kept for reuse, and the bytes allowed.
Beyond the allowed bytes no block is given here, and Python decides (`Pool.allow_small`).
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER, VOID
from ...pool import PAGE, SHADE, SHADED
from ..limits import COUNTS, LARGEST
from ..objects import REFERENCES, TYPE, Objects
from .function import Function

UNIT = 64  # bytes; sizes are multiples of a unit, and the data of a block are aligned to it
CLASSES = LARGEST // UNIT + 1
EXACT, FINE = 64, 3  # sizes up to EXACT units are exact; larger ones are rounded up to FINE bits after the first, as in the pool
KEPT = 1 << 25  # maximal bytes kept for reuse
UNITS, NUMBER, NEXT, RAW, DATA = 16, 24, 32, 40, UNIT  # offsets in a block; NUMBER is the address of the data as a Python integer
IN_USE, PEAK, POOLED, ALLOWED = 0, 8, 16, 24  # offsets in `@counts`


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    module.variable("free", f"internal global [{CLASSES} x ptr] zeroinitializer")
    module.variable("shade", "internal global i64 0")
    module.variable("counts", f"global [{COUNTS} x i64] zeroinitializer")
    _lend(Function(module, objects, "lend", [("nbytes", I64)]))
    _made(Function(module, objects, "new_block", [("units", I64)]))
    _back(Function(module, objects, "block_dies", [("block", POINTER)], VOID, exported=True))
    _release(Function(module, objects, "release_blocks", [], VOID, exported=True))
    _bytes(Function(module, objects, "block_shows", [("block", POINTER), ("view", POINTER), ("flags", I32)], I32, exported=True))


def _lend(f: Function) -> None:
    """Emit `lend(nbytes)`: return a block of at least `nbytes`, a new reference; null beyond the allowed bytes or if memory runs out."""
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
    """Emit the rounding up of a size in units. With fewer sizes, a block still in a cache is reused for slightly larger or smaller
    requests.
    """
    step = f.number(1) << (f.number(63 - FINE) - f.call("llvm.ctlz.i64", I64, [units, f.constant(I1, True)]))
    return f.choose(units <= EXACT, lambda: [units], lambda: [(units + step - 1) & -step])[0]


def _made(f: Function) -> None:
    """Emit `new_block(units)`: return a new block of `units` times `UNIT` bytes, or null if memory runs out.

    The block holds no reference to its type, which is immortal.

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
    """Emit `block_dies(block)`, the deallocator of a block: put the block into its free list. If more than `KEPT` bytes would be kept, all
    free blocks are released first, as other sizes are needed now.
    """
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
    """Emit `block_shows(block, view, flags)`, the buffer protocol of a block: fill the `Py_buffer` at `view`; return 0, or -1 for an error.

    The view keeps the block alive.
    """
    block, view, flags = f.arguments
    size = f.word(block, UNITS) * UNIT
    f.give(f.call("PyBuffer_FillInfo", I32, [view, block, f.at(block, DATA), size, f.constant(I32, 0), flags]))


def _release(f: Function) -> None:
    """Emit `release_blocks`: return the memory of all free blocks to the system."""
    f.each(f.number(CLASSES), lambda units: _release_size(f, units))
    count(f, POOLED).store(f.number(0))
    f.do("ret void")


def _release_size(f: Function, units: Value) -> None:
    """Emit the return of all free blocks of one size to the system."""
    place = f.local(POINTER, free_list(f, units).load(POINTER))
    free_list(f, units).store(f.nothing())

    def one() -> None:
        block = place.load(POINTER)
        place.store(f.at(block, NEXT).load(POINTER))
        _give_back(f, block)

    f.as_long_as(lambda: ~f.is_null(place.load(POINTER)), one)


def _give_back(f: Function, block: Value) -> None:
    """Emit the return of the memory of a block to the system."""
    f.drop(f.at(block, NUMBER).load(POINTER))
    f.call("PyMem_RawFree", VOID, [f.at(block, RAW).load(POINTER)])


def count(f: Function, which: int) -> Value:
    """Return the address of one of the counts, given its offset `which` in `@counts`, in bytes (`IN_USE` to `ALLOWED`)."""
    return f.define(POINTER, f"getelementptr i8, ptr @counts, i64 {which}")


def data_of(f: Function, block: Value) -> Value:
    """Return the address of the data of a block."""
    return f.at(block, DATA)


def free_list(f: Function, units: Value) -> Value:
    """Return the address of the head of the free list of a size, given in units."""
    return f.define(POINTER, f"getelementptr ptr, ptr @free, i64 {units.text}")
