"""Selection of elements by indices, and search for the indices of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.aliases import argument_aliases
from ..dtypes import DType, complex128, int64, promote_weak, result_type, to_plain_number, uint64
from ..errors import OutOfBounds
from ..graph.spec import memoized_call
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, normalize_axis
from ..tensor.core import Operand
from .creation import asarray

__all__ = ["argwhere", "gather", "index_select", "isin", "nonzero", "take", "take_along_axis", "take_along_dim"]

MAX_COMPARED_VALUES = 16  # values up to which all are compared with each element; NumPy sorts more values first
_WIDE_INTEGERS = (int64, uint64)  # dtypes that no float dtype can represent exactly


@memoized_call
@argument_aliases
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
    """Return the elements of `x` at some indices along an axis, as a new tensor.

    Parameters
    ----------
    x : Tensor
    indices : int Tensor, int or nested lists of int
        Negative indices count from the end. Their shape replaces the axis in the result.
    axis : int, optional
        By default `x` is flattened first. `dim` is another name of `axis`.
    mode : "raise", "wrap" or "clip", default "raise"
        Handling of indices out of range: "raise" raises IndexOutOfRange, "wrap" takes them modulo the size of the axis, "clip" takes the
        first element for negative indices and the last for indices too large.
    out : Tensor, optional
        Tensor that receives the result and is returned.

    Returns
    -------
    Tensor
        New tensor of the dtype of `x`. With `out`, `out` itself.

    Raises
    ------
    AxisError
        If `axis` does not exist.
    BadIndex
        If the indices are not integers.
    IndexOutOfRange
        With the axis and the index, if an index is out of range. If the indices are pending, or more than a few thousand, the error is
        raised when the elements are needed.

    References
    ----------
    NumPy, `take`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.take(tx.arange(12).reshape(3, 4), [2, 0], axis=0).tolist()
    [[8, 9, 10, 11], [0, 1, 2, 3]]
    """
    return asarray(x).take(indices, axis, mode=mode, out=out)


@memoized_call
@argument_aliases
def gather(x: Operand, /, axis: int | None = None, index: Operand | None = None, *, dim: int | None = None) -> Tensor:
    """Return elements of `x` along an axis, as a new tensor of the shape of `index`: `out[i][j] = x[i][index[i][j]]` for axis 1.

    Parameters
    ----------
    x : Tensor
        Any dtype, which the result has, too.
    axis : int
        The axis along which elements are selected. Must be given, like `index`. `dim` is another name of `axis`.
    index : int Tensor
        With as many axes as `x`, and perhaps shorter than `x` on axes other than `axis`. `index` is not broadcast; `tx.take_along_axis`
        broadcasts. Negative indices count from the end.

    Returns
    -------
    Tensor
        New tensor of the shape of `index` and the dtype of `x`.

    Raises
    ------
    ShapeError
        If `index` has another number of axes, or is longer than `x` on an axis other than `axis`.
    ArgumentError, AxisError
        If `axis` or `index` is missing, or if the axis does not exist.
    BadIndex, IndexOutOfRange
        For invalid indices, as in `tx.take`.

    References
    ----------
    PyTorch, `gather`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.gather(tx.asarray([[1, 2], [3, 4], [5, 6]]), 1, [[1, 0], [0, 0]]).tolist()
    [[2, 1], [3, 3]]
    """
    return asarray(x).gather(axis, index)


@memoized_call
@argument_aliases
def index_select(x: Operand, /, axis: int | None = None, index: Operand | None = None, *, dim: int | None = None) -> Tensor:
    """Return the slices at the indices of a 1-D `index` along an axis, as a new tensor.

    Parameters
    ----------
    x : Tensor
    axis : int
        The axis of the indices. Must be given, like `index`. `dim` is another name of `axis`.
    index : int Tensor
        0-d or 1-D. Negative indices count from the end. A single index leaves an axis of size 1.

    Returns
    -------
    Tensor
        New tensor of the dtype of `x`.

    Raises
    ------
    ArgumentError, ShapeError
        If `axis` or `index` is missing, or if `index` has several axes.
    AxisError, BadIndex, IndexOutOfRange
        As in `tx.take`.

    References
    ----------
    PyTorch, `index_select`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.index_select(tx.asarray([[1, 2], [3, 4]]), 0, [1]).tolist()
    [[3, 4]]
    """
    return asarray(x).index_select(axis, index)


@memoized_call
@argument_aliases
def take_along_dim(x: Operand, indices: Operand, /, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """Return elements of `x` along an axis, selected separately for each position of the other axes, as a new tensor.

    Parameters
    ----------
    x : Tensor
    indices : int Tensor
        As in `tx.take_along_axis`.
    axis : int, optional
        With None, the default, `x` and `indices` are flattened first. `dim` is another name of `axis`.

    Returns
    -------
    Tensor
        New tensor of the dtype of `x`.

    Raises
    ------
    AxisError, ShapeError, BadIndex, IndexOutOfRange
        As in `tx.take_along_axis`.

    Notes
    -----
    This is `tx.take_along_axis` under PyTorch's name and with PyTorch's default.

    Examples
    --------
    >>> import tenxor as tx
    >>> t = tx.asarray([[3, 1], [2, 9]])
    >>> tx.take_along_dim(t, [[3, 0]]).tolist(), tx.take_along_dim(t, [[1], [0]], dim=1).tolist()
    ([9, 3], [[1], [2]])
    """
    indices = Tensor._to_index_tensor("take_along_dim", indices)
    return take_along_axis(x, indices.ravel() if axis is None else indices, axis=axis)


@memoized_call
@argument_aliases
def take_along_axis(x: Operand, indices: Operand, /, axis: int | None = -1, *, dim: int | None = None) -> Tensor:
    """Return elements of `x` along an axis, selected separately for each position of the other axes, as a new tensor.

    Parameters
    ----------
    x : Tensor
    indices : int Tensor
        With as many axes as `x`; both broadcast on axes other than `axis`. Negative indices count from the end.
    axis : int or None, default -1
        With None, `x` is flattened in row-major order, and `indices` has one axis. `dim` is another name of `axis`.

    Returns
    -------
    Tensor
        New tensor of the broadcast shape, with the size of `indices` along the axis, and the dtype of `x`.

    Raises
    ------
    AxisError
        If `axis` does not exist.
    ShapeError
        With the shapes, if they do not fit.
    BadIndex, IndexOutOfRange
        For invalid indices, as in `tx.take`.

    Examples
    --------
    >>> import tenxor as tx
    >>> t = tx.asarray([[3, 1, 2], [9, 7, 8]])
    >>> tx.take_along_axis(t, t.argmax(axis=1, keepdims=True), axis=1).tolist()
    [[3], [9]]
    """
    x = asarray(x)
    x, axis = (x.ravel(), 0) if axis is None else (x, normalize_axis("take_along_axis", axis, x.ndim))
    return x._gather(x._select_along("take_along_axis", x.layout, indices, axis))


def nonzero(x: Operand, /) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not zero.

    Parameters
    ----------
    x : Tensor
        Any dtype, with one axis or more.

    Returns
    -------
    tuple of Tensor
        A new 1-D int64 tensor for each axis of `x`. The elements are in row-major order.

    Raises
    ------
    ShapeError
        If `x` is 0-d.

    Examples
    --------
    >>> import tenxor as tx
    >>> [i.tolist() for i in tx.nonzero(tx.asarray([[0, 1], [2, 0]]))]
    [[0, 1], [1, 0]]
    """
    return asarray(x).nonzero()


def argwhere(x: Operand, /) -> Tensor:
    """Return the indices of the elements that are not zero, a row for each, as a new int64 tensor of shape `(count, ndim)`.

    Parameters
    ----------
    x : Tensor
        Any dtype and shape. The elements are in row-major order.

    Returns
    -------
    Tensor
        New int64 tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.argwhere(tx.asarray([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    return asarray(np.argwhere(asarray(x).to_numpy()))


def isin(x1: Operand, x2: Operand, /, *, invert: bool = False) -> Tensor:
    """Return whether each element equals any element of `x2`, or none if `invert`, as a new bool tensor of the shape of `x1`.

    Parameters
    ----------
    x1 : Tensor or number
        Elements to look up.
    x2 : Tensor, number or nested lists of numbers
        Elements that are compared, of any shape.
    invert : bool, default False
        If True, the result is inverted: true for elements of `x1` that equal no element of `x2`.

    Returns
    -------
    Tensor
        New bool tensor of the shape of `x1`.

    Raises
    ------
    DTypeError
        If an operand does not consist of numbers.

    Notes
    -----
    Numbers of different dtypes are equal if their exact values are. A Python float first takes the float dtype of the other operand, as in
    `x1 == x2`. NaN equals nothing.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.isin(tx.arange(5), [1, 3]).tolist()
    [False, True, False, True, False]
    """
    invert = check_flag("invert", invert)
    elements, values = _as_operand(x1, x2), _as_operand(x2, x1).ravel()
    values = _keep_comparable(values, elements.dtype)
    if values.size > MAX_COMPARED_VALUES:
        common = result_type(elements, values)
        element_array, value_array = (t.astype(common, copy=False).to_numpy() for t in (elements, values))
        return asarray(np.isin(element_array, value_array, invert=invert))
    is_member: Tensor = (elements.expand_dims(elements.ndim) == values).any(-1)
    return is_member.logical_not() if invert else is_member


def _as_operand(x: Any, other_operand: Any) -> Tensor:
    """Return the operand `x` as a tensor. A Python float promotes with the dtype of `other_operand`; large integers become uint64."""
    if isinstance(x, (float, complex)) and hasattr(other_operand, "dtype"):
        return asarray(x, dtype=promote_weak(to_plain_number(x), asarray(other_operand).dtype))
    try:
        return asarray(x)
    except OutOfBounds:
        return asarray(x, dtype=uint64)


def _keep_comparable(values: Tensor, dtype: DType) -> Tensor:
    """Return the values that an element of `dtype` can equal, in a dtype in which the comparison with `dtype` is exact.

    If the dtypes promote to a dtype that represents both exactly, return `values` itself. Otherwise return only values representable in
    `dtype`, as a new 1-D tensor, computed now.
    """
    value_dtype = values.dtype
    if dtype in _WIDE_INTEGERS and (value_dtype.is_float or value_dtype.is_complex):
        complex_values = values.astype(complex128).to_numpy()
        reals = complex_values.real
        is_exact = (complex_values.imag == 0) & (np.trunc(reals) == reals) & (reals >= float(dtype.lowest)) & (reals < float(dtype.highest))
        return asarray(reals[is_exact].astype(dtype.numpy))
    if value_dtype in _WIDE_INTEGERS and (dtype.is_float or dtype.is_complex):
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
