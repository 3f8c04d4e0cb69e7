"""Threads: started once, parked, and given pieces of a loop. Which thread runs a piece never changes its result.

`TENXOR_NUM_THREADS` sets how many there are; else it is the number of CPUs that this process may use.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from operator import index as as_int
from typing import TYPE_CHECKING

from ..errors import ArgumentError

if TYPE_CHECKING:
    from queue import SimpleQueue

_Piece = Callable[[int], None]
PIECES_PER_THREAD = 4  # more pieces than threads, so that a slow one holds up little


def _default_count() -> int:
    named = os.environ.get("TENXOR_NUM_THREADS", "")
    if named.isdigit() and int(named) > 0:
        return int(named)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class _Job:
    """Pieces of work handed out one by one. Helpers may join until the caller closes it.

    The caller may be interrupted anywhere, so it waits by plain locks, which an interrupt leaves as they were.
    """

    __slots__ = ("closed", "error", "guard", "inside", "left", "next_piece", "pieces", "run")

    def __init__(self, run: _Piece, pieces: int) -> None:
        self.run, self.pieces = run, pieces
        self.next_piece = itertools.count()
        self.guard = threading.Lock()
        self.inside = 0  # helpers at work
        self.left = threading.Lock()  # free when the last of them has left a closed job
        self.left.acquire()
        self.closed = False
        self.error: BaseException | None = None

    def work(self) -> None:
        """Run pieces until none is left."""
        try:
            while (k := next(self.next_piece)) < self.pieces:
                self.run(k)
        except BaseException:
            self.pieces = 0  # nobody starts another
            raise

    def help(self) -> None:
        """Work as a helper, unless the caller has gone on already."""
        with self.guard:
            if self.closed:
                return
            self.inside += 1
        try:
            self.work()
        except BaseException as error:
            self.error = error  # the caller raises it
        with self.guard:
            self.inside -= 1
            if self.closed and not self.inside:
                self.left.release()

    def close(self) -> None:
        """Let no more helpers in, and wait for those at work."""
        with self.guard:
            self.closed = True
        while self.inside:
            self.left.acquire()


class _Pool:
    def __init__(self, count: int) -> None:
        from queue import SimpleQueue

        self.count = count
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.helpers = [threading.Thread(target=self._serve, daemon=True, name=f"tenxor-{k}") for k in range(1, count)]
        for helper in self.helpers:
            helper.start()

    def _serve(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.help()
            del job  # it holds on to the caller's memory

    def run(self, piece: _Piece, pieces: int) -> None:
        job = _Job(piece, pieces)
        try:
            for _ in self.helpers:
                self.jobs.put(job)
            job.work()
        finally:
            while True:
                try:
                    job.close()
                    break
                except BaseException as error:  # interrupted, but the helpers still use the caller's memory
                    job.error = error
        if job.error is not None:
            raise job.error

    def stop(self) -> None:
        for _ in self.helpers:
            self.jobs.put(None)


_pool: _Pool | None = None
_count = _default_count()


def num_threads() -> int:
    """How many threads large work is shared by.

    >>> import tenxor as tx
    >>> tx.num_threads() >= 1
    True
    """
    return _count


def set_num_threads(count: int) -> None:
    """Share large work by `count` threads from now on; results do not depend on it."""
    global _pool, _count
    try:
        count = as_int(count)
    except TypeError:
        raise ArgumentError(f"set_num_threads: the count is an integer, not {count!r}") from None
    if count < 1:
        raise ArgumentError(f"set_num_threads: {count} threads cannot work; give at least 1")
    if _pool is not None and count != _count:
        _pool.stop()
        _pool = None
    _count = count


def share(run: Callable[[int, int], None], extent: int) -> None:
    """Call `run(begin, end)` for pieces of `0..extent`, on all threads at once."""
    global _pool
    if _count == 1 or extent < 2:
        run(0, extent)
        return
    if _pool is None:
        _pool = _Pool(_count)
    pieces = min(extent, _count * PIECES_PER_THREAD)
    step = -(-extent // pieces)
    if step > 64:
        step = (step + 63) & -64  # whole vectors
    pieces = -(-extent // step)
    _pool.run(lambda k: run(k * step, min(extent, (k + 1) * step)), pieces)


def _forget_pool() -> None:
    global _pool
    _pool = None  # a forked child has none of its parent's threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
