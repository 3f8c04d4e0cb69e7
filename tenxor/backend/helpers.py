"""The threads that help, each of which begins soon or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable


class _Begun(threading.Event):
    """Who starts a thread waits for this; but one that finds no memory for its first steps never says that it has begun."""

    def __init__(self, patience: float) -> None:
        super().__init__()
        self.patience = patience

    def wait(self, timeout: float | None = None) -> bool:
        found = super().wait(self.patience if timeout is None else timeout)
        if timeout is None and not found:
            raise RuntimeError("one did not begin")
        return found


class Helper(threading.Thread):
    """A thread whose start is not waited for without end, but for so many seconds."""

    def __init__(self, serve: Callable[[int], None], worker: int, patience: float) -> None:
        super().__init__(target=serve, args=(worker,), daemon=True, name=f"tenxor-{worker}")
        self._started = _Begun(patience)  # of all versions of CPython since 3.3
