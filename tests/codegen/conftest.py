"""A cache folder for one test, on each kind of system."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenxor.codegen.llvm import kernel_disk_cache

from .systems import GOOD, KEY, SYSTEMS, become


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    become(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture
def folder(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder for one test, with one entry."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(path))
    kernel_disk_cache.write(KEY, GOOD)
    assert kernel_disk_cache.read(KEY) == GOOD
    return path
