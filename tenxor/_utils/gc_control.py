"""Pauses of Python's garbage collector, and a way to exempt long-lived objects from early collections."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects that Python may have frozen itself (CPython 3.12 starts with 375); user code that freezes objects freezes far more.
MAX_INTERPRETER_FROZEN = 1000


open_pauses: list[None] = []  # an entry for each pause that has not ended
_thresholds: tuple[int, int, int] | None = None  # as they were before the first of these pauses; None if it changed nothing


def pause_gc() -> None:
    """Stop automatic garbage collections until `resume_gc` has been called as often, from any threads.

    No signal handler may run during the call. The thresholds are changed, and not the switch `gc.isenabled()`: a pause covers imports of
    other libraries, and Dask remembers the state of the switch when it is imported, to restore that state after each of its own pauses.
    """
    global _thresholds
    open_pauses.append(None)
    thresholds = gc.get_threshold()
    if thresholds[0]:
        gc.set_threshold(0, *thresholds[1:])
        _thresholds = thresholds
        _run_due_collection()


def _run_due_collection() -> None:
    """Do nothing: since CPython 3.12, a due collection runs at the next call of a Python function, here this one."""


def resume_gc() -> None:
    """End a pause. The end of the last pause restores the thresholds, unless other code has set them since."""
    global _thresholds
    open_pauses.pop()
    if _thresholds and not open_pauses:
        thresholds, _thresholds = _thresholds, None
        if not gc.get_threshold()[0]:
            gc.set_threshold(*thresholds)


@contextmanager
def disable_gc() -> Iterator[None]:
    """Disable the garbage collector while the context is open: for code that makes long-lived objects, or counts references.

    If the collector was disabled before, it stays so at the end.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def tenure_new_objects() -> Iterator[None]:
    """Disable the garbage collector while the context is open, and then move all objects to the oldest generation.

    The collector would otherwise examine the new objects twice within moments, which takes as long as a first result. In the oldest
    generation they are examined only by full collections. No objects are moved if user code has frozen objects (`gc.freeze`).
    """
    with disable_gc():
        yield
        if hasattr(gc, "freeze") and gc.get_freeze_count() < MAX_INTERPRETER_FROZEN:  # never unfreeze objects that user code has frozen
            gc.freeze()
            gc.unfreeze()  # into the oldest generation, without an examination
