"""Much at once takes a share for each: what is done for many grows with their number, and no faster."""

from __future__ import annotations

import sys
from types import FrameType

import tenxor as tx
from tenxor.realize import realize


def test_planning_many_roots_takes_a_share_for_each() -> None:
    """Calls of functions are counted, those written in C too."""

    def calls(count: int) -> int:
        x, made = tx.arange(10, dtype=tx.float64).realize(), 0

        def count_one(frame: FrameType, event: str, arg: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        roots = [(x + float(k)).storage.node for k in range(count)]
        sys.setprofile(count_one)
        try:
            realize(*roots)
        finally:
            sys.setprofile(None)
        return made

    calls(10)
    few = calls(40)
    assert calls(160) < 4.4 * few
