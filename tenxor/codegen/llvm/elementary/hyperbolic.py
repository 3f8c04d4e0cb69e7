"""Emit sinh, cosh, tanh, asinh, acosh and atanh. The functions append instructions while a kernel is compiled; x is a float32 or float64,
or a vector of these.
"""

import math
from math import nan

from ..builder import Value, fma, select, select_smaller
from ..float_formats import FLOAT32_FORMAT, FLOAT64_FORMAT
from .exponential import LOG2_E, extract_integer, reduce_by_ln2, scale_of
from .formula_helpers import Pair, exact_sum, polynomial, power_of_two
from .logarithm import log_of_sum
from .lookup_tables import make_quarter_octave_lookup

# (sinh r - r) / r**3 and (cosh r - 1) / r**2 in terms of r**2, |r| <= ln2/2: relative errors of sinh and cosh
# 2**-61.7 and 2**-58.0.
SINH_TAIL = (
    0.16666666666666677, 0.008333333333321678, 0.00019841269885997125, 2.755724434557741e-06,
    2.5108987736131366e-08,
)  # fmt: skip
COSH_TAIL = (
    0.5000000000000013, 0.0416666666665144, 0.0013888888947228668, 2.480148975968995e-05,
    2.763133564069502e-07,
)  # fmt: skip

LARGE_ARGUMENT = 2.0**30  # beyond this, sqrt(x**2 + 1) is x to the last bit
OVERFLOW_FROM = 710.5  # beyond this both are infinite

# In float32, magnitudes fall into 32 intervals, four to a doubling, from FIRST_INTERVAL_BITS on. The centre of each is a float32 whose
# tanh is very nearly a float32, too; that of the first is 0, and serves smaller magnitudes.
FIRST_INTERVAL_BITS = FLOAT32_FORMAT.to_bits(0.0390625)
CENTRES = (
    0.0, 0.050782323, 0.05859232, 0.07030296, 0.08591008, 0.101566315, 0.11715865, 0.1404562, 0.17211723, 0.20315838,
    0.23424625, 0.2813301, 0.3438158, 0.40532875, 0.4689064, 0.5625515, 0.6865978, 0.812479, 0.93699074, 1.1260262,
    1.3750954, 1.6247253, 1.8748093, 2.2471619, 2.751274, 3.2515564, 3.7518692, 4.4813232, 5.498581, 6.4989777,
    7.5130005, 8.664833,
)  # fmt: skip
TANHS = tuple(FLOAT32_FORMAT.round_value(math.tanh(FLOAT32_FORMAT.round_value(c))) for c in CENTRES)

# (tanh x - x) / x**3 in terms of x**2: in float32 between a centre and the ends of its interval, relative error of the
# result 2**-29.3; in float64 as far as TANH_NEAR, 2**-55.5.
TANH_TAIL = {
    32: (-0.33333188, 0.13307011, -0.048442017),
    64: (
        -0.33333333333332316, 0.13333333333168731, -0.05396825387609164, 0.021869485975092005,
        -0.008863194507803809, 0.003591719725777365, -0.0014532168882159515, 0.0005791373823773497,
        -0.00021030296304912755, 5.102184566226501e-05,
    ),
}  # fmt: skip
TANH_NEAR = 0.55
# (2**f - 1) / f for |f| <= 1/2: relative error of 2**f 2**-58.0.
EXP2_TAIL = (
    0.6931471805599453, 0.2402265069591013, 0.055504108664820084, 0.009618129107594128, 0.0013333558146774829,
    0.00015403530457104166, 1.525273349294196e-05, 1.3215435286075834e-06, 1.0178199643187022e-07,
    7.0737826265051e-09, 4.434761299721945e-10,
)  # fmt: skip
TANH_IS_ONE = {32: 9.5, 64: 20.0}  # from here on, tanh rounds to 1


def tanh(x: Value) -> Value:
    """Emit the hyperbolic tangent of x: 1 or -1 for infinities, NaN for NaN."""
    magnitude = select_smaller(x.abs(), TANH_IS_ONE[x.format.bits])
    tanh_of_magnitude = tanh_from_table if x.format.bits == 32 else tanh_in_two_parts
    return tanh_of_magnitude(magnitude).with_sign_of(x)


def tanh_from_table(magnitude: Value) -> Value:
    """Emit the tanh of `magnitude`, a float32 from 0 to `TANH_IS_ONE`, as T + (1 - T**2) tanh(d) / (1 + T tanh(d)).

    Here `magnitude` = centre + d for the centre of its interval, from the table `CENTRES`. T, from the table `TANHS`, is the tanh of the
    centre. The exact tanh of the centre is very nearly the float T. So 1 - T**2 is precise where T is very nearly 1, too.
    """
    entry = make_quarter_octave_lookup(magnitude, FIRST_INTERVAL_BITS)
    d = magnitude - entry(CENTRES)
    z = d * d
    step = fma(polynomial(z, TANH_TAIL[32]), z * d, d)
    at_centre = entry(TANHS)
    slope = fma(-at_centre, at_centre, 1.0)
    return at_centre + slope * step / fma(at_centre, step, 1.0)


def tanh_in_two_parts(magnitude: Value) -> Value:
    """Emit the tanh of `magnitude`, a float64 from 0 to `TANH_IS_ONE`: a polynomial near 0, else 1 - 2 / (e**(2 magnitude) + 1)."""
    z = magnitude * magnitude
    near_zero = fma(polynomial(z, TANH_TAIL[64]) * z, magnitude, magnitude)
    # 2 magnitude / ln 2 = n + f. In the rest, the error of the factor counts little.
    rounder = FLOAT64_FORMAT.rounder
    shifted = fma(magnitude, 2 * LOG2_E, rounder)
    f = fma(magnitude, 2 * LOG2_E, rounder - shifted)
    scale = scale_of(shifted)
    # e**2size + 1 with one rounding: 2**n + 1 is exact.
    far_from_zero = 1.0 - 2.0 / fma(polynomial(f, EXP2_TAIL) * f, scale, scale + 1.0)
    return select(magnitude < TANH_NEAR, near_zero, far_from_zero)


def sinh_and_cosh(magnitude: Value) -> tuple[Value, Value]:
    """Emit half of the sinh and half of the cosh of `magnitude`, a float64 >= 0, and return both. Sinh and cosh themselves may overflow.

    With magnitude = n ln2 + r they are sums of products of sinh r, cosh r and sinh(n ln2), cosh(n ln2). The latter two are half of 2**n -+
    2**-n. So no digits cancel near 0, where n is 0.
    """
    r, shifted = reduce_by_ln2(select_smaller(magnitude, OVERFLOW_FROM))
    n = extract_integer(shifted)
    up = power_of_two(n - 2)
    down = power_of_two(select(n < 1000, -n, -1000) - 2)
    z = r * r
    sinh_tail = polynomial(z, SINH_TAIL) * z * r  # sinh r - r
    cosh_tail = polynomial(z, COSH_TAIL) * z  # cosh r - 1
    sinh_n, cosh_n = up - down, up + down
    half_sinh = fma(r, cosh_n, sinh_n) + fma(cosh_tail, sinh_n, sinh_tail * cosh_n)
    half_cosh = fma(r, sinh_n, cosh_n) + fma(cosh_tail, cosh_n, sinh_tail * sinh_n)
    return half_sinh, half_cosh


def sinh(x: Value) -> Value:
    """Emit the hyperbolic sine of x; a float32 is computed in float64 and rounded."""
    if x.format.bits == 32:
        return sinh(x.to_double()).to_single()
    magnitude = x.abs()
    half, _ = sinh_and_cosh(magnitude)
    return select(magnitude < x.format.epsilon, x, (half + half).with_sign_of(x))


def cosh(x: Value) -> Value:
    """Emit the hyperbolic cosine of x; a float32 is computed in float64 and rounded."""
    if x.format.bits == 32:
        return cosh(x.to_double()).to_single()
    _, half = sinh_and_cosh(x.abs())
    return half + half


def asinh(x: Value) -> Value:
    """Emit the inverse hyperbolic sine: log(1 + w) with w = |x| + x**2 / (1 + sqrt(1 + x**2))."""
    if x.format.bits == 32:
        return asinh(x.to_double()).to_single()
    magnitude = x.abs()
    square = magnitude * magnitude
    w = exact_sum(magnitude, square / ((square + 1.0).sqrt() + 1.0))
    return select(x.equals(0.0), x, log_one_plus(w, magnitude).with_sign_of(x))


def acosh(x: Value) -> Value:
    """Emit the inverse hyperbolic cosine: log(1 + w) with t = x - 1 and w = t + sqrt(t (t + 2)); NaN for x < 1."""
    if x.format.bits == 32:
        return acosh(x.to_double()).to_single()
    t = x - 1.0
    result = log_one_plus(exact_sum(t, fma(t, t, t + t).sqrt()), x)
    return select(x < 1.0, nan, result)


def atanh(x: Value) -> Value:
    """Emit the inverse hyperbolic tangent: half of log(1 + w) with w = 2|x| / (1 - |x|); NaN for |x| > 1."""
    if x.format.bits == 32:
        return atanh(x.to_double()).to_single()
    magnitude = x.abs()
    divisor, divisor_low = exact_sum(magnitude.constant(1.0), -magnitude)
    inverse = 1.0 / divisor
    w = (magnitude + magnitude) * inverse
    w_low = (fma(-w, divisor, magnitude + magnitude) - w * divisor_low) * inverse
    high, low = exact_sum(magnitude.constant(1.0), w)
    result = (log_of_sum(high, low + w_low) * 0.5).with_sign_of(x)
    return select(x.equals(0.0), x, result)


def log_one_plus(w: Pair, x: Value) -> Value:
    """Emit log(1 + w) for a float64 w >= 0, where this is the value of asinh or acosh at x. For x > LARGE_ARGUMENT, emit log(2x) instead.

    There w is nearly 2x, and may have overflowed.
    """
    high, low = exact_sum(x.constant(1.0), w.high)
    is_large = x > LARGE_ARGUMENT
    doublings = select(is_large, x.constant(1.0), 0.0)
    return log_of_sum(select(is_large, x, high), select(is_large, 0.0, low + w.low), doublings)
