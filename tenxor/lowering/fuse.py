"""The choice between kernels and inlining for pending nodes. A kernel stores the values of one node, the root of the kernel. An inlined
node is computed inside the kernels that read it, and never stored. A contraction is a generalized matrix product.

A node is inlined where this repeats no costly work. Either a single kernel reads the node, or several kernels reduce disjoint parts; and
the index maps in the kernels' loops must be single views. Every other node becomes a kernel. So does a contraction
(`match_contraction.py`), unless the rest of the kernel is elementwise work on the results, including a write into a part of a tensor. Long
work, and work with many reductions, is split into kernels of limited length, because compile time grows faster than length. The choice
never changes a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from math import prod

from .._utils.lazy import LazyFunctions
from .._utils.records import NamedTuple
from ..graph.node import Gather, Node, Scan, Scatter, is_store, is_write
from ..graph.reduced_sources import has_memory_order, is_order_free
from ..layout import Layout
from ..ops import Op
from ..ops.reductions import Reduction
from ..target import Fusing, Target
from .graph_facts import MEMORY_SOURCE_KINDS, GraphFacts
from .index_maps import (
    count_hoisted_runs,
    count_needed_loops,
    find_last_axis,
    get_inner_shape,
    has_checked_exponents,
    hoist_index_map,
    make_identity_map,
    source_index_maps,
)

single_pass_module = LazyFunctions("tenxor.lowering.fuse_single_pass")  # imported with the first large reduction


class _Read(NamedTuple):
    """A use of a node in a kernel: the root of the kernel, and the index map from the loops of the kernel to elements of the node.

    An index map is a layout over the loops; its values are flat indices of the node. The last `indexed_axis_count` axes of the index map
    have no loops: the index along them is the value of another node.
    """

    kernel: Node
    index_map: Layout
    indexed_axis_count: int = 0

    @property
    def loop_count(self) -> int:
        """The number of loops around the read."""
        return len(self.index_map.shape) - self.indexed_axis_count


class _NodeFacts(NamedTuple):
    """Facts about a node apart from its readers.

    `weight` is the number of operations to compute the node anew, and `cost` the cost of an element in additions. `is_constant` tells
    whether the node is cheap and reads no memory. `is_contraction_operand` tells whether only likely contractions read the node, directly
    or through inlined nodes.
    """

    weight: int
    cost: int
    is_constant: bool
    is_contraction_operand: bool


def collect_pending(roots: Sequence[Node]) -> list[Node]:
    """Return the pending nodes below and among `roots`, each once and after its sources."""
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

    `order` holds pending nodes, sources first, and all that they read but memory (`collect_pending`). The nodes `roots`, all in `order`,
    are always kernels. `target` has the limits of the machine. No node is changed.
    """
    graph, row_nodes = GraphFacts(order, target.fusing), _map_row_sums(order, roots, target)
    stored = graph.required_nodes.union(roots)
    while True:
        kernels, reads, nested_kernels = _choose_kernels(graph, stored)
        newly_stored = _unfuse_contractions(kernels, reads) | _unfuse_gathers(kernels, reads) or _unfuse_nested(kernels, nested_kernels)
        if not newly_stored and row_nodes:
            kernels, newly_stored = single_pass_module.fuse_row_nodes(kernels, row_nodes)
        if newly_stored <= stored:
            return kernels
        stored |= newly_stored


def _map_row_sums(order: Sequence[Node], roots: Sequence[Node], target: Target) -> dict[Node, set[Node]]:
    """Map each sum over rows to the pending nodes needed for this sum alone.

    The sum's kernel can compute these nodes row by row, and read the matrix once. `order` holds the pending nodes, sources first. `roots`
    are the nodes whose values are asked for, and `target` has the limits of the machine. The map is empty with fewer than two reductions.
    """
    if sum([isinstance(node.op, Reduction) for node in order]) < 2:
        return {}
    row_nodes: dict[Node, set[Node]] = single_pass_module.map_row_nodes(order, roots, target)
    return row_nodes


def _unfuse_contractions(kernels: Sequence[Node], reads: dict[Node, list[_Read]]) -> set[Node]:
    """Return the inlined nodes to store, as further kernels, so that contractions are recognized: an empty set if nothing is to change.

    A contraction may be inlined in a kernel that, as a whole, is none. Then the result has the contraction itself. It has the other
    reductions in this kernel instead, if the kernel is a contraction without them. `kernels` are the nodes chosen as kernels so far, and
    `reads` maps each node to the reads of this node.
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

    chainless_reads: set[tuple[Node, Layout]] = set()
    for kernel, reductions in inlined_reductions.items():
        if (
            may_be_contraction(kernel, kernel_set, chainless_reads)
            and not is_contraction(kernel, kernel_set)
            and is_contraction(kernel, kernel_set | set(reductions))
        ):
            unfused.update(reductions)
            continue
        likely_contractions = [node for node in reductions if may_be_contraction(node, kernel_set, chainless_reads)]
        has_elementwise_end = type(kernel.op) is Op or is_store(kernel.op)
        if likely_contractions and not (has_elementwise_end and is_contraction(kernel, kernel_set)):
            contractions = [node for node in likely_contractions if is_contraction(node, kernel_set.union(reductions))]
            other_reductions = _list_other_reductions(reductions, contractions) if has_elementwise_end else set()
            unfused |= other_reductions if other_reductions and is_contraction(kernel, kernel_set | other_reductions) else set(contractions)
    return unfused


def _unfuse_gathers(kernels: Sequence[Node], reads: dict[Node, list[_Read]]) -> set[Node]:
    """Return the inlined gathers that would be computed repeatedly, more often than they have elements, because no contraction packs them.

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
    """Return the nodes to store because a reduction would add in another order than its own, or take far longer inside another.

    `nested_kernels` are the `kernels` with a reduction inside the loops of another, or over operands in another order than memory.
    """
    if not nested_kernels:
        return set()
    from .lower import build_split_draft
    from .order_loops import find_unfusable

    kernel_set = set(kernels)
    return {node for kernel in nested_kernels for node in find_unfusable(build_split_draft(kernel, kernel_set))}


def _list_other_reductions(reductions: Sequence[Node], contractions: Sequence[Node]) -> set[Node]:
    """Return the reductions to store so that a kernel can end with `contractions[-1]`: every reduction but this contraction.

    `reductions` are the inlined reductions of the kernel, and `contractions` the contractions among them. Return an empty set, for no such
    choice, if `contractions` is empty, if more than `len(contractions)` reductions would be stored, or if one of them needs the result of
    `contractions[-1]`.
    """
    if not contractions or len(reductions) > len(contractions) + 1:
        return set()
    other_reductions = set(reductions) - {contractions[-1]}
    return set() if depend_on(other_reductions, contractions[-1]) else other_reductions


def _choose_kernels(graph: GraphFacts, stored: Set[Node]) -> tuple[list[Node], dict[Node, list[_Read]], set[Node]]:
    """Return the kernels in order, the reads of each node, and the kernels in which a reduction might add in another order than alone.

    `graph` has the facts about the nodes. The nodes `stored` are always kernels. A kernel is named by its root, the stored node; the
    remaining nodes are inlined. A read (`_Read`) of a node is a use: the kernel in which the node is evaluated, and the index map from the
    loops of the kernel. The root of a kernel has a single read: by itself, in the loops of the kernel. The third item has the kernels with
    a reduction inside the loops of another reduction, or over operands without a suitable order in memory.
    """
    order, kernels = graph.order, set(stored)
    reads: dict[Node, list[_Read]] = {node: [] for node in order}
    distinct_reads: set[tuple[Node, _Read]] = set()
    length_limit, repetition_limit, reduction_limit = _LengthLimit(graph), _RepetitionLimit(graph), _ReductionLimit(graph)
    non_product_operands: set[Node] = set()  # nodes read by more than parts of likely contractions
    loops_around: dict[Node, int] = {}  # the number of loops around the reductions that a node is part of
    nested_kernels: set[Node] = set()
    chained_kernels: set[Node] = set()  # kernels with view chains
    ordered_kernels: set[Node] = set()  # kernels with a reduction along a single axis
    for node in reversed(order):
        facts = _NodeFacts(graph.weights[node], graph.costs[node], node in graph.constants, node not in non_product_operands)
        is_kernel = node in kernels or _is_scanned(node, reads[node]) or not _is_inlined(node, reads[node], graph, facts)
        if (
            is_kernel
            or length_limit.must_end(node, reads[node], facts)
            or repetition_limit.must_end(node, reads[node])
            or reduction_limit.must_end(node, reads[node])
        ):
            kernels.add(node)
            reads[node] = [_Read(node, graph.get_root_map(node))]
            loops_around.pop(node, None)
        length_limit.add_node(node, reads[node])
        reduction_limit.add_node(node, reads[node])
        repetition_limit.add_node(node, node in kernels, reads[node])
        if (node in kernels or node in non_product_operands) and not _has_contraction_sizes(node):
            non_product_operands.update(source for source in node.sources if type(source) is Node)
        if isinstance(node.op, Reduction):
            nested_kernels.update(read.kernel for read in reads[node] if read.loop_count > loops_around.get(node, read.loop_count))
            loop_count = min([count_needed_loops(read.index_map) for read in reads[node]])
            loops_around[node] = min(loop_count, loops_around.get(node, loop_count))
            if not is_order_free(node):
                is_single_axis = sum([n != 1 for n in get_inner_shape(node)]) <= 1
                if is_single_axis or not has_memory_order(node.sources[0]):  # type: ignore[arg-type]
                    (ordered_kernels if is_single_axis else nested_kernels).update([read.kernel for read in reads[node]])
        if node in loops_around:
            loop_count = loops_around[node]
            loops_around.update((s, min(loop_count, loops_around.get(s, loop_count))) for s in node.sources if type(s) is Node)
        for kernel, index_map, chosen in reads[node]:
            for k, (source, source_map) in enumerate(_list_reads(node, index_map)):
                new_chosen = len(get_inner_shape(node)) if isinstance(node.op, Gather) and k == 0 else 0
                if isinstance(source.op, Reduction) and not chosen + new_chosen:
                    source_map = hoist_index_map(source_map)  # computed once, outside of the loops it does not depend on
                if source_map.base is not None:
                    chained_kernels.add(kernel)
                read = _Read(kernel, source_map, chosen + new_chosen)
                if source in reads and (source, read) not in distinct_reads:
                    distinct_reads.add((source, read))
                    reads[source].append(read)
    return [node for node in order if node in kernels], reads, nested_kernels | (ordered_kernels & chained_kernels)


def _is_scanned(node: Node, reads: Sequence[_Read]) -> bool:
    """Return whether a scan's kernel reads the reduction `node`, and the reduction would round differently in the scan's loop than alone.

    `reads` are the reads of the node. Reductions free of an order (`is_order_free`), such as sums of integers, give False.
    """
    return isinstance(node.op, Reduction) and not is_order_free(node) and any([isinstance(read.kernel.op, Scan) for read in reads])


def _has_contraction_sizes(node: Node) -> bool:
    """Return whether `node` is a reduction with as many results and steps as a contraction needs (`has_contraction_sizes`)."""
    if not isinstance(node.op, Reduction):
        return False
    from .predict_contraction import has_contraction_sizes

    return has_contraction_sizes(node)


def _list_reads(node: Node, index_map: Layout) -> list[tuple[Node, Layout]]:
    """Return the pairs of a source node and an index map for reading this source, if `node` itself is read at `index_map`.

    Scalar sources are left out; sources in memory are listed. Writes, scans, and operations that require their sources in memory are always
    computed as a whole, so `index_map` does not matter. Then the source is read at all its elements, or through the layout of the node.
    """
    if is_write(node.op):
        # The old content is no operand of the loop: `realize` writes into its memory or into a copy.
        # A second reader makes the old content a separate kernel.
        (old, _), *operands = [
            (source, layout) for source, layout in zip(node.sources, node.layouts, strict=True) if type(source) is Node and layout
        ]
        return [(old, make_identity_map(old)), *operands]
    if isinstance(node.op, Scan):
        source, layout = node.sources[0], node.layouts[0]
        assert type(source) is Node and layout is not None
        return [(source, layout)]
    if node.op.kind in MEMORY_SOURCE_KINDS:
        return [(source, make_identity_map(source)) for source in node.sources if type(source) is Node]
    return source_index_maps(node, index_map)


def depend_on(nodes: Iterable[Node], goal: Node) -> bool:
    """Return whether a node of `nodes` is `goal`, or reads `goal` directly or through pending nodes. False without nodes."""
    visited: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node is goal or goal in node.sources:  # a reader is often near
            return True
        if node not in visited and node.buffer is None:
            visited.add(node)
            stack += [s for s in node.sources if type(s) is Node and s.buffer is None]
    return False


class _LengthLimit:
    """A limit on the length of kernels, for the nodes of `graph` and the limits of the target.

    A long kernel ends at a node no larger than memory needed anyway: the kernel's result, or the node's sources. From then on the kernel
    inlines only cheap nodes. Lengths are in additions.
    """

    def __init__(self, graph: GraphFacts) -> None:
        self.graph, self.fusing = graph, graph.fusing
        self.kernel_lengths: Counter[Node] = Counter()  # length of each kernel so far
        self.ended_kernels: set[Node] = set()  # kernels that reached the limit

    def must_end(self, node: Node, reads: Sequence[_Read], facts: _NodeFacts) -> bool:
        """Return whether `node` becomes a kernel because a kernel of its `reads` would otherwise exceed `max_expanded_additions`.

        `facts` are the facts about the node: it must be elementwise, and cost more than a load. It must be no larger than its sources
        together, or than the results of all kernels that read it. If the answer is True, the full kernels are noted in `ended_kernels`, and
        inline only cheap nodes from now on.
        """
        if not self.graph.is_long or facts.is_constant or facts.cost <= self.fusing.max_repeated_for_load or not isinstance(node.op, Op):
            return False
        kernels = {read.kernel for read in reads}
        node_length = self.graph.lengths[node]
        full_kernels = {
            k for k in kernels if k in self.ended_kernels or self.kernel_lengths[k] + node_length > self.fusing.max_expanded_additions
        }
        if not full_kernels or not (node in self.graph.nonexpanding or all(node.size <= k.size for k in kernels)):
            return False
        self.ended_kernels |= full_kernels
        return True

    def add_node(self, node: Node, reads: Sequence[_Read]) -> None:
        """Add the length of `node` to the kernels of `reads`, the reads of the node: once for each different read."""
        if self.graph.is_long:
            for read in reads:
                self.kernel_lengths[read.kernel] += self.graph.lengths.get(node, 0)


class _RepetitionLimit:
    """A limit on the work repeated by the passes of a kernel over the same elements, for the nodes of `graph`.

    A kernel has a pass for each inlined reduction, and a last pass for the result. Each pass computes elementwise nodes again, from memory
    and from the results of earlier passes. In a chain of steps with a reduction each, the last pass would repeat every step.
    """

    def __init__(self, graph: GraphFacts) -> None:
        self.max_additions = graph.fusing.max_repeated_in_passes
        self.passes: dict[Node, set[Node]] = {}  # the reductions and results in whose passes a node is computed
        self.repeated_additions: Counter[Node] = Counter()  # repeated additions of an element so far, by kernel

    def must_end(self, node: Node, reads: Sequence[_Read]) -> bool:
        """Return whether `node` becomes a kernel because a kernel of its `reads` would repeat more than `max_additions` additions per
        element.

        A node that repeats no work gives False.
        """
        repeated = self._count_repeated(node)
        return repeated > 0 and any([repeated + self.repeated_additions[read.kernel] > self.max_additions for read in reads])

    def add_node(self, node: Node, is_kernel: bool, reads: Sequence[_Read]) -> None:
        """Note the passes in which the sources of `node` are computed, after the choice whether `node` is a kernel (`is_kernel`).

        The sources of an inlined elementwise node are computed in the passes of the node, and the repeated additions are counted for the
        kernels of `reads`. A kernel, and each node of another operation, has a separate pass.
        """
        if isinstance(node.op, Op) and not is_kernel:
            passes = self.passes.get(node, set())
            self.repeated_additions.update({read.kernel: self._count_repeated(node) for read in reads})
        else:
            passes = {node}
        for source in node.sources:
            if type(source) is Node and source.buffer is None:
                self.passes.setdefault(source, set()).update(passes)

    def _count_repeated(self, node: Node) -> int:
        """Return how many additions of an element of `node` are repeated: its cost in every pass but one."""
        return node.op.cost * max(len(self.passes.get(node, ())) - 1, 0) if isinstance(node.op, Op) else 0


class _ReductionLimit:
    """A limit on the reductions in a kernel, for the nodes of `graph` and the limits of the target.

    A full kernel ends at the next elementwise node with a reduction below that is no larger than the kernel's result. So a sum of many
    reductions becomes several kernels, which are mostly equal, and are compiled once.
    """

    def __init__(self, graph: GraphFacts) -> None:
        self.reduction_readers, self.max_reductions = graph.reduction_readers, graph.fusing.max_reductions
        self.reduction_counts: Counter[Node] = Counter()  # reductions in each kernel so far

    def must_end(self, node: Node, reads: Sequence[_Read]) -> bool:
        """Return whether `node` becomes a kernel because a kernel of `reads`, the reads of the node, has as many reductions as allowed.

        Only an elementwise node with a reduction below, and no larger than the result of the full kernel, gives True.
        """
        return node in self.reduction_readers and any(
            [self.reduction_counts[read.kernel] >= self.max_reductions and node.size <= read.kernel.size for read in reads]
        )

    def add_node(self, node: Node, reads: Sequence[_Read]) -> None:
        """Count `node` in the kernels of `reads`, the reads of the node, if it is a reduction."""
        if isinstance(node.op, Reduction):
            self.reduction_counts.update({read.kernel for read in reads})


def _keeps_bits(node: Node, index_map: Layout) -> bool:
    """Return whether the reduction `node`, read at `index_map` inside another kernel, adds in the same order as alone, and as fast.

    This holds if the innermost of the loops that `index_map` needs runs along the last axis of the result, or if there is a single result.
    An index map with tables gives False.
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
    """Return an upper bound for the number of distinct elements in `index_map`: the product of the extents, without broadcast axes.

    A broadcast axis has stride 0 and no table.
    """
    tables = index_map.tables or (None,) * len(index_map.shape)
    axes = zip(index_map.shape, index_map.strides, tables, strict=True)
    return prod(n for n, stride, table in axes if stride or table is not None)


def _is_reduced_in_parts(node: Node, reads: list[_Read], graph: GraphFacts) -> bool:
    """Return whether several kernels each reduce a different part of an elementwise result, so none repeats the work of another.

    `reads` are the reads of `node`. Their index maps together reach at most as many elements as `node` has. `graph` has the facts about
    all nodes.
    """
    return (
        isinstance(node.op, Op)
        and sum(_count_elements(r.index_map) for r in reads) <= node.size
        and all(
            isinstance(r.kernel.op, Reduction) or (isinstance(r.kernel.op, Op) and r.index_map.shape != graph.get_root_map(r.kernel).shape)
            for r in reads
        )
    )


def _is_complete(node: Node, read: _Read) -> bool:
    """Return whether `read` computes every element of `node`, and does so before anything is overwritten.

    `node` may fail: a gather, or a power with checked exponents. Only a complete read always finds an index out of range or a negative
    exponent, and in time.
    """
    return read.index_map.tables is None and not is_store(read.kernel.op) and read.index_map.covers(node.size)


def _is_inlined(node: Node, reads: list[_Read], graph: GraphFacts, facts: _NodeFacts) -> bool:
    """Return whether `node` is computed at each of the `reads`, and never stored; False makes the node a kernel.

    Inlining must be possible (`_can_be_inlined`), and be free or pay (`_is_free`, `_is_worth_inlining`). A node with checked exponents must
    be read completely each time. `facts` are the facts about the node, and `graph` has the facts about all nodes.
    """
    if has_checked_exponents(node) and not all(_is_complete(node, read) for read in reads):
        return False
    return _can_be_inlined(node, reads, facts) and (
        _is_free(node, reads, graph.fusing, facts) or (not node.is_stored and _is_worth_inlining(node, reads, graph, facts))
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
    """Return whether computing `node` again for each of the `reads` costs no more than loading the value, by the `facts` about the node.

    A free node reads no memory and is not marked `is_stored`. It takes at most `fusing.max_constant_operations`, or is computed at most
    once per element.
    """
    is_cheap = facts.weight <= fusing.max_constant_operations or _max_computations(reads) <= node.size
    return facts.is_constant and not node.is_stored and is_cheap


def _is_worth_inlining(node: Node, reads: list[_Read], graph: GraphFacts, facts: _NodeFacts) -> bool:
    """Return whether `node` should be inlined in each of the `reads`: nothing but cheap work is computed more than once per element.

    `facts` are the facts about the node, and `graph` has the facts about all nodes. A reduction or gather must have a single read. An
    elementwise node may have up to `max_reads`, and several only up to the cost `max_repeated_for_reads`. These are in one kernel, or in
    several kernels that reduce disjoint parts of the node. Work is cheap up to the cost `max_repeated_for_load`; work of just this cost,
    such as a division, must not be repeated `read_store_ratio` times. Limits are attributes of `graph.fusing`.
    """
    fusing, has_one_read, has_one_kernel = graph.fusing, len(reads) == 1, len({id(read.kernel) for read in reads}) == 1
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
    return (has_one_kernel or _is_reduced_in_parts(node, reads, graph)) and (is_cheap or not repeats_work)


def _max_computations(reads: list[_Read]) -> int:
    """Return how many elements of a node are computed, repetitions included, for that one of its `reads` with the most.

    `reads` must not be empty.
    """
    return max(map(_count_computations, reads))
