"""Registration of the operations that LAPACK computes, through NumPy, with their backward passes.

The module with the backward passes is loaded when a derivative is first taken.
"""

from __future__ import annotations

from ..functions.hosted import BACKWARD
from ..functions.hosted import hosted as hosted
from ..late import Late

FOLLOWED = (
    *("cholesky", "cofactor_cotangents", "cofactors", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lu", "qr", "slogdet", "solve"),
    *("solve_triangular", "svd", "svdvals"),
)
_derivatives = Late("tenxor.linalg.derivatives")

BACKWARD.update({name: getattr(_derivatives, name) for name in FOLLOWED})
