"""Emit the reduction of the arguments of sin, cos and tan: x = quarters * pi/2 + r, |r| <= about pi/4. It is right for every finite x. The
functions append instructions while a kernel is compiled.

Up to `CODY_WAITE_LIMIT` a few fused multiply-adds suffice (Cody and Waite). A larger lane sends the vector through a loop over its lanes,
each reduced by a helper function after Payne and Hanek. In integers, that function multiplies the significand of x by the 192 bits of 2/pi
that matter for the exponent of x.
"""

from ...._utils.records import NamedTuple
from ..builder import Builder, Module, Value, fma, intrinsic, select
from ..types import DOUBLE, I1, I32, I64, POINTER, Type, array, int_type, vector
from .formula_helpers import Pair, exact_product, exact_sum, fast_sum, multiply_high, unless_rare

TWO_OVER_PI = 0.6366197723675814
# pi/2 as a sum of floats, each nearest to the remainder of the earlier ones.
PI_HALVES = {
    32: (1.5707964, -4.371139e-08, -1.7151245e-15),
    64: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
CODY_WAITE_LIMIT = {32: 2.0**16, 64: 2.0**22}

# 64 zero bits, then the binary digits of 2/pi after the point, in words of 64 bits.
TWO_OVER_PI_BITS = (
    0,
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
)  # fmt: skip
HELPER_NAME = "tenxor.reduce_large_by_half_pi"
TABLE_NAME = "tenxor.two_over_pi_bits"

REDUCED_TYPE = Type("struct", "{ i64, double, double }")


class Quadrant(NamedTuple):
    """An angle x as quarters * pi/2 + high + low. `quarters` is an integer as wide as the floats, and right modulo 4 only.

    `high` + `low`, the remainder, is the sum of two floats, and lies between about -pi/4 and pi/4.
    """

    quarters: Value
    high: Value
    low: Value


def reduce_by_half_pi(x: Value) -> Quadrant:
    """Emit the division of x, in radians, into quarter turns and a remainder from about -pi/4 to pi/4; infinities and NaN give NaN.

    The code continues in a new block.
    """
    moderate = cody_waite(x)
    is_large = x.abs() > CODY_WAITE_LIMIT[x.format.bits]

    def reduce_large() -> list[Value]:
        return [select(is_large, a, b) for a, b in zip(reduce_each_lane(x), moderate, strict=True)]

    return Quadrant(*unless_rare(is_large, moderate, reduce_large))


def cody_waite(x: Value) -> Quadrant:
    """Emit the division of x into quarter turns and a remainder, for |x| up to `CODY_WAITE_LIMIT`.

    The product of the turns with the first part of pi/2 is subtracted exactly, the products with the other parts nearly so.
    """
    high_part, middle_part, low_part = PI_HALVES[x.format.bits]
    rounder = x.format.rounder
    shifted = fma(x, TWO_OVER_PI, rounder)
    n = shifted - rounder
    remainder = fma(n, -high_part, x)
    quarters = shifted.as_bits()
    product, error = exact_product(n, -middle_part)
    high, low = exact_sum(remainder, product)
    return Quadrant(quarters, high, low + fma(n, -low_part, error))


def reduce_each_lane(x: Value) -> Quadrant:
    """Emit the division of large x into quarter turns and a remainder, in a loop over the lanes if x is a vector.

    The result is right only for magnitudes above `CODY_WAITE_LIMIT`; the caller ignores the other lanes.
    """
    if not x.lanes:
        return reduce_lane(x)
    b, start = x.builder, x.builder.cursor.block
    loop_block, done_block = b.block("each_large_angle"), b.block("large_angles_done")
    b.branch(loop_block)

    b.cursor.block = loop_block
    lane = b.phi(I64)
    lane.add_incoming(b.constant(I64, 0), start)
    collected = [b.phi(vector(kind, x.lanes)) for kind in (int_type(x.format.bits), x.type.scalar, x.type.scalar)]
    results = []
    for phi, component in zip(collected, reduce_lane(x.lane(lane)), strict=True):
        phi.add_incoming(b.undefined(phi.type), start)
        results.append(phi.with_lane(lane, component))
        phi.add_incoming(results[-1], loop_block)
    following = lane + 1
    lane.add_incoming(following, loop_block)
    b.branch_if(following.equals(x.lanes), done_block, loop_block)

    b.cursor.block = done_block
    return Quadrant(*results)


def reduce_lane(x: Value) -> Quadrant:
    """Emit a call of the helper function (`helper_name`) that divides x, a large scalar, into quarter turns and a remainder.

    x is a float32 or float64, and so are the parts of the result.
    """
    b = x.builder
    single = x.format.bits == 32
    result = b.call(helper_name(b.module), REDUCED_TYPE, [x.to_double() if single else x])
    quarters, high, low = (b.define(kind, f"extractvalue {result!r}, {k}") for k, kind in enumerate((I64, DOUBLE, DOUBLE)))
    if not single:
        return Quadrant(quarters, high, low)
    nearest = high.to_single()
    return Quadrant(quarters.cast("trunc", I32), nearest, (high - nearest.to_double()).to_single())


def helper_name(module: Module) -> str:
    """Return the name in `module` of the LLVM function that divides a large float64 into quarter turns and a remainder.

    The first call for a module emits the function (`payne_hanek`), which all angles of a kernel share.
    """
    if HELPER_NAME not in module.functions:
        b = Builder(module, HELPER_NAME, [("x", DOUBLE)], REDUCED_TYPE)
        result = b.undefined(REDUCED_TYPE)
        for k, component in enumerate(payne_hanek(b.arguments[0])):
            result = b.define(REDUCED_TYPE, f"insertvalue {result!r}, {component!r}, {k}")
        b.emit(f"ret {result!r}")
    return HELPER_NAME


def payne_hanek(x: Value) -> Quadrant:
    """Emit the division of x, a large scalar float64, into quarter turns (modulo 4) and a remainder in radians, the sum of two floats.

    Infinities and NaN give NaN.
    """
    bits = x.as_bits()
    negative = bits < 0
    significand = (bits & (1 << 52) - 1) | 1 << 52
    product = times_two_over_pi(significand, bits.logical_shift_right(52) & 0x7FF)

    # The product counts quarter turns modulo 4 in units of 2**-126: round it, and keep the signed rest.
    quarters = (product.high + (1 << 61)).logical_shift_right(62)
    remainder = Wide(product.high - (quarters << 62), product.low)
    remainder_negative = remainder.high < 0
    turns = [select(remainder_negative, negative_word, word) for negative_word, word in zip(negate(remainder), remainder, strict=True)]
    high, low = quarter_turns_to_radians(Wide(*turns), remainder_negative ^ negative)
    quarters = select(negative, -quarters, quarters)
    # Adding x - x makes the result NaN where x is infinite or NaN.
    return Quadrant(quarters, high + (x - x), low)


class Wide(NamedTuple):
    """An integer of 128 bits as two of 64, which every machine has; `low` has the lower bits."""

    high: Value
    low: Value


def negate(x: Wide) -> Wide:
    """Emit the negative of a 128-bit integer."""
    return Wide(~x.high + x.low.equals(0).cast("zext", I64), -x.low)


def times_two_over_pi(significand: Value, exponent: Value) -> Wide:
    """Emit the product of a large float64 and 2/pi, modulo 4, as an integer in units of 2**-126.

    The float64 is `significand`, an integer of 53 bits, times 2**(`exponent` - 1075); `exponent` is its exponent field.
    """
    # x = significand * 2**(exponent - 1075); digits of 2/pi that weigh 4 or more in the product drop out.
    position = exponent - (1075 - 62)
    position = select(position < 0, 0, position)
    first_word = table_pointer(significand.builder).at(position.logical_shift_right(6), I64)
    words = [first_word.at(k, I64).load(I64) for k in range(4)]
    shift = position & 63
    top, middle, bottom = (intrinsic("fshl", words[k], words[k + 1], shift) for k in range(3))

    added = multiply_high(significand, bottom)
    low = significand * middle + added
    carry = low.compare("ult", added).cast("zext", I64)
    return Wide(multiply_high(significand, middle) + carry + significand * top, low)


def quarter_turns_to_radians(turns: Wide, negative: Value) -> Pair:
    """Emit the product of `turns`, quarter turns in units of 2**-126, and pi/2, as the sum of two floats. `turns` must not be 0.

    The sign is changed where the bool `negative` is true.
    """
    empty = turns.high.equals(0)
    first_word, second_word = select(empty, turns.low, turns.high), select(empty, 0, turns.low)
    zeros = intrinsic("ctlz", first_word, first_word.builder.constant(I1, 0))
    aligned = Wide(intrinsic("fshl", first_word, second_word, zeros), second_word << zeros)
    upper = aligned.high.logical_shift_right(11)  # 53 bits
    lower = (aligned.high << 52 | aligned.low.logical_shift_right(12)) & (1 << 63) - 1  # the next 63
    exponent = (1023 + 75 - 126) - zeros - select(empty, turns.high.constant(64), 0)
    sign = negative.cast("zext", I64) << 63
    scale = (exponent << 52 | sign).as_float()
    high = upper.to_float() * scale
    low = lower.to_float() * (scale * 2.0**-63)
    half_pi, half_pi_low, _ = PI_HALVES[64]
    product, error = exact_product(high, half_pi)
    return fast_sum(product, fma(high, half_pi_low, fma(low, half_pi, error)))


def table_pointer(b: Builder) -> Value:
    """Return the pointer to the digits of 2/pi (`TWO_OVER_PI_BITS`), a constant of the module of `b`; the first call defines it."""
    kind = array(I64, len(TWO_OVER_PI_BITS))
    b.module.define_constant(TABLE_NAME, kind, kind.literals(TWO_OVER_PI_BITS))
    return Value(b, POINTER, f"@{TABLE_NAME}")
