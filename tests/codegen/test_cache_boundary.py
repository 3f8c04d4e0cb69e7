"""Machine code that another user may have planted is never loaded.

The tests follow docs/threat_model.md, attack by attack. Each runs as on this system, and as on a system with paths alone.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenxor.codegen.llvm import kernel_disk_cache

from .systems import GOOD, KEY

OTHER_KEY, EVIL = "b" * 64, b"code of theirs" * 50
NOBODY = 65534  # the id of a user other than the one who runs the tests

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a system without users")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")


pytestmark = pytest.mark.usefixtures("system")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Return an attacker's folder with a harmful entry of the same name."""
    path = tmp_path / "theirs"
    path.mkdir(mode=0o700)
    (path / KEY).write_bytes(kernel_disk_cache.seal(KEY, EVIL))
    (path / KEY).chmod(0o600)
    return path


@contextmanager
def time_limit(seconds: float = 10.0) -> Iterator[None]:
    """Fail if the block takes longer than `seconds`."""

    def fail(*_: object) -> None:
        raise AssertionError("this was waited for")  # no OSError: those are seen to

    old = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


# --- the folder -------------------------------------------------------------------------------------------------------


def test_folder_that_is_a_symbolic_link_is_not_used(folder: Path, theirs: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(theirs)
    assert kernel_disk_cache.read(KEY) is None
    kernel_disk_cache.write(OTHER_KEY, GOOD)
    assert [path.name for path in theirs.iterdir()] == [KEY]


def test_symbolic_links_above_the_folder_are_followed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path / "link" / "cache"))
    assert kernel_disk_cache.read(KEY) == GOOD


def test_dangling_symbolic_link_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path / "link"))
    kernel_disk_cache.write(KEY, GOOD)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_folder_writable_by_other_users_is_not_used(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert kernel_disk_cache.read(KEY) is None
    kernel_disk_cache.write(OTHER_KEY, GOOD)
    assert [path.name for path in folder.iterdir()] == [KEY]


@as_root
def test_folder_of_another_user_is_not_used(folder: Path) -> None:
    os.chown(folder, NOBODY, -1)
    assert kernel_disk_cache.read(KEY) is None
    kernel_disk_cache.write(OTHER_KEY, GOOD)
    assert [path.name for path in folder.iterdir()] == [KEY]


@posix
def test_effective_user_decides_not_the_real_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set-user-ID program does not load code of the user who started it."""
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert kernel_disk_cache.read(KEY) is None


def act_after_first_stat(path: Path, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Patch `os` so that `act` runs directly after the first `stat`, `lstat` or `fstat` of the file at `path`."""
    target_status = path.lstat()
    acted: list[str] = []

    def patched(name: str) -> Callable[..., os.stat_result]:
        original = getattr(os, name)

        def stat_and_act(*args: object, **options: object) -> os.stat_result:
            status: os.stat_result = original(*args, **options)
            if not acted and os.path.samestat(status, target_status):
                acted.append(name)
                act()
            return status

        return stat_and_act

    for name in ("stat", "lstat", "fstat"):
        monkeypatch.setattr(os, name, patched(name))
    return acted


def test_folder_swapped_after_its_check_is_not_read(system: str, folder: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if system != "from folders":
        (theirs / KEY).chmod(0o622)  # with paths alone, the file itself is checked

    def swap_folder() -> None:
        folder.rename(folder.with_name("moved"))
        folder.symlink_to(theirs)

    acted = act_after_first_stat(folder, swap_folder, monkeypatch)
    assert kernel_disk_cache.read(KEY) == (GOOD if system == "from folders" else None)
    assert acted


def test_write_goes_to_the_checked_folder(system: str, folder: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if system != "from folders":
        pytest.skip("a path is all that there is")
    folder.joinpath(KEY).unlink()
    moved = folder.with_name("moved")

    def swap_folder() -> None:
        folder.rename(moved)
        folder.symlink_to(theirs)

    monkeypatch.setattr(os.path, "exists", lambda path: True)  # creating a missing folder would check it again
    acted = act_after_first_stat(folder, swap_folder, monkeypatch)
    kernel_disk_cache.write(OTHER_KEY, GOOD)
    assert acted
    assert [path.name for path in theirs.iterdir()] == [KEY]
    assert [path.name for path in moved.iterdir()] == [OTHER_KEY]


# --- its files --------------------------------------------------------------------------------------------------------


def replace_by_link(entry: Path, theirs: Path) -> None:
    entry.unlink()
    entry.symlink_to(theirs / KEY)


def replace_by_pipe(entry: Path, theirs: Path) -> None:
    entry.unlink()
    os.mkfifo(entry, 0o600)


def replace_by_socket(entry: Path, theirs: Path) -> None:
    entry.unlink()
    old = Path.cwd()
    os.chdir(entry.parent)  # what names a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(entry.name)
    finally:
        os.chdir(old)


def allow_group(entry: Path, theirs: Path) -> None:
    entry.chmod(0o620)


def allow_all(entry: Path, theirs: Path) -> None:
    entry.chmod(0o602)


def give_away(entry: Path, theirs: Path) -> None:
    os.chown(entry, NOBODY, -1)


@posix
@pytest.mark.parametrize(
    "spoil", [replace_by_link, replace_by_pipe, replace_by_socket, allow_group, allow_all, pytest.param(give_away, marks=as_root)]
)
def test_entry_that_others_can_change_is_replaced(spoil: Callable[[Path, Path], None], folder: Path, theirs: Path) -> None:
    spoil(folder / KEY, theirs)
    with time_limit():
        assert kernel_disk_cache.read(KEY) is None
        kernel_disk_cache.write(KEY, GOOD)
        assert kernel_disk_cache.read(KEY) == GOOD
    assert (theirs / KEY).read_bytes() == kernel_disk_cache.seal(KEY, EVIL)
    status = (folder / KEY).lstat()
    assert (stat.S_ISREG(status.st_mode), stat.S_IMODE(status.st_mode)) == (True, 0o600)


@pytest.mark.parametrize("spoil", [replace_by_link, replace_by_pipe])
def test_entry_swapped_after_its_check_is_not_read(
    spoil: Callable[[Path, Path], None], system: str, folder: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system == "paths, no flags" and spoil is replace_by_pipe:
        pytest.skip("such a system has no pipes in folders")
    acted = act_after_first_stat(folder / KEY, lambda: spoil(folder / KEY, theirs), monkeypatch)
    with time_limit():
        assert kernel_disk_cache.read(KEY) == (GOOD if system == "from folders" else None)
    assert acted


def test_too_large_entry_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.truncate(folder / KEY, 1 << 40)  # it takes no room on the disk, but would in memory
    with time_limit():
        assert kernel_disk_cache.read(KEY) is None


# --- what is made -----------------------------------------------------------------------------------------------------


@contextmanager
def umask(bits: int) -> Iterator[None]:
    old = os.umask(bits)
    try:
        yield
    finally:
        os.umask(old)


@pytest.mark.parametrize("bits", [0, 0o022, 0o077])
def test_created_files_and_folders_are_for_the_owner_alone(bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path / "a" / "b" / "c"))
    with umask(bits):
        kernel_disk_cache.write(KEY, GOOD)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700, "c": 0o700, KEY: 0o600}


@pytest.mark.parametrize("template", ["{}/a/b/", "{}//a//b", "{}/./a/../a/b", "a/b", "./a/b/"])
def test_missing_folder_is_created_for_any_spelling_of_its_path(template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir(mode=0o700)
    monkeypatch.setenv("TENXOR_CACHE_DIR", template.format(tmp_path))
    kernel_disk_cache.write(KEY, GOOD)
    assert (tmp_path / "a" / "b" / KEY).exists() and kernel_disk_cache.read(KEY) == GOOD


def test_relative_xdg_cache_home_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENXOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    kernel_disk_cache.write(KEY, GOOD)
    assert (tmp_path / "home" / ".cache" / "tenxor" / KEY).exists()
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize("variable", [None, "XDG_CACHE_HOME", "TENXOR_CACHE_DIR"])
def test_missing_home_is_not_created(variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TENXOR_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    if variable is not None:
        monkeypatch.setenv(variable, str(home / "kept"))
    kernel_disk_cache.write(KEY, GOOD)
    assert not home.exists()
    home.mkdir()
    kernel_disk_cache.write(KEY, GOOD)
    assert kernel_disk_cache.read(KEY) == GOOD


@pytest.mark.parametrize("home", ["", "relative"])
def test_empty_or_relative_home_disables_the_cache(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENXOR_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: home)
    monkeypatch.chdir(tmp_path)
    kernel_disk_cache.write(KEY, GOOD)
    assert kernel_disk_cache.read(KEY) is None
    assert not list(tmp_path.iterdir())


def test_deleted_working_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for name in (".", "kept", "a/b"):
        monkeypatch.setenv("TENXOR_CACHE_DIR", name)
        kernel_disk_cache.write(KEY, GOOD)
        assert kernel_disk_cache.read(KEY) is None
