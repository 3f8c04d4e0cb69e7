"""Test the bounded cache: entries are found again, and their number and bytes stay within bounds."""

from __future__ import annotations

import random
import sys

import tenxor as tx
from tenxor import spec
from tenxor.layout import form
from tenxor.remembered import LARGEST, Remembered

realize_module, node_module = sys.modules["tenxor.realize"], sys.modules["tenxor.node"]


def test_get_returns_the_value_kept_last_for_a_key() -> None:
    cache: Remembered[str] = Remembered(3, 100)
    get = cache.get
    cache.keep("a", "first", 40)
    cache.keep("b", "other")
    cache.keep("a", "second", 50)
    assert (get("a"), get("b"), get("c"), cache.nbytes) == ("second", "other", None, 50)
    cache.clear()
    cache.keep("c", "after")
    assert (get("a"), get("c")) == (None, "after")  # what was asked for once still asks the same


def test_cache_is_cleared_beyond_its_number_of_entries() -> None:
    cache: Remembered[int] = Remembered(3)
    for k in range(3):
        cache.keep(k, k)
    cache.keep(1, 10)  # in the place of another: no more than there were
    assert cache == {0: 0, 1: 10, 2: 2}
    cache.keep(3, 3)
    assert cache == {3: 3}


def test_cache_is_cleared_beyond_its_number_of_bytes() -> None:
    cache: Remembered[int] = Remembered(100, 1000)
    for k in range(10):
        cache.keep(k, k, 100)
    assert len(cache) == 10 and cache.nbytes == 1000
    cache.keep(10, 10, 1)
    assert cache == {10: 10} and cache.nbytes == 1


def test_replaced_entry_counts_once() -> None:
    cache: Remembered[int] = Remembered(100, 1000)
    cache.keep("beside", 0, 300)
    for k in range(50):
        cache.keep("again", k, 600)
    assert cache == {"beside": 0, "again": 49} and cache.nbytes == 900
    cache.keep("again", 50)
    assert cache.nbytes == 300


def test_clear_resets_the_byte_count() -> None:
    cache: Remembered[int] = Remembered(100, 1000)
    for k in range(50):
        cache.clear()
        cache.keep("one", k, 600)
        assert cache.nbytes == 600
        cache.keep("other", k, 400)
        assert len(cache) == 2


def test_too_large_entry_is_not_kept_and_evicts_nothing() -> None:
    cache: Remembered[str] = Remembered(100, 10 * LARGEST)
    cache.keep("small", "kept", 1)
    cache.keep("large", "kept", LARGEST)
    cache.keep("larger", "not kept", LARGEST + 1)
    assert sorted(map(str, cache)) == ["large", "small"]
    cache.keep("small", "not kept either", LARGEST + 1)
    assert cache == {"large": "kept"} and cache.nbytes == LARGEST


def test_random_operations_agree_with_a_simple_model() -> None:
    rng = random.Random(0)
    cache: Remembered[int] = Remembered(12, 500)
    model: dict[object, tuple[int, int]] = {}
    for step in range(5000):
        if rng.random() < 0.01:
            cache.clear()
            model = {}
        key, nbytes = rng.randrange(20), rng.choice((0, 0, 7, 60, LARGEST + 7))
        cache.keep(key, step, nbytes)
        model.pop(key, None)
        if nbytes <= LARGEST:
            if len(model) == 12 or sum(size for _, size in model.values()) + nbytes > 500:
                model = {}
            model[key] = step, nbytes
        assert cache == {k: value for k, (value, _) in model.items()}
        assert cache.nbytes == sum(size for _, size in model.values())


def test_global_caches_are_within_their_bounds() -> None:
    for cache in (form._forms, node_module._recipes, realize_module._plans):
        assert isinstance(cache, Remembered) and len(cache) <= cache.most
    assert 0 < spec._count <= spec.MAX_MADE


def test_plan_remade_for_another_thread_count_counts_once() -> None:
    x, before, counts = tx.arange(1000.0).realize(), tx.num_threads(), []
    try:
        for threads in (1, 2, 1, 2):
            tx.set_num_threads(threads)
            assert (x.oindex[[3, 1, 4, 15, 9, 2, 6]] * 3).tolist() == [9.0, 3.0, 12.0, 45.0, 27.0, 6.0, 18.0]
            counts.append(realize_module._plans.nbytes)
    finally:
        tx.set_num_threads(before)
    assert counts[0] > 0 and counts == counts[:1] * 4
