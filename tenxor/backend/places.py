"""Where helpers meet the caller: each takes pieces of a loop until none is left."""

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
    """`in_c` tells whether a loop is one call of C, in which no signal is heard."""

    in_c: bool

    def loop(self, code: MachineCode, args: Block, begin: int, end: int, piece: int, helpers: int) -> Callable[[], object]:
        """What runs a kernel for all of `begin..end`; nobody is at work any more when it returns."""
        ...

    def wake_apart(self, helpers: Iterable[int]) -> None:
        """See that helpers who sleep, by the system's numbers, wake up on another CPU than the caller's."""
        ...

    def serve(self, worker: int) -> None:
        """Help until all are sent home. Who is here holds this object, whatever became of others."""
        ...

    def close(self, helpers: int) -> None:
        """Send home so many helpers, and whoever comes later."""
        ...


def place() -> Place:
    """A new place, of machine code where the system has semaphores for that."""
    from .llvm.compiler import compiler

    code = compiler().sharing()
    return PlainPlace() if code is None else MachinePlace(code)


class MachinePlace:
    """A block of memory, and the machine code that is run there (`llvm/sharing.py`): helpers need no lock of Python's."""

    in_c = True

    def __init__(self, code: Any) -> None:
        from .llvm.sharing import CPU_BYTES, CPUS, MEETING_PLACE, PLACED

        self._code = code  # which lives as long as this does
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

    def loop(self, code: MachineCode, args: Block, begin: int, end: int, piece: int, helpers: int) -> Callable[[], object]:
        """See `Place`."""
        return partial(self.share, self.address, code.address, args, begin, end, piece, helpers)

    def wake_apart(self, helpers: Iterable[int]) -> None:
        """See `Place`."""
        place_apart(helpers, self._allowed)
        self._placed.value += 1  # before they are woken: then they are free again

    def serve(self, worker: int) -> None:
        """See `Place`."""
        self._serve(self.address, worker)

    def close(self, helpers: int) -> None:
        """See `Place`."""
        self._stop(self.address, helpers)


class _Job(NamedTuple):
    code: MachineCode
    args: Block
    begins: list[int]  # of the pieces, the last first
    piece: int
    end: int

    def work(self, worker: int) -> None:
        """Take pieces until none is left. To take one is one step, whatever is raised or called in between."""
        begins = self.begins
        while begins:
            try:
                begin = begins.pop()
            except IndexError:
                break
            self.code.call_free(self.args, begin, min(begin + self.piece, self.end), worker)


class PlainPlace:
    """The same with Python's own locks, for systems that have nothing better."""

    in_c = False

    def __init__(self) -> None:
        self.tokens = threading.Semaphore(0)
        self.changed = threading.Condition()
        self.job: _Job | None = None
        self.inside, self.open = 0, True

    def loop(self, code: MachineCode, args: Block, begin: int, end: int, piece: int, helpers: int) -> Callable[[], object]:
        """See `Place`."""
        return partial(self.share, _Job(code, args, list(range(begin, end, piece))[::-1], piece, end), helpers)

    def share(self, job: _Job, helpers: int) -> None:
        """Work on a job with so many helpers. If that is broken off no new piece is begun, and helpers are waited for all the same."""
        try:
            self.job = job
            if helpers:
                self.tokens.release(helpers)
            job.work(0)
        finally:
            self.leave(job)

    def leave(self, job: _Job) -> None:
        """Wait until no helper is at work on a job, however often that is broken off."""
        broken: BaseException | None = None
        while True:
            try:
                job.begins.clear()
                with self.changed:
                    self.job = None
                    self.changed.wait_for(lambda: self.inside == 0)
                break
            except BaseException as error:
                broken = error
        if broken is not None:
            raise broken

    def wake_apart(self, helpers: Iterable[int]) -> None:
        """See `Place`: this is for systems that are not told."""

    def serve(self, worker: int) -> None:
        """See `Place`."""
        while True:
            self.tokens.acquire()
            with self.changed:
                if not self.open:
                    return
                job = self.job
                self.inside += job is not None
            if job is not None:
                try:
                    job.work(worker)
                finally:
                    with self.changed:
                        self.inside -= 1
                        self.changed.notify_all()

    def close(self, helpers: int) -> None:
        """See `Place`."""
        self.open = False
        self.tokens.release(max(helpers, 1))
