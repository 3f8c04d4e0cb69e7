"""A notation for straight-line vector code: formulas over `Lanes` emit LLVM instructions as they are read.

Every function of this package is written once, over `Lanes`, and serves scalars and vectors of any width.
What is emitted is what runs, since no optimisation passes follow; so formulas name their fused multiply-adds.
"""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from llvmlite import ir

Number = float | int


class Format(NamedTuple):
    """An IEEE 754 binary format: its width, its significand, and the constants that formulas need."""

    bits: int
    fraction_bits: int
    bias: int
    rounder: float  # adding it rounds a small number to an integer, kept in the low bits of the sum
    smallest_normal: float

    @property
    def epsilon(self) -> float:
        """Half a unit in the last place of 1: smaller numbers hardly change it."""
        return 0.5 ** (self.fraction_bits + 1)

    @property
    def suffix(self) -> str:
        """How intrinsics name the format."""
        return f"f{self.bits}"

    def to_bits(self, value: float) -> int:
        """The bit pattern of `value`, as a non-negative integer."""
        code = "<f" if self.bits == 32 else "<d"
        return int.from_bytes(struct.pack(code, value), "little")

    def from_bits(self, pattern: int) -> float:
        """The number with this bit pattern."""
        code = "<f" if self.bits == 32 else "<d"
        return float(struct.unpack(code, pattern.to_bytes(self.bits // 8, "little"))[0])

    def rounded(self, value: float) -> float:
        """The number of this format nearest to `value`."""
        return self.from_bits(self.to_bits(value))


SINGLE = Format(32, 23, 127, 1.5 * 2.0**23, 2.0**-126)
DOUBLE = Format(64, 52, 1023, 1.5 * 2.0**52, 2.0**-1022)


class _Splat(ir.FormattedConstant):  # type: ignore[misc]
    """One constant in every lane of a vector, in LLVM's short spelling, which parses much faster."""

    def __init__(self, vector: ir.Type, text: str) -> None:
        self.type = vector
        self.constant = text


class Lanes:
    """A number in each lane: float, integer (two's complement), or truth value.

    Python numbers stand for constants in all lanes. Comparisons of floats are false for NaN, except `!=`.
    """

    __slots__ = ("builder", "value")

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder = builder
        self.value = value

    # --- types ----------------------------------------------------------------------------------------------

    @property
    def count(self) -> int | None:
        """The number of lanes, or None for a scalar."""
        return self.value.type.count if isinstance(self.value.type, ir.VectorType) else None

    @property
    def element(self) -> ir.Type:
        """The type of one lane."""
        return self.value.type if self.count is None else self.value.type.element

    @property
    def is_float(self) -> bool:
        return isinstance(self.element, ir.FloatType | ir.DoubleType)

    @property
    def format(self) -> Format:
        """The format of one lane of floats, or of floats as wide as these integers."""
        wide = isinstance(self.element, ir.DoubleType) or self.element == ir.IntType(64)
        return DOUBLE if wide else SINGLE

    def _shaped(self, element: ir.Type) -> ir.Type:
        return element if self.count is None else ir.VectorType(element, self.count)

    def _of(self, value: ir.Value) -> "Lanes":
        return Lanes(self.builder, value)

    def constant(self, number: Number) -> "Lanes":
        """`number` in as many lanes, of the same type."""
        scalar = ir.Constant(self.element, float(number) if self.is_float else number)
        if self.count is None:
            return self._of(scalar)
        return self._of(_Splat(self.value.type, f"splat ({scalar})"))

    def _operand(self, other: "Lanes | Number") -> ir.Value:
        return other.value if isinstance(other, Lanes) else self.constant(other).value

    # --- arithmetic -----------------------------------------------------------------------------------------

    def __add__(self, other: "Lanes | Number") -> "Lanes":
        emit = self.builder.fadd if self.is_float else self.builder.add
        return self._of(emit(self.value, self._operand(other)))

    def __sub__(self, other: "Lanes | Number") -> "Lanes":
        emit = self.builder.fsub if self.is_float else self.builder.sub
        return self._of(emit(self.value, self._operand(other)))

    def __rsub__(self, other: Number) -> "Lanes":
        return self.constant(other) - self

    def __mul__(self, other: "Lanes | Number") -> "Lanes":
        emit = self.builder.fmul if self.is_float else self.builder.mul
        return self._of(emit(self.value, self._operand(other)))

    def __truediv__(self, other: "Lanes | Number") -> "Lanes":
        return self._of(self.builder.fdiv(self.value, self._operand(other)))

    def __rtruediv__(self, other: Number) -> "Lanes":
        return self.constant(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> "Lanes":
        return self._of(self.builder.fneg(self.value) if self.is_float else self.builder.neg(self.value))

    def __and__(self, other: "Lanes | Number") -> "Lanes":
        return self._of(self.builder.and_(self.value, self._operand(other)))

    def __or__(self, other: "Lanes | Number") -> "Lanes":
        return self._of(self.builder.or_(self.value, self._operand(other)))

    def __xor__(self, other: "Lanes | Number") -> "Lanes":
        return self._of(self.builder.xor(self.value, self._operand(other)))

    def __invert__(self) -> "Lanes":
        return self._of(self.builder.not_(self.value))

    def __lshift__(self, other: int) -> "Lanes":
        return self._of(self.builder.shl(self.value, self._operand(other)))

    def __rshift__(self, other: int) -> "Lanes":
        """Shift integers right, copying the sign."""
        return self._of(self.builder.ashr(self.value, self._operand(other)))

    # --- comparison -----------------------------------------------------------------------------------------

    def _compare(self, relation: str, other: "Lanes | Number") -> "Lanes":
        right = self._operand(other)
        if not self.is_float:
            return self._of(self.builder.icmp_signed(relation, self.value, right))
        emit = self.builder.fcmp_unordered if relation == "!=" else self.builder.fcmp_ordered
        return self._of(emit(relation, self.value, right))

    def __lt__(self, other: "Lanes | Number") -> "Lanes":
        return self._compare("<", other)

    def __le__(self, other: "Lanes | Number") -> "Lanes":
        return self._compare("<=", other)

    def __gt__(self, other: "Lanes | Number") -> "Lanes":
        return self._compare(">", other)

    def __ge__(self, other: "Lanes | Number") -> "Lanes":
        return self._compare(">=", other)

    def equals(self, other: "Lanes | Number") -> "Lanes":
        """Where the lanes are equal (`==` is left to Python)."""
        return self._compare("==", other)

    def differs(self, other: "Lanes | Number") -> "Lanes":
        """Where the lanes differ or either is NaN."""
        return self._compare("!=", other)

    def is_nan(self) -> "Lanes":
        return self.differs(self)

    # --- bits and formats -----------------------------------------------------------------------------------

    def as_bits(self) -> "Lanes":
        """The bit patterns of floats, as integers."""
        return self._of(self.builder.bitcast(self.value, self._shaped(ir.IntType(self.format.bits))))

    def as_float(self) -> "Lanes":
        """The floats whose bit patterns these integers are."""
        element = ir.DoubleType() if self.format is DOUBLE else ir.FloatType()
        return self._of(self.builder.bitcast(self.value, self._shaped(element)))

    def exceeds_unsigned(self, other: int) -> "Lanes":
        """Where integers without a sign are larger."""
        return self._of(self.builder.icmp_unsigned(">", self.value, self._operand(other)))

    def to_float(self) -> "Lanes":
        """The floats nearest to these signed integers, of the same width."""
        element = ir.DoubleType() if self.format is DOUBLE else ir.FloatType()
        return self._of(self.builder.sitofp(self.value, self._shaped(element)))

    def to_double(self) -> "Lanes":
        return self._of(self.builder.fpext(self.value, self._shaped(ir.DoubleType())))

    def to_single(self) -> "Lanes":
        return self._of(self.builder.fptrunc(self.value, self._shaped(ir.FloatType())))

    # --- intrinsics -----------------------------------------------------------------------------------------

    def intrinsic(self, name: str, *others: "Lanes") -> "Lanes":
        """Call `llvm.<name>` on floats, all of this type."""
        lanes = "" if self.count is None else f"v{self.count}"
        symbol = f"llvm.{name}.{lanes}{self.format.suffix}"
        module = self.builder.module
        function = module.globals.get(symbol)
        if function is None:
            signature = ir.FunctionType(self.value.type, [self.value.type] * (1 + len(others)))
            function = ir.Function(module, signature, symbol)
        return self._of(self.builder.call(function, [self.value, *(other.value for other in others)]))

    def scaled_by(self, exponents: "Lanes") -> "Lanes":
        """Each float times 2 to the power of another, rounded down: one rounding, and one instruction of AVX-512."""
        symbol = f"llvm.x86.avx512.mask.scalef.p{'s' if self.format.bits == 32 else 'd'}.512"
        assert self.count is not None
        mask, rounding = ir.IntType(self.count), ir.IntType(32)
        vector, module = self.value.type, self.builder.module
        function = module.globals.get(symbol)
        if function is None:
            function = ir.Function(module, ir.FunctionType(vector, [vector, vector, vector, mask, rounding]), symbol)
        return self._of(self.builder.call(function, [self.value, exponents.value, self.value, mask(-1), rounding(4)]))

    def abs(self) -> "Lanes":
        return self.intrinsic("fabs")

    def sqrt(self) -> "Lanes":
        return self.intrinsic("sqrt")

    def floor(self) -> "Lanes":
        return self.intrinsic("floor")

    def with_sign_of(self, other: "Lanes") -> "Lanes":
        return self.intrinsic("copysign", other)


def fma(x: Lanes, y: Lanes | Number, z: Lanes | Number) -> Lanes:
    """x * y + z, rounded once."""
    y = y if isinstance(y, Lanes) else x.constant(y)
    z = z if isinstance(z, Lanes) else x.constant(z)
    return x.intrinsic("fma", y, z)


def where(mask: Lanes, x: Lanes | Number, y: Lanes | Number) -> Lanes:
    """`x` where `mask` is true, `y` elsewhere; at most one of them is a Python number."""
    if not isinstance(x, Lanes):
        assert isinstance(y, Lanes)
        x = y.constant(x)
    return Lanes(x.builder, x.builder.select(mask.value, x.value, x._operand(y)))


def any_lane(mask: Lanes) -> ir.Value:
    """Whether the mask is true anywhere."""
    if mask.count is None:
        return mask.value
    builder = mask.builder
    bits = builder.bitcast(mask.value, ir.IntType(mask.count))
    return builder.icmp_unsigned("!=", bits, bits.type(0))


def unless_rare(rare: Lanes, usual: Sequence[Lanes], instead: Callable[[], Sequence[Lanes]]) -> list[Lanes]:
    """The values `usual`, or what `instead` emits out of line if any lane is `rare`.

    Leaves the builder in a new basic block.
    """
    builder = rare.builder
    entry = builder.block
    slow, after = (builder.append_basic_block(name) for name in ("rare", "usual"))
    builder.cbranch(any_lane(rare), slow, after).set_weights([1, 1 << 20])
    builder.position_at_end(slow)
    found = instead()
    slow_end = builder.block
    builder.branch(after)
    builder.position_at_end(after)
    merged = []
    for a, b in zip(usual, found, strict=True):
        phi = builder.phi(a.value.type)
        phi.add_incoming(a.value, entry)
        phi.add_incoming(b.value, slow_end)
        merged.append(Lanes(builder, phi))
    return merged


def smaller(x: Lanes, y: Lanes | Number) -> Lanes:
    """The smaller of both; `x` if that is NaN."""
    y = y if isinstance(y, Lanes) else x.constant(y)
    return where(y < x, y, x)


def larger(x: Lanes, y: Lanes | Number) -> Lanes:
    """The larger of both; `x` if that is NaN."""
    y = y if isinstance(y, Lanes) else x.constant(y)
    return where(y > x, y, x)


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """The polynomial with these coefficients, from the constant term up, by Horner's rule."""
    result = x.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = fma(result, x, c)
    return result


def split_polynomial(x: Lanes, square: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Like `polynomial`, given x**2 too: the even terms beside the odd ones, which takes one more step and half the time."""
    even, odd = coefficients[::2], coefficients[1::2]
    return fma(polynomial(square, odd), x, polynomial(square, even))


def power_of_two(exponent: Lanes) -> Lanes:
    """2 to integer powers, which must be exponents of normal numbers."""
    format = exponent.format
    return ((exponent + format.bias) << format.fraction_bits).as_float()


class Pair(NamedTuple):
    """The unevaluated sum of two floats, the second at most half a unit in the last place of the first."""

    high: Lanes
    low: Lanes


def fast_sum(x: Lanes, y: Lanes) -> Pair:
    """x + y exactly, for exponents of x no smaller than those of y, or x zero."""
    high = x + y
    return Pair(high, y - (high - x))


def exact_sum(x: Lanes, y: Lanes) -> Pair:
    """x + y exactly, whichever is larger (Knuth's TwoSum)."""
    high = x + y
    rest = high - x
    return Pair(high, (x - (high - rest)) + (y - rest))


def exact_product(x: Lanes, y: Lanes | Number) -> Pair:
    """x * y exactly."""
    high = x * y
    return Pair(high, fma(x, y, -high))
