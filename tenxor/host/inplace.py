"""The choice of direct calls: C functions inside NumPy, or generated code, that the fast path runs on our memory without NumPy's wrappers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dtypes import OF_NUMPY, DType
from .counts import Count
from .determinants import LARGE
from .factoring import Factors, factors_of
from .factoring import try_all as try_factors
from .interface import other_interface, refused
from .loops import Loop, loop_of, try_all
from .orders import Order, order_of
from .running import LIGHT, LONG
from .table import HOST, HostOp

InPlace = Loop | Order | Count | Factors
MAX_GIL_HELD_NS = 2_000_000  # nanoseconds for which holding the GIL is acceptable
GIL_RELEASE_NS = 50_000  # nanoseconds from which the GIL is released meanwhile, at a cost of 0.1 microseconds


def in_place(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any], rows: int = 0) -> InPlace | None:
    """Return the way to compute an operation by direct calls on operands of the given dtypes and matrices of `rows` rows.

    Return None if no function is known to equal NumPy, or if another way is faster.
    """
    direct_call = order_of(op, dtypes, options) or factors_of(op, dtypes, options) or loop_of(op, dtypes, options)
    # `det` factors large matrices without conversion.
    if isinstance(direct_call, Loop) and direct_call.wider and op.name in ("det", "slogdet") and rows >= LARGE:
        return None
    return direct_call


def in_one_go(direct_call: InPlace, work: int, is_shared: bool) -> InPlace | None:
    """Return `direct_call` if a single call may do the whole work without handling signals, or None. NumPy would take `work` nanoseconds.

    `is_shared` says whether threads might share the work; then the call must end before a second thread could start. A C function of NumPy
    releases the GIL if the call is long. Generated code holds the GIL, and its time is estimated as a fraction of NumPy's.
    """
    if isinstance(direct_call, Loop | Factors):
        releasing = (
            direct_call.letting_in(work > GIL_RELEASE_NS)
            if isinstance(direct_call, Factors)
            else direct_call._replace(lets_in=work > GIL_RELEASE_NS)
        )
        return releasing if work < (LIGHT if is_shared else LONG) else None
    speedup = {"searchsorted": 4, "interp": 4, "topk": 40}.get(direct_call.name, 1) if isinstance(direct_call, Order) else 1
    return direct_call if work // speedup < (LIGHT if is_shared else MAX_GIL_HELD_NS) else None


def state() -> str:
    """Return "on" or "off" for direct calls of NumPy's C functions, with the refused functions and the reasons. Every function is tried."""
    reason = other_interface()
    if reason:
        return f"off: {reason}"
    try_all()
    try_factors()
    for dtype in OF_NUMPY.values():
        for name in ("sort", "argsort"):
            order_of(HOST[name], [dtype], {"kind": "stable"})
    return "on" if not refused else f"on, but for {', '.join(f'{name} ({why})' for name, why in sorted(refused.items()))}"
