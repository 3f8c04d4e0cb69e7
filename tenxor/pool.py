"""The memory pool: blocks from the system, kept for reuse as long as they are likely to be needed.

A fresh large allocation costs more in page faults than most kernels cost in work. So freed blocks are kept by size and reused, and large
blocks lie in huge pages where the system has them. A new size also reuses memory: a larger block, as long as this takes no more memory than
was recently in use; or a smaller block that grows, as large blocks have room behind them. This room takes no memory of the system before
the first write. Recent need limits the pool: blocks in use and kept blocks together are little more than the recent maximum in use. The
record of this maximum decays by halves, and the blocks freed longest ago go first. A background thread lets the record decay in an idle
process. It runs only while the memory in use and kept exceeds the amount that is always kept.

No Python code runs where memory is freed: an exception from a signal handler, such as Ctrl-C, would be lost there.
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
        """A short row of integers."""

        def __getitem__(self, k: int, /) -> int: ...

        def __setitem__(self, k: int, value: int, /) -> None: ...


_queue = LateModule("_queue")
Array = np.ndarray[Any, Any]
Block = tuple[Array, int, int]  # the memory with room to grow, the address, and the capacity in bytes
ALIGNMENT = 64
PAGE = 1 << 12  # bytes
HUGE_PAGE = 1 << 21  # bytes: larger blocks are mapped on their own, in pages of this size
SHADE = 1600  # bytes between block starts in their pages, against 4 KiB aliasing: a load waits for a store with equal last twelve bits
SHADED = 1 << 15  # smallest block, in bytes, to which `SHADE` applies
COLOUR_BYTES = (1 << 16) + SHADE  # blocks in huge pages start at different multiples of this: equal starts share a bank of memory
COLOURS = 8
MIN_REPLACEABLE_BYTES = 1 << 20  # smallest block, in bytes, that a block of another size may replace: new memory takes longer
UNLIMITED = 1 << 80  # larger than the address space
SPARE = 1 << 26  # bytes kept above the recent need, besides a quarter of the need: sizes vary
DECAY_S = 2.0  # seconds until half of the excess over the present need is forgotten
MIN_TIMED_BYTES = 1 << 16  # smallest freed block, in bytes, at which the clock is read
GROWTH_BYTES = 1 << 24  # bytes by which memory may grow, plus an eighth of the memory in use, before pending work is examined
IN_USE, PEAK, POOLED, ALLOWED = range(4)  # indices into `Pool.small`, counts of bytes
_is_examining = False  # true while a thread examines the frames of each thread
NO_OPERATION = -1  # an operation number that never matches, for sums computed while another operation is in progress
MEMORY_BYTES = memory_bytes()  # of the machine, or of the container
MAX_POOLED = MEMORY_BYTES // 4  # limit on the bytes kept for reuse


class Pool:
    """The pool: blocks in use, free blocks (sizes freed longest ago first), and counts of bytes. In use and free together never exceed
    `limit`.

    `peak` is the maximum in use, `peak_since_decay` the maximum since the last decay, and `recent` a maximum that decays at the time `due`;
    it determines `max_held`, a limit on use and free blocks. `pressed` is true if far more is in use than at the last `relieved`.

    Blocks in use are in `loans`, keyed by weak references to their owners. When an owner is deallocated, C code appends the reference to
    `returned_loans`, without a Python frame in which a signal could be delivered. Free blocks are in `free`. `_sums` caches the totals of
    both with the number of the operation that computed them; they are valid if no operation has begun since. So if a signal interrupts an
    operation, or another thread or a signal handler intervenes, the next operation computes the totals anew. While the other operation is
    still in progress, these totals are stored without a number.

    `free_limit` and `MAX_POOLED` limit the free blocks. With `free_limit` set, the memory of the process is watched from outside, so freed
    memory returns to the system soon, and not at the next computation.

    `small` has the counts of the fast path's own blocks (`shortcut/code/blocks.py`): in use, the recent maximum, free, and the limit on use
    and free before the fast path must ask here (`allow_small`); `release_small` frees the free ones. `watched` is true while the background
    thread runs. `bell` wakes the thread when a large block is freed; `awaited` has weak references to the owners of large blocks.
    """

    __slots__ = (
        "_latest",
        "_number",
        "_sums",
        "awaited",
        "returned_loans",
        "bell",
        "colour",
        "due",
        "foreign",
        "free",
        "peak_since_decay",
        "max_held",
        "limit",
        "loans",
        "pressure_bytes",
        "max_in_use",
        "pressed",
        "recent",
        "release_small",
        "free_limit",
        "small",
        "watched",
    )

    pressure_bytes: int

    def __init__(self) -> None:
        self.free: dict[int, list[Block]] = {}
        self.loans: dict[ref[Any], Block] = {}
        self.returned_loans: deque[ref[Any]] = deque()
        self._number = count(1).__next__
        self._sums = (0, 0, 0)  # the number of the operation that computed them, the bytes in use, and the free bytes
        self._latest = 0  # the number of the last operation begun
        self.small: Counts = [0] * 4
        self.release_small: Callable[[], object] = int
        self.max_in_use = self.colour = self.recent = self.peak_since_decay = self.foreign = 0
        self.watched = False
        self.bell: SimpleQueue[ref[Any]] | None = None
        self.awaited = set[ref[Any]]()
        self.max_held, self.limit, self.free_limit, self.due = SPARE, UNLIMITED, UNLIMITED, monotonic() + DECAY_S
        self.relieved()

    @property
    def in_use(self) -> int:
        """The bytes of blocks in use."""
        return self.settle()[0] + self.small[IN_USE]

    @property
    def pooled(self) -> int:
        """The bytes of free blocks."""
        return self.settle()[1] + self.small[POOLED]

    @property
    def peak(self) -> int:
        """The maximum number of bytes in use since `peak` was last set."""
        self.max_in_use = max(self.max_in_use, self.settle()[0] + self.small[PEAK])
        return self.max_in_use

    @peak.setter
    def peak(self, nbytes: int) -> None:
        self.small[PEAK] = self.small[IN_USE]
        self.max_in_use = nbytes

    def lend(self, borrower: Any, capacity: int) -> bool:
        """Give `borrower` a block for life, as the attributes `array` and `address`. Return False if no memory is left, or above the limit.

        `capacity` must be a result of `capacity_of`.
        """
        operation, in_use, pooled = self._begin()
        small, limit = self.small, self.limit
        if pooled > SPARE // 4 and monotonic() >= self.due:
            pooled -= self._decay(in_use, pooled)
        if small[PEAK]:
            self.max_in_use = max(self.max_in_use, in_use + small[PEAK])
            small[PEAK] = small[IN_USE]
        if limit != UNLIMITED or self._is_small_near_allowed():
            limit = self._limit_beside_small(in_use + pooled + capacity)
        blocks = self.free.get(capacity)
        if not blocks and capacity >= MIN_REPLACEABLE_BYTES and limit == UNLIMITED:
            capacity = self._find_larger(capacity, self.recent - in_use)
            blocks = self.free.get(capacity)
        in_use += capacity
        if blocks:
            block = blocks.pop()
            pooled -= capacity
        else:
            max_held = max(self.max_held, in_use + in_use // 4 + SPARE)
            new_block, grown_from = self._grow_block(capacity) if in_use <= limit else (None, 0)
            pooled -= grown_from
            pooled -= self._release_free(pooled + in_use - min(limit, max_held), capacity)
            if new_block is None and in_use <= limit:
                new_block = self.new(capacity)
            if new_block is None and in_use <= limit:
                pooled -= self._release_free(pooled)
                self.release_small()
                new_block = self.new(capacity)
            if new_block is None:
                self._sums = operation, in_use - capacity, pooled
                return False
            block = new_block
        array, borrower.address, _ = block
        borrower.array = array if len(array) == capacity else array[:capacity]
        if capacity >= SPARE or (capacity >= HUGE_PAGE and self.free_limit != UNLIMITED):
            self.awaited.add(ref(borrower, self.get_bell().put))
        self.loans[ref(borrower, self.returned_loans.append)] = block
        if in_use > self.peak_since_decay:
            self._record_rise(in_use)
        if in_use + small[IN_USE] > self.max_in_use:
            self.max_in_use = in_use + small[IN_USE]
        if in_use > self.pressure_bytes:
            self.pressed = True
        if in_use + pooled > min(SPARE, self.free_limit) and not self.watched:
            self._watch()
        self._sums = operation, in_use, pooled
        return True

    def settle(self) -> tuple[int, int]:
        """Take back freed blocks, and return the bytes in use and the free bytes."""
        counted_by, in_use, pooled = self._sums
        if counted_by != self._latest or self.returned_loans:
            operation, in_use, pooled = self._begin()
            self._sums = operation, in_use, pooled
        return in_use, pooled

    def release(self, nbytes: int) -> None:
        """Return `nbytes` free bytes to the system, or as many as there are."""
        operation, in_use, pooled = self._begin()
        self._sums = operation, in_use, pooled - self._release_free(nbytes)
        if nbytes > pooled:
            self.release_small()

    def keep_at_most(self, nbytes: int) -> None:
        """Limit the free blocks to `nbytes` bytes from now on."""
        self.free_limit = nbytes
        excess = self.pooled - nbytes
        if excess > 0:
            self.release(excess)

    def forget(self) -> bool:
        """Let the record of recent need decay, and release blocks beyond it. Return whether more may follow later."""
        operation, in_use, pooled = self._begin()
        pooled -= self._decay(in_use, pooled)
        self._sums = operation, in_use, pooled
        return in_use + pooled > min(SPARE, self.free_limit)

    # Steps of the methods above, which work on counts of their own until the end

    def _begin(self) -> tuple[int, int, int]:
        """Begin an operation and take back freed blocks. Return the number of the operation, the bytes in use, and the free bytes."""
        operation, previous = self._number(), self._latest
        self._latest = operation
        counted_by, in_use, pooled = self._sums
        if counted_by != previous:
            operation = NO_OPERATION if self._has_other_operation() else operation
            for loan in list(self.loans):
                if loan() is None:  # a signal removed the reference from `returned_loans`: the system takes the block
                    self.loans.pop(loan, None)
            in_use = sum([capacity for _, _, capacity in list(self.loans.values())])
            pooled = sum([capacity * len(self.free.get(capacity, ())) for capacity in self.free.copy()])  # a copy: other code may run
            self.max_in_use = max(self.max_in_use, in_use)
        returned_loans = self.returned_loans
        while returned_loans:
            try:
                block = self.loans.pop(returned_loans.popleft(), None)
            except (IndexError, TypeError):  # another thread was faster; or a signal came before the loan was recorded
                continue
            if block is None:
                continue
            capacity = block[2]
            in_use -= capacity
            new_pooled, max_pooled = pooled + capacity, min(MAX_POOLED, self.free_limit)
            if new_pooled + in_use > self.max_held or new_pooled > max_pooled or (capacity >= MIN_TIMED_BYTES and monotonic() >= self.due):
                pooled -= self._decay(in_use, pooled)
                available = min(self.max_held - in_use, max_pooled)
                if capacity > available:
                    continue
                pooled -= self._release_free(pooled + capacity - available, capacity)
            blocks = self.free.pop(capacity, None) or []
            blocks.append(block)
            self.free[capacity] = blocks  # moved to the end: freed last
            pooled += capacity
        return operation, in_use, pooled

    def _watch(self) -> None:
        """Start the background thread, unless no thread can start now. It lets the record decay every `DECAY_S` seconds and when a large
        block is freed, until nothing is left to release.
        """

        def watch() -> None:
            while self.watched:
                with suppress(_queue.Empty):
                    self.awaited.discard(self.get_bell().get(timeout=DECAY_S))
                self.watched = self.forget()

        if _is_examining:
            return
        self.watched = True
        try:
            start_new_thread(watch, ())  # `Thread.start` would wait for a lock that the thread that frees a block may hold
        except RuntimeError:  # no more threads, or the interpreter ends: the next computation releases memory
            self.watched = False

    def get_bell(self) -> SimpleQueue[ref[Any]]:
        """Return the queue `bell`, made at the first request: most processes never need a queue, and the import takes as long as a package
        of ours.
        """
        if self.bell is None:
            queue: SimpleQueue[ref[Any]] = _queue.SimpleQueue()
            if self.bell is None:  # checked again: no other thread runs between this line and the next
                self.bell = queue
        return self.bell

    def _record_rise(self, in_use: int) -> None:
        """Record that more is in use than at any time since the last decay."""
        self.peak_since_decay = in_use
        if in_use > self.recent:
            self.recent = in_use
            self.max_held = in_use + in_use // 4 + SPARE

    @staticmethod
    def _has_other_operation() -> bool:
        """Return whether another operation of the pool may be in progress: in a frame further up, or in another thread.

        CPython holds a lock while listing frames, and may run the garbage collector, whose finalizers may call the pool again. Listing
        frames again, or starting a thread, would then wait for this lock for ever.
        """
        global _is_examining
        this_thread = get_ident()
        frame: FrameType | None
        frames: dict[int, FrameType] = {}
        stacks: dict[int, FrameType | None] = {}
        if _is_examining:
            return True
        _is_examining = True  # no other code runs between the test and this line
        try:
            stacks.update(sys._current_frames())
            stacks[this_thread] = sys._getframe(2).f_back  # the caller of the present operation
            for frame in stacks.values():
                while frame is not None:
                    if frame.f_code in _OPERATION_CODES:
                        return True
                    frame = frame.f_back
            del stacks[this_thread]
            frames.update(sys._current_frames())
            return any([frames[thread] is not top for thread, top in stacks.items() if thread in frames])  # a moved thread may be anywhere
        except AttributeError:  # CPython 3.11: a frame was freed meanwhile and the memory reused; the thread may be anywhere
            return True
        finally:  # break reference cycles through this frame, which would keep the locals of every caller alive
            _is_examining = False
            stacks.clear()
            frames.clear()
            frame = None

    def _decay(self, in_use: int, pooled: int) -> int:
        """Let the record of recent need decay, if it is time, and release blocks beyond it. Return the bytes released."""
        now = monotonic()
        half_lives = int((now - self.due) // DECAY_S) + 1
        if half_lives <= 0:
            return 0
        self.due = now + DECAY_S
        self.recent = max(self.peak_since_decay, in_use + ((self.recent - in_use) >> half_lives))
        self.peak_since_decay = in_use
        self.max_held = self.recent + self.recent // 4 + SPARE
        return self._release_free(pooled + in_use - self.max_held)

    def _release_free(self, nbytes: int, last_size: int = 0) -> int:
        """Release up to `nbytes` free bytes to the system: sizes freed longest ago first, blocks of size `last_size` last. Return the bytes
        released.
        """
        released = 0
        if nbytes > 0:
            for capacity in sorted(self.free, key=lambda size: size == last_size):
                blocks = self.free.get(capacity)
                while blocks:
                    if released >= nbytes:
                        return released
                    try:
                        blocks.pop(0)
                    except IndexError:  # another thread was faster
                        break
                    released += capacity
        return released

    def _find_larger(self, capacity: int, max_size: int) -> int:
        """Return the smallest size above `capacity` of a free block, up to half as large again and up to `max_size`, or `capacity` itself.
        """
        largest = min(capacity + capacity // 2, max_size)
        # Not `items()`: without memory for the first item, CPython 3.11 aborts the process.
        fits = [size for size in self.free.copy() if capacity < size <= largest and self.free.get(size)]
        return min(fits, default=capacity)

    def _grow_block(self, capacity: int) -> tuple[Block | None, int]:
        """Take the largest free block with room to grow to `capacity`. Return the grown block and the old size, or None and 0."""
        if capacity <= HUGE_PAGE:
            return None, 0
        for size in sorted([size for size in self.free.copy() if HUGE_PAGE <= size < capacity], reverse=True):
            with suppress(KeyError, IndexError):  # no such block, or another thread was faster
                array, address, _ = block = self.free[size].pop()
                if len(array) >= capacity:
                    return (array, address, capacity), size
                self.free[size].append(block)
        return None, 0

    def relieved(self) -> None:
        """Record that memory use cannot be reduced further now: reset `pressed`."""
        self.pressed, self.foreign = False, 0
        in_use, pooled = self.settle()
        self.pressure_bytes = in_use + in_use // 8 + GROWTH_BYTES
        self._limit_beside_small(in_use + pooled)

    def allow_small(self) -> None:
        """Raise the allowance of the fast path if its blocks have nearly used it up.

        Every computation in Python calls this method. If the fast path is refused a block, it leaves the operation to Python, which may
        compute the operation in place and allocate no block. Without this call the allowance would then stay used up.
        """
        if self._is_small_near_allowed():
            self._limit_beside_small(sum(self.settle()))

    def _is_small_near_allowed(self) -> bool:
        """Return whether the blocks of the fast path have nearly used up their allowance."""
        small = self.small
        return small[IN_USE] + small[POOLED] > small[ALLOWED] - GROWTH_BYTES // 2

    def _limit_beside_small(self, held: int) -> int:
        """Return the limit on bytes outside the fast path's own blocks, and set the allowance of the fast path. The pool itself has `held`
        bytes.
        """
        small, limit = self.small, self.limit
        if limit != UNLIMITED and small[POOLED] and held + small[IN_USE] + small[POOLED] > limit:
            self.release_small()
        small_held = small[IN_USE] + small[POOLED]
        self.pressed = self.pressed or (small[ALLOWED] > GROWTH_BYTES // 2 and self._is_small_near_allowed())
        allowed = small_held + small[IN_USE] // 8 + GROWTH_BYTES
        if limit != UNLIMITED:
            limit -= small_held
            allowed = min(allowed, small_held + max(0, limit - held) // 2)
        small[ALLOWED] = allowed
        return limit

    def share(self, nbytes: int) -> None:
        """Record `nbytes` bytes of foreign memory kept alive by tensors."""
        self.foreign += nbytes
        self.pressed = self.pressed or self.settle()[0] + self.foreign > self.pressure_bytes

    def new(self, nbytes: int) -> Block | None:
        """Return a new block from the system; None if memory does not suffice. ValueError stands for more than the address space."""
        try:
            self.colour += 1
            if nbytes >= HUGE_PAGE:
                colour = self.colour % COLOURS * COLOUR_BYTES
                try:
                    raw = huge_pages(nbytes + min(nbytes // 2, SPARE // 2) + colour, HUGE_PAGE)
                except (MemoryError, OSError, ValueError, OverflowError):  # then without room to grow
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
    """Return new memory from the system, from a multiple of `page` on, in huge pages if possible; None if the system cannot map memory.

    The memory is released with the array.
    """
    space = mapped(nbytes + page)
    if space is None:
        return None
    raw = np.frombuffer(space, np.uint8)
    start = -_address(raw) % page
    advise_huge(space, start, nbytes)
    return raw[start : start + nbytes]


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


_OPERATION_CODES = {method.__code__ for method in (Pool.lend, Pool.settle, Pool.release, Pool.forget)}


def capacity_of(nbytes: int) -> int:
    """Return the block size for a request of `nbytes`: a multiple of 64, and above 4096 rounded up by about an eighth, so near sizes share
    blocks.
    """
    if nbytes <= 4096:
        return (nbytes + 63) & -64 if nbytes else 64
    step = 1 << (nbytes.bit_length() - 4)
    return (nbytes + step - 1) & -step


pool = Pool()


def _reset_watch() -> None:
    pool.watched, pool.bell, pool.awaited = False, None, set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_watch)  # threads do not exist in the child
