"""Run a long C call in a worker thread, so Ctrl-C interrupts the wait for the call.

Python runs signal handlers in the main thread only, between bytecodes. A long C call, such as a kernel that cannot be cut into slices or a
decomposition by LAPACK, would delay Ctrl-C until it returns. Here a worker thread makes the call, and signals interrupt the main thread's
wait on a lock. The caller decides when a call is long enough: starting a thread costs a tenth of a millisecond. In any other thread the
call is made directly, since Python delivers no signals there.

Automatic garbage collection is off during the call, and the worker thread runs without the callbacks of tracing tools: a finalizer or a
callback could wait for a lock that the main thread holds, while the main thread waits for the worker. The waiting main thread collects
garbage itself, every `GC_INTERVAL_S` seconds.

An abandoned call (`run_abandonable`) may still run when the process exits or forks. OpenBLAS has threads of its own, and crashes or
deadlocks if exit handlers run during a call. So a process with abandoned calls exits without the exit handlers of libraries, and a fork
waits until the abandoned calls have returned.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable, Iterator
from functools import partial
from operator import call
from sys import is_finalizing
from typing import Any, Generic, TypeVar
from weakref import ref

from .exclude_user_code import wrap_untraced
from .lazy import LazyModule

threading = LazyModule("threading")
T = TypeVar("T")
GC_INTERVAL_S = 1.0  # seconds between garbage collections by the waiting main thread: other threads still make garbage
POLL_INTERVAL_S = 0.05  # seconds between checks, after an interrupt, whether the call has returned


def run_interruptible(run: Callable[[], T], stop: Callable[[], object]) -> T:
    """Return `run()`, computed in a worker thread. Outside of the main thread, call `run` directly.

    If a signal handler raises during the wait, call `stop()` every `POLL_INTERVAL_S` seconds until `run` has returned, and raise the
    handler's error. `run` must return soon after the first `stop()`.
    """
    return _run_in_worker(run, stop, must_finish=True)


def run_abandonable(run: Callable[[], T], stop: Callable[[], object]) -> T:
    """Return `run()`, computed in a worker thread, and abandon the thread if the wait is interrupted.

    Outside of the main thread, call `run` directly. If a signal handler raises during the wait, call `stop()` and raise the handler's error
    at once. `run` goes on until it returns or notices `stop()`; the result is discarded. So `run` must hold references to the memory it
    reads, and may write only memory that no other code can reach.
    """
    return _run_in_worker(run, stop, must_finish=False)


def chain_signal_atomic(run: Callable[[], object], followup: Callable[[], object]) -> Iterator[object]:
    """Return an iterator over the results of `run()` and `followup()`, two C functions; no signal handler runs between the two calls.

    `list` of the iterator makes both calls or none. No bytecode runs between the two calls, nor between the call of `list` and the first of
    them.
    """
    call_function: Callable[[Callable[[], object]], object] = call
    return map(call_function, (run, followup))


_abandoned = set["_WorkerCall[Any]"]()  # abandoned calls that still run


class _Token:
    """An unused object given to the thread. A weak reference to the token is dead once the thread has ended."""

    __slots__ = ("__weakref__",)


class _WorkerCall(Generic[T]):
    """A call of `run` in a worker thread, with the outcome: the `result` returned or the `error` raised."""

    def __init__(self, run: Callable[[], T]) -> None:
        self.run: Callable[[], T] | None = run
        self.result: T
        self.error: BaseException | None = None
        self.is_done = False
        self.done_lock = allocate_lock()  # released when the call has returned
        self.done_lock.acquire()
        self.token: Callable[[], _Token | None]

    def make_token(self) -> _Token:
        """Return a token for the thread. `self.token()` is None once the thread has ended, even if it had no memory to begin the call."""
        token = _Token()
        self.token = ref(token)
        return token

    @property
    def is_running(self) -> bool:
        """True if the call has not returned and the thread still exists."""
        return not self.is_done and self.token() is not None

    def execute(self, _: object = None) -> None:
        """Make the call in the current thread, and store the outcome. The argument is unused."""
        assert self.run is not None
        try:
            self.result = self.run()
        except BaseException as error:
            self.error = error
        self.run = None  # frees the objects held by the closure
        self.is_done = True
        _abandoned.discard(self)
        self.done_lock.release()


def _run_in_worker(run: Callable[[], T], stop: Callable[[], object], *, must_finish: bool) -> T:
    """Return `run()`, computed in a worker thread when called from the main thread, and in the current thread otherwise.

    After an interrupt, `stop()` asks the call to end soon. With `must_finish`, the interrupt then waits for the call instead of abandoning
    it.
    """
    if get_ident() != threading.main_thread().ident or is_finalizing():  # a finalizing interpreter starts no threads
        return run()
    gc_was_enabled = gc.isenabled()
    try:
        gc.disable()
        return _await_result(_WorkerCall(run), stop, must_finish=must_finish)
    finally:
        if gc_was_enabled:
            gc.enable()


def _await_result(work: _WorkerCall[T], stop: Callable[[], object], *, must_finish: bool) -> T:
    """Start a worker thread for `work`, and return the result or raise the error of the call.

    After an interrupt, with `must_finish`: call `stop()` until the call has returned; without `must_finish`: call `stop()` once and abandon
    the call. Then raise the error of the interrupt. Raise MemoryError if the thread ended before the call, for lack of memory.
    """
    started = list[int]()
    try:
        # In C, so no signal comes between the start of the thread and its record.
        started.extend(map(start_new_thread, (wrap_untraced(partial(work.execute, work.make_token())),), ((),)))
        while not work.done_lock.acquire(timeout=GC_INTERVAL_S):
            if not (work.is_running or work.is_done):
                raise MemoryError(
                    "tenxor: a worker thread ended before it began its work, for lack of memory; free some memory and call again"
                )
            gc.collect(1)
    except BaseException as error:
        if not started and isinstance(error, RuntimeError):  # the system's limit of threads is reached
            work.execute()
        else:
            interrupt: BaseException = error
            while started and work.is_running:
                try:
                    stop()
                    if not must_finish:
                        _abandoned.add(work)
                        if work.is_done:  # the call returned before `add`, so `execute` could not discard it
                            _abandoned.discard(work)
                        break
                    work.done_lock.acquire(timeout=POLL_INTERVAL_S)
                except BaseException as later_error:
                    interrupt = later_error
            try:
                raise interrupt from None
            finally:
                del interrupt  # breaks the reference cycle from the error through its traceback to this frame
    if work.error is not None:
        try:
            raise work.error
        finally:
            del work  # breaks the reference cycle from `work.error` through its traceback to this frame
    return work.result


def _wait_for_abandoned() -> None:
    """Wait until every abandoned call has returned."""
    while _abandoned:
        for work in list(_abandoned):
            while not work.done_lock.acquire(timeout=POLL_INTERVAL_S) and work.is_running:
                pass
            _abandoned.discard(work)


@atexit.register
def _skip_exit_handlers() -> None:
    """Skip the exit handlers of libraries, but keep the exit status, if abandoned calls still run.

    On systems without `on_exit` in the C library, wait for the abandoned calls instead.
    """
    if _abandoned:
        try:
            libc = ctypes.CDLL(None)
            libc.on_exit(libc._exit, None)
            libc.__cxa_atexit(libc.fflush, None, None)  # runs before `_exit`, as exit handlers run in reverse: flushes C's buffers
        except (AttributeError, OSError, TypeError):
            _wait_for_abandoned()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_abandoned, after_in_child=_abandoned.clear)
