"""What tests of the short way share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenxor import shortcut


@pytest.fixture
def on() -> None:
    """It is on."""
    if shortcut.state != "on":
        shortcut.start()
    assert shortcut.state == "on"


@pytest.fixture
def one_thread(threads: Callable[[int], None]) -> None:
    """With more, Python sees to what threads may share."""
    threads(1)
