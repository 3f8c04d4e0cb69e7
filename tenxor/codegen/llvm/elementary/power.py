"""Emit pow, hypot and rsqrt. The functions that take `Value`s append instructions while a kernel is compiled; the others compute constants
when the module is imported.

x**y is e**(y log|x|). The logarithm and its product with y are carried as sums of two floats: a relative error of the exponent grows by the
magnitude of the exponent, up to 2**7 in float32 and 2**10 in float64. Tables cut both series short.
"""

from decimal import Decimal, localcontext
from math import inf, nan

from ..builder import Value, fma, select, select_larger, select_smaller
from ..float_formats import FLOAT32_FORMAT, FLOAT64_FORMAT
from .exponential import EXP_RANGE, LOG2_E, clamp_to_range, scale_by_power
from .formula_helpers import Pair, exact_product, fast_sum, split_polynomial, unless_rare
from .logarithm import needs_special_log, normalize_bits
from .lookup_tables import look_up

# Numbers fall into intervals of equally many floats, 32 to a doubling, which differ above the lowest STEP_BITS; 1 is in the middle of
# number 18. The middle of each interval has an inverse in a table.
INTERVALS = 32
STEP_BITS = {32: 18, 64: 47}
FIRST_BITS = {format.bits: format.to_bits(1.0) - (2 * 18 + 1 << STEP_BITS[format.bits] - 1) for format in (FLOAT32_FORMAT, FLOAT64_FORMAT)}


def round_to_digits(value: Decimal, count: int) -> float:
    """Return `value` rounded to `count` binary digits after the point."""
    return int((value * (1 << count)).to_integral_value()) / (1 << count)


def interval_edges(number: int) -> tuple[float, float]:
    """Return the float32 numbers at the begin and the end of the interval number `number`, as Python floats.

    The end belongs to the next interval. The intervals 0 to INTERVALS - 1 cover numbers m from about 0.71 to 1.42. Each has equally many
    float32 numbers, so intervals above 1 are twice as wide.
    """
    begin_bits = FIRST_BITS[32] + (number << STEP_BITS[32])
    return FLOAT32_FORMAT.from_bits(begin_bits), FLOAT32_FORMAT.from_bits(begin_bits + (1 << STEP_BITS[32]))


def short_inverse(low: float, high: float) -> float:
    """Return the inverse of the middle of an interval with the edges `low` and `high`, rounded to a few binary digits.

    The digits are so few that m * inverse - 1 is exactly a float, for every float m of the interval. The magnitude of that float is at most
    0.0198.
    """
    spare = 0 if low < 1 else 1  # the digits by which m has fewer after the point
    for count in (7, 6, 5):
        inverse = round(2**count * 2 / (low + high)) / 2**count
        if max(abs(low * inverse - 1), abs(high * inverse - 1)) <= 2.0 ** (spare - count):
            break
    return inverse


def compute_low_parts(values: list[Decimal], high_parts: list[float]) -> list[float]:
    """Return each of `values` minus the float at the same index in `high_parts`, rounded to a float."""
    return [float(value - Decimal(high)) for value, high in zip(values, high_parts, strict=True)]


INVERSES = tuple(short_inverse(*interval_edges(k)) for k in range(INTERVALS))

# Sums of two floats: log 2, the logarithms of the inverses, negated, and 2**(k/32). The first parts of the logarithms have
# so few digits that those of products with exponents can be added up exactly.
with localcontext(prec=50):
    LOG_2 = Decimal(2).ln()
    LOGS = [-Decimal(inverse).ln() for inverse in INVERSES]
    POWERS = [(LOG_2 * k / INTERVALS).exp() for k in range(INTERVALS)]
    LN2_HIGH = {32: round_to_digits(LOG_2, 11), 64: round_to_digits(LOG_2, 36)}
    LN2_LOW = {bits: float(LOG_2 - Decimal(high)) for bits, high in LN2_HIGH.items()}
    LOG_HIGH = {32: [round_to_digits(log, 16) for log in LOGS], 64: [round_to_digits(log, 42) for log in LOGS]}
    LOG_LOW = {bits: compute_low_parts(LOGS, high) for bits, high in LOG_HIGH.items()}
    ROOTS = {format.bits: [format.round_value(float(power)) for power in POWERS] for format in (FLOAT32_FORMAT, FLOAT64_FORMAT)}
    ROOTS_LOW = {bits: compute_low_parts(POWERS, high) for bits, high in ROOTS.items()}

# (log(1+r) - r + r**2/2) / r**3 for |r| <= 0.0232: relative error of the logarithm 2**-40.1 and 2**-66.6.
LOG1P_TAIL = {
    32: (0.3333333, -0.24999999, 0.200107, -0.16677023),
    64: (
        0.3333333333333328, -0.2499999999999991, 0.2000000000095997, -0.16666666667911384, 0.1428570889370406,
        -0.12499994028845086, 0.1112304008745655, -0.10011845443162991,
    ),
}  # fmt: skip

# (e**r - 1 - r) / r**2 for |r| <= ln2/64: relative error of e**r 2**-33.2 and 2**-63.2.
EXP_TAIL = {
    32: (0.50000405, 0.1666668),
    64: (0.49999999999999994, 0.16666666666525592, 0.04166666666831163, 0.00833336804635411, 0.0013888816359562753),
}


def pow(x: Value, y: Value) -> Value:
    """Emit x**y, with the special values of C99 (Annex F). Arguments other than positive normal x and finite y are handled out of line."""
    rare = needs_special_log(x) | ~(y.abs() < inf)
    (bits,) = unless_rare(rare, [x.as_bits()], lambda: [normalize_bits(x.abs())])
    magnitude = exp_of_product(precise_log(bits), y)
    (result,) = unless_rare(rare, [magnitude], lambda: [special_power(x, y, magnitude)])
    return result


def precise_log(bits: Value) -> Pair:
    """Emit the natural logarithm of a positive number as the sum of two floats, precise to about 35 bits in float32 and 64 bits in float64.

    `bits` are the bits of the number from `normalize_bits`. The first float alone may be right to only a third of its bits.
    """
    format, width = bits.format, bits.format.bits
    position = bits - FIRST_BITS[width]
    exponent = position >> format.fraction_bits
    m = (bits - (exponent << format.fraction_bits)).as_float()
    interval = position >> STEP_BITS[width]
    r = fma(m, look_up(INVERSES, interval), -1.0)
    # log(1 + r): r - r**2/2 exactly, and the rest
    square = r * r
    high = fma(square, -0.5, r)
    low = fma(square, -0.5, r - high)
    square_low = fma(r, r, -square)
    tail = split_polynomial(r, square, LOG1P_TAIL[width])
    low = low + fma(tail, square * r, square_low * -0.5)
    # exponent ln2 - log(inverse)
    n = exponent.to_float()
    exponent_log = fma(n, LN2_HIGH[width], look_up(LOG_HIGH[width], interval))
    exponent_log_low = fma(n, LN2_LOW[width], look_up(LOG_LOW[width], interval))
    total, total_low = fast_sum(exponent_log, high)
    return Pair(total, (total_low + exponent_log_low) + low)


def exp_of_product(x: Pair, y: Value) -> Value:
    """Emit e**(x y), where x is the sum of two floats: 0 or infinity where the result is out of range, NaN for NaN."""
    format, width = y.format, y.format.bits
    product, error = exact_product(x.high, y)
    error = fma(x.low, y, error)
    vanishes, bounded = clamp_to_range(product, EXP_RANGE)
    # If the product is out of range, so is the result, and its error may be anything.
    error = select(bounded.equals(product), error, 0.0)
    # (n + k/32) ln2 + r, with n and k in the low bits of `shifted`
    rounder = format.rounder / INTERVALS
    shifted = fma(bounded + error, LOG2_E, rounder)
    multiple = shifted - rounder
    r = fma(multiple, -LN2_HIGH[width], bounded) + fma(multiple, -LN2_LOW[width], error)
    indices = shifted.as_bits()
    root, root_low = look_up(ROOTS[width], indices), look_up(ROOTS_LOW[width], indices)
    square = r * r
    small = fma(split_polynomial(r, square, EXP_TAIL[width]), square, r)
    return select(vanishes, 0.0, scale_by_power(root + fma(small, root, root_low), shifted, rounder))


def special_power(x: Value, y: Value, magnitude: Value) -> Value:
    """Emit x**y with the special values of C99, given `magnitude`, which is |x|**y for ordinary x and y."""
    base_magnitude = x.abs()
    is_integer = y.floor().equals(y)
    is_odd = is_integer & (y * 0.5).floor().differs(y * 0.5)
    # 0 and infinity to a power that is positive, or negative
    is_extreme = base_magnitude.equals(0.0) | base_magnitude.equals(inf)
    vanishes = base_magnitude.equals(0.0) ^ (y < 0.0)
    magnitude = select(is_extreme, select(vanishes, x.constant(0.0), inf), magnitude)
    # a power of +-infinity
    grows = (base_magnitude > 1.0) ^ (y < 0.0)
    limit = select(base_magnitude.equals(1.0), x.constant(1.0), select(grows, x.constant(inf), 0.0))
    magnitude = select(y.abs().equals(inf), limit, magnitude)
    is_negative = x.as_bits() < 0
    result = select(is_negative & is_odd, -magnitude, magnitude)
    result = select((x < 0.0) & ~is_integer & (base_magnitude < inf), nan, result)
    result = select(x.is_nan() | y.is_nan(), nan, result)
    return select(x.equals(1.0) | y.equals(0.0), 1.0, result)


# The magnitudes whose squares have room for all their digits, as bits. HALF_INVERSE minus the bits of a root is about half its inverse, as
# bits.
LEAST_SQUARED, MOST_SQUARED = FLOAT64_FORMAT.to_bits(2.0**-450), FLOAT64_FORMAT.to_bits(2.0**500)
HALF_INVERSE = 0x7FCE623822FC16E6


def hypot(x: Value, y: Value) -> Value:
    """Emit sqrt(x**2 + y**2), without overflow or underflow on the way; very large or small arguments are handled out of line."""
    if x.format.bits == 32:
        return hypot_of_singles(x.to_double(), y.to_double()).to_single()
    a, b = x.abs().as_bits(), y.abs().as_bits()
    large, small = select_larger(a, b), select_smaller(a, b)  # as bits; those of infinity and of NaN are the largest
    rare = (large - LEAST_SQUARED).compare("ugt", MOST_SQUARED - LEAST_SQUARED) & large.differs(0)
    usual = root_of_squares(large.as_float(), small.as_float())
    (result,) = unless_rare(rare, [usual], lambda: [hypot_of_any(x.abs(), y.abs())])
    return result


def compare_hypot(predicate: str, x: Value, y: Value, bound: Value, square: Value, margin: Value) -> Value:
    """Emit the comparison `predicate` ("olt", ...) of `hypot(x, y)` with `bound`, without a root where possible. Return a bool for each
    lane.

    `square` must be `bound` * |`bound`|. Where x**2 + y**2 is further from `square` than `margin`, the squares are compared: no rounding of
    the root leads to the other side. If any lane is nearer, or has NaN, the roots of all lanes are computed and compared out of line.
    """
    total = fma(x, x, y * y)
    is_decided = (total - square).abs() > margin
    (comparison,) = unless_rare(~is_decided, [total.compare(predicate, square)], lambda: [hypot(x, y).compare(predicate, bound)])
    return comparison


def hypot_of_singles(x: Value, y: Value) -> Value:
    """Emit sqrt(x**2 + y**2) in float64, for float64 x and y whose values are float32, so that the squares do not overflow or underflow.

    The result is infinite if x or y is, even for a NaN beside it.
    """
    root = fma(x, x, y * y).sqrt()
    return select(x.abs().equals(inf) | y.abs().equals(inf), inf, root)


def root_of_squares(large: Value, small: Value) -> Value:
    """Emit the root of the sum of both squares, with one correction by the exact remainder of the root's square.

    `large` must not be smaller in magnitude than `small`. The square of `large` must not overflow, or underflow unless `large` is 0.

    The correction is multiplied by an inverse of which eight digits are enough: a guess by bits, and one step of Newton's method. A
    division would take the part of the processor that is busy with roots.
    """
    square, square_low = exact_product(large, large)
    total, total_low = fast_sum(square, small * small)
    root = total.sqrt()
    remainder = fma(-root, root, total) + (total_low + square_low)
    half_inverse = (root.as_bits().constant(HALF_INVERSE) - root.as_bits()).as_float()
    correction = remainder * half_inverse
    return root + fma(correction, fma(root * -2.0, half_inverse, 1.0), correction)


def hypot_of_any(a: Value, b: Value) -> Value:
    """Emit sqrt(a**2 + b**2) of float64 numbers a and b >= 0. Both are scaled where squares would overflow or underflow.

    The result is infinite if a or b is, even for a NaN beside it, and otherwise NaN for a NaN.
    """
    large, small = select_larger(a, b), select_smaller(a, b)
    huge, tiny = large > 2.0**500, large < 2.0**-450
    down = select(huge, large.constant(2.0**-600), select(tiny, large.constant(2.0**600), 1.0))
    up = select(huge, large.constant(2.0**600), select(tiny, large.constant(2.0**-600), 1.0))
    result = select(a.is_nan() | b.is_nan(), nan, root_of_squares(large * down, small * down) * up)
    return select(a.equals(inf) | b.equals(inf), inf, result)


def rsqrt(x: Value) -> Value:
    """Emit 1 / sqrt(x). In float32 this quotient is off by up to 1.5 units, so one step of Newton's method follows."""
    root = 1.0 / x.sqrt()
    if x.format.bits == 64:
        return root
    product, product_low = exact_product(x, root)
    remainder = fma(-product_low, root, fma(-product, root, 1.0))  # 1 - x root**2; NaN where x is 0 or infinite
    return select(remainder.is_nan(), root, fma(remainder * 0.5, root, root))
