"""From pending nodes to values: find or make a plan for what is pending, and run it.

A plan (`plan.py`) is remembered under the structure of the recipes, shapes and layouts included, so that doing the same
again costs one look-up. On a miss the recipes are fused and lowered; that gives patterns, which the compiler remembers
on its own: new shapes need a new plan but no new machine code.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from .node import Node, Scalar

if TYPE_CHECKING:
    from .plan import Plan

MAX_PLANS = 4096
MAX_TABLES = 1 << 18  # bytes of tables in a plan that is remembered; those of many indices are seldom met again
MAX_BYTES = 1 << 26  # and in all plans together

_Key = tuple[object, ...]


def realize(*roots: Node) -> None:
    """Compute the nodes that are not in memory yet, together."""
    with lock:
        wanted = [node for node in roots if node.buffer is None]
        if not wanted:
            return
        key, nodes, scalars = _trace(wanted)
        plan = _plans.get(key)
        if plan is None:
            from .plan import make_plan  # what makes plans is loaded with the first

            plan = make_plan(nodes, scalars, wanted)
            _remember(key, plan)
        plan.run(nodes, scalars)


def _remember(key: _Key, plan: Plan) -> None:
    global _table_bytes
    nbytes = plan.table_bytes
    if nbytes <= MAX_TABLES:
        if len(_plans) >= MAX_PLANS or _table_bytes + nbytes > MAX_BYTES:
            _plans.clear()
            _table_bytes = 0
        _plans[key] = plan
        _table_bytes += nbytes


lock = threading.RLock()  # held by whoever computes, or changes what a storage holds
_plans: dict[_Key, Plan] = {}
_table_bytes = 0

if hasattr(os, "register_at_fork"):  # nobody is computing, or compiling, when a process is forked
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def _trace(roots: list[Node]) -> tuple[_Key, list[Node], list[Scalar]]:
    """What the roots need, numbered, each after all that it reads: the structure to look up a plan by, the nodes, and the
    numbers they read.
    """
    nodes: list[Node] = []
    scalars: list[Scalar] = []
    key: list[object] = []
    number_of: dict[Node, int] = {}
    stack = roots[::-1]
    while stack:
        node = stack[-1]
        if node in number_of:
            stack.pop()
            continue
        if node.buffer is not None:
            part: object = node.dtype
        elif unseen := [s for s in node.sources if type(s) is Node and s not in number_of]:
            stack.extend(reversed(unseen))
            continue
        else:
            parts: list[object] = [node.op, node.shape, node.dtype, node.stored, node.target]
            for source, layout in zip(node.sources, node.layouts):  # noqa: B905  # the hot path
                if type(source) is Node:
                    parts.append(number_of[source])
                    parts.append(layout)
                else:
                    parts.append(source.dtype)
                    scalars.append(source)  # type: ignore[arg-type]
            part = tuple(parts)
        number_of[stack.pop()] = len(nodes)
        nodes.append(node)
        key.append(part)
    key.extend([number_of[root] for root in roots])
    return tuple(key), nodes, scalars
