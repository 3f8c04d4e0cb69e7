"""Sums, products, quotients and comparisons of complex numbers, for kernels, which have none. A complex number is a `ComplexPair` of two
real expressions, or a tuple of both.
"""

from __future__ import annotations

from math import inf

from ...dtypes import float32, float64, int64, uint64
from ..expr import ComplexPair, Const, Expr, call, cast, where, zero
from .split_formulas import make_pair

RealImag = tuple[Expr, Expr]


def add(x: Expr, y: Expr) -> Expr:
    """Return x + y."""
    (a, b), (c, d) = x.args, y.args
    return make_pair(a + c, b + d)


def subtract(x: Expr, y: Expr) -> Expr:
    """Return x - y."""
    (a, b), (c, d) = x.args, y.args
    return make_pair(a - c, b - d)


def multiply(x: Expr, y: Expr) -> Expr:
    """Return x * y by the textbook formula: infinite parts may give NaN."""
    (a, b), (c, d) = x.args, y.args
    return make_pair(a * c - b * d, a * d + b * c)


def negative(x: Expr) -> Expr:
    """Return -x."""
    a, b = x.args
    return make_pair(-a, -b)


def conj(x: Expr) -> Expr:
    """Return x with the imaginary part negated."""
    a, b = x.args
    return make_pair(a, -b)


def select(condition: Expr, x: Expr, y: Expr) -> ComplexPair:
    """Return x where the condition holds, else y."""
    (a, b), (c, d) = x.args, y.args
    return make_pair(where(condition, a, c), where(condition, b, d))


def equal(x: Expr, y: Expr) -> Expr:
    """Return whether x and y are equal in both parts."""
    (a, b), (c, d) = x.args, y.args
    return call("equal", a, c) & call("equal", b, d)


def not_equal(x: Expr, y: Expr) -> Expr:
    """Return whether x and y differ in either part."""
    (a, b), (c, d) = x.args, y.args
    return call("not_equal", a, c) | call("not_equal", b, d)


def square(x: Expr) -> Expr:
    """Return x * x."""
    a, b = x.args
    return make_pair(a * a - b * b, a * b + a * b)


def squared_abs(x: Expr) -> Expr:
    """Return the square of the magnitude of x, a real number."""
    a, b = x.args
    return a * a + b * b


def magnitude(x: Expr) -> Expr:
    """Return the magnitude of x, a real number, without overflow on the way."""
    a, b = x.args
    return call("hypot", a, b)


def apply_to_components(name: str, x: Expr) -> Expr:
    """Return the complex number with the real operation `name` applied to each part of x."""
    a, b = x.args
    return make_pair(call(name, a), call(name, b))


def isnan(x: Expr) -> Expr:
    """Return whether either part of x is NaN."""
    a, b = x.args
    return call("isnan", a) | call("isnan", b)


def isinf(x: Expr) -> Expr:
    """Return whether either part of x is infinite."""
    a, b = x.args
    return call("isinf", a) | call("isinf", b)


def isfinite(x: Expr) -> Expr:
    """Return whether both parts of x are finite."""
    a, b = x.args
    return call("isfinite", a) & call("isfinite", b)


# --- quotients --------------------------------------------------------------------------------------------------------

MAX_UNSCALED, SCALE_FACTOR = 2.0**800, 2.0**200  # the magnitude beyond which dividends are scaled, and the factor
MAX_EXPONENT_FIELD = 2046  # the exponent field of the largest floats


def divide(x: Expr, y: Expr) -> Expr:
    """Return x / y without overflow or underflow on the way; infinities as in C99, Annex G, zero divisors as in NumPy.

    Quotients of float32 are computed in float64, whose range holds the squares. For float64 the divisor is scaled by a power of two to
    about 1, and the dividend if it is very large or small.
    """
    (a, b), (c, d) = x.args, y.args
    dtype = a.dtype
    zero_divisor = call("equal", c, 0.0) & call("equal", d, 0.0)
    by_zero = call("abs", c)
    real, imag = (_wide_quotient if dtype is float32 else scaled_quotient)((a, b), (c, d))
    real, imag = _with_infinities((a, b), (c, d), (real, imag))
    return make_pair(where(zero_divisor, a / by_zero, real), where(zero_divisor, b / by_zero, imag))


def _wide_quotient(x: RealImag, y: RealImag) -> RealImag:
    """Return both parts of x / y for float32 parts, computed in float64, whose range holds the squares."""
    a, b, c, d = (cast(component, float64) for component in (*x, *y))
    squared_norm = c * c + d * d
    return cast((a * c + b * d) / squared_norm, float32), cast((b * c - a * d) / squared_norm, float32)


def scaled_quotient(x: RealImag, y: RealImag) -> RealImag:
    """Return both parts of x / y for float64 parts, without overflow or underflow on the way, for finite x and y other than 0.

    Other arguments give parts that the caller must replace.
    """
    (a, b), (c, d) = x, y
    scale = _reciprocal_power(call("maximum", call("abs", c), call("abs", d)))
    c, d = c * scale, d * scale
    squared_norm = c * c + d * d
    largest = call("maximum", call("abs", a), call("abs", b))
    is_huge, is_tiny = largest > MAX_UNSCALED, largest < 1 / MAX_UNSCALED
    unit = Const(1.0, float64)
    scale_before = where(is_huge, 1 / SCALE_FACTOR, where(is_tiny, SCALE_FACTOR, unit))
    scale_after = where(is_huge, SCALE_FACTOR, where(is_tiny, 1 / SCALE_FACTOR, unit))
    a, b = a * scale_before, b * scale_before
    return (a * c + b * d) / squared_norm * scale * scale_after, (b * c - a * d) / squared_norm * scale * scale_after


def _reciprocal_power(x: Expr) -> Expr:
    """Return the power of two by which the positive float64 x becomes about 1: from 1 to 2. For a huge or subnormal x, it is the nearest
    power that is a normal float64.
    """
    field = cast(call("bitwise_right_shift", call("float_to_bits", x), 52), int64)
    exponent = call("maximum", MAX_EXPONENT_FIELD - field, 1)
    exponent = call("minimum", exponent, MAX_EXPONENT_FIELD)
    return call("bits_to_float", call("bitwise_left_shift", cast(exponent, uint64), 52))


def _with_infinities(x: RealImag, y: RealImag, quotient: RealImag) -> RealImag:
    """Return `quotient`, which is x / y, corrected where just one of x and y is infinite: to an infinity, or to zeros.

    An infinite x, if y is finite, gives an infinity; an infinite y, if x is finite, gives zeros. The signs are those of C99, Annex G.
    """
    is_infinite = _is_infinite(x) & _is_finite(y)
    is_zero = _is_finite(x) & _is_infinite(y)
    a, b = (where(is_infinite, infinite_unit(component), component) for component in x)
    c, d = (where(is_zero, infinite_unit(component), component) for component in y)
    products = a * c + b * d, b * c - a * d
    real, imag = (where(is_infinite, p * inf, where(is_zero, p * 0.0, q)) for p, q in zip(products, quotient, strict=True))
    return real, imag


def _is_infinite(x: RealImag) -> Expr:
    """Return whether either part of x is infinite, as a boolean expression."""
    return call("isinf", x[0]) | call("isinf", x[1])


def _is_finite(x: RealImag) -> Expr:
    """Return whether both parts of x are finite, as a boolean expression."""
    return call("isfinite", x[0]) & call("isfinite", x[1])


def infinite_unit(x: Expr) -> Expr:
    """Return 1 for an infinity, else 0, with the sign of x."""
    return call("copysign", where(call("isinf", x), 1.0, zero(x.dtype)), x)


def divide_by_real(x: Expr, y: Expr) -> Expr:
    """Return x / y for a complex x and a real y."""
    a, b = x.args
    return make_pair(a / y, b / y)
