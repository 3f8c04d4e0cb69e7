"""`python -m benchmarks.larger`: what is larger than memory, on Dask, with NumPy's chunks and with Tenxor's.

Two worker processes of one thread and 2 GB each; the data lie in files, of which each chunk is one, and are read when they are needed. Each
program runs in a new cluster with either kind of chunk, in turn. Beside the time on the clock stands that of the processors that both
workers had, which says more where others are at work on the machine. What is said of memory is the most that the two had at a time, as
the system counts it (RSS), beyond what they had before.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import psutil
from distributed import Client, LocalCluster

import tenxor.dask

COLUMNS = 256
PROJECTED = 64
CLUSTERS = 16
STEPS = 3  # of k-means
PENALTY = 10.0
MEMORY = 2_000_000_000  # bytes of each worker
WORKERS = 2
CHUNK = 1 << 26  # bytes

Arrays = dict[str, Any]


class Run(NamedTuple):
    """What a program took: seconds on the clock, seconds of processors, bytes; and what came of it."""

    seconds: float
    processors: float
    peak: int
    found: Arrays


def standardised(x: Any, w: Any) -> Arrays:
    """Each column less its mean, by its deviation; a product, and what is left of both: the data are read once for either half."""
    mean, deviation = dask.compute(x.mean(axis=0), x.std(axis=0))
    z = (x - mean) / deviation
    y = z @ w
    largest, squares, deviations = dask.compute(abs(z).max(axis=0), (y**2).mean(axis=0), y.std(axis=0))
    return {"mean": mean, "largest": largest, "squares": squares, "deviations": deviations}


def in_one_graph(x: Any, w: Any) -> Arrays:
    """The same, asked for at once: Dask keeps the data from one half to the other, and what has no place goes to the disk."""
    mean = x.mean(axis=0)
    z = (x - mean) / x.std(axis=0)
    y = z @ w
    found = dask.compute(mean, abs(z).max(axis=0), (y**2).mean(axis=0), y.std(axis=0))
    return dict(zip(("mean", "largest", "squares", "deviations"), found, strict=True))


def ridge(x: Any, w: Any) -> Arrays:
    """Coefficients of a target by all columns, with a penalty: the normal equations, added up chunk by chunk."""
    target = da.tanh(x @ w[:, :1])[:, 0]
    gram, moments, mean = dask.compute(x.T @ x, x.T @ target, target.mean())
    found = np.linalg.solve(np.asarray(gram, np.float64) + PENALTY * np.eye(len(gram)), np.asarray(moments, np.float64))
    return {"coefficients": found, "mean": mean}


def kmeans(x: Any, w: Any) -> Arrays:
    """Lloyd's steps: each row to the nearest centre, each centre to the mean of its rows. A pass over the data a step."""
    centres = x[:CLUSTERS].compute()
    for _ in range(STEPS):
        distances = (centres**2).sum(1) - 2 * (x @ centres.T)
        mine = distances.argmin(axis=1)[:, None] == np.arange(CLUSTERS)[None, :]
        sums, counts = dask.compute(mine.astype(x.dtype).T @ x, mine.sum(axis=0))
        centres = sums / counts[:, None].astype(sums.dtype)
    return {"centres": centres}


PROGRAMS: dict[str, Callable[[Any, Any], Arrays]] = {
    "standardise, multiply, reduce": standardised,
    "the same in one graph": in_one_graph,
    "ridge regression": ridge,
    "k-means, three steps": kmeans,
}
CHUNKS: dict[str, Callable[[Any], Any]] = {"numpy": lambda x: x, "tenxor": tenxor.dask.asarray}


def written(folder: Path, gigabytes: float) -> Path:
    """A stack of files in the format of `dask.array.from_npy_stack`: columns of random numbers with means and deviations of their own."""
    rows = CHUNK // (4 * COLUMNS)
    count = max(2, round(gigabytes * 1e9 / CHUNK))
    draw = np.random.default_rng(0)
    offset, scale = draw.normal(size=COLUMNS).astype("f4"), (1 + draw.random(COLUMNS)).astype("f4")

    def block(k: int) -> np.ndarray[Any, Any]:
        return np.random.default_rng(k + 1).standard_normal((rows, COLUMNS), dtype=np.float32) * scale + offset

    target = folder / f"{count}"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        parts = [da.from_delayed(dask.delayed(block)(k), (rows, COLUMNS), np.float32) for k in range(count)]
        da.to_npy_stack(target, da.concatenate(parts))
    return target


@contextmanager
def watched(processes: list[psutil.Process]) -> Iterator[Callable[[], int]]:
    """The most memory that some processes had together since the beginning, less what they had then."""
    before = most = sum(p.memory_info().rss for p in processes)
    over = threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.wait(0.02):
            most = max(most, sum(p.memory_info().rss for p in processes))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: most - before
    finally:
        over.set()
        watcher.join()


def measured(program: Callable[[Any, Any], Arrays], chunks: Callable[[Any], Any], folder: Path) -> Run:
    """A run in a new cluster, which has done the same for two chunks before."""
    cluster = LocalCluster(n_workers=WORKERS, threads_per_worker=1, memory_limit=MEMORY, dashboard_address=":0", silence_logs=logging.ERROR)
    with cluster, Client(cluster) as client:
        pids = client.run(_pid)
        x = chunks(da.from_npy_stack(folder, mmap_mode=None))
        w = np.random.default_rng(7).standard_normal((COLUMNS, PROJECTED), dtype=np.float32)
        program(x.blocks[:2], w)
        processes = [psutil.Process(pid) for pid in pids.values()]
        with watched(processes) as most:
            start, before = time.perf_counter(), _processors(processes)
            found = program(x, w)
            seconds, used = time.perf_counter() - start, _processors(processes) - before
            peak = most()
        if client.run(_pid) != pids:
            raise RuntimeError("a worker had to be started anew")
        return Run(seconds, used, peak, {name: np.asarray(value) for name, value in found.items()})


def _processors(processes: list[psutil.Process]) -> float:
    return sum(sum(p.cpu_times()[:2]) for p in processes)


def _pid() -> int:
    import os

    return os.getpid()


def main() -> None:
    """Run what is asked for, and print a table."""
    parser = argparse.ArgumentParser("python -m benchmarks.larger", description="Larger than memory, on Dask.")
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name has this in it")
    parser.add_argument("--folder", type=Path, help="where the data are kept, or found; else they are removed at the end")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = written(asked.folder or Path(temporary), asked.gigabytes)
        print(f"| {asked.gigabytes:g} GB | NumPy's chunks | Tenxor's chunks | time | of processors |\n|---|---|---|---|---|")
        for name, program in PROGRAMS.items():
            if asked.only not in name:
                continue
            runs: dict[str, list[Run]] = {kind: [] for kind in CHUNKS}
            for _ in range(asked.rounds):
                for kind, chunks in CHUNKS.items():
                    runs[kind].append(measured(program, chunks, folder))
            theirs, ours = runs["numpy"][0].found, runs["tenxor"][0].found
            for key in theirs:
                np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-3, atol=1e-3, err_msg=f"{name}: {key}")
            print(row(name, runs["numpy"], runs["tenxor"]), flush=True)


def row(name: str, theirs: list[Run], ours: list[Run]) -> str:
    """The medians of some runs, and how many times as long NumPy's chunks took."""
    cells, times, used = [], [], []
    for runs in (theirs, ours):
        times.append(statistics.median([run.seconds for run in runs]))
        used.append(statistics.median([run.processors for run in runs]))
        peak = statistics.median([run.peak for run in runs])
        cells.append(f"{times[-1]:.1f} s, of processors {used[-1]:.1f} s; {peak / 1e9:.2f} GB")
    return f"| {name} | {cells[0]} | {cells[1]} | {times[0] / times[1]:.2f} × | {used[0] / used[1]:.2f} × |"


if __name__ == "__main__":
    main()
