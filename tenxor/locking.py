"""Locks that no signal leaves locked.

User code may run while a thread holds the lock of those who compute (`realize.lock`), which is reentrant. Each other lock is held within
`undisturbed` sections only, so user code that wants the first one never runs while its thread holds another; or no thread waits for it.

Python hears signals after a call, and what handles one may raise, as Ctrl-C does. `lock.acquire()` is a call, so the error may come
between taking a lock and the `try` that gives it back; and since CPython 3.14 `with lock` takes it by a call, too, where it was an
instruction of its own before. Then the thread keeps the lock for ever, and all others wait.
"""

from __future__ import annotations

import sys
from _thread import RLock as own_lock  # `threading` has the same, and more
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threading import RLock

ENTERED_BY_A_CALL = sys.version_info >= (3, 14)


def reentrant() -> RLock:
    """A lock that the thread which has it may take again: by `with`, `taken_at_once`, or where no signal is heard."""
    own = own_lock()
    return _Lock(own) if ENTERED_BY_A_CALL else own  # type: ignore[return-value]


def taken_at_once(lock: RLock) -> bool:
    """Take a lock if no other thread has it, and say so. If a signal's handler raises, it is as it was."""
    return _taken(lock, blocking=False)


def is_owned(lock: RLock) -> bool:
    """Return whether this thread holds a lock."""
    owned: bool = lock._is_owned()  # type: ignore[attr-defined]
    return owned


def interpreters(lock: RLock) -> Any:
    """The interpreter's own lock."""
    return lock.own if isinstance(lock, _Lock) else lock


def _taken(lock: RLock, blocking: bool) -> bool:
    """Take a lock. Nothing is heard between this function's last instruction and its caller's next."""
    before: int = lock._recursion_count()  # type: ignore[attr-defined]
    try:
        return lock.acquire(blocking)
    except BaseException:
        if lock._recursion_count() > before:  # type: ignore[attr-defined]
            lock.release()
        raise


class _Lock:
    """An interpreter's lock, entered by a function of Python's, which can tell whether it was taken; but left by the interpreter's
    own, as a function of Python's would hear signals before it gave the lock back.
    """

    own: Any

    def __new__(cls, own: Any) -> _Lock:
        """The one instance of a class of its own: what is special about an object is looked for in its class."""
        names = ("acquire", "release", "_is_owned", "_recursion_count", "__exit__")
        kind = type(cls.__name__, (cls,), {"own": own, **{name: getattr(own, name) for name in names}})
        return object.__new__(kind)

    def __enter__(self) -> bool:
        return _taken(self.own, True)

    def __repr__(self) -> str:
        return repr(self.own)
