"""What results are, and where they go: the arguments `dtype`, `casting` and `out`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..creation import asarray
from ..dtypes import DType, DTypeLike, can_cast
from ..dtypes import dtype as dtype_of
from ..errors import DTypeError
from ..tensor import Tensor
from ..tensor.arguments import into

__all__ = ["as_dtype", "cast", "into"]


def cast(op: str, given: Iterable[Any], dtype: DTypeLike | None, out: Any, casting: str) -> list[Tensor]:
    """Operands as tensors of a dtype, or else of that of `out`; DTypeError where `casting` does not allow it."""
    wanted = dtype_of(out.dtype if dtype is None and isinstance(out, Tensor) else dtype)
    tensors = [asarray(x) for x in given]
    for t in tensors:
        if not can_cast(t.dtype, wanted, casting):
            raise DTypeError(f"{op}: with casting={casting!r} {t.dtype} becomes no {wanted}; casting='unsafe' allows it, or use astype")
    return [t.astype(wanted, copy=False) for t in tensors]


def as_dtype(t: Tensor, dtype: DType) -> Tensor:
    """Itself where it has the dtype, as mostly."""
    return t if t.dtype is dtype else t.astype(dtype)
