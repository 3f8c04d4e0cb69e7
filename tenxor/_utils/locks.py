"""Locks that no signal leaves locked.

User code may run while a thread holds `realize.compute_lock`, the reentrant lock of computations. Every other lock is held within
`exclude_user_code` sections only, or is never waited for. So a thread with another lock runs no user code, which could wait for
`realize.compute_lock`.

Python runs signal handlers after calls, and a handler may raise, as for Ctrl-C. `lock.acquire()` is a call, so the error may come between
the acquisition and the `try` whose `finally` releases the lock. Since CPython 3.14 `with lock` also acquires by a call, which was a single
instruction before. The thread would then keep the lock for ever, and the rest would wait.
"""

from __future__ import annotations

import sys
from _thread import RLock as new_rlock  # `threading` provides the same class, but imports more
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threading import RLock

WITH_ACQUIRES_BY_CALL = sys.version_info >= (3, 14)


def make_reentrant_lock() -> RLock:
    """Return a reentrant lock that is safe against signals in `with` and `try_acquire`, or where no signal handler runs."""
    inner = new_rlock()
    return _Lock(inner) if WITH_ACQUIRES_BY_CALL else inner  # type: ignore[return-value]


def try_acquire(lock: RLock) -> bool:
    """Acquire `lock` unless another thread holds it, and return whether this succeeded. If a signal handler raises, nothing is changed."""
    return _acquire(lock, blocking=False)


def is_owned_by_this_thread(lock: RLock) -> bool:
    """Return whether the current thread holds `lock`."""
    owned: bool = lock._is_owned()  # type: ignore[attr-defined]
    return owned


def get_interpreter_lock(lock: RLock) -> Any:
    """Return the interpreter's own lock under `lock`, a result of `make_reentrant_lock`: `lock` itself before CPython 3.14."""
    return lock.inner if isinstance(lock, _Lock) else lock


def _acquire(lock: RLock, blocking: bool) -> bool:
    """Acquire `lock`, and return whether this succeeded. With `blocking`, wait until no other thread holds the lock.

    If a signal handler raises, the lock is not acquired. No signal handler runs between the last instruction here and the caller's next
    one.
    """
    old_count: int = lock._recursion_count()  # type: ignore[attr-defined]
    try:
        return lock.acquire(blocking)
    except BaseException:
        if lock._recursion_count() > old_count:  # type: ignore[attr-defined]
            lock.release()
        raise


class _Lock:
    """A lock with a safe `with` since CPython 3.14: `__enter__` is a Python function, as only this can check whether the lock was acquired.

    `__exit__` is the interpreter's own: in a Python function, signal handlers would run before the release of the lock.
    """

    inner: Any

    def __new__(cls, inner: Any) -> _Lock:
        """Return the only instance of a new subclass, around `inner`, the interpreter's lock.

        The methods are those of `inner`. They stand in a class, as Python looks up special methods in the class of an object.
        """
        names = ("acquire", "release", "_is_owned", "_recursion_count", "__exit__")
        subclass = type(cls.__name__, (cls,), {"inner": inner, **{name: getattr(inner, name) for name in names}})
        return object.__new__(subclass)

    def __enter__(self) -> bool:
        return _acquire(self.inner, True)

    def __repr__(self) -> str:
        return repr(self.inner)
