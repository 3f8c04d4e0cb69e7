"""VJP formulas (pull-backs) of operations: for each operand, the cotangent of the result times the derivative by this operand. A function
here takes the cotangent `g`, the result `r` and the operands, all as expressions. It returns one expression for each operand, or None where
the derivative is 0 everywhere.

The pull-back of a holomorphic function multiplies by the conjugate of its derivative. So the cotangent of a complex number `z` is dL/d(re
z) + 1j dL/d(im z), the direction in which a real loss L rises. A formula uses `r` where it would repeat the function of its operand: then
the operand need not be saved.

At kinks these are the subgradients of PyTorch, the least of the possible ones: `abs` and `relu` have 0 at 0, `clip` has 0 at its bounds,
`std` has 0 where it is 0, and equal operands of `maximum` and `minimum` share the cotangent.
"""

from __future__ import annotations

from math import log, pi, sqrt

from .expr import Expr, call, cast, where, zero

Cotangents = tuple[Expr | None, ...]


def conj(x: Expr) -> Expr:
    """Return the complex conjugate of the expression `x`, or `x` itself if it is real."""
    return call("conj", x) if x.dtype.is_complex else x


def _times(g: Expr, derivative: Expr) -> Expr:
    """Return the cotangent `g` times the conjugate of `derivative`: the pull-back of a holomorphic function."""
    return g * conj(derivative)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def add(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    return g, g


def subtract(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    return g, -g


def multiply(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    return _times(g, y), _times(g, x)


def divide(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    return g / conj(y), -(g * conj(r) / conj(y))


def divide_by_real(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    return call("divide_by_real", g, y), -call("real", g * conj(r)) / y


def remainder(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    return g, -(g * call("floor", x / y))


def power(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    unit = zero(y.dtype) + 1
    by_base = where(call("equal", y, zero(y.dtype)), zero(g.dtype), _times(g, y * call("pow", x, y - unit)))
    real_exponent = call("real", y) if y.dtype.is_complex else y
    # every power of such a base is 0 or 1
    is_constant = call("equal", x, zero(x.dtype)) & call("greater_equal", real_exponent, zero(real_exponent.dtype))
    by_exponent = _times(g, r * call("log", where(is_constant, unit, x)))
    return by_base, where(is_constant, zero(g.dtype), by_exponent)


def negative(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (-g,)


def positive(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g,)


def square(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, x + x),)


def reciprocal(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (-_times(g, r * r),)


def sqrt_(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g * 0.5 / conj(r),)


def deviation(g: Expr, r: Expr, x: Expr) -> Cotangents:
    is_zero = call("equal", r, zero(r.dtype))
    return (where(is_zero, zero(g.dtype), g * 0.5 / where(is_zero, 1.0, r)),)


def rsqrt(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, r * r * r) * -0.5,)


def cast_(g: Expr, r: Expr, x: Expr) -> Cotangents:
    if g.dtype.is_complex and not x.dtype.is_complex:
        g = call("real", g)
    return (cast(g, x.dtype),)


# --- parts of complex numbers -----------------------------------------------------------------------------------------


def real(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (cast(g, x.dtype),)


def imag(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (cast(g, x.dtype) * 1j if x.dtype.is_complex else None,)


def conj_(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (conj(g),)


def abs_(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (cast(g, x.dtype) * call("sign", x),)


def squared_abs(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (cast(g, x.dtype) * (x + x),)


def sign(g: Expr, r: Expr, x: Expr) -> Cotangents:
    """Return the cotangent of x for a complex x: x / abs(x) changes with the direction of x alone. It is 0 at 0, and None for a real x."""
    if not x.dtype.is_complex:
        return (None,)
    magnitude = call("abs", x)
    tangential = cast(call("imag", conj(r) * g), x.dtype)
    cotangent = tangential * 1j * r / cast(magnitude, x.dtype)
    return (where(call("equal", magnitude, 0.0), zero(x.dtype), cotangent),)


# --- choices ----------------------------------------------------------------------------------------------------------


def _split_ties(wins: Expr, ties: Expr, g: Expr) -> Expr:
    """Return the cotangent `g` where the boolean `wins` holds, half of it where `ties` holds, and 0 elsewhere."""
    return where(wins, g, where(ties, g * 0.5, zero(g.dtype)))


def maximum(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    ties = call("equal", x, y)
    return _split_ties(call("greater", x, y), ties, g), _split_ties(call("greater", y, x), ties, g)


def minimum(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    ties = call("equal", x, y)
    return _split_ties(call("less", x, y), ties, g), _split_ties(call("less", y, x), ties, g)


def clip(g: Expr, r: Expr, x: Expr, low: Expr, high: Expr) -> Cotangents:
    no_cotangent = zero(g.dtype)
    below, above = call("less_equal", x, low), call("greater_equal", x, high)
    by_low = where(below & call("less_equal", low, high), g, no_cotangent)
    by_high = where(above | call("less", high, low), g, no_cotangent)  # the result is `high` where low > high
    return where(below | above, no_cotangent, g), by_low, by_high


def at_least(g: Expr, r: Expr, x: Expr, low: Expr) -> Cotangents:
    below = call("less_equal", x, low)
    return where(below, zero(g.dtype), g), where(below, g, zero(g.dtype))


def at_most(g: Expr, r: Expr, x: Expr, high: Expr) -> Cotangents:
    above = call("greater_equal", x, high)
    return where(above, zero(g.dtype), g), where(above, g, zero(g.dtype))


def relu(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (where(call("less_equal", r, zero(r.dtype)), zero(g.dtype), g),)


def where_(g: Expr, r: Expr, condition: Expr, x: Expr, y: Expr) -> Cotangents:
    return None, where(condition, g, zero(g.dtype)), where(condition, zero(g.dtype), g)


def copysign(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    by_magnitude = where(call("equal", call("signbit", x), call("signbit", y)), g, -g)
    return where(call("equal", x, zero(x.dtype)), zero(g.dtype), by_magnitude), None


def first_operand_only(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    """Return the cotangent `g` unchanged for the first operand `x`, and None for the second, `y`, which matters only for rounding."""
    return g, None


def no_cotangents(g: Expr, r: Expr, *args: Expr) -> Cotangents:
    """Return None for each operand: the operation is piecewise constant."""
    return (None,) * len(args)


# --- elementary functions ---------------------------------------------------------------------------------------------


def exp(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, r),)


def exp2(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, r) * log(2),)


def expm1(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, r + 1.0),)


def log_(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g / conj(x),)


def log1p(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g / conj(x + 1.0),)


def log2(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g / conj(x * log(2)),)


def log10(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g / conj(x * log(10)),)


def sin(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, call("cos", x)),)


def cos(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (-_times(g, call("sin", x)),)


def tan(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, r * r + 1.0),)


def _one_minus_square(x: Expr) -> Expr:
    """Return 1 - x * x as a product, which is precise for x near 1 and -1."""
    return (1.0 - x) * (1.0 + x)


def asin(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g / conj(call("sqrt", _one_minus_square(x))),)


def acos(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (-(g / conj(call("sqrt", _one_minus_square(x)))),)


def atan(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g / conj(x * x + 1.0),)


def sinh(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, call("cosh", x)),)


def cosh(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, call("sinh", x)),)


def tanh(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (_times(g, _one_minus_square(r)),)


def asinh(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g / conj(call("sqrt", x * x + 1.0)),)


def acosh(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g / conj(call("sqrt", x - 1.0) * call("sqrt", x + 1.0)),)


def atanh(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g / conj(_one_minus_square(x)),)


def erf(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g * call("exp", -(x * x)) * (2 / sqrt(pi)),)


def erfinv(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g * call("exp", r * r) * (sqrt(pi) / 2),)


def atan2(g: Expr, r: Expr, y: Expr, x: Expr) -> Cotangents:
    squared_norm = x * x + y * y
    is_origin = call("equal", squared_norm, zero(squared_norm.dtype))  # the angle is undefined at the origin
    share = where(is_origin, zero(g.dtype), g) / where(is_origin, 1.0, squared_norm)
    return share * x, -(share * y)


def hypot(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    return g * (x / r), g * (y / r)


def logaddexp(g: Expr, r: Expr, x: Expr, y: Expr) -> Cotangents:
    if r.dtype.is_complex:
        return _times(g, call("exp", x - r)), _times(g, call("exp", y - r))
    return g * call("sigmoid", x - y), g * call("sigmoid", y - x)


def sigmoid(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g * (r * (1.0 - r)),)


def silu(g: Expr, r: Expr, x: Expr) -> Cotangents:
    s = call("sigmoid", x)
    return (g * (s * (1.0 + x * (1.0 - s))),)


def softplus(g: Expr, r: Expr, x: Expr) -> Cotangents:
    return (g * call("sigmoid", x),)


def gelu(g: Expr, r: Expr, x: Expr) -> Cotangents:
    below = call("erf", x * sqrt(0.5)) * 0.5 + 0.5
    return (g * (below + x * call("exp", x * x * -0.5) * (1 / sqrt(2 * pi))),)


def gelu_tanh(g: Expr, r: Expr, x: Expr) -> Cotangents:
    a, b = sqrt(2 / pi), 0.044715
    t = call("tanh", (x + x * x * x * b) * a)
    inner = (1.0 + x * x * (3 * b)) * a
    return (g * ((1.0 + t) * 0.5 + x * 0.5 * _one_minus_square(t) * inner),)
