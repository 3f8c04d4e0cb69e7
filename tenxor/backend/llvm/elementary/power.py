"""pow, hypot, rsqrt.

x**y is e**(y log|x|), with the logarithm and its product with y carried as sums of two floats: a relative
error of the exponent grows by the size of the exponent, up to 2**10. For float32, plain float64 is enough.
"""

from math import inf, nan

from .core import Lanes, Pair, exact_product, exact_sum, fast_sum, fma, larger, polynomial, smaller, where
from .exponential import EXP_RANGE, LN2, clamped, exp, exp_near_zero, reduce_by_ln2, scaled
from .logarithm import log, split_positive

# (2 atanh(s) / s - 2) / s**2 = 2/3 + s**2 (...): the first as a pair, then the rest in terms of s**2,
# relative error of the logarithm 2**-73.6.
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
ATANH_REST = (
    0.3999999999999998, 0.28571428571445096, 0.22222222217539708, 0.1818181886992046, 0.1538455689770747,
    0.13336316396284598, 0.11674839198813429, 0.1198884125859245,
)  # fmt: skip


def precise_log(x: Lanes) -> Pair:
    """The natural logarithm of positive finite float64, to about 68 bits."""
    exponent, f = split_positive(x)
    # s = f / (2 + f), to twice the precision; 2 + f is exact or the rest is taken into account.
    divisor, lost = fast_sum(f.constant(2.0), f)
    s = f / divisor
    s_low = (fma(-s, divisor, f) - s * lost) / divisor
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


def pow(x: Lanes, y: Lanes) -> Lanes:
    """x**y, with the special values of C99 (Annex F)."""
    if x.format.bits == 32:
        x, y = x.to_double(), y.to_double()
        return pow_with_special_values(x, y, exp(log(x.abs()) * y)).to_single()
    return pow_with_special_values(x, y, precise_power(x.abs(), y))


def precise_power(x: Lanes, y: Lanes) -> Lanes:
    """x**y for positive finite float64 x."""
    log_high, log_low = precise_log(x)
    product, error = exact_product(log_high, y)
    error = fma(log_low, y, error)
    bounded = clamped(product, EXP_RANGE)
    # Where the product is out of range so is the result, and its error may be anything.
    error = where(bounded.equals(product), error, 0.0)
    r, shifted = reduce_by_ln2(bounded)
    return scaled(exp_near_zero(r + error), shifted)


def pow_with_special_values(x: Lanes, y: Lanes, magnitude: Lanes) -> Lanes:
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
