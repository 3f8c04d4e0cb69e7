"""Fixtures of the fast path tests."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from tenxor import fastpath
from tenxor.fastpath import graph_launch, launch_records, size_generic
from tenxor.graph import spec
from tenxor.layout import layout_key


@pytest.fixture
def on() -> None:
    """Turn the fast path on."""
    if fastpath.state != "on":
        fastpath.start()
    assert fastpath.state == "on"


@pytest.fixture
def one_thread(threads: Callable[[int], None]) -> None:
    """Use one thread. With more threads, Python runs the work that threads may share."""
    threads(1)


@pytest.fixture
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget all that was learnt. The tables have room, so nothing is evicted during the test."""
    monkeypatch.setattr(size_generic, "_trace_count", 0)
    layout_key._layout_keys.clear()
    spec.clear_templates()
    launch_records.drop_records(), graph_launch.drop_graph_records()
    size_generic._templates_by_signature.clear()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the computations that Python runs by a plan."""
    found: list[object] = []
    module = import_module("tenxor.runtime.realize")  # which the function of that name hides
    own = module._find_plan
    monkeypatch.setattr(module, "_find_plan", lambda *given: found.append(given) or own(*given))
    return found
