"""Worker threads that fail to start, and interrupted starts and stops: results stay right, and no worker is left."""

from __future__ import annotations

import ast
import inspect
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.threads import work_queue, worker_pool
from tests.machines import without_semaphores

A = np.random.default_rng(1).integers(-9, 9, (200, 300)).astype(np.float64)
B = np.random.default_rng(2).integers(-9, 9, (300, 200)).astype(np.float64)


@pytest.fixture(autouse=True, params=["machine code", "Python's own locks"])
def _as_it_was(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param != "machine code":
        without_semaphores(monkeypatch)
    before = tx.num_threads()
    monkeypatch.setattr(worker_pool, "_warned", False)
    tx.set_num_threads(1)
    yield
    tx.set_num_threads(before)


def running_workers() -> list[threading.Thread]:
    """Return the running workers, after waiting up to 10 s for stopped ones to exit."""
    end = time.monotonic() + 10
    while True:
        workers = [t for t in threading.enumerate() if t.name.startswith("tenxor-")]
        if not workers or time.monotonic() > end:
            return workers
        time.sleep(0.001)


def shared_product_is_right() -> bool:
    """Return whether a product shared by threads is right."""
    return bool((tx.asarray(A) @ tx.asarray(B)).to_numpy().tolist() == (A @ B).tolist())


class FailingStart:
    """A patch of `Thread.start` that fails from its call number `failing_call` on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing_call: int, error: BaseException, *, after: bool = False) -> None:
        self.calls, real = 0, threading.Thread.start

        def start(thread: threading.Thread) -> None:
            self.calls += 1
            if self.calls < failing_call or after:
                real(thread)
            if self.calls >= failing_call:
                raise error

        monkeypatch.setattr(threading.Thread, "start", start)


def test_worker_that_never_begins_is_awaited_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The case: the system gives the thread a stack, and no memory is left for its first steps."""
    real, begun = threading.Thread._bootstrap, []  # type: ignore[attr-defined]

    def bootstrap(thread: threading.Thread) -> None:
        begun.append(thread)
        if len(begun) < 2:
            real(thread)

    monkeypatch.setattr(threading.Thread, "_bootstrap", bootstrap)
    monkeypatch.setattr(worker_pool, "START_TIMEOUT_S", 0.2)
    tx.set_num_threads(4)
    with pytest.warns(RuntimeWarning, match="shared by 2 of 4 threads.*did not begin"):
        assert shared_product_is_right()
    assert len(worker_pool._pool.workers) == 1 and all(shared_product_is_right() for _ in range(20))  # type: ignore[union-attr]
    for thread in begun[1:]:
        threading._limbo.pop(thread)  # type: ignore[attr-defined]  # where CPython has it meanwhile


@pytest.mark.parametrize("failing_call", [1, 2, 3])
def test_work_is_shared_by_the_workers_that_start(failing_call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    FailingStart(monkeypatch, failing_call, RuntimeError("can't start new thread"))
    tx.set_num_threads(4)
    with pytest.warns(RuntimeWarning, match=f"shared by {failing_call} of 4 threads.*can't start new thread"):
        assert shared_product_is_right()
    assert len(worker_pool._pool.workers) == failing_call - 1  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(shared_product_is_right() for _ in range(20))
        tx.set_num_threads(3)
        assert shared_product_is_right()
    tx.set_num_threads(1)
    assert not running_workers()


@pytest.mark.parametrize("failing_call", [1, 2, 3])
@pytest.mark.parametrize("after", [False, True])
def test_ctrl_c_during_start_stops_all_workers(failing_call: int, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        FailingStart(patch, failing_call, KeyboardInterrupt(), after=after)
        tx.set_num_threads(4)
        with pytest.raises(KeyboardInterrupt):
            shared_product_is_right()
    assert worker_pool._pool is None and not running_workers()
    assert all(shared_product_is_right() for _ in range(20))


# Python asks for signals after it has left a `with`, and not before, though a trace function is called in between.
LEAVING = {
    module.__name__: {s.lineno for s in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(s, ast.With)}
    for module in (worker_pool, work_queue)
}


class InterruptAtLine:
    """A trace function that raises KeyboardInterrupt at one executed line of `helpers.py` and `places.py`."""

    def __init__(self, line_number: int) -> None:
        self.lines_left, self.raised = line_number, False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self.line if frame.f_globals.get("__name__") in LEAVING else None

    def line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and not self.raised and frame.f_lineno not in LEAVING[frame.f_globals["__name__"]]:
            self.lines_left -= 1
            if self.lines_left < 0:
                self.raised = True
                raise KeyboardInterrupt
        return self.line


def test_interrupt_at_any_line_leaves_the_workers_usable(recwarn: pytest.WarningsRecorder) -> None:
    """The lines start, share and stop. The next product is right, and no worker is left."""
    line_number = 0
    while True:
        tracer = InterruptAtLine(line_number)
        old_tracer = sys.gettrace()
        sys.settrace(tracer)
        try:
            tx.set_num_threads(3)
            shared_product_is_right()
            tx.set_num_threads(1)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(old_tracer)
        tx.set_num_threads(2)
        assert shared_product_is_right(), f"after line {line_number}"
        tx.set_num_threads(1)
        assert not running_workers(), f"after line {line_number}"
        if not tracer.raised:
            break
        line_number += 1
    tx.set_num_threads(2)
    assert line_number > 40
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(shared_product_is_right()), daemon=True)
    thread.start()
    thread.join(60)
    assert results == [True], "nobody holds the helpers"


def test_dropped_pool_stops_its_workers() -> None:
    tx.set_num_threads(3)
    assert shared_product_is_right() and len([t for t in threading.enumerate() if t.name.startswith("tenxor-")]) == 2
    worker_pool._pool = None
    assert not running_workers()
    assert shared_product_is_right()


def test_worker_that_starts_after_the_stop_exits() -> None:
    """The worker begins only after all are stopped and the pool is deleted."""
    pool = worker_pool._WorkerPool(1)
    worker = threading.Thread(target=pool.work_queue.serve, args=(1,))
    pool.workers.append(worker)
    pool.stop()
    del pool
    worker.start()
    worker.join(10)
    assert not worker.is_alive()
