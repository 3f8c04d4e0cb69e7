"""The elementwise functions, one for each entry of the op table: a new entry there adds a function here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..creation import asarray
from ..errors import ArgumentError
from ..frameless import frameless
from ..keywords import spelled
from ..ops import INTERNAL, OPS, Op
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.core import Operand
from .into import as_called, into


def _apply(op: Op, *values: Any) -> Tensor:
    """Return the pending result of an operation on a user's operands. Operands that are no tensors convert as the first tensor requires."""
    first, *other_operands = map(Tensor._ours, values)
    if type(first) is Tensor and all([type(value) in _DIRECT_TYPES for value in other_operands]):
        return Tensor._with(first, op, *other_operands)
    for value in (first, *other_operands):
        if isinstance(value, Tensor):
            return Tensor._compute(op, *(value._operand(v, op.name) for v in (first, *other_operands)))
    first = as_called(op.name, "asarray", asarray, first)
    return Tensor._compute(op, first, *(first._operand(v, op.name) for v in other_operands))


_DIRECT_TYPES = frozenset((Tensor, int, float))  # types that need no conversion beside a tensor


_WHERE_DOC = (
    "\n\nWith `out` the result is written into that tensor, which is given back. With the condition alone: `tx.nonzero` of it, a tuple of"
    " index tensors."
)
_OUT_DOC = "\n\nWith `out` the result is written into that tensor, which is given back; with `where`, a bool tensor, only there."


def _true_indices(condition: Tensor) -> tuple[Tensor, ...]:
    """Return the indices of the true elements of `condition`, an int64 tensor for each axis."""
    from .selecting import nonzero

    return nonzero(condition)


def _build_function(op: Op) -> Callable[..., Tensor]:
    """Build the public function of an operation. Its docstring comes from the op table, and the fast path can replace it."""
    # `_with` is looked up on the class: a lookup on the tensor takes a third of the time of a small operation.

    def unary(x: Operand, /, *, out: Tensor | None = None, where: Operand | None = None) -> Tensor:
        if out is not None or where is not None:
            return into(op.name, out, _apply(op, x), where=where, broadcast=True)
        return Tensor._with(x, op) if type(x) is Tensor else _apply(op, x)

    def binary(x: Operand, y: Operand, /, *, out: Tensor | None = None, where: Operand | None = None) -> Tensor:
        if out is not None or where is not None:
            return into(op.name, out, _apply(op, x, y), where=where, broadcast=True)
        return Tensor._with(x, op, y) if type(x) is Tensor and type(y) in _DIRECT_TYPES else _apply(op, x, y)

    def where(
        condition: Operand, x: Operand | None = None, y: Operand | None = None, /, *, out: Tensor | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        if out is None and type(condition) is Tensor and type(x) in _DIRECT_TYPES and type(y) in _DIRECT_TYPES:
            return Tensor._with(condition, op, x, y)
        if x is None or y is None:
            if x is not y:
                raise ArgumentError("where: give both values, or neither; with neither, the indices of true elements are returned")
            return _true_indices(asarray(condition))
        result = _apply(op, condition, x, y)
        return result if out is None else into(op.name, out, result, broadcast=True)

    function: Any = (unary, binary, where)[op.arity - 1]
    names = function.__code__.co_varnames[: op.arity]
    numbers = ", ".join("2" if k else "1.5" for k in range(op.arity))
    function.__name__ = function.__qualname__ = op.name
    function.__code__ = function.__code__.replace(co_name=op.name, co_qualname=op.name)  # the name in Python's own errors
    function.__doc__ = (
        f"New tensor: {op.meaning}; element by element over {', '.join(names)}, tensors or numbers that broadcast together."
        + (_WHERE_DOC if op.name == "where" else _OUT_DOC)
        + f"\n\nFor example `tx.{op.name}({numbers})`."
    )
    return frameless(function, ("unary", "binary", "ternary")[op.arity - 1], op)


FUNCTIONS = {name: _build_function(op) for name, op in OPS.items() if name not in INTERNAL}
globals().update(FUNCTIONS)
__all__ = [*FUNCTIONS, "clamp", "clip"]  # names of the op table


@called_again
@spelled
def clip(
    x: Operand,
    /,
    min: Operand | None = None,
    max: Operand | None = None,
    out: Tensor | None = None,
    *,
    where: Operand | None = None,
) -> Tensor:
    """Return the elements of `x` limited to the range from `min` to `max` as a new tensor. A bound is a number, a tensor, or None for no
    bound.

    `out`, if given, receives the result and is returned. `where`, a bool tensor, restricts the write to its true positions.

    >>> import tenxor as tx
    >>> tx.clip(tx.arange(5), 1, 3).tolist()
    [1, 1, 2, 3, 3]
    """
    return into("clip", out, asarray(x).clip(min, max), where=where, broadcast=True)


clamp = clip


def round(x: Operand, /, decimals: int = 0, *, out: Tensor | None = None, where: Operand | None = None) -> Tensor:
    """Return the elements rounded to the nearest integers, ties to even, as a new tensor.

    With `decimals`, elements are rounded to multiples of 10 to the power of `-decimals`: floats are multiplied, rounded, and divided again.
    `out`, if given, receives the result and is returned. `where`, a bool tensor, restricts the write to its true positions. (Array API
    2025.12, `round`; NumPy's and PyTorch's `decimals`.)

    >>> import tenxor as tx
    >>> tx.round(tx.asarray([0.5, 1.5, 2.345]), 1).tolist(), tx.round(tx.asarray([1251, 1349]), -2).tolist()
    ([0.5, 1.5, 2.3], [1300, 1300])
    """
    if out is None and where is None and type(decimals) is int and not decimals:
        return x._with(OPS["round"]) if type(x) is Tensor else _apply(OPS["round"], x)
    return into("round", out, asarray(x).round(decimals), where=where, broadcast=True)


FUNCTIONS["round"] = globals()["round"] = frameless(round, "unary", OPS["round"])
