"""Non-temporal stores for large results, because ordinary stores would evict the rest of the caches."""

from __future__ import annotations

from ...node import stores
from ...target import Target
from ..ir import ALIGNMENT, For, Product, Statement, Store
from ..nest import Body, Nest


def streaming(nest: Nest, target: Target) -> Nest:
    """Return the nest, with non-temporal stores if the result is large."""
    return nest._replace(body=_stream_stores(nest.body)) if _is_worthwhile(nest, target) else nest


def _stream_stores(body: Body) -> Body:
    """Return a body with its stores made non-temporal."""
    def change(s: Statement) -> Statement:
        if isinstance(s, Product) and s.twins:
            return s  # mirroring reads the results again
        if isinstance(s, (For, Product)):
            return s._replace(body=_stream_stores(s.body))
        return s._replace(streamed=True) if isinstance(s, Store) else s

    return tuple(map(change, body))


def _is_worthwhile(nest: Nest, target: Target) -> bool:
    """Return whether non-temporal stores pay for the result.

    The result must be large, more than caches hold together with the operands, and written in rows of vectors that begin at cache lines.
    """
    root, streams = nest.root, target.streams
    nbytes = root.size * root.dtype.itemsize
    if stores(root.op) or nbytes < streams.result:
        return False
    operand_bytes = {o.node: o.node.size * o.dtype.itemsize for o in nest.operands if o.node is not None}
    if nbytes + sum(operand_bytes.values()) <= streams.touched:
        return False
    address = nest.store.address
    row_terms = [t for t in address.terms if not (t.how == "step" and t.value == 1 and nest.axes[t.axis].vector)]
    has_aligned_rows = all(t.how == "step" and t.value * root.dtype.itemsize % ALIGNMENT == 0 for t in row_terms)
    return has_aligned_rows and address.then is None and len(row_terms) < len(address.terms)
