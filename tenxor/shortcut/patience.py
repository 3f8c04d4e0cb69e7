"""A switch to suppress eager evaluation by the fast path, in every thread, while a recorder looks at the nodes made by a method.

By default the fast path computes a node at once if it would otherwise keep much memory alive while pending.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..locking import reentrant
from ..undisturbed import undisturbed

patience = ctypes.c_int64()  # the number of open contexts, read by the generated code
_looking: list[object] = []
_telling = reentrant()


@contextmanager
def patient() -> Iterator[None]:
    """Suppress eager evaluation by the fast path while the context is open. Contexts may be nested and open in several threads."""
    me = object()
    try:
        _looking.append(me)
        _tell()
        yield
    finally:
        if me in _looking:
            _looking.remove(me)
        _tell()


def _tell() -> None:
    """Publish the number of open contexts to the generated code.

    The number is read under a lock after each change, so the last writer publishes the right number.
    """
    with undisturbed(), _telling:
        patience.value = len(_looking)


def _forked() -> None:
    """Reset the number of contexts and the lock in a forked child, where the threads with open contexts do not exist.

    Waiting for the lock before a fork is no alternative: the forking thread may hold every other lock.
    """
    global _telling
    _telling = reentrant()
    _looking.clear()
    patience.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
