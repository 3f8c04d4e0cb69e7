"""Division of long contractions into parts: threads get more to share, packed operands stay small, and rounding errors grow less."""

from __future__ import annotations

from math import prod

from ..layout import Layout
from ..node import Node
from ..ops import OPS
from ..ops.reductions import Reduction
from .making import computed, reduced
from .reductions import FEW, reduced_in_parts

STEPS = 1 << 14  # steps of a part; the results of the parts are added
_MULTIPLY = OPS["multiply"]


def product_in_parts(node: Node) -> list[Node] | None:
    """Rewrite a long contraction as a contraction over blocks of steps, and a sum of the results; return None for every other node.

    The new nodes are listed sources first, with the result last.
    """
    reduction, through, kept = node.op, node.layouts[0], len(node.shape)
    assert isinstance(reduction, Reduction) and through is not None
    if prod(through.shape[kept:]) < 2 * STEPS or node.size <= FEW:
        return None
    (products,) = node.sources
    assert type(products) is Node
    if products.op is not _MULTIPLY or products.stored or reduction.name not in ("sum", "sum_in_width"):
        return None
    one, other = products.layouts
    if one is None or other is None or through != Layout.contiguous(products.shape):
        return None
    if not any(_is_shared(side, kept) for side in (one, other)):
        return None
    made: list[Node] = []
    _summed(made, reduction, products, kept)
    return made


def _is_shared(side: Layout, kept: int) -> bool:
    """Return whether several results need the same elements of one side."""
    return side.base is None and any(
        n > 1 and not step for n, step in zip(side.shape[:kept], side.strides, strict=False)
    )


def _summed(made: list[Node], reduction: Reduction, products: Node, kept: int) -> Node:
    """Append the sum of products over every axis except the first `kept`, in parts if it is long. Return the last node."""
    steps = prod(products.shape[kept:])
    if steps < 2 * STEPS:
        return reduced(made, reduction, products, Layout.contiguous(products.shape), kept)
    axis = max(range(kept, len(products.shape)), key=lambda k: products.shape[k])
    size = products.shape[axis]
    each = max(1, STEPS * size // steps)
    whole = size - size % each

    def part(begin: int, end: int, *, cut: bool) -> Node:
        """Append the sum of the steps from `begin` to `end` of the longest axis, and return the node.

        With `cut`, append partial sums over blocks of steps instead, with the blocks along a new first axis.
        """
        where = (slice(None),) * axis + (slice(begin, end),)
        sides = [side.index(where) for side in products.layouts if side is not None]
        if cut:
            sides = [side.unflatten(axis, (-1, each)) for side in sides]
            order = (axis, *(k for k in range(len(products.shape) + 1) if k != axis))
            sides = [side.permute(order) for side in sides]
        made.append(Node.of(_MULTIPLY, sides[0].shape, products.dtype, products.sources, tuple(sides)))
        return _summed(made, reduction, made[-1], kept + cut)

    found = part(0, whole, cut=True)
    found.stored = True  # a separate kernel, for the threads to share
    last = Layout.contiguous(found.shape).permute((*range(1, kept + 1), 0))
    found = reduced_in_parts(made, reduction, found, last, kept)
    return computed(made, OPS["add"], found, part(whole, size, cut=False)) if whole < size else found
