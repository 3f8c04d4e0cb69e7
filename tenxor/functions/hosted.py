"""Tensors in and out of the operations that NumPy computes for us (`host/`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import DType
from ..host import HOST, run
from ..host.running import Operand
from ..tensor import Tensor

_NO_SIZES: Mapping[str, int] = {}


def hosted(name: str, *operands: Tensor, sizes: Mapping[str, int] = _NO_SIZES, **options: Any) -> tuple[Tensor, ...]:
    """The results of an operation of the host table, in memory: new tensors. `sizes` are those of letters that no operand has.

    The operands have dtypes that NumPy has, so none is bfloat16.
    """
    given = [Operand(t.node, t.layout, t.dtype) for t in operands]
    return tuple([Tensor._of(node) for node in run(HOST[name], given, sizes, options)])


def as_dtype(t: Tensor, dtype: DType) -> Tensor:
    """Itself where it has the dtype, as mostly."""
    return t if t.dtype is dtype else t.astype(dtype)
