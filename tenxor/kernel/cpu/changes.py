"""What is written over itself where a condition says no is left alone: a write of `where(mask, value, old)` over all of `old`.

An update reads of what it overwrites nothing but the element itself; of a part, it might read what is beside that.
"""

from __future__ import annotations

from ...node import UPDATE
from ...ops.expr import Call, Expr
from ..drafted import Access
from ..ir import For, Store
from ..nest import Body, Nest


def changing(nest: Nest) -> Nest:
    """The nest, with a write that changes only what a condition says told so: what has none of it need not be computed."""
    root = nest.root
    if root.op is not UPDATE or root.target is None or root.target.size != root.size or len(nest.stores) != 1:
        return nest
    condition = _condition(nest, nest.store)
    return nest if condition is None else nest._replace(body=_told(nest.body, condition))


def _told(body: Body, condition: Expr) -> Body:
    return tuple(
        [
            s._replace(body=_told(s.body, condition)) if isinstance(s, For) else s._replace(changes=condition) if isinstance(s, Store) else s
            for s in body
        ]
    )


def _condition(nest: Nest, s: Store) -> Expr | None:
    """Where a write changes anything, if its values say so."""
    conditions = [_of_part(nest, s, value, part) for part, value in enumerate(s.values)]
    return conditions[0] if all([c is not None and c == conditions[0] for c in conditions]) else None


def _of_part(nest: Nest, s: Store, value: Expr, part: int) -> Expr | None:
    if not isinstance(value, Call) or value.op.name != "where":
        return None
    condition, _, otherwise = value.args
    return condition if _is_what_is_there(nest, s, otherwise, part) else None


def _is_what_is_there(nest: Nest, s: Store, e: Expr, part: int) -> bool:
    """Whether a value is read of what is written over, at the very place."""
    if not isinstance(e, Access) or e.args or (e.part or 0) != part:
        return False
    operand, address = nest.reads[e.index]
    return operand >= 0 and nest.operands[operand].node is nest.root.sources[0] and address == s.address
