"""Fixtures of the fast path tests."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from tenxor import shortcut, spec
from tenxor.layout import form
from tenxor.shortcut import likewise, wholes


@pytest.fixture
def on() -> None:
    """Turn the fast path on."""
    if shortcut.state != "on":
        shortcut.start()
    assert shortcut.state == "on"


@pytest.fixture
def one_thread(threads: Callable[[int], None]) -> None:
    """Use one thread. With more threads, Python runs the work that threads may share."""
    threads(1)


@pytest.fixture
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget all that was learnt. The tables have room, so nothing is evicted during the test."""
    monkeypatch.setattr(likewise, "_traces", 0)
    form._forms.clear()
    spec.forget()
    wholes.forget_at_once()
    likewise.forget()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the computations that Python runs by a plan."""
    found: list[object] = []
    module = import_module("tenxor.realize")  # which the function of that name hides
    own = module._find_plan
    monkeypatch.setattr(module, "_find_plan", lambda *given: found.append(given) or own(*given))
    return found
