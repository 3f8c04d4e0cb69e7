"""Sections in which no user code runs on the thread that executes them.

User code can run between two bytecodes of ours: signal handlers (on the main thread), callbacks of tracing tools, and finalizers and
callbacks called by the garbage collector. User code may compute with tensors. So a module is imported, and a lock is held, within
`exclude_user_code()`: signals are handled when the section ends, callbacks of tracing tools are not called, and the collector does not
run. Other threads go on.

On the main thread sections are short: kernels are compiled in a worker thread (`interruptible.py`). docs/reliability.md states the
guarantees.
"""

from __future__ import annotations

import _frozen_importlib
import ctypes
import os
import sys
from _signal import NSIG, getsignal, signal  # type: ignore[import-not-found]  # without the enumerations of `signal`
from _thread import _local, get_ident
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from operator import call
from sys import _getframe
from types import FrameType
from typing import TYPE_CHECKING, Any

from .gc_control import open_pauses, pause_gc, resume_gc

if TYPE_CHECKING:
    import threading

Handler = Callable[[int, FrameType | None], Any]

_thread_state = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))
_enter_tracing = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyThreadState_EnterTracing", ctypes.pythonapi))
_leave_tracing = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyThreadState_LeaveTracing", ctypes.pythonapi))


class _ThreadSections(_local):
    """The sections of a thread: the number of open sections, the C thread state, and the signal handlers replaced meanwhile."""

    depth = 0
    state: int | None = None
    replaced: list[_Deferred]
    may_receive_signals = True  # false once the thread is known not to be the main thread


_module_locks: dict[str, Callable[[], Any]] = getattr(_frozen_importlib, "_module_locks", {})  # of the import system
PACKAGE_PREFIX = __name__.partition(".")[0] + "."
_sections = _ThreadSections()
_arrived_signals: deque[tuple[int, Handler]] = deque()  # signals that arrived during a section, with their handlers


class _Deferred:
    """A replacement for `handler`, the handler of signal `number`.

    The replacement records signals that arrive in a section, and calls `handler` outside of sections.
    """

    __slots__ = ("handler", "number")

    def __init__(self, number: int, handler: Handler) -> None:
        self.number, self.handler = number, handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _sections.depth:
            _arrived_signals.append((number, self.handler))
        else:
            self.handler(number, frame)


def enter_section() -> None:
    """Begin a section, which may be nested. If a signal handler raises an error first, no section has begun."""
    if _sections.depth:
        _sections.depth += 1
        return
    suspended: list[None] = []
    state = _thread_state()
    try:
        suspended.extend(map(_enter_tracing, (state,)))  # in C, so `suspended` tells whether the call was made
        _sections.replaced = _replace_handlers() if _sections.may_receive_signals else []
        _sections.state = state
        _sections.depth = 1
    except BaseException:
        if suspended:
            _leave_tracing(state)
        raise
    pause_gc()


def leave_section() -> None:
    """End a section. After the outermost section of a thread, call the handlers of the signals that arrived meanwhile."""
    if _sections.depth > 1:
        _sections.depth -= 1
        return
    resume_gc()
    replaced = _sections.replaced
    try:
        _sections.depth = 0
        _leave_tracing(_sections.state)
    finally:
        _restore_handlers(replaced)


class exclude_user_code:  # named like a function, as context managers are
    """Open a section: no user code runs on this thread while the context is open."""

    __slots__ = ()

    def __enter__(self) -> None:
        enter_section()

    def __exit__(self, *error: object) -> None:
        leave_section()


def _replace_handlers() -> list[_Deferred]:
    """Replace Python's signal handlers, and return the replacements. Only the main thread may set handlers; the list is empty elsewhere."""
    replacements = []
    for number, handler in enumerate(map(getsignal, range(1, NSIG)), 1):
        if callable(handler):
            # A replacement is found here if an error came before the restoration, or if another thread is in a section.
            deferred = handler if type(handler) is _Deferred else _Deferred(number, handler)
            try:
                signal(number, deferred)
            except ValueError as error:
                if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                    raise  # raised by the handler of a signal at just this moment
                # This is not the main thread.
                _sections.may_receive_signals = False
                break
            replacements.append(deferred)
    return replacements


def _restore_handlers(replaced: list[_Deferred]) -> None:
    """Restore the signal handlers that `replaced` stands for, and call the handlers of arrived signals.

    A handler that user code has set meanwhile stays. `replaced` is emptied, even if a handler raises.
    """
    try:
        while replaced:
            deferred = replaced[-1]
            if getsignal(deferred.number) is deferred:
                signal(deferred.number, deferred.handler)
            replaced.pop()
        _call_arrived()
    finally:
        if replaced:  # a restored handler has raised an error
            _restore_handlers(replaced)


def _call_arrived() -> None:
    """Call the handler of each arrived signal, even if a handler raises."""
    if _arrived_signals and _sections.may_receive_signals:
        number, handler = _arrived_signals.popleft()
        try:
            handler(number, _getframe(1))
        finally:
            _call_arrived()


def wrap_untraced(function: Callable[[], object]) -> Callable[[], object]:
    """Return a C function that calls `function`, once, in a thread of ours with tracing off for as long as the thread lives.

    The parent thread may hold a lock while waiting for the new thread. So no callback of a tracing tool may run in the new thread, as it
    might wait for this lock. No Python code runs before tracing is off.
    """
    return partial(deque, chain(map(_enter_tracing, map(call, (_thread_state,))), map(call, (function,))), 0)


def start_untraced(thread: threading.Thread) -> None:
    """Start `thread`, a thread of ours, with tracing off, also before its first line."""
    thread._bootstrap = wrap_untraced(thread._bootstrap)  # type: ignore[attr-defined]  # what the system's thread calls, in all versions of CPython
    thread.start()


def call_atomically(steps: Iterable[Callable[[], object]]) -> None:
    """Call C functions one after another in a single step: no other thread and no user code runs in between.

    Each of `steps` must be a C function, or a `partial` of one, and must neither call Python code nor release the GIL.
    """
    steps = list(steps)
    with exclude_user_code():
        deque(map(call, steps), 0)


def has_other_open_section() -> bool:
    """Return whether a thread other than the current one is in a section, or imports a module of this package.

    The import system locks a module before the section of its import begins.
    """
    if len(open_pauses) > (_sections.depth > 0):
        return True
    locks = [lock() for name, lock in [*_module_locks.items()] if name.startswith(PACKAGE_PREFIX)]
    return any([getattr(lock, "owner", None) not in (None, get_ident()) for lock in locks])


def _reset_after_fork() -> None:
    """Record that the forking thread is the main thread of the child."""
    _sections.may_receive_signals = True


if sys.version_info >= (3, 15):

    def _prepare_for_traced_errors(functions: Iterable[Any]) -> None:
        """Allocate the memory in which CPython notes the tracing tools of each of `functions`.

        CPython 3.15 allocates this memory when a function is called with tracing on. With tracing off it crashes if an error passes
        through the function after tracing is on again. `functions` begin in a section, and may raise the error of a signal handler
        after the end of the section.
        """
        free_tools = [k for k in range(6) if sys.monitoring.get_tool(k) is None]
        if free_tools:
            sys.monitoring.use_tool_id(free_tools[-1], "tenxor")
            for function in functions:
                sys.monitoring.set_local_events(free_tools[-1], function.__code__, 0)
            sys.monitoring.free_tool_id(free_tools[-1])

    _prepare_for_traced_errors((exclude_user_code.__exit__, leave_section, _restore_handlers, _call_arrived))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
