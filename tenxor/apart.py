"""Work in which no signal is heard, in a thread of its own, so that who waits for it hears them.

Python hears signals in its main thread alone, between two steps of Python's. One call of C that takes long - a kernel whose loop cannot
be cut into slices, a decomposition of NumPy's - would have Ctrl-C wait for its end. So it runs elsewhere, and the main thread waits for it
in a way that signals break off. What takes long enough for that is for the caller to say: starting a thread takes a tenth of
a millisecond. In other threads, where nothing is heard anyway, the work is done where it is.

Nothing is collected there: what is called when garbage goes may want a lock that the main thread has, which waits.

Work that was dropped may still be at it when the process ends, or is forked. Libraries tidy up then, and OpenBLAS, which has threads of
its own, crashes or waits for ever if one of them is at work. So such a process ends without tidying up, and forks when the work is done.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterator
from operator import call
from sys import is_finalizing
from threading import get_ident, main_thread
from typing import Any, Generic, TypeVar
from weakref import ref

T = TypeVar("T")
COLLECTED = 1.0  # seconds between collections in the main thread while it waits, as others make garbage
AGAIN = 0.05  # seconds after which is looked whether it is over, if whoever waits was disturbed


def stoppable(run: Callable[[], T], stop: Callable[[], object]) -> T:
    """What `run()` returns. Whatever is raised meanwhile is raised when that has ended, which it does soon once `stop()` was called."""
    return _apart(run, stop, soon=True)


def droppable(run: Callable[[], T], stop: Callable[[], object]) -> T:
    """The same, but what is raised meanwhile is raised at once. The work goes on to its end, or until it sees that `stop()` was
    called, and nobody learns what came of it. So it holds what it reads, and writes what nobody else can read.
    """
    return _apart(run, stop, soon=False)


def in_one_go(run: Callable[[], object], then: Callable[[], object]) -> Iterator[object]:
    """What calls two functions of C when it is made a list: both, or neither. Nothing is interpreted between the two, nor between
    asking for the list and the first, so no signal is heard there.
    """
    each: Callable[[Callable[[], object]], object] = call
    return map(each, (run, then))


_dropped = set["_Work[Any]"]()  # what goes on, though nobody waits for it


class _Token:
    """What a thread is given that does nothing with it: it dies with the thread."""

    __slots__ = ("__weakref__",)


class _Work(Generic[T]):
    """What runs apart, and what came of it."""

    def __init__(self, run: Callable[[], T]) -> None:
        self.run: Callable[[], T] | None = run
        self.result: T
        self.error: BaseException | None = None
        self.over = False
        self.door = allocate_lock()  # shut until it is over
        self.door.acquire()
        self.token: Callable[[], _Token | None]

    def given(self) -> _Token:
        """What the thread is to be given, by which it is known to have ended even if it finds no memory for its first step."""
        found = _Token()
        self.token = ref(found)
        return found

    @property
    def goes_on(self) -> bool:
        """Whether it is not over, and its thread is still there."""
        return not self.over and self.token() is not None

    def do(self, _: object = None) -> None:
        """Do it, here."""
        assert self.run is not None
        try:
            self.result = self.run()
        except BaseException as error:
            self.error = error
        self.run = None  # nor what that holds
        self.over = True
        _dropped.discard(self)
        self.door.release()


def _apart(run: Callable[[], T], stop: Callable[[], object], *, soon: bool) -> T:
    if get_ident() != main_thread().ident or is_finalizing():  # when no thread begins any more
        return run()
    collects = gc.isenabled()
    try:
        gc.disable()
        return _awaited(_Work(run), stop, soon=soon)
    finally:
        if collects:
            gc.enable()


def _awaited(work: _Work[T], stop: Callable[[], object], *, soon: bool) -> T:
    started = list[int]()
    try:
        started.extend(map(start_new_thread, (work.do,), ((work.given(),),)))  # in C: what has begun is known, whatever is raised then
        while not work.door.acquire(timeout=COLLECTED):
            if not (work.goes_on or work.over):
                raise MemoryError("tenxor: a thread found no memory to begin with")
            gc.collect(1)
    except BaseException as error:
        if not started and isinstance(error, RuntimeError):  # the system starts no more
            work.do()
        else:
            broken: BaseException = error
            while started and work.goes_on:
                try:
                    stop()
                    if not soon:
                        _dropped.add(work)
                        if work.over:  # just before, so it is nobody's to take it out again
                            _dropped.discard(work)
                        break
                    work.door.acquire(timeout=AGAIN)
                except BaseException as another:
                    broken = another
            try:
                raise broken from None
            finally:
                del broken  # which has this frame, and all that it holds
    if work.error is not None:
        try:
            raise work.error
        finally:
            del work  # whose error has this frame
    return work.result


def _settled() -> None:
    """Wait until nothing that was dropped goes on."""
    while _dropped:
        for work in list(_dropped):
            while not work.door.acquire(timeout=AGAIN) and work.goes_on:
                pass
            _dropped.discard(work)


@atexit.register
def _left() -> None:
    """Have the process end at once, with its status, when Python has ended: where the system cannot do that, when the work is done."""
    if _dropped:
        try:
            system = ctypes.CDLL(None)
            system.on_exit(system._exit, None)
            system.__cxa_atexit(system.fflush, None, None)  # before that: what was written in C
        except (AttributeError, OSError, TypeError):
            _settled()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_settled, after_in_child=_dropped.clear)
