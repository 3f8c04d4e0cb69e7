"""Dtype rules: functions of the name `op` of an operation, for errors, and of the dtypes of the operands. A rule returns the dtypes to
which the operands are converted, and the dtype of the result, or raises DTypeError. A kind is the attribute `DType.kind`, such as "int".
"""

from __future__ import annotations

from ..dtypes import DEFAULT_FLOAT, DType, boolean, float32, float64, promote, uint32, uint64
from ..errors import DTypeError
from .expr import DTypeRule, DTypes

REAL_KINDS = ("uint", "int", "float")
NUMERIC_KINDS = (*REAL_KINDS, "complex")
ORDERED_KINDS = ("bool", *REAL_KINDS)
ALL_KINDS = (*ORDERED_KINDS, "complex")
INTEGRAL_KINDS = ("bool", "uint", "int")


def _check_kinds(op: str, dtypes: DTypes, accepts: tuple[str, ...]) -> DType:
    """Return the dtype that all `dtypes`, at least one, promote to. Raise DTypeError, with the name `op`, without such a dtype, or if its
    kind is not in `accepts`.
    """
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


def same_dtype(accepts: tuple[str, ...] = ALL_KINDS) -> DTypeRule:
    """Return the rule for operands that promote to one dtype of a kind in `accepts`, the dtype of the result too."""

    def rule(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
        d = _check_kinds(op, dtypes, accepts)
        return (d,) * len(dtypes), d

    return rule


def floating(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Apply the rule that all operands and the result have one real float dtype, the default one for bools and integers.

    Raise DTypeError for complex operands.
    """
    d = _check_kinds(op, dtypes, ORDERED_KINDS)
    d = d if d.kind == "float" else DEFAULT_FLOAT
    return (d,) * len(dtypes), d


def inexact(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Apply the rule that all operands and the result have one float or complex dtype, the default float dtype for bools and integers."""
    d = _check_kinds(op, dtypes, ALL_KINDS)
    d = d if d.kind in ("float", "complex") else DEFAULT_FLOAT
    return (d,) * len(dtypes), d


def part_dtype(accepts: tuple[str, ...]) -> DTypeRule:
    """Return the rule for one operand of a kind in `accepts`, for instance `NUMERIC_KINDS`, and a result of the dtype of its parts.

    A complex dtype gives the real dtype of its parts, and a real dtype stays. The rule raises DTypeError for a kind not in `accepts`.
    """

    def rule(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
        d = _check_kinds(op, dtypes, accepts)
        return (d,), d.part

    return rule


def number_and_float(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Apply the rule for a real or complex float and a second operand of the real dtype of its parts; the result has the first dtype.

    Raise DTypeError for other dtypes.
    """
    x, y = dtypes
    if y is not x.part or not y.is_float:
        raise DTypeError(f"{op}: takes a number and a float of the dtype of its parts, not {x} and {y}")
    return dtypes, x


def predicate(accepts: tuple[str, ...] = ALL_KINDS) -> DTypeRule:
    """Return the rule of comparisons and tests: the operands promote to one dtype of a kind in `accepts`, and the result is bool."""

    def rule(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
        return (_check_kinds(op, dtypes, accepts),) * len(dtypes), boolean

    return rule


def logical(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Apply the rule that operands of any dtype, and the result, are bool: operands count as true where they are not zero."""
    return (boolean,) * len(dtypes), boolean


def conditional(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Apply the rule of `where`: the first operand is converted to bool. The other two, and the result, have the dtype that both promote
    to.
    """
    d = _check_kinds(op, dtypes[1:], ALL_KINDS)
    return (boolean, d, d), d


def float_to_bits(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Apply the rule for one float32 or float64 operand: the result is the unsigned integer dtype of as many bits.

    Raise DTypeError for another dtype.
    """
    return dtypes, _same_width(op, dtypes[0], {float32: uint32, float64: uint64})


def bits_to_float(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Apply the rule for one uint32 or uint64 operand: the result is the float dtype of as many bits.

    Raise DTypeError for another dtype.
    """
    return dtypes, _same_width(op, dtypes[0], {uint32: float32, uint64: float64})


def _same_width(op: str, dtype: DType, results: dict[DType, DType]) -> DType:
    """Return the item of `results` for `dtype`. Raise DTypeError, with the name `op`, for a dtype without an item."""
    if dtype not in results:
        raise DTypeError(f"{op}: takes {' or '.join(map(str, results))}, not {dtype}")
    return results[dtype]


def uint64_words(result: DType) -> DTypeRule:
    """Return the rule of operations on uint64 words, with a result of the dtype `result`. The rule raises DTypeError for another dtype."""

    def rule(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
        if any(d is not uint64 for d in dtypes):
            raise DTypeError(f"{op}: takes uint64 words, not {', '.join(map(str, dtypes))}")
        return dtypes, result

    return rule


def no_rule(op: str, dtypes: DTypes) -> tuple[DTypes, DType]:
    """Raise AssertionError. This stands in place of a rule for a cast, whose call carries the dtype of the result itself."""
    raise AssertionError("cast carries its dtype itself")
