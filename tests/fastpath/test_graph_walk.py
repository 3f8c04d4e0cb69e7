"""Machine code takes the same patterns from graphs as Python, and its keys distinguish exactly what Python's keys distinguish."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.graph.node import UNFINISHED, Node, Recipe, intern_recipe
from tenxor.runtime import pending_limits
from tenxor.runtime.graph_signature import GraphSignature, capture_by_traversal, capture_in_python, capture_signature
from tenxor.runtime.realize import get_plan

pytestmark = pytest.mark.usefixtures("on")

MEMORY = [tx.asarray(np.arange(float(n)).reshape(shape)).realize() for n, shape in ((6, (2, 3)), (6, (2, 3)), (9, (3, 3)))]
OTHERS = [tx.asarray(np.arange(6, dtype=np.float32).reshape(2, 3)).realize(), tx.asarray([1, 0]).realize()]


def graph(seed: int, most: int = 12) -> list[Any]:
    """Return some pending tensors with common operands, so that two seeds often give equal graphs."""
    rng = np.random.default_rng(seed)
    made = [*MEMORY, *OTHERS[:1]]
    while len(made) < most:
        x, y = (made[k] for k in rng.integers(0, len(made), 2))
        with np.errstate(all="ignore"):
            made.append(_one(rng, x, y))
    roots = [made[k] for k in rng.integers(len(MEMORY) + 1, len(made), rng.integers(1, 4))]
    if rng.integers(3) == 0 and roots[0].node.sources:
        roots[0].node.is_stored = True
    return roots


def _one(rng: np.random.Generator, x: Any, y: Any) -> Any:
    match rng.integers(8):
        case 0:
            return x.T
        case 1:
            return x[rng.integers(0, len(x)) :] if len(x) else x
        case 2:
            return tx.tanh(x)
        case 3:
            return x * float(rng.integers(2, 4))
        case 4:
            return x.sum(axis=0) if x.ndim > 1 else x * 1.0
        case 5:
            return x.astype(tx.float64) + y.sum()
        case 6:
            return x + x
        case _:
            return x + y if x.shape == y.shape else x - 1


def pending_nodes(tensors: list[Any]) -> list[Node]:
    return [t.node for t in tensors if t.node.buffer is None]


def parts(found: GraphSignature) -> tuple[object, ...]:
    return found.root_slots, list(map(id, found.nodes)), list(map(id, found.scalars)), found.offsets, found.pending_count


def by_machine_code(roots: list[Node]) -> GraphSignature:
    assert fastpath.fast_path is not None
    found = fastpath.fast_path.capture_signature(*roots)
    assert found is not None
    return GraphSignature(*found)


def test_graph_signatures_match_python() -> None:
    several = 0
    for seed in range(400):
        roots = pending_nodes(graph(seed))
        if roots:
            several += len(roots) > 1
            assert parts(by_machine_code(roots)) == parts(capture_by_traversal(roots)) == parts(capture_in_python(roots)), seed
    assert several > 100


def test_signature_keys_are_equal_if_and_only_if_structures_are() -> None:
    """Of nodes in memory both keys have only the dtype, which their readers determine."""
    structures: dict[object, object] = {}
    words: dict[object, object] = {}
    kept, again = [], 0
    for seed in range(1500):
        tensors = graph(seed, 7)
        roots = pending_nodes(tensors)
        if roots:
            kept.append(roots)
            key, structure = by_machine_code(roots).key, capture_by_traversal(roots).key
            again += structure in structures
            assert structures.setdefault(structure, key) == key, seed
            assert words.setdefault(key, structure) == structure, seed
    assert again > 100 < len(structures)


def test_recipe_numbers_are_not_reused() -> None:
    old = (MEMORY[0] * 2.0).node.recipe
    numbers = [Recipe(old.op, old.shape, old.dtype, old.dtypes, old.layout_keys, old.target).serial for _ in range(100)]
    assert len(set(numbers)) == 100 and old.serial not in numbers


def test_taking_a_signature_keeps_reference_counts() -> None:
    tensors = graph(3, 14)
    roots = pending_nodes(tensors)
    found = capture_in_python(roots)
    things: list[object] = [*found.nodes, *found.scalars]
    del found
    before = [sys.getrefcount(each) for each in things]
    for _ in range(5):
        by_machine_code(roots)
        with pytest.raises(AssertionError):
            by_machine_code([*roots, MEMORY[0].node])
    assert [sys.getrefcount(each) for each in things] == before


def chain(length: int) -> Any:
    """Return a chain of this many nodes, however long, without early computation."""
    node = MEMORY[0].node
    one = (MEMORY[0] + 1.0).node
    for _ in range(length):
        node = Node(one.recipe, (node, *one.sources[1:]), one.offsets)
    return node


def wide() -> Any:
    """Return a node with many operands."""
    parts = tuple([(MEMORY[0] * float(k)).node for k in range(2100)])
    return Node((MEMORY[0] + MEMORY[1]).node.recipe, parts, (0,) * len(parts))


class TestSignaturesLeftToPython:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: chain(1100),
            lambda: MEMORY[0].node,
            wide,
        ],
        ids=["what is deep", "what is in memory", "what is many"],
    )
    def test_signatures_of_deep_stored_or_wide_graphs_are_left_to_python(self, make: Callable[[], Node]) -> None:
        assert fastpath.fast_path is not None
        assert fastpath.fast_path.capture_signature(make()) is None

    def test_signatures_of_unfinished_nodes_are_left_to_python(self) -> None:
        assert fastpath.fast_path is not None
        begun = Node(intern_recipe(UNFINISHED, (2, 3), tx.float64))
        assert fastpath.fast_path.capture_signature(Node((MEMORY[0] + MEMORY[1]).node.recipe, (begun, MEMORY[1].node), (0, 0))) is None

    def test_signatures_of_tracers_are_left_to_python(self) -> None:
        assert fastpath.fast_path is not None
        seen: list[object] = []

        def looked(x: Any) -> Any:
            y = x * 2.0 + 1.0
            seen.append(fastpath.fast_path.capture_signature(y.node))  # type: ignore[union-attr]
            return y

        tx.vmap(looked)(MEMORY[0])
        assert seen == [None]

    def test_python_takes_the_signature_of_a_deep_graph(self) -> None:
        roots = [chain(1100)]
        assert parts(capture_signature(roots)) == parts(capture_by_traversal(roots))


def test_plan_made_by_python_is_found_by_the_fast_path() -> None:
    """The plan is reused under the key that the fast path computes."""
    x = tx.asarray(np.arange(300.0).reshape(100, 3)).realize()
    make = lambda: tx.cumulative_sum(x * 3.25, axis=0) @ x.T[:, :7]
    with fastpath.disabled():
        wanted = make().realize().tolist()
        root = make().node
        own = get_plan(capture_in_python([root]))
    root = make().node
    assert isinstance(capture_signature([root]).key, bytes)
    assert get_plan(capture_signature([root])) is own
    assert make().tolist() == wanted


@pytest.mark.parametrize("walks", [True, False])
def test_loop_without_reads_keeps_a_bounded_number_of_pending_nodes(monkeypatch: pytest.MonkeyPatch, walks: bool) -> None:
    """The number of pending nodes is bounded, with and without signatures taken by the fast path."""
    if not walks:
        monkeypatch.setattr(fastpath.fast_path, "capture_signature", lambda *roots: None)
    x = tx.asarray(np.linspace(0.0, 1.0, 90_000).reshape(300, 300)).realize()
    for _ in range(3):
        y, most = x, 0
        for _ in range(400):
            y = tx.sin(y) + x[:1] * 0.5
            y[0] = y[1]
            most = max(most, len(capture_in_python([y.node]).nodes) if y.node.buffer is None else 0)
        expected = x.to_numpy()
        assert most <= 2 * pending_limits.MAX_PENDING_NODES
        for _ in range(400):
            expected = np.sin(expected) + x.to_numpy()[:1] * 0.5
            expected[0] = expected[1]
        np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-12)
