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
BRIEF = 2_000_000  # nanoseconds for which holding the GIL is acceptable
BESIDE = 50_000  # nanoseconds from which the GIL is released meanwhile, at a cost of 0.1 microseconds


def in_place(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any], rows: int = 0) -> InPlace | None:
    """Return the way to compute an operation by direct calls on operands of the given dtypes and matrices of `rows` rows.

    Return None if no function is known to equal NumPy, or if another way is faster.
    """
    found = order_of(op, dtypes, options) or factors_of(op, dtypes, options) or loop_of(op, dtypes, options)
    if isinstance(found, Loop) and found.wider and op.name in ("det", "slogdet") and rows >= LARGE:  # `det` factors them without conversion
        return None
    return found


def in_one_go(how: InPlace, work: int, is_shared: bool) -> InPlace | None:
    """Return `how` if a single call may do the whole work without handling signals, or None. NumPy would take `work` nanoseconds.

    `is_shared` says whether threads might share the work; then the call must end before a second thread could start. A C function of NumPy
    releases the GIL if the call is long. Generated code holds the GIL, and its time is estimated as a fraction of NumPy's.
    """
    if isinstance(how, Loop | Factors):
        its = how.letting_in(work > BESIDE) if isinstance(how, Factors) else how._replace(lets_in=work > BESIDE)
        return its if work < (LIGHT if is_shared else LONG) else None
    quicker = {"searchsorted": 4, "interp": 4, "topk": 40}.get(how.name, 1) if isinstance(how, Order) else 1
    return how if work // quicker < (LIGHT if is_shared else BRIEF) else None


def state() -> str:
    """Return "on" or "off" for direct calls of NumPy's C functions, with the refused functions and the reasons. Every function is tried."""
    other = other_interface()
    if other:
        return f"off: {other}"
    try_all()
    try_factors()
    for dtype in OF_NUMPY.values():
        for name in ("sort", "argsort"):
            order_of(HOST[name], [dtype], {"kind": "stable"})
    return "on" if not refused else f"on, but for {', '.join(f'{name} ({why})' for name, why in sorted(refused.items()))}"
