"""A table of the `Tensor` methods with a fast path. `code/methods.py` has the emitter of each method's body."""

from __future__ import annotations

from enum import Enum

from ..records import NamedTuple
from ..tensor.core import FOUND_OUT

_BINARY = {
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
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
_NAMED = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "relu", "abs", "sign"),
    *("square", "reciprocal", "floor", "ceil", "trunc"),
    *("isnan", "isinf", "isfinite", "logical_not", "conj"),
)
_NAMED_BINARY = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "logical_and", "logical_or", "logical_xor"),
)
_VIEWS = (
    *("permute", "permute_dims", "transpose", "swapaxes", "moveaxis", "movedim", "reshape", "flatten", "ravel", "unflatten"),
    *("squeeze", "unsqueeze", "expand_dims", "expand", "broadcast_to", "flip", "diagonal", "windows", "unfold"),
    *("view", "split", "unbind", "unstack"),
)
_REDUCTIONS = (
    *("sum", "prod", "max", "min", "amax", "amin", "any", "all", "count_nonzero", "argmax", "argmin", "mean", "var", "std"),
    *("cumulative_sum", "cumulative_prod", "cumsum", "cumprod", "_extremes"),
)
_SAID = ("shape", "size", "ndim")
_OTHERS = ("astype", "to", "dot", "clip", "clamp", "take", "index_add", "pow", "contiguous")


class Kind(Enum):
    """A method's calling convention besides the tensor, as CPython's METH_ flags, or `ATTRIBUTE` for an attribute.

    `NOTHING` is METH_NOARGS, `ONE` is METH_O, `SOME` is METH_FASTCALL, and `ANY` is METH_FASTCALL with keywords.
    """

    NOTHING = 4
    ONE = 8
    SOME = 0x80
    ANY = 0x82
    ATTRIBUTE = 0


class Method(NamedTuple):
    """A method of `Tensor` with a fast path.

    If `learns` is set, the result of the fallback is recorded for replay by the generated code. `in_place` is the name of the operation of
    an in-place operator. `op` is the name of the operation applied by the method; if `comes_last` is set, the tensor is the last operand,
    as in `__radd__`.
    """

    name: str
    kind: Kind
    learns: bool = False
    in_place: str = ""
    op: str = ""
    comes_last: bool = False

    @property
    def symbol(self) -> str:
        """The symbol of the method's emitted code. LLVM would take a function with the plain name, say `exp`, for the one of the C library.
        """
        return f"Tensor.{self.name}"


METHODS = (
    *[Method(f"__{name}__", Kind.ONE, op=op) for name, op in {**_BINARY, **_COMPARISONS}.items()],
    *[Method(f"__r{name}__", Kind.ONE, op=op, comes_last=True) for name, op in {**_BINARY, "pow": "pow"}.items()],
    *[Method(f"__i{name}__", Kind.ONE, in_place=op) for name, op in _BINARY.items()],
    *[Method(f"__{name}__", Kind.NOTHING, op=op) for name, op in _UNARY.items()],
    *[Method(name, Kind.NOTHING, op=name) for name in _NAMED],
    *[Method(name, Kind.ANY, op=name) for name in _NAMED_BINARY],
    *[Method(name, Kind.ANY, True) for name in (*_VIEWS, *_REDUCTIONS, *_OTHERS)],
    *[Method(name, Kind.ONE, True) for name in ("__matmul__", "__pow__")],
    *[Method(name, Kind.ATTRIBUTE, True) for name in ("T", "mT")],
    *[Method(name, Kind.ATTRIBUTE) for name in (*_SAID, *FOUND_OUT)],
    *[Method(name, Kind.NOTHING) for name in ("realize", "to_numpy", "numpy", "tolist")],
    *[Method(name, Kind.NOTHING, True) for name in ("copy", "clone")],
    *[Method(f"__{name}__", Kind.NOTHING) for name in ("bool", "float", "int", "len", "iter")],
    Method("__getitem__", Kind.ONE),
    Method("__setitem__", Kind.SOME),
    Method("item", Kind.SOME),
    Method("index_add_", Kind.ANY),
    Method("fill_", Kind.ANY),
    Method("round", Kind.ANY, True),
    Method("_with", Kind.SOME),
    Method("__array_ufunc__", Kind.ANY),
)
