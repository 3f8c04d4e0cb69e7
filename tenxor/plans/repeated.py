"""Run a plan many times, as for the turns of a scan, with the memory of every turn fixed before the first turn.

Intermediate results have the same memory in each turn. So nothing is decided between the turns, and the back end launches kernel after
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
    """Return whether `repeat` can run a plan for given buffers of the nodes in `placed`.

    Each step must be a single kernel without checks of indices or exponents. Nothing may need memory after a step overwrites it: neither a
    later step nor a slot with given memory nor a reinterpretation. A slot with given memory must not be a reinterpretation itself.
    """
    fixed_slots = {k for k, node in enumerate(pattern.nodes) if node in placed or node.buffer is not None}
    # two slots share memory: either may be read
    shared_slots = {k for step in plan.steps if step.bytes_of is not None for k in (step.number, step.bytes_of)}
    for step in plan.steps:
        if step.filling is not None and (type(step.filling) is not Call or step.filling.flagged):
            return False
        if step.bytes_of is not None and step.number in fixed_slots:
            return False
        readers = dict(step.donors).get(step.over) if step.over is not None else frozenset[int]()
        if readers is None or not readers.isdisjoint(fixed_slots) or step.over in shared_slots:
            return False
    return True


def repeat(plan: Plan, pattern: Pattern, placed: Mapping[Node, Place], iterations: int) -> None:
    """Run a plan `iterations` times. `placed` has the memory of each iteration for the pattern's roots and nodes in memory."""
    windows: list[Place | None] = [placed.get(node) for node in pattern.nodes]
    windows += [None] * plan.more
    for step in reversed(plan.steps):  # an overwritten slot has the memory of the step's result
        if step.over is not None and windows[step.number] is not None:
            windows[step.over] = windows[step.number]
    launches = []
    for step in plan.steps:
        if step.over is not None or step.bytes_of is not None:
            windows[step.number] = (
                windows[step.number] or windows[step.over if step.over is not None else step.bytes_of]  # type: ignore[index]
            )
        for k in step.gives:
            if windows[k] is None:
                windows[k] = Place(backend().allocate(step.nbytes, step.name, step.shape, step.dtype), np.zeros(1, np.int64), step.nbytes)
        for extra_slot, k in step.beside:
            windows[extra_slot] = windows[k]
        if step.filling is not None:
            launches.append((step.filling.run, step.number))
    backend().repeat(launches, windows, pattern.scalars, pattern.offsets, iterations)
