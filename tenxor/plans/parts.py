"""Which parts of something small are computed first, where a compiler would have to be started for the whole.

Every operation rounds its result once, alone or fused, so values are the same to the bit. A reduction adds up in the order in which the
fused kernel would, where all that it is made of lies as it does; else it is not parted from that. And a sum of a product is one kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set

from ..node import ALONE, POSITION, Node, is_read_from_memory
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction
from ..target import Fusing
from .ready import MANY

LARGE = 1 << 20  # bytes up to which a node is computed by a kernel of its own, if a compiler would have to be started for a larger one
SUM, PRODUCT = REDUCTIONS["sum"], OPS["multiply"]


def product_in(node: Node) -> Node | None:
    """The pending product that a node is a sum of: both are one kernel, which rounds once where two would twice."""
    sources = node.sources  # asked before the operation: it may be computed any time, and then reads nothing
    if node.op is not SUM:
        return None
    (source,) = sources
    assert type(source) is Node
    return source if source.buffer is None and source.op is PRODUCT else None


def sources_first(nodes: Iterable[Node]) -> list[Node]:
    """What to compute before these, so that each is left with one operation; nothing if they are to be computed as they are."""
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
            return []  # it may be attention, which is computed otherwise
        stack += sources
        if node in roots:
            found.update((s, None) for s in sources if s.buffer is None)
    return list(found)


def _is_plain(node: Node, reads: Node) -> bool:
    """Whether a node, or the sum of one that it reads, can be computed alone: it is small, and writes over nothing."""
    recipe = node.recipe
    fits = 0 < recipe.nbytes <= LARGE and recipe.target is None and not recipe.passing and not reads.recipe.passing
    known = isinstance(node.op, Op | Reduction) or node.op is POSITION
    return fits and known and (reads is node or not any(node.offsets))


def is_in_order(node: Node, reads: Node) -> bool:
    """Whether a reduction adds up alone as in the fused kernel: of the sources of the node that `reads`, itself or a product that it sums.

    What is made of numbers alone says nothing of the order, but mostly it is in memory in either (`kernel/fuse.py`); and a sum of all of
    it has one loop in either.
    """
    for source in reads.sources:
        if type(source) is Node:
            order = order_of(source)
            is_all = node.size == 1 and reads is node and source.size == node.layouts[0].size  # type: ignore[union-attr]
            if order is False or (order is None and not (is_all or is_read_from_memory(source, reads))):
                return False
    return True


def adding_otherwise(nodes: Sequence[Node]) -> set[int]:
    """Which of some nodes, each of which comes behind its sources and others read just the last, are made of reductions, or are such, that
    may add up otherwise alone than in the fused kernel; or sums of products where these are in memory.
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
    """Those of some nodes, each behind what it reads, that take more additions than may be repeated, in operations that are not cheap. Of
    those that are `held`, these are stored: so others are dear for what they take beside them.
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
    """Whether the fused kernel would run through a source of a reduction as it runs through memory: if all that is read to make it, but
    single elements, is as large, and lies so, up to other reductions, whose results are as good as in memory. None if nothing says
    how, as it is made of numbers alone.
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
