"""One function for each elementwise entry of the op table: a new entry there is a new function here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError
from ..ops import OPS, Op
from ..tensor import Tensor

_LETTERS = ("x", "y", "z")


def _operands(op: Op, values: tuple[Any, ...]) -> list[Any]:
    if len(values) != op.arity:
        raise ArgumentError(f"{op.name}: takes {op.arity} operands, not {len(values)}")
    tensors = next((v for v in values if isinstance(v, Tensor)), None)
    if tensors is None:
        from ..creation import asarray

        return [asarray(v) for v in values]
    return [tensors.operand(v, op.name) for v in values]


def _function(op: Op) -> Callable[..., Tensor]:
    def function(*operands: Any) -> Tensor:
        return Tensor.compute(op, *_operands(op, operands))

    names = ("condition", "x", "y") if op.name == "where" else _LETTERS[: op.arity]
    numbers = ", ".join("2" if k else "1.5" for k in range(op.arity))
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = (
        f"New tensor: {op.meaning}; element by element over {', '.join(names)}, tensors or numbers that broadcast together."
        f"\n\nFor example `tx.{op.name}({numbers})`."
    )
    return function


# `cast` is astype, `clip` takes optional bounds, and the rest is inside random numbers.
_INTERNAL = ("cast", "clip", "multiply_high", "random_bits", "random_bits_high")
FUNCTIONS = {name: _function(op) for name, op in OPS.items() if name not in _INTERNAL}
globals().update(FUNCTIONS)
__all__ = [*FUNCTIONS, "clip"]  # the table's names


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """New tensor: the elements of `x` held between `min` and `max`, each a number, a tensor, or None for no bound.

    >>> import tenxor as tx
    >>> tx.clip(tx.arange(5), 1, 3).tolist()
    [1, 1, 2, 3, 3]
    """
    found: Tensor = x.clip(min, max)
    return found
