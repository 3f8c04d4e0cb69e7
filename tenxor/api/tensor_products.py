"""Sums of products over axes given by number. Each is one kernel, without temporaries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .._utils.aliases import argument_aliases
from .._utils.cache_registry import register
from ..dtypes import promote
from ..errors import ArgumentError, AxisError, ShapeError, describe_value
from ..graph.spec import memoized_call
from ..layout import Layout, broadcast_shapes
from ..layout.coords import as_axis_int
from ..tensor import Tensor
from ..tensor.argument_parsing import parse_ints
from ..tensor.contraction import (
    MAX_CACHED_LOOPS,
    Loops,
    build_loops,
    contract_axes,
    contract_over_loops,
    contraction_dtype,
    normalize_operand_axes,
    offset_loops,
    widen,
    zero_offset_layout,
)
from ..tensor.contraction import dot as _dot
from ..tensor.core import Operand
from .creation import asarray
from .output_arguments import write_out

__all__ = ["dot", "inner", "outer", "tensordot", "vecdot"]

SumAxes = int | Sequence[int | Sequence[int]]  # how many axes are summed over, or which axes of each operand


@memoized_call
@argument_aliases
def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1, dim: int | None = None, out: Tensor | None = None) -> Tensor:
    """Return the products of two tensors summed along one axis, as a new tensor.

    Dtypes promote. Integers wrap around at their width; float16 and bfloat16 are summed in float32. (Array API 2025.12, `vecdot`.)

    Parameters
    ----------
    x1, x2 : Tensor
        Any dtype. Both have the axis in equal size; the other axes broadcast. Complex elements of `x1` are conjugated.
    axis : int, default -1
        Counted in each operand separately, so a negative axis counts from the end of each. PyTorch's `dim` is an alias.
    out : Tensor, optional
        A tensor that receives the result and is returned.

    Returns
    -------
    Tensor
        A new tensor, or `out`, of the promoted dtype. The shape is the broadcast shape of the other axes. For bools, the result tells
        whether any product is true.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        If the axis does not exist, if the shapes do not fit, or if the dtypes do not promote.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.vecdot(tx.asarray([[1, 2], [3, 4]]), tx.asarray([10, 1])).tolist()
    [12, 34]
    """
    axis = as_axis_int(axis, "vecdot")
    a, b = asarray(x1), asarray(x2)
    dtype = contraction_dtype("vecdot", a, b)
    if a.dtype.is_complex:
        a = a.conj()
    a, b = widen(a, dtype), widen(b, dtype)
    result: Tensor = contract_over_loops(
        a, b, offset_loops(_build_vecdot_loops(zero_offset_layout(a), zero_offset_layout(b), axis), a, b), dtype
    )
    return write_out("vecdot", out, result)


@register("loops of vecdot", "the loops of a contraction, by layouts")
@lru_cache(maxsize=MAX_CACHED_LOOPS)
def _build_vecdot_loops(a: Layout, b: Layout, axis: int) -> Loops:
    """Return the loops (`Loops`) of `vecdot` for the layouts of both operands, which have the offset 0. `axis` may be negative.

    The summed axis is last, after the broadcast remaining axes. Raise AxisError if `axis` does not exist, and ShapeError if the shapes do
    not fit.
    """
    (a_axis,), (b_axis,) = (
        normalize_operand_axes("vecdot", "first", a.shape, (axis,)),
        normalize_operand_axes("vecdot", "second", b.shape, (axis,)),
    )
    if a.shape[a_axis] != b.shape[b_axis]:
        raise ShapeError(
            f"vecdot: shapes {a.shape} and {b.shape} do not fit: axis {axis} has size {a.shape[a_axis]} in the first and"
            f" {b.shape[b_axis]} in the second; they must be equal"
        )
    left, right = a.moveaxis(a_axis, -1), b.moveaxis(b_axis, -1)
    try:
        shape = (*broadcast_shapes(left.shape[:-1], right.shape[:-1]), a.shape[a_axis])
    except ShapeError as error:
        raise ShapeError(f"vecdot: shapes {a.shape} and {b.shape} do not fit: without axis {axis}, {error.fact}") from None
    return left.expand(shape), right.expand(shape), len(shape) - 1


@memoized_call
@argument_aliases
def tensordot(x1: Operand, x2: Operand, /, axes: SumAxes = 2, *, dims: SumAxes | None = None) -> Tensor:
    """Return the products of two tensors summed over pairs of axes, as a new tensor with the other axes of `x1`, then those of `x2`.

    Dtypes promote. Integers wrap around at their width; float16 and bfloat16 are summed in float32. (Array API 2025.12, `tensordot`.)

    Parameters
    ----------
    x1, x2 : Tensor
        Any dtype.
    axes : int or pair of Sequence[int], default 2
        A number n, for the last n axes of `x1` and the first n of `x2` in order, or a pair of sequences with the axes of `x1` and of `x2`.
        Paired axes must have equal sizes. PyTorch's `dims` is an alias.

    Returns
    -------
    Tensor
        New tensor of the promoted dtype, with the other axes of `x1`, then those of `x2`.

    Raises
    ------
    ShapeError, AxisError, ArgumentError, DTypeError
        If sizes differ or n is too large, if an axis does not exist or is named twice, if `axes` has another form, or if the dtypes do not
        promote.

    Examples
    --------
    >>> import tenxor as tx
    >>> a, b = tx.ones((2, 3, 4)), tx.ones((4, 3, 5))
    >>> tx.tensordot(a, b, axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    a, b = asarray(x1), asarray(x2)
    if hasattr(axes, "__index__") and not getattr(axes, "ndim", 0):
        (count,) = parse_ints("tensordot", "axes", (axes,))
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: shapes {a.shape} and {b.shape}: axes is {count};"
                f" it must be a number from 0 to {min(a.ndim, b.ndim)} here, or a pair of sequences"
            )
        a_axes, b_axes = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    else:
        a_axes, b_axes = _parse_axes_pair(axes, a.shape, b.shape)
    result: Tensor = contract_axes("tensordot", a, b, a_axes, b_axes)
    return result


def _parse_axes_pair(axes: Any, *shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the axes of the first and of the second tensor, counted from the start. `axes` is a pair of axes or of sequences of axes.

    `shapes` are the shapes of both tensors. Raise ArgumentError if `axes` has another form, and AxisError for an axis that does not exist
    or is named twice.
    """
    try:
        left_axes, right_axes = axes
    except (TypeError, ValueError):
        raise ArgumentError(
            f"tensordot: axes must be a number, or a pair of sequences like ((1, 2), (1, 0)), not {describe_value(axes)}"
        ) from None
    axis_tuples = []
    for operand_axes, ordinal, shape in zip((left_axes, right_axes), ("first", "second"), shapes, strict=True):
        axis_numbers = normalize_operand_axes("tensordot", ordinal, shape, parse_ints("tensordot", "axes", (operand_axes,)))
        if len(set(axis_numbers)) < len(axis_numbers):
            raise AxisError(f"tensordot: axes {describe_value(operand_axes)} name one axis twice; name each axis once")
        axis_tuples.append(axis_numbers)
    if len(axis_tuples[0]) != len(axis_tuples[1]):
        raise ArgumentError(
            f"tensordot: axes {describe_value(left_axes)} and {describe_value(right_axes)} are {len(axis_tuples[0])} of the first tensor"
            f" and {len(axis_tuples[1])} of the second;"
            " both must name equally many"
        )
    return axis_tuples


@memoized_call
def dot(a: Operand, b: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the products summed over the last axis of `a` and the last but one of `b` (the only one if 1-D), as a new tensor.

    For matrices the result is `a @ b`. A number or a 0-d tensor multiplies each element. (NumPy's `dot`.)

    Parameters
    ----------
    a, b : Tensor or number
        Any dtype. The summed axes have equal sizes. Dtypes promote as in `vecdot`, but complex elements are not conjugated.
    out : Tensor, optional
        A tensor that receives the result and is returned.

    Returns
    -------
    Tensor
        A new tensor, or `out`, with the other axes of `a`, then those of `b`.

    Raises
    ------
    ShapeError
        If the summed axes have different sizes, or if `out` has another shape.
    DTypeError
        If the dtypes do not promote, or if the dtype of `out` cannot hold the result.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.dot(tx.asarray([1, 2, 3]), tx.asarray([4, 5, 6])).item()
    32
    """
    result: Tensor = _dot(asarray(a), asarray(b))
    return write_out("dot", out, result)


@memoized_call
def inner(a: Operand, b: Operand, /) -> Tensor:
    """Return the products summed over the last axis of both, as a new tensor with the other axes of `a`, then those of `b`.

    A number or a 0-d tensor multiplies each element. (NumPy's `inner`.)

    Parameters
    ----------
    a, b : Tensor or number
        Any dtype. The last axes have equal sizes. Dtypes promote as in `vecdot`, but complex elements are not conjugated.

    Returns
    -------
    Tensor
        A new tensor with the other axes of `a`, then those of `b`.

    Raises
    ------
    ShapeError
        If the last axes have different sizes.
    DTypeError
        If the dtypes do not promote.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.inner(tx.asarray([[1, 2], [3, 4]]), tx.asarray([10, 1])).tolist()
    [12, 34]
    """
    a, b = asarray(a), asarray(b)
    if not (a.ndim and b.ndim):
        return a * b
    result: Tensor = contract_axes("inner", a, b, (a.ndim - 1,), (b.ndim - 1,))
    return result


@memoized_call
def outer(a: Operand, b: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return each element of `a` times each of `b`, both flattened in row-major order, as a new 2-D tensor. (NumPy's `outer`.)

    Parameters
    ----------
    a, b : Tensor or number
        Any dtype and shape. Dtypes promote. Bools are combined by "and".
    out : Tensor, optional
        A tensor that receives the result and is returned.

    Returns
    -------
    Tensor
        A new tensor, or `out`, of shape (a.size, b.size).

    Raises
    ------
    DTypeError
        If the dtypes do not promote, or if the dtype of `out` cannot hold the result.
    ShapeError
        If `out` has another shape.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.outer(tx.asarray([1, 2, 3]), tx.asarray([10, 1])).tolist()
    [[10, 1], [20, 2], [30, 3]]
    """
    left, right = asarray(a), asarray(b)
    dtype = promote(left.dtype, right.dtype, "outer")
    left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
    result: Tensor = contract_over_loops(left, right, _build_outer_loops(left.layout, right.layout), dtype)
    return write_out("outer", out, result)


@register("loops of outer", "the loops of an outer product, by layouts")
@lru_cache(maxsize=MAX_CACHED_LOOPS)
def _build_outer_loops(a: Layout, b: Layout) -> Loops:
    """Return the loops (`Loops`) of `outer` for the layouts of both operands, which are flattened: two loops without a sum."""
    return build_loops(a.reshape((a.size,)), (0,), b.reshape((b.size,)), (1,), (0, 1), ())
