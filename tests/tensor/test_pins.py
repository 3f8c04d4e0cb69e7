"""Memory that others may write is pinned as long as one of them is there, whatever signal, thread or collection comes between."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import tenxor as tx

from .test_sharing import exported, pinned

PACKAGE = str(Path(tx.__file__).parent)


def test_a_pin_is_let_go_whatever_is_raised() -> None:
    """No line of Python's runs when an export dies, in which a signal could be heard."""
    t, a = exported()
    lines: list[str] = []

    def trace(frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            lines.append(frame.f_code.co_name)
            raise KeyboardInterrupt

    sys.settrace(trace)
    del a
    sys.settrace(None)
    assert lines == []
    assert not pinned(t)


def test_pins_of_threads() -> None:
    """Exports that come and go in several threads: while one is there the memory is pinned, and not when none is."""
    t, kept = exported()
    loose: list[int] = []

    def work() -> None:
        for k in range(2000):
            a = np.asarray(t)
            if not pinned(t):
                loose.append(k)
            del a

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert loose == []
        assert pinned(t)
        del kept
        assert not pinned(t)
    finally:
        sys.setswitchinterval(before)


def test_an_export_while_the_last_one_is_collected() -> None:
    """A callback of the collector's may export what is about to be let go."""
    t, a = exported()
    kept: list[Any] = []

    class Cycle:
        array: Any
        itself: Any

    cycle = Cycle()
    cycle.array, cycle.itself = a, cycle
    seen = weakref.ref(cycle, lambda _: kept.append(np.asarray(t)))
    del a, cycle
    gc.collect()
    assert seen() is None
    assert pinned(t)
    kept.clear()
    assert not pinned(t)


def test_the_memory_is_pinned_until_the_last_array_over_it_is_gone() -> None:
    t, a = exported()
    assert pinned(t)
    part = a[1:3]
    del a
    gc.collect()
    assert pinned(t)
    reader = t + 1
    part[0] = 70
    assert reader.tolist() == [1, 2, 3, 4, 5, 6]
    assert t[1].item() == 70
    del part
    gc.collect()
    assert not pinned(t)
    assert (t + 1).tolist() == [1, 71, 3, 4, 5, 6]
