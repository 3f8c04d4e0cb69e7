"""Run a plan many times, as for the iterations of a scan, with the memory of every iteration fixed before the first. A plan has kernels to
read and fill slots, the numbered places of buffers. A window (`BufferWindow`) is the memory of a slot: a part of a buffer, at a new start
in each iteration if need be. Intermediate results have the same memory in each iteration. So nothing is decided between iterations, and the
back end launches kernel after kernel (`RepeatedLaunches`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..codegen import backend
from ..codegen.interface import BufferWindow
from ..graph.node import Node
from .graph_signature import GraphSignature
from .kernel_call import SingleKernelCall
from .plan_execution import Plan

if TYPE_CHECKING:
    from ..memory.buffer import Buffer

ALIGNMENT_BYTES = 64  # of an intermediate result


def is_repeatable(plan: Plan, signature: GraphSignature, window_of: Mapping[Node, object]) -> bool:
    """Return whether `RepeatedPlan` can run `plan`, made for `signature`.

    The nodes that are keys of `window_of` have memory given by the caller. Each step must be a single kernel without checks of indices or
    exponents, or run no kernel. Nothing may need memory after a step overwrites it: neither a later step nor a slot with given memory nor a
    reinterpretation. A slot with given memory must not be a reinterpretation itself.
    """
    fixed_slots = {k for k, node in enumerate(signature.nodes) if node in window_of or node.buffer is not None}
    # two slots share memory: either may be read
    shared_slots = {k for step in plan.steps if step.reinterpreted_slot is not None for k in (step.result_slot, step.reinterpreted_slot)}
    for step in plan.steps:
        if step.kernel_call is not None and (type(step.kernel_call) is not SingleKernelCall or step.kernel_call.can_fail):
            return False
        if step.reinterpreted_slot is not None and step.result_slot in fixed_slots:
            return False
        readers = dict(step.donors).get(step.overwritten_slot) if step.overwritten_slot is not None else frozenset[int]()
        if readers is None or not readers.isdisjoint(fixed_slots) or step.overwritten_slot in shared_slots:
            return False
    return True


class RepeatedPlan:
    """The plan `plan`, made for `signature`, ready to run `iterations` times on the memory of each run. It must be repeatable
    (`is_repeatable`).

    `window_of` must have an entry for each root and each node in memory of `signature`: its memory in each iteration, in one of
    `buffer_count` buffers. Results are written into these windows, and the nodes stay pending.
    """

    def __init__(
        self, plan: Plan, signature: GraphSignature, window_of: Mapping[Node, BufferWindow], buffer_count: int, iterations: int
    ) -> None:
        self.plan, self._scratch_bytes = plan, 0  # the bytes of the intermediate results, in a further buffer
        windows: list[BufferWindow | None] = [window_of.get(node) for node in signature.nodes]
        windows += [None] * plan.additional_slot_count
        for step in reversed(plan.steps):  # an overwritten slot has the memory of the step's result
            if step.overwritten_slot is not None and windows[step.result_slot] is not None:
                windows[step.overwritten_slot] = windows[step.result_slot]
        launches = []
        for step in plan.steps:
            if step.overwritten_slot is not None or step.reinterpreted_slot is not None:
                windows[step.result_slot] = (
                    windows[step.result_slot]
                    or windows[step.overwritten_slot if step.overwritten_slot is not None else step.reinterpreted_slot]  # type: ignore[index]
                )
            for k in step.output_slots:
                if windows[k] is None:
                    windows[k] = BufferWindow(buffer_count, np.array([self._scratch_bytes]), step.nbytes)
                    self._scratch_bytes += -(-max(step.nbytes, 1) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            for extra_slot, k in step.extra_outputs:
                windows[extra_slot] = windows[k]
            if step.kernel_call is not None:
                launches.append((step.kernel_call.run, step.result_slot))
        self._launches = backend().repeated_launches(launches, windows, signature.scalars, signature.offsets, iterations)

    def run(self, buffers: Sequence[Buffer]) -> None:
        """Run every iteration on the memory `buffers`. The windows refer to the buffers by index."""
        scratch = [backend().allocate(self._scratch_bytes, "scan")] if self._scratch_bytes else []
        self._launches.run([*buffers, *scratch])
