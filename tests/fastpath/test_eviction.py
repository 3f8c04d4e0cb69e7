"""Full tables: evicted entries are learnt again, and no lookup gives a wrong entry."""

from __future__ import annotations

import gc
import itertools
import random
import sys
from collections import Counter

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath import size_generic
from tenxor.graph import spec
from tenxor.graph.node import _recipes
from tenxor.layout.layout_key import _layout_keys
from tenxor.runtime.realize import evict_plans

from .programs import Program


@pytest.mark.parametrize("most", [1, 7, 40])
def test_random_programs_match_python_at_any_limit_of_cached_templates(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "MAX_TEMPLATES", most)
    for seed in range(5000, 5030):
        short = [Program(seed, 0).run() for _ in range(2)]
        with fastpath.disabled():
            assert short == [Program(seed, 0).run()] * 2


def test_more_views_than_table_rows_are_correct() -> None:
    """There are thousands of slices, more than the table of views has rows."""
    values = np.arange(48.0 * 40).reshape(48, 40)
    x, rng = tx.asarray(values).realize(), random.Random(3)
    ends = lambda n: slice(rng.randint(-n, n), rng.randint(-n, n), rng.choice([1, 2, 3, -1, -2]))
    keys = [(ends(48), ends(40)) for _ in range(4000)]
    for _ in range(2):
        for key in keys:
            found, wanted = x[key], values[key]
            assert found.shape == wanted.shape
            if found.size:
                assert (found.offset, found[-1, -1].item()) == (int(wanted[0, 0]), wanted[-1, -1])
        rng.shuffle(keys)


def test_short_lived_shapes_compute_correctly() -> None:
    """Each of many shapes is forgotten with its tensors."""
    for n in range(2000):
        shape = (n % 71 + 1, n % 7 + 1)
        x = tx.asarray(np.full(shape, n))
        y = (x + 1)[1:, ::-1]
        y += 1
        assert (y.shape, y.sum().item()) == ((shape[0] - 1, shape[1]), (n + 2) * (shape[0] - 1) * shape[1])
        x[0] = y[0] if shape[0] > 1 else 0
        assert x[0, 0].item() == (n + 2 if shape[0] > 1 else 0)


def sized(n: int) -> None:
    x = X[:n]
    ((x * 2 + X[1 : n + 1]).sum() + x.mean() + (x @ X[1 : n + 1])).realize()
    x[: n // 2] = 1.0


X = tx.asarray(np.linspace(0, 1, 9000)).realize()


@pytest.fixture
def with_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make rules by calls of 80 sizes."""
    monkeypatch.setattr(size_generic, "_trace_count", 0)
    for n in range(40, 120):
        sized(n)


@pytest.mark.usefixtures("on", "with_rules")
def test_cache_entries_of_other_sizes_are_untracked_by_the_collector() -> None:
    def seen() -> Counter[str]:
        gc.collect()
        return Counter([type(x).__name__ for x in gc.get_objects()])

    before = seen()
    for n in range(120, 1620):
        sized(n)
    more = seen() - before
    assert more.total() < 4500, more.most_common(9)  # a size has dozens of objects; one is of data, which refers to itself


@pytest.mark.usefixtures("on", "with_rules")
def test_untracked_cache_entries_are_freed_when_caches_are_cleared() -> None:
    left = []
    for many in (300, 300, 300, 300, 1200, 1200, 1200):
        for n in range(40, 40 + many):
            sized(n)
        evict_plans()  # plans, and recipes with their frames
        spec.clear_templates()
        _layout_keys.clear()
        _recipes.clear()
        gc.collect()
        left.append(sys.getallocatedblocks())
    more = [after - before for before, after in itertools.pairwise(left)]  # in each round what is learnt anew leaves names
    few, many = max(more[1:3]), min(more[4:])  # what is left of tests before may go meanwhile, and make it less
    assert many - max(few, 0) < 300, left
