"""Elementwise operations at points where they have derivatives, away from kinks and poles."""

from __future__ import annotations

import numpy as np

from tenxor.ops import INTERNAL_OPS, OPS

from .differences import Array

# By operation, the interval that each operand is drawn from.
REAL = {
    **dict.fromkeys(("exp", "exp2", "expm1", "sin", "cos", "sinh", "cosh", "tanh", "asinh", "atan", "erf", "sigmoid"), ((-2.0, 2.0),)),
    **dict.fromkeys(("silu", "softplus", "gelu", "gelu_tanh", "negative", "positive", "square", "real", "imag", "conj"), ((-3.0, 3.0),)),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "log1p"), ((0.3, 3.0),)),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), ((-0.8, 0.8),)),
    "tan": ((-1.2, 1.2),),
    "acosh": ((1.3, 4.0),),
    **dict.fromkeys(("abs", "sign", "relu", "floor", "ceil", "trunc", "round"), ((-3.0, 3.0),)),
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum", "copysign"), ((-3.0, 3.0), (-3.0, 3.0))),
    **dict.fromkeys(("nextafter", "logaddexp"), ((-3.0, 3.0), (-3.0, 3.0))),
    **dict.fromkeys(("atan2", "hypot"), ((0.3, 3.0), (-3.0, -0.3))),
    **dict.fromkeys(("divide", "remainder", "floor_divide"), ((-3.0, 3.0), (0.7, 2.0))),
    "pow": ((0.3, 2.5), (-2.0, 2.0)),
}
COMPLEX = (
    *("add", "subtract", "multiply", "divide", "pow", "negative", "positive", "square", "reciprocal", "sqrt", "rsqrt", "sign"),
    *("real", "imag", "conj", "abs", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "round", "logaddexp"),
)
DISCRETE = (  # results or operands are no floats, so nobody asks for derivatives
    *("signbit", "isnan", "isinf", "isfinite", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"),
    *("bitwise_left_shift", "bitwise_right_shift"),
)
PUBLIC = tuple(name for name in OPS if name not in INTERNAL_OPS and name != "where")


def drawn(name: str, k: int, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Return operand `k` of an operation; no number is within 0.05 of an integer or of a number of another operand."""
    low, high = REAL[name][k]
    rng = np.random.default_rng([seed, k, *name.encode()])
    x = np.asarray(rng.uniform(low, high, shape))
    x = np.where(np.abs(x - np.round(x)) < 0.1, np.round(x) + 0.2, x)  # below, the next whole number is 0.8 away
    found: Array = np.floor(x * 10) / 10 + (0.02, 0.07)[k]
    return found


def complex_drawn(name: str, k: int, shape: tuple[int, ...]) -> Array:
    """Return the same in the complex plane, off both axes, where branch cuts lie."""
    rng = np.random.default_rng([7, k, *name.encode()])
    size = rng.uniform(0.4, 1.3, shape) * np.exp(1j * rng.uniform(0.2, 1.3, shape)) * np.array(1j) ** rng.integers(0, 4, shape)
    found: Array = np.asarray(size)
    return found
