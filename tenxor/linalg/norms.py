"""Norms of vectors and matrices, rank, and condition number."""

from __future__ import annotations

from math import inf
from typing import Any

from .._utils.aliases import argument_aliases
from .._utils.lazy import LazyModule
from ..api.creation import asarray, eye
from ..api.output_arguments import cast_to
from ..dtypes import DEFAULT_INT
from ..errors import ArgumentError, DerivativeError, MatrixShapeError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import Axes, check_flag, normalize_axes
from ..tensor.core import Operand
from .arguments import as_lapack_dtype, as_matrices, as_square_matrices, result_dtype

Order = float | str | None
_host_calls = LazyModule("tenxor.api.host_calls")  # loaded late, since most norms need no LAPACK
_decompositions, _matrices, _solving = (LazyModule(f"tenxor.linalg.{name}") for name in ("decompositions", "matrices", "solving"))


@memoized_call
@argument_aliases
def vector_norm(
    x: Operand,
    /,
    *,
    axis: Axes = None,
    keepdims: bool = False,
    ord: float = 2,
    dim: Axes = None,
    keepdim: bool | None = None,
) -> Tensor:
    """Return the norm of the vectors along an axis.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    axis : int or tuple of int, optional
        The axis of the vectors. Several axes are flattened to one, and None takes all elements as one vector. PyTorch's `dim` is an alias.
    keepdims : bool, default False
        Keep the reduced axes, with size 1. PyTorch's `keepdim` is an alias.
    ord : float, default 2
        The order: 2 is the Euclidean length, 1 the sum of absolute values, `inf` the largest and `-inf` the smallest absolute value, 0 the
        number of nonzero elements, and any other `p` is `sum(abs(x)**p)**(1/p)`.

    Returns
    -------
    Tensor
        New real tensor of the shape of `x` without the reduced axes. Integers and bools give float64. The norm of an empty vector is 0.

    Raises
    ------
    AxisError
        If there is no such axis.
    ShapeError
        For the smallest element of an empty vector.
    ArgumentError
        If `ord` is no number.

    References
    ----------
    Array API 2025.12, `linalg.vector_norm`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.vector_norm(tx.asarray([[3.0, 4.0], [5.0, 12.0]]), axis=1).tolist()
    [5.0, 13.0]
    """
    keep = check_flag("keepdims", keepdims)
    return _vector_norms("vector_norm", asarray(x), axis, keep, ord)


def _vector_norms(op: str, x: Tensor, axis: Axes, keepdims: bool, order: Any) -> Tensor:
    """Return the norm of order `order` of the vectors in `x` along `axis`. With `keepdims`, reduced axes stay with size 1.

    `axis` is one axis, several, or None for all, whose elements form one vector. Raise ArgumentError, beginning with `op`, if the order is
    not a number.
    """
    number = _order_as_float(order)
    if number is None:
        raise ArgumentError(
            f"{op}: ord, the order of a vector norm, must be a number, not {describe_value(order)}; 'fro' and 'nuc' are for matrices"
        )
    dtype = result_dtype(x.dtype).part
    x, order = as_lapack_dtype(x), number
    magnitudes = abs(x)
    if order == inf:
        norms = _max_or_zero(magnitudes, axis, keepdims)
    elif order == -inf:
        norms = magnitudes.min(axis, keepdims)
    elif order == 0:
        norms = (x != 0).count_nonzero(axis, keepdims)
    elif order == 1:
        norms = magnitudes.sum(axis, keepdims=keepdims)
    elif order == 2:
        total = _squared_magnitudes(x).sum(axis, keepdims=keepdims)
        norms = Tensor._compute(OPS["deviation"], total)  # the square root, with derivative 0 at 0
    else:
        total = _power_of_magnitudes(magnitudes, order, order < 1).sum(axis, keepdims=keepdims)
        norms = _power_of_magnitudes(total, 1 / order, order > 0)
    return cast_to(norms, dtype)


def _max_or_zero(magnitudes: Tensor, axis: Axes, keepdims: bool = False) -> Tensor:
    """Return the largest of the nonnegative `magnitudes` along `axis`, and 0 if there are none. `keepdims` is as in `tx.max`."""
    largest: Tensor = magnitudes.max(axis, keepdims) if magnitudes.size else magnitudes.sum(axis, keepdims=keepdims)
    return largest


def _power_of_magnitudes(x: Tensor, order: float, zero_slope: bool) -> Tensor:
    """Return the nonnegative numbers `x` to the power `order`.

    If `zero_slope` is set and `order` is not negative, the value and the derivative at 0 are 0. Otherwise the derivative may be infinite or
    NaN.
    """
    if not zero_slope or order < 0:
        return x**order
    is_zero = x == 0
    return Tensor._compute(OPS["where"], is_zero, 0.0, Tensor._compute(OPS["where"], is_zero, 1.0, x) ** order)


def _order_as_float(order: Any) -> float | None:
    """Return the order of a norm as a float, or None if it is not a number. Raise DerivativeError for a tensor on the tape."""
    if isinstance(order, str):
        return None
    if isinstance(order, Tensor) and _host_calls.is_on_tape(order):
        raise DerivativeError("norm: there is no derivative with respect to the order; give a number, such as order.item()")
    try:
        return float(order)
    except (TypeError, ValueError, OverflowError):
        return None


def _squared_magnitudes(x: Tensor) -> Tensor:
    """Return the squares of the absolute values of `x`, as real numbers."""
    if not x.dtype.is_complex:
        return x.square()
    return x.real.square() + x.imag.square()


@memoized_call
@argument_aliases
def matrix_norm(x: Operand, /, *, keepdims: bool = False, ord: Order = "fro", keepdim: bool | None = None) -> Tensor:
    """Return the norm of each matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`.
    keepdims : bool, default False
        Keep the last two axes, with size 1. PyTorch's `keepdim` is an alias.
    ord : float or str, default "fro"
        "fro" (or None) is the root of the sum of squares, and "nuc" the sum of the singular values. 2 and -2 are the largest and the
        smallest singular value. 1 and -1 are the largest and the smallest sum of absolute values in a column, and `inf` and `-inf` in a
        row.

    Returns
    -------
    Tensor
        New real tensor of shape `(...)`. The norm of a matrix without elements is 0.

    Raises
    ------
    ArgumentError
        If `ord` is unknown.
    ShapeError
        If `x` has fewer than two axes, and for the smallest value of an empty matrix.

    References
    ----------
    Array API 2025.12, `linalg.matrix_norm`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.matrix_norm(tx.asarray([[1.0, -2.0], [3.0, 4.0]]), ord=1).item()
    6.0
    """
    keep = check_flag("keepdims", keepdims)
    return _matrix_norms("matrix_norm", as_matrices("matrix_norm", x), keep, ord)


def _matrix_norms(op: str, x: Tensor, keepdims: bool, order: Any) -> Tensor:
    """Return the norm of order `order` of each matrix in `x`. With `keepdims`, the last two axes stay with size 1.

    Raise ArgumentError, beginning with `op`, for an unknown order.
    """
    if order is None or (isinstance(order, str) and order == "fro"):
        return _vector_norms(op, x, (-2, -1), keepdims, 2)
    dtype = result_dtype(x.dtype).part
    rows_or_columns = {1: -2, -1: -2, inf: -1, -inf: -1}
    number = _order_as_float(order)
    if number in rows_or_columns:
        axis = rows_or_columns[number]
        sums = abs(as_lapack_dtype(x)).sum(axis, keepdims=True)
        norms = _max_or_zero(sums, (-2, -1), keepdims) if number > 0 else sums.min((-2, -1), keepdims)
    elif number in (2, -2) or (isinstance(order, str) and order == "nuc"):
        if number is None:
            norms = _nuclear_norms(as_lapack_dtype(x))
        else:
            s = _decompositions.svdvals(as_lapack_dtype(x))
            norms = _max_or_zero(s, -1) if number == 2 else s.min(-1)
        norms = norms.expand_dims((-2, -1)) if keepdims else norms
    else:
        raise ArgumentError(f"{op}: ord is {describe_value(order)}; for matrices it must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    return cast_to(norms, dtype)


def _nuclear_norms(x: Tensor) -> Tensor:
    """Return the sums of the singular values of the matrices `x`.

    The derivative is the unitary polar factor, which exists even if singular values are equal.
    """

    def total(x: Tensor) -> Tensor:
        norms: Tensor = _decompositions.svdvals(x).sum(-1)
        return norms

    if x.node.tape_node is None:
        return total(x)
    from ..api.custom_derivatives import custom_derivative
    from .derivatives import polar_factor

    return custom_derivative(total, lambda g, result, x: g.expand_dims((-2, -1)) * polar_factor(x))(x)


@memoized_call
@argument_aliases
def norm(
    x: Operand,
    /,
    ord: Order = None,
    axis: Axes = None,
    keepdims: bool = False,
    *,
    dim: Axes = None,
    keepdim: bool | None = None,
) -> Tensor:
    """Return the norm of vectors along one axis, or of matrices along two.

    Parameters
    ----------
    x : Tensor
        Any dtype.
    ord : float or str, optional
        The order, as in `vector_norm` or `matrix_norm`. Without `axis` and `ord`, all elements are one vector.
    axis : int or tuple of int, optional
        One axis for vectors, two for matrices. Without `axis`, a tensor of one axis is a vector, and a tensor of two axes a matrix.
        PyTorch's `dim` is an alias.
    keepdims : bool, default False
        Keep the reduced axes, with size 1. PyTorch's `keepdim` is an alias.

    Returns
    -------
    Tensor
        New real tensor of the shape of `x` without the reduced axes.

    Raises
    ------
    AxisError
        If there is no such axis.
    ShapeError
        If the reduced axes are neither one nor two, unless both `axis` and `ord` are None. For the smallest element of an empty vector.
    ArgumentError
        If `ord` is unknown.

    References
    ----------
    NumPy's `linalg.norm`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.norm(tx.asarray([[3.0, 0.0], [0.0, 4.0]])).item(), tx.linalg.norm(tx.asarray([3.0, -4.0]), 1).item()
    (5.0, 7.0)
    """
    x = asarray(x)
    keep = check_flag("keepdims", keepdims)
    if axis is None and ord is None:
        return _vector_norms("norm", x, None, keep, 2)
    axes = normalize_axes("norm", axis, x.ndim)
    if len(axes) == 1:
        return _vector_norms("norm", x, axes, keep, 2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(f"norm: shape {x.shape} has {len(axes)} axes; axis must name one for vectors, or two for matrices")
    norms = _matrix_norms("norm", x.moveaxis(axes, (-2, -1)), False, ord)
    return norms.expand_dims(axes) if keep else norms


def matrix_rank(x: Operand, /, tol: Operand | None = None, hermitian: bool = False, *, rtol: Operand | None = None) -> Tensor:
    """Return the number of singular values of each matrix that are larger than a bound.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`. A tensor of fewer than two axes has rank 1, or 0 if its elements are all 0.
    tol : float or Tensor, optional
        Absolute bound, as in NumPy.
    hermitian : bool, default False
        The matrices are symmetric or Hermitian, and only the lower triangle is read.
    rtol : float or Tensor, optional
        Bound relative to the largest singular value. A tensor broadcasts with the batch. The default is the dtype's eps times the longer
        side.

    Returns
    -------
    Tensor
        New int64 tensor of shape `(...)`.

    Raises
    ------
    ArgumentError
        If both `tol` and `rtol` are given.
    ShapeError
        If `hermitian` matrices are not square.

    References
    ----------
    Array API 2025.12, `linalg.matrix_rank`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.matrix_rank(tx.asarray([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    x, hermitian = asarray(x), check_flag("hermitian", hermitian)
    if x.ndim < 2:
        return (x != 0).any().astype(DEFAULT_INT)
    a = as_lapack_dtype(x)
    s: Tensor = abs(_decompositions.eigvalsh(a)) if hermitian else _decompositions.svdvals(a)
    if tol is not None:
        if rtol is not None:
            raise ArgumentError("matrix_rank: tol is absolute and rtol relative to the largest singular value; give only one of them")
        threshold: Tensor = asarray(tol).expand_dims(-1)
    else:
        threshold = _solving.singular_value_cutoff(s.max(-1, True) if hermitian and s.shape[-1] else s, x, rtol)
    return (s > threshold).count_nonzero(-1)


def cond(x: Operand, /, p: Order = None) -> Tensor:
    """Return the condition number of each matrix: the norm of the matrix times the norm of its inverse.

    The condition number bounds the growth of relative errors when equations with the matrix are solved.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`. They must be square unless `p` is None, 2 or -2.
    p : float or str, optional
        The order of the norm, as in `matrix_norm`. None means 2.

    Returns
    -------
    Tensor
        New real tensor of shape `(...)`, and inf for a singular matrix.

    Raises
    ------
    ShapeError
        If the matrices must be square and are not. For the orders 2 and -2 also if they have no elements.
    ArgumentError
        If `p` is unknown.

    References
    ----------
    NumPy's `linalg.cond`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.cond(tx.asarray([[10.0, 0.0], [0.0, 2.0]])).item()
    5.0
    """
    if p is None or _order_as_float(p) in (2, -2):
        x = as_matrices("cond", x)
        s = _decompositions.svdvals(as_lapack_dtype(x))
        if 0 in x.shape[-2:]:
            raise MatrixShapeError(f"cond: matrices of shape {x.shape} have no elements; they must have at least one row and one column")
        condition = s[..., -1] / s[..., 0] if _order_as_float(p) == -2 else s[..., 0] / s[..., -1]
        condition = Tensor._compute(OPS["where"], s[..., 0] == 0, inf, condition)  # also for a matrix of zeros
        return cast_to(condition, result_dtype(x.dtype).part)
    x = as_square_matrices("cond", x)
    a, where_op = as_lapack_dtype(x), OPS["where"]
    singular = _matrices.slogdet(a).sign == 0
    regular = Tensor._compute(where_op, singular.expand_dims((-2, -1)), eye(x.shape[-1], dtype=a.dtype), a)
    condition = _matrix_norms("cond", a, False, p) * _matrix_norms("cond", _solving.inv(regular), False, p)
    return cast_to(Tensor._compute(where_op, singular, inf, condition), result_dtype(x.dtype).part)
