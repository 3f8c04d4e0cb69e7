"""Kernels as canonical text, the key of caches outside of this process."""

from __future__ import annotations

from ..ops.expr import Arg, Expr
from .ir import Accumulator, Kernel


def fingerprint(kernel: Kernel) -> str:
    """Return a text that is equal for two kernels exactly if the kernels are equal, in any process.

    Operations enter by their structure (a digest), and reductions by their formulas.
    """

    def of(x: object) -> str:
        if isinstance(x, Expr):
            return x.digest.hex()
        if isinstance(x, Accumulator):  # by formula, not by name: user-defined reductions share a name
            state = tuple(Arg(k, d) for k, d in enumerate(x.states))
            joined = x.reduction.combine(state, state) if x.reduction.combine else ()
            parts = (x.row, x.states, x.reduction.identity(x.states), joined)
            return f"Accumulator({x.reduction.name},{','.join(map(of, parts))})"
        if isinstance(x, tuple):
            return f"{type(x).__name__}({','.join(of(part) for part in x)})"
        return str(x)

    return of(kernel)
