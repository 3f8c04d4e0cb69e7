"""Threads: started once, parked, and given pieces of a loop. Which thread runs a piece never changes its result.

What they do there is machine code (`llvm/sharing.py`), so a helper wakes up in microseconds and needs no lock of
Python's. `TENXOR_NUM_THREADS` sets how many there are; else it is the number of CPUs that this process may use.

Threads may be had or not, and Ctrl-C may be heard wherever Python runs. So whoever starts helpers stops those that were started
if it cannot go on; helpers hold the memory that they look at, and a pool that is dropped sends them home. If fewer start than were
asked for, those that did share the work.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import index as as_int
from typing import TYPE_CHECKING

from ..errors import ArgumentError
from ..system import cpus
from ..target import Sharing
from .interface import in_one_go

if TYPE_CHECKING:
    from .llvm.compiler import MachineCode


def _default_count() -> int:
    named = os.environ.get("TENXOR_NUM_THREADS", "")
    return int(named) if named.isdigit() and int(named) > 0 else cpus()


class _Place:
    """The memory in which helpers meet the caller, and the machine code that they run there."""

    def __init__(self) -> None:
        from .llvm.compiler import compiler
        from .llvm.sharing import MEETING_PLACE

        code = self._code = compiler().sharing()  # which lives as long as this does
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        self._memory = ctypes.create_string_buffer(MEETING_PLACE + 64)
        self.address = (ctypes.addressof(self._memory) + 63) & -64
        self.share = ctypes.CFUNCTYPE(None, pointer, pointer, ctypes.c_char_p, *(integer,) * 4)(code["share"])
        self._stop = ctypes.CFUNCTYPE(None, pointer, integer)(code["stop"])
        self._serve = ctypes.CFUNCTYPE(None, pointer, integer)(code["serve"])
        ctypes.CFUNCTYPE(None, pointer)(code["prepare"])(self.address)

    def serve(self, worker: int) -> None:
        """Help until all are sent home. Who is here holds this object, whatever became of the pool."""
        self._serve(self.address, worker)

    def close(self, helpers: int) -> None:
        """Send home so many helpers, and whoever comes later."""
        self._stop(self.address, helpers)


class _Pool:
    """Helpers, and where they meet the caller: one at a time, which holds `_meeting`."""

    def __init__(self, count: int) -> None:
        self.helpers: list[threading.Thread] = []
        self.place = _Place()
        try:
            for k in range(1, count):
                self.helpers.append(threading.Thread(target=self.place.serve, args=(k,), daemon=True, name=f"tenxor-{k}"))
                self.helpers[-1].start()
        except RuntimeError as error:  # the system gives no more
            self.helpers.pop()
            _warn_once(len(self.helpers) + 1, count, error)
        except BaseException:
            self.stop()
            raise

    def __del__(self) -> None:
        if "place" in self.__dict__:
            self.place.close(len(self.helpers))  # also if it was not stopped, as something was raised instead

    def loop(self, kernel: int, args: bytes, begin: int, end: int, piece: int) -> Callable[[], object]:
        """What runs the kernel at an address for all of `begin..end`; nobody is at work any more when it returns."""
        return partial(self.place.share, self.place.address, kernel, args, begin, end, piece, len(self.helpers))

    def stop(self) -> None:
        """Send the helpers home, and wait until they have left."""
        self.place.close(len(self.helpers))
        for helper in self.helpers:
            with suppress(RuntimeError):  # its start was broken off: if it comes yet, it finds the door shut
                helper.join()


_warned = False


def _warn_once(found: int, wanted: int, error: Exception) -> None:
    global _warned
    if not _warned:
        _warned = True
        message = f"tenxor: large work is shared by {found} of {wanted} threads, as the system starts no more ({error})"
        warnings.warn(message, RuntimeWarning, stacklevel=2)


_pool: _Pool | None = None
_meeting = threading.RLock()  # held by whoever has the helpers at work, or sends them home
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
    global _count
    try:
        count = as_int(count)
    except TypeError:
        raise ArgumentError(f"set_num_threads: the count is an integer, not {count!r}") from None
    if count < 1:
        raise ArgumentError(f"set_num_threads: {count} threads cannot work; give at least 1")
    if count != _count:
        _stop_pool()
    _count = count


def share(
    code: MachineCode, args: bytes, extent: int, work: int, grain: int, sharing: Sharing, *, alone: bool
) -> None:
    """Run a kernel's shared loop, `0..extent`, on all threads at once, or `alone`; pieces are multiples of `grain`.

    It runs in slices of no more than so much `work`, as the interpreter sees signals (Ctrl-C) only between two of them.
    """
    if extent > 0 and work < sharing.slice and (alone or _count == 1):
        code.call_free(args, 0, extent, 0)
        return
    slices = work // sharing.slice + 1
    step = -(-extent // (slices * grain)) * grain or 1
    for begin in range(0, extent, step):
        with _meeting:
            _loop(code, args, begin, min(extent, begin + step), grain, sharing, alone=alone)()


def share_unbroken(
    code: MachineCode,
    args: bytes,
    extent: int,
    grain: int,
    sharing: Sharing,
    then: Callable[[], object],
    *,
    alone: bool,
) -> None:
    """Run a kernel's outermost loop, and call `then`: see `in_one_go`."""
    with _meeting:
        in_one_go(_loop(code, args, 0, extent, grain, sharing, alone=alone), then)


def _loop(
    code: MachineCode, args: bytes, begin: int, end: int, grain: int, sharing: Sharing, *, alone: bool
) -> Callable[[], object]:
    """What runs a kernel for `begin..end`, with the helpers unless that is too little or to be done alone."""
    if alone or _count == 1 or end - begin <= grain:
        return partial(code.call_free, args, begin, end, 0)
    piece = -(-(end - begin) // (_count * sharing.pieces * grain)) * grain
    return _helped().loop(code.address, args, begin, end, piece)


def _helped() -> _Pool:
    """The pool, with its threads started."""
    global _pool
    if _pool is None:
        _pool = _Pool(_count)
    return _pool


@atexit.register
def _stop_pool() -> None:
    global _pool
    with _meeting:
        pool, _pool = _pool, None  # first, as waiting may be broken off
        if pool is not None:
            pool.stop()


def _forget_pool() -> None:
    global _pool, _meeting
    _pool, _meeting = None, threading.RLock()  # a forked child has none of its parent's threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
