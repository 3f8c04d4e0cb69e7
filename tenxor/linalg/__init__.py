"""Linear algebra: the extension `linalg` of the Python array API standard 2025.12, and what NumPy, SciPy and PyTorch have beside it.

All functions take stacks of matrices: the last two axes are a matrix, those before a batch. They compute in float32, float64,
complex64 and complex128: integers and bools become float64; float16 and bfloat16 are computed in float32, and rounded once.
Decompositions are LAPACK's, by way of NumPy, on our memory; products and norms are kernels.
"""

from ..functions.contraction import outer as outer
from ..functions.contraction import tensordot as tensordot
from ..functions.contraction import vecdot as vecdot
from ..functions.hosted import BACKWARD as _BACKWARD
from ..functions.manipulation import matrix_transpose as matrix_transpose
from ..tensor.contraction import matmul as matmul
from .decompositions import cholesky as cholesky
from .decompositions import eig as eig
from .decompositions import eigh as eigh
from .decompositions import eigvals as eigvals
from .decompositions import eigvalsh as eigvalsh
from .decompositions import qr as qr
from .decompositions import svd as svd
from .decompositions import svdvals as svdvals
from .derivatives import COTANGENTS as _COTANGENTS
from .matrices import cross as cross
from .matrices import det as det
from .matrices import diagonal as diagonal
from .matrices import expm as expm
from .matrices import matrix_power as matrix_power
from .matrices import multi_dot as multi_dot
from .matrices import slogdet as slogdet
from .matrices import trace as trace
from .norms import cond as cond
from .norms import matrix_norm as matrix_norm
from .norms import matrix_rank as matrix_rank
from .norms import norm as norm
from .norms import vector_norm as vector_norm
from .solving import inv as inv
from .solving import lstsq as lstsq
from .solving import pinv as pinv
from .solving import solve as solve
from .solving import solve_triangular as solve_triangular
from .solving import tensorinv as tensorinv
from .solving import tensorsolve as tensorsolve

_BACKWARD.update(_COTANGENTS)
__all__ = sorted(name for name in globals() if not name.startswith("_") and callable(globals()[name]))
