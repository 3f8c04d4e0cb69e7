"""What is computed in place, on memory of ours, by functions of C that NumPy's own come down to, and by machine code beside it."""

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
BRIEF = 2_000_000  # nanoseconds by our estimate that no other thread of Python's minds to wait for
BESIDE = 50_000  # nanoseconds from which others may run meanwhile: to let them costs a ten-thousandth of a millisecond


def in_place(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any], rows: int = 0) -> InPlace | None:
    """What computes an operation on operands of these dtypes in place, where matrices have so many rows; None if nothing that is known to
    do what NumPy does, or something else is quicker.
    """
    found = order_of(op, dtypes, options) or factors_of(op, dtypes, options) or loop_of(op, dtypes, options)
    if isinstance(found, Loop) and found.wider and op.name in ("det", "slogdet") and rows >= LARGE:  # factored as they are
        return None
    return found


def in_one_go(how: InPlace, work: int, is_shared: bool) -> InPlace | None:
    """The same where nobody minds to wait until all is done, which takes NumPy so many nanoseconds; else None. What threads might share
    is to be done before another would have begun, and a signal is not heard meanwhile. A loop of NumPy's lets other threads of Python's in
    if it takes long; while machine code of ours computes none runs.
    """
    if isinstance(how, Loop | Factors):
        its = how.letting_in(work > BESIDE) if isinstance(how, Factors) else how._replace(lets_in=work > BESIDE)
        return its if work < (LIGHT if is_shared else LONG) else None
    quicker = {"searchsorted": 4, "interp": 4, "topk": 40}.get(how.name, 1) if isinstance(how, Order) else 1
    return how if work // quicker < (LIGHT if is_shared else BRIEF) else None


def state() -> str:
    """Whether functions of NumPy's are called in place, and which are not, and why. All are tried for it."""
    other = other_interface()
    if other:
        return f"off: {other}"
    try_all()
    try_factors()
    for dtype in OF_NUMPY.values():
        for name in ("sort", "argsort"):
            order_of(HOST[name], [dtype], {"kind": "stable"})
    return "on" if not refused else f"on, but for {', '.join(f'{name} ({why})' for name, why in sorted(refused.items()))}"
