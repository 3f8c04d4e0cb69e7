"""From pending nodes to values: find or make a plan for what is pending, and run it.

A plan (`plan.py`) is remembered under the pattern of what is pending (`pattern.py`), so that doing the same again, on other
memory, costs one look-up. On a miss the recipes are fused and lowered; that gives kernels, which the compiler remembers on
its own: new shapes need a new plan but no new machine code.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from .backend.threads import num_threads
from .node import Node
from .pattern import pattern_of

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
        pattern = pattern_of(wanted)
        plan = _plans.get(pattern.key)
        if plan is None or plan.target.threads != num_threads():
            from .plan import make_plan  # what makes plans is loaded with the first

            plan = make_plan(pattern)
            _remember(pattern.key, plan)
        plan.run(pattern)


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
