"""Rules are applied to whatever reads what they changed, and change nothing else."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tenxor as tx
from tenxor.kernel.fuse import pending
from tenxor.layout import Layout
from tenxor.node import Node
from tenxor.ops import OPS
from tenxor.ops.reductions import REDUCTIONS
from tenxor.realize import forget
from tenxor.rewrite import attention
from tenxor.rewrite.blocks import Blocks
from tenxor.rewrite.passes import rewritten

LARGE = 1 << 18


def test_small_graphs_stay_as_they_are() -> None:
    x = tx.ones((60, 70)).realize()
    for t in (x + x, x.sum(), tx.softmax(x), x @ x.mT, x.var(axis=0), tx.scaled_dot_product_attention(x, x, x)):
        assert rewritten(pending([t.storage.node])) == {}


def test_the_nodes_themselves_are_not_touched() -> None:
    x = tx.ones(LARGE).realize()
    total = x.sum()
    found = tx.sqrt(total + 1.0) * 2.0
    order = pending([found.storage.node])
    before = [(n.op, n.sources, n.layouts, n.stored) for n in order]
    instead = rewritten(order)
    assert [(n.op, n.sources, n.layouts, n.stored) for n in order] == before
    assert set(instead) == set(order)  # all that reads the sum reads another now
    for node, other in instead.items():
        assert (node.shape, node.dtype, node.stored) == (other.shape, other.dtype, other.stored)
        assert node is total.storage.node or node.op is other.op
    assert found.item() == 2 * np.sqrt(LARGE + 1.0)


def test_what_was_to_be_stored_still_is() -> None:
    total = tx.ones(LARGE).realize().sum()
    root = (total + 1.0) * 2.0
    (source,) = [s for s in root.storage.node.sources if type(s) is Node]
    source.stored = True
    instead = rewritten(pending([root.storage.node]))
    assert instead[source].stored and not instead[root.storage.node].stored


def test_long_chains_are_no_deep_recursion() -> None:
    x = tx.ones(LARGE).realize().storage.node
    whole = Layout.contiguous((LARGE,))
    node, order = x, []
    for _ in range(5000):
        node = Node.of(OPS["negative"], (LARGE,), x.dtype, (node,), (whole,))
        order.append(node)
    end = Node.of(REDUCTIONS["sum"], (), x.dtype, (node,), (whole,))
    assert list(rewritten([*order, end])) == [end]
    short = Node.of(REDUCTIONS["sum"], (LARGE // 2,), x.dtype, (node,), (whole.reshape((LARGE // 2, 2)),))
    assert list(rewritten([*order, short])) == [short]


def test_a_plan_keeps_nothing_that_it_was_made_for() -> None:
    def made() -> list[weakref.ref[Node]]:
        q, x = tx.random.rand(3, 1111, 8).realize(), tx.random.rand(LARGE, 2).realize()
        tx.scaled_dot_product_attention(q, q, q, is_causal=True).realize()
        tx.realize(x.sum(), x.sum(axis=0), x.sum(axis=1))
        return [weakref.ref(q.storage.node), weakref.ref(x.storage.node)]

    kept = made()
    gc.collect()
    assert [ref() for ref in kept] == [None, None]


def _classifier(shared: bool, classes: int) -> tuple[list[Node], Node]:
    """All that waits for what looks like attention: weights over classes made of hidden rows, times the classes' vectors."""
    x, w, v = (tx.ones(shape, dtype=tx.float32).realize() for shape in ((1024, 64), (64, 256), (classes, 256)))
    hidden = tx.relu(x @ w)
    found = tx.softmax(hidden @ v.T) @ v
    roots = [found.storage.node, *([(hidden * 2.0).storage.node] if shared else [])]
    return pending(roots), found.storage.node


def test_few_weights_are_not_made_block_by_block() -> None:
    order, root = _classifier(False, 10)  # 40 KB, though the products are 10 MB
    assert not isinstance(rewritten(order).get(root, root).op, Blocks)


def test_rows_that_others_read_too_are_not_made_again() -> None:
    for shared in (False, True):
        order, root = _classifier(shared, 1100)
        blocks = rewritten(order)[root]
        assert isinstance(blocks.op, Blocks)
        hidden = next(n for n in order if n.op is OPS["relu"])
        assert (hidden in blocks.sources) is shared


def test_bits_are_those_without_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (tx.asarray(np.random.default_rng(seed).normal(size=(2, 700, 40)).astype(np.float32)) for seed in range(3))
    for causal in (False, True):
        found = []
        for limit in (1 << 16, 1 << 40):
            monkeypatch.setattr(attention, "BLOCK_BYTES", limit)
            forget()
            found.append(tx.scaled_dot_product_attention(q, k, v, is_causal=causal).to_numpy().tobytes())
        forget()
        assert found[0] == found[1]
