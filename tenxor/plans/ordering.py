"""In which order the steps of a plan run, so that little memory is needed at a time."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from heapq import heapify, heappop, heappush

from .steps import Step


def ordered(steps: Sequence[Step], nbytes: Mapping[int, int], kept: Container[int]) -> list[Step]:
    """The steps in another order in which each comes after those that it needs: what lets go of as much memory as it takes comes as soon as
    it can, all else in the given order. `nbytes` are those of the cells; the `kept` ones are needed afterwards, too.

    What is written over keeps its place among what reads and writes it: so nothing is copied that would not have been.
    """
    queue = _Queue(steps, nbytes, kept)
    return [steps[k] for k in queue.order()]


class _Queue:
    """Steps by their places in the given order: how many they wait for, and who waits for them."""

    def __init__(self, steps: Sequence[Step], nbytes: Mapping[int, int], kept: Container[int]) -> None:
        self.steps, self.nbytes, self.kept = steps, nbytes, kept
        self.readers: dict[int, list[int]] = {}
        self.followers: list[list[int]] = [[] for _ in steps]
        self.waits: list[int] = []
        place = {cell: k for k, step in enumerate(steps) for cell in step.gives}
        last_write = -1
        for k, step in enumerate(steps):
            before = {place[cell] for cell in step.needs if cell in place}
            if step.over is not None:
                before.update(self.readers.get(step.over, ()))
                if last_write >= 0:
                    before.add(last_write)
                last_write = k
            for cell in step.needs:
                self.readers.setdefault(cell, []).append(k)
            for other in before:
                self.followers[other].append(k)
            self.waits.append(len(before))
        self.left = {cell: len(those) for cell, those in self.readers.items()}  # that still have to read each cell

    def more(self, k: int) -> int:
        """How many bytes more are needed after a step than before it."""
        step = self.steps[k]
        taken = 0 if step.over is not None or step.bytes_of is not None else sum([self.nbytes[cell] for cell in step.gives])
        return taken - sum([self.nbytes[cell] for cell in step.needs if self.left[cell] == 1 and cell not in self.kept])

    def order(self) -> list[int]:
        """The places in the new order."""
        ready = [k for k, waits in enumerate(self.waits) if not waits]
        heapify(ready)
        small = [(more, k) for k in ready if (more := self.more(k)) <= 0]
        heapify(small)
        done = [False] * len(self.steps)
        found: list[int] = []
        while ready:
            k = heappop(small)[1] if small else heappop(ready)
            if done[k]:
                continue
            done[k] = True
            found.append(k)
            changed = []
            for other in self.followers[k]:
                self.waits[other] -= 1
                if not self.waits[other]:
                    heappush(ready, other)
                    changed.append(other)
            for cell in self.steps[k].needs:
                self.left[cell] -= 1
                if self.left[cell] == 1:
                    changed += [other for other in self.readers[cell] if not done[other] and not self.waits[other]]
            for other in changed:
                more = self.more(other)
                if more <= 0:
                    heappush(small, (more, other))
        return found
