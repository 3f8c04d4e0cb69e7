"""What is found out about the machine is kept for the next process, until it may have become otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenxor.backend.llvm import cache, found, machine
from tests.machines import current

linux = pytest.mark.skipif(not Path("/proc/sys/kernel/random/boot_id").exists(), reason="a system that tells of no start")
pytestmark = linux


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    """As a process begins."""
    for each in (found.found, found.told, found._texts):
        each.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often LLVM is asked."""
    times: list[int] = []
    real = machine.asked
    monkeypatch.setattr(machine, "asked", lambda: (times.append(1), real())[1])
    return times


def again() -> found.Found:
    forget()
    return found.found()


def text_again() -> str | None:
    forget()
    return found.emitter()


def test_llvm_is_asked_once(folder: Path, asked: list[int]) -> None:
    first = again()
    assert len(asked) == 1 and [path.name for path in folder.iterdir()] == [found._key(found._binaries())]
    assert again() == first and len(asked) == 1
    assert first.target() == again().target() and first.target().processor.triple == first.triple != ""


def test_sources_are_read_once(folder: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_again() == cache.emitter_text()
    monkeypatch.setattr(cache, "emitter_text", lambda: pytest.fail("they were read before"))
    assert text_again() is not None
    assert [path.name for path in folder.iterdir()] == [found._key(found.sources())] and not asked


def test_who_was_told_nothing_does_not_ask(folder: Path, asked: list[int]) -> None:
    forget()
    assert found.told() is None and not found.is_known() and not asked
    found.found()
    assert found.is_known() and found.told() is None and len(asked) == 1
    forget()
    assert found.is_known() and found.told() is not None and len(asked) == 1


def test_it_is_asked_again_after_the_system_was_started(
    folder: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    again()
    monkeypatch.setattr(found, "said", lambda path: "another start")
    again()
    assert len(asked) == 2


def test_and_when_a_source_or_llvm_is_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = folder / "other.py"
    other.write_text("")
    for files in (found._binaries, found.sources):
        listed, before = list(files()), found._key(files())
        for k in (0, -1):
            changed = [*listed]
            changed[k] = str(other)
            assert found._key(changed) not in (before, None)
        key = found._key([str(other)])
        os.utime(other, ns=(1, 1))
        assert found._key([str(other)]) != key
        other.touch()
        with monkeypatch.context() as patch:
            patch.setattr(found.llvmlite, "__version__", "0.0.1")
            assert found._key(files()) != before
    assert list(found.sources()) == list(cache.sources(*cache.EMITTER, *cache.PLANNER))
    assert [path for path in found._binaries() if "llvmlite" in Path(path).name]


def test_what_is_damaged_is_asked_anew(folder: Path, asked: list[int]) -> None:
    first = again()
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    assert again() == first and len(asked) == 2


def test_nothing_is_kept_where_it_cannot_be_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(path: str) -> str:
        raise FileNotFoundError(path)

    first = again()
    for file in folder.iterdir():
        file.unlink()
    monkeypatch.setattr(found, "said", nothing)
    assert again() == first and not list(folder.iterdir())


def test_no_instruction_of_amds_stands_among_those_of_avx() -> None:
    """One takes hundreds of cycles there: of 33,333 rows of three bytes each, sums took three milliseconds."""
    has = found.Found("x86_64-unknown-linux-gnu", "znver3", "+avx2,+sse4a,+sse4.2", "avx2", "20.1")
    assert has.processor.attributes == "+avx2,-sse4a,+sse4.2"
    assert "+sse4a" not in current().processor.attributes
