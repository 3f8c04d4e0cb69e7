"""From pending nodes to values: find or make a plan for what is pending, and run it.

A plan (`plans/`) is remembered under the pattern of what is pending (`plans/pattern.py`), so that doing the same again, on other
memory, costs one look-up. On a miss the recipes are fused and lowered; that gives kernels, which the compiler remembers on
its own: new shapes need a new plan but no new machine code. Kernels are in memory as long as plans are, and
plans as long as there are not too many kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Never

from .backend import backend
from .backend.threads import num_threads
from .errors import MetOutOfRange, NotAtHand
from .late import Late, LateModule
from .locking import reentrant
from .node import UNFINISHED, Node, untracked
from .remembered import Remembered

if TYPE_CHECKING:
    from .plans.pattern import Pattern
    from .plans.steps import Plan

out_of_range = Late("tenxor.plans.indices").out_of_range
ownership, patterns, kept = LateModule("tenxor.ownership"), LateModule("tenxor.plans.pattern"), Late("tenxor.plans.kept")
plan_for = Late("tenxor.plans.general").plan_for  # what makes plans is loaded with the first that is not on disk
dear_ones, sources_first = Late("tenxor.plans.parts").dear, Late("tenxor.plans.parts").sources_first

MAX_PLANS = 4096
PATIENCE = 32  # times that a plan is asked for, while what it computes is computed by parts, until its kernel is compiled
MAX_BYTES = 1 << 26  # of the tables in all plans together
MAX_KERNELS = 2048  # in memory, from which all plans are forgotten, and the kernels with them: 60 kB each


forgetting: list[Callable[[], None]] = []  # what else is to be done when all plans are forgotten
# What computes a small node, if it can (`shortcut/`): one alone, and one of several that may have something in common.
short_ways: list[Callable[[Node], bool]] = []
making: list[Callable[[], None]] = []  # what makes machine code for small work, which is done here before
OFTEN = 1 << 8  # views, and elements read or written, that Python makes, until it is made
_glances = 0


def glance() -> None:
    """Python makes a view, or reads or writes an element, as machine code would."""
    global _glances
    _glances += 1
    if _glances == OFTEN:
        for make in making:
            make()


def realize(*roots: Node) -> None:
    """Compute the nodes that are not in memory yet, together."""
    ways = tuple(short_ways)  # which may be taken away in the midst, where they turn out not to hold
    if ways:
        if len(roots) > 1:
            roots = tuple([root for root in roots if not ways[-1](root)])
        if len(roots) == 1 and ways[0](roots[0]):
            return
    realize_by_plan(roots)


def realize_by_plan(roots: Sequence[Node]) -> None:
    """The same, where no short way is asked, as none computes them."""
    with lock:
        found = _planned(roots)
        if found is None:
            return
        pattern, plan, others = found
        try:
            plan.run(pattern, others)
        except MetOutOfRange as met:
            raise out_of_range(pattern.nodes[met.cell], realize) from None


def _planned(roots: Sequence[Node]) -> tuple[Pattern, Plan, Set[int]] | None:
    """What of these is pending, the plan for it, and who else can read what; None if all is in memory."""
    soon = True
    while wanted := [node for node in roots if node.buffer is None]:
        pattern = patterns.taken(wanted)
        try:
            plan, at_hand = plan_of(pattern, soon), True
        except NotAtHand:
            plan, at_hand = None, False
        if not at_hand:
            del pattern  # who else can read a node is asked
            first = sources_first(wanted)
            for node in first:
                realize(node)
            soon = bool(first)
        elif plan is not None:
            others = _others(plan, pattern.nodes) if plan.watched else frozenset()
            if not others.isdisjoint(plan.dear):  # one is stored now: what there is to compute is another pattern
                del pattern
            elif pattern.is_as_it_was():  # so recipes refer to what they referred to, while it was counted
                return pattern, plan, others
    return None


def plan_of(pattern: Pattern, soon: bool = False) -> Plan | None:
    """The plan for a pattern, which is remembered. None if it is to be made, but some nodes were computed since the pattern was taken.

    Who wants it `soon` is told by NotAtHand that its kernels would have to be compiled, or that what it is made of has plans, until it has
    been asked for often.
    """
    plan = _known(pattern.key)
    if plan is None:
        times = _put_off.get(pattern.key)
        soon = soon and (times or 0) < PATIENCE
        if soon and times:
            put_off(pattern, times)
        finish(pattern.nodes)
        with untracked():
            apart = pattern.apart()
            if apart is None:
                return None
            plan = _known(apart.key) or kept.find(apart)
            if plan is None:
                if soon and kept.has_parts(apart):
                    put_off(pattern)
                backend().hurry(soon)
                try:
                    plan = plan_for(apart)
                except NotAtHand:
                    put_off(pattern)
                finally:
                    backend().hurry(False)
                kept.write(apart, plan)
        if backend().kernel_count() > MAX_KERNELS:
            forget()
        _plans.keep(pattern.key, plan, plan.table_bytes)
    return plan


def put_off(pattern: Pattern, times: int = 0) -> Never:
    """Make no plan for a pattern now, which was put off so many times before."""
    _put_off.keep(pattern.key, times + 1)
    raise NotAtHand("a plan")


def _known(key: object) -> Plan | None:
    """The plan that is remembered under a key, if it is for as many threads as there are."""
    plan = _plan_of(key)
    return plan if plan is not None and plan.target.threads == num_threads() else None


def finish(nodes: Iterable[Node]) -> None:
    """Do what is left of those of the nodes whose computation was broken off half-way."""
    for node in nodes:
        if node.op is UNFINISHED:
            from .plans.steps import go_on

            with lock:
                go_on(node)


def forget() -> None:
    """Forget all plans. The kernels that were in none but these go with them, but for those that were asked for last."""
    from .plans import general

    _plans.clear()
    _put_off.clear()
    general.forget()
    for each in forgetting:
        each()


def _others(plan: Plan, nodes: list[Node]) -> Set[int]:
    """Which of the nodes that a plan watches others can read. What is inlined, and costly, they may ask for."""
    others: set[int] = ownership.held(nodes, plan.watched, plan.reads)
    if others:
        dear = {nodes[k] for k in plan.dear if k in others}
        if dear:
            wanted = dear_ones([nodes[k] for k in plan.inlined], plan.target.fusing, dear)
        else:
            wanted = [nodes[k] for k in others.intersection(plan.costly)]
        for node in wanted:
            node.stored = True
    return others


lock = reentrant()  # held by whoever computes, or changes what a storage holds
_plans: Remembered[Plan] = Remembered(MAX_PLANS, MAX_BYTES)
_plan_of = _plans.get
_put_off: Remembered[int] = Remembered(MAX_PLANS)

if hasattr(os, "register_at_fork"):  # nobody is computing, or compiling, when a process is forked
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
