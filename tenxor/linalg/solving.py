"""Solutions of systems of linear equations, inverses, and pseudo-inverses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from .._utils.aliases import argument_aliases
from .._utils.records import NamedTuple
from ..api.creation import asarray, eye
from ..api.grids import triu
from ..api.output_arguments import cast_to
from ..dtypes import DType, finfo, int64, promote
from ..errors import ArgumentError, MatrixShapeError, ShapeError
from ..graph.spec import memoized_call
from ..layout import broadcast_shapes
from ..layout.coords import validate_int
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, normalize_axis, parse_ints
from ..tensor.core import Operand
from .arguments import as_lapack_dtype, as_matrices, as_square_matrices, result_dtype
from .decompositions import svd, svdvals
from .register_vjps import call_host_op

BLOCK_ROWS = 64  # rows of a triangular matrix solved by one call


class LeastSquares(NamedTuple):
    """The `solution`, the sums of squares of the `residuals`, the `rank` of each matrix, and its `singular_values`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@memoized_call
def inv(x: Operand, /) -> Tensor:
    """Return the inverse of each square matrix.

    To solve equations use `solve`, which is faster and more accurate.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., n, n)`.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`; integers and bools give float64.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinearAlgebraError
        If a matrix is singular.

    References
    ----------
    Array API 2025.12, `linalg.inv`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.inv(tx.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    x = as_square_matrices("inv", x)
    return cast_to(call_host_op("inv", as_lapack_dtype(x))[0], result_dtype(x.dtype))


@memoized_call
def solve(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the solution `x` of `x1 @ x == x2` for each square matrix `x1`.

    Parameters
    ----------
    x1 : Tensor
        Matrices of shape `(..., n, n)`.
    x2 : Tensor
        Right-hand sides. A tensor of shape `(n,)` is one for every matrix. With more axes, the shape is `(..., n, k)`, with right-hand
        sides as columns, and the axes before the last two broadcast with those of `x1`. The dtypes promote.

    Returns
    -------
    Tensor
        New tensor of shape `(..., n)` for one right-hand side, and `(..., n, k)` otherwise. Integers and bools give float64.

    Raises
    ------
    ShapeError
        If the matrices are not square, or the shapes do not fit.
    LinearAlgebraError
        If a matrix is singular.

    References
    ----------
    Array API 2025.12, `linalg.solve`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.solve(tx.asarray([[2.0, 1.0], [0.0, 4.0]]), tx.asarray([4.0, 8.0])).tolist()
    [1.0, 2.0]
    """
    a, b, dtype = _prepare_system("solve", as_square_matrices("solve", x1), asarray(x2))
    if b.ndim == 1:
        return cast_to(call_host_op("solve", a, b.expand_dims(1))[0].squeeze(-1), dtype)
    return cast_to(call_host_op("solve", a, b)[0], dtype)


def _prepare_system(op: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, DType]:
    """Return the matrices `a` and right-hand sides `b` in one dtype for computation, and the dtype of the result.

    A 1-D `b` is one right-hand side, otherwise its last two axes are matrices. Raise MatrixShapeError, beginning with `op`, if the shapes
    do not fit, and DTypeError if the dtypes do not promote.
    """
    if b.ndim == 0:
        raise MatrixShapeError(
            f"{op}: the right-hand side has no axes; give one number for each of the {a.shape[-2]} rows of shape {a.shape}"
        )
    axis = -1 if b.ndim == 1 else -2
    if b.shape[axis] != a.shape[-2]:
        raise MatrixShapeError(
            f"{op}: shapes {a.shape} and {b.shape} do not fit: the first has {a.shape[-2]} rows (axis -2), the second"
            f" {b.shape[axis]} (axis {axis}); they must be equal"
        )
    dtype = promote(result_dtype(a.dtype), result_dtype(b.dtype), op)
    return as_lapack_dtype(cast_to(a, dtype)), as_lapack_dtype(cast_to(b, dtype)), dtype


@argument_aliases
def pinv(x: Operand, /, rtol: Operand | None = None, hermitian: bool = False, *, rcond: Operand | None = None) -> Tensor:
    """Return the Moore-Penrose pseudo-inverse of each matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`.
    rtol : float or Tensor, optional
        Singular values up to `rtol` times the largest count as 0. A tensor broadcasts with the batch. The default is the dtype's eps times
        the longer side. NumPy's name for it is `rcond`.
    hermitian : bool, default False
        The matrices are symmetric or Hermitian, and only the lower triangle is read.

    Returns
    -------
    Tensor
        New tensor of shape `(..., n, m)` and the dtype of `x`; integers and bools give float64.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or if `hermitian` matrices are not square.
    LinearAlgebraError
        If LAPACK does not converge, as with NaN.

    References
    ----------
    Array API 2025.12, `linalg.pinv`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.pinv(tx.asarray([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    x = as_matrices("pinv", x)
    inverse = _pseudo_inverse(as_lapack_dtype(x), _rtol_or_default(x, rtol), check_flag("hermitian", hermitian))
    return cast_to(inverse, result_dtype(x.dtype))


def _rtol_or_default(x: Tensor, rtol: Any) -> Any:
    """Return `rtol`, or the default for matrices like `x`: the dtype's eps times the longer side."""
    return max(x.shape[-2:]) * finfo(result_dtype(x.dtype)).eps if rtol is None else rtol


def _pseudo_inverse(x: Tensor, rtol: Any, hermitian: bool = False) -> Tensor:
    """Return the pseudo-inverses of the matrices `x`, with singular values up to `rtol` times the largest counted as 0.

    `rtol` is a number, a number for each matrix, or None for the default. If `hermitian`, only the lower triangle is read. The derivative
    assumes constant rank. Its formula does not use singular vectors, so equal singular values are allowed.
    """

    def call(x: Tensor, rtol: Any) -> Tensor:
        u, s, vh = svd(x, full_matrices=False, hermitian=hermitian)
        scaled_v = vh.mT.conj() * invert_above(s, singular_value_cutoff(s, x, rtol)).expand_dims(-2)
        inverse: Tensor = scaled_v @ u.mT.conj()
        return inverse

    def backward(g: Any, inverse: Any, x: Any, rtol: Any) -> tuple[Any, None]:
        from .derivatives import pseudo_inverse

        return pseudo_inverse(g, inverse, x, hermitian), None

    if x.node.tape_node is None:
        return call(x, rtol)
    from ..api.custom_derivatives import custom_derivative

    return custom_derivative(call, backward)(x, rtol)


def singular_value_cutoff(singular_values: Tensor, x: Tensor, rtol: Any) -> Tensor:
    """Return the bound up to which singular values count as 0: `rtol` times the largest, with a last axis of size 1.

    `singular_values` are the singular values of `x`, descending. `rtol` is a number, or a tensor with one for each matrix. If None, the
    dtype's eps times the longer side of `x` is used.
    """
    rtol = _rtol_or_default(x, rtol)
    factor: Any = rtol if isinstance(rtol, (int, float)) else cast_to(asarray(rtol), singular_values.dtype).expand_dims(-1)
    largest = singular_values[..., :1] if singular_values.shape[-1] else singular_values.sum(-1, keepdims=True)
    bound: Tensor = largest * factor
    return bound


def invert_above(values: Tensor, threshold: Tensor) -> Tensor:
    """Return `1 / values`, with 0 for each value of at most `threshold`."""
    is_large = values > threshold
    return Tensor._compute(OPS["where"], is_large, 1 / Tensor._compute(OPS["where"], is_large, values, 1.0), 0.0)


@memoized_call
@argument_aliases
def lstsq(a: Operand, b: Operand, /, *, rtol: Operand | None = None, rcond: Operand | None = None) -> LeastSquares:
    """Return the `x` with the least sum of squares of `a @ x - b`, the shortest if there are several.

    Parameters
    ----------
    a : Tensor
        Matrices of shape `(..., m, n)`.
    b : Tensor
        Right-hand sides of shape `(m,)` or `(..., m, k)`, as in `solve`.
    rtol : float or Tensor, optional
        Singular values up to `rtol` times the largest count as 0, as in `pinv`. NumPy's and PyTorch's name for it is `rcond`.

    Returns
    -------
    solution : Tensor
        New tensor of shape `(..., n)` or `(..., n, k)`.
    residuals : Tensor
        New real tensor of shape `(...)` or `(..., k)`: the remaining sum of squares for each right-hand side. Unlike in
        NumPy, it is never left out.
    rank : Tensor
        New int64 tensor of shape `(...)`: the rank of each matrix.
    singular_values : Tensor
        New real tensor of shape `(..., min(m, n))`, descending.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    LinearAlgebraError
        If LAPACK does not converge, as with NaN.

    References
    ----------
    NumPy's and PyTorch's `linalg.lstsq`.

    Examples
    --------
    >>> import tenxor as tx
    >>> fit = tx.linalg.lstsq(tx.asarray([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), tx.asarray([1.0, 3.0, 5.0]))
    >>> fit.solution.round().tolist(), fit.rank.item()
    ([1.0, 2.0], 2)
    """
    a = as_matrices("lstsq", a)
    matrix = a
    a, b, dtype = _prepare_system("lstsq", a, asarray(b))
    is_vector = b.ndim == 1
    columns = b.expand_dims(1) if is_vector else b
    if (
        a.size
        and columns.size
        and a.node.tape_node is None
        and columns.node.tape_node is None
        and (rtol is None or _is_constant_rtol(rtol))
    ):
        rcond = max(matrix.shape[-2:]) * finfo(dtype).eps if rtol is None else float(rtol)  # type: ignore[arg-type]
        outputs = call_host_op(
            "lstsq_wide" if a.shape[-2] < a.shape[-1] else "lstsq", a, columns, sizes={"p": min(a.shape[-2:])}, rcond=rcond
        )
        solution, residuals, rank, s = (cast_to(t, d) for t, d in zip(outputs, (dtype, dtype.part, int64, dtype.part), strict=True))
        return (
            LeastSquares(solution.squeeze(-1), residuals.squeeze(-1), rank, s) if is_vector else LeastSquares(solution, residuals, rank, s)
        )
    factor = _rtol_or_default(cast_to(matrix, dtype), rtol)
    solution, s = _pseudo_inverse(a, factor) @ columns, svdvals(a)
    threshold = singular_value_cutoff(s, a, factor)
    deviations = a @ solution - columns
    residuals = (deviations * deviations.conj()).real.sum(-2) if deviations.dtype.is_complex else deviations.square().sum(-2)
    solution, residuals = cast_to(solution, dtype), cast_to(residuals, dtype.part)
    rank, s = (s > threshold).count_nonzero(-1), cast_to(s, dtype.part)
    return LeastSquares(solution.squeeze(-1), residuals.squeeze(-1), rank, s) if is_vector else LeastSquares(solution, residuals, rank, s)


def _is_constant_rtol(rtol: Any) -> bool:
    """Return whether `rtol` is a Python number of 0 or more, the same for every matrix."""
    return isinstance(rtol, (int, float)) and rtol >= 0


def tensorinv(a: Operand, /, ind: int = 2) -> Tensor:
    """Return the inverse of a tensor as a linear map.

    Parameters
    ----------
    a : Tensor
        The first `ind` axes, merged, are the rows of a matrix, and the remaining axes its columns.
    ind : int, default 2
        Number of leading axes of `a` that are rows, 1 or more.

    Returns
    -------
    Tensor
        New tensor of shape `a.shape[ind:] + a.shape[:ind]`.

    Raises
    ------
    ShapeError
        If the matrix is not square.
    ArgumentError
        If `a` has fewer than `ind` axes, or `ind` is less than 1.
    LinearAlgebraError
        If the matrix is singular.

    References
    ----------
    NumPy's and PyTorch's `linalg.tensorinv`.

    Examples
    --------
    >>> import tenxor as tx
    >>> a = tx.eye(24).reshape(4, 6, 8, 3)
    >>> tx.linalg.tensorinv(a).shape
    (8, 3, 4, 6)
    """
    a = asarray(a)
    count = validate_int("tensorinv", "ind", ind)
    if not 0 < count <= a.ndim:
        raise ArgumentError(f"tensorinv: ind is {ind}; it must be from 1 to {a.ndim}, the number of axes of shape {a.shape}")
    rows, columns = a.shape[:count], a.shape[count:]
    if prod(rows) != prod(columns):
        raise MatrixShapeError(
            f"tensorinv: the first {count} axes of shape {a.shape} have {prod(rows)} elements, the others {prod(columns)};"
            " they must be equal"
        )
    return inv(a.reshape(prod(rows), prod(columns))).reshape(*columns, *rows)


@argument_aliases
def tensorsolve(a: Operand, b: Operand, /, axes: Sequence[int] | None = None, *, dims: Sequence[int] | None = None) -> Tensor:
    """Return the solution `x` of `tensordot(a, x, x.ndim) == b`.

    Parameters
    ----------
    a : Tensor
        Coefficients of shape `b.shape + x.shape`, after `axes` are moved.
    b : Tensor
        Right-hand sides.
    axes : Sequence[int], optional
        Axes of `a` that are moved to the end first, in this order. PyTorch's `dims` is an alias.

    Returns
    -------
    Tensor
        New tensor of shape `a.shape[b.ndim:]`.

    Raises
    ------
    ShapeError
        If the sizes do not fit.
    AxisError
        If `a` has no such axis.
    LinearAlgebraError
        If the equations have no unique solution.

    References
    ----------
    NumPy's and PyTorch's `linalg.tensorsolve`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.tensorsolve(tx.eye(6).reshape(2, 3, 6) * 2.0, tx.ones((2, 3))).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    a, b = asarray(a), asarray(b)
    if axes is not None:
        moved_axes = [normalize_axis("tensorsolve", k, a.ndim) for k in parse_ints("tensorsolve", "axes", (axes,))]
        a = a.permute([k for k in range(a.ndim) if k not in moved_axes] + moved_axes)
    unknown = a.shape[b.ndim :]
    if a.size != prod(unknown) ** 2 or b.size != prod(unknown):
        raise MatrixShapeError(
            f"tensorsolve: a {a.shape} and b {b.shape} do not fit: {b.size} equations for {prod(unknown)} unknowns of shape {unknown};"
            f" both numbers must be equal, and a must have their product of elements"
        )
    return solve(a.reshape(b.size, prod(unknown)), b.ravel()).reshape(unknown)


def solve_triangular(a: Operand, b: Operand, /, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Return the solution `x` of `a @ x == b` for triangular matrices `a`.

    Parameters
    ----------
    a : Tensor
        Matrices of shape `(..., n, n)`. Only the `upper` or the lower triangle is read.
    b : Tensor
        Right-hand sides, with shapes and dtypes as in `solve`. A tensor of one axis is one right-hand side.
    upper : bool
        Read the upper triangle; False reads the lower one.
    left : bool, default True
        False solves `x @ a == b`.
    unitriangular : bool, default False
        Count the diagonal as ones.

    Returns
    -------
    Tensor
        New tensor, with a shape as in `solve`.

    Raises
    ------
    ShapeError
        If the matrices are not square, or the shapes do not fit.
    LinearAlgebraError
        If the diagonal has a 0, unless `unitriangular`.

    References
    ----------
    PyTorch's `linalg.solve_triangular`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.solve_triangular(tx.asarray([[2.0, 1.0], [7.0, 4.0]]), tx.asarray([4.0, 8.0]), upper=True).tolist()
    [1.0, 2.0]
    """
    a, b = as_square_matrices("solve_triangular", a), asarray(b)
    upper = check_flag("upper", upper)
    if not check_flag("left", left):
        if b.ndim < 2:
            return solve_triangular(a.mT, b, upper=not upper, unitriangular=unitriangular)
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    a, b, dtype = _prepare_system("solve_triangular", a, b)
    if b.ndim == 1:
        columns = solve_triangular(a, b.expand_dims(1), upper=upper, unitriangular=unitriangular)
        return cast_to(columns.squeeze(-1), dtype)
    if not upper:  # reversed, the matrix is upper triangular, and LAPACK then solves it without exchanging rows
        a, b = a.flip((-2, -1)), b.flip(-2)
    solution = _back_substitute(a, b, check_flag("unitriangular", unitriangular))
    return cast_to(solution if upper else solution.flip(-2), dtype)


def _back_substitute(a: Tensor, b: Tensor, unit_diagonal: bool) -> Tensor:
    """Return the solution `x` of `a @ x == b` for upper triangular matrices `a`, computed block by block from the last rows on.

    `b` has a column for each right-hand side. Each block of the solution is substituted into the equations above. With `unit_diagonal` the
    diagonal counts as ones. Raise ShapeError if the batches do not broadcast, and LinearAlgebraError for a 0 on the diagonal.
    """
    size = a.shape[-1]
    try:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ShapeError as error:
        raise ShapeError(f"solve_triangular: shapes {a.shape} and {b.shape} do not fit: before the last axes, {error.fact}") from None
    x = b.expand((*batch, *b.shape[-2:])).copy()
    for end in range(size, 0, -BLOCK_ROWS):
        begin = max(0, end - BLOCK_ROWS)
        block = a[..., begin:end, begin:end]
        block = triu(block, k=1) + eye(end - begin, dtype=a.dtype) if unit_diagonal else triu(block)
        block_solution = call_host_op("solve_triangular", block, x[..., begin:end, :])[0]
        x[..., begin:end, :] = block_solution
        x[..., :begin, :] -= a[..., :begin, begin:end] @ block_solution
    return x
