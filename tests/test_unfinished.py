"""Long writes over their own operands may be interrupted between two parts: the next read completes them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from threading import get_ident, main_thread
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.backend import helpers
from tenxor.node import UNFINISHED
from tenxor.plans.steps import Once
from tenxor.tensor import Tensor

from . import machines
from .test_in_the_midst import Moment, at

pytestmark = pytest.mark.usefixtures("plain")
N = 3000
BRIEF = {"hold_lock": 64, "share": 256, "first": 256, "moment": 1e-9, "in_place": 1024, "unbroken": 1 << 10}  # many short parts

Tensors = dict[str, Tensor]


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    machines.tune(monkeypatch, sharing=BRIEF)


def add_scalar(t: Tensors) -> None:
    t["x"] += 1.0


def multiply_by_other(t: Tensors) -> None:
    t["x"] *= t["other"]


def chain(t: Tensors) -> None:
    t["x"] += 1.0
    t["total"] = t["x"].sum() + t["x"]


def convolution_inputs(t: Tensors) -> None:
    """The plan prepares an operand that is overwritten: the prepared copy is needed until the convolution is computed."""
    t["smooth"] = tx.conv1d(t["image"], t["weights"])
    t["weights"] = t["weights"] * 2.0
    t["image"] = t["image"] * 3.0


def slice_from_other(t: Tensors) -> None:
    t["x"][5:-7] += t["other"][12:] * 2.0


def slice_from_rest(t: Tensors) -> None:
    """The elements that are read in the same memory are not written."""
    t["x"][: N // 2] *= t["x"][N // 2 :][::-1]
    t["total"] = t["x"].sum()


def at_indices(t: Tensors) -> None:
    """One loop in order, since several values may belong to one element."""
    t["x"].index_add_(0, t["index"], t["other"])


WRITES = [at_indices, add_scalar, multiply_by_other, chain, convolution_inputs, slice_from_other, slice_from_rest]


def make_tensors() -> Tensors:
    x, other = tx.asarray(np.arange(float(N)) % 7), tx.asarray(np.arange(float(N)) % 5)
    index = tx.asarray(np.arange(N) * 7 % 1500)
    image, weights = (tx.asarray(np.arange(4800.0)[: np.prod(shape)].reshape(shape) % 11) for shape in ((1, 16, 300), (2, 16, 9)))
    found = {"x": x, "other": other, "index": index, "image": image, "weights": weights}
    return {name: t.realize() for name, t in found.items()}


def expected(write: Callable[[Tensors], None]) -> dict[str, Any]:
    t = make_tensors()
    write(t)
    return {name: each.to_numpy() for name, each in t.items()}


class Parts:
    """Counts the parts of loops, and acts before one of them, in the main thread, where signals are handled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed, self.number, self.act = 0, 0, lambda: None
        met = helpers._met

        def counted(*args: Any, **named: Any) -> None:
            self.passed += 1
            if self.passed == self.number and get_ident() != main_thread().ident:
                self.number += 1
            elif self.passed == self.number:
                self.act()
            met(*args, **named)

        monkeypatch.setattr(helpers, "_met", counted)

    def before(self, number: int, act: Callable[[], None]) -> None:
        self.passed, self.number, self.act = 0, number, act


def stop() -> None:
    raise KeyboardInterrupt


def assert_equal(t: Tensors, wanted: dict[str, Any]) -> None:
    for name, each in t.items():
        assert np.array_equal(each.to_numpy(), wanted[name]), name


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_interrupted_write_is_completed_once_by_the_next_read(write: Callable[[Tensors], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The completion may be interrupted, too."""
    wanted, parts, broken = expected(write), Parts(monkeypatch), 0
    for number in range(1, 1000):
        t = make_tensors()
        parts.before(number, stop)
        try:
            write(t)
            tx.realize(*reversed(t.values()))
            break
        except KeyboardInterrupt:
            pass
        broken += any(each.node.op is UNFINISHED for each in t.values())
        parts.before(1 + number % 3, stop)
        with contextlib.suppress(KeyboardInterrupt):
            assert t["x"][5:8].tolist() == wanted["x"][5:8].tolist()
        parts.before(0, stop)
        assert_equal(t, wanted)
    assert 5 < number < 999 and (broken > 10 or write is convolution_inputs)


def test_write_that_reads_shared_memory_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place the write would be a single part, since NumPy could write between two parts."""
    wanted, values, parts = expected(at_indices), np.arange(float(N)) % 5, Parts(monkeypatch)
    theirs = tx.asarray(values, copy=False)
    for number in (2, 20):
        t = make_tensors()
        parts.before(number, stop)
        with pytest.raises(KeyboardInterrupt):
            t["x"].index_add_(0, t["index"], theirs)
        parts.before(0, stop)
        assert np.array_equal(t["x"].to_numpy(), wanted["x"])


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_signal_handler_completes_an_unfinished_write(write: Callable[[Tensors], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler reads and exports the half-written tensor."""
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


def unfinished(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    t = make_tensors()
    parts = Parts(monkeypatch)
    t["x"] += 1.0
    parts.before(7, stop)
    with pytest.raises(KeyboardInterrupt):
        t["x"].realize()
    parts.before(0, stop)
    assert t["x"].node.op is UNFINISHED
    return t["x"]


WAYS: list[Callable[[Tensor], Any]] = [
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


@pytest.mark.parametrize("way", WAYS)
def test_any_read_of_an_unfinished_write_sees_the_complete_result(way: Callable[[Tensor], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    twin = tx.asarray(np.arange(float(N)) % 7 + 1.0).realize()
    x = unfinished(monkeypatch)
    found, wanted = way(x), way(twin)
    assert str(found) == str(wanted) if not isinstance(found, Tensor) else found.tolist() == wanted.tolist()
    assert x.tolist() == twin.tolist()


def test_unread_unfinished_write_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    gc.disable()
    try:
        before = tx.memory().in_use
        x = unfinished(monkeypatch)
        assert tx.memory().in_use >= before + 8 * N
        del x
        assert tx.memory().in_use < before + 8 * N
    finally:
        gc.enable()


@pytest.mark.parametrize("begins", [False, True])
def test_write_may_be_completed_by_a_handler_just_before_its_start(begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler completes or begins the write when all is ready; NumPy shares the memory."""
    begun, parts = Once.begun, Parts(monkeypatch)
    array = np.zeros(N)
    x = tx.asarray(array, copy=False)

    def first(self: Once, rest: Callable[[], object]) -> bool:
        monkeypatch.setattr(Once, "begun", begun)
        if begins:
            parts.before(1, stop)
        with contextlib.suppress(KeyboardInterrupt):
            x.realize()
        parts.before(0, stop)
        return begun(self, rest)

    monkeypatch.setattr(Once, "begun", first)
    x.index_add_(0, tx.zeros(5000, dtype=tx.int64).realize(), tx.ones(5000).realize())
    assert Once.begun is begun
    assert x[:2].tolist() == [5000.0, 0.0] == array[:2].tolist()


@pytest.mark.parametrize("number", range(1, 400, 9))
def test_computation_continues_a_write_begun_by_a_finalizer(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The computation inside the finalizer is interrupted, unheard."""
    t, parts = make_tensors(), Parts(monkeypatch)
    add_scalar(make_tensors())
    t["x"] += 1.0

    def begin() -> None:
        parts.before(3, stop)
        with contextlib.suppress(KeyboardInterrupt):
            t["x"].realize()
        parts.before(0, stop)

    with at(Moment(number, begin, opcodes=True)):
        t["x"].realize()
    assert t["x"].tolist() == (np.arange(float(N)) % 7 + 1.0).tolist()
