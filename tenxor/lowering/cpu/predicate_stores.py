"""Predicated stores: turn `x = where(mask, value, x)`, in place over the whole of `x`, into a store predicated by `mask`.

Updates of a part of `x` are left as they are, because they may read neighbouring elements. An update of the whole reads only the
overwritten element.
"""

from __future__ import annotations

from ...graph.node import UPDATE
from ...ops.expr import Call, Expr
from ..ir import For, Statement, Store
from ..kernel_draft import Access
from ..loop_nest import Body, LoopNest


def predicate_stores(nest: LoopNest) -> LoopNest:
    """Return the nest with the store of an in-place `where` predicated. Elements outside of the mask then need no computation.

    The nest must have a single store, an elementwise update of the whole memory. A nest of another form is returned unchanged.
    """
    root = nest.root
    if root.op is not UPDATE or root.target is None or root.target.size != root.size or len(nest.stores) != 1:
        return nest
    condition = _match_condition(nest, nest.result_store)
    return nest if condition is None else nest._replace(body=_set_predicate(nest.body, condition))


def _set_predicate(body: Body, condition: Expr) -> Body:
    """Return `body` with the stores, also those inside loops, predicated by `condition`."""

    def predicate(s: Statement) -> Statement:
        if isinstance(s, For):
            return s._replace(body=_set_predicate(s.body, condition))
        return s._replace(predicate=condition) if isinstance(s, Store) else s

    return tuple(map(predicate, body))


def _match_condition(nest: LoopNest, s: Store) -> Expr | None:
    """Return the condition under which the store `s` of `nest` changes memory, or None if the stored values have no common `where`
    condition.
    """
    conditions = [_match_where_condition(nest, s, value, component) for component, value in enumerate(s.values)]
    return conditions[0] if all([c is not None and c == conditions[0] for c in conditions]) else None


def _match_where_condition(nest: LoopNest, s: Store, value: Expr, component: int) -> Expr | None:
    """Return the condition if `value` is `where(condition, x, old)`, where `old` is the element that the store `s` of `nest` overwrites;
    else None.

    For a complex element, `old` is the component `component` of the element.
    """
    if not isinstance(value, Call) or value.op.name != "where":
        return None
    condition, _, old = value.args
    return condition if _reads_overwritten(nest, s, old, component) else None


def _reads_overwritten(nest: LoopNest, s: Store, e: Expr, component: int) -> bool:
    """Return whether the expression `e` reads component `component` of the very element that the store `s` of `nest` overwrites."""
    if not isinstance(e, Access) or e.args or (e.component or 0) != component:
        return False
    operand, address = nest.locations[e.index]
    return operand >= 0 and nest.operands[operand].node is nest.root.sources[0] and address == s.address
