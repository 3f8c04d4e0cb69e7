"""Division of large reductions into parts: threads share independent blocks, and lanes get rows of sufficient length. A reduction reads a
source through a layout; the first axes of the layout are kept, and the rest is reduced.

Rounding errors also grow less.
"""

from __future__ import annotations

from math import prod

from ..graph.node import Node
from ..graph.reduction_limits import MIN_SPLIT_ELEMENTS
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import COMBINING_OPS, REDUCTIONS, Reduction
from .graph_builder import append_cast, append_contiguous, append_reduction

# A reduction of MIN_SPLIT_ELEMENTS elements is split into BLOCK_COUNT blocks if it has at most MAX_SPLIT_RESULTS results, or at most
# MAX_COLUMN_RESULTS contiguous results. Short rows are joined.
MAX_SPLIT_RESULTS, MAX_COLUMN_RESULTS, BLOCK_COUNT = 16, 512, 64
# A reduction of MIN_HUGE_ELEMENTS elements to at most MAX_HUGE_RESULTS results is split into HUGE_BLOCK_COUNT blocks. Python can
# handle signals between the blocks.
MIN_HUGE_ELEMENTS, MAX_HUGE_RESULTS, HUGE_BLOCK_COUNT = 1 << 28, 1 << 10, 1 << 14
MIN_ROW_ELEMENTS, MAX_JOINED_ELEMENTS = 64, 256  # elements of a row: shorter rows are joined, up to this length


def split_reduction(node: Node) -> list[Node] | None:
    """Rewrite a large reduction as a reduction of parts and a reduction of their results; return None for every other node.

    The new nodes are listed sources first, with the result last. Large means at least `MIN_SPLIT_ELEMENTS` elements with few results, or in
    rows too short for lanes (`_choose_blocks`), or with some reduced axes nearer in memory than every kept axis (`_count_inner_axes`).
    """
    reduction, layout = node.op, node.layouts[0]
    assert isinstance(reduction, Reduction) and layout is not None
    if layout.size < MIN_SPLIT_ELEMENTS or reduction.name not in COMBINING_OPS:
        return None
    new_nodes: list[Node] = []
    (source,) = node.sources
    assert type(source) is Node
    append_split_reduction(new_nodes, reduction, source, layout, len(node.shape))
    return new_nodes if len(new_nodes) > 1 else None


def append_split_reduction(new_nodes: list[Node], reduction: Reduction, source: Node, layout: Layout, result_ndim: int) -> Node:
    """Append nodes to `new_nodes` for `reduction` of `source`, read through `layout`, over every axis except the first `result_ndim`.

    A reduction of at least `MIN_SPLIT_ELEMENTS` elements is divided into parts, if a way to divide it is known (`_choose_blocks`,
    `_count_inner_axes`), and the results of the parts are reduced. This requires a name in `COMBINING_OPS`. Then sums and products of
    narrow floats are computed in the compute dtype, and rounded at the end. Return the last node appended, the result.
    """
    inner_count = _count_inner_axes(layout, result_ndim)
    block_count, joined_rows = (1, 1) if inner_count else _choose_blocks(layout, result_ndim)
    if block_count * joined_rows == 1 and not inner_count:
        return append_reduction(new_nodes, reduction, source, layout, result_ndim)
    if source.dtype.compute_dtype is not source.dtype and reduction.name in ("sum", "prod"):
        wide_result = append_split_reduction(
            new_nodes, reduction, *append_cast(new_nodes, source.dtype.compute_dtype, source, layout), result_ndim
        )
        return append_cast(new_nodes, source.dtype, wide_result, Layout.contiguous(wide_result.shape))[0]
    if inner_count:
        return _reduce_inner_first(new_nodes, reduction, source, layout, result_ndim, inner_count)
    return _reduce_blocks(new_nodes, reduction, source, layout, result_ndim, block_count, joined_rows)


def _reduce_inner_first(
    new_nodes: list[Node], reduction: Reduction, source: Node, layout: Layout, result_ndim: int, inner_count: int
) -> Node:
    """Append nodes to `new_nodes`: `reduction` of `source` over the last `inner_count` axes of `layout`, and a reduction of its results
    over the rest.

    The first `result_ndim` axes of `layout` are kept. The second reduction may be divided further. Return the last node, of the kept axes.
    """
    first_inner = layout.ndim - inner_count
    partial = append_reduction(
        new_nodes,
        reduction,
        source,
        layout.permute((*range(result_ndim, first_inner), *range(result_ndim), *range(first_inner, layout.ndim))),
        first_inner,
    )
    partial.is_stored = True
    outer_count = first_inner - result_ndim
    partial_layout = Layout.contiguous(partial.shape).permute((*range(outer_count, first_inner), *range(outer_count)))
    return append_split_reduction(new_nodes, _combining_reduction(reduction), partial, partial_layout, result_ndim)


def _reduce_blocks(
    new_nodes: list[Node], reduction: Reduction, source: Node, layout: Layout, result_ndim: int, block_count: int, joined_rows: int
) -> Node:
    """Append nodes to `new_nodes`: `reduction` of `source` over each of `block_count` blocks of the longest reduced axis, then of the
    results.

    A remainder behind the blocks is reduced separately, and combined with the result. `joined_rows` neighbours along this axis are reduced
    side by side, as one longer row. The first `result_ndim` axes of `layout` are kept. Return the last node.
    """
    axis = max(range(result_ndim, layout.ndim), key=lambda a: layout.shape[a])
    size = layout.shape[axis]
    block_count = min(block_count, size)
    remainder_begin = size - size % (block_count * joined_rows)
    leading = (slice(None),) * axis
    block_layout = layout.index((*leading, slice(0, remainder_begin))).unflatten(axis, (block_count, -1, joined_rows))
    # The axis of blocks comes first. Joined rows come before the last axis, as in memory.
    order = [axis, *range(result_ndim - 1), axis + 2, *range(max(result_ndim - 1, 0), result_ndim)]
    block_layout = block_layout.permute((*order, *(a for a in range(block_layout.ndim) if a not in order)))
    partial = append_reduction(new_nodes, reduction, source, block_layout, result_ndim + 2)
    partial.is_stored = True  # a separate kernel, for the threads to share
    partial_axes = (0, max(result_ndim, 1))
    partial_layout = Layout.contiguous(partial.shape).permute(
        (*(a for a in range(result_ndim + 2) if a not in partial_axes), *partial_axes)
    )
    result = append_reduction(new_nodes, _combining_reduction(reduction), partial, partial_layout, result_ndim)
    if remainder_begin < size:
        remainder = append_reduction(new_nodes, reduction, source, layout.index((*leading, slice(remainder_begin, size))), result_ndim)
        result = append_contiguous(new_nodes, OPS[COMBINING_OPS[reduction.name]], result, remainder)
    return result


def _combining_reduction(reduction: Reduction) -> Reduction:
    """Return the reduction for partial results of `reduction`: "sum" for "count_nonzero", otherwise the entry of `REDUCTIONS` with its
    name.
    """
    return REDUCTIONS["sum" if reduction.name == "count_nonzero" else reduction.name]


def _count_inner_axes(layout: Layout, result_ndim: int) -> int:
    """Return the number of trailing reduced axes with smaller strides than every kept axis; 0 unless other reduced axes have larger ones.

    The first `result_ndim` axes of `layout` are kept. The trailing axes are reduced first, so memory is read in order.
    """
    if layout.size < MIN_SPLIT_ELEMENTS or not result_ndim or layout.base is not None or layout.tables is not None:
        return 0
    strides = [abs(s) for s in layout.strides]
    min_result_stride = min(strides[:result_ndim])
    are_inner = [s < min_result_stride for s in strides[result_ndim:]]
    count = sum(are_inner)
    inner_size = prod(layout.shape[layout.ndim - count :])
    return count if 0 < count < len(are_inner) and all(are_inner[-count:]) and inner_size >= MIN_ROW_ELEMENTS else 0


def _choose_blocks(layout: Layout, result_ndim: int) -> tuple[int, int]:
    """Return the number of blocks into which the longest reduced axis is divided, and the number of rows to join, for a reduction through
    `layout`.

    The reduction keeps the first `result_ndim` axes. There are several blocks for at most `MAX_SPLIT_RESULTS` results, or
    `MAX_COLUMN_RESULTS` contiguous ones, and more blocks for huge reductions (`MIN_HUGE_ELEMENTS`). Rows of fewer than `MIN_ROW_ELEMENTS`
    contiguous results are joined. (1, 1) leaves the reduction as it is, as for fewer than `MIN_SPLIT_ELEMENTS` elements.
    """
    result_count = prod(layout.shape[:result_ndim])
    if layout.size < MIN_SPLIT_ELEMENTS:
        return 1, 1
    if not result_ndim or layout.base is not None or layout.tables is not None or layout.strides[result_ndim - 1] != 1:
        if prod(layout.shape[result_ndim:]) > MIN_HUGE_ELEMENTS and result_count <= MAX_HUGE_RESULTS:
            return HUGE_BLOCK_COUNT, 1
        return (BLOCK_COUNT if result_count <= MAX_SPLIT_RESULTS else 1), 1
    max_extent, row_size = max(layout.shape[result_ndim:]), layout.shape[result_ndim - 1]
    block_count = BLOCK_COUNT if result_count <= MAX_COLUMN_RESULTS else 1
    joined_rows = 1
    while (
        row_size < MIN_ROW_ELEMENTS and 2 * joined_rows * row_size <= MAX_JOINED_ELEMENTS and max_extent >= 32 * block_count * joined_rows
    ):
        joined_rows *= 2
    return block_count, joined_rows
