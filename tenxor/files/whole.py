"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Place = str | os.PathLike[str]


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
