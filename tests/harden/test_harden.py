"""Failures at some calls of some programs; `make harden` is for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tenxor as tx

from .harness import KINDS, Run
from .programs import PROGRAMS, Program

pytestmark = pytest.mark.usefixtures("plain")  # plain: how plans compute what is small, too


@pytest.fixture(autouse=True)
def _three_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path))
    before = tx.num_threads()
    tx.set_num_threads(3)
    yield
    tx.set_num_threads(before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_program_with_injected_failures_raises_or_succeeds_and_succeeds_when_repeated(program: Program, kind: str) -> None:
    lasting = PROGRAMS.index(program) % 3 == 0
    assert Run(program, kind, step=31, lasting=lasting).all() or kind == "threads"  # which small work starts none of
