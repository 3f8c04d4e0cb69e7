"""Argument reduction for sin, cos and tan: x = quarters * pi/2 + r, |r| <= about pi/4, for every finite x.

Up to `CODY_WAITE_LIMIT` some fused multiply-adds do it (Cody and Waite). Any larger lane sends the vector
through a loop over its lanes, each reduced by a helper function after Payne and Hanek: in integers, it
multiplies the significand of x by those 192 bits of 2/pi that matter for its exponent.
"""

from typing import NamedTuple

from llvmlite import ir

from .core import Lanes, Pair, exact_product, exact_sum, fast_sum, fma, unless_rare, where
from .tables import constant_of

TWO_OVER_PI = 0.6366197723675814
# pi/2 as a sum of floats, each the one nearest to what the earlier ones leave.
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

I64, I128, F64 = ir.IntType(64), ir.IntType(128), ir.DoubleType()


class Quadrant(NamedTuple):
    """x = quarters * pi/2 + high + low; `quarters` are integers as wide as x, right modulo 4."""

    quarters: Lanes
    high: Lanes
    low: Lanes


def reduce_by_half_pi(x: Lanes) -> Quadrant:
    """Split every finite x; infinities and NaN give NaN. Leaves the builder in a new basic block."""
    near = cody_waite(x)
    far = x.abs() > CODY_WAITE_LIMIT[x.format.bits]

    def reduced() -> list[Lanes]:
        return [where(far, a, b) for a, b in zip(each_lane_reduced(x), near, strict=True)]

    return Quadrant(*unless_rare(far, near, reduced))


def cody_waite(x: Lanes) -> Quadrant:
    """Split x of moderate size: the first product is taken off exactly, the others nearly so."""
    first, second, third = PI_HALVES[x.format.bits]
    rounder = x.format.rounder
    shifted = fma(x, TWO_OVER_PI, rounder)
    n = shifted - rounder
    rest = fma(n, -first, x)
    quarters = shifted.as_bits()
    product, error = exact_product(n, -second)
    high, low = exact_sum(rest, product)
    return Quadrant(quarters, high, low + fma(n, -third, error))


def each_lane_reduced(x: Lanes) -> Quadrant:
    """Split large x lane by lane, in a loop."""
    builder = x.builder
    integers = x.as_bits().value.type
    if x.count is None:
        return reduced_lane(x)
    start = builder.block
    loop = builder.append_basic_block("each_large_angle")
    done = builder.append_basic_block("large_angles_done")
    builder.branch(loop)

    builder.position_at_end(loop)
    lane = builder.phi(I64)
    lane.add_incoming(I64(0), start)
    collected = [builder.phi(t) for t in (integers, x.value.type, x.value.type)]
    parts = reduced_lane(Lanes(builder, builder.extract_element(x.value, lane)))
    for vector, part in zip(collected, parts, strict=True):
        vector.add_incoming(ir.Constant(vector.type, ir.Undefined), start)
        vector.add_incoming(builder.insert_element(vector, part.value, lane), loop)
    following = builder.add(lane, I64(1))
    lane.add_incoming(following, loop)
    builder.cbranch(builder.icmp_unsigned("==", following, I64(x.count)), done, loop)

    builder.position_at_end(done)
    return Quadrant(*(Lanes(builder, phi.incomings[1][0]) for phi in collected))


def reduced_lane(x: Lanes) -> Quadrant:
    """Split one large x by a call of the helper."""
    builder = x.builder
    single = x.format.bits == 32
    wide = x.to_double() if single else x
    result = builder.call(helper(builder.module), [wide.value])
    quarters, high, low = (Lanes(builder, builder.extract_value(result, i)) for i in range(3))
    if not single:
        return Quadrant(quarters, high, low)
    narrow = Lanes(builder, builder.trunc(quarters.value, ir.IntType(32)))
    nearest = high.to_single()
    return Quadrant(narrow, nearest, (high - nearest.to_double()).to_single())


def helper(module: ir.Module) -> ir.Function:
    """The function that reduces one large float64, made once per module."""
    found = module.globals.get(HELPER_NAME)
    if found is not None:
        return found
    signature = ir.FunctionType(ir.LiteralStructType([I64, F64, F64]), [F64])
    function = ir.Function(module, signature, HELPER_NAME)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    quarters, high, low = payne_hanek(builder, function.args[0])
    result = ir.Constant(signature.return_type, ir.Undefined)
    for i, part in enumerate((quarters, high, low)):
        result = builder.insert_value(result, part, i)
    builder.ret(result)
    return function


def payne_hanek(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The quarter turns in one large float64 (modulo 4), and the rest as the sum of two floats."""
    bits = builder.bitcast(x, I64)
    negative = builder.icmp_signed("<", bits, I64(0))
    significand = builder.or_(builder.and_(bits, I64((1 << 52) - 1)), I64(1 << 52))
    product = times_two_over_pi(builder, significand, builder.and_(builder.lshr(bits, I64(52)), I64(0x7FF)))

    # The product counts quarter turns modulo 4 in units of 2**-126: round it, and keep the signed rest.
    quarters = builder.lshr(builder.add(product, I128(1 << 125)), I128(126))
    rest = builder.sub(product, builder.shl(quarters, I128(126)))
    rest_negative = builder.icmp_signed("<", rest, I128(0))
    high, low = quarter_turns_to_radians(
        builder, builder.select(rest_negative, builder.neg(rest), rest), builder.xor(rest_negative, negative)
    )
    angle = Lanes(builder, x)
    quarters = builder.trunc(quarters, I64)
    quarters = builder.select(negative, builder.neg(quarters), quarters)
    # Adding x - x makes the result NaN where x is infinite or NaN.
    return quarters, (high + (angle - angle)).value, low.value


def times_two_over_pi(builder: ir.IRBuilder, significand: ir.Value, exponent: ir.Value) -> ir.Value:
    """The i128 fixed-point product, modulo 4 with 126 bits after the point; `exponent` is the biased one."""
    # x = significand * 2**(exponent - 1075); digits of 2/pi that weigh 4 or more in the product drop out.
    position = builder.sub(exponent, I64(1075 - 62))
    position = builder.select(builder.icmp_signed("<", position, I64(0)), I64(0), position)
    first = builder.gep(table(builder.module), [builder.lshr(position, I64(6))], source_etype=I64)
    words = [builder.load(builder.gep(first, [I64(i)], source_etype=I64), typ=I64) for i in range(4)]
    shift = builder.and_(position, I64(63))
    funnel = builder.module.declare_intrinsic("llvm.fshl", [I64], ir.FunctionType(I64, [I64] * 3))
    top, middle, bottom = (builder.call(funnel, [words[i], words[i + 1], shift]) for i in range(3))

    wide = builder.zext(significand, I128)
    carry = builder.lshr(builder.mul(wide, builder.zext(bottom, I128)), I128(64))
    product = builder.add(builder.mul(wide, builder.zext(middle, I128)), carry)
    return builder.add(product, builder.shl(builder.mul(wide, builder.zext(top, I128)), I128(64)))


def quarter_turns_to_radians(builder: ir.IRBuilder, turns: ir.Value, negative: ir.Value) -> Pair:
    """Fixed-point quarter turns (units of 2**-126, not zero), negated if asked, times pi/2."""
    zeros = builder.ctlz(turns, ir.IntType(1)(0))
    aligned = builder.shl(turns, zeros)
    upper = builder.trunc(builder.lshr(aligned, I128(75)), I64)  # 53 bits
    lower = builder.trunc(builder.lshr(aligned, I128(12)), I64)
    lower = builder.and_(lower, I64((1 << 63) - 1))  # the next 63
    exponent = builder.sub(I64(1023 + 75 - 126), builder.trunc(zeros, I64))
    sign = builder.shl(builder.zext(negative, I64), I64(63))
    scale = Lanes(builder, builder.or_(builder.shl(exponent, I64(52)), sign)).as_float()
    high = Lanes(builder, upper).to_float() * scale
    low = Lanes(builder, lower).to_float() * (scale * 2.0**-63)
    first, second, _ = PI_HALVES[64]
    product, error = exact_product(high, first)
    return fast_sum(product, fma(high, second, fma(low, first, error)))


def table(module: ir.Module) -> ir.GlobalVariable:
    """The digits of 2/pi as a constant of the module."""
    found = module.globals.get(TABLE_NAME)
    words = ir.Constant(ir.ArrayType(I64, len(TWO_OVER_PI_BITS)), list(TWO_OVER_PI_BITS))
    return found if found is not None else constant_of(module, TABLE_NAME, words)
