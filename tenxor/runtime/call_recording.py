"""The contexts in which a call is recorded, by the nodes made in the call. The fast path records a call of a Python function once: it keeps
the recipes of the nodes, and makes equal nodes at later calls. So while a context is open in any thread, new nodes stay pending. The fast
path does not compute a node early that keeps much memory alive, and a pending graph grows to `pending_limits.MAX_RECORDED_NODES` nodes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from .._utils.exclude_user_code import exclude_user_code
from .._utils.locks import make_reentrant_lock

open_context_count = ctypes.c_int64()  # the number of open contexts, read by the generated code
_open_contexts: list[object] = []
_publish_lock = make_reentrant_lock()


@contextmanager
def recording_call() -> Iterator[None]:
    """Return a context in which a call is recorded. The recorder (`fastpath/recorder.py`) opens one for a call. Contexts may be nested."""
    context = object()
    try:
        _open_contexts.append(context)
        _publish_count()
        yield
    finally:
        if context in _open_contexts:
            _open_contexts.remove(context)
        _publish_count()


def _publish_count() -> None:
    """Publish the number of open contexts to the generated code.

    The number is read under a lock after each change, so the last writer publishes the right number.
    """
    with exclude_user_code(), _publish_lock:
        open_context_count.value = len(_open_contexts)


def _reset_after_fork() -> None:
    """Reset the number of contexts and the lock in a forked child, where the threads with open contexts do not exist.

    Waiting for the lock before a fork is no alternative: the forking thread may hold every other lock.
    """
    global _publish_lock
    _publish_lock = make_reentrant_lock()
    _open_contexts.clear()
    open_context_count.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
