"""Timing that is fair on a shared machine: contenders take turns, and medians are compared."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
THROTTLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # would have NumPy run code for another machine, at half its speed
Run = Callable[[], object]
TURN = 0.002  # seconds of a turn, or one call: short, so that most turns pass without being interrupted
SETTLE = 0.05  # seconds: a contender whose call is shorter makes some before its turn that are not timed
SPINNING = 0.03  # seconds for which threads of others may still wait for work at full speed, and keep a CPU from us


class Pace(NamedTuple):
    """How long to measure: `seconds` for all contenders together, in `fewest` to `most` rounds.

    Before its turn a contender has `settle` seconds for itself.
    """

    seconds: float = 1.0
    fewest: int = 7
    most: int = 60
    settle: float = 0.0


class Timed(NamedTuple):
    """Seconds of one call: the median over the rounds, and the quartiles."""

    median: float
    low: float
    high: float
    rounds: int


def side_by_side(contenders: Mapping[str, Run], pace: Pace = Pace()) -> dict[str, Timed]:  # noqa: B008
    """How long one call of each contender takes.

    Every round times each of them in turn, over as many calls as fill its turn; so a slow moment of the machine falls
    on all alike. Each round begins with another one, so that nobody always follows the same neighbour. Before its turn a
    contender makes calls that do not count, one or as many as `settle` takes: the cache, and threads of others that still
    wait for work, are then as they are in a program of its own. A result is dropped before the next call, so each call makes a fresh one.
    """
    once = {}
    for name, run in contenders.items():
        run()  # warm: what is compiled once, or touched first, is not the matter here
        once[name] = _timed(run, 1)
        if once[name] < SETTLE:
            once[name] = min(once[name], _timed(run, 1))
    calls = {name: max(1, int(TURN / max(took, 1e-9))) for name, took in once.items()}
    of_round = sum(took * calls[name] + (max(took, pace.settle) if took < SETTLE else 0) for name, took in once.items())
    rounds = max(pace.fewest, min(pace.most, int(pace.seconds / of_round)))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for k in range(rounds):
        for name in names[k % len(names) :] + names[: k % len(names)]:
            if once[name] < SETTLE:
                _settle(contenders[name], pace.settle)
            times[name].append(_timed(contenders[name], calls[name]))
    return {name: _summary(found) for name, found in times.items()}


def _settle(run: Run, seconds: float) -> None:
    """Call until so much time has passed, once at least."""
    until = time.perf_counter() + seconds
    run()
    while time.perf_counter() < until:
        run()


def fastest(runs: list[Run], rounds: int = 3) -> Run:
    """Of several spellings the one whose best call is the shortest."""
    if len(runs) == 1:
        return runs[0]
    for run in runs:
        run()
    best = [min(_timed(run, 1) for _ in range(rounds)) for run in runs]
    return runs[best.index(min(best))]


def first_and_warm(run: Run) -> tuple[float, float]:
    """Seconds of the first call, and of the best of three after it."""
    first = _timed(run, 1)
    return first, min(_timed(run, 1) for _ in range(3))


def _timed(run: Run, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def _summary(times: list[float]) -> Timed:
    if len(times) == 1:
        return Timed(times[0], times[0], times[0], 1)
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return Timed(middle, low, high, len(times))


def process_figures(codes: Mapping[str, tuple[str, Mapping[str, str]]], rounds: int) -> dict[str, list[float]]:
    """Return medians of fresh Pythons that run each of `codes` (code, environment) in turns.

    The first figure is the seconds of the whole process, the others are what the code prints, as numbers. A process that fails raises a
    `RuntimeError` with its error text.
    """
    found: dict[str, list[list[float]]] = {name: [] for name in codes}
    for _ in range(rounds):
        for name, (code, changes) in codes.items():
            env, start = fresh_environment(changes), time.perf_counter()
            done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True)
            took = time.perf_counter() - start
            if done.returncode:
                raise RuntimeError(f"{name}: the process ended with {done.returncode}:\n{done.stderr[-4000:]}")
            found[name].append([took, *map(float, done.stdout.split())])
    return {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}


def fresh_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a fresh process: that of this process with `changes`.

    Variables that would slow NumPy or Python down are removed, because users of an installed package have compiled modules, and code
    for their processor. Variables of Tenxor come from `changes` alone.
    """
    removed = (*THROTTLES, "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in removed and not name.startswith("TENXOR_")} | dict(changes)


def shown(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
