"""Contractions: a multiplication over pairs of indices and a sum, compiled to a single kernel (`lowering/match_contraction.py`). Loops
(`Loops`) are the layouts of both operands, broadcast to one shape, and the number of leading axes that are axes of the result. The
remaining axes are summed over.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, overload

from .._utils.cache_registry import register
from ..dtypes import DType, complex64, complex128, float32, float64, int32, int64, promote, uint32, uint64
from ..errors import AxisError, DTypeError, ShapeError, describe_value
from ..graph.node import Node, Recipe, intern_recipe, is_externally_shared
from ..graph.spec import memoized_call
from ..layout import Layout, LayoutKey, broadcast_shapes
from ..layout.layout_key import layout_keys
from ..ops import OPS
from ..ops.reductions import REDUCTIONS, Reduction
from ..runtime.realize import realize
from . import Tensor
from .argument_parsing import normalize_axis, write_out
from .core import ArrayLike, NonTensorArrayLike, TensorBase

__all__ = ["matmul"]

T = TypeVar("T", bound=TensorBase)
MAX_CACHED_LOOPS = 4096  # entries of a cache of loops, by pairs of layouts

Loops = tuple[Layout, Layout, int]  # two layouts of one shape, an axis for each loop, and how many loops are not summed over
Labels = Sequence[Hashable]  # a label for each axis; axes with one label are iterated together

_UNWIDENED_DTYPES = frozenset((float32, float64, complex64, complex128, int32, int64, uint32, uint64))
_MULTIPLY = OPS["multiply"]


@overload
def matmul(a: T, b: T | NonTensorArrayLike, *, out: T | None = None) -> T: ...
@overload
def matmul(a: NonTensorArrayLike, b: T, *, out: T | None = None) -> T: ...
@overload
def matmul(a: NonTensorArrayLike, b: NonTensorArrayLike, *, out: Any = None) -> Any: ...


@memoized_call
def matmul(a: ArrayLike, b: ArrayLike, *, out: Any = None) -> Any:
    """Return the matrix product over the last two axes, broadcast over the leading axes.

    Parameters
    ----------
    a : Tensor, array or sequence
        Matrices of shape `(..., m, k)`. A 1-D operand is a row.
    b : Tensor, array or sequence
        Matrices of shape `(..., k, n)`. A 1-D operand is a column.
    out : Tensor, optional
        Receives the result, and is returned. Must have the shape of the result, and a dtype that can hold it.

    Returns
    -------
    Tensor
        New tensor of shape `(..., m, n)`, without the axis of a 1-D operand, and of the promoted dtype. Integers wrap around at their
        width; float16 and bfloat16 are summed in float32; for bools the result is true if any product is true. With `out`, that tensor.

    Raises
    ------
    ShapeError
        If the shapes do not fit (the text names both shapes and the axis), if an operand is 0-d, or if `out` has another shape.
    DTypeError
        If an operand is a number, which has no axes, or if `out` is no tensor or of a dtype that cannot hold the result.

    Examples
    --------
    >>> import tenxor as tx
    >>> (tx.asarray([[1, 2, 3], [2, 4, 6]]) @ tx.asarray([[1, 4], [2, 5], [3, 6]])).tolist()
    [[14, 32], [28, 64]]
    """
    left, right = (a, b) if isinstance(a, TensorBase) and isinstance(b, TensorBase) else (_to_operand(a, "first"), _to_operand(b, "second"))
    dtype = left.dtype
    if dtype is not right.dtype or dtype not in _UNWIDENED_DTYPES:
        dtype = contraction_dtype("matmul", left, right)
        left, right = widen(left, dtype), widen(right, dtype)
    product = contract_over_loops(
        left, right, offset_loops(_build_matmul_loops(zero_offset_layout(left), zero_offset_layout(right)), left, right), dtype
    )
    return product if out is None else write_out("matmul", out, product)


# Type checkers use the overloads above; `inspect.signature` shows these annotations.
matmul.__annotations__.update({"out": f"{Tensor.__name__} | None", "return": Tensor.__name__})


def _to_operand(x: Any, name: str) -> Any:
    """Return `x`, the operand `name` of `matmul`, a tensor or array-like, as a tensor. Raise DTypeError for a Python number, which has no
    axes.
    """
    if isinstance(x, (bool, int, float, complex)):
        raise DTypeError(
            f"matmul: the {name} operand is the number {describe_value(x)}; it must be a tensor with at least 1 axis; use x * y"
        )
    return x if isinstance(x, TensorBase) else sys.modules["tenxor"].asarray(x)


def zero_offset_layout(t: TensorBase) -> Layout:
    """Return the layout of a tensor with offset 0. A cache key for loops, since they do not depend on the offset."""
    return t.spec.layout


def offset_loops(loops: Loops, a: TensorBase, b: TensorBase) -> Loops:
    """Return loops built for the layouts `zero_offset_layout(a)` and `zero_offset_layout(b)`, moved to the offsets of `a` and `b`."""
    left, right, kept_count = loops
    return _move_to_offset(left, a), _move_to_offset(right, b), kept_count


def _move_to_offset(layout: Layout, t: TensorBase) -> Layout:
    """Return `layout`, the layout of `t` but for its offset, moved to the offset of `t`. A view chain is returned unchanged."""
    return layout if t.spec.layout.base is not None else layout.at(t.offset)


@register("loops of matmul", "the loops of a contraction, by layouts")
@lru_cache(maxsize=MAX_CACHED_LOOPS)
def _build_matmul_loops(a: Layout, b: Layout) -> Loops:
    """Return the loops of a matrix product: batch axes, rows, columns, and the summed axis last.

    `a` and `b` are the layouts of the operands, with offset 0; a 1-D operand has no row or column axis. Raise ShapeError for a 0-d operand,
    and if the shapes do not fit.
    """
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}: a 0-d tensor has no axis to sum over; use x * y")
    row, column = a.ndim > 1, b.ndim > 1
    if a.shape[-1] != b.shape[-1 - column]:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit: axis -1 of the first has size {a.shape[-1]}, axis"
            f" {-1 - column} of the second {b.shape[-1 - column]}; they must be equal"
        )
    try:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ShapeError as error:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape} do not fit: before the last two axes, {error.fact}") from None
    left, right = a, b
    if column:
        left, right = left.expand_dims(left.ndim - 1), right.swapaxes(-2, -1)
    if row:
        right = right.expand_dims(right.ndim - 1 - column)
    shape = batch + a.shape[-2:-1] + (b.shape[-1:] if column else ()) + a.shape[-1:]
    return left.expand(shape), right.expand(shape), len(shape) - 1


def build_loops(a: Layout, a_labels: Labels, b: Layout, b_labels: Labels, kept_labels: Labels, summed_labels: Labels) -> Loops:
    """Return the loops over axes given by labels: the `kept_labels` axes in the order of the result, then the `summed_labels` axes.

    `a_labels` and `b_labels` have a label for each axis of `a` and `b`. Axes with equal labels are iterated together, and must have equal
    sizes.
    """
    sizes = dict(zip(a_labels, a.shape, strict=True)) | dict(zip(b_labels, b.shape, strict=True))
    loops = [*kept_labels, *summed_labels]
    shape = [sizes[label] for label in loops]
    return _arrange_for_loops(loops, a, a_labels, shape), _arrange_for_loops(loops, b, b_labels, shape), len(kept_labels)


def _arrange_for_loops(loops: Labels, layout: Layout, labels: Labels, shape: Sequence[int]) -> Layout:
    """Return `layout` with an axis for each label in `loops`, in order, of the sizes `shape`. `labels` has the labels of its own axes.

    The result is broadcast along loops for which `layout` has no axis.
    """
    axes = list(labels)
    permuted = layout.permute([axes.index(label) for label in loops if label in axes])
    return permuted.expand_dims([k for k, label in enumerate(loops) if label not in axes]).expand(shape)


@register("loops of tensordot", "the loops of a contraction, by layouts and axes")
@lru_cache(maxsize=MAX_CACHED_LOOPS)
def build_axis_loops(op: str, a: Layout, b: Layout, a_axes: tuple[int, ...], b_axes: tuple[int, ...], kept_pair_count: int = 0) -> Loops:
    """Return the loops that iterate `a_axes` of `a` together with the axes `b_axes` of `b`.

    The first `kept_pair_count` pairs of axes are kept; they come first in the result, before the free axes of `a` and then of `b`. The
    remaining pairs are summed over. Raise ShapeError if paired axes differ in size.
    """
    for i, j in zip(a_axes, b_axes, strict=True):
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"{op}: shapes {a.shape} and {b.shape} do not fit: axis {i} of the first has size {a.shape[i]}, axis {j} of the"
                f" second {b.shape[j]}; they must be equal"
            )
    a_labels = list(range(a.ndim))
    b_labels = [a_axes[b_axes.index(j)] if j in b_axes else a.ndim + j for j in range(b.ndim)]
    free_labels = [label for label in (*a_labels, *b_labels) if label not in a_axes]
    return build_loops(a, a_labels, b, b_labels, [*a_axes[:kept_pair_count], *free_labels], a_axes[kept_pair_count:])


def normalize_operand_axes(op: str, operand_name: str, shape: tuple[int, ...], axes: Sequence[Any]) -> tuple[int, ...]:
    """Return axes of an operand as non-negative numbers. An AxisError names the operand (`operand_name`) and its shape."""
    try:
        return tuple([normalize_axis(op, axis, len(shape)) for axis in axes])
    except AxisError as error:
        raise AxisError(f"{error}; the {operand_name} has shape {shape}") from None


def dot(a: Any, b: Any) -> Any:
    """Return a new tensor: `a * b` if an operand is a number or 0-d, else the sum over the last axis of `a` and the last but one of `b`."""
    if not (isinstance(a, TensorBase) and isinstance(b, TensorBase) and a.layout.shape and b.layout.shape):
        return a * b
    return contract_axes("dot", a, b, (a.ndim - 1,), (max(b.ndim - 2, 0),))


def contract_axes(op: str, a: Any, b: Any, a_axes: tuple[int, ...], b_axes: tuple[int, ...]) -> Any:
    """Return a new tensor: the products of two tensors, summed over `a_axes` of `a` together with the axes `b_axes` of `b`.

    The result has the free axes of `a`, then those of `b`, and the promoted dtype. The axes are non-negative numbers. Raise ShapeError,
    naming `op`, if paired axes differ in size, and DTypeError if the dtypes do not promote.
    """
    dtype = contraction_dtype(op, a, b)
    a, b = widen(a, dtype), widen(b, dtype)
    return contract_over_loops(
        a, b, offset_loops(build_axis_loops(op, zero_offset_layout(a), zero_offset_layout(b), a_axes, b_axes), a, b), dtype
    )


def contraction_dtype(op: str, a: TensorBase, b: TensorBase) -> DType:
    """Return the dtype of a sum of products of `a` and `b`: the promoted dtype. Bools give bool: the sum says whether a product is true.

    Raise DTypeError if the dtypes do not promote; the message names `op`.
    """
    return promote(a.dtype, b.dtype, op)


def widen(t: Any, dtype: DType) -> Any:
    """Return `t`, an operand of a contraction of `dtype`, cast to the dtype in which the products are summed, or `t` itself if it has this
    dtype.

    Narrow floats are summed in float32. Narrow integers are summed in 32 bits: the result is the same modulo 2 to the power of the narrow
    width. Bools are summed in float32: a sum is not 0 if any product is true.
    """
    if dtype.is_integer:
        wide = dtype if dtype.bits > 16 else uint32 if dtype.kind == "uint" else int32
    else:
        wide = float32 if dtype.kind == "bool" else dtype.compute_dtype
    return t if t.dtype is wide else t.astype(wide)


def product_sum_reduction(dtype: DType) -> Reduction:
    """Return the reduction that sums products of a dtype and keeps the dtype: integers are summed modulo 2 to the power of their width."""
    return REDUCTIONS["sum_in_width" if dtype.is_integer else "sum"]


@register("recipes of contractions", "the recipes of a product and its sum, by layout keys", depends_on=(layout_keys,))
@lru_cache(maxsize=MAX_CACHED_LOOPS)
def _build_recipes(left: LayoutKey, right: LayoutKey, kept_count: int, dtype: DType) -> tuple[Recipe, Recipe]:
    """Return the recipe of the products of two operands, and the recipe of the sum of the products.

    `left` and `right` are the keys of the operands' layouts over all loops. The axes after the first `kept_count` are summed over. `dtype`
    is the dtype of operands, products and sum.
    """
    shape, reduction = left.layout.shape, product_sum_reduction(dtype)
    products = intern_recipe(_MULTIPLY, shape, dtype, (dtype, dtype), (left, right))
    return products, intern_recipe(reduction, shape[:kept_count], dtype, (dtype,), (Layout.contiguous(shape).layout_key,))


def contract_over_loops(a: Any, b: Any, loops: Loops, dtype: DType) -> Any:
    """Return the sum, as `dtype`, of the products of two tensors of equal dtype over `loops`: the layouts of `a` and `b` over the loops,
    and the number of loops without summation.

    The result is pending, unless an operand is externally shared. Without summed loops, the products are returned.
    """
    left, right, kept_count = loops
    shape = left.shape
    if kept_count == len(shape):
        return a._from_node(Node.of(_MULTIPLY, shape, a.dtype, (a.node, b.node), (left, right))).astype(dtype, copy=False)
    left_node, right_node = a.node, b.node
    product_recipe, sum_recipe = _build_recipes(left.layout_key, right.layout_key, kept_count, a.dtype)
    products = Node(product_recipe, (left_node, right_node), (left.offset, right.offset))
    result = a._from_node(Node(sum_recipe, (products,), (0,)))
    # The externally shared memory may change before the result is evaluated
    if is_externally_shared(left_node) or is_externally_shared(right_node):
        realize(result.node)
    return result if result.dtype is dtype else result.astype(dtype)
