"""Emit log, log2, log10, log1p and logaddexp. The functions append instructions while a kernel is compiled; x and y are float32 or float64,
or vectors of these.

With x = 2**e (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)), log x is e ln2 + log(1 + f). In float32 the latter is a polynomial in f; in float64
it is a series in s = f / (2 + f), which needs a division but half the terms.
"""

from collections.abc import Callable
from math import inf, nan, sqrt

from ...._utils.records import NamedTuple
from ..builder import Value, fma, select, select_larger
from .exponential import LN2, exp
from .formula_helpers import exact_product, exact_sum, fast_sum, polynomial, unless_rare

# 1 / ln 2, 1 / ln 10 and log10(2), each as the sum of two floats.
PER_LN2 = {32: (1.442695, 1.925963e-08), 64: (1.4426950408889634, 2.0355273740931033e-17)}
PER_LN10 = {32: (0.4342945, -1.010305e-08), 64: (0.4342944819032518, 1.098319650216765e-17)}
LOG10_2 = {32: (0.30103, -1.4320989e-08), 64: (0.3010299956639812, -2.8037281277851704e-18)}

# (log(1+f) - f + f**2/2) / f**3 on [sqrt(1/2)-1, sqrt(2)-1]: relative error of the logarithm 2**-30.3.
LOG1P_TAIL = (
    0.33333313, -0.2500001, 0.20002118, -0.16667995, 0.1421956, -0.124056175, 0.11888143, -0.11675487,
    0.06746489,
)  # fmt: skip

# (2 atanh(s) / s - 2) / s**2 in terms of s**2, as far as f reaches: relative error of the logarithm 2**-58.5.
ATANH_TAIL = (
    0.6666666666666734, 0.3999999999941472, 0.2857142874238206, 0.22222198573632412, 0.1818356430343954,
    0.15314051183969737, 0.14795942566818132,
)  # fmt: skip


class Split(NamedTuple):
    """A positive number as 2**exponent (1 + f), with 1 + f in [sqrt(1/2), sqrt(2)). Both fields are floats; `exponent` is an integer."""

    exponent: Value
    f: Value


def split(x: Value) -> Split:
    """Emit the exponent and the fraction f of x, a positive normal number, as 2**exponent (1 + f), with 1 + f in [sqrt(1/2), sqrt(2))."""
    return split_bits(x.as_bits())


def split_bits(bits: Value) -> Split:
    """Emit the exponent and the fraction f of a positive number, as `split` does, given its bits from `normalize_bits`."""
    format = bits.format
    least_bits = format.to_bits(sqrt(0.5))
    exponent = (bits - least_bits) >> format.fraction_bits
    one_plus_f = (bits - (exponent << format.fraction_bits)).as_float()
    return Split(exponent.to_float(), one_plus_f - 1.0)


def needs_special_log(x: Value) -> Value:
    """Emit a mask that is true in the lanes where x is not positive, normal and finite, so that its logarithm needs special treatment."""
    format = x.format
    smallest = format.to_bits(format.smallest_normal)
    return (x.as_bits() - smallest).compare("ugt", format.to_bits(inf) - smallest - 1)


def normalize_bits(x: Value) -> Value:
    """Emit the bits of positive x, as integers as wide as x, with a subnormal x written like a normal number.

    For a subnormal x, the exponent field then has a value of 0 or below, and the fraction is without the leading 1. The bits of a normal x
    are unchanged.
    """
    format = x.format
    lift = format.fraction_bits + 1
    lifted = (x * 2.0**lift).as_bits() - (lift << format.fraction_bits)
    return select(x < format.smallest_normal, lifted, x.as_bits())


def log_of(x: Value, formula: Callable[[Value, Value], Value]) -> Value:
    """Emit a logarithm of x. `formula(exponent, f)` emits the logarithm, in the caller's base, of the number 2**exponent (1 + f).

    Numbers that are not positive and normal are handled out of line. Subnormal ones are scaled first. 0, infinities, NaN and negative ones
    get their special values.
    """
    rare = needs_special_log(x)
    (bits,) = unless_rare(rare, [x.as_bits()], lambda: [normalize_bits(x)])
    usual = formula(*split_bits(bits))
    (result,) = unless_rare(rare, [usual], lambda: [with_special_values(x, usual)])
    return result


def log1p_tail(f: Value, precision: int | None = None) -> Value:
    """Emit log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)), with the precision of the format of `precision` bits, by default f's own."""
    if (precision or f.format.bits) == 32:
        return fma(f * -0.5, f, polynomial(f, LOG1P_TAIL) * f * (f * f))
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return fma(s, fma(polynomial(z, ATANH_TAIL), z, half_square), -half_square)


def with_special_values(x: Value, result: Value) -> Value:
    """Emit `result`, the logarithm of x, with -infinity where x is 0, NaN where x is negative or NaN, and infinity where x is infinite."""
    below = select(x.equals(0.0), x.constant(-inf), nan)
    return select(x > 0.0, select(x.equals(inf), x, result), below)


def log(x: Value) -> Value:
    """Emit the natural logarithm: -infinity at 0, NaN below."""
    high, low = LN2[x.format.bits]

    def formula(exponent: Value, f: Value) -> Value:
        # In float32 the natural logarithm can afford to lose a quarter of a unit on the way.
        single = x.format.bits == 32
        tail = polynomial(f, (-0.5, *LOG1P_TAIL)) * (f * f) if single else log1p_tail(f)
        tail = fma(exponent, low, tail)
        return fma(exponent, high, f + tail)

    return log_of(x, formula)


def log2(x: Value) -> Value:
    """Emit the logarithm to base 2, exact for powers of 2: -infinity at 0, NaN below."""
    return log_in_base(x, (1.0, 0.0), PER_LN2[x.format.bits])


def log10(x: Value) -> Value:
    """Emit the logarithm to base 10, exact for floats that are powers of 10: -infinity at 0, NaN below."""
    return log_in_base(x, LOG10_2[x.format.bits], PER_LN10[x.format.bits])


def log_in_base(x: Value, of_two: tuple[float, float], of_e: tuple[float, float]) -> Value:
    """Emit the logarithm of x in a base given by `of_two` and `of_e`, the logarithms of 2 and e in this base.

    Each of the two is a pair of Python floats, a number and the remainder. The leading products and sums are exact.
    """

    def formula(exponent: Value, f: Value) -> Value:
        exponent_log, exponent_log_low = exact_product(exponent, of_two[0])
        fraction_log, fraction_log_low = exact_product(f, of_e[0])
        high, low = fast_sum(exponent_log, fraction_log)
        small = fma(exponent, of_two[1], exponent_log_low) + fma(f, of_e[1], fraction_log_low)
        return high + (low + fma(log1p_tail(f), of_e[0], small))

    return log_of(x, formula)


def log_of_sum(high: Value, low: Value, doublings: Value | float = 0.0) -> Value:
    """Emit log((high + low) 2**doublings), for `low` small beside `high`, also precise where the logarithm is near 0.

    A positive `high` must be a normal number; 0, infinity, NaN and negative numbers give the special values of a logarithm.
    """
    exponent, f = split(high)
    exponent = exponent + doublings
    ln2_high, ln2_low = LN2[high.format.bits]
    tail = fma(exponent, ln2_low, log1p_tail(f) + low / high)
    return with_special_values(high, fma(exponent, ln2_high, f + tail))


def log1p(x: Value) -> Value:
    """Emit log(1 + x), precise for x near 0; -infinity at -1, NaN below."""
    return select(x.equals(0.0), x, log_of_sum(*exact_sum(x.constant(1.0), x)))


def logaddexp(x: Value, y: Value) -> Value:
    """Emit log(e**x + e**y), without overflow."""
    distance = select(x.equals(y), 0.0, (x - y).abs())
    return select_larger(x, y) + log1p(exp(-distance))
