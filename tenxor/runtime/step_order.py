"""The order of the steps of a plan, chosen to keep peak memory small. A step reads slots, the numbered places of buffers, and fills slots
with results. A plan has the compiled kernels of a graph; most steps run a kernel.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from heapq import heapify, heappop, heappush

from .plan_execution import PlanStep


def order_plan_steps(steps: Sequence[PlanStep], nbytes: Mapping[int, int], retained: Container[int]) -> list[PlanStep]:
    """Return the steps in a new order with little memory in use at a time. Each step follows the steps it needs.

    The planner calls this function for a plan of three or more steps. `steps` is in an order in which the steps can run. A step that frees
    as much memory as it allocates runs as soon as possible; the rest keeps the given order. `nbytes` has the bytes of each slot, and the
    slots of `retained` stay in use after the last step. In-place writes keep their order, and stay behind earlier reads of the memory they
    overwrite. So the new order needs no additional copy.
    """
    dependences = _StepDependences(steps, nbytes, retained)
    return [steps[k] for k in dependences.choose_order()]


class _StepDependences:
    """The dependences between `steps`: for each step, the number of steps to run before, and the followers, the steps to run afterwards.

    Steps are numbered by their positions in `steps`. `nbytes` and `retained` are the arguments of `order_plan_steps`.
    """

    def __init__(self, steps: Sequence[PlanStep], nbytes: Mapping[int, int], retained: Container[int]) -> None:
        self.steps, self.nbytes, self.retained = steps, nbytes, retained
        self.readers: dict[int, list[int]] = {}
        self.followers: list[list[int]] = [[] for _ in steps]
        self.pending_counts: list[int] = []
        position_of = {slot: k for k, step in enumerate(steps) for slot in step.output_slots}
        last_write = -1
        for k, step in enumerate(steps):
            predecessors = {position_of[slot] for slot in step.input_slots if slot in position_of}
            if step.overwritten_slot is not None:
                predecessors.update(self.readers.get(step.overwritten_slot, ()))
                if last_write >= 0:
                    predecessors.add(last_write)
                last_write = k
            for slot in step.input_slots:
                self.readers.setdefault(slot, []).append(k)
            for predecessor in predecessors:
                self.followers[predecessor].append(k)
            self.pending_counts.append(len(predecessors))
        self.remaining_readers = {slot: len(readers) for slot, readers in self.readers.items()}  # by slot: the number of remaining readers

    def compute_memory_growth(self, k: int) -> int:
        """Return by how many bytes the memory in use grows with step `k`; a negative number if the memory shrinks.

        The growth is the bytes that `k` allocates, less the bytes of slots that only `k` still reads.
        """
        step = self.steps[k]
        allocated = (
            0
            if step.overwritten_slot is not None or step.reinterpreted_slot is not None
            else sum([self.nbytes[slot] for slot in step.output_slots])
        )
        return allocated - sum(
            [self.nbytes[slot] for slot in step.input_slots if self.remaining_readers[slot] == 1 and slot not in self.retained]
        )

    def choose_order(self) -> list[int]:
        """Return the positions of the steps in the new order. The method can be called once: it uses up the counts of dependences."""
        ready = [k for k, pending_count in enumerate(self.pending_counts) if not pending_count]
        heapify(ready)
        shrinking = [(growth, k) for k in ready if (growth := self.compute_memory_growth(k)) <= 0]
        heapify(shrinking)
        is_done = [False] * len(self.steps)
        positions: list[int] = []
        while ready:
            k = heappop(shrinking)[1] if shrinking else heappop(ready)
            if is_done[k]:
                continue
            is_done[k] = True
            positions.append(k)
            changed = []
            for candidate in self.followers[k]:
                self.pending_counts[candidate] -= 1
                if not self.pending_counts[candidate]:
                    heappush(ready, candidate)
                    changed.append(candidate)
            for slot in self.steps[k].input_slots:
                self.remaining_readers[slot] -= 1
                if self.remaining_readers[slot] == 1:
                    changed += [reader for reader in self.readers[slot] if not is_done[reader] and not self.pending_counts[reader]]
            for candidate in changed:
                growth = self.compute_memory_growth(candidate)
                if growth <= 0:
                    heappush(shrinking, (growth, candidate))
        return positions
