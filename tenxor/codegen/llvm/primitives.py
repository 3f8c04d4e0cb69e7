"""The primitive operations as LLVM instructions, for scalars and vectors alike. `PRIMITIVES` maps a name in the op table to a function
`emit(dtype, *args)`, which appends the instructions, and returns the result. `dtype` is the dtype of the operands `args` (of `where`, of
its values). Operands and results have the form for registers: a bool is a bit, and a float16 or bfloat16 is a float32.

The elementary functions are in a package of their own. Composite operations are expanded before they reach this module.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dtypes import DType
from .builder import Value, fma, intrinsic, select
from .dtype_conversions import INT_TYPES, from_bits, to_bits
from .elementary import FUNCTIONS, compare_hypot
from .elementary.formula_helpers import multiply_high
from .hypot_compare import HYPOT_PREDICATES
from .types import I1, vector

EmitPrimitive = Callable[..., Value]


def _add(dtype: DType, x: Value, y: Value) -> Value:
    """Emit x + y; of bools, whether either is true."""
    return x | y if dtype.kind == "bool" else x + y


def _multiply(dtype: DType, x: Value, y: Value) -> Value:
    """Emit x * y; of bools, whether both are true."""
    return x & y if dtype.kind == "bool" else x * y


def _compare(relation: str) -> EmitPrimitive:
    """Return the emitter of a comparison by `relation` ("eq", "ne", "lt", ...), for any real dtype. All but "ne" are false for NaN."""
    floats = "une" if relation == "ne" else f"o{relation}"
    signed, unsigned = (relation,) * 2 if relation in ("eq", "ne") else (f"s{relation}", f"u{relation}")
    predicates = {"float": floats, "int": signed, "uint": unsigned, "bool": unsigned}
    return lambda dtype, x, y: x.compare(predicates[dtype.kind], y)


def _intrinsic(name: str) -> EmitPrimitive:
    """Return the emitter of LLVM's intrinsic `name` for floats. Of integers and bools, the emitter returns the first argument unchanged."""
    return lambda dtype, *args: intrinsic(name, *args) if dtype.kind == "float" else args[0]


def _extremum(end: str) -> EmitPrimitive:
    """Return the emitter of the larger (`end` "max") or smaller ("min") of two values. The result is NaN if either is NaN."""
    names = {"float": f"{end}imum", "int": f"s{end}", "uint": f"u{end}"}

    def emit(dtype: DType, x: Value, y: Value) -> Value:
        if dtype.kind == "bool":
            return x | y if end == "max" else x & y
        return intrinsic(names[dtype.kind], x, y)

    return emit


def _abs(dtype: DType, x: Value) -> Value:
    """Emit the absolute value; the lowest integer is unchanged."""
    if dtype.kind == "float":
        return x.abs()
    return select(x < 0, -x, x) if dtype.kind == "int" else x


def _sign(dtype: DType, x: Value) -> Value:
    """Emit -1, 0 or 1 by the sign of x, in the dtype of x; NaN for NaN."""
    one, zero = x.constant(1), x.constant(0)
    if dtype.kind == "uint":
        return select(x.differs(0), one, zero)
    if dtype.kind == "int":
        positive = select(x > 0, one, zero)
        return select(x < 0, -1, positive)
    signed_one = one.with_sign_of(x)
    return select(x.is_nan(), x, select(x.equals(0), zero, signed_one))


def _safe_divisor(dtype: DType, x: Value, y: Value) -> tuple[Value, Value]:
    """Emit a test whether `y` is 0, and a divisor of `x` that never traps, for integers of `dtype`. Return both.

    The divisor is `y`, but 1 where `y` is 0. It is also 1 where `y` is -1 and `x` the lowest integer: the wrapped quotients are equal.
    """
    is_zero = y.equals(0)
    safe = select(is_zero, 1, y)
    if dtype.kind == "int":
        lowest = x.equals(dtype.lowest)
        safe = select(lowest & y.equals(-1), 1, safe)  # lowest // 1 equals the wrapped lowest // -1
    return is_zero, safe


def _floor_divide(dtype: DType, x: Value, y: Value) -> Value:
    """Emit the floor of the quotient x / y; 0 for an integer divided by 0."""
    if dtype.kind == "float":
        return _floor_divide_floats(x, y)
    is_zero, safe = _safe_divisor(dtype, x, y)
    if dtype.kind == "uint":
        return select(is_zero, 0, x.builder.binary("udiv", x, safe))
    quotient = x.builder.binary("sdiv", x, safe)
    remainder = x - quotient * safe
    floored = select(remainder.differs(0) & ((remainder ^ safe) < 0), quotient - 1, quotient)
    return select(is_zero, 0, floored)


def _remainder(dtype: DType, x: Value, y: Value) -> Value:
    """Emit the remainder of the floor division x // y, with the sign of y; 0 for an integer divided by 0."""
    if dtype.kind == "float":
        return _remainder_floats(x, y)
    is_zero, safe = _safe_divisor(dtype, x, y)
    if dtype.kind == "uint":
        return select(is_zero, 0, x.builder.binary("urem", x, safe))
    remainder = x.builder.binary("srem", x, safe)
    wrong_side = remainder.differs(0) & ((remainder ^ safe) < 0)
    return select(is_zero, 0, select(wrong_side, remainder + safe, remainder))


def _remainder_floats(x: Value, y: Value) -> Value:
    """Emit the exact remainder of x / y with the sign of the divisor y: `fmod`, plus y where the signs differ."""
    remainder = x.builder.binary("frem", x, y)
    wrong = _have_different_signs(remainder, y) & remainder.compare("one", 0)
    moved = select(wrong, remainder + y, remainder)
    return select(remainder.equals(0), x.constant(0).with_sign_of(y), moved)


def _floor_divide_floats(x: Value, y: Value) -> Value:
    """Emit the floor of the exact quotient x / y, or the rounded quotient where that is beyond 2**24 in float32, or 2**53 in float64.

    This is the floor of the rounded quotient, minus 1 where the quotient was rounded up to an integer: there the remainder and `y` have
    different signs.
    """
    floored = (x / y).floor()
    remainder = fma(-floored, y, x)
    exact_below = 2.0 ** (x.format.fraction_bits + 1)
    small = floored.abs() < exact_below
    rounded_up = small & (remainder.compare("one", 0) & _have_different_signs(remainder, y))
    return select(rounded_up, floored - 1, floored)


def _have_different_signs(x: Value, y: Value) -> Value:
    """Emit a test whether exactly one of two floats is below 0."""
    return (x < 0) ^ (y < 0)


def _pow(dtype: DType, x: Value, y: Value) -> Value:
    """Emit x**y. Integers wrap; with a negative y, the result is the integer part of the reciprocal, and 0 for x = 0."""
    if dtype.kind == "float":
        return FUNCTIONS["pow"](x, y)
    result, factor = x.constant(1), x
    for bit in range(dtype.bits):
        is_set = y.logical_shift_right(bit).cast("trunc", I1)
        result = select(is_set, result * factor, result)
        factor = factor * factor
    if dtype.kind == "uint":
        return result
    odd = y.cast("trunc", I1)
    of_minus = select(x.equals(-1), select(odd, x.constant(-1), 1), 0)
    reciprocal = select(x.equals(1), 1, of_minus)
    return select(y < 0, reciprocal, result)


def _shift_left(dtype: DType, x: Value, y: Value) -> Value:
    """Emit the integer x shifted left by y bits; 0 if the unsigned y is not below the bits of `dtype`."""
    fits = y.compare("ult", dtype.bits)
    return select(fits, x << select(fits, y, 0), 0)


def _shift_right(dtype: DType, x: Value, y: Value) -> Value:
    """Emit the integer x shifted right by y bits, with copies of the sign bit if `dtype` is signed.

    If the unsigned y is not below the bits of `dtype`, the result is 0, or -1 for a negative x.
    """
    fits = y.compare("ule", dtype.bits - 1)
    if dtype.kind == "int":
        return x >> select(fits, y, dtype.bits - 1)
    return select(fits, x.logical_shift_right(select(fits, y, 0)), 0)


def _multiply_high(dtype: DType, x: Value, y: Value) -> Value:
    """Emit the upper half of the product of two unsigned integers of `dtype`."""
    if dtype.bits < 64:
        wide = INT_TYPES[dtype.bits * 2]
        product = x.cast("zext", wide) * y.cast("zext", wide)
        return product.logical_shift_right(dtype.bits).cast("trunc", INT_TYPES[dtype.bits])
    return multiply_high(x, y)


_SMALLEST_SUBNORMALS = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}


def _nextafter(dtype: DType, x: Value, y: Value) -> Value:
    """Emit the neighbour of x towards y in `dtype`, by one step on the bits, which are in the order of the magnitudes."""
    bits = to_bits(dtype, x)
    away = (x < y).equals(x > 0)
    stepped = from_bits(dtype, select(away, bits + 1, bits - 1))
    smallest = x.constant(_SMALLEST_SUBNORMALS[dtype.name]).with_sign_of(y)
    neighbour = select(x.equals(0), smallest, stepped)
    neighbour = select(x.equals(y), y, neighbour)
    return select(x.compare("uno", y), x + y, neighbour)


def _signbit(dtype: DType, x: Value) -> Value:
    """Emit a test whether the sign bit of a float is set, as of -0.0."""
    return to_bits(dtype, x) < 0


def _float_test(predicate: str, of_integers: bool) -> EmitPrimitive:
    """Return the emitter of a comparison of |x| with infinity by LLVM's predicate `predicate` ("oeq", ...), for floats x.

    For other dtypes, the emitter returns the constant `of_integers`.
    """

    def emit(dtype: DType, x: Value) -> Value:
        if dtype.kind != "float":
            return x.builder.constant(vector(I1, x.lanes), of_integers)
        return x.abs().compare(predicate, float("inf"))

    return emit


def _isnan(dtype: DType, x: Value) -> Value:
    """Emit a test whether x is NaN; false for integers and bools."""
    return x.is_nan() if dtype.kind == "float" else x.builder.constant(vector(I1, x.lanes), False)


def _elementary(name: str) -> EmitPrimitive:
    """Return the emitter of the elementary function `name`; it ignores the dtype, as the arguments have the form for registers."""
    return lambda dtype, *args: FUNCTIONS[name](*args)


def _emit_hypot_comparison(predicate: str) -> EmitPrimitive:
    """Return the emitter of an operation of `hypot_compare.COMPARISON_OPS`, which compares a `hypot` by LLVM's predicate `predicate`."""
    return lambda dtype, *args: compare_hypot(predicate, *args)


PRIMITIVES: dict[str, EmitPrimitive] = {
    "add": _add,
    "subtract": lambda dtype, x, y: x - y,
    "multiply": _multiply,
    "divide": lambda dtype, x, y: x / y,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "pow": _pow,
    "negative": lambda dtype, x: -x,
    "positive": lambda dtype, x: x,
    "abs": _abs,
    "sign": _sign,
    "sqrt": _intrinsic("sqrt"),
    "maximum": _extremum("max"),
    "minimum": _extremum("min"),
    "where": lambda dtype, c, x, y: select(c, x, y),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round": _intrinsic("roundeven"),
    "copysign": lambda dtype, x, y: x.with_sign_of(y) if dtype.kind == "float" else x,
    "nextafter": _nextafter,
    "float_to_bits": lambda dtype, x: to_bits(dtype, x),
    "bits_to_float": lambda dtype, x: x.as_float(),
    "signbit": _signbit,
    "isnan": _isnan,
    "isinf": _float_test("oeq", False),
    "isfinite": _float_test("olt", True),
    "equal": _compare("eq"),
    "not_equal": _compare("ne"),
    "less": _compare("lt"),
    "less_equal": _compare("le"),
    "greater": _compare("gt"),
    "greater_equal": _compare("ge"),
    "logical_and": lambda dtype, x, y: x & y,
    "logical_or": lambda dtype, x, y: x | y,
    "logical_xor": lambda dtype, x, y: x ^ y,
    "logical_not": lambda dtype, x: ~x,
    "bitwise_and": lambda dtype, x, y: x & y,
    "bitwise_or": lambda dtype, x, y: x | y,
    "bitwise_xor": lambda dtype, x, y: x ^ y,
    "bitwise_invert": lambda dtype, x: ~x,
    "bitwise_left_shift": _shift_left,
    "bitwise_right_shift": _shift_right,
    "multiply_high": _multiply_high,
    **{name: _elementary(name) for name in FUNCTIONS if name != "pow"},
    **{name: _emit_hypot_comparison(predicate) for name, predicate in HYPOT_PREDICATES.items()},
}

# Operations that give a narrow float for narrow floats, so the result is not rounded.
EXACT_OPS = frozenset(
    (
        "where",
        "positive",
        "negative",
        "abs",
        "maximum",
        "minimum",
        "copysign",
        "nextafter",
        "sign",
        "floor",
        "ceil",
        "trunc",
        "round",
    )
)
