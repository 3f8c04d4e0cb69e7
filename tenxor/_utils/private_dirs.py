"""Folders writable only by the current user, for trusted files such as machine code.

A path may name another file from one call to the next, so no path is checked first and used later. The folder is opened, the descriptor is
checked, and files are opened and checked relative to the descriptor. Symbolic links are followed on the way to a folder, but neither as the
folder itself nor inside it. On a system without calls relative to a descriptor (`HAS_DIR_FD_CALLS` is false), paths are used, with the same
checks.

Descriptors are open only inside a `with`, and are not inherited by programs started meanwhile (PEP 446).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from types import TracebackType

HAS_DIR_FD_CALLS = (
    {os.open, os.stat, os.rename, os.unlink, os.utime} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
    and all(hasattr(os, flag) for flag in ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"))
)
_CAN_TOUCH_LINKS = os.utime in os.supports_follow_symlinks
_COMMON_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)  # follow no link, and convert no line ends
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _COMMON_FLAGS
_READ_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _COMMON_FLAGS
)  # opening a pipe returns at once, so that the pipe can be recognised
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON_FLAGS


class UntrustedPathError(OSError):
    """A folder or file is not trusted, or not of the expected kind; the text says why."""


def iter_parents(path: str) -> Iterator[str]:
    """Yield the parent folders of `path`, nearest first. The last one is the root, or for a relative path the current folder."""
    while (outer := os.path.dirname(path) or os.curdir) != path:
        yield outer
        path = outer


def make_private_dir(path: str) -> None:
    """Create the folder `path` and its missing parents with mode 0o700, whatever the umask. Existing folders are left as they are."""
    for folder in (*reversed([parent for parent in iter_parents(path) if not os.path.exists(parent)]), path):
        with contextlib.suppress(FileExistsError):  # created by another process; its owner is checked when the folder is opened
            os.mkdir(folder, 0o700)


class PrivateDir:
    """The existing folder `path` of the current user, open inside a `with`. Methods take the names of files in the folder.

    Every method may raise OSError. This is an `UntrustedPathError` if a folder or file belongs to another user, is writable by others, or
    is of another kind.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self._descriptor: int | None = None

    def __enter__(self) -> PrivateDir:
        if not HAS_DIR_FD_CALLS:
            _check_status(os.lstat(self.path), stat.S_IFDIR)
            return self
        descriptor = _open(self.path, _FOLDER_FLAGS)
        try:
            _check_status(os.fstat(descriptor), stat.S_IFDIR)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def list_names(self) -> list[str]:
        """Return the names of all entries of the folder, in arbitrary order."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as entries:
            return [entry.name for entry in entries]

    def status(self, name: str) -> os.stat_result:
        """Return the status (`os.stat_result`) of the file `name`. Of a symbolic link, return the status of the link itself."""
        return os.stat(self._system_path(name), dir_fd=self._descriptor, follow_symlinks=False)

    def read(self, name: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
        """Return the content and the status of `name`, a regular file.

        Raise `UntrustedPathError` for a file of more than `max_bytes` bytes.
        """
        path_status = self.status(name) if self._descriptor is None else None
        if path_status is not None:
            _check_status(path_status, stat.S_IFREG)  # without the flags of `_READ_FLAGS`, opening would follow a link, or wait for a pipe
        with _close_at_exit(_open(self._system_path(name), _READ_FLAGS, self._descriptor)) as descriptor:
            status = os.fstat(descriptor)
            _check_status(status, stat.S_IFREG)
            if path_status is not None and not os.path.samestat(path_status, status):
                raise UntrustedPathError("was replaced while it was opened")
            if status.st_size > max_bytes:
                raise UntrustedPathError(f"is larger than {max_bytes:,} bytes")
            chunks = []
            remaining = status.st_size
            while remaining > 0 and (chunk := os.read(descriptor, remaining)):
                chunks.append(chunk)
                remaining -= len(chunk)
            return b"".join(chunks), status

    def write(self, name: str, content: bytes) -> None:
        """Write `content` to the file `name` atomically, replacing any file of this name: readers see the old content or the whole new one.

        The data is not synced to disk, so after a crash of the machine the file may hold anything.
        """
        temporary = f"{name}.{os.urandom(8).hex()}"
        descriptor = _open(self._system_path(temporary), _WRITE_FLAGS, self._descriptor)
        try:
            with _close_at_exit(descriptor):
                while content:
                    content = content[os.write(descriptor, content) :]
            os.replace(self._system_path(temporary), self._system_path(name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise

    def touch(self, name: str) -> None:
        """Set the access and modification times of the file `name` to now, to mark it as recently used."""
        os.utime(self._system_path(name), dir_fd=self._descriptor, follow_symlinks=not _CAN_TOUCH_LINKS)

    def remove(self, name: str) -> None:
        """Remove the file `name`. Of a symbolic link, remove the link itself."""
        os.unlink(self._system_path(name), dir_fd=self._descriptor)

    def _system_path(self, name: str) -> str:
        """Return `name` as it is passed to the system: relative to the open descriptor, or the full path without one."""
        return os.path.join(self.path, name) if self._descriptor is None else name


def _open(path: str | os.PathLike[str], flags: int, folder: int | None = None) -> int:
    """Open `path` with `flags` of `os.open`, and return the descriptor, which child processes do not inherit.

    A created file has mode 0o600. `folder` is the descriptor of the folder that `path` is relative to, or None. Raise `UntrustedPathError`
    for a symbolic link.
    """
    try:
        return os.open(path, flags, 0o600, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:  # systems differ in the error for a symbolic link
        if stat.S_ISLNK(os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode):
            raise UntrustedPathError("is a symbolic link") from error
        raise


@contextlib.contextmanager
def _close_at_exit(descriptor: int) -> Iterator[int]:
    """Close the open file descriptor `descriptor` at the end of a `with`."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}


def _check_status(status: os.stat_result, kind: int) -> None:
    """Raise `UntrustedPathError` unless `status` is of `kind`, belongs to the current user, and is not writable by group or others.

    `kind` is `stat.S_IFREG` or `stat.S_IFDIR`. On systems without numeric users, such as Windows, only the kind is checked.
    """
    if stat.S_IFMT(status.st_mode) != kind:
        raise UntrustedPathError("is a symbolic link" if stat.S_ISLNK(status.st_mode) else f"is not a {_KINDS[kind]}")
    if not hasattr(os, "geteuid"):
        return
    if status.st_uid != os.geteuid():
        raise UntrustedPathError(f"belongs to another user (number {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UntrustedPathError(f"can be written by other users (mode {stat.S_IMODE(status.st_mode):04o})")
