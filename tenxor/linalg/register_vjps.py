"""Registration of the operations that LAPACK computes, through NumPy, with their backward passes.

The module with the backward passes is loaded when a derivative is first taken.
"""

from __future__ import annotations

from .._utils.lazy import LazyFunctions
from ..api.host_calls import HOST_VJPS
from ..api.host_calls import call_host_op as call_host_op

DIFFERENTIABLE_NAMES = (
    *("cholesky", "cofactor_cotangents", "cofactors", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lu", "qr", "slogdet", "solve"),
    *("solve_triangular", "svd", "svdvals"),
)
_derivatives = LazyFunctions("tenxor.linalg.derivatives")

HOST_VJPS.update({name: getattr(_derivatives, name) for name in DIFFERENTIABLE_NAMES})
