"""Norms of vectors and matrices, rank, and condition number."""

from __future__ import annotations

from math import inf
from typing import Any

from ..creation import asarray, eye
from ..dtypes import DEFAULT_INT
from ..errors import ArgumentError, DerivativeError, MatrixShapeError, ShapeError, described
from ..functions.into import as_dtype
from ..keywords import spelled
from ..late import LateModule
from ..ops import OPS
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import Axes, axes_of, truth
from ..tensor.core import Operand
from .arguments import computed, matrices, result_of, square

Order = float | str | None
_hosted = LateModule("tenxor.functions.hosted")  # loaded late, since most norms need no LAPACK
_decompositions, _matrices, _solving = (LateModule(f"tenxor.linalg.{name}") for name in ("decompositions", "matrices", "solving"))


@called_again
@spelled
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
    """New real tensor: the norm of the vectors along `axis`, an int, a tuple of axes flattened to one, or None for all elements.

    `ord` is a number: 2 for the Euclidean length, 1 for the sum of absolute values, `inf` for the largest and `-inf` for the smallest
    absolute value, 0 for the number of nonzero elements, and any other `p` for `sum(abs(x)**p)**(1/p)`. Integers become float64. The norm
    of an empty vector is 0. Raises AxisError, and ShapeError for the smallest element of an empty vector. (Array API 2025.12,
    `linalg.vector_norm`.)

    >>> import tenxor as tx
    >>> tx.linalg.vector_norm(tx.asarray([[3.0, 4.0], [5.0, 12.0]]), axis=1).tolist()
    [5.0, 13.0]
    """
    keep = truth("vector_norm", "keepdims", keepdims)
    return _vector_norms("vector_norm", asarray(x), axis, keep, ord)


def _vector_norms(op: str, x: Tensor, axis: Axes, keepdims: bool, order: Any) -> Tensor:
    """Return the norm of the vectors along `axis`. Raise ArgumentError, beginning with `op`, if the order is not a number."""
    number = _order_as_float(order)
    if number is None:
        raise ArgumentError(
            f"{op}: the norm of a vector has a number for its order, not {described(order)};"
            " 'fro' and 'nuc' are of matrices"
        )
    dtype = result_of(x.dtype).part
    x, order = computed(x), number
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
        total = _squares(x).sum(axis, keepdims=keepdims)
        norms = Tensor._compute(OPS["deviation"], total)  # the square root, with derivative 0 at 0
    else:
        total = _power(magnitudes, order, order < 1).sum(axis, keepdims=keepdims)
        norms = _power(total, 1 / order, order > 0)
    return as_dtype(norms, dtype)


def _max_or_zero(magnitudes: Tensor, axis: Axes, keepdims: bool = False) -> Tensor:
    """Return the largest of nonnegative numbers along `axis`, and 0 if there are no numbers."""
    largest: Tensor = magnitudes.max(axis, keepdims) if magnitudes.size else magnitudes.sum(axis, keepdims=keepdims)
    return largest


def _power(x: Tensor, order: float, zero_slope: bool) -> Tensor:
    """Return nonnegative numbers to a power.

    If `zero_slope` is set, the derivative at 0 is 0; otherwise it may be infinite or NaN.
    """
    if not zero_slope or order < 0:
        return x**order
    is_zero = x == 0
    return Tensor._compute(OPS["where"], is_zero, 0.0, Tensor._compute(OPS["where"], is_zero, 1.0, x) ** order)


def _order_as_float(order: Any) -> float | None:
    """Return the order of a norm as a float; None if it is not a number. Raise DerivativeError if derivatives follow it."""
    if isinstance(order, str):
        return None
    if isinstance(order, Tensor) and _hosted.has_past(order):
        raise DerivativeError("norm: there is no derivative with respect to the order; give a number, such as order.item()")
    try:
        return float(order)
    except (TypeError, ValueError, OverflowError):
        return None


def _squares(x: Tensor) -> Tensor:
    """Return the squares of the absolute values."""
    if not x.dtype.is_complex:
        return x.square()
    return x.real.square() + x.imag.square()


@called_again
@spelled
def matrix_norm(x: Operand, /, *, keepdims: bool = False, ord: Order = "fro", keepdim: bool | None = None) -> Tensor:
    """New real tensor: the norm of each matrix.

    `ord` is "fro" (or None) for the root of the sum of squares, "nuc" for the sum of the singular values, 2 and -2 for the largest and
    smallest singular value, 1 and -1 for the largest and smallest sum of absolute values in a column, and `inf` and `-inf` in a row. The
    norm of a matrix without elements is 0. Raises ArgumentError, and ShapeError for the smallest value of an empty matrix. (Array API
    2025.12, `linalg.matrix_norm`.)

    >>> import tenxor as tx
    >>> tx.linalg.matrix_norm(tx.asarray([[1.0, -2.0], [3.0, 4.0]]), ord=1).item()
    6.0
    """
    keep = truth("matrix_norm", "keepdims", keepdims)
    return _matrix_norms("matrix_norm", matrices("matrix_norm", x), keep, ord)


def _matrix_norms(op: str, x: Tensor, keepdims: bool, order: Any) -> Tensor:
    """Return the norm of each matrix. Raise ArgumentError, beginning with `op`, for an unknown order."""
    if order is None or (isinstance(order, str) and order == "fro"):
        return _vector_norms(op, x, (-2, -1), keepdims, 2)
    dtype = result_of(x.dtype).part
    rows_or_columns = {1: -2, -1: -2, inf: -1, -inf: -1}
    number = _order_as_float(order)
    if number in rows_or_columns:
        axis = rows_or_columns[number]
        sums = abs(computed(x)).sum(axis, keepdims=True)
        norms = _max_or_zero(sums, (-2, -1), keepdims) if number > 0 else sums.min((-2, -1), keepdims)
    elif number in (2, -2) or (isinstance(order, str) and order == "nuc"):
        if number is None:
            norms = _nuclear(computed(x))
        else:
            s = _decompositions.svdvals(computed(x))
            norms = _max_or_zero(s, -1) if number == 2 else s.min(-1)
        norms = norms.expand_dims((-2, -1)) if keepdims else norms
    else:
        raise ArgumentError(
            f"{op}: there is no norm of matrices of order {described(order)};"
            " there are 'fro', 'nuc', 1, -1, 2, -2, inf and -inf"
        )
    return as_dtype(norms, dtype)


def _nuclear(x: Tensor) -> Tensor:
    """Return the sums of the singular values.

    Their derivative is the unitary polar factor, which exists even if singular values are equal.
    """

    def total(x: Tensor) -> Tensor:
        norms: Tensor = _decompositions.svdvals(x).sum(-1)
        return norms

    if x.node.past is None:
        return total(x)
    from ..functions.steps import custom_derivative
    from .derivatives import polar_factor

    return custom_derivative(total, lambda g, result, x: g.expand_dims((-2, -1)) * polar_factor(x))(x)


@called_again
@spelled
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
    """New real tensor: the norm of vectors along one axis, as `vector_norm`, or of matrices along two, as `matrix_norm`.

    Without `axis`, a tensor of one axis is a vector, and of two axes a matrix. Without `axis` and `ord`, all elements are one vector.
    Raises AxisError, ShapeError and ArgumentError. (NumPy's `linalg.norm`.)

    >>> import tenxor as tx
    >>> tx.linalg.norm(tx.asarray([[3.0, 0.0], [0.0, 4.0]])).item(), tx.linalg.norm(tx.asarray([3.0, -4.0]), 1).item()
    (5.0, 7.0)
    """
    x = asarray(x)
    keep = truth("norm", "keepdims", keepdims)
    if axis is None and ord is None:
        return _vector_norms("norm", x, None, keep, 2)
    axes = axes_of("norm", axis, x.ndim)
    if len(axes) == 1:
        return _vector_norms("norm", x, axes, keep, 2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(f"norm: shape {x.shape} has {len(axes)} axes; name one for vectors, or two for matrices")
    norms = _matrix_norms("norm", x.moveaxis(axes, (-2, -1)), False, ord)
    return norms.expand_dims(axes) if keep else norms


def matrix_rank(x: Operand, /, tol: Operand | None = None, hermitian: bool = False, *, rtol: Operand | None = None) -> Tensor:
    """New int64 tensor: the number of singular values of each matrix that are larger than `rtol` times the largest.

    `rtol` is a number or a tensor that broadcasts with the batch, by default the dtype's eps times the longer side. NumPy's `tol` is an
    absolute bound instead. With `hermitian`, matrices must be symmetric or Hermitian, and only the lower triangle is read. A tensor of
    fewer than two axes has rank 1, or 0 if its elements are all 0. Raises ShapeError. (Array API 2025.12, `linalg.matrix_rank`.)

    >>> import tenxor as tx
    >>> tx.linalg.matrix_rank(tx.asarray([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    x = asarray(x)
    if x.ndim < 2:
        return (x != 0).any().astype(DEFAULT_INT)
    a = computed(x)
    s: Tensor = abs(_decompositions.eigvalsh(a)) if truth("matrix_rank", "hermitian", hermitian) else _decompositions.svdvals(a)
    if tol is not None:
        if rtol is not None:
            raise ArgumentError("matrix_rank: tol is absolute and rtol relative to the largest singular value; give only one of them")
        threshold: Tensor = asarray(tol).expand_dims(-1)
    else:
        threshold = _solving.cutoff(s.max(-1, True) if hermitian and s.shape[-1] else s, x, rtol)
    return (s > threshold).count_nonzero(-1)


def cond(x: Operand, /, p: Order = None) -> Tensor:
    """New real tensor: the condition number of each matrix, the norm of the matrix times the norm of its inverse.

    It bounds the growth of relative errors when equations with the matrix are solved. `p` is the order of the norm, as in `matrix_norm`;
    None means 2. For 2 and -2 matrices need not be square. The result is inf for a singular matrix. Raises ShapeError and ArgumentError.
    (NumPy's `linalg.cond`.)

    >>> import tenxor as tx
    >>> tx.linalg.cond(tx.asarray([[10.0, 0.0], [0.0, 2.0]])).item()
    5.0
    """
    if p is None or _order_as_float(p) in (2, -2):
        x = matrices("cond", x)
        s = _decompositions.svdvals(computed(x))
        if 0 in x.shape[-2:]:
            raise MatrixShapeError(f"cond: matrices of shape {x.shape} have no elements")
        condition = s[..., -1] / s[..., 0] if _order_as_float(p) == -2 else s[..., 0] / s[..., -1]
        condition = Tensor._compute(OPS["where"], s[..., 0] == 0, inf, condition)  # also for a matrix of zeros
        return as_dtype(condition, result_of(x.dtype).part)
    x = square("cond", x)
    a, where_op = computed(x), OPS["where"]
    singular = _matrices.slogdet(a).sign == 0
    regular = Tensor._compute(where_op, singular.expand_dims((-2, -1)), eye(x.shape[-1], dtype=a.dtype), a)
    condition = _matrix_norms("cond", a, False, p) * _matrix_norms("cond", _solving.inv(regular), False, p)
    return as_dtype(Tensor._compute(where_op, singular, inf, condition), result_of(x.dtype).part)
