"""Emit sigmoid, silu, gelu, gelu_tanh and softplus, the activation functions of neural networks. The functions append instructions while a
kernel is compiled; x is a float32 or float64, or a vector of these.

All but softplus, and gelu of float32, are x, or 1, over a sum of positive terms. The sum is carried as a sum of two floats, and the
quotient is corrected by its remainder. So little more than the last rounding is lost, in the far tails too.
"""

from ..builder import Value, fma, select, select_larger, select_smaller
from ..float_formats import FLOAT32_FORMAT
from .exponential import (
    EXP_RANGE,
    LN2,
    clamp_to_range,
    exp_near_zero,
    exp_tail,
    reduce_by_ln2,
    reduce_by_ln2_exactly,
    scale_by_power,
    scale_of,
)
from .formula_helpers import Pair, exact_product, exact_sum, fast_sum, polynomial, unless_rare
from .logarithm import log1p_tail
from .lookup_tables import look_up, make_half_octave_lookup

# Up to the first, v / (1 + e**-v) rounds to 0; from the second on, 1 + e**-v rounds to 1.
LOGISTIC_RANGE = {32: (-109.0, 18.0), 64: (-752.0, 38.0)}
LOGISTIC_NORMAL_FROM = -86.0  # from here on, 1 + e**-v and its inverse are normal numbers, in float32
LOGISTIC_SCALE = {32: 2.0**-33, 64: 2.0**-64}  # times e**t, this is in range

# sqrt(8/pi), and its product with 0.044715, each as the sum of two floats.
TANH_SLOPE = {32: (1.5957692, -4.534068e-08), 64: (1.5957691216057308, -9.96930880911092e-17)}
TANH_CUBIC = {32: (0.071354814, 2.3988325e-09), 64: (0.07135481627260025, -6.175149918155315e-19)}

GELU_IS_0 = {32: 14.5, 64: 38.7}  # gelu(-a) rounds to 0
GELU_SCALE = {32: 2.0**-64, 64: 2.0**-540}  # divided by this, all gelu(-a) are normal

# In float32, -gelu(-a) is a m(a) 2**(-a**2/HALVING), 0 <= a < GELU_IS_0, with a smooth m. HALVING has so few bits that its multiples are
# exact. It is a little less than 2 ln 2, which makes m flatter.
HALVING_DISTANCE = 1.3671875
# (2**(-r/HALVING) - 1) / r, |r| <= HALVING/16: relative error of the power 2**-33.5.
POWER_STEP = (-0.50698763, 0.12851824, -0.021721592, 0.0027526885)
# The powers of 2 by eighths as float32, and by how much of each it is less than the exact power.
EIGHTH_POWERS = tuple(FLOAT32_FORMAT.round_value(2.0 ** (k / 8)) for k in range(8))
POWER_ERRORS = tuple(2.0 ** (k / 8) / power - 1.0 for k, power in enumerate(EIGHTH_POWERS))
# Magnitudes a fall into 8 intervals of INTERVAL_SLOPE a + INTERVAL_OFFSET, two to a doubling: a register of AVX2 holds a number for each.
# The centre of each interval is a float32 whose m is very nearly a float32, too.
INTERVAL_OFFSET, INTERVAL_SLOPE = 0.85, 0.879
GELU_CENTRES = (0.15502265, 0.624548, 1.2883059, 2.2300959, 3.5528798, 5.4271073, 8.080947, 11.82323)
GELU_AT_CENTRES = (0.44377586, 0.32432795, 0.2292381, 0.16018936, 0.114626646, 0.087510504, 0.07677246, 0.088989265)
# (m(centre + d) / m(centre) - 1) / d in terms of d: relative error of m 2**-27.1. The first coefficients are very nearly float32s, too.
GELU_NEAR_CENTRES = (
    (
        -0.7419343, -0.60013926, -0.4542871, -0.31724867, -0.19876066, -0.097618945, -0.0072855763, 0.08182292,
    ),
    (
        0.44770166, 0.3115779, 0.19441839, 0.10811524, 0.054594915, 0.02600256, 0.014045208, 0.01376699,
    ),
    (
        -0.22940432, -0.13995822, -0.073083125, -0.03215728, -0.012034719, -0.003711669, -0.00063609134, 0.0007581238,
    ),
    (
        0.10447135, 0.056805488, 0.02535926, 0.009081923, 0.0026501946, 0.00064061536, 0.00014692686, 8.697702e-05,
    ),
    (
        -0.043270685, -0.021223985, -0.008225201, -0.002438128, -0.00055934396, -9.9595796e-05, -1.2495483e-05, 3.0455574e-06,
    ),
    (
        0.016572017, 0.0074129556, 0.0025296875, 0.00063237303, 0.00011624659, 1.5921329e-05, 1.711302e-06, 3.8295815e-07,
    ),
    (
        -0.0052733016, -0.0021084896, -0.00062185683, -0.00012912192, -1.873023e-05, -1.9404342e-06, -1.4336707e-07, 8.725774e-09,
    ),
)  # fmt: skip

# In float64, with P the normal distribution's cumulative probability: (e**(-a**2/2) / (2 P(-a)) - 1) / a - 1 in terms of
# (a - GELU_CENTRE) / (a + GELU_CENTRE), 0 <= a <= GELU_IS_0: relative error of gelu(-a) 2**-58.0.
GELU_CENTRE = 3.5
GELU_BEND = (
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
    """Emit 1 / (1 + e**-x)."""
    return divide_by_one_plus_exp(x.constant(1.0), x)


def silu(x: Value) -> Value:
    """Emit x / (1 + e**-x)."""
    lowest, highest = LOGISTIC_RANGE[x.format.bits]
    return select(x > highest, x, divide_by_one_plus_exp(select_larger(x, lowest), x)).with_sign_of(x)


def gelu_tanh(x: Value) -> Value:
    """Emit x / (1 + e**-v) with v = sqrt(8/pi) (x + 0.044715 x**3), which is x (1 + tanh(v/2)) / 2."""
    slope, slope_low = TANH_SLOPE[x.format.bits]
    cubic, cubic_low = TANH_CUBIC[x.format.bits]
    lowest, highest = LOGISTIC_RANGE[x.format.bits]
    square, square_low = exact_product(x, x)
    bend, bend_low = exact_product(square, cubic)
    factor, factor_low = exact_sum(x.constant(slope), bend)
    factor_low = factor_low + fma(square_low, cubic, fma(square, cubic_low, bend_low + slope_low))
    v, v_low = exact_product(factor, x)
    result = divide_by_one_plus_exp(select_larger(x, lowest), v, fma(factor_low, x, v_low))
    return select(v > highest, x, result).with_sign_of(x)


def divide_by_one_plus_exp(x: Value, v: Value, v_low: Value | None = None) -> Value:
    """Emit x / (1 + e**-(`v` + `v_low`)), where `v_low` is a small correction of `v`, or None for 0. Sigmoid, silu and gelu_tanh are so.

    In float32, lanes with a very negative `v` are handled out of line.
    """
    if v.format.bits == 64:
        return divide_by_any_sum(x, v, v_low)
    rare, bounded = v < LOGISTIC_NORMAL_FROM, select_smaller(v, LOGISTIC_RANGE[32][1])
    usual = divide_by_precise_sum(x, *reduce_by_ln2(-bounded, low_part(v, v_low, bounded)))
    (quotient,) = unless_rare(rare, [usual], lambda: [select(rare, divide_by_any_sum(x, v, v_low), usual)])
    return quotient


def divide_by_any_sum(x: Value, v: Value, v_low: Value | None) -> Value:
    """Emit x / (1 + e**-(`v` + `v_low`)), also where the divisor is out of range, or the result is subnormal.

    `v_low` is a small correction of `v`, or None for 0.
    """
    unit = LOGISTIC_SCALE[v.format.bits]
    vanishes, bounded = clamp_to_range(v, LOGISTIC_RANGE)
    r, shifted = reduce_by_ln2(-bounded, low_part(v, v_low, bounded))
    if v.format.bits == 32:
        return select(vanishes, 0.0, divide_by_precise_sum(x, r, shifted, unit)) * unit
    scale, tail = scale_of(shifted, unit), exp_tail(r)
    return select(vanishes, 0.0, x / fma(scale, r + tail, scale + unit)) * unit


def low_part(v: Value, v_low: Value | None, bounded: Value) -> Value | None:
    """Emit -`v_low`, the small part of -(`v` + `v_low`); return None if `v_low` is None.

    `bounded` is `v` limited to a range. The result is 0 in lanes where the limit has changed `v`.
    """
    return None if v_low is None else select(bounded.equals(v), -v_low, 0.0)


def divide_by_precise_sum(x: Value, r: Value, shifted: Value, unit: float = 1.0) -> Value:
    """Emit x / (`unit` (1 + 2**n e**r)), with a divisor of nearly twice the precision.

    `r` and `shifted`, which has the integer n in its low bits, are from `reduce_by_ln2`. The caller must bound n: `unit` 2**n must be a
    normal number. `unit` is a power of two that keeps the divisor in range; the caller then multiplies the quotient by `unit`.
    """
    scale, tail = scale_of(shifted, unit), exp_tail(r)
    divisor = add_product(fast_sum(scale, scale.constant(unit)), scale, r, tail)
    inverse = 1.0 / divisor.high
    return correct_quotient(x * inverse, x, divisor, inverse)


def add_product(x: Pair, y: Value, z: Value, z_low: Value) -> Pair:
    """Emit x + y (z + z_low) as the sum of two floats, to nearly twice the precision of a float. The product must lie between -x/2 and x.

    Then the result lies between x/2 and 2 x, and the rounding error of its first part is exact.
    """
    high = fma(y, z + z_low, x.high)
    return Pair(high, fma(y, z_low, fma(y, z, x.high - high)) + x.low)


def correct_quotient(quotient: Value, x: Value, divisor: Pair, inverse: Value, x_low: Value | None = None) -> Value:
    """Emit x / `divisor`, or (x + x_low) / `divisor`, by one correction of the approximation `quotient`. The divisor is the sum of two
    floats.

    `quotient` and `inverse`, an approximation of 1 / `divisor`, must be right to a few units in the last place.
    """
    remainder = fma(-quotient, divisor.high, x)
    if x_low is not None:
        remainder = remainder + x_low
    return fma(fma(-quotient, divisor.low, remainder), inverse, quotient)


def gelu(x: Value) -> Value:
    """Emit x times the normal distribution's cumulative probability at x, for a float32 or float64.

    This is max(x, 0) + gelu(-|x|), where gelu(-|x|) rounds to 0 from |x| = GELU_IS_0 on.
    """
    return (gelu_from_tables if x.format.bits == 32 else gelu_by_division)(x)


def gelu_from_tables(x: Value) -> Value:
    """Emit gelu of x in float32: gelu(-|x|) is a power of 2 times a polynomial around the nearest of some centres.

    Each factor is a number of a table, and a relative change. So everything but the product of |x| and the two numbers is small, and its
    rounding does not show.
    """
    magnitude, root_scale = x.abs(), GELU_SCALE[32] ** 0.5  # scaling by its inverse, twice, keeps intermediates normal
    is_nonzero, positive_part = magnitude < GELU_IS_0[32], select_larger(x, -0.0)
    power, change = power_by_eighths(magnitude, 1 / root_scale)
    power = select(is_nonzero, power, 0.0)  # beyond, its bits mean nothing
    entry = make_half_octave_lookup(fma(magnitude, INTERVAL_SLOPE, INTERVAL_OFFSET), INTERVAL_OFFSET)
    d = magnitude - entry(GELU_CENTRES)
    slope, *bends = [entry(table) for table in GELU_NEAR_CENTRES]
    bend = polynomial(d, bends) * d
    change = fma(d, slope, fma(d, fma(slope + bend, change, bend), change))  # the largest term is added last, and rounded only there
    factor, factor_low = exact_product(magnitude, entry([value / root_scale for value in GELU_AT_CENTRES]))
    tail = fma(factor, power, power * fma(factor, change, factor_low))
    return select(is_nonzero, fma(tail, -root_scale * root_scale, positive_part), positive_part)


def power_by_eighths(magnitude: Value, times: float) -> tuple[Value, Value]:
    """Emit 2**(-magnitude**2 / HALVING_DISTANCE) times `times`, a power of 2, in float32. Return two values p and c: the product is p (1 +
    c).

    The first is the power with its exponent rounded to eighths, times `times`; the second is the relative change from there.
    """
    rounder = FLOAT32_FORMAT.rounder / len(EIGHTH_POWERS)  # adding it rounds to eighths, which are the lowest bits of the sum
    shifted = fma(magnitude * magnitude, -1 / HALVING_DISTANCE, rounder)
    remainder = fma(magnitude, magnitude, fma(shifted, HALVING_DISTANCE, -rounder * HALVING_DISTANCE))
    # The low bits tell the eighth. They go into the fraction where whole powers go into the exponent, so the table is without them.
    eighths, shift = shifted.as_bits(), FLOAT32_FORMAT.fraction_bits - 3
    table = [FLOAT32_FORMAT.from_bits(FLOAT32_FORMAT.to_bits(power * times) - (k << shift)) for k, power in enumerate(EIGHTH_POWERS)]
    power = (look_up(table, eighths).as_bits() + (eighths << shift)).as_float()
    return power, fma(polynomial(remainder, POWER_STEP), remainder, look_up(POWER_ERRORS, eighths))


def gelu_by_division(x: Value) -> Value:
    """Emit gelu of x in float64. For a >= 0, gelu(-a) is -a/2 e**(-a**2/2) / D with D = 1 + a (1 + bend); bend is a polynomial."""
    magnitude, scale = x.abs(), GELU_SCALE[64]
    magnitude = select(magnitude < GELU_IS_0[64], magnitude, 0.0)  # beyond, the term added to max(x, 0) is 0, as at 0
    minus_half = magnitude * -0.5
    (r, r_low), shifted = reduce_by_ln2_exactly(*exact_product(minus_half, magnitude))
    dividend = fma(minus_half, r, minus_half)
    dividend_low = fma(minus_half, exp_tail(r) + r_low, fma(minus_half, r, minus_half - dividend))
    bend = polynomial((magnitude - GELU_CENTRE) / (magnitude + GELU_CENTRE), GELU_BEND)
    slope, slope_low = fast_sum(magnitude.constant(1.0), bend)
    divisor = fma(magnitude, slope, 1.0)
    divisor_low = fma(magnitude, slope_low, fma(magnitude, slope, 1.0 - divisor))
    inverse = 1.0 / divisor
    tail = correct_quotient(dividend * inverse, dividend, Pair(divisor, divisor_low), inverse, dividend_low)
    return fma(tail * scale_of(shifted, 1 / scale), scale, select_larger(x, 0.0)).with_sign_of(x)


def softplus(x: Value) -> Value:
    """Emit log(1 + e**x), as max(x, 0) + log(1 + e**-|x|)."""
    bits = x.format.bits
    if bits == 32:
        x = x.to_double()
    r, shifted = reduce_by_ln2(select_larger(-x.abs(), EXP_RANGE[bits][0]))
    e = scale_by_power(exp_near_zero(r, bits), shifted)
    is_halved = e > HALVED_FROM
    f = select(is_halved, fma(e, 0.5, -0.5), e)
    ln2, ln2_low = (select(is_halved, x.constant(component), 0.0) for component in LN2[64])
    result = select_larger(x, 0.0) + (ln2 + (f + (log1p_tail(f, bits) + ln2_low)))
    return result.to_single() if bits == 32 else result
