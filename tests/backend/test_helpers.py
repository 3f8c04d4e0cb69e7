"""Helpers that cannot be started, or not all of them, and starts and ends that are broken off: results stay right, and nobody stays."""

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
from tenxor.backend import helpers, places
from tests.machines import without_semaphores

A = np.random.default_rng(1).integers(-9, 9, (200, 300)).astype(np.float64)
B = np.random.default_rng(2).integers(-9, 9, (300, 200)).astype(np.float64)


@pytest.fixture(autouse=True, params=["machine code", "Python's own locks"])
def _as_it_was(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param != "machine code":
        without_semaphores(monkeypatch)
    before = tx.num_threads()
    monkeypatch.setattr(helpers, "_warned", False)
    tx.set_num_threads(1)
    yield
    tx.set_num_threads(before)


def at_work() -> list[threading.Thread]:
    """The helpers that are there; those that were sent home get a while to leave."""
    end = time.monotonic() + 10
    while True:
        found = [t for t in threading.enumerate() if t.name.startswith("tenxor-")]
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.001)


def product() -> bool:
    """Whether a product that threads share is right."""
    return bool((tx.asarray(A) @ tx.asarray(B)).to_numpy().tolist() == (A @ B).tolist())


class Unstarted:
    """`Thread.start`, which fails at one of its calls and after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException, *, after: bool = False) -> None:
        self.calls, real = 0, threading.Thread.start

        def start(thread: threading.Thread) -> None:
            self.calls += 1
            if self.calls < at or after:
                real(thread)
            if self.calls >= at:
                raise error

        monkeypatch.setattr(threading.Thread, "start", start)


def test_one_that_never_begins_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system gave it a stack, and then there was no memory left for its first steps."""
    real, begun = threading.Thread._bootstrap, []  # type: ignore[attr-defined]

    def bootstrap(thread: threading.Thread) -> None:
        begun.append(thread)
        if len(begun) < 2:
            real(thread)

    monkeypatch.setattr(threading.Thread, "_bootstrap", bootstrap)
    monkeypatch.setattr(helpers, "START_TIMEOUT_S", 0.2)
    tx.set_num_threads(4)
    with pytest.warns(RuntimeWarning, match="shared by 2 of 4 threads.*did not begin"):
        assert product()
    assert len(helpers._pool.helpers) == 1 and all(product() for _ in range(20))  # type: ignore[union-attr]
    for thread in begun[1:]:
        threading._limbo.pop(thread)  # type: ignore[attr-defined]  # where CPython has it meanwhile


@pytest.mark.parametrize("at", [1, 2, 3])
def test_those_that_start_share_the_work(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Unstarted(monkeypatch, at, RuntimeError("can't start new thread"))
    tx.set_num_threads(4)
    with pytest.warns(RuntimeWarning, match=f"shared by {at} of 4 threads.*can't start new thread"):
        assert product()
    assert len(helpers._pool.helpers) == at - 1  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(product() for _ in range(20))
        tx.set_num_threads(3)
        assert product()
    tx.set_num_threads(1)
    assert not at_work()


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("after", [False, True])
def test_whom_ctrl_c_meets_while_they_start_are_sent_home(at: int, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        Unstarted(patch, at, KeyboardInterrupt(), after=after)
        tx.set_num_threads(4)
        with pytest.raises(KeyboardInterrupt):
            product()
    assert helpers._pool is None and not at_work()
    assert all(product() for _ in range(20))


# Python asks for signals after it has left a `with`, and not before, though a trace function is called in between.
LEAVING = {
    module.__name__: {s.lineno for s in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(s, ast.With)}
    for module in (helpers, places)
}


class BrokenOff:
    """Raises KeyboardInterrupt at one of the lines of `helpers.py` and `places.py` that are run."""

    def __init__(self, at: int) -> None:
        self.left, self.raised = at, False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self.line if frame.f_globals.get("__name__") in LEAVING else None

    def line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and not self.raised and frame.f_lineno not in LEAVING[frame.f_globals["__name__"]]:
            self.left -= 1
            if self.left < 0:
                self.raised = True
                raise KeyboardInterrupt
        return self.line


def test_broken_off_at_any_line(recwarn: pytest.WarningsRecorder) -> None:
    """Of starting, sharing and stopping: what comes next is right, and nobody is left behind."""
    at = 0
    while True:
        breaking = BrokenOff(at)
        before = sys.gettrace()
        sys.settrace(breaking)
        try:
            tx.set_num_threads(3)
            product()
            tx.set_num_threads(1)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        tx.set_num_threads(2)
        assert product(), f"after line {at}"
        tx.set_num_threads(1)
        assert not at_work(), f"after line {at}"
        if not breaking.raised:
            break
        at += 1
    tx.set_num_threads(2)
    assert at > 40
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(product()), daemon=True)
    other.start()
    other.join(60)
    assert found == [True], "nobody holds the helpers"


def test_a_pool_that_is_dropped_sends_its_helpers_home() -> None:
    tx.set_num_threads(3)
    assert product() and len([t for t in threading.enumerate() if t.name.startswith("tenxor-")]) == 2
    helpers._pool = None
    assert not at_work()
    assert product()


def test_who_comes_late_holds_what_it_looks_at() -> None:
    """A helper that begins only when all are sent home, and the pool is gone, leaves in peace."""
    pool = helpers._Pool(1)
    late = threading.Thread(target=pool.place.serve, args=(1,))
    pool.helpers.append(late)
    pool.stop()
    del pool
    late.start()
    late.join(10)
    assert not late.is_alive()
