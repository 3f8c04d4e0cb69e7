"""What results are, and where they go: the arguments `dtype`, `casting` and `out`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..creation import asarray
from ..dtypes import DType, DTypeLike, can_cast
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, AxisError, DTypeError, ShapeError
from ..tensor import Tensor
from ..tensor.arguments import into

__all__ = ["as_called", "as_dtype", "cast", "into"]

T = TypeVar("T")


def cast(op: str, given: Iterable[Any], dtype: DTypeLike | None, out: Any, casting: str) -> list[Tensor]:
    """Operands as tensors of a dtype, or else of that of `out`; DTypeError where `casting` does not allow it."""
    wanted = dtype_of(out.dtype if dtype is None and isinstance(out, Tensor) else dtype)
    tensors = [asarray(x) for x in given]
    for t in tensors:
        if not can_cast(t.dtype, wanted, casting):
            raise DTypeError(f"{op}: with casting={casting!r} {t.dtype} becomes no {wanted}; casting='unsafe' allows it, or use astype")
    return [t.astype(wanted, copy=False) for t in tensors]


def as_called(op: str, inner: str, function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Call the function `inner` on behalf of `op`, which the user called: errors name `op`."""
    try:
        return function(*args, **named)
    except (ArgumentError, AxisError, DTypeError, ShapeError) as error:
        text, begins = str(error), f"{inner}: "
        if not text.startswith(begins):
            raise
        renamed = type(error)(f"{op}: {text[len(begins) :]}")
    raise renamed


def as_dtype(t: Tensor, dtype: DType) -> Tensor:
    """Itself where it has the dtype, as mostly."""
    return t if t.dtype is dtype else t.astype(dtype)
