"""Emit sin, cos and tan. The functions append instructions while a kernel is compiled; x is a float32 or float64, or a vector of these."""

from ..builder import Value, fma, select
from .formula_helpers import polynomial
from .pi_reduction import Quadrant, reduce_by_half_pi

# (sin r - r) / r**3 in terms of r**2, |r| <= pi/4: relative error of the sine 2**-28.0 and 2**-57.9.
SIN_TAIL = {
    32: (-0.16666655, 0.008332161, -0.00019515298),
    64: (
        -0.1666666666666663, 0.008333333333322118, -0.0001984126982958868, 2.7557313621109666e-06,
        -2.505074772307002e-08, 1.5896228045078832e-10,
    ),
}  # fmt: skip

# (cos r - 1 + r**2 / 2) / r**4 in terms of r**2, |r| <= pi/4: relative error of the cosine 2**-33 and 2**-64.
COS_TAIL = {
    32: (0.041666646, -0.0013887316, 2.4433195e-05),
    64: (
        0.041666666666666595, -0.0013888888888873058, 2.4801587288852344e-05, -2.755731417949034e-07,
        2.087570086927331e-09, -1.135853797875957e-11,
    ),
}  # fmt: skip


def near_sin(angle: Quadrant) -> Value:
    """Emit the sine of `angle` without its quarter turns: of the remainder, which lies between about -pi/4 and pi/4."""
    r, low = angle.high, angle.low
    z = r * r
    tail = polynomial(z, SIN_TAIL[r.format.bits])
    return r + fma(tail * z, r, fma(z * -0.5, low, low))


def near_cos(angle: Quadrant) -> Value:
    """Emit the cosine of `angle` without its quarter turns: of the remainder, which lies between about -pi/4 and pi/4."""
    r, low = angle.high, angle.low
    z = r * r
    tail = polynomial(z, COS_TAIL[r.format.bits])
    half_square = z * 0.5
    leading = 1.0 - half_square
    return leading + (((1.0 - leading) - half_square) + fma(tail * z, z, -(r * low)))


def negate_if_bit(x: Value, bits: Value, position: int) -> Value:
    """Emit -x where the bit number `position` of `bits`, integers as wide as the float x, is set, else x. Bit 0 is the lowest."""
    sign = (bits << (x.format.bits - 1 - position)) & -(1 << (x.format.bits - 1))
    return (x.as_bits() ^ sign).as_float()


def sin(x: Value) -> Value:
    """Emit the sine of x in radians; NaN for infinities."""
    angle = reduce_by_half_pi(x)
    odd = (angle.quarters & 1).differs(0)
    result = negate_if_bit(select(odd, near_cos(angle), near_sin(angle)), angle.quarters, 1)
    return select(x.equals(0.0), x, result)


def cos(x: Value) -> Value:
    """Emit the cosine of x in radians; NaN for infinities."""
    angle = reduce_by_half_pi(x)
    odd = (angle.quarters & 1).differs(0)
    return negate_if_bit(select(odd, near_sin(angle), near_cos(angle)), angle.quarters + 1, 1)


def tan(x: Value) -> Value:
    """Emit the tangent of x in radians; NaN for infinities."""
    if x.format.bits == 32:
        return tan(x.to_double()).to_single()
    angle = reduce_by_half_pi(x)
    odd = (angle.quarters & 1).differs(0)
    sine, cosine = near_sin(angle), near_cos(angle)
    ratio = select(odd, cosine, sine) / select(odd, -sine, cosine)
    return select(x.equals(0.0), x, ratio)
