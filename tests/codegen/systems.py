"""Systems with and without file operations relative to open folders, for tests of the disk cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenxor._utils import private_dirs

KEY, GOOD = "a" * 64, b"code of ours" * 50  # an entry of the cache
SYSTEMS = ("from folders", "paths", "paths, no flags")


def become(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulate a system that opens files relative to a folder, or by paths alone, with or without flags such as O_NOFOLLOW."""
    if system != "from folders":
        monkeypatch.setattr(private_dirs, "HAS_DIR_FD_CALLS", False)
    if system == "paths, no flags":
        monkeypatch.setattr(private_dirs, "_READ_FLAGS", os.O_RDONLY)
        monkeypatch.setattr(private_dirs, "_WRITE_FLAGS", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        monkeypatch.setattr(private_dirs, "_CAN_TOUCH_LINKS", False)


@contextmanager
def open_descriptors_unchanged() -> Iterator[None]:
    """Check that the block closes all descriptors that it opens."""
    descriptors = Path("/proc/self/fd")
    count = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    yield
    assert (len(list(descriptors.iterdir())) if descriptors.exists() else 0) == count
