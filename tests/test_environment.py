"""Test environment variables: the message about a bad value names the variable, the value and what is done instead."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tenxor as tx
from tenxor import codegen, fastpath
from tenxor._utils import environment
from tenxor._utils.process import count_cpus
from tenxor.codegen.llvm import kernel_disk_cache, shipped_code
from tenxor.codegen.threads import thread_count
from tenxor.errors import ArgumentError
from tenxor.memory.buffer import _set_initial_limit
from tenxor.runtime import kernel_call

# By variable: its reader, valid values, and bad values with the end of the message about each.
READERS: dict[str, tuple[Callable[[], Any], tuple[str, ...], tuple[str, ...], str]] = {
    "TENXOR_NUM_THREADS": (
        thread_count._read_default_count,
        ("", "1", "3", str(thread_count.max_threads())),
        ("0", "-1", "abc", "2.5", "3,2", "100000", "9" * 5000),
        f"it must be an integer from 1 to {thread_count.max_threads()}; the number of threads is {count_cpus()}",
    ),
    "TENXOR_DEBUG": (kernel_call.read_debug_level, ("", "0", "2", "3"), ("yes", "-1", "4", "²"), "it must be 0, 1, 2 or 3; no kernels"),
    "TENXOR_FAST_PATH": (fastpath.read_setting, ("", "0", "1"), ("2", "off"), "it must be 0 or 1; machine code for small work is"),
    "TENXOR_CACHE_DIR": (
        kernel_disk_cache.check_setting,
        ("", "new/folder"),
        ("file", "file/below"),
        "it is not used: .*; compiled kernels are",
    ),
    "TENXOR_SHIPPED": (
        lambda: shipped_code.check_setting(shipped_code.find_shipped()),
        ("",),
        ("file", "missing", "."),
        "it is not used: it .*; kernels",
    ),
}
ERRORS: dict[str, tuple[Callable[[], Any], tuple[str, ...], tuple[str, ...], str]] = {
    "TENXOR_MEMORY_LIMIT": (_set_initial_limit, ("",), ("0", "-5", "3 GB", "1e9", "9" * 5000), "it must be a positive integer"),
    "TENXOR_BACKEND": (codegen._select_backend_name, ("", "llvm", "interpreter"), ("cuda", "LLVM"), "choose one of llvm, interpreter"),
}
USED = [(name, value) for name, (_, used, _, _) in (READERS | ERRORS).items() for value in used]


@pytest.fixture
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_every_environment_variable_of_the_package_is_tested() -> None:
    package = Path(tx.__file__).parent
    names = {name for path in package.rglob("*.py") for name in re.findall(r"\bTENXOR_[A-Z_]+\b", path.read_text(encoding="utf-8"))}
    assert names == READERS.keys() | ERRORS.keys()


@pytest.mark.usefixtures("_in_a_folder")
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, (_, _, bad, _) in READERS.items() for value in bad], ids=lambda text: text[:30]
)
def test_bad_value_warns_and_counts_as_not_set(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, *_, message = READERS[name]
    monkeypatch.delenv(name, raising=False)
    without = read()
    monkeypatch.setenv(name, value)
    with pytest.warns(RuntimeWarning, match=f"^{name} is {re.escape(repr(value)[:80])}; {message}"):
        assert read() == without


@pytest.mark.usefixtures("_in_a_folder")
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, (_, _, bad, _) in ERRORS.items() for value in bad], ids=lambda text: text[:30]
)
def test_bad_value_without_a_default_raises_an_error(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, *_, message = ERRORS[name]
    monkeypatch.setenv(name, value)
    with pytest.raises(ArgumentError, match=f"^{name}: .*{re.escape(value[:70])}.*{message}"):
        read()


@pytest.mark.usefixtures("_in_a_folder")
@pytest.mark.parametrize(("name", "value"), USED, ids=lambda text: text[:30])
def test_valid_value_is_used_without_a_warning(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with warnings.catch_warnings(action="error"):
        value_read = (READERS | ERRORS)[name][0]()
    if value and name in ("TENXOR_NUM_THREADS", "TENXOR_DEBUG", "TENXOR_FAST_PATH", "TENXOR_BACKEND"):
        assert str(value_read) == value


def test_warning_shortens_a_long_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXOR_DEBUG", "x" * 10_000)
    with pytest.warns(RuntimeWarning) as warning_list:
        environment.read_choice("TENXOR_DEBUG", ("0", "1"), "nothing is done")
    assert len(str(warning_list[0].message)) < 200


@pytest.mark.parametrize("count", [thread_count.max_threads() + 1, 10**9, 10**5000], ids=["next", "many", "more digits than Python shows"])
def test_thread_count_above_the_maximum_raises_an_error(count: int) -> None:
    before = tx.num_threads()
    with pytest.raises(ArgumentError, match=f"set_num_threads: .* the count must be at most {thread_count.max_threads()};"):
        tx.set_num_threads(count)
    assert tx.num_threads() == before
