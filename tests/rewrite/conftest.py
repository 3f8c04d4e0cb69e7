"""What tests of rewriting share."""

from __future__ import annotations

import pytest

from tenxor.tensor import core, exchange


@pytest.fixture(autouse=True)
def _planned(plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is asked for is planned, and waits for that: what the short way has learnt from other tests it would compute at once, as
    is done with what much memory waits for when memory grows.
    """
    for module in (core, exchange):
        monkeypatch.setattr(module.waiting, "relieve", lambda: None)
