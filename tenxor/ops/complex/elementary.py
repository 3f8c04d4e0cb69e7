"""Powers, logarithms and trigonometric functions of complex numbers, from real functions of their parts. A function takes the real part `a`
and the imaginary part `b` of the argument, in float64, and returns the two parts of the result, all as expressions.

Special values are those of C99, Annex G. All formulas are computed in float64; for complex64 each part is then rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp as _exp
from math import inf, nan, pi
from math import log as _log
from math import log10 as _log10

from ...dtypes import boolean, float64, int64
from ..expr import Const, Expr, call, cast, where
from .arithmetic import RealImag, infinite_unit, scaled_quotient
from .split_formulas import make_pair

LOG2_E, LOG10_E, LN_2 = 1 / _log(2), _log10(_exp(1)), _log(2)
LN_2_LOW, LN_2_LEAST = 2.3190468138462996e-17, 5.707708438416212e-34  # the rest of log(2) beyond LN_2, in two floats


def lift_to_complex(function: Callable[[Expr, Expr], RealImag]) -> Callable[[Expr], Expr]:
    """Return `function`, from real and imaginary part in float64 to both parts of the result, as a formula for a complex number.

    The formula takes and returns a `ComplexPair` of the same dtype, with the docstring of `function`.
    """

    def formula(x: Expr) -> Expr:
        a, b = x.args
        real, imag = function(cast(a, float64), cast(b, float64))
        return make_pair(cast(real, a.dtype), cast(imag, a.dtype))

    formula.__doc__ = function.__doc__
    return formula


def rotate_argument(function: Callable[[Expr, Expr], RealImag]) -> Callable[[Expr, Expr], RealImag]:
    """Return the function x -> -i f(i x) for f = `function`: sin for sinh, tan for tanh, asin for asinh, and atan for atanh.

    Both functions take real and imaginary part, and return both parts.
    """

    def formula(a: Expr, b: Expr) -> RealImag:
        real, imag = function(-b, a)
        return imag, -real

    return formula


def float64_const(value: float) -> Const:
    """Return the number `value` as a float64 constant."""
    return Const(value, float64)


def copy_sign(magnitude: Expr | float, sign_source: Expr) -> Expr:
    """Return the absolute value of `magnitude` with the sign of `sign_source`, as an expression."""
    return call("copysign", magnitude, sign_source)


def is_finite(x: Expr) -> Expr:
    """Return whether `x`, a real part or an imaginary part, is finite, as a boolean expression."""
    return call("isfinite", x)


def absolute(x: Expr) -> Expr:
    """Return the absolute value of `x`, a real part or an imaginary part."""
    return call("abs", x)


# --- powers of e ------------------------------------------------------------------------------------------------------

# From MAX_UNSHIFTED_EXPONENT on, exp is a product with exp(EXPONENT_SHIFT): a cosine may bring it back into range.
MAX_UNSHIFTED_EXPONENT, EXPONENT_SHIFT = 709.0, 600.0


def _powers(name: str, large: float, shift: float, scale: float) -> Callable[[Expr, Expr, RealImag], RealImag]:
    """Return a function of an exponent `a`, a number `b`, and `cos_sin`, the cosine and the sine of an angle: the power of `a` times both.

    The power is that of e or 2, as `name` is "exp" or "exp2". The angle belongs to `b`, and is 0 where `b` is; `b` is read for special
    values alone. An exponent above `large` is lowered by `shift`, and the result is multiplied by `scale`, the power of `shift`, so that a
    small cosine or sine prevents overflow.
    """

    def formula(a: Expr, b: Expr, cos_sin: RealImag) -> RealImag:
        is_large = a > large
        factor = call(name, where(is_large, (a - shift) * 0.5, a))
        second_factor, unshift = where(is_large, factor, float64_const(1.0)), where(is_large, scale, float64_const(1.0))
        real, imag = factor * cos_sin[0] * second_factor * unshift, factor * cos_sin[1] * second_factor * unshift
        no_angle = call("logical_not", is_finite(b))
        real = where(no_angle & call("isinf", a), where(a > 0, a, float64_const(0.0)), real)
        imag = where(no_angle & call("equal", a, -inf), copy_sign(0.0, b), imag)
        return real, where(call("equal", b, 0.0), b, imag)

    return formula


_power_of_e = _powers("exp", MAX_UNSHIFTED_EXPONENT, EXPONENT_SHIFT, _exp(EXPONENT_SHIFT))
_power_of_2 = _powers("exp2", 1023.0, 1000.0, 2.0**1000)


def exp_parts(a: Expr, b: Expr) -> RealImag:
    """Return e to the power a + bi."""
    return _power_of_e(a, b, (call("cos", b), call("sin", b)))


def exp2_parts(a: Expr, b: Expr) -> RealImag:
    """Return 2 to the power a + bi.

    The angle b log(2) is the sum of three numbers, and the result is rotated by each. This has about the needed digits for b up to 2**106;
    beyond, only the magnitude is right.
    """
    middle, low = _two_sum(_product_error(b, LN_2), b * LN_2_LOW)
    angles = b * LN_2, middle, low + _product_error(b, LN_2_LOW) + b * LN_2_LEAST
    rotations = [(call("cos", angle), call("sin", angle)) for angle in angles]
    return _power_of_2(a, b, _product(_product(rotations[0], rotations[1]), rotations[2]))


def expm1_parts(a: Expr, b: Expr) -> RealImag:
    """Return e to the power a + bi, minus 1: accurate near 0."""
    real, imag = exp_parts(a, b)
    half_sine = call("sin", b * 0.5)
    real_near_0 = call("expm1", a) * call("cos", b) - 2.0 * half_sine * half_sine
    real_near_0 = real_near_0 + 0.0  # C99 has 0 for -0, too
    return where((absolute(a) < 40.0) & is_finite(b), real_near_0, real - 1.0), imag


def _scaled_cosh_sinh(a: Expr) -> tuple[Expr, Expr, RealImag]:
    """Return cosh(a) and sinh(a) as products: a first factor of each, and a pair of further factors common to both.

    A cosine or sine, multiplied between the factors, keeps a product in range that would overflow without it. Multiply in this order: first
    factor, cosine or sine, the pair.
    """
    size = absolute(a)
    is_large = size > MAX_UNSHIFTED_EXPONENT
    root = call("exp", (size - EXPONENT_SHIFT) * 0.5)
    second_factor, unshift = where(is_large, root, float64_const(1.0)), where(is_large, _exp(EXPONENT_SHIFT) / 2, float64_const(1.0))
    return where(is_large, root, call("cosh", a)), where(is_large, copy_sign(root, a), call("sinh", a)), (second_factor, unshift)


def sinh_parts(a: Expr, b: Expr) -> RealImag:
    """Return the hyperbolic sine of a + bi."""
    cosh, sinh, (second_factor, unshift) = _scaled_cosh_sinh(a)
    no_angle = call("logical_not", is_finite(b))
    keeps_real = no_angle & (call("equal", a, 0.0) | call("isinf", a))
    real = where(keeps_real, a, sinh * call("cos", b) * second_factor * unshift)
    return real, where(call("equal", b, 0.0), b, cosh * call("sin", b) * second_factor * unshift)


def cosh_parts(a: Expr, b: Expr) -> RealImag:
    """Return the hyperbolic cosine of a + bi."""
    cosh, sinh, (second_factor, unshift) = _scaled_cosh_sinh(a)
    no_angle = call("logical_not", is_finite(b))
    real = where(no_angle & call("isinf", a), inf, cosh * call("cos", b) * second_factor * unshift)
    imag = where(no_angle & call("equal", a, 0.0), a, sinh * call("sin", b) * second_factor * unshift)
    return real, where(call("equal", b, 0.0), b * copy_sign(1.0, a), imag)


def tanh_parts(a: Expr, b: Expr) -> RealImag:
    """Return the hyperbolic tangent of a + bi, by the formula of Kahan ("Branch cuts for complex elementary functions", 1987)."""
    size = absolute(a)
    is_large = size > 22.0
    tan, sinh = call("tan", b), call("sinh", where(is_large, float64_const(1.0), a))
    slope = 1.0 + tan * tan
    divisor = 1.0 + slope * sinh * sinh
    real = slope * call("sqrt", 1.0 + sinh * sinh) * sinh / divisor
    large_imag = 4.0 * call("sin", b) * call("cos", b) * call("exp", -2.0 * size)
    large_imag = where(call("isinf", a), copy_sign(0.0, b), large_imag)  # as in C99, whatever the sign of sin(2 b)
    large_real = where(is_finite(b) | call("isinf", a), copy_sign(1.0, a), float64_const(nan))
    real = where(is_large, large_real, where(call("equal", a, 0.0), a, real))
    return real, where(call("equal", b, 0.0), b, where(is_large, large_imag, tan / divisor))


def cos_parts(a: Expr, b: Expr) -> RealImag:
    """Return the cosine of a + bi."""
    return cosh_parts(-b, a)


# --- roots and logarithms ---------------------------------------------------------------------------------------------


def sign_parts(a: Expr, b: Expr) -> RealImag:
    """Return a + bi divided by its magnitude, without overflow or loss of digits on the way; 0 for 0.

    If one part is infinite, the other part is negligible. If both are, the angle is undefined and the result is NaN.
    """
    largest = call("maximum", absolute(a), absolute(b))
    scale = where(largest > 2.0**1000, 2.0**-100, where(largest < 2.0**-900, 2.0**200, float64_const(1.0)))
    one_infinite = call("isinf", largest) & call("not_equal", call("isinf", a), call("isinf", b))
    x, y = (where(one_infinite, infinite_unit(component), component * scale) for component in (a, b))
    size, is_zero = call("hypot", x, y), call("equal", largest, 0.0)
    return where(is_zero, 0.0, x / size), where(is_zero, 0.0, y / size)


def sqrt_parts(a: Expr, b: Expr) -> RealImag:
    """Return the square root of a + bi with a real part of at least 0."""
    largest = call("maximum", absolute(a), absolute(b))
    is_huge, is_tiny = largest > 2.0**1000, largest < 2.0**-900
    scale_before = where(is_huge, 2.0**-4, where(is_tiny, 2.0**200, float64_const(1.0)))
    scale_after = where(is_huge, 2.0**2, where(is_tiny, 2.0**-100, float64_const(1.0)))
    x, y = a * scale_before, b * scale_before
    larger = call("sqrt", (absolute(x) + call("hypot", x, y)) * 0.5)
    smaller = absolute(y) / (2.0 * larger)
    is_right_half = call("greater_equal", a, 0.0)
    is_zero, imag_infinite = call("equal", largest, 0.0), call("isinf", b)
    real = where(is_zero, 0.0, where(imag_infinite, inf, where(is_right_half, larger, smaller) * scale_after))
    imag = copy_sign(where(is_right_half, smaller, larger) * scale_after, b)
    return real, where(is_zero | imag_infinite, b, imag)


def _split_digits(x: Expr) -> RealImag:
    """Return x, below 2**996 in magnitude, as the sum of two numbers of half as many digits.

    Source: Dekker, "A floating-point technique for extending the available precision", 1971.
    """
    shifted = 134217729.0 * x
    high = shifted - (shifted - x)
    return high, x - high


def _two_square(x: Expr) -> RealImag:
    """Return x * x, rounded, and the rounding error, exactly, for moderate x."""
    high, low = _split_digits(x)
    square = x * x
    return square, ((high * high - square) + 2.0 * high * low) + low * low


def _product_error(x: Expr, y: float) -> Expr:
    """Return the rounding error of x * y for a constant `y`; 0 for large x."""
    (high, low), shifted = _split_digits(x), 134217729.0 * y
    y_high = shifted - (shifted - y)
    y_low = y - y_high
    error = ((high * y_high - x * y) + (high * y_low + low * y_high)) + low * y_low
    return where(absolute(x) < 2.0**900, error, 0.0)


def _two_sum(x: Expr, y: Expr) -> RealImag:
    """Return x + y, rounded, and the rounding error, exactly."""
    total = x + y
    y_rounded = total - x
    return total, (x - (total - y_rounded)) + (y - y_rounded)


def _sum_compensated(x: Expr, y: Expr, z: Expr, w: Expr) -> Expr:
    """Return x + y + z + w, rounded about once, for a small `w`."""
    partial, partial_error = _two_sum(x, y)
    total, total_error = _two_sum(partial, z)
    return total + (partial_error + total_error + w)


def _log_of_magnitude(name: str, a: Expr, b: Expr) -> Expr:
    """Return the logarithm of hypot(a, b) to the base of `name`: "log", "log2" or "log10"."""
    largest = call("maximum", absolute(a), absolute(b))
    is_huge, is_tiny = largest > 2.0**1000, largest < 2.0**-900
    scale = where(is_huge, 2.0**-100, where(is_tiny, 2.0**200, float64_const(1.0)))
    log_of_2 = {"log": LN_2, "log2": 1.0, "log10": _log10(2.0)}[name]
    unscale = where(is_huge, 100 * log_of_2, where(is_tiny, -200 * log_of_2, float64_const(0.0)))
    return call(name, call("hypot", a * scale, b * scale)) + unscale


def _log_near_one(excess: Expr, name: str) -> Expr:
    """Return the logarithm of a magnitude with the square 1 + `excess`, to the base of `name`: "log", "log2" or "log10"."""
    return call("log1p", excess) * (0.5 * {"log": 1.0, "log2": LOG2_E, "log10": LOG10_E}[name])


def _logarithm(name: str) -> Callable[[Expr, Expr], RealImag]:
    """Return the function of the logarithm `name` ("log", "log2" or "log10") of a + bi, precise also for magnitudes near 1."""
    angle_factor = {"log": 1.0, "log2": LOG2_E, "log10": LOG10_E}[name]

    def formula(a: Expr, b: Expr) -> RealImag:
        large, small = call("maximum", absolute(a), absolute(b)), call("minimum", absolute(a), absolute(b))
        (large_square, large_error), (small_square, small_error) = _two_square(large), _two_square(small)
        excess = _sum_compensated(large_square, float64_const(-1.0), small_square, large_error + small_error)
        is_near = (large > 0.5) & (large < 2.0) & (excess > -0.7)
        real = where(is_near, _log_near_one(excess, name), _log_of_magnitude(name, a, b))
        return real, call("atan2", b, a) * angle_factor if angle_factor != 1 else call("atan2", b, a)

    formula.__doc__ = "The logarithm, with its imaginary part from -pi to pi (of base e)."
    return formula


log_parts = _logarithm("log")
log2_parts = _logarithm("log2")
log10_parts = _logarithm("log10")


def log1p_parts(a: Expr, b: Expr) -> RealImag:
    """Return the logarithm of 1 + a + bi, accurate near 0."""
    (a_square, a_error), (b_square, b_error) = _two_square(a), _two_square(b)
    excess = _sum_compensated(2.0 * a, a_square, b_square, a_error + b_error)
    is_near = (absolute(a) < 4.0) & (absolute(b) < 4.0) & (excess > -0.7) & (excess < 3.0)
    real = where(is_near, _log_near_one(excess, "log"), _log_of_magnitude("log", 1.0 + a, b))
    return real, call("atan2", b, 1.0 + a)


# --- powers -----------------------------------------------------------------------------------------------------------

INTEGER_POWER_BITS = 7  # bits of an integer exponent for which powers are computed as products


def pow(x: Expr, y: Expr) -> Expr:
    """Return x to the power y: a product for small integers y if it does not overflow on the way, else exp(y log(x)).

    A power of 0 is 0 where the real part of y is positive, 1 where y is 0, else NaN: as in C, and as limits say. A negative real power of
    an infinite number is 0.
    """
    dtype = x.args[0].dtype
    a, b, c, d = (cast(p, float64) for p in (*x.args, *y.args))
    log_size, angle = log_parts(a, b)
    real, imag = exp_parts(c * log_size - d * angle, c * angle + d * log_size)
    is_real, is_small = call("equal", d, 0.0), absolute(c) < float(1 << INTEGER_POWER_BITS)
    is_integer = is_real & is_small & call("equal", call("trunc", c), c)
    product = _integer_power(a, b, cast(where(is_integer, c, float64_const(0.0)), int64))
    is_zero = call("equal", a, 0.0) & call("equal", b, 0.0)
    is_infinite = (call("isinf", a) | call("isinf", b)) & is_real & (c < 0.0)
    limit = where(is_infinite | (c > 0), 0.0, float64_const(nan))
    is_one = is_real & call("equal", c, 0.0)
    use_product = is_integer & ((is_finite(product[0]) & is_finite(product[1])) | call("logical_not", is_finite(a) & is_finite(b)))
    real, imag = (where(use_product, p, q) for p, q in zip(product, (real, imag), strict=True))
    real = where(is_one, 1.0, where(is_zero | is_infinite, limit, real))
    imag = where(is_one, 0.0, where(is_zero | is_infinite, limit, imag))
    return make_pair(cast(real, dtype), cast(imag, dtype))


def logaddexp(x: Expr, y: Expr) -> Expr:
    """Return the principal value of log(exp(x) + exp(y)), computed as u + log1p(exp(v - u)).

    Here u is the operand with the larger real part, and v the other operand.
    """
    dtype = x.args[0].dtype
    a, b, c, d = (cast(p, float64) for p in (*x.args, *y.args))
    is_first = call("greater_equal", a, c)
    (high, high_angle), (low, low_angle) = [(where(is_first, p, r), where(is_first, q, s)) for p, q, r, s in ((a, b, c, d), (c, d, a, b))]
    log_excess, angle = log1p_parts(*exp_parts(low - high, low_angle - high_angle))
    equal_infinities = call("equal", high, low) & call("isinf", high)
    real = where(equal_infinities, high, high + log_excess)
    imag = where(equal_infinities, high_angle, high_angle + angle)
    imag = imag - call("round", imag * (0.5 / pi)) * (2.0 * pi)
    return make_pair(cast(real, dtype), cast(imag, dtype))


def _integer_power(a: Expr, b: Expr, n: Expr) -> RealImag:
    """Return a + bi to the integer power n by repeated squaring. |n| must be below 2**INTEGER_POWER_BITS."""
    count = call("abs", n)
    result: RealImag = float64_const(1.0), float64_const(0.0)
    factor: RealImag = a, b
    is_started: Expr = Const(False, boolean)
    for bit in range(INTEGER_POWER_BITS):
        if bit:
            factor = _product(factor, factor)
        is_set = call("not_equal", call("bitwise_and", count, 1 << bit), 0)
        product = _product(result, factor)
        extended = [where(is_started, p, f) for p, f in zip(product, factor, strict=True)]
        result = where(is_set, extended[0], result[0]), where(is_set, extended[1], result[1])
        is_started = is_started | is_set
    reciprocal = scaled_quotient((float64_const(1.0), float64_const(0.0)), result)
    return where(n < 0, reciprocal[0], result[0]), where(n < 0, reciprocal[1], result[1])


def _product(x: RealImag, y: RealImag) -> RealImag:
    """Return both parts of the product of the complex numbers `x` and `y`, by the textbook formula."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


sign = lift_to_complex(sign_parts)
exp, exp2, expm1, sqrt = lift_to_complex(exp_parts), lift_to_complex(exp2_parts), lift_to_complex(expm1_parts), lift_to_complex(sqrt_parts)
log, log1p, log2, log10 = map(lift_to_complex, (log_parts, log1p_parts, log2_parts, log10_parts))
sinh, cosh, tanh = lift_to_complex(sinh_parts), lift_to_complex(cosh_parts), lift_to_complex(tanh_parts)
sin, cos, tan = lift_to_complex(rotate_argument(sinh_parts)), lift_to_complex(cos_parts), lift_to_complex(rotate_argument(tanh_parts))
