"""Which parts of something small are computed first, where a compiler would have to be started for the whole.

Every operation rounds its result once, alone or fused, so values are the same to the bit. A reduction adds up in the order in which the
fused kernel would, where all that it is made of lies as it does; else it is not parted from that. And a sum of a product is one kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..node import POSITION, Node
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction

ALONE = 1 << 14  # bytes up to which a node is computed by a kernel of its own
LARGE = 1 << 20  # and up to which it is, if a compiler would have to be started for a larger one
MANY = 16  # nodes that are computed so, at most: each takes half a millisecond
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
        if len(met) > MANY or not _is_plain(node, reads) or (isinstance(node.op, Reduction) and not all(map(_lies_in_order, sources))):
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


def _lies_in_order(source: Node) -> bool:
    """Whether the fused kernel would run through a source of a reduction as it runs through memory: if all that is read to make it, but
    single elements, is as large, and lies so, up to other reductions, whose results are as good as in memory.
    """
    stack, looked_at = [source], 0
    while stack:
        node = stack.pop()
        if node.buffer is not None or isinstance(node.op, Reduction):
            continue
        looked_at += 1
        if looked_at > MANY or not node.recipe.keeps_order:
            return False
        stack += [s for s in node.sources if type(s) is Node]
    return True
