"""Requests for parts of large pending nodes: the decision to compute a node whole. A request is a read of a few elements of a node without
memory. A part costs a share of the node, or at least the overhead of a request. A node is computed whole once the requests for parts have
cost as much. So all requests together cost at most about twice the cheaper way, however many elements are read.
"""

from __future__ import annotations

from weakref import ref

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from ..graph.node import MAX_WHOLE_BYTES, Node

REQUEST_BYTES = 1 << 18  # bytes that are computed in the time of a request for an element
MAX_CHARGED_NODES = 64  # large nodes with a charge
_charged_bytes: BoundedCache[int] = register(
    "charges of large pending nodes", "the cost of the requests for parts so far, in bytes of the node, by weak reference"
)(BoundedCache(MAX_CHARGED_NODES))


def charge_request(node: Node, part_size: int = 1) -> bool:
    """Charge `node` for a request for `part_size` of its elements, and return whether to compute the whole node instead of the part.

    Return True without a charge if the whole node costs little: a node in memory, a node without elements, or a node of at most
    `MAX_WHOLE_BYTES` bytes with operands no larger. The caller must hold `compute_lock`.
    """
    nbytes = 0 if node.buffer is not None else max(node.recipe.nbytes, node.max_operand_nbytes)
    if nbytes <= MAX_WHOLE_BYTES or node.size == 0:
        return True
    reference = ref(node)
    charge = (_charged_bytes.get(reference) or 0) + max(REQUEST_BYTES, nbytes * part_size // node.size)
    _charged_bytes.put(reference, charge)
    return charge > nbytes
