"""Worker threads that share the loops of large kernels with the calling thread.

The threads are started once and then wait for work. Each thread takes chunks of a loop; the assignment of chunks to threads never
changes the result. The work itself is machine code (`work_queue.py`, `codegen/llvm/parallel_for.py`), so a worker wakes up within
microseconds and needs no GIL. `thread_count.py` holds the number of threads.

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

from ..._utils.exclude_user_code import exclude_user_code, start_untraced
from ..._utils.interruptible import chain_signal_atomic, run_interruptible
from ..._utils.locks import make_reentrant_lock
from ..._utils.records import NamedTuple
from .thread_count import num_threads, worker_handle

if TYPE_CHECKING:
    from ...target import ThreadLimits
    from ..llvm.compiler import ArgumentBlock, MachineCode


START_TIMEOUT_S = 10.0  # seconds that a new thread may take to begin
# Workers without work for so many seconds sleep; only up to so many workers are worth a system call each.
SLEEP_AFTER_S, MAX_PLACED_WORKERS = 0.001, 8


class _StartEvent(threading.Event):
    """The event set by a new thread, for which `Thread.start` waits, with a time limit.

    A thread without memory for the first steps never sets the event; without a limit, `Thread.start` would wait for ever.
    """

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event, and return whether it is set.

        Wait at most `timeout` seconds. Without `timeout`, wait for `START_TIMEOUT_S` seconds, and raise RuntimeError if the event is not
        set by then.
        """
        has_begun = super().wait(START_TIMEOUT_S if timeout is None else timeout)
        if timeout is None and not has_begun:
            raise RuntimeError("a worker thread did not begin in time")
        return has_begun


class _Worker(threading.Thread):
    """A worker thread with the number `worker`, from 1 on. The thread calls `serve(worker)`, and then ends.

    `start` waits at most `START_TIMEOUT_S` seconds for the thread to begin, and then raises RuntimeError.
    """

    def __init__(self, serve: Callable[[int], None], worker: int) -> None:
        super().__init__(target=serve, args=(worker,), daemon=True, name=f"tenxor-{worker}")
        self._started = _StartEvent()  # the event that `Thread.start` waits for, in all versions of CPython since 3.3


class _WorkerPool:
    """The worker threads and their work queue. The caller that uses a pool holds the lock `_pool_lock` meanwhile.

    A pool for `count` threads has `count` - 1 workers, or fewer if the system starts no more; the caller is the other thread.
    """

    def __init__(self, count: int) -> None:
        self.workers: list[threading.Thread] = []
        from .work_queue import create_work_queue  # imported with the first loop that is shared

        self.last_used = 0.0  # when the workers last had work, by `monotonic()`
        self.work_queue = create_work_queue()
        try:
            for k in range(1, count):
                self.workers.append(_Worker(self.work_queue.serve, k))
                start_untraced(self.workers[-1])
        except RuntimeError as error:  # the system starts no more threads
            self.workers.pop()
            _warn_once(len(self.workers) + 1, count, error)
        except BaseException:
            self.stop()
            raise

    def __del__(self) -> None:
        """Close the work queue, so that the workers end; do not wait."""
        if "work_queue" in self.__dict__:
            self.work_queue.close(len(self.workers))  # needed if an error kept the owner from calling `stop`

    def prepare_wakeup(self) -> None:
        """Prepare the workers for a loop to be shared now, and record the time in `last_used`; wake no worker.

        Sleeping workers are kept from waking up on the caller's CPU. This is done only if the workers may sleep: they have had no work
        for `SLEEP_AFTER_S` seconds. More than `MAX_PLACED_WORKERS` workers are left alone: a few of many wake up on free CPUs anyway.
        """
        now = monotonic()
        if now - self.last_used > SLEEP_AFTER_S and len(self.workers) <= MAX_PLACED_WORKERS:
            self.work_queue.keep_off_caller_cpu([worker.native_id for worker in self.workers if worker.native_id is not None])
        self.last_used = now

    def stop(self) -> None:
        """End the worker threads, and wait until they have ended."""
        self.work_queue.close(len(self.workers))
        for worker in self.workers:
            with suppress(RuntimeError):  # the start of this thread was interrupted; if it still begins, it finds the queue closed
                worker.join()


_warned = False


def _warn_once(running_count: int, requested_count: int, error: Exception) -> None:
    """Warn, once in a process, that only `running_count` of the `requested_count` threads share large work. `error` is the reason."""
    global _warned
    if not _warned:
        _warned = True
        message = f"tenxor: large work is shared by {running_count} of {requested_count} threads, as the system starts no more ({error})"
        warnings.warn(message, RuntimeWarning, stacklevel=2)


_pool: _WorkerPool | None = None
_pool_lock = make_reentrant_lock()  # held by the caller who uses the workers, or ends them


class LoopProgress:
    """The progress of `parallel_for` through a loop: the iterations from `begin` on are not done yet.

    A loop that must not run twice keeps the object for a later call. `memory_owners` own the memory that the loop reads and
    writes, so that the memory lives as long as this object.
    """

    __slots__ = ("begin", "memory_owners")

    def __init__(self, memory_owners: object = None) -> None:
        self.begin, self.memory_owners = 0, memory_owners


def parallel_for(
    code: MachineCode,
    args: ArgumentBlock,
    extent: int,
    work: int,
    grain: int,
    sharing: ThreadLimits,
    request_stop: Callable[[], object] | None = None,
    *,
    single_threaded: bool,
    resumed: LoopProgress | None = None,
    thread_limit: int = 0,
) -> None:
    """Run the split loop of a kernel over `0..extent`, or from `resumed.begin` on, on all threads or only on the calling thread.

    The LLVM back end calls this function to launch a large kernel. `code` is the kernel, and `args` are the packed arguments. `work` is the
    approximate cost of the whole loop, in additions. Chunks and slices are multiples of `grain` iterations. `sharing` has the limits of the
    target. With `single_threaded`, only the calling thread runs. `thread_limit` is the number of threads for which there is scratch memory
    (0: any number). If a signal handler has raised the number of threads above `thread_limit`, the calling thread runs alone.

    The loop runs in slices of about `sharing.slice_seconds` seconds, since Python handles signals, such as Ctrl-C, only between slices.
    The length of a slice follows from the measured speed of the kernel (`code.slice_work`). If `work` is 0, the loop is a single slice.
    `request_stop()`, if given, makes the running kernel return early. Then a slice with more work than `sharing.first_slice_work` runs in a
    new thread (`interruptible.run_interruptible`), and the caller can be interrupted.

    With `resumed`, the loop must not run twice. If an error interrupts this call between slices, a later call with the same `resumed` runs
    the rest.
    """
    slice_work = code.slice_work or sharing.first_slice_work
    # The least number of iterations in a slice gives each thread a grain.
    min_slice = grain if single_threaded else grain * num_threads()
    progress = resumed or LoopProgress()
    while progress.begin < extent:  # a signal handler that runs between two slices may have advanced `progress.begin`
        begin = progress.begin
        end, started = min(extent, begin + max(1, extent * slice_work // max(1, work * min_slice)) * min_slice), monotonic()
        run = partial(
            _run_range,
            code,
            args,
            begin,
            end,
            grain,
            sharing,
            progress,
            single_threaded=single_threaded,
            runs_once=resumed is not None,
            thread_limit=thread_limit,
        )
        if request_stop is not None and work * (end - begin) > sharing.first_slice_work * extent:
            run_interruptible(run, request_stop)
        else:
            run()
        seconds = max(monotonic() - started, 1e-6)
        slice_work = int(min(slice_work * sharing.max_slice_growth, work * (end - begin) / extent * sharing.slice_seconds / seconds)) + 1
    if work:
        code.slice_work = slice_work


def _run_range(
    code: MachineCode,
    args: ArgumentBlock,
    begin: int,
    end: int,
    grain: int,
    sharing: ThreadLimits,
    progress: LoopProgress,
    *,
    single_threaded: bool,
    runs_once: bool,
    thread_limit: int,
) -> None:
    """Run one slice of `parallel_for`: the kernel `code` for `begin..end`. Then set `progress.begin` to `end`.

    Do nothing if `progress.begin` is not `begin` any more, because a signal handler has run the slice. `progress` is the progress of
    the whole loop. `runs_once` is true if `parallel_for` was called with `resumed`. `parallel_for` describes the remaining arguments.

    The workers take part unless `single_threaded` is set, the range is no longer than `grain`, or there are more threads than
    `thread_limit` (if not 0). With `runs_once`, they take part only if the loop is a single C call. The lock `_pool_lock` is held
    meanwhile, so no other caller uses the workers.
    """
    with _pool_lock:
        run: Callable[[], object] = partial(code.call_without_gil, args, begin, end, 0)
        if not single_threaded and num_threads() > 1 and end - begin > grain:
            pool = _get_pool()
            pool.prepare_wakeup()
            if (pool.work_queue.is_native or not runs_once) and not 0 < thread_limit <= len(pool.workers):
                run = pool.work_queue.bind_loop(code, args, begin, end, compute_chunk_size(end - begin, grain, sharing), len(pool.workers))
        calls = chain_signal_atomic(run, partial(setattr, progress, "begin", end))
        # Otherwise a signal handler has run these iterations. From this test on, no handler runs before both calls are made.
        if progress.begin == begin:
            list(calls)


class WorkerHandle(NamedTuple):
    """The three integers by which machine code shares a loop with the workers, as stored in `thread_count.worker_handle`.

    The fields are the address of the function `share` of `codegen/llvm/parallel_for.py`, the address of the work queue, and the number of
    workers. All are 0 if no worker may be used.
    """

    parallel_for_address: int
    queue_address: int
    worker_count: int


NO_WORKERS = WorkerHandle(0, 0, 0)


@contextmanager
def reserve_workers() -> Iterator[WorkerHandle | None]:
    """Reserve the workers for the body of a `with` statement: no other caller uses them meanwhile. Start missing workers.

    The value of the `with` statement is the handle for machine code, or None without workers, or with a work
    queue in Python.
    """
    with _pool_lock:
        pool = _get_pool()
        pool.prepare_wakeup()
        yield _make_worker_handle(pool)


def compute_chunk_size(extent: int, grain: int, sharing: ThreadLimits) -> int:
    """Return the size of a chunk: how many iterations of a shared loop of `extent` iterations a thread takes at once.

    The size is a multiple of `grain`, at least `grain`, so that each thread gets about `sharing.chunks_per_thread` chunks.
    """
    return -(-extent // (num_threads() * sharing.chunks_per_thread * grain)) * grain


def _get_pool() -> _WorkerPool:
    """Return the pool of this process. The first call starts its threads, and tells machine code how to reach them
    (`thread_count.worker_handle`). The caller must hold `_pool_lock`.
    """
    global _pool
    if _pool is None:
        _pool = _WorkerPool(num_threads())
        worker_handle[:] = list(_make_worker_handle(_pool) or NO_WORKERS)
    return _pool


def _make_worker_handle(pool: _WorkerPool) -> WorkerHandle | None:
    """Return the addresses by which machine code reaches the workers of `pool`; None without workers, or with a work queue in Python."""
    from .work_queue import NativeWorkQueue

    queue = pool.work_queue
    return (
        WorkerHandle(queue.share_address, queue.address, len(pool.workers)) if isinstance(queue, NativeWorkQueue) and pool.workers else None
    )


@atexit.register
def stop_pool() -> None:
    """End the worker threads, and wait: at exit, and before the number of threads changes. A later loop starts new workers."""
    global _pool
    # The thread does not hold the lock of computations here. So no user code may run while it holds this lock, as user code may compute.
    with exclude_user_code(), _pool_lock:
        worker_handle[:] = list(NO_WORKERS)
        pool, _pool = _pool, None  # cleared first, as the wait may be interrupted
        if pool is not None:
            pool.stop()


def _reset_pool_after_fork() -> None:
    """Forget the pool and its lock in a forked process, which has no worker threads."""
    global _pool, _pool_lock
    worker_handle[:] = list(NO_WORKERS)
    _pool, _pool_lock = None, make_reentrant_lock()  # a fork copies only the calling thread


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pool_after_fork)
