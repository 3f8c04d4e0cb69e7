"""Launch records of graphs computed as a whole, and of updates in the memory that they overwrite (`code/graph.py`).

A record begins with three integers: the number of node entries, the number of kernels, and whether Python must wake worker threads. A node
entry has `LOOK` integers: the node's index, its references within the graph, and a role. `STORED` nodes are computed by a separate kernel.
`INLINED` and `MUCH` nodes are computed within another kernel, the latter at high cost. A `DONOR` is an input that the plan would overwrite
with a result; generated code runs the record only if the input has further references. An inlined node counts as stored if its sums would
round differently when recomputed without the intermediate results.

A kernel has the head of a node's launch record (`frames.py`) and four more integers: the node in whose memory the kernel writes; the bytes
to allocate for it, or 0 for existing memory; the least part of the loop for a thread, or 0 for a single thread; and the number of pieces if
worker threads are awake. The arguments refer to nodes, offsets and scalars of the graph, as numbered by `plans/pattern.py`.

The record of a graph with other sizes differs only in a few words. After a few graphs of one signature, these words are traced with
symbolic sizes, and the generated code makes further records by itself.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..backend.llvm.compiler import MachineCode
from ..errors import NotAtHand
from ..locking import taken_at_once
from ..node import Node, untracked
from ..plans.call import Call
from ..plans.general import general_of_sizes
from ..plans.parts import adding_otherwise, sources_first
from ..plans.pattern import Pattern, taken
from ..plans.steps import Plan, Step
from ..realize import lock, plan_of
from ..sizes import Number
from ..target import Target
from . import frames, likewise
from .frames import (
    HEAD,
    MEMORY,
    SizedFrame,
    is_brief,
    most_in_place,
    numbered,
    rows_of,
    written,
    written_of_sizes,
)
from .limits import LARGEST

LARGE = 1 << 23  # bytes of a result: for a larger one the time to find a plan is negligible
MOST_STEPS = 16  # kernels in a record
MOST_NODES = 256  # nodes of a graph, including nodes added by the plan
MAX_GRAPHS = 1 << 12
STORED, INLINED, MUCH, DONOR = range(4)  # roles of node entries

graphs: dict[bytes, bytes] = {}  # launch records of graphs, by key
updates: dict[bytes, bytes] = {}  # launch records of updates, by key
plans: set[Plan] = set()  # the plans whose kernels the records use


def forget() -> None:
    """Drop the launch records of graphs and updates, and the kernels held only by them."""
    for known in (plans, graphs, updates):
        known.clear()


def forget_at_once() -> None:
    """Drop the launch records of graphs, updates and recipes; wait for the lock for computing.

    The number of threads has changed, and kernels are run by launch records depending on this number.
    """
    with lock:
        frames.forget()
        forget()


def have_graph_framed(root: Node) -> None:
    """Build and store the launch record of a pending graph, for all graphs with the same key.

    Do nothing if another thread holds the lock for computing, or if the planner prefers to compute parts first.
    """
    if not taken_at_once(lock):
        return
    try:
        met = taken([root])
        try:
            plan = plan_of(met, soon=bool(sources_first([root])))
        except NotAtHand:  # Python computes the graph in parts, without a compiler
            return
        with untracked():
            pattern = met.apart()
        if plan is not None and pattern is not None:  # None if nodes were computed meanwhile
            _keep(graphs, root, pattern, _packed(_words_of_graph(pattern, plan)), plan, _graph_of_sizes)
    finally:
        lock.release()


def have_update_framed(root: Node) -> None:
    """Build and store the launch record of an update in place.

    Do nothing if another thread holds the lock for computing.
    """
    if not taken_at_once(lock):
        return
    try:
        met = taken([root])
        with untracked():
            pattern = met.apart()
        if pattern is not None:
            frame, plan = _update(pattern)
            words = struct.unpack(f"={len(frame) // 8}q", frame)
            _keep(updates, root, pattern, _packed(_words_of_update(pattern, words)), plan, _update_of_sizes)
    finally:
        lock.release()


def _keep(
    known: dict[bytes, bytes],
    root: Node,
    pattern: Pattern,
    frame: bytes,
    plan: Plan,
    of_sizes: Callable[[Pattern, Pattern], SizedFrame | None],
) -> None:
    """Store the launch record `frame` of the graph of `root` in `known`, which is `graphs` or `updates`.

    `pattern` is the graph signature, and `plan` holds the kernels. After a few graphs of one signature, trace a size-generic record:
    `of_sizes` takes `pattern` and the signature with symbolic sizes, and returns that record, or None.
    """
    if len(graphs) + len(updates) >= MAX_GRAPHS:
        forget()
    key = _key_of(pattern)
    plans.add(plan)
    known[key] = frame
    found = likewise.machine[0].kind_of_graph(known, root) if frame or known is graphs else None
    if found is None or found[0] != key:
        return
    likewise.Call(*found[1:], [node.recipe for node in pattern.nodes]).learn_frame(frame, lambda: pattern, of_sizes)


def _key_of(pattern: Pattern) -> bytes:
    """Return the key of a graph, packed integers equal to those that the generated code computes (`code/walk.py`)."""
    number_of = {node: k for k, node in enumerate(pattern.nodes)}
    places: dict[tuple[Node, int], int] = {}
    words = []
    for node in pattern.nodes:
        if node.buffer is not None:
            words.append(0)
            continue
        words.append(2 * node.recipe.number + node.stored)
        for source, offset in zip(node.sources, node.offsets):  # noqa: B905  # the last offset may be the target's
            if type(source) is Node:
                waits = source.buffer is None
                words += (number_of[source], offset if waits else places.setdefault((source, offset), len(places)))
    return _packed(words)


def _packed(words: Sequence[Any]) -> bytes:
    """Return integers packed as 64-bit words."""
    return struct.pack(f"={len(words)}q", *words)


def _graph_of_sizes(pattern: Pattern, sized: Pattern) -> SizedFrame | None:
    """Return the symbolic launch record of a graph, as words and plan; None if the graph has no generic plan.

    `sized` is `pattern` with symbolic sizes. Empty words mean that graphs of this signature are not run by launch records.
    """
    suited = general_of_sizes(pattern, sized)
    if suited is None:
        return None
    general, numbers = suited
    return _words_of_graph(sized, general.plan(numbers)), general.outline


def _words_of_graph(pattern: Pattern, plan: Plan) -> Sequence[Number]:
    """Return the integers of the launch record by which a plan computes a graph; empty if more than a few small kernels are needed."""
    last = len(pattern.nodes) - 1
    if len(plan.steps) > MOST_STEPS or len(pattern.nodes) + plan.more > MOST_NODES:
        return ()
    owners = Counter(id(s) for node in pattern.nodes for s in node.sources)
    looks = [(step.number, STORED) for step in plan.steps if step.number < last]
    looks += _inlined(pattern, plan)
    donors = [k for step in plan.steps for k, _ in step.donors if k <= last]  # larger indices are scratch cells of the plan
    looks += [(k, DONOR) for k in donors if pattern.nodes[k].buffer is not None]
    shares = [_shares(step, plan.target) for step in plan.steps]
    words: list[Number] = [len(looks), len(plan.steps), 0]
    for k, what in looks:
        words += (k, owners[id(pattern.nodes[k])], what)
    where = _where_written(plan)
    if where is None:
        return ()
    lent = {last}
    for step, (grain, pieces) in zip(plan.steps, shares, strict=True):
        call, rows = step.filling, rows_of(step, threads=plan.target.threads if grain else 1)
        if rows is None or not isinstance(call, Call) or step.nbytes > (LARGE if where[step.number] == last else LARGEST):
            return ()
        if not is_brief(call, plan.target, _most(call, plan.target)):
            if not grain:
                return ()
            words[2] = True
        number = where[step.number]
        nbytes = 0 if number in lent else step.nbytes
        lent.add(number)
        words += (call.compiled.address, call.arguments.split, len(rows), number, nbytes, grain, pieces)  # type: ignore[attr-defined]
        for kind, which, *rest in rows:
            words += (kind, where.get(which, which) if kind == MEMORY else which, *rest)
    return words


def _where_written(plan: Plan) -> dict[int, int] | None:
    """Return, for the node number of each step of a plan, the number of the node in whose memory its result is written.

    Without overwriting this is the step's own node, else the last node to overwrite it.

    Return None in three cases: a step overwrites anything but the result of an earlier step; the overwritten result is read afterwards, so
    that a copy is written; or the result is larger than `LARGEST` bytes, since the write may then be one of many pending writes.
    """
    where: dict[int, int] = {}
    for step in plan.steps:
        if step.over is not None:
            if step.over not in where or [k for k, _ in step.donors] != [step.over] or step.nbytes > LARGEST:
                return None
            for k in [k for k, place in where.items() if place == step.over]:
                where[k] = step.number
        where[step.number] = step.number
    return where


def _inlined(pattern: Pattern, plan: Plan) -> list[tuple[int, int]]:
    """Return pairs of the index and the role (`STORED`, `INLINED` or `MUCH`) of each inlined node that is costly to compute again."""
    nodes, otherwise = pattern.nodes, adding_otherwise(pattern.nodes) if plan.costly else set()
    much = {k for k in plan.costly if k in plan.dear or _is_much(nodes[k], plan.target)}
    return [(k, STORED if id(nodes[k]) in otherwise else MUCH if k in much else INLINED) for k in plan.costly]


def _most(call: Call, target: Target) -> int:
    """Return the work of a kernel, in additions, up to which the GIL is held and no signal is delivered."""
    return target.sharing.alone if call.compiled.kernel.product is None else target.sharing.first


def _shares(step: Step, target: Target) -> tuple[int, int]:
    """Return how to share the loop of a step's kernel among threads: the least part of the loop for a thread, and the number of pieces.

    Return (0, 0) if a single thread runs the loop.
    """
    call, sharing = step.filling, target.sharing
    if target.threads == 1 or not isinstance(call, Call) or not isinstance(call.compiled, MachineCode):
        return 0, 0
    facts, work = call.compiled.facts, call.work
    if work < sharing.awake or work >= _most(call, target) or facts.shared < 0:
        return 0, 0
    if call.arguments.scratch:  # each piece packs its operands again
        is_uneven = facts.product is not None and facts.product.twins
        return facts.least, target.threads * (2 if is_uneven else 1)
    return facts.least, target.threads * sharing.pieces


def _is_much(node: Node, target: Target) -> bool:
    """Return whether a pending node is too expensive to be computed twice."""
    return max([node.size, *[s.size for s in node.sources if type(s) is Node]]) >= target.sharing.hold_lock


def _update(pattern: Pattern) -> tuple[bytes, Plan]:
    """Return the launch record of an update in place, in the format of a single node's record (`frames.py`), and the plan with the kernel.

    Pending sources are inlined, even with other references.
    """
    return written(pattern, numbered(pattern.nodes) | numbered(pattern.scalars), list(range(len(pattern.offsets) - 1)), most_in_place())


def _update_of_sizes(pattern: Pattern, sized: Pattern) -> SizedFrame | None:
    """Return the symbolic launch record of an update, as words and plan; None if it cannot be made size-generic.

    `sized` is the graph signature `pattern` with symbolic sizes.
    """
    found = written_of_sizes(pattern, sized, most_in_place(), lambda: _update(pattern))
    return None if found is None else (_words_of_update(pattern, found[0]), found[1])


def _words_of_update(pattern: Pattern, words: Sequence[Number]) -> Sequence[Number]:
    """Return an update's launch record, as integers, in the format of a graph's record; `words` is in the format of a single node's record.

    An empty sequence, for no record, stays empty.
    """
    last = len(pattern.nodes) - 1
    return [0, 1, False, *words[:3], last, 0, 0, 0, MEMORY, last, *words[HEAD + 2 :]] if words else ()
