"""Text files that may be compressed, as the suffix of the name says (.gz, .bz2, .xz, .lzma), read up to a size limit."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import FileError
from .atomic_write import FilePath

TEXT_LIMIT_BYTES = 1 << 30  # default limit on the decompressed size


def _open_gzip(file: BinaryIO, mode: str) -> Any:
    """Return a file object for a gzip file over `file`, for compressing if `mode` is "wb", or decompressing if "rb"."""
    from gzip import GzipFile

    return GzipFile("", mode, fileobj=file)


def _open_bz2(file: BinaryIO, mode: str) -> Any:
    """Return a file object for a bzip2 file over `file`, for compressing if `mode` is "wb", or decompressing if "rb"."""
    from bz2 import BZ2File

    return BZ2File(file, mode)  # type: ignore[call-overload]


def _open_xz(file: BinaryIO, mode: str) -> Any:
    """Return a file object over `file`, for compressing to xz if `mode` is "wb", or decompressing xz or lzma if "rb"."""
    from lzma import LZMAFile

    return LZMAFile(file, mode)


_OPENERS = {".gz": _open_gzip, ".bz2": _open_bz2, ".xz": _open_xz, ".lzma": _open_xz}


def is_compressed(path: FilePath) -> bool:
    """Return whether the name of the file `path` ends in .gz, .bz2, .xz or .lzma."""
    return Path(path).suffix in _OPENERS


@contextmanager
def open_decompressed(path: FilePath, subject: str, max_bytes: int | None) -> Iterator[io.TextIOWrapper]:
    """Open the compressed file `path`, in the format given by the suffix of the name, to read UTF-8 text. The context yields a text file.

    Reading raises FileError, beginning with `subject`, if the file is damaged, or has more than `max_bytes` bytes of text (None: no limit).
    """
    with Path(path).open("rb") as file, _OPENERS[Path(path).suffix](file, "rb") as content:
        yield io.TextIOWrapper(io.BufferedReader(_LimitedReader(content, subject, max_bytes), 1 << 16), encoding="utf-8-sig")


@contextmanager
def open_compressing(path: Path, suffix: str) -> Iterator[io.TextIOWrapper]:
    """Open the file `path` to write UTF-8 text, compressed in the format of `suffix`, for example ".gz". The context yields a text file."""
    with path.open("wb") as file, _OPENERS[suffix](file, "wb") as content, io.TextIOWrapper(content, encoding="utf-8") as text:
        yield text


class _LimitedReader(io.RawIOBase):
    """The decompressed bytes of the file object `content`; reading more than `limit` bytes (None: no limit) raises FileError.

    Errors begin with `subject`. Damaged content raises FileError, too.
    """

    def __init__(self, content: Any, subject: str, limit: int | None) -> None:
        self._content, self._subject, self._limit, self._count = content, subject, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count: int = self._content.readinto(buffer)
        except Exception as error:  # decompressors raise errors of many types about damaged bytes
            if isinstance(error, OSError) and error.errno is not None:  # an error of the system, not of the content
                raise
            raise FileError(f"{self._subject} is not a readable compressed file: {error}") from error
        self._count += count
        if self._limit is not None and self._count > self._limit:
            raise FileError(
                f"{self._subject} expands to more than {self._limit} bytes; its text must have at most max_bytes;"
                " give a larger max_bytes, or None for no limit"
            )
        return count
