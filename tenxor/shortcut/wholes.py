"""Frames of graphs, which are computed as a whole, and of updates, which are done in the memory of what they write over (`code/graph.py`).

A frame says how many nodes are looked at for other owners, how many kernels there are, and whether Python wakes helpers for one; then of
each such node its number, its owners within the graph, and what it is: stored, inlined, or inlined and much to make, or memory that
nobody needs afterwards, which others must have, as else the result would be written there. What is inlined counts as stored where sums
that it is made of may come out otherwise when it is made again without what was computed on the way. Then comes each kernel as that of a
node (`frames.py`), with four more numbers before its arguments: in which node's memory it computes, of how many bytes if that is neither
the last one's nor there already, as a step that writes over what one before it made has it, the least of its loop that a thread takes, or
0 if one does all, and in how many pieces it is cut if helpers are awake. Its arguments are of nodes, offsets and scalars of the graph, as
`plans/pattern.py` numbers them.

A graph of other sizes has the same frame but for some words. When a kind of graph was met before, these are worked out of `Size`s, so
from then on machine code makes the frames of others of that kind.
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

LARGE = 1 << 23  # bytes of a result, at the most: beyond, finding a plan takes no time beside the work
MOST_STEPS = 16  # kernels of a graph
MOST_NODES = 256  # of a graph, with those that its plan makes
MAX_GRAPHS = 1 << 12
STORED, INLINED, MUCH, DONOR = range(4)  # what a node is that is looked at

graphs: dict[bytes, bytes] = {}  # the frames of graphs, by their keys
updates: dict[bytes, bytes] = {}  # the same of updates, which are run over what they read
plans: set[Plan] = set()  # which have their kernels in memory


def forget() -> None:
    """Forget all frames, and with them the kernels that nothing else has."""
    for known in (plans, graphs, updates):
        known.clear()


def forget_at_once() -> None:
    """Forget these, and those of recipes, for whoever is not computing: how many threads there are decides what is run by frames."""
    with lock:
        frames.forget()
        forget()


def have_graph_framed(root: Node) -> None:
    """Make the frame of a pending graph, for all that are alike; not while another thread computes."""
    if not taken_at_once(lock):
        return
    try:
        met = taken([root])
        try:
            plan = plan_of(met, soon=bool(sources_first([root])))
        except NotAtHand:  # Python computes it by parts
            return
        with untracked():
            pattern = met.apart()
        if plan is not None and pattern is not None:  # else computed meanwhile
            _keep(graphs, root, pattern, _packed(_words_of_graph(pattern, plan)), plan, _graph_of_sizes)
    finally:
        lock.release()


def have_update_framed(root: Node) -> None:
    """Make the frame by which an update is done in the memory of what it writes over; not while another thread computes."""
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
    """Keep the frame of a pattern; and sometimes look what that of others would be."""
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
    """What a graph is known by: see `code/walk.py`."""
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
    return struct.pack(f"={len(words)}q", *words)


def _graph_of_sizes(pattern: Pattern, sized: Pattern) -> SizedFrame | None:
    """The words of a graph's frame, with `Size`s in place of numbers, as `sized` has them: none, too, is the same for others. None if
    that is not known.
    """
    suited = general_of_sizes(pattern, sized)
    if suited is None:
        return None
    general, numbers = suited
    return _words_of_graph(sized, general.plan(numbers)), general.outline


def _words_of_graph(pattern: Pattern, plan: Plan) -> Sequence[Number]:
    """The frame by which a plan computes all graphs of a pattern; nothing if that takes more than small kernels."""
    last = len(pattern.nodes) - 1
    if len(plan.steps) > MOST_STEPS or len(pattern.nodes) + plan.more > MOST_NODES:
        return ()
    owners = Counter(id(s) for node in pattern.nodes for s in node.sources)
    looks = [(step.number, STORED) for step in plan.steps if step.number < last]
    looks += _inlined(pattern, plan)
    donors = [k for step in plan.steps for k, _ in step.donors if k <= last]  # cells beyond the last are the plan's own
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
    """In whose memory each step's result is written: in that of what is written over it in the end, if anything is. None where a step
    writes over anything but what one before it made, or what others read afterwards: a copy of that; or over much, as what writes that may
    be one of many writes that wait for each other.
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
    """The numbers of those that are inlined, and what they are."""
    nodes, otherwise = pattern.nodes, adding_otherwise(pattern.nodes) if plan.costly else set()
    much = {k for k in plan.costly if k in plan.dear or _is_much(nodes[k], plan.target)}
    return [(k, STORED if id(nodes[k]) in otherwise else MUCH if k in much else INLINED) for k in plan.costly]


def _most(call: Call, target: Target) -> int:
    """The work of a kernel up to which Python's lock is held meanwhile, and no signal heard."""
    return target.sharing.alone if call.compiled.kernel.product is None else target.sharing.first


def _shares(step: Step, target: Target) -> tuple[int, int]:
    """The least of the loop of a step's kernel that a thread takes, and in how many pieces it is cut; 0 and 0 if one does all."""
    call, sharing = step.filling, target.sharing
    if target.threads == 1 or not isinstance(call, Call) or not isinstance(call.compiled, MachineCode):
        return 0, 0
    facts, work = call.compiled.facts, call.work
    if work < sharing.awake or work >= _most(call, target) or facts.shared < 0:
        return 0, 0
    if call.arguments.scratch:  # each piece packs anew what it reads
        is_uneven = facts.product is not None and facts.product.twins
        return facts.least, target.threads * (2 if is_uneven else 1)
    return facts.least, target.threads * sharing.pieces


def _is_much(node: Node, target: Target) -> bool:
    """Whether a pending node takes too long to be made twice."""
    return max([node.size, *[s.size for s in node.sources if type(s) is Node]]) >= target.sharing.hold_lock


def _update(pattern: Pattern) -> tuple[bytes, Plan]:
    """The frame of an update as of a node alone. What waits is inlined, whoever else has it."""
    return written(pattern, numbered(pattern.nodes) | numbered(pattern.scalars), list(range(len(pattern.offsets) - 1)), most_in_place())


def _update_of_sizes(pattern: Pattern, sized: Pattern) -> SizedFrame | None:
    """The words of an update's frame, with `Size`s in place of numbers, as `sized` has them; None if there is none for others."""
    found = written_of_sizes(pattern, sized, most_in_place(), lambda: _update(pattern))
    return None if found is None else (_words_of_update(pattern, found[0]), found[1])


def _words_of_update(pattern: Pattern, words: Sequence[Number]) -> Sequence[Number]:
    """The frame by which all updates of a pattern are done in place, by the words of that of a node; nothing if there is none."""
    last = len(pattern.nodes) - 1
    return [0, 1, False, *words[:3], last, 0, 0, 0, MEMORY, last, *words[HEAD + 2 :]] if words else ()
