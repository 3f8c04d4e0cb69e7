"""The elementwise functions, one for each entry of the op table: a new entry there adds a function here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._utils.aliases import argument_aliases
from .._utils.patchable import make_patchable
from ..dtypes import NUMBER_TYPES, default_dtype_of
from ..errors import ArgumentError
from ..graph.spec import MAX_INT64, memoized_call
from ..ops import INTERNAL_OPS, OPS, Op
from ..ops.dtype_rules import ALL_KINDS, INTEGRAL_KINDS, NUMERIC_KINDS, ORDERED_KINDS, REAL_KINDS
from ..tensor import Tensor
from ..tensor.core import Operand
from .creation import asarray
from .output_arguments import write_out


def _apply(op: Op, *values: Any) -> Tensor:
    """Return the pending result of `op` on a user's operands `values`: tensors, numbers, arrays or sequences.

    Arrays and sequences become tensors; numbers take a dtype that fits the tensors. Without a tensor, the first value becomes one.
    """
    first_operand, *other_operands = map(Tensor._from_array_or_same, values)
    if type(first_operand) is Tensor and all([type(value) in _UNCONVERTED_TYPES for value in other_operands]):
        return Tensor._apply(first_operand, op, *other_operands)
    for value in (first_operand, *other_operands):
        if isinstance(value, Tensor):
            return Tensor._compute(op, *(value._to_operand(v, op.name) for v in (first_operand, *other_operands)))
    is_number = type(first_operand) in NUMBER_TYPES and (type(first_operand) is not int or -MAX_INT64 <= first_operand <= MAX_INT64)
    first_operand = Tensor._from_number(first_operand, default_dtype_of(first_operand)) if is_number else asarray(first_operand)
    return Tensor._compute(op, first_operand, *(first_operand._to_operand(v, op.name) for v in other_operands))


_UNCONVERTED_TYPES = frozenset((Tensor, int, float))  # types that need no conversion beside a tensor


# Words for docstrings. The rule of an operation (`ops/dtype_rules.py`) has the name of the function that builds it.
_OPERAND_DTYPES = {
    ALL_KINDS: "Any dtype",
    NUMERIC_KINDS: "Any dtype but bool",
    REAL_KINDS: "Any integer or real floating-point dtype",
    ORDERED_KINDS: "Any dtype but complex ones",
    INTEGRAL_KINDS: "Any integer dtype or bool",
    ("uint", "int"): "Any integer dtype",
    ("float",): "Any real floating-point dtype",
}
_RESULT_DTYPES = {
    "same_dtype": "{}",
    "part_dtype": "{}; a complex dtype gives that of its parts",
    "predicate": "dtype bool",
    "logical": "dtype bool",
    "floating": "{}; integers and bools give float64",
    "inexact": "{}; integers and bools give float64",
}
_OUT_DOC = """\
out : Tensor, optional
    Receives the result, and is returned. The result must broadcast to its shape, and its dtype must hold the result.
"""
_MASK_DOC = """\
where : Tensor of bool, optional
    Only with `out`: elements of `out` are written only where `where` is true.
"""
_FIT_DOC = " The shapes broadcast together"
_BINARY_FIT_DOCS = {
    "logical": f"{_FIT_DOC}.",
    "predicate": f"{_FIT_DOC}, and the dtypes promote to one. int64 and uint64 are compared exactly, too.",
}
_SHAPE_ERROR_DOC = """\
ShapeError
    If the shapes do not broadcast together.
"""
_DTYPE_ERROR_DOC = """\
DTypeError
    If a dtype is not accepted, or the dtypes do not promote to one.
"""
_RANGE_ERROR_DOC = """\
OutOfBounds
    If a Python integer is out of the range of the integer dtype beside it.
"""
_WHERE_DOC = """\
Return x where condition is true, and y elsewhere, element by element.

With the condition alone, return the indices of its true elements, as `tx.nonzero` does.

Parameters
----------
condition : Tensor, array, sequence or number
    A number counts as true unless it is 0.
x, y : Tensor, array, sequence or number, optional
    Values that broadcast with `condition`. Their dtypes promote to one. Give both or neither.
{out}
Returns
-------
Tensor or tuple of Tensor
    New tensor of the broadcast shape and the promoted dtype of `x` and `y`. With `out`, that tensor. With the condition alone, a new
    int64 tensor for each axis.

Raises
------
ArgumentError
    If only one of `x` and `y` is given.
ShapeError
    If the operands do not broadcast together.
DTypeError
    If the dtypes of `x` and `y` do not promote to one.
{range_error}
Examples
--------
>>> import tenxor as tx
>>> tx.where(tx.asarray([True, False]), 1, 2).tolist()
[1, 2]
"""
_EXAMPLES = {  # arguments of the example in a docstring, with the result as a list
    "add": ("[1, 2], 10", "[11, 12]"),
    "subtract": ("[1, 2], 10", "[-9, -8]"),
    "multiply": ("[1, 2], 10", "[10, 20]"),
    "divide": ("[1, 3], 2", "[0.5, 1.5]"),
    "floor_divide": ("[7, -7], 2", "[3, -4]"),
    "remainder": ("[7, -7], 4", "[3, 1]"),
    "pow": ("[2, 3], 2", "[4, 9]"),
    "negative": ("[1, -2]", "[-1, 2]"),
    "positive": ("[1, -2]", "[1, -2]"),
    "real": ("[1 + 2j]", "[1.0]"),
    "imag": ("[1 + 2j]", "[2.0]"),
    "conj": ("[1 + 2j]", "[(1-2j)]"),
    "abs": ("[-1.5, 2.0]", "[1.5, 2.0]"),
    "sign": ("[-1.5, 0.0, 2.0]", "[-1.0, 0.0, 1.0]"),
    "square": ("[2, -3]", "[4, 9]"),
    "reciprocal": ("[2.0, 4.0]", "[0.5, 0.25]"),
    "sqrt": ("[4.0, 9.0]", "[2.0, 3.0]"),
    "rsqrt": ("[4.0, 16.0]", "[0.5, 0.25]"),
    "maximum": ("[1, 5], 3", "[3, 5]"),
    "minimum": ("[1, 5], 3", "[1, 3]"),
    "floor": ("[1.5, -1.5]", "[1.0, -2.0]"),
    "ceil": ("[1.5, -1.5]", "[2.0, -1.0]"),
    "trunc": ("[1.5, -1.5]", "[1.0, -1.0]"),
    "copysign": ("[1.0, 2.0], -0.0", "[-1.0, -2.0]"),
    "nextafter": ("[0.0], 1.0", "[5e-324]"),
    "signbit": ("[-0.0, 0.0]", "[True, False]"),
    "isnan": ('[1.0, float("nan")]', "[False, True]"),
    "isinf": ('[1.0, float("inf")]', "[False, True]"),
    "isfinite": ('[1.0, float("inf")]', "[True, False]"),
    "equal": ("[1, 2, 3], 2", "[False, True, False]"),
    "not_equal": ("[1, 2, 3], 2", "[True, False, True]"),
    "less": ("[1, 2, 3], 2", "[True, False, False]"),
    "less_equal": ("[1, 2, 3], 2", "[True, True, False]"),
    "greater": ("[1, 2, 3], 2", "[False, False, True]"),
    "greater_equal": ("[1, 2, 3], 2", "[False, True, True]"),
    "logical_and": ("[True, False], True", "[True, False]"),
    "logical_or": ("[True, False], False", "[True, False]"),
    "logical_xor": ("[True, False], True", "[False, True]"),
    "logical_not": ("[True, False]", "[False, True]"),
    "bitwise_and": ("[6, 3], 2", "[2, 2]"),
    "bitwise_or": ("[4, 3], 2", "[6, 3]"),
    "bitwise_xor": ("[6, 1], 2", "[4, 3]"),
    "bitwise_invert": ("[0, 5]", "[-1, -6]"),
    "bitwise_left_shift": ("[1, 3], 2", "[4, 12]"),
    "bitwise_right_shift": ("[8, -8], 2", "[2, -2]"),
    "exp2": ("[3.0, -1.0]", "[8.0, 0.5]"),
    "log": ("[1.0]", "[0.0]"),
    "log2": ("[8.0, 0.5]", "[3.0, -1.0]"),
    "log10": ("[100.0]", "[2.0]"),
    "acos": ("[1.0]", "[0.0]"),
    "acosh": ("[1.0]", "[0.0]"),
    "erfinv": ("[0.0, 1.0]", "[0.0, inf]"),
    "atan2": ("[0.0], 1.0", "[0.0]"),
    "hypot": ("[3.0], 4.0", "[5.0]"),
    "sigmoid": ("[0.0]", "[0.5]"),
    "relu": ("[-1.5, 2.0]", "[0.0, 2.0]"),
    "logaddexp": ("[1000.0], 0.0", "[1000.0]"),
    "softplus": ("[1000.0]", "[1000.0]"),
    **dict.fromkeys(("exp", "cos", "cosh"), ("[0.0]", "[1.0]")),
}


def _build_docstring(op: Op) -> str:
    """Return the docstring of the public function of the unary or binary operation `op`."""
    summary, _, details = op.meaning.partition("; ")
    rule_name = op.rule.__qualname__.partition(".")[0]
    closure: Any = getattr(op.rule, "__closure__", None)  # holds the kinds of dtypes that the rule accepts
    kinds = closure[0].cell_contents if closure else ORDERED_KINDS if rule_name == "floating" else ALL_KINDS
    is_unary = op.arity == 1
    fit = "" if is_unary else _BINARY_FIT_DOCS.get(rule_name, f"{_FIT_DOC}, and the dtypes promote to one.")
    shape, dtype = ("shape of `x`", "the dtype of `x`") if is_unary else ("broadcast shape", "the promoted dtype")
    arguments, result = _EXAMPLES.get(op.name, ("[0.0]" if is_unary else "[0.0], 0.0", "[0.0]"))
    data, _, number = arguments.partition("]")
    errors = "" if is_unary else _SHAPE_ERROR_DOC
    if not is_unary and rule_name != "logical":
        errors += _DTYPE_ERROR_DOC
    elif kinds is not ALL_KINDS:
        errors += "DTypeError\n    If a dtype is not accepted.\n"
    if not is_unary and rule_name in ("same_dtype", "logical"):
        errors += _RANGE_ERROR_DOC
    return f"""\
Return {summary}, element by element.
{f"{chr(10)}{details[0].upper()}{details[1:]}.{chr(10)}" if details else ""}
Parameters
----------
{"x" if is_unary else "x, y"} : Tensor, array, sequence or number
    {_OPERAND_DTYPES[kinds]}.{fit}
{_OUT_DOC}{_MASK_DOC}
Returns
-------
Tensor
    New tensor of the {shape} and {_RESULT_DTYPES[rule_name].format(dtype)}. With `out`, that tensor.
{f"{chr(10)}Raises{chr(10)}------{chr(10)}{errors}" if errors else ""}
Examples
--------
>>> import tenxor as tx
>>> tx.{op.name}(tx.asarray({data}]){number}).tolist()
{result}
"""


def _true_indices(condition: Tensor) -> tuple[Tensor, ...]:
    """Return the indices of the true elements of `condition`, an int64 tensor for each axis."""
    from .gather_functions import nonzero

    return nonzero(condition)


def _build_function(op: Op) -> Callable[..., Tensor]:
    """Return the public function of the operation `op`, by the number of operands unary, binary, or for three `where`.

    The name and the docstring come from the op table; unary and binary functions also take `out` and `where`, and `where` takes `out`. The
    fast path can replace the function.
    """
    # `_apply` is looked up on the class: a lookup on the tensor takes a third of the time of a small operation.

    def unary(x: Operand, /, *, out: Tensor | None = None, where: Operand | None = None) -> Tensor:
        if out is not None or where is not None:
            return write_out(op.name, out, _apply(op, x), where=where, broadcast=True)
        return Tensor._apply(x, op) if type(x) is Tensor else _apply(op, x)

    def binary(x: Operand, y: Operand, /, *, out: Tensor | None = None, where: Operand | None = None) -> Tensor:
        if out is not None or where is not None:
            return write_out(op.name, out, _apply(op, x, y), where=where, broadcast=True)
        return Tensor._apply(x, op, y) if type(x) is Tensor and type(y) in _UNCONVERTED_TYPES else _apply(op, x, y)

    def where(
        condition: Operand, x: Operand | None = None, y: Operand | None = None, /, *, out: Tensor | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        if out is None and type(condition) is Tensor and type(x) in _UNCONVERTED_TYPES and type(y) in _UNCONVERTED_TYPES:
            return Tensor._apply(condition, op, x, y)
        if x is None or y is None:
            if x is not y:
                raise ArgumentError("where: give both values, or neither; with neither, the indices of true elements are returned")
            return _true_indices(asarray(condition))
        result = _apply(op, condition, x, y)
        return result if out is None else write_out(op.name, out, result, broadcast=True)

    function: Any = (unary, binary, where)[op.arity - 1]
    function.__name__ = function.__qualname__ = op.name
    function.__code__ = function.__code__.replace(co_name=op.name, co_qualname=op.name)  # the name in Python's own errors
    function.__doc__ = _WHERE_DOC.format(out=_OUT_DOC, range_error=_RANGE_ERROR_DOC) if op.name == "where" else _build_docstring(op)
    return make_patchable(function, ("unary", "binary", "ternary")[op.arity - 1], op)


FUNCTIONS = {name: _build_function(op) for name, op in OPS.items() if name not in INTERNAL_OPS}
globals().update(FUNCTIONS)
__all__ = [*FUNCTIONS, "clamp", "clip"]  # names of the op table


@memoized_call
@argument_aliases
def clip(
    x: Operand,
    /,
    min: Operand | None = None,
    max: Operand | None = None,
    out: Tensor | None = None,
    *,
    where: Operand | None = None,
) -> Tensor:
    """Return the elements of `x`, limited to the range from `min` to `max`.

    Parameters
    ----------
    x : Tensor
        Any dtype but complex ones.
    min, max : Tensor or number, optional
        The bounds, which broadcast with `x`. None is no bound.
    out : Tensor, optional
        Receives the result, and is returned. The result must broadcast to its shape, and its dtype must hold the result.
    where : Tensor of bool, optional
        Only with `out`: elements of `out` are written only where `where` is true.

    Returns
    -------
    Tensor
        New tensor of the broadcast shape. With `out`, that tensor.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast together.
    DTypeError
        If a dtype is complex, or the dtypes do not promote to one.
    OutOfBounds
        If an integer bound beyond the range of an integer dtype is not satisfied by every element.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.clip(tx.arange(5), 1, 3).tolist()
    [1, 1, 2, 3, 3]
    """
    return write_out("clip", out, asarray(x).clip(min, max), where=where, broadcast=True)


clamp = clip


def round(x: Operand, /, decimals: int = 0, *, out: Tensor | None = None, where: Operand | None = None) -> Tensor:
    """Return the elements of `x`, rounded to the nearest integers or to decimals. Ties go to even.

    Parameters
    ----------
    x : Tensor
        Any dtype but bool. The parts of a complex number are rounded separately.
    decimals : int, default 0
        Elements are rounded to multiples of `10 ** -decimals`: floats are multiplied, rounded, and divided again.
    out : Tensor, optional
        Receives the result, and is returned. The result must broadcast to its shape, and its dtype must hold the result.
    where : Tensor of bool, optional
        Only with `out`: elements of `out` are written only where `where` is true.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`. With `out`, that tensor.

    Raises
    ------
    DTypeError, ArgumentError, ShapeError
        If `x` is bool, if `decimals` is no integer, for `where` without `out`, or if `out` has a shape or dtype that does not fit.

    References
    ----------
    Array API 2025.12, `round`. NumPy and PyTorch have `decimals`, too.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.round(tx.asarray([0.5, 1.5, 2.345]), 1).tolist(), tx.round(tx.asarray([1251, 1349]), -2).tolist()
    ([0.5, 1.5, 2.3], [1300, 1300])
    """
    if out is None and where is None and type(decimals) is int and not decimals:
        return x._apply(OPS["round"]) if type(x) is Tensor else _apply(OPS["round"], x)
    return write_out("round", out, asarray(x).round(decimals), where=where, broadcast=True)


FUNCTIONS["round"] = globals()["round"] = make_patchable(round, "unary", OPS["round"])
