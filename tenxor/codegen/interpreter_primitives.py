"""The primitive operations on the values of single elements, in Python and NumPy, for the interpreter.

A value is a Python bool, a Python int, or a NumPy float of the compute type of its dtype: a `float16` or `bfloat16` is a `float32` that
fits the narrow type. Integers are computed exactly and then wrapped; floats are rounded once per operation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ..dtypes import DType, bfloat16, boolean, float16
from ..ops.expr import Call

NumpyFloat = np.floating[Any]
ScalarValue = bool | int | NumpyFloat


def get_primitive(e: Call) -> Callable[..., ScalarValue]:
    """Return the primitive operation of `e` as a function from the values of the operands to the value of the result.

    A primitive operation has no formula. Integers are computed exactly and wrapped to the dtype of `e`; floats are rounded.
    """
    name, dtype = e.op.name, e.dtype
    exact = partial(DTYPE_PRIMITIVES[name], dtype) if name in DTYPE_PRIMITIVES else PRIMITIVES[name]
    if dtype is boolean:
        return lambda *args: bool(exact(*args))
    if dtype.is_integer:
        lowest, modulus = int(dtype.lowest), 1 << dtype.bits
        return lambda *args: (int(exact(*args)) - lowest) % modulus + lowest
    element = dtype.compute_dtype.numpy.type
    if dtype.compute_dtype is dtype:
        if name in ARITHMETIC:  # of NumPy floats of `dtype`, which NumPy rounds
            return PRIMITIVES[name]
        return lambda *args: element(exact(*args))
    return lambda *args: cast(element(exact(*args)), dtype)


# --- dtypes -------------------------------------------------------------------------------------------------


def from_memory(raw: Any, dtype: DType) -> ScalarValue:
    """Return the value of `raw`, an element of an array of `dtype` in memory (`bfloat16` as its bits). `dtype` must be real."""
    if dtype is bfloat16:
        bits = np.uint32(int(raw) << 16)
        return bits.view(np.float32)
    return cast(raw if dtype.is_float else raw.item(), dtype)


def to_memory(value: ScalarValue, dtype: DType) -> Any:
    """Return `value`, a value of the real `dtype`, as an element of an array in memory: a NumPy scalar (`bfloat16` as its bits)."""
    if dtype is bfloat16:
        return np.uint16(int(np.float32(value).view(np.uint32)) >> 16)
    return dtype.numpy.type(value)


def wrap_integer(value: int, dtype: DType) -> int:
    """Return `value` modulo 2**bits, as an integer of `dtype`."""
    lowest = int(dtype.lowest)
    return (value - lowest) % (1 << dtype.bits) + lowest


def cast(value: Any, dtype: DType) -> ScalarValue:
    """Return `value`, a Python or NumPy real number, converted to the real `dtype`.

    Integers wrap modulo 2**bits. A bool tells whether the number differs from 0. Floats are truncated to integers and saturate; NaN gives
    0. Conversions to floats round once.
    """
    if dtype.compute_dtype is dtype and type(value) is dtype.numpy.type:
        unchanged: NumpyFloat = value
        return unchanged
    if dtype is boolean:
        return bool(value != 0)
    if dtype.is_integer:
        return wrap_integer(int(value), dtype) if isinstance(value, int) else saturate(float(value), dtype)
    if dtype is bfloat16:
        return to_bfloat16(value)
    if isinstance(value, int):  # NumPy rounds its own 64-bit integers once, but Python integers twice
        value = np.uint64(value) if value > 0 else np.int64(value)
    rounded: Any = np.asarray(value).astype(dtype.numpy)[()]
    return np.float32(rounded) if dtype is float16 else rounded


def saturate(value: float, dtype: DType) -> int:
    """Return a float truncated to an integer, limited to the range of the integer dtype `dtype`; 0 for NaN."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(dtype.highest if value > 0 else dtype.lowest)
    return int(max(dtype.lowest, min(dtype.highest, int(value))))


def to_bfloat16(value: Any) -> ScalarValue:
    """Return the bfloat16 nearest to a number, ties to even, as a float32."""
    single = value if isinstance(value, np.float32) else _round_to_odd(value)
    if np.isnan(single):
        return single
    bits = int(single.view(np.uint32))
    return np.uint32(bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def _round_to_odd(value: int | float) -> np.float32:
    """Return `value` as a float32 that rounds to the same bfloat16 as `value` itself (round to odd).

    An inexact result is truncated, and the last bit set.
    """
    nearest = np.float32(value)
    if math.isnan(nearest) or float(nearest) == value:
        return nearest
    truncated = nearest if abs(float(nearest)) < abs(value) else np.nextafter(nearest, np.float32(0))
    return np.uint32(truncated.view(np.uint32) | 1).view(np.float32)


# --- the meaning of the primitives --------------------------------------------------------------------------


def _round_floats(function: Callable[[Any], Any]) -> Callable[[ScalarValue], Any]:
    """Return a function of one value that applies `function`, like `np.floor`, to a float, and returns a bool or int unchanged."""
    return lambda x: x if isinstance(x, int) else function(x)


def _elementary(name: str) -> Callable[..., Any]:
    """Return a function that computes `math.<name>` of its arguments in float64.

    Where Python raises ValueError or OverflowError, the function returns the infinity or NaN of NumPy's function of this name.
    """
    exact, special = getattr(math, name), getattr(np, name, None)

    def function(*args: NumpyFloat) -> Any:
        try:
            return exact(*map(float, args))
        except (ValueError, OverflowError):
            assert special is not None
            return special(*map(np.float64, args))

    return function


def _erfinv(x: Any) -> Any:
    """Return the inverse error function of x: infinity at 1 and -1, NaN beyond.

    Newton's method solves for the C library's erf, or for erfc where 1 - |x| is exact.
    """
    from statistics import NormalDist

    magnitude = abs(float(x))
    if not magnitude < 1:
        return math.copysign(math.inf, x) if magnitude == 1 else math.nan
    if magnitude < 0.5:
        root = magnitude
        for _ in range(7):
            root -= (math.erf(root) - magnitude) * math.exp(root * root) * math.sqrt(math.pi) / 2
    else:
        complement = 1 - magnitude
        root = -NormalDist().inv_cdf(complement / 2) / math.sqrt(2)
        root += (math.erfc(root) - complement) * math.exp(root * root) * math.sqrt(math.pi) / 2
    return math.copysign(root, x)


def _pow(x: Any, y: Any) -> Any:
    """Return x**y; for integers, a number equal to it modulo 2**64, and with a negative y the reciprocal truncated (0 for x = 0)."""
    if not isinstance(x, int):
        return _float_pow(x, y)
    if y >= 0:
        return pow(x, y, 1 << 64)
    return (x if y % 2 else 1) if abs(x) == 1 else 0  # the integer part of a reciprocal


_float_pow = _elementary("pow")


def _divide_by_one_plus_exp(x: Any, t: Any, t_low: Any = 0) -> Any:
    """Return x / (1 + e**(t + t_low)), the common form of sigmoid, silu and gelu_tanh. `t_low` is a small correction of the exponent.

    Where t is +infinity, return 0 with the sign of x, whatever x is.
    """
    if t == np.inf:
        return np.copysign(0, x)
    if t < 700:
        return x / (1 + np.exp(t) * (1 + t_low))
    return x * np.exp(-t / 2) * (1 - t_low) * np.exp(-t / 2)


def _gelu(x: Any) -> Any:
    """Return gelu(x) = x/2 erfc(y) with y = -x / sqrt(2), corrected for the rounding error of y, which counts where erfc is steep."""
    if x == -np.inf:
        return np.float64(-0.0)
    y = float(x) * -math.sqrt(0.5)
    if 26.5 <= y < 30:
        return _gelu_tail(float(x))
    erfc = np.float64(math.erfc(y))
    if 1 < y < 26.5:
        exact = Fraction(float(x)) * (Fraction(4.833646656726458e-17) - Fraction(math.sqrt(0.5)))
        erfc -= float(exact - Fraction(y)) * math.exp(-y * y) * 2 / math.sqrt(math.pi)
    return x * 0.5 * erfc


def _gelu_tail(x: float) -> Any:
    """Return gelu(x) for 26.5 <= y < 30, with y as in `_gelu`, by the asymptotic series: erfc(y) has few bits left, or none.

    The factor e**(-y**2) is the square of a root, and is multiplied last.
    """
    exact = Fraction(x) ** 2 / 4  # y**2 is x**2 / 2
    half = float(exact)
    root = math.exp(-half) * (1 - float(exact - Fraction(half)))
    term = total = 1.0
    for k in range(1, 9):
        term *= -(2 * k - 1) / (x * x)
        total += term
    return np.float64(-total / math.sqrt(2 * math.pi) * root * root)


def _gelu_tanh(x: Any) -> Any:
    """Return the tanh approximation of gelu(x): x / (1 + e**t) with t = -2 sqrt(2 / pi) (x + 0.044715 x**3), computed in fractions."""
    if not -24 < x < 24:
        return _divide_by_one_plus_exp(np.float64(x), np.copysign(np.inf, -x))
    exact_x = Fraction(float(x))
    t = -(Fraction(1.5957691216057308) - Fraction(9.96930880911092e-17)) * (exact_x + Fraction("0.044715") * exact_x**3)
    rounded = float(t)
    return _divide_by_one_plus_exp(np.float64(x), np.float64(rounded), float(t - Fraction(rounded)))


def _floor_divide(x: Any, y: Any) -> Any:
    """Return the floor of the exact quotient x / y; 0 for an integer divided by 0.

    For floats, a quotient that is zero, infinite, NaN or beyond the exact integers is returned as NumPy rounds it.
    """
    if isinstance(x, int):
        return x // y if y else 0
    quotient = x / y
    if x == 0 or np.isinf(y) or not abs(quotient) < 2 ** (24 if isinstance(quotient, np.float32) else 53):
        return quotient  # a zero of either sign, an infinity, NaN, or so large that it is an integer
    return Fraction(float(x)) // Fraction(float(y))  # exact: x / y may be rounded up to the next integer


def _remainder(x: Any, y: Any) -> Any:
    """Return the remainder x - y floor(x / y), with the sign of y, also for a zero; divided by 0, 0 for integers and NaN for floats."""
    if isinstance(x, int):
        return x % y if y else 0
    remainder = np.fmod(x, y)
    if remainder == 0:
        return np.copysign(remainder, y)
    return remainder + y if (remainder < 0) != (y < 0) else remainder


def _maximum(x: Any, y: Any) -> Any:
    """Return the larger of x and y; NaN if either is NaN. The zero +0 is above -0."""
    if x == y:
        return y if math.copysign(1, x) < 0 else x  # +0 is above -0
    return x if x > y or x != x else y


def _minimum(x: Any, y: Any) -> Any:
    """Return the smaller of x and y; NaN if either is NaN. The zero -0 is below +0."""
    if x == y:
        return x if math.copysign(1, x) < 0 else y
    return x if x < y or x != x else y


def _next_after(dtype: DType, x: Any, y: Any) -> Any:
    """Return the float of `dtype` next to x in the direction of y; y itself if they are equal."""
    if x == y:
        return y
    if dtype is float16:
        return np.nextafter(np.float16(x), np.float16(y))
    neighbour = np.nextafter(x, y)
    if dtype is not bfloat16 or np.isnan(neighbour) or neighbour == x:
        return neighbour
    bits = int(neighbour.view(np.uint32)) + (0xFFFF if abs(neighbour) > abs(x) else 0)  # on to the next bfloat16
    return np.uint32(bits & 0xFFFF0000).view(np.float32)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
}
PRIMITIVES: dict[str, Callable[..., Any]] = {
    **ARITHMETIC,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "pow": _pow,
    "negative": lambda x: -x,
    "positive": lambda x: x,
    "abs": lambda x: abs(x),
    "sign": lambda x: (x > 0) - (x < 0) if isinstance(x, int) else np.sign(x),
    "sqrt": np.sqrt,
    "maximum": _maximum,
    "minimum": _minimum,
    "where": lambda condition, x, y: x if condition else y,
    # rounding and parts
    "floor": _round_floats(np.floor),
    "ceil": _round_floats(np.ceil),
    "trunc": _round_floats(np.trunc),
    "round": _round_floats(np.rint),
    "copysign": np.copysign,
    "float_to_bits": lambda x: int(x.view(f"u{x.itemsize}")),
    "signbit": np.signbit,
    "isnan": lambda x: x != x,
    "isinf": lambda x: abs(x) == math.inf,
    "isfinite": lambda x: abs(x) < math.inf,
    # comparison and logic
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "logical_and": lambda x, y: x and y,
    "logical_or": lambda x, y: x or y,
    "logical_xor": lambda x, y: x != y,
    "logical_not": lambda x: not x,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "bitwise_invert": lambda x: not x if isinstance(x, bool) else ~x,
    # elementary functions
    **{
        name: _elementary(name)
        for name in (
            *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos"),
            *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "atan2", "hypot"),
        )
    },
    "erfinv": _erfinv,
    "logaddexp": lambda x, y: np.logaddexp(np.float64(x), np.float64(y)),
    "rsqrt": lambda x: 1 / np.sqrt(np.float64(x)),
    "sigmoid": lambda x: _divide_by_one_plus_exp(np.float64(1), -np.float64(x)),
    "silu": lambda x: _divide_by_one_plus_exp(np.float64(x), -np.float64(x)),
    "softplus": lambda x: np.logaddexp(np.float64(x), 0),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
}

# Operations on the dtype of the result, the first argument, and values. The count of a shift is unsigned.
DTYPE_PRIMITIVES: dict[str, Callable[..., Any]] = {
    "cast": lambda dtype, x: cast(x, dtype),
    "nextafter": _next_after,
    "bits_to_float": lambda dtype, x: np.uint64(x).astype(f"u{dtype.itemsize}").view(dtype.numpy),
    "bitwise_left_shift": lambda dtype, x, y: x << y if 0 <= y < dtype.bits else 0,
    "bitwise_right_shift": lambda dtype, x, y: x >> (y if 0 <= y < dtype.bits else dtype.bits),
    "multiply_high": lambda dtype, x, y: x * y >> dtype.bits,
}
