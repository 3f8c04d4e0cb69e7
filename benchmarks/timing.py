"""Timing that is fair on a shared machine: contenders take turns, and medians are compared."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

Run = Callable[[], object]


def side_by_side(contenders: Mapping[str, Run], seconds: float = 1.0, rounds: int = 7) -> dict[str, float]:
    """The median time of one call of each contender, in seconds.

    Every round times each of them in turn, over as many calls as fill its share of `seconds`; so a slow moment of the
    machine falls on all alike.
    """
    calls: dict[str, int] = {}
    for name, run in contenders.items():
        run()  # warm: what is compiled once, or touched first, is not the matter here
        took = _timed(run, 1)
        calls[name] = max(1, int(seconds / rounds / len(contenders) / max(took, 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(_timed(run, calls[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _timed(run: Run, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def process_seconds(*codes: str, rounds: int = 11, **env: str) -> list[float]:
    """The median times of fresh Pythons that run each of `codes`, in turns, in seconds.

    They find compiled modules, as users of an installed package do, whatever this environment says about them.
    """
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **env}
    times: list[list[float]] = [[] for _ in codes]
    for _ in range(rounds):
        for code, found in zip(codes, times, strict=True):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env=env, stdout=subprocess.DEVNULL)
            found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def shown(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
