"""Two-pass argmax and argmin of short rows: the extremum of each row, then the first equal position. A node is a pending operation on a
source, its operand, read through a layout.

A single pass carries a value and a position in every lane, and combines the lanes at the end of each row. For a row of a few vectors the
combination takes longer than the rest. Two passes read the row twice, but the second read comes from a cache.
"""

from __future__ import annotations

from ..dtypes import DType, uint8, uint16, uint32, uint64
from ..graph.node import POSITION, Node
from ..graph.reduction_limits import MAX_FLOAT_ROW_ELEMENTS, MIN_ARGEXTREMUM_SIZE
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import REDUCTIONS, Reduction
from .graph_builder import Term, append_elementwise, append_reduction, is_recomputable
from .unroll_reductions import MAX_UNROLLED_EXTREMA, differs_from_extremum

MAX_ROW_ELEMENTS = 32  # maximal elements of a row
MAX_NARROW_FLOAT_BYTES = 4  # maximal bytes of a narrow float
MAX_INTERMEDIATE_BYTES = 1 << 22  # maximal bytes of a computed operand: it is stored first, and read twice from a cache
_EXTREMUM_OF = {"argmax": REDUCTIONS["max"], "argmin": REDUCTIONS["min"]}
_UNSIGNED_OF_BYTES = {d.itemsize: d for d in (uint8, uint16, uint32, uint64)}


def split_argextremum(node: Node) -> list[Node] | None:
    """Rewrite the reduction `node`, an argmax or argmin along many short contiguous rows, as two reductions.

    Return the new nodes, sources first, with the replacement of `node` last. Return None where two passes do not pay: for other reductions
    or layouts (`_has_short_rows`), and for a computed operand of more than `MAX_INTERMEDIATE_BYTES`.
    """
    reduction, (source,), layout = node.op, node.sources, node.layouts[0]
    assert isinstance(reduction, Reduction) and layout is not None
    if not reduction.uses_position or type(source) is not Node or not _has_short_rows(layout, source.dtype, len(node.shape)):
        return None
    new_nodes: list[Node] = []
    if is_recomputable(source):
        if layout.size * source.dtype.itemsize > MAX_INTERMEDIATE_BYTES:
            return None
        source, layout = append_elementwise(new_nodes, OPS["positive"], source.dtype, (source, layout))
        source.is_stored = True
    row_axes, position_dtype = len(node.shape), _UNSIGNED_OF_BYTES[source.dtype.compute_dtype.itemsize]
    extrema = append_reduction(new_nodes, _EXTREMUM_OF[reduction.name], source, layout, row_axes)
    extrema.is_stored = True  # a separate kernel: in one kernel, the two stalls of each row would fill the out-of-order window
    extrema_layout = Layout.contiguous(extrema.shape).expand_dims(-1).expand(layout.shape)
    candidates = _mask_positions(
        new_nodes,
        position_dtype,
        differs_from_extremum(new_nodes, (source, layout), (extrema, extrema_layout)),
        _append_positions(new_nodes, position_dtype, layout),
    )
    positions = append_reduction(new_nodes, REDUCTIONS["min"], *candidates, row_axes)
    append_elementwise(new_nodes, OPS["cast"], node.dtype, (positions, Layout.contiguous(positions.shape)))
    return new_nodes


def _has_short_rows(layout: Layout, dtype: DType, row_axes: int) -> bool:
    """Return whether two passes (the extremum, then the position) pay for rows of `dtype` read through `layout`.

    A layout with tables, a view chain, and a number of axes other than `row_axes` + 1 give False. Rows must be contiguous each by itself
    (stride 1 along the last axis), with at least `MIN_ARGEXTREMUM_SIZE` elements in the rows together. Rows of at most
    `MAX_UNROLLED_EXTREMA` elements are unrolled instead (`unroll_reductions.py`). Rows longer than `MAX_ROW_ELEMENTS` are best reduced in a
    single pass; for floats of at most `MAX_NARROW_FLOAT_BYTES` bytes the limit is `MAX_FLOAT_ROW_ELEMENTS`.
    """
    if layout.ndim != row_axes + 1 or layout.base is not None or layout.tables is not None or layout.strides[-1] != 1:
        return False
    max_elements = MAX_FLOAT_ROW_ELEMENTS if dtype.is_float and dtype.itemsize <= MAX_NARROW_FLOAT_BYTES else MAX_ROW_ELEMENTS
    return MAX_UNROLLED_EXTREMA < layout.shape[-1] <= max_elements and layout.size >= MIN_ARGEXTREMUM_SIZE


def _append_positions(new_nodes: list[Node], dtype: DType, layout: Layout) -> Term:
    """Append a node of the positions 0 to n-1 in a row of n elements, integers of `dtype`, to `new_nodes`.

    The row is the last axis of `layout`. Return the node, and a layout to broadcast the node to the shape of `layout`.
    """
    row = layout.shape[-1:]
    new_nodes.append(Node.of(POSITION, row, dtype))
    return new_nodes[-1], Layout.contiguous(row).expand(layout.shape)


def _mask_positions(new_nodes: list[Node], dtype: DType, is_not_extremum: Term, positions: Term) -> Term:
    """Append nodes to `new_nodes` for the positions with every bit set where `is_not_extremum` holds, so a minimum ignores these positions.

    Return the last node, `positions | -is_not_extremum` in the unsigned `dtype`, and a contiguous layout. Both arguments are pairs of a
    node and a layout, of equal shape: booleans, and integers of `dtype`.
    """
    mask_bits = append_elementwise(new_nodes, OPS["cast"], dtype, is_not_extremum)
    return append_elementwise(
        new_nodes, OPS["bitwise_or"], dtype, positions, append_elementwise(new_nodes, OPS["negative"], dtype, mask_bits)
    )
