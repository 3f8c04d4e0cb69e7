"""What tests of the short way share."""

from __future__ import annotations

import pytest

from tenxor import shortcut


@pytest.fixture
def on() -> None:
    """It is on."""
    if shortcut.state != "on":
        shortcut.start()
    assert shortcut.state == "on"
