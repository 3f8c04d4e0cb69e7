"""Test that equal kernels of one plan are lowered once and bound to their own operands."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph.node import Node
from tenxor.runtime import generic_plans, plan_lowering, planner
from tenxor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("plain")  # without the fast path, so that plans compute small tensors, too


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Return the list of nodes that are lowered from now on, with one result for each kernel."""
    nodes: list[Node] = []
    lower = plan_lowering.lower

    def counted(root: Node, *args: object) -> object:
        nodes.append(root)
        return lower(root, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(plan_lowering, "lower", counted)
    monkeypatch.setattr(planner, "group_fusible_kernels", lambda *_: {})
    monkeypatch.setattr(planner, "_lowering_caches", [])  # no cached kernels of earlier plans
    generic_plans._caches.clear()  # a cached structure would be lowered for other sizes, too
    return nodes


class TestLoweredOnce:
    def test_many_roots_of_equal_structure_are_lowered_once(self, lowered: list[Node]) -> None:
        x = tx.asarray([float(n) for n in range(11)])
        results = [x * float(k) + 1 for k in range(50)]
        tx.realize(*results)
        assert len(lowered) == 1
        assert [t.tolist() for t in results] == [[n * k + 1.0 for n in range(11)] for k in range(50)]

    def test_equal_kernels_of_a_long_chain_are_lowered_once(self, lowered: list[Node]) -> None:
        expected = np.array([0.25 + 0.5j, -0.5 + 0.125j])
        result = tx.asarray(expected)
        for _ in range(30):
            result, expected = tx.acos(result), np.arccos(expected)
        assert np.allclose(np.asarray(result), expected, rtol=1e-9)
        assert len(lowered) == 2  # the first reads what is in memory

    def test_views_with_other_offsets_are_lowered_once(self, lowered: list[Node]) -> None:
        array = np.arange(600.0).reshape(30, 20)
        m = tx.asarray(array)
        results = [m[k, 2:17:3] - m[29 - k, 4:9] for k in range(10)]
        tx.realize(*results)
        assert len(lowered) == 1
        for k, t in enumerate(results):
            assert t.tolist() == (array[k, 2:17:3] - array[29 - k, 4:9]).tolist()

    def test_equal_kernels_in_later_plans_are_lowered_once(self, lowered: list[Node]) -> None:
        array = np.array([0.25 + 0.5j, -0.5 + 0.125j, 1.5 - 2j])
        x = tx.asarray(array).realize()
        first_result, counts = tx.acos(x).realize(), [len(lowered)]
        for k in range(3):  # each a plan of its own, the last for results in another order
            results = [tx.acos(x), *[x * (k + 2.0)] * (k + 1)][:: -1 if k == 2 else 1]
            tx.realize(*results)
            assert np.allclose(results[-1 if k == 2 else 0].to_numpy(), np.arccos(array), rtol=1e-9)
            counts.append(len(lowered))
        assert counts == [1, 2, 2, 2] and first_result.shape == (3,)


class TestLoweredSeparately:
    """Two kernels that differ in any way are lowered separately."""

    @pytest.mark.parametrize(
        "other",
        [
            lambda x, y: y - y,
            lambda x, y: y[::-1] - x,
            lambda x, y: y[1:] - x[:-1],
            lambda x, y: y * x,
            lambda x, y: y - 2.0,
            lambda x, y: y - x.astype(tx.float32),
            lambda x, y: (y - x).sum(),
        ],
    )
    def test_two_kernels_that_differ_are_lowered_separately(self, other: Callable[[Tensor, Tensor], Tensor], lowered: list[Node]) -> None:
        x, y = tx.asarray([1.0, 2.0, 4.0]).realize(), tx.asarray([7.0, 5.0, 6.0]).realize()
        first, second = x - y, other(x, y)
        tx.realize(first, second)
        assert len(lowered) == 2
        assert first.tolist() == [-6.0, -3.0, -2.0]
        assert np.array_equal(np.asarray(second), np.asarray(other(x, y)))

    def test_one_scalar_read_twice_and_two_scalars_are_lowered_separately(self, lowered: list[Node]) -> None:
        x = tx.asarray([1.0, 2.0]).realize()
        two, three = tx.asarray(2.0).realize(), tx.asarray(3.0).realize()
        results = [x * two + two, x * two + three, x * three + three]
        tx.realize(*results)
        assert len(lowered) == 2
        assert [t.tolist() for t in results] == [[4.0, 6.0], [5.0, 7.0], [6.0, 9.0]]


def test_every_kernel_of_a_chain_reuses_the_memory_of_its_operand() -> None:
    """A chain of ten kernels over 16 MiB needs at most two such arrays besides its operand."""
    z = (tx.ones(1 << 20, dtype=tx.complex128) * 0.25).realize()
    expected, result = complex(z[0].item()), z
    for _ in range(10):
        result, expected = tx.acos(result), complex(np.arccos(expected))
    before = tx.memory(reset_peak=True).in_use
    result.realize()
    assert tx.memory().peak - before <= 2 * z.nbytes
    assert abs(result[77].item() - expected) < 1e-9


MAKES: list[Callable[[Tensor, Tensor, Tensor, float], Tensor]] = [
    lambda a, b, index, number: a + b,
    lambda a, b, index, number: a * number - b,
    lambda a, b, index, number: tx.exp(-a * a)[::-1],
    lambda a, b, index, number: a - b.mean(),
    lambda a, b, index, number: tx.roll(a, 2),
    lambda a, b, index, number: a[index] + b,
    lambda a, b, index, number: tx.cumulative_sum(a),
    lambda a, b, index, number: tx.where(a > number, a, b[[2, 0, 1, 5, 4, 3]]),
    lambda a, b, index, number: tx.stack([a, b]).max(axis=0),
]


def random_graph(seed: float, rows: list[Tensor], index: Tensor, at: int, number: float) -> list[Tensor]:
    """Return results of a random graph of several kernels, which reads slices of `rows` from `at` on, and `number`."""
    rng = random.Random(seed)
    tensors = [r[at : at + 6] for r in rows] + [rows[0][::-2][:6]]
    for _ in range(rng.randrange(3, 9)):
        tensors.append(rng.choice(MAKES)(rng.choice(tensors), rng.choice(tensors), index, number))
    return tensors[-3:]


@pytest.mark.parametrize("block", range(4))
def test_random_graphs_computed_together_equal_those_computed_separately(block: int) -> None:
    rng, numbers = random.Random(block), np.random.default_rng(block)
    for _ in range(25):
        seed = rng.random()
        graph_args = [
            (
                [tx.asarray(numbers.uniform(-1, 1, 20)).realize() for _ in range(3)],
                tx.asarray(numbers.integers(0, 6, 6)).realize(),
                rng.randrange(10),
                rng.uniform(-1, 1),
            )
            for _ in range(4)
        ]
        separate = [[np.asarray(t.copy()) for t in random_graph(seed, *args)] for args in graph_args]
        combined = [random_graph(seed, *args) for args in graph_args]
        tx.realize(*[t for args in combined for t in args])
        for tensors, arrays in zip(combined, separate, strict=True):
            for t, array in zip(tensors, arrays, strict=True):
                assert np.array_equal(np.asarray(t), array)
