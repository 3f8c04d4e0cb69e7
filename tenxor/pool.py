"""Blocks of memory from the system, kept for reuse as long as they are likely to be needed.

A fresh large allocation costs more in page faults than most kernels cost in work, so blocks that are given back are kept by
size and handed out again, and large ones lie in huge pages where the system has them. What is kept is bounded by recent
need: blocks in use and kept are together little more than what was in use at once, a short while ago. That is forgotten by
halves, and the blocks that were given back longest ago go first.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Block = tuple[Array, int]  # the bytes, and their address
ALIGNMENT = 64
HUGE_PAGE = 1 << 21  # bytes: blocks from this size on are mapped on their own, in pages of this size
COLOUR = 1 << 16  # large blocks start at different multiples of this many bytes: equal ones meet in one bank of memory
COLOURS = 8
UNLIMITED = 1 << 80  # more than any address can say
SPARE = 1 << 26  # bytes kept beside what was needed recently, and a quarter of that: sizes vary
FORGOTTEN = 2.0  # seconds until half of what is needed no more is forgotten
TIMED = 1 << 16  # bytes of the blocks at which the clock is looked at
GROWTH = 1 << 20  # bytes by which memory may grow, and an eighth of what is in use, until somebody looks at what waits
_ADVICE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)  # only Linux has it


def _total() -> int:
    """The bytes of memory that this machine, or the container, has; about, and a few GiB if nobody says."""
    found = 1 << 32
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(ValueError, OSError):
            found = min(found, int(Path("/sys/fs/cgroup", limit).read_text(encoding="ascii")))
    return found


MAX_POOLED = _total() // 4  # bytes kept for reuse at the most


class Pool:
    """Free blocks by size, the sizes given back longest ago first, and the counts of bytes. What is in use and pooled is never
    more than `limit` together.

    `peak` is the most that was in use, `high` is the same since a moment ago, and `recent` the same but forgets, at the time
    `due`; `kept` is what may be in use and pooled because of it. `pressed` tells that more is in use than at the last `relieved`, by far.
    """

    much: int

    __slots__ = (
        "colour",
        "due",
        "foreign",
        "free",
        "high",
        "in_use",
        "kept",
        "limit",
        "much",
        "peak",
        "pooled",
        "pressed",
        "recent",
    )

    def __init__(self) -> None:
        self.free: dict[int, list[Block]] = {}
        self.in_use = self.peak = self.pooled = self.colour = self.recent = self.high = self.foreign = 0
        self.kept, self.limit, self.due = SPARE, UNLIMITED, monotonic() + FORGOTTEN
        self.relieved()

    def take(self, capacity: int) -> Block | None:
        """A block of a capacity that `capacity_of` gave; None if the system has none, or the limit is met."""
        blocks = self.free.get(capacity)
        now = self.in_use + capacity
        if blocks:
            self.pooled -= capacity
            found = blocks.pop()
        else:
            made = self.made(now, capacity)
            if made is None:
                return None
            found = made
        self.in_use = now
        if now > self.peak:
            self.peak = now
        if now > self.high:
            self.high = now
            if now > self.recent:
                self.recent = now
                self.kept = now + now // 4 + SPARE
        if now > self.much:
            self.pressed = True
        return found

    def made(self, now: int, capacity: int) -> Block | None:
        """A new block, with which `now` bytes are in use; what is only kept for reuse makes way."""
        kept = max(self.kept, now + now // 4 + SPARE)
        self.release(self.pooled + now - min(self.limit, kept), capacity)
        if now > self.limit:
            return None
        found = self.new(capacity)
        if found is None:
            self.release(self.pooled)
            found = self.new(capacity)
        return found

    def keeps(self, capacity: int) -> bool:
        """Whether a block that is not needed any more is kept, once others have left; how it is kept says `Buffer`."""
        self.forget()
        room = min(self.kept - self.in_use, MAX_POOLED)
        if capacity > room:
            return False
        self.release(self.pooled + capacity - room, capacity)
        return True

    def forget(self) -> None:
        """What was needed longer ago counts less."""
        now = monotonic()
        times = int((now - self.due) / FORGOTTEN) + 1
        if times > 0:
            self.due = now + FORGOTTEN
            self.recent = max(self.high, self.in_use + ((self.recent - self.in_use) >> times))
            self.high = self.in_use
            self.kept = self.recent + self.recent // 4 + SPARE
            self.release(self.pooled + self.in_use - self.kept)

    def relieved(self) -> None:
        """Nothing more can be done than what is done now."""
        self.pressed, self.foreign = False, 0
        self.much = self.in_use + self.in_use // 8 + GROWTH

    def share(self, nbytes: int) -> None:
        """So many bytes of others are kept alive."""
        self.foreign += nbytes
        self.pressed = self.pressed or self.in_use + self.foreign > self.much

    def release(self, nbytes: int, last: int = 0) -> None:
        """Give so many pooled bytes, if there are, back to the system: the oldest sizes first, size `last` last."""
        if nbytes <= 0:
            return
        for capacity in sorted(self.free, key=lambda size: size == last):
            blocks = self.free.get(capacity)
            while blocks:
                if nbytes <= 0:
                    return
                blocks.pop(0)
                self.pooled -= capacity
                nbytes -= capacity

    def new(self, nbytes: int) -> Block | None:
        """Fresh memory from the system; None if there is not so much (ValueError: more than any address can say)."""
        try:
            if _ADVICE is not None and nbytes >= HUGE_PAGE:
                return self.mapped(nbytes, _ADVICE)
            raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        except (MemoryError, OSError, ValueError, OverflowError):
            return None
        start = -_address(raw) % ALIGNMENT
        return raw[start : start + nbytes], _address(raw) + start

    def mapped(self, nbytes: int, advice: int) -> Block:
        """Memory of its own from the system, in huge pages if there are any; it goes back when the array dies."""
        self.colour = (self.colour + 1) % COLOURS
        colour = self.colour * COLOUR
        space = mmap.mmap(-1, nbytes + colour + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        raw = np.frombuffer(space, np.uint8)
        first = -_address(raw) % HUGE_PAGE
        with contextlib.suppress(OSError):  # the system was built without
            space.madvise(advice, first, colour + nbytes)
        start = first + colour
        return raw[start : start + nbytes], _address(raw) + start


def _address(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def capacity_of(nbytes: int) -> int:
    """The block size for a request: steps of 64 bytes, then of about an eighth, so that near sizes share blocks."""
    if nbytes <= 4096:
        return (nbytes + 63) & -64 if nbytes else 64
    step = 1 << (nbytes.bit_length() - 4)
    return (nbytes + step - 1) & -step


pool = Pool()
