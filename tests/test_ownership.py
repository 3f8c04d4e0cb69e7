"""Whether somebody else can still read a node, by reference counts."""

from __future__ import annotations

import random
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import ownership, shortcut
from tenxor.backend import helpers
from tenxor.dtypes import float64
from tenxor.memory import Buffer, allocate
from tenxor.node import Node, data
from tenxor.storage import Storage
from tenxor.tensor import Tensor

from .fuzz.running import check_seed
from .machines import tune

realize_module = sys.modules["tenxor.realize"]
PACKAGE = str(Path(tx.__file__).parent)
PROGRAMS = 40
Trace = Callable[[FrameType, str, Any], Any]


@pytest.fixture(autouse=True)
def _in_place_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, sharing={"in_place": 0})


def fresh() -> Node:
    return data(allocate(64), (8,), float64)


def address(t: Tensor) -> int:
    buffer = t.storage.node.buffer
    assert buffer is not None
    return buffer.address


class Held:
    def __init__(self, what: object) -> None:
        self.what = what


def frame_with(what: object) -> FrameType:
    return sys._getframe()


def traceback_with(what: object) -> BaseException:
    try:
        raise ValueError
    except ValueError as error:
        return error


HOLDERS: dict[str, Callable[[Any], object]] = {
    "a variable": lambda what: what,
    "a list": lambda what: [what],
    "an object": Held,
    "a closure": lambda what: lambda: what,
    "a default argument": lambda what: lambda x=what: x,
    "a frame": frame_with,
    "a frame's variables": lambda what: dict(frame_with(what).f_locals),
    "a traceback": traceback_with,
    "a generator": lambda what: (what for _ in range(3)),
    "an iterator": lambda what: iter([what]),
    "a bound method": lambda what: what.__repr__,
}


class TestOwnersAreCounted:
    def test_reference_counts_are_supported_here(self) -> None:
        assert ownership._IN_LIST != ownership._UNKNOWN

    def test_unheld_nodes_have_no_owner(self) -> None:
        storage, nodes = Storage(fresh()), [fresh(), fresh()]
        for _ in range(300):  # while the interpreter adapts
            assert ownership.alone(storage)
            assert ownership.sole(nodes[1])
            assert ownership.held(nodes, [0, 1], [0, 0]) == set()

    @pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
    def test_owner_of_a_node_is_counted(self, hold: Callable[[Any], object]) -> None:
        storage, nodes = Storage(fresh()), [fresh(), fresh()]
        for _ in range(30):
            kept = hold(storage.node), hold(nodes[1])
            assert not ownership.alone(storage)
            assert ownership.held(nodes, [0, 1], [0, 0]) == {1}
            del kept
            assert ownership.alone(storage)
            assert ownership.held(nodes, [0, 1], [0, 0]) == set()

    @pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
    def test_owner_of_a_buffer_is_counted(self, hold: Callable[[Any], object]) -> None:
        storage, node = Storage(fresh()), fresh()
        for _ in range(30):
            kept = hold(storage.node.buffer), hold(node.buffer)
            assert not ownership.alone(storage) and not ownership.sole(node)
            del kept
            assert ownership.alone(storage) and ownership.sole(node)

    def test_recipes_tell_how_often_they_read_a_source(self) -> None:
        nodes = [fresh()]
        recipe = Node.of(tx.ops.OPS["add"], (8,), float64, (nodes[0], nodes[0]), (None, None))
        assert ownership.held(nodes, [0], [2]) == set()
        assert ownership.held(nodes, [0], [1]) == {0}
        del recipe

    def test_owner_in_another_thread_is_counted(self) -> None:
        storage, waiting, done = Storage(fresh()), threading.Event(), threading.Event()

        def hold(node: Node) -> None:
            waiting.set()
            done.wait()

        thread = threading.Thread(target=hold, args=(storage.node,))
        thread.start()
        waiting.wait()
        assert not ownership.alone(storage)
        done.set()
        thread.join()
        del thread
        assert ownership.alone(storage)

    def test_all_nodes_count_as_held_if_counting_is_impossible(self, monkeypatch: pytest.MonkeyPatch) -> None:
        storage, nodes = Storage(fresh()), [fresh(), fresh()]
        monkeypatch.setattr(ownership, "_IN_LIST", ownership._UNKNOWN)
        monkeypatch.setattr(ownership, "_IN_STORAGE", (ownership._UNKNOWN, ownership._UNKNOWN))
        monkeypatch.setattr(ownership, "_IN_NODE", ownership._UNKNOWN)
        assert not ownership.alone(storage) and not ownership.sole(nodes[0])
        assert ownership.held(nodes, [1], [0]) == {1}
        for seed in range(20):
            check_seed(seed)

    def test_free_threaded_python_counts_only_in_a_single_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        storage, nodes, done = Storage(fresh()), [fresh()], threading.Event()
        monkeypatch.setattr(ownership, "_FREE_THREADED", True)
        waiters = [t for t in threading.enumerate() if t is not threading.current_thread()]
        assert ownership.alone(storage) == (len(sys._current_frames()) == 1), waiters
        thread = threading.Thread(target=done.wait)
        thread.start()
        try:
            assert not ownership.alone(storage) and not ownership.sole(nodes[0])
            assert ownership.held(nodes, [0], [0]) == {0}
        finally:
            done.set()
            thread.join()


class TestWritesAreInPlace:
    """Memory without other readers is never copied."""

    def matrix(self) -> Tensor:
        return tx.asarray(np.arange(24.0).reshape(4, 6))

    def test_row_copy_is_in_place(self) -> None:
        x = self.matrix()
        before = address(x)
        for _ in range(20):
            x[0] = x[1]
            x[:, 1] = x[:, 2]
            assert address(x) == before
        assert x[0].tolist() == [6, 8, 8, 9, 10, 11]

    def test_row_computed_from_the_previous_row_is_in_place(self) -> None:
        x = self.matrix()
        before = address(x)
        for t in range(3):
            x[t + 1] = x[t] * 0.5 + 1
            assert address(x) == before
        assert x[3].tolist() == [1.75 + k / 8 for k in range(6)]

    @pytest.mark.usefixtures("plain")
    def test_writes_of_numbers_and_slices_are_in_place(self) -> None:
        x = self.matrix()
        before = address(x)
        x[1:3] = 5
        x[2, 3] = 7
        x[:, ::2] += 1
        x[0] *= x[1]
        x[1:] = x[:-1]
        x[x > 6] = 0
        assert address(x.realize()) == before

    def test_write_is_not_in_place_while_old_content_is_read(self) -> None:
        x = self.matrix()
        before, row, reader = address(x), x[1], x[1] * 1
        x[0] = x[1]
        assert address(x) != before
        x[1] = 0
        assert row.tolist() == [0] * 6 and reader.tolist() == [6, 7, 8, 9, 10, 11]


def test_operand_read_by_a_cheap_constant_is_not_reused() -> None:
    """The readers of nodes that are cheap to recompute were once ignored."""
    n = 50
    square = tx.arange(n, dtype=tx.complex128).reshape((n, 1))
    other = tx.asarray(square, copy=True)
    other.oindex[2, None] = tx.asarray([(6 + 0j)], dtype=tx.complex128)
    square *= square
    other[:, [0]] = square * 2 - other
    other.realize()
    assert square.tolist() == [[complex(k * k)] for k in range(n)]


def test_memory_seen_through_a_reinterpreting_view_is_not_reused() -> None:
    x = tx.asarray(np.arange(8.0)) * 2
    bits = x.view(tx.int64)
    expected = (np.arange(8.0) * 2).view(np.int64).tolist()
    y = x + 1
    del x
    z = bits + 0
    tx.realize(y, z)
    assert z.tolist() == bits.tolist() == expected


KINDS = (Node, Buffer, Storage, Tensor)  # what is worth holding


class Hoarder:
    """Keeps what it can get hold of inside the library, for a while: frames, what their variables hold, whatever else can hold that,
    and weak references, some of which it follows later. Another thread takes some of it now and then.
    """

    def __init__(self, seed: int) -> None:
        self.random, self.kept = random.Random(seed), []  # type: ignore[var-annotated]
        self.weak: list[weakref.ref[Any]] = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._take)

    def __enter__(self) -> Hoarder:
        self.thread.start()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)
        self.done.set()
        self.thread.join()

    def _take(self) -> None:
        """Hold objects in a local variable of another thread."""
        while not self.done.wait(1e-3):
            mine = self.kept[-3:]
            self.done.wait(1e-3)
            del mine

    def trace(self, frame: FrameType, event: str, arg: object) -> Trace | None:
        """Collect objects at each event, as a trace function."""
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        chance = self.random.random()
        if chance < 0.01:
            self.kept.append(frame)
        elif chance < 0.03:
            self.kept.append(dict(frame.f_locals))
        elif chance < 0.05:
            self.keep_one_of([x for x in frame.f_locals.values() if isinstance(x, KINDS)])
        if len(self.kept) > 30:
            del self.kept[: self.random.randrange(30)]
        return self.trace if chance < 0.1 else None  # line by line, which takes time

    def keep_one_of(self, things: list[Any]) -> None:
        """Hold one of these objects in some way, or one held weakly before, if it still lives."""
        if things:
            one = self.random.choice(things)
            self.kept.append(self.random.choice(list(HOLDERS.values()))(one))
            self.weak.append(weakref.ref(one))
        if self.weak and self.random.random() < 0.5:
            self.kept.append(self.weak.pop(self.random.randrange(len(self.weak)))())


def test_random_programs_are_correct_while_a_tracer_holds_references() -> None:
    before = sys.gettrace()
    try:
        for seed in range(PROGRAMS):
            with Hoarder(seed):
                check_seed(2_000_000 + seed)
    finally:
        sys.settrace(before)


def scenario(k: int) -> tuple[dict[str, Tensor], Callable[[dict[str, Tensor]], None]]:
    """Return some tensors, one of which (`x`) is written, and the write."""
    x = tx.asarray(np.arange(24.0).reshape(4, 6))
    tensors = {"x": x, "pending": x + 100, "copy": x.copy()} if k % 2 else {"x": x}

    def row(t: dict[str, Tensor]) -> None:
        t["x"][0] = t["x"][1] * 0.5 + 1

    def whole(t: dict[str, Tensor]) -> None:
        t["x"] += 1
        t["x"].realize()

    def element(t: dict[str, Tensor]) -> None:
        t["x"][1, 2] = 77.0

    return tensors, (row, whole, element)[k // 2]


class Stop(BaseException):
    pass


def stopping_at(step: int) -> Trace:
    """Return a trace function that raises before one instruction of the library."""
    left = step

    def trace(frame: FrameType, event: str, arg: object) -> Trace | None:
        nonlocal left
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) or name.endswith(("helpers.py", "pool.py")) or frame.f_code.co_name == "__del__":
            return None  # where signals are never heard: locks are taken, and what dies is put away
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise Stop
        return trace

    return trace


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("k", range(6))
def test_interrupted_write_is_done_completely_or_not_at_all(k: int) -> None:
    tensors, write = scenario(k)
    before = {name: t.tolist() for name, t in tensors.items()}
    write(tensors)
    after = {name: t.tolist() for name, t in tensors.items()}
    stopped, step, trace = True, 1, sys.gettrace()
    while stopped:
        tensors, write = scenario(k)
        stopped = False
        sys.settrace(stopping_at(step))
        try:
            write(tensors)
        except Stop as error:
            stopped, kept = True, error if step % 2 else None  # with all its frames, or gone
        finally:
            sys.settrace(trace)
        for taken in (realize_module.lock, helpers._meeting):
            while taken._is_owned():  # type: ignore[attr-defined]
                taken.release()  # no signal comes between taking a lock and knowing that one has it
        for name, t in tensors.items():
            assert t.tolist() in (before[name], after[name]), (step, name)
        aside = {name: (t * 1, t.tolist()) for name, t in tensors.items()}
        tensors["x"][2] = -1  # nobody else sees it
        assert all(reader.tolist() == seen for reader, seen in aside.values()), step
        assert all(t.tolist() == aside[name][1] for name, t in tensors.items() if name != "x"), step
        step += 3
        kept = None
    assert step > 100 and kept is None


def test_readers_keep_old_values_while_another_thread_writes() -> None:
    x, y, end = tx.zeros(64).realize(), tx.zeros((8, 8)).realize(), time.monotonic() + 1.0
    wrong: list[object] = []

    def write() -> None:
        k = 0.0
        while time.monotonic() < end:
            k += 1
            x[...] = k
            x.realize()
            x[:] = x + 0
            x.realize()

    def store() -> None:
        last = 0.0
        while time.monotonic() < end:
            last += 1
            reader = y + 0
            y[3] = last
            y[2] = y[3]
            seen = reader.to_numpy()
            if (seen[2:4] != last - 1).any():
                wrong.append(seen)

    def read() -> None:
        while time.monotonic() < end:
            seen = (x * 1).to_numpy()
            if seen.min() != seen.max():
                wrong.append(seen)

    threads = [threading.Thread(target=target) for target in (write, store, read, read)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def test_read_returns_the_computed_value_despite_a_concurrent_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may write between; its write is pending then. (Memory shared with NumPy is looked up under the lock.)"""
    from tenxor import storage as storages
    from tenxor.realize import realize
    from tenxor.tensor import exchange

    with shortcut.aside():
        for module, read in ((exchange, tx.Tensor.tolist), (exchange, tx.Tensor.to_numpy), (storages, lambda t: t.storage.tolist())):
            t = tx.arange(3) * 2

            def another(node: Node, t: tx.Tensor = t) -> None:
                realize(node)
                t.storage.node = (t + 1).node

            monkeypatch.setattr(module, "realize", another)
            assert list(read(t)) == [0, 2, 4]
            monkeypatch.undo()
            assert t.tolist() == [1, 3, 5]
