"""Threads that switch at any moment, with and without a thread that releases the GIL for long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils import upcalls
from tenxor.api import creation
from tenxor.autodiff import backward_pass, forward, segment_signature
from tenxor.graph import ownership
from tenxor.runtime import graph_signature, pending_limits, plan_execution
from tenxor.runtime.call_recording import open_context_count, recording_call
from tenxor.tensor import core, join_by_fastpath, write_methods

from .programs import Program

THREADS = 4
ROUNDS = 60


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(*work: Callable[[], object]) -> None:
    """Run all functions at once, and raise the first error."""
    errors: list[BaseException] = []

    def guarded(one: Callable[[], object]) -> None:
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_views_in_several_threads_are_independent() -> None:
    values = np.arange(4000.0).reshape(50, 80)

    def look(seed: int) -> None:
        rng = np.random.default_rng(seed)
        x = tx.asarray(values)
        for start, stop, step in rng.integers(-60, 60, (ROUNDS * 8, 3)).tolist():
            key = (slice(start, stop, step or 1), slice(stop, None, step or 1))
            assert x[key].shape == values[key].shape
            assert x[key].sum().item() == values[key].sum()
            x[key] = x[key] + 0.0

    run_together(*[lambda k=k: look(k) for k in range(THREADS)])  # type: ignore[misc]


def test_threads_share_a_tensor_and_an_element_without_losing_writes() -> None:
    """Threads read all of the tensor, write their own row, and operate in place on one element."""
    shared = tx.zeros((THREADS, 8)).realize()
    element = tx.asarray([1000.5, 2000.5])[0]
    element += 1.0

    def work(k: int) -> None:
        row = shared[k]
        for n in range(ROUNDS * 2):
            row += 1.0
            shared[k, 1:3] = row[1:3] * 1.0
            shared[k, 0] = float(n)
            (shared * 2.0 + tx.asarray(np.ones(8))).sum().item()
            own = tx.asarray(np.arange(3.0)) + tx.asarray(np.arange(3.0))
            assert own.tolist() == [0.0, 2.0, 4.0]
            held = element
            held += 1.0
            held.item()

    run_together(*[lambda k=k: work(k) for k in range(THREADS)])  # type: ignore[misc]
    assert shared[:, 1:].tolist() == [[float(ROUNDS * 2)] * 7] * THREADS
    assert shared[:, 0].tolist() == [float(ROUNDS * 2 - 1)] * THREADS
    assert sys.getrefcount(element.item()) <= 3


def test_small_work_runs_beside_large_work() -> None:
    """The thread with large work holds the lock for computing, and not the GIL."""
    big = tx.ones((1 << 20,)).realize()
    done = threading.Event()

    def much() -> None:
        try:
            for _ in range(20):
                assert tx.exp(big * 0.0).sum().item() == float(1 << 20)
        finally:
            done.set()

    def little() -> None:
        x = tx.asarray(np.arange(6.0).reshape(2, 3)).realize()
        n = 0
        while not done.is_set() or n < 20:
            x += 1.0
            x[0] = x[1]
            x[0, 0] = -1.0
            n += 1
        assert x.tolist() == [[-1.0, 4.0 + n, 5.0 + n], [3.0 + n, 4.0 + n, 5.0 + n]]

    run_together(much, little, little)


def test_fast_path_in_several_threads_matches_its_fallback() -> None:
    seeds = range(3000, 3000 + 4 * THREADS)
    with fastpath.disabled():
        wanted = {seed: Program(seed, 0).run() for seed in seeds}
    wrong: list[object] = []

    def run(first: int) -> None:
        for seed in list(seeds)[first::THREADS] * 2:
            found = Program(seed, 0).run()
            wrong.extend([(seed, a, b) for a, b in zip(found, wanted[seed], strict=True) if a != b][:1])

    run_together(*[lambda k=k: run(k) for k in range(THREADS)])  # type: ignore[misc]
    assert wrong == []


def test_count_of_open_recording_contexts_is_right_when_they_end_in_any_order() -> None:
    """The last one restores the count; otherwise nothing would be computed eagerly any more."""
    first, second = recording_call(), recording_call()
    before = open_context_count.value
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert open_context_count.value == before + 1
    second.__exit__(None, None, None)
    assert open_context_count.value == before


class ObserverRemovedByThread:
    """The module `upcalls` while another thread opens and closes `check_nan`: each second read finds no observer."""

    def __init__(self) -> None:
        self.read_count = 0

    @property
    def node_observer(self) -> Any:
        self.read_count += 1
        return Mock() if self.read_count % 2 else None

    def __getattr__(self, name: str) -> Any:
        return getattr(upcalls, name)


class RemovedByThread:
    """The module `upcalls` while another thread removes the fast path just after each read of `installed`, and restores it."""

    starter = None

    def __init__(self) -> None:
        self.read_count = 0

    @property
    def installed(self) -> Any:
        self.read_count += 1
        return fastpath.fast_path if self.read_count % 2 else None

    def request(self, count: int = 1) -> Any:
        return self.installed

    def is_expected(self) -> bool:
        return self.installed is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(upcalls, name)


realize = import_module("tenxor.runtime.realize")  # the function of this name hides it
READERS = (ownership, graph_signature, plan_execution, pending_limits, segment_signature, creation, join_by_fastpath, realize)
CHANGED: list[tuple[Any, str, Callable[[], Any]]] = [
    *[(module, "upcalls", RemovedByThread) for module in READERS],
    *[(module, "upcalls", ObserverRemovedByThread) for module in (core, write_methods, backward_pass, forward)],
]


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(("module", "name", "changing"), CHANGED, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_fast_path_and_observers_may_be_removed_by_another_thread_at_any_moment(
    module: Any, name: str, changing: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(30.0)

    def f(x: tx.Tensor) -> tx.Tensor:
        return (x * x * 2.0).sum()

    monkeypatch.setattr(module, name, changing())
    x = tx.asarray(values).copy()
    for _ in range(3):
        y = x.sum() * x
        assert (y + y.sum()).tolist() == (values.sum() * values + values.sum() ** 2).tolist()
        assert tx.grad(f)(x).tolist() == (values * 4.0).tolist()
        assert tx.jvp(f, (x,), (x,))[1].item() == (4.0 * values**2).sum()
    for _ in range(300):
        x = x * 0.5 + x * 0.5
    x[3:] += 1.0
    assert tx.concat([x, tx.asarray([1.0, 2.0])]).shape == (32,) and tx.stack([x] * 3).shape == (3, 30)
    assert x.sum().item() == values.sum() + 27
