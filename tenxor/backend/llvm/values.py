"""How elements look in LLVM: their types in memory and in registers, constants, and conversions between dtypes.

In registers a bool is one bit, and float16 and bfloat16 are floats that hold a value of the narrow type: whatever makes
one rounds it (`rounded`). A value is a scalar or a vector; every function here takes both.
"""

from __future__ import annotations

from ...dtypes import ALL, DType, Number, bfloat16, boolean, float16, float32, float64
from . import formats, halves
from .builder import Builder, Value, intrinsic, select
from .types import DOUBLE, FLOAT, HALF, I1, I8, I16, I32, I64, VOID, Type, array, vector

INTS = {8: I8, 16: I16, 32: I32, 64: I64}
_FLOATS_IN_MEMORY = {float16: HALF, bfloat16: I16, float32: FLOAT, float64: DOUBLE}
# By the very objects that all that emits compares with: one that is called alike and is another, it would take for what it is not.
_IN_MEMORY: dict[DType, Type] = {d: _FLOATS_IN_MEMORY[d] if d.is_float else INTS[d.bits] for d in ALL if not d.is_complex}
_IN_REGISTERS = {d: I1 if d is boolean else _FLOATS_IN_MEMORY[d.compute] if d.is_float else kind for d, kind in _IN_MEMORY.items()}


def memory_type(dtype: DType) -> Type:
    """The type of one element in memory; LookupError for a dtype that is not of `dtypes.ALL`."""
    return array(_IN_MEMORY[dtype.part], 2) if dtype.is_complex else _IN_MEMORY[dtype]


def register_type(dtype: DType) -> Type:
    """The type of one element in a register; LookupError for a dtype that is not of `dtypes.ALL`."""
    return _IN_REGISTERS[dtype]


def number_of(b: Builder, dtype: DType, number: Number, lanes: int = 0) -> Value:
    """A constant of a real dtype in a register, or in each of so many lanes."""
    assert not isinstance(number, complex)
    return b.constant(vector(register_type(dtype), lanes), number)


# --- between memory and registers -------------------------------------------------------------------------------------


def from_memory(dtype: DType, raw: Value) -> Value:
    """What was loaded, as a register holds it."""
    if dtype is boolean:
        return raw.differs(0)
    if dtype is float16:
        return _widened(raw)
    if dtype is bfloat16:
        return (raw.cast("zext", I32) << 16).as_float()
    return raw


def to_memory(dtype: DType, value: Value) -> Value:
    """A register's value as it is stored."""
    if dtype is boolean:
        return value.cast("zext", I8)
    if dtype is float16:
        return _narrowed(value)
    if dtype is bfloat16:
        return value.as_bits().shifted_right(16).cast("trunc", I16)
    return value


def _widened(half: Value) -> Value:
    """What float16 is in a register, by the processor's instructions if it has any for that."""
    if halves.lacks_conversions(half.b.module.target):
        return halves.widened(half.cast("bitcast", I16))
    return half.cast("fpext", FLOAT)


def _narrowed(value: Value) -> Value:
    """Floats rounded to float16."""
    if halves.lacks_conversions(value.b.module.target):
        return halves.narrowed(value).cast("bitcast", HALF)
    return value.cast("fptrunc", HALF)


def load(place: Value, dtype: DType, lanes: int = 0) -> Value:
    """An element, or so many neighbouring ones."""
    return from_memory(dtype, place.load(vector(memory_type(dtype), lanes)))


def load_masked(place: Value, kind: Type, mask: Value, others: Value | None = None) -> Value:
    """Neighbouring elements, only those lanes that a mask has; the others are as given, or 0."""
    rest = place.b.zeros(kind) if others is None else others
    return intrinsic("masked.load", place, mask, rest, result=kind, suffix=f"{kind.mangled}.p0")


def store_masked(x: Value, place: Value, mask: Value) -> None:
    """Write only those lanes that a mask has."""
    intrinsic("masked.store", x, place, mask, result=VOID, suffix=f"{x.type.mangled}.p0")


def bits_of(dtype: DType, value: Value) -> Value:
    """A float's bits in its own dtype, as an integer as wide."""
    raw = to_memory(dtype, value)
    return raw if dtype is bfloat16 else raw.as_bits()


def from_bits(dtype: DType, bits: Value) -> Value:
    """The float whose bits these are."""
    return from_memory(dtype, bits if dtype is bfloat16 else bits.cast("bitcast", memory_type(dtype)))


# --- between dtypes ---------------------------------------------------------------------------------------------------


def rounded(dtype: DType, value: Value) -> Value:
    """A float rounded to a narrow dtype, still in a float register."""
    if dtype is float16:
        return _widened(_narrowed(value))
    if dtype is bfloat16:  # to nearest, ties to even, on the bits; NaN stays a NaN
        bits = value.as_bits()
        odd = bits.shifted_right(16) & 1
        up = bits + 0x7FFF + odd
        kept = select(value.is_nan(), bits | 0x400000, up)
        return (kept & -0x10000).as_float()
    return value


def converted(value: Value, source: DType, target: DType, *, by_halves: bool = False) -> Value:
    """A value cast from one dtype to another: floats to integers truncate and saturate, NaN gives 0. Vectors of 64-bit integers become
    doubles `by_halves` where the processor takes them apart.
    """
    if source is target:
        return value
    if target is boolean:
        return value.differs(0)
    if target.kind == "float":
        if by_halves and target is float64 and source.bits == 64 and source.kind != "float" and value.lanes:
            return _by_halves(value, signed=source.kind == "int")
        return (_float_to_float if source.kind == "float" else _int_to_float)(value, source, target)
    register = register_type(target)
    if source.kind == "float":
        return _float_to_int(value, target)
    if source is boolean or target.bits > source.bits:
        return value.cast("sext" if source.kind == "int" else "zext", register)
    return value if target.bits == source.bits else value.cast("trunc", register)


def _float_to_int(value: Value, target: DType) -> Value:
    """A float truncated to an integer. LLVM's own conversion that saturates takes vectors apart on x86."""
    low, beyond = int(target.lowest), int(target.highest) + 1  # both are floats, exactly
    is_inside = value.compare("oge", float(low)) & value.compare("olt", float(beyond))
    found = select(is_inside, value, 0.0).cast("fptosi" if target.kind == "int" else "fptoui", register_type(target))
    found = select(value.compare("olt", float(low)), low, found)
    return select(value.compare("oge", float(beyond)), beyond - 1, found)


def _float_to_float(value: Value, source: DType, target: DType) -> Value:
    if target.bits == 64:
        return value.to_double()
    if source.bits == 64:  # to odd first if narrow, so that rounding twice is rounding once
        value = _to_single_odd(value) if target.bits == 16 else value.to_single()
    return rounded(target, value)


def _to_single_odd(value: Value) -> Value:
    """A double as a float whose last bit is set where it is not exact, so that no later rounding is misled."""
    near = value.to_single()
    back = near.to_double()
    bits = near.as_bits()
    size, exact = back.abs(), value.abs()
    below = select(size > exact, bits - 1, bits)  # towards zero
    odd = select(back.compare("one", value), below | 1, bits)
    return odd.as_float()


def _int_to_float(value: Value, source: DType, target: DType) -> Value:
    signed = source.kind == "int"
    convert = "sitofp" if signed else "uitofp"
    if target.bits == 16 and source.bits >= 32:  # through double, so that it is rounded once
        exact = _to_53_bits_odd(value, signed) if source.bits == 64 else value
        return _float_to_float(exact.cast(convert, DOUBLE), float64, target)
    return rounded(target, value.cast(convert, register_type(target)))


def _by_halves(value: Value, *, signed: bool) -> Value:
    """The doubles nearest to 64-bit integers: the upper half and the lower one are digits of doubles that begin with 2**84 and 2**52, which
    are taken away again; so only the last sum rounds.
    """
    if signed:
        value = value ^ -(1 << 63)  # 2**63 more, as without a sign
    begin = formats.DOUBLE.to_bits
    upper, lower = (value.shifted_right(32) | begin(2.0**84)).as_float(), (value & 0xFFFFFFFF | begin(2.0**52)).as_float()
    return (upper - (2.0**84 + 2.0**52 + 2.0**63 * signed)) + lower


def _to_53_bits_odd(value: Value, signed: bool) -> Value:
    """A 64-bit integer that a double holds: where more bits are set, the last one kept says so, for the next rounding."""
    kept = value & -0x800
    odd = select(kept.equals(value), value, kept | 0x800)
    above_lowest = value + (1 << 53) if signed else value
    fits = above_lowest.compare("ult", 1 << (54 if signed else 53))
    return select(fits, value, odd)
