"""Facts about the host are cached on disk for later processes until they may have changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenxor.codegen.llvm import host_info, kernel_disk_cache, llvmlite_binding
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
    """Clear the caches in memory, as at the start of a process."""
    for function in (host_info.get_host_info, host_info.read_stored_host_info, host_info._get_source_hashes):
        function.cache_clear()


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each query of LLVM."""
    times: list[int] = []
    real = llvmlite_binding.describe_host
    monkeypatch.setattr(llvmlite_binding, "describe_host", lambda: (times.append(1), real())[1])
    return times


def query_again() -> host_info.HostInfo:
    forget()
    return host_info.get_host_info()


def emitter_again() -> str | None:
    forget()
    return host_info.get_emitter_hash()


def test_host_facts_are_queried_once_and_cached(folder: Path, queries: list[int]) -> None:
    first = query_again()
    assert len(queries) == 1 and [path.name for path in folder.iterdir()] == [host_info._make_answer_key(host_info._iter_llvm_binaries())]
    assert query_again() == first and len(queries) == 1
    assert first.make_target() == query_again().make_target() and first.make_target().processor.triple == first.triple != ""


def test_emitter_text_is_computed_once_and_cached(folder: Path, queries: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert emitter_again() == kernel_disk_cache.hash_emitter_sources()
    monkeypatch.setattr(kernel_disk_cache, "hash_sources", lambda *paths: pytest.fail("they were read before"))
    assert emitter_again() is not None
    assert [path.name for path in folder.iterdir()] == [host_info._make_answer_key(host_info.iter_hashed_sources())] and not queries


def test_reading_cached_facts_does_not_query_llvm(folder: Path, queries: list[int]) -> None:
    forget()
    assert host_info.read_stored_host_info() is None and not host_info.has_host_info() and not queries
    host_info.get_host_info()
    assert host_info.has_host_info() and host_info.read_stored_host_info() is None and len(queries) == 1
    forget()
    assert host_info.has_host_info() and host_info.read_stored_host_info() is not None and len(queries) == 1


def test_host_facts_are_queried_again_after_a_reboot(folder: Path, queries: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    query_again()
    monkeypatch.setattr(host_info, "read_text", lambda path: "another start")
    query_again()
    assert len(queries) == 2


def test_host_info_keys_change_with_sources_and_llvm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replacement = folder / "other.py"
    replacement.write_text("")
    for files in (host_info._iter_llvm_binaries, host_info.iter_hashed_sources):
        listed, before = list(files()), host_info._make_answer_key(files())
        for k in (0, -1):
            changed = [*listed]
            changed[k] = str(replacement)
            assert host_info._make_answer_key(changed) not in (before, None)
        key = host_info._make_answer_key([str(replacement)])
        os.utime(replacement, ns=(1, 1))
        assert host_info._make_answer_key([str(replacement)]) != key
        replacement.touch()
        with monkeypatch.context() as patch:
            patch.setattr(host_info.llvmlite, "__version__", "0.0.1")
            assert host_info._make_answer_key(files()) != before
    assert list(host_info.iter_hashed_sources()) == list(
        kernel_disk_cache.iter_source_paths(
            *kernel_disk_cache.EMITTER_SOURCES, *kernel_disk_cache.PLANNER_SOURCES, *kernel_disk_cache.FASTPATH_SOURCES
        )
    )
    assert [path for path in host_info._iter_llvm_binaries() if "llvmlite" in Path(path).name]


def test_damaged_host_facts_are_queried_again(folder: Path, queries: list[int]) -> None:
    first = query_again()
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    assert query_again() == first and len(queries) == 2


def test_host_facts_are_not_cached_without_a_boot_id(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_missing(path: str) -> str:
        raise FileNotFoundError(path)

    first = query_again()
    for file in folder.iterdir():
        file.unlink()
    monkeypatch.setattr(host_info, "read_text", raise_missing)
    assert query_again() == first and not list(folder.iterdir())


def test_sse4a_is_disabled_on_processors_with_avx() -> None:
    """An SSE4a instruction takes hundreds of cycles there: sums of 33,333 rows of three bytes took three milliseconds."""
    has = host_info.HostInfo("x86_64-unknown-linux-gnu", "znver3", "+avx2,+sse4a,+sse4.2", "avx2", "20.1")
    assert has.processor.attributes == "+avx2,-sse4a,+sse4.2"
    assert "+sse4a" not in current().processor.attributes


@pytest.mark.parametrize("unreadable", ["EMITTER_SOURCES", "PLANNER_SOURCES", "FASTPATH_SOURCES"])
def test_source_hashes_are_none_if_any_source_cannot_be_read(unreadable: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_disk_cache, unreadable, ("codegen/missing.py",))
    assert host_info.get_emitter_hash() is host_info.get_planner_hashes() is host_info.get_fastpath_hash() is None
