"""pow, hypot, rsqrt.

x**y is e**(y log|x|), with the logarithm and its product with y carried as sums of two floats: a relative
error of the exponent grows by the size of the exponent, up to 2**10. For float32, plain float64 is enough.
"""

from math import inf, nan

from .core import (
    Lanes,
    Pair,
    exact_product,
    exact_sum,
    fast_sum,
    fma,
    larger,
    polynomial,
    smaller,
    unless_rare,
    where,
)
from .exponential import EXP_RANGE, LN2, clamped, exp_near_zero, reduce_by_ln2, scale_of, scaled
from .logarithm import split

# (2 atanh(s) / s - 2) / s**2 = 2/3 + s**2 (...): the first as a pair, then the rest in terms of s**2,
# relative error of the logarithm 2**-73.6.
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
ATANH_REST = (
    0.3999999999999998, 0.28571428571445096, 0.22222222217539708, 0.1818181886992046, 0.1538455689770747,
    0.13336316396284598, 0.11674839198813429, 0.1198884125859245,
)  # fmt: skip


# log2(1 + f) / f for 1 + f in [sqrt(1/2), sqrt(2)], and 2**r for |r| <= 1/2: relative errors 2**-38.0 and 2**-29.0.
LOG2_RATIO = (
    1.4426950408865735, -0.721347520327527, 0.48089834880319243, -0.3606737931405316, 0.2885387957062844,
    -0.24044643345002478, 0.2061071236176196, -0.18043675277942384, 0.1602166598753818, -0.14249862048358994,
    0.13027567429081113, -0.13462938613886313, 0.13251180343297925, -0.06973881212856246,
)  # fmt: skip
EXP2 = (
    1.0000000005541845, 0.6931472057346939, 0.2402264689081764, 0.055503287791879304, 0.009618488942788175,
    0.0013399930496088839, 0.00015345813790019886,
)  # fmt: skip
SINGLE_EXPONENTS = (-200.0, 200.0)  # beyond these, 2 to the power is 0 or infinite in float32, yet not in float64


def pow(x: Lanes, y: Lanes) -> Lanes:
    """x**y, with the special values of C99 (Annex F). All but positive normal x and finite y are seen to out of line."""
    format = x.format
    smallest, infinity = format.to_bits(format.smallest_normal), format.to_bits(inf)
    rare = (x.as_bits() - smallest).exceeds_unsigned(infinity - smallest - 1)
    rare = rare | ~(y.abs() < inf)
    zero, one = x.constant(0.0), x.constant(1.0)

    def ordinary() -> list[Lanes]:
        # Where there is a power to compute, this one is +-2; elsewhere it is the result.
        found = special_power(x, y, x.constant(2.0))
        computed = found.abs().equals(2.0)
        size = x.abs()
        tiny = size < format.smallest_normal
        lift = format.fraction_bits + 1
        return [
            where(computed, where(tiny, size * 2.0**lift, size), 1.0),
            where(computed & tiny, x.constant(-float(lift)), 0.0),
            where(computed, y, 0.0),
            where(computed, found * 0.5, zero.with_sign_of(found)),
            where(computed, zero.with_sign_of(found), found),
        ]

    size, shift, y, sign, special = unless_rare(rare, (x, zero, y, one, zero), ordinary)
    exponent, f = split(size)
    magnitude = single_power if format.bits == 32 else double_power
    return fma(magnitude(exponent + shift, f, y), sign, special)


def single_power(exponent: Lanes, f: Lanes, y: Lanes) -> Lanes:
    """(2**exponent (1 + f))**y in float32, computed in float64."""
    exponent, f, y = exponent.to_double(), f.to_double(), y.to_double()
    product = fma(polynomial(f, LOG2_RATIO), f, exponent) * y
    product = smaller(larger(product, SINGLE_EXPONENTS[0]), SINGLE_EXPONENTS[1])
    shifted = product + product.format.rounder
    r = product - (shifted - product.format.rounder)
    return (polynomial(r, EXP2) * scale_of(shifted)).to_single()


def double_power(exponent: Lanes, f: Lanes, y: Lanes) -> Lanes:
    """(2**exponent (1 + f))**y in float64."""
    log_high, log_low = precise_log(exponent, f)
    product, error = exact_product(log_high, y)
    error = fma(log_low, y, error)
    bounded = clamped(product, EXP_RANGE)
    # Where the product is out of range so is the result, and its error may be anything.
    error = where(bounded.equals(product), error, 0.0)
    r, shifted = reduce_by_ln2(bounded, error)
    return scaled(exp_near_zero(r), shifted)


def precise_log(exponent: Lanes, f: Lanes) -> Pair:
    """The natural logarithm of 2**exponent (1 + f), to about 68 bits."""
    # s = f / (2 + f), to twice the precision; 2 + f is exact or the rest is taken into account.
    divisor, lost = fast_sum(f.constant(2.0), f)
    inverse = 1.0 / divisor
    s = f * inverse
    s_low = fma(-s, lost, fma(-s, divisor, f)) * inverse
    z, z_low = exact_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    # series = 2/3 + z (...), as a pair
    rest = polynomial(z, ATANH_REST) * z
    series, series_low = fast_sum(rest.constant(TWO_THIRDS[0]), rest)
    series_low = series_low + TWO_THIRDS[1]
    # cube = s z, as a pair, times series
    cube, cube_low = exact_product(s, z)
    cube_low = cube_low + fma(s, z_low, s_low * z)
    tail, tail_low = exact_product(cube, series)
    tail_low = tail_low + fma(cube, series_low, cube_low * series)
    # e ln2 + 2 s + tail
    shift, shift_low = exact_product(exponent, LN2[64][0])
    shift_low = fma(exponent, LN2[64][1], shift_low)
    high, low = fast_sum(shift, s + s)
    total, total_low = exact_sum(high, tail)
    return Pair(total, total_low + (low + (shift_low + (s_low + s_low + tail_low))))


def special_power(x: Lanes, y: Lanes, magnitude: Lanes) -> Lanes:
    """x**y, given |x|**y for ordinary x and y."""
    size = x.abs()
    whole = y.floor().equals(y)
    odd = whole & (y * 0.5).floor().differs(y * 0.5)
    # 0 and infinity to a power that is positive, or negative
    extreme = size.equals(0.0) | size.equals(inf)
    vanishes = size.equals(0.0) ^ (y < 0.0)
    magnitude = where(extreme, where(vanishes, x.constant(0.0), inf), magnitude)
    # a power of +-infinity
    grows = (size > 1.0) ^ (y < 0.0)
    limit = where(size.equals(1.0), x.constant(1.0), where(grows, x.constant(inf), 0.0))
    magnitude = where(y.abs().equals(inf), limit, magnitude)
    negative = x.as_bits() < 0
    result = where(negative & odd, -magnitude, magnitude)
    result = where((x < 0.0) & ~whole & (size < inf), nan, result)
    result = where(x.is_nan() | y.is_nan(), nan, result)
    return where(x.equals(1.0) | y.equals(0.0), 1.0, result)


def hypot(x: Lanes, y: Lanes) -> Lanes:
    """sqrt(x**2 + y**2), without overflow or underflow on the way."""
    if x.format.bits == 32:
        return hypot(x.to_double(), y.to_double()).to_single()
    a, b = x.abs(), y.abs()
    large, small = larger(a, b), smaller(a, b)
    huge, tiny = large > 2.0**500, large < 2.0**-450
    down = where(huge, large.constant(2.0**-600), where(tiny, large.constant(2.0**600), 1.0))
    up = where(huge, large.constant(2.0**600), where(tiny, large.constant(2.0**-600), 1.0))
    large, small = large * down, small * down
    # The root, then one correction by the exact remainder of its square.
    square, square_low = exact_product(large, large)
    total, total_low = fast_sum(square, small * small)
    root = total.sqrt()
    remainder = fma(-root, root, total) + (total_low + square_low)
    root = where(root > 0.0, root + remainder / (root + root), root)
    result = where(a.is_nan() | b.is_nan(), nan, root * up)
    return where(a.equals(inf) | b.equals(inf), inf, result)


def rsqrt(x: Lanes) -> Lanes:
    """1 / sqrt(x); in float32, where that loses up to 1.5 units, with one step of Newton's."""
    root = 1.0 / x.sqrt()
    if x.format.bits == 64:
        return root
    product, product_low = exact_product(x, root)
    rest = fma(-product_low, root, fma(-product, root, 1.0))  # 1 - x root**2; NaN where x is 0 or infinite
    return where(rest.is_nan(), root, fma(rest * 0.5, root, root))
