"""What results are, and where they go: the arguments `dtype`, `casting` and `out`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..creation import asarray
from ..dtypes import DTypeLike, can_cast
from ..dtypes import dtype as dtype_of
from ..errors import DTypeError
from ..tensor import Tensor


def into(op: str, out: Any, found: Tensor, casting: str = "same_kind") -> Tensor:
    """The result, or `out` with it; where casting is "unsafe" whatever the dtype of that can keep of it."""
    if out is None:
        return found
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not isinstance(target, Tensor):
        raise DTypeError(f"{op}: out is a tensor, not {type(target).__name__}; tx.asarray(array, copy=False) shares an array")
    return target._receive(op, found.astype(target.dtype, copy=False) if casting == "unsafe" else found)


def cast(op: str, given: Iterable[Any], dtype: DTypeLike | None, out: Any, casting: str) -> list[Tensor]:
    """Operands as tensors of a dtype, or else of that of `out`; DTypeError where `casting` does not allow it."""
    wanted = dtype_of(out.dtype if dtype is None and isinstance(out, Tensor) else dtype)
    tensors = [asarray(x) for x in given]
    for t in tensors:
        if not can_cast(t.dtype, wanted, casting):
            raise DTypeError(f"{op}: with casting={casting!r} {t.dtype} becomes no {wanted}; casting='unsafe' allows it, or use astype")
    return [t.astype(wanted, copy=False) for t in tensors]
