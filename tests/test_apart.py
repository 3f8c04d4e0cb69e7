"""Work apart: who waits for it hears signals, and what cannot be stopped is let go."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tenxor as tx
from tenxor import apart
from tenxor.apart import droppable, stoppable

from .processes import python


def nothing() -> None:
    """Is to be stopped where nothing needs to be."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[float], None]]:
    """Sends SIGINT so many seconds later; in the background it may be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timers = []

    def later(seconds: float) -> None:
        timers.append(threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)))
        timers[-1].start()

    yield later
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("run", [stoppable, droppable])
def test_work_in_a_thread_returns_its_result_or_raises_its_error(run: Callable[..., object]) -> None:
    def fail() -> None:
        raise KeyError("3")

    assert run(lambda: threading.get_ident(), nothing) != threading.get_ident()
    assert run(lambda: 3, nothing) == 3
    with pytest.raises(KeyError, match="3"):
        run(fail, nothing)


@pytest.mark.parametrize("run", [stoppable, droppable])
def test_work_runs_in_the_caller_if_no_thread_can_start(run: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(apart, "start_new_thread", none)
    assert run(threading.get_ident, nothing) == threading.get_ident()


class Garbage:
    """What only the collector lets go of; then it calls something."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.itself, self.then = self, then

    def __del__(self) -> None:
        self.then()


@pytest.mark.parametrize("run", [stoppable, droppable])
def test_finalizers_do_not_run_in_the_worker_thread(run: Callable[..., object]) -> None:
    """They may want a lock that the main thread holds."""
    where: list[int] = []

    def work() -> int:
        for _ in range(100):
            Garbage(lambda: where.append(threading.get_ident()))
        return threading.get_ident()

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        there = run(work, nothing)
        gc.collect()
    finally:
        gc.set_threshold(*before)
    assert len(where) == 100 and there not in where


def test_garbage_is_collected_while_work_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "COLLECTED", 0.01)
    gone = threading.Event()

    def work() -> bool:
        Garbage(gone.set)
        return gone.wait(30)

    assert stoppable(work, nothing)


@pytest.mark.parametrize("collects", [True, False])
def test_collector_is_restored_after_work(collects: bool) -> None:
    def fail() -> None:
        raise KeyError

    if not collects:
        gc.disable()
    try:
        stoppable(nothing, nothing)
        assert gc.isenabled() is collects
        with pytest.raises(KeyError):
            droppable(fail, nothing)
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_work_called_from_another_thread_runs_there() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(stoppable(threading.get_ident, nothing) == threading.get_ident()))
    thread.start()
    thread.join()
    assert found == [True]


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")
class TestInterrupts:
    def test_interrupt_stops_interruptible_work_and_waits_for_it(self, interrupt: Callable[[float], None]) -> None:
        stop, ended = threading.Event(), []

        def work() -> None:
            stop.wait(30)
            time.sleep(0.05)
            ended.append(True)

        interrupt(0.05)
        with pytest.raises(KeyboardInterrupt):
            stoppable(work, stop.set)
        assert ended

    def test_interrupt_abandons_droppable_work_which_goes_on(self, interrupt: Callable[[float], None]) -> None:
        go_on, ended = threading.Event(), threading.Event()

        def work() -> None:
            go_on.wait(30)
            ended.set()

        interrupt(0.05)
        with pytest.raises(KeyboardInterrupt):
            droppable(work, nothing)
        assert not ended.is_set()
        go_on.set()
        assert ended.wait(30)

    def test_signal_handler_may_compute_during_work(self) -> None:
        """The handler computes as much as the large product that it interrupts, and both results are right."""
        x, found = tx.ones((1500, 1500)).realize(), []

        def handler(number: int, frame: object) -> None:
            found.append((x @ x).sum().item() + tx.arange(1 << 20).argmax().item())

        handler(0, None)  # modules that are half loaded are of no use to what a signal calls
        before = signal.signal(signal.SIGALRM, handler)
        try:
            for _ in range(8):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                assert (x @ x).sum().item() == 1500**3
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert len(found) > 1
        assert set(found) == {1500**3 + (1 << 20) - 1}

    def test_abandoned_work_keeps_its_memory_until_it_ends(self, interrupt: Callable[[float], None]) -> None:
        x = tx.asarray(np.random.default_rng(0).normal(size=1 << 22)).realize()
        tx.argsort(x[:99])  # what Python leaves when an import is broken off is not ours
        wanted, before = x.to_numpy(), tx.memory().in_use
        for after in (0.02, 0.1, 0.2):
            interrupt(after)
            end = time.monotonic() + 60
            with pytest.raises(KeyboardInterrupt):
                while time.monotonic() < end:
                    tx.argsort(x)
            others = [tx.full(1 << 22, float(k)).realize() for k in range(3)]
            x += 1.0  # elsewhere, as who is at work reads it
            x -= 1.0
            x.realize()
            assert [set(other[:: 1 << 12].tolist()) for other in others] == [{0.0}, {1.0}, {2.0}]
            del others
        for _ in range(600):
            gc.collect()
            if tx.memory().in_use <= before:
                break
            time.sleep(0.1)
        assert tx.memory().in_use <= before
        np.testing.assert_allclose(x.to_numpy(), wanted)


DROPPED = """
import os, signal, sys
import tenxor as tx
signal.signal(signal.SIGALRM, signal.default_int_handler)
x = tx.random.normal(shape=(1200, 1200)).realize()
tx.linalg.svd(x[:50, :50])
signal.setitimer(signal.ITIMER_REAL, AFTER)
try:
    while True:
        tx.linalg.svd(x)
except KeyboardInterrupt:
    THEN
"""


class TestThreadWithoutMemory:
    """For its first step: Python says so to nobody but the user."""

    @pytest.mark.parametrize("way", [stoppable, droppable])
    def test_thread_without_memory_for_its_first_step_raises(self, way: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[object] = []

        def fails(work: object, *given: object) -> None:
            raise MemoryError

        monkeypatch.setattr(apart._Work, "do", fails)
        monkeypatch.setattr(apart, "COLLECTED", 0.1)
        monkeypatch.setattr("sys.unraisablehook", lambda seen: told.append(seen.exc_type))
        with pytest.raises(MemoryError, match="no memory to begin with"):
            way(lambda: 1, nothing)
        assert told == [MemoryError] and not apart._dropped

    def test_abandoned_thread_without_memory_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        work = apart._Work(lambda: 1)
        token = work.given()
        monkeypatch.setattr(apart, "_dropped", {work})
        settling = threading.Thread(target=apart._settled, daemon=True)
        settling.start()
        settling.join(0.2)
        assert settling.is_alive()
        del token  # as the thread that had it ends
        settling.join(20)
        assert not settling.is_alive() and not apart._dropped


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
class TestAbandonedWork:
    """LAPACK's, with OpenBLAS's own threads: these are no threads that anybody may end, or wait for."""

    def test_process_exits_with_its_status_during_abandoned_work(self) -> None:
        for k in range(12):
            program = DROPPED.replace("AFTER", str(0.02 + 0.013 * k)).replace("THEN", "print('said'); sys.exit(3)")
            done = python("-c", program, well=False, within=60)
            assert (done.returncode, done.stdout, done.stderr) == (3, "said\n", "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    @pytest.mark.filterwarnings("ignore:.*fork")
    def test_process_may_fork_during_abandoned_work(self) -> None:
        then = """
    child = os.fork()
    assert tx.linalg.svd(x[:100, :100])[1][0].item() > 10
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
        for k in range(4):
            python("-c", DROPPED.replace("AFTER", str(0.02 + 0.04 * k)).replace("THEN", then.strip()), within=60)
