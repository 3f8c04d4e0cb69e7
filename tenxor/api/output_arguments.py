"""The arguments `dtype`, `casting` and `out`: the dtype of a result, and the tensor it is written into."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..dtypes import DType, DTypeLike, can_cast
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, AxisError, DTypeError, ShapeError
from ..tensor import Tensor
from ..tensor.argument_parsing import write_out
from .creation import asarray

__all__ = ["call_as_op", "cast_to", "cast_operands", "write_out"]

T = TypeVar("T")


def cast_operands(op: str, operands: Iterable[Any], dtype: DTypeLike | None, out: Any, casting: str) -> list[Tensor]:
    """Return the operands as tensors of `dtype`, or of the dtype of `out` if None. Raise DTypeError where `casting` forbids the cast."""
    wanted = dtype_of(out.dtype if dtype is None and isinstance(out, Tensor) else dtype)
    tensors = [asarray(x) for x in operands]
    for t in tensors:
        if not can_cast(t.dtype, wanted, casting):
            raise DTypeError(f"{op}: casting={casting!r} does not allow {t.dtype} to {wanted}; use casting='unsafe', or astype")
    return [t.astype(wanted, copy=False) for t in tensors]


def call_as_op(op: str, inner_name: str, function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Call `function` for the public operation `op`. In its errors, replace the name `inner_name` at the beginning by `op`."""
    try:
        return function(*args, **named)
    except (ArgumentError, AxisError, DTypeError, ShapeError) as error:
        text, begins = str(error), f"{inner_name}: "
        if not text.startswith(begins):
            raise
        renamed = type(error)(f"{op}: {text[len(begins) :]}")
    raise renamed


def cast_to(t: Tensor, dtype: DType) -> Tensor:
    """Return `t` itself if already of the dtype, as in most cases, otherwise a cast copy."""
    return t if t.dtype is dtype else t.astype(dtype)
