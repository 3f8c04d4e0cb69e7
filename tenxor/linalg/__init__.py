"""Linear algebra: the extension `linalg` of the Python array API standard 2025.12, and further functions of NumPy, SciPy and PyTorch.

Every function takes stacks of matrices: the last two axes are a matrix, the axes before are a batch. Functions compute in float32, float64,
complex64 and complex128: integers and bools become float64; float16 and bfloat16 are computed in float32, and rounded once. Decompositions
run LAPACK, through NumPy, directly on the tensors' memory; products and norms are compiled kernels.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers; at run time a module is loaded at the first use of a name
    from ..api.tensor_products import outer as outer
    from ..api.tensor_products import tensordot as tensordot
    from ..api.tensor_products import vecdot as vecdot
    from ..api.views import matrix_transpose as matrix_transpose
    from ..tensor.contraction import matmul as matmul
    from .decompositions import cholesky as cholesky
    from .decompositions import eig as eig
    from .decompositions import eigh as eigh
    from .decompositions import eigvals as eigvals
    from .decompositions import eigvalsh as eigvalsh
    from .decompositions import lu as lu
    from .decompositions import qr as qr
    from .decompositions import svd as svd
    from .decompositions import svdvals as svdvals
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
else:
    from .._utils.lazy import make_lazy_getattr as _make_lazy_getattr
    from .._utils.lazy import make_public_dir as _make_public_dir

    __getattr__, _HOMES = _make_lazy_getattr(
        globals(),
        {
            "api.tensor_products": "outer tensordot vecdot",
            "api.views": "matrix_transpose",
            "tensor.contraction": "matmul",
            "linalg.decompositions": "cholesky eig eigh eigvals eigvalsh lu qr svd svdvals",
            "linalg.matrices": "cross det diagonal expm matrix_power multi_dot slogdet trace",
            "linalg.norms": "cond matrix_norm matrix_rank norm vector_norm",
            "linalg.solving": "inv lstsq pinv solve solve_triangular tensorinv tensorsolve",
        },
    )
    __all__ = sorted(_HOMES)
    __dir__ = _make_public_dir(globals())
    del TYPE_CHECKING
