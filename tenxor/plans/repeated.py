"""Plans that run over and over, each turn on memory of its own: where that is, is known of all turns before the first.

What a turn needs on the way has the same memory in each. So nothing is asked between the turns, and the back end goes from kernel to
kernel (`Backend.repeat`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..backend import backend
from ..backend.interface import Place
from ..node import Node
from .call import Call
from .pattern import Pattern
from .steps import Plan


def is_repeatable(plan: Plan, pattern: Pattern, placed: Mapping[Node, object]) -> bool:
    """Whether a plan can run so, where it is given the places of some nodes of its pattern: each of its steps is one kernel, nothing that
    it looks up may be out of range, and what is written over nobody reads any more.
    """
    fixed = {k for k, node in enumerate(pattern.nodes) if node in placed or node.buffer is not None}
    # Of what has the memory of another either may be read.
    shared = {k for step in plan.steps if step.bytes_of is not None for k in (step.number, step.bytes_of)}
    for step in plan.steps:
        if step.filling is not None and (type(step.filling) is not Call or step.filling.flagged):
            return False
        if step.bytes_of is not None and step.number in fixed:
            return False
        readers = dict(step.donors).get(step.over) if step.over is not None else frozenset[int]()
        if readers is None or not readers.isdisjoint(fixed) or step.over in shared:
            return False
    return True


def repeat(plan: Plan, pattern: Pattern, placed: Mapping[Node, Place], turns: int) -> None:
    """Run a plan `turns` times. Nodes of its pattern that are in memory, and the roots, are `placed`."""
    places: list[Place | None] = [placed.get(node) for node in pattern.nodes]
    places += [None] * plan.more
    for step in reversed(plan.steps):  # what is written over lies where that which is written over it does
        if step.over is not None and places[step.number] is not None:
            places[step.over] = places[step.number]
    launches = []
    for step in plan.steps:
        if step.over is not None or step.bytes_of is not None:
            places[step.number] = places[step.number] or places[step.over if step.over is not None else step.bytes_of]  # type: ignore[index]
        for k in step.gives:
            if places[k] is None:
                places[k] = Place(backend().allocate(step.nbytes, step.name, step.shape, step.dtype), np.zeros(1, np.int64), step.nbytes)
        for own, k in step.beside:
            places[own] = places[k]
        if step.filling is not None:
            launches.append((step.filling.run, step.number))
    backend().repeat(launches, places, pattern.scalars, pattern.offsets, turns)
