"""Solutions of systems of linear equations, inverses, and pseudo-inverses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..creation import asarray, eye, triu
from ..dtypes import DType, finfo, int64, promote
from ..errors import ArgumentError, MatrixShapeError, ShapeError
from ..functions.into import as_dtype
from ..keywords import spelled
from ..layout import broadcast_shapes
from ..layout.coords import checked_int
from ..ops import OPS
from ..records import NamedTuple
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import axis_of, ints, truth
from ..tensor.core import Operand
from .arguments import computed, matrices, result_of, square
from .decompositions import svd, svdvals
from .lapack import hosted

BLOCK_ROWS = 64  # rows of a triangular matrix solved by one call


class LeastSquares(NamedTuple):
    """The `solution`, the sums of squares of the `residuals`, the `rank` of each matrix, and its `singular_values`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@called_again
def inv(x: Operand, /) -> Tensor:
    """New tensor of `x`'s shape: the inverse of each square matrix.

    To solve equations use `solve`, which is faster and more accurate. Raises ShapeError, and LinearAlgebraError for a singular matrix.
    (Array API 2025.12, `linalg.inv`.)

    >>> import tenxor as tx
    >>> tx.linalg.inv(tx.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    x = square("inv", x)
    return as_dtype(hosted("inv", computed(x))[0], result_of(x.dtype))


@called_again
def solve(x1: Operand, x2: Operand, /) -> Tensor:
    """New tensor: the solution `x` of `x1 @ x == x2` for each square matrix `x1`.

    An `x2` of one axis is a right-hand side for every matrix. With more axes, the last two axes are matrices with right-hand sides as
    columns, and the axes before broadcast with those of `x1`. Dtypes promote. Raises ShapeError, and LinearAlgebraError for a singular
    matrix. (Array API 2025.12, `linalg.solve`.)

    >>> import tenxor as tx
    >>> tx.linalg.solve(tx.asarray([[2.0, 1.0], [0.0, 4.0]]), tx.asarray([4.0, 8.0])).tolist()
    [1.0, 2.0]
    """
    a, b, dtype = _system("solve", square("solve", x1), asarray(x2))
    if b.ndim == 1:
        return as_dtype(hosted("solve", a, b.expand_dims(1))[0].squeeze(-1), dtype)
    return as_dtype(hosted("solve", a, b)[0], dtype)


def _system(op: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, DType]:
    """Return matrices and right-hand sides in one dtype for computation, and the dtype of the result.

    Raise MatrixShapeError, beginning with `op`, if their shapes do not fit.
    """
    if b.ndim == 0:
        raise MatrixShapeError(
            f"{op}: the right-hand side has no axes; give one number for each of the {a.shape[-2]} rows of shape {a.shape}"
        )
    axis = -1 if b.ndim == 1 else -2
    if b.shape[axis] != a.shape[-2]:
        raise MatrixShapeError(
            f"{op}: shapes {a.shape} and {b.shape} do not fit: axis -2 of the first has size {a.shape[-2]}, axis {axis} of the second"
            f" {b.shape[axis]}; they must be equal"
        )
    dtype = promote(result_of(a.dtype), result_of(b.dtype), op)
    return computed(as_dtype(a, dtype)), computed(as_dtype(b, dtype)), dtype


@spelled
def pinv(x: Operand, /, rtol: Operand | None = None, hermitian: bool = False, *, rcond: Operand | None = None) -> Tensor:
    """New tensor of shape `(..., n, m)`: the Moore-Penrose pseudo-inverse of each matrix of `m` rows and `n` columns.

    Singular values up to `rtol` times the largest count as 0. `rtol` is a number or a tensor that broadcasts with the batch, by default the
    dtype's eps times the longer side (NumPy's name for it is `rcond`). With `hermitian`, matrices must be symmetric or Hermitian, and only
    the lower triangle is read. Raises ShapeError, and LinearAlgebraError for NaN and infinities. (Array API 2025.12, `linalg.pinv`.)

    >>> import tenxor as tx
    >>> tx.linalg.pinv(tx.asarray([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    x = matrices("pinv", x)
    inverse = _pseudo_inverse(computed(x), _rtol_or_default(x, rtol), truth("pinv", "hermitian", hermitian))
    return as_dtype(inverse, result_of(x.dtype))


def _rtol_or_default(x: Tensor, rtol: Any) -> Any:
    """Return `rtol`, or the default for matrices like `x`: the dtype's eps times the longer side."""
    return max(x.shape[-2:]) * finfo(result_of(x.dtype)).eps if rtol is None else rtol


def _pseudo_inverse(x: Tensor, rtol: Any, hermitian: bool = False) -> Tensor:
    """Return the pseudo-inverses of matrices, with singular values up to `rtol` times the largest counted as 0.

    The derivative assumes constant rank. Its formula does not use singular vectors, so equal singular values are allowed.
    """

    def call(x: Tensor, rtol: Any) -> Tensor:
        u, s, vh = svd(x, full_matrices=False, hermitian=hermitian)
        scaled_v = vh.mT.conj() * inverted(s, cutoff(s, x, rtol)).expand_dims(-2)
        inverse: Tensor = scaled_v @ u.mT.conj()
        return inverse

    def backward(g: Any, inverse: Any, x: Any, rtol: Any) -> tuple[Any, None]:
        from .derivatives import pseudo_inverse

        return pseudo_inverse(g, inverse, x, hermitian), None

    if x.node.past is None:
        return call(x, rtol)
    from ..functions.steps import custom_derivative

    return custom_derivative(call, backward)(x, rtol)


def cutoff(s: Tensor, x: Tensor, rtol: Any) -> Tensor:
    """Return the bound up to which singular values count as 0: `rtol` times the largest, with a last axis of size 1.

    `s` are the singular values of `x`, descending.
    """
    rtol = _rtol_or_default(x, rtol)
    factor: Any = rtol if isinstance(rtol, (int, float)) else as_dtype(asarray(rtol), s.dtype).expand_dims(-1)
    largest = s[..., :1] if s.shape[-1] else s.sum(-1, keepdims=True)
    bound: Tensor = largest * factor
    return bound


def inverted(s: Tensor, threshold: Tensor) -> Tensor:
    """Return `1 / s`, with 0 for each value of at most `threshold`."""
    is_large = s > threshold
    return Tensor._compute(OPS["where"], is_large, 1 / Tensor._compute(OPS["where"], is_large, s, 1.0), 0.0)


@called_again
@spelled
def lstsq(a: Operand, b: Operand, /, *, rtol: Operand | None = None, rcond: Operand | None = None) -> LeastSquares:
    """New tensors, as `solution`, `residuals`, `rank` and `singular_values`: the `x` with the least sum of squares of `a @ x - b`, the
    shortest if there are several.

    Matrices have shape `(..., m, n)`, and `b` is `(m,)` or `(..., m, k)`, as for `solve`; the solution is `(n,)` or `(..., n, k)`.
    `residuals` are the remaining sums of squares for each right-hand side, `rank` is the rank of each matrix, as int64, and
    `singular_values` are descending. Singular values up to `rtol` times the largest count as 0 (as in `pinv`; NumPy's and PyTorch's name
    for it is `rcond`). Raises ShapeError and LinearAlgebraError. (NumPy's and PyTorch's `linalg.lstsq`; residuals are never left out.)

    >>> import tenxor as tx
    >>> fit = tx.linalg.lstsq(tx.asarray([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), tx.asarray([1.0, 3.0, 5.0]))
    >>> fit.solution.round().tolist(), fit.rank.item()
    ([1.0, 2.0], 2)
    """
    a = matrices("lstsq", a)
    matrix = a
    a, b, dtype = _system("lstsq", a, asarray(b))
    is_vector = b.ndim == 1
    columns = b.expand_dims(1) if is_vector else b
    if a.size and columns.size and a.node.past is None and columns.node.past is None and (rtol is None or _is_constant_rtol(rtol)):
        rcond = max(matrix.shape[-2:]) * finfo(dtype).eps if rtol is None else float(rtol)  # type: ignore[arg-type]
        outputs = hosted("lstsq_wide" if a.shape[-2] < a.shape[-1] else "lstsq", a, columns, sizes={"p": min(a.shape[-2:])}, rcond=rcond)
        solution, residuals, rank, s = (as_dtype(t, d) for t, d in zip(outputs, (dtype, dtype.part, int64, dtype.part), strict=True))
        return (
            LeastSquares(solution.squeeze(-1), residuals.squeeze(-1), rank, s)
            if is_vector
            else LeastSquares(solution, residuals, rank, s)
        )
    factor = _rtol_or_default(as_dtype(matrix, dtype), rtol)
    solution, s = _pseudo_inverse(a, factor) @ columns, svdvals(a)
    threshold = cutoff(s, a, factor)
    deviations = a @ solution - columns
    residuals = (deviations * deviations.conj()).real.sum(-2) if deviations.dtype.is_complex else deviations.square().sum(-2)
    solution, residuals = as_dtype(solution, dtype), as_dtype(residuals, dtype.part)
    rank, s = (s > threshold).count_nonzero(-1), as_dtype(s, dtype.part)
    return LeastSquares(solution.squeeze(-1), residuals.squeeze(-1), rank, s) if is_vector else LeastSquares(solution, residuals, rank, s)


def _is_constant_rtol(rtol: Any) -> bool:
    """Return whether `rtol` is a Python number of 0 or more, the same for every matrix."""
    return isinstance(rtol, (int, float)) and rtol >= 0


def tensorinv(a: Operand, /, ind: int = 2) -> Tensor:
    """New tensor of shape `a.shape[ind:] + a.shape[:ind]`: the inverse of `a` as a linear map.

    The first `ind` axes are the rows of its matrix, and the remaining axes the columns. Raises ShapeError if the matrix is not square,
    ArgumentError, and LinearAlgebraError if it is singular. (NumPy's and PyTorch's `linalg.tensorinv`.)

    >>> import tenxor as tx
    >>> a = tx.eye(24).reshape(4, 6, 8, 3)
    >>> tx.linalg.tensorinv(a).shape
    (8, 3, 4, 6)
    """
    a = asarray(a)
    count = checked_int("tensorinv", "ind", ind)
    if not 0 < count <= a.ndim:
        raise ArgumentError(f"tensorinv: ind is {ind}; it counts axes of shape {a.shape}, from 1 on")
    rows, columns = a.shape[:count], a.shape[count:]
    if prod(rows) != prod(columns):
        raise MatrixShapeError(
            f"tensorinv: the first {count} axes of shape {a.shape} have {prod(rows)} elements, the others {prod(columns)};"
            " they must be equal"
        )
    return inv(a.reshape(prod(rows), prod(columns))).reshape(*columns, *rows)


@spelled
def tensorsolve(
    a: Operand, b: Operand, /, axes: Sequence[int] | None = None, *, dims: Sequence[int] | None = None
) -> Tensor:
    """New tensor: the solution `x` of `tensordot(a, x, x.ndim) == b`, of shape `a.shape[b.ndim:]`.

    The `axes` of `a` are moved to its end first. Raises ShapeError if sizes do not fit, AxisError, and LinearAlgebraError if the equations
    have no unique solution. (NumPy's and PyTorch's `linalg.tensorsolve`.)

    >>> import tenxor as tx
    >>> tx.linalg.tensorsolve(tx.eye(6).reshape(2, 3, 6) * 2.0, tx.ones((2, 3))).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    a, b = asarray(a), asarray(b)
    if axes is not None:
        moved_axes = [axis_of("tensorsolve", k, a.ndim) for k in ints("tensorsolve: axes", (axes,))]
        a = a.permute([k for k in range(a.ndim) if k not in moved_axes] + moved_axes)
    unknown = a.shape[b.ndim :]
    if a.size != prod(unknown) ** 2 or b.size != prod(unknown):
        raise MatrixShapeError(
            f"tensorsolve: a {a.shape} and b {b.shape} do not fit: {b.size} equations for {prod(unknown)} unknowns of shape {unknown};"
            f" both numbers must be equal, and a must have their product of elements"
        )
    return solve(a.reshape(b.size, prod(unknown)), b.ravel()).reshape(unknown)


def solve_triangular(a: Operand, b: Operand, /, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """New tensor: the solution `x` of `a @ x == b` (`x @ a == b` if not `left`) for triangular matrices `a`.

    Only the `upper` or the lower triangle is read. Shapes and dtypes are as in `solve`; a `b` of one axis is one right-hand side. With
    `unitriangular` the diagonal counts as ones. Raises ShapeError, and LinearAlgebraError for a 0 on the diagonal. (PyTorch's
    `linalg.solve_triangular`.)

    >>> import tenxor as tx
    >>> tx.linalg.solve_triangular(tx.asarray([[2.0, 1.0], [7.0, 4.0]]), tx.asarray([4.0, 8.0]), upper=True).tolist()
    [1.0, 2.0]
    """
    a, b = square("solve_triangular", a), asarray(b)
    upper = truth("solve_triangular", "upper", upper)
    if not truth("solve_triangular", "left", left):
        if b.ndim < 2:
            return solve_triangular(a.mT, b, upper=not upper, unitriangular=unitriangular)
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    a, b, dtype = _system("solve_triangular", a, b)
    if b.ndim == 1:
        columns = solve_triangular(a, b.expand_dims(1), upper=upper, unitriangular=unitriangular)
        return as_dtype(columns.squeeze(-1), dtype)
    if not upper:  # reversed, the matrix is upper triangular, and LAPACK then solves it without exchanging rows
        a, b = a.flip((-2, -1)), b.flip(-2)
    solution = _back_substitute(a, b, truth("solve_triangular", "unitriangular", unitriangular))
    return as_dtype(solution if upper else solution.flip(-2), dtype)


def _back_substitute(a: Tensor, b: Tensor, unit_diagonal: bool) -> Tensor:
    """Return the solution for upper triangular matrices, block by block from the last rows on.

    Each block of the solution is substituted into the equations above. With `unit_diagonal` the diagonal counts as ones.
    """
    size = a.shape[-1]
    try:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ShapeError as error:
        raise ShapeError(f"solve_triangular: shapes {a.shape} and {b.shape} do not fit: before the last axes, {error}") from None
    x = b.expand((*batch, *b.shape[-2:])).copy()
    for end in range(size, 0, -BLOCK_ROWS):
        begin = max(0, end - BLOCK_ROWS)
        block = a[..., begin:end, begin:end]
        block = triu(block, k=1) + eye(end - begin, dtype=a.dtype) if unit_diagonal else triu(block)
        block_solution = hosted("solve_triangular", block, x[..., begin:end, :])[0]
        x[..., begin:end, :] = block_solution
        x[..., :begin, :] -= a[..., :begin, begin:end] @ block_solution
    return x
