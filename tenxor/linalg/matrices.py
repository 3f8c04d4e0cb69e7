"""Functions of matrices and vectors by products or elimination: determinants, traces, powers and exponentials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._utils.aliases import argument_aliases
from .._utils.records import NamedTuple
from ..api.concatenation import concat
from ..api.creation import asarray, eye
from ..api.creation_like import zeros_like
from ..api.einsum import einsum
from ..api.host_calls import defer_to_batch
from ..api.output_arguments import cast_to, write_out
from ..dtypes import DTypeLike, promote
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..layout.coords import as_axis_int, validate_int
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import ZERO
from ..tensor.contraction import normalize_operand_axes
from ..tensor.core import Operand
from .arguments import as_lapack_dtype, as_matrices, as_square_matrices, result_dtype
from .register_vjps import call_host_op
from .solving import inv


class SignLog(NamedTuple):
    """The `sign` of each determinant, and the logarithm `logabsdet` of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


@memoized_call
def det(x: Operand, /) -> Tensor:
    """Return the determinant of each square matrix.

    If a determinant may overflow or underflow, use `slogdet`.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., n, n)`.

    Returns
    -------
    Tensor
        New tensor of shape `(...)` and the dtype of `x`; integers and bools give float64. A matrix without elements has the determinant 1.

    Raises
    ------
    ShapeError
        If the matrices are not square.

    References
    ----------
    Array API 2025.12, `linalg.det`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.det(tx.asarray([[2.0, 0.0], [1.0, 4.0]])).round().item()
    8.0
    """
    x = as_square_matrices("det", x)
    return cast_to(call_host_op("det", as_lapack_dtype(x))[0], result_dtype(x.dtype))


@memoized_call
def slogdet(x: Operand, /) -> SignLog:
    """Return the sign of the determinant of each square matrix, and the logarithm of its absolute value.

    The determinant is `sign * exp(logabsdet)`.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., n, n)`.

    Returns
    -------
    sign : Tensor
        New tensor of shape `(...)`: 1, -1 or 0, or for complex matrices a number of absolute value 1 or 0.
    logabsdet : Tensor
        New real tensor of shape `(...)`: the logarithm, and -inf if the determinant is 0.

    Raises
    ------
    ShapeError
        If the matrices are not square.

    References
    ----------
    Array API 2025.12, `linalg.slogdet`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.slogdet(tx.eye(3) * -1e200).sign.item()
    -1.0
    """
    x = as_square_matrices("slogdet", x)
    sign, log_magnitude = call_host_op("slogdet", as_lapack_dtype(x))
    dtype = result_dtype(x.dtype)
    return SignLog(cast_to(sign, dtype), cast_to(log_magnitude, dtype.part))


def diagonal(x: Operand, /, *, offset: int = ZERO) -> Tensor:
    """Return a view of the diagonal of each matrix.

    `tx.diagonal` takes any two axes.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`.
    offset : int, default 0
        Columns to the right of the main diagonal; negative numbers are to the left.

    Returns
    -------
    Tensor
        View, with the diagonal as the last axis.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.

    References
    ----------
    Array API 2025.12, `linalg.diagonal`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.diagonal(tx.arange(6).reshape(2, 3), offset=1).tolist()
    [1, 5]
    """
    diagonals: Tensor = as_matrices("diagonal", x).diagonal(offset, -2, -1)
    return diagonals


@memoized_call
def trace(x: Operand, /, *, offset: int = ZERO, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the sum of the diagonal of each matrix.

    Parameters
    ----------
    x : Tensor
        Matrices of shape `(..., m, n)`.
    offset : int, default 0
        Columns to the right of the main diagonal; negative numbers are to the left.
    dtype : dtype, optional
        The dtype of the sum. By default integers are summed in 64 bits.
    out : Tensor, optional
        Receives the result, and is returned.

    Returns
    -------
    Tensor
        New tensor of shape `(...)`. With `out`, that tensor.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.

    References
    ----------
    Array API 2025.12, `linalg.trace`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.trace(tx.asarray([[1, 2], [3, 4]])).item()
    5
    """
    traces: Tensor = as_matrices("trace", x).diagonal(offset, -2, -1).sum(-1, dtype)
    return write_out("trace", out, traces)


@memoized_call
@argument_aliases
def cross(x1: Operand, x2: Operand, /, *, axis: int = -1, dim: int | None = None) -> Tensor:
    """Return the cross products of vectors of 3 elements.

    Parameters
    ----------
    x1, x2 : Tensor
        Any numeric dtypes that promote to one. The axes besides `axis` broadcast.
    axis : int, default -1
        The axis of the vectors, in each tensor separately. So a negative axis counts from the end of each. PyTorch's `dim` is an alias.

    Returns
    -------
    Tensor
        New tensor of the broadcast shape and the promoted dtype.

    Raises
    ------
    ShapeError
        If the axis of a tensor has another size than 3, or if the shapes do not broadcast.
    AxisError
        If there is no such axis.
    DTypeError
        If both dtypes are bool.

    References
    ----------
    Array API 2025.12, `linalg.cross`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.cross(tx.asarray([1, 0, 0]), tx.asarray([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    axis = as_axis_int(axis, "cross")
    a, b = asarray(x1), asarray(x2)
    if promote(a.dtype, b.dtype, "cross").kind == "bool":
        raise DTypeError("cross: x1 and x2 are bool; one of them must have numbers; use x1.astype(tx.int64)")
    (a_axis,), (b_axis,) = (
        normalize_operand_axes("cross", "first", a.shape, (axis,)),
        normalize_operand_axes("cross", "second", b.shape, (axis,)),
    )
    for name, t, t_axis in (("x1", a, a_axis), ("x2", b, b_axis)):
        if t.shape[t_axis] != 3:
            raise ShapeError(
                f"cross: axis {axis} of {name}, of shape {t.shape}, has size {t.shape[t_axis]}; it must be 3, as only vectors of 3"
                " numbers have a cross product"
            )
    a, b = a.moveaxis(a_axis, -1), b.moveaxis(b_axis, -1)
    shifted_1, shifted_2 = [1, 2, 0], [2, 0, 1]
    products: Tensor = a.oindex[..., shifted_1] * b.oindex[..., shifted_2] - a.oindex[..., shifted_2] * b.oindex[..., shifted_1]
    return products.moveaxis(-1, axis)


def matrix_power(x: Operand, n: int, /) -> Tensor:
    """Return the product of `n` factors `x`.

    Parameters
    ----------
    x : Tensor
        Square matrices of shape `(..., m, m)`.
    n : int
        The number of factors. 0 gives the identity, and a negative number the power of the inverse.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`. Integers wrap around on overflow, and give float64 for a negative `n`. Bools give float64.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    LinearAlgebraError
        If `n` is negative and a matrix is singular.

    References
    ----------
    Array API 2025.12, `linalg.matrix_power`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.matrix_power(tx.asarray([[1, 1], [1, 0]]), 10).tolist()
    [[89, 55], [55, 34]]
    """
    x, n = as_square_matrices("matrix_power", x), validate_int("matrix_power", "n", n)
    dtype = x.dtype if x.dtype.is_integer and n >= 0 else result_dtype(x.dtype)
    if n == 0:
        return eye(x.shape[-1], dtype=dtype).expand(x.shape).copy()
    factor = inv(as_lapack_dtype(x)) if n < 0 else x if x.dtype.is_integer else as_lapack_dtype(x)
    power = None
    for bit in bin(abs(n))[:1:-1]:  # from the lowest bit on
        if bit == "1":
            power = factor if power is None else power @ factor
        factor = factor @ factor
    assert power is not None
    return power.astype(dtype)


@argument_aliases
def multi_dot(tensors: Sequence[Operand], /, *, out: Tensor | None = None) -> Tensor:
    """Return the matrix product of a sequence of tensors, multiplied in the order with the fewest operations.

    Parameters
    ----------
    tensors : Sequence[Tensor]
        Two or more matrices. The first and the last tensor may be 1-D.
    out : Tensor, optional
        Receives the result, and is returned.

    Returns
    -------
    Tensor
        New tensor. It has no axis for a first or last tensor that is 1-D. With `out`, that tensor.

    Raises
    ------
    ShapeError
        If a factor is no matrix, or two neighbours do not fit.
    ArgumentError
        If there are fewer than two factors.

    References
    ----------
    NumPy's and PyTorch's `linalg.multi_dot`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.multi_dot([tx.ones((2, 3)), tx.ones((3, 4)), tx.ones(4)]).tolist()
    [12.0, 12.0]
    """
    try:
        factors = list(tensors)
    except TypeError:
        raise ArgumentError(
            f"multi_dot: the argument must be a sequence of tensors, such as [a, b], not {describe_value(tensors)}"
        ) from None
    arrays = [asarray(t) for t in factors]
    if len(arrays) < 2:
        raise ArgumentError(f"multi_dot: there are {len(arrays)} tensors; there must be at least 2")
    operands: list[Any] = []
    for k, t in enumerate(arrays):
        is_end = k in (0, len(arrays) - 1)
        if t.ndim != 2 and not (is_end and t.ndim == 1):
            raise ShapeError(
                f"multi_dot: tensors[{k}] has shape {t.shape}; it must be a matrix, and only the first and the last tensor may be 1-D"
            )
        operands += [t, [k, k + 1] if t.ndim == 2 else [1] if k == 0 else [k]]
    for k in range(len(arrays) - 1):
        if arrays[k].shape[-1] != arrays[k + 1].shape[0]:
            raise ShapeError(
                f"multi_dot: tensors {k} and {k + 1} have shapes {arrays[k].shape} and {arrays[k + 1].shape}; the last size of one must"
                " equal the first of the next"
            )
    result_axes = [axis for axis, t in ((0, arrays[0]), (len(arrays), arrays[-1])) if t.ndim == 2]
    return einsum(*operands, result_axes, out=out)


# Coefficients of the numerator of the Padé approximant of order 13; the denominator has alternating signs (Higham 2005).
_PADE = (
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0),
    *(670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
)
_MAX_PADE_NORM = 5.371920351148152  # the 1-norm up to which the approximant is exact to float64


def expm(x: Operand, /) -> Tensor:
    """Return the exponential of each square matrix, the sum of `x**k / k!`.

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

    Notes
    -----
    A matrix is scaled by a power of two, its exponential is approximated, and the result is squared as often.

    References
    ----------
    Higham, The scaling and squaring method for the matrix exponential revisited, 2005. SciPy's `linalg.expm`, PyTorch's
    `linalg.matrix_exp`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.linalg.expm(tx.zeros((2, 2))).round().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x = as_square_matrices("expm", x)
    a, dtype = as_lapack_dtype(x), result_dtype(x.dtype)
    if a.node.is_traced:  # the number of squarings depends on values
        return cast_to(_expm_of_batch(a), dtype)
    if x.size == 0:
        return a.astype(dtype)
    norms = abs(a).sum(-2).max(-1)
    halvings = (norms / _MAX_PADE_NORM).log2().ceil().clip(0, None)
    halvings = Tensor._compute(OPS["where"], norms.isfinite(), halvings, 0.0)
    a = a * (2.0**-halvings).astype(a.dtype.part).expand_dims((-2, -1))
    unit = eye(a.shape[-1], dtype=a.dtype)
    c, a2 = _PADE, a @ a
    a4 = a2 @ a2
    a6 = a2 @ a4
    odd = a @ (a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * unit)
    even = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * unit
    exponential = call_host_op("solve", even - odd, even + odd)[0]
    for k in range(int(halvings.max())):
        exponential = Tensor._compute(OPS["where"], (halvings > k).expand_dims((-2, -1)), exponential @ exponential, exponential)
    return cast_to(exponential, dtype)


def _expm_of_batch(x: Tensor) -> Tensor:
    """Return the exponentials of the matrices `x` inside a function traced for a batch, as a single step of the backward pass.

    The directional derivative along a matrix is a corner of the exponential of a block matrix of both (Van Loan, Computing integrals
    involving the matrix exponential, 1978).
    """
    from ..api.custom_derivatives import custom_derivative

    def backward(gradient: Tensor, value: Tensor, x: Tensor) -> Tensor:
        adjoint, size = x.mT.conj(), x.shape[-1]
        upper, lower = concat([adjoint, gradient], axis=-1), concat([zeros_like(x), adjoint], axis=-1)
        return expm(concat([upper, lower], axis=-2))[..., :size, size:]

    exponential: Tensor = custom_derivative(lambda x: defer_to_batch("expm", expm, x), backward)(x)
    return exponential
