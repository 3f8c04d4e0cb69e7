"""Compute a graph without a plan, one operation after the other by prebuilt kernels, until a plan is due.

Each operation rounds its result once, fused or not, so the values are the same to the bit. A reduction that would add in another order by
itself stays in one kernel with the elementwise operations below. The sum of a product is always a single kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..graph.node import EMPTY, POSITION, Node, Recipe, Scan, is_read_from_memory, is_store
from ..graph.reduced_sources import find_summed_product, has_memory_order
from ..layout import Layout
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction
from ..rewrite.blockwise_op import MAX_UNBLOCKED_BYTES
from ..target import Fusing
from .operand_axes import is_plain_matrix_product
from .shipped_op_plans import MAX_RESULT_BYTES, find_shipped_kernel

MAX_UNFUSED_NODES = 1 << 10
MIN_CONTRACTION_RESULTS = 4  # results of the smallest contraction (`match_contraction.MIN_CONTRACTION_SIZES`)
# A plan saves the time of each operation and of the temporary result, and the look-ups at each request without a plan, of which the first
# search on disk is the longest. A plan costs the time of the planner and of the compiler, and once in a process the load of the compiler.
OPERATION_NS, TEMPORARY_BYTES_PER_NS, REQUEST_NS, SEARCH_NS = 300, 10, 100_000, 300_000
PLANNING_NS, COMPILATION_NS, NODES_PER_KERNEL, LOADING_NS = 500_000, 12_000_000, 16, 60_000_000
SUM, MAX, MULTIPLY, EXP = REDUCTIONS["sum"], REDUCTIONS["max"], OPS["multiply"], OPS["exp"]
_spent_ns: BoundedCache[list[int]] = register("charges of deferred plans", "nanoseconds (`Deferral`), by the operations of a graph")(
    BoundedCache(1 << 12)
)


def order_unfused_nodes(roots: Sequence[Node], has_kernel: Callable[[Recipe], object] = find_shipped_kernel) -> list[Node]:
    """Return the pending nodes to compute one by one, in order. Several roots are in the list themselves; a single root is not.

    The list is empty if the graph must be planned as a whole: it has large results, or an elementwise operation for whose recipe
    `has_kernel` is false. A reduction that adds in another order by itself stays together with the elementwise operations below.
    """
    order, visited = list[Node](), set[Node]()
    stack = [(root, False) for root in roots]
    exponentials = list[Node]()
    while stack:
        node, is_last_visit = stack.pop()
        if is_last_visit:
            order.append(node)
            continue
        if node in visited or node.buffer is not None:
            continue
        visited.add(node)
        product = find_summed_product(node)
        reader = product or node
        if len(visited) > MAX_UNFUSED_NODES or not _is_standalone(node, reader, has_kernel):
            return []
        if node.op is EXP and node.recipe.nbytes > MAX_UNBLOCKED_BYTES:
            exponentials.append(node)
        stack.append((node, True))
        is_fused = isinstance(node.op, Reduction) and not has_fused_order(node, reader)
        stack += [(source, False) for source in (_find_fused_inputs(node) if is_fused else reader.sources) if type(source) is Node]
    if any(map(_reads_product, exponentials)):
        return []  # may be attention, rewritten as a whole
    return order if len(roots) > 1 else [node for node in order if node is not roots[0]]


def _reads_product(node: Node) -> bool:
    """Return whether `node` is computed from a pending product by elementwise operations and maxima alone, as in attention."""
    stack, visited = list(node.sources), set[Node]()
    while stack:
        source = stack.pop()
        if type(source) is Node and source.buffer is None and source not in visited:
            visited.add(source)
            if find_summed_product(source) is not None:
                return True
            if isinstance(source.op, Op) or source.op is MAX:
                stack += source.sources
    return False


def _find_fused_inputs(reduction: Node) -> list[Node]:
    """Return the pending inputs of a kernel for `reduction` and the elementwise operations below."""
    inputs, stack, visited = list[Node](), list(reduction.sources), set[Node]()
    while stack:
        node = stack.pop()
        if type(node) is Node and node.buffer is None and node not in visited:
            visited.add(node)
            if isinstance(node.op, Op) or node.op is POSITION:
                stack += node.sources
            else:
                inputs.append(node)
    return inputs


def _is_standalone(node: Node, reader: Node, has_kernel: Callable[[Recipe], object]) -> bool:
    """Return whether `node` can be computed by itself before its readers.

    The recipe of an elementwise operation must satisfy `has_kernel`. Kernels for most other operations are not fused with anything. The
    result must be at most `MAX_RESULT_BYTES` bytes and not empty. Both recipes must be cacheable, and a sum must read the product
    from offset 0. `reader` is the node whose sources are read: `node`, or the product under a sum.
    """
    recipe, op = node.recipe, node.op
    if not 0 < recipe.nbytes <= MAX_RESULT_BYTES or recipe.is_uncacheable or reader.recipe.is_uncacheable:
        return False
    if isinstance(op, Op):
        is_outer_product = op is MULTIPLY and all([source.size < node.size for source in node.sources if type(source) is Node])
        return bool(has_kernel(recipe)) and not (is_outer_product and any([type(source) is Node for source in node.sources]))
    if isinstance(op, Reduction):
        return reader is node or not any(node.offsets)
    return op in (POSITION, EMPTY) or is_store(op) or type(op) is Scan


class Deferral(NamedTuple):
    """A deferred plan of a graph, which is computed operation by operation. Times are estimates.

    A request for the graph without a plan costs `gain_ns` more than with a plan, and the plan costs `cost_ns` to make. `spent_ns` has one
    item: the additional time so far of all requests for graphs of the same operations. `unfused_slots` are the numbers of the nodes to
    compute before the root, in order (`order_unfused_nodes`): indices into the nodes of the signature.
    """

    gain_ns: int
    cost_ns: int
    spent_ns: list[int]
    unfused_slots: list[int]

    def charge_request(self) -> bool:
        """Charge a request for the graph. Return whether the plan is due: all requests without the plan have cost as much time."""
        self.spent_ns[0] += self.gain_ns
        return self.spent_ns[0] >= self.cost_ns


def defer_plan(nodes: Sequence[Node], unfused_slots: list[int], is_compiler_loaded: bool) -> Deferral:
    """Return a new deferral, after a search for the plan. `nodes` are the pending nodes of the graph, and `unfused_slots` the numbers of
    the nodes to compute one by one.
    """
    operations = tuple([node.recipe.op for node in nodes])
    spent_ns = _spent_ns.get(operations)
    if spent_ns is None:
        spent_ns = [0]
        _spent_ns.put(operations, spent_ns)
    spent_ns[0] += SEARCH_NS
    gain_ns = REQUEST_NS + sum([OPERATION_NS + node.recipe.nbytes // TEMPORARY_BYTES_PER_NS for node in nodes])
    cost_ns = len(nodes) * PLANNING_NS + (1 + len(nodes) // NODES_PER_KERNEL) * COMPILATION_NS
    return Deferral(gain_ns, cost_ns + (0 if is_compiler_loaded else LOADING_NS), spent_ns, unfused_slots)


def has_fused_order(node: Node, reader: Node) -> bool:
    """Return whether the reduction `node` adds in the same order by itself as in the fused kernel.

    `reader` is the node whose sources are read: `node`, or the product under a sum. The order belongs to the reduction
    (`lowering/reduction_order.py`), but a contraction has its own, and needs operands that different loops read. Sources made of scalars
    alone are read in no order, but both kernels mostly read such sources from memory (`lowering/fuse.py`).
    """
    op = node.op
    if isinstance(op, Reduction) and op.is_order_free(node.recipe.dtypes[0]):
        return True
    if reader is not node and all([type(source) is Node and _has_full_operand(source) for source in reader.sources]):
        in_memory = [type(source) is Node and source.buffer is not None for source in reader.sources]
        if is_plain_matrix_product(node.recipe, reader.recipe, in_memory):
            return True
    is_contraction = node.size >= MIN_CONTRACTION_RESULTS and reader is node
    for source in reader.sources:
        if type(source) is Node:
            order = has_memory_order(source)
            is_full_sum = node.size == 1 and reader is node and source.size == node.layouts[0].size  # type: ignore[union-attr]
            if (order is False and is_contraction) or (order is None and not (is_full_sum or is_read_from_memory(source, reader))):
                return False
    return True


def _has_full_operand(source: Node) -> bool:
    """Return whether an operand in memory gives each element of `source` an element of its own, through elementwise operations alone."""
    while source.buffer is None and isinstance(source.op, Op):
        operands = [s for s, layout in zip(source.sources, source.layouts, strict=True) if layout is not None and _is_one_to_one(layout)]
        full_operand = next((s for s in operands if type(s) is Node and s.size == source.size), None)
        if full_operand is None:
            return False
        source = full_operand
    return source.buffer is not None or isinstance(source.op, Reduction)


def _is_one_to_one(layout: Layout) -> bool:
    """Return whether `layout` reads a single view and repeats no element along an axis."""
    return layout.base is None and all([stride or n == 1 for n, stride in zip(layout.shape, layout.strides, strict=True)])


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
