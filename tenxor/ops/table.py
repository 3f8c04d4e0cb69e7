"""The table of elementwise operations: name, arity, dtype rule, meaning, and optionally formula, complex parts and derivative.

An elementwise operation is one entry. An entry with a `formula` needs nothing else: both back ends expand it. An entry without one is a
primitive, which each back end implements by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..dtypes import float32, float64, uint64
from ..late import Late
from .expr import OPS, DTypes, Expr, Op, Rule, call, substitute, zero
from .rules import (
    ALL_KINDS,
    INTEGRAL,
    NUMERIC,
    ORDERED,
    REAL,
    as_bits,
    as_float,
    floating,
    inexact,
    logical,
    never,
    number_and_real,
    part_of,
    predicate,
    same,
    selecting,
    words,
)

if TYPE_CHECKING:
    from .pullbacks import Cotangents


def entry(name: str, arity: int, rule: Rule, meaning: str, **options: object) -> Op:
    """Add an elementwise operation to the table, and return it."""
    op = OPS[name] = Op(name, arity, rule, meaning, **options)  # type: ignore[arg-type]
    return op


arithmetic = Late("tenxor.ops.complexes.arithmetic")
elementary = Late("tenxor.ops.complexes.elementary")
inverse = Late("tenxor.ops.complexes.inverse")
pairs = Late("tenxor.ops.complexes.pairs")
philox = Late("tenxor.ops.philox")
pullbacks = Late("tenxor.ops.pullbacks")

# --- arithmetic -------------------------------------------------------------------------------------------------------
entry(
    "cast",
    1,
    never,
    "the value in another dtype; floats to integers truncate and saturate, NaN gives 0",
    pullback=pullbacks.cast_,
)
entry("add", 2, same(), "x + y; for bool, or", infix="+", parts=arithmetic.add, pullback=pullbacks.add)
entry("subtract", 2, same(NUMERIC), "x - y", infix="-", parts=arithmetic.subtract, pullback=pullbacks.subtract)
entry("multiply", 2, same(), "x * y; for bool, and", infix="*", parts=arithmetic.multiply, pullback=pullbacks.multiply)
entry(
    "divide",
    2,
    inexact,
    "x / y, always a float or complex",
    infix="/",
    cost=4,
    parts=arithmetic.divide,
    pullback=pullbacks.divide,
)
entry(
    "floor_divide",
    2,
    same(REAL),
    "the floor of x / y; 0 where an integer is divided by 0",
    infix="//",
    cost=12,
    pullback=pullbacks.nothing,
)
entry(
    "remainder",
    2,
    same(REAL),
    "x - y * floor(x / y), with y's sign; 0 where an integer is divided by 0",
    infix="%",
    cost=12,
    pullback=pullbacks.remainder,
)
entry(
    "pow",
    2,
    same(NUMERIC),
    "x to the power y; integers wrap, and a negative power of integers is an error",
    infix="**",
    cost=40,
    parts=elementary.pow,
    pullback=pullbacks.power,
)
entry("negative", 1, same(NUMERIC), "-x", parts=arithmetic.negative, pullback=pullbacks.negative)
entry("positive", 1, same(), "x itself", parts=lambda x: x, pullback=pullbacks.positive)
entry(
    "real",
    1,
    part_of(NUMERIC),
    "the real part of x",
    formula=lambda x: call("positive", x),
    parts=lambda x: x.args[0],
    pullback=pullbacks.real,
)
entry(
    "imag",
    1,
    part_of(NUMERIC),
    "the imaginary part of x: 0 in every real dtype",
    formula=lambda x: zero(x.dtype),
    parts=lambda x: x.args[1],
    pullback=pullbacks.imag,
)
entry(
    "conj",
    1,
    same(NUMERIC),
    "the complex conjugate of x",
    formula=lambda x: call("positive", x),
    parts=arithmetic.conj,
    pullback=pullbacks.conj_,
)
entry("abs", 1, part_of(ALL_KINDS), "the magnitude of x", parts=arithmetic.magnitude, pullback=pullbacks.abs_)
entry(
    "squared_abs",
    1,
    part_of(NUMERIC),
    "the square of the magnitude of x",
    formula=lambda x: x * x,
    parts=arithmetic.squared_abs,
    pullback=pullbacks.squared_abs,
)
entry(
    "sign",
    1,
    same(NUMERIC),
    "-1, 0 or 1, of complex numbers x / abs(x); NaN stays",
    parts=elementary.sign,
    pullback=pullbacks.sign,
)
entry("square", 1, same(), "x * x", formula=lambda x: x * x, parts=arithmetic.square, pullback=pullbacks.square)
entry("reciprocal", 1, inexact, "1 / x", formula=lambda x: 1.0 / x, cost=4, pullback=pullbacks.reciprocal)
entry(
    "divide_by_real",
    2,
    number_and_real,
    "x / y for a real y",
    formula=lambda x, y: x / y,
    parts=arithmetic.divide_by_real,
    pullback=pullbacks.divide_by_real,
)
entry("sqrt", 1, inexact, "the square root of x", cost=6, parts=elementary.sqrt, pullback=pullbacks.sqrt_)
entry(
    "rsqrt",
    1,
    inexact,
    "1 / sqrt(x)",
    cost=12,
    parts=lambda x: arithmetic.divide(pairs.pair(zero(x.dtype.part) + 1.0, zero(x.dtype.part)), elementary.sqrt(x)),
    pullback=pullbacks.rsqrt,
)
entry(
    "power_half",
    1,
    inexact,
    "x to the power 0.5, which for -0 is 0 and for -inf is inf",
    parts=elementary.sqrt,
    formula=lambda x: call("where", call("equal", x, float("-inf")), float("inf"), call("sqrt", x) + 0.0),
    cost=8,
    pullback=pullbacks.sqrt_,
)
entry(
    "deviation", 1, inexact, "the square root of a variance", formula=lambda x: call("sqrt", x), cost=6, pullback=pullbacks.deviation,
)
entry(
    "less_rounding",
    2,
    same(("float",)),
    "x - y for a y that is 0 but for rounding, so that x has the derivative of the result; x where y is not finite",
    formula=lambda x, y: call("where", call("isfinite", y), x - y, x),
    pullback=pullbacks.of_first,
)
entry("maximum", 2, same(ORDERED), "the larger of x and y; NaN if either is", pullback=pullbacks.maximum)
entry("minimum", 2, same(ORDERED), "the smaller of x and y; NaN if either is", pullback=pullbacks.minimum)
entry(
    "clip",
    3,
    same(ORDERED),
    "x held between low and high",
    formula=lambda x, lo, hi: call("minimum", call("maximum", x, lo), hi),
    pullback=pullbacks.clip,
)
entry(
    "at_least", 2, same(ORDERED), "x, but not below y", formula=lambda x, y: call("maximum", x, y), pullback=pullbacks.at_least,
)
entry(
    "at_most", 2, same(ORDERED), "x, but not above y", formula=lambda x, y: call("minimum", x, y), pullback=pullbacks.at_most,
)
entry("where", 3, selecting, "x where the condition holds, else y", parts=arithmetic.select, pullback=pullbacks.where_)
entry(
    "where_seen",
    3,
    selecting,
    "x where the condition holds, else y, a score of what need not be looked at",
    parts=arithmetic.select,
    formula=lambda condition, x, y: call("where", condition, x, y),
    pullback=pullbacks.where_,
)

# --- rounding and parts -----------------------------------------------------------------------------------------------
entry("floor", 1, same(REAL), "the largest integer not above x", pullback=pullbacks.nothing)
entry("ceil", 1, same(REAL), "the smallest integer not below x", pullback=pullbacks.nothing)
entry("trunc", 1, same(REAL), "x without its fraction", pullback=pullbacks.nothing)
entry(
    "round",
    1,
    same(NUMERIC),
    "the nearest integer, halves to even; of complex numbers, of each part",
    parts=lambda x: arithmetic.by_part("round", x),
    pullback=pullbacks.nothing,
)
entry("copysign", 2, floating, "x with the sign of y", pullback=pullbacks.copysign)
entry("nextafter", 2, floating, "the next number after x towards y", cost=8, pullback=pullbacks.of_first)
entry("float_to_bits", 1, as_bits, "the bits of x as an unsigned integer")
entry("bits_to_float", 1, as_float, "the float whose bits x is")
entry("signbit", 1, predicate(("float",)), "whether the sign of x is negative, of zeros too")
entry("isnan", 1, predicate(), "whether x is not a number", parts=arithmetic.isnan)
entry("isinf", 1, predicate(), "whether x is infinite", parts=arithmetic.isinf)
entry("isfinite", 1, predicate(), "whether x is neither infinite nor NaN", parts=arithmetic.isfinite)

# --- comparison and logic ---------------------------------------------------------------------------------------------
for _name, _infix, _meaning, _complex_formula in (
    ("equal", "==", "x = y", arithmetic.equal),
    ("not_equal", "!=", "x and y differ", arithmetic.not_equal),
):
    entry(_name, 2, predicate(), f"whether {_meaning}", infix=_infix, parts=_complex_formula)
for _name, _infix, _meaning in (
    ("less", "<", "x is below y"),
    ("less_equal", "<=", "x is not above y"),
    ("greater", ">", "x is above y"),
    ("greater_equal", ">=", "x is not below y"),
):
    entry(_name, 2, predicate(ORDERED), f"whether {_meaning}", infix=_infix)
entry("logical_and", 2, logical, "whether both are true", infix="and")
entry("logical_or", 2, logical, "whether any is true", infix="or")
entry("logical_xor", 2, logical, "whether exactly one is true", infix="xor")
entry("logical_not", 1, logical, "whether x is false")
entry("bitwise_and", 2, same(INTEGRAL), "the bits set in both", infix="&")
entry("bitwise_or", 2, same(INTEGRAL), "the bits set in any", infix="|")
entry("bitwise_xor", 2, same(INTEGRAL), "the bits set in exactly one", infix="^")
entry("bitwise_invert", 1, same(INTEGRAL), "all bits flipped")
entry("bitwise_left_shift", 2, same(("uint", "int")), "x shifted left by y bits; 0 beyond the width", infix="<<")
entry("bitwise_right_shift", 2, same(("uint", "int")), "x shifted right by y bits, keeping the sign", infix=">>")
entry("multiply_high", 2, same(("uint",)), "the upper half of the double-width product", cost=6)

# --- elementary functions ---------------------------------------------------------------------------------------------
_ELEMENTARY: tuple[tuple[str, str, Callable[[Expr], Expr], Callable[..., Cotangents]], ...] = (
    ("exp", "e to the power x", elementary.exp, pullbacks.exp),
    ("exp2", "2 to the power x", elementary.exp2, pullbacks.exp2),
    ("expm1", "exp(x) - 1, exact near 0", elementary.expm1, pullbacks.expm1),
    ("log", "the natural logarithm", elementary.log, pullbacks.log_),
    ("log1p", "log(1 + x), exact near 0", elementary.log1p, pullbacks.log1p),
    ("log2", "the logarithm to base 2", elementary.log2, pullbacks.log2),
    ("log10", "the logarithm to base 10", elementary.log10, pullbacks.log10),
    ("sin", "the sine of x radians", elementary.sin, pullbacks.sin),
    ("cos", "the cosine of x radians", elementary.cos, pullbacks.cos),
    ("tan", "the tangent of x radians", elementary.tan, pullbacks.tan),
    ("asin", "the inverse sine, in radians", inverse.asin, pullbacks.asin),
    ("acos", "the inverse cosine, in radians", inverse.acos, pullbacks.acos),
    ("atan", "the inverse tangent, in radians", inverse.atan, pullbacks.atan),
    ("sinh", "the hyperbolic sine", elementary.sinh, pullbacks.sinh),
    ("cosh", "the hyperbolic cosine", elementary.cosh, pullbacks.cosh),
    ("tanh", "the hyperbolic tangent", elementary.tanh, pullbacks.tanh),
    ("asinh", "the inverse hyperbolic sine", inverse.asinh, pullbacks.asinh),
    ("acosh", "the inverse hyperbolic cosine", inverse.acosh, pullbacks.acosh),
    ("atanh", "the inverse hyperbolic tangent", inverse.atanh, pullbacks.atanh),
)
for _name, _meaning, _function, _pullback in _ELEMENTARY:
    entry(_name, 1, inexact, _meaning, cost=20, parts=_function, pullback=_pullback)
entry("erf", 1, floating, "the error function", cost=20, pullback=pullbacks.erf)
entry("erfinv", 1, floating, "the inverse error function; infinite at -1 and 1, NaN beyond", cost=60, pullback=pullbacks.erfinv)
entry("atan2", 2, floating, "the angle of the point (y, x), in radians: atan2(y, x)", cost=30, pullback=pullbacks.atan2)
entry("hypot", 2, floating, "sqrt(x*x + y*y) without overflow", cost=20, pullback=pullbacks.hypot)
entry(
    "logaddexp",
    2,
    inexact,
    "log(exp(x) + exp(y)) without overflow",
    cost=50,
    parts=elementary.logaddexp,
    pullback=pullbacks.logaddexp,
)
entry("sigmoid", 1, floating, "1 / (1 + exp(-x))", cost=24, pullback=pullbacks.sigmoid)
entry(
    "relu", 1, same(REAL), "x where positive, else 0", formula=lambda x: call("maximum", x, 0), pullback=pullbacks.relu,
)
entry("silu", 1, floating, "x * sigmoid(x)", cost=25, pullback=pullbacks.silu)
entry("softplus", 1, floating, "log(1 + exp(x)) without overflow", cost=40, pullback=pullbacks.softplus)
entry(
    "gelu", 1, floating, "x times the normal distribution's cumulative probability at x", cost=30, pullback=pullbacks.gelu,
)
entry(
    "gelu_tanh",
    1,
    floating,
    "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2, which is near gelu",
    cost=35,
    pullback=pullbacks.gelu_tanh,
)


# --- random numbers ---------------------------------------------------------------------------------------------------
entry(
    "random_bits",
    3,
    words(uint64),
    "64 random bits of (counter, stream, key): words 0 and 1 of their Philox block",
    cost=100,
    formula=lambda *operands: philox.random_bits(*operands),
)
entry(
    "random_below",
    4,
    words(uint64),
    "an integer from 0 on and below the count of (counter, stream, key, count), of all words of their Philox block",
    cost=110,
    formula=lambda *operands: philox.random_below(*operands),
)
entry(
    "random_fraction",
    3,
    words(float64),
    "a number from 0 on and below 1 of (counter, stream, key): the upper 53 of their random bits",
    cost=100,
    formula=lambda *operands: philox.random_fraction(*operands),
)
entry(
    "random_single",
    3,
    words(float32),
    "the same in float32: the upper 24 of their random bits",
    cost=100,
    formula=lambda *operands: philox.random_single(*operands),
)
entry(
    "standard_normal",
    3,
    words(float64),
    "a normal number of (counter, stream, key), of all words of their Philox block",
    cost=150,
    formula=lambda *operands: philox.standard_normal(*operands),
)


# Operations without a public function of their own: `cast` is astype, `clip` takes optional bounds, and other functions use the rest.
INTERNAL = (
    "at_least",
    "at_most",
    "cast",
    "clip",
    "deviation",
    "divide_by_real",
    "less_rounding",
    "power_half",
    "squared_abs",
    "where_seen",
    "multiply_high",
    "random_below",
    "random_bits",
    "random_fraction",
    "random_single",
    "standard_normal",
    "float_to_bits",
    "bits_to_float",
)

def custom(name: str, formula: Expr, dtypes: DTypes) -> Op:
    """Return an operation of the user: `formula` over `Arg`s of the given dtypes."""
    operation = Op(
        name,
        len(dtypes),
        lambda op, operand_dtypes: (dtypes, formula.dtype),
        f"the traced function {formula!r}",
        formula=lambda *args: substitute(formula, args),
        formula_key=formula,
        cost=10,
    )
    operation.in_complex = pairs.has_complex(formula)
    return operation
