"""Properties of the sources of a reduction, down to memory, on which the order of the additions depends. A node is a pending value on
source nodes; the fused kernel of a reduction computes its pending sources on the way. The order of the additions decides the bits of a sum
of floats.
"""

from __future__ import annotations

from ..ops import OPS
from ..ops.reductions import REDUCTIONS, Reduction
from .node import Node

MAX_SEARCHED_NODES = 1 << 10
_SUM, _MULTIPLY = REDUCTIONS["sum"], OPS["multiply"]


def is_order_free(node: Node) -> bool:
    """Return whether `node` is a reduction with the same bits in every order (`Reduction.is_order_free`)."""
    return isinstance(node.op, Reduction) and node.op.is_order_free(node.recipe.dtypes[0])


def find_summed_product(node: Node) -> Node | None:
    """Return the pending product summed by `node`; None if `node` is no sum of a pending product. Sum and product form a single kernel, and
    the kernel rounds only once.
    """
    sources = node.sources  # read before the operation: the node may be computed at any time, and has no sources then
    if node.op is not _SUM:
        return None
    (source,) = sources
    assert type(source) is Node
    return source if source.buffer is None and source.op is _MULTIPLY else None


def has_memory_order(source: Node) -> bool | None:
    """Return whether the fused kernel runs through `source`, the source of a reduction, in the order of memory: True, False, or None.

    True means that every operand down to memory and to other reductions, except single elements, has the same size and is read in row-major
    order. None means that nothing determines the order, as `source` is made of scalars alone. With more than `MAX_SEARCHED_NODES` nodes the
    answer is False.
    """
    stack, visited, is_ordered = [(source, True)], set[tuple[Node, bool]](), None
    while stack:
        read = node, is_large = stack.pop()
        if node.buffer is not None or isinstance(node.op, Reduction) or not node.sources:
            is_ordered = is_large or is_ordered
        elif read not in visited:
            visited.add(read)
            if len(visited) > MAX_SEARCHED_NODES or not node.recipe.keeps_order:
                return False
            stack += [(s, is_large and s.size == node.size) for s in node.sources if type(s) is Node]
    return is_ordered
