"""The fast path finds the same batches of a `vmap` as Python, for any function."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor._utils import upcalls
from tenxor.api import vmap
from tenxor.autodiff import batching
from tenxor.autodiff.node_view import NodeView
from tenxor.fastpath import disabled
from tenxor.graph.node import Node

pytestmark = pytest.mark.usefixtures("on")


class Function:
    """A random function of two batched arguments, which also captures tensors."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.forms = [(rng.randrange(9), rng.random(), rng.random()) for _ in range(rng.randrange(1, 9))]
        self.captured = tx.asarray(np.arange(12.0).reshape(3, 4))
        self.tracked = tx.asarray(np.arange(4.0)).requires_grad_()
        self.nested = rng.random() < 0.2

    def __call__(self, x: Any, y: Any) -> Any:
        made = [x, y]
        for form, j, k in self.forms:
            a, b = made[int(j * len(made))], made[int(k * len(made))]
            match form:
                case 0:
                    made.append(a + b)
                case 1:
                    made.append(a * b - 1.5)
                case 2:
                    made.append(tx.exp(a * 0.1))
                case 3:
                    made.append(a[::-1] + self.captured)
                case 4:
                    made.append(a @ self.captured.T @ b)
                case 5:
                    made.append(a.sum(axis=0) * b + self.tracked)
                case 6:
                    z = a * 1.0
                    z[1:, 2] = b[1:, 0]
                    made.append(z)
                case 7:
                    made.append(tx.where(b > 1.5, a, self.captured * 2.0))
                case 8:
                    made.append(tx.grad(lambda a: (a * a * self.captured).sum())(a) if k > 0.5 else a.detach() * b)
        if self.nested:
            return made[-1], tx.vmap(lambda row: row * 2.0 + made[-1][0])(made[-2])
        return made[-1], made[-2], x


def test_vmap_matches_single_calls_and_python_batching(monkeypatch: pytest.MonkeyPatch) -> None:
    own_of, keys_of = defaultdict(set), defaultdict(set)
    asked = []
    batched = batching.compute_batches

    def compared(roots: Sequence[Node], batches: Mapping[Node, Node], size: int, behind: bool = False) -> list[NodeView | None]:
        fast_path = upcalls.installed
        if fast_path is None:
            return batched(roots, batches, size, behind)
        order, follows = batching._order_nodes(roots, batches)
        more: list[Any] = []
        words = fast_path.tape_replay.encode_trace(list(roots), list(batches), more, False)
        assert (words is not None) == follows
        if words is not None:
            outline = batching._BatchSignature(order, roots, batches, size, behind)
            assert [id(x) for x in more] == [id(x) for x in outline.inputs[len(batches) :]]
            own_of[size, words].add(outline.key)
            keys_of[outline.key].add((size, words))
        asked.append(follows)
        return batched(roots, batches, size, behind)

    monkeypatch.setattr(vmap, "compute_batches", compared)
    x, y = (np.random.default_rng(k).normal(size=(5, 3, 4)) for k in range(2))
    for seed in range(120):
        function = Function(seed)
        found = tx.vmap(function)(tx.asarray(x), tx.asarray(y))
        with disabled():
            each = [function(tx.asarray(a), tx.asarray(b)) for a, b in zip(x, y, strict=True)]
        for k, its in enumerate(found):
            assert np.allclose(np.asarray(its.detach()), np.stack([np.asarray(one[k].detach()) for one in each]), rtol=1e-12, atol=1e-12)
    assert len(asked) > 120 and sum(asked) > 60
    assert len(own_of) > 50
    assert all([len(those) == 1 for those in (*own_of.values(), *keys_of.values())])
