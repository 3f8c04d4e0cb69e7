"""Test that no signal leaves a lock locked, even between its acquisition and the next instruction."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import tenxor as tx
from tenxor._utils import locks
from tenxor._utils.locks import get_interpreter_lock, make_reentrant_lock, try_acquire
from tenxor.runtime.realize import compute_lock as realize_lock

ROUNDS = 60
MAX_ROUNDS = 1 << 20  # Python swallows the error of a handler that runs in a finalizer, so the loop must end
MAKERS: dict[str, Callable[[], Any]] = {"as here": make_reentrant_lock, "entered by a call": lambda: locks._Lock(threading.RLock())}
if locks.WITH_ACQUIRES_BY_CALL:
    del MAKERS["as here"]  # the same


class Stop(Exception):
    """The error that the signal handler raises."""


@pytest.fixture
def alarms() -> Iterator[Callable[[float], None]]:
    """Return a function that makes a signal raise Stop after some seconds."""

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    gc.collect()
    gc.disable()  # otherwise a collector callback of a pytest plugin may get the error and report it
    try:
        yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()


def take_by_with(lock: Any) -> None:
    for _ in range(MAX_ROUNDS):
        with lock:
            pass


def take_at_once(lock: Any) -> None:
    for _ in range(MAX_ROUNDS):
        if try_acquire(lock):
            try:
                pass
            finally:
                lock.release()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("work", [take_by_with, take_at_once])
@pytest.mark.parametrize("held", [False, True], ids=["free", "held before"])
def test_error_of_a_signal_handler_leaves_a_lock_as_it_was(
    make: Callable[[], Any], work: Callable[[Any], None], held: bool, alarms: Callable[[float], None]
) -> None:
    lock = make()
    for k in range(ROUNDS):
        if held:
            lock.acquire()
        with suppress(Stop):
            alarms(2e-3 + 1e-5 * k)
            work(lock)
        assert lock._recursion_count() == held
        if held:
            lock.release()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_thread_interrupted_while_waiting_does_not_own_the_lock(make: Callable[[], Any], alarms: Callable[[float], None]) -> None:
    lock, is_held, done = make(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    assert not try_acquire(lock)
    with pytest.raises(Stop):
        alarms(0.02)
        take_by_with(lock)
    assert not lock._is_owned()
    done.set()
    thread.join()
    assert try_acquire(lock) and lock._is_owned()
    lock.release()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_lock_is_exclusive_and_reentrant(make: Callable[[], Any]) -> None:
    lock, sums = make(), [0]

    def add() -> None:
        for _ in range(300):
            with lock, lock:
                before = sums[0]
                sums[0] = len(range(before)) + 1

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [1200] and lock._recursion_count() == 0
    with pytest.raises(ZeroDivisionError), lock:
        sums[0] //= 0
    assert lock._recursion_count() == 0
    assert repr(lock) == repr(get_interpreter_lock(lock))


@pytest.mark.usefixtures("plain")
def test_interrupted_write_leaves_the_realize_lock_free_for_other_threads(alarms: Callable[[float], None]) -> None:
    t = tx.zeros((4, 8)).realize()
    for k in range(ROUNDS // 2):
        with suppress(Stop):
            alarms(3e-3 + 1e-4 * k)
            for _ in range(MAX_ROUNDS >> 6):
                t[k % 4] = 1.0
        assert not realize_lock._is_owned()  # type: ignore[attr-defined]
    thread = threading.Thread(target=t.__setitem__, args=(0, 2.0), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive() and t[0].tolist() == [2.0] * 8
