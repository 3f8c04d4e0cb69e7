"""While somebody looks at what a method makes, machine code computes nothing as soon as it would keep memory waiting: in no thread."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..locking import reentrant
from ..undisturbed import undisturbed

patience = ctypes.c_int64()  # how many are looking, for machine code
_looking: list[object] = []
_telling = reentrant()


@contextmanager
def patient() -> Iterator[None]:
    """Meanwhile somebody is looking."""
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
    """Who has come or gone says how many there are, afterwards and one at a time: so the last to do so is right."""
    with undisturbed(), _telling:
        patience.value = len(_looking)


def _forked() -> None:
    """Those who were looking in other threads are not in this process, nor is who was telling. To wait for that one before a fork would
    be to wait for who has all other locks.
    """
    global _telling
    _telling = reentrant()
    _looking.clear()
    patience.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
