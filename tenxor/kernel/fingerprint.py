"""Kernels as text that says all that they are: what a cache outside of this process may be keyed by."""

from __future__ import annotations

from ..ops.expr import Arg, Expr
from .ir import Fold, Kernel


def fingerprint(kernel: Kernel) -> str:
    """Text that two kernels share exactly if they are equal: operations by their structure, reductions by their formulas."""

    def of(x: object) -> str:
        if isinstance(x, Expr):
            return x.digest.hex()
        if isinstance(x, Fold):  # by what it does, not by its name: a user's own are all called alike
            state = tuple(Arg(k, d) for k, d in enumerate(x.states))
            joined = x.reduction.combine(state, state) if x.reduction.combine else ()
            return f"Fold({x.reduction.name},{x.row},{of(x.states)},{of(x.reduction.identity(x.states))},{of(joined)})"
        if isinstance(x, tuple):
            return f"{type(x).__name__}({','.join(of(part) for part in x)})"
        return str(x)

    return of(kernel)
