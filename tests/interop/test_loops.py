"""Progress bars of rich and tqdm for long loops."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

import tenxor as tx


class Terminal(StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["rich", "tqdm"])
def test_progress_uses_bars_of_rich_or_tqdm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[interop]' to see its bars")
    monkeypatch.setenv("COLUMNS", "120")
    if name == "tqdm":
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    file = Terminal()
    steps = tx.show.progress(range(3), "learning", file=file)
    for step in steps:
        steps.tell(loss=step + 0.5)
    shown = file.getvalue()
    assert "learning" in shown and "3/3" in shown and "loss 2.5" in shown
    assert ("━" if name == "rich" else "100%") in shown
