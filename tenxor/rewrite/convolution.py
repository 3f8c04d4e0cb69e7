"""Convolution with few kernels: the weights are copied with the kernels far apart, so that lanes run along results instead of kernels."""

from __future__ import annotations

from ..layout import Layout
from ..node import Node
from ..ops.reductions import Reduction
from .making import reduced, times_read, turned
from .short import FEW, overlaps, sides_of


def kernels_apart(node: Node) -> list[Node] | None:
    """Rewrite a sum of products of windows with few kernels, using a copy of the kernels. Return the new nodes, with the result last.

    Return None for every node of another form.
    """
    reduction, layout, result_ndim = node.op, node.layouts[0], len(node.shape)
    assert isinstance(reduction, Reduction) and layout is not None
    (products,) = node.sources
    assert type(products) is Node
    sides = sides_of(products, layout)
    side = next((k for k, x in enumerate(sides) if times_read(x, result_ndim) < FEW and overlaps(x, result_ndim)), None)
    if side is None or not node.size or not _is_last_fastest(sides[side], result_ndim):
        return None
    weight, weight_layout = products.sources[1 - side], sides[1 - side]
    if (
        type(weight) is not Node
        or weight_layout.base is not None
        or weight_layout.tables is not None
        or times_read(weight_layout, result_ndim) < FEW
    ):
        return None
    new_nodes: list[Node] = []
    weight_copy = turned(new_nodes, weight, weight_layout, result_ndim)
    terms = [weight_copy, (products.sources[side], sides[side])]
    sources, layouts = zip(*(terms if side else terms[::-1]), strict=True)
    new_nodes.append(Node.of(products.op, products.shape, products.dtype, sources, layouts))
    reduced(new_nodes, reduction, new_nodes[-1], layout, result_ndim)
    return new_nodes


def _is_last_fastest(layout: Layout, result_ndim: int) -> bool:
    """Return whether the stride between neighbouring results is no larger than any nonzero stride of the view."""
    strides = [abs(stride) for n, stride in zip(layout.shape, layout.strides, strict=True) if n > 1]
    return (
        result_ndim > 0
        and layout.shape[result_ndim - 1] > 1
        and abs(layout.strides[result_ndim - 1]) <= min(stride for stride in strides if stride)
    )
