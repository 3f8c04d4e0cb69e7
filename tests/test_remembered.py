"""Bounded caches: entries are found again, and bounds hold after replacing and clearing."""

from __future__ import annotations

import random
import sys

import tenxor as tx
from tenxor import spec
from tenxor.layout import form
from tenxor.remembered import LARGEST, Remembered

realize_module, node_module = sys.modules["tenxor.realize"], sys.modules["tenxor.node"]


def test_kept_entry_is_found() -> None:
    found: Remembered[str] = Remembered(3, 100)
    get = found.get
    found.keep("a", "first", 40)
    found.keep("b", "other")
    found.keep("a", "second", 50)
    assert (get("a"), get("b"), get("c"), found.nbytes) == ("second", "other", None, 50)
    found.clear()
    found.keep("c", "after")
    assert (get("a"), get("c")) == (None, "after")  # what was asked for once still asks the same


def test_number_of_entries_is_bounded() -> None:
    found: Remembered[int] = Remembered(3)
    for k in range(3):
        found.keep(k, k)
    found.keep(1, 10)  # in the place of another: no more than there were
    assert found == {0: 0, 1: 10, 2: 2}
    found.keep(3, 3)
    assert found == {3: 3}


def test_total_bytes_are_bounded() -> None:
    found: Remembered[int] = Remembered(100, 1000)
    for k in range(10):
        found.keep(k, k, 100)
    assert len(found) == 10 and found.nbytes == 1000
    found.keep(10, 10, 1)
    assert found == {10: 10} and found.nbytes == 1


def test_replaced_entry_counts_once() -> None:
    found: Remembered[int] = Remembered(100, 1000)
    found.keep("beside", 0, 300)
    for k in range(50):
        found.keep("again", k, 600)
    assert found == {"beside": 0, "again": 49} and found.nbytes == 900
    found.keep("again", 50)
    assert found.nbytes == 300


def test_cleared_entries_do_not_count() -> None:
    found: Remembered[int] = Remembered(100, 1000)
    for k in range(50):
        found.clear()
        found.keep("one", k, 600)
        assert found.nbytes == 600
        found.keep("other", k, 400)
        assert len(found) == 2


def test_too_large_entry_is_not_kept_and_evicts_nothing() -> None:
    found: Remembered[str] = Remembered(100, 10 * LARGEST)
    found.keep("small", "kept", 1)
    found.keep("large", "kept", LARGEST)
    found.keep("larger", "not kept", LARGEST + 1)
    assert sorted(map(str, found)) == ["large", "small"]
    found.keep("small", "not kept either", LARGEST + 1)
    assert found == {"large": "kept"} and found.nbytes == LARGEST


def test_bounded_cache_matches_a_simple_model() -> None:
    rng = random.Random(0)
    found: Remembered[int] = Remembered(12, 500)
    kept: dict[object, tuple[int, int]] = {}
    for step in range(5000):
        if rng.random() < 0.01:
            found.clear()
            kept = {}
        key, nbytes = rng.randrange(20), rng.choice((0, 0, 7, 60, LARGEST + 7))
        found.keep(key, step, nbytes)
        kept.pop(key, None)
        if nbytes <= LARGEST:
            if len(kept) == 12 or sum(size for _, size in kept.values()) + nbytes > 500:
                kept = {}
            kept[key] = step, nbytes
        assert found == {k: value for k, (value, _) in kept.items()}
        assert found.nbytes == sum(size for _, size in kept.values())


def test_all_caches_are_bounded() -> None:
    for remembered in (form._forms, node_module._recipes, realize_module._plans):
        assert isinstance(remembered, Remembered) and len(remembered) <= remembered.most
    assert 0 < spec._count <= spec.MAX_MADE


def test_plan_made_again_for_other_threads_counts_once() -> None:
    x, before, counts = tx.arange(1000.0).realize(), tx.num_threads(), []
    try:
        for threads in (1, 2, 1, 2):
            tx.set_num_threads(threads)
            assert (x.oindex[[3, 1, 4, 15, 9, 2, 6]] * 3).tolist() == [9.0, 3.0, 12.0, 45.0, 27.0, 6.0, 18.0]
            counts.append(realize_module._plans.nbytes)
    finally:
        tx.set_num_threads(before)
    assert counts[0] > 0 and counts == counts[:1] * 4
