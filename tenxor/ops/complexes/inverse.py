"""Inverse trigonometric and hyperbolic functions of complex numbers.

The algorithms are those of Hull, Fairgrieve and Tang ("Implementing the complex arcsine and arccosine functions using exception handling",
ACM TOMS 23, 1997), with the bounds of FreeBSD's C library; special values as in C99, Annex G.
"""

from __future__ import annotations

from math import inf, pi

from ...records import NamedTuple
from ..expr import Expr, call, where
from .arithmetic import Two
from .elementary import LN_2, finite, log_parts, number, of_parts, size_of, turned, with_sign

EPSILON = 2.0**-52
LEAST = 2.0**-509  # the least float whose square is a normal number
FAR = 1 / EPSILON  # for larger x, x * x + 1 rounds to x * x
NEAR = 9e-9  # for smaller arguments, the functions are their argument
A_LARGE, B_LARGE = 10.0, 0.6417


def _half_excess(a: Expr, b: Expr, size: Expr) -> Expr:
    """Return (hypot(a, b) - b) / 2, given `size`, which is hypot(a, b)."""
    positive = where(call("equal", b, 0.0), a * 0.5, a * a / (size + b) * 0.5)
    return where(b < 0, (size - b) * 0.5, positive)


def _sqrt(x: Expr) -> Expr:
    return call("sqrt", x)


class _Hard(NamedTuple):
    """For x + yi in the first quadrant, the real part of asinh, and for the angle in its imaginary part the sine, or the opposite and
    adjacent sides.
    """

    real: Expr
    sine: Expr
    usable: Expr  # whether the sine is usable: neither near 1 nor near 0
    opposite: Expr
    adjacent: Expr


def _hard(x: Expr, y: Expr) -> _Hard:
    up, down = call("hypot", x, y + 1.0), call("hypot", x, y - 1.0)
    a = call("maximum", (up + down) * 0.5, 1.0)
    wide = call("greater_equal", x, EPSILON * size_of(y - 1.0))
    at_one, above = call("equal", y, 1.0), y > 1
    more = _half_excess(x, 1.0 + y, up) + _half_excess(x, 1.0 - y, down)
    short = where(
        at_one & (x < EPSILON * EPSILON / 128),
        _sqrt(x),
        where(
            wide,
            call("log1p", more + _sqrt(more * (a + 1.0))),
            where(
                above,
                call("log1p", (y - 1.0) + _sqrt((y - 1.0) * (y + 1.0))),
                x / _sqrt((1.0 - y) * (1.0 + y)),
            ),
        ),
    )
    real = where(a < A_LARGE, short, call("log", a + _sqrt(a * a - 1.0)))
    sine, tiny = y / a, y < LEAST
    apart = _half_excess(x, y + 1.0, up) + _half_excess(x, y - 1.0, down)
    thin = 4 / EPSILON / EPSILON
    adjacent = where(
        at_one & (x < EPSILON / 128),
        _sqrt(x) * _sqrt((a + y) * 0.5),
        where(
            wide,
            _sqrt(apart * (a + y)),
            where(above, x * thin * y / _sqrt((y + 1.0) * (y - 1.0)), _sqrt((1.0 - y) * (1.0 + y))),
        ),
    )
    scaled = above & call("logical_not", wide | at_one)
    return _Hard(
        real,
        sine,
        call("logical_not", tiny | (sine > B_LARGE)),
        where(tiny, y * (2 / EPSILON), where(scaled, y * thin, y)),
        where(tiny, a * (2 / EPSILON), adjacent),
    )


def _is_nan(a: Expr, b: Expr) -> Expr:
    return call("isnan", a) | call("isnan", b)


def asinh_parts(a: Expr, b: Expr) -> Two:
    """Return the inverse hyperbolic sine."""
    x, y = size_of(a), size_of(b)
    h = _hard(x, y)
    angle = where(h.usable, call("asin", h.sine), call("atan2", h.opposite, h.adjacent))
    far = (x > FAR) | (y > FAR)
    size, turn = log_parts(x, y)
    real = where(far, size + LN_2, where((x < NEAR) & (y < NEAR), x, h.real))
    imag = where(far, turn, where((x < NEAR) & (y < NEAR), y, angle))
    real, imag = with_sign(real, a), with_sign(imag, b)
    nan, zero = _is_nan(a, b), call("equal", b, 0.0)
    real = where(nan, where(call("isinf", a), a, where(call("isinf", b), b, a + b)), real)
    return real, where(nan, where(zero, b, number(float("nan"))), imag)


def acos_parts(a: Expr, b: Expr) -> Two:
    """Return the inverse cosine."""
    x, y = size_of(a), size_of(b)
    h = _hard(y, x)
    left = call("signbit", a)
    angle = where(
        h.usable,
        call("acos", where(left, -h.sine, h.sine)),
        call("atan2", h.adjacent, where(left, -h.opposite, h.opposite)),
    )
    far = (x > FAR) | (y > FAR)
    size, turn = log_parts(a, y)
    small = (x < NEAR) & (y < NEAR)
    real = where(far, size_of(turn), where(small, pi / 2 - (a - 6.123233995736766e-17), angle))
    imag = where(far, size + LN_2, where(small, y, h.real))
    at_one = call("equal", a, 1.0) & call("equal", b, 0.0)
    real, imag = where(at_one, 0.0, real), where(at_one, 0.0, imag)
    imag = with_sign(imag, -b)
    nan = _is_nan(a, b)
    real = where(nan, where(call("equal", a, 0.0), pi / 2, number(float("nan"))), real)
    return real, where(nan, where(call("isinf", a), -inf, where(call("isinf", b), -b, number(float("nan")))), imag)


def acosh_parts(a: Expr, b: Expr) -> Two:
    """Return the inverse hyperbolic cosine."""
    angle, size = acos_parts(a, b)
    return size_of(size), where(call("isnan", angle), angle, with_sign(angle, b))


def atanh_parts(a: Expr, b: Expr) -> Two:
    """Return the inverse hyperbolic tangent."""
    x, y = size_of(a), size_of(b)
    rest = x - 1.0
    squares = rest * rest + where(y < 2.0**-511, 0.0, y * y)
    at_one = call("equal", x, 1.0)
    edge = at_one & (y < EPSILON)
    real = where(edge, (LN_2 - call("log", y)) * 0.5, call("log1p", 4.0 * x / squares) * 0.25)
    opposite = where(at_one, 2.0, 2.0 * y)
    between = (1.0 - x) * (1.0 + x)
    adjacent = where(at_one, -y, where(y < EPSILON, between, between - y * y))
    imag = call("atan2", opposite, adjacent) * 0.5
    far, small = (x > FAR) | (y > FAR), (x < NEAR * 0.7) & (y < NEAR * 0.7)
    largest = call("maximum", x, y)
    p, q = x / largest, y / largest
    distant = where(finite(a) & finite(b), p / (p * p + q * q) / largest, 0.0)
    real = where(far, distant, where(small, x, real))
    imag = where(far, pi / 2, where(small, y, imag))
    real, imag = with_sign(real, a), with_sign(imag, b)
    nan, infinite = _is_nan(a, b), call("isinf", a) | call("isinf", b)
    real = where(nan, where(infinite, with_sign(0.0, a), number(float("nan"))), real)
    imag = where(nan, where(call("isinf", b), with_sign(pi / 2, b), number(float("nan"))), imag)
    on_axis = call("equal", b, 0.0) & call("less_equal", x, 1.0)
    upright = call("equal", a, 0.0)
    real = where(on_axis, call("atanh", a), where(upright, a, real))
    return real, where(on_axis, b, where(upright, call("atan", b), imag))


asinh, acosh, atanh = of_parts(asinh_parts), of_parts(acosh_parts), of_parts(atanh_parts)
asin, acos, atan = of_parts(turned(asinh_parts)), of_parts(acos_parts), of_parts(turned(atanh_parts))
