"""Conversion of matrix arguments, and the dtypes for computation and results."""

from __future__ import annotations

from ..api.creation import asarray
from ..api.output_arguments import cast_to
from ..dtypes import DEFAULT_FLOAT, DType, float32
from ..errors import MatrixShapeError
from ..tensor import Tensor
from ..tensor.core import Operand


def as_matrices(op: str, x_like: Operand) -> Tensor:
    """Return `x_like` as a tensor of at least two axes. Raise MatrixShapeError, beginning with `op`, for fewer axes."""
    x = asarray(x_like)
    if x.ndim < 2:
        raise MatrixShapeError(
            f"{op}: shape {x.shape} has {x.ndim} ax{'is' if x.ndim == 1 else 'es'}; it must have 2 for a matrix, and more for a stack of"
            " matrices"
            " (x.expand_dims(-1) is a column)"
        )
    return x


def as_square_matrices(op: str, x_like: Operand) -> Tensor:
    """Return `x_like` as a tensor of square matrices. Raise MatrixShapeError, beginning with `op`, for other shapes."""
    x = as_matrices(op, x_like)
    rows, columns = x.shape[-2:]
    if rows != columns:
        raise MatrixShapeError(
            f"{op}: matrices of shape {x.shape} are not square: the last two axes have sizes {rows} and {columns}; they must be equal"
        )
    return x


def result_dtype(dtype: DType) -> DType:
    """Return the dtype of results for matrices of this dtype: floats and complex numbers keep theirs, and other dtypes become float64."""
    return dtype if dtype.is_float or dtype.is_complex else DEFAULT_FLOAT


def as_lapack_dtype(x: Tensor) -> Tensor:
    """Return `x` in a dtype that LAPACK supports, float32, float64, complex64 or complex128: `x` itself if its dtype is one of these.

    Narrower floats become float32, integers and bools float64.
    """
    dtype = result_dtype(x.dtype)
    return cast_to(x, float32 if dtype.is_float and dtype.bits < 32 else dtype)
