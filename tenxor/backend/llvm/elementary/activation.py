"""sigmoid, silu, gelu, gelu_tanh, softplus: what neural networks apply to each element.

All but softplus are x, or 1, over a sum of positive terms. The sum is carried as that of two floats, and the quotient
is corrected by its remainder; so little more than the last rounding is lost, in the far tails too.
"""

from ..builder import Value, fma, larger, select, smaller
from ..formats import SINGLE
from .core import Pair, exact_product, exact_sum, fast_sum, polynomial, unless_rare
from .exponential import (
    EXP_RANGE,
    LN2,
    clamped,
    exp_near_zero,
    exp_tail,
    reduce_by_ln2,
    reduce_by_ln2_exactly,
    reduce_by_ln2_in_two,
    scale_of,
    scaled,
)
from .logarithm import log1p_tail
from .tables import intervals

# Up to the first, v / (1 + e**-v) rounds to 0; from the second on, 1 + e**-v rounds to 1.
LOGISTIC_RANGE = {32: (-109.0, 18.0), 64: (-752.0, 38.0)}
LOGISTIC_USUAL = -86.0  # from here on, 1 + e**-v and its inverse are normal numbers, in float32
LOGISTIC_SCALE = {32: 2.0**-33, 64: 2.0**-64}  # times e**t, it is in range

# sqrt(8/pi), and its product with 0.044715, each as the sum of two floats.
SLOPE = {32: (1.5957692, -4.534068e-08), 64: (1.5957691216057308, -9.96930880911092e-17)}
CUBIC = {32: (0.071354814, 2.3988325e-09), 64: (0.07135481627260025, -6.175149918155315e-19)}

GELU_IS_0 = {32: 14.5, 64: 38.7}  # gelu(-a) rounds to 0
GELU_SCALE = {32: 2.0**-64, 64: 2.0**-540}  # over it, all gelu(-a) are normal

# -gelu(-a) e**(a**2/2) in float32, 0 <= a < GELU_IS_0. Sizes are counted by 32 intervals, four to a doubling, from FIRST on. The centre
# of each is a float32 whose value is very nearly a float32, too; that of the first is 0.
FIRST = SINGLE.to_bits(0.0625)
END_OF_FIRST = 0.078125
CENTRES = (
    0.0, 0.0856905, 0.10150814, 0.11719012, 0.14056873, 0.17182016, 0.20325851, 0.23428965, 0.28131104,
    0.34380436, 0.40626907, 0.4693966, 0.5614166, 0.6870308, 0.8137398, 0.9383106, 1.125061, 1.3768883, 1.6257362,
    1.8729744, 2.2469559, 2.7486954, 3.2626038, 3.7491379, 4.4994354, 5.4991913, 6.50058, 7.4997253, 8.989258,
    11.000946, 12.990753, 14.253632,
)  # fmt: skip
AT_CENTRES = (
    0.0, 0.040066283, 0.046891417, 0.05349477, 0.06304715, 0.075293384, 0.08703967, 0.098100774, 0.113915764,
    0.13330977, 0.15101735, 0.16738255, 0.18879822, 0.21402434, 0.23557149, 0.25362027, 0.27600434, 0.29940674,
    0.31695798, 0.330448, 0.34561354, 0.359464, 0.36891025, 0.37513772, 0.3816114, 0.38688156, 0.39010337,
    0.39219776, 0.39417812, 0.39572433, 0.39661914, 0.39700696,
)  # fmt: skip
# (f(centre + d) - f(centre)) / d in terms of d, of the first less 1/2: relative error of the whole 2**-27.0.
NEAR_CENTRES = (
    (
        -1.4235392e-10, 0.43681747, 0.42621133, 0.41599545, 0.40129837, 0.382601, 0.36482468, 0.34823173,
        0.32476485, 0.2964233, 0.27099335, 0.24789755, 0.2183106, 0.1844764, 0.1565511, 0.13393739,
        0.10701121, 0.08040241, 0.061677888, 0.048141506, 0.033986792, 0.022262424, 0.01508974, 0.010813136,
        0.006834031, 0.004028239, 0.002552507, 0.0017128836, 0.001023662, 0.0005713066, 0.00035155177,
        0.00026767686,
    ),
    (
        -0.3989422, -0.34016043, -0.3304189, -0.32107222, -0.30769014, -0.29077962, -0.27482575, -0.26004797,
        -0.23934655, -0.2146767, -0.19287682, -0.17337859, -0.14886242, -0.12154743, -0.09967484,
        -0.082484566, -0.0627407, -0.04418288, -0.031848256, -0.02341034, -0.015145058, -0.008881868,
        -0.0054160636, -0.003534573, -0.001956113, -0.0009846583, -0.0005425119, -0.00032143996,
        -0.00016315952, -7.549377e-05, -3.967704e-05, -2.7637903e-05,
    ),
    (
        0.24999073, 0.20869257, 0.20192559, 0.19545557, 0.18623199, 0.17464657, 0.1637921, 0.15380701,
        0.13993879, 0.123609364, 0.10937669, 0.096820965, 0.08129738, 0.06440257, 0.05123895, 0.0411699,
        0.029976256, 0.019922594, 0.013579863, 0.009455101, 0.0056497166, 0.0029932125, 0.0016545091,
        0.000989331, 0.00048296677, 0.00020909886, 0.00010067599, 5.285906e-05, 2.2876036e-05, 8.802018e-06,
        3.9589327e-06, 2.524929e-06,
    ),
    (
        -0.13264683, -0.108917855, -0.10501707, -0.10129935, -0.09602496, -0.08943027, -0.08329077,
        -0.07767862, -0.06995764, -0.060949028, -0.05319552, -0.046441462, -0.03824378, -0.029478723,
        -0.022819145, -0.017850777, -0.012517533, -0.007889942, -0.005108691, -0.0033833995, -0.0018888537,
        -0.0009094947, -0.00045812054, -0.00025205663, -0.00011035181, -4.1201154e-05, -1.7370927e-05,
        -8.09435e-06, -3.0385127e-06, -9.692386e-07, -3.7229313e-07, -2.1539563e-07,
    ),
    (
        0.057546813, 0.050283764, 0.048349757, 0.04649579, 0.04387084, 0.04059727, 0.037585862, 0.034813978,
        0.031081837, 0.026735742, 0.023038682, 0.01988767, 0.016025314, 0.012060722, 0.009136936,
        0.0069661904, 0.0047070812, 0.0028349003, 0.0017460334, 0.0010982819, 0.0005727356, 0.00025305687,
        0.00011924657, 5.948237e-05, 2.332219e-05, 7.569073e-06, 2.8148943e-06, 1.1682813e-06, 3.7519865e-07,
        1.00765156e-07, 3.3028215e-08, 1.758456e-08,
    ),
)  # fmt: skip

# In float64, with P the normal distribution's cumulative probability: (e**(-a**2/2) / (2 P(-a)) - 1) / a - 1 in terms of
# (a - CENTRE) / (a + CENTRE), 0 <= a <= GELU_IS_0: relative error of gelu(-a) 2**-58.0.
CENTRE = 3.5
BEND = (
    0.05762048767086607, 0.24867741931864118, -0.04249998588690844, -0.023882549274940386,
    0.013778243491436646, 0.0032623656033551884, -0.00432854563384905, -0.00034325954926805064,
    0.0013492414990528385, -1.7795065077962382e-05, -0.00041903186670264107, 2.6777343929231863e-05,
    0.00012898610314669107, -1.0581553358602988e-05, -3.8849472633890934e-05, 2.9478915321294795e-06,
    1.1233400803101224e-05, -6.187877116707532e-07, -3.040628309055565e-06, 8.086697523863317e-08,
    7.383673191150882e-07, 1.037931202793513e-08, -1.4480059950358364e-07, -1.2109489674079933e-08,
    1.6821990933726664e-08, 3.1988477666559526e-09,
)  # fmt: skip

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
    if v.format.bits == 64:
        return over_any_sum(x, v, v_low)
    rare, bounded = v < LOGISTIC_USUAL, smaller(v, LOGISTIC_RANGE[32][1])
    usual = over_precise_sum(x, *reduce_by_ln2(-bounded, low_part(v, v_low, bounded)))
    (found,) = unless_rare(rare, [usual], lambda: [select(rare, over_any_sum(x, v, v_low), usual)])
    return found


def over_any_sum(x: Value, v: Value, v_low: Value | None) -> Value:
    """The same where 1 + e**-v may be out of range, too, or the result subnormal."""
    one = LOGISTIC_SCALE[v.format.bits]
    vanishes, bounded = clamped(v, LOGISTIC_RANGE)
    r, shifted = reduce_by_ln2(-bounded, low_part(v, v_low, bounded))
    if v.format.bits == 32:
        return select(vanishes, 0.0, over_precise_sum(x, r, shifted, one)) * one
    scale, tail = scale_of(shifted, one), exp_tail(r)
    return select(vanishes, 0.0, x / fma(scale, r + tail, scale + one)) * one


def low_part(v: Value, v_low: Value | None, bounded: Value) -> Value | None:
    """What is to be added to -v, if v was not bounded."""
    return None if v_low is None else select(bounded.equals(v), -v_low, 0.0)


def over_precise_sum(x: Value, r: Value, shifted: Value, one: float = 1.0) -> Value:
    """x / (1 + 2**n e**r), times 1 / `one`, a power of two, with a divisor nearly of twice the precision."""
    scale, tail = scale_of(shifted, one), exp_tail(r)
    divisor = sum_of_products(fast_sum(scale, scale.constant(one)), scale, r, tail)
    inverse = 1.0 / divisor.high
    return corrected(x * inverse, x, divisor, inverse)


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
    """x times the normal distribution's cumulative probability at x: max(x, 0) + gelu(-|x|), where that is e**(-x**2/2) times a smooth
    function.
    """
    bits = x.format.bits
    size = x.abs()
    size = select(size < GELU_IS_0[bits], size, 0.0)  # beyond, what is added to max(x, 0) is 0, as it is at 0
    tail, shifted = (gelu_tail_from_table if bits == 32 else gelu_tail_by_division)(size, *exact_product(size * -0.5, size))
    middle = GELU_SCALE[bits]
    return fma(tail * scale_of(shifted, 1 / middle), middle, larger(x, 0.0)).with_sign_of(x)


def gelu_tail_from_table(size: Value, exponent: Value, exponent_low: Value) -> tuple[Value, Value]:
    """gelu(-size), but for the power of two that `shifted` says: by a polynomial around the nearest of some centres."""
    entry = intervals(size, FIRST)
    d = size - entry(CENTRES)
    slope = entry(NEAR_CENTRES[-1])
    for table in NEAR_CENTRES[-2::-1]:
        slope = fma(slope, d, entry(table))
    at, most = -entry(AT_CENTRES), select(size < END_OF_FIRST, d * -0.5, 0.0)
    step = fma(slope, -d, most)
    step_low = fma(slope, -d, most - step)
    (r, r_low), shifted = reduce_by_ln2_in_two(exponent, exponent_low)
    tail = exp_tail(r)
    e, e_low = fast_sum(r.constant(1.0), r)
    more = fma(r_low, e + tail, tail)
    return fma(at, e, step + fma(at, e_low + more, fma(step, r + more, step_low))), shifted


def gelu_tail_by_division(size: Value, exponent: Value, exponent_low: Value) -> tuple[Value, Value]:
    """The same as -size/2 e**(-size**2/2) / D with D = 1 + size (1 + bend), the last a polynomial."""
    minus_half = size * -0.5
    (r, r_low), shifted = reduce_by_ln2_exactly(exponent, exponent_low)
    dividend = fma(minus_half, r, minus_half)
    dividend_low = fma(minus_half, exp_tail(r) + r_low, fma(minus_half, r, minus_half - dividend))
    bend = polynomial((size - CENTRE) / (size + CENTRE), BEND)
    slope, slope_low = fast_sum(size.constant(1.0), bend)
    divisor = fma(size, slope, 1.0)
    divisor_low = fma(size, slope_low, fma(size, slope, 1.0 - divisor))
    inverse = 1.0 / divisor
    return corrected(dividend * inverse, dividend, Pair(divisor, divisor_low), inverse, dividend_low), shifted


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
