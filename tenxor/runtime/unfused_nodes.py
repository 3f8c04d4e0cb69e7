"""Select nodes to compute first, by prebuilt kernels, where a plan for the whole of a small graph would start the compiler.

Each operation rounds its result once, fused or not, so the values are the same to the bit. A reduction is computed by itself only where it
adds in the same order as in the fused kernel. The sum of a product is always a single kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set

from ..graph.node import MAX_STANDALONE_BYTES, POSITION, Node, is_read_from_memory
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction
from ..target import Fusing
from .shipped_op_plans import MAX_UNFUSED_NODES

MAX_UNFUSED_RESULT_BYTES = 1 << 20  # bytes of a result up to which a prebuilt kernel replaces a compilation
SUM, MULTIPLY = REDUCTIONS["sum"], OPS["multiply"]


def find_summed_product(node: Node) -> Node | None:
    """Return the pending product summed by `node`; None if `node` is no sum of a pending product. Sum and product form a single kernel, and
    the kernel rounds only once.
    """
    sources = node.sources  # read before the operation: the node may be computed at any time, and has no sources then
    if node.op is not SUM:
        return None
    (source,) = sources
    assert type(source) is Node
    return source if source.buffer is None and source.op is MULTIPLY else None


def find_unfused_sources(nodes: Iterable[Node]) -> list[Node]:
    """Return the pending sources to compute before `nodes`, so that a single operation is left for each; an empty list if there are none.

    The list is also empty unless the graph has at most `MAX_UNFUSED_NODES` nodes, all small, and gives the same bits when computed
    operation by operation.
    """
    pending_sources: dict[Node, None] = {}
    visited = set[Node]()
    stack = list(nodes)
    roots = set(stack)
    products = largest = 0
    while stack:
        node = stack.pop()
        if node in visited or node.buffer is not None:
            continue
        product = find_summed_product(node)
        reader = product or node
        sources = [s for s in reader.sources if type(s) is Node]
        visited.add(node)
        if (
            len(visited) > MAX_UNFUSED_NODES
            or not _is_standalone(node, reader)
            or not (isinstance(node.op, Op) or has_fused_order(node, reader))
        ):
            return []
        largest = max(largest, node.recipe.nbytes)
        products += product is not None
        if products > 1 and largest > MAX_STANDALONE_BYTES:
            return []  # may be attention, rewritten as a whole
        stack += sources
        if node in roots:
            pending_sources.update((s, None) for s in sources if s.buffer is None)
    return list(pending_sources)


def _is_standalone(node: Node, reader: Node) -> bool:
    """Return whether `node` can be computed by itself, by a kernel of a single operation, before its readers.

    The operation must be elementwise, a reduction, or `POSITION`. The result must be at most `MAX_UNFUSED_RESULT_BYTES` bytes and not
    empty, and no memory may be overwritten. Both recipes must be cacheable, and a sum must read the product from offset 0. `reader` is the
    node whose sources are read: `node`, or the product under a sum.
    """
    recipe = node.recipe
    fits = (
        0 < recipe.nbytes <= MAX_UNFUSED_RESULT_BYTES
        and recipe.target is None
        and not recipe.is_uncacheable
        and not reader.recipe.is_uncacheable
    )
    is_supported = isinstance(node.op, Op | Reduction) or node.op is POSITION
    return fits and is_supported and (reader is node or not any(node.offsets))


def has_fused_order(node: Node, reader: Node) -> bool:
    """Return whether the reduction `node` adds in the same order by itself as in the fused kernel.

    `reader` is the node whose sources are read: `node`, or the product under a sum. Sources made of scalars alone do not determine an
    order; but both kernels mostly read such sources from memory (`lowering/fuse.py`), and a sum of all elements has a single loop in both.
    """
    for source in reader.sources:
        if type(source) is Node:
            order = has_memory_order(source)
            is_full_sum = node.size == 1 and reader is node and source.size == node.layouts[0].size  # type: ignore[union-attr]
            if order is False or (order is None and not (is_full_sum or is_read_from_memory(source, reader))):
                return False
    return True


def find_reordered_ids(nodes: Sequence[Node]) -> set[int]:
    """Return the `id`s of the pending nodes whose bits may change if they are computed unfused.

    `nodes` come in topological order, and only the last nodes have readers outside. A node counts if it is, or depends on, a reduction that
    may add in another order by itself. The same holds for the sum of a product with a second reader: such a product may be stored first,
    and is then added in the order of memory.
    """
    reader_counts = Counter([id(s) for node in nodes for s in node.sources])
    reordered_ids: set[int] = set()
    for node in nodes:
        if node.buffer is not None:
            continue
        product = find_summed_product(node)
        is_reordered = isinstance(node.op, Reduction) and not has_fused_order(node, product or node)
        if product and reader_counts[id(product)] > 1:
            is_reordered = is_reordered or not has_memory_order(product)
        if is_reordered or any([id(s) in reordered_ids for s in node.sources]):
            reordered_ids.add(id(node))
    return reordered_ids


def find_expensive_nodes(inlined: Iterable[Node], fusing: Fusing, candidates: Set[Node] | None = None) -> list[Node]:
    """Return the nodes of `inlined` too expensive to repeat, in the same order: above `fusing.max_repeated_for_reads` additions per element
    each, cheap operations not counted.

    `inlined` is in topological order. The cost of a node includes the inlined nodes below. With `candidates`, return only nodes of
    `candidates`; these will be stored, so they add nothing to the cost of their readers.
    """
    expensive_nodes: list[Node] = []
    cost: dict[Node, int] = {}
    for node in inlined:
        if type(node.op) is Op:
            own_cost = node.op.cost if node.op.cost > fusing.max_repeated_for_load else 0
            cost[node] = own_cost + sum([cost.get(s, 0) for s in node.sources if type(s) is Node])
            if cost[node] > fusing.max_repeated_for_reads and (candidates is None or node in candidates):
                expensive_nodes.append(node)
                if candidates is not None:
                    cost[node] = 0
    return expensive_nodes


def has_memory_order(source: Node) -> bool | None:
    """Return whether the fused kernel runs through `source`, the source of a reduction, in the order of memory: True, False, or None.

    True means that every operand down to memory and to other reductions, except single elements, has the same size and is read in row-major
    order. None means that nothing determines the order, as `source` is made of scalars alone.
    """
    stack, visited_count, is_ordered = [(source, True)], 0, None
    while stack:
        node, is_large = stack.pop()
        if node.buffer is not None or isinstance(node.op, Reduction) or not node.sources:
            is_ordered = is_large or is_ordered
            continue
        visited_count += 1
        if visited_count > MAX_UNFUSED_NODES or not node.recipe.keeps_order:
            return False
        stack += [(s, is_large and s.size == node.size) for s in node.sources if type(s) is Node]
    return is_ordered
