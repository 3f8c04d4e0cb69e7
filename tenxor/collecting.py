"""Pauses of Python's garbage collector, and a way to exempt long-lived objects from early collections."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects that Python may have frozen itself (CPython 3.12 starts with 375); user code that freezes objects freezes far more.
MAX_INTERPRETER_FROZEN = 1000


_pauses: list[None] = []  # an entry for each section with the collector off
_was_enabled = False  # whether the collector was on at the first pause


def pause() -> None:
    """Disable the garbage collector until `resume` has been called as often, from any threads. No signal handler may run during the call.
    """
    global _was_enabled
    _pauses.append(None)
    if gc.isenabled():
        gc.disable()
        _was_enabled = True


def resume() -> None:
    """End a pause. The end of the last pause enables the collector, if it was enabled before the first."""
    global _was_enabled
    _pauses.pop()
    if _was_enabled and not _pauses:
        _was_enabled = False
        gc.enable()


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector while the context is open: for code that makes long-lived objects, or counts references."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def lasting() -> Iterator[None]:
    """Disable the garbage collector while the context is open, and then move all objects to the oldest generation.

    The collector would otherwise examine the new objects twice within moments, which takes as long as a first result. In the oldest
    generation they are examined only by full collections.
    """
    with uncollected():
        yield
        if hasattr(gc, "freeze") and gc.get_freeze_count() < MAX_INTERPRETER_FROZEN:  # never unfreeze objects that user code has frozen
            gc.freeze()
            gc.unfreeze()  # into the oldest generation, without an examination
