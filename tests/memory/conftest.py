"""Fixtures and helpers of the memory tests."""

from __future__ import annotations

import gc
import sys
import time
import traceback

import pytest

import tenxor as tx
from tenxor import memory
from tenxor.memory.block_pool import Pool, pool


def used() -> int:
    """Return the bytes in use after a garbage collection."""
    gc.collect()
    return memory().in_use


def free_bytes(pool: Pool) -> int:
    """Return the free bytes in the pool's lists."""
    return sum([size * len(free) for size, free in pool.free_blocks.copy().items()])


@pytest.fixture(autouse=True, scope="module")
def _with_all_parts_loaded(earlier_objects_frozen: None) -> None:
    tx.zeros(1).realize()  # plans hold a buffer of their own


@pytest.fixture(autouse=True)
def _unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool has no thread, which might be just between two counts, or look at frames and keep them a little longer; nor has it spare
    memory when a test begins.
    """
    gc.collect()
    pool.release(pool.pooled)
    while _is_watched():
        pool.has_decay_thread = False
        pool.get_wake_queue().put(None)  # type: ignore[arg-type]
        time.sleep(0.001)
    monkeypatch.setattr(pool, "has_decay_thread", True)  # so that none is started


def _is_watched() -> bool:
    frames = sys._current_frames().values()
    stacks = [frame for top in frames for frame, _ in traceback.walk_stack(top)]
    return any(frame.f_code.co_name == "watch" and frame.f_locals["self"] is pool for frame in stacks)
