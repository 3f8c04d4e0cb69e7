"""Test that a small graph computed one operation after the other gives the fused result, bit for bit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath import disabled
from tenxor.graph.node import Node
from tenxor.runtime.deferral import MAX_GRANTED_RUNS, Deferral, defer_plan
from tenxor.runtime.graph_signature import GraphSignature, capture_in_python
from tenxor.runtime.plan_execution import Plan
from tenxor.runtime.planner import make_plan
from tenxor.runtime.realize import get_plan
from tenxor.runtime.unfused_plans import _renumber, list_pieces, make_unfused_plan
from tests.fuzz.same_bits import choosing_fusion

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(37, 53)).astype(np.float32), RNG.normal(size=(37, 53)).astype(np.float32)
INDEX = [int(k) for k in RNG.integers(-37, 37, 11)]
V = RNG.normal(size=53).astype(np.float32)


def make_parts_plan(roots: Sequence[tx.Tensor]) -> Plan | None:
    """Return the plan that computes `roots` one operation after the other, with kernels of single operations by the planner."""
    signature = capture_in_python([root.storage.node for root in roots])
    return make_unfused_plan(signature, lambda part: (make_plan(part), 0), make_plan)


def count_parts(*roots: tx.Tensor) -> int:
    """Return the number of parts in which `roots` are computed; 0 if they are planned as a whole."""
    return len(list_pieces(capture_in_python([root.storage.node for root in roots])))


def write_rows(a: tx.Tensor, b: tx.Tensor, v: tx.Tensor) -> tx.Tensor:
    x, y = a * 2, b * 3  # of each tensor, a second write would compute the first
    x[1:-1] = tx.exp(b[:-2] + b[2:]) - v
    y[:, 3] = 0.5
    return (x + 1) * (y - x[::-1])


def write_at_indices(a: tx.Tensor, b: tx.Tensor, v: tx.Tensor) -> tx.Tensor:
    x, index = a * 2, tx.asarray([3, -1, 0, 3])
    x[index] = tx.exp(b[:4]) - v
    x.index_add_(0, tx.argmax(b, axis=1)[:4] % 37, x[1:5] * v)
    y = b * 3
    y[index, 2] = x[index, 1] * 0.5
    return x + y


GRAPHS: dict[str, tuple[int, Callable[..., tx.Tensor]]] = {  # with the least number of nodes computed
    "elementwise": (4, lambda a, b, v: tx.exp(a - b) * 2 + v),
    "scalars and ranges": (3, lambda a, b, v: (tx.arange(100.0) * 0.3 + tx.full(100, 0.1)).sum()),
    "sum": (2, lambda a, b, v: (a * a + b).sum()),
    "sum of a product": (1, lambda a, b, v: (a * b).sum()),
    "sums of rows": (3, lambda a, b, v: tx.sqrt(((a - b) ** 2).sum(axis=1))),
    "sums of columns": (2, lambda a, b, v: tx.exp(a).sum(axis=0)),
    "product": (2, lambda a, b, v: (a * 2) @ tx.exp(b).T),
    "function of a product": (3, lambda a, b, v: tx.maximum(a @ v, 0.0).sum()),
    "row maxima": (3, lambda a, b, v: (a - b).max(axis=1) + 1),
    "writes": (8, write_rows),
    "softmax": (3, lambda a, b, v: tx.softmax(a * 2, axis=-1)),
    "sum of a transposed operand": (2, lambda a, b, v: ((tx.exp(a.sum(axis=1)) + a.T) * 2).sum()),
    "columns in reverse": (3, lambda a, b, v: (a[::-1] * 2 + b.sum(axis=0)).sum(axis=0) + 1),
    "many operations": (100, lambda a, b, v: sum((a * k for k in range(1, 60)), start=a)),
    "maxima in another order": (3, lambda a, b, v: (a.T + v[:, None]).max(axis=1) + 1),
    "running sum": (3, lambda a, b, v: tx.cumulative_sum(a * b, axis=0) + 1),
    "differences of all pairs of short rows": (3, lambda a, b, v: tx.abs(a[:5, None, :3] - b[:9, :3]).sum(axis=-1)),
    "differences of all pairs of rows": (1, lambda a, b, v: tx.abs(a[:5, None] - b[:9]).sum(axis=-1)),
    "function of the differences of all pairs of rows": (3, lambda a, b, v: tx.exp(tx.abs(a[:5, None] - b[:9]).sum(axis=-1) * 0.1)),
    "weights of rows": (4, lambda a, b, v: (tx.exp(a) / tx.exp(a).sum(axis=1, keepdims=True)).sum(axis=0)),
    "outer product": (2, lambda a, b, v: tx.exp(a[:5, None] * b[:9])),
    "numbers and views at an offset": (3, lambda a, b, v: (a[3:, 2:] * 2.5 - b[:-3, 1:-1]) * 0.5 + (b[1:-2, :-2] - 7)),
    "large results": (2, lambda a, b, v: tx.exp(tx.broadcast_to(v, (8000, 53))) + 1),
    "small products of matrices": (2, lambda a, b, v: (a[:3, :2] @ b[:3, :2].T + 1) @ a[:3, :4]),
    "product of matrices by broadcasting": (3, lambda a, b, v: (a / a.sum(axis=0)).T @ (b - v)),
    "gather of rows": (4, lambda a, b, v: tx.softmax((a * 2)[tx.asarray([3, -1, 3])] + v, axis=-1)),
    "gather at computed indices": (4, lambda a, b, v: tx.exp(a)[tx.argmax(b, axis=0), tx.arange(53)] * v),
    "means of gathered rows": (4, lambda a, b, v: (a[tx.asarray(INDEX)] + b[tx.asarray(INDEX[::-1])]).mean(axis=1)),
    "product of gathered rows": (3, lambda a, b, v: (a[tx.asarray(INDEX)] @ b[tx.asarray(INDEX[:5])].T) * 0.5),
    "small product with a sum of a transpose": (0, lambda a, b, v: ((a[:4, :9] + b[:9, :4].T) @ a[4:8, :9].T) + 0.5),
    "product of gathered columns": (0, lambda a, b, v: (a[:, tx.asarray(INDEX[:5])].T @ b[:, tx.asarray(INDEX[:3])]) + 0.5),
    "writes at indices": (8, write_at_indices),
    "products of stacks": (3, lambda a, b, v: (a[:36].reshape(4, 9, 53) @ b[1:].reshape(4, 9, 53).mT + 1).max(axis=0)),
    "chains of views": (5, lambda a, b, v: tx.exp(a.T.reshape(-1)) * b.reshape(-1) + a.T[:, ::2].reshape(-1)[:1961].sum()),
    "product of joined heads": (
        3,
        lambda a, b, v: a[:16, :12].reshape(4, 4, 12).moveaxis(1, 0).reshape(4, 48) @ b[:32, :48].T + 1,
    ),
    "running minimum of integers": (3, lambda a, b, v: tx.cummin((a * 100).astype(tx.int64), 0)[0] + 1),
}


@pytest.mark.usefixtures("plain")
class TestComputationByParts:
    @pytest.mark.parametrize("name", GRAPHS)
    def test_unfused_plan_gives_the_bits_of_the_fused_plan(self, name: str) -> None:
        least, make = GRAPHS[name]
        expected = make(*map(tx.asarray, (A, B, V))).numpy()
        with choosing_fusion(lambda: False):
            result = make(*map(tx.asarray, (A, B, V)))
            assert count_parts(result) >= least
            assert result.numpy().tobytes() == expected.tobytes()

    def test_pieces_of_an_unfused_plan_are_listed_after_their_sources(self) -> None:
        a = tx.asarray(A)
        signature = capture_in_python([(tx.exp(a * 2) + a * 3).storage.node])
        nodes = [part.node for part in list_pieces(signature)]
        assert sorted(str(node.op) for node in nodes) == ["add", "exp", "multiply", "multiply"]
        for k, node in enumerate(nodes):
            assert all(source in nodes[:k] for source in node.sources if isinstance(source, Node) and source.buffer is None)

    def test_several_roots_are_computed_by_one_unfused_plan(self) -> None:
        a = tx.asarray(A)
        roots = [x for x in (a * 2, tx.exp(a * 3))]
        plan = make_parts_plan(roots)
        assert plan is not None and [str(step.name) for step in plan.steps].count("multiply") == 2

    @pytest.mark.parametrize(("make", "parts"), [(lambda a: (a.T * 2).sum(), 1), (lambda a: (a.T * 2).sum() + a[0, 0], 2)])
    def test_sum_and_the_product_only_it_reads_are_one_part(self, make: Callable[[tx.Tensor], tx.Tensor], parts: int) -> None:
        assert count_parts(make(tx.asarray(A))) == parts

    def test_outer_product_stays_pending_for_a_later_sum(self) -> None:
        a = tx.asarray(A)
        product = a[:5, None] * a[:9]
        expected = (a[:5, None] * a[:9]).sum(axis=-1).numpy()
        with choosing_fusion(lambda: False):
            assert np.allclose((product + 1).numpy(), A[:5, None] * A[:9] + 1)
        assert product.storage.node.buffer is None
        assert product.sum(axis=-1).numpy().tobytes() == expected.tobytes()

    def test_index_out_of_range_is_an_error_that_names_the_operation(self) -> None:
        a, index = tx.asarray(A), tx.asarray([1, 36]) + 1
        with choosing_fusion(lambda: False):
            result = tx.take(a * 2, index, axis=0) + 1
            assert count_parts(result) == 4
            with pytest.raises(IndexError, match="take: index 37 is out of range for axis 0 of size 37"):
                result.realize()

    def test_graph_with_many_missing_kernels_is_planned_as_a_whole(self) -> None:
        signature = capture_in_python([(tx.exp(tx.asarray(A) * 2) + 1).storage.node])
        assert make_unfused_plan(signature, lambda part: None, make_plan) is None

    def test_missing_kernel_of_a_long_graph_is_compiled_alone(self) -> None:
        x = tx.asarray(A)
        for k in range(20):
            x = x * (k + 0.5)
        signature, compiled = capture_in_python([tx.exp(x).storage.node]), list[str]()

        def make(part: GraphSignature) -> Plan:
            compiled.append(str(part.nodes[-1].op))
            return make_plan(part)

        find = lambda part: None if str(part.nodes[-1].op) == "exp" else (make_plan(part), 0)
        assert make_unfused_plan(signature, find, make) is not None and compiled == ["exp"]

    def test_fused_plan_is_due_when_unfused_runs_have_lost_its_cost(self) -> None:
        signature = capture_in_python([(tx.exp(tx.asarray(A) * 2) + 1).storage.node])
        for gain_ns in (1000, 10**6):
            deferral = defer_plan(signature.nodes[1:], gain_ns, 10**7)._replace(spent_ns=[0])
            runs = next(k for k in range(1, 10**6) if deferral.charge_run())
            assert runs == -(-deferral.cost_ns // gain_ns) >= 10

    def test_runs_of_generated_code_are_charged_to_the_deferral(self) -> None:
        deferral = Deferral(10, 1000, [0], [lambda: 30])
        assert not deferral.charge_run() and deferral.spent_ns == [310]
        assert deferral.count_granted_runs() == 69
        assert deferral._replace(cost_ns=10**9).count_granted_runs() == MAX_GRANTED_RUNS

    def test_graph_whose_plan_saves_much_time_at_once_has_no_unfused_plan(self) -> None:
        x = tx.broadcast_to(tx.asarray(V), (200_000, 53))
        for k in range(100):
            x = x * (k + 0.5)
        assert make_parts_plan([x]) is None

    def test_graphs_of_equal_operations_share_the_time_spent_on_unfused_runs(self) -> None:
        plans = [make_parts_plan([tx.exp(tx.asarray(np.ones(size)) * 2) + 1]) for size in (100, 200)]
        first, second = (plan.deferral for plan in plans if plan is not None)
        assert first is not None and second is not None and first.spent_ns is second.spent_ns
        assert first.gain_ns < second.gain_ns

    @pytest.mark.parametrize(("rows", "parted"), [(9, True), (360, True), (370, False)])
    def test_two_large_products_that_may_be_attention_are_not_split(self, rows: int, parted: bool) -> None:
        q = tx.asarray(RNG.normal(size=(rows, 32)).astype(np.float32))
        assert bool(count_parts(tx.exp(q @ q.T) @ q)) is parted


@pytest.fixture
def unfused(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Make each graph of several nodes run by an unfused plan until a plan for the whole is due, and return the unfused plans."""
    plans, module = list[Plan](), sys.modules["tenxor.runtime.realize"]

    def make(signature: GraphSignature, find_plan: object, make_missing: object) -> Plan | None:
        plan = make_unfused_plan(signature, lambda part: (make_plan(part), 0), make_plan) if len(list_pieces(signature)) > 1 else None
        plans.extend([plan] if plan else [])
        return plan

    monkeypatch.setattr(module.unfused_plans, "make_unfused_plan", make, raising=False)
    monkeypatch.setattr(module.plan_disk_cache, "can_use_shipped_plans", lambda: True, raising=False)
    monkeypatch.setattr(module, "_find_in_sources", lambda signature: None)
    tx.clear_caches()
    return plans


@pytest.mark.usefixtures("plain")
def test_unfused_plan_is_made_once_and_replaced_when_it_is_due(unfused: list[Plan]) -> None:
    a = tx.asarray(A[:31, :7])
    expected = tx.exp(A[:31, :7] * np.float32(0.5)).to_numpy() + A[:31, :7]
    for _ in range(3):
        assert np.array_equal((tx.exp(a * 0.5) + a).to_numpy(), expected)
    (plan,) = unfused
    signature = capture_in_python([(tx.exp(a * 0.5) + a).storage.node])
    assert get_plan(signature, may_defer=True) is plan and plan.deferral is not None
    plan.deferral.spent_ns[0] = plan.deferral.cost_ns
    whole = get_plan(signature, may_defer=True)
    assert whole is not None and whole.deferral is None and len(whole.steps) == 1 and len(unfused) == 1


def test_generated_code_runs_an_unfused_plan_until_the_plan_is_due(unfused: list[Plan], threads: Callable[[int], None]) -> None:
    threads(1)
    fastpath.start()
    a = tx.asarray(np.ones((100, 100))).realize()
    for k in range(40):
        assert float(((a * 0.5 + k) * a)[0, 0]) == 0.5 + k
    plan = unfused[0]
    assert plan.deferral is not None
    (count_runs,) = plan.deferral.run_counters
    count_runs()
    for k in range(5):
        ((a * 0.5 + k) * a).realize()
    assert count_runs() == 5 and fastpath.state == "on"
    plan.deferral.spent_ns[0] = plan.deferral.cost_ns - 20 * plan.deferral.gain_ns
    for k in range(MAX_GRANTED_RUNS + 30):
        ((a * 0.5 + k) * a).realize()
    signature = capture_in_python([((a * 0.5 + 1.0) * a).storage.node])
    due = get_plan(signature, may_defer=True)
    assert due is not None and due.deferral is None


def test_temporary_results_of_an_unfused_graph_die_after_their_last_reader() -> None:
    x = tx.asarray(RNG.normal(size=1 << 15)).realize()
    y = x
    for _ in range(40):
        y = (y * 0.5 + x) * 0.5
    tx.release_memory()
    before = tx.memory().in_use
    tx.memory(reset_peak=True)
    with disabled(), choosing_fusion(lambda: False):
        y.realize()
    assert tx.memory().peak - before < 8 * x.nbytes


@pytest.mark.parametrize(("make", "count"), [(lambda t: t + t.flip(0), 0), (lambda t: t * t, 1), (lambda t: t + 1, 1)])
def test_operand_donates_memory_only_if_all_its_reads_allow_it(make: Callable[[tx.Tensor], tx.Tensor], count: int) -> None:
    with disabled():
        t = tx.arange(1 << 20).realize()
        (piece,) = list_pieces(capture_in_python([make(t).node]))
        (step,) = make_plan(piece.capture()).steps
        assert step.donor_candidates
        assert len(_renumber(step, piece.slots, piece).donor_candidates) == count


def test_few_temporary_results_of_a_weighted_sum_wait_for_their_readers() -> None:
    x = tx.asarray(RNG.normal(size=1 << 15)).realize()
    y = sum((weight * x[k : k + 30_000] for k, weight in enumerate((0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4))), start=x[:30_000])
    tx.release_memory()
    before = tx.memory().in_use
    tx.memory(reset_peak=True)
    with disabled(), choosing_fusion(lambda: False):
        y.realize()
    assert tx.memory().peak - before < 4 * y.nbytes
