"""Launch records of graphs computed as a whole, and of updates in the memory that they overwrite (`fastpath/emit/graph_evaluation.py`). A
graph is a pending node with all pending nodes below it. A launch record tells the generated code which kernels to launch, in order, with
which arguments: 64-bit integers, packed as bytes. The kernels are those of a plan. A record is found by a key made of the recipes of the
graph: operations, shapes, dtypes and layouts. An update computes new values for a part of a storage, as `x[1:] += y`, by one kernel that
writes over the old values.

A record begins with four integers: the number of node entries, the number of kernels, whether Python must wake worker threads, and the
limit of runs. The record of an unfused plan (`runtime/unfused_plans.py`) has a limit: generated code counts the limit down to 1, and then
asks Python for a new record. 0 stands for no limit.

A node entry has `NODE_ENTRY_WORDS` integers: the node's index, its references within the graph, and a role. `STORED` nodes are computed
by a separate kernel. `INLINED` and `INLINED_EXPENSIVE` nodes are computed within another kernel, the latter at high cost. A `DONOR` is
an input that the plan would overwrite with a result; generated code runs the record only if the input has further references. An
inlined node counts as stored if its sums would round differently when recomputed without the intermediate results.

A kernel has the head of a node's launch record (`launch_records.py`) and four more integers: the node in whose memory the kernel
writes; the bytes to allocate for it, or 0 for existing memory; the least part of the loop for a thread, or 0 for a single thread; and
the number of pieces if worker threads are awake. The arguments refer to nodes, offsets and scalars of the graph, as numbered by
`runtime/graph_signature.py`.

The record of a graph with other sizes differs only in a few words. After a few graphs of one signature, these words are traced with
symbolic sizes, and the generated code makes further records by itself.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from .._utils.cache_registry import CacheRecord
from .._utils.locks import try_acquire
from .._utils.upcalls import get_size_generic_functions
from ..codegen.llvm.compiler import MachineCode
from ..graph.node import Node, disable_tape
from ..runtime.generic_plans import find_with_symbolic_dims
from ..runtime.graph_signature import GraphSignature, capture_signature
from ..runtime.kernel_call import SingleKernelCall
from ..runtime.plan_execution import Plan, PlanStep
from ..runtime.realize import compute_lock, get_plan
from ..runtime.unfused_plans import find_reordered_ids
from ..symbolic.symint import IntOrSymInt
from ..target import Target
from . import size_generic
from .launch_records import (
    GRAPH_HEADER_WORDS,
    MEMORY,
    NODE_HEADER_WORDS,
    RECORD_SOURCES,
    SymbolicRecord,
    build_argument_rows,
    build_record,
    can_skip_workers,
    get_update_work_limit,
    index_by_id,
    trace_record,
)
from .limits import MAX_SMALL_BLOCK_BYTES

MAX_RESULT_BYTES = 1 << 23  # bytes of a result: for a larger one the time to find a plan is negligible
MAX_KERNELS = 128  # kernels in a record, at some 400 bytes each
MAX_NODES = 256  # nodes of a graph, including nodes added by the plan
MAX_GRAPH_RECORDS = 1 << 11
MIN_REQUESTS = 16  # requests before the record of a large graph is built, which takes as long as so many runs of the plan by Python
STORED, INLINED, INLINED_EXPENSIVE, DONOR = range(4)  # roles of node entries

graph_records: dict[bytes, bytes] = {}  # launch records of graphs, by key
update_records: dict[bytes, bytes] = {}  # launch records of updates, by key
request_counts: Counter[int] = Counter()  # requests for launch records of large graphs, by the hash of the signature key
plans_in_use: set[Plan] = set()  # the plans whose kernels the records use


def drop_graph_records() -> None:
    """Drop the launch records of graphs and updates, and the kernels held only by them. Wait for another thread that is computing.

    The registry of caches calls this function, and `_store_record` if the tables are full.
    """
    with compute_lock:  # another thread may be running a kernel kept in memory only by a record
        for cache in (plans_in_use, graph_records, update_records, request_counts):
            cache.clear()


graph_launch_records = CacheRecord(
    "launch records of graphs",
    "the packed launches of a graph, by graph signature",
    __name__,
    drop_graph_records,
    lambda: len(graph_records) + len(update_records),
    max_entries=MAX_GRAPH_RECORDS,
    depends_on=RECORD_SOURCES,
)
size_generic._templates_by_signature.record.feed(graph_launch_records)


def store_graph_record(root: Node) -> None:
    """Build and store the launch record of the pending graph with root `root`, for all graphs with the same key. Generated code calls this
    function for a missing record.

    The record is empty if the graph cannot be run by a record. Do nothing if another thread holds the lock for computing, or if nodes of
    the graph were computed meanwhile. A graph without a size-generic signature gets a record after `MIN_REQUESTS` requests: these sizes may
    never come again.
    """
    if not try_acquire(compute_lock):
        return
    try:
        signature = capture_signature([root])
        key_hash = hash(signature.key)
        if request_counts[key_hash] < MIN_REQUESTS and get_size_generic_functions().compute_graph_signature(graph_records, root) is None:
            if len(request_counts) >= MAX_GRAPH_RECORDS:
                request_counts.clear()
            request_counts[key_hash] += 1
            return
        plan = get_plan(signature, may_defer=True)
        with disable_tape():
            snapshot = signature.snapshot()
        if plan is not None and snapshot is not None:  # None if nodes were computed meanwhile
            _store_record(graph_records, root, snapshot, _pack_words(_build_graph_words(snapshot, plan)), plan, _trace_graph_record)
    finally:
        compute_lock.release()


def store_update_record(root: Node) -> None:
    """Build and store the launch record of the update in place with root `root`, for all updates with the same key. Generated code calls
    this function for a missing record.

    The record is empty if the update cannot be run by a record. Do nothing if another thread holds the lock for computing, or if nodes of
    the graph were computed meanwhile.
    """
    if not try_acquire(compute_lock):
        return
    try:
        signature = capture_signature([root])
        with disable_tape():
            snapshot = signature.snapshot()
        if snapshot is not None:
            record, plan = _build_update_record(snapshot)
            words = struct.unpack(f"={len(record) // 8}q", record)
            _store_record(update_records, root, snapshot, _pack_words(_convert_update_words(snapshot, words)), plan, _trace_update_record)
    finally:
        compute_lock.release()


def _store_record(
    records: dict[bytes, bytes],
    root: Node,
    signature: GraphSignature,
    record: bytes,
    plan: Plan,
    trace_symbolic: Callable[[GraphSignature, GraphSignature], SymbolicRecord | None],
) -> None:
    """Store the launch record `record` of the graph of `root` in `records`, which is `graph_records` or `update_records`.

    If `MAX_GRAPH_RECORDS` records are stored, drop them all first. `signature` is the graph signature, and `plan` has the kernels, which
    must stay in memory as long as the record. An unfused plan gets a counter of the record's runs, in place of older counters. After
    `CALLS_BEFORE_TRACING` graphs of one signature, trace a size-generic record: `trace_symbolic` takes `signature` and the same signature
    with symbolic sizes, and returns the record, or None. Nothing is traced for an unfused plan, and for an update without a record.
    """
    if len(graph_records) + len(update_records) >= MAX_GRAPH_RECORDS:
        graph_launch_records.evictions += 1
        drop_graph_records()
    key = _build_graph_key(signature)
    # In this order, a signal handler that drops the records in between leaves no record without the plan that holds its kernels.
    records[key] = record
    plans_in_use.add(plan)
    if plan.deferral is not None and record:
        plan.deferral.run_counters[:] = [_RunCounter(record)]
    can_trace = plan.deferral is None and (record or records is graph_records)
    key_and_signature = get_size_generic_functions().compute_graph_signature(records, root) if can_trace else None
    if key_and_signature is None or key_and_signature[0] != key:
        return
    size_generic.SplitCall(*key_and_signature[1:], [node.recipe for node in signature.nodes]).trace_launch_record(
        record, lambda: signature, trace_symbolic
    )


class _RunCounter:
    """A counter of the runs of the launch record `record` of an unfused plan.

    The generated code counts down the limit of runs in the bytes of the record. The deferral of the plan calls the counter to learn how
    often the record has run.
    """

    __slots__ = ("last_limit", "record")

    def __init__(self, record: bytes) -> None:
        self.record = record
        self.last_limit = self.read_limit()

    def read_limit(self) -> int:
        """Return the limit of runs, which generated code counts down in the bytes of the record."""
        limit: int = struct.unpack_from("=q", self.record, 8 * (GRAPH_HEADER_WORDS - 1))[0]
        return limit

    def __call__(self) -> int:
        """Return the number of runs of the record since the last call."""
        limit, self.last_limit = self.last_limit, self.read_limit()
        return limit - self.last_limit


def _build_graph_key(signature: GraphSignature) -> bytes:
    """Return the key of the graph with signature `signature`, as packed 64-bit integers: the recipes of the pending nodes, and the nodes
    and offsets that they read.

    The generated code computes an equal key (`fastpath/emit/graph_walk.py`).
    """
    node_indices = {node: k for k, node in enumerate(signature.nodes)}
    offset_indices: dict[tuple[Node, int], int] = {}
    words = []
    for node in signature.nodes:
        if node.buffer is not None:
            words.append(0)
            continue
        words.append(2 * node.recipe.serial + node.is_stored)
        for source, offset in zip(node.sources, node.offsets):  # noqa: B905  # the last offset may be the target's
            if type(source) is Node:
                is_pending = source.buffer is None
                words += (node_indices[source], offset if is_pending else offset_indices.setdefault((source, offset), len(offset_indices)))
    return _pack_words(words)


def _pack_words(words: Sequence[Any]) -> bytes:
    """Return the integers `words` packed as 64-bit words."""
    return struct.pack(f"={len(words)}q", *words)


def _trace_graph_record(signature: GraphSignature, symbolic_signature: GraphSignature) -> SymbolicRecord | None:
    """Return the size-generic launch record of a graph: its integers, and the plan with the kernels; None if the graph has no generic plan.

    `symbolic_signature` is `signature` with symbolic sizes, and some of the returned integers are symbolic. An empty sequence of integers
    means that graphs of this signature are not run by launch records.
    """
    plan_and_dims = find_with_symbolic_dims(signature, symbolic_signature)
    if plan_and_dims is None:
        return None
    generic_plan, numbers = plan_and_dims
    return _build_graph_words(symbolic_signature, generic_plan.instantiate(numbers)), generic_plan.plan_without_dims


def _build_graph_words(signature: GraphSignature, plan: Plan) -> Sequence[IntOrSymInt]:
    """Return the integers of the launch record by which `plan` computes the graph with signature `signature`, in the format of this module.

    An empty sequence means that no record can run the graph. The plan may need more than `MAX_KERNELS` kernels or `MAX_NODES` nodes. A
    result may have more than `MAX_RESULT_BYTES` bytes, or an intermediate more than `MAX_SMALL_BLOCK_BYTES`. A kernel may need Python. Or
    the plan reads a small part of a large inlined node: Python counts requests for such parts (`runtime/element_requests.py`).
    """
    root_index = len(signature.nodes) - 1
    if len(plan.steps) > MAX_KERNELS or len(signature.nodes) + plan.additional_slot_count > MAX_NODES:
        return ()
    if not all([plan.is_worth_storing(signature.nodes[k]) for k in plan.expensive_slots]):
        return ()
    reference_counts = Counter(id(s) for node in signature.nodes for s in node.sources)
    node_roles = [(step.result_slot, STORED) for step in plan.steps if step.result_slot < root_index]
    node_roles += _get_inlined_roles(signature, plan)
    donors = [k for step in plan.steps for k, _ in step.donors if k <= root_index]  # larger indices are intermediate slots of the plan
    node_roles += [(k, DONOR) for k in donors if signature.nodes[k].buffer is not None]
    shares = [_split_loop(step, plan.target) for step in plan.steps]
    words: list[IntOrSymInt] = [len(node_roles), len(plan.steps), 0, 0 if plan.deferral is None else 1 + plan.deferral.count_granted_runs()]
    for k, role in node_roles:
        words += (k, reference_counts[id(signature.nodes[k])], role)
    target_nodes = _map_written_nodes(plan)
    if target_nodes is None:
        return ()
    nodes_with_memory = {root_index}
    for step, (grain, pieces) in zip(plan.steps, shares, strict=True):
        call, rows = step.kernel_call, build_argument_rows(step, thread_count=plan.target.threads if grain else 1)
        if (
            rows is None
            or not isinstance(call, SingleKernelCall)
            or step.nbytes > (MAX_RESULT_BYTES if target_nodes[step.result_slot] == root_index else MAX_SMALL_BLOCK_BYTES)
        ):
            return ()
        if not can_skip_workers(call, plan.target, _get_gil_work_limit(call, plan.target)):
            if not grain:
                return ()
            words[2] = True
        number = target_nodes[step.result_slot]
        nbytes = 0 if number in nodes_with_memory else step.nbytes
        nodes_with_memory.add(number)
        words += (call.compiled.address, call.arguments.split_extent, len(rows), number, nbytes, grain, pieces)  # type: ignore[attr-defined]
        for kind, source, *offset_words in rows:
            words += (kind, target_nodes.get(source, source) if kind == MEMORY else source, *offset_words)
    return words


def _map_written_nodes(plan: Plan) -> dict[int, int] | None:
    """Return a dict from the result slot of each step of `plan` to the node in whose memory the result is written, or None.

    Slots and nodes have the same numbers. The node is the step's own node, or the last node that overwrites the result.

    Return None in three cases: a step overwrites anything but the result of an earlier step; the overwritten result is read afterwards, so
    the plan writes a copy; or the result is larger than `MAX_SMALL_BLOCK_BYTES` bytes, since the write may then be one of many pending
    writes.
    """
    target_nodes: dict[int, int] = {}
    for step in plan.steps:
        if step.overwritten_slot is not None:
            if (
                step.overwritten_slot not in target_nodes
                or [k for k, _ in step.donors] != [step.overwritten_slot]
                or step.nbytes > MAX_SMALL_BLOCK_BYTES
            ):
                return None
            for k in [k for k, target in target_nodes.items() if target == step.overwritten_slot]:
                target_nodes[k] = step.result_slot
        target_nodes[step.result_slot] = step.result_slot
    return target_nodes


def _get_inlined_roles(signature: GraphSignature, plan: Plan) -> list[tuple[int, int]]:
    """Return pairs of the index and the role of each inlined node of `plan` that is expensive to compute a second time.

    These are the nodes in `Plan.expensive_slots`, numbered as in `signature`. The role is `INLINED_EXPENSIVE` for a node with many
    elements, or for a node cheap to store, and otherwise `INLINED`. The role is `STORED` if sums would add in another order without the
    node.
    """
    nodes, reordered_ids = signature.nodes, find_reordered_ids(signature.nodes) if plan.expensive_slots else set()
    costly_indices = {k for k in plan.expensive_slots if k in plan.cheap_to_store_slots or _is_expensive(nodes[k], plan.target)}
    return [
        (k, STORED if id(nodes[k]) in reordered_ids else INLINED_EXPENSIVE if k in costly_indices else INLINED)
        for k in plan.expensive_slots
    ]


def _get_gil_work_limit(call: SingleKernelCall, target: Target) -> int:
    """Return the limit on the work of the kernel of `call`, in additions, from which the GIL would have to be released, or signals
    delivered. Generated code runs no kernel of so much work on a machine with one thread, and shares none among threads. The limit is
    `first_slice_work` for a contraction and otherwise `max_unshared_contraction`, among the limits of the machine `target`.
    """
    return (
        target.thread_limits.max_unshared_contraction if call.compiled.kernel.contraction is None else target.thread_limits.first_slice_work
    )


def _split_loop(step: PlanStep, target: Target) -> tuple[int, int]:
    """Return the grain and the number of pieces with which threads share the loop of `step`. The grain is the number of iterations of which
    every piece is a multiple.

    `target` describes the machine. Return (0, 0) if generated code does not share the loop: a single thread runs the loop, or Python shares
    it. Reasons are a single thread, a kernel without machine code or without a loop to share, work below `min_polled_work`, and work from
    the limit of `_get_gil_work_limit` on.
    """
    call, sharing = step.kernel_call, target.thread_limits
    if target.threads == 1 or not isinstance(call, SingleKernelCall) or not isinstance(call.compiled, MachineCode):
        return 0, 0
    facts, work = call.compiled.facts, call.work
    if work < sharing.min_polled_work or work >= _get_gil_work_limit(call, target) or facts.shared_axis < 0:
        return 0, 0
    if call.arguments.scratch_bytes:  # each piece packs its operands again
        is_uneven = facts.contraction is not None and facts.contraction.symmetric_pairs
        return facts.min_grain, target.threads * (2 if is_uneven else 1)
    return facts.min_grain, target.threads * sharing.chunks_per_thread


def _is_expensive(node: Node, target: Target) -> bool:
    """Return whether the pending node `node` is too expensive to be computed twice.

    The node or a source then has `max_gil_held_work` elements or more, a threshold of the machine `target`.
    """
    return max([node.size, *[s.size for s in node.sources if type(s) is Node]]) >= target.thread_limits.max_gil_held_work


def _build_update_record(signature: GraphSignature) -> tuple[bytes, Plan]:
    """Return the launch record of the update in place with signature `signature`, and the plan with the kernel.

    The record has the format of a single node's record (`launch_records.py`); empty bytes mean that no record can run the update. Pending
    sources are inlined, even with other references.
    """
    return build_record(
        signature,
        index_by_id(signature.nodes) | index_by_id(signature.scalars),
        list(range(len(signature.offsets) - 1)),
        get_update_work_limit(),
    )


def _trace_update_record(signature: GraphSignature, symbolic_signature: GraphSignature) -> SymbolicRecord | None:
    """Return the size-generic launch record of an update, in the format of a graph's record: its integers, and the plan with the kernel.

    `symbolic_signature` is `signature`, of the update, with symbolic sizes, and some of the returned integers are symbolic. Return None if
    the record cannot be made size-generic.
    """
    symbolic_record = trace_record(signature, symbolic_signature, get_update_work_limit(), lambda: _build_update_record(signature))
    return None if symbolic_record is None else (_convert_update_words(signature, symbolic_record[0]), symbolic_record[1])


def _convert_update_words(signature: GraphSignature, words: Sequence[IntOrSymInt]) -> Sequence[IntOrSymInt]:
    """Return an update's launch record, as integers, in the format of a graph's record.

    `signature` is the graph signature of the update, and `words` the record in the format of a single node's record. An empty sequence, for
    no record, stays empty.
    """
    root_index = len(signature.nodes) - 1
    return [0, 1, False, 0, *words[:3], root_index, 0, 0, 0, MEMORY, root_index, *words[NODE_HEADER_WORDS + 2 :]] if words else ()
