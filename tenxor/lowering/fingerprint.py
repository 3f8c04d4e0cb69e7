"""Kernels as canonical text, the key of caches outside of this process."""

from __future__ import annotations

from ..ops.expr import Arg, Expr
from .ir import Accumulator, Kernel


def fingerprint(kernel: Kernel) -> str:
    """Return a text of `kernel` that is equal for two kernels exactly if the kernels are equal, in any process: a key for caches on disk.

    Operations enter by their structure (a digest), and reductions by their formulas. The name of the kernel counts, too.
    """

    def encode(x: object) -> str:
        if isinstance(x, Expr):
            return x.digest.hex()
        if isinstance(x, Accumulator):  # by formula, not by name: user-defined reductions share a name
            state = tuple(Arg(k, d) for k, d in enumerate(x.state_dtypes))
            combined = x.reduction.combine(state, state) if x.reduction.combine else ()
            fields = (x.row_axis, x.state_dtypes, x.reduction.identity(x.state_dtypes), combined)
            return f"Accumulator({x.reduction.name},{','.join(map(encode, fields))})"
        if isinstance(x, tuple):
            return f"{type(x).__name__}({','.join(encode(item) for item in x)})"
        return str(x)

    return encode(kernel)
