"""Test that a small graph computed one operation after the other gives the fused result, bit for bit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tenxor as tx
from tenxor.fastpath import disabled
from tenxor.graph.node import Node, Recipe
from tenxor.runtime.realize import realize
from tenxor.runtime.unfused_plans import Deferral, defer_plan, order_unfused_nodes
from tests.fuzz.same_bits import choosing_fusion

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(37, 53)).astype(np.float32), RNG.normal(size=(37, 53)).astype(np.float32)
V = RNG.normal(size=53).astype(np.float32)


def has_any_kernel(recipe: Recipe) -> bool:
    return True


def realize_by_parts(node: Node) -> int:
    """Compute `node` as a process without a compiler does, and return the number of nodes computed by themselves."""
    nodes = order_unfused_nodes([node], has_any_kernel)
    for part in (*nodes, node):
        realize(part)
    return 1 + len(nodes)


def write_rows(a: tx.Tensor, b: tx.Tensor, v: tx.Tensor) -> tx.Tensor:
    x = a * 2
    x[1:-1] = tx.exp(b[:-2] + b[2:]) - v
    x[0] = x[1] * 2
    x[:, 3] = 0.5
    return x + 1


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
    "product of matrices by broadcasting": (3, lambda a, b, v: (a / a.sum(axis=0)).T @ (b - v)),
    "running minimum of integers": (3, lambda a, b, v: tx.cummin((a * 100).astype(tx.int64), 0)[0] + 1),
}


@pytest.mark.usefixtures("plain")
class TestComputationByParts:
    @pytest.mark.parametrize("name", GRAPHS)
    def test_result_equals_the_fused_result_bit_for_bit(self, name: str) -> None:
        least, make = GRAPHS[name]
        expected = make(*map(tx.asarray, (A, B, V))).numpy()
        result = make(*map(tx.asarray, (A, B, V)))
        assert realize_by_parts(result.storage.node) >= least
        assert result.numpy().tobytes() == expected.tobytes()

    def test_sources_come_before_their_readers(self) -> None:
        a = tx.asarray(A)
        root = (tx.exp(a * 2) + a * 3).storage.node
        nodes = order_unfused_nodes([root], has_any_kernel)
        assert sorted(str(node.op) for node in nodes) == ["exp", "multiply", "multiply"]
        for k, node in enumerate(nodes):
            assert all(source in nodes[:k] for source in node.sources if isinstance(source, Node) and source.buffer is None)
        assert order_unfused_nodes([(a * 2).storage.node], has_any_kernel) == []

    def test_each_of_several_roots_is_computed_by_itself(self) -> None:
        a = tx.asarray(A)
        roots = [x.storage.node for x in (a * 2, tx.exp(a * 3))]
        assert [str(node.op) for node in order_unfused_nodes(roots, has_any_kernel)].count("multiply") == 2
        assert set(roots) < set(order_unfused_nodes(roots, has_any_kernel))

    @pytest.mark.parametrize(
        "make",
        [
            lambda a: (a.T * 2).sum(),  # a sum and its product are one kernel
            lambda a: tx.abs(a[:5, None] - a[:9]).sum(axis=-1),  # alone it would be added up in another order
            lambda a: tx.exp(a[:5, None] * a[:9]),  # a sum of the product reads the factors
            lambda a: tx.exp(tx.broadcast_to(a[0], (8000, 53))) + 1,  # much
            lambda a: a[tx.asarray([1, 2])] * 2 + 1,
        ],
    )
    def test_graph_whose_fused_result_differs_is_not_split(self, make: Callable[[tx.Tensor], tx.Tensor]) -> None:
        assert order_unfused_nodes([make(tx.asarray(A)).storage.node], has_any_kernel) == []

    def test_graph_with_an_operation_without_kernel_is_not_split(self) -> None:
        root = (tx.exp(tx.asarray(A) * 2) + 1).storage.node
        assert order_unfused_nodes([root], lambda recipe: str(recipe.op) != "exp") == []

    def test_plan_is_due_when_requests_have_cost_as_much(self) -> None:
        root = (tx.exp(tx.asarray(A) * 2) + 1).storage.node
        nodes = [*order_unfused_nodes([root], has_any_kernel), root]
        for is_compiler_loaded in (False, True):
            deferral = defer_plan(nodes, [], is_compiler_loaded)._replace(spent_ns=[0])
            requests = next(k for k in range(1, 10**6) if deferral.charge_request())
            assert requests == -(-deferral.cost_ns // deferral.gain_ns) > 10

    def test_graphs_of_the_same_operations_share_their_deferral(self) -> None:
        deferrals = []
        for size in (100, 200):
            root = (tx.exp(tx.asarray(np.ones(size)) * 2) + 1).storage.node
            deferrals.append(defer_plan([*order_unfused_nodes([root], has_any_kernel), root], [], is_compiler_loaded=True))
        assert isinstance(deferrals[0], Deferral) and deferrals[0].spent_ns is deferrals[1].spent_ns
        assert deferrals[0].gain_ns < deferrals[1].gain_ns

    @pytest.mark.parametrize(("rows", "parted"), [(9, True), (360, True), (370, False)])
    def test_two_large_products_that_may_be_attention_are_not_split(self, rows: int, parted: bool) -> None:
        q = tx.asarray(RNG.normal(size=(rows, 32)).astype(np.float32))
        assert bool(order_unfused_nodes([(tx.exp(q @ q.T) @ q).storage.node], has_any_kernel)) is parted


@pytest.mark.usefixtures("plain")
def test_deferred_graph_is_ordered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[int] = []

    def order(roots: Sequence[Node]) -> list[Node]:
        nodes = order_unfused_nodes(roots, has_any_kernel)
        ordered.append(len(nodes))
        return nodes

    module = sys.modules["tenxor.runtime.realize"]
    monkeypatch.setattr(module.unfused_plans, "order_unfused_nodes", order, raising=False)
    monkeypatch.setattr(module.plan_disk_cache, "can_use_shipped_plans", lambda: True, raising=False)
    monkeypatch.setattr(module.plan_disk_cache, "find_plan", lambda signature: None, raising=False)
    monkeypatch.setattr(module, "find_shipped_plan", lambda signature: None)
    a = tx.asarray(A[:31, :7])
    for _ in range(3):
        assert np.array_equal((tx.exp(a * 0.5) + a).to_numpy(), (tx.exp(A[:31, :7] * np.float32(0.5)).to_numpy() + A[:31, :7]))
    assert ordered.count(2) == 1


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
