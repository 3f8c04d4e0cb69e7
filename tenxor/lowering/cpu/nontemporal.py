"""Non-temporal stores for large results, because ordinary stores would evict the rest of the caches."""

from __future__ import annotations

from ...graph.node import is_store
from ...target import Target
from ..ir import ALIGNMENT_BYTES, Contraction, For, Statement, Store
from ..loop_nest import Body, LoopNest


def use_nontemporal_stores(nest: LoopNest, target: Target) -> LoopNest:
    """Return the nest with non-temporal stores, past the caches, if the result is large, and unchanged otherwise.

    Large means large alone, and together with the operands (`target.streams`). The rows of the result must be contiguous, with lanes along
    them, and begin at cache lines. A store in place stays ordinary, and so do the stores of a symmetric contraction, which reads its
    results again.
    """
    return nest._replace(body=_make_nontemporal(nest.body)) if _is_worthwhile(nest, target) else nest


def _make_nontemporal(body: Body) -> Body:
    """Return `body` with non-temporal stores, also inside loops and contractions, except in symmetric contractions."""

    def change(s: Statement) -> Statement:
        if isinstance(s, Contraction) and s.symmetric_pairs:
            return s  # mirroring reads the results again
        if isinstance(s, (For, Contraction)):
            return s._replace(body=_make_nontemporal(s.body))
        return s._replace(is_nontemporal=True) if isinstance(s, Store) else s

    return tuple(map(change, body))


def _is_worthwhile(nest: LoopNest, target: Target) -> bool:
    """Return whether the result of `nest` is large enough for non-temporal stores, by the limits of `target.streams`, and suitable for
    them.

    The result must have `min_result_bytes`, and more than `min_touched_bytes` with the operands. It must be written in rows of vectors that
    begin at cache lines. A store in place gives False.
    """
    root, streams = nest.root, target.streams
    nbytes = root.size * root.dtype.itemsize
    if is_store(root.op) or nbytes < streams.min_result_bytes:
        return False
    operand_bytes = {o.node: o.node.size * o.dtype.itemsize for o in nest.operands if o.node is not None}
    if nbytes + sum(operand_bytes.values()) <= streams.min_touched_bytes:
        return False
    address = nest.result_store.address
    row_terms = [t for t in address.terms if not (t.step_kind == "step" and t.value == 1 and nest.axes[t.axis].vector)]
    has_aligned_rows = all(t.step_kind == "step" and t.value * root.dtype.itemsize % ALIGNMENT_BYTES == 0 for t in row_terms)
    return has_aligned_rows and address.base is None and len(row_terms) < len(address.terms)
