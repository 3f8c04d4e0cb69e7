"""Atomic replacement of files, and a check of shapes read from files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

from ..errors import FileError
from ..tensor.core import MAX_TENSOR_ELEMENTS

FilePath = str | os.PathLike[str]


def check_shape(subject: str, shape: tuple[int, ...]) -> None:
    """Raise FileError, in a message beginning with `subject`, for a shape read from a file that no tensor has.

    Refused are negative sizes, and `MAX_TENSOR_ELEMENTS` elements or more. Axes of size 0 count as 1, since NumPy rejects large shapes even
    without elements.
    """
    if any(n < 0 for n in shape) or prod([n or 1 for n in shape]) >= MAX_TENSOR_ELEMENTS:
        raise FileError(
            f"{subject} has shape {shape}; no size may be negative, and sizes above 0 must multiply to less than {MAX_TENSOR_ELEMENTS}"
        )


@contextmanager
def replace_atomically(path: FilePath) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; when the context ends, the file written there replaces `path` atomically.

    The file is written through to the disk first (fsync). If the context ends with an error, the temporary file is deleted and `path` is
    unchanged.
    """
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
