"""The table of elementwise operations: name, arity, dtype rule, meaning, and optionally formula, complex parts and derivative.

An elementwise operation is one entry. An entry with a `formula` needs nothing else: both back ends expand it. An entry without one is a
primitive, which each back end implements by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .._utils.lazy import LazyFunctions
from ..dtypes import float32, float64, uint64
from .dtype_rules import (
    ALL_KINDS,
    INTEGRAL_KINDS,
    NUMERIC_KINDS,
    ORDERED_KINDS,
    REAL_KINDS,
    bits_to_float,
    conditional,
    float_to_bits,
    floating,
    inexact,
    logical,
    no_rule,
    number_and_float,
    part_dtype,
    predicate,
    same_dtype,
    uint64_words,
)
from .expr import OPS, DTypeRule, DTypes, Expr, Op, call, substitute, zero

if TYPE_CHECKING:
    from .vjp_formulas import Cotangents


def add_op(name: str, arity: int, rule: DTypeRule, meaning: str, **options: object) -> Op:
    """Add the elementwise operation `name` with `arity` operands to the table `OPS`, and return it. An entry of this name is replaced.

    `rule` gives the dtypes of the computation and of the result. `meaning` says for readers what the operation computes. `options` are
    further arguments of `Op`.
    """
    op = OPS[name] = Op(name, arity, rule, meaning, **options)  # type: ignore[arg-type]
    return op


arithmetic = LazyFunctions("tenxor.ops.complex.arithmetic")
elementary = LazyFunctions("tenxor.ops.complex.elementary")
inverse_functions = LazyFunctions("tenxor.ops.complex.inverse_functions")
split_formulas = LazyFunctions("tenxor.ops.complex.split_formulas")
philox = LazyFunctions("tenxor.ops.philox")
vjp_formulas = LazyFunctions("tenxor.ops.vjp_formulas")

# --- arithmetic -------------------------------------------------------------------------------------------------------
add_op(
    "cast",
    1,
    no_rule,
    "the value in another dtype; floats to integers truncate and saturate, NaN gives 0",
    vjp=vjp_formulas.cast_,
)
add_op("add", 2, same_dtype(), "x + y; bools combine by logical or", infix="+", complex_formula=arithmetic.add, vjp=vjp_formulas.add)
add_op("subtract", 2, same_dtype(NUMERIC_KINDS), "x - y", infix="-", complex_formula=arithmetic.subtract, vjp=vjp_formulas.subtract)
add_op(
    "multiply",
    2,
    same_dtype(),
    "x * y; bools combine by logical and",
    infix="*",
    complex_formula=arithmetic.multiply,
    vjp=vjp_formulas.multiply,
)
add_op(
    "divide",
    2,
    inexact,
    "x / y; the quotient is always a float or a complex number",
    infix="/",
    cost=4,
    complex_formula=arithmetic.divide,
    vjp=vjp_formulas.divide,
)
add_op(
    "floor_divide",
    2,
    same_dtype(REAL_KINDS),
    "the floor of x / y; an integer divided by 0 gives 0",
    infix="//",
    cost=12,
    vjp=vjp_formulas.no_cotangents,
)
add_op(
    "remainder",
    2,
    same_dtype(REAL_KINDS),
    "the remainder x - y * floor(x / y); the remainder has the sign of y, and an integer divided by 0 gives 0",
    infix="%",
    cost=12,
    vjp=vjp_formulas.remainder,
)
add_op(
    "pow",
    2,
    same_dtype(NUMERIC_KINDS),
    "x to the power y; integers wrap around on overflow, and a negative power of an integer raises NegativeExponent",
    infix="**",
    cost=40,
    complex_formula=elementary.pow,
    vjp=vjp_formulas.power,
)
add_op("negative", 1, same_dtype(NUMERIC_KINDS), "-x", complex_formula=arithmetic.negative, vjp=vjp_formulas.negative)
add_op("positive", 1, same_dtype(), "+x; the elements are unchanged", complex_formula=lambda x: x, vjp=vjp_formulas.positive)
add_op(
    "real",
    1,
    part_dtype(NUMERIC_KINDS),
    "the real part of x",
    formula=lambda x: call("positive", x),
    complex_formula=lambda x: x.args[0],
    vjp=vjp_formulas.real,
)
add_op(
    "imag",
    1,
    part_dtype(NUMERIC_KINDS),
    "the imaginary part of x; real dtypes give 0",
    formula=lambda x: zero(x.dtype),
    complex_formula=lambda x: x.args[1],
    vjp=vjp_formulas.imag,
)
add_op(
    "conj",
    1,
    same_dtype(NUMERIC_KINDS),
    "the complex conjugate of x",
    formula=lambda x: call("positive", x),
    complex_formula=arithmetic.conj,
    vjp=vjp_formulas.conj_,
)
add_op(
    "abs",
    1,
    part_dtype(ALL_KINDS),
    "the absolute value of x; a complex number gives its magnitude",
    complex_formula=arithmetic.magnitude,
    vjp=vjp_formulas.abs_,
)
add_op(
    "squared_abs",
    1,
    part_dtype(NUMERIC_KINDS),
    "the square of the magnitude of x",
    formula=lambda x: x * x,
    complex_formula=arithmetic.squared_abs,
    vjp=vjp_formulas.squared_abs,
)
add_op(
    "sign",
    1,
    same_dtype(NUMERIC_KINDS),
    "the sign of x: -1, 0 or 1; a complex number gives x / abs(x), or 0 for 0, and NaN stays NaN",
    complex_formula=elementary.sign,
    vjp=vjp_formulas.sign,
)
add_op("square", 1, same_dtype(), "x * x", formula=lambda x: x * x, complex_formula=arithmetic.square, vjp=vjp_formulas.square)
add_op("reciprocal", 1, inexact, "1 / x", formula=lambda x: 1.0 / x, cost=4, vjp=vjp_formulas.reciprocal)
add_op(
    "divide_by_real",
    2,
    number_and_float,
    "x / y for a real y",
    formula=lambda x, y: x / y,
    complex_formula=arithmetic.divide_by_real,
    vjp=vjp_formulas.divide_by_real,
)
add_op("sqrt", 1, inexact, "the square root of x", cost=6, complex_formula=elementary.sqrt, vjp=vjp_formulas.sqrt_)
add_op(
    "rsqrt",
    1,
    inexact,
    "1 / sqrt(x)",
    cost=12,
    complex_formula=lambda x: arithmetic.divide(split_formulas.make_pair(zero(x.dtype.part) + 1.0, zero(x.dtype.part)), elementary.sqrt(x)),
    vjp=vjp_formulas.rsqrt,
)
add_op(
    "power_half",
    1,
    inexact,
    "x to the power 0.5, which for -0 is 0 and for -inf is inf",
    complex_formula=elementary.sqrt,
    formula=lambda x: call("where", call("equal", x, float("-inf")), float("inf"), call("sqrt", x) + 0.0),
    cost=8,
    vjp=vjp_formulas.sqrt_,
)
add_op(
    "deviation",
    1,
    inexact,
    "the square root of a variance",
    formula=lambda x: call("sqrt", x),
    cost=6,
    vjp=vjp_formulas.deviation,
)
add_op(
    "less_rounding",
    2,
    same_dtype(("float",)),
    "x - y for a y that is 0 but for rounding, so that x has the derivative of the result; x where y is not finite",
    formula=lambda x, y: call("where", call("isfinite", y), x - y, x),
    vjp=vjp_formulas.first_operand_only,
)
add_op("maximum", 2, same_dtype(ORDERED_KINDS), "the larger of x and y; NaN if either is NaN", vjp=vjp_formulas.maximum)
add_op("minimum", 2, same_dtype(ORDERED_KINDS), "the smaller of x and y; NaN if either is NaN", vjp=vjp_formulas.minimum)
add_op(
    "clip",
    3,
    same_dtype(ORDERED_KINDS),
    "x held between low and high",
    formula=lambda x, lo, hi: call("minimum", call("maximum", x, lo), hi),
    vjp=vjp_formulas.clip,
)
add_op(
    "at_least",
    2,
    same_dtype(ORDERED_KINDS),
    "x, but not below y",
    formula=lambda x, y: call("maximum", x, y),
    vjp=vjp_formulas.at_least,
)
add_op(
    "at_most",
    2,
    same_dtype(ORDERED_KINDS),
    "x, but not above y",
    formula=lambda x, y: call("minimum", x, y),
    vjp=vjp_formulas.at_most,
)
add_op(
    "where", 3, conditional, "x where the condition is true, and y elsewhere", complex_formula=arithmetic.select, vjp=vjp_formulas.where_
)
add_op(
    "where_seen",
    3,
    conditional,
    "x where the condition holds, else y, a score of what need not be looked at",
    complex_formula=arithmetic.select,
    formula=lambda condition, x, y: call("where", condition, x, y),
    vjp=vjp_formulas.where_,
)

# --- rounding and parts -----------------------------------------------------------------------------------------------
add_op("floor", 1, same_dtype(REAL_KINDS), "the largest integer that is at most x", vjp=vjp_formulas.no_cotangents)
add_op("ceil", 1, same_dtype(REAL_KINDS), "the smallest integer that is at least x", vjp=vjp_formulas.no_cotangents)
add_op("trunc", 1, same_dtype(REAL_KINDS), "x without its fraction", vjp=vjp_formulas.no_cotangents)
add_op(
    "round",
    1,
    same_dtype(NUMERIC_KINDS),
    "the nearest integer, halves to even; of complex numbers, of each part",
    complex_formula=lambda x: arithmetic.apply_to_components("round", x),
    vjp=vjp_formulas.no_cotangents,
)
add_op("copysign", 2, floating, "the magnitude of x with the sign of y", vjp=vjp_formulas.copysign)
add_op("nextafter", 2, floating, "the next floating-point number after x towards y", cost=8, vjp=vjp_formulas.first_operand_only)
add_op("float_to_bits", 1, float_to_bits, "the bits of x as an unsigned integer")
add_op("bits_to_float", 1, bits_to_float, "the float whose bits x is")
add_op("signbit", 1, predicate(("float",)), "whether the sign of x is negative; zeros have a sign, too")
add_op("isnan", 1, predicate(), "whether x is NaN", complex_formula=arithmetic.isnan)
add_op("isinf", 1, predicate(), "whether x is infinite", complex_formula=arithmetic.isinf)
add_op("isfinite", 1, predicate(), "whether x is neither infinite nor NaN", complex_formula=arithmetic.isfinite)

# --- comparison and logic ---------------------------------------------------------------------------------------------
for _name, _infix, _meaning, _complex_formula in (
    ("equal", "==", "x equals y", arithmetic.equal),
    ("not_equal", "!=", "x and y differ", arithmetic.not_equal),
):
    add_op(_name, 2, predicate(), f"whether {_meaning}", infix=_infix, complex_formula=_complex_formula)
for _name, _infix, _meaning in (
    ("less", "<", "x is less than y"),
    ("less_equal", "<=", "x is at most y"),
    ("greater", ">", "x is greater than y"),
    ("greater_equal", ">=", "x is at least y"),
):
    add_op(_name, 2, predicate(ORDERED_KINDS), f"whether {_meaning}", infix=_infix)
add_op("logical_and", 2, logical, "whether x and y are both true; every number but 0 is true", infix="and")
add_op("logical_or", 2, logical, "whether x or y is true; every number but 0 is true", infix="or")
add_op("logical_xor", 2, logical, "whether exactly one of x and y is true; every number but 0 is true", infix="xor")
add_op("logical_not", 1, logical, "whether x is false; every number but 0 is true")
add_op("bitwise_and", 2, same_dtype(INTEGRAL_KINDS), "the bits that are set in both x and y", infix="&")
add_op("bitwise_or", 2, same_dtype(INTEGRAL_KINDS), "the bits that are set in x or y", infix="|")
add_op("bitwise_xor", 2, same_dtype(INTEGRAL_KINDS), "the bits that are set in exactly one of x and y", infix="^")
add_op("bitwise_invert", 1, same_dtype(INTEGRAL_KINDS), "x with all bits flipped; a bool gives its logical not")
add_op("bitwise_left_shift", 2, same_dtype(("uint", "int")), "x shifted left by y bits; 0 if y is at least the number of bits", infix="<<")
add_op("bitwise_right_shift", 2, same_dtype(("uint", "int")), "x shifted right by y bits; the sign is kept", infix=">>")
add_op("multiply_high", 2, same_dtype(("uint",)), "the upper half of the double-width product", cost=6)

# --- elementary functions ---------------------------------------------------------------------------------------------
_ELEMENTARY: tuple[tuple[str, str, Callable[[Expr], Expr], Callable[..., Cotangents]], ...] = (
    ("exp", "e to the power x", elementary.exp, vjp_formulas.exp),
    ("exp2", "2 to the power x", elementary.exp2, vjp_formulas.exp2),
    ("expm1", "exp(x) - 1; accurate for x near 0, too", elementary.expm1, vjp_formulas.expm1),
    ("log", "the natural logarithm of x", elementary.log, vjp_formulas.log_),
    ("log1p", "log(1 + x); accurate for x near 0, too", elementary.log1p, vjp_formulas.log1p),
    ("log2", "the logarithm of x to base 2", elementary.log2, vjp_formulas.log2),
    ("log10", "the logarithm of x to base 10", elementary.log10, vjp_formulas.log10),
    ("sin", "the sine of x radians", elementary.sin, vjp_formulas.sin),
    ("cos", "the cosine of x radians", elementary.cos, vjp_formulas.cos),
    ("tan", "the tangent of x radians", elementary.tan, vjp_formulas.tan),
    ("asin", "the inverse sine of x, in radians", inverse_functions.asin, vjp_formulas.asin),
    ("acos", "the inverse cosine of x, in radians", inverse_functions.acos, vjp_formulas.acos),
    ("atan", "the inverse tangent of x, in radians", inverse_functions.atan, vjp_formulas.atan),
    ("sinh", "the hyperbolic sine of x", elementary.sinh, vjp_formulas.sinh),
    ("cosh", "the hyperbolic cosine of x", elementary.cosh, vjp_formulas.cosh),
    ("tanh", "the hyperbolic tangent of x", elementary.tanh, vjp_formulas.tanh),
    ("asinh", "the inverse hyperbolic sine of x", inverse_functions.asinh, vjp_formulas.asinh),
    ("acosh", "the inverse hyperbolic cosine of x", inverse_functions.acosh, vjp_formulas.acosh),
    ("atanh", "the inverse hyperbolic tangent of x", inverse_functions.atanh, vjp_formulas.atanh),
)
for _name, _meaning, _function, _pullback in _ELEMENTARY:
    add_op(_name, 1, inexact, _meaning, cost=20, complex_formula=_function, vjp=_pullback)
add_op("erf", 1, floating, "the error function of x", cost=20, vjp=vjp_formulas.erf)
add_op("erfinv", 1, floating, "the inverse error function of x; -inf at -1, inf at 1, and NaN beyond", cost=60, vjp=vjp_formulas.erfinv)
add_op(
    "atan2",
    2,
    floating,
    "the angle of the point (y, x), in radians; the first operand is the ordinate, as in C",
    cost=30,
    vjp=vjp_formulas.atan2,
)
add_op("hypot", 2, floating, "sqrt(x*x + y*y) without overflow", cost=20, vjp=vjp_formulas.hypot)
add_op(
    "logaddexp",
    2,
    inexact,
    "log(exp(x) + exp(y)) without overflow",
    cost=50,
    complex_formula=elementary.logaddexp,
    vjp=vjp_formulas.logaddexp,
)
add_op("sigmoid", 1, floating, "the logistic function 1 / (1 + exp(-x))", cost=24, vjp=vjp_formulas.sigmoid)
add_op(
    "relu",
    1,
    same_dtype(REAL_KINDS),
    "x where x is positive, and 0 elsewhere",
    formula=lambda x: call("maximum", x, 0),
    vjp=vjp_formulas.relu,
)
add_op("silu", 1, floating, "x * sigmoid(x)", cost=25, vjp=vjp_formulas.silu)
add_op("softplus", 1, floating, "log(1 + exp(x)) without overflow", cost=40, vjp=vjp_formulas.softplus)
add_op(
    "gelu",
    1,
    floating,
    "x times the cumulative probability of the standard normal distribution at x",
    cost=30,
    vjp=vjp_formulas.gelu,
)
add_op(
    "gelu_tanh",
    1,
    floating,
    "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2; an approximation of gelu",
    cost=35,
    vjp=vjp_formulas.gelu_tanh,
)


# --- random numbers ---------------------------------------------------------------------------------------------------
add_op(
    "random_bits",
    3,
    uint64_words(uint64),
    "64 random bits of (counter, stream, key): words 0 and 1 of their Philox block",
    cost=100,
    formula=lambda *operands: philox.random_bits(*operands),
)
add_op(
    "random_below",
    4,
    uint64_words(uint64),
    "an integer from 0 on and below the count of (counter, stream, key, count), of all words of their Philox block",
    cost=110,
    formula=lambda *operands: philox.random_below(*operands),
)
add_op(
    "random_fraction",
    3,
    uint64_words(float64),
    "a number from 0 on and below 1 of (counter, stream, key): the upper 53 of their random bits",
    cost=100,
    formula=lambda *operands: philox.random_fraction(*operands),
)
add_op(
    "random_single",
    3,
    uint64_words(float32),
    "the same in float32: the upper 24 of their random bits",
    cost=100,
    formula=lambda *operands: philox.random_single(*operands),
)
add_op(
    "standard_normal",
    3,
    uint64_words(float64),
    "a normal number of (counter, stream, key), of all words of their Philox block",
    cost=150,
    formula=lambda *operands: philox.standard_normal(*operands),
)


# Operations without a public function of their own: `cast` is astype, `clip` takes optional bounds, and other functions use the rest.
INTERNAL_OPS = (
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


def make_custom_op(name: str, formula: Expr, dtypes: DTypes) -> Op:
    """Return an operation of the user, without an entry in the table: `formula` over one `Arg` for each operand.

    The operands are converted to the dtypes `dtypes`, those of the `Arg`s; the result has the dtype of `formula`. `name` is for texts. Two
    operations of equal name and formula are the same operation in expressions, though each call returns a new `Op`. The derivative follows
    from `formula`, and the cost is 10.
    """
    operation = Op(
        name,
        len(dtypes),
        lambda op, operand_dtypes: (dtypes, formula.dtype),
        f"the traced function {formula!r}",
        formula=lambda *args: substitute(formula, args),
        formula_key=formula,
        cost=10,
    )
    operation.uses_complex = split_formulas.has_complex(formula)
    return operation
