"""Test long work in worker threads: signals interrupt the wait, and work that cannot be stopped is dropped."""

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
from tenxor._utils import interruptible
from tenxor._utils.interruptible import run_abandonable, run_interruptible

from .processes import python


def do_nothing() -> None:
    """Stop work that needs no stopping."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[float], None]]:
    """Return a function that sends SIGINT after some seconds. A process in the background may start with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timers = []

    def send_after(seconds: float) -> None:
        timers.append(threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)))
        timers[-1].start()

    yield send_after
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("run", [run_interruptible, run_abandonable])
def test_work_in_a_thread_returns_its_result_and_raises_its_error(run: Callable[..., object]) -> None:
    def fail() -> None:
        raise KeyError("3")

    assert run(lambda: threading.get_ident(), do_nothing) != threading.get_ident()
    assert run(lambda: 3, do_nothing) == 3
    with pytest.raises(KeyError, match="3"):
        run(fail, do_nothing)


@pytest.mark.parametrize("run", [run_interruptible, run_abandonable])
def test_work_runs_in_the_calling_thread_if_no_thread_can_start(run: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(interruptible, "start_new_thread", refuse)
    assert run(threading.get_ident, do_nothing) == threading.get_ident()


class Garbage:
    """An object that refers to itself, so that only the collector frees it; its finalizer calls `then`."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.itself, self.then = self, then

    def __del__(self) -> None:
        self.then()


@pytest.mark.parametrize("run", [run_interruptible, run_abandonable])
def test_finalizers_of_garbage_do_not_run_in_the_worker_thread(run: Callable[..., object]) -> None:
    """A finalizer may need a lock that the main thread holds."""
    finalizer_threads: list[int] = []

    def work() -> int:
        for _ in range(100):
            Garbage(lambda: finalizer_threads.append(threading.get_ident()))
        return threading.get_ident()

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        worker = run(work, do_nothing)
        gc.collect()
    finally:
        gc.set_threshold(*before)
    assert len(finalizer_threads) == 100 and worker not in finalizer_threads


def test_garbage_is_collected_while_work_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptible, "GC_INTERVAL_S", 0.01)
    collected = threading.Event()

    def work() -> bool:
        Garbage(collected.set)
        return collected.wait(30)

    assert run_interruptible(work, do_nothing)


@pytest.mark.parametrize("collects", [True, False])
def test_collector_is_enabled_after_work_only_if_it_was_before(collects: bool) -> None:
    def fail() -> None:
        raise KeyError

    if not collects:
        gc.disable()
    try:
        run_interruptible(do_nothing, do_nothing)
        assert gc.isenabled() is collects
        with pytest.raises(KeyError):
            run_abandonable(fail, do_nothing)
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_work_asked_for_outside_the_main_thread_runs_in_that_thread() -> None:
    ran_in_same_thread: list[bool] = []
    thread = threading.Thread(
        target=lambda: ran_in_same_thread.append(run_interruptible(threading.get_ident, do_nothing) == threading.get_ident())
    )
    thread.start()
    thread.join()
    assert ran_in_same_thread == [True]


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")
class TestInterrupts:
    def test_stoppable_work_is_waited_for_after_ctrl_c(self, interrupt: Callable[[float], None]) -> None:
        stop, ended = threading.Event(), []

        def work() -> None:
            stop.wait(30)
            time.sleep(0.05)
            ended.append(True)

        interrupt(0.05)
        with pytest.raises(KeyboardInterrupt):
            run_interruptible(work, stop.set)
        assert ended

    def test_ctrl_c_returns_at_once_and_abandonable_work_finishes_in_its_thread(self, interrupt: Callable[[float], None]) -> None:
        go_on, ended = threading.Event(), threading.Event()

        def work() -> None:
            go_on.wait(30)
            ended.set()

        interrupt(0.05)
        with pytest.raises(KeyboardInterrupt):
            run_abandonable(work, do_nothing)
        assert not ended.is_set()
        go_on.set()
        assert ended.wait(30)

    def test_signal_handler_may_compute_tensors_while_a_product_runs(self) -> None:
        """The handler computes a product as large as the one it interrupts. Both results are right."""
        x, handler_results = tx.ones((1500, 1500)).realize(), []

        def handler(number: int, frame: object) -> None:
            handler_results.append((x @ x).sum().item() + tx.arange(1 << 20).argmax().item())

        handler(0, None)  # the handler needs its modules loaded
        before = signal.signal(signal.SIGALRM, handler)
        try:
            for _ in range(8):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                assert (x @ x).sum().item() == 1500**3
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert len(handler_results) > 1
        assert set(handler_results) == {1500**3 + (1 << 20) - 1}

    def test_memory_of_dropped_work_is_reused_only_after_the_work_ends(self, interrupt: Callable[[float], None]) -> None:
        """When the dropped work has ended, all of its memory is free again."""
        x = tx.asarray(np.random.default_rng(0).normal(size=1 << 22)).realize()
        tx.argsort(x[:99])  # so that no import is interrupted, which would leave memory behind
        expected, before = x.to_numpy(), tx.memory().in_use
        for after in (0.02, 0.1, 0.2):
            interrupt(after)
            end = time.monotonic() + 60
            with pytest.raises(KeyboardInterrupt):
                while time.monotonic() < end:
                    tx.argsort(x)
            later_tensors = [tx.full(1 << 22, float(k)).realize() for k in range(3)]
            x += 1.0  # in new memory, as the dropped work reads the old
            x -= 1.0
            x.realize()
            assert [set(tensor[:: 1 << 12].tolist()) for tensor in later_tensors] == [{0.0}, {1.0}, {2.0}]
            del later_tensors
        for _ in range(600):
            gc.collect()
            if tx.memory().in_use <= before:
                break
            time.sleep(0.1)
        assert tx.memory().in_use <= before
        np.testing.assert_allclose(x.to_numpy(), expected)


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
    """A thread that raises MemoryError at its first step. Python reports this error to `sys.unraisablehook` alone."""

    @pytest.mark.parametrize("way", [run_interruptible, run_abandonable])
    def test_caller_gets_memory_error_at_once_if_its_worker_thread_fails(
        self, way: Callable[..., object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unraisable_errors: list[object] = []

        def fails(work: object, *args: object) -> None:
            raise MemoryError

        monkeypatch.setattr(interruptible._WorkerCall, "execute", fails)
        monkeypatch.setattr(interruptible, "GC_INTERVAL_S", 0.1)
        monkeypatch.setattr("sys.unraisablehook", lambda unraisable: unraisable_errors.append(unraisable.exc_type))
        with pytest.raises(MemoryError, match="for lack of memory"):
            way(lambda: 1, do_nothing)
        assert unraisable_errors == [MemoryError] and not interruptible._abandoned

    def test_exit_does_not_wait_for_a_dropped_thread_that_has_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        work = interruptible._WorkerCall(lambda: 1)
        token = work.make_token()
        monkeypatch.setattr(interruptible, "_abandoned", {work})
        settling = threading.Thread(target=interruptible._wait_for_abandoned, daemon=True)
        settling.start()
        settling.join(0.2)
        assert settling.is_alive()
        del token  # as the thread that had it ends
        settling.join(20)
        assert not settling.is_alive() and not interruptible._abandoned


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
class TestDroppedWork:
    """Calls of LAPACK go on in threads of OpenBLAS. Such a thread can be neither ended nor waited for."""

    def test_process_exits_with_its_status_while_dropped_work_runs(self) -> None:
        for k in range(12):
            program = DROPPED.replace("AFTER", str(0.02 + 0.013 * k)).replace("THEN", "print('said'); sys.exit(3)")
            done = python("-c", program, well=False, within=60)
            assert (done.returncode, done.stdout, done.stderr) == (3, "said\n", "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    @pytest.mark.filterwarnings("ignore:.*fork")
    def test_process_can_fork_while_dropped_work_runs(self) -> None:
        then = """
    child = os.fork()
    assert tx.linalg.svd(x[:100, :100])[1][0].item() > 10
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
        for k in range(4):
            python("-c", DROPPED.replace("AFTER", str(0.02 + 0.04 * k)).replace("THEN", then.strip()), within=60)
