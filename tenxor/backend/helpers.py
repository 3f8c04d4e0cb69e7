"""Worker threads that share the loops of large kernels with the calling thread.

The threads are started once and then wait for work. Each thread takes chunks of a loop; the assignment of chunks to threads never changes
the result. The work itself is machine code (`places.py`, `llvm/sharing.py`), so a worker wakes up within microseconds and needs no GIL.
`threads.py` holds the number of threads.

The system may refuse to start a thread, and Ctrl-C may raise an error wherever Python code runs. So a pool interrupted during its start
stops the workers already running. Workers keep the memory of the work queue alive, and the deallocation of a pool ends the pool's workers.
If the system starts fewer threads than requested, the running ones share the work.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from ..apart import in_one_go, stoppable
from ..locking import reentrant
from ..records import NamedTuple
from ..undisturbed import start_untraced, undisturbed
from .threads import changing, meeting, num_threads

if TYPE_CHECKING:
    from ..target import Sharing
    from .llvm.compiler import Block, MachineCode


START_TIMEOUT_S = 10.0  # seconds that a new thread may take to begin
# Workers without work for so many seconds sleep; only up to so many workers are worth a system call each.
SLEEP_AFTER_S, MAX_PLACED_WORKERS = 0.001, 8


class _StartEvent(threading.Event):
    """The event awaited by `Thread.start`, with a time limit: a thread without memory for its first steps never sets the event."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event, and return whether it is set.

        Wait at most `timeout` seconds. Without `timeout`, wait for `START_TIMEOUT_S` seconds, and raise RuntimeError if the event is not
        set by then.
        """
        has_begun = super().wait(START_TIMEOUT_S if timeout is None else timeout)
        if timeout is None and not has_begun:
            raise RuntimeError("one did not begin")
        return has_begun


class _Worker(threading.Thread):
    """A worker thread; `start` waits at most `START_TIMEOUT_S` seconds for it to begin."""

    def __init__(self, serve: Callable[[int], None], worker: int) -> None:
        super().__init__(target=serve, args=(worker,), daemon=True, name=f"tenxor-{worker}")
        self._started = _StartEvent()  # the event that `Thread.start` waits for, in all versions of CPython since 3.3


class _Pool:
    """The worker threads and their work queue. The caller that uses a pool holds the lock `_pool_lock` meanwhile."""

    def __init__(self, count: int) -> None:
        self.helpers: list[threading.Thread] = []
        from .places import place  # imported with the first loop that is shared

        self.last_used = 0.0  # when the workers last had work, by `monotonic()`
        self.place = place()
        try:
            for k in range(1, count):
                self.helpers.append(_Worker(self.place.serve, k))
                start_untraced(self.helpers[-1])
        except RuntimeError as error:  # the system starts no more threads
            self.helpers.pop()
            _warn_once(len(self.helpers) + 1, count, error)
        except BaseException:
            self.stop()
            raise

    def __del__(self) -> None:
        if "place" in self.__dict__:
            self.place.close(len(self.helpers))  # needed if an error kept the owner from calling `stop`

    def wake(self) -> None:
        """Keep sleeping workers from waking up on the caller's CPU.

        This is done only if the workers may sleep, and are `MAX_PLACED_WORKERS` or fewer: of many workers some wake up on other CPUs
        anyway.
        """
        now = monotonic()
        if now - self.last_used > SLEEP_AFTER_S and len(self.helpers) <= MAX_PLACED_WORKERS:
            self.place.wake_apart([worker.native_id for worker in self.helpers if worker.native_id is not None])
        self.last_used = now

    def stop(self) -> None:
        """End the worker threads, and wait until they have ended."""
        self.place.close(len(self.helpers))
        for worker in self.helpers:
            with suppress(RuntimeError):  # the start of this thread was interrupted; if it still begins, it finds the queue closed
                worker.join()


_warned = False


def _warn_once(running: int, requested: int, error: Exception) -> None:
    """Warn, once in a process, that only `running` of the `requested` threads share large work."""
    global _warned
    if not _warned:
        _warned = True
        message = f"tenxor: large work is shared by {running} of {requested} threads, as the system starts no more ({error})"
        warnings.warn(message, RuntimeWarning, stacklevel=2)


_pool: _Pool | None = None
_pool_lock = reentrant()  # held by the caller who uses the workers, or ends them


class Left:
    """The rest of a loop that must not run twice: the iterations from `begin` on.

    `held` refers to the memory that the loop reads and writes, and so keeps it alive.
    """

    __slots__ = ("begin", "held")

    def __init__(self, held: object = None) -> None:
        self.begin, self.held = 0, held


def share(
    code: MachineCode,
    args: Block,
    extent: int,
    work: int,
    grain: int,
    sharing: Sharing,
    stop: Callable[[], object] | None = None,
    *,
    alone: bool,
    left: Left | None = None,
    threads: int = 0,
) -> None:
    """Run the shared loop of a kernel over `0..extent`, or from `left.begin` on, on all threads or only on the calling thread.

    `args` are the packed arguments. `work` is the approximate cost of the whole loop, in additions. Chunks and slices are multiples of
    `grain`. With `alone`, only the calling thread runs. `threads` is the number of threads for which there is scratch memory (0: any
    number). If a signal handler has raised the number of threads above `threads`, the calling thread runs alone.

    The loop runs in slices of about `sharing.moment` seconds, since Python handles signals, such as Ctrl-C, only between slices. The length
    of a slice follows from the measured speed of the kernel (`code.moment`). If `work` is 0, the loop is a single slice. `stop`, if given,
    makes the kernel return early. Then a slice with more work than `sharing.first` runs in a thread of its own (`apart.stoppable`).

    With `left`, the loop must not run twice. After an interrupt, a later call with the same `left` runs the rest.
    """
    slice_work = code.moment or sharing.first
    # The least number of iterations in a slice gives each thread a grain.
    min_slice = grain if alone else grain * num_threads()
    progress = left or Left()
    while progress.begin < extent:  # a signal handler that runs between two slices may have advanced `progress.begin`
        begin = progress.begin
        end, started = min(extent, begin + max(1, extent * slice_work // max(1, work * min_slice)) * min_slice), monotonic()
        run = partial(
            _run_range, code, args, begin, end, grain, sharing, progress, alone=alone, runs_once=left is not None, threads=threads
        )
        if stop is not None and work * (end - begin) > sharing.first * extent:
            stoppable(run, stop)
        else:
            run()
        seconds = max(monotonic() - started, 1e-6)
        slice_work = int(min(slice_work * sharing.growth, work * (end - begin) / extent * sharing.moment / seconds)) + 1
    if work:
        code.moment = slice_work


def _run_range(
    code: MachineCode,
    args: Block,
    begin: int,
    end: int,
    grain: int,
    sharing: Sharing,
    progress: Left,
    *,
    alone: bool,
    runs_once: bool,
    threads: int,
) -> None:
    """Run a kernel for `begin..end`, and then set `progress.begin` to `end`.

    The workers take part unless `alone` is set, the range is no longer than `grain`, or there are more threads than `threads` (if not 0).
    With `runs_once`, they take part only if the loop is a single C call. The lock `_pool_lock` is held meanwhile, so no other caller uses
    the workers.
    """
    with _pool_lock:
        run: Callable[[], object] = partial(code.call_free, args, begin, end, 0)
        if not alone and num_threads() > 1 and end - begin > grain:
            pool = _get_pool()
            pool.wake()
            if (pool.place.in_c or not runs_once) and not 0 < threads <= len(pool.helpers):
                run = pool.place.loop(code, args, begin, end, piece_of(end - begin, grain, sharing), len(pool.helpers))
        calls = in_one_go(run, partial(setattr, progress, "begin", end))
        # Otherwise a signal handler has run these iterations. From this test on, no handler runs before both calls are made.
        if progress.begin == begin:
            list(calls)


class Helpers(NamedTuple):
    """The means by which machine code shares a loop with the workers, as stored in `threads.meeting`.

    The fields are the address of the function that shares a loop, the address of the work queue, and the number of workers.
    """

    share: int
    place: int
    many: int


NO_WORKERS = Helpers(0, 0, 0)


@contextmanager
def helpers() -> Iterator[Helpers | None]:
    """Reserve the workers for the body of a `with` statement: no other caller uses them meanwhile.

    The context's value tells machine code how to reach the workers. It is None without workers, or with a work queue in Python.
    """
    with _pool_lock:
        pool = _get_pool()
        pool.wake()
        yield _describe_pool(pool)


def piece_of(extent: int, grain: int, sharing: Sharing) -> int:
    """Return how many iterations of a shared loop a thread takes at once: a multiple of `grain`."""
    return -(-extent // (num_threads() * sharing.pieces * grain)) * grain


def _get_pool() -> _Pool:
    """Return the pool of this process. The first call starts its threads, and tells machine code how to reach them (`threads.meeting`)."""
    global _pool
    if _pool is None:
        _pool = _Pool(num_threads())
        meeting[:] = list(_describe_pool(_pool) or NO_WORKERS)
    return _pool


def _describe_pool(pool: _Pool) -> Helpers | None:
    """Return how machine code reaches the workers of a pool; None without workers, or with a work queue in Python."""
    from .places import MachinePlace

    queue = pool.place
    return Helpers(queue.entry, queue.address, len(pool.helpers)) if isinstance(queue, MachinePlace) and pool.helpers else None


@atexit.register
def _stop_pool() -> None:
    """End the worker threads: at exit, and before the number of threads changes."""
    global _pool
    # The thread does not hold the lock of computations here. So no user code may run while it holds this lock, as user code may compute.
    with undisturbed(), _pool_lock:
        meeting[:] = list(NO_WORKERS)
        pool, _pool = _pool, None  # cleared first, as the wait may be interrupted
        if pool is not None:
            pool.stop()


changing.append(_stop_pool)


def _forget_pool() -> None:
    global _pool, _pool_lock
    meeting[:] = list(NO_WORKERS)
    _pool, _pool_lock = None, reentrant()  # a forked child has none of its parent's threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
