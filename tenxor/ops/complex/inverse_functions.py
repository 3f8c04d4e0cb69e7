"""Inverse trigonometric and hyperbolic functions of complex numbers. A function takes the real part `a` and the imaginary part `b` of the
argument, in float64, and returns the two parts of the result, all as expressions.

The algorithms are those of Hull, Fairgrieve and Tang ("Implementing the complex arcsine and arccosine functions using exception handling",
ACM TOMS 23, 1997), with the bounds of FreeBSD's C library; special values as in C99, Annex G.
"""

from __future__ import annotations

from math import inf, pi

from ..._utils.records import NamedTuple
from ..expr import Expr, call, where
from .arithmetic import RealImag
from .elementary import LN_2, absolute, copy_sign, float64_const, is_finite, lift_to_complex, log_parts, rotate_argument

EPSILON = 2.0**-52
MIN_SQUARABLE = 2.0**-509  # the least float whose square is a normal number
LARGE_ARGUMENT = 1 / EPSILON  # for larger x, x * x + 1 rounds to x * x
SMALL_ARGUMENT = 9e-9  # for smaller arguments, the functions are their argument
A_LARGE, B_LARGE = 10.0, 0.6417


def _half_excess(a: Expr, b: Expr, size: Expr) -> Expr:
    """Return (hypot(a, b) - b) / 2, given `size`, which is hypot(a, b)."""
    positive = where(call("equal", b, 0.0), a * 0.5, a * a / (size + b) * 0.5)
    return where(b < 0, (size - b) * 0.5, positive)


def _sqrt(x: Expr) -> Expr:
    return call("sqrt", x)


class _QuadrantParts(NamedTuple):
    """The parts of asinh(x + yi), for x + yi in the first quadrant: the real part, and the imaginary part as an angle.

    The angle is the arcsine of `sine` where `usable`, and else the arctangent of `opposite` / `adjacent`.
    """

    real: Expr
    sine: Expr
    usable: Expr  # whether the sine is usable: neither near 1 nor near 0
    opposite: Expr
    adjacent: Expr


def _quadrant_parts(x: Expr, y: Expr) -> _QuadrantParts:
    """Return the parts of asinh(x + yi) for x and y from 0 to `LARGE_ARGUMENT`, not both below `SMALL_ARGUMENT`.

    The imaginary part is an angle still to be computed, so that acos can take the other angle. For other x and y the values mean nothing.
    """
    up, down = call("hypot", x, y + 1.0), call("hypot", x, y - 1.0)
    a = call("maximum", (up + down) * 0.5, 1.0)
    is_wide = call("greater_equal", x, EPSILON * absolute(y - 1.0))
    y_is_one, is_above = call("equal", y, 1.0), y > 1
    a_minus_1 = _half_excess(x, 1.0 + y, up) + _half_excess(x, 1.0 - y, down)
    small_real = where(
        y_is_one & (x < EPSILON * EPSILON / 128),
        _sqrt(x),
        where(
            is_wide,
            call("log1p", a_minus_1 + _sqrt(a_minus_1 * (a + 1.0))),
            where(
                is_above,
                call("log1p", (y - 1.0) + _sqrt((y - 1.0) * (y + 1.0))),
                x / _sqrt((1.0 - y) * (1.0 + y)),
            ),
        ),
    )
    real = where(a < A_LARGE, small_real, call("log", a + _sqrt(a * a - 1.0)))
    sine, is_tiny = y / a, y < MIN_SQUARABLE
    a_minus_y = _half_excess(x, y + 1.0, up) + _half_excess(x, y - 1.0, down)
    thin_scale = 4 / EPSILON / EPSILON
    adjacent = where(
        y_is_one & (x < EPSILON / 128),
        _sqrt(x) * _sqrt((a + y) * 0.5),
        where(
            is_wide,
            _sqrt(a_minus_y * (a + y)),
            where(is_above, x * thin_scale * y / _sqrt((y + 1.0) * (y - 1.0)), _sqrt((1.0 - y) * (1.0 + y))),
        ),
    )
    is_scaled = is_above & call("logical_not", is_wide | y_is_one)
    return _QuadrantParts(
        real,
        sine,
        call("logical_not", is_tiny | (sine > B_LARGE)),
        where(is_tiny, y * (2 / EPSILON), where(is_scaled, y * thin_scale, y)),
        where(is_tiny, a * (2 / EPSILON), adjacent),
    )


def _is_nan(a: Expr, b: Expr) -> Expr:
    """Return whether either part is NaN, as a boolean expression."""
    return call("isnan", a) | call("isnan", b)


def asinh_parts(a: Expr, b: Expr) -> RealImag:
    """Return the inverse hyperbolic sine of a + bi, the principal value."""
    x, y = absolute(a), absolute(b)
    h = _quadrant_parts(x, y)
    angle = where(h.usable, call("asin", h.sine), call("atan2", h.opposite, h.adjacent))
    is_far = (x > LARGE_ARGUMENT) | (y > LARGE_ARGUMENT)
    log_size, log_angle = log_parts(x, y)
    real = where(is_far, log_size + LN_2, where((x < SMALL_ARGUMENT) & (y < SMALL_ARGUMENT), x, h.real))
    imag = where(is_far, log_angle, where((x < SMALL_ARGUMENT) & (y < SMALL_ARGUMENT), y, angle))
    real, imag = copy_sign(real, a), copy_sign(imag, b)
    is_nan, is_real = _is_nan(a, b), call("equal", b, 0.0)
    real = where(is_nan, where(call("isinf", a), a, where(call("isinf", b), b, a + b)), real)
    return real, where(is_nan, where(is_real, b, float64_const(float("nan"))), imag)


def acos_parts(a: Expr, b: Expr) -> RealImag:
    """Return the inverse cosine of a + bi, the principal value."""
    x, y = absolute(a), absolute(b)
    h = _quadrant_parts(y, x)
    is_left_half = call("signbit", a)
    angle = where(
        h.usable,
        call("acos", where(is_left_half, -h.sine, h.sine)),
        call("atan2", h.adjacent, where(is_left_half, -h.opposite, h.opposite)),
    )
    is_far = (x > LARGE_ARGUMENT) | (y > LARGE_ARGUMENT)
    log_size, log_angle = log_parts(a, y)
    is_small = (x < SMALL_ARGUMENT) & (y < SMALL_ARGUMENT)
    real = where(is_far, absolute(log_angle), where(is_small, pi / 2 - (a - 6.123233995736766e-17), angle))
    imag = where(is_far, log_size + LN_2, where(is_small, y, h.real))
    is_one = call("equal", a, 1.0) & call("equal", b, 0.0)
    real, imag = where(is_one, 0.0, real), where(is_one, 0.0, imag)
    imag = copy_sign(imag, -b)
    is_nan = _is_nan(a, b)
    real = where(is_nan, where(call("equal", a, 0.0), pi / 2, float64_const(float("nan"))), real)
    return real, where(is_nan, where(call("isinf", a), -inf, where(call("isinf", b), -b, float64_const(float("nan")))), imag)


def acosh_parts(a: Expr, b: Expr) -> RealImag:
    """Return the inverse hyperbolic cosine of a + bi, the principal value."""
    angle, imag = acos_parts(a, b)
    return absolute(imag), where(call("isnan", angle), angle, copy_sign(angle, b))


def atanh_parts(a: Expr, b: Expr) -> RealImag:
    """Return the inverse hyperbolic tangent of a + bi, the principal value."""
    x, y = absolute(a), absolute(b)
    x_minus_1 = x - 1.0
    squared_distance = x_minus_1 * x_minus_1 + where(y < 2.0**-511, 0.0, y * y)
    x_is_one = call("equal", x, 1.0)
    near_pole = x_is_one & (y < EPSILON)
    real = where(near_pole, (LN_2 - call("log", y)) * 0.5, call("log1p", 4.0 * x / squared_distance) * 0.25)
    opposite = where(x_is_one, 2.0, 2.0 * y)
    between = (1.0 - x) * (1.0 + x)
    adjacent = where(x_is_one, -y, where(y < EPSILON, between, between - y * y))
    imag = call("atan2", opposite, adjacent) * 0.5
    is_far, is_small = (x > LARGE_ARGUMENT) | (y > LARGE_ARGUMENT), (x < SMALL_ARGUMENT * 0.7) & (y < SMALL_ARGUMENT * 0.7)
    largest = call("maximum", x, y)
    p, q = x / largest, y / largest
    far_real = where(is_finite(a) & is_finite(b), p / (p * p + q * q) / largest, 0.0)
    real = where(is_far, far_real, where(is_small, x, real))
    imag = where(is_far, pi / 2, where(is_small, y, imag))
    real, imag = copy_sign(real, a), copy_sign(imag, b)
    is_nan, is_infinite = _is_nan(a, b), call("isinf", a) | call("isinf", b)
    real = where(is_nan, where(is_infinite, copy_sign(0.0, a), float64_const(float("nan"))), real)
    imag = where(is_nan, where(call("isinf", b), copy_sign(pi / 2, b), float64_const(float("nan"))), imag)
    in_real_domain = call("equal", b, 0.0) & call("less_equal", x, 1.0)
    is_imaginary = call("equal", a, 0.0)
    real = where(in_real_domain, call("atanh", a), where(is_imaginary, a, real))
    return real, where(in_real_domain, b, where(is_imaginary, call("atan", b), imag))


asinh, acosh, atanh = lift_to_complex(asinh_parts), lift_to_complex(acosh_parts), lift_to_complex(atanh_parts)
asin, acos, atan = lift_to_complex(rotate_argument(asinh_parts)), lift_to_complex(acos_parts), lift_to_complex(rotate_argument(atanh_parts))
