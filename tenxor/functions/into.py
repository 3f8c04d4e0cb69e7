"""Results that go into a tensor that there is: the argument `out`."""

from __future__ import annotations

from typing import Any

from ..errors import DTypeError
from ..tensor import Tensor


def into(op: str, out: Any, found: Tensor) -> Tensor:
    """The result, or `out` with it."""
    if out is None:
        return found
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not isinstance(target, Tensor):
        raise DTypeError(f"{op}: out is a tensor, not {type(target).__name__}; tx.asarray(array, copy=False) shares an array")
    return target._receive(op, found)
