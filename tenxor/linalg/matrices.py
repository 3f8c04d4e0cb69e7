"""Functions of matrices and vectors by products or elimination: determinants, traces, powers and exponentials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..creation import asarray, eye, zeros_like
from ..dtypes import DTypeLike, promote
from ..errors import ArgumentError, DTypeError, ShapeError, described
from ..functions.contraction import einsum
from ..functions.hosted import of_members
from ..functions.into import as_dtype, into
from ..functions.joining import concat
from ..keywords import spelled
from ..layout.coords import axis_number, checked_int
from ..ops import OPS
from ..records import NamedTuple
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import ZERO
from ..tensor.contraction import paired_axes
from ..tensor.core import Operand
from .arguments import computed, matrices, result_of, square
from .lapack import hosted
from .solving import inv


class SignLog(NamedTuple):
    """The `sign` of each determinant, and the logarithm `logabsdet` of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


@called_again
def det(x: Operand, /) -> Tensor:
    """New tensor of shape `(...)`: the determinant of each square matrix, 1 for a matrix without elements. Raises ShapeError.

    If a determinant may overflow or underflow, use `slogdet`. (Array API 2025.12, `linalg.det`.)

    >>> import tenxor as tx
    >>> tx.linalg.det(tx.asarray([[2.0, 0.0], [1.0, 4.0]])).round().item()
    8.0
    """
    x = square("det", x)
    return as_dtype(hosted("det", computed(x))[0], result_of(x.dtype))


@called_again
def slogdet(x: Operand, /) -> SignLog:
    """New tensors of shape `(...)`, as `sign` and `logabsdet`: the determinant of each square matrix is `sign * exp(logabsdet)`.

    The sign is 1, -1 or 0, or for complex matrices a number of absolute value 1 or 0. The logarithm is real, and -inf if the determinant is
    0. Raises ShapeError. (Array API 2025.12, `linalg.slogdet`.)

    >>> import tenxor as tx
    >>> tx.linalg.slogdet(tx.eye(3) * -1e200).sign.item()
    -1.0
    """
    x = square("slogdet", x)
    sign, log_magnitude = hosted("slogdet", computed(x))
    dtype = result_of(x.dtype)
    return SignLog(as_dtype(sign, dtype), as_dtype(log_magnitude, dtype.part))


def diagonal(x: Operand, /, *, offset: int = ZERO) -> Tensor:
    """View of the diagonal of each matrix, as the last axis of the result, `offset` columns to the right of the main one.

    Raises ShapeError. (Array API 2025.12, `linalg.diagonal`; `tx.diagonal` takes any two axes.)

    >>> import tenxor as tx
    >>> tx.linalg.diagonal(tx.arange(6).reshape(2, 3), offset=1).tolist()
    [1, 5]
    """
    diagonals: Tensor = matrices("diagonal", x).diagonal(offset, -2, -1)
    return diagonals


@called_again
def trace(x: Operand, /, *, offset: int = ZERO, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """New tensor of shape `(...)`: the sum of the diagonal of each matrix, `offset` columns to the right of the main one.

    Integers are summed in 64 bits, unless a dtype is given. With `out` the result is written into that tensor, which is returned. Raises
    ShapeError. (Array API 2025.12, `linalg.trace`.)

    >>> import tenxor as tx
    >>> tx.linalg.trace(tx.asarray([[1, 2], [3, 4]])).item()
    5
    """
    traces: Tensor = matrices("trace", x).diagonal(offset, -2, -1).sum(-1, dtype)
    return into("trace", out, traces)


@called_again
@spelled
def cross(x1: Operand, x2: Operand, /, *, axis: int = -1, dim: int | None = None) -> Tensor:
    """New tensor: the cross products of vectors of 3 elements along `axis`; the other axes broadcast.

    The axis refers to each tensor separately, so a negative axis is the same for both. Numeric dtypes promote. Raises ShapeError, AxisError
    and DTypeError. (Array API 2025.12, `linalg.cross`.)

    >>> import tenxor as tx
    >>> tx.linalg.cross(tx.asarray([1, 0, 0]), tx.asarray([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    axis = axis_number(axis, "cross")
    a, b = asarray(x1), asarray(x2)
    if promote(a.dtype, b.dtype, "cross").kind == "bool":
        raise DTypeError("cross: does not accept bool; use x.astype(tx.int64)")
    (a_axis,), (b_axis,) = paired_axes("cross", "first", a.shape, (axis,)), paired_axes("cross", "second", b.shape, (axis,))
    for t, t_axis in ((a, a_axis), (b, b_axis)):
        if t.shape[t_axis] != 3:
            raise ShapeError(
                f"cross: axis {axis} of shape {t.shape} has size {t.shape[t_axis]}; a cross product is of vectors of 3 elements"
            )
    a, b = a.moveaxis(a_axis, -1), b.moveaxis(b_axis, -1)
    shifted_1, shifted_2 = [1, 2, 0], [2, 0, 1]
    products: Tensor = a.oindex[..., shifted_1] * b.oindex[..., shifted_2] - a.oindex[..., shifted_2] * b.oindex[..., shifted_1]
    return products.moveaxis(-1, axis)


def matrix_power(x: Operand, n: int, /) -> Tensor:
    """New tensor of `x`'s shape: the product of `n` factors `x`; for a negative `n` the power of the inverse, and for 0 the identity.

    Integers keep their dtype for `n` from 0 on, and wrap around on overflow. Raises ShapeError, and LinearAlgebraError for the inverse of a
    singular matrix. (Array API 2025.12, `linalg.matrix_power`.)

    >>> import tenxor as tx
    >>> tx.linalg.matrix_power(tx.asarray([[1, 1], [1, 0]]), 10).tolist()
    [[89, 55], [55, 34]]
    """
    x, n = square("matrix_power", x), checked_int("matrix_power", "n", n)
    dtype = x.dtype if x.dtype.is_integer and n >= 0 else result_of(x.dtype)
    if n == 0:
        return eye(x.shape[-1], dtype=dtype).expand(x.shape).copy()
    factor = inv(computed(x)) if n < 0 else x if x.dtype.is_integer else computed(x)
    power = None
    for bit in bin(abs(n))[:1:-1]:  # from the lowest bit on
        if bit == "1":
            power = factor if power is None else power @ factor
        factor = factor @ factor
    assert power is not None
    return power.astype(dtype)


@spelled
def multi_dot(tensors: Sequence[Operand], /, *, out: Tensor | None = None) -> Tensor:
    """New tensor: the matrix product of a sequence of tensors, multiplied in the order with the fewest operations.

    The first and the last tensor may be 1-D. With `out` the result is written into that tensor, which is returned. Raises ShapeError and
    ArgumentError. (NumPy's and PyTorch's `linalg.multi_dot`.)

    >>> import tenxor as tx
    >>> tx.linalg.multi_dot([tx.ones((2, 3)), tx.ones((3, 4)), tx.ones(4)]).tolist()
    [12.0, 12.0]
    """
    try:
        factors = list(tensors)
    except TypeError:
        raise ArgumentError(f"multi_dot: takes a sequence of tensors, not {described(tensors)}") from None
    arrays = [asarray(t) for t in factors]
    if len(arrays) < 2:
        raise ArgumentError(f"multi_dot: a product has two or more factors, not {len(arrays)}")
    operands: list[Any] = []
    for k, t in enumerate(arrays):
        is_end = k in (0, len(arrays) - 1)
        if t.ndim != 2 and not (is_end and t.ndim == 1):
            raise ShapeError(f"multi_dot: factor {k} has shape {t.shape}; all are matrices, and the first and the last may be 1-D")
        operands += [t, [k, k + 1] if t.ndim == 2 else [1] if k == 0 else [k]]
    for k in range(len(arrays) - 1):
        if arrays[k].shape[-1] != arrays[k + 1].shape[0]:
            raise ShapeError(
                f"multi_dot: factors {k} and {k + 1} have shapes {arrays[k].shape} and {arrays[k + 1].shape}, which do not fit"
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
    """New tensor of `x`'s shape: the exponential of each square matrix, the sum of `x**k / k!`.

    A matrix is scaled by a power of two, its exponential is approximated, and the result is squared as often (Higham, The scaling and
    squaring method for the matrix exponential revisited, 2005). Raises ShapeError. (SciPy's `linalg.expm`, PyTorch's `linalg.matrix_exp`.)

    >>> import tenxor as tx
    >>> tx.linalg.expm(tx.zeros((2, 2))).round().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x = square("expm", x)
    a, dtype = computed(x), result_of(x.dtype)
    if a.node.traced:  # the number of squarings depends on values
        return as_dtype(_expm_of_batch(a), dtype)
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
    exponential = hosted("solve", even - odd, even + odd)[0]
    for k in range(int(halvings.max())):
        exponential = Tensor._compute(OPS["where"], (halvings > k).expand_dims((-2, -1)), exponential @ exponential, exponential)
    return as_dtype(exponential, dtype)


def _expm_of_batch(x: Tensor) -> Tensor:
    """Return matrix exponentials inside a function traced for a batch, as a single step of the backward pass.

    The directional derivative along a matrix is a corner of the exponential of a block matrix of both (Van Loan, Computing integrals
    involving the matrix exponential, 1978).
    """
    from ..functions.steps import custom_derivative

    def backward(gradient: Tensor, value: Tensor, x: Tensor) -> Tensor:
        adjoint, size = x.mT.conj(), x.shape[-1]
        upper, lower = concat([adjoint, gradient], axis=-1), concat([zeros_like(x), adjoint], axis=-1)
        return expm(concat([upper, lower], axis=-2))[..., :size, size:]

    exponential: Tensor = custom_derivative(lambda x: of_members("expm", expm, x), backward)(x)
    return exponential
