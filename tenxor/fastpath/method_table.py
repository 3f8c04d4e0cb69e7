"""A table of the `Tensor` methods with a fast path. `fastpath/emit/method_entries.py` has the emitter of each method's body."""

from __future__ import annotations

from enum import Enum

from .._utils.records import NamedTuple
from ..tensor.core import LAZY_ATTRIBUTES

_BINARY_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
_UNARY_OPERATORS = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
_UNARY_METHODS = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "relu", "abs", "sign"),
    *("square", "reciprocal", "floor", "ceil", "trunc"),
    *("isnan", "isinf", "isfinite", "logical_not", "conj"),
)
_BINARY_METHODS = (*("add", "subtract", "multiply", "divide", "maximum", "minimum", "logical_and", "logical_or", "logical_xor"),)
_VIEW_METHODS = (
    *("permute", "permute_dims", "transpose", "swapaxes", "moveaxis", "movedim", "reshape", "flatten", "ravel", "unflatten"),
    *("squeeze", "unsqueeze", "expand_dims", "expand", "broadcast_to", "flip", "diagonal", "windows", "unfold"),
    *("view", "split", "unbind", "unstack"),
)
_REDUCTION_METHODS = (
    *("sum", "prod", "max", "min", "amax", "amin", "any", "all", "count_nonzero", "argmax", "argmin", "mean", "var", "std"),
    *("cumulative_sum", "cumulative_prod", "cumsum", "cumprod", "_cumulative_extremes"),
)
_SPEC_ATTRIBUTES = ("shape", "size", "ndim")
_OTHER_METHODS = ("astype", "to", "dot", "clip", "clamp", "take", "index_add", "pow", "contiguous")


class CallingConvention(Enum):
    """A method's calling convention besides the tensor, as CPython's METH_ flags, or `ATTRIBUTE` for an attribute.

    `NO_ARGUMENTS` is METH_NOARGS, `ONE_ARGUMENT` is METH_O, `POSITIONAL` is METH_FASTCALL, and `WITH_KEYWORDS` is METH_FASTCALL with
    keywords.
    """

    NO_ARGUMENTS = 4
    ONE_ARGUMENT = 8
    POSITIONAL = 0x80
    WITH_KEYWORDS = 0x82
    ATTRIBUTE = 0


class Method(NamedTuple):
    """A method of `Tensor` with a fast path: its name `name`, and its calling convention `convention`.

    If `is_recorded` is set, the result of the fallback is recorded for replay by the generated code. `in_place_op` is the name of the
    operation of an in-place operator. `op` is the name of the operation applied by the method; if `comes_last` is set, the tensor is the
    last operand, as in `__radd__`. Both names are empty without such an operation.
    """

    name: str
    convention: CallingConvention
    is_recorded: bool = False
    in_place_op: str = ""
    op: str = ""
    comes_last: bool = False

    @property
    def symbol(self) -> str:
        """The symbol of the method's emitted code.

        The symbol is longer than the name: LLVM would take a function with the plain name, say `exp`, for the function of the C library.
        """
        return f"Tensor.{self.name}"


METHODS = (
    *[Method(f"__{name}__", CallingConvention.ONE_ARGUMENT, op=op) for name, op in {**_BINARY_OPERATORS, **_COMPARISONS}.items()],
    *[
        Method(f"__r{name}__", CallingConvention.ONE_ARGUMENT, op=op, comes_last=True)
        for name, op in {**_BINARY_OPERATORS, "pow": "pow"}.items()
    ],
    *[Method(f"__i{name}__", CallingConvention.ONE_ARGUMENT, in_place_op=op) for name, op in _BINARY_OPERATORS.items()],
    *[Method(f"__{name}__", CallingConvention.NO_ARGUMENTS, op=op) for name, op in _UNARY_OPERATORS.items()],
    *[Method(name, CallingConvention.NO_ARGUMENTS, op=name) for name in _UNARY_METHODS],
    *[Method(name, CallingConvention.WITH_KEYWORDS, op=name) for name in _BINARY_METHODS],
    *[Method(name, CallingConvention.WITH_KEYWORDS, True) for name in (*_VIEW_METHODS, *_REDUCTION_METHODS, *_OTHER_METHODS)],
    *[Method(name, CallingConvention.ONE_ARGUMENT, True) for name in ("__matmul__", "__pow__")],
    *[Method(name, CallingConvention.ATTRIBUTE, True) for name in ("T", "mT")],
    *[Method(name, CallingConvention.ATTRIBUTE) for name in (*_SPEC_ATTRIBUTES, *LAZY_ATTRIBUTES)],
    *[Method(name, CallingConvention.NO_ARGUMENTS) for name in ("realize", "to_numpy", "numpy", "tolist")],
    *[Method(name, CallingConvention.NO_ARGUMENTS, True) for name in ("copy", "clone")],
    *[Method(f"__{name}__", CallingConvention.NO_ARGUMENTS) for name in ("bool", "float", "int", "index", "len", "iter")],
    Method("__getitem__", CallingConvention.ONE_ARGUMENT),
    Method("__setitem__", CallingConvention.POSITIONAL),
    Method("item", CallingConvention.POSITIONAL),
    Method("index_add_", CallingConvention.WITH_KEYWORDS),
    Method("fill_", CallingConvention.WITH_KEYWORDS),
    Method("round", CallingConvention.WITH_KEYWORDS, True),
    Method("_apply", CallingConvention.POSITIONAL),
    Method("__array_ufunc__", CallingConvention.WITH_KEYWORDS),
)
