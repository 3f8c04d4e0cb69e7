"""Look-up in tables of constants, one place for each lane.

Where vectors have 64 or 32 bytes, which is where AVX-512 or AVX2 is, a table stays in registers: one instruction takes all
lanes from one of them, or two. Elsewhere it lies in memory, and the lanes are loaded one by one.
"""

from collections.abc import Sequence
from zlib import crc32

from llvmlite import ir

from .core import Lanes, where

I32 = ir.IntType(32)


def look_up(table: Sequence[float], places: Lanes) -> Lanes:
    """The entries of a table, 16 or 32 of them, at integer places; these count modulo its length."""
    bits = places.format.bits
    entries = [ir.Constant(ir.FloatType() if bits == 32 else ir.DoubleType(), entry) for entry in table]
    width = places.count or 1
    if width * bits == 512 or (width * bits == 256 and bits == 32):
        return permuted(entries, places, width)
    return gathered(global_table(places.builder.module, entries), places & len(table) - 1)


def permuted(entries: list[ir.Constant], places: Lanes, width: int) -> Lanes:
    """The entries of a table in registers, by instructions that look at no more bits of a place than count."""
    builder = places.builder
    wide, letter = places.format.bits * width == 512, "s" if places.format.bits == 32 else "d"
    if len(entries) > (2 * width if wide else width):
        half = len(entries) // 2
        low, high = (permuted(part, places, width) for part in (entries[:half], entries[half:]))
        return where((places & half).differs(0), high, low)
    vector = ir.VectorType(entries[0].type, width)
    first, *second = (ir.Constant(vector, entries[k : k + width]) for k in range(0, len(entries), width))
    arguments = [first, places.value, *second]
    if second:
        name = f"llvm.x86.avx512.vpermi2var.p{letter}.512"
    else:
        name = f"llvm.x86.avx512.permvar.{letter}f.512" if wide else "llvm.x86.avx2.permps"
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(vector, [a.type for a in arguments]), name)
    return Lanes(builder, builder.call(function, arguments))


def gathered(table: ir.GlobalVariable, places: Lanes) -> Lanes:
    """The entries of a table in memory."""
    builder, element = places.builder, table.value_type.element
    if places.count is None:
        return Lanes(builder, builder.load(builder.gep(table, [places.value], source_etype=element), typ=element))
    found = ir.Constant(ir.VectorType(element, places.count), ir.Undefined)
    for lane in range(places.count):
        at = I32(lane)
        place = builder.gep(table, [builder.extract_element(places.value, at)], source_etype=element)
        found = builder.insert_element(found, builder.load(place, typ=element), at)
    return Lanes(builder, found)


def global_table(module: ir.Module, entries: list[ir.Constant]) -> ir.GlobalVariable:
    """The table as a constant of the module, made once."""
    content = ir.Constant(ir.ArrayType(entries[0].type, len(entries)), entries)
    name = f"tenxor.table.{crc32(str(content).encode()):x}"
    found = module.globals.get(name)
    return found if found is not None else constant_of(module, name, content)


def constant_of(module: ir.Module, name: str, content: ir.Constant) -> ir.GlobalVariable:
    """A new constant of the module."""
    variable = ir.GlobalVariable(module, content.type, name)
    variable.linkage = "internal"
    variable.global_constant = True
    variable.initializer = content
    return variable
