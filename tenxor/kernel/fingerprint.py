"""Kernels as text that says all that they are: what a cache outside of this process may be keyed by."""

from __future__ import annotations

from ..ops.expr import Arg, Expr
from .ir import Accumulator, Kernel


def fingerprint(kernel: Kernel) -> str:
    """Text that two kernels share exactly if they are equal: operations by their structure, reductions by their formulas."""

    def of(x: object) -> str:
        if isinstance(x, Expr):
            return x.digest.hex()
        if isinstance(x, Accumulator):  # by what it does, not by its name: a user's own are all called alike
            state = tuple(Arg(k, d) for k, d in enumerate(x.states))
            joined = x.reduction.combine(state, state) if x.reduction.combine else ()
            parts = (x.row, x.states, x.reduction.identity(x.states), joined)
            return f"Accumulator({x.reduction.name},{','.join(map(of, parts))})"
        if isinstance(x, tuple):
            return f"{type(x).__name__}({','.join(of(part) for part in x)})"
        return str(x)

    return of(kernel)
