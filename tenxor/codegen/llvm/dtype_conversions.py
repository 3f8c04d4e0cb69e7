"""Elements in LLVM IR: their types in memory and in registers, constants, and conversions between dtypes. The functions run while a kernel
is compiled; a function that emits a conversion appends instructions, and returns their result at run time.

In registers a bool is a single bit, and a float16 or bfloat16 is a float32 that fits the narrow type. The code for an operation rounds its
result (`round_to_dtype`). This is the register form of a value; the memory form has the dtype's own bits. A value is a scalar or a vector;
every function here takes both.
"""

from __future__ import annotations

from ...dtypes import ALL_DTYPES, DType, Number, bfloat16, boolean, float16, float32, float64
from . import float16_conversions, float_formats
from .builder import Builder, Value, intrinsic, select
from .types import DOUBLE, FLOAT, HALF, I1, I8, I16, I32, I64, VOID, Type, array, vector

INT_TYPES = {8: I8, 16: I16, 32: I32, 64: I64}
_FLOATS_IN_MEMORY = {float16: HALF, bfloat16: I16, float32: FLOAT, float64: DOUBLE}
# The keys are the dtype objects themselves, as emitters compare dtypes by identity: a copy of a dtype would not be recognised.
_IN_MEMORY: dict[DType, Type] = {d: _FLOATS_IN_MEMORY[d] if d.is_float else INT_TYPES[d.bits] for d in ALL_DTYPES if not d.is_complex}
_IN_REGISTERS = {d: I1 if d is boolean else _FLOATS_IN_MEMORY[d.compute_dtype] if d.is_float else kind for d, kind in _IN_MEMORY.items()}


def memory_type(dtype: DType) -> Type:
    """Return the LLVM type of an element of `dtype` in memory.

    The type is a byte for a bool, a 16-bit integer for a bfloat16, and an array of both parts for a complex dtype. Raise LookupError for a
    dtype outside of `dtypes.ALL_DTYPES`.
    """
    return array(_IN_MEMORY[dtype.part], 2) if dtype.is_complex else _IN_MEMORY[dtype]


def register_type(dtype: DType) -> Type:
    """Return the LLVM type of an element of `dtype` in a register: one bit for a bool, and a float32 for a float16 or bfloat16.

    Raise LookupError for a complex dtype, or outside of `dtypes.ALL_DTYPES`.
    """
    return _IN_REGISTERS[dtype]


def make_constant(b: Builder, dtype: DType, number: Number, lanes: int = 0) -> Value:
    """Return the constant `number` of a real dtype, with the type for registers (`register_type`).

    The constant is in every lane of a vector of `lanes` lanes, or a scalar if `lanes` is 0.
    """
    assert not isinstance(number, complex)
    return b.constant(vector(register_type(dtype), lanes), number)


# --- between memory and registers -------------------------------------------------------------------------------------


def from_memory(dtype: DType, raw: Value) -> Value:
    """Emit the conversion of `raw`, a loaded element or vector of a real `dtype`, to the register form (`register_type`)."""
    if dtype is boolean:
        return raw.differs(0)
    if dtype is float16:
        return _widen_half(raw)
    if dtype is bfloat16:
        return (raw.cast("zext", I32) << 16).as_float()
    return raw


def to_memory(dtype: DType, value: Value) -> Value:
    """Emit the conversion of `value`, an element or vector of a real `dtype` in register form, to the memory form (`memory_type`).

    A float16 or bfloat16 in register form must fit the narrow type.
    """
    if dtype is boolean:
        return value.cast("zext", I8)
    if dtype is float16:
        return _narrow_to_half(value)
    if dtype is bfloat16:
        return value.as_bits().logical_shift_right(16).cast("trunc", I16)
    return value


def _widen_half(half: Value) -> Value:
    """Emit the float32 equal to `half`, a float16 as loaded from memory.

    This takes an instruction of the processor if possible, or integer operations.
    """
    if float16_conversions.lacks_conversions(half.builder.module.target):
        return float16_conversions.widen_float16(half.cast("bitcast", I16))
    return half.cast("fpext", FLOAT)


def _narrow_to_half(value: Value) -> Value:
    """Emit the rounding of `value`, a float32, to float16, in the form for memory."""
    if float16_conversions.lacks_conversions(value.builder.module.target):
        return float16_conversions.narrow_to_float16(value).cast("bitcast", HALF)
    return value.cast("fptrunc", HALF)


def load(pointer: Value, dtype: DType, lanes: int = 0) -> Value:
    """Emit the load of an element of a real `dtype`, or of `lanes` contiguous elements if `lanes` is not 0.

    Return the register form: bits for bools, and float32 for float16 and bfloat16.
    """
    return from_memory(dtype, pointer.load(vector(memory_type(dtype), lanes)))


def load_masked(pointer: Value, kind: Type, mask: Value, passthrough: Value | None = None) -> Value:
    """Emit the load of a vector of type `kind` from `pointer`, in the lanes of the bool vector `mask` alone.

    The other lanes are those of `passthrough`, or 0 for None. Their memory is not read.
    """
    idle_lanes = pointer.builder.zeros(kind) if passthrough is None else passthrough
    return intrinsic("masked.load", pointer, mask, idle_lanes, result=kind, suffix=f"{kind.mangled}.p0")


def store_masked(x: Value, pointer: Value, mask: Value) -> None:
    """Emit the store of the vector `x` to `pointer`, in the lanes of the bool vector `mask` alone."""
    intrinsic("masked.store", x, pointer, mask, result=VOID, suffix=f"{x.type.mangled}.p0")


def to_bits(dtype: DType, value: Value) -> Value:
    """Emit the bits of `value`, a float of `dtype` in register form, as an integer as wide as `dtype`."""
    raw = to_memory(dtype, value)
    return raw if dtype is bfloat16 else raw.as_bits()


def from_bits(dtype: DType, bits: Value) -> Value:
    """Emit the float of `dtype` with the bits `bits`, an integer as wide as `dtype`, in register form: a narrow float is a float32."""
    return from_memory(dtype, bits if dtype is bfloat16 else bits.cast("bitcast", memory_type(dtype)))


# --- between dtypes ---------------------------------------------------------------------------------------------------


def round_to_dtype(dtype: DType, value: Value) -> Value:
    """Emit the rounding of `value` to `dtype`, for a float32, the result of an operation of the narrow dtype float16 or bfloat16.

    The rounded value is still a float32. For a wider dtype, return `value` unchanged.
    """
    if dtype is float16:
        return _widen_half(_narrow_to_half(value))
    if dtype is bfloat16:  # to nearest, ties to even, on the bits; NaN stays a NaN
        bits = value.as_bits()
        odd = bits.logical_shift_right(16) & 1
        up = bits + 0x7FFF + odd
        rounded_bits = select(value.is_nan(), bits | 0x400000, up)
        return (rounded_bits & -0x10000).as_float()
    return value


def convert_dtype(value: Value, source: DType, target: DType, *, split_halves: bool = False) -> Value:
    """Emit the cast of `value` from the real dtype `source` to the real dtype `target`. Argument and result are in register form.

    Integers wrap; floats to integers truncate and saturate, and NaN gives 0. Conversions to floats round once. Numbers other than 0 become
    True. With `split_halves`, vectors of 64-bit integers become doubles by arithmetic, for processors that would convert lane by lane.
    """
    if source is target:
        return value
    if target is boolean:
        return value.differs(0)
    if target.kind == "float":
        if split_halves and target is float64 and source.bits == 64 and source.kind != "float" and value.lanes:
            return _convert_by_halves(value, signed=source.kind == "int")
        return (_float_to_float if source.kind == "float" else _int_to_float)(value, source, target)
    register = register_type(target)
    if source.kind == "float":
        return _float_to_int(value, target)
    if source is boolean or target.bits > source.bits:
        return value.cast("sext" if source.kind == "int" else "zext", register)
    return value if target.bits == source.bits else value.cast("trunc", register)


def _float_to_int(value: Value, target: DType) -> Value:
    """Emit the conversion of the float `value` to the integer dtype `target`: truncated, limited to the range of `target`, and 0 for NaN.

    LLVM's own saturating conversion takes vectors apart on x86.
    """
    low, beyond = int(target.lowest), int(target.highest) + 1  # both are floats, exactly
    is_inside = value.compare("oge", float(low)) & value.compare("olt", float(beyond))
    truncated = select(is_inside, value, 0.0).cast("fptosi" if target.kind == "int" else "fptoui", register_type(target))
    truncated = select(value.compare("olt", float(low)), low, truncated)
    return select(value.compare("oge", float(beyond)), beyond - 1, truncated)


def _float_to_float(value: Value, source: DType, target: DType) -> Value:
    """Emit the conversion of a float from `source` to `target`, both float dtypes, rounded once; argument and result in register form."""
    if target.bits == 64:
        return value.to_double()
    if source.bits == 64:  # rounded to odd if the target is narrow, so that rounding twice is rounding once
        value = _to_single_odd(value) if target.bits == 16 else value.to_single()
    return round_to_dtype(target, value)


def _to_single_odd(value: Value) -> Value:
    """Emit the conversion of a float64 to float32 by truncation, with the last bit set where digits are lost (round to odd).

    A second rounding to a narrower dtype then gives the result of a single rounding.
    """
    nearest = value.to_single()
    back = nearest.to_double()
    bits = nearest.as_bits()
    size, exact = back.abs(), value.abs()
    below = select(size > exact, bits - 1, bits)  # towards zero
    odd = select(back.compare("one", value), below | 1, bits)
    return odd.as_float()


def _int_to_float(value: Value, source: DType, target: DType) -> Value:
    """Emit the conversion of an integer or bool of `source` to the float dtype `target`, rounded once."""
    signed = source.kind == "int"
    convert = "sitofp" if signed else "uitofp"
    if target.bits == 16 and source.bits >= 32:  # by way of double, which avoids a second rounding
        exact = _round_to_53_bits_odd(value, signed) if source.bits == 64 else value
        return _float_to_float(exact.cast(convert, DOUBLE), float64, target)
    return round_to_dtype(target, value.cast(convert, register_type(target)))


def _convert_by_halves(value: Value, *, signed: bool) -> Value:
    """Emit the conversion of 64-bit integers, unsigned unless `signed`, to the nearest float64, by arithmetic on vectors.

    The upper half of an integer becomes the last digits of the float64 2**84, the lower half the last digits of 2**52. Both powers are
    subtracted again, so only the last sum rounds.
    """
    if signed:
        value = value ^ -(1 << 63)  # adds 2**63, for the same code as without a sign
    begin = float_formats.FLOAT64_FORMAT.to_bits
    upper, lower = (value.logical_shift_right(32) | begin(2.0**84)).as_float(), (value & 0xFFFFFFFF | begin(2.0**52)).as_float()
    return (upper - (2.0**84 + 2.0**52 + 2.0**63 * signed)) + lower


def _round_to_53_bits_odd(value: Value, signed: bool) -> Value:
    """Emit the rounding of a 64-bit integer, unsigned unless `signed`, to an integer exact as a float64.

    The last bit kept is set if lower bits are lost (round to odd). So a later rounding gives the result of a single rounding.
    """
    cut = value & -0x800
    odd = select(cut.equals(value), value, cut | 0x800)
    above_lowest = value + (1 << 53) if signed else value
    fits = above_lowest.compare("ult", 1 << (54 if signed else 53))
    return select(fits, value, odd)
