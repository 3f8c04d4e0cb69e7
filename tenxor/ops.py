"""The table of operations: what an elementwise operation is called, accepts, gives and means.

Adding an elementwise operation is one entry here. An entry with a `formula` needs nothing else: both back ends expand
it. One without is a primitive, which each back end knows by name.
"""

from __future__ import annotations

from collections.abc import Callable

from .complexes import arithmetic, elementary, inverse
from .complexes.pairs import has_complex, pair
from .dtypes import DEFAULT_FLOAT, DType, boolean, float32, float64, promote, uint32, uint64
from .errors import DTypeError
from .expr import OPS as OPS
from .expr import Const, Expr, call, cast, substitute, zero

DTypes = tuple[DType, ...]
Exprs = tuple[Expr, ...]
# (operation, dtypes given) -> (dtypes computed in, dtype of the result)
Rule = Callable[[str, DTypes], tuple[DTypes, DType]]

REAL = ("uint", "int", "float")
NUMERIC = (*REAL, "complex")
ORDERED = ("bool", *REAL)
ALL_KINDS = (*ORDERED, "complex")
INTEGRAL = ("bool", "uint", "int")


class Op:
    """One elementwise operation.

    `rule` maps the operands' dtypes to those it computes in and its result's; `formula`, if any, expresses it by other
    entries; `parts` gives it for complex operands, each a pair of real expressions; `infix` is how it prints; `meaning` is
    its documentation; `cost` is about how many additions it is worth. `in_complex` tells of a formula that has complex
    numbers in it, whatever it is given.
    """

    __slots__ = (
        "_results",
        "arity",
        "cost",
        "formula",
        "formula_key",
        "in_complex",
        "infix",
        "kind",
        "meaning",
        "name",
        "parts",
        "rule",
    )

    def __init__(
        self,
        name: str,
        arity: int,
        rule: Rule,
        meaning: str = "",
        *,
        infix: str = "",
        cost: int = 1,
        formula: Callable[..., Expr] | None = None,
        formula_key: object = None,
        parts: Callable[..., Expr] | None = None,
    ) -> None:
        self.name, self.arity, self.rule, self.meaning = name, arity, rule, meaning
        self.infix, self.cost, self.formula, self.formula_key = infix, cost, formula, formula_key
        self.parts, self.in_complex = parts, False
        self.kind = "elementwise"
        self._results: dict[DTypes, DType] = {}

    def __repr__(self) -> str:
        return self.name

    def result(self, dtypes: DTypes) -> DType:
        """The dtype of the result for operands of these dtypes; DTypeError where there is none."""
        found = self._results.get(dtypes)
        if found is None:
            found = self._results[dtypes] = self.rule(self.name, dtypes)[1]
        return found

    def format(self, args: list[str], dtype: DType) -> str:
        """The operation written on the texts of its arguments."""
        if self.infix and self.arity == 2:
            return f"({args[0]} {self.infix} {args[1]})"
        if self.name == "cast":
            return f"{dtype.name}({args[0]})"
        return f"{self.name}({', '.join(args)})"


def _check_kinds(op: str, dtypes: DTypes, accepts: tuple[str, ...]) -> DType:
    common = dtypes[0]
    for d in dtypes[1:]:
        common = d if d is common else promote(common, d, op)
    if common.kind not in accepts:
        names = {
            "bool": "bool",
            "uint": "unsigned integers",
            "int": "signed integers",
            "float": "floats",
            "complex": "complex numbers",
        }
        hint = " (use logical_xor)" if op == "subtract" else " (use logical_not)" if op == "negative" else ""
        hint = " (use it on tx.real(x), tx.imag(x) or tx.abs(x))" if common.is_complex else hint
        raise DTypeError(f"{op}: does not accept {common}; it takes {', '.join(names[k] for k in accepts)}{hint}")
    return common


def same(accepts: tuple[str, ...] = ALL_KINDS) -> Rule:
    """Operands promote to one dtype, which is the result's too."""

    def rule(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
        d = _check_kinds(op, dtypes, accepts)
        return (d,) * len(dtypes), d

    return rule


def floating(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Operands promote to one real floating-point dtype (integers to the default one)."""
    d = _check_kinds(op, dtypes, ORDERED)
    d = d if d.kind == "float" else DEFAULT_FLOAT
    return (d,) * len(dtypes), d


def inexact(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Operands promote to one floating-point dtype, real or complex (integers to the default one)."""
    d = _check_kinds(op, dtypes, ALL_KINDS)
    d = d if d.kind in ("float", "complex") else DEFAULT_FLOAT
    return (d,) * len(dtypes), d


def part_of(accepts: tuple[str, ...]) -> Rule:
    """One operand; the result has the dtype of its parts, if it is complex, else its own."""

    def rule(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
        d = _check_kinds(op, dtypes, accepts)
        return (d,), d.part

    return rule


def number_and_real(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """A number, real or complex, and a real one of the dtype of its parts."""
    x, y = dtypes
    if y is not x.part or not y.is_float:
        raise DTypeError(f"{op}: takes a number and a float of the dtype of its parts, not {x} and {y}")
    return dtypes, x


def predicate(accepts: tuple[str, ...] = ALL_KINDS) -> Rule:
    """Operands promote to one dtype; the result is bool."""

    def rule(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
        return (_check_kinds(op, dtypes, accepts),) * len(dtypes), boolean

    return rule


def logical(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Operands count as true where they are not zero."""
    return (boolean,) * len(dtypes), boolean


def selecting(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """A condition, then two values of one dtype."""
    d = _check_kinds(op, dtypes[1:], ALL_KINDS)
    return (boolean, d, d), d


def as_bits(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """A float of 32 or 64 bits, and an unsigned integer of as many."""
    return dtypes, _as_wide(op, dtypes[0], {float32: uint32, float64: uint64})


def as_float(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """An unsigned integer of 32 or 64 bits, and a float of as many."""
    return dtypes, _as_wide(op, dtypes[0], {uint32: float32, uint64: float64})


def _as_wide(op: str, given: DType, wanted: dict[DType, DType]) -> DType:
    if given not in wanted:
        raise DTypeError(f"{op}: takes {' or '.join(map(str, wanted))}, not {given}")
    return wanted[given]


def words(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """64 bits each, and 64 bits."""
    if any(d is not uint64 for d in dtypes):
        raise DTypeError(f"{op}: takes uint64 words, not {', '.join(map(str, dtypes))}")
    return dtypes, uint64


def _never(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    raise AssertionError("cast carries its dtype itself")


def entry(name: str, arity: int, rule: Rule, meaning: str, **more: object) -> Op:
    """Enter an elementwise operation into the table."""
    op = OPS[name] = Op(name, arity, rule, meaning, **more)  # type: ignore[arg-type]
    return op


# --- arithmetic -------------------------------------------------------------------------------------------------------
entry("cast", 1, _never, "the value in another dtype; floats to integers truncate and saturate, NaN gives 0")
entry("add", 2, same(), "x + y; for bool, or", infix="+", parts=arithmetic.add)
entry("subtract", 2, same(NUMERIC), "x - y", infix="-", parts=arithmetic.subtract)
entry("multiply", 2, same(), "x * y; for bool, and", infix="*", parts=arithmetic.multiply)
entry("divide", 2, inexact, "x / y, always a float or complex", infix="/", cost=4, parts=arithmetic.divide)
entry("floor_divide", 2, same(REAL), "the floor of x / y; 0 where an integer is divided by 0", infix="//", cost=12)
entry(
    "remainder",
    2,
    same(REAL),
    "x - y * floor(x / y), with y's sign; 0 where an integer is divided by 0",
    infix="%",
    cost=12,
)
entry(
    "pow",
    2,
    same(NUMERIC),
    "x to the power y; integers wrap, and to a negative power are 1 / x without its fraction (0 for 0), but a negative Python"
    " number is an error there",
    infix="**",
    cost=40,
    parts=elementary.pow,
)
entry("negative", 1, same(NUMERIC), "-x", parts=arithmetic.negative)
entry("positive", 1, same(), "x itself", parts=lambda x: x)
entry(
    "real",
    1,
    part_of(NUMERIC),
    "the real part of x",
    formula=lambda x: call("positive", x),
    parts=lambda x: x.args[0],
)
entry(
    "imag",
    1,
    part_of(NUMERIC),
    "the imaginary part of x: 0 in every real dtype",
    formula=lambda x: zero(x.dtype),
    parts=lambda x: x.args[1],
)
entry(
    "conj",
    1,
    same(NUMERIC),
    "the complex conjugate of x",
    formula=lambda x: call("positive", x),
    parts=arithmetic.conj,
)
entry("abs", 1, part_of(ALL_KINDS), "the magnitude of x", parts=arithmetic.magnitude)
entry(
    "squared_abs",
    1,
    part_of(NUMERIC),
    "the square of the magnitude of x",
    formula=lambda x: x * x,
    parts=arithmetic.squared_abs,
)
entry("sign", 1, same(NUMERIC), "-1, 0 or 1, of complex numbers x / abs(x); NaN stays", parts=elementary.sign)
entry("square", 1, same(), "x * x", formula=lambda x: x * x, parts=arithmetic.square)
entry("reciprocal", 1, inexact, "1 / x", formula=lambda x: 1.0 / x, cost=4)
entry(
    "divide_by_real",
    2,
    number_and_real,
    "x / y for a real y",
    formula=lambda x, y: x / y,
    parts=arithmetic.divide_by_real,
)
entry("sqrt", 1, inexact, "the square root of x", cost=6, parts=elementary.sqrt)
entry(
    "rsqrt",
    1,
    inexact,
    "1 / sqrt(x)",
    cost=12,
    parts=lambda x: arithmetic.divide(pair(zero(x.dtype.part) + 1.0, zero(x.dtype.part)), elementary.sqrt(x)),
)
entry(
    "power_half",
    1,
    inexact,
    "x to the power 0.5, which for -0 is 0 and for -inf is inf",
    parts=elementary.sqrt,
    formula=lambda x: call("where", call("equal", x, float("-inf")), float("inf"), call("sqrt", x) + 0.0),
    cost=8,
)
entry("maximum", 2, same(ORDERED), "the larger of x and y; NaN if either is")
entry("minimum", 2, same(ORDERED), "the smaller of x and y; NaN if either is")
entry(
    "clip",
    3,
    same(ORDERED),
    "x held between low and high",
    formula=lambda x, lo, hi: call("minimum", call("maximum", x, lo), hi),
)
entry("where", 3, selecting, "x where the condition holds, else y", parts=arithmetic.select)

# --- rounding and parts -----------------------------------------------------------------------------------------------
entry("floor", 1, same(REAL), "the largest integer not above x")
entry("ceil", 1, same(REAL), "the smallest integer not below x")
entry("trunc", 1, same(REAL), "x without its fraction")
entry(
    "round",
    1,
    same(NUMERIC),
    "the nearest integer, halves to even; of complex numbers, of each part",
    parts=lambda x: arithmetic.by_part("round", x),
)
entry("copysign", 2, floating, "x with the sign of y")
entry("nextafter", 2, floating, "the next number after x towards y", cost=8)
entry("float_to_bits", 1, as_bits, "the bits of x as an unsigned integer")
entry("bits_to_float", 1, as_float, "the float whose bits x is")
entry("signbit", 1, predicate(("float",)), "whether the sign of x is negative, of zeros too")
entry("isnan", 1, predicate(), "whether x is not a number", parts=arithmetic.isnan)
entry("isinf", 1, predicate(), "whether x is infinite", parts=arithmetic.isinf)
entry("isfinite", 1, predicate(), "whether x is neither infinite nor NaN", parts=arithmetic.isfinite)

# --- comparison and logic ---------------------------------------------------------------------------------------------
for _name, _infix, _meaning, _parts in (
    ("equal", "==", "x = y", arithmetic.equal),
    ("not_equal", "!=", "x and y differ", arithmetic.not_equal),
):
    entry(_name, 2, predicate(), f"whether {_meaning}", infix=_infix, parts=_parts)
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
_ELEMENTARY: tuple[tuple[str, str, Callable[[Expr], Expr]], ...] = (
    ("exp", "e to the power x", elementary.exp),
    ("exp2", "2 to the power x", elementary.exp2),
    ("expm1", "exp(x) - 1, exact near 0", elementary.expm1),
    ("log", "the natural logarithm", elementary.log),
    ("log1p", "log(1 + x), exact near 0", elementary.log1p),
    ("log2", "the logarithm to base 2", elementary.log2),
    ("log10", "the logarithm to base 10", elementary.log10),
    ("sin", "the sine of x radians", elementary.sin),
    ("cos", "the cosine of x radians", elementary.cos),
    ("tan", "the tangent of x radians", elementary.tan),
    ("asin", "the inverse sine, in radians", inverse.asin),
    ("acos", "the inverse cosine, in radians", inverse.acos),
    ("atan", "the inverse tangent, in radians", inverse.atan),
    ("sinh", "the hyperbolic sine", elementary.sinh),
    ("cosh", "the hyperbolic cosine", elementary.cosh),
    ("tanh", "the hyperbolic tangent", elementary.tanh),
    ("asinh", "the inverse hyperbolic sine", inverse.asinh),
    ("acosh", "the inverse hyperbolic cosine", inverse.acosh),
    ("atanh", "the inverse hyperbolic tangent", inverse.atanh),
)
for _name, _meaning, _function in _ELEMENTARY:
    entry(_name, 1, inexact, _meaning, cost=20, parts=_function)
entry("erf", 1, floating, "the error function", cost=20)
entry("atan2", 2, floating, "the angle of the point (y, x), in radians: atan2(y, x)", cost=30)
entry("hypot", 2, floating, "sqrt(x*x + y*y) without overflow", cost=20)
entry("logaddexp", 2, floating, "log(exp(x) + exp(y)) without overflow", cost=50)
entry("sigmoid", 1, floating, "1 / (1 + exp(-x))", cost=24)
entry("relu", 1, same(REAL), "x where positive, else 0", formula=lambda x: call("maximum", x, 0))
entry("silu", 1, floating, "x * sigmoid(x)", cost=25)
entry("softplus", 1, floating, "log(1 + exp(x)) without overflow", cost=40)
entry("gelu", 1, floating, "x times the normal distribution's cumulative probability at x", cost=40)
entry("gelu_tanh", 1, floating, "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2, which is near gelu", cost=35)


# --- random numbers ---------------------------------------------------------------------------------------------------


def philox4x32(counter: Exprs, key: Exprs) -> Exprs:
    """Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four words of a block."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = Const(0xD2511F53, uint32), Const(0xCD9E8D57, uint32)
        high_a, low_a, high_b, low_b = call("multiply_high", a, c0), a * c0, call("multiply_high", b, c2), b * c2
        c0, c1, c2, c3 = _xor(_xor(high_b, c1), k0), low_b, _xor(_xor(high_a, c3), k1), low_a
        k0, k1 = k0 + Const(0x9E3779B9, uint32), k1 + Const(0xBB67AE85, uint32)
    return c0, c1, c2, c3


def _xor(x: Expr, y: Expr) -> Expr:
    return call("bitwise_xor", x, y)


def _words(x: Expr) -> Exprs:
    """The low and the high half of 64 bits."""
    return cast(x, uint32), cast(call("bitwise_right_shift", x, 32), uint32)


def _random_bits(first: int) -> Callable[[Expr, Expr, Expr], Expr]:
    def formula(counter: Expr, stream: Expr, key: Expr) -> Expr:
        block = philox4x32((*_words(counter), *_words(stream)), _words(key))
        low, high = (cast(w, uint64) for w in block[first : first + 2])
        return call("bitwise_or", low, call("bitwise_left_shift", high, 32))

    return formula


entry(
    "random_bits",
    3,
    words,
    "64 random bits of (counter, stream, key): words 0 and 1 of their Philox block",
    cost=100,
    formula=_random_bits(0),
)
entry(
    "random_bits_high",
    3,
    words,
    "64 other random bits of (counter, stream, key): words 2 and 3 of their Philox block",
    cost=100,
    formula=_random_bits(2),
)


def custom(name: str, formula: Expr, dtypes: DTypes) -> Op:
    """An operation of the user's own: `formula` over `Arg`s of the given dtypes."""
    found = Op(
        name,
        len(dtypes),
        lambda op, given: (dtypes, formula.dtype),
        f"the traced function {formula!r}",
        formula=lambda *args: substitute(formula, args),
        formula_key=formula,
        cost=10,
    )
    found.in_complex = has_complex(formula)
    return found
