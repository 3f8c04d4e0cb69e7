"""Python's collector, which is not to run for a while, or not to look at what stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OWN = 1000  # objects that Python may have frozen itself: CPython 3.12 begins with 375. Who else freezes any freezes all that there is


_pauses: list[None] = []  # one for each section that wants the collector off
_was_enabled = False  # when the first of them began


def pause() -> None:
    """Disable the garbage collector until `resume` has been called as often, by whichever threads. No signal handler may run here."""
    global _was_enabled
    _pauses.append(None)
    if gc.isenabled():
        gc.disable()
        _was_enabled = True


def resume() -> None:
    """End one pause; the last one that ends enables the collector, if it was enabled."""
    global _was_enabled
    _pauses.pop()
    if _was_enabled and not _pauses:
        _was_enabled = False
        gc.enable()


@contextmanager
def uncollected() -> Iterator[None]:
    """Meanwhile no garbage goes: what is made then is to stay, or who has it is counted."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def lasting() -> Iterator[None]:
    """Meanwhile no garbage goes, and what there is afterwards counts as old: the collector, which would look at it twice within the next
    moments, for as long as a first result takes, does so only when it looks at everything.
    """
    with uncollected():
        yield
        if hasattr(gc, "freeze") and gc.get_freeze_count() < OWN:  # what somebody else had frozen stays so
            gc.freeze()
            gc.unfreeze()  # to where old objects are; none has been looked at
