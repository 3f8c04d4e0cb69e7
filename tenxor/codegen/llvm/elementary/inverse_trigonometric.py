"""Emit asin, acos, atan and atan2. The functions append instructions while a kernel is compiled; x and y are float32 or float64, or vectors
of these. For float32 the result is computed in float64 and rounded once.
"""

from math import inf, nan

from ..builder import Value, fma, select, select_larger, select_smaller
from .formula_helpers import polynomial
from .pi_reduction import PI_HALVES

# (atan t - t) / t**3 in terms of t**2, |t| <= 1: relative error of the arctangent 2**-57.6.
ATAN_TAIL = (
    -0.3333333333333307, 0.19999999999951462, -0.1428571428257522, 0.11111111007029653, -0.0909090700305795,
    0.07692279840114019, -0.06666404064542403, 0.05880527857093659, -0.05253518745059799,
    0.047223228755666605, -0.042191806902964056, 0.036641946281006206, -0.02990391447228713,
    0.02198492194632477, -0.013900624531885397, 0.007196548716248294, -0.0028849418559264584,
    0.0008313301029747095, -0.00015216265238312846, 1.3225254470365015e-05,
)  # fmt: skip

# (asin s - s) / s**3 in terms of s**2, |s| <= 1/2: relative error of the arcsine 2**-59.9.
ASIN_TAIL = (
    0.1666666666666676, 0.07499999999970805, 0.04464285717460704, 0.030381942708019218, 0.02237221498098981,
    0.017351612132810175, 0.013980819130817248, 0.011398923656995501, 0.010780189902016013,
    0.0037066411544273157, 0.021706894344598545, -0.020998297770902296, 0.032628155818499024,
)  # fmt: skip

HALF_PI, HALF_PI_LOW, _ = PI_HALVES[64]


def asin(x: Value) -> Value:
    """Emit the arcsine in radians: directly up to 1/2, beyond as pi/2 - 2 asin(sqrt((1 - |x|) / 2)); NaN for |x| > 1."""
    if x.format.bits == 32:
        return asin(x.to_double()).to_single()
    magnitude = x.abs()
    is_small = magnitude <= 0.5
    root, tail = near_asin(magnitude, is_small)
    beyond_half = HALF_PI - (root + root - (HALF_PI_LOW - (tail + tail)))
    return select(is_small, root + tail, beyond_half).with_sign_of(x)


def acos(x: Value) -> Value:
    """Emit the arccosine in radians, from 0 to pi; NaN for |x| > 1."""
    if x.format.bits == 32:
        return acos(x.to_double()).to_single()
    magnitude = x.abs()
    is_small = magnitude <= 0.5
    root, tail = near_asin(magnitude, is_small)
    signed_root, signed_tail = root.with_sign_of(x), tail.with_sign_of(x)
    middle = HALF_PI - (signed_root + (signed_tail - HALF_PI_LOW))
    right = (root + tail) * 2.0
    left = 2.0 * HALF_PI - (root + root - (2.0 * HALF_PI_LOW - (tail + tail)))
    return select(is_small, middle, select(x < 0.0, left, right))


def near_asin(magnitude: Value, is_small: Value) -> tuple[Value, Value]:
    """Emit the arcsine of `magnitude` where the mask `is_small` is true, else that of sqrt((1 - magnitude) / 2), in float64.

    Return a large and a small part, whose sum is the arcsine. `magnitude` is in [0, 1], and at most 1/2 where `is_small`.
    """
    square = select(is_small, magnitude * magnitude, fma(magnitude, -0.5, 0.5))
    root = select(is_small, magnitude, square.sqrt())
    lost = select(is_small | root.equals(0.0), 0.0, fma(-root, root, square) / (root + root))
    return root, fma(polynomial(square, ASIN_TAIL) * square, root, lost)


def atan(x: Value) -> Value:
    """Emit the arctangent in radians, from -pi/2 to pi/2."""
    if x.format.bits == 32:
        return atan(x.to_double()).to_single()
    magnitude = x.abs()
    is_steep = magnitude > 1.0
    ratio = select(is_steep, x.constant(1.0), magnitude) / select(is_steep, magnitude, 1.0)
    angle = near_atan(ratio)
    return select(is_steep, HALF_PI - (angle - HALF_PI_LOW), angle).with_sign_of(x)


def atan2(y: Value, x: Value) -> Value:
    """Emit the angle of the point (x, y) in radians, with the special values of C99 (Annex F)."""
    if x.format.bits == 32:
        return atan2(y.to_double(), x.to_double()).to_single()
    rise, run = y.abs(), x.abs()
    is_steep = rise > run
    small, large = select_smaller(rise, run), select_larger(rise, run)
    ratio = small / select(large.equals(0.0), 1.0, large)
    angle = near_atan(select(small.equals(inf), 1.0, ratio))
    leftwards = x.as_bits() < 0
    quarters = select(is_steep, x.constant(1.0), select(leftwards, x.constant(2.0), 0.0))
    signed = select(is_steep ^ leftwards, -angle, angle)
    result = fma(quarters, HALF_PI, fma(quarters, HALF_PI_LOW, signed)).with_sign_of(y)
    return select(x.is_nan() | y.is_nan(), nan, result)


def near_atan(ratio: Value) -> Value:
    """Emit the arctangent, in radians, of `ratio`, a float64 in [0, 1]."""
    z = ratio * ratio
    return fma(polynomial(z, ATAN_TAIL) * z, ratio, ratio)
