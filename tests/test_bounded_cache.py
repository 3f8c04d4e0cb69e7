"""Test the bounded cache: entries are found again, and their number and bytes stay within bounds."""

from __future__ import annotations

import random
import sys

import tenxor as tx
from tenxor._utils.bounded_cache import MAX_ENTRY_BYTES, BoundedCache
from tenxor.graph import spec
from tenxor.layout import layout_key

realize_module, node_module = sys.modules["tenxor.runtime.realize"], sys.modules["tenxor.graph.node"]


def test_get_returns_the_value_kept_last_for_a_key() -> None:
    cache: BoundedCache[str] = BoundedCache(3, 100)
    get = cache.get
    cache.put("a", "first", 40)
    cache.put("b", "other")
    cache.put("a", "second", 50)
    assert (get("a"), get("b"), get("c"), cache.nbytes) == ("second", "other", None, 50)
    cache.clear()
    cache.put("c", "after")
    assert (get("a"), get("c")) == (None, "after")  # what was asked for once still asks the same


def test_cache_is_cleared_beyond_its_number_of_entries() -> None:
    cache: BoundedCache[int] = BoundedCache(3)
    for k in range(3):
        cache.put(k, k)
    cache.put(1, 10)  # in the place of another: no more than there were
    assert cache == {0: 0, 1: 10, 2: 2}
    cache.put(3, 3)
    assert cache == {3: 3}


def test_cache_is_cleared_beyond_its_number_of_bytes() -> None:
    cache: BoundedCache[int] = BoundedCache(100, 1000)
    for k in range(10):
        cache.put(k, k, 100)
    assert len(cache) == 10 and cache.nbytes == 1000
    cache.put(10, 10, 1)
    assert cache == {10: 10} and cache.nbytes == 1


def test_replaced_cache_entry_counts_once() -> None:
    cache: BoundedCache[int] = BoundedCache(100, 1000)
    cache.put("beside", 0, 300)
    for k in range(50):
        cache.put("again", k, 600)
    assert cache == {"beside": 0, "again": 49} and cache.nbytes == 900
    cache.put("again", 50)
    assert cache.nbytes == 300


def test_clear_resets_the_byte_count() -> None:
    cache: BoundedCache[int] = BoundedCache(100, 1000)
    for k in range(50):
        cache.clear()
        cache.put("one", k, 600)
        assert cache.nbytes == 600
        cache.put("other", k, 400)
        assert len(cache) == 2


def test_too_large_entry_is_not_kept_and_evicts_nothing() -> None:
    cache: BoundedCache[str] = BoundedCache(100, 10 * MAX_ENTRY_BYTES)
    cache.put("small", "kept", 1)
    cache.put("large", "kept", MAX_ENTRY_BYTES)
    cache.put("larger", "not kept", MAX_ENTRY_BYTES + 1)
    assert sorted(map(str, cache)) == ["large", "small"]
    cache.put("small", "not kept either", MAX_ENTRY_BYTES + 1)
    assert cache == {"large": "kept"} and cache.nbytes == MAX_ENTRY_BYTES


def test_random_operations_on_a_bounded_cache_agree_with_a_simple_model() -> None:
    rng = random.Random(0)
    cache: BoundedCache[int] = BoundedCache(12, 500)
    model: dict[object, tuple[int, int]] = {}
    for step in range(5000):
        if rng.random() < 0.01:
            cache.clear()
            model = {}
        key, nbytes = rng.randrange(20), rng.choice((0, 0, 7, 60, MAX_ENTRY_BYTES + 7))
        cache.put(key, step, nbytes)
        model.pop(key, None)
        if nbytes <= MAX_ENTRY_BYTES:
            if len(model) == 12 or sum(size for _, size in model.values()) + nbytes > 500:
                model = {}
            model[key] = step, nbytes
        assert cache == {k: value for k, (value, _) in model.items()}
        assert cache.nbytes == sum(size for _, size in model.values())


def test_global_caches_are_within_their_bounds() -> None:
    for cache in (layout_key._layout_keys, node_module._recipes, realize_module._plans):
        assert isinstance(cache, BoundedCache) and len(cache) <= cache.max_entries
    assert 0 < spec._template_count <= spec.MAX_TEMPLATES


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
