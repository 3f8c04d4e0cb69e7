"""Emit look-ups in tables of constants, with an index for each lane. A table is a sequence of Python floats, known when a kernel is
compiled; the indices are values at run time.

Where vectors have 64 or 32 bytes, as with AVX-512 or AVX2, a table stays in registers: an instruction takes all lanes from one or two
registers. Elsewhere the table is in memory, and the lanes are loaded in turn.
"""

from collections.abc import Callable, Sequence
from zlib import crc32

from ..builder import Value, fma, select, select_larger
from ..float_formats import FLOAT32_FORMAT
from ..types import DOUBLE, FLOAT, POINTER, array, vector

QUARTER_BITS = 21  # the lowest bits of a float32, above which the bits begin four steps to a doubling
HALF_BITS = QUARTER_BITS + 1


def make_quarter_octave_lookup(magnitude: Value, first_bits: int) -> Callable[[Sequence[float]], Value]:
    """Emit the number of the interval with each of the float32 numbers in `magnitude`. Return a function from a table to the entries there.

    The function emits the look-up. A table has four intervals to a doubling: entry k belongs to interval k, and the first interval begins
    with the bits `first_bits`. Smaller magnitudes get entry 0, and magnitudes beyond the table wrong entries. A table must have 8, 16 or 32
    entries. Intervals are numbered by their bits, and a table is rotated until these numbers are indices into it.
    """
    interval = select_larger(magnitude.as_bits(), first_bits) >> QUARTER_BITS

    def entry(table: Sequence[float]) -> Value:
        begin = -(first_bits >> QUARTER_BITS) % len(table)
        return look_up((*table[begin:], *table[:begin]), interval)

    return entry


def make_half_octave_lookup(magnitude: Value, first_magnitude: float) -> Callable[[Sequence[float]], Value]:
    """Emit the number of the interval with each of the float32 numbers in `magnitude`. Return a function from a table to the entries there.

    The function emits the look-up. A table has two intervals to a doubling: entry k belongs to interval k, and the first interval begins
    with `first_magnitude`. No magnitude may be smaller; magnitudes beyond the table get wrong entries. A table must have 8, 16 or 32
    entries.
    """
    interval = (magnitude.as_bits() - FLOAT32_FORMAT.to_bits(first_magnitude)) >> HALF_BITS
    return lambda table: look_up(table, interval)


def make_nearest_lookup(magnitude: Value, per_unit: float) -> Callable[[Sequence[float]], Value]:
    """Emit the multiple of 1 / `per_unit` nearest to each number in `magnitude`. Return a function from a table to the entries there.

    The function emits the look-up. Entry k of a table belongs to k / `per_unit`. A table must have 8, 16 or 32 entries. Magnitudes beyond
    the table get wrong entries, since an index is taken modulo the length.
    """
    multiple = fma(magnitude, per_unit, magnitude.format.rounder).as_bits()  # the lowest bits are the nearest integer
    return lambda table: look_up(table, multiple)


def look_up(table: Sequence[float], indices: Value) -> Value:
    """Emit the look-up of `table` at the integers `indices`, modulo the length of the table, which is 8, 16 or 32.

    Return floats as wide as the indices, in as many lanes.
    """
    bits, vector_bits = indices.format.bits, indices.type.bits
    target = indices.builder.module.target
    if (vector_bits == 512 and target.has_feature("avx512f")) or (vector_bits == 256 and bits == 32 and target.has_feature("avx2")):
        return permute(table, indices)
    return gather(table, indices & len(table) - 1)


def permute(table: Sequence[float], indices: Value) -> Value:
    """Emit the look-up of `table`, kept in registers, at `indices`, modulo the length: the instructions ignore the higher bits of an index.

    The vector `indices` must have 64 bytes on a target with AVX-512, or 32 bytes of 32-bit indices on one with AVX2.
    """
    b, lanes = indices.builder, indices.lanes
    wide, letter = indices.type.bits == 512, "s" if indices.format.bits == 32 else "d"
    if len(table) > (2 * lanes if wide else lanes):
        half = len(table) // 2
        low, high = (permute(half_table, indices) for half_table in (table[:half], table[half:]))
        return select((indices & half).differs(0), high, low)
    table = [*table] * max(1, lanes // len(table))
    kind = vector(FLOAT if letter == "s" else DOUBLE, lanes)
    first_register, *second_register = (b.constants(kind, table[k : k + lanes]) for k in range(0, len(table), lanes))
    if second_register:
        name = f"llvm.x86.avx512.vpermi2var.p{letter}.512"
    else:
        name = f"llvm.x86.avx512.permvar.{letter}f.512" if wide else "llvm.x86.avx2.permps"
    return b.call(name, kind, [first_register, indices, *second_register])


def gather(table: Sequence[float], indices: Value) -> Value:
    """Emit the look-up of `table`, kept in memory, at `indices`, each from 0 to len(table) - 1: the lanes are loaded in turn."""
    element = FLOAT if indices.format.bits == 32 else DOUBLE
    start = store_table(indices, table)
    if not indices.lanes:
        return start.at(indices, element).load(element)
    entries = indices.builder.undefined(vector(element, indices.lanes))
    for k in range(indices.lanes):
        entries = entries.with_lane(k, start.at(indices.lane(k), element).load(element))
    return entries


def store_table(indices: Value, table: Sequence[float]) -> Value:
    """Define `table` as a constant of the kernel's module, as floats as wide as `indices`, and return the pointer to entry 0.

    Nothing but the type and the builder of `indices` is used. Equal tables are defined once.
    """
    element = FLOAT if indices.format.bits == 32 else DOUBLE
    kind, module = array(element, len(table)), indices.builder.module
    content = kind.literals(table)
    name = f"tenxor.table.{crc32(content.encode()):x}"
    module.define_constant(name, kind, content)
    return Value(indices.builder, POINTER, f"@{name}")
