"""Machine code that another user may have put there is never taken.

What docs/threat_model.md promises, attack by attack. All is done as on this system, and as on one that has only paths.
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

from tenxor.backend.llvm import cache

from .systems import GOOD, KEY

OTHER, EVIL = "b" * 64, b"code of theirs" * 50
NOBODY = 65534  # a user's number that is not that of who runs the tests

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a system without users")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")


pytestmark = pytest.mark.usefixtures("system")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder with an entry of the same name that would do harm."""
    path = tmp_path / "theirs"
    path.mkdir(mode=0o700)
    (path / KEY).write_bytes(cache.sealed(KEY, EVIL))
    (path / KEY).chmod(0o600)
    return path


@contextmanager
def promptly(seconds: float = 10.0) -> Iterator[None]:
    """Break off what waits for ever."""

    def broken_off(*_: object) -> None:
        raise AssertionError("this was waited for")  # no OSError: those are seen to

    before = signal.signal(signal.SIGALRM, broken_off)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- the folder -------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_a_symbolic_link_is_not_used(folder: Path, theirs: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(theirs)
    assert cache.read(KEY) is None
    cache.write(OTHER, GOOD)
    assert [path.name for path in theirs.iterdir()] == [KEY]


def test_links_on_the_way_to_the_folder_are_followed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path / "link" / "cache"))
    assert cache.read(KEY) == GOOD


def test_a_link_to_nothing_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path / "link"))
    cache.write(KEY, GOOD)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_not_used(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert cache.read(KEY) is None
    cache.write(OTHER, GOOD)
    assert [path.name for path in folder.iterdir()] == [KEY]


@as_root
def test_another_users_folder_is_not_used(folder: Path) -> None:
    os.chown(folder, NOBODY, -1)
    assert cache.read(KEY) is None
    cache.write(OTHER, GOOD)
    assert [path.name for path in folder.iterdir()] == [KEY]


@posix
def test_who_runs_counts_not_who_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with more rights than its user has does not take that user's code."""
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert cache.read(KEY) is None


def once_looked_at(path: Path, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on, act directly after the first look at what is at a path, whichever way it is looked at."""
    seen = path.lstat()
    acted: list[str] = []

    def acting(name: str) -> Callable[..., os.stat_result]:
        look = getattr(os, name)

        def looked(*args: object, **more: object) -> os.stat_result:
            status: os.stat_result = look(*args, **more)
            if not acted and os.path.samestat(status, seen):
                acted.append(name)
                act()
            return status

        return looked

    for name in ("stat", "lstat", "fstat"):
        monkeypatch.setattr(os, name, acting(name))
    return acted


def test_a_folder_exchanged_after_it_was_looked_at(
    system: str, folder: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system != "from folders":
        (theirs / KEY).chmod(0o622)  # by paths, what is found there is looked at itself

    def exchange() -> None:
        folder.rename(folder.with_name("moved"))
        folder.symlink_to(theirs)

    acted = once_looked_at(folder, exchange, monkeypatch)
    assert cache.read(KEY) == (GOOD if system == "from folders" else None)
    assert acted


def test_what_is_written_goes_where_it_was_looked(
    system: str, folder: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system != "from folders":
        pytest.skip("a path is all that there is")
    folder.joinpath(KEY).unlink()
    moved = folder.with_name("moved")

    def exchange() -> None:
        folder.rename(moved)
        folder.symlink_to(theirs)

    monkeypatch.setattr(os.path, "exists", lambda path: True)  # it is made if it is missing; that is another look
    acted = once_looked_at(folder, exchange, monkeypatch)
    cache.write(OTHER, GOOD)
    assert acted
    assert [path.name for path in theirs.iterdir()] == [KEY]
    assert [path.name for path in moved.iterdir()] == [OTHER]


# --- its files --------------------------------------------------------------------------------------------------------


def linked(entry: Path, theirs: Path) -> None:
    entry.unlink()
    entry.symlink_to(theirs / KEY)


def piped(entry: Path, theirs: Path) -> None:
    entry.unlink()
    os.mkfifo(entry, 0o600)


def socketed(entry: Path, theirs: Path) -> None:
    entry.unlink()
    before = Path.cwd()
    os.chdir(entry.parent)  # what names a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(entry.name)
    finally:
        os.chdir(before)


def for_the_group(entry: Path, theirs: Path) -> None:
    entry.chmod(0o620)


def for_all(entry: Path, theirs: Path) -> None:
    entry.chmod(0o602)


def given_away(entry: Path, theirs: Path) -> None:
    os.chown(entry, NOBODY, -1)


@posix
@pytest.mark.parametrize(
    "put", [linked, piped, socketed, for_the_group, for_all, pytest.param(given_away, marks=as_root)]
)
def test_an_entry_that_is_not_ours_alone_is_not_taken_but_replaced(
    put: Callable[[Path, Path], None], folder: Path, theirs: Path
) -> None:
    put(folder / KEY, theirs)
    with promptly():
        assert cache.read(KEY) is None
        cache.write(KEY, GOOD)
        assert cache.read(KEY) == GOOD
    assert (theirs / KEY).read_bytes() == cache.sealed(KEY, EVIL)
    status = (folder / KEY).lstat()
    assert (stat.S_ISREG(status.st_mode), stat.S_IMODE(status.st_mode)) == (True, 0o600)


@pytest.mark.parametrize("become", [linked, piped])
def test_an_entry_exchanged_after_it_was_looked_at(
    become: Callable[[Path, Path], None], system: str, folder: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system == "paths, no flags" and become is piped:
        pytest.skip("such a system has no pipes in folders")
    acted = once_looked_at(folder / KEY, lambda: become(folder / KEY, theirs), monkeypatch)
    with promptly():
        assert cache.read(KEY) == (GOOD if system == "from folders" else None)
    assert acted


def test_an_entry_too_large_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.truncate(folder / KEY, 1 << 40)  # it takes no room on the disk, but would in memory
    with promptly():
        assert cache.read(KEY) is None


# --- what is made -----------------------------------------------------------------------------------------------------


@contextmanager
def umask(bits: int) -> Iterator[None]:
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("bits", [0, 0o022, 0o077])
def test_all_that_is_made_is_for_us_alone(bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path / "a" / "b" / "c"))
    with umask(bits):
        cache.write(KEY, GOOD)
    made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert made == {"a": 0o700, "b": 0o700, "c": 0o700, KEY: 0o600}


@pytest.mark.parametrize("where", ["{}/a/b/", "{}//a//b", "{}/./a/../a/b", "a/b", "./a/b/"])
def test_a_folder_that_is_missing_is_made_however_it_is_spelled(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir(mode=0o700)
    monkeypatch.setenv("TENXOR_CACHE_DIR", where.format(tmp_path))
    cache.write(KEY, GOOD)
    assert (tmp_path / "a" / "b" / KEY).exists() and cache.read(KEY) == GOOD


def test_a_relative_xdg_cache_home_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENXOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    cache.write(KEY, GOOD)
    assert (tmp_path / "home" / ".cache" / "tenxor" / KEY).exists()
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize("variable", [None, "XDG_CACHE_HOME", "TENXOR_CACHE_DIR"])
def test_no_home_is_made(variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TENXOR_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    if variable is not None:
        monkeypatch.setenv(variable, str(home / "kept"))
    cache.write(KEY, GOOD)
    assert not home.exists()
    home.mkdir()
    cache.write(KEY, GOOD)
    assert cache.read(KEY) == GOOD


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_home_that_is_nowhere_is_none(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENXOR_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: home)
    monkeypatch.chdir(tmp_path)
    cache.write(KEY, GOOD)
    assert cache.read(KEY) is None
    assert not list(tmp_path.iterdir())


def test_a_working_folder_that_is_gone_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for name in (".", "kept", "a/b"):
        monkeypatch.setenv("TENXOR_CACHE_DIR", name)
        cache.write(KEY, GOOD)
        assert cache.read(KEY) is None
