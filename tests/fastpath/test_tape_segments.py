"""Machine code finds the same tape nodes as Python, for any graph, with equal cache keys."""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor._utils import upcalls
from tenxor.autodiff.node_view import full_view
from tenxor.autodiff.reverse import TapeSlice, collect_tape, reachable_from
from tenxor.autodiff.segment_signature import SegmentSignature, TapeGraph
from tenxor.autodiff.tape import FREED_SOURCES, get_tape_node
from tenxor.errors import DerivativeError
from tenxor.fastpath import disabled
from tenxor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on")


def graph(rng: random.Random) -> list[Tensor]:
    """Return some results of three leaves, some computed, some written in place."""
    made: list[Any] = [tx.asarray(np.ones((3, 4)) * k).requires_grad_() for k in (1.0, 2.0, 3.0)]
    made.append(tx.asarray(np.ones((3, 4))))
    for _ in range(rng.randrange(1, 14)):
        x, y = rng.choice(made), rng.choice(made)
        form = rng.randrange(9)
        if form == 0:
            made.append(x + y)
        elif form == 1:
            made.append(x * y)
        elif form == 2:
            made.append(tx.exp(x))
        elif form == 3:
            made.append(x[::-1] - y[:, ::-1] * 2.5)
        elif form == 4:
            made.append(x @ y.T @ y)
        elif form == 5:
            made.append(x.sum(axis=0) + y)
        elif form == 6:
            z = x * 1.0
            z[1:, rng.randrange(4)] = y[1:, 0]
            made.append(z)
        elif form == 7:
            made.append(tx.where(y.detach() > 1.5, x, y))
        else:
            made[-1].realize()
    return [rng.choice(made[4:] or made[:3]) for _ in range(rng.randrange(1, 3))]


def by_python_and_machine_code(rng: random.Random) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the tape nodes and their outline, as Python and as machine code find them."""
    results = graph(rng)
    nodes = [t.storage.node for t in results]
    with disabled():
        whole = collect_tape(nodes).order
    first = rng.choice([0, 0, rng.choice(whole).serial if whole else 0])
    asked = frozenset(rng.sample(whole, min(len(whole), rng.randrange(3))))
    given = [(past, full_view(1, t.storage.node.shape, t.dtype)) for t in results if (past := get_tape_node(t.storage.node))]
    found = []
    for way in (disabled(), nullcontext()):
        with way:
            known = collect_tape(nodes, first)
            found.append((known, outlined(known, given, asked)))
    return found[0], found[1]


def outlined(known: TapeSlice, given: list[Any], asked: frozenset[Any]) -> SegmentSignature:
    depends = reachable_from(known.order, asked)
    stretch = [past for past in reversed(known.order) if past in depends][:9]
    return SegmentSignature(
        "back", stretch, [(past, g) for past, g in given if past in stretch], TapeGraph(known.order, known.result_nodes, depends), asked
    )


def test_fast_path_collects_the_tape_slices_and_segment_keys_of_python() -> None:
    numbers: dict[object, set[object]] = defaultdict(set)
    keys: dict[object, set[object]] = defaultdict(set)
    for seed in range(400):
        (own, own_outline), (short, outline) = by_python_and_machine_code(random.Random(seed))
        assert short.order == own.order and short.result_nodes == own.result_nodes and short.has_older is own.has_older
        assert [id(x) for x in outline.inputs] == [id(x) for x in own_outline.inputs]
        assert outline.outer_nodes == own_outline.outer_nodes
        assert len(outline.segment) == 0 or isinstance(outline.key[-1], bytes)
        numbers[own_outline.key].add(outline.key)
        keys[outline.key].add(own_outline.key)
    assert len(numbers) > 100
    assert all([len(those) == 1 for those in keys.values()]), "one key for what is not alike"
    assert sum([len(those) > 1 for those in numbers.values()]) < len(numbers) / 4, "what is alike should be found again"


def test_second_backward_without_retain_graph_raises() -> None:
    x = tx.asarray([1.0, 2.0]).requires_grad_()
    y = (x * x).sum()
    y.backward()
    past = get_tape_node(y.storage.node)
    assert past is not None and past.sources is FREED_SOURCES
    with pytest.raises(DerivativeError, match="retain_graph"):
        y.backward()


def test_long_tapes_are_left_to_python() -> None:
    x = tx.asarray([1.0, 2.0]).requires_grad_()
    y = x
    for _ in range(2500):
        y = y + 1.0
    node = y.storage.node
    assert upcalls.installed is not None and upcalls.installed.tape_replay.collect_tape([node], 0) is None
    assert len(collect_tape([node]).order) == 2501
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 1.0]
