"""The order of the steps of a plan, chosen to keep peak memory small."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from heapq import heapify, heappop, heappush

from .steps import Step


def ordered(steps: Sequence[Step], nbytes: Mapping[int, int], kept: Container[int]) -> list[Step]:
    """Return the steps in a new order, in which each step follows the steps it needs, so that little memory is in use at a time.

    A step that frees as much memory as it allocates runs as soon as possible; the rest keeps the given order. `nbytes` has the bytes of
    each slot, and the slots of `kept` stay in use after the last step. In-place writes keep their order, and stay behind earlier reads of
    the memory they overwrite. So the new order needs no additional copy.
    """
    queue = _Queue(steps, nbytes, kept)
    return [steps[k] for k in queue.order()]


class _Queue:
    """The dependences between steps, which are known by their positions in the given order: pending dependences and followers of each step.
    """

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
        self.left = {cell: len(those) for cell, those in self.readers.items()}  # by slot: the number of remaining readers

    def more(self, k: int) -> int:
        """Return by how many bytes the memory in use grows with step `k`: the bytes it allocates, less the bytes of slots that only `k`
        still reads.
        """
        step = self.steps[k]
        taken = 0 if step.over is not None or step.bytes_of is not None else sum([self.nbytes[cell] for cell in step.gives])
        return taken - sum([self.nbytes[cell] for cell in step.needs if self.left[cell] == 1 and cell not in self.kept])

    def order(self) -> list[int]:
        """Return the positions of the steps in the new order."""
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
