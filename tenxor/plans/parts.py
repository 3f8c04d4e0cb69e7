"""Select nodes to compute first, by prebuilt kernels, where a plan for the whole of a small graph would start the compiler.

Each operation rounds its result once, fused or not, so the values are the same to the bit. A reduction is computed by itself only where it
adds in the same order as in the fused kernel. The sum of a product is always a single kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set

from ..node import ALONE, POSITION, Node, is_read_from_memory
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction
from ..target import Fusing
from .ready import MANY

LARGE = 1 << 20  # bytes of a result up to which a prebuilt kernel replaces a compilation
SUM, PRODUCT = REDUCTIONS["sum"], OPS["multiply"]


def product_in(node: Node) -> Node | None:
    """Return the pending product summed by `node`, or None if there is none. Sum and product form a single kernel, which rounds only once.
    """
    sources = node.sources  # read before the operation: the node may be computed at any time, and has no sources then
    if node.op is not SUM:
        return None
    (source,) = sources
    assert type(source) is Node
    return source if source.buffer is None and source.op is PRODUCT else None


def sources_first(nodes: Iterable[Node]) -> list[Node]:
    """Return the pending sources to compute before `nodes`, so that a single operation is left for each; an empty list if there are none.

    The list is also empty unless the graph has at most `MANY` nodes, all small, and gives the same bits when computed operation by
    operation.
    """
    found: dict[Node, None] = {}
    met = set[Node]()
    stack = list(nodes)
    roots = set(stack)
    products = largest = 0
    while stack:
        node = stack.pop()
        if node in met or node.buffer is not None:
            continue
        product = product_in(node)
        reads = product or node
        sources = [s for s in reads.sources if type(s) is Node]
        met.add(node)
        if len(met) > MANY or not _is_plain(node, reads) or not (isinstance(node.op, Op) or is_in_order(node, reads)):
            return []
        largest = max(largest, node.recipe.nbytes)
        products += product is not None
        if products > 1 and largest > ALONE:
            return []  # may be attention, rewritten as a whole
        stack += sources
        if node in roots:
            found.update((s, None) for s in sources if s.buffer is None)
    return list(found)


def _is_plain(node: Node, reads: Node) -> bool:
    """Return whether `node` can be computed by itself: the operation is simple, the result is small, and no memory is overwritten.

    `reads` is the node whose sources are read: `node`, or the product under a sum.
    """
    recipe = node.recipe
    fits = 0 < recipe.nbytes <= LARGE and recipe.target is None and not recipe.passing and not reads.recipe.passing
    known = isinstance(node.op, Op | Reduction) or node.op is POSITION
    return fits and known and (reads is node or not any(node.offsets))


def is_in_order(node: Node, reads: Node) -> bool:
    """Return whether the reduction `node` adds in the same order by itself as in the fused kernel.

    `reads` is the node whose sources are read: `node`, or the product under a sum. Sources made of scalars alone do not determine an order;
    but both kernels mostly read such sources from memory (`kernel/fuse.py`), and a sum of all elements has a single loop in both.
    """
    for source in reads.sources:
        if type(source) is Node:
            order = order_of(source)
            is_all = node.size == 1 and reads is node and source.size == node.layouts[0].size  # type: ignore[union-attr]
            if order is False or (order is None and not (is_all or is_read_from_memory(source, reads))):
                return False
    return True


def adding_otherwise(nodes: Sequence[Node]) -> set[int]:
    """Return the `id`s of the pending nodes whose bits may change if they are computed unfused.

    `nodes` come in topological order, and only the last nodes have readers outside. A node counts if it is, or depends on, a reduction that
    may add in another order by itself. The same holds for the sum of a product with a second reader, as such a product may be in memory.
    """
    owners = Counter([id(s) for node in nodes for s in node.sources])
    found: set[int] = set()
    for node in nodes:
        if node.buffer is not None:
            continue
        product = product_in(node)
        otherwise = isinstance(node.op, Reduction) and not is_in_order(node, product or node)
        if product and owners[id(product)] > 1:
            otherwise = otherwise or not order_of(product)
        if otherwise or any([id(s) in found for s in node.sources]):
            found.add(id(node))
    return found


def dear(inlined: Iterable[Node], fusing: Fusing, held: Set[Node] | None = None) -> list[Node]:
    """Return the nodes of `inlined` too expensive to repeat: above `fusing.repeatable` additions each, cheap operations not counted.

    `inlined` is in topological order. The cost of a node includes the inlined nodes below. With `held`, return only nodes of `held`; these
    will be stored, so they add nothing to the cost of their readers.
    """
    found: list[Node] = []
    cost: dict[Node, int] = {}
    for node in inlined:
        if type(node.op) is Op:
            own = node.op.cost if node.op.cost > fusing.cheap else 0
            cost[node] = own + sum([cost.get(s, 0) for s in node.sources if type(s) is Node])
            if cost[node] > fusing.repeatable and (held is None or node in held):
                found.append(node)
                if held is not None:
                    cost[node] = 0
    return found


def order_of(source: Node) -> bool | None:
    """Return whether the fused kernel runs through the source of a reduction in the order of memory: True, False, or None.

    True means that every operand down to memory and to other reductions, except single elements, has the same size and is read in row-major
    order. None means that nothing determines the order, as the source is made of scalars alone.
    """
    stack, looked_at, found = [(source, True)], 0, None
    while stack:
        node, is_large = stack.pop()
        if node.buffer is not None or isinstance(node.op, Reduction) or not node.sources:
            found = is_large or found
            continue
        looked_at += 1
        if looked_at > MANY or not node.recipe.keeps_order:
            return False
        stack += [(s, is_large and s.size == node.size) for s in node.sources if type(s) is Node]
    return found
