"""Launch records for nodes computed by a kernel of their own, built when the fast path finds none. A node is a pending value. A launch
record is a packed description of a kernel launch. The record is stored in the recipe, the node's operation with shape, dtypes and layouts.
After a few nodes of one signature, a record is traced with symbolic sizes, and the generated code then makes records for further sizes.
"""

from __future__ import annotations

from .._utils.locks import try_acquire
from .._utils.upcalls import get_size_generic_functions
from ..graph.node import Node
from ..graph.reduced_sources import find_summed_product
from ..runtime.graph_signature import GraphSignature
from ..runtime.realize import compute_lock
from . import launch_records, size_generic
from .launch_records import SymbolicRecord, build_node_signature, build_record, get_node_work_limit, index_by_id, trace_record


def store_node_record(node: Node) -> None:
    """Build and store the launch record of the pending node `node`, if the node can be computed now: its sources must be in memory.

    The fast path calls this function for a node whose recipe has no launch record yet. Do nothing if another thread holds the lock for
    computing. After a few nodes of one signature, also trace a size-generic record.
    """
    if not try_acquire(compute_lock):
        return
    try:
        record = launch_records.store_record_in_recipe(node)
        key_and_signature = (
            get_size_generic_functions().compute_graph_signature(launch_records.recipes_with_records, node) if record else None
        )
        if record and key_and_signature is not None:
            recipes = [node.recipe, *[s.recipe for s in node.sources if type(s) is Node]]
            size_generic.SplitCall(*key_and_signature[1:], recipes).trace_launch_record(
                record, lambda: _build_signature(node), _trace_record
            )
    finally:
        compute_lock.release()


def _build_signature(node: Node) -> GraphSignature:
    """Return the graph signature of `node`, computed by one kernel: the node alone, or a sum with the product that it adds up.

    The sources in the signature are new nodes in memory, so the rest of the graph does not matter.
    """
    product = find_summed_product(node)
    reader, product_recipe = (node, None) if product is None else (product, product.recipe)
    return build_node_signature(node.recipe, product_recipe, reader.sources, reader.offsets)[0]


def _trace_record(signature: GraphSignature, symbolic_signature: GraphSignature) -> SymbolicRecord | None:
    """Return a size-generic launch record for the graph signature `signature`; None if the record cannot be made size-generic.

    `symbolic_signature` is the same signature with a symbolic `SymInt` for each number but 0 and 1. The result is a pair: the record's
    64-bit words, integers or expressions of these sizes, and the plan that keeps the kernel in memory.
    """
    root = signature.nodes[signature.root_slots[0]]
    product = find_summed_product(root)
    reader, product_recipe = (root, None) if product is None else (product, product.recipe)
    max_work, offset_indices = get_node_work_limit(product_recipe), list(range(len(reader.offsets)))
    return trace_record(
        signature, symbolic_signature, max_work, lambda: build_record(signature, index_by_id(reader.sources), offset_indices, max_work)
    )
