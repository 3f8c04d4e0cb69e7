"""Sums of products over axes given by letter. A product of two operands is one kernel, without temporaries. A label names an axis
(`einsum_subscripts.py`); a term is an operand, or a product of operands, with a label for each axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..dtypes import DType, DTypeLike, boolean, promote
from ..errors import ArgumentError, describe_value
from ..graph.reduction_limits import MIN_FULL_SIZES
from ..graph.spec import memoized_call
from ..layout import Layout
from ..tensor import Tensor
from ..tensor.argument_parsing import parse_ints
from ..tensor.contraction import (
    MAX_CACHED_LOOPS,
    Loops,
    build_loops,
    contract_over_loops,
    offset_loops,
    product_sum_reduction,
    widen,
    zero_offset_layout,
)
from ..tensor.core import Operand
from .creation import asarray
from .einsum_subscripts import LETTERS, Label, Labels, parse_interleaved, parse_subscripts
from .output_arguments import cast_operands, write_out

__all__ = ["einsum", "einsum_path"]

OptimizeOption = bool | str | tuple[tuple[int, ...], ...]  # the search strategy, or the operands to multiply in each step
MAX_EXHAUSTIVE_TERMS = 5  # operands up to which all orders of multiplication are compared


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

    Two operands take one kernel. More are multiplied in pairs. Integers wrap around at their width; float16 and bfloat16 are summed in
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

    (NumPy's `einsum_path`.)

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

    Raises
    ------
    ArgumentError, ShapeError
        As in `einsum`.

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
            positions = tuple(sorted(parse_ints(op, "a step of optimize", (step,))))
            if not positions or len(set(positions)) < len(positions) or positions[0] < 0 or positions[-1] >= remaining:
                raise ArgumentError(
                    f"{op}: the step {describe_value(step)} of optimize must name operands among the {remaining} that remain then, 0 to"
                    f" {remaining - 1}, and name each only once; the result of a step is added at the end"
                )
            order.append(positions)
            remaining -= len(positions) - 1
        if remaining > 1:
            raise ArgumentError(
                f"{op}: optimize is {describe_value(optimize)}, which leaves {remaining} of {count} operands; add steps until one is left"
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
