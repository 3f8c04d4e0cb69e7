"""Folders of this user's alone: what is in one, nobody else can have put there. For what must be trusted, such as code to run.

A path names whatever is there at the moment, so nothing is looked at by a path and then used by it. A folder is opened, what
was opened is looked at, and its files are opened from there, whatever becomes of the path meanwhile; they are looked at in
the same way. Symbolic links are followed on the way to a folder, but neither as the folder itself nor inside. A system that
cannot open files from a folder (`FROM_FOLDERS`) is given paths, with the same checks.

Descriptors are open only during a `with`, and no program that is started meanwhile inherits them (PEP 446).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from types import TracebackType

FROM_FOLDERS = (
    {os.open, os.stat, os.rename, os.unlink, os.utime} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
    and all(hasattr(os, flag) for flag in ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"))
)
_TIMES_OF_LINKS = os.utime in os.supports_follow_symlinks
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)  # no link, and no conversion of line ends
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _PLAIN
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _PLAIN  # a pipe is seen to be one, not waited for
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN


class Refused(OSError):
    """What is there is not taken; the text says why."""


def way_to(path: str) -> Iterator[str]:
    """The folders that a path leads through, the nearest first; the last of a relative one is where this process is."""
    while (outer := os.path.dirname(path) or os.curdir) != path:
        yield outer
        path = outer


def make(path: str) -> None:
    """Make a folder, and those on the way to it that are missing, for this user alone, whatever the umask."""
    for folder in (*reversed([each for each in way_to(path) if not os.path.exists(each)]), path):
        with contextlib.suppress(FileExistsError):  # another process was faster; whose it is, is looked at when it is opened
            os.mkdir(folder, 0o700)


class OwnFolder:
    """A folder that is there, open as long as a `with` lasts. Any method may raise OSError; `Refused` if what is there is not this
    user's, or others may write it, or it is of another kind.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self._descriptor: int | None = None

    def __enter__(self) -> OwnFolder:
        if not FROM_FOLDERS:
            _check(os.lstat(self.path), stat.S_IFDIR)
            return self
        descriptor = _open(self.path, _FOLDER)
        try:
            _check(os.fstat(descriptor), stat.S_IFDIR)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def names(self) -> list[str]:
        """All that is in the folder."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as found:
            return [entry.name for entry in found]

    def status(self, name: str) -> os.stat_result:
        """What the system knows of a file, or of a link itself."""
        return os.stat(self._where(name), dir_fd=self._descriptor, follow_symlinks=False)

    def read(self, name: str, most: int) -> tuple[bytes, os.stat_result]:
        """The content of a file of at most so many bytes, and what the system knows of it."""
        before = self.status(name) if self._descriptor is None else None
        if before is not None:
            _check(before, stat.S_IFREG)  # without the flags of `_READ`, opening would follow a link, or wait
        with _closing(_open(self._where(name), _READ, self._descriptor)) as descriptor:
            status = os.fstat(descriptor)
            _check(status, stat.S_IFREG)
            if before is not None and not os.path.samestat(before, status):
                raise Refused("was exchanged while it was opened")
            if status.st_size > most:
                raise Refused(f"is larger than {most:,} bytes")
            parts = []
            left = status.st_size
            while left > 0 and (part := os.read(descriptor, left)):
                parts.append(part)
                left -= len(part)
            return b"".join(parts), status

    def write(self, name: str, content: bytes) -> None:
        """Put a file in place, whole or not at all, whatever had its name. (If the machine breaks down meanwhile, what it holds is
        anybody's guess: nothing waits for the disk.)
        """
        temporary = f"{name}.{os.urandom(8).hex()}"
        descriptor = _open(self._where(temporary), _WRITE, self._descriptor)
        try:
            with _closing(descriptor):
                while content:
                    content = content[os.write(descriptor, content) :]
            os.replace(
                self._where(temporary), self._where(name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor
            )
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise

    def touch(self, name: str) -> None:
        """Say that a file is used now."""
        os.utime(self._where(name), dir_fd=self._descriptor, follow_symlinks=not _TIMES_OF_LINKS)

    def remove(self, name: str) -> None:
        """Remove a file, or a link itself."""
        os.unlink(self._where(name), dir_fd=self._descriptor)

    def _where(self, name: str) -> str:
        """What names a file: relative to the folder that is open, or its path."""
        return os.path.join(self.path, name) if self._descriptor is None else name


def _open(where: str | os.PathLike[str], flags: int, folder: int | None = None) -> int:
    """A descriptor, which no other program inherits."""
    try:
        return os.open(where, flags, 0o600, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:  # of a link some systems say that there are too many, some that it is no folder
        if stat.S_ISLNK(os.stat(where, dir_fd=folder, follow_symlinks=False).st_mode):
            raise Refused("is a symbolic link") from error
        raise


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}


def _check(status: os.stat_result, kind: int) -> None:
    """Refuse what is of another kind, another user's, or such that others may write it. Where a system has no such users, as on
    Windows, owners and modes say nothing, and only the kind is looked at.
    """
    if stat.S_IFMT(status.st_mode) != kind:
        raise Refused("is a symbolic link" if stat.S_ISLNK(status.st_mode) else f"is no {_KINDS[kind]}")
    if not hasattr(os, "geteuid"):
        return
    if status.st_uid != os.geteuid():
        raise Refused(f"belongs to another user (number {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Refused(f"may be written by others (mode {stat.S_IMODE(status.st_mode):04o})")
