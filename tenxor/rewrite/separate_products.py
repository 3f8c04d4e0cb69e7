"""Copies of products for the sums that read them, where a product has further readers: each sum is fused with its copy.

The order of a sum of products follows the factors, and a contraction rounds once a step. A stored product would change the bits. A product
of factors of equal size in row-major order is not copied, because both orders are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ..graph.node import Node
from ..graph.reduced_sources import find_summed_product, has_memory_order
from .graph_builder import replace_sources


def separate_products(order: Sequence[Node], results: Collection[Node]) -> tuple[Sequence[Node], dict[Node, Node]]:
    """Return the nodes of `order`, sources first, with copies of shared products for their sums, and the replacements of nodes.

    A product is shared if it has several readers, is in `results`, or is to be stored. A product is not copied if the sum adds in the same
    order from memory (`has_memory_order`). The replacements map sums, and their readers, to new nodes; the shared products stay for further
    readers. A new node keeps the mark `is_stored`.
    """
    reader_counts = Counter([id(source) for node in order for source in node.sources])
    new_order, replacements = list[Node](), dict[Node, Node]()
    for node in order:
        product, new_node = find_summed_product(node), replace_sources(node, replacements)
        if product is not None:
            is_shared = reader_counts[id(product)] > 1 or product.is_stored or product in results
            if is_shared and not has_memory_order(product):
                product = replacements.get(product, product)
                copy = Node.of(product.op, product.shape, product.dtype, product.sources, product.layouts)
                new_order.append(copy)
                new_node = Node.of(node.op, node.shape, node.dtype, (copy,), node.layouts)
                new_node.is_stored = node.is_stored
        new_order.append(new_node)
        if new_node is not node:
            replacements[node] = new_node
    return new_order, replacements
