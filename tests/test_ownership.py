"""Test that every reference by which a node can still be read is noticed, and no other."""

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
from tenxor import fastpath
from tenxor.codegen.threads import worker_pool
from tenxor.dtypes import float64
from tenxor.graph import ownership
from tenxor.graph.node import Node, make_data_node
from tenxor.graph.storage import Storage
from tenxor.memory.buffer import Buffer, allocate
from tenxor.tensor import Tensor

from .fuzz.running import check_seed
from .machines import tune

realize_module = sys.modules["tenxor.runtime.realize"]
PACKAGE = str(Path(tx.__file__).parent)
PROGRAMS = 40
Trace = Callable[[FrameType, str, Any], Any]


@pytest.fixture(autouse=True)
def _in_place_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, thread_limits={"min_donated_bytes": 0})


def fresh() -> Node:
    return make_data_node(allocate(64), (8,), float64)


def address(t: Tensor) -> int:
    buffer = t.storage.node.buffer
    assert buffer is not None
    return buffer.address


class Holder:
    def __init__(self, value: object) -> None:
        self.value = value


def frame_with(value: object) -> FrameType:
    return sys._getframe()


def traceback_with(value: object) -> BaseException:
    try:
        raise ValueError
    except ValueError as error:
        return error


HOLDERS: dict[str, Callable[[Any], object]] = {
    "a variable": lambda what: what,
    "a list": lambda what: [what],
    "an object": Holder,
    "a closure": lambda what: lambda: what,
    "a default argument": lambda what: lambda x=what: x,
    "a frame": frame_with,
    "a frame's variables": lambda what: dict(frame_with(what).f_locals),
    "a traceback": traceback_with,
    "a generator": lambda what: (what for _ in range(3)),
    "an iterator": lambda what: iter([what]),
    "a bound method": lambda what: what.__repr__,
}


class TestReferencesAreCounted:
    def test_this_interpreter_supports_reference_counts(self) -> None:
        assert ownership._IN_LIST != ownership._UNKNOWN

    def test_nodes_and_buffers_without_other_references_have_a_sole_owner(self) -> None:
        storage, nodes = Storage(fresh()), [fresh(), fresh()]
        for _ in range(300):  # while the interpreter adapts
            assert ownership.is_sole_owner(storage)
            assert ownership.is_sole_buffer_owner(nodes[1])
            assert ownership.find_externally_owned(nodes, [0, 1], [0, 0]) == set()

    @pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
    def test_any_reference_to_a_node_counts_as_an_owner(self, hold: Callable[[Any], object]) -> None:
        storage, nodes = Storage(fresh()), [fresh(), fresh()]
        for _ in range(30):
            references = hold(storage.node), hold(nodes[1])
            assert not ownership.is_sole_owner(storage)
            assert ownership.find_externally_owned(nodes, [0, 1], [0, 0]) == {1}
            del references
            assert ownership.is_sole_owner(storage)
            assert ownership.find_externally_owned(nodes, [0, 1], [0, 0]) == set()

    @pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
    def test_any_reference_to_a_buffer_counts_as_an_owner(self, hold: Callable[[Any], object]) -> None:
        storage, node = Storage(fresh()), fresh()
        for _ in range(30):
            references = hold(storage.node.buffer), hold(node.buffer)
            assert not ownership.is_sole_owner(storage) and not ownership.is_sole_buffer_owner(node)
            del references
            assert ownership.is_sole_owner(storage) and ownership.is_sole_buffer_owner(node)

    def test_reads_by_recipes_are_subtracted_from_the_count(self) -> None:
        nodes = [fresh()]
        recipe = Node.of(tx.ops.OPS["add"], (8,), float64, (nodes[0], nodes[0]), (None, None))
        assert ownership.find_externally_owned(nodes, [0], [2]) == set()
        assert ownership.find_externally_owned(nodes, [0], [1]) == {0}
        del recipe

    def test_reference_of_another_thread_counts_as_an_owner(self) -> None:
        storage, waiting, done = Storage(fresh()), threading.Event(), threading.Event()

        def hold(node: Node) -> None:
            waiting.set()
            done.wait()

        thread = threading.Thread(target=hold, args=(storage.node,))
        thread.start()
        waiting.wait()
        assert not ownership.is_sole_owner(storage)
        done.set()
        thread.join()
        del thread
        assert ownership.is_sole_owner(storage)

    def test_every_node_counts_as_held_if_references_cannot_be_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        storage, nodes = Storage(fresh()), [fresh(), fresh()]
        monkeypatch.setattr(ownership, "_IN_LIST", ownership._UNKNOWN)
        monkeypatch.setattr(ownership, "_IN_STORAGE", (ownership._UNKNOWN, ownership._UNKNOWN))
        monkeypatch.setattr(ownership, "_IN_NODE", ownership._UNKNOWN)
        assert not ownership.is_sole_owner(storage) and not ownership.is_sole_buffer_owner(nodes[0])
        assert ownership.find_externally_owned(nodes, [1], [0]) == {1}
        for seed in range(20):
            check_seed(seed)

    def test_free_threaded_counts_are_trusted_only_while_no_other_thread_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        storage, nodes, done = Storage(fresh()), [fresh()], threading.Event()
        monkeypatch.setattr(ownership, "_FREE_THREADED", True)
        waiters = [t for t in threading.enumerate() if t is not threading.current_thread()]
        assert ownership.is_sole_owner(storage) == (len(sys._current_frames()) == 1), waiters
        thread = threading.Thread(target=done.wait)
        thread.start()
        try:
            assert not ownership.is_sole_owner(storage) and not ownership.is_sole_buffer_owner(nodes[0])
            assert ownership.find_externally_owned(nodes, [0], [0]) == {0}
        finally:
            done.set()
            thread.join()


class TestWritesAreInPlace:
    """A tensor whose old content no other tensor reads is never copied."""

    def matrix(self) -> Tensor:
        return tx.asarray(np.arange(24.0).reshape(4, 6))

    def test_copy_of_a_row_to_another_is_in_place(self) -> None:
        x = self.matrix()
        before = address(x)
        for _ in range(20):
            x[0] = x[1]
            x[:, 1] = x[:, 2]
            assert address(x) == before
        assert x[0].tolist() == [6, 8, 8, 9, 10, 11]

    def test_write_of_a_row_computed_from_the_row_before_is_in_place(self) -> None:
        x = self.matrix()
        before = address(x)
        for t in range(3):
            x[t + 1] = x[t] * 0.5 + 1
            assert address(x) == before
        assert x[3].tolist() == [1.75 + k / 8 for k in range(6)]

    @pytest.mark.usefixtures("plain")
    def test_writes_of_scalars_and_slices_are_in_place(self) -> None:
        x = self.matrix()
        before = address(x)
        x[1:3] = 5
        x[2, 3] = 7
        x[:, ::2] += 1
        x[0] *= x[1]
        x[1:] = x[:-1]
        x[x > 6] = 0
        assert address(x.realize()) == before

    def test_write_copies_while_a_pending_tensor_reads_the_old_content(self) -> None:
        x = self.matrix()
        before, row, reader = address(x), x[1], x[1] * 1
        x[0] = x[1]
        assert address(x) != before
        x[1] = 0
        assert row.tolist() == [0] * 6 and reader.tolist() == [6, 7, 8, 9, 10, 11]


def test_memory_of_an_operand_that_a_cheap_constant_reads_is_not_reused() -> None:
    """Operands of constants that are computed again were once not counted as read."""
    n = 50
    square = tx.arange(n, dtype=tx.complex128).reshape((n, 1))
    other = tx.asarray(square, copy=True)
    other.oindex[2, None] = tx.asarray([(6 + 0j)], dtype=tx.complex128)
    square *= square
    other[:, [0]] = square * 2 - other
    other.realize()
    assert square.tolist() == [[complex(k * k)] for k in range(n)]


def test_memory_that_another_view_reinterprets_is_not_reused() -> None:
    x = tx.asarray(np.arange(8.0)) * 2
    bits = x.view(tx.int64)
    expected = (np.arange(8.0) * 2).view(np.int64).tolist()
    y = x + 1
    del x
    z = bits + 0
    tx.realize(y, z)
    assert z.tolist() == bits.tolist() == expected


HELD_TYPES = (Node, Buffer, Storage, Tensor)  # what is worth holding


class Hoarder:
    """A tracer that keeps references to objects inside the library for a while: frames, their variables, the `HOLDERS` of these, and
    weak references, some of which it follows later. Another thread holds some of them now and then.
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
        """Hold some of the kept objects in a variable; runs in a thread of its own."""
        while not self.done.wait(1e-3):
            taken = self.kept[-3:]
            self.done.wait(1e-3)
            del taken

    def trace(self, frame: FrameType, event: str, arg: object) -> Trace | None:
        """A trace function."""
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        chance = self.random.random()
        if chance < 0.01:
            self.kept.append(frame)
        elif chance < 0.03:
            self.kept.append(dict(frame.f_locals))
        elif chance < 0.05:
            self.keep_one_of([x for x in frame.f_locals.values() if isinstance(x, HELD_TYPES)])
        if len(self.kept) > 30:
            del self.kept[: self.random.randrange(30)]
        return self.trace if chance < 0.1 else None  # line by line, which takes time

    def keep_one_of(self, things: list[Any]) -> None:
        """Hold one of `things` in a random way, and perhaps an object of an earlier call that is still alive."""
        if things:
            thing = self.random.choice(things)
            self.kept.append(self.random.choice(list(HOLDERS.values()))(thing))
            self.weak.append(weakref.ref(thing))
        if self.weak and self.random.random() < 0.5:
            self.kept.append(self.weak.pop(self.random.randrange(len(self.weak)))())


def test_random_programs_agree_with_numpy_while_a_tracer_keeps_references() -> None:
    before = sys.gettrace()
    try:
        for seed in range(PROGRAMS):
            with Hoarder(seed):
                check_seed(2_000_000 + seed)
    finally:
        sys.settrace(before)


def scenario(k: int) -> tuple[dict[str, Tensor], Callable[[dict[str, Tensor]], None]]:
    """Return some tensors, and a function that writes to `x` among them."""
    x = tx.asarray(np.arange(24.0).reshape(4, 6))
    tensors = {"x": x, "pending": x + 100, "copy": x.copy()} if k % 2 else {"x": x}

    def write_row(t: dict[str, Tensor]) -> None:
        t["x"][0] = t["x"][1] * 0.5 + 1

    def write_all(t: dict[str, Tensor]) -> None:
        t["x"] += 1
        t["x"].realize()

    def write_element(t: dict[str, Tensor]) -> None:
        t["x"][1, 2] = 77.0

    return tensors, (write_row, write_all, write_element)[k // 2]


class Stop(BaseException):
    pass


def stopping_at(step: int) -> Trace:
    """A trace function that raises before some instruction of the library."""
    left = step

    def trace(frame: FrameType, event: str, arg: object) -> Trace | None:
        nonlocal left
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) or name.endswith(("helpers.py", "memory/block_pool.py")) or frame.f_code.co_name == "__del__":
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
def test_write_interrupted_at_any_instruction_is_done_or_not_done(k: int) -> None:
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
            stopped, kept_error = True, error if step % 2 else None  # with all its frames, or gone
        finally:
            sys.settrace(trace)
        for lock in (realize_module.compute_lock, worker_pool._pool_lock):
            while lock._is_owned():  # type: ignore[attr-defined]
                lock.release()  # a real signal never arrives between these two instructions
        for name, t in tensors.items():
            assert t.tolist() in (before[name], after[name]), (step, name)
        readers = {name: (t * 1, t.tolist()) for name, t in tensors.items()}
        tensors["x"][2] = -1  # nobody else sees it
        assert all(reader.tolist() == values for reader, values in readers.values()), step
        assert all(t.tolist() == readers[name][1] for name, t in tensors.items() if name != "x"), step
        step += 3
        kept_error = None
    assert step > 100 and kept_error is None


def test_readers_in_other_threads_see_a_consistent_tensor() -> None:
    """While one thread writes, tensors that others have read before keep their values."""
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


def test_reader_returns_its_value_if_another_thread_writes_after_realize(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write of the other thread is pending then. (Memory shared with NumPy is looked up under the lock.)"""
    from tenxor.graph import storage as storages
    from tenxor.runtime.realize import realize
    from tenxor.tensor import conversion_methods

    with fastpath.disabled():
        for module, read in (
            (conversion_methods, tx.Tensor.tolist),
            (conversion_methods, tx.Tensor.to_numpy),
            (storages, lambda t: t.storage.tolist()),
        ):
            t = tx.arange(3) * 2

            def realize_then_write(node: Node, t: tx.Tensor = t) -> None:
                realize(node)
                t.storage.node = (t + 1).node

            monkeypatch.setattr(module, "realize", realize_then_write)
            assert list(read(t)) == [0, 2, 4]
            monkeypatch.undo()
            assert t.tolist() == [1, 3, 5]
