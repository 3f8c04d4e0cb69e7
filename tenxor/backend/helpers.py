"""Threads: started once, parked, and given pieces of a loop. Which thread runs a piece never changes its result.

What they do there is machine code (`places.py`, `llvm/sharing.py`), so a helper wakes up in microseconds and needs no lock of
Python's. How many there are is in `threads.py`.

Threads may be had or not, and Ctrl-C may be heard wherever Python runs. So whoever starts helpers stops those that were started
if it cannot go on; helpers hold the memory that they look at, and a pool that is dropped sends them home. If fewer start than were
asked for, those that did share the work.
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


PATIENCE = 10.0  # seconds that a thread has to begin
ASLEEP, FEW = 0.001, 8  # seconds after which helpers sleep, and how many are worth a word to the system each


class _Begun(threading.Event):
    """Who starts a thread waits for this; but one that finds no memory for its first steps never says that it has begun."""

    def wait(self, timeout: float | None = None) -> bool:
        found = super().wait(PATIENCE if timeout is None else timeout)
        if timeout is None and not found:
            raise RuntimeError("one did not begin")
        return found


class _Helper(threading.Thread):
    """A thread whose start is not waited for without end."""

    def __init__(self, serve: Callable[[int], None], worker: int) -> None:
        super().__init__(target=serve, args=(worker,), daemon=True, name=f"tenxor-{worker}")
        self._started = _Begun()  # of all versions of CPython since 3.3


class _Pool:
    """Helpers, and where they meet the caller: one at a time, which holds `_meeting`."""

    def __init__(self, count: int) -> None:
        self.helpers: list[threading.Thread] = []
        from .places import place  # with the first work that is shared

        self.met = 0.0  # when they met last
        self.place = place()
        try:
            for k in range(1, count):
                self.helpers.append(_Helper(self.place.serve, k))
                start_untraced(self.helpers[-1])
        except RuntimeError as error:  # the system gives no more
            self.helpers.pop()
            _warn_once(len(self.helpers) + 1, count, error)
        except BaseException:
            self.stop()
            raise

    def __del__(self) -> None:
        if "place" in self.__dict__:
            self.place.close(len(self.helpers))  # also if it was not stopped, as something was raised instead

    def wake(self) -> None:
        """See that helpers who have slept do not wake up on the caller's CPU; with many of them some are elsewhere anyway."""
        now = monotonic()
        if now - self.met > ASLEEP and len(self.helpers) <= FEW:
            self.place.wake_apart([helper.native_id for helper in self.helpers if helper.native_id is not None])
        self.met = now

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
_meeting = reentrant()  # held by whoever has the helpers at work, or sends them home


class Left:
    """What is left of a loop that cannot be run twice: all from `begin` on. It holds what the loop reads and writes."""

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
    """Run a kernel's shared loop, `0..extent` or what is `left` of it, on all threads at once, or `alone`; pieces are multiples of
    `grain`. If it has memory for so many `threads`, and there are others when a signal's handler has run, it goes on alone.

    It runs in slices that take a moment, as the interpreter sees signals (Ctrl-C) only between two of them; how much `work` that is
    for this kernel is found out as it runs; no work is one slice. A slice that takes longer runs apart, if `stop()` stops the kernel.
    """
    moment = code.moment or sharing.first
    least = grain if alone else grain * num_threads()  # of a slice: each thread has some of it
    done = left or Left()
    while done.begin < extent:  # what a signal calls between two slices may have gone on with it
        begin = done.begin
        end, started = min(extent, begin + max(1, extent * moment // max(1, work * least)) * least), monotonic()
        run = partial(_met, code, args, begin, end, grain, sharing, done, alone=alone, once=left is not None, threads=threads)
        if stop is not None and work * (end - begin) > sharing.first * extent:
            stoppable(run, stop)
        else:
            run()
        took = max(monotonic() - started, 1e-6)
        moment = int(min(moment * sharing.growth, work * (end - begin) / extent * sharing.moment / took)) + 1
    if work:
        code.moment = moment


def _met(
    code: MachineCode,
    args: Block,
    begin: int,
    end: int,
    grain: int,
    sharing: Sharing,
    done: Left,
    *,
    alone: bool,
    once: bool,
    threads: int,
) -> None:
    """Run a kernel for `begin..end`, and say so: with the helpers unless that is too little or to be done `alone`, on no more than so
    many `threads`, unless they are 0, and by a function of C if it may be done only `once`. Nobody else has the helpers at work
    meanwhile: not what a signal calls, either.
    """
    with _meeting:
        run: Callable[[], object] = partial(code.call_free, args, begin, end, 0)
        if not alone and num_threads() > 1 and end - begin > grain:
            pool = _helped()
            pool.wake()
            if (pool.place.in_c or not once) and not 0 < threads <= len(pool.helpers):
                run = pool.place.loop(code, args, begin, end, piece_of(end - begin, grain, sharing), len(pool.helpers))
        ready = in_one_go(run, partial(setattr, done, "begin", end))
        if done.begin == begin:  # else what a signal called was first; now it is too late for one
            list(ready)


class Helpers(NamedTuple):
    """How machine code has loops shared, as `threads.meeting` says it: its address, where it meets the helpers, and how many there are."""

    share: int
    place: int
    many: int


NOBODY = Helpers(0, 0, 0)


@contextmanager
def helpers() -> Iterator[Helpers | None]:
    """While it is open, nobody else has the helpers at work; None if nobody helps, or not by machine code."""
    with _meeting:
        pool = _helped()
        pool.wake()
        yield _reached(pool)


def piece_of(extent: int, grain: int, sharing: Sharing) -> int:
    """How much of a shared loop a thread takes at once: a multiple of `grain`."""
    return -(-extent // (num_threads() * sharing.pieces * grain)) * grain


def _helped() -> _Pool:
    """The pool, with its threads started."""
    global _pool
    if _pool is None:
        _pool = _Pool(num_threads())
        meeting[:] = list(_reached(_pool) or NOBODY)
    return _pool


def _reached(pool: _Pool) -> Helpers | None:
    """How machine code reaches helpers; None if nobody helps, or not by machine code."""
    from .places import MachinePlace

    place = pool.place
    return Helpers(place.entry, place.address, len(pool.helpers)) if isinstance(place, MachinePlace) and pool.helpers else None


@atexit.register
def _stop_pool() -> None:
    global _pool
    with undisturbed(), _meeting:  # not held while computing: no user code that computes may run
        meeting[:] = list(NOBODY)
        pool, _pool = _pool, None  # first, as waiting may be broken off
        if pool is not None:
            pool.stop()


changing.append(_stop_pool)


def _forget_pool() -> None:
    global _pool, _meeting
    meeting[:] = list(NOBODY)
    _pool, _meeting = None, reentrant()  # a forked child has none of its parent's threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
