"""Compute pending nodes: find or make the plan for their graph, and run the plan. A node is pending while it is a recipe (an operation on
source nodes) without memory. The graph of the requested nodes, the roots, has the pending nodes at and below the roots. The signature of a
graph has the structure as a key, and lists the nodes; the index of a node is a slot. A plan has the compiled kernels. A node is externally
referenced if user code or another graph may still ask for the value.

Plans (`runtime/`) are cached by the signature of the pending graph (`runtime/graph_signature.py`): shapes and strides, but no memory
addresses. Repeating a computation on new memory costs a single look-up. On a miss the graph is fused and lowered to kernels. The
compiler caches kernels by structure, so new shapes need a new plan but usually no new machine code.

A plan keeps its kernels in memory. When there are more than `MAX_KERNELS` kernels, the whole cache of plans is evicted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence, Set
from time import sleep
from typing import TYPE_CHECKING

from .._utils import upcalls
from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import counts, register
from .._utils.exclude_user_code import has_other_open_section
from .._utils.lazy import LazyFunctions, LazyModule, find_loaded_module
from .._utils.locks import make_reentrant_lock
from ..codegen import backend, compiled_kernels
from ..codegen.threads.thread_count import num_threads
from ..errors import BadValueInKernel
from ..graph.node import UNFINISHED, Node, disable_tape
from ..memory.block_pool import pool

if TYPE_CHECKING:
    from .graph_signature import GraphSignature
    from .plan_execution import Plan

build_value_error = LazyFunctions("tenxor.runtime.index_errors").build_value_error
ownership, graph_signature = LazyModule("tenxor.graph.ownership"), LazyModule("tenxor.runtime.graph_signature")
plan_disk_cache, shipped_op_plans = LazyFunctions("tenxor.runtime.plan_disk_cache"), LazyFunctions("tenxor.runtime.shipped_op_plans")
generic_plans = LazyFunctions("tenxor.runtime.generic_plans")
unfused_plans, element_requests = LazyFunctions("tenxor.runtime.unfused_plans"), LazyFunctions("tenxor.runtime.element_requests")

MAX_PLANS = 4096
MAX_TABLE_BYTES = 1 << 26  # bytes of offset tables
NO_SWITCH_S = 1000.0  # seconds between switches of threads, longer than any fork takes
FORK_POLL_S = 0.001
MAX_KERNELS = 2048  # about 60 kB each; a larger number evicts every plan, and the kernels with the plans


def realize(*roots: Node) -> None:
    """Compute the pending nodes of `roots`: by the fast path, or together in a single plan. Do nothing for nodes in memory.

    Raise IndexOutOfRange or NegativeExponent if a kernel meets an invalid index or exponent, and MemoryError if a result cannot be
    allocated.
    """
    fast_path = upcalls.request(len(roots))
    if fast_path is not None:
        if len(roots) > 1:
            roots = tuple([root for root in roots if not fast_path.compute_one_of_several(root)])
        if not roots or (len(roots) == 1 and fast_path.compute(roots[0])):
            return
    realize_by_plan(roots)


def realize_by_plan(roots: Sequence[Node]) -> None:
    """Compute the pending nodes of `roots` in a single plan, without trying the fast path for `roots`. Raise the errors of `realize`."""
    with compute_lock:
        if upcalls.installed is not None:
            pool.raise_small_allowance()
        planned = _find_plan(roots)
        if planned is None:
            return
        signature, plan, referenced_slots = planned
        counts["results_by_plan"] += len(signature.root_slots)
        counts["requests_deferred"] += plan.deferral is not None
        try:
            plan.run(signature, referenced_slots)
        except BadValueInKernel as error:
            raise build_value_error(signature.nodes[error.slot], realize) from None


def _find_plan(roots: Sequence[Node]) -> tuple[GraphSignature, Plan, Set[int]] | None:
    """Return the signature of the pending graph of `roots`, its plan, and the slots of externally referenced nodes; None if no root is
    pending.

    Only the watched nodes of the plan (`Plan.watched_slots`) are examined for references. The loop repeats whenever the graph has changed:
    a signal handler or a finalizer computed a node, or `_find_referenced` marked an inlined node as stored.
    """
    while True:
        pending_roots: list[Node] = []
        for root in roots:
            if root.buffer is None:
                pending_roots.append(root)
        if not pending_roots:
            return None
        signature = graph_signature.capture_signature(pending_roots)
        plan = get_plan(signature, may_defer=True)
        if plan is None:
            continue
        if not plan.watched_slots:
            return signature, plan, ownership.NO_NODES
        referenced_slots = _find_referenced(plan, signature.nodes)
        # `_find_referenced` marked an inlined node as stored: a new signature
        if not referenced_slots.isdisjoint(plan.cheap_to_store_slots):
            del signature
        elif signature.is_unchanged():  # no node was computed meanwhile, so the counted references belong to this graph
            return signature, plan, referenced_slots


def get_plan(signature: GraphSignature, may_defer: bool = False) -> Plan | None:
    """Return the plan for `signature`, found or made now, and cache it; None if a node of `signature` was computed meanwhile.

    With `may_defer`, make an unfused plan, where possible, until a plan for the whole is due (`Deferral`). Without, the plan is for the
    whole. Interrupted computations among the nodes are finished first.
    """
    cached = _cached_plan(signature.key)
    if cached is not None and (cached.deferral is None or (may_defer and not cached.deferral.charge_run())):
        counts["plans_in_memory"] += 1
        return cached
    complete_unfinished(signature.nodes)
    with disable_tape():
        snapshot = signature.snapshot()
        if snapshot is None:
            return None
        plan = _find_in_sources(snapshot)
        if plan is None and may_defer and cached is None and plan_disk_cache.can_use_shipped_plans():
            plan = unfused_plans.make_unfused_plan(snapshot, _find_piece_plan, get_plan)
        if plan is None:
            plan = generic_plans.make_plan(snapshot)
            plan_disk_cache.store_plan(snapshot, plan)
    if backend().kernel_count() > MAX_KERNELS:
        compiled_kernels.evictions += 1
        evict_plans()
    _plans.put(signature.key, plan, plan.table_bytes)
    return plan


def _find_in_sources(signature: GraphSignature) -> Plan | None:
    """Return the plan for `signature` from the first source that has one; None if none has. Each source is asked once, the quickest first.

    The sources are exact and generic plans in memory; a shipped kernel for a single operation, or an exact plan on disk; generic plans in
    the package or on disk; and a shipped kernel for each row of a single operation.
    """
    plan: Plan | None = (
        _find_fused_in_memory(signature)
        or _find_generic_in_memory(signature)
        or plan_disk_cache.load_plan(signature)
        or generic_plans.find_stored_plan(signature)
        or plan_disk_cache.find_shipped_rows_plan(signature)
    )
    return plan


def _find_fused_in_memory(signature: GraphSignature) -> Plan | None:
    """Return the cached plan for `signature`, unless it is unfused; None on a miss.

    The fast path names a graph by other keys than Python, so a graph that misses by one key may hit by the other.
    """
    plan = _cached_plan(signature.key)
    return plan if plan is not None and plan.deferral is None else None


def _find_generic_in_memory(signature: GraphSignature) -> Plan | None:
    """Return the plan for `signature` from a generic plan in memory; None on a miss. The module of generic plans is not imported."""
    module = find_loaded_module("tenxor.runtime.generic_plans")
    plan: Plan | None = None if module is None else module.find_plan_in_memory(signature)
    return plan


def _find_piece_plan(signature: GraphSignature) -> tuple[Plan, int] | None:
    """Return a plan for `signature`, of a piece of a graph, and the nanoseconds that a compiled kernel would save in each run.

    `unfused_plans.make_unfused_plan` calls this function for each piece, a part of the graph for one kernel. The nanoseconds are 0 except
    for the last source: a shipped kernel much slower than a compiled one. Return None if no source has a plan.
    """
    plan = _find_in_sources(signature)
    if plan is None:
        temporary: tuple[Plan, int] | None = shipped_op_plans.find_temporary_plan(signature)
        return temporary
    _plans.put(signature.key, plan, plan.table_bytes)
    return plan, 0


def _cached_plan(key: object) -> Plan | None:
    """Return the cached plan for `key`, the key of a signature; None on a miss, and for a plan made for another number of threads."""
    plan = _look_up_plan(key)
    return plan if plan is not None and plan.target.threads == num_threads() else None


def complete_unfinished(nodes: Iterable[Node]) -> None:
    """Finish the interrupted computations among `nodes`: the nodes with the operation UNFINISHED.

    An interrupted in-place launch leaves an UNFINISHED node, since the launch cannot start again (`plan_execution.InPlaceLaunch`).
    """
    for node in nodes:
        if node.op is UNFINISHED:
            from .plan_execution import finish_node

            with compute_lock:
                finish_node(node)


def evict_plans() -> None:
    """Evict every plan, and clear the caches of launches: launch records and others. Kernels without a recent request are then unloaded."""
    compiled_kernels.clear_dependents()


def _find_referenced(plan: Plan, nodes: list[Node]) -> Set[int]:
    """Return the slots of the externally referenced nodes among the watched ones of `plan`; mark some inlined nodes as `is_stored`.

    `nodes` are the nodes of the signature, indexed by slot. User code may ask again for an externally referenced node that the plan
    inlines. So the expensive nodes (`plan.expensive_slots`) are marked, for the next plan. If some nodes in `plan.cheap_to_store_slots` are
    externally referenced, only expensive nodes among them are marked, and the caller must plan the graph again at once.
    """
    referenced_slots: set[int] = ownership.find_externally_owned(nodes, plan.watched_slots, plan.watched_read_counts)
    if referenced_slots:
        cheap_to_store = {nodes[k] for k in plan.cheap_to_store_slots if k in referenced_slots}
        if cheap_to_store:
            expensive_nodes = unfused_plans.find_expensive_nodes([nodes[k] for k in plan.inlined_slots], plan.target.fusing, cheap_to_store)
        else:
            inlined_nodes = [nodes[k] for k in referenced_slots.intersection(plan.expensive_slots)]
            expensive_nodes = [n for n in inlined_nodes if plan.is_worth_storing(n) or element_requests.charge_request(n)]
        for node in expensive_nodes:
            node.is_stored = True
    return referenced_slots


compute_lock = make_reentrant_lock()  # held while a thread computes nodes, or changes the content of a storage
_plans: BoundedCache[Plan] = register("plans", "a plan, by graph signature", depends_on=(compiled_kernels,))(
    BoundedCache(MAX_PLANS, MAX_TABLE_BYTES)
)
_look_up_plan = _plans.get
_switch_interval = 0.0  # of the interpreter, before the fork


def _before_fork() -> None:
    """Wait until no other thread computes or is in a section (`exclude_user_code`), and let no thread begin before the fork.

    Python calls this function before a fork. A child lacks the threads of its parent, so locks of these threads would never be released,
    and modules under import never be complete. Apart from `compute_lock`, locks are held in sections only.
    """
    global _switch_interval
    while True:
        compute_lock.acquire()
        _switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(NO_SWITCH_S)
        if not has_other_open_section():
            return
        _after_fork()
        sleep(FORK_POLL_S)


def _after_fork() -> None:
    """Undo `_before_fork`: threads run and compute again."""
    sys.setswitchinterval(_switch_interval)
    compute_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
