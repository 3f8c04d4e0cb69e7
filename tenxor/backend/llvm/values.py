"""How elements look in LLVM: their types in memory and in registers, constants, and conversions between dtypes.

In registers a bool is one bit, and float16 and bfloat16 are floats that hold a value of the narrow type: whatever makes
one rounds it (`rounded`). A value is a scalar or a vector; every function here takes both.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ...dtypes import DType, Number, bfloat16, boolean, float16, float64

Value = Any  # an ir.Value; llvmlite has no types for checkers
Type = Any

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
POINTER = ir.PointerType()
INTS = {8: I8, 16: I16, 32: I32, 64: I64}


def memory_type(dtype: DType) -> Type:
    """The type of one element in memory."""
    if dtype.kind == "complex":
        return ir.ArrayType(memory_type(dtype.part), 2)
    if dtype.kind == "float":
        return {"float16": HALF, "bfloat16": I16, "float32": FLOAT, "float64": DOUBLE}[dtype.name]
    return INTS[dtype.bits]


def register_type(dtype: DType) -> Type:
    """The type of one element in a register."""
    if dtype.kind == "float":
        return DOUBLE if dtype.bits == 64 else FLOAT
    return I1 if dtype.kind == "bool" else INTS[dtype.bits]


def bytes_of(element: Any) -> int:
    """The size of an element in memory."""
    if isinstance(element, ir.ArrayType):
        return int(element.count) * bytes_of(element.element)
    return (
        int(element.width // 8)
        if isinstance(element, ir.IntType)
        else {"half": 2, "float": 4, "double": 8}[str(element)]
    )


def lanes_of(value: Value) -> int:
    """The number of lanes of a value; 0 for a scalar."""
    return value.type.count if isinstance(value.type, ir.VectorType) else 0


def shaped(element: Type, like: Value) -> Type:
    """`element`, in as many lanes as `like` has."""
    return ir.VectorType(element, like.type.count) if lanes_of(like) else element


class _Text(ir.FormattedConstant):  # type: ignore[misc]
    """A constant given by LLVM's own text."""

    def __init__(self, type_: Type, text: str) -> None:
        self.type = type_
        self.constant = text


def constant(type_: Type, number: float) -> Value:
    """`number` as a scalar, or the same in every lane."""
    if isinstance(type_, ir.VectorType):
        return _Text(type_, f"splat ({type_.element} {constant(type_.element, number).get_reference()})")
    if isinstance(type_, ir.IntType):
        return ir.Constant(type_, int(number))
    if isinstance(type_, ir.FloatType):  # single-precision constants are written as doubles; llvmlite does not round
        number = _to_single(float(number))
    bits = int.from_bytes(struct.pack("<d", float(number)), "little")
    return _Text(type_, f"0x{bits:016X}")


def _to_single(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def number_of(dtype: DType, number: Number, lanes: int = 0) -> Value:
    """A constant of a real dtype in a register, or in each of so many lanes."""
    assert not isinstance(number, complex)
    element = register_type(dtype)
    return constant(ir.VectorType(element, lanes) if lanes else element, number)


def splat(b: Any, scalar: Value, lanes: int) -> Value:
    """A scalar in every one of `lanes` lanes."""
    vector = ir.VectorType(scalar.type, lanes)
    first = b.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(I32, 0))
    return b.shuffle_vector(first, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(I32, lanes), None))


def smaller(b: Any, one: Value, other: Value) -> Value:
    """The smaller of two integers."""
    return b.select(b.icmp_signed("<", one, other), one, other)


def counting(lanes: int, type_: Type = I64) -> Value:
    """The integer vector 0, 1, 2, ..."""
    return ir.Constant(ir.VectorType(type_, lanes), [ir.Constant(type_, k) for k in range(lanes)])


def shuffled(b: Any, vector: Value, lanes: Sequence[int], other: Value | None = None) -> Value:
    """The given lanes of a vector, or of it and the `other` behind it, in that order."""
    chosen = ir.Constant(ir.VectorType(I32, len(lanes)), [ir.Constant(I32, k) for k in lanes])
    return b.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined) if other is None else other, chosen)


def load_masked(b: Any, place: Value, vector: Type, mask: Value, others: Value | None = None) -> Value:
    """Neighbouring elements, only those lanes that a mask has; the others are as given, or 0."""
    rest = ir.Constant(vector, None) if others is None else others
    return intrinsic(b, "masked.load", vector, place, mask, rest, suffix=f"{mangled(vector)}.p0")


def store_masked(b: Any, vector: Value, place: Value, mask: Value) -> Value:
    """Write only those lanes that a mask has."""
    return intrinsic(b, "masked.store", ir.VoidType(), vector, place, mask, suffix=f"{mangled(vector.type)}.p0")


def intrinsic(b: Any, name: str, result: Type, *args: Value, suffix: str | None = None) -> Value:
    """Call `llvm.<name>`, overloaded on the result type unless a `suffix` is given."""
    symbol = f"llvm.{name}.{mangled(result) if suffix is None else suffix}"
    module = b.module
    function = module.globals.get(symbol)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [a.type for a in args]), symbol)
    return b.call(function, args)


def mangled(type_: Type) -> str:
    """How intrinsics spell a type in their names."""
    if isinstance(type_, ir.VectorType):
        return f"v{type_.count}{mangled(type_.element)}"
    if isinstance(type_, ir.IntType):
        return f"i{type_.width}"
    if isinstance(type_, ir.PointerType):
        return "p0"
    return {"half": "f16", "float": "f32", "double": "f64"}[str(type_)]


# --- between memory and registers, and between dtypes
# ------------------------------------------------------------------


def from_memory(b: Any, dtype: DType, raw: Value) -> Value:
    """What was loaded, as a register holds it."""
    if dtype is boolean:
        return b.icmp_unsigned("!=", raw, constant(raw.type, 0))
    if dtype is float16:
        return b.fpext(raw, shaped(FLOAT, raw))
    if dtype is bfloat16:
        bits = b.shl(b.zext(raw, shaped(I32, raw)), constant(shaped(I32, raw), 16))
        return b.bitcast(bits, shaped(FLOAT, raw))
    return raw


def to_memory(b: Any, dtype: DType, value: Value) -> Value:
    """A register's value as it is stored."""
    if dtype is boolean:
        return b.zext(value, shaped(I8, value))
    if dtype is float16:
        return b.fptrunc(value, shaped(HALF, value))
    if dtype is bfloat16:
        bits = b.bitcast(value, shaped(I32, value))
        return b.trunc(b.lshr(bits, constant(bits.type, 16)), shaped(I16, value))
    return value


def rounded(b: Any, dtype: DType, value: Value) -> Value:
    """A float rounded to a narrow dtype, still in a float register."""
    if dtype is float16:
        return b.fpext(b.fptrunc(value, shaped(HALF, value)), value.type)
    if dtype is bfloat16:  # to nearest, ties to even, on the bits; NaN stays a NaN
        bits = b.bitcast(value, shaped(I32, value))
        odd = b.and_(b.lshr(bits, constant(bits.type, 16)), constant(bits.type, 1))
        up = b.add(b.add(bits, constant(bits.type, 0x7FFF)), odd)
        kept = b.select(b.fcmp_unordered("uno", value, value), b.or_(bits, constant(bits.type, 0x400000)), up)
        return b.bitcast(b.and_(kept, constant(bits.type, -0x10000)), value.type)
    return value


def converted(b: Any, value: Value, source: DType, target: DType) -> Value:
    """A value cast from one dtype to another: floats to integers truncate and saturate, NaN gives 0."""
    if source is target:
        return value
    register = shaped(register_type(target), value)
    if target is boolean:
        if source.kind == "float":
            return b.fcmp_unordered("!=", value, constant(value.type, 0.0))
        return b.icmp_unsigned("!=", value, constant(value.type, 0))
    if source.kind == "float":
        if target.kind == "float":
            return _float_to_float(b, value, source, target, register)
        sat = "fptosi.sat" if target.kind == "int" else "fptoui.sat"
        return intrinsic(b, sat, register, value, suffix=f"{mangled(register)}.{mangled(value.type)}")
    if target.kind == "float":
        return _int_to_float(b, value, source, target, register)
    if source is boolean or source.kind == "uint":
        return (
            b.zext(value, register) if target.bits > source.bits or source is boolean else _narrow(b, value, register)
        )
    return b.sext(value, register) if target.bits > source.bits else _narrow(b, value, register)


def _narrow(b: Any, value: Value, register: Type) -> Value:
    return value if value.type == register else b.trunc(value, register)


def _float_to_float(b: Any, value: Value, source: DType, target: DType, register: Type) -> Value:
    if source.bits == 64:
        if target.bits == 16:  # to odd first, so that rounding twice is rounding once
            value = _to_single_odd(b, value, register)
        else:
            value = b.fptrunc(value, register)
    elif target.bits == 64:
        return b.fpext(value, register)
    return rounded(b, target, value)


def _to_single_odd(b: Any, value: Value, register: Type) -> Value:
    """A double as a float whose last bit is set where it is not exact, so that no later rounding is misled."""
    near = b.fptrunc(value, register)
    back = b.fpext(near, value.type)
    bits = b.bitcast(near, shaped(I32, value))
    one = constant(bits.type, 1)
    size, exact = intrinsic(b, "fabs", value.type, back), intrinsic(b, "fabs", value.type, value)
    below = b.select(b.fcmp_ordered(">", size, exact), b.sub(bits, one), bits)  # towards zero
    odd = b.select(b.fcmp_ordered("!=", back, value), b.or_(below, one), bits)
    return b.bitcast(odd, register)


def _int_to_float(b: Any, value: Value, source: DType, target: DType, register: Type) -> Value:
    signed = source.kind == "int"
    convert = b.sitofp if signed else b.uitofp
    if target.bits == 16 and source.bits >= 32:  # through double, so that it is rounded once
        exact = _to_53_bits_odd(b, value, signed) if source.bits == 64 else value
        return _float_to_float(b, convert(exact, shaped(DOUBLE, value)), float64, target, register)
    return rounded(b, target, convert(value, register))


def _to_53_bits_odd(b: Any, value: Value, signed: bool) -> Value:
    """A 64-bit integer that a double holds: where more bits are set, the last one kept says so, for the next rounding."""
    kept = b.and_(value, constant(value.type, -0x800))
    is_exact = b.icmp_unsigned("==", kept, value)
    odd = b.select(is_exact, value, b.or_(kept, constant(value.type, 0x800)))
    above_lowest = b.add(value, constant(value.type, 1 << 53)) if signed else value
    fits = b.icmp_unsigned("<", above_lowest, constant(value.type, 1 << (54 if signed else 53)))
    return b.select(fits, value, odd)


def bits_of(b: Any, dtype: DType, value: Value) -> Value:
    """A float's bits in its own dtype, as an integer as wide."""
    raw = to_memory(b, dtype, value)
    integer = shaped(INTS[dtype.bits], value)
    return raw if raw.type == integer else b.bitcast(raw, integer)


def from_bits(b: Any, dtype: DType, bits: Value) -> Value:
    """The float whose bits these are."""
    memory = shaped(memory_type(dtype), bits)
    return from_memory(b, dtype, bits if bits.type == memory else b.bitcast(bits, memory))
