"""The reuse of memory between the steps of a plan: the slots to release after each step, and the slots to donate memory. A slot is the
place of a buffer in a plan. It belongs to a node of the graph signature, or to an intermediate result of the plan alone. A slot donates
memory if a step writes a result over the old content, which no later step needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from .._utils.records import NamedTuple
from ..graph.node import Node
from ..graph.ownership import NO_NODES
from ..target import Target
from .plan_execution import Plan, PlanStep


class SlotRoles(NamedTuple):
    """The slots of nodes without a step of their own: `inlined` slots, of which `expensive` and `cheap_to_store` are subsets (`Plan`)."""

    inlined: Sequence[int]
    expensive: Sequence[int] = ()
    cheap_to_store: Sequence[int] = ()


def assemble_plan(
    target: Target, steps: list[PlanStep], order: Sequence[Node], slot_of: Mapping[Node, int], counts: tuple[int, int], roles: SlotRoles
) -> Plan:
    """Return the plan of `steps` for the machine `target`. Set the attributes of the steps for the release and reuse of memory.

    `order` has the pending nodes of the signature in topological order, and `slot_of` maps nodes to slots. `counts` are the number of slots
    of the signature, and of all slots. `roles` has the slots of the inlined nodes.
    """
    node_count, slot_count = counts
    _plan_memory(steps, _find_readers(order, set(roles.inlined), slot_of), node_count)
    watched = sorted({k for step in steps for _, readers in step.donors for k in readers}.union(roles.expensive))
    read_counts = Counter(slot_of[source] for node in order for source in node.sources if type(source) is Node)
    return Plan(
        target,
        steps,
        sorted(roles.inlined),
        list(roles.expensive),
        list(roles.cheap_to_store),
        watched,
        [read_counts[k] for k in watched],
        slot_count - node_count,
    )


def _find_readers(order: Sequence[Node], inlined: Set[int], slot_of: Mapping[Node, int]) -> dict[int, frozenset[int]]:
    """Map each slot to a set of slots: the slot itself, and the inlined nodes that read it directly or through other inlined nodes.

    A holder of an inlined node may ask for its value later, and the value needs the slot. `order` has the pending nodes of the signature in
    topological order, `inlined` the slots of inlined nodes, and `slot_of` maps nodes to slots.
    """
    readers_of: dict[int, frozenset[int]] = {}
    for node in reversed(order):
        slot = slot_of[node]
        dependents = readers_of.get(slot, NO_NODES) | {slot}
        readers_of[slot] = dependents
        inherited = dependents if slot in inlined else NO_NODES
        for source in node.sources:
            if type(source) is Node:
                k = slot_of[source]
                readers_of[k] = readers_of.get(k, frozenset({k})) | inherited
    return readers_of


def _plan_memory(steps: list[PlanStep], readers: dict[int, frozenset[int]], count: int) -> None:
    """Set two attributes of each of `steps`: `released_slots`, the slots not needed by later steps, and `donors`, the slots that may donate
    memory to the result.

    The first `count` slots are the signature's; `readers` is a result of `_find_readers`. A slot of the signature donates memory only to
    another slot of the signature. No goal (`_find_goals`) of the slot may be left to compute after the step.
    """
    later_needs: set[int] = set()
    later_slots: set[int] = set()  # the slots of later steps
    goals = _find_goals(steps, count)
    for step in reversed(steps):
        # After the last step, the caller drops every slot
        step.released_slots = tuple(step.input_slots - later_needs) if later_needs else ()
        gives_extra = any([k >= count for k in step.output_slots])
        unneeded = [
            k
            for k in step.donor_candidates
            if k not in later_needs and (k >= count or not (gives_extra or later_slots & goals.get(k, NO_NODES)))
        ]
        step.donors = tuple([(k, readers.get(k, NO_NODES)) for k in unneeded])
        later_needs |= step.input_slots
        later_slots.update(step.output_slots)


def _find_goals(steps: Sequence[PlanStep], count: int) -> dict[int, set[int]]:
    """Map each operand of an additional slot, and each additional slot, to its goals: the slots of the signature to be computed from it.

    `steps` is in the order of execution. Additional slots have numbers from `count` on. An interruption of the plan loses their content.
    The next plan computes the content again, for the goals that are still pending, so before the goals no step may overwrite the operands.
    """
    goals_of: dict[int, set[int]] = {}
    for step in reversed(steps):
        gives_extra = any([k >= count for k in step.output_slots])
        goals = set().union(*[goals_of.get(k, NO_NODES) if k >= count else {k} for k in step.output_slots])
        for k in step.input_slots:
            if gives_extra or k >= count:
                goals_of.setdefault(k, set()).update(goals)
    return goals_of
