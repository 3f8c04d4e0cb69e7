"""Test sections in which no user code runs, and worker threads in which no tracing tool is called."""

from __future__ import annotations

import gc
import importlib.util
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

import tenxor as tx
from tenxor._utils import exclude_user_code as undisturbed_module
from tenxor._utils.exclude_user_code import call_atomically, exclude_user_code, start_untraced, wrap_untraced
from tenxor._utils.gc_control import pause_gc, resume_gc
from tenxor._utils.interruptible import run_abandonable, run_interruptible
from tenxor.codegen import kernel_cache
from tenxor.codegen.threads import worker_pool
from tenxor.native import batch_threads

from .processes import python

SIGNALS = (signal.SIGUSR1, signal.SIGUSR2) if hasattr(signal, "SIGUSR1") else ()
posix = pytest.mark.skipif(not SIGNALS, reason="signals are sent as POSIX has them")
Handler = Callable[[int, FrameType | None], None]


TRACED_INTERRUPT = """
import signal, sys
import tenxor as tx
from tenxor._utils.exclude_user_code import exclude_user_code

def interrupted():
    try:
        with exclude_user_code():
            signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return True

def trace(frame, event, argument):
    return trace

sys.settrace(trace)
assert interrupted() and interrupted()
assert (tx.arange(3) + 1).tolist() == [1, 2, 3]
"""


@pytest.fixture
def arrived() -> Iterator[list[int]]:
    """Collects the numbers of the signals that have been handled."""
    handled: list[int] = []
    before = [signal.signal(number, lambda number, _: handled.append(number)) for number in SIGNALS]
    yield handled
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


@posix
class TestSignals:
    def test_signals_are_handled_when_the_outermost_section_ends(self, arrived: list[int]) -> None:
        handlers = [signal.getsignal(number) for number in SIGNALS]
        with exclude_user_code():
            with exclude_user_code():
                for number in SIGNALS:
                    signal.raise_signal(number)
            assert arrived == []
        assert arrived == list(SIGNALS)
        assert [signal.getsignal(number) for number in SIGNALS] == handlers
        signal.raise_signal(SIGNALS[0])
        assert arrived == [*SIGNALS, SIGNALS[0]]

    def test_signals_raise_the_error_of_a_handler_after_all_handlers_were_called(self, arrived: list[int]) -> None:
        class Stop(Exception):
            pass

        def stop(number: int, frame: FrameType | None) -> None:
            assert frame is not None
            arrived.append(number)
            raise Stop(number)

        for number in SIGNALS:
            signal.signal(number, stop)
        done = False
        with pytest.raises(Stop), exclude_user_code():
            for number in SIGNALS:
                signal.raise_signal(number)
            done = True
        assert done and arrived == list(SIGNALS) and collects()
        assert [signal.getsignal(number) for number in SIGNALS] == [stop, stop]

    def test_signals_whose_handler_raises_often_leave_the_state_unchanged(self) -> None:
        class Stop(ValueError):  # `signal.signal` raises a ValueError, too, in other threads
            pass

        times = 0

        def stop(*_: object) -> None:
            nonlocal times
            times += 1
            if times % 2:
                raise Stop

        before, raised = signal.signal(signal.SIGALRM, stop), 0
        try:
            signal.setitimer(signal.ITIMER_REAL, 7e-4, 3.7e-4)
            while raised < 200:
                try:
                    for _ in range(1000):
                        with exclude_user_code():
                            pass
                except Stop:
                    raised += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            with exclude_user_code():
                pass
            assert signal.getsignal(signal.SIGALRM) is stop and collects() and is_traced()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_signals_interrupt_a_section_only_at_its_end(self) -> None:
        done = False
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt), exclude_user_code():
                signal.raise_signal(signal.SIGINT)
                done = True
            assert done and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        finally:
            signal.signal(signal.SIGINT, before)

    def test_signals_may_interrupt_a_traced_section(self) -> None:
        """CPython 3.15 crashed as the error passed through functions that were called with tracing off."""
        python("-c", TRACED_INTERRUPT)

    def test_signals_leave_a_handler_that_is_set_in_a_section(self, arrived: list[int]) -> None:
        def replacement(number: int, frame: FrameType | None) -> None:
            arrived.append(-number)

        with exclude_user_code():
            signal.signal(SIGNALS[0], replacement)
        assert signal.getsignal(SIGNALS[0]) is replacement

    def test_signals_are_handled_at_once_while_another_thread_is_in_a_section(self, arrived: list[int]) -> None:
        inside, leave = threading.Event(), threading.Event()

        def work() -> None:
            with exclude_user_code():
                inside.set()
                leave.wait(20)

        thread = threading.Thread(target=work)
        thread.start()
        assert inside.wait(20)
        signal.raise_signal(SIGNALS[0])
        assert arrived == [SIGNALS[0]]
        leave.set()
        thread.join()


@pytest.mark.parametrize("tool", [sys.settrace, sys.setprofile])
def test_tracing_tools_are_not_called_in_a_section(tool: Callable[[Any], None]) -> None:
    called: list[str] = []

    def traced() -> None:
        pass

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        called.append(frame.f_code.co_name)
        return trace

    before = sys.gettrace(), sys.getprofile()
    tool(trace)
    try:
        traced()
        with exclude_user_code():
            called.clear()
            traced()
            called_in_section = list(called)
        traced()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    assert called_in_section == [] and "traced" in called


def collects() -> bool:
    return gc.isenabled() and gc.get_threshold()[0] > 0


def test_collector_does_not_run_in_a_section() -> None:
    assert collects()
    with exclude_user_code():
        with exclude_user_code():
            assert not collects()
        assert not collects()
    assert collects()


def test_section_leaves_a_disabled_collector_disabled() -> None:
    gc.disable()
    try:
        with exclude_user_code():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_collector_runs_again_after_the_last_of_overlapping_pauses() -> None:
    pause_gc()
    pause_gc()
    resume_gc()
    assert not collects()
    resume_gc()
    assert collects()


def test_gc_thresholds_that_are_set_during_a_pause_stay() -> None:
    before = gc.get_threshold()
    try:
        pause_gc()
        gc.set_threshold(before[0] + 1)
        resume_gc()
        assert gc.get_threshold()[0] == before[0] + 1
    finally:
        gc.set_threshold(*before)


def test_modules_imported_in_a_section_find_the_collector_enabled() -> None:
    """Dask decides at its import whether its own pauses enable the collector at their end."""
    with exclude_user_code():
        assert gc.isenabled()


def test_call_atomically_calls_functions_in_order() -> None:
    calls: list[int] = []
    call_atomically([partial(calls.append, k) for k in range(5)])
    assert calls == [0, 1, 2, 3, 4]


def is_traced() -> bool:
    """Return whether a trace function is called in this thread."""
    called: list[str] = []

    def traced() -> None:
        pass

    sys.settrace(lambda *_: called.append("called"))
    traced()
    sys.settrace(None)
    return bool(called)


@pytest.mark.parametrize("run", [run_interruptible, run_abandonable])
def test_work_in_a_worker_thread_is_not_traced(run: Callable[..., bool]) -> None:
    """A callback of a tracing tool that computes would wait for the lock that the main thread holds, which waits for the work."""
    assert is_traced()
    assert not run(is_traced, lambda: None)


@pytest.fixture
def traced_threads() -> Iterator[set[str]]:
    """Collects the names of the threads in which a trace function is called."""
    names = set[str]()

    def trace(frame: FrameType, event: str, arg: object) -> None:
        names.add(threading.current_thread().name)

    threading.settrace(trace)
    yield names
    threading.settrace(None)  # type: ignore[arg-type]


def test_pool_workers_are_not_traced(traced_threads: set[str], threads: Callable[[int], None]) -> None:
    threads(3)
    worker_pool.stop_pool()
    assert tx.arange(1 << 22).sum().item() == (1 << 21) * ((1 << 22) - 1)
    assert worker_pool._pool is not None and worker_pool._pool.workers
    batch_threads.run_in_threads(lambda begin, end: None, 8, 10 * batch_threads.MAX_PART_NS)
    another = threading.Thread(target=int, name="another")
    another.start()
    another.join()
    assert traced_threads == {"another"}


def test_untraced_thread_ends_and_drops_its_function() -> None:
    class Held:
        pass

    held = Held()
    traced: list[bool] = []

    def work(_: Held = held) -> None:
        traced.append(is_traced())

    thread = threading.Thread(target=work)
    start_untraced(thread)
    thread.join(20)
    assert not thread.is_alive() and traced == [False]
    before = sys.getrefcount(held)
    del thread, work
    assert sys.getrefcount(held) < before


def test_wrap_untraced_calls_a_function_once() -> None:
    calls: list[int] = []
    thread = threading.Thread(target=wrap_untraced(lambda: calls.append(1)))
    thread.start()
    thread.join()
    assert calls == [1]


def test_two_threads_compile_kernels_at_once() -> None:
    """No lock is held while a kernel is compiled: user code may run there and need a lock of the other thread."""
    begun, go_on = threading.Event(), threading.Event()

    class Code:
        pass

    def make(kernel: str) -> Code:
        if kernel == "slow":
            begun.set()
            assert go_on.wait(20)
        return Code()

    compiled: kernel_cache.KernelCache[Any] = kernel_cache.KernelCache(make)
    slow = threading.Thread(target=compiled.get, args=("slow",))
    slow.start()
    assert begun.wait(20)
    quick = threading.Thread(target=compiled.get, args=("quick",), daemon=True)
    quick.start()
    quick.join(10)
    is_stuck = quick.is_alive()
    go_on.set()
    slow.join()
    quick.join()
    assert not is_stuck and len(compiled) == 2 and compiled.get("quick") is compiled.get("quick")


def test_module_that_is_loaded_without_the_import_system_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tenxor.version")
    spec = importlib.util.find_spec("tenxor.version")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "tenxor.version", module)
    assert importlib.import_module("tenxor.version") is module


def test_section_of_another_thread_leaves_the_handlers_that_the_main_thread_has_replaced() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with exclude_user_code():
                pass
        except BaseException as error:
            errors.append(error)

    before = signal.getsignal(signal.SIGINT)
    with exclude_user_code():
        replaced = signal.getsignal(signal.SIGINT)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGINT) is replaced is not before
    assert not errors and signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("name", "owner"), [("tenxor.m", "another"), ("tenxor.m", "this"), ("tenxor.m", "no"), ("json", "another")])
def test_fork_waits_for_imports_of_the_package_by_other_threads(name: str, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = SimpleNamespace(owner={"another": -1, "this": threading.get_ident(), "no": None}[owner])
    monkeypatch.setattr(undisturbed_module, "_module_locks", {name: lambda: lock, "tenxor.freed": lambda: None})
    assert undisturbed_module.has_other_open_section() == (name == "tenxor.m" and owner == "another")


def test_fork_waits_for_sections_of_other_threads() -> None:
    entered, left = threading.Event(), threading.Event()

    def stay() -> None:
        with exclude_user_code():
            entered.set()
            left.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait()
    with exclude_user_code():
        assert undisturbed_module.has_other_open_section()
    left.set()
    thread.join()
    with exclude_user_code():
        assert not undisturbed_module.has_other_open_section()
