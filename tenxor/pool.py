"""Blocks of memory from the system, kept for reuse as long as they are likely to be needed.

A fresh large allocation costs more in page faults than most kernels cost in work, so blocks that are given back are kept by
size and handed out again, and large ones lie in huge pages where the system has them. A size that is new gets what was there
before, too: a larger block, as long as no more is in use by that than was lately; or a smaller one that grows, as large ones
have room behind them, which takes none of the system's memory until it is written. What is kept is bounded by recent
need: blocks in use and kept are together little more than what was in use at once, a short while ago. That is forgotten by
halves, and the blocks that were given back longest ago go first. A thread that sleeps sees to it that this is so in a process
that does nothing, too; there is one only while there is more than is always kept. No Python runs where memory is let go of: what a signal
raised there, Ctrl-C, would be lost.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident, start_new_thread
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from .late import LateModule
from .system import advise_huge, mapped, memory_bytes

if TYPE_CHECKING:
    from _queue import SimpleQueue
    from typing import Protocol

    class Counts(Protocol):
        """A few numbers in a row."""

        def __getitem__(self, k: int, /) -> int: ...

        def __setitem__(self, k: int, value: int, /) -> None: ...


_queue = LateModule("_queue")
Array = np.ndarray[Any, Any]
Block = tuple[Array, int, int]  # the bytes, with those that it may grow by, their address, and how many they are
ALIGNMENT = 64
PAGE = 1 << 12  # bytes
HUGE_PAGE = 1 << 21  # bytes: blocks from this size on are mapped on their own, in pages of this size
SHADE = 1600  # bytes between where blocks begin in their pages: a load waits for a store that only these last twelve bits take for its own
SHADED = 1 << 15  # bytes from which on blocks begin so
COLOUR = (1 << 16) + SHADE  # those in huge pages start at different multiples of this: equal ones meet in one bank of memory
COLOURS = 8
ADAPTED = 1 << 20  # bytes of a block from which on one of another size will do, where there is none: the system takes longer to give one
UNLIMITED = 1 << 80  # more than any address can say
SPARE = 1 << 26  # bytes kept beside what was needed recently, and a quarter of that: sizes vary
FORGOTTEN = 2.0  # seconds until half of what is needed no more is forgotten
TIMED = 1 << 16  # bytes of the blocks at which the clock is looked at
GROWTH = 1 << 24  # bytes by which memory may grow, and an eighth of what is in use, until somebody looks at what waits
IN_USE, PEAK, POOLED, ALLOWED = range(4)  # counts of bytes in `Pool.small`
_looking = False  # whether somebody looks for the frames of all threads
NOBODY = -1  # has this number: sums that are made while somebody else is at it are of no use to the next
MEMORY_BYTES = memory_bytes()  # of this machine, or container
MAX_POOLED = MEMORY_BYTES // 4  # bytes kept for reuse at the most


class Pool:
    """Blocks lent and free, the sizes given back longest ago first, and the counts of bytes. What is in use and pooled is never
    more than `limit` together.

    `peak` is the most that was in use, `high` is the same since a moment ago, and `recent` the same but forgets, at the time
    `due`; `kept` is what may be in use and pooled because of it. `pressed` tells that more is in use than at the last `relieved`, by far.

    What is in use is what `loans` there are: blocks, by weak references to those who have them. Who dies is put among those that
    are to come `back`, without a frame of Python's in which a signal could be heard. Pooled is what is `free`. The sums of both
    are kept beside, for speed, with the number of whose work they are; they are right if nobody has begun since. So if a signal
    breaks somebody off, or another comes in between (a thread, or what a signal calls), the next one counts anew; and if the
    other is still at it, gives the sums no number.

    No more than `room` is pooled, and `MAX_POOLED`. Who sets it has others who look at what the process has of the system's memory, so what
    comes back goes there soon, and not when somebody computes next.

    `small` are the counts of what machine code lends itself (`shortcut/code/blocks.py`): in use, the most that was since somebody looked,
    pooled, and what both may be before it has to ask here (`allow_small`); `release_small` gives back what is pooled there. `watched`
    says that a thread forgets while nobody computes. It is woken by the `bell`, at which those large blocks come back that are
    `awaited`, by weak references of their own.
    """

    __slots__ = (
        "_latest",
        "_number",
        "_sums",
        "awaited",
        "back",
        "bell",
        "colour",
        "due",
        "foreign",
        "free",
        "high",
        "kept",
        "limit",
        "loans",
        "much",
        "most",
        "pressed",
        "recent",
        "release_small",
        "room",
        "small",
        "watched",
    )

    much: int

    def __init__(self) -> None:
        self.free: dict[int, list[Block]] = {}
        self.loans: dict[ref[Any], Block] = {}
        self.back: deque[ref[Any]] = deque()
        self._number = count(1).__next__
        self._sums = (0, 0, 0)  # the number of whoever added up, the bytes in use, and those pooled
        self._latest = 0  # the number of the last who has begun
        self.small: Counts = [0] * 4
        self.release_small: Callable[[], object] = int
        self.most = self.colour = self.recent = self.high = self.foreign = 0
        self.watched = False
        self.bell: SimpleQueue[ref[Any]] | None = None
        self.awaited = set[ref[Any]]()
        self.kept, self.limit, self.room, self.due = SPARE, UNLIMITED, UNLIMITED, monotonic() + FORGOTTEN
        self.relieved()

    @property
    def in_use(self) -> int:
        """The bytes of all blocks that are lent."""
        return self.settle()[0] + self.small[IN_USE]

    @property
    def pooled(self) -> int:
        """The bytes of all blocks that are free."""
        return self.settle()[1] + self.small[POOLED]

    @property
    def peak(self) -> int:
        """The most that was in use since it was last set."""
        self.most = max(self.most, self.settle()[0] + self.small[PEAK])
        return self.most

    @peak.setter
    def peak(self, nbytes: int) -> None:
        self.small[PEAK] = self.small[IN_USE]
        self.most = nbytes

    def lend(self, borrower: Any, capacity: int) -> bool:
        """Give a block to whoever has place for an `array` and its `address`, for life; False if there is none, or the limit is met.

        The capacity is one that `capacity_of` gave.
        """
        mine, in_use, pooled = self._begun()
        small, limit = self.small, self.limit
        if pooled > SPARE // 4 and monotonic() >= self.due:
            pooled -= self._forgotten(in_use, pooled)
        if small[PEAK]:
            self.most = max(self.most, in_use + small[PEAK])
            small[PEAK] = small[IN_USE]
        if limit != UNLIMITED or self._is_small_near_allowed():
            limit = self._beside_small(in_use + pooled + capacity)
        blocks = self.free.get(capacity)
        if not blocks and capacity >= ADAPTED and limit == UNLIMITED:
            capacity = self._larger(capacity, self.recent - in_use)
            blocks = self.free.get(capacity)
        in_use += capacity
        if blocks:
            block = blocks.pop()
            pooled -= capacity
        else:
            kept = max(self.kept, in_use + in_use // 4 + SPARE)
            made, had = self._grown(capacity) if in_use <= limit else (None, 0)
            pooled -= had
            pooled -= self._released(pooled + in_use - min(limit, kept), capacity)
            if made is None and in_use <= limit:
                made = self.new(capacity)
            if made is None and in_use <= limit:
                pooled -= self._released(pooled)
                self.release_small()
                made = self.new(capacity)
            if made is None:
                self._sums = mine, in_use - capacity, pooled
                return False
            block = made
        array, borrower.address, _ = block
        borrower.array = array if len(array) == capacity else array[:capacity]
        if capacity >= SPARE or (capacity >= HUGE_PAGE and self.room != UNLIMITED):
            self.awaited.add(ref(borrower, self.ringable().put))
        self.loans[ref(borrower, self.back.append)] = block
        if in_use > self.high:
            self._risen(in_use)
        if in_use + small[IN_USE] > self.most:
            self.most = in_use + small[IN_USE]
        if in_use > self.much:
            self.pressed = True
        if in_use + pooled > min(SPARE, self.room) and not self.watched:
            self._watch()
        self._sums = mine, in_use, pooled
        return True

    def settle(self) -> tuple[int, int]:
        """See to what came back; the bytes in use, and pooled."""
        number, in_use, pooled = self._sums
        if number != self._latest or self.back:
            mine, in_use, pooled = self._begun()
            self._sums = mine, in_use, pooled
        return in_use, pooled

    def release(self, nbytes: int) -> None:
        """Give so many pooled bytes, if there are, back to the system."""
        mine, in_use, pooled = self._begun()
        self._sums = mine, in_use, pooled - self._released(nbytes)
        if nbytes > pooled:
            self.release_small()

    def keep_at_most(self, nbytes: int) -> None:
        """Keep no more than so many bytes for reuse, from now on."""
        self.room = nbytes
        excess = self.pooled - nbytes
        if excess > 0:
            self.release(excess)

    def forget(self) -> bool:
        """Give back what was needed longer ago; whether there may be more of that later."""
        mine, in_use, pooled = self._begun()
        pooled -= self._forgotten(in_use, pooled)
        self._sums = mine, in_use, pooled
        return in_use + pooled > min(SPARE, self.room)

    # Parts of these, which work on counts of their own until all is done

    def _begun(self) -> tuple[int, int, int]:
        """A number, and what is in use and pooled once blocks that came back are free, or the system's again."""
        mine, before = self._number(), self._latest
        self._latest = mine
        number, in_use, pooled = self._sums
        if number != before:
            mine = NOBODY if self._others() else mine
            for loan in list(self.loans):
                if loan() is None:  # what is to come back and does not, as a signal was heard, is the system's
                    self.loans.pop(loan, None)
            in_use = sum([capacity for _, _, capacity in list(self.loans.values())])
            pooled = sum([capacity * len(self.free.get(capacity, ())) for capacity in self.free.copy()])  # a copy, as all may run meanwhile
            self.most = max(self.most, in_use)
        back = self.back
        while back:
            try:
                block = self.loans.pop(back.popleft(), None)
            except (IndexError, TypeError):  # another thread was faster; or a signal, before the loan was noted
                continue
            if block is None:
                continue
            capacity = block[2]
            in_use -= capacity
            kept, most = pooled + capacity, min(MAX_POOLED, self.room)
            if kept + in_use > self.kept or kept > most or (capacity >= TIMED and monotonic() >= self.due):
                pooled -= self._forgotten(in_use, pooled)
                room = min(self.kept - in_use, most)
                if capacity > room:
                    continue
                pooled -= self._released(pooled + capacity - room, capacity)
            blocks = self.free.pop(capacity, None) or []
            blocks.append(block)
            self.free[capacity] = blocks  # the last one now
            pooled += capacity
        return mine, in_use, pooled

    def _watch(self) -> None:
        """Forget every now and then, though nobody computes, until there is nothing to forget; and when much comes back."""

        def watch() -> None:
            while self.watched:
                with suppress(_queue.Empty):
                    self.awaited.discard(self.ringable().get(timeout=FORGOTTEN))
                self.watched = self.forget()

        if _looking:
            return
        self.watched = True
        try:
            start_new_thread(watch, ())  # `Thread.start` waits for a lock, which whoever lets go of a block may have
        except RuntimeError:  # there are no more threads, or the interpreter ends: then memory waits for the next who computes
            self.watched = False

    def ringable(self) -> SimpleQueue[ref[Any]]:
        """The bell, which most processes never need: to load what it is made of takes as long as a room does."""
        if self.bell is None:
            made: SimpleQueue[ref[Any]] = _queue.SimpleQueue()
            if self.bell is None:  # still: no other thread's turn comes between this and the next line
                self.bell = made
        return self.bell

    def _risen(self, in_use: int) -> None:
        """More is in use than was a moment ago."""
        self.high = in_use
        if in_use > self.recent:
            self.recent = in_use
            self.kept = in_use + in_use // 4 + SPARE

    @staticmethod
    def _others() -> bool:
        """Whether somebody else is at it: a frame further up, or in another thread.

        CPython has a lock while it looks for frames, and may have the collector run, whose finalizers may come here again: who looked for
        frames once more, or began a thread, would wait for that lock for good.
        """
        global _looking
        me = get_ident()
        frame: FrameType | None
        now: dict[int, FrameType] = {}
        stacks: dict[int, FrameType | None] = {}
        if _looking:
            return True
        _looking = True  # at once: nobody runs in between
        try:
            stacks.update(sys._current_frames())
            stacks[me] = sys._getframe(2).f_back  # from where I have begun
            for frame in stacks.values():
                while frame is not None:
                    if frame.f_code in _TURNS:
                        return True
                    frame = frame.f_back
            del stacks[me]
            now.update(sys._current_frames())
            return any([now[thread] is not top for thread, top in stacks.items() if thread in now])  # who went on is who knows where
        except AttributeError:  # CPython 3.11: a frame went meanwhile, and something else is in its place; who had it is who knows where
            return True
        finally:  # a frame that holds itself, or two that hold each other, would keep all that their callers hold
            _looking = False
            stacks.clear()
            now.clear()
            frame = None

    def _forgotten(self, in_use: int, pooled: int) -> int:
        """The bytes that go back to the system, as what was needed longer ago counts less."""
        now = monotonic()
        times = int((now - self.due) // FORGOTTEN) + 1
        if times <= 0:
            return 0
        self.due = now + FORGOTTEN
        self.recent = max(self.high, in_use + ((self.recent - in_use) >> times))
        self.high = in_use
        self.kept = self.recent + self.recent // 4 + SPARE
        return self._released(pooled + in_use - self.kept)

    def _released(self, nbytes: int, last: int = 0) -> int:
        """The bytes that go back to the system, for so many, if there are: the oldest sizes first, size `last` last."""
        found = 0
        if nbytes > 0:
            for capacity in sorted(self.free, key=lambda size: size == last):
                blocks = self.free.get(capacity)
                while blocks:
                    if found >= nbytes:
                        return found
                    try:
                        blocks.pop(0)
                    except IndexError:  # another thread was faster
                        break
                    found += capacity
        return found

    def _larger(self, capacity: int, most: int) -> int:
        """The size of the least free blocks that are up to half as large again, and take no more than `most`; or this one."""
        largest = min(capacity + capacity // 2, most)
        # Not its `items()`: where there is no memory for the first of these, CPython 3.11 ends the process.
        fits = [size for size in self.free.copy() if capacity < size <= largest and self.free.get(size)]
        return min(fits, default=capacity)

    def _grown(self, capacity: int) -> tuple[Block | None, int]:
        """The largest free block that has room to grow to this size, grown, and which size it had; None and 0 if there is none."""
        if capacity <= HUGE_PAGE:
            return None, 0
        for size in sorted([size for size in self.free.copy() if HUGE_PAGE <= size < capacity], reverse=True):
            with suppress(KeyError, IndexError):  # there is none, or another thread was faster
                array, address, _ = block = self.free[size].pop()
                if len(array) >= capacity:
                    return (array, address, capacity), size
                self.free[size].append(block)
        return None, 0

    def relieved(self) -> None:
        """Nothing more can be done than what is done now."""
        self.pressed, self.foreign = False, 0
        in_use, pooled = self.settle()
        self.much = in_use + in_use // 8 + GROWTH
        self._beside_small(in_use + pooled)

    def allow_small(self) -> None:
        """Raise the allowance of machine code if its blocks have nearly used it up.

        Every computation in Python calls this method. Machine code that is refused a block leaves the operation to Python, which may
        compute it in place and lend no block. Without this call the allowance would then stay used up.
        """
        if self._is_small_near_allowed():
            self._beside_small(sum(self.settle()))

    def _is_small_near_allowed(self) -> bool:
        """Return whether the blocks of machine code have nearly used up their allowance."""
        small = self.small
        return small[IN_USE] + small[POOLED] > small[ALLOWED] - GROWTH // 2

    def _beside_small(self, have: int) -> int:
        """The bytes that there may be here besides what machine code lends itself; and say how much that may be, where so many are here."""
        small, limit = self.small, self.limit
        if limit != UNLIMITED and small[POOLED] and have + small[IN_USE] + small[POOLED] > limit:
            self.release_small()
        total = small[IN_USE] + small[POOLED]
        self.pressed = self.pressed or (small[ALLOWED] > GROWTH // 2 and self._is_small_near_allowed())
        allowed = total + small[IN_USE] // 8 + GROWTH
        if limit != UNLIMITED:
            limit -= total
            allowed = min(allowed, total + max(0, limit - have) // 2)
        small[ALLOWED] = allowed
        return limit

    def share(self, nbytes: int) -> None:
        """So many bytes of others are kept alive."""
        self.foreign += nbytes
        self.pressed = self.pressed or self.settle()[0] + self.foreign > self.much

    def new(self, nbytes: int) -> Block | None:
        """Fresh memory from the system; None if there is not so much (ValueError: more than any address can say)."""
        try:
            self.colour += 1
            if nbytes >= HUGE_PAGE:
                colour = self.colour % COLOURS * COLOUR
                try:
                    raw = huge_pages(nbytes + min(nbytes // 2, SPARE // 2) + colour, HUGE_PAGE)
                except (MemoryError, OSError, ValueError, OverflowError):  # then it has no room to grow
                    raw = huge_pages(nbytes + colour, HUGE_PAGE)
                if raw is not None:
                    return raw[colour:], _address(raw) + colour, nbytes
            period = PAGE if nbytes >= SHADED else ALIGNMENT
            raw = np.empty(nbytes + period, np.uint8)
        except (MemoryError, OSError, ValueError, OverflowError):
            return None
        start = (self.colour * SHADE - _address(raw)) % period
        return raw[start : start + nbytes], _address(raw) + start, nbytes


def huge_pages(nbytes: int, page: int) -> Array | None:
    """Memory of its own from the system, which begins with a page of this size, in such pages if there are any; None where the
    system has no word for that. It goes back when the array dies.
    """
    space = mapped(nbytes + page)
    if space is None:
        return None
    raw = np.frombuffer(space, np.uint8)
    first = -_address(raw) % page
    advise_huge(space, first, nbytes)
    return raw[first : first + nbytes]


def _address(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


_TURNS = {method.__code__ for method in (Pool.lend, Pool.settle, Pool.release, Pool.forget)}


def capacity_of(nbytes: int) -> int:
    """The block size for a request: steps of 64 bytes, then of about an eighth, so that near sizes share blocks."""
    if nbytes <= 4096:
        return (nbytes + 63) & -64 if nbytes else 64
    step = 1 << (nbytes.bit_length() - 4)
    return (nbytes + step - 1) & -step


pool = Pool()


def _unwatched() -> None:
    pool.watched, pool.bell, pool.awaited = False, None, set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unwatched)  # threads stay with the parent
