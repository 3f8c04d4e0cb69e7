"""Rewriting replaces the readers of changed nodes, and nothing else."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph.node import Node
from tenxor.layout import Layout
from tenxor.lowering.fuse import collect_pending
from tenxor.ops import OPS
from tenxor.ops.reductions import REDUCTIONS
from tenxor.rewrite import split_attention
from tenxor.rewrite.blockwise_op import BlockwiseOp
from tenxor.rewrite.rewrite_passes import rewrite_graph
from tenxor.runtime.realize import evict_plans

LARGE = 1 << 18


def test_small_graphs_are_not_rewritten() -> None:
    x = tx.ones((60, 70)).realize()
    for t in (x + x, x.sum(), tx.softmax(x), x @ x.mT, x.var(axis=0), tx.scaled_dot_product_attention(x, x, x)):
        assert rewrite_graph(collect_pending([t.storage.node])) == {}


def test_rewriting_does_not_change_the_original_nodes() -> None:
    x = tx.ones(LARGE).realize()
    total = x.sum()
    result = tx.sqrt(total + 1.0) * 2.0
    order = collect_pending([result.storage.node])
    before = [(n.op, n.sources, n.layouts, n.is_stored) for n in order]
    replacements = rewrite_graph(order)
    assert [(n.op, n.sources, n.layouts, n.is_stored) for n in order] == before
    assert set(replacements) == set(order)  # all readers of the sum are replaced
    for node, replacement in replacements.items():
        assert (node.shape, node.dtype, node.is_stored) == (replacement.shape, replacement.dtype, replacement.is_stored)
        assert node is total.storage.node or node.op is replacement.op
    assert result.item() == 2 * np.sqrt(LARGE + 1.0)


def test_rewriting_keeps_the_stored_flag() -> None:
    total = tx.ones(LARGE).realize().sum()
    root = (total + 1.0) * 2.0
    (source,) = [s for s in root.storage.node.sources if type(s) is Node]
    source.is_stored = True
    replacements = rewrite_graph(collect_pending([root.storage.node]))
    assert replacements[source].is_stored and not replacements[root.storage.node].is_stored


def test_rewriting_a_long_chain_does_not_recurse() -> None:
    x = tx.ones(LARGE).realize().storage.node
    layout = Layout.contiguous((LARGE,))
    node, order = x, []
    for _ in range(5000):
        node = Node.of(OPS["negative"], (LARGE,), x.dtype, (node,), (layout,))
        order.append(node)
    end = Node.of(REDUCTIONS["sum"], (), x.dtype, (node,), (layout,))
    assert list(rewrite_graph([*order, end])) == [end]
    short = Node.of(REDUCTIONS["sum"], (LARGE // 2,), x.dtype, (node,), (layout.reshape((LARGE // 2, 2)),))
    assert list(rewrite_graph([*order, short])) == [short]


def test_plans_do_not_keep_nodes_alive() -> None:
    def run_plans() -> list[weakref.ref[Node]]:
        q, x = tx.random.rand(3, 1111, 8).realize(), tx.random.rand(LARGE, 2).realize()
        tx.scaled_dot_product_attention(q, q, q, is_causal=True).realize()
        tx.realize(x.sum(), x.sum(axis=0), x.sum(axis=1))
        return [weakref.ref(q.storage.node), weakref.ref(x.storage.node)]

    node_refs = run_plans()
    gc.collect()
    assert [ref() for ref in node_refs] == [None, None]


def _classifier(shared: bool, classes: int) -> tuple[list[Node], Node]:
    """Return the pending nodes and the root of a graph that resembles attention: softmax over classes, times their vectors."""
    x, w, v = (tx.ones(shape, dtype=tx.float32).realize() for shape in ((1024, 64), (64, 256), (classes, 256)))
    hidden = tx.relu(x @ w)
    result = tx.softmax(hidden @ v.T) @ v
    roots = [result.storage.node, *([(hidden * 2.0).storage.node] if shared else [])]
    return collect_pending(roots), result.storage.node


def test_small_weights_are_not_split_into_blocks() -> None:
    order, root = _classifier(False, 10)  # 40 KB, though the products are 10 MB
    assert not isinstance(rewrite_graph(order).get(root, root).op, BlockwiseOp)


def test_rows_with_other_readers_are_not_recomputed() -> None:
    for shared in (False, True):
        order, root = _classifier(shared, 1100)
        blocks = rewrite_graph(order)[root]
        assert isinstance(blocks.op, BlockwiseOp)
        hidden = next(n for n in order if n.op is OPS["relu"])
        assert (hidden in blocks.sources) is shared


def test_blocks_of_attention_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (tx.asarray(np.random.default_rng(seed).normal(size=(2, 700, 40)).astype(np.float32)) for seed in range(3))
    for causal in (False, True):
        results = []
        for limit in (1 << 16, 1 << 40):
            monkeypatch.setattr(split_attention, "BLOCK_BYTES", limit)
            evict_plans()
            results.append(tx.scaled_dot_product_attention(q, k, v, is_causal=causal).to_numpy().tobytes())
        evict_plans()
        assert results[0] == results[1]
