"""The memory pool: blocks from the system, kept for reuse as long as they are likely to be needed. A block is memory for a single buffer at
a time, of a capacity rounded up from the bytes requested. An owner is the buffer with the block; when the owner is deallocated, the block
becomes free.

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
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from .._utils.cache_registry import CacheRecord
from .._utils.lazy import LazyModule
from .._utils.process import advise_huge_pages, get_memory_bytes, map_memory

if TYPE_CHECKING:
    from _queue import SimpleQueue
    from typing import Protocol

    class Counts(Protocol):
        """A row of integers, such as a list or an array in memory shared with generated code."""

        def __getitem__(self, k: int, /) -> int: ...

        def __setitem__(self, k: int, value: int, /) -> None: ...


_queue = LazyModule("_queue")
Array = np.ndarray[Any, Any]
Block = tuple[Array, int, int]  # the memory with room to grow, the address, and the capacity in bytes
ALIGNMENT_BYTES = 64
PAGE_BYTES = 1 << 12  # bytes
HUGE_PAGE_BYTES = 1 << 21  # bytes: larger blocks are mapped on their own, in pages of this size
# Bytes between block starts in their pages, against 4 KiB aliasing: a load waits for a store with equal last twelve bits
START_STAGGER_BYTES = 1600
MIN_STAGGERED_BYTES = 1 << 15  # smallest block, in bytes, to which `START_STAGGER_BYTES` applies
# Blocks in huge pages start at different multiples of this: equal starts share a bank of memory
COLOUR_BYTES = (1 << 16) + START_STAGGER_BYTES
COLOUR_COUNT = 8
MIN_REPLACEABLE_BYTES = 1 << 20  # smallest block, in bytes, that a block of another size may replace: new memory takes longer
UNLIMITED_BYTES = 1 << 80  # larger than the address space
SPARE_BYTES = 1 << 26  # bytes kept above the recent need, besides a quarter of the need: sizes vary
DECAY_S = 2.0  # seconds until half of the excess over the present need is forgotten
MIN_TIMED_BYTES = 1 << 16  # smallest freed block, in bytes, at which the clock is read
GROWTH_BYTES = 1 << 24  # bytes by which memory may grow, plus an eighth of the memory in use, before pending work is examined
IN_USE, PEAK, POOLED, ALLOWED = range(4)  # indices into `Pool.small_block_bytes`, counts of bytes
OUTDATED_TOTALS = 0, 0, 0  # the totals of no operation
NO_OPERATION_NUMBER = -1  # an operation number that never matches, for sums computed while another operation is in progress
MEMORY_BYTES = get_memory_bytes()  # of the machine, or of the container
MAX_POOLED_BYTES = MEMORY_BYTES // 4  # limit on the bytes kept for reuse


class _Operation:
    """An operation of the pool. The object is alive as long as the operation is in progress: a local variable of the method refers to it.

    After an error the object dies with the traceback. Until then the pool computes its totals anew each time.
    """

    __slots__ = ("__weakref__", "number")

    number: int


class Pool:
    """The pool: blocks in use, free blocks (sizes freed longest ago first), and counts of bytes.

    In use and free together never exceed `limit_bytes`. `peak` is the maximum in use, `peak_since_decay` the maximum since the last decay,
    and `recent_need_bytes` a maximum that decays at the time `decay_time`; it determines `max_held_bytes`, a limit on use and free blocks.
    `is_under_pressure` is true if far more is in use than at the last `reset_pressure`.

    Blocks in use are in `used_blocks`, keyed by weak references to their owners. When an owner is deallocated, C code appends the reference
    to `freed_refs`, without a Python frame in which a signal could be delivered. Free blocks are in `free_blocks`. `_totals` caches the
    totals of both with the number of the operation that computed them; they are valid if no operation has begun since. So if a signal
    interrupts an operation, or another thread or a signal handler intervenes, the next operation computes the totals anew. While the other
    operation is still in progress, these totals are stored without a number.

    `max_free_bytes` and `MAX_POOLED_BYTES` limit the free blocks. With `max_free_bytes` set, the memory of the process is watched from
    outside, so freed memory returns to the system soon, and not at the next computation.

    `small_block_bytes` has the counts of the fast path's own blocks (`fastpath/emit/block_allocator.py`): in use, the recent maximum, free,
    and the limit on use and free before the fast path must ask here (`raise_small_allowance`); `release_small_blocks` frees the free ones.
    `has_decay_thread` is true while the background thread runs. `wake_queue` wakes the thread when a large block is freed;
    `large_block_refs` has weak references to the owners of large blocks.
    """

    __slots__ = (
        "_latest_operation",
        "_operations_in_progress",
        "_take_operation_number",
        "_totals",
        "large_block_refs",
        "freed_refs",
        "wake_queue",
        "colour",
        "decay_time",
        "foreign_bytes",
        "free_blocks",
        "peak_since_decay",
        "max_held_bytes",
        "limit_bytes",
        "used_blocks",
        "pressure_bytes",
        "max_in_use",
        "is_under_pressure",
        "recent_need_bytes",
        "release_small_blocks",
        "max_free_bytes",
        "small_block_bytes",
        "has_decay_thread",
    )

    pressure_bytes: int

    def __init__(self) -> None:
        self.free_blocks: dict[int, list[Block]] = {}
        self.used_blocks: dict[ref[Any], Block] = {}
        self.freed_refs: deque[ref[Any]] = deque()
        self._take_operation_number = count(1).__next__
        self._totals = OUTDATED_TOTALS  # the number of the operation that computed them, the bytes in use, and the free bytes
        self._latest_operation = 0  # the number of the last operation begun
        self._operations_in_progress = set[ref[_Operation]]()
        self.small_block_bytes: Counts = [0] * 4
        self.release_small_blocks: Callable[[], object] = int
        self.max_in_use = self.colour = self.recent_need_bytes = self.peak_since_decay = self.foreign_bytes = 0
        self.has_decay_thread = False
        self.wake_queue: SimpleQueue[ref[Any]] | None = None
        self.large_block_refs = set[ref[Any]]()
        self.max_held_bytes, self.limit_bytes, self.max_free_bytes, self.decay_time = (
            SPARE_BYTES,
            UNLIMITED_BYTES,
            UNLIMITED_BYTES,
            monotonic() + DECAY_S,
        )
        self.reset_pressure()

    @property
    def in_use(self) -> int:
        """The bytes of blocks in use, including blocks of the fast path."""
        return self.collect_freed()[0] + self.small_block_bytes[IN_USE]

    @property
    def pooled(self) -> int:
        """The bytes of free blocks, including blocks of the fast path."""
        return self.collect_freed()[1] + self.small_block_bytes[POOLED]

    @property
    def peak(self) -> int:
        """The maximum number of bytes in use since `peak` was last set. Setting it to a number of bytes begins a new maximum from that
        number.
        """
        self.max_in_use = max(self.max_in_use, self.collect_freed()[0] + self.small_block_bytes[PEAK])
        return self.max_in_use

    @peak.setter
    def peak(self, nbytes: int) -> None:
        """The maximum number of bytes in use since `peak` was last set.

        Setting it to a number of bytes begins a new maximum from that number.
        """
        self.small_block_bytes[PEAK] = self.small_block_bytes[IN_USE]
        self.max_in_use = nbytes

    def assign_block(self, owner: Any, capacity: int) -> bool:
        """Give `owner`, a buffer, a block of `capacity` bytes, or of a larger capacity, for life: set `owner.address` and `owner._array`.

        Return True, or False if no memory is left, or above the limit. `capacity` must be a result of `capacity_of`. `allocate` and
        `try_allocate` call this method.
        """
        if self.freed_refs and capacity < MIN_TIMED_BYTES and self._totals[2] <= SPARE_BYTES // 4:
            # The block freed last counts as in use until an operation takes the block back, so its reuse changes no total. During the
            # reuse the totals count as outdated, as a signal handler may raise an error.
            totals, self._totals = self._totals, OUTDATED_TOTALS
            try:
                owner_ref = self.freed_refs.pop()
                block = self.used_blocks.pop(owner_ref)
            except (IndexError, KeyError, TypeError):  # see `_begin`
                pass
            else:
                if block[2] == capacity:
                    owner._array, owner.address, _ = block
                    self.used_blocks[ref(owner, self.freed_refs.append)] = block
                    self._totals = totals
                    return True
                self.used_blocks[owner_ref] = block
                self.freed_refs.append(owner_ref)
            self._totals = totals
        operation, in_use, pooled = self._begin()
        small, limit = self.small_block_bytes, self.limit_bytes
        if pooled > SPARE_BYTES // 4 and monotonic() >= self.decay_time:
            pooled -= self._decay(in_use, pooled)
        if small[PEAK]:
            self.max_in_use = max(self.max_in_use, in_use + small[PEAK])
            small[PEAK] = small[IN_USE]
        if limit != UNLIMITED_BYTES or self._is_small_near_allowed():
            limit = self._limit_beside_small(in_use + pooled + capacity)
        blocks = self.free_blocks.get(capacity)
        if not blocks and capacity >= MIN_REPLACEABLE_BYTES and limit == UNLIMITED_BYTES:
            capacity = self._find_larger(capacity, self.recent_need_bytes - in_use)
            blocks = self.free_blocks.get(capacity)
        in_use += capacity
        if blocks:
            block = blocks.pop()
            pooled -= capacity
        else:
            max_held = max(self.max_held_bytes, in_use + in_use // 4 + SPARE_BYTES)
            new_block, grown_from = self._grow_block(capacity) if in_use <= limit else (None, 0)
            pooled -= grown_from
            pooled -= self._release_free(pooled + in_use - min(limit, max_held), capacity)
            if new_block is None and in_use <= limit:
                new_block = self.make_block(capacity)
            if new_block is None and in_use <= limit:
                pooled -= self._release_free(pooled)
                self.release_small_blocks()
                new_block = self.make_block(capacity)
            if new_block is None:
                self._totals = operation.number, in_use - capacity, pooled
                return False
            block = new_block
        array, owner.address, _ = block
        owner._array = array if len(array) == capacity else array[:capacity]
        if capacity >= SPARE_BYTES or (capacity >= HUGE_PAGE_BYTES and self.max_free_bytes != UNLIMITED_BYTES):
            self.large_block_refs.add(ref(owner, self.get_wake_queue().put))
        self.used_blocks[ref(owner, self.freed_refs.append)] = block
        if in_use > self.peak_since_decay:
            self._record_rise(in_use)
        if in_use + small[IN_USE] > self.max_in_use:
            self.max_in_use = in_use + small[IN_USE]
        if in_use > self.pressure_bytes:
            self.is_under_pressure = True
        if in_use + pooled > min(SPARE_BYTES, self.max_free_bytes) and not self.has_decay_thread:
            self._start_decay_thread()
        self._totals = operation.number, in_use, pooled
        return True

    def collect_freed(self) -> tuple[int, int]:
        """Take back the blocks of deallocated owners, and return the bytes in use and the free bytes, without blocks of the fast path."""
        counted_by, in_use, pooled = self._totals
        if counted_by != self._latest_operation or self.freed_refs:
            operation, in_use, pooled = self._begin()
            self._totals = operation.number, in_use, pooled
        return in_use, pooled

    def release(self, nbytes: int) -> None:
        """Return `nbytes` free bytes to the system, or somewhat more as blocks are whole, or as many as there are.

        If the pool itself has fewer, the fast path returns its free blocks, too.
        """
        operation, in_use, pooled = self._begin()
        self._totals = operation.number, in_use, pooled - self._release_free(nbytes)
        if nbytes > pooled:
            self.release_small_blocks()

    def limit_free_blocks(self, nbytes: int) -> None:
        """Limit the free blocks to `nbytes` bytes together from now on, and release the excess. Workers of Dask call this method."""
        self.max_free_bytes = nbytes
        excess = self.pooled - nbytes
        if excess > 0:
            self.release(excess)

    def decay_recent_need(self) -> bool:
        """Let the record of recent need decay, and release blocks beyond it. Return whether more may follow later.

        The background thread calls this method until the answer is False.
        """
        operation, in_use, pooled = self._begin()
        pooled -= self._decay(in_use, pooled)
        self._totals = operation.number, in_use, pooled
        return in_use + pooled > min(SPARE_BYTES, self.max_free_bytes)

    # Steps of the methods above, which work on counts of their own until the end

    def _begin(self) -> tuple[_Operation, int, int]:
        """Begin an operation and take back freed blocks. Return the operation, the bytes in use, and the free bytes.

        The operation has the number `NO_OPERATION_NUMBER` if another one may be in progress, so the caller's totals count as outdated.
        """
        operation, in_progress = _Operation(), self._operations_in_progress
        in_progress.add(ref(operation, in_progress.discard))
        operation.number, previous = self._take_operation_number(), self._latest_operation
        self._latest_operation = operation.number
        counted_by, in_use, pooled = self._totals
        if counted_by != previous:
            if len(in_progress) > 1:
                operation.number = NO_OPERATION_NUMBER
            for owner_ref in list(self.used_blocks):
                if owner_ref() is None:  # a signal removed the reference from `freed_refs`: the system takes the block
                    self.used_blocks.pop(owner_ref, None)
            in_use = sum([capacity for _, _, capacity in list(self.used_blocks.values())])
            # The loop runs over a copy, since threads and finalizers change the table
            pooled = sum([capacity * len(self.free_blocks.get(capacity, ())) for capacity in self.free_blocks.copy()])
            self.max_in_use = max(self.max_in_use, in_use)
        freed_refs = self.freed_refs
        while freed_refs:
            try:
                block = self.used_blocks.pop(freed_refs.popleft(), None)
            except (IndexError, TypeError):  # another thread was faster; or a signal came before the entry was added
                continue
            if block is None:
                continue
            capacity = block[2]
            in_use -= capacity
            new_pooled, max_pooled = pooled + capacity, min(MAX_POOLED_BYTES, self.max_free_bytes)
            if (
                new_pooled + in_use > self.max_held_bytes
                or new_pooled > max_pooled
                or (capacity >= MIN_TIMED_BYTES and monotonic() >= self.decay_time)
            ):
                pooled -= self._decay(in_use, pooled)
                available = min(self.max_held_bytes - in_use, max_pooled)
                if capacity > available:
                    continue
                pooled -= self._release_free(pooled + capacity - available, capacity)
            blocks = self.free_blocks.pop(capacity, None) or []
            blocks.append(block)
            self.free_blocks[capacity] = blocks  # moved to the end: freed last
            pooled += capacity
        return operation, in_use, pooled

    def _start_decay_thread(self) -> None:
        """Start the background thread, unless no thread can start now.

        The thread lets the record decay every `DECAY_S` seconds and when a large block is freed, until nothing is left to release.
        """

        def watch() -> None:
            """Let the record decay again and again, until nothing is left to release: the body of the thread."""
            while self.has_decay_thread:
                with suppress(_queue.Empty):
                    self.large_block_refs.discard(self.get_wake_queue().get(timeout=DECAY_S))
                self.has_decay_thread = self.decay_recent_need()

        self.has_decay_thread = True
        try:
            start_new_thread(watch, ())  # `Thread.start` would wait for a lock, perhaps held by the thread that frees a block
        except RuntimeError:  # no more threads, or the interpreter ends: the next computation releases memory
            self.has_decay_thread = False

    def get_wake_queue(self) -> SimpleQueue[ref[Any]]:
        """Return the queue `wake_queue`, made at the first request: the deallocation of a large block wakes the background thread by the
        queue.

        Most processes never need a queue, and the import takes as long as a package of ours.
        """
        if self.wake_queue is None:
            queue: SimpleQueue[ref[Any]] = _queue.SimpleQueue()
            if self.wake_queue is None:  # checked again: no other thread runs between this line and the next
                self.wake_queue = queue
        return self.wake_queue

    def _record_rise(self, in_use: int) -> None:
        """Record a rise of the memory in use to `in_use` bytes, a new maximum since the last decay."""
        self.peak_since_decay = in_use
        if in_use > self.recent_need_bytes:
            self.recent_need_bytes = in_use
            self.max_held_bytes = in_use + in_use // 4 + SPARE_BYTES

    def _decay(self, in_use: int, pooled: int) -> int:
        """Let the record of recent need decay, if it is time, and release blocks beyond it. Return the bytes released.

        `in_use` and `pooled` are the present bytes of blocks in use and of free blocks.
        """
        now = monotonic()
        half_lives = int((now - self.decay_time) // DECAY_S) + 1
        if half_lives <= 0:
            return 0
        self.decay_time = now + DECAY_S
        self.recent_need_bytes = max(self.peak_since_decay, in_use + ((self.recent_need_bytes - in_use) >> half_lives))
        self.peak_since_decay = in_use
        self.max_held_bytes = self.recent_need_bytes + self.recent_need_bytes // 4 + SPARE_BYTES
        return self._release_free(pooled + in_use - self.max_held_bytes)

    def _release_free(self, nbytes: int, last_size: int = 0) -> int:
        """Release free blocks to the system until they have `nbytes` bytes or no block is left. Return the bytes released.

        Sizes freed longest ago go first, and blocks of `last_size` bytes last.
        """
        released = 0
        if nbytes > 0:
            for capacity in sorted(self.free_blocks, key=lambda size: size == last_size):
                blocks = self.free_blocks.get(capacity)
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
        """Return the smallest size above `capacity` of a free block, or `capacity` itself if no free block suits.

        The size may be up to half as large again as `capacity`, and up to `max_size` bytes.
        """
        largest = min(capacity + capacity // 2, max_size)
        # Not `items()`: without memory for the first item, CPython 3.11 aborts the process.
        fits = [size for size in self.free_blocks.copy() if capacity < size <= largest and self.free_blocks.get(size)]
        return min(fits, default=capacity)

    def _grow_block(self, capacity: int) -> tuple[Block | None, int]:
        """Take the largest free block smaller than `capacity` with room to grow to `capacity` bytes.

        Return the grown block and the old size, or None and 0.
        """
        if capacity <= HUGE_PAGE_BYTES:
            return None, 0
        for size in sorted([size for size in self.free_blocks.copy() if HUGE_PAGE_BYTES <= size < capacity], reverse=True):
            with suppress(KeyError, IndexError):  # no block of this size, or another thread was faster
                array, address, _ = block = self.free_blocks[size].pop()
                if len(array) >= capacity:
                    return (array, address, capacity), size
                self.free_blocks[size].append(block)
        return None, 0

    def reset_pressure(self) -> None:
        """Reset `is_under_pressure`, forget the foreign bytes, and measure pressure from the present use on.

        Called when memory use cannot be reduced further now, and when a limit changes. The allowance of the fast path is set anew, which
        may free small blocks.
        """
        self.is_under_pressure, self.foreign_bytes = False, 0
        in_use, pooled = self.collect_freed()
        self.pressure_bytes = in_use + in_use // 8 + GROWTH_BYTES
        self._limit_beside_small(in_use + pooled)

    def raise_small_allowance(self) -> None:
        """Raise the allowance of the fast path if its blocks have nearly used it up.

        While the fast path is on, every computation in Python calls this method. If the fast path is refused a block, it leaves the
        operation to Python, which may compute the operation in place and allocate no block. Without this call the allowance would then stay
        used up.
        """
        if self._is_small_near_allowed():
            self._limit_beside_small(sum(self.collect_freed()))

    def _is_small_near_allowed(self) -> bool:
        """Return whether the blocks of the fast path, in use and free, have nearly used up their allowance (`small_block_bytes`)."""
        small = self.small_block_bytes
        return small[IN_USE] + small[POOLED] > small[ALLOWED] - GROWTH_BYTES // 2

    def _limit_beside_small(self, held: int) -> int:
        """Return the limit in bytes on memory outside the fast path's own blocks, and set the allowance of the fast path.

        Without a limit, return `UNLIMITED_BYTES`. The pool itself has `held` bytes, in use and free. The allowance is the limit in bytes on
        the blocks that the fast path allocates without asking (`small_block_bytes`). If the allowance was nearly used up, set
        `is_under_pressure`.
        """
        small, limit = self.small_block_bytes, self.limit_bytes
        if limit != UNLIMITED_BYTES and small[POOLED] and held + small[IN_USE] + small[POOLED] > limit:
            self.release_small_blocks()
        small_held = small[IN_USE] + small[POOLED]
        self.is_under_pressure = self.is_under_pressure or (small[ALLOWED] > GROWTH_BYTES // 2 and self._is_small_near_allowed())
        allowed = small_held + small[IN_USE] // 8 + GROWTH_BYTES
        if limit != UNLIMITED_BYTES:
            limit -= small_held
            allowed = min(allowed, small_held + max(0, limit - held) // 2)
        small[ALLOWED] = allowed
        return limit

    def record_foreign(self, nbytes: int) -> None:
        """Record `nbytes` further bytes of foreign memory kept alive by tensors (`wrap_foreign_memory`). They count until the next
        `reset_pressure`.

        If these bytes and the blocks in use exceed `pressure_bytes`, set `is_under_pressure`.
        """
        self.foreign_bytes += nbytes
        self.is_under_pressure = self.is_under_pressure or self.collect_freed()[0] + self.foreign_bytes > self.pressure_bytes

    def make_block(self, nbytes: int) -> Block | None:
        """Return a new block of exactly `nbytes` bytes from the system, with undefined content.

        Return None if the system has no memory, or for more than the address space. The limits are not checked, and nothing is counted:
        the caller, `assign_block`, does both.
        """
        try:
            self.colour += 1
            if nbytes >= HUGE_PAGE_BYTES:
                colour = self.colour % COLOUR_COUNT * COLOUR_BYTES
                try:
                    raw = map_huge_pages(nbytes + min(nbytes // 2, SPARE_BYTES // 2) + colour, HUGE_PAGE_BYTES)
                except (MemoryError, OSError, ValueError, OverflowError):  # then without room to grow
                    raw = map_huge_pages(nbytes + colour, HUGE_PAGE_BYTES)
                if raw is not None:
                    return raw[colour:], _address(raw) + colour, nbytes
            period = PAGE_BYTES if nbytes >= MIN_STAGGERED_BYTES else ALIGNMENT_BYTES
            raw = np.empty(nbytes + period, np.uint8)
        except (MemoryError, OSError, ValueError, OverflowError):
            return None
        start = (self.colour * START_STAGGER_BYTES - _address(raw)) % period
        return raw[start : start + nbytes], _address(raw) + start, nbytes


def map_huge_pages(nbytes: int, page: int) -> Array | None:
    """Return `nbytes` bytes of new memory from the system, from a multiple of `page` bytes on, in huge pages if possible.

    Return None if the system cannot map memory. The memory is released with the array.
    """
    space = map_memory(nbytes + page)
    if space is None:
        return None
    raw = np.frombuffer(space, np.uint8)
    start = -_address(raw) % page
    advise_huge_pages(space, start, nbytes)
    return raw[start : start + nbytes]


def _address(array: Array) -> int:
    """Return the address of the first byte of `array`."""
    address: int = array.__array_interface__["data"][0]
    return address


def capacity_of(nbytes: int) -> int:
    """Return the block size for a request of `nbytes`: a multiple of 64 bytes, at least 64.

    Above 4096 bytes, the size is rounded up by at most an eighth, so near sizes share blocks.
    """
    if nbytes <= 4096:
        return (nbytes + 63) & -64 if nbytes else 64
    step = 1 << (nbytes.bit_length() - 4)
    return (nbytes + step - 1) & -step


pool = Pool()
CacheRecord(
    "free memory",
    "a block without content, kept for reuse, by size",
    __name__,
    lambda: pool.release(pool.pooled),
    lambda: sum(map(len, pool.free_blocks.copy().values())),
    count_bytes=lambda: pool.pooled,
    is_last=True,
)


def _reset_after_fork() -> None:
    """Forget the background thread of the parent, and operations in threads of the parent: none of these exist in the child."""
    pool.has_decay_thread, pool.wake_queue, pool.large_block_refs, pool._operations_in_progress = False, None, set(), set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)  # threads do not exist in the child
