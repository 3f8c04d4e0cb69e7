"""Test long in-place writes that a signal interrupts between two parts of a loop: the next read completes them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from threading import get_ident, main_thread
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.threads import worker_pool
from tenxor.graph.node import UNFINISHED
from tenxor.runtime.plan_execution import InPlaceLaunch
from tenxor.tensor import Tensor

from . import machines
from .test_reentrant_computation import Moment, at

pytestmark = pytest.mark.usefixtures("plain")
N = 3000
SHORT_PARTS = {
    "max_gil_held_work": 64,
    "min_shared_work": 256,
    "first_slice_work": 256,
    "slice_seconds": 1e-9,
    "min_donated_bytes": 1024,
    "max_uninterrupted_work": 1 << 10,
}  # many short parts

Tensors = dict[str, Tensor]


@pytest.fixture(autouse=True)
def _with_short_loop_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    machines.tune(monkeypatch, thread_limits=SHORT_PARTS)


def plus_one(t: Tensors) -> None:
    t["x"] += 1.0


def times_other(t: Tensors) -> None:
    t["x"] *= t["other"]


def chain(t: Tensors) -> None:
    t["x"] += 1.0
    t["total"] = t["x"].sum() + t["x"]


def with_intermediate(t: Tensors) -> None:
    """The plan makes an intermediate from the overwritten memory. The intermediate is needed until its reader has been computed."""
    t["smooth"] = tx.conv1d(t["image"], t["weights"])
    t["weights"] = t["weights"] * 2.0
    t["image"] = t["image"] * 3.0


def slice_plus_other(t: Tensors) -> None:
    t["x"][5:-7] += t["other"][12:] * 2.0


def slice_times_other_half(t: Tensors) -> None:
    """The write reads elements of the same memory that it does not write."""
    t["x"][: N // 2] *= t["x"][N // 2 :][::-1]
    t["total"] = t["x"].sum()


def at_indices(t: Tensors) -> None:
    """The loop is not split among threads, as several values may go to one element."""
    t["x"].index_add_(0, t["index"], t["other"])


WRITES = [at_indices, plus_one, times_other, chain, with_intermediate, slice_plus_other, slice_times_other_half]


def make_tensors() -> Tensors:
    x, other = tx.asarray(np.arange(float(N)) % 7), tx.asarray(np.arange(float(N)) % 5)
    index = tx.asarray(np.arange(N) * 7 % 1500)
    image, weights = (tx.asarray(np.arange(4800.0)[: np.prod(shape)].reshape(shape) % 11) for shape in ((1, 16, 300), (2, 16, 9)))
    tensors = {"x": x, "other": other, "index": index, "image": image, "weights": weights}
    return {name: t.realize() for name, t in tensors.items()}


def expected(write: Callable[[Tensors], None]) -> dict[str, Any]:
    t = make_tensors()
    write(t)
    return {name: tensor.to_numpy() for name, tensor in t.items()}


class Parts:
    """A counter of loop parts that calls `act` before one of them, in the main thread, which handles signals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed, self.number, self.act = 0, 0, lambda: None
        real_met = worker_pool._run_range

        def counted(*args: Any, **named: Any) -> None:
            self.passed += 1
            if self.passed == self.number and get_ident() != main_thread().ident:
                self.number += 1
            elif self.passed == self.number:
                self.act()
            real_met(*args, **named)

        monkeypatch.setattr(worker_pool, "_run_range", counted)

    def before(self, number: int, act: Callable[[], None]) -> None:
        self.passed, self.number, self.act = 0, number, act


def interrupt() -> None:
    raise KeyboardInterrupt


def assert_equal(t: Tensors, expected: dict[str, Any]) -> None:
    for name, tensor in t.items():
        assert np.array_equal(tensor.to_numpy(), expected[name]), name


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_interrupted_write_is_completed_exactly_once_when_read(write: Callable[[Tensors], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The read that completes the write may be interrupted, too."""
    wanted, parts, unfinished_count = expected(write), Parts(monkeypatch), 0
    for number in range(1, 1000):
        t = make_tensors()
        parts.before(number, interrupt)
        try:
            write(t)
            tx.realize(*reversed(t.values()))
            break
        except KeyboardInterrupt:
            pass
        unfinished_count += any(tensor.node.op is UNFINISHED for tensor in t.values())
        parts.before(1 + number % 3, interrupt)
        with contextlib.suppress(KeyboardInterrupt):
            assert t["x"][5:8].tolist() == wanted["x"][5:8].tolist()
        parts.before(0, interrupt)
        assert_equal(t, wanted)
    assert 5 < number < 999 and (unfinished_count > 10 or write is with_intermediate)


def test_interrupted_write_that_reads_numpy_memory_is_still_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy may write between two parts, so an in-place write would be one part. It is not done in place and can be interrupted."""
    wanted, values, parts = expected(at_indices), np.arange(float(N)) % 5, Parts(monkeypatch)
    shared = tx.asarray(values, copy=False)
    for number in (2, 20):
        t = make_tensors()
        parts.before(number, interrupt)
        with pytest.raises(KeyboardInterrupt):
            t["x"].index_add_(0, t["index"], shared)
        parts.before(0, interrupt)
        assert np.array_equal(t["x"].to_numpy(), wanted["x"])


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_export_in_a_signal_handler_completes_the_interrupted_write(
    write: Callable[[Tensors], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler exports the half-written tensor to NumPy."""
    wanted, parts = expected(write), Parts(monkeypatch)
    for number in range(1, 1000, 3):
        t = make_tensors()
        seen: list[Any] = []

        def look(t: Tensors = t, seen: list[Any] = seen) -> None:
            seen.append(np.asarray(t["x"]))

        parts.before(number, look)
        write(t)
        tx.realize(*t.values())
        assert_equal(t, wanted)
        if not seen:
            break
        assert np.array_equal(seen[0], wanted["x"])
        seen[0][3] = -50.0
        assert t["x"][3].item() == -50.0
    assert number > 5


def make_unfinished(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    t = make_tensors()
    parts = Parts(monkeypatch)
    t["x"] += 1.0
    parts.before(7, interrupt)
    with pytest.raises(KeyboardInterrupt):
        t["x"].realize()
    parts.before(0, interrupt)
    assert t["x"].node.op is UNFINISHED
    return t["x"]


READERS: list[Callable[[Tensor], Any]] = [
    lambda x: (x[:4] * 2.0).sum().item(),
    lambda x: x.to_numpy(),
    lambda x: np.asarray(x),
    lambda x: repr(x),
    lambda x: tx.explain(x + 1.0),
    lambda x: tx.sort(x).tolist(),
    lambda x: x.copy().tolist(),
    lambda x: tx.concat([x, x]).tolist(),
    lambda x: x.__setitem__(0, 5.0),
    lambda x: x.__iadd__(1.0).realize(),
    lambda x: tx.vmap(lambda row: row.sum() + x)(x.reshape(3, -1)).tolist(),
]


@pytest.mark.parametrize("read", READERS)
def test_every_reader_sees_an_interrupted_write_completed(read: Callable[[Tensor], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    twin = tx.asarray(np.arange(float(N)) % 7 + 1.0).realize()
    x = make_unfinished(monkeypatch)
    result, wanted = read(x), read(twin)
    assert str(result) == str(wanted) if not isinstance(result, Tensor) else result.tolist() == wanted.tolist()
    assert x.tolist() == twin.tolist()


def test_memory_of_an_unread_interrupted_write_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    gc.disable()
    try:
        before = tx.memory().in_use
        x = make_unfinished(monkeypatch)
        assert tx.memory().in_use >= before + 8 * N
        del x
        assert tx.memory().in_use < before + 8 * N
    finally:
        gc.enable()


@pytest.mark.parametrize("interrupts", [False, True])
def test_write_is_done_once_if_a_handler_realizes_it_first(interrupts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler does the write, or starts it, when all is ready for it. NumPy shares the written memory."""
    begun, parts = InPlaceLaunch.register_rest, Parts(monkeypatch)
    array = np.zeros(N)
    x = tx.asarray(array, copy=False)

    def act_before_begun(self: InPlaceLaunch, rest: Callable[[], object]) -> bool:
        monkeypatch.setattr(InPlaceLaunch, "register_rest", begun)
        if interrupts:
            parts.before(1, interrupt)
        with contextlib.suppress(KeyboardInterrupt):
            x.realize()
        parts.before(0, interrupt)
        return begun(self, rest)

    monkeypatch.setattr(InPlaceLaunch, "register_rest", act_before_begun)
    x.index_add_(0, tx.zeros(5000, dtype=tx.int64).realize(), tx.ones(5000).realize())
    assert InPlaceLaunch.register_rest is begun
    assert x[:2].tolist() == [5000.0, 0.0] == array[:2].tolist()


@pytest.mark.parametrize("number", range(1, 400, 9))
def test_write_is_completed_if_a_finalizer_starts_it_and_is_interrupted(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted `realize` goes on with the write that a finalizer has started; Python swallows the error of the finalizer."""
    t, parts = make_tensors(), Parts(monkeypatch)
    plus_one(make_tensors())
    t["x"] += 1.0

    def begin() -> None:
        parts.before(3, interrupt)
        with contextlib.suppress(KeyboardInterrupt):
            t["x"].realize()
        parts.before(0, interrupt)

    with at(Moment(number, begin, opcodes=True)):
        t["x"].realize()
    assert t["x"].tolist() == (np.arange(float(N)) % 7 + 1.0).tolist()
