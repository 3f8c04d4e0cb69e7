"""A switch to suppress eager evaluation by the fast path, in every thread, while a recorder looks at the nodes made by a method.

By default the fast path computes a node at once if it would otherwise keep much memory alive while pending.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from .._utils.exclude_user_code import exclude_user_code
from .._utils.locks import make_reentrant_lock

suppression_count = ctypes.c_int64()  # the number of open contexts, read by the generated code
_open_contexts: list[object] = []
_publish_lock = make_reentrant_lock()


@contextmanager
def no_eager_eval() -> Iterator[None]:
    """Return a context that suppresses eager evaluation by the fast path while open, in every thread. Contexts may be nested.

    Eager evaluation computes a new node at once if the node would otherwise keep much memory alive while pending.
    """
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
        suppression_count.value = len(_open_contexts)


def _reset_after_fork() -> None:
    """Reset the number of contexts and the lock in a forked child, where the threads with open contexts do not exist.

    Waiting for the lock before a fork is no alternative: the forking thread may hold every other lock.
    """
    global _publish_lock
    _publish_lock = make_reentrant_lock()
    _open_contexts.clear()
    suppression_count.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
