"""Emit exp, exp2 and expm1. The functions append instructions while a kernel is compiled; x is a float32 or float64, or a vector of these.

With x = n ln2 + r, n an integer and |r| <= ln2/2 (Cody and Waite), e**x is 2**n e**r, and e**r a polynomial. A fused multiply-add of x /
ln2 and the format's `rounder` leaves n in the low bits, so no integer is converted.
"""

from math import e, log2

from ...._utils.records import NamedTuple
from ..builder import Value, fma, select, select_larger, select_smaller
from ..types import I32, int_type
from .formula_helpers import Pair, fast_sum, polynomial, power_of_two

LOG2_E = log2(e)
# ln 2 as the sum of two floats: with fused multiply-adds, subtracting n times the first is exact.
LN2 = {32: (0.69314718, -1.9046542e-09), 64: (0.6931471805599453, 2.3190468138462996e-17)}

# (e**r - 1 - r) / r**2 on [-ln2/2, ln2/2]: relative error of e**r 2**-28.3 and 2**-57.9.
EXP_TAIL = {
    32: (0.49999994, 0.16666521, 0.041668385, 0.008368708, 0.0013814663),
    64: (
        0.5000000000000011, 0.16666666666666413, 0.04166666666653027, 0.008333333333494192,
        0.0013888888943595205, 0.0001984126950707815, 2.480149313913605e-05, 2.755758600766861e-06,
        2.763023277016124e-07, 2.5000151203476022e-08,
    ),
}  # fmt: skip

# Below the first, e**x rounds to 0; above the second, to infinity. Both leave n in reach of `scale_by_power`.
EXP_RANGE = {32: (-104.0, 89.0), 64: (-746.0, 710.0)}
EXP2_RANGE = {32: (-151.0, 128.5), 64: (-1076.0, 1024.5)}
EXPM1_RANGE = -38.0, 710.0


class Reduced(NamedTuple):
    """A number as n ln2 + r, with an integer n. `shifted` is the float n + `FloatFormat.rounder`, so its low bits are those of n."""

    r: Value
    shifted: Value


def reduce_by_ln2(x: Value, x_low: Value | None = None) -> Reduced:
    """Emit the reduction of x, or of x + `x_low`, to n ln2 + r, with an integer n and |r| <= ln2/2.

    x must be moderate, as in `EXP_RANGE`, and `x_low` small.
    """
    rounder = x.format.rounder
    high, low = LN2[x.format.bits]
    shifted = fma(x, LOG2_E, rounder)
    n = shifted - rounder
    remainder = fma(n, -high, x)
    return Reduced(fma(n, -low, remainder) if x_low is None else remainder + fma(n, -low, x_low), shifted)


def reduce_by_ln2_exactly(x: Value, x_low: Value) -> tuple[Pair, Value]:
    """Emit the reduction of x + `x_low` to n ln2 + r, with an integer n and |r| <= ln2/2. x must be moderate, and `x_low` small.

    Return r, as the sum of two floats whose bits do not overlap, and n + `FloatFormat.rounder`, a float with n in its low bits.
    """
    rounder = x.format.rounder
    high, low = LN2[x.format.bits]
    shifted = fma(x, LOG2_E, rounder)
    n = shifted - rounder
    return fast_sum(fma(n, -high, x), fma(n, -low, x_low)), shifted


def scale_of(shifted: Value, times: float = 1.0) -> Value:
    """Emit 2**n * `times`, given `shifted`, the float n + `FloatFormat.rounder` for an integer n. `times` is a power of two.

    The result must be a normal number.
    """
    format = shifted.format
    return ((shifted.as_bits() << format.fraction_bits) + format.to_bits(times)).as_float()


def extract_integer(shifted: Value) -> Value:
    """Emit the integer n, as wide as the float `shifted`, which is n + `FloatFormat.rounder`; any integer for NaN."""
    return shifted.as_bits() - shifted.format.to_bits(shifted.format.rounder)


def scale_by_power(x: Value, shifted: Value, rounder: float | None = None) -> Value:
    """Emit x * 2**n, rounded once: the result may be subnormal or infinite.

    `shifted` is the float n + `rounder`, whose low bits hold n. The default of `rounder` is that of x's format; then n is an integer. If
    `rounder` is smaller by the factor 2**k, the lowest k bits hold fractional digits of n, and n is rounded down.
    """
    format = x.format
    rounder = format.rounder if rounder is None else rounder
    if x.type.bits == 512 and x.builder.module.target.has_feature("avx512f"):
        return scale_by_avx512(x, shifted - rounder)
    n = shifted.as_bits() >> int(log2(format.rounder / rounder))
    one_bits = format.to_bits(1.0)
    exponent_field = n << format.fraction_bits
    sign_and_exponent = -(1 << format.fraction_bits)
    half = (n << (format.fraction_bits - 1)) & sign_and_exponent
    other_half = exponent_field - half
    return x * (half + one_bits).as_float() * (other_half + one_bits).as_float()


def scale_by_avx512(x: Value, exponents: Value) -> Value:
    """Emit x * 2**floor(`exponents`), rounded once, by a single instruction of AVX-512, for vectors of 64 bytes.

    On other processors this is a library call; there, `scale_by_power` multiplies twice, and the first product is exact.
    """
    b, letter = x.builder, "s" if x.format.bits == 32 else "d"
    every_lane, as_set = b.constant(int_type(x.lanes), -1), b.constant(I32, 4)
    return b.call(f"llvm.x86.avx512.mask.scalef.p{letter}.512", x.type, [x, exponents, x, every_lane, as_set])


def clamp_to_range(x: Value, limits: dict[int, tuple[float, float]]) -> tuple[Value, Value]:
    """Emit the limitation of x to a range, for a function of x that is 0 below the range. Return a mask, and the limited x.

    `limits` maps the bits of a float format, 32 or 64, to the lowest and the highest number. The mask is true where x is below the lowest.
    There x becomes 0, since some processors take a hundred cycles to find that a number is too small. A larger x becomes the highest. NaN
    stays NaN.
    """
    low, high = limits[x.format.bits]
    vanishes = x < low
    return vanishes, select(vanishes, 0.0, select_smaller(x, high))


def exp_tail(r: Value) -> Value:
    """Emit e**r - 1 - r for |r| <= ln2/2."""
    return polynomial(r, EXP_TAIL[r.format.bits]) * r * r


def exp_near_zero(r: Value, precision: int | None = None) -> Value:
    """Emit e**r for |r| <= ln2/2, with the precision of the format of `precision` bits (32 or 64), by default r's own."""
    tail = polynomial(r, EXP_TAIL[precision or r.format.bits])
    return fma(fma(tail, r, 1.0), r, 1.0)


def exp(x: Value) -> Value:
    """Emit e**x for a float32 or float64: 0 or infinity where the result is out of range, NaN for NaN."""
    vanishes, x = clamp_to_range(x, EXP_RANGE)
    r, shifted = reduce_by_ln2(x)
    return select(vanishes, 0.0, scale_by_power(exp_near_zero(r), shifted))


def exp2(x: Value) -> Value:
    """Emit 2**x for a float32 or float64: 0 or infinity where the result is out of range, NaN for NaN."""
    high, low = LN2[x.format.bits]
    vanishes, x = clamp_to_range(x, EXP2_RANGE)
    rounder = x.format.rounder
    shifted = x + rounder
    fraction = x - (shifted - rounder)
    return select(vanishes, 0.0, scale_by_power(exp_near_zero(fma(fraction, high, fraction * low)), shifted))


def expm1(x: Value) -> Value:
    """Emit e**x - 1, precise near 0."""
    if x.format.bits == 32:
        return expm1(x.to_double()).to_single()
    low, high = EXPM1_RANGE
    r, shifted = reduce_by_ln2(select_smaller(select_larger(x, low), high))
    # Half of 2**n e**r - 1, for 2**n may be out of range where the result is not.
    half_scale = power_of_two(extract_integer(shifted) - 1)
    half = fma(half_scale, exp_tail(r), fma(half_scale, r, half_scale - 0.5))
    return select(x.abs() < x.format.epsilon, x, half + half)
