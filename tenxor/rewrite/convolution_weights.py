"""Convolution with few kernels: the weights are copied with the elements of a kernel far apart, so that lanes run along results instead of
along a kernel. The windows and the weights are the two factors of a sum of products.
"""

from __future__ import annotations

from ..graph.node import Node
from ..graph.reduction_limits import MIN_TILED_READS
from ..layout import Layout
from ..ops.reductions import Reduction
from .graph_builder import append_reduction, append_transposed_copy, count_sharing_results
from .unroll_reductions import get_product_layouts, has_overlapping_windows


def copy_convolution_weights(node: Node) -> list[Node] | None:
    """Rewrite a sum of products of overlapping windows with the weights of few convolution kernels, using a copy of the weights.

    `node` must be a reduction. In the copy, the same element of all kernels is contiguous. Return the new nodes, sources first, with the
    result last. Return None unless one factor is windows, each element of which is read by fewer than `MIN_TILED_READS` kernels, and each
    weight is read for at least `MIN_TILED_READS` results. Also, the last result axis must have the smallest stride in the windows, and the
    weights must be read without tables and view chain.
    """
    reduction, layout, result_ndim = node.op, node.layouts[0], len(node.shape)
    assert isinstance(reduction, Reduction) and layout is not None
    (products,) = node.sources
    assert type(products) is Node
    sides = get_product_layouts(products, layout)
    side = next(
        (
            k
            for k, x in enumerate(sides)
            if count_sharing_results(x, result_ndim) < MIN_TILED_READS and has_overlapping_windows(x, result_ndim)
        ),
        None,
    )
    if side is None or not node.size or not _is_last_axis_fastest(sides[side], result_ndim):
        return None
    weight, weight_layout = products.sources[1 - side], sides[1 - side]
    if (
        type(weight) is not Node
        or weight_layout.base is not None
        or weight_layout.tables is not None
        or count_sharing_results(weight_layout, result_ndim) < MIN_TILED_READS
    ):
        return None
    new_nodes: list[Node] = []
    weight_copy = append_transposed_copy(new_nodes, weight, weight_layout, result_ndim)
    terms = [weight_copy, (products.sources[side], sides[side])]
    sources, layouts = zip(*(terms if side else terms[::-1]), strict=True)
    new_nodes.append(Node.of(products.op, products.shape, products.dtype, sources, layouts))
    append_reduction(new_nodes, reduction, new_nodes[-1], layout, result_ndim)
    return new_nodes


def _is_last_axis_fastest(layout: Layout, result_ndim: int) -> bool:
    """Return whether the stride between neighbouring results is no larger than any nonzero stride of `layout`.

    Neighbouring results are neighbours along axis `result_ndim - 1`. Without this axis, or if the axis has a single index, return False.
    Signs of strides do not matter.
    """
    strides = [abs(stride) for n, stride in zip(layout.shape, layout.strides, strict=True) if n > 1]
    return (
        result_ndim > 0
        and layout.shape[result_ndim - 1] > 1
        and abs(layout.strides[result_ndim - 1]) <= min(stride for stride in strides if stride)
    )
