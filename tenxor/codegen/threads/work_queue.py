"""The work queue, through which a calling thread shares a loop with the worker threads: each thread takes chunks until none is left.

A chunk is a range of iterations of the split loop of one kernel (`Kernel.split_axis`). One queue is in machine code, and one
in Python.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ..._utils.process import avoid_current_cpu, get_allowed_cpus
from ..._utils.records import NamedTuple

if TYPE_CHECKING:
    from ..llvm.compiler import ArgumentBlock, MachineCode


class WorkQueue(Protocol):
    """A work queue for one loop at a time, used by a pool of worker threads (`worker_pool.py`).

    `is_native` tells whether the function from `bind_loop` is a single C call, in which no signal handler runs. The caller is thread
    number 0 of a kernel, and workers have the numbers from 1 on. The range `begin..end` is without `end`.
    """

    is_native: bool

    def bind_loop(
        self, code: MachineCode, args: ArgumentBlock, begin: int, end: int, chunk_size: int, worker_count: int
    ) -> Callable[[], object]:
        """Return a function that runs the kernel `code` for all of `begin..end`, on the calling thread and `worker_count` workers.

        The threads take chunks of `chunk_size` iterations. `args` are the packed arguments of the kernel. The function takes no arguments,
        and its result is not used. When the function returns, no worker is still running the kernel.
        """
        ...

    def keep_off_caller_cpu(self, thread_ids: Iterable[int]) -> None:
        """Keep the sleeping workers with the native ids `thread_ids` from waking up on the caller's CPU next time; wake none of them.

        Do nothing where threads cannot be placed.
        """
        ...

    def serve(self, worker: int) -> None:
        """Run chunks of every shared loop, in a worker thread with the number `worker`; return when the queue is closed.

        The method is the whole work of the thread. The thread refers to this object meanwhile, so the object outlives its pool if need be.
        """
        ...

    def close(self, worker_count: int) -> None:
        """Close the queue, and wake `worker_count` workers, so that they end; a worker that comes later ends at once."""
        ...


def create_work_queue() -> WorkQueue:
    """Return a new work queue for a pool of workers: in machine code, or in Python on systems without the necessary semaphores."""
    from ..llvm.compiler import compiler

    code = compiler().load_parallel_for()
    return PythonWorkQueue() if code is None else NativeWorkQueue(code)


class NativeWorkQueue:
    """A work queue in machine code (`codegen/llvm/parallel_for.py`), whose state is a block of memory. Workers do not need the GIL.

    `code` maps the function names of `parallel_for.FUNCTION_NAMES` to addresses (`Compiler.load_parallel_for`). `address` is the address of
    the block, and `share_address` the address of the function `share`.
    """

    is_native = True

    def __init__(self, code: Any) -> None:
        from ..llvm.parallel_for import CPU_MASK_BYTES, CPU_MASK_OFFSET, PLACEMENT_COUNT_OFFSET, WORK_QUEUE_BYTES

        self._code = code  # keeps the machine code alive
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        self._memory = ctypes.create_string_buffer(WORK_QUEUE_BYTES + 64)
        self.address = (ctypes.addressof(self._memory) + 63) & -64
        self.share_address: int = code["share"]
        self.share_loop = ctypes.CFUNCTYPE(None, pointer, pointer, ctypes.c_char_p, *(integer,) * 4)(self.share_address)
        self._stop_function = ctypes.CFUNCTYPE(None, pointer, integer)(code["stop"])
        self._serve_function = ctypes.CFUNCTYPE(None, pointer, integer)(code["serve"])
        ctypes.CFUNCTYPE(None, pointer)(code["prepare"])(self.address)
        self._placement_count = integer.from_address(self.address + PLACEMENT_COUNT_OFFSET)
        self._allowed_cpus = frozenset(cpu for cpu in get_allowed_cpus() if cpu < 8 * CPU_MASK_BYTES)
        cpus = sum([1 << cpu for cpu in self._allowed_cpus]).to_bytes(CPU_MASK_BYTES, sys.byteorder)
        ctypes.memmove(self.address + CPU_MASK_OFFSET, cpus, CPU_MASK_BYTES)

    def bind_loop(
        self, code: MachineCode, args: ArgumentBlock, begin: int, end: int, chunk_size: int, worker_count: int
    ) -> Callable[[], object]:
        """Return a function without arguments, a single C call, that runs the kernel `code` for all of `begin..end`.

        The arguments are those of `WorkQueue.bind_loop`.
        """
        return partial(self.share_loop, self.address, code.address, args, begin, end, chunk_size, worker_count)

    def keep_off_caller_cpu(self, thread_ids: Iterable[int]) -> None:
        """Keep the sleeping workers with the native ids `thread_ids` off the caller's CPU; a worker that wakes up lifts the restriction."""
        avoid_current_cpu(thread_ids, self._allowed_cpus)
        self._placement_count.value += 1  # counted before the workers wake up; each of them then removes its restriction

    def serve(self, worker: int) -> None:
        """Run the loop of the worker thread number `worker`, in machine code without the GIL, until the queue is closed."""
        self._serve_function(self.address, worker)

    def close(self, worker_count: int) -> None:
        """Close the queue, and wake `worker_count` workers, so that they end; do not wait for them."""
        self._stop_function(self.address, worker_count)


class _Job(NamedTuple):
    """A loop shared by a `PythonWorkQueue`: a kernel, the packed arguments, and the chunks not taken yet.

    A chunk has `chunk_size` iterations, or fewer at the end of the loop. Iteration `end` does not run.
    """

    code: MachineCode
    args: ArgumentBlock
    chunk_begins: list[int]  # where the chunks begin, the last chunk first
    chunk_size: int
    end: int

    def run_chunks(self, worker: int) -> None:
        """Take chunks and run them, in the thread number `worker` (0 for the caller), until none is left.

        Taking a chunk is atomic, whatever a signal handler raises or calls in between.
        """
        begins = self.chunk_begins
        while begins:
            try:
                begin = begins.pop()
            except IndexError:
                break
            self.code.call_without_gil(self.args, begin, min(begin + self.chunk_size, self.end), worker)


class PythonWorkQueue:
    """A work queue (`WorkQueue`) with Python's own locks, for systems without semaphores for machine code.

    `wakeup_tokens` has a token for each worker to wake, `job` is the loop now shared, and `workers_inside` counts the workers in the loop.
    """

    is_native = False

    def __init__(self) -> None:
        self.wakeup_tokens = threading.Semaphore(0)
        self.state_changed = threading.Condition()
        self.job: _Job | None = None
        self.workers_inside, self.is_open = 0, True

    def bind_loop(
        self, code: MachineCode, args: ArgumentBlock, begin: int, end: int, chunk_size: int, worker_count: int
    ) -> Callable[[], object]:
        """Return a function without arguments that runs the kernel `code` for all of `begin..end`. Signal handlers may run in between.

        The arguments are those of `WorkQueue.bind_loop`.
        """
        return partial(self.share_loop, _Job(code, args, list(range(begin, end, chunk_size))[::-1], chunk_size, end), worker_count)

    def share_loop(self, job: _Job, worker_count: int) -> None:
        """Run the loop `job` in the calling thread, together with `worker_count` workers; return when all chunks are done.

        If an error interrupts the caller, no new chunk begins, and the workers are still waited for.
        """
        try:
            self.job = job
            if worker_count:
                self.wakeup_tokens.release(worker_count)
            job.run_chunks(0)
        finally:
            self.wait_for_workers(job)

    def wait_for_workers(self, job: _Job) -> None:
        """Take back the chunks of `job` not taken yet, and wait until no worker runs a chunk, however often a signal interrupts.

        Then raise the last error of a signal handler during the wait, if there was an error.
        """
        last_error: BaseException | None = None
        while True:
            try:
                job.chunk_begins.clear()
                with self.state_changed:
                    self.job = None
                    self.state_changed.wait_for(lambda: self.workers_inside == 0)
                break
            except BaseException as error:
                last_error = error
        if last_error is not None:
            raise last_error

    def keep_off_caller_cpu(self, thread_ids: Iterable[int]) -> None:
        """Do nothing: on these systems threads cannot be placed on CPUs."""

    def serve(self, worker: int) -> None:
        """Run the loop of the worker thread number `worker`: wait for a shared loop, and run chunks, until the queue is closed."""
        while True:
            self.wakeup_tokens.acquire()
            with self.state_changed:
                if not self.is_open:
                    return
                job = self.job
                self.workers_inside += job is not None
            if job is not None:
                try:
                    job.run_chunks(worker)
                finally:
                    with self.state_changed:
                        self.workers_inside -= 1
                        self.state_changed.notify_all()

    def close(self, worker_count: int) -> None:
        """Close the queue, and wake `worker_count` workers, but at least one, so that they end; do not wait for them."""
        self.is_open = False
        self.wakeup_tokens.release(max(worker_count, 1))
