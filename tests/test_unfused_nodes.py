"""Test that a small graph computed one operation after the other gives the fused result, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph.node import Node
from tenxor.runtime.realize import realize
from tenxor.runtime.unfused_nodes import find_unfused_sources

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(37, 53)).astype(np.float32), RNG.normal(size=(37, 53)).astype(np.float32)
V = RNG.normal(size=53).astype(np.float32)


def realize_by_parts(node: Node) -> int:
    """Compute `node` as a process without a compiler does, and return the number of nodes computed by themselves."""
    count = 1
    for source in find_unfused_sources([node]):
        if source.buffer is None:
            count += realize_by_parts(source)
    realize(node)
    return count


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

    def test_each_part_is_one_operation(self) -> None:
        a = tx.asarray(A)
        twice, root = a * 2, tx.exp(a * 2) + a * 2
        first = find_unfused_sources([root.storage.node])
        assert {str(node.op) for node in first} == {"exp", "multiply"} and len(first) == 2
        assert find_unfused_sources([twice.storage.node]) == []

    @pytest.mark.parametrize(
        "make",
        [
            lambda a: tx.softmax(a * 2, axis=-1),  # a sum of what reads a column
            lambda a: (a.T * 2).sum(),  # alone it would be added up in another order
            lambda a: (a[::-1] * 2 + 1).sum(axis=0),
            lambda a: tx.exp(tx.broadcast_to(a[0], (8000, 53))) + 1,  # much
            lambda a: sum((a * k for k in range(1, 20)), start=a),  # many
            lambda a: a.cumsum(axis=0) + 1,
            lambda a: a[tx.asarray([1, 2])] * 2 + 1,
        ],
    )
    def test_graph_whose_fused_result_differs_is_not_split(self, make: Callable[[tx.Tensor], tx.Tensor]) -> None:
        assert find_unfused_sources([make(tx.asarray(A)).storage.node]) == []

    def test_in_place_write_is_not_split(self) -> None:
        x = tx.asarray(A) * 2
        x[0] = tx.exp(tx.asarray(V)) + 1
        assert find_unfused_sources([x.storage.node]) == []

    @pytest.mark.parametrize(("rows", "parted"), [(9, True), (100, False)])
    def test_two_large_products_that_may_be_attention_are_not_split(self, rows: int, parted: bool) -> None:
        q = tx.asarray(RNG.normal(size=(rows, 32)).astype(np.float32))
        assert bool(find_unfused_sources([(tx.exp(q @ q.T) @ q).storage.node])) is parted
