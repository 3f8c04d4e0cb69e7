"""Sums of products over axes given by number or by letter. With two operands each is one kernel, without temporaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .._utils.aliases import argument_aliases
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..dtypes import DType, DTypeLike, boolean, promote
from ..errors import ArgumentError, AxisError, ShapeError, describe_value
from ..graph.reduction_limits import MIN_FULL_SIZES
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
    product_sum_reduction,
    widen,
    zero_offset_layout,
)
from ..tensor.contraction import dot as _dot
from ..tensor.core import Operand
from .creation import asarray
from .einsum_subscripts import LETTERS, Label, Labels, parse_interleaved, parse_subscripts
from .output_arguments import cast_operands, write_out

__all__ = ["dot", "einsum", "einsum_path", "inner", "outer", "tensordot", "vecdot"]

SumAxes = int | Sequence[int | Sequence[int]]  # how many axes are summed over, or which axes of each operand
OptimizeOption = bool | str | tuple[tuple[int, ...], ...]  # the search strategy, or the operands to multiply in each step
MAX_EXHAUSTIVE_TERMS = 5  # operands up to which all orders of multiplication are compared


# --- by number --------------------------------------------------------------------------------------------------------


@memoized_call
@argument_aliases
def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1, dim: int | None = None, out: Tensor | None = None) -> Tensor:
    """Return the products of two tensors summed along one axis, as a new tensor.

    Dtypes promote. Integers are summed modulo 2 to their width, float16 and bfloat16 in float32. (Array API 2025.12, `vecdot`.)

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
    """Return the loops of `vecdot` for the layouts of both operands, which have the offset 0. `axis` may be negative.

    Raise AxisError if `axis` does not exist, and ShapeError if the shapes do not fit.
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

    Dtypes promote. Integers are summed modulo 2 to their width, float16 and bfloat16 in float32. (Array API 2025.12, `tensordot`.)

    Parameters
    ----------
    x1, x2 : Tensor
        Any dtype.
    axes : int or pair of Sequence[int], default 2
        A number n, for the last n axes of `x1` and the first n of `x2` in order, or a pair of sequences with the axes of `x1` and of `x2`.
        Paired axes must have equal sizes. PyTorch's `dims` is an alias.

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
        (count,) = parse_ints("tensordot", (axes,))
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
        axis_numbers = normalize_operand_axes("tensordot", ordinal, shape, parse_ints("tensordot: axes", (operand_axes,)))
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

    The other axes of `a` come first in the result, then those of `b`; for matrices the result is `a @ b`. A number or a 0-d tensor
    multiplies each element. `out`, if given, receives the result and is returned. Dtypes promote as in `vecdot`. Raise ShapeError if the
    summed axes have different sizes, DTypeError if the dtypes do not promote. (NumPy's `dot`.)

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

    A number or a 0-d tensor multiplies each element. Dtypes promote as in `vecdot`. Raise ShapeError if the last axes have different sizes,
    DTypeError if the dtypes do not promote. (NumPy's `inner`.)

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
    """Return each element of `a` times each of `b`, both flattened in row-major order, as a new 2-D tensor. Bools are combined by "and".

    `out`, if given, receives the result and is returned. Raise DTypeError if the dtypes do not promote. (NumPy's `outer`.)

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
    """Return the loops of `outer` for the layouts of both operands, which are flattened."""
    return build_loops(a.reshape((a.size,)), (0,), b.reshape((b.size,)), (1,), (0, 1), ())


# --- by letter --------------------------------------------------------------------------------------------------------


def einsum(
    subscripts: str | Operand,
    /,
    *operands: Operand,
    optimize: bool | str | Sequence[Any] = True,
    out: Tensor | None = None,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Tensor:
    """Return the products over axes that share a letter, summed over the letters missing in the result.

    Two operands take one kernel. More are multiplied in pairs. Integers are summed modulo 2 to their width, float16 and bfloat16 in
    float32; for bools the result tells whether any product is true. (NumPy's `einsum`.)

    Parameters
    ----------
    subscripts : str
        In `"ij,jk->ik"`, letters name the axes of each operand and of the result. Without `->` the result has the letters that occur once,
        in alphabetical order. A letter twice in one operand takes its diagonal. `...` stands for axes without letters, which broadcast, and
        stand in the result at its `...`, or first. Axes may be numbered instead: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.
    *operands : Tensor
        Axes of one letter have equal sizes, or 1. Dtypes promote, unless `dtype` is given.
    optimize : bool, str or Sequence, default True
        The order of three and more operands. True: the order with the fewest operations; False: from left to right. "greedy" and "optimal"
        name the search strategy. A result of `einsum_path` gives the order itself.
    out : Tensor, optional
        A tensor that receives the result and is returned.
    dtype : dtype, optional
        The dtype to which operands are cast, as `casting` allows.
    casting : str, default "same_kind"
        The casts that are allowed, in NumPy's words.

    Returns
    -------
    Tensor
        For one operand without a sum a view, writable like any view: a transpose or a diagonal. In all other cases a new tensor.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError
        If the subscripts or `optimize` are invalid, if sizes do not fit, or if dtypes do not promote or cast.

    Examples
    --------
    >>> import tenxor as tx
    >>> a = tx.asarray([[1, 2], [3, 4]])
    >>> tx.einsum("ij,jk->ik", a, a).tolist(), tx.einsum("ii", a).item()
    ([[7, 10], [15, 22]], 5)
    >>> tx.einsum("ii->i", a)[...] = 0  # a view
    >>> a.tolist()
    [[0, 2], [3, 0]]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = parse_interleaved((subscripts, *operands))
    optimize = _check_optimize("einsum", optimize, len(operands))
    tensors = [t if type(t) is Tensor else asarray(t) for t in operands]
    if dtype is not None:
        tensors = cast_operands("einsum", tensors, dtype, None, casting)
    return write_out("einsum", out, _einsum(*tensors, subscripts, optimize), casting)


@memoized_call
def _einsum(*arguments: Any) -> Tensor:
    """Return the result of `einsum`. `arguments` are the tensors, then the subscripts as text, and the result of `_check_optimize`."""
    *tensors, subscripts, optimize = arguments
    result: Tensor
    if len(tensors) == 2:
        a, b = tensors
        dtype = promote(a.dtype, b.dtype, "einsum")
        a, b = widen(a, dtype), widen(b, dtype)
        recipe = _build_plan(subscripts, optimize, zero_offset_layout(a), zero_offset_layout(b))
        if recipe.sole_product is None:
            result = _run_plan(recipe, (a, b), dtype).astype(dtype, copy=False)
            return result
        result = contract_over_loops(a, b, offset_loops(recipe.sole_product.loops, a, b), dtype)
        return result if recipe.sole_product.axis_order is None else result.permute(recipe.sole_product.axis_order)
    if len(tensors) == 1:
        recipe = _build_plan(subscripts, optimize, zero_offset_layout(tensors[0]))
        if not recipe.terms[0].summed_count:
            return _view_term(tensors[0], recipe.terms[0])
    dtype = _common_dtype(tensors)
    tensors = [widen(t, dtype) for t in tensors]
    recipe = _build_plan(subscripts, optimize, *map(zero_offset_layout, tensors))
    result = _run_plan(recipe, tensors, dtype).astype(dtype, copy=False)
    return result


def einsum_path(subscripts: str | Operand, /, *operands: Operand, optimize: bool | str | Sequence[Any] = True) -> tuple[list[Any], str]:
    """Return the order in which `einsum` multiplies operands, and a text with the shapes of each product. Nothing is computed.

    Errors are those of `einsum`. (NumPy's `einsum_path`.)

    Parameters
    ----------
    subscripts, *operands, optimize
        As in `einsum`. Of the operands only shapes and layouts matter.

    Returns
    -------
    path : list
        A list `["einsum_path", (0, 1), ...]`. Each pair gives positions in the list of remaining operands; their product is appended to
        that list.
    text : str
        A line for each product.

    Examples
    --------
    >>> import tenxor as tx
    >>> a, b, c = tx.ones((2, 100)), tx.ones((100, 3)), tx.ones((3, 5))
    >>> path, text = tx.einsum_path("ij,jk,kl->il", a, b, c)
    >>> path
    ['einsum_path', (0, 1), (0, 1)]
    >>> print(text)
    2,100 x 100,3 -> 2,3
    3,5 x 2,3 -> 2,5
    """
    if not isinstance(subscripts, str):
        subscripts, operands = parse_interleaved((subscripts, *operands))
    optimize = _check_optimize("einsum_path", optimize, len(operands))
    layouts = [asarray(t).layout for t in operands]
    operand_labels, _, sizes = parse_subscripts(subscripts, [x.shape for x in layouts])
    recipe = _build_plan(subscripts, optimize, *layouts)
    remaining = [term.labels for term in recipe.terms]
    path: list[Any] = ["einsum_path"]
    lines = []
    for i, j, labels in recipe.path:
        b, a = remaining.pop(j), remaining.pop(i)
        remaining.append(labels)
        path.append((i, j))
        shape_texts = [",".join(str(sizes[x]) for x in term_labels) or "()" for term_labels in (a, b, labels)]
        lines.append("{} x {} -> {}".format(*shape_texts))
    return (path if recipe.path else [*path, tuple(range(len(operand_labels)))]), "\n".join(lines)


def _check_optimize(op: str, optimize: Any, count: int) -> OptimizeOption:
    """Return the valid `optimize` for `count` operands: True, False, "greedy", "optimal", or a tuple with the positions for each step.

    A path of `einsum_path` becomes such a tuple. Raise ArgumentError, beginning with `op`, for an invalid value.
    """
    if isinstance(optimize, (list, tuple)) and optimize and optimize[0] == "einsum_path":
        remaining = count
        order: list[tuple[int, ...]] = []
        for step in optimize[1:]:
            positions = tuple(sorted(parse_ints(f"{op}: optimize", (step,))))
            if not positions or len(set(positions)) < len(positions) or positions[0] < 0 or positions[-1] >= remaining:
                raise ArgumentError(
                    f"{op}: the step {describe_value(step)} of optimize must name operands among the {remaining} that remain then, 0 to"
                    f" {remaining - 1}, and name each only once; the result of a step is added at the end"
                )
            order.append(positions)
            remaining -= len(positions) - 1
        if remaining > 1:
            raise ArgumentError(
                f"{op}: the order {describe_value(optimize)} leaves {remaining} of {count} operands; multiply until one is left"
            )
        return tuple(order)
    if not isinstance(optimize, (bool, str)) or optimize not in (True, False, "greedy", "optimal"):
        raise ArgumentError(f"{op}: optimize is {describe_value(optimize)}; it must be True, False, 'greedy', 'optimal' or a path")
    return optimize


def _common_dtype(tensors: Iterable[Tensor]) -> DType:
    """Return the promoted dtype of all tensors. Floats are promoted first, so that the order of the tensors does not matter."""
    common = boolean
    for dtype in sorted([t.dtype for t in tensors], key=lambda d: -d.rank):
        common = promote(common, dtype, "einsum")
    return common


class _TermProduct(NamedTuple):
    """The product of two terms: its loops, and the permutation of its axes into those of the result, or None if they agree."""

    loops: Loops
    axis_order: tuple[int, ...] | None


class _Term(NamedTuple):
    """An operand read through `layout`, with the axes `labels`, then `summed_count` axes of no other operand, which are summed first."""

    layout: Layout
    labels: Labels
    summed_count: int


class _EinsumPlan(NamedTuple):
    """The plan for operands of given layouts: the terms, and the order in which they are multiplied.

    Each entry of `path` has two positions in the list of remaining terms and the labels of their product, which is appended to that list.
    `sole_product` is the whole product for two operands without sums of their own, else None.
    """

    terms: tuple[_Term, ...]
    path: tuple[tuple[int, int, Labels], ...]
    sole_product: _TermProduct | None


def _view_term(t: Tensor, term: _Term) -> Tensor:
    """Return the view of the operand `t` described by `term`, whose layout, computed for an offset of 0, is moved to the offset of `t`."""
    return t._view(term.layout if t.spec.layout.base is not None else term.layout.at(t.offset))


def _run_plan(recipe: _EinsumPlan, operands: Sequence[Tensor], dtype: DType) -> Any:
    """Return the result of the plan `recipe` for `operands`, which have the layouts of the plan. `widen` has widened them from `dtype`.

    The result still has the widened dtype.
    """
    terms: list[tuple[Any, Labels]] = []
    for t, term in zip(operands, recipe.terms, strict=True):
        view: Any = _view_term(t, term)
        if term.summed_count:
            view = view._reduce(product_sum_reduction(view.dtype), "einsum", tuple(range(-term.summed_count, 0)), False)
        terms.append((view, term.labels))
    for i, j, labels in recipe.path:
        b, b_labels = terms.pop(j)
        a, a_labels = terms.pop(i)
        pair = _build_term_product(zero_offset_layout(a), a_labels, zero_offset_layout(b), b_labels, labels)
        product = contract_over_loops(a, b, offset_loops(pair.loops, a, b), boolean if dtype is boolean else a.dtype)
        if dtype is boolean:  # a count of counts might overflow
            product = widen(product, boolean)
        terms.append((product if pair.axis_order is None else product.permute(pair.axis_order), labels))
    return terms[0][0]


@register("einsum plans", "the products that compute an einsum, by subscripts and layouts")
@lru_cache(maxsize=MAX_CACHED_LOOPS)
def _build_plan(subscripts: str, optimize: OptimizeOption, *layouts: Layout) -> _EinsumPlan:
    """Return the plan for operands of these layouts, with an offset of 0. `optimize` is the result of `_check_optimize`.

    Raise the errors of `einsum` for invalid subscripts and for sizes that do not fit.
    """
    operands, result, sizes = parse_subscripts(subscripts, [x.shape for x in layouts])
    views = [_take_diagonals(layout, labels) for layout, labels in zip(layouts, operands, strict=True)]
    if len(views) > 1:
        views = [_drop_unit_axes(*view, result, sizes) for view in views]
    terms = tuple([_build_term(k, views, result) for k in range(len(views))])
    path = _build_path([term.labels for term in terms], result, sizes, optimize)
    sole_product = None
    if len(terms) == 2 and not any(term.summed_count for term in terms):
        a, b = terms
        sole_product = _build_term_product(a.layout, a.labels, b.layout, b.labels, result)
    return _EinsumPlan(terms, path, sole_product)


def _take_diagonals(layout: Layout, labels: Labels) -> tuple[Layout, Labels]:
    """Return `layout` and `labels` changed so that each label occurs once: the axes of a repeated label are replaced by their diagonal.

    The diagonal's axis comes last.
    """
    for label in labels:
        while labels.count(label) > 1:
            first_axis = labels.index(label)
            second_axis = labels.index(label, first_axis + 1)
            layout = layout.diagonal(0, first_axis, second_axis)
            labels = (*[x for k, x in enumerate(labels) if k not in (first_axis, second_axis)], label)
    return layout, labels


def _drop_unit_axes(layout: Layout, labels: Labels, result: Labels, sizes: dict[Label, int]) -> tuple[Layout, Labels]:
    """Return `layout` and `labels` without the axes of size 1 that broadcast to a larger size, or whose label is missing in `result`.

    `sizes` are the broadcast sizes of the labels.
    """
    unit_axes = [k for k, x in enumerate(labels) if layout.shape[k] == 1 and (sizes[x] != 1 or x not in result)]
    return layout.squeeze(unit_axes), tuple([x for k, x in enumerate(labels) if k not in unit_axes])


def _build_term(k: int, views: Sequence[tuple[Layout, Labels]], result: Labels) -> _Term:
    """Return the term of operand `k` of `views`: its axes, with the axes missing in the other operands and in `result` moved to the end.

    `views` has the layout and the labels of each operand. For a single operand the other axes are ordered as in `result`.
    """
    layout, labels = views[k]
    other_labels = {x for j, (_, term_labels) in enumerate(views) if j != k for x in term_labels}
    summed_labels = [x for x in labels if x not in other_labels and x not in result]
    free_labels = [x for x in labels if x not in summed_labels] if len(views) > 1 else list(result)
    return _Term(layout.permute([labels.index(x) for x in (*free_labels, *summed_labels)]), tuple(free_labels), len(summed_labels))


def _build_path(
    terms: Sequence[Labels], result: Labels, sizes: dict[Label, int], optimize: OptimizeOption
) -> tuple[tuple[int, int, Labels], ...]:
    """Return the steps of the product: for each, two positions in the list of remaining terms, and the labels of their product.

    `terms` has the labels of each term, and `sizes` the size of each label. A step removes both terms from the list, and appends the
    product. The last product has the labels `result`. `optimize` is the result of `_check_optimize`.
    """
    remaining, steps = list(terms), []
    for positions in _find_order(terms, result, sizes, optimize):
        group = list(positions)
        while len(group) > 1:  # three or more at once are multiplied two by two
            i, j = sorted(group[-2:])
            b, a = remaining.pop(j), remaining.pop(i)
            needed_labels = {*result}.union(*remaining)
            is_last = not remaining
            labels = result if is_last else tuple([x for x in dict.fromkeys((*a, *b)) if x in needed_labels])
            steps.append((i, j, labels))
            remaining.append(labels)
            group = [*[p - (p > i) - (p > j) for p in group[:-2]], len(remaining) - 1]
    return tuple(steps)


def _find_order(terms: Sequence[Labels], result: Labels, sizes: dict[Label, int], optimize: OptimizeOption) -> Sequence[tuple[int, ...]]:
    """Return the positions of the terms to multiply in each step, ascending, in the list of remaining terms.

    `terms` has the labels of each term, `result` the labels of the result, and `sizes` the size of each label. `optimize` is the result of
    `_check_optimize`. NumPy's `einsum_path` finds the order with the fewest operations.
    """
    count = len(terms)
    labels = [*dict.fromkeys(x for term in terms for x in term)]
    if isinstance(optimize, tuple):
        return optimize
    if count < 3 or optimize is False or len(labels) > len(LETTERS):
        return [(0, 1), *((0, count - k) for k in range(2, count))][: count - 1]
    letter = dict(zip(labels, LETTERS, strict=False))
    inputs = ",".join("".join(letter[x] for x in term) for term in terms)
    dummies = [np.broadcast_to(np.int8(0), [sizes[x] for x in term]) for term in terms]
    strategy = optimize if isinstance(optimize, str) else "optimal" if count <= MAX_EXHAUSTIVE_TERMS else "greedy"
    path = np.einsum_path(f"{inputs}->{''.join(letter[x] for x in result)}", *dummies, optimize=strategy)[0]
    return [tuple(sorted(positions)) for positions in path[1:]]


@register("products of einsum", "the loops of one product of an einsum, by layouts and labels")
@lru_cache(maxsize=MAX_CACHED_LOOPS)
def _build_term_product(a: Layout, a_labels: Labels, b: Layout, b_labels: Labels, result: Labels) -> _TermProduct:
    """Return the product of two terms, with the layouts `a` and `b` and a label for each axis, summed over labels missing in `result`.

    The axes of the product are ordered as in `result`, unless another order gives a kernel full rows and columns.
    """
    sizes = dict(zip((*a_labels, *b_labels), (*a.shape, *b.shape), strict=True))
    summed = [x for x in a_labels if x not in result]
    rows, columns, steps = MIN_FULL_SIZES
    free_labels = [x for x in result if (x in a_labels) != (x in b_labels)]
    last_candidates = [
        x for x in free_labels if sizes[x] >= columns and any(sizes[y] >= rows for y in free_labels if (y in a_labels) != (x in a_labels))
    ]
    label_order = list(result)
    if last_candidates and label_order[-1] not in last_candidates and prod(sizes[x] for x in summed) >= steps:
        label_order.remove(last_candidates[-1])
        label_order.append(last_candidates[-1])
    loops = build_loops(a, a_labels, b, b_labels, label_order, summed)
    return _TermProduct(loops, None if tuple(label_order) == result else tuple([label_order.index(x) for x in result]))
