"""Graphs computed as a whole, in sizes similar to earlier ones: machine code makes the frames that Python would make."""

from __future__ import annotations

import gc
import math
import random
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils import upcalls
from tenxor.api import concatenation
from tenxor.fastpath import graph_launch, launch_records, size_generic

pytestmark = pytest.mark.usefixtures("on", "one_thread")

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=140_000), RNG.normal(size=140_000)
M = RNG.normal(size=(330, 340))
WHOLE = RNG.integers(-50, 50, 140_000)

Program = Callable[[Any, Any, Any, Any, int], Any]
GRAPHS: dict[str, Program] = {
    "a number": lambda x, y, m, i, n: x[:n] * 2.5,
    "two views": lambda x, y, m, i, n: x[:n] * 2 + y[1 : n + 1],
    "one view twice": lambda x, y, m, i, n: x[3 : n + 3] * x[3 : n + 3] - x[:n],
    "backwards": lambda x, y, m, i, n: x[n:0:-1] - y[:n],
    "functions": lambda x, y, m, i, n: tx.exp(x[:n] * 0.5 - y[1 : n + 1] / 7.0),
    "dtypes": lambda x, y, m, i, n: i[:n].astype("float32") * x[:n].astype("float32") + i[1 : n + 1],
    "a choice": lambda x, y, m, i, n: tx.where(x[:n] > 0.5, y[:n], i[:n]),
    "a softmax": lambda x, y, m, i, n: tx.softmax(x[:n]),
    "sums that go on": lambda x, y, m, i, n: tx.cumulative_sum(x[:n]),
    "a sum of many": lambda x, y, m, i, n: (x[:n] * y[:n] + 1).sum(),
    "a mean": lambda x, y, m, i, n: (x[:n] + y[:n]).mean(),
    "the largest": lambda x, y, m, i, n: (x[:n] - y[:n]).max() * 3,
    "rows": lambda x, y, m, i, n: (m[: n // 430] - m[: n // 430].mean(axis=1, keepdims=True)) * 2,
    "columns": lambda x, y, m, i, n: m[:, : n // 430] / m[:, : n // 430].sum(axis=0),
    "across": lambda x, y, m, i, n: x[: n // 40, None] * y[None, :40] + m[0, 0],
    "turned": lambda x, y, m, i, n: (m[: n // 430].T + 1) * x[: 340 * 9].reshape(340, 9)[:, :1],
    "a chain": lambda x, y, m, i, n: (x[: n // 10 * 10].reshape(10, -1)[:, ::2].reshape(-1)[1:] * 2 + 1).sum(),
    "a product": lambda x, y, m, i, n: m[: n // 400] @ m.T[:, : n // 400] + 1,
    "what is read twice": lambda x, y, m, i, n: (lambda z: z * z.sum())(x[:n] + 1),
}
SPECIFIC = {"a chain"}  # where strides divide, or do not, a plan is for few sizes
SIZES = sorted([int(2048 * 64**p) for p in RNG.random(60)])
OTHERS = sorted([2720, 4096, 8192, 65_536, 131_072, *[int(2048 * 64**p) for p in RNG.random(14)]])


@pytest.fixture
def python_frames(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Record the frames that Python makes, without those of graphs that have none."""
    found: list[bytes] = []
    own = graph_launch._store_record

    def keep(known: Any, root: Any, pattern: Any, frame: bytes, *others: Any) -> None:
        found.extend([frame] if frame else [])
        own(known, root, pattern, frame, *others)

    monkeypatch.setattr(graph_launch, "_store_record", keep)
    yield found


def operands() -> tuple[Any, ...]:
    return tuple([tx.asarray(a).realize() for a in (X, Y, M, WHOLE)])


def bits(found: Any) -> tuple[str, tuple[int, ...], bytes]:
    return str(found.dtype), found.shape, found.numpy().tobytes()


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("name", GRAPHS)
def test_launch_records_of_other_sizes_equal_python_records(name: str, python_frames: list[bytes]) -> None:
    program, given = GRAPHS[name], operands()
    for n in SIZES:
        program(*given, n).realize()
    python_frames.clear()
    found = [bits(program(*given, n)) for n in OTHERS]
    asked, by_rule = len(python_frames), dict(graph_launch.graph_records)
    launch_records.drop_records(), graph_launch.drop_graph_records()
    size_generic._templates_by_signature.clear()
    python_frames.clear()
    assert [bits(program(*given, n)) for n in OTHERS] == found
    compared = [by_rule[key] == frame for key, frame in graph_launch.graph_records.items() if frame and key in by_rule]
    assert len(compared) >= 4 and all(compared)
    assert asked <= len(python_frames) / 3 or name in SPECIFIC, "rules make most"
    with fastpath.disabled():
        assert [bits(program(*given, n)) for n in OTHERS] == found


@pytest.mark.usefixtures("afresh")
def test_in_place_updates_at_new_sizes_mostly_reuse_launch_records(python_frames: list[bytes]) -> None:
    def step(n: int) -> list[bytes]:
        x, y = X[: n + 7].copy(), tx.asarray(Y[:n]).realize()
        t = tx.asarray(x.copy()).realize()
        t *= 3.0
        t[2 : n + 2] += y * 2.0
        t[1:] -= t[0]
        x *= 3.0
        x[2 : n + 2] += Y[:n] * 2.0
        x[1:] -= x[0]
        assert abs(t.numpy() - x).max() < 1e-12
        return [t.numpy().tobytes()]

    for n in SIZES:
        step(n)
    python_frames.clear()
    found = [step(n) for n in OTHERS]
    assert len(python_frames) <= len(OTHERS) and graph_launch.update_records  # three are done for each
    with fastpath.disabled():
        assert found == [step(n) for n in OTHERS]


@pytest.mark.usefixtures("afresh")
def test_graphs_of_random_operations_and_sizes_match_python() -> None:
    rng = random.Random(11)
    x, y, _, i = operands()
    operations: list[Callable[[Any, Any], Any]] = [
        *(lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - 0.5, tx.maximum, lambda a, b: tx.where(a < b, a, 2.0)),
        *(lambda a, b: tx.tanh(a), lambda a, b: a - a.max(), lambda a, b: tx.cumulative_sum(a) if a.shape else a + b),
    ]

    def graph(shape: int, n: int) -> Any:
        """Return a graph that is the same for one seed, at any size."""
        own = random.Random(shape)
        begin, step = own.randrange(4), own.randrange(1, 3)
        known = [x[:n], y[begin : begin + n], x[step * n : 0 : -step][:n], i[:n], y[:n].mean()]
        for _ in range(own.randrange(1, 9)):
            known.append(own.choice(operations)(own.choice(known), own.choice(known)))
        return known[-1] + own.choice(known)

    for turn in range(400):
        shape = rng.randrange(25)
        n = rng.choice([rng.randrange(2048, 4000), rng.randrange(4000, 40_000), 1 << rng.randrange(11, 16), rng.randrange(1, 60)])
        found = bits(graph(shape, n))
        with fastpath.disabled():
            assert bits(graph(shape, n)) == found, (turn, shape, n)


@pytest.mark.usefixtures("afresh")
def test_held_inlined_nodes_of_other_sizes_have_their_values() -> None:
    x = operands()[0]
    for n in (*SIZES, *OTHERS):
        y = x[:n] * 2.0
        z = y + 1.0
        assert z.numpy().tobytes() == (X[:n] * 2.0 + 1.0).tobytes()
        assert y.numpy().tobytes() == (X[:n] * 2.0).tobytes()
        total = (y.sum() + y).numpy()
        assert abs(total - (2.0 * X[:n].sum() + 2.0 * X[:n])).max() < 1e-9


@pytest.mark.usefixtures("afresh")
def test_launch_rules_are_cleared_when_the_thread_count_changes(threads: Callable[[int], None]) -> None:
    x = operands()[0]
    for n in SIZES:
        (x[:n] * 2.0).realize()
    assert graph_launch.graph_records
    threads(2)
    assert not graph_launch.graph_records and not graph_launch.plans_in_use and not size_generic._templates_by_signature
    for n in OTHERS:
        assert (x[:n] * 2.0).numpy().tobytes() == (X[:n] * 2.0).tobytes()


@pytest.mark.usefixtures("afresh")
def test_launch_records_made_during_a_thread_count_change_are_replaced(
    threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = operands()[0]

    def compute(n: int = 130_000) -> None:
        """Compute enough for two threads to share."""
        tx.exp(x[:n]).realize()

    for n in range(120_000, 120_100, 5):
        compute(n)
    assert all(graph_launch.graph_records.values()) and any([known.entries for known in size_generic._templates_by_signature.values()])
    cache = graph_launch.graph_launch_records
    drop_records = cache.clear_entries
    monkeypatch.setattr(cache, "clear_entries", lambda: (drop_records(), compute()))
    threads(2)
    # That of one thread wakes no helpers
    assert [struct.unpack_from("=3q", frame)[2] for frame in graph_launch.graph_records.values()] == [1]


@pytest.mark.usefixtures("afresh")
def test_rule_with_a_wrong_launch_record_is_rejected(monkeypatch: pytest.MonkeyPatch, python_frames: list[bytes]) -> None:
    monkeypatch.setattr(size_generic.SizedRecord, "instantiate", lambda self, numbers: b"another")
    x = operands()[0]
    for n in (*SIZES, *OTHERS):
        (x[:n] * 2.0).realize()
    assert len(python_frames) == len({*SIZES, *OTHERS})


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("shape", [(8, 3), (90, 40), (300, 300)])
@pytest.mark.parametrize("make", [lambda x: x * 1.7, lambda x: x.sin().exp().sin().exp()], ids=["cheap", "expensive"])
def test_held_nodes_are_not_stored_if_later_sums_would_change(shape: tuple[int, int], make: Callable[[tx.Tensor], tx.Tensor]) -> None:
    """The node is large or expensive, so it would be stored; but sums of the stored node would add in another order."""
    m, (rows, columns) = operands()[2], shape

    def step() -> list[Any]:
        turned = make(m[:rows, :columns][::-1])
        largest = m[:rows, :columns].max(axis=0)
        sums = turned.sum(axis=0), (turned * 0.5).sum(), (turned * largest).sum(axis=0) + largest
        return [bits(found) for found in (*sums, turned, largest)]

    found = [step() for _ in range(3)]
    with fastpath.disabled():
        assert found == [step()] * 3


def test_signature_numbers_survive_a_collection_during_the_call() -> None:
    x, sizes = operands()[0], count(3001)

    class Left:
        """An object that computes with a new size when it is collected."""

        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            n = next(sizes)
            (x[:n] * 2.0 + x[7 : n + 7]).realize()

    graph = (x[3:6003].reshape(60, 100).T[::2, ::3] * x[:8000].reshape(80, 100)[30:50, :50].T + 1.0).node
    kind_of_graph, frames, before = (
        upcalls.get_size_generic_functions().compute_graph_signature,
        graph_launch.graph_records,
        gc.get_threshold(),
    )
    wanted, found = kind_of_graph(frames, graph), []
    assert wanted is not None
    try:
        for _ in range(200):
            gc.set_threshold(0)
            Left()
            gc.set_threshold(1)
            found.append(kind_of_graph(frames, graph))  # kept, so that memory for a tuple is asked for
    finally:
        gc.set_threshold(*before)
    assert found == [wanted] * 200


@pytest.mark.usefixtures("afresh")
def test_launch_record_without_memory_is_left_to_python() -> None:
    memory = pytest.importorskip("_testcapi", reason="CPython comes without what has allocations fail")
    x = operands()[0]
    for n in SIZES:
        (x[:n] * 2.0 + 1.0).realize()
    told = 0
    gc.disable()  # the collector says of itself that there was no memory for it
    try:
        for fails in range(1, 31):
            n = 5000 + fails  # a size that is new
            y = x[:n] * 2.0 + 1.0
            try:
                memory.set_nomemory(fails, fails + 1)
                y.realize()
            except MemoryError:
                told += 1
            finally:
                memory.remove_mem_hooks()
            assert y.numpy().tobytes() == (X[:n] * 2.0 + 1.0).tobytes()
    finally:
        gc.enable()
    assert told < 15


@pytest.mark.parametrize("dtype", ["d", "f", "h"])
@pytest.mark.parametrize("shape", [(1024, 64), (64, 1024), (16, 64, 64)])
def test_graph_whose_plan_overwrites_its_own_buffer_is_computed(dtype: str, shape: tuple[int, ...]) -> None:
    count = concatenation.MIN_LAZY_ROLL_BYTES // np.dtype(dtype).itemsize // math.prod(shape[1:])  # the least size that is rolled lazily
    array = (np.random.default_rng(0).random((count, *shape[1:])) * 100).astype(dtype)
    for axis in range(array.ndim):
        rolled, expected = tx.roll(tx.asarray(array), 3, axis=axis), np.roll(array, 3, axis=axis)
        assert np.array_equal((rolled + tx.asarray(array)).to_numpy(), expected + array)
        assert np.array_equal(tx.roll(tx.asarray(array), 3, axis=axis).to_numpy(), expected)


@pytest.mark.parametrize("steps", [15, 16, 17, 40, 100])
def test_graphs_of_many_kernels_run_by_a_launch_record(steps: int, planned: list[object]) -> None:
    x = tx.asarray(WHOLE[:201]).realize()

    def accumulate() -> Any:
        y = x
        for _ in range(steps):
            y = tx.cumulative_sum(y) + x
        return y.realize()

    for _ in range(20):
        accumulate()
    planned.clear()
    total = accumulate()
    expected = WHOLE[:201]
    for _ in range(steps):
        expected = np.cumsum(expected) + WHOLE[:201]
    assert total.tolist() == expected.tolist() and not planned


def test_large_graph_gets_a_launch_record_after_some_requests() -> None:
    """Its signature has no room for the sizes, so a record serves these sizes alone. They may never come again."""

    def count_records(size: int) -> int:
        before, x = len(graph_launch.graph_records), tx.asarray(X[:size]).realize()
        for k in range(60):
            x = tx.sin(x) * 0.5 if k % 2 else x + 1.25
        x.realize()
        return len(graph_launch.graph_records) - before

    size = 20_000
    counts = [count_records(size) for _ in range(graph_launch.MIN_REQUESTS + 2)]
    assert counts[:5] == [0] * 5 and sum(counts) == 1 and count_records(size + 1) == 0


@pytest.mark.usefixtures("afresh")
def test_records_dropped_while_one_is_stored_leave_no_record_without_its_kernel() -> None:
    """A signal handler may drop the records between any two lines of the functions that store a record."""
    storing = {f.__code__ for f in (launch_records.store_record_in_recipe, launch_records._keep_kernel, graph_launch._store_record)}
    countdown, dropped, graph_was_stored, large = 0, 0, False, tx.asarray(np.arange(40_000.0)).realize()

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal countdown, dropped
        if frame.f_code not in storing:
            return None
        countdown -= 1
        if countdown == 0:
            dropped += 1
            launch_records.drop_records()
            graph_launch.drop_graph_records()
        return trace

    for line in count(1):
        x = tx.asarray(np.arange(7.0)).realize()
        before, countdown = dropped, line
        sys.settrace(trace)
        try:
            alone, sums, graph = x + float(line), x @ x, (large[:39_000] * 2.0).exp() + 1.0
            nodes = [alone.storage.node, sums.storage.node]
            recipes = [nodes[0].recipe, nodes[1].sources[0].recipe]  # type: ignore[union-attr]
            for t in (alone, sums, graph):
                t.tolist()
        finally:
            sys.settrace(None)
        for recipe in recipes:
            assert not (recipe.launch_record or recipe.sum_launch_records) or recipe in launch_records.recipes_with_records, line
        assert not any(graph_launch.graph_records.values()) or graph_launch.plans_in_use, line
        graph_was_stored = graph_was_stored or bool(graph_launch.graph_records)
        if before == dropped:
            break
        tx.clear_caches()
    assert dropped > 20 and graph_was_stored
