"""Test `python -m tenxor cache`, which shows, checks and clears the machine code on disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tenxor import codegen
from tenxor.__main__ import all_succeed, main, size
from tenxor.codegen.llvm import kernel_disk_cache

from .processes import python

KEYS = ("a" * 64, "b" * 64, "c" * 64)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new cache folder with three kernels."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(path))
    monkeypatch.setattr(codegen, "BACKEND_NAME", "llvm")
    for key in KEYS:
        kernel_disk_cache.write(key, b"code")
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Return the exit status and the output lines of `python -m tenxor cache`."""
    capsys.readouterr()
    status = main(["cache", *arguments])
    return status, capsys.readouterr().out.splitlines()


def test_cache_command_prints_the_folder_and_its_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bytes_ = sum(path.stat().st_size for path in folder.iterdir())
    (folder / "letter.txt").write_text("dear")
    lines = [str(folder), f"3 files, {bytes_} bytes; at most 8,192 files, 64.0 MiB, are kept.", "Used."]
    lines[1] = (
        lines[1].replace("8,192", f"{kernel_disk_cache.MAX_CACHE_FILES:,}").replace("64.0 MiB", size(kernel_disk_cache.MAX_CACHE_BYTES))
    )
    assert printed(capsys) == (0, lines)


def symlinked(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("moved")


def writable(folder: Path) -> None:
    folder.chmod(0o770)


def replaced_by_a_file(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.write_text("in the way")


def below_a_file(folder: Path) -> None:
    replaced_by_a_file(folder)
    os.environ["TENXOR_CACHE_DIR"] = str(folder / "below")


def in_a_missing_home(folder: Path) -> None:
    os.environ["HOME"] = str(folder / "home")
    os.environ["TENXOR_CACHE_DIR"] = str(folder / "home" / "kept")


def with_an_empty_variable(folder: Path) -> None:
    os.environ["TENXOR_CACHE_DIR"] = ""


@pytest.mark.parametrize(
    ("change_folder", "reason"),
    [
        (symlinked, "Not used: it is a symbolic link."),
        (writable, "Not used: it can be written by other users (mode 0770)."),
        (replaced_by_a_file, "Not used: Not a directory."),
        (below_a_file, "Not used: Not a directory."),
        (in_a_missing_home, "Not used: it is not there, and the home {0}/home is missing."),
        (with_an_empty_variable, "Not used: TENXOR_CACHE_DIR is empty."),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("check",), ("clear",)])
def test_unused_folder_is_reported_with_the_reason_and_left_alone(
    change_folder: object, reason: str, arguments: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert callable(change_folder)
    monkeypatch.setenv("HOME", os.environ.get("HOME", "/"))  # what is changed is put back
    change_folder(folder)
    status, lines = printed(capsys, *arguments)
    assert status == 1
    assert lines[-1] == reason.format(folder)
    assert {path.name for path in folder.parent.rglob("?" * 64)} == set(KEYS)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a system without users")
def test_folder_of_another_user_is_reported(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert printed(capsys) == (1, [str(folder), f"Not used: it belongs to another user (number {owner})."])


def test_missing_folder_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cache"
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(path))
    for arguments in ((), ("check",), ("clear",)):
        assert printed(capsys, *arguments) == (0, [str(path), "It is not there yet: the first kernel makes it."])
    assert not path.exists()
    monkeypatch.setattr(os, "access", lambda where, mode: False)
    assert printed(capsys) == (1, [str(path), f"Not used: it is not there, and {tmp_path} cannot be written."])


def test_read_only_folder_is_reported(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda where, mode: False)
    assert printed(capsys)[1][-1] == "Used, but nothing is added: it cannot be written."


def test_back_end_without_a_compiler_is_reported(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "BACKEND_NAME", "interpreter")
    assert printed(capsys)[1][-1] == "Not used: TENXOR_BACKEND is interpreter, which compiles nothing."


def test_relative_xdg_cache_home_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENXOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = ["XDG_CACHE_HOME is ignored: it is not absolute.", str(tmp_path / ".cache" / "tenxor")]
    assert printed(capsys)[1][:2] == expected


class TestCheck:
    def test_cache_check_counts_valid_kernels(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert printed(capsys, "check") == (0, [str(folder), "3 of 3 files are kernels, and sound."])

    def test_cache_check_reports_invalid_files_with_the_reason(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        valid_file = (folder / KEYS[0]).read_bytes()
        (folder / ("d" * 64)).write_bytes(valid_file)  # under another's name
        (folder / ("e" * 64)).write_bytes(b"")
        (folder / ("e" * 64 + "." + "0" * 16)).write_bytes(valid_file)
        (folder / ("f" * 64)).symlink_to(KEYS[0])
        (folder / "letter.txt").write_text("dear")
        (folder / KEYS[1]).write_bytes((folder / KEYS[1]).read_bytes()[:-1])
        (folder / KEYS[2]).chmod(0o666)
        status, (_, *lines) = printed(capsys, "check")
        assert status == 1
        assert lines == [
            f"{KEYS[1]}: is damaged, or no kernel",
            f"{KEYS[2]}: can be written by other users (mode 0666)",
            f"{'d' * 64}: is damaged, or no kernel",
            f"{'e' * 64}: is damaged, or no kernel",
            f"{'e' * 64}.{'0' * 16}: is being written, or was left by a process that was ended",
            f"{'f' * 64}: is a symbolic link",
            "letter.txt: is named as no kernel is; it is left alone",
            "1 of 8 files are kernels, and sound.",
        ]

    def test_check_leaves_the_times_of_last_use(self, folder: Path) -> None:
        os.utime(folder / KEYS[0], (1, 1))
        assert main(["cache", "check"]) == 0
        assert (folder / KEYS[0]).stat().st_mtime == 1


class TestClear:
    def test_only_kernel_files_are_removed(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        size_of_all = sum(path.stat().st_size for path in folder.iterdir())
        (folder / "letter.txt").write_text("dear")
        (folder / ("d" * 64 + "." + "0" * 16)).write_bytes(b"")
        assert printed(capsys, "clear") == (0, [str(folder), f"Removed: 4 files, {size_of_all} bytes."])
        assert [path.name for path in folder.iterdir()] == ["letter.txt"]

    def test_links_are_removed_and_their_targets_kept(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "letter.txt").write_text("dear")
        (folder / ("d" * 64)).symlink_to(tmp_path / "letter.txt")
        assert main(["cache", "clear"]) == 0
        assert not list(folder.iterdir()) and (tmp_path / "letter.txt").exists()

    def test_entries_that_cannot_be_removed_are_reported(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / ("d" * 64)).mkdir()
        status, (_, report, removed) = printed(capsys, "clear")
        assert (status, report[:64]) == (1, "d" * 64)
        assert removed.startswith("Removed: 3 files, ")


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (1 << 31, "2,048.0 MiB")]
)
def test_command_line_prints_sizes_in_readable_units(nbytes: int, text: str) -> None:
    assert size(nbytes) == text


def test_cache_command_runs_in_a_process(folder: Path) -> None:
    command = ("-W", "error", "-m", "tenxor", "cache")
    environment = {**os.environ, "TENXOR_BACKEND": "llvm", "TENXOR_FAST_PATH": "0"}  # whose import stores nothing
    for arguments, last_line in (((), "Used."), (("check",), "3 of 3 files are kernels, and sound.")):
        process = python(*command, *arguments, env=environment)
        assert (process.stdout.splitlines()[-1], process.stderr) == (last_line, "")
    wrong = python(*command, "burn", env=environment, well=False)
    assert wrong.returncode == 2 and "choose from" in wrong.stderr


MEET = "import sys; from pathlib import Path; Path(sys.argv[1]).touch()\nwhile not Path(sys.argv[2]).exists(): pass"


def test_all_succeed_runs_processes_concurrently(tmp_path: Path) -> None:
    """Each of the two processes ends once the other has begun."""
    paths = [str(tmp_path / name) for name in ("first", "second")]
    assert all_succeed([[sys.executable, "-c", MEET, *paths], [sys.executable, "-c", MEET, *reversed(paths)]]) == 0


def test_all_succeed_ends_the_other_processes_if_one_fails(tmp_path: Path) -> None:
    for_ever = [sys.executable, "-c", MEET, str(tmp_path / "begun"), str(tmp_path / "never")]
    assert all_succeed([[sys.executable, "-c", "raise SystemExit(3)"], for_ever]) == 1
