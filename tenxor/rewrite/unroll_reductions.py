"""Unrolling of short reductions, term by term, so that lanes run along the many results instead of the few terms. The argument
`result_ndim` is the number of axes of the result: the first axes of a layout. The remaining axes are reduced. A term is an element combined
into a result, given for the results together as a node and a layout.

Short are reductions over overlapping windows, as in convolution and pooling, and over rows shorter than a vector.
"""

from __future__ import annotations

from itertools import product
from math import prod

from ..dtypes import boolean, int8, int16, int32, int64
from ..graph.node import Node
from ..graph.reduction_limits import MAX_SHORT_ROW_ELEMENTS, MAX_UNROLLED_TERMS, MIN_ARGEXTREMUM_SIZE, MIN_TILED_READS, MIN_TOTAL_ELEMENTS
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import COMBINING_OPS, Reduction
from .graph_builder import Term, append_cast, append_elementwise, count_sharing_results, is_recomputable, recompute_at
from .transposed_operands import copy_shared_operands

MAX_UNROLLED_EXTREMA = 16  # maximal elements of a row for max, min, argmax and argmin: combining lanes takes longer for these
_EXTREMUM_OPS = {"argmax": "maximum", "argmin": "minimum"}  # the operation for the extremum at the position
_UNROLLED_REDUCTIONS = ("sum", "sum_in_width", "prod", "max", "min", "any", "all", *_EXTREMUM_OPS)
_INTEGER_OF_BYTES = {d.itemsize: d for d in (int8, int16, int32, int64)}
_MULTIPLY = OPS["multiply"]


def unroll_reduction(node: Node) -> list[Node] | None:
    """Rewrite a short reduction as elementwise operations on the terms; return None for every other node.

    The new nodes are listed sources first, with the result last. Short means at most `MAX_UNROLLED_TERMS` terms, in overlapping windows or
    in many rows shorter than a vector. A contraction is not unrolled if several results share each element of both factors.
    """
    reduction, layout, result_ndim = node.op, node.layouts[0], len(node.shape)
    assert isinstance(reduction, Reduction) and layout is not None
    if not 1 < prod(layout.shape[result_ndim:]) <= MAX_UNROLLED_TERMS or reduction.name not in _UNROLLED_REDUCTIONS or not node.size:
        return None
    if reduction.uses_position and layout.ndim - result_ndim != 1:
        return None  # a position would count along several axes
    (source,) = node.sources
    assert type(source) is Node
    sides = get_product_layouts(source, layout)
    read_counts = [count_sharing_results(side, result_ndim) for side in sides]
    if read_counts and min(read_counts) >= MIN_TILED_READS:
        return None
    if read_counts and max(read_counts) == 1:
        sides = ()
    has_windows = any(has_overlapping_windows(x, result_ndim) for x in sides or (layout,))
    row_size = max([_count_row_elements(x, result_ndim, reduction) for x in sides or (layout,)])
    if not row_size and (reduction.uses_position or not has_windows):
        return None
    new_nodes: list[Node] = []
    if has_windows and sides:
        terms = _append_products(new_nodes, source, sides, result_ndim)
    elif not has_windows and is_recomputable(source):
        source, layout = copy_shared_operands(new_nodes, source, layout, result_ndim)
        terms = [(recompute_at(new_nodes, source, x), Layout.contiguous(x.shape)) for x in _split_terms(layout, result_ndim)]
    else:
        terms = [(source, x) for x in _split_terms(layout, result_ndim)]
    wide_dtype = source.dtype if reduction.ordered else reduction.result_dtype(source.dtype).compute_dtype
    if source.dtype is not wide_dtype:
        terms = [append_cast(new_nodes, wide_dtype, *term) for term in terms]
    combine = OPS[(_EXTREMUM_OPS if reduction.uses_position else COMBINING_OPS)[reduction.name]]
    result, *later_terms = terms
    for term in later_terms:
        result = append_elementwise(new_nodes, combine, wide_dtype, result, term)
    if reduction.uses_position:
        result = _append_first_position(new_nodes, terms, result)
    if result[0].dtype is not node.dtype:
        append_elementwise(new_nodes, OPS["cast"], node.dtype, result)
    new_nodes[-1].is_stored = row_size == len(terms)  # rows to results: a separate kernel computes many rows together
    return new_nodes


def _append_first_position(new_nodes: list[Node], terms: list[Term], extremum: Term) -> Term:
    """Append nodes to `new_nodes` for the position of the first of `terms` equal to `extremum`, or NaN: the number of terms before.

    Terms, at least two, and `extremum` are pairs of a node and a layout. Return the last node, integers as wide as the elements, and a
    layout. With a NaN among the elements, the extremum is NaN.
    """
    position_dtype = _INTEGER_OF_BYTES[terms[0][0].dtype.compute_dtype.itemsize]
    miss_flags: list[Term] = []
    for term in terms[:-1]:
        differs = differs_from_extremum(new_nodes, term, extremum)
        miss_flags.append(append_elementwise(new_nodes, OPS["logical_and"], boolean, miss_flags[-1], differs) if miss_flags else differs)
    position, *later_flags = [append_elementwise(new_nodes, OPS["cast"], position_dtype, flag) for flag in miss_flags]
    for flag in later_flags:
        position = append_elementwise(new_nodes, OPS["add"], position_dtype, position, flag)
    return position


def differs_from_extremum(new_nodes: list[Node], term: Term, extremum: Term) -> Term:
    """Append nodes to `new_nodes` for the test whether `term` is neither equal to `extremum` nor NaN, element by element.

    Both are pairs of a node and a layout, of equal shape. Return the last node, of booleans, and a contiguous layout.
    """
    differs = append_elementwise(new_nodes, OPS["not_equal"], boolean, term, extremum)
    if not term[0].dtype.is_float:
        return differs
    return append_elementwise(
        new_nodes, OPS["logical_and"], boolean, differs, append_elementwise(new_nodes, OPS["equal"], boolean, term, term)
    )


def get_product_layouts(source: Node, layout: Layout) -> tuple[Layout, ...]:
    """Return the layouts of both sides of the pending product `source`, if `layout`, by which it is reduced, is contiguous.

    Otherwise, and for a source that is no pending product or is to be stored, return an empty tuple.
    """
    if source.buffer is not None or source.op is not _MULTIPLY or source.is_stored:
        return ()
    left_layout, right_layout = source.layouts
    if left_layout is None or right_layout is None or layout != Layout.contiguous(source.shape):
        return ()
    return (left_layout, right_layout)


def has_overlapping_windows(layout: Layout, result_ndim: int) -> bool:
    """Return whether the elements of neighbouring results overlap or interleave in memory, as windows do.

    The first `result_ndim` axes of `layout` are axes of results, and the rest is reduced. View chains and tables give False.
    """
    if layout.base is not None or layout.tables is not None:
        return False
    axes = [(n, abs(stride)) for n, stride in zip(layout.shape, layout.strides, strict=True)]
    return any(
        stride <= inner_stride * (n - 1) and inner_stride < stride * count
        for n, inner_stride in axes[result_ndim:]
        for count, stride in axes[:result_ndim]
        if stride
    )


def _count_row_elements(layout: Layout, result_ndim: int, reduction: Reduction) -> int:
    """Return the number of contiguous elements reduced for a result, if there are few; otherwise 0.

    Few are up to `MAX_SHORT_ROW_ELEMENTS`, or `MAX_UNROLLED_EXTREMA` for an ordered `reduction`. All rows together must have
    `MIN_TOTAL_ELEMENTS` elements, or `MIN_ARGEXTREMUM_SIZE` for argmax and argmin. `reduction` runs over the axes of `layout` after the
    first `result_ndim`. If a kept axis has the smallest stride, and for view chains and tables, the number is 0.
    """
    max_row_size = MAX_UNROLLED_EXTREMA if reduction.ordered else MAX_SHORT_ROW_ELEMENTS
    if (
        layout.size < (MIN_ARGEXTREMUM_SIZE if reduction.uses_position else MIN_TOTAL_ELEMENTS)
        or layout.base is not None
        or layout.tables is not None
    ):
        return 0
    strides = [abs(stride) if n > 1 else 0 for n, stride in zip(layout.shape, layout.strides, strict=True)]
    min_stride = min([stride for stride in strides if stride], default=0)
    if not min_stride or min_stride in strides[:result_ndim]:
        return 0
    row_size = 1
    while row_size <= max_row_size and row_size * min_stride in strides[result_ndim:]:
        row_size *= layout.shape[result_ndim + strides[result_ndim:].index(row_size * min_stride)]
    return row_size if row_size <= max_row_size else 0


def _split_terms(layout: Layout, result_ndim: int) -> list[Layout]:
    """Return the layout of each term of a reduction through `layout`: for each index of the reduced axes, in row-major order, one layout of
    the results' shape.
    """
    leading = (slice(None),) * result_ndim
    return [layout.index((*leading, *term_index)) for term_index in product(*map(range, layout.shape[result_ndim:]))]


def _append_products(new_nodes: list[Node], products: Node, sides: tuple[Layout, ...], result_ndim: int) -> list[tuple[Node, Layout]]:
    """Append a product node to `new_nodes` for each term of the node `products`, read through the layouts `sides` of both factors.

    Return the new nodes, each with a contiguous layout. `new_nodes` must be empty before. The axes after the first `result_ndim` give the
    terms.
    """
    for term_layouts in zip(*[_split_terms(side, result_ndim) for side in sides], strict=True):
        new_nodes.append(Node.of(_MULTIPLY, term_layouts[0].shape, products.dtype, products.sources, term_layouts))
    return [(term, Layout.contiguous(term.shape)) for term in new_nodes]
