"""Running maxima, minima and logarithms of sums, and division with remainder."""

from __future__ import annotations

from typing import Any

from ..creation import asarray
from ..dtypes import DEFAULT_FLOAT
from ..errors import ArgumentError
from ..keywords import spelled
from ..ops import OPS
from ..records import NamedTuple
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import axis_of
from ..tensor.core import Operand
from .elementwise import FUNCTIONS
from .hosted import has_past
from .into import as_dtype, into
from .selecting import take_along_axis

Pair = tuple[Tensor, Tensor]
__all__ = ["cummax", "cummin", "divmod", "fmod", "logcumsumexp"]


class Extremes(NamedTuple):
    """Running extrema: the `values`, and the `indices` along the axis where each occurs last so far."""

    values: Tensor
    indices: Tensor


@called_again
@spelled
def cummax(x: Operand, /, axis: int = -1, *, dim: int | None = None, out: Pair | None = None) -> Extremes:
    """Return the running maxima along an axis, `values`, and their int64 `indices`, as a pair of new tensors.

    Element `i` of `values` is the maximum of elements `0..i`, and that of `indices` its last position. From the first NaN on all values are
    NaN. `out`, a pair of tensors, receives the results and is returned. Raise AxisError, and DTypeError for complex
    numbers. (PyTorch's `cummax`; NumPy's `maximum.accumulate`.)

    >>> import tenxor as tx
    >>> found = tx.cummax(tx.asarray([1, 3, 2, 3]))
    >>> found.values.tolist(), found.indices.tolist()
    ([1, 3, 3, 3], [0, 1, 1, 3])
    """
    return Extremes(*_write_both("cummax", out, _extremes("max", "cummax", asarray(x), axis)))


@called_again
@spelled
def cummin(x: Operand, /, axis: int = -1, *, dim: int | None = None, out: Pair | None = None) -> Extremes:
    """Return the running minima along an axis, `values`, and their int64 `indices`, as a pair of new tensors.

    Element `i` of `values` is the minimum of elements `0..i`, and that of `indices` its last position. From the first NaN on all values are
    NaN. `out`, a pair of tensors, receives the results and is returned. Raise AxisError, and DTypeError for complex
    numbers. (PyTorch's `cummin`; NumPy's `minimum.accumulate`.)

    >>> import tenxor as tx
    >>> tx.cummin(tx.asarray([3, 1, 2])).values.tolist()
    [3, 1, 1]
    """
    return Extremes(*_write_both("cummin", out, _extremes("min", "cummin", asarray(x), axis)))


def _write_both(op: str, out: Any, results: Pair, mask: Any = None) -> Pair:
    """Return two results, written into the tensors of the pair `out` if given. `mask`, a bool tensor or None, restricts the write."""
    if out is None:
        return into(op, None, results[0], where=mask), results[1]
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise ArgumentError(f"{op}: returns two tensors; out must be a tuple of two")
    first_result, second_result = [x if to is None else into(op, to, x, where=mask) for to, x in zip(out, results, strict=True)]
    return first_result, second_result


def _extremes(name: str, op: str, x: Tensor, axis: int) -> Extremes:
    """Return the running extrema along `axis`. If derivatives are recorded for `x`, gather the values by the indices."""
    extremes = Extremes(*x.detach()._extremes(name, op, axis))
    return extremes._replace(values=take_along_axis(x, extremes.indices, axis=axis)) if has_past(x) else extremes


@spelled
def logcumsumexp(x: Operand, /, axis: int = -1, *, dim: int | None = None, out: Tensor | None = None) -> Tensor:
    """Return the running `log(sum(exp(x)))` along an axis, without overflow, as a new float tensor. Integers become float64.

    Element `i` is over elements `0..i`. `out`, if given, receives the result and is returned. Raise AxisError, and
    DTypeError for complex numbers. (PyTorch's `logcumsumexp`.)

    >>> import tenxor as tx
    >>> tx.logcumsumexp(tx.asarray([1000.0, 1000.0])).tolist()
    [1000.0, 1000.6931471805599]
    """
    x = asarray(x)
    axis_index = axis_of("logcumsumexp", axis, x.ndim)
    dtype = x.dtype if x.dtype.is_float or x.dtype.is_complex else DEFAULT_FLOAT
    return into("logcumsumexp", out, as_dtype(as_dtype(x, dtype.compute)._scan("logaddexp", "logcumsumexp", axis_index, None), dtype))


def divmod(x1: Operand, x2: Operand, /, *, out: Pair | None = None, where: Operand | None = None) -> Pair:
    """Return `floor_divide(x1, x2)` and `remainder(x1, x2)` as two new tensors.

    `out`, a pair of tensors, receives the results and is returned. `where`, a bool tensor, restricts the write to its true positions.
    (NumPy's `divmod`.)

    >>> import tenxor as tx
    >>> [t.tolist() for t in tx.divmod(tx.asarray([7, -7]), 3)]
    [[2, -3], [1, 2]]
    """
    return _write_both("divmod", out, (FUNCTIONS["floor_divide"](x1, x2), FUNCTIONS["remainder"](x1, x2)), where)


def fmod(x1: Operand, x2: Operand, /, *, out: Tensor | None = None, where: Operand | None = None) -> Tensor:
    """Return the remainder of the division of `x1` by `x2` rounded towards 0, exact, as C's `fmod`, as a new tensor.

    It has the sign of `x1`; that of `remainder` has the sign of `x2`. `out`, if given, receives the result and is returned. `where`, a bool
    tensor, restricts the write to its true positions. (NumPy's and PyTorch's `fmod`.)

    >>> import tenxor as tx
    >>> tx.fmod(tx.asarray([7, -7]), 3).tolist(), tx.remainder(tx.asarray([7, -7]), 3).tolist()
    ([1, -1], [1, 2])
    """
    remainder = FUNCTIONS["remainder"](x1, x2)
    a, b = (x if isinstance(x, Tensor) else asarray(x, dtype=remainder.dtype) for x in (x1, x2))
    if remainder.dtype.is_float:
        result = as_dtype(FUNCTIONS["remainder"](a, FUNCTIONS["copysign"](b, a)), remainder.dtype)
    else:
        needs_shift: Any = (remainder != 0) & ((a < 0) != (b < 0))
        result = Tensor._compute(OPS["where"], needs_shift, remainder - as_dtype(b, remainder.dtype), remainder)
    return into("fmod", out, result, where=where)
