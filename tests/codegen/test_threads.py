"""Threads: the bits depend neither on their number nor on concurrent use of the library."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.threads import worker_pool
from tenxor.errors import ArgumentError
from tenxor.graph.node import Node
from tenxor.memory.buffer import Buffer
from tenxor.target import ThreadLimits
from tests.processes import python

SHARING = ThreadLimits()
SIZE = 1200  # squared, more work than one thread is left alone with


@pytest.fixture(autouse=True)
def _as_many_as_before() -> Iterator[None]:
    before = tx.num_threads()
    yield
    tx.set_num_threads(before)


@cache
def operands() -> tuple[tx.Tensor, tx.Tensor]:
    rng = np.random.default_rng(1)
    x, y = (tx.asarray(rng.normal(size=(SIZE, SIZE)).astype(np.float32)) for _ in range(2))
    return x, y


def store_through_views() -> tx.Tensor:
    x, y = operands()
    t = x * 2
    t[1:, ::2] = y[:-1, ::2] + x[1:, 1::2]
    t.T[3:9] = y.T[:6]
    return t


def gather_and_scatter() -> tx.Tensor:
    x, _ = operands()
    rows = np.random.default_rng(2).permutation(SIZE).tolist()
    t = tx.zeros((SIZE, SIZE), dtype=tx.float32)
    t.oindex[rows] = x.oindex[rows[::-1]] + 1
    return t


WORK: dict[str, Callable[[], tx.Tensor]] = {
    "elements": lambda: (operands()[0] * operands()[1] + 1.5) ** 2,
    "elementary functions": lambda: tx.exp(tx.sin(operands()[0])),
    "columns read as rows": lambda: operands()[0].T + operands()[1],
    "a sum of all": lambda: operands()[0].sum(),
    "a mean of all of an odd number": lambda: operands()[0].reshape(-1)[1:-6].mean(),
    "sums of rows": lambda: operands()[0].sum(axis=1),
    "sums of columns": lambda: operands()[0].sum(axis=0),
    "variances": lambda: operands()[0].var(axis=0),
    "softmax": lambda: (
        tx.exp(operands()[0] - operands()[0].max(1, keepdims=True))
        / tx.exp(operands()[0] - operands()[0].max(1, keepdims=True)).sum(1, keepdims=True)
    ),
    "argmax of all": lambda: operands()[0].argmax(),
    "argmax of rows": lambda: operands()[0].argmax(axis=1),
    "running sums along rows": lambda: tx.cumulative_sum(operands()[0], axis=1),
    "running sums along columns": lambda: tx.cumulative_sum(operands()[0], axis=0),
    "distances": lambda: ((operands()[0][:200, None, :40] - operands()[1][None, :300, :40]) ** 2).sum(-1),
    "a product": lambda: operands()[0][:150] @ operands()[1][:, :170],
    "stores": store_through_views,
    "gathers and scatters": gather_and_scatter,
    "positions": lambda: tx.arange(2_000_003)[::-1] * 3,
}


def digest(t: tx.Tensor) -> str:
    return hashlib.sha256(t.to_numpy().tobytes()).hexdigest()


@pytest.mark.parametrize("name", WORK)
def test_result_bits_do_not_depend_on_the_number_of_threads(name: str) -> None:
    digests = {}
    for count in (1, 2, 3, 5):
        tx.set_num_threads(count)
        digests[count] = digest(WORK[name]())
    assert len(set(digests.values())) == 1, digests


def share_piece(piece: Callable[[int, int], object], extent: int, *, work: int = 0, grain: int = 1) -> None:
    """Share `piece` among threads as if it were a kernel. Its exceptions are only printed."""
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(
        lambda args, begin, end, worker: piece(begin, end) and None
    )
    kernel = SimpleNamespace(address=ctypes.cast(call, ctypes.c_void_p).value, call_without_gil=call, slice_work=0)
    worker_pool.parallel_for(kernel, b"", extent, work, grain, SHARING, single_threaded=False)  # type: ignore[arg-type]


class TestSharing:
    def pieces(self, count: int, extent: int, **options: Any) -> list[tuple[int, int]]:
        tx.set_num_threads(count)
        pieces: list[tuple[int, int]] = []
        share_piece(lambda begin, end: pieces.append((begin, end)), extent, **options)
        return sorted(pieces)

    @pytest.mark.parametrize("slices", [1, 2, 5])
    def test_pieces_of_a_shared_loop_cover_it_exactly_once(self, slices: int) -> None:
        for count in (1, 2, 3, 7):
            for extent in (*range(0, 40), 63, 64, 65, 1000, 4096, 100_001):
                pieces = self.pieces(count, extent, work=(slices - 1) * SHARING.contraction_slice_work)
                if extent:
                    assert [p[0] for p in pieces] == [0, *(p[1] for p in pieces[:-1])]
                    assert pieces[-1][1] == extent
                assert all(begin < end for begin, end in pieces)

    def test_pieces_of_a_shared_loop_are_multiples_of_the_grain(self) -> None:
        for extent in (63, 64, 65, 1000, 100_001):
            assert all(begin % 64 == 0 for begin, _ in self.pieces(3, extent, work=3 * SHARING.contraction_slice_work, grain=64))

    def test_all_threads_take_part_in_a_shared_loop(self) -> None:
        tx.set_num_threads(3)
        meeting = threading.Barrier(3, timeout=30)
        thread_ids = set()

        def piece(begin: int, end: int) -> None:
            if begin < 3:
                meeting.wait()  # nobody gets on alone
            thread_ids.add(threading.get_ident())

        share_piece(piece, 3)
        assert len(thread_ids) == 3

    def test_small_loops_run_in_the_caller(self) -> None:
        tx.set_num_threads(3)
        thread_ids = set()
        share_piece(lambda begin, end: thread_ids.add(threading.get_ident()), 50, grain=64)
        assert thread_ids == {threading.get_ident()}

    def test_every_index_of_many_quick_shared_loops_runs_exactly_once(self) -> None:
        tx.set_num_threads(4)
        for extent in range(2, 300):
            indices: list[int] = []
            share_piece(lambda begin, end, indices=indices: indices.extend(range(begin, end)), extent)  # type: ignore[misc]
            assert sorted(indices) == list(range(extent))

    def test_caller_waits_for_the_workers(self) -> None:
        tx.set_num_threads(2)
        caller, started, ended = threading.get_ident(), threading.Event(), threading.Event()

        def slow(begin: int, end: int) -> None:
            if threading.get_ident() == caller:
                assert started.wait(30)
            else:
                started.set()
                time.sleep(0.2)
                ended.set()

        share_piece(slow, 2)
        assert ended.is_set()

    def test_late_worker_does_not_delay_later_loops(self) -> None:
        tx.set_num_threads(2)
        caller, started, release = threading.get_ident(), threading.Event(), threading.Event()
        worker_pool._get_pool()

        def first(begin: int, end: int) -> None:
            if threading.get_ident() != caller:
                started.set()
                assert release.wait(30)  # the helper is held inside this job
            else:
                assert started.wait(30)
                release.set()

        share_piece(first, 2)
        for _ in range(1000):  # whoever takes part, it ends
            share_piece(lambda begin, end: None, 2)

    def test_workers_end_when_the_thread_count_is_lowered(self) -> None:
        tx.set_num_threads(4)
        share_piece(lambda begin, end: None, 100)
        workers = worker_pool._pool.workers  # type: ignore[union-attr]
        assert len(workers) == 3 and all(h.is_alive() and h.daemon for h in workers)
        tx.set_num_threads(1)
        assert not any(h.is_alive() for h in workers)

    def test_zero_threads_raise_argument_error(self) -> None:
        with pytest.raises(ArgumentError, match="the count is 0; it must be at least 1"):
            tx.set_num_threads(0)


class TestNumber:
    def number(self, value: str | None) -> int:
        environment = {k: v for k, v in os.environ.items() if k != "TENXOR_NUM_THREADS"}
        if value is not None:
            environment["TENXOR_NUM_THREADS"] = value
        program = "import tenxor as tx; print(tx.num_threads())"
        return int(python("-c", program, env=environment).stdout)

    def test_environment_sets_the_number_of_threads(self) -> None:
        assert self.number("3") == 3

    def test_default_number_of_threads_is_the_allowed_cpus(self) -> None:
        assert self.number(None) == len(os.sched_getaffinity(0))


def run_together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return the results of `work` in several Python threads that start together."""
    start = threading.Barrier(count, timeout=60)

    def run(k: int) -> Any:
        start.wait()
        return work(k)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class TestPythonThreads:
    def test_python_threads_run_during_a_long_kernel(self) -> None:
        tx.set_num_threads(1)

        def waves(n: int) -> tx.Tensor:
            t = tx.arange(n) * 1e-6
            for _ in range(12):
                t = tx.sin(t) * 1.5
            return t

        waves(64).realize()  # compiled before we look
        t, ended, ticks = waves(1 << 22), threading.Event(), 0

        def tick() -> None:
            nonlocal ticks
            while not ended.wait(0.001):
                ticks += 1

        thread = threading.Thread(target=tick)
        thread.start()
        t.realize()
        ended.set()
        thread.join()
        assert ticks > 10

    def test_concurrent_threads_compute_each_node_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        settled = []
        settle = Node.set_buffer

        def record_node(node: Node, buffer: Buffer) -> None:
            settled.append(node)
            settle(node, buffer)

        t = tx.cumulative_sum(tx.cumulative_sum(tx.ones((1000, 1000)).realize(), axis=0), axis=1)
        t[1:] = t[:-1]
        monkeypatch.setattr(Node, "set_buffer", record_node)
        results = run_together(4, lambda k: t[-1, -1].item())
        assert results == [999_000.0] * 4
        assert len(settled) == len(set(settled))

    def test_concurrent_threads_realize_one_pending_tensor(self) -> None:
        for _ in range(20):
            t = (tx.arange(3000) * 7).reshape(30, 100).sum(axis=0)
            expected = (np.arange(3000) * 7).reshape(30, 100).sum(axis=0).tolist()
            assert run_together(8, lambda k, t=t: t.tolist()) == [expected] * 8

    def test_concurrent_threads_compute_separate_graphs(self) -> None:
        def work(k: int) -> list[float]:
            results = []
            for n in range(1, 30):
                x = tx.arange(n * 10).reshape(n, 10) + k
                y = tx.zeros((n, 10), dtype=tx.int64)
                y[:, ::2] = x[:, 1::2]
                y[0, 1] = -k
                results.append((x * y).sum().item())
            return results

        expected = [work(k) for k in range(6)]
        assert run_together(6, work) == expected

    def test_concurrent_threads_compile_separate_kernels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENXOR_CACHE_DIR", "")  # compile, not find them

        def work(k: int) -> int:
            x = tx.arange(8)
            for _ in range(k + 1):  # as many operations as nobody else has
                x = tx.bitwise_xor(x * 3, x + 11)
            return x.sum().item()

        results = run_together(6, work)
        assert results == [work(k) for k in range(6)]

    def test_concurrent_threads_share_the_workers(self) -> None:
        tx.set_num_threads(3)
        operands()
        names = ["elements", "a sum of all", "stores", "sums of rows"]
        expected = {name: digest(WORK[name]()) for name in names}
        results = run_together(4, lambda k: [digest(WORK[names[(k + j) % 4]]()) for j in range(4)])
        assert results == [[expected[names[(k + j) % 4]] for j in range(4)] for k in range(4)]

    def test_concurrent_writes_to_copies_of_one_tensor(self) -> None:
        source = tx.arange(10_000) + 1
        copies = [source.copy() for _ in range(6)]

        def work(k: int) -> list[int]:
            for n in range(50):
                copies[k][n::97] = k
            return copies[k].tolist()

        expected = []
        for k in range(6):
            model = np.arange(10_000) + 1
            for n in range(50):
                model[n::97] = k
            expected.append(model.tolist())
        assert run_together(6, work) == expected
        assert source.tolist() == list(range(1, 10_001))


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `program` in a process, which must exit cleanly and soon."""
    return python("-c", program, env={**os.environ, **environment}, within=100)


FORK = """
import os, threading, warnings
import tenxor as tx
warnings.simplefilter("ignore")  # that is what is tested: forking with threads
tx.set_num_threads(3)
x = tx.arange(2_000_000)
assert (x * 2).sum().item() == 1_999_999 * 2_000_000
pending = x + 3
busy = threading.Event()

def work():  # holds the library's locks most of the time
    n = 0
    while not busy.is_set():
        n += 1
        (tx.arange(1000 + n) * n).sum().item()

other = threading.Thread(target=work)
other.start()
for k in range(10):
    child = os.fork()
    if not child:
        ok = pending.sum().item() == 1_999_999 * 1_000_000 + 6_000_000
        ok = ok and (tx.arange(2_000_000) * 5 - k).max().item() == 9_999_995 - k
        ok = ok and tx.maximum(tx.arange(70 + k) - 9, k).sum().item() > 0
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
busy.set()
other.join()
assert (x * 3).sum().item() == 1_999_999 * 3_000_000
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("cold", [False, True])
def test_forked_child_computes(cold: bool, tmp_path: Path) -> None:
    """With a cold cache, the other thread is compiling and holds more than one lock."""
    run(FORK, **({"TENXOR_CACHE_DIR": str(tmp_path)} if cold else {}))


FORK_WITH_THREADS = """
import os, warnings
import tenxor as tx
from tenxor.codegen.threads import worker_pool
from tenxor.memory.block_pool import pool
warnings.simplefilter("ignore")
tx.set_num_threads(3)
pool.has_decay_thread = True
x = tx.ones(1 << 22).realize()
assert (x + 1).sum().item() == 1 << 23
there = worker_pool._pool.workers
child = os.fork()
if not child:
    try:
        assert (x + 2).sum().item() == 3 << 22
        assert len(worker_pool._pool.workers) == 2 and all(h.is_alive() for h in worker_pool._pool.workers)
        assert not pool.has_decay_thread  # that thread is the parent's
        os._exit(0)
    finally:
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert worker_pool._pool.workers is there and all(h.is_alive() for h in there)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_child_starts_its_own_threads() -> None:
    run(FORK_WITH_THREADS)


INTERRUPT = """
import signal
import numpy as np
import tenxor as tx

tx.set_num_threads(3)
x = tx.asarray(np.random.default_rng(1).normal(size=(1500, 1500)))
expected = (x @ x[:, :40]).to_numpy()
interrupted = 0
for k in range(40):
    t = x @ x[:, :40]
    u = x + 0
    signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0015 * k)
    try:
        t.realize()
        u[1:] = u[:-1]
        u.realize()
        while True:
            (x * 2).realize()
    except KeyboardInterrupt:
        interrupted += 1
    assert np.array_equal(t.to_numpy(), expected), k
    u = u.to_numpy()
    assert np.array_equal(u, x.to_numpy()) or np.array_equal(u[1:], x.to_numpy()[:-1]), k
assert interrupted == 40, interrupted
"""


IN_BETWEEN = """
import signal
import tenxor as tx
found = []
x = tx.arange(1_000_000).realize()
(tx.arange(7) * 2 + 1).sum().item(), (x * 3 + x).max().item()  # modules that are half loaded are of no use to what a signal calls
signal.signal(signal.SIGALRM, lambda *_: found.append((tx.arange(7) * 2 + 1).sum().item()))
for k in range(20):
    signal.setitimer(signal.ITIMER_REAL, 0.0003)
    while len(found) <= k:
        assert (x * k + x).max().item() == 999_999 * (k + 1)
assert found == [49] * 20, found
"""


ENORMOUS = """
import signal, time
import tenxor as tx
t = tx.zeros(1 << 42, dtype=tx.float32)
(t[:1 << 20] * 2).sum().item()  # compiled before we look
signal.setitimer(signal.ITIMER_REAL, 0.5)
start = time.perf_counter()
try:
    (t * 2).sum().item()
except KeyboardInterrupt:
    pass
spent = time.perf_counter() - start
assert 0.4 < spent < 10, spent
assert (t[:1000] + 1).sum().item() == 1000
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
@pytest.mark.parametrize("count", ["1", "2"])
def test_interrupt_ends_an_hours_long_kernel(count: str) -> None:
    run(
        "import signal; signal.signal(signal.SIGALRM, signal.default_int_handler)\n" + ENORMOUS,
        TENXOR_NUM_THREADS=count,
    )


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_signal_handler_may_compute_during_a_kernel() -> None:
    run(IN_BETWEEN)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_interrupt_leaves_old_or_complete_results() -> None:
    run("import signal; signal.signal(signal.SIGALRM, signal.default_int_handler)\n" + INTERRUPT)
