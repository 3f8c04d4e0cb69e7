"""Failures of the disk never reach the user, and concurrent processes do not disturb each other."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tenxor as tx
from tenxor._utils import private_dirs
from tenxor.codegen.llvm import kernel_disk_cache
from tenxor.codegen.llvm.compiler import Compiler
from tenxor.runtime.planner import preview_kernels
from tests.processes import python

from .systems import GOOD, KEY, open_descriptors_unchanged

OTHER_KEY = "b" * 64


pytestmark = pytest.mark.usefixtures("system")


CALLS = (
    *("open", "close", "read", "write", "stat", "lstat", "fstat"),
    *("mkdir", "replace", "unlink", "utime", "scandir", "urandom", "access"),
)


class FailingSystem:
    """A system on which the call number `first`, or with `lasting` each call from it on, fails."""

    def __init__(self, first: int, error: int, lasting: bool) -> None:
        self.first, self.error, self.lasting = first, error, lasting
        self.calls = 0

    def __enter__(self) -> FailingSystem:
        self.patch = pytest.MonkeyPatch()
        for name in CALLS:
            self.patch.setattr(os, name, self.patched(name, getattr(os, name)))
        return self

    def __exit__(self, *error: object) -> None:
        self.patch.undo()

    def patched(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call_or_fail(*args: object, **options: object) -> object:
            number, self.calls = self.calls, self.calls + 1
            fails = number >= self.first if self.lasting else number == self.first
            if not fails:
                return real(*args, **options)
            if name == "close":
                real(*args)  # as on Linux, where close() reports write errors
            if name == "write":
                real(args[0], bytes(args[1])[:10])  # type: ignore[call-overload]
            raise OSError(self.error, os.strerror(self.error))

        return call_or_fail


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.EROFS, errno.ENOENT, errno.EIO])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_failing_system_calls_never_reach_the_caller(error: int, lasting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each system call fails in turn while a process reads a missing entry, writes, evicts and reads."""
    monkeypatch.setattr(kernel_disk_cache, "MAX_CACHE_FILES", 2)
    first = 0
    system_calls = FailingSystem(0, error, lasting)
    keys = ["000" + letter * 61 for letter in "abcd"]
    while system_calls.calls >= first:
        folder = tmp_path / str(first) / "cache"
        monkeypatch.setenv("TENXOR_CACHE_DIR", str(folder))
        with open_descriptors_unchanged(), FailingSystem(first, error, lasting) as system_calls:
            for key in keys:
                assert kernel_disk_cache.read(key) is None
                kernel_disk_cache.write(key, key.encode())
                assert kernel_disk_cache.read(key) in (key.encode(), None)
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if not lasting:
            assert names <= set(keys), "a temporary file is left"
        for key in names & set(keys):
            os.utime(folder / key, (1, 1))
            assert kernel_disk_cache.read(key) == key.encode()
        first += 1
    assert first > 30


def test_kernel_is_compiled_though_system_calls_fail(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if system != "from folders":
        pytest.skip("the same as above")
    (_, kernel), *_ = preview_kernels([(tx.arange(7) * 2 + 1).storage.node])
    assert kernel is not None
    first = 0
    system_calls = FailingSystem(0, errno.EMFILE, True)
    while system_calls.calls >= first:
        monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path / str(first)))
        native = Compiler()
        with FailingSystem(first, errno.EMFILE, True) as system_calls:
            assert native.get(kernel).origin == "compiled"
            assert native.get(kernel).address
        first += 1
    assert first > 10


def test_short_write_is_continued(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, content[:100]))
    kernel_disk_cache.write(OTHER_KEY, GOOD)
    assert kernel_disk_cache.read(OTHER_KEY) == GOOD


def test_short_read_is_continued(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: real(descriptor, min(size, 100)))
    assert kernel_disk_cache.read(KEY) == GOOD


def test_interrupted_write_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_interrupt(descriptor: int, content: bytes) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, open_descriptors_unchanged():
        patch.setattr(os, "write", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            kernel_disk_cache.write(OTHER_KEY, GOOD)
    assert [path.name for path in folder.iterdir()] == [KEY]


LIMITED = """
import os, resource
import tenxor as tx
from tenxor.codegen.llvm import kernel_disk_cache
x = tx.arange(100).realize()
(x + 1).realize()
tx.compile_counts()  # all modules are loaded
kernel_disk_cache.hash_sources.cache_clear()
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
before, _ = tx.compile_counts()
assert (x * 3 - 5).tolist() == [3 * k - 5 for k in range(100)]
assert tx.compile_counts()[0] == before + 1
"""


def test_process_that_cannot_open_files_computes(system: str, tmp_path: Path) -> None:
    if system != "from folders":
        pytest.skip("it opens nothing by a path either")
    environment = {**os.environ, "TENXOR_CACHE_DIR": str(tmp_path / "cache"), "TENXOR_FAST_PATH": "0"}
    python("-c", LIMITED, env=environment)


# --- processes --------------------------------------------------------------------------------------------------------


def test_no_descriptor_stays_open_or_is_inheritable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[bool] = []
    real = os.open

    def record_open(*args: object, **options: object) -> int:
        descriptor: int = real(*args, **options)  # type: ignore[arg-type]
        opened.append(os.get_inheritable(descriptor))
        return descriptor

    with open_descriptors_unchanged():
        monkeypatch.setattr(os, "open", record_open)
        assert kernel_disk_cache.read(KEY) == GOOD
        kernel_disk_cache.write(OTHER_KEY, GOOD)
        folder.chmod(0o777)
        assert kernel_disk_cache.read(KEY) is None
        folder.chmod(0o700)
        (folder / KEY).chmod(0o666)
        assert kernel_disk_cache.read(KEY) is None
    assert len(opened) >= 2 and not any(opened)


FORKED = """
import os
from pathlib import Path
from tenxor.codegen.llvm import kernel_disk_cache
from tenxor._utils.private_dirs import PrivateDir
path = Path(os.environ["TENXOR_CACHE_DIR"])
kernel_disk_cache.write("a" * 64, b"before")
with PrivateDir(path) as folder:
    child = os.fork()
    if child:
        path.rename(path.with_name("moved"))
    folder.write("b" * 64 if child else "c" * 64, b"after")
    assert folder.read("a" * 64, 1000)[0].endswith(b"before")
    if child:
        assert os.waitpid(child, 0)[1] == 0
        assert sorted(name[0] for name in folder.list_names()) == ["a", "b", "c"]
    else:
        os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_open_folder_works_after_a_fork(system: str, tmp_path: Path) -> None:
    if system != "from folders":
        pytest.skip("nothing is open")
    environment = {**os.environ, "TENXOR_CACHE_DIR": str(tmp_path / "cache"), "TENXOR_FAST_PATH": "0"}
    python("-c", FORKED, env=environment)


CONCURRENT_WRITES = """
import os, sys
from tenxor._utils import private_dirs
from tenxor.codegen.llvm import kernel_disk_cache
private_dirs.HAS_DIR_FD_CALLS = sys.argv[1] == "True"
sys.stdin.read()  # all begin when they are told to
for k in range(300):
    kernel_disk_cache.write("a" * 64, sys.argv[2].encode() * 1000 * (1 + k % 7))
    found = kernel_disk_cache.read("a" * 64)
    if found is None and not private_dirs.HAS_DIR_FD_CALLS:
        continue  # it was exchanged between looking and opening, which is as well as not there
    assert found and len(set(found)) == 1 and len(found) % 1000 == 0, found
"""


def test_concurrent_writes_of_one_entry_stay_intact(tmp_path: Path) -> None:
    """Each process always reads an intact entry."""
    environment = {**os.environ, "TENXOR_CACHE_DIR": str(tmp_path / "cache"), "TENXOR_FAST_PATH": "0"}
    command = [sys.executable, "-c", CONCURRENT_WRITES, str(private_dirs.HAS_DIR_FD_CALLS)]
    processes = [subprocess.Popen([*command, letter], env=environment, stdin=subprocess.PIPE) for letter in "xyz"]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["a" * 64]
