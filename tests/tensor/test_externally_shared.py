"""Memory stays marked as externally shared while an exported array lives, whatever signal, thread or collection comes between."""

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


def test_no_python_code_runs_when_an_export_is_freed() -> None:
    """A signal could be handled in such code, and leave the memory marked as shared."""
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


def test_memory_stays_marked_as_shared_while_any_thread_exports() -> None:
    """Several threads create and free exports of one tensor."""
    t, exported_array = exported()
    unmarked: list[int] = []

    def work() -> None:
        for k in range(2000):
            a = np.asarray(t)
            if not pinned(t):
                unmarked.append(k)
            del a

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert unmarked == []
        assert pinned(t)
        del exported_array
        assert not pinned(t)
    finally:
        sys.setswitchinterval(before)


def test_export_during_collection_of_the_last_one_stays_shared() -> None:
    """A weak reference callback may export memory whose last export is being freed."""
    t, a = exported()
    exports: list[Any] = []

    class Cycle:
        array: Any
        itself: Any

    cycle = Cycle()
    cycle.array, cycle.itself = a, cycle
    reference = weakref.ref(cycle, lambda _: exports.append(np.asarray(t)))
    del a, cycle
    gc.collect()
    assert reference() is None
    assert pinned(t)
    exports.clear()
    assert not pinned(t)


def test_memory_stays_shared_until_the_last_array_is_freed() -> None:
    t, a = exported()
    assert pinned(t)
    array_slice = a[1:3]
    del a
    gc.collect()
    assert pinned(t)
    reader = t + 1
    array_slice[0] = 70
    assert reader.tolist() == [1, 2, 3, 4, 5, 6]
    assert t[1].item() == 70
    del array_slice
    gc.collect()
    assert not pinned(t)
    assert (t + 1).tolist() == [1, 71, 3, 4, 5, 6]
