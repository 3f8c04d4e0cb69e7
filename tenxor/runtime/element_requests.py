"""Requests for single elements of large pending nodes: the decision to compute the whole node.

An element alone costs about as much as its share of the node, and at least the overhead of a request. So a node is computed whole once its
elements have cost as much: all requests together cost at most about twice the cheaper way, however many elements are read.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ..graph.node import MAX_WHOLE_BYTES, Node

_request_counts: WeakKeyDictionary[Node, int] = WeakKeyDictionary()  # requests for elements of each large pending node


def should_compute_whole(node: Node) -> bool:
    """Count a request for an element of `node`, and return whether to compute the whole node instead of the element."""
    if node.buffer is not None:
        return True
    nbytes = max(node.recipe.nbytes, node.max_operand_nbytes)
    if nbytes <= MAX_WHOLE_BYTES:
        return True
    count = _request_counts[node] = _request_counts.get(node, 0) + 1
    return count > min(node.size, nbytes // MAX_WHOLE_BYTES)
