"""Selection of elements by indices, and search for the indices of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..creation import asarray
from ..dtypes import DType, complex128, int64, plain_number, result_type, uint64, weak
from ..errors import OutOfBounds
from ..keywords import spelled
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import axis_of, truth
from ..tensor.core import Operand

__all__ = ["argwhere", "gather", "index_select", "isin", "nonzero", "take", "take_along_axis", "take_along_dim"]

MAX_COMPARED_VALUES = 16  # values up to which all are compared with each element; NumPy sorts more values first
_WIDE = (int64, uint64)  # dtypes that no float dtype can represent exactly


@called_again
@spelled
def take(
    x: Operand,
    indices: Operand,
    /,
    axis: int | None = None,
    *,
    dim: int | None = None,
    mode: str = "raise",
    out: Tensor | None = None,
) -> Tensor:
    """Return the elements of `x` at some indices along an axis, or of the flattened tensor for None, as a new tensor.

    The shape of `indices` replaces the axis in the result. Negative indices count from the end. Raise a BadIndex with an invalid index, or
    an IndexOutOfRange with the axis and the index. If the indices are pending, or more than a few thousand, IndexOutOfRange is raised when
    the elements are needed. With NumPy's `mode="wrap"`, indices wrap around the axis; with "clip", those out of range become the first or
    the last. `out`, if given, receives the result and is returned.

    >>> import tenxor as tx
    >>> tx.take(tx.arange(12).reshape(3, 4), [2, 0], axis=0).tolist()
    [[8, 9, 10, 11], [0, 1, 2, 3]]
    """
    return asarray(x).take(indices, axis, mode=mode, out=out)


@called_again
@spelled
def gather(x: Operand, /, axis: int | None = None, index: Operand | None = None, *, dim: int | None = None) -> Tensor:
    """Return elements of `x` along an axis, as a new tensor of the shape of `index`: `out[i][j] = x[i][index[i][j]]` for axis 1.

    `index` has as many axes as `x`. It may be shorter than `x` on axes other than `axis`. It is not broadcast; `tx.take_along_axis`
    broadcasts. Negative indices count from the end. Raise ShapeError; invalid indices raise the errors of `tx.take`. (PyTorch's `gather`.)

    >>> import tenxor as tx
    >>> tx.gather(tx.asarray([[1, 2], [3, 4], [5, 6]]), 1, [[1, 0], [0, 0]]).tolist()
    [[2, 1], [3, 3]]
    """
    return asarray(x).gather(axis, index)


@called_again
@spelled
def index_select(x: Operand, /, axis: int | None = None, index: Operand | None = None, *, dim: int | None = None) -> Tensor:
    """Return the slices of `x` at the indices of a 1-D `index` along an axis, as a new tensor.

    The result is `tx.take(x, index, axis=axis)`, except that a single index leaves an axis of size 1. Raise ShapeError for an index of
    several axes. (PyTorch's `index_select`.)

    >>> import tenxor as tx
    >>> tx.index_select(tx.asarray([[1, 2], [3, 4]]), 0, [1]).tolist()
    [[3, 4]]
    """
    return asarray(x).index_select(axis, index)


@called_again
@spelled
def take_along_dim(x: Operand, indices: Operand, /, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """Return `tx.take_along_axis(x, indices, axis)` under PyTorch's name and default, a new tensor. For None both are flattened.

    >>> import tenxor as tx
    >>> t = tx.asarray([[3, 1], [2, 9]])
    >>> tx.take_along_dim(t, [[3, 0]]).tolist(), tx.take_along_dim(t, [[1], [0]], dim=1).tolist()
    ([9, 3], [[1], [2]])
    """
    indices = Tensor._indices("take_along_dim", indices)
    return take_along_axis(x, indices.ravel() if axis is None else indices, axis=axis)


@called_again
@spelled
def take_along_axis(x: Operand, indices: Operand, /, axis: int | None = -1, *, dim: int | None = None) -> Tensor:
    """Return elements of `x` along an axis, as a new tensor. `indices` selects them separately for each position of the other axes.

    `indices` has as many axes as `x`; both broadcast on axes other than `axis`. Negative indices count from the end. With `axis` None, `x`
    is flattened in row-major order, and `indices` has one axis. Raise a ShapeError with the shapes that do not fit, or an IndexOutOfRange
    with the axis and the index, as in `take`.

    >>> import tenxor as tx
    >>> t = tx.asarray([[3, 1, 2], [9, 7, 8]])
    >>> tx.take_along_axis(t, t.argmax(axis=1, keepdims=True), axis=1).tolist()
    [[3], [9]]
    """
    x = asarray(x)
    x, axis = (x.ravel(), 0) if axis is None else (x, axis_of("take_along_axis", axis, x.ndim))
    return x._gather(x._select_along("take_along_axis", x.layout, indices, axis))


def nonzero(x: Operand, /) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not zero, in row-major order, as a tuple of new int64 tensors, one for each axis.

    Raise ShapeError for a 0-d tensor.

    >>> import tenxor as tx
    >>> [i.tolist() for i in tx.nonzero(tx.asarray([[0, 1], [2, 0]]))]
    [[0, 1], [1, 0]]
    """
    return asarray(x).nonzero()


def argwhere(x: Operand, /) -> Tensor:
    """Return the indices of the elements that are not zero, a row for each, as a new int64 tensor of shape `(count, ndim)`.

    >>> import tenxor as tx
    >>> tx.argwhere(tx.asarray([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    return asarray(np.argwhere(asarray(x).to_numpy()))


def isin(x1: Operand, x2: Operand, /, *, invert: bool = False) -> Tensor:
    """Return whether each element equals any element of `x2`, or none if `invert`, as a new bool tensor of `x1`'s shape.

    Numbers of different dtypes are equal if their exact values are. A Python float first takes the float dtype of the other operand, as in
    `x1 == x2`. NaN equals nothing.

    >>> import tenxor as tx
    >>> tx.isin(tx.arange(5), [1, 3]).tolist()
    [False, True, False, True, False]
    """
    invert = truth("isin", "invert", invert)
    elements, values = _as_operand(x1, x2), _as_operand(x2, x1).ravel()
    values = _keep_comparable(values, elements.dtype)
    if values.size > MAX_COMPARED_VALUES:
        common = result_type(elements, values)
        element_array, value_array = (t.astype(common, copy=False).to_numpy() for t in (elements, values))
        return asarray(np.isin(element_array, value_array, invert=invert))
    is_member: Tensor = (elements.expand_dims(elements.ndim) == values).any(-1)
    return is_member.logical_not() if invert else is_member


def _as_operand(x: Any, other_operand: Any) -> Tensor:
    """Return an operand as a tensor. A Python float promotes with the dtype of `other_operand`; large integers become uint64."""
    if isinstance(x, (float, complex)) and hasattr(other_operand, "dtype"):
        return asarray(x, dtype=weak(plain_number(x), asarray(other_operand).dtype))
    try:
        return asarray(x)
    except OutOfBounds:
        return asarray(x, dtype=uint64)


def _keep_comparable(values: Tensor, dtype: DType) -> Tensor:
    """Return the values equal to possible elements of `dtype`, in a dtype with an exact comparison.

    If the dtypes promote to a dtype that represents both exactly, every value is returned, otherwise only values representable in `dtype`.
    """
    value_dtype = values.dtype
    if dtype in _WIDE and (value_dtype.is_float or value_dtype.is_complex):
        complex_values = values.astype(complex128).to_numpy()
        reals = complex_values.real
        is_exact = (
            (complex_values.imag == 0) & (np.trunc(reals) == reals) & (reals >= float(dtype.lowest)) & (reals < float(dtype.highest))
        )
        return asarray(reals[is_exact].astype(dtype.numpy))
    if value_dtype in _WIDE and (dtype.is_float or dtype.is_complex):
        integers = values.to_numpy()
        floats = integers.astype(np.float64)
        inside = floats < float(value_dtype.highest)
        return asarray(floats[inside & (np.where(inside, floats, 0).astype(value_dtype.numpy) == integers)])
    if value_dtype is uint64 and dtype.kind == "int":
        integers = values.to_numpy()
        return asarray(integers[integers <= int64.highest].astype(np.int64))
    if value_dtype.kind == "int" and dtype is uint64:
        integers = values.to_numpy()
        return asarray(integers[integers >= 0].astype(np.uint64))
    return values
