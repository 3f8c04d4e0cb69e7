"""Powers, logarithms and trigonometric functions of complex numbers, from real functions of their parts.

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
from .arithmetic import Two, infinite_unit, scaled_quotient
from .pairs import pair

LOG2_E, LOG10_E, LN_2 = 1 / _log(2), _log10(_exp(1)), _log(2)
LN_2_LOW, LN_2_LEAST = 2.3190468138462996e-17, 5.707708438416212e-34  # the rest of log(2) beyond LN_2, in two floats


def of_parts(function: Callable[[Expr, Expr], Two]) -> Callable[[Expr], Expr]:
    """Return the formula for complex numbers of a function of their parts in float64."""

    def formula(x: Expr) -> Expr:
        a, b = x.args
        real, imag = function(cast(a, float64), cast(b, float64))
        return pair(cast(real, a.dtype), cast(imag, a.dtype))

    formula.__doc__ = function.__doc__
    return formula


def turned(function: Callable[[Expr, Expr], Two]) -> Callable[[Expr, Expr], Two]:
    """Return the function -i f(i x) for a function f: it turns sinh into sin, and so on."""

    def formula(a: Expr, b: Expr) -> Two:
        real, imag = function(-b, a)
        return imag, -real

    return formula


def number(value: float) -> Const:
    """Return a float64 constant."""
    return Const(value, float64)


def with_sign(size: Expr | float, of: Expr) -> Expr:
    """Return a magnitude with the sign of `of`."""
    return call("copysign", size, of)


def finite(x: Expr) -> Expr:
    """Return whether a part is finite."""
    return call("isfinite", x)


def size_of(x: Expr) -> Expr:
    """Return the magnitude of a part."""
    return call("abs", x)


# --- powers of e ------------------------------------------------------------------------------------------------------

LARGE, SHIFT = 709.0, 600.0  # from LARGE on, exp is a product with exp(SHIFT): a cosine may bring it back into range


def _powers(name: str, large: float, shift: float, scale: float) -> Callable[[Expr, Expr, Two], Two]:
    """Return a function of a real exponent `a`, an angle `b`, and cosine and sine of the angle: the power times both. The angle is 0 where
    `b` is.
    """

    def formula(a: Expr, b: Expr, turn: Two) -> Two:
        is_large = a > large
        size = call(name, where(is_large, (a - shift) * 0.5, a))
        again, back = where(is_large, size, number(1.0)), where(is_large, scale, number(1.0))
        real, imag = size * turn[0] * again * back, size * turn[1] * again * back
        nowhere = call("logical_not", finite(b))
        real = where(nowhere & call("isinf", a), where(a > 0, a, number(0.0)), real)
        imag = where(nowhere & call("equal", a, -inf), with_sign(0.0, b), imag)
        return real, where(call("equal", b, 0.0), b, imag)

    return formula


_power_of_e = _powers("exp", LARGE, SHIFT, _exp(SHIFT))
_power_of_2 = _powers("exp2", 1023.0, 1000.0, 2.0**1000)


def exp_parts(a: Expr, b: Expr) -> Two:
    """Return e to the power a + bi."""
    return _power_of_e(a, b, (call("cos", b), call("sin", b)))


def exp2_parts(a: Expr, b: Expr) -> Two:
    """Return 2 to the power a + bi.

    The angle b log(2) is the sum of three numbers, and the result is rotated by each. This has about the needed digits for b up to 2**106;
    beyond, only the magnitude is right.
    """
    middle, rest = _two_sum(_two_product(b, LN_2), b * LN_2_LOW)
    angles = b * LN_2, middle, rest + _two_product(b, LN_2_LOW) + b * LN_2_LEAST
    turns = [(call("cos", angle), call("sin", angle)) for angle in angles]
    return _power_of_2(a, b, _product(_product(turns[0], turns[1]), turns[2]))


def expm1_parts(a: Expr, b: Expr) -> Two:
    """Return e to the power a + bi, minus 1: accurate near 0."""
    real, imag = exp_parts(a, b)
    half = call("sin", b * 0.5)
    near = call("expm1", a) * call("cos", b) - 2.0 * half * half
    near = near + 0.0  # C99 has 0 for -0, too
    return where((size_of(a) < 40.0) & finite(b), near, real - 1.0), imag


def _hyperbolic(a: Expr) -> tuple[Expr, Expr, Two]:
    """Return cosh and sinh, each to be multiplied by two further factors, so that they do not overflow before the final product does."""
    size = size_of(a)
    is_large = size > LARGE
    root = call("exp", (size - SHIFT) * 0.5)
    again, back = where(is_large, root, number(1.0)), where(is_large, _exp(SHIFT) / 2, number(1.0))
    return where(is_large, root, call("cosh", a)), where(is_large, with_sign(root, a), call("sinh", a)), (again, back)


def sinh_parts(a: Expr, b: Expr) -> Two:
    """Return the hyperbolic sine."""
    cosh, sinh, (again, back) = _hyperbolic(a)
    nowhere = call("logical_not", finite(b))
    at_edge = nowhere & (call("equal", a, 0.0) | call("isinf", a))
    real = where(at_edge, a, sinh * call("cos", b) * again * back)
    return real, where(call("equal", b, 0.0), b, cosh * call("sin", b) * again * back)


def cosh_parts(a: Expr, b: Expr) -> Two:
    """Return the hyperbolic cosine."""
    cosh, sinh, (again, back) = _hyperbolic(a)
    nowhere = call("logical_not", finite(b))
    real = where(nowhere & call("isinf", a), inf, cosh * call("cos", b) * again * back)
    imag = where(nowhere & call("equal", a, 0.0), a, sinh * call("sin", b) * again * back)
    return real, where(call("equal", b, 0.0), b * with_sign(1.0, a), imag)


def tanh_parts(a: Expr, b: Expr) -> Two:
    """Return the hyperbolic tangent, by the formula of Kahan ("Branch cuts for complex elementary functions", 1987)."""
    size = size_of(a)
    is_large = size > 22.0
    tan, sinh = call("tan", b), call("sinh", where(is_large, number(1.0), a))
    slope = 1.0 + tan * tan
    divisor = 1.0 + slope * sinh * sinh
    real = slope * call("sqrt", 1.0 + sinh * sinh) * sinh / divisor
    far = 4.0 * call("sin", b) * call("cos", b) * call("exp", -2.0 * size)
    far = where(call("isinf", a), with_sign(0.0, b), far)  # as in C99, whatever the sign of sin(2 b)
    one = where(finite(b) | call("isinf", a), with_sign(1.0, a), number(nan))
    real = where(is_large, one, where(call("equal", a, 0.0), a, real))
    return real, where(call("equal", b, 0.0), b, where(is_large, far, tan / divisor))


def cos_parts(a: Expr, b: Expr) -> Two:
    """Return the cosine."""
    return cosh_parts(-b, a)


# --- roots and logarithms ---------------------------------------------------------------------------------------------


def sign_parts(a: Expr, b: Expr) -> Two:
    """Return a number divided by its magnitude, without overflow or loss of digits on the way; 0 for 0.

    If one part is infinite, the other part is negligible. If both are, the angle is undefined and the result is NaN.
    """
    largest = call("maximum", size_of(a), size_of(b))
    scale = where(largest > 2.0**1000, 2.0**-100, where(largest < 2.0**-900, 2.0**200, number(1.0)))
    one_infinite = call("isinf", largest) & call("not_equal", call("isinf", a), call("isinf", b))
    x, y = (where(one_infinite, infinite_unit(part), part * scale) for part in (a, b))
    size, is_zero = call("hypot", x, y), call("equal", largest, 0.0)
    return where(is_zero, 0.0, x / size), where(is_zero, 0.0, y / size)


def sqrt_parts(a: Expr, b: Expr) -> Two:
    """Return the square root with a real part of at least 0."""
    largest = call("maximum", size_of(a), size_of(b))
    down, up = largest > 2.0**1000, largest < 2.0**-900
    before = where(down, 2.0**-4, where(up, 2.0**200, number(1.0)))
    after = where(down, 2.0**2, where(up, 2.0**-100, number(1.0)))
    x, y = a * before, b * before
    one = call("sqrt", (size_of(x) + call("hypot", x, y)) * 0.5)
    other = size_of(y) / (2.0 * one)
    right = call("greater_equal", a, 0.0)
    is_zero, beside = call("equal", largest, 0.0), call("isinf", b)
    real = where(is_zero, 0.0, where(beside, inf, where(right, one, other) * after))
    imag = with_sign(where(right, other, one) * after, b)
    return real, where(is_zero | beside, b, imag)


def _halves(x: Expr) -> Two:
    """Return a number as the sum of two numbers of half as many digits (Dekker, "A floating-point technique for extending the available
    precision", 1971).
    """
    shifted = 134217729.0 * x
    high = shifted - (shifted - x)
    return high, x - high


def _two_square(x: Expr) -> Two:
    """Return a square and its rounding error."""
    high, low = _halves(x)
    square = x * x
    return square, ((high * high - square) + 2.0 * high * low) + low * low


def _two_product(x: Expr, y: float) -> Expr:
    """Return the rounding error of a product with a constant; 0 for large numbers."""
    (high, low), shifted = _halves(x), 134217729.0 * y
    above = shifted - (shifted - y)
    below = y - above
    rest = ((high * above - x * y) + (high * below + low * above)) + low * below
    return where(size_of(x) < 2.0**900, rest, 0.0)


def _two_sum(x: Expr, y: Expr) -> Two:
    """Return a sum and its rounding error."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _added(x: Expr, y: Expr, z: Expr, rest: Expr) -> Expr:
    """Return the sum of all four numbers, rounded about once."""
    one, first = _two_sum(x, y)
    two, second = _two_sum(one, z)
    return two + (first + second + rest)


def _logarithm_of_size(name: str, a: Expr, b: Expr) -> Expr:
    """Return the logarithm of hypot(a, b), to the base of the named real logarithm."""
    largest = call("maximum", size_of(a), size_of(b))
    down, up = largest > 2.0**1000, largest < 2.0**-900
    scale = where(down, 2.0**-100, where(up, 2.0**200, number(1.0)))
    of_two = {"log": LN_2, "log2": 1.0, "log10": _log10(2.0)}[name]
    back = where(down, 100 * of_two, where(up, -200 * of_two, number(0.0)))
    return call(name, call("hypot", a * scale, b * scale)) + back


def _near_one(excess: Expr, name: str) -> Expr:
    """Return the logarithm of a magnitude whose square is 1 + `excess`."""
    return call("log1p", excess) * (0.5 * {"log": 1.0, "log2": LOG2_E, "log10": LOG10_E}[name])


def _logarithm(name: str) -> Callable[[Expr, Expr], Two]:
    turn = {"log": 1.0, "log2": LOG2_E, "log10": LOG10_E}[name]

    def formula(a: Expr, b: Expr) -> Two:
        large, small = call("maximum", size_of(a), size_of(b)), call("minimum", size_of(a), size_of(b))
        (one, one_rest), (other, other_rest) = _two_square(large), _two_square(small)
        excess = _added(one, number(-1.0), other, one_rest + other_rest)
        is_near = (large > 0.5) & (large < 2.0) & (excess > -0.7)
        real = where(is_near, _near_one(excess, name), _logarithm_of_size(name, a, b))
        return real, call("atan2", b, a) * turn if turn != 1 else call("atan2", b, a)

    formula.__doc__ = "The logarithm, with its imaginary part from -pi to pi (of base e)."
    return formula


log_parts = _logarithm("log")
log2_parts = _logarithm("log2")
log10_parts = _logarithm("log10")


def log1p_parts(a: Expr, b: Expr) -> Two:
    """Return the logarithm of 1 + a + bi, accurate near 0."""
    (one, one_rest), (other, other_rest) = _two_square(a), _two_square(b)
    excess = _added(2.0 * a, one, other, one_rest + other_rest)
    is_near = (size_of(a) < 4.0) & (size_of(b) < 4.0) & (excess > -0.7) & (excess < 3.0)
    real = where(is_near, _near_one(excess, "log"), _logarithm_of_size("log", 1.0 + a, b))
    return real, call("atan2", b, 1.0 + a)


# --- powers -----------------------------------------------------------------------------------------------------------

WHOLE = 7  # bits of an integer exponent for which powers are computed as products


def pow(x: Expr, y: Expr) -> Expr:
    """Return x to the power y: a product for small integers y if it does not overflow on the way, else exp(y log(x)).

    A power of 0 is 0 where the real part of y is positive, 1 where y is 0, else NaN: as in C, and as limits say.
    """
    part = x.args[0].dtype
    a, b, c, d = (cast(p, float64) for p in (*x.args, *y.args))
    log_size, angle = log_parts(a, b)
    real, imag = exp_parts(c * log_size - d * angle, c * angle + d * log_size)
    of_real, is_small = call("equal", d, 0.0), size_of(c) < float(1 << WHOLE)
    is_whole = of_real & is_small & call("equal", call("trunc", c), c)
    product = _whole_power(a, b, cast(where(is_whole, c, number(0.0)), int64))
    is_zero = call("equal", a, 0.0) & call("equal", b, 0.0)
    of_zero = where(c > 0, 0.0, number(nan))
    one = of_real & call("equal", c, 0.0)
    written_out = is_whole & ((finite(product[0]) & finite(product[1])) | call("logical_not", finite(a) & finite(b)))
    real, imag = (where(written_out, p, q) for p, q in zip(product, (real, imag), strict=True))
    real = where(one, 1.0, where(is_zero, of_zero, real))
    imag = where(one, 0.0, where(is_zero, of_zero, imag))
    return pair(cast(real, part), cast(imag, part))


def logaddexp(x: Expr, y: Expr) -> Expr:
    """Return log(exp(x) + exp(y)), its principal value: the operand with the larger real part, plus log1p(exp(difference of the other to
    it)).
    """
    part = x.args[0].dtype
    a, b, c, d = (cast(p, float64) for p in (*x.args, *y.args))
    is_first = call("greater_equal", a, c)
    (high, turn), (low, other_turn) = [(where(is_first, p, r), where(is_first, q, s)) for p, q, r, s in ((a, b, c, d), (c, d, a, b))]
    more, angle = log1p_parts(*exp_parts(low - high, other_turn - turn))
    equal_infinities = call("equal", high, low) & call("isinf", high)
    real = where(equal_infinities, high, high + more)
    imag = where(equal_infinities, turn, turn + angle)
    imag = imag - call("round", imag * (0.5 / pi)) * (2.0 * pi)
    return pair(cast(real, part), cast(imag, part))


def _whole_power(a: Expr, b: Expr, n: Expr) -> Two:
    """Return a power by repeated squaring."""
    count = call("abs", n)
    found: Two = number(1.0), number(0.0)
    factor: Two = a, b
    started: Expr = Const(False, boolean)
    for bit in range(WHOLE):
        if bit:
            factor = _product(factor, factor)
        wanted = call("not_equal", call("bitwise_and", count, 1 << bit), 0)
        product = _product(found, factor)
        further = [where(started, p, f) for p, f in zip(product, factor, strict=True)]
        found = where(wanted, further[0], found[0]), where(wanted, further[1], found[1])
        started = started | wanted
    below = scaled_quotient((number(1.0), number(0.0)), found)
    return where(n < 0, below[0], found[0]), where(n < 0, below[1], found[1])


def _product(x: Two, y: Two) -> Two:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


sign = of_parts(sign_parts)
exp, exp2, expm1, sqrt = of_parts(exp_parts), of_parts(exp2_parts), of_parts(expm1_parts), of_parts(sqrt_parts)
log, log1p, log2, log10 = map(of_parts, (log_parts, log1p_parts, log2_parts, log10_parts))
sinh, cosh, tanh = of_parts(sinh_parts), of_parts(cosh_parts), of_parts(tanh_parts)
sin, cos, tan = of_parts(turned(sinh_parts)), of_parts(cos_parts), of_parts(turned(tanh_parts))
