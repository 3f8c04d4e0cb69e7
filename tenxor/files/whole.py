"""Files that are replaced whole or not at all; and shapes that files give."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

from ..errors import FileError
from ..tensor.core import MAX_SIZE

Place = str | os.PathLike[str]


def check_shape(what: str, shape: tuple[int, ...]) -> None:
    """Raise FileError for a shape that no tensor has. NumPy has no such array either, though it have no elements."""
    if any(n < 0 for n in shape) or prod([n or 1 for n in shape]) >= MAX_SIZE:
        raise FileError(f"{what} has shape {shape}, which no tensor has")


@contextmanager
def replaced(path: Place) -> Iterator[Path]:
    """Where to write what becomes the file, all at once, when it is there; nothing does if it is not."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
