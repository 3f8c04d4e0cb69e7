"""The primitive operations in LLVM instructions, on scalars and vectors alike.

`PRIMITIVES` maps a name in the op table to what emits it: `emit(b, dtype, *args)`, where `dtype` is the dtype computed
in (of the operands). Elementary functions come from their own package; composite operations never get here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dtypes import DType
from .elementary import FUNCTIONS
from .values import DOUBLE, FLOAT, I1, INTS, Value, bits_of, constant, from_bits, intrinsic, shaped

Emit = Callable[..., Value]


def _choose(floats: str, signed: str, unsigned: str | None = None, bools: str | None = None) -> Emit:
    """One builder method by kind of dtype."""
    names = {"float": floats, "int": signed, "uint": unsigned or signed, "bool": bools or signed}
    return lambda b, dtype, *args: getattr(b, names[dtype.kind])(*args)


def _compare(relation: str) -> Emit:
    def emit(b: Any, dtype: DType, x: Value, y: Value) -> Value:
        if dtype.kind == "float":
            return (b.fcmp_unordered if relation == "!=" else b.fcmp_ordered)(relation, x, y)
        return (b.icmp_signed if dtype.kind == "int" else b.icmp_unsigned)(relation, x, y)

    return emit


def _intrinsic(name: str) -> Emit:
    """An intrinsic of floats; integers are left as they are."""
    return lambda b, dtype, *args: intrinsic(b, name, args[0].type, *args) if dtype.kind == "float" else args[0]


def _extreme(floats: str, signed: str, unsigned: str, bools: str) -> Emit:
    def emit(b: Any, dtype: DType, x: Value, y: Value) -> Value:
        if dtype.kind == "bool":
            return getattr(b, bools)(x, y)
        name = {"float": floats, "int": signed, "uint": unsigned}[dtype.kind]
        return intrinsic(b, name, x.type, x, y)

    return emit


def _zero(x: Value) -> Value:
    return constant(x.type, 0)


def _negative(b: Any, dtype: DType, x: Value) -> Value:
    return b.fneg(x) if dtype.kind == "float" else b.sub(_zero(x), x)


def _abs(b: Any, dtype: DType, x: Value) -> Value:
    if dtype.kind == "float":
        return intrinsic(b, "fabs", x.type, x)
    if dtype.kind == "int":
        return b.select(b.icmp_signed("<", x, _zero(x)), b.sub(_zero(x), x), x)
    return x


def _sign(b: Any, dtype: DType, x: Value) -> Value:
    one, zero = constant(x.type, 1), _zero(x)
    if dtype.kind == "uint":
        return b.select(b.icmp_unsigned("!=", x, zero), one, zero)
    if dtype.kind == "int":
        positive = b.select(b.icmp_signed(">", x, zero), one, zero)
        return b.select(b.icmp_signed("<", x, zero), constant(x.type, -1), positive)
    signed_one = intrinsic(b, "copysign", x.type, one, x)
    is_nan = b.fcmp_unordered("uno", x, x)
    return b.select(is_nan, x, b.select(b.fcmp_ordered("==", x, zero), zero, signed_one))


def _safe_divisor(b: Any, dtype: DType, x: Value, y: Value) -> tuple[Value, Value]:
    """Whether `y` is 0, and a divisor that traps neither on 0 nor on the lowest number by -1."""
    is_zero = b.icmp_unsigned("==", y, _zero(y))
    safe = b.select(is_zero, constant(y.type, 1), y)
    if dtype.kind == "int":
        lowest = b.icmp_signed("==", x, constant(x.type, dtype.lowest))
        minus = b.icmp_signed("==", y, constant(y.type, -1))
        safe = b.select(b.and_(lowest, minus), constant(y.type, 1), safe)  # lowest // 1 is what wrapping gives
    return is_zero, safe


def _floor_divide(b: Any, dtype: DType, x: Value, y: Value) -> Value:
    if dtype.kind == "float":
        return _floor_divide_floats(b, x, y)
    is_zero, safe = _safe_divisor(b, dtype, x, y)
    if dtype.kind == "uint":
        return b.select(is_zero, _zero(x), b.udiv(x, safe))
    quotient = b.sdiv(x, safe)
    rest = b.sub(x, b.mul(quotient, safe))
    wrong_side = b.and_(b.icmp_signed("!=", rest, _zero(x)), b.icmp_signed("<", b.xor(rest, safe), _zero(x)))
    floored = b.select(wrong_side, b.sub(quotient, constant(x.type, 1)), quotient)
    return b.select(is_zero, _zero(x), floored)


def _remainder(b: Any, dtype: DType, x: Value, y: Value) -> Value:
    if dtype.kind == "float":
        return _remainder_floats(b, x, y)
    is_zero, safe = _safe_divisor(b, dtype, x, y)
    if dtype.kind == "uint":
        return b.select(is_zero, _zero(x), b.urem(x, safe))
    rest = b.srem(x, safe)
    wrong_side = b.and_(b.icmp_signed("!=", rest, _zero(x)), b.icmp_signed("<", b.xor(rest, safe), _zero(x)))
    return b.select(is_zero, _zero(x), b.select(wrong_side, b.add(rest, safe), rest))


def _remainder_floats(b: Any, x: Value, y: Value) -> Value:
    """The exact remainder with the divisor's sign: fmod, moved to the divisor's side."""
    rest = b.frem(x, y)
    zero = _zero(x)
    other_side = b.xor(b.fcmp_ordered("<", rest, zero), b.fcmp_ordered("<", y, zero))
    wrong = b.and_(other_side, b.fcmp_ordered("!=", rest, zero))
    moved = b.select(wrong, b.fadd(rest, y), rest)
    return b.select(b.fcmp_ordered("==", rest, zero), intrinsic(b, "copysign", x.type, zero, y), moved)


def _floor_divide_floats(b: Any, x: Value, y: Value) -> Value:
    """floor(x / y), one less where the quotient was rounded up to a whole number: the rest is then on the other side of 0."""
    zero, quotient = _zero(x), b.fdiv(x, y)
    whole = intrinsic(b, "floor", x.type, quotient)
    rest = intrinsic(b, "fma", x.type, b.fneg(whole), y, x)
    exact_below = 2.0**53 if str(getattr(x.type, "element", x.type)) == "double" else 2.0**24
    small = b.fcmp_ordered("<", intrinsic(b, "fabs", x.type, whole), constant(x.type, exact_below))
    rounded_up = b.and_(small, b.and_(b.fcmp_ordered("!=", rest, zero), _signs_differ(b, rest, y)))
    return b.select(rounded_up, b.fsub(whole, constant(x.type, 1.0)), whole)


def _signs_differ(b: Any, x: Value, y: Value) -> Value:
    zero = _zero(x)
    return b.xor(b.fcmp_ordered("<", x, zero), b.fcmp_ordered("<", y, zero))


def _pow(b: Any, dtype: DType, x: Value, y: Value) -> Value:
    if dtype.kind == "float":
        return FUNCTIONS["pow"](b, x, y)
    one, zero = constant(x.type, 1), _zero(x)
    result, factor = one, x
    for bit in range(dtype.bits):
        is_set = b.trunc(b.lshr(y, constant(y.type, bit)), shaped(I1, y))
        result = b.select(is_set, b.mul(result, factor), result)
        factor = b.mul(factor, factor)
    if dtype.kind == "uint":
        return result
    odd = b.trunc(y, shaped(I1, y))
    minus = constant(x.type, -1)
    of_minus = b.select(b.icmp_signed("==", x, minus), b.select(odd, minus, one), zero)
    reciprocal = b.select(b.icmp_signed("==", x, one), one, of_minus)
    return b.select(b.icmp_signed("<", y, zero), reciprocal, result)


def _shift_left(b: Any, dtype: DType, x: Value, y: Value) -> Value:
    fits = b.icmp_unsigned("<", y, constant(y.type, dtype.bits))
    return b.select(fits, b.shl(x, b.select(fits, y, _zero(y))), _zero(x))


def _shift_right(b: Any, dtype: DType, x: Value, y: Value) -> Value:
    last = constant(y.type, dtype.bits - 1)
    fits = b.icmp_unsigned("<=", y, last)
    if dtype.kind == "int":
        return b.ashr(x, b.select(fits, y, last))
    return b.select(fits, b.lshr(x, b.select(fits, y, _zero(y))), _zero(x))


def _multiply_high(b: Any, dtype: DType, x: Value, y: Value) -> Value:
    if dtype.bits < 64:
        wide = shaped(INTS[dtype.bits * 2], x)
        product = b.mul(b.zext(x, wide), b.zext(y, wide))
        return b.trunc(b.lshr(product, constant(wide, dtype.bits)), x.type)
    half, low = constant(x.type, 32), constant(x.type, 0xFFFFFFFF)
    x0, x1, y0, y1 = b.and_(x, low), b.lshr(x, half), b.and_(y, low), b.lshr(y, half)
    middle = b.add(b.mul(x1, y0), b.lshr(b.mul(x0, y0), half))
    middle2 = b.add(b.mul(x0, y1), b.and_(middle, low))
    return b.add(b.add(b.mul(x1, y1), b.lshr(middle, half)), b.lshr(middle2, half))


_SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}


def _nextafter(b: Any, dtype: DType, x: Value, y: Value) -> Value:
    """One step on the bits, which are in the order of the magnitudes."""
    bits = bits_of(b, dtype, x)
    zero, one = _zero(x), constant(bits.type, 1)
    away = b.icmp_unsigned("==", b.fcmp_ordered("<", x, y), b.fcmp_ordered(">", x, zero))
    stepped = from_bits(b, dtype, b.select(away, b.add(bits, one), b.sub(bits, one)))
    smallest = intrinsic(b, "copysign", x.type, constant(x.type, _SMALLEST[dtype.name]), y)
    found = b.select(b.fcmp_ordered("==", x, zero), smallest, stepped)
    found = b.select(b.fcmp_ordered("==", x, y), y, found)
    return b.select(b.fcmp_unordered("uno", x, y), b.fadd(x, y), found)


def _signbit(b: Any, dtype: DType, x: Value) -> Value:
    bits = bits_of(b, dtype, x)
    return b.icmp_signed("<", bits, constant(bits.type, 0))


def _float_test(relation: str, *, ordered: bool) -> Emit:
    """|x| compared with infinity; integers are finite."""

    def emit(b: Any, dtype: DType, x: Value) -> Value:
        if dtype.kind != "float":
            return constant(shaped(I1, x), relation == "<")
        size = intrinsic(b, "fabs", x.type, x)
        return (b.fcmp_ordered if ordered else b.fcmp_unordered)(relation, size, constant(x.type, float("inf")))

    return emit


def _isnan(b: Any, dtype: DType, x: Value) -> Value:
    return b.fcmp_unordered("uno", x, x) if dtype.kind == "float" else constant(shaped(I1, x), False)


def _elementary(name: str) -> Emit:
    return lambda b, dtype, *args: FUNCTIONS[name](b, *args)


PRIMITIVES: dict[str, Emit] = {
    "add": _choose("fadd", "add", bools="or_"),
    "subtract": _choose("fsub", "sub"),
    "multiply": _choose("fmul", "mul", bools="and_"),
    "divide": _choose("fdiv", "sdiv"),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "pow": _pow,
    "negative": _negative,
    "positive": lambda b, dtype, x: x,
    "abs": _abs,
    "sign": _sign,
    "sqrt": _intrinsic("sqrt"),
    "maximum": _extreme("maximum", "smax", "umax", "or_"),
    "minimum": _extreme("minimum", "smin", "umin", "and_"),
    "where": lambda b, dtype, c, x, y: b.select(c, x, y),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round": _intrinsic("roundeven"),
    "copysign": _intrinsic("copysign"),
    "nextafter": _nextafter,
    "float_to_bits": lambda b, dtype, x: bits_of(b, dtype, x),
    "bits_to_float": lambda b, dtype, x: b.bitcast(x, shaped(FLOAT if dtype.bits == 32 else DOUBLE, x)),
    "signbit": _signbit,
    "isnan": _isnan,
    "isinf": _float_test("==", ordered=True),
    "isfinite": _float_test("<", ordered=True),
    "equal": _compare("=="),
    "not_equal": _compare("!="),
    "less": _compare("<"),
    "less_equal": _compare("<="),
    "greater": _compare(">"),
    "greater_equal": _compare(">="),
    "logical_and": lambda b, dtype, x, y: b.and_(x, y),
    "logical_or": lambda b, dtype, x, y: b.or_(x, y),
    "logical_xor": lambda b, dtype, x, y: b.xor(x, y),
    "logical_not": lambda b, dtype, x: b.not_(x),
    "bitwise_and": lambda b, dtype, x, y: b.and_(x, y),
    "bitwise_or": lambda b, dtype, x, y: b.or_(x, y),
    "bitwise_xor": lambda b, dtype, x, y: b.xor(x, y),
    "bitwise_invert": lambda b, dtype, x: b.xor(x, constant(x.type, -1)),
    "bitwise_left_shift": _shift_left,
    "bitwise_right_shift": _shift_right,
    "multiply_high": _multiply_high,
    **{name: _elementary(name) for name in FUNCTIONS if name != "pow"},
}

# Operations whose result on narrow floats is a narrow float already.
EXACT = frozenset(
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
