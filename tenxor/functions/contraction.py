"""Sums of products over axes given by number or by letter. With two operands each is one kernel, without temporaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..creation import asarray
from ..dtypes import DType, DTypeLike, boolean, promote
from ..errors import ArgumentError, AxisError, ShapeError, described
from ..kernel.pairs import FULL
from ..keywords import spelled
from ..layout import Layout, broadcast_shapes
from ..layout.coords import axis_number
from ..records import NamedTuple
from ..spec import called_again
from ..tensor import Tensor
from ..tensor.arguments import ints
from ..tensor.contraction import (
    MAX_LOOPS,
    Loops,
    adding,
    along,
    at_start,
    begun,
    contracted,
    loops_of,
    paired_axes,
    result_dtype,
    widened,
)
from ..tensor.contraction import dot as _dot
from ..tensor.core import Operand
from .into import cast, into
from .subscripts import LETTERS, Label, Labels, interleaved, parse

__all__ = ["dot", "einsum", "einsum_path", "inner", "outer", "tensordot", "vecdot"]

SumAxes = int | Sequence[int | Sequence[int]]  # how many axes are summed over, or which axes of each operand
Order = bool | str | tuple[tuple[int, ...], ...]  # the search strategy, or the operands to multiply in each step
MAX_EXHAUSTIVE_TERMS = 5  # operands up to which all orders of multiplication are compared


# --- by number --------------------------------------------------------------------------------------------------------


@called_again
@spelled
def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1, dim: int | None = None, out: Tensor | None = None) -> Tensor:
    """Return the products summed along `axis`, which both operands have in equal size, as a new tensor. The other axes broadcast.

    Complex elements of `x1` are conjugated. `out`, if given, receives the result and is returned.

    The axis is counted in each operand separately, so a negative axis counts from the end of each. Numeric dtypes promote. Integers are
    summed modulo 2 to their width, float16 and bfloat16 in float32. Raise AxisError, ShapeError or DTypeError. (Array API 2025.12,
    `vecdot`.)

    >>> import tenxor as tx
    >>> tx.vecdot(tx.asarray([[1, 2], [3, 4]]), tx.asarray([10, 1])).tolist()
    [12, 34]
    """
    axis = axis_number(axis, "vecdot")
    a, b = asarray(x1), asarray(x2)
    dtype = result_dtype("vecdot", a, b)
    if a.dtype.is_complex:
        a = a.conj()
    a, b = widened(a, dtype), widened(b, dtype)
    result: Tensor = contracted(a, b, begun(_loops_of_vectors(at_start(a), at_start(b), axis), a, b), dtype)
    return into("vecdot", out, result)


@lru_cache(maxsize=MAX_LOOPS)
def _loops_of_vectors(a: Layout, b: Layout, axis: int) -> Loops:
    """Return the loops of `vecdot` for layouts that begin at 0. Raise ShapeError if their shapes do not fit."""
    (a_axis,), (b_axis,) = paired_axes("vecdot", "first", a.shape, (axis,)), paired_axes("vecdot", "second", b.shape, (axis,))
    if a.shape[a_axis] != b.shape[b_axis]:
        raise ShapeError(
            f"vecdot: shapes {a.shape} and {b.shape} do not fit: axis {axis} has size {a.shape[a_axis]} in the first and"
            f" {b.shape[b_axis]} in the second; they must be equal"
        )
    left, right = a.moveaxis(a_axis, -1), b.moveaxis(b_axis, -1)
    try:
        shape = (*broadcast_shapes(left.shape[:-1], right.shape[:-1]), a.shape[a_axis])
    except ShapeError as error:
        raise ShapeError(f"vecdot: shapes {a.shape} and {b.shape} do not fit: without axis {axis}, {error}") from None
    return left.expand(shape), right.expand(shape), len(shape) - 1


@called_again
@spelled
def tensordot(x1: Operand, x2: Operand, /, axes: SumAxes = 2, *, dims: SumAxes | None = None) -> Tensor:
    """Return the products summed over some axes of each operand, as a new tensor with the other axes of `x1`, then those of `x2`.

    `axes` is a number n, for the last n axes of `x1` and the first n of `x2` in order, or a pair of sequences with the axes of `x1` and of
    `x2`. Paired axes must have equal sizes. Numeric dtypes promote; integers are summed modulo 2 to their width, float16 and bfloat16 in
    float32. Raise ShapeError, AxisError, ArgumentError or DTypeError. (Array API 2025.12, `tensordot`; PyTorch's `dims` is an alias.)

    >>> import tenxor as tx
    >>> a, b = tx.ones((2, 3, 4)), tx.ones((4, 3, 5))
    >>> tx.tensordot(a, b, axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    a, b = asarray(x1), asarray(x2)
    if hasattr(axes, "__index__") and not getattr(axes, "ndim", 0):
        (count,) = ints("tensordot", (axes,))
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: shapes {a.shape} and {b.shape}: {count} axes cannot be added up;"
                f" axes is a number from 0 to {min(a.ndim, b.ndim)} here, or a pair of sequences"
            )
        a_axes, b_axes = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    else:
        a_axes, b_axes = _axes_of_pair(axes, a.shape, b.shape)
    result: Tensor = along("tensordot", a, b, a_axes, b_axes)
    return result


def _axes_of_pair(axes: Any, *shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the axes of the first and of the second tensor, from 0 on, from a pair of axes or sequences of axes."""
    try:
        first, second = axes
    except (TypeError, ValueError):
        raise ArgumentError(
            f"tensordot: axes is a number, or a pair of sequences like ((1, 2), (1, 0)), not {described(axes)}"
        ) from None
    axis_tuples = []
    for operand_axes, ordinal, shape in zip((first, second), ("first", "second"), shapes, strict=True):
        axis_numbers = paired_axes("tensordot", ordinal, shape, ints("tensordot: axes", (operand_axes,)))
        if len(set(axis_numbers)) < len(axis_numbers):
            raise AxisError(f"tensordot: axes {described(operand_axes)} name one axis twice; name each axis once")
        axis_tuples.append(axis_numbers)
    if len(axis_tuples[0]) != len(axis_tuples[1]):
        raise ArgumentError(
            f"tensordot: axes {described(first)} and {described(second)} are {len(axis_tuples[0])} of the first tensor"
            f" and {len(axis_tuples[1])} of the second;"
            " they are walked in pairs"
        )
    return axis_tuples


@called_again
def dot(a: Operand, b: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the products summed over the last axis of `a` and the last but one of `b` (the only one if 1-D), as a new tensor.

    The other axes of `a` come first in the result, then those of `b`; for matrices the result is `a @ b`. A number or a 0-d tensor
    multiplies each element. `out`, if given, receives the result and is returned. Dtypes promote as in `vecdot`. Raise
    ShapeError or DTypeError. (NumPy's `dot`.)

    >>> import tenxor as tx
    >>> tx.dot(tx.asarray([1, 2, 3]), tx.asarray([4, 5, 6])).item()
    32
    """
    result: Tensor = _dot(asarray(a), asarray(b))
    return into("dot", out, result)


@called_again
def inner(a: Operand, b: Operand, /) -> Tensor:
    """Return the products summed over the last axis of both, as a new tensor with the other axes of `a`, then those of `b`.

    A number or a 0-d tensor multiplies each element. Dtypes promote as in `vecdot`. Raise ShapeError or DTypeError. (NumPy's `inner`.)

    >>> import tenxor as tx
    >>> tx.inner(tx.asarray([[1, 2], [3, 4]]), tx.asarray([10, 1])).tolist()
    [12, 34]
    """
    a, b = asarray(a), asarray(b)
    if not (a.ndim and b.ndim):
        return a * b
    result: Tensor = along("inner", a, b, (a.ndim - 1,), (b.ndim - 1,))
    return result


@called_again
def outer(a: Operand, b: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return each element of `a` times each of `b`, both flattened in row-major order, as a new 2-D tensor. Bools are combined by "and".

    `out`, if given, receives the result and is returned. Raise DTypeError for dtypes that do not promote. (NumPy's
    `outer`.)

    >>> import tenxor as tx
    >>> tx.outer(tx.asarray([1, 2, 3]), tx.asarray([10, 1])).tolist()
    [[10, 1], [20, 2], [30, 3]]
    """
    left, right = asarray(a), asarray(b)
    dtype = promote(left.dtype, right.dtype, "outer")
    left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
    result: Tensor = contracted(left, right, _loops_of_outer(left.layout, right.layout), dtype)
    return into("outer", out, result)


@lru_cache(maxsize=MAX_LOOPS)
def _loops_of_outer(a: Layout, b: Layout) -> Loops:
    return loops_of(a.reshape((a.size,)), (0,), b.reshape((b.size,)), (1,), (0, 1), ())


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

    In `"ij,jk->ik"`, letters name the axes of each operand and of the result. Without `->` the result has the letters that occur once, in
    alphabetical order. A letter twice in one operand takes its diagonal. `...` stands for axes without letters, which broadcast, and stand
    in the result at its `...`, or first. Axes of one letter have equal sizes, or 1. Axes may be numbered instead:
    `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

    For one operand without a sum the result is a view, writable like any view: a transpose or a diagonal. In all other cases it is a new
    tensor. Two operands take one kernel. More are multiplied in pairs, in the order with the fewest operations. With `optimize=False` the
    order is from left to right; "greedy" and "optimal" name the search strategy; a result of `einsum_path` gives the order itself.

    Dtypes promote, or operands are cast to `dtype` as `casting` allows. `out`, if given, receives the result and is returned. Integers are
    summed modulo 2 to their width, float16 and bfloat16 in float32; for bools the result tells whether any product is true. Raise
    ArgumentError for invalid subscripts, ShapeError for sizes that do not fit, or DTypeError. (NumPy's `einsum`.)

    >>> import tenxor as tx
    >>> a = tx.asarray([[1, 2], [3, 4]])
    >>> tx.einsum("ij,jk->ik", a, a).tolist(), tx.einsum("ii", a).item()
    ([[7, 10], [15, 22]], 5)
    >>> tx.einsum("ii->i", a)[...] = 0  # a view
    >>> a.tolist()
    [[0, 2], [3, 0]]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = interleaved((subscripts, *operands))
    optimize = _check_optimize("einsum", optimize, len(operands))
    tensors = [t if type(t) is Tensor else asarray(t) for t in operands]
    if dtype is not None:
        tensors = cast("einsum", tensors, dtype, None, casting)
    return into("einsum", out, _einsum(*tensors, subscripts, optimize), casting)


@called_again
def _einsum(*arguments: Any) -> Tensor:
    """Compute `einsum`. `arguments` are the tensors, then the subscripts as text, and the checked `optimize`."""
    *tensors, subscripts, optimize = arguments
    result: Tensor
    if len(tensors) == 2:
        a, b = tensors
        dtype = promote(a.dtype, b.dtype, "einsum")
        a, b = widened(a, dtype), widened(b, dtype)
        recipe = _build_recipe(subscripts, optimize, at_start(a), at_start(b))
        if recipe.sole_product is None:
            result = _run_recipe(recipe, (a, b), dtype).astype(dtype, copy=False)
            return result
        result = contracted(a, b, begun(recipe.sole_product.loops, a, b), dtype)
        return result if recipe.sole_product.order is None else result.permute(recipe.sole_product.order)
    if len(tensors) == 1:
        recipe = _build_recipe(subscripts, optimize, at_start(tensors[0]))
        if not recipe.terms[0].summed_count:
            return _view_term(tensors[0], recipe.terms[0])
    dtype = _common_dtype(tensors)
    tensors = [widened(t, dtype) for t in tensors]
    recipe = _build_recipe(subscripts, optimize, *map(at_start, tensors))
    result = _run_recipe(recipe, tensors, dtype).astype(dtype, copy=False)
    return result


def einsum_path(
    subscripts: str | Operand, /, *operands: Operand, optimize: bool | str | Sequence[Any] = True
) -> tuple[list[Any], str]:
    """Return the order in which `einsum` multiplies operands, and a text with the shapes of each product. Nothing is computed.

    The order is a list `["einsum_path", (0, 1), ...]`. Each pair gives positions in the list of remaining operands; their product is
    appended to that list. Arguments and errors are those of `einsum`. (NumPy's `einsum_path`.)

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
        subscripts, operands = interleaved((subscripts, *operands))
    optimize = _check_optimize("einsum_path", optimize, len(operands))
    layouts = [asarray(t).layout for t in operands]
    operand_labels, _, sizes = parse(subscripts, [x.shape for x in layouts])
    recipe = _build_recipe(subscripts, optimize, *layouts)
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


def _check_optimize(op: str, optimize: Any, count: int) -> Order:
    """Return the valid `optimize`: a search strategy, or a tuple of the positions to multiply in each step. Raise ArgumentError otherwise.
    """
    if isinstance(optimize, (list, tuple)) and optimize and optimize[0] == "einsum_path":
        remaining = count
        order: list[tuple[int, ...]] = []
        for step in optimize[1:]:
            positions = tuple(sorted(ints(f"{op}: optimize", (step,))))
            if not positions or len(set(positions)) < len(positions) or positions[0] < 0 or positions[-1] >= remaining:
                raise ArgumentError(
                    f"{op}: {described(step)} in optimize names no operands to multiply: there are {remaining} then, from 0 to"
                    f" {remaining - 1}, and each"
                    " is named once"
                )
            order.append(positions)
            remaining -= len(positions) - 1
        if remaining > 1:
            raise ArgumentError(f"{op}: the order {described(optimize)} leaves {remaining} of {count} operands; multiply until one is left")
        return tuple(order)
    if not isinstance(optimize, (bool, str)) or optimize not in (True, False, "greedy", "optimal"):
        raise ArgumentError(f"{op}: optimize is {described(optimize)}; it must be True, False, 'greedy', 'optimal' or a path")
    return optimize


def _common_dtype(tensors: Iterable[Tensor]) -> DType:
    """Return the promoted dtype of all tensors. Floats are promoted first, so that the order of the tensors does not matter."""
    common = boolean
    for dtype in sorted([t.dtype for t in tensors], key=lambda d: -d.rank):
        common = promote(common, dtype, "einsum")
    return common


class _Pair(NamedTuple):
    """The product of two terms: its loops, and the permutation of its axes into those of the result, or None if they agree."""

    loops: Loops
    order: tuple[int, ...] | None


class _Term(NamedTuple):
    """An operand read through `layout`, with the axes `labels`, then `summed_count` axes of no other operand, which are summed first."""

    layout: Layout
    labels: Labels
    summed_count: int


class _Recipe(NamedTuple):
    """The plan for operands of given layouts: the terms, and the order in which they are multiplied.

    Each entry of `path` has two positions in the list of remaining terms and the labels of their product, which is appended to that list.
    `sole_product` is the whole product for two operands without sums of their own, else None.
    """

    terms: tuple[_Term, ...]
    path: tuple[tuple[int, int, Labels], ...]
    sole_product: _Pair | None


def _view_term(t: Tensor, term: _Term) -> Tensor:
    """Return the view of the operand `t` as a term. The layout of the term, computed for an offset of 0, is moved to the offset of `t`."""
    return t._view(term.layout if t.spec.layout.base is not None else term.layout.at(t.offset))


def _run_recipe(recipe: _Recipe, operands: Sequence[Tensor], dtype: DType) -> Any:
    """Compute the result by a recipe for operands of its layouts, already widened from `dtype`. The result is not cast back."""
    terms: list[tuple[Any, Labels]] = []
    for t, term in zip(operands, recipe.terms, strict=True):
        view: Any = _view_term(t, term)
        if term.summed_count:
            view = view._reduce(adding(view.dtype), "einsum", tuple(range(-term.summed_count, 0)), False)
        terms.append((view, term.labels))
    for i, j, labels in recipe.path:
        b, b_labels = terms.pop(j)
        a, a_labels = terms.pop(i)
        pair = _build_pair(at_start(a), a_labels, at_start(b), b_labels, labels)
        product = contracted(a, b, begun(pair.loops, a, b), boolean if dtype is boolean else a.dtype)
        if dtype is boolean:  # a count of counts might overflow
            product = widened(product, boolean)
        terms.append((product if pair.order is None else product.permute(pair.order), labels))
    return terms[0][0]


@lru_cache(maxsize=MAX_LOOPS)
def _build_recipe(subscripts: str, optimize: Order, *layouts: Layout) -> _Recipe:
    """Build the recipe for operands of these layouts. Cached."""
    operands, result, sizes = parse(subscripts, [x.shape for x in layouts])
    views = [_take_diagonals(layout, labels) for layout, labels in zip(layouts, operands, strict=True)]
    if len(views) > 1:
        views = [_drop_unit_axes(*view, result, sizes) for view in views]
    terms = tuple([_build_term(k, views, result) for k in range(len(views))])
    path = _build_path([term.labels for term in terms], result, sizes, optimize)
    sole_product = None
    if len(terms) == 2 and not any(term.summed_count for term in terms):
        a, b = terms
        sole_product = _build_pair(a.layout, a.labels, b.layout, b.labels, result)
    return _Recipe(terms, path, sole_product)


def _take_diagonals(layout: Layout, labels: Labels) -> tuple[Layout, Labels]:
    """Return a layout and labels in which each label occurs once: a label that occurs more often takes the diagonal."""
    for label in labels:
        while labels.count(label) > 1:
            first_axis = labels.index(label)
            second_axis = labels.index(label, first_axis + 1)
            layout = layout.diagonal(0, first_axis, second_axis)
            labels = (*[x for k, x in enumerate(labels) if k not in (first_axis, second_axis)], label)
    return layout, labels


def _drop_unit_axes(layout: Layout, labels: Labels, result: Labels, sizes: dict[Label, int]) -> tuple[Layout, Labels]:
    """Drop the axes of size 1 that broadcast, or are missing in the result. `sizes` are the broadcast sizes of the labels."""
    unit_axes = [k for k, x in enumerate(labels) if layout.shape[k] == 1 and (sizes[x] != 1 or x not in result)]
    return layout.squeeze(unit_axes), tuple([x for k, x in enumerate(labels) if k not in unit_axes])


def _build_term(k: int, views: Sequence[tuple[Layout, Labels]], result: Labels) -> _Term:
    """Build the term of operand `k`: last come the axes missing in the other operands and the result.
    """
    layout, labels = views[k]
    other_labels = {x for j, (_, term_labels) in enumerate(views) if j != k for x in term_labels}
    summed_labels = [x for x in labels if x not in other_labels and x not in result]
    free_labels = [x for x in labels if x not in summed_labels] if len(views) > 1 else list(result)
    return _Term(layout.permute([labels.index(x) for x in (*free_labels, *summed_labels)]), tuple(free_labels), len(summed_labels))


def _build_path(
    terms: Sequence[Labels], result: Labels, sizes: dict[Label, int], optimize: Order
) -> tuple[tuple[int, int, Labels], ...]:
    """Return the steps of the product: the positions of two remaining terms, and the labels of their product."""
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


def _find_order(
    terms: Sequence[Labels], result: Labels, sizes: dict[Label, int], optimize: Order
) -> Sequence[tuple[int, ...]]:
    """Return the positions of the terms to multiply in each step. NumPy's `einsum_path` finds the order with the fewest operations."""
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


@lru_cache(maxsize=MAX_LOOPS)
def _build_pair(a: Layout, a_labels: Labels, b: Layout, b_labels: Labels, result: Labels) -> _Pair:
    """Build the product of two terms. Its axes are ordered as in `result`, unless another order gives a kernel full rows and columns."""
    sizes = dict(zip((*a_labels, *b_labels), (*a.shape, *b.shape), strict=True))
    summed = [x for x in a_labels if x not in result]
    rows, columns, steps = FULL
    free_labels = [x for x in result if (x in a_labels) != (x in b_labels)]
    last_candidates = [
        x
        for x in free_labels
        if sizes[x] >= columns and any(sizes[y] >= rows for y in free_labels if (y in a_labels) != (x in a_labels))
    ]
    label_order = list(result)
    if last_candidates and label_order[-1] not in last_candidates and prod(sizes[x] for x in summed) >= steps:
        label_order.remove(last_candidates[-1])
        label_order.append(last_candidates[-1])
    loops = loops_of(a, a_labels, b, b_labels, label_order, summed)
    return _Pair(loops, None if tuple(label_order) == result else tuple([label_order.index(x) for x in result]))
