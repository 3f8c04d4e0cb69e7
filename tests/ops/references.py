"""What each entry of the op table means, written with NumPy and Python's integers from its documentation.

`expected(name, *operands)` gives the exact or nearest result; `TOLERANCE` says by how many units in the last place an
operation may miss it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import mp, mpf

from tenxor.dtypes import DType

from .values import DTYPE, ELEMENT, Array, narrowed

Reference = Callable[..., Array]


def compute_type(dtype: DType) -> Any:
    """NumPy's dtype that a reference computes in: narrow floats in float32."""
    return np.dtype(np.float32) if dtype.kind == "float" and dtype.bits == 16 else ELEMENT[dtype]


def wrapped(value: int, element: Any) -> int:
    """An integer modulo two to the bits of a dtype."""
    n = element.itemsize * 8
    value %= 1 << n
    return value - (1 << n) if element.kind == "i" and value >> (n - 1) else value


def _elementwise(function: Callable[..., Any]) -> Reference:
    """A function of Python's integers, element by element, wrapped."""

    def reference(*operands: Array) -> Array:
        element = operands[0].dtype
        rows = zip(*(x.tolist() for x in operands), strict=True)
        return np.array([wrapped(function(*row), element) for row in rows], element)

    return reference


def _by_kind(floats: Reference, integers: Reference, bools: Reference | None = None) -> Reference:
    def reference(*operands: Array) -> Array:
        kind = operands[0].dtype.kind
        return (floats if kind == "f" else (bools or integers) if kind == "b" else integers)(*operands)

    return reference


def _in_wider_format(function: Reference) -> Reference:
    """A function of floats, in the next wider format."""

    def reference(*operands: Array) -> Array:
        wide = np.longdouble if operands[0].dtype == np.float64 else np.float64
        return function(*(x.astype(wide) for x in operands))

    return reference


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _floor_of_quotient(x: Any, y: Any) -> Any:
    """The exact floor; where the quotient is special, or so large that it is whole, the quotient."""
    quotient = x / y
    integers_from = 2.0 ** (np.finfo(x.dtype).nmant + 1)
    if x == 0 or np.isinf(y) or not abs(quotient) < integers_from:
        return quotient
    return x.dtype.type(math.copysign(math.floor(Fraction(float(x)) / Fraction(float(y))), quotient))


def _python_remainder(x: Array, y: Array) -> Array:
    remainder = np.fmod(x, y)
    remainder = np.where((remainder != 0) & ((remainder < 0) != (y < 0)), remainder + y, remainder)
    return np.where(remainder == 0, np.copysign(np.zeros_like(remainder), y), remainder)


def _integer_power(x: int, y: int) -> int:
    return pow(x, y, 1 << 64)


def _larger(x: Array, y: Array) -> Array:
    return np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y))  # -0 gives way


def _smaller(x: Array, y: Array) -> Array:
    return np.where(x == y, np.where(np.signbit(x), x, y), np.minimum(x, y))


maximum = _by_kind(_larger, np.maximum)
minimum = _by_kind(_smaller, np.minimum)
_identity: Reference = lambda x: x
_rounding = lambda function: _by_kind(function, _identity)


def _false(x: Array) -> Array:
    return np.zeros(x.shape, bool)


def _true(x: Array) -> Array:
    return np.ones(x.shape, bool)


def _left(x: int, y: int, bits: int) -> int:
    return x << y if 0 <= y < bits else 0


def _right(x: int, y: int, bits: int) -> int:
    return x >> y if 0 <= y < bits else -1 if x < 0 else 0


def _shift(function: Callable[[int, int, int], int]) -> Reference:
    def reference(x: Array, y: Array) -> Array:
        return _elementwise(lambda a, b: function(a, b, x.dtype.itemsize * 8))(x, y)

    return reference


def _high_half(x: Array, y: Array) -> Array:
    return _elementwise(lambda a, b: a * b >> (x.dtype.itemsize * 8))(x, y)


# --- elementary functions ---------------------------------------------------------------------------------------------


def _erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x.astype(np.float64).tolist()])


def _erfinv(x: Array) -> Array:
    def of(v: float) -> float:
        with mp.workprec(120):
            return float(mp.erfinv(mpf(v))) if abs(v) < 1 else math.inf if abs(v) == 1 else math.nan

    return np.copysign([of(v) for v in x.astype(np.float64).tolist()], x)


def _logistic(x: Array, t: Array) -> Array:
    """x / (1 + e**-t), also where e**-t overflows."""
    return np.where(t == -np.inf, np.copysign(0, x), x * np.exp(np.minimum(t, 0)) / (1 + np.exp(-np.abs(t))))


def _gelu_of(x: float) -> float:
    with mp.workprec(80):
        magnitude = float(mpf(x) * mp.erfc(-mpf(x) / mp.sqrt(2)) / 2) if abs(x) < 40 else max(x, 0.0)
    return math.copysign(magnitude, x)


def _gelu(x: Array) -> Array:
    return np.array([_gelu_of(v) for v in x.astype(np.float64).tolist()])


def _gelu_tanh(x: Array) -> Array:
    slope = 2 * np.sqrt(2 / np.arctan2(x.dtype.type(0), x.dtype.type(-1)))
    return _logistic(x, slope * (x + x.dtype.type(44715) / 1000000 * x * x * x))


# --- random bits ------------------------------------------------------------------------------------------------------


def _philox(counter: int, stream: int, key: int) -> tuple[int, int, int, int]:
    low = 0xFFFFFFFF
    c = [counter & low, counter >> 32, stream & low, stream >> 32]
    k = [key & low, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & low, (a >> 32) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c[0], c[1], c[2], c[3]


def _half_block(index: int) -> Reference:
    def word(counter: int, stream: int, key: int) -> int:
        block = _philox(counter, stream, key)
        return block[index] | block[index + 1] << 32

    return _elementwise(word)


def _random_below(counter: int, stream: int, key: int, count: int) -> int:
    block = _philox(counter, stream, key)
    return ((block[0] | block[1] << 32) << 64 | block[2] | block[3] << 32) * count >> 128


def _standard_normal(*words: Array) -> Array:
    """Box and Muller's, of the upper 53 of both halves of the block."""
    first, second = ((_half_block(k)(*words) >> np.uint64(11)).astype(np.float64) for k in (0, 2))
    angle = (second * (2 * math.pi / 2**53)).astype(np.longdouble)
    size = np.sqrt(-2 * np.log(((first + 1) / 2**53).astype(np.longdouble)))
    return (size * np.cos(angle)).astype(np.float64)


# --- casts ------------------------------------------------------------------------------------------------------------


def cast(x: Array, target: DType) -> Array:
    """Integers wrap; floats to integers truncate and saturate, NaN gives 0; floats are rounded once."""
    source, element = DTYPE[x.dtype], ELEMENT[target]
    if target.kind == "bool":
        return x != 0
    if target.is_integer and source.kind != "float":
        return x.astype(element)
    if target.is_integer:
        low, high = int(target.lowest), int(target.highest)
        exact = x.astype(np.float64).tolist()
        values = [0 if v != v else high if v >= high else low if v <= low else int(v) for v in exact]
        return np.array(values, element)
    if source.is_integer and source.bits == 64:
        return narrowed(x.astype(np.longdouble), target)
    wide = x if source.kind == "float" and source.bits >= 32 else x.astype(np.float64)
    return narrowed(wide, target)


# --- the table --------------------------------------------------------------------------------------------------------

MEANING: dict[str, Reference] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": _by_kind(
        lambda x, y: np.array([_floor_of_quotient(a, b) for a, b in zip(x, y, strict=True)]),
        _elementwise(lambda x, y: x // y if y else 0),
    ),
    "remainder": _by_kind(_python_remainder, _elementwise(lambda x, y: x % y if y else 0)),
    "pow": _by_kind(_in_wider_format(np.power), _elementwise(_integer_power)),
    "negative": np.negative,
    "positive": _identity,
    "real": _identity,
    "imag": np.zeros_like,
    "conj": _identity,
    "abs": np.abs,
    "sign": np.sign,
    "square": lambda x: x * x,
    "squared_abs": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": _in_wider_format(lambda x: 1 / np.sqrt(x)),
    "float_to_bits": lambda x: x.view(f"u{x.itemsize}"),
    "bits_to_float": lambda x: x.view(f"f{x.itemsize}"),
    "power_half": lambda x: np.where(x == -np.inf, np.inf, np.sqrt(x) + 0).astype(x.dtype),
    "maximum": maximum,
    "minimum": minimum,
    "at_least": lambda x, low: maximum(x, low),
    "at_most": lambda x, high: minimum(x, high),
    "deviation": np.sqrt,
    "less_rounding": lambda x, y: np.where(np.isfinite(y), x - y, x),
    "clip": lambda x, low, high: minimum(maximum(x, low), high),
    "floor": _rounding(np.floor),
    "ceil": _rounding(np.ceil),
    "trunc": _rounding(np.trunc),
    "round": _rounding(np.rint),
    "copysign": np.copysign,
    "signbit": np.signbit,
    "isnan": _by_kind(np.isnan, _false),
    "isinf": _by_kind(np.isinf, _false),
    "isfinite": _by_kind(np.isfinite, _true),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_invert": np.invert,
    "bitwise_left_shift": _shift(_left),
    "bitwise_right_shift": _shift(_right),
    "multiply_high": _high_half,
    **{
        name: _in_wider_format(getattr(np, name))
        for name in (
            *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan"),
            *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "hypot", "logaddexp"),
        )
    },
    "erf": _erf,
    "erfinv": _erfinv,
    "sigmoid": _in_wider_format(lambda x: _logistic(np.ones_like(x), x)),
    "relu": lambda x: maximum(x, np.zeros_like(x)),
    "silu": _in_wider_format(lambda x: _logistic(x, x)),
    "softplus": _in_wider_format(lambda x: np.logaddexp(x, np.zeros_like(x))),
    "gelu": _gelu,
    "gelu_tanh": _in_wider_format(_gelu_tanh),
    "random_below": _elementwise(_random_below),
    "random_bits": _half_block(0),
    "random_fraction": lambda *words: (_half_block(0)(*words) >> np.uint64(11)).astype(np.float64) / 2**53,
    "random_single": lambda *words: (_half_block(0)(*words) >> np.uint64(40)).astype(np.float32) / np.float32(2**24),
    "standard_normal": _standard_normal,
}

# Units in the last place; nothing said: exact.
TOLERANCE: dict[str, float] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan"), 2),
    **dict.fromkeys(("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf"), 2),
    "erfinv": 3,
    **dict.fromkeys(("pow", "atan2", "hypot", "logaddexp"), 2),
    **dict.fromkeys(("rsqrt", "sigmoid", "silu", "softplus", "gelu", "gelu_tanh"), 2),
    "standard_normal": 4,  # a logarithm, a cosine and a product
}

# Where terms cancel, the unit is that of the operands.
CANCELS = frozenset(("logaddexp",))


def expected(name: str, *operands: Array, result: DType) -> Array:
    """Return the result of an operation on operands that already have the dtype of the computation."""
    if name in ("where", "where_seen"):
        return np.where(operands[0] != 0, *operands[1:])
    if name == "nextafter":
        x, y = operands
        with np.errstate(all="ignore"):
            return np.where(x == y, y, np.nextafter(x, y))  # NumPy's float16 keeps the sign of x where both are zero
    if name.startswith("logical_"):
        operands = tuple(x != 0 for x in operands)
    dtype = DTYPE[operands[0].dtype]
    with np.errstate(all="ignore"):
        result_values = MEANING[name](*(x.astype(compute_type(dtype)) for x in operands))
    return narrowed(result_values, result) if result.kind == "float" else result_values.astype(ELEMENT[result])
