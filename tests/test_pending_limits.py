"""Test the bounds of pending work: its operations, the memory that it keeps, and the memory of early computation."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.lowering.fuse import collect_pending
from tenxor.memory.block_pool import pool
from tenxor.runtime.pending_limits import MAX_PENDING_NODES, count_pending
from tenxor.tensor import Tensor

MiB = 1 << 20
pending_module = sys.modules["tenxor.runtime.pending_limits"]


@pytest.fixture(autouse=True)
def _nothing_pooled() -> Iterator[None]:
    gc.collect()
    tx.release_memory()
    yield
    tx.release_memory()


def is_pending(t: Tensor) -> bool:
    return t.storage.node.buffer is None


def make_large(nbytes: int = 8 * MiB) -> Tensor:
    """Return a new tensor of ones in memory."""
    return tx.asarray(np.ones(nbytes // 8))


def test_graphs_of_a_long_loop_are_rarely_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count takes as long as some 30 operations. The bound on the nodes of a graph is too large here, as gates share their operands."""
    counts: list[int] = []
    real_count = pending_module.count_pending
    for module in (pending_module, sys.modules["tenxor.fastpath.recorder"]):
        monkeypatch.setattr(module, "count_pending", lambda *roots: counts.append(real_count(*roots)) or counts[-1])
    w, rows = tx.ones((8, 32)).realize(), tx.ones((100, 4, 8)).realize()
    for _ in range(3):  # the first time all is met for the first time
        h = c = tx.zeros((4, 8))
        for x in rows:
            i, f, g, o = tx.split(x @ w + h @ w, 4, axis=1)
            c = tx.sigmoid(f) * c + tx.sigmoid(i) * tx.tanh(g)
            h = tx.sigmoid(o) * tx.tanh(c)
    assert 0 < len(counts) < 3 * 100 * 16 // 64


def test_steps_of_training_make_the_same_graphs_from_the_second_one_on() -> None:
    """The first step records what later ones replay. Neither changes where long graphs are cut."""
    rng = np.random.default_rng(0)
    layers = [tx.nn.Parameter(tx.asarray(rng.normal(size=(16, 16)).astype(np.float32) / 4)) for _ in range(70)]
    optimizer, x = tx.optim.AdamW(layers, lr=1e-3), tx.asarray(rng.normal(size=(8, 16)).astype(np.float32))
    plans_made: list[int] = []
    for _ in range(5):
        before = tx.stats().plans_made
        optimizer.zero_grad()
        h = x
        for w in layers:
            h = h + tx.tanh(h @ w)
        (h * h).mean().backward()
        optimizer.step()
        plans_made.append(tx.stats().plans_made - before)
    assert plans_made[0] > 0 and plans_made[2:] == [0, 0, 0]


@pytest.mark.parametrize("is_wide", [False, True])
def test_splitting_a_graph_keeps_no_reference_to_its_nodes(is_wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One node is held and stored, so the graph is planned twice. Neither plan finds further references to other nodes."""
    held_counts: list[int] = []
    module = sys.modules["tenxor.runtime.realize"]
    real = module._find_referenced
    monkeypatch.setattr(module, "_find_referenced", lambda plan, nodes: held_counts.append(len(held := real(plan, nodes))) or held)
    x, wide, held = tx.asarray(np.linspace(0, 1, 5000)).realize(), tx.ones((3, 1)).realize(), []
    y = x
    for k in range(MAX_PENDING_NODES + 4):
        y = tx.sin(y) if k % 2 else y * 1.01 + 0.1
        if k == 100:
            held.append(y)
        if is_wide and k == MAX_PENDING_NODES // 2 - 3:
            y = y * wide
    assert y.node.buffer is None and len(held) == 1 and len(held_counts) > 1
    assert max(held_counts) <= 3


@pytest.mark.usefixtures("plain")  # the fast path computes a graph that grew too long as a whole
class TestOperationCount:
    """A graph is not a tree: an operand that is used twice is one operation."""

    def test_operation_count_counts_an_operand_used_twice_once(self) -> None:
        x = tx.ones(4)
        for _ in range(MAX_PENDING_NODES - 1):
            x = x + x
        assert is_pending(x) and x.storage.node.graph_node_count == MAX_PENDING_NODES
        x = x + x
        assert x.storage.node.graph_node_count < MAX_PENDING_NODES

    def test_operation_count_is_at_least_the_pending_nodes_of_repeated_layer_norms(self) -> None:
        x = make_large(8 * 40 * 50).reshape(40, 50)
        for _ in range(6):
            x = (x - x.mean(axis=1, keepdims=True)) / tx.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
        assert is_pending(x)
        assert len(collect_pending([x.storage.node])) <= x.storage.node.graph_node_count <= MAX_PENDING_NODES

    def test_operation_count_stays_bounded_while_other_tensors_are_made(self) -> None:
        x, other_tensors = tx.ones(4), []
        for k in range(MAX_PENDING_NODES - 20):
            x = x * 0.5 + x if k % 2 else x + x
            other_tensors.append([tx.ones(3) + n for n in range(9)])
            assert x.storage.node.graph_node_count <= MAX_PENDING_NODES
        assert len(other_tensors) == MAX_PENDING_NODES - 20

    def test_operation_count_ignores_nodes_made_between_an_operand_and_its_reader(self) -> None:
        old = tx.ones(4) + 1
        for _ in range(10 * MAX_PENDING_NODES):
            tx.ones(2)
        assert (old * 2).storage.node.graph_node_count == 3 and is_pending(old * 2)

    def test_operation_count_does_not_limit_a_long_function_traced_by_map(self) -> None:
        def add_many(x: Tensor) -> Tensor:
            for _ in range(3 * MAX_PENDING_NODES):
                x = x + 1
            return x

        assert tx.map(add_many, tx.zeros(3)).tolist() == [3.0 * MAX_PENDING_NODES] * 3


class TestEarlyComputation:
    @pytest.mark.parametrize("steps", range(MAX_PENDING_NODES // 2 - 8, MAX_PENDING_NODES // 2 + 2))
    def test_early_computation_stores_no_broadcast_of_a_distance_at_any_step(self, steps: int) -> None:
        """The limit falls on each operation in turn, on the broadcast too."""
        n, d = 150, 40
        y = tx.asarray(np.linspace(0, 1, n * d).reshape(n, d))
        before = tx.memory(reset_peak=True).in_use
        for _ in range(steps):
            y = y * 0.99 + 0.01
        distances = tx.sqrt(((y[:, None] - y[None]) ** 2).sum(axis=-1)).realize()
        packed = 3 * 8 * n * d * tx.num_threads()
        assert tx.memory().peak - before < 4 * 8 * n * d + 2 * distances.nbytes + packed < 8 * n * n * d // 4

    def test_early_computation_stores_no_broadcast_of_min_plus_products(self) -> None:
        n = 60
        array = np.random.default_rng(0).random((n, n))
        x, expected = tx.asarray(array), array
        before = tx.memory(reset_peak=True).in_use
        for _ in range(MAX_PENDING_NODES // 2):
            x = (x[:, :, None] + x[None]).min(axis=1)
        x.realize()
        assert tx.memory().peak - before < n * n * n  # bytes: an eighth of the broadcast
        for _ in range(MAX_PENDING_NODES // 2):
            expected = (expected[:, :, None] + expected[None]).min(axis=1)
        assert np.array_equal(x.to_numpy(), expected)

    def test_early_computation_is_right_for_rows_written_one_by_one(self) -> None:
        rows = [make_large(8 * 1000) for _ in range(MAX_PENDING_NODES // 2)]
        x = tx.empty((len(rows), 1000))
        for k, row in enumerate(rows):
            x[k] = row * k
        assert x.sum(axis=1).tolist() == [1000.0 * k for k in range(len(rows))]

    def test_early_computation_bounds_a_graph_in_which_every_operation_is_broadcast(self) -> None:
        x, y = tx.ones((30, 1)).realize(), tx.ones(30).realize()
        z = x + y
        for _ in range(5 * MAX_PENDING_NODES):
            z = z * 1.0
        assert z.storage.node.graph_node_count <= 4 * MAX_PENDING_NODES
        assert z.sum().item() == 1800


class TestSmallPendingResults:
    @pytest.mark.parametrize(
        "small",
        [
            lambda x: ((x - 0.5) ** 2).mean(),
            lambda x: x[0] + 1,
            lambda x: x[::1000] * 2,
            lambda x: x.max(),
            lambda x: (x.reshape(-1, 64) @ x[:64]).sum(),
            lambda x: tx.exp(x).sum().astype(tx.float32),
        ],
    )
    def test_small_pending_results_are_computed_before_their_large_operands_fill_memory(self, small: Callable[[Tensor], Tensor]) -> None:
        expected = small(make_large()).item() if small(make_large()).size == 1 else small(make_large())[0].item()
        start, results = tx.memory(reset_peak=True).in_use, []
        for _ in range(30):
            results.append(small(make_large()))
        assert tx.memory().peak - start < 5 * 8 * MiB
        assert tx.memory().waiting <= 3 * 8 * MiB
        assert all(t.reshape(-1)[0].item() == expected for t in results)

    def test_small_pending_results_of_a_running_total_free_their_large_operands(self) -> None:
        start, total = tx.memory(reset_peak=True).in_use, tx.zeros(())
        for _ in range(30):
            total += make_large().sum()
        assert tx.memory().peak - start < 5 * 8 * MiB
        assert total.item() == 30 * MiB

    def test_small_pending_results_free_memory_that_numpy_owns(self) -> None:
        alive: list[object] = []

        class Owner(np.ndarray):  # type: ignore[type-arg]
            def __del__(self) -> None:
                if alive and self.size == MiB:
                    alive.pop()

        results = []
        for _ in range(30):
            array = np.ones(MiB).view(Owner)
            array.base.flags.writeable = False  # type: ignore[union-attr]
            array.flags.writeable = False
            alive.append(None)
            results.append(tx.asarray(array, copy=False).sum())
            del array
        assert len(alive) < 6
        assert [t.item() for t in results] == [MiB] * 30

    def test_small_pending_results_stay_pending_if_their_operands_are_referenced_elsewhere(self) -> None:
        operands = [make_large() for _ in range(4)]
        means = [x.mean() for x in operands]
        for _ in range(10):
            make_large().sum().item()
        assert all(map(is_pending, means))
        doubled = [x * 2 for x in operands]
        sums = [x.sum() for x in doubled]
        del operands
        for _ in range(10):
            make_large().sum().item()
        assert all(map(is_pending, doubled)) and all(map(is_pending, sums))  # computing the sums sets nothing free

    def test_small_pending_results_with_an_error_raise_it_only_when_they_are_read(self) -> None:
        index = tx.asarray([5000]).realize() + (1 << 40)
        wrong = make_large()[index].sum()
        for _ in range(10):
            make_large().sum().item()
        with pytest.raises(IndexError, match="1099511632776 is out of range"):
            wrong.item()

    def test_small_pending_results_are_computed_by_release_memory_which_lowers_waiting_bytes(self) -> None:
        start = tx.memory().waiting
        x, y = make_large(), make_large()
        mean, double = x.mean(), y * 2
        del x, y
        assert tx.memory().waiting == start + 16 * MiB
        tx.release_memory()
        assert not is_pending(mean) and is_pending(double)
        assert tx.memory().waiting == start + 8 * MiB and tx.memory().pooled < MiB
        assert double[0].item() == 2.0 and tx.memory().waiting == start

    def test_small_pending_results_that_are_deallocated_leave_the_list_of_waiting_results(self) -> None:
        x = make_large()
        for _ in range(2000):
            x.sum()
        assert len(pending_module.pending_refs) < 200 and pool.in_use >= x.nbytes


@pytest.mark.parametrize("error", [tx.errors.NegativeExponent, tx.errors.IndexOutOfRange])
def test_error_of_a_small_result_is_raised_by_its_reader_and_not_under_memory_pressure(error: type[Exception]) -> None:
    large = tx.ones(1 << 20, dtype=tx.int64).realize()
    wrong = tx.asarray([-1, 1 << 30]).realize()
    small = (large * 2)[:2] ** wrong if error is tx.errors.NegativeExponent else (large * 2)[wrong + 1]
    del large
    pending_module.free_pending_memory()
    for _ in range(2):
        with pytest.raises(error):
            small.tolist()


def test_write_whose_value_is_an_error_leaves_the_old_elements() -> None:
    x = tx.asarray([2, 3, 4]).realize()
    with pytest.raises(tx.errors.NegativeExponent):
        x[:2] = (x ** tx.asarray([-1, 1, 1]))[:2]
    assert x.tolist() == [2, 3, 4]


def test_recorded_call_and_its_replay_leave_equal_graphs() -> None:
    fastpath.start()
    graphs, target = list[tuple[bool, int]](), tx.zeros(4, dtype=tx.int64).realize()
    start = tx.asarray(np.ones((4, 77), np.float32)).realize()
    for _ in range(3):
        x = start
        for k in range(MAX_PENDING_NODES - 10):
            x = x * (1 + k % 3 * 0.01)
        loss = tx.nn.functional.cross_entropy(x, target, label_smoothing=0.125)
        graphs.append((x.node.buffer is None, count_pending(loss.node)))
    assert graphs[0] == graphs[1] == graphs[2] and not graphs[0][0]
