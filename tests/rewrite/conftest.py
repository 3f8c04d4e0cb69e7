"""Fixtures for tests of rewriting."""

from __future__ import annotations

import pytest

from tenxor.tensor import conversion_methods, core


@pytest.fixture(autouse=True)
def _planned(plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan every requested tensor. Otherwise the fast path could compute tensors as recorded in other tests, and memory pressure could
    evict pending ones.
    """
    for module in (core, conversion_methods):
        monkeypatch.setattr(module.pending_limits, "free_pending_memory", lambda: None)
