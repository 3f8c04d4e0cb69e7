"""The choice of direct calls: C functions inside NumPy, or generated code, that the fast path runs on our memory without NumPy's
wrappers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dtypes import DTYPE_BY_NUMPY_DTYPE, DType
from .counting_ops import CountingOp
from .determinants import MIN_LAPACK_ROWS
from .host_execution import MAX_ONE_THREAD_NS, MIN_LONG_CALL_NS
from .host_op_table import HOST_OPS, HostOp
from .numpy_abi import explain_abi_mismatch, refusal_reasons
from .ordering_ops import OrderingOp, find_ordering_op
from .qr_direct_call import QrFunctions, find_qr_functions, try_qr_functions
from .ufunc_loops import UfuncLoop, find_verified_loop, try_ufunc_loops

DirectCall = UfuncLoop | OrderingOp | CountingOp | QrFunctions
MAX_GIL_HELD_NS = 2_000_000  # nanoseconds for which holding the GIL is acceptable
GIL_RELEASE_NS = 50_000  # nanoseconds from which the GIL is released meanwhile, at a cost of 0.1 microseconds


def choose_direct_call(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any], rows: int = 0) -> DirectCall | None:
    """Return the description of a direct call to compute `op` on operands of `dtypes`, with the options `options` of `op.compute`.

    `rows` is the number of rows of a matrix, used for `det` and `slogdet` only. Return None if no function is known to equal NumPy, or if
    another way is faster.
    """
    direct_call = find_ordering_op(op, dtypes, options) or find_qr_functions(op, dtypes, options) or find_verified_loop(op, dtypes, options)
    # `det` factors large matrices without conversion.
    if isinstance(direct_call, UfuncLoop) and direct_call.is_widened and op.name in ("det", "slogdet") and rows >= MIN_LAPACK_ROWS:
        return None
    return direct_call


def accept_direct_call(direct_call: DirectCall, work: int, is_shared: bool) -> DirectCall | None:
    """Return `direct_call` if a single call may do the whole work without handling signals; None if the work takes too long for that.

    NumPy would take `work` nanoseconds. If threads might share the work (`is_shared`), it must take less than `MAX_ONE_THREAD_NS`.
    Otherwise the limit is `MIN_LONG_CALL_NS` for NumPy's C functions, and `MAX_GIL_HELD_NS` for generated code and sorts, which hold the
    GIL; the time of generated code is estimated as a fraction of NumPy's. NumPy's C functions are returned as a copy, with `releases_gil`
    set from `GIL_RELEASE_NS` on.
    """
    if isinstance(direct_call, UfuncLoop | QrFunctions):
        releasing = (
            direct_call.with_gil_released(work > GIL_RELEASE_NS)
            if isinstance(direct_call, QrFunctions)
            else direct_call._replace(releases_gil=work > GIL_RELEASE_NS)
        )
        return releasing if work < (MAX_ONE_THREAD_NS if is_shared else MIN_LONG_CALL_NS) else None
    speedup = {"searchsorted": 4, "interp": 4, "topk": 40}.get(direct_call.name, 1) if isinstance(direct_call, OrderingOp) else 1
    return direct_call if work // speedup < (MAX_ONE_THREAD_NS if is_shared else MAX_GIL_HELD_NS) else None


def describe_direct_calls() -> str:
    """Return "on" or "off" for direct calls of NumPy's C functions, with the refused functions and the reasons. Every function is tried."""
    reason = explain_abi_mismatch()
    if reason:
        return f"off: {reason}"
    try_ufunc_loops()
    try_qr_functions()
    for dtype in DTYPE_BY_NUMPY_DTYPE.values():
        for name in ("sort", "argsort"):
            find_ordering_op(HOST_OPS[name], [dtype], {"kind": "stable"})
    return "on" if not refusal_reasons else f"on, but for {', '.join(f'{name} ({why})' for name, why in sorted(refusal_reasons.items()))}"
