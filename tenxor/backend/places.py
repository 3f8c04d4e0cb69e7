"""The work queue that shares a loop between a caller and the worker threads: each thread takes chunks until none is left."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ..records import NamedTuple
from ..system import may_run_on, place_apart

if TYPE_CHECKING:
    from .llvm.compiler import Block, MachineCode


class Place(Protocol):
    """A work queue. `in_c` tells whether `loop` returns a single C call; during such a call no signal handler runs."""

    in_c: bool

    def loop(self, code: MachineCode, args: Block, begin: int, end: int, chunk_size: int, worker_count: int) -> Callable[[], object]:
        """Return a function that runs a kernel for all of `begin..end`, in chunks of `chunk_size` iterations, with `worker_count` workers.

        When the function returns, no worker is still running the kernel.
        """
        ...

    def wake_apart(self, thread_ids: Iterable[int]) -> None:
        """Make the sleeping workers with the native `thread_ids` wake up on other CPUs than the caller's."""
        ...

    def serve(self, worker: int) -> None:
        """Run in a worker thread, number `worker`: help with loops until the queue is closed.

        The thread refers to this object meanwhile, so the object outlives its pool if need be.
        """
        ...

    def close(self, worker_count: int) -> None:
        """Close the queue, and wake `worker_count` workers, so that they end; a worker that comes later ends at once."""
        ...


def place() -> Place:
    """Return a new work queue: in machine code, or in Python on systems without the necessary semaphores."""
    from .llvm.compiler import compiler

    code = compiler().sharing()
    return PlainPlace() if code is None else MachinePlace(code)


class MachinePlace:
    """A work queue in machine code (`llvm/sharing.py`), on a block of memory. Workers do not need the GIL."""

    in_c = True

    def __init__(self, code: Any) -> None:
        from .llvm.sharing import CPU_BYTES, CPUS, MEETING_PLACE, PLACED

        self._code = code  # keeps the machine code alive
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        self._memory = ctypes.create_string_buffer(MEETING_PLACE + 64)
        self.address = (ctypes.addressof(self._memory) + 63) & -64
        self.entry: int = code["share"]
        self.share = ctypes.CFUNCTYPE(None, pointer, pointer, ctypes.c_char_p, *(integer,) * 4)(self.entry)
        self._stop = ctypes.CFUNCTYPE(None, pointer, integer)(code["stop"])
        self._serve = ctypes.CFUNCTYPE(None, pointer, integer)(code["serve"])
        ctypes.CFUNCTYPE(None, pointer)(code["prepare"])(self.address)
        self._placed = integer.from_address(self.address + PLACED)
        self._allowed = frozenset(cpu for cpu in may_run_on() if cpu < 8 * CPU_BYTES)
        cpus = sum([1 << cpu for cpu in self._allowed]).to_bytes(CPU_BYTES, sys.byteorder)
        ctypes.memmove(self.address + CPUS, cpus, CPU_BYTES)

    def loop(self, code: MachineCode, args: Block, begin: int, end: int, chunk_size: int, worker_count: int) -> Callable[[], object]:
        """Return a C call that runs a kernel for all of `begin..end`; see `Place.loop`."""
        return partial(self.share, self.address, code.address, args, begin, end, chunk_size, worker_count)

    def wake_apart(self, thread_ids: Iterable[int]) -> None:
        """Keep sleeping workers away from the caller's CPU until they are awake."""
        place_apart(thread_ids, self._allowed)
        self._placed.value += 1  # counted before the workers wake up; each of them then removes its restriction

    def serve(self, worker: int) -> None:
        """Run the loop of a worker thread, in machine code, until the queue is closed."""
        self._serve(self.address, worker)

    def close(self, worker_count: int) -> None:
        """Close the queue, and wake `worker_count` workers, so that they end."""
        self._stop(self.address, worker_count)


class _Job(NamedTuple):
    """A loop to share: a kernel, its packed arguments, and the chunks not yet taken."""

    code: MachineCode
    args: Block
    begins: list[int]  # where the chunks begin, the last chunk first
    chunk_size: int
    end: int

    def work(self, worker: int) -> None:
        """Run chunks until none is left. Taking a chunk is atomic, whatever a signal handler raises or calls in between."""
        begins = self.begins
        while begins:
            try:
                begin = begins.pop()
            except IndexError:
                break
            self.code.call_free(self.args, begin, min(begin + self.chunk_size, self.end), worker)


class PlainPlace:
    """A work queue with Python's own locks, for systems without semaphores for machine code."""

    in_c = False

    def __init__(self) -> None:
        self.tokens = threading.Semaphore(0)
        self.changed = threading.Condition()
        self.job: _Job | None = None
        self.workers_inside, self.open = 0, True

    def loop(self, code: MachineCode, args: Block, begin: int, end: int, chunk_size: int, worker_count: int) -> Callable[[], object]:
        """Return a function that runs a kernel for all of `begin..end`; see `Place.loop`. Signal handlers may run in between."""
        return partial(self.share, _Job(code, args, list(range(begin, end, chunk_size))[::-1], chunk_size, end), worker_count)

    def share(self, job: _Job, worker_count: int) -> None:
        """Run a job together with `worker_count` workers.

        If an error interrupts the caller, no new chunk begins, and the workers are still waited for.
        """
        try:
            self.job = job
            if worker_count:
                self.tokens.release(worker_count)
            job.work(0)
        finally:
            self.leave(job)

    def leave(self, job: _Job) -> None:
        """Wait until no worker is running the job, however often the wait is interrupted; then raise the last error of an interrupt."""
        last_error: BaseException | None = None
        while True:
            try:
                job.begins.clear()
                with self.changed:
                    self.job = None
                    self.changed.wait_for(lambda: self.workers_inside == 0)
                break
            except BaseException as error:
                last_error = error
        if last_error is not None:
            raise last_error

    def wake_apart(self, thread_ids: Iterable[int]) -> None:
        """Do nothing: on these systems threads cannot be placed on CPUs."""

    def serve(self, worker: int) -> None:
        """Run the loop of a worker thread: wait for jobs, and run their chunks, until the queue is closed."""
        while True:
            self.tokens.acquire()
            with self.changed:
                if not self.open:
                    return
                job = self.job
                self.workers_inside += job is not None
            if job is not None:
                try:
                    job.work(worker)
                finally:
                    with self.changed:
                        self.workers_inside -= 1
                        self.changed.notify_all()

    def close(self, worker_count: int) -> None:
        """Close the queue, and wake `worker_count` workers, but at least one, so that they end."""
        self.open = False
        self.tokens.release(max(worker_count, 1))
