"""The arguments `dtype`, `casting` and `out`: the dtype of a result, and the tensor it is written into."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..dtypes import DType, DTypeLike, can_cast
from ..dtypes import dtype as dtype_of
from ..errors import DTypeError
from ..tensor import Tensor
from ..tensor.argument_parsing import write_out
from .creation import asarray

__all__ = ["cast_to", "cast_operands", "write_out"]


def cast_operands(op: str, operands: Iterable[Any], dtype: DTypeLike | None, out: Any, casting: str) -> list[Tensor]:
    """Return the operands as tensors of `dtype`, or for None of the dtype of the tensor `out`, one of which must be given.

    A tensor of this dtype is returned itself. Raise DTypeError, beginning with `op`, where `casting` forbids the cast.
    """
    wanted = dtype_of(out.dtype if dtype is None and isinstance(out, Tensor) else dtype)
    tensors = [asarray(x) for x in operands]
    for t in tensors:
        if not can_cast(t.dtype, wanted, casting):
            raise DTypeError(f"{op}: casting={casting!r} does not allow {t.dtype} to {wanted}; use casting='unsafe', or astype")
    return [t.astype(wanted, copy=False) for t in tensors]


def cast_to(t: Tensor, dtype: DType) -> Tensor:
    """Return `t` itself if already of the dtype, as in most cases, otherwise a cast copy."""
    return t if t.dtype is dtype else t.astype(dtype)
