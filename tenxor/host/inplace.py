"""What is computed in place, on memory of ours, by functions of C that NumPy's own come down to, and by machine code beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dtypes import OF_NUMPY, DType
from .counts import Count
from .interface import other_interface, refused
from .loops import Loop, loop_of, try_all
from .orders import Order, order_of
from .table import HOST, HostOp

InPlace = Loop | Order | Count


def in_place(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> InPlace | None:
    """What computes an operation on operands of these dtypes in place; None if nothing that is known to do what NumPy does."""
    return order_of(op, dtypes, options) or loop_of(op, dtypes, options)


def quicker(how: InPlace) -> int:
    """How many times as quick as what NumPy does it is by and large: machine code of ours."""
    return {"searchsorted": 4, "interp": 4, "topk": 40}.get(how.name, 1) if isinstance(how, Order) else 1


def state() -> str:
    """Whether functions of NumPy's are called in place, and which are not, and why. All are tried for it."""
    other = other_interface()
    if other:
        return f"off: {other}"
    try_all()
    for dtype in OF_NUMPY.values():
        for name in ("sort", "argsort"):
            order_of(HOST[name], [dtype], {"kind": "stable"})
    return "on" if not refused else f"on, but for {', '.join(f'{name} ({why})' for name, why in sorted(refused.items()))}"
