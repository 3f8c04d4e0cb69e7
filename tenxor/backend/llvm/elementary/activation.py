"""sigmoid, silu, gelu, gelu_tanh, softplus: what neural networks apply to each element.

All but softplus are x, or 1, over a sum of positive terms. The sum is carried as that of two floats, and the quotient
is corrected by its remainder; so little more than the last rounding is lost, in the far tails too.
"""

from ..builder import Value, fma, larger, select
from .core import Pair, exact_product, exact_sum, fast_sum, polynomial
from .exponential import (
    EXP_RANGE,
    LN2,
    clamped,
    exp_near_zero,
    exp_tail,
    reduce_by_ln2,
    reduce_by_ln2_exactly,
    scale_of,
    scaled,
)
from .logarithm import log1p_tail

# Up to the first, v / (1 + e**-v) rounds to 0; from the second on, 1 + e**-v rounds to 1.
LOGISTIC_RANGE = {32: (-109.0, 18.0), 64: (-752.0, 38.0)}
LOGISTIC_SCALE = {32: 2.0**-33, 64: 2.0**-64}  # times e**t, it is in range

# sqrt(8/pi), and its product with 0.044715, each as the sum of two floats.
SLOPE = {32: (1.5957692, -4.534068e-08), 64: (1.5957691216057308, -9.96930880911092e-17)}
CUBIC = {32: (0.071354814, 2.3988325e-09), 64: (0.07135481627260025, -6.175149918155315e-19)}

# With P the normal distribution's cumulative probability: (e**(-a**2/2) / (2 P(-a)) - 1) / a - 1 in terms of
# (a - CENTRE) / (a + CENTRE), 0 <= a <= GELU_IS_0: relative error of gelu(-a) 2**-29.9 and 2**-58.0.
GELU_IS_0 = {32: 14.5, 64: 38.7}  # gelu(-a) rounds to 0
GELU_SCALE = {32: 2.0**-64, 64: 2.0**-540}  # over it, all gelu(-a) are normal
CENTRE = {32: 3.8, 64: 3.5}
BEND = {
    32: (
        0.06776671, 0.24465325, -0.05520422, -0.017335918, 0.016645025, -0.0003671531, -0.004535143,
        0.0011386164, 0.0011777519, -0.0004154562, -0.00029229757,
    ),
    64: (
        0.05762048767086607, 0.24867741931864118, -0.04249998588690844, -0.023882549274940386,
        0.013778243491436646, 0.0032623656033551884, -0.00432854563384905, -0.00034325954926805064,
        0.0013492414990528385, -1.7795065077962382e-05, -0.00041903186670264107, 2.6777343929231863e-05,
        0.00012898610314669107, -1.0581553358602988e-05, -3.8849472633890934e-05, 2.9478915321294795e-06,
        1.1233400803101224e-05, -6.187877116707532e-07, -3.040628309055565e-06, 8.086697523863317e-08,
        7.383673191150882e-07, 1.037931202793513e-08, -1.4480059950358364e-07, -1.2109489674079933e-08,
        1.6821990933726664e-08, 3.1988477666559526e-09,
    ),
}  # fmt: skip

HALVED_FROM = 0.41421356  # beyond this, log(1 + e) is log 2 + log((1 + e) / 2)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e**-x)."""
    return over_one_plus_exp(x.constant(1.0), x)


def silu(x: Value) -> Value:
    """x / (1 + e**-x)."""
    lowest, highest = LOGISTIC_RANGE[x.format.bits]
    return select(x > highest, x, over_one_plus_exp(larger(x, lowest), x)).with_sign_of(x)


def gelu_tanh(x: Value) -> Value:
    """x / (1 + e**-v) with v = sqrt(8/pi) (x + 0.044715 x**3): that is x (1 + tanh(v/2)) / 2."""
    slope, slope_low = SLOPE[x.format.bits]
    cubic, cubic_low = CUBIC[x.format.bits]
    lowest, highest = LOGISTIC_RANGE[x.format.bits]
    square, square_low = exact_product(x, x)
    bend, bend_low = exact_product(square, cubic)
    factor, factor_low = exact_sum(x.constant(slope), bend)
    factor_low = factor_low + fma(square_low, cubic, fma(square, cubic_low, bend_low + slope_low))
    v, v_low = exact_product(factor, x)
    result = over_one_plus_exp(larger(x, lowest), v, fma(factor_low, x, v_low))
    return select(v > highest, x, result).with_sign_of(x)


def over_one_plus_exp(x: Value, v: Value, v_low: Value | None = None) -> Value:
    """x / (1 + e**-v); v may be given as the sum of two floats."""
    bits, one = v.format.bits, LOGISTIC_SCALE[v.format.bits]
    vanishes, bounded = clamped(v, LOGISTIC_RANGE)
    if v_low is not None:
        v_low = select(bounded.equals(v), -v_low, 0.0)
    r, shifted = reduce_by_ln2(-bounded, v_low)
    scale, tail = scale_of(shifted, one), exp_tail(r)
    if bits == 64:
        return select(vanishes, 0.0, x / fma(scale, r + tail, scale + one)) * one
    divisor = sum_of_products(fast_sum(scale, scale.constant(one)), scale, r, tail)
    inverse = 1.0 / divisor.high
    return select(vanishes, 0.0, corrected(x * inverse, x, divisor, inverse)) * one


def sum_of_products(x: Pair, y: Value, z: Value, z_low: Value) -> Pair:
    """x + y (z + z_low) nearly to twice the precision, for a product that is between -x/2 and x."""
    high = fma(y, z + z_low, x.high)
    return Pair(high, fma(y, z_low, fma(y, z, x.high - high)) + x.low)


def corrected(quotient: Value, x: Value, divisor: Pair, inverse: Value, x_low: Value | None = None) -> Value:
    """x / divisor, or that of the sum of x and x_low, given it and 1 / divisor within a few units in the last place."""
    rest = fma(-quotient, divisor.high, x)
    if x_low is not None:
        rest = rest + x_low
    return fma(fma(-quotient, divisor.low, rest), inverse, quotient)


def gelu(x: Value) -> Value:
    """x times the normal distribution's cumulative probability at x: max(x, 0) + gelu(-|x|).

    gelu(-a) is -a/2 e**(-a**2/2) / D with D = 1 + a (1 + bend), the last a polynomial.
    """
    size = x.abs()
    size = select(size < GELU_IS_0[x.format.bits], size, 0.0)  # beyond, what is added to max(x, 0) is 0, as it is at 0
    minus_half = size * -0.5
    exponent, exponent_low = exact_product(minus_half, size)
    (r, r_low), shifted = reduce_by_ln2_exactly(exponent, exponent_low)
    dividend = fma(minus_half, r, minus_half)
    dividend_low = fma(minus_half, exp_tail(r) + r_low, fma(minus_half, r, minus_half - dividend))
    centre = CENTRE[x.format.bits]
    bend = polynomial((size - centre) / (size + centre), BEND[x.format.bits])
    slope, slope_low = fast_sum(size.constant(1.0), bend)
    divisor = fma(size, slope, 1.0)
    divisor_low = fma(size, slope_low, fma(size, slope, 1.0 - divisor))
    inverse = 1.0 / divisor
    tail = corrected(dividend * inverse, dividend, Pair(divisor, divisor_low), inverse, dividend_low)
    middle = GELU_SCALE[x.format.bits]
    return fma(tail * scale_of(shifted, 1 / middle), middle, larger(x, 0.0)).with_sign_of(x)


def softplus(x: Value) -> Value:
    """log(1 + e**x), as max(x, 0) + log(1 + e**-|x|)."""
    bits = x.format.bits
    if bits == 32:
        x = x.to_double()
    r, shifted = reduce_by_ln2(larger(-x.abs(), EXP_RANGE[bits][0]))
    e = scaled(exp_near_zero(r, bits), shifted)
    half = e > HALVED_FROM
    f = select(half, fma(e, 0.5, -0.5), e)
    ln2, ln2_low = (select(half, x.constant(part), 0.0) for part in LN2[64])
    result = larger(x, 0.0) + (ln2 + (f + (log1p_tail(f, bits) + ln2_low)))
    return result.to_single() if bits == 32 else result
