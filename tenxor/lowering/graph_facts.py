"""Facts about the nodes of a pending graph, by which `fuse.py` chooses the kernels. They hold for any choice, and are computed once. A
kernel stores the values of one node. An inlined node is computed inside the kernels that read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_

from ..graph.node import EMPTY, POSITION, UPDATE, Gather, Node, Scalar, is_read_from_memory, is_write
from ..layout import Layout
from ..ops import OPS, Op
from ..ops.expanded_cost import compute_expanded_cost
from ..ops.reductions import REDUCTIONS, Reduction
from ..target import Fusing
from .index_maps import get_root_index_map, make_identity_map

MAX_WEIGHT = 1 << 20  # operations: the maximal weight; shared nodes count repeatedly, so weights grow exponentially
MEMORY_SOURCE_KINDS = frozenset(("reinterpret", "blocks"))  # operations that require their sources in memory
_SUM, _MULTIPLY = REDUCTIONS["sum"], OPS["multiply"]


class GraphFacts:
    """Facts about the pending nodes `order`, sources first, for the limits `fusing` of the machine.

    The nodes in `required_nodes` are always kernels, like the requested nodes. `weights`, `costs`, `constants` and `nonexpanding` are the
    results of `compute_weights`, `estimate_costs`, `find_constants` and `find_nonexpanding` (with sizes in elements). `lengths` has the
    cost of each elementwise node, in additions, with composite operations expanded. `is_long` tells whether a kernel of all elementwise
    nodes would exceed the maximal length; `nonexpanding` is empty otherwise.
    """

    def __init__(self, order: Sequence[Node], fusing: Fusing) -> None:
        self.order, self.fusing = order, fusing
        self.required_nodes = _find_required(order) | _find_shareable(order, fusing) | _find_shared_gathers(order)
        self.required_nodes |= _find_scalar_operands(order)
        self.weights, self.costs = compute_weights(order), estimate_costs(order)
        self.constants = find_constants(order, self.weights, fusing)
        self.lengths = {n: compute_expanded_cost(n.op, n.recipe.dtypes) for n in order if isinstance(n.op, Op)}
        self.is_long = sum(self.lengths.values()) > fusing.max_expanded_additions
        self.nonexpanding = find_nonexpanding(order, lambda node: node.size) if self.is_long else set()
        self.root_maps: dict[Node, Layout] = {}
        self.reduction_readers: set[Node] = set()  # elementwise nodes with a reduction below, reached through elementwise nodes alone
        for node in order:
            if isinstance(node.op, Op) and any(
                [s in self.reduction_readers or (s.buffer is None and isinstance(s.op, Reduction)) for s in list_source_nodes(node)]
            ):
                self.reduction_readers.add(node)

    def get_root_map(self, root: Node) -> Layout:
        """Return the index map of `root` in the loops of its own kernel (`get_root_index_map`). Each root has one object, made at the first
        request.
        """
        index_map = self.root_maps.get(root)
        if index_map is None:
            index_map = get_root_index_map(root) if root in self.reduction_readers else make_identity_map(root)
            self.root_maps[root] = index_map
        return index_map


def _find_required(order: Sequence[Node]) -> set[Node]:
    """Return the pending nodes required in memory, whatever the choice of kernels is. Each is in `order`.

    Required are overwritten nodes, and the sources of `reinterpret` and `blocks` operations. If an overwritten node has further readers, so
    are the operands of the write that are computed from the overwritten node, except in an elementwise update.
    """
    required: set[Node] = set()
    readers = Counter([source for node in order for source in set(node.sources)])
    overwritten = dict.fromkeys([node.sources[0] for node in order if is_write(node.op) and readers[node.sources[0]] > 1])
    bit_of = {old: 1 << k for k, old in enumerate(overwritten)}
    dependences = dict(bit_of)  # by node: the bits of the overwritten nodes below or equal to the node
    elementwise_nodes: set[Node | Scalar] = set()  # nodes computed from memory by elementwise operations alone
    for node in order:
        if overwritten:
            dependences[node] = reduce(or_, [dependences.get(source, 0) for source in node.sources], dependences.get(node, 0))
            if isinstance(node.op, Op) and all([s.buffer is not None or s in elementwise_nodes for s in list_source_nodes(node)]):
                elementwise_nodes.add(node)
        if is_write(node.op):
            old, *operands = list_source_nodes(node)
            is_elementwise_update = node.op is UPDATE and (operands[0].buffer is not None or operands[0] in elementwise_nodes)
            if old in overwritten and not is_elementwise_update:  # otherwise only this write reads it
                required.update(s for s in operands if s.buffer is None and dependences[s] & bit_of[old])
            if old.buffer is None:
                required.add(old)
        elif node.op.kind in MEMORY_SOURCE_KINDS:
            required.update(s for s in node.sources if type(s) is Node and s.buffer is None)
    return required


def list_source_nodes(node: Node) -> list[Node]:
    """Return the sources of `node` that are nodes, in order, without the scalars."""
    return [source for source in node.sources if type(source) is Node]


def _find_shareable(order: Sequence[Node], fusing: Fusing) -> set[Node]:
    """Return the pending sources of reductions to store, so that threads can share the work below each source.

    The reduction has fewer than `min_shared_results` results, and its source as many elements or more. Another reduction below the source
    reads at least `min_shared_elements` elements, and `read_store_ratio` for each element of the source. Once stored, the source has a
    separate loop, and the store is cheap. The limits are attributes of `fusing`. `order` holds pending nodes, sources first.
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
    """Return the gathers of single elements with several readers in `order`. Once stored, each element is fetched only once.

    A gather of contiguous rows is not returned.
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
    """Return the nodes of `order` to store because a reduction or a summed product reads them, and they are computed from scalars alone.

    Scalars are numbers, and single elements that are broadcast. No layout would fix the order in which their elements are added; in memory,
    their order does. Only a small node is stored, or a node that the reader broadcasts (`is_read_from_memory`).
    """
    stored: set[Node] = set()
    scalar_made: set[Node] = set()
    for node in order:
        sources = list_source_nodes(node)
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
            operands = [s for s in list_source_nodes(reader) if s in scalar_made and s.size > 1]
            stored.update(s for s in operands if is_read_from_memory(s, reader))
    return stored


def compute_weights(order: Sequence[Node]) -> dict[Node, int]:
    """Return the number of operations to compute each node of `order` anew, at most `MAX_WEIGHT`. A source read twice counts twice.

    `order` holds pending nodes, sources first. A source in memory costs nothing.
    """
    node_weights: dict[Node, int] = {}
    for node in order:
        node_weights[node] = min(1 + sum(node_weights.get(s, 0) for s in node.sources if type(s) is Node), MAX_WEIGHT)
    return node_weights


def find_constants(order: Sequence[Node], weight: dict[Node, int], fusing: Fusing) -> set[Node]:
    """Return the nodes of `order` that cost nothing to compute again: positions, and cheap operations on scalars and such nodes alone.

    An operation is cheap with a cost of at most `fusing.max_repeated_for_load`, and with at most 4 times as many operations to compute the
    node anew. `weight` has the number of these operations for each node (`compute_weights`). `order` lists sources first.
    """
    constant_nodes: set[Node] = set()
    for node in order:
        is_cheap = type(node.op) is Op and node.op.cost <= fusing.max_repeated_for_load and weight[node] <= 4 * fusing.max_repeated_for_load
        if node.op is POSITION or (is_cheap and all(type(s) is not Node or s in constant_nodes for s in node.sources)):
            constant_nodes.add(node)
    return constant_nodes


def find_nonexpanding(order: Sequence[Node], size_of: Callable[[Node], int]) -> set[Node]:
    """Return the nodes of `order` that can be stored in no more memory than their sources need together. `EMPTY` nodes always count.

    A source needs the memory of the source itself, or of the nodes below if these are smaller; a source read twice counts once. So neither
    a broadcast is returned, nor an operation on a broadcast alone, nor a node without sources except `EMPTY`. `order` lists sources first,
    and `size_of` gives the size of a node, in elements or bytes.
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


def estimate_costs(order: Sequence[Node]) -> dict[Node, int]:
    """Return the approximate cost of an element of each node, in additions, with all elementwise operations below it inlined.

    `order` holds pending nodes, sources first. A source read twice counts twice. The cost is 0 for a node of another operation, such as a
    reduction.
    """
    node_costs: dict[Node, int] = {}
    for node in order:
        if isinstance(node.op, Op):
            node_costs[node] = node.op.cost + sum(node_costs.get(s, 0) for s in node.sources if type(s) is Node)
        else:
            node_costs[node] = 0  # the result of a reduction, or memory, is only loaded
    return node_costs
