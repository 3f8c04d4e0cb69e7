"""A look inside Tenxor, on runs apart from the timed ones: how long its kernels run, and what it compiles."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import tenxor as tx
from tenxor import fastpath
from tenxor.codegen.llvm.compiler import compiler
from tenxor.codegen.threads import worker_pool
from tenxor.runtime.realize import evict_plans as forget_plans

Run = Callable[[], object]


def forget() -> None:
    """Forget plans and kernels, so that the next call is a first one; on disk nothing is kept meanwhile."""
    forget_plans()
    compiler().kernels.drop_recent()


def compiles() -> int:
    """How many kernels were compiled in this process."""
    return tx.compile_counts()[0]


def parts(run: Run, rounds: int = 101, seconds: float = 0.3, *, hosted: bool = False) -> tuple[float, float]:
    """Seconds that one call of `run` spends in machine code, and outside it: medians.

    What is timed is from when the first thread enters a kernel to when the last one has left it. What it costs to call
    anything at all from Python is measured with a function of C that does nothing, and counted as Python's. Small work is
    done by Python's own methods and by plans meanwhile. What is `hosted` may run no kernel.
    """
    with fastpath.disabled():
        return _parts(run, rounds, seconds, hosted)


def _parts(run: Run, rounds: int, seconds: float, hosted: bool) -> tuple[float, float]:
    run()  # its kernels are there to be watched
    spans: list[tuple[float, float]] = []
    here = list(compiler().kernels.live_kernels.values())
    before = [(each.call_with_gil, each.call_without_gil) for each in here]
    for each in here:
        each.call_with_gil, each.call_without_gil = _watched(each.call_with_gil, spans), _watched(each.call_without_gil, spans)
    pool = worker_pool._get_pool() if tx.num_threads() > 1 else None
    if pool is not None:
        share = pool.work_queue.share_loop
        pool.work_queue.share_loop = _watched(share, spans)
    try:
        inside: list[float] = []
        outside: list[float] = []
        deadline = time.perf_counter() + seconds
        while len(inside) < rounds and (len(inside) < 5 or time.perf_counter() < deadline):
            spans.clear()
            start = time.perf_counter()
            run()
            whole = time.perf_counter() - start
            covered, stretches = _covered(spans)
            kernels = max(0.0, covered - stretches * _call_seconds())
            inside.append(kernels)
            outside.append(whole - kernels)
    finally:
        for each, (call, call_free) in zip(here, before, strict=True):
            each.call_with_gil, each.call_without_gil = call, call_free
        if pool is not None:
            pool.work_queue.share_loop = share
    if not (spans or hosted):
        raise RuntimeError("no kernel was seen to run: kernels are called elsewhere than by MachineCode.call now")
    return statistics.median(inside), statistics.median(outside)


def _watched(call: Callable[..., None], spans: list[tuple[float, float]]) -> Callable[..., None]:
    clock = time.perf_counter

    def watched(*args: Any) -> None:
        start = clock()
        call(*args)
        spans.append((start, clock()))

    return watched


def _covered(spans: list[tuple[float, float]]) -> tuple[float, int]:
    """How much time the spans cover, and in how many stretches."""
    total, until, stretches = 0.0, 0.0, 0
    for start, end in sorted(spans):
        if start >= until:
            stretches += 1
            total += end - start
        elif end > until:
            total += end - until
        until = max(until, end)
    return total, stretches


_bare: list[float] = []


def _call_seconds() -> float:
    """What a watched call costs in which nothing happens."""
    if not _bare:
        import ctypes

        here = compiler()
        library = here._load(here._compile("define void @idle(ptr %a, i64 %b, i64 %e) {\n ret void\n}", ("idle",)), ("idle",))
        idle = ctypes.PYFUNCTYPE(None)(library["idle"])
        spans: list[tuple[float, float]] = []
        zero = ctypes.c_int64(0)
        watched = _watched(idle, spans)
        for _ in range(1000):
            watched(b"", zero, zero)
        _bare.append(statistics.median(end - start for start, end in spans))
    return _bare[0]
