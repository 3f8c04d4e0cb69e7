"""Division of long contractions into parts: threads get more to share, packed operands stay small, and rounding errors grow less. A
contraction is a sum of products of two operands; the summed indices are its steps.
"""

from __future__ import annotations

from math import prod

from ..graph.node import Node
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import Reduction
from .graph_builder import append_contiguous, append_reduction
from .large_reductions import MAX_SPLIT_RESULTS, append_split_reduction

PART_STEPS = 1 << 14  # steps of a part; the results of the parts are added
_MULTIPLY = OPS["multiply"]


def split_contraction(node: Node) -> list[Node] | None:
    """Rewrite a long contraction as a contraction over blocks of steps, and a sum of the results; return None for every other node.

    The new nodes are listed sources first, with the result last. Long means at least `2 * PART_STEPS` steps for each of more than
    `MAX_SPLIT_RESULTS` results. The sum must read a whole product of two nodes in order, and several results must share elements of a
    factor.
    """
    reduction, layout, result_ndim = node.op, node.layouts[0], len(node.shape)
    assert isinstance(reduction, Reduction) and layout is not None
    if prod(layout.shape[result_ndim:]) < 2 * PART_STEPS or node.size <= MAX_SPLIT_RESULTS:
        return None
    (products,) = node.sources
    assert type(products) is Node
    if products.op is not _MULTIPLY or products.is_stored or reduction.name not in ("sum", "sum_in_width"):
        return None
    left_layout, right_layout = products.layouts
    if left_layout is None or right_layout is None or layout != Layout.contiguous(products.shape):
        return None
    if not any(_has_shared_elements(side, result_ndim) for side in (left_layout, right_layout)):
        return None
    new_nodes: list[Node] = []
    _append_sum(new_nodes, reduction, products, result_ndim)
    return new_nodes


def _has_shared_elements(side: Layout, result_ndim: int) -> bool:
    """Return whether `side` has stride 0 along an axis of results longer than 1, so that several results need the same elements.

    The first `result_ndim` axes of the layout `side` are axes of results. A view chain gives False. An axis with a table of offsets counts
    as shared, as its stride is 0.
    """
    return side.base is None and any(n > 1 and not stride for n, stride in zip(side.shape[:result_ndim], side.strides, strict=False))


def _append_sum(new_nodes: list[Node], reduction: Reduction, products: Node, result_ndim: int) -> Node:
    """Append nodes to `new_nodes` for the sum of `products` over every axis except the first `result_ndim`. Return the last node.

    From `2 * PART_STEPS` steps on, the sum is divided into parts of about `PART_STEPS` steps, whose results are then added. `reduction` is
    the sum, and `products` a node of products of two nodes.
    """
    steps = prod(products.shape[result_ndim:])
    if steps < 2 * PART_STEPS:
        return append_reduction(new_nodes, reduction, products, Layout.contiguous(products.shape), result_ndim)
    axis = max(range(result_ndim, len(products.shape)), key=lambda k: products.shape[k])
    size = products.shape[axis]
    part_size = max(1, PART_STEPS * size // steps)
    remainder_begin = size - size % part_size

    def append_part(begin: int, end: int, *, by_blocks: bool) -> Node:
        """Append the sum of the steps from `begin` to `end` of the longest axis, and return the node.

        With `by_blocks`, append partial sums over blocks of steps instead, with the blocks along a new first axis.
        """
        slices = (slice(None),) * axis + (slice(begin, end),)
        sides = [side.index(slices) for side in products.layouts if side is not None]
        if by_blocks:
            sides = [side.unflatten(axis, (-1, part_size)) for side in sides]
            order = (axis, *(k for k in range(len(products.shape) + 1) if k != axis))
            sides = [side.permute(order) for side in sides]
        new_nodes.append(Node.of(_MULTIPLY, sides[0].shape, products.dtype, products.sources, tuple(sides)))
        return _append_sum(new_nodes, reduction, new_nodes[-1], result_ndim + by_blocks)

    total = append_part(0, remainder_begin, by_blocks=True)
    total.is_stored = True  # a separate kernel, for the threads to share
    partial_layout = Layout.contiguous(total.shape).permute((*range(1, result_ndim + 1), 0))
    total = append_split_reduction(new_nodes, reduction, total, partial_layout, result_ndim)
    return (
        append_contiguous(new_nodes, OPS["add"], total, append_part(remainder_begin, size, by_blocks=False))
        if remainder_begin < size
        else total
    )
