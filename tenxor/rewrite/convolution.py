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
    reduction, through, kept = node.op, node.layouts[0], len(node.shape)
    assert isinstance(reduction, Reduction) and through is not None
    (products,) = node.sources
    assert type(products) is Node
    sides = sides_of(products, through)
    side = next((k for k, x in enumerate(sides) if times_read(x, kept) < FEW and overlaps(x, kept)), None)
    if side is None or not node.size or not _along_last(sides[side], kept):
        return None
    weight, seen = products.sources[1 - side], sides[1 - side]
    if type(weight) is not Node or seen.base is not None or seen.tables is not None or times_read(seen, kept) < FEW:
        return None
    made: list[Node] = []
    copied = turned(made, weight, seen, kept)
    both = [copied, (products.sources[side], sides[side])]
    sources, layouts = zip(*(both if side else both[::-1]), strict=True)
    made.append(Node.of(products.op, products.shape, products.dtype, sources, layouts))
    reduced(made, reduction, made[-1], through, kept)
    return made


def _along_last(seen: Layout, kept: int) -> bool:
    """Return whether the stride between neighbouring results is no larger than any nonzero stride of the view."""
    steps = [abs(step) for n, step in zip(seen.shape, seen.strides, strict=True) if n > 1]
    return kept > 0 and seen.shape[kept - 1] > 1 and abs(seen.strides[kept - 1]) <= min(s for s in steps if s)
