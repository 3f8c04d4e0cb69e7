"""The most memory that tensors take in a training step: parameters, gradients and what an optimiser keeps with all that comes and goes."""

from __future__ import annotations

import gc
from typing import Any

import tenxor as tx

from .lessons import Lesson, torch

WARM = 2  # steps before


def peaks(lesson: Lesson) -> dict[str, int]:
    """In bytes, by library: as Tenxor counts them, and as PyTorch's profiler sees them come and go."""
    found = {"tenxor": _own(lesson)}
    if torch is not None:
        found["torch"] = _torch(lesson)
    return found


def _own(lesson: Lesson) -> int:
    step = lesson.tenxor()
    for _ in range(WARM):
        step()
    gc.collect()
    before = tx.memory(reset_peak=True).in_use
    step()
    step()
    peak = int(tx.memory().peak)
    del step
    gc.collect()
    others = int(tx.memory().in_use)  # of other lessons
    assert others <= before
    return peak - others


def _torch(lesson: Lesson) -> int:
    from torch.profiler import ProfilerActivity, profile

    before = {t.data_ptr() for t in _storages()}
    step = lesson.torch()
    for _ in range(WARM):
        step()
    gc.collect()
    live = sum(t.nbytes() for t in _storages() if t.data_ptr() not in before)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
        step()
    results: Any = profiled.profiler
    events = sorted((e.start_ns(), e.nbytes()) for e in results.kineto_results.events() if e.name() == "[memory]")
    now = most = 0
    for _, nbytes in events:
        now += nbytes
        most = max(most, now)
    return int(live + most)


def _storages() -> list[Any]:
    """Of all of PyTorch's tensors that Python has, each once."""
    each = {x.untyped_storage().data_ptr(): x.untyped_storage() for x in gc.get_objects() if type(x) in (torch.Tensor, torch.nn.Parameter)}
    return list(each.values())
