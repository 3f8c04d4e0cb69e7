"""Reference count queries of many nodes at once: machine code gives the results of the Python functions."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils import upcalls
from tenxor.graph.node import UNFINISHED, Node, intern_recipe
from tenxor.graph.ownership import find_externally_owned
from tenxor.runtime import pending_limits
from tenxor.runtime.graph_signature import capture_in_python

pytestmark = pytest.mark.usefixtures("on")


def graph(rng: np.random.Generator) -> tuple[list[Any], list[Node]]:
    """Return tensors, some pending, and a list of all nodes that they are made of."""
    made: list[Any] = [tx.asarray(rng.random((3, 4))).realize() for _ in range(2)]
    while len(made) < 20:
        x, y = (made[k] for k in rng.integers(0, len(made), 2))
        made.append(x * 2.0 if rng.integers(2) else x + y)
        if rng.integers(6) == 0:
            made[-1].realize()
    waiting = [t.node for t in made if t.node.buffer is None]
    return made, capture_in_python(waiting).nodes if waiting else []


@pytest.mark.parametrize("seed", range(8))
def test_fast_path_finds_the_externally_owned_nodes_of_python(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    made, nodes = graph(rng)
    numbers = [k for k in range(len(nodes)) if rng.integers(3)]
    reads = [sum([s is nodes[k] for node in nodes for s in node.sources]) for k in numbers]
    for left in (len(made), 8, 0):
        del made[left:]
        found = find_externally_owned(nodes, numbers, reads)
        assert upcalls.installed is not None
        assert found == set(upcalls.installed.refcount_queries.find_externally_owned(nodes, numbers, reads))
        with monkeypatch.context() as m:
            m.setattr(upcalls, "installed", None)
            assert found == find_externally_owned(nodes, numbers, reads)
    assert not found  # but by the list, and by what is in it


@pytest.mark.parametrize("seed", range(8))
def test_fast_path_counts_the_pending_nodes_of_python(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    made, nodes = graph(rng)
    if seed % 2 and nodes:
        nodes.append(Node(intern_recipe(UNFINISHED, nodes[-1].shape, nodes[-1].dtype), (), ()))
    whole = [node.buffer for node in nodes if node.recipe.op is not UNFINISHED].count(None)
    assert upcalls.installed is not None
    queries = upcalls.installed.refcount_queries
    assert queries.count_pending(nodes) == whole
    waiting = [weakref.ref(t.node) for t in made]
    del made[::3], nodes
    alive = [one for one in waiting if (node := one()) is not None and node.buffer is None]
    node = None
    found = queries.filter_pending(waiting)
    assert len(found) == len(alive) and all([a is b for a, b in zip(found, alive, strict=True)])
    monkeypatch.setattr(pending_limits, "pending_refs", waiting)
    monkeypatch.setattr(pending_limits, "_cleanup_length", 0)
    pending_limits.prune_pending_refs()
    assert waiting == alive


def test_disabled_removes_the_functions_of_the_fast_path() -> None:
    assert upcalls.installed is fastpath.fast_path
    with fastpath.disabled():
        assert upcalls.installed is None
    assert upcalls.installed is fastpath.fast_path
