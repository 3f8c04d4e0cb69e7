"""The choice between kernels and inlining for pending nodes.

A node is inlined, and never stored, where this repeats no costly work. Either a single kernel reads the node, or several kernels reduce
disjoint parts; and the index maps in the kernels' loops must be single views. Every other node becomes a kernel. So does a contraction
(`match_contraction.py`), unless the rest of the kernel is elementwise work on the results, including a write into a part of a tensor.
Long work is split into kernels of limited length, because compile time grows faster than length. The choice never changes a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from math import prod

from .._utils.lazy import LazyFunctions
from .._utils.records import NamedTuple
from ..graph.node import EMPTY, POSITION, UPDATE, Gather, Node, Scan, Scatter, is_read_from_memory, is_store, is_write
from ..layout import Layout
from ..ops import OPS, Op
from ..ops.expanded_cost import compute_expanded_cost
from ..ops.reductions import REDUCTIONS, Reduction
from ..target import Fusing, Target
from .index_maps import (
    count_hoisted_runs,
    find_last_axis,
    get_inner_shape,
    get_root_index_map,
    has_checked_exponents,
    hoist_index_map,
    make_identity_map,
    source_index_maps,
)

single_pass_module = LazyFunctions("tenxor.lowering.fuse_single_pass")  # imported with the first large reduction

MAX_WEIGHT = 1 << 20  # operations: the maximal weight; shared nodes count repeatedly, so weights grow exponentially
_SUM, _MULTIPLY = REDUCTIONS["sum"], OPS["multiply"]
_MEMORY_SOURCE_KINDS = frozenset(("reinterpret", "blocks"))  # operations that require their sources in memory


class _Read(NamedTuple):
    """A use of a node: the root of the kernel that needs it, and the index map from the loops of the kernel. Along the last
    `indexed_axis_count` axes of the index map no loop runs: their index is the value of another node.
    """

    kernel: Node
    index_map: Layout
    indexed_axis_count: int = 0

    @property
    def loop_count(self) -> int:
        """The number of loops around the read."""
        return len(self.index_map.shape) - self.indexed_axis_count


class _NodeFacts(NamedTuple):
    """Facts about a node apart from its readers: the weight in operations, the cost in additions, whether the node is cheap and reads no
    memory (`is_constant`), and whether only parts of likely contractions read it (`is_contraction_operand`).
    """

    weight: int
    cost: int
    is_constant: bool
    is_contraction_operand: bool


def collect_pending(roots: Sequence[Node]) -> list[Node]:
    """Return the pending nodes below and among `roots`, each after its sources."""
    order: dict[Node, None] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node.buffer is not None or node in order:
            stack.pop()
        elif unvisited := [s for s in node.sources if type(s) is Node and s.buffer is None and s not in order]:
            stack.extend(reversed(unvisited))
        else:
            order[stack.pop()] = None
    return list(order)


def fuse(order: Sequence[Node], roots: Sequence[Node], target: Target) -> list[Node]:
    """Return the nodes of `order` to compute as kernels, in a valid order of execution. The kernels inline the remaining nodes.

    `order` holds pending nodes, sources first. The nodes `roots` are always kernels.
    """
    stored, row_nodes = set(roots), _map_row_sums(order, roots, target)
    while True:
        kernels, reads, nested_kernels = _choose_kernels(order, stored, target.fusing)
        newly_stored = _unfuse_contractions(kernels, reads) | _unfuse_gathers(kernels, reads) or _unfuse_nested(kernels, nested_kernels)
        if not newly_stored and row_nodes:
            kernels, newly_stored = single_pass_module.fuse_row_nodes(kernels, row_nodes)
        if newly_stored <= stored:
            return kernels
        stored |= newly_stored


def _map_row_sums(order: Sequence[Node], roots: Sequence[Node], target: Target) -> dict[Node, set[Node]]:
    """Map each sum over rows to the pending nodes needed for this sum alone.

    The sum's kernel can compute these nodes row by row, and read the matrix once. `order` holds the pending nodes, sources first. `roots`
    are the nodes whose values are asked for. The map is empty with fewer than two reductions.
    """
    if sum([isinstance(node.op, Reduction) for node in order]) < 2:
        return {}
    row_nodes: dict[Node, set[Node]] = single_pass_module.map_row_nodes(order, roots, target)
    return row_nodes


def _unfuse_contractions(kernels: Sequence[Node], reads: dict[Node, list[_Read]]) -> set[Node]:
    """Return the nodes to store so that contractions stay kernels: inlined contractions, or else the obstacles to a contraction.

    `kernels` are the nodes chosen as kernels so far, and `reads` maps each node to the reads of this node.
    """
    kernel_set = set(kernels)
    inlined_reductions: dict[Node, list[Node]] = {}
    for node, node_reads in reads.items():
        if isinstance(node.op, Reduction) and node not in kernel_set:
            inlined_reductions.setdefault(node_reads[0].kernel, []).append(node)
    unfused: set[Node] = set()
    if not inlined_reductions:
        return unfused
    from .predict_contraction import is_contraction, may_be_contraction  # with the first reduction

    for kernel, reductions in inlined_reductions.items():
        if _may_be_contraction(kernel) and not is_contraction(kernel, kernel_set) and is_contraction(kernel, kernel_set | set(reductions)):
            unfused.update(reductions)
            continue
        likely_products = [node for node in reductions if may_be_contraction(node)]
        has_elementwise_end = type(kernel.op) is Op or is_store(kernel.op)
        if likely_products and not (has_elementwise_end and is_contraction(kernel, kernel_set)):
            products = [node for node in likely_products if is_contraction(node, kernel_set)]
            other_reductions = _list_other_reductions(reductions, products) if has_elementwise_end else set()
            unfused |= other_reductions if other_reductions and is_contraction(kernel, kernel_set | other_reductions) else set(products)
    return unfused


def _unfuse_gathers(kernels: Sequence[Node], reads: dict[Node, list[_Read]]) -> set[Node]:
    """Return the inlined gathers that would be computed repeatedly, because no contraction packs them.

    `kernels` are the nodes chosen as kernels so far, and `reads` maps each node to the reads of this node.
    """
    kernel_set = set(kernels)
    repeated_gathers: dict[Node, list[Node]] = {}
    for node, node_reads in reads.items():
        if isinstance(node.op, Gather) and node not in kernel_set and _count_computations(node_reads[0]) > node.size:
            repeated_gathers.setdefault(node_reads[0].kernel, []).append(node)
    if not repeated_gathers:
        return set()
    from .predict_contraction import is_contraction

    return {node for kernel, gathers in repeated_gathers.items() if not is_contraction(kernel, kernel_set) for node in gathers}


def _unfuse_nested(kernels: Sequence[Node], nested_kernels: Set[Node]) -> set[Node]:
    """Return the nodes to store because a reduction inside another would change the order of the outer sum, or take far longer.

    `nested_kernels` are the `kernels` with a reduction inside the loops of another.
    """
    if not nested_kernels:
        return set()
    from .lower import build_split_draft
    from .order_loops import find_unfusable

    kernel_set = set(kernels)
    return {node for kernel in nested_kernels for node in find_unfusable(build_split_draft(kernel, kernel_set))}


def _list_other_reductions(reductions: Sequence[Node], products: Sequence[Node]) -> set[Node]:
    """Return the reductions to store so that a kernel can end with the contraction `products[-1]`: every reduction but this contraction.

    `reductions` are the inlined reductions of the kernel, and `products` the contractions among them. Return an empty set if more
    reductions than contractions would be stored, or if a stored reduction needs the result of `products[-1]`.
    """
    other_reductions = {node for node in reductions if node is not products[-1]} if products else set()
    has_more = len(reductions) > len(products) + 1
    return set() if has_more or any(depends_on(node, products[-1]) for node in other_reductions) else other_reductions


def _choose_kernels(order: Sequence[Node], roots: set[Node], fusing: Fusing) -> tuple[list[Node], dict[Node, list[_Read]], set[Node]]:
    """Return the kernels in order, the reads of each node, and the kernels in which a reduction runs inside the loops of another.

    A kernel is named by its root, the stored node; the remaining nodes are inlined. A read (`_Read`) of a node is a use: the kernel in
    which the node is evaluated, and the index map from the loops of the kernel. `order` holds pending nodes, sources first. The nodes in
    `roots` are always kernels. The root of a kernel has a single read: by itself, in the loops of the kernel.
    """
    kernels = roots | _find_required(order) | _find_shareable(order, fusing) | _find_shared_gathers(order) | _find_scalar_operands(order)
    node_weights = compute_weights(order)
    constant_nodes = find_constants(order, node_weights, fusing)
    node_costs = estimate_costs(order)
    reads: dict[Node, list[_Read]] = {node: [] for node in order}
    length_limit = _LengthLimit(order, fusing)
    non_product_operands: set[Node] = set()  # nodes read by more than parts of likely contractions
    loops_around: dict[Node, int] = {}  # the number of loops around the reductions that a node is part of
    nested_kernels: set[Node] = set()
    for node in reversed(order):
        facts = _NodeFacts(node_weights[node], node_costs[node], node in constant_nodes, node not in non_product_operands)
        is_kernel = node in kernels or _is_scanned(node, reads[node]) or not _is_inlined(node, reads[node], fusing, facts)
        if is_kernel or length_limit.must_end(node, reads[node], facts):
            kernels.add(node)
            reads[node] = [_Read(node, get_root_index_map(node))]
            loops_around.pop(node, None)
        length_limit.add_node(node, reads[node])
        if (node in kernels or node in non_product_operands) and not _may_be_contraction(node):
            non_product_operands.update(source for source in node.sources if type(source) is Node)
        if isinstance(node.op, Reduction):
            nested_kernels.update(read.kernel for read in reads[node] if read.loop_count > loops_around.get(node, read.loop_count))
            loop_count = min(read.loop_count for read in reads[node])
            loops_around[node] = min(loop_count, loops_around.get(node, loop_count))
        if node in loops_around:
            loop_count = loops_around[node]
            loops_around.update((s, min(loop_count, loops_around.get(s, loop_count))) for s in node.sources if type(s) is Node)
        for kernel, index_map, chosen in reads[node]:
            for k, (source, source_map) in enumerate(_list_reads(node, index_map)):
                new_chosen = len(get_inner_shape(node)) if isinstance(node.op, Gather) and k == 0 else 0
                if isinstance(source.op, Reduction) and not chosen + new_chosen:
                    source_map = hoist_index_map(source_map)  # computed once, outside of the loops it does not depend on
                read = _Read(kernel, source_map, chosen + new_chosen)
                if source in reads and read not in reads[source]:
                    reads[source].append(read)
    return [node for node in order if node in kernels], reads, nested_kernels


def _is_scanned(node: Node, reads: Sequence[_Read]) -> bool:
    """Return whether a scan reads the reduction `node`, and the reduction would round differently in the scan's loop than alone.

    `reads` are the reads of the node. Integers, and the largest or smallest element, are equal in any order.
    """
    is_exact = not isinstance(node.op, Reduction) or node.op.name in ("max", "min") or node.dtype.kind in ("int", "uint", "bool")
    return not is_exact and any([isinstance(read.kernel.op, Scan) for read in reads])


def _may_be_contraction(node: Node) -> bool:
    if not isinstance(node.op, Reduction):
        return False
    from .predict_contraction import may_be_contraction

    return may_be_contraction(node)


def _list_reads(node: Node, index_map: Layout) -> list[tuple[Node, Layout]]:
    """Return the source nodes of a node read at `index_map`, each with its own index map. Scalar sources are left out."""
    if is_write(node.op):
        old, *operands = _list_source_nodes(node)
        # The old content is no operand of the loop: `realize` writes into its memory or into a copy.
        # A second reader makes the old content a separate kernel.
        return [(old, make_identity_map(old)), *((operand, x) for operand, x in zip(operands, node.layouts[1:], strict=True) if x)]
    if isinstance(node.op, Scan):
        source, layout = node.sources[0], node.layouts[0]
        assert type(source) is Node and layout is not None
        return [(source, layout)]
    if node.op.kind in _MEMORY_SOURCE_KINDS:
        return [(source, make_identity_map(source)) for source in node.sources if type(source) is Node]
    return source_index_maps(node, index_map)


def _find_required(order: Sequence[Node]) -> set[Node]:
    """Return the nodes of `order` required in memory.

    These are overwritten nodes, values and indices computed from them, and sources of bytes or blocks.
    """
    required: set[Node] = set()
    readers = Counter([source for node in order for source in set(node.sources)])
    for node in order:
        if is_write(node.op):
            old, *operands = _list_source_nodes(node)
            if readers[old] > 1 and not (node.op is UPDATE and _is_elementwise(operands[0])):  # otherwise only this write reads it
                required.update(operand for operand in operands if operand.buffer is None and depends_on(operand, old))
            if old.buffer is None:
                required.add(old)
        elif node.op.kind in _MEMORY_SOURCE_KINDS:
            required.update(s for s in node.sources if type(s) is Node and s.buffer is None)
    return required


def _list_source_nodes(node: Node) -> list[Node]:
    return [source for source in node.sources if type(source) is Node]


def _find_shareable(order: Sequence[Node], fusing: Fusing) -> set[Node]:
    """Return the sources of reductions with few results, where a reduction below the source reads much for each element of it.

    Once stored, a source has a separate loop for threads to share, and the store is cheap. `order` holds pending nodes, sources first.
    """
    shareable: set[Node] = set()
    reads: dict[Node, int] = {}  # the number of elements read by the largest reduction below
    for node in order:
        if isinstance(node.op, Op):
            reads[node] = max((reads.get(s, 0) for s in node.sources if type(s) is Node), default=0)
        elif isinstance(node.op, Reduction):
            source = node.sources[0]
            assert type(source) is Node and node.layouts[0] is not None
            reads[node] = node.layouts[0].size
            min_reads = max(fusing.min_shared_elements, fusing.read_store_ratio * source.size)
            if node.size < fusing.min_shared_results <= source.size and reads.get(source, 0) >= min_reads:
                shareable.add(source)
    return shareable


def _find_shared_gathers(order: Sequence[Node]) -> set[Node]:
    """Return the gathers of single elements with several readers in `order`.

    Each element should be fetched from scattered memory only once. A gather of contiguous rows is not returned.
    """
    gathers: set[Node] = set()
    readers = Counter(source for node in order for source in set(node.sources))
    for node in order:
        if isinstance(node.op, Gather) and readers[node] > 1:
            layout, result_ndim = node.layouts[0], len(node.shape)
            assert layout is not None
            takes_rows = result_ndim > 0 and layout.base is None and layout.tables is None and layout.strides[result_ndim - 1] == 1
            if not takes_rows or any(i is not None and i.strides[-1] for i in node.layouts[1:]):
                gathers.add(node)
    return gathers


def _find_scalar_operands(order: Sequence[Node]) -> set[Node]:
    """Return the nodes made of scalars alone to store for reductions, or sums of products.

    No layout would fix the order in which they are added; in memory, their order does. A node of `order` is stored if it is small, or
    broadcast by its reader (`is_read_from_memory`).
    """
    stored: set[Node] = set()
    scalar_made: set[Node] = set()
    for node in order:
        sources = _list_source_nodes(node)
        layout_keys = zip(node.sources, node.recipe.layout_keys, strict=False)  # a store has one more source
        if (
            isinstance(node.op, Op)
            and node.sources
            and all([layout_key is None or layout_key.is_broadcast_scalar or s in scalar_made for s, layout_key in layout_keys])
        ):
            scalar_made.add(node)
        if isinstance(node.op, Reduction):
            is_sum_of_products = node.op is _SUM and sources[0].buffer is None and sources[0].op is _MULTIPLY
            reader = sources[0] if is_sum_of_products else node
            operands = [s for s in _list_source_nodes(reader) if s in scalar_made and s.size > 1]
            stored.update(s for s in operands if is_read_from_memory(s, reader))
    return stored


def _is_elementwise(node: Node) -> bool:
    """Return whether a node is computed from memory by elementwise operations alone."""
    return all([isinstance(n.op, Op) for n in collect_pending([node])])


def depends_on(node: Node, goal: Node) -> bool:
    """Return whether a node is `goal`, or reads it directly or through pending nodes."""
    visited: set[Node] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if node is goal or goal in node.sources:  # a reader is often near
            return True
        if node not in visited and node.buffer is None:
            visited.add(node)
            stack += [s for s in node.sources if type(s) is Node and s.buffer is None]
    return False


def compute_weights(order: Sequence[Node]) -> dict[Node, int]:
    """Return the number of operations to compute each node of `order` anew, at most `MAX_WEIGHT`. A source read twice counts twice.

    `order` holds pending nodes, sources first. A source in memory costs nothing.
    """
    node_weights: dict[Node, int] = {}
    for node in order:
        node_weights[node] = min(1 + sum(node_weights.get(s, 0) for s in node.sources if type(s) is Node), MAX_WEIGHT)
    return node_weights


def find_constants(order: Sequence[Node], weight: dict[Node, int], fusing: Fusing) -> set[Node]:
    """Return the nodes of `order` that cost nothing to compute again: cheap operations without reads of memory.

    `order` lists sources first. `weight` is the number of operations to compute each node anew (`compute_weights`).
    """
    constant_nodes: set[Node] = set()
    for node in order:
        is_cheap = type(node.op) is Op and node.op.cost <= fusing.max_repeated_for_load and weight[node] <= 4 * fusing.max_repeated_for_load
        if node.op is POSITION or (is_cheap and all(type(s) is not Node or s in constant_nodes for s in node.sources)):
            constant_nodes.add(node)
    return constant_nodes


def find_nonexpanding(order: Sequence[Node], size_of: Callable[[Node], int]) -> set[Node]:
    """Return the nodes no larger than their sources together, so storing them takes no extra memory.

    `order` lists sources first, and `size_of` gives the size of a node, in elements or bytes. An operation on a broadcast is not among the
    nodes returned, but its source before the broadcast is.
    """
    min_sizes: dict[Node, int] = {}  # the smallest memory that can replace a node
    narrow_nodes: set[Node] = set()
    for node in order:
        size = size_of(node)
        sources = {s for s in node.sources if type(s) is Node}
        source_size = sum(min_sizes.get(s, size_of(s)) for s in sources)
        if size <= source_size or node.op is EMPTY:
            narrow_nodes.add(node)
        min_sizes[node] = min(size, source_size) if sources else size
    return narrow_nodes


class _LengthLimit:
    """A limit on the length of kernels, for the pending nodes `order` (sources first) and the limits `fusing` of the target.

    A long kernel ends at a node no larger than memory needed anyway: the kernel's result, or the node's sources. From then on the kernel
    inlines only cheap nodes. Lengths are in additions.
    """

    def __init__(self, order: Sequence[Node], fusing: Fusing) -> None:
        self.fusing = fusing
        self.lengths = {n: compute_expanded_cost(n.op, n.recipe.dtypes) for n in order if isinstance(n.op, Op)}
        is_long = sum(self.lengths.values()) > fusing.max_expanded_additions
        self.nonexpanding = find_nonexpanding(order, lambda node: node.size) if is_long else set()
        self.is_active = is_long
        self.kernel_lengths: Counter[Node] = Counter()  # length of each kernel so far
        self.ended_kernels: set[Node] = set()  # kernels that reached the limit

    def must_end(self, node: Node, reads: Sequence[_Read], facts: _NodeFacts) -> bool:
        """Return whether `node` becomes a kernel because the kernels of `reads` would get too long otherwise.

        `reads` are the reads of the node, and `facts` the facts about it. If the answer is True, the full kernels inline only cheap nodes
        from now on.
        """
        if not self.is_active or facts.is_constant or facts.cost <= self.fusing.max_repeated_for_load or not isinstance(node.op, Op):
            return False
        kernels = {read.kernel for read in reads}
        node_length = self.lengths[node]
        full_kernels = {
            k for k in kernels if k in self.ended_kernels or self.kernel_lengths[k] + node_length > self.fusing.max_expanded_additions
        }
        if not full_kernels or not (node in self.nonexpanding or all(node.size <= k.size for k in kernels)):
            return False
        self.ended_kernels |= full_kernels
        return True

    def add_node(self, node: Node, reads: Sequence[_Read]) -> None:
        """Add the length of `node` to the kernels of `reads`, the reads of the node: once for each different read."""
        if self.is_active:
            for read in reads:
                self.kernel_lengths[read.kernel] += self.lengths.get(node, 0)


def estimate_costs(order: Sequence[Node]) -> dict[Node, int]:
    """Return the approximate cost of an element of each node, in additions, with all elementwise operations below it inlined.

    `order` holds pending nodes, sources first. The cost is 0 for a node of another operation, such as a reduction.
    """
    node_costs: dict[Node, int] = {}
    for node in order:
        if isinstance(node.op, Op):
            node_costs[node] = node.op.cost + sum(node_costs.get(s, 0) for s in node.sources if type(s) is Node)
        else:
            node_costs[node] = 0  # the result of a reduction, or memory, is only loaded
    return node_costs


def _keeps_bits(node: Node, index_map: Layout) -> bool:
    """Return whether the reduction `node`, read at `index_map` inside another kernel, adds in the same order as alone, and as fast.

    This holds if the innermost loop around the reduction runs along the last axis of the result, or if there is a single result.
    """
    if index_map.tables is not None:
        return False
    index_map = hoist_index_map(index_map)
    return node.size == 1 or find_last_axis(node.shape, index_map) == len(index_map.shape) - 1


def _count_computations(read: _Read) -> int:
    """Return how often a value is computed for `read`: once per iteration of the loops around it.

    Inner loops on which the index map does not depend do not count, unless an index is given by a value.
    """
    shape = read.index_map.shape
    return prod(shape[: len(shape) - read.indexed_axis_count]) if read.indexed_axis_count else count_hoisted_runs(read.index_map)


def _count_elements(index_map: Layout) -> int:
    """Return an upper bound for the number of distinct elements that `index_map` reaches."""
    tables = index_map.tables or (None,) * len(index_map.shape)
    axes = zip(index_map.shape, index_map.strides, tables, strict=True)
    return prod(n for n, stride, table in axes if stride or table is not None)


def _is_reduced_in_parts(node: Node, reads: list[_Read]) -> bool:
    """Return whether several kernels each reduce a different part of an elementwise result, so none repeats the work of another.

    `reads` are the reads of `node`. Their index maps together reach at most as many elements as `node` has.
    """
    return (
        isinstance(node.op, Op)
        and sum(_count_elements(r.index_map) for r in reads) <= node.size
        and all(
            isinstance(r.kernel.op, Reduction) or (isinstance(r.kernel.op, Op) and r.index_map.shape != get_root_index_map(r.kernel).shape)
            for r in reads
        )
    )


def _is_complete(node: Node, read: _Read) -> bool:
    """Return whether `read` computes every element of `node`, before anything is overwritten.

    Only then an index out of range, or a negative exponent, is always found, and in time.
    """
    return read.index_map.tables is None and not is_store(read.kernel.op) and read.index_map.covers(node.size)


def _is_inlined(node: Node, reads: list[_Read], fusing: Fusing, facts: _NodeFacts) -> bool:
    """Return whether `node` is computed at each of the `reads`, and never stored.

    `facts` are the facts about the node, and `fusing` the limits of the target.
    """
    if has_checked_exponents(node) and not all(_is_complete(node, read) for read in reads):
        return False
    return _can_be_inlined(node, reads, facts) and (
        _is_free(node, reads, fusing, facts) or (not node.is_stored and _is_worth_inlining(node, reads, fusing, facts))
    )


def _can_be_inlined(node: Node, reads: list[_Read], facts: _NodeFacts) -> bool:
    """Return whether inlining `node` in each of the `reads` is possible, by the `facts` about the node.

    The index maps must be single views. An index given by a value must still be checked, because memory is read at this index further
    below. Loops of a scatter compute values one by one, so they take only elementwise nodes and constants.
    """
    is_elementwise, is_constant = isinstance(node.op, Op), facts.is_constant
    return all(
        read.index_map.base is None
        and (not read.indexed_axis_count or (is_elementwise and not is_constant))
        and (is_elementwise or is_constant or type(read.kernel.op) is not Scatter)
        for read in reads
    )


def _is_free(node: Node, reads: list[_Read], fusing: Fusing, facts: _NodeFacts) -> bool:
    """Return whether computing `node` again for each of the `reads` costs no more than loading the value, by the `facts` about the node."""
    is_cheap = facts.weight <= fusing.max_constant_operations or _max_computations(reads) <= node.size
    return facts.is_constant and not node.is_stored and is_cheap


def _is_worth_inlining(node: Node, reads: list[_Read], fusing: Fusing, facts: _NodeFacts) -> bool:
    """Return whether inlining `node` in each of the `reads` repeats little work: nothing, or cheap operations.

    `facts` are the facts about the node. A division must not be repeated so often that a store would be cheaper. The readers must also be
    in a single kernel, or in several kernels with disjoint parts of the node.
    """
    has_one_read, has_one_kernel = len(reads) == 1, len({id(read.kernel) for read in reads}) == 1
    repeats_work = _max_computations(reads) > node.size
    if isinstance(node.op, Reduction):
        return has_one_read and not repeats_work and _keeps_bits(node, reads[0].index_map)
    if isinstance(node.op, Gather):
        return has_one_read and (not repeats_work or facts.is_contraction_operand) and _is_complete(node, reads[0])
    if not isinstance(node.op, Op) or len(reads) > fusing.max_reads or not (has_one_read or facts.cost <= fusing.max_repeated_for_reads):
        return False
    if not has_one_kernel:
        repeats_work = any(_count_computations(read) > _count_elements(read.index_map) for read in reads)
    is_often_repeated = facts.cost >= fusing.max_repeated_for_load and _max_computations(reads) >= fusing.read_store_ratio * node.size
    is_cheap = node.op.cost <= fusing.max_repeated_for_load and facts.weight <= fusing.max_repeated_for_load and not is_often_repeated
    return (has_one_kernel or _is_reduced_in_parts(node, reads)) and (is_cheap or not repeats_work)


def _max_computations(reads: list[_Read]) -> int:
    """Return the largest number of computations of a node for one of the `reads`."""
    return max(map(_count_computations, reads))
