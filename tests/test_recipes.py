"""Test recipes: equal operations share one, it is part of the key of plans, and computed nodes drop it."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.graph import node as node_module
from tenxor.graph.node import Recipe
from tenxor.layout import Table
from tenxor.layout import layout_key as form_module
from tenxor.ops import OPS
from tenxor.runtime.realize import _plans

pytestmark = pytest.mark.usefixtures("plain")  # without the fast path, so that plans compute small tensors, too


def recipe(t: tx.Tensor) -> Recipe:
    return t.storage.node.recipe


def test_equal_operations_on_equal_layouts_share_a_recipe() -> None:
    a, b = tx.ones((3, 4)).realize(), tx.zeros((3, 4)).realize()
    assert recipe(a + b) is recipe(b + a) is recipe(a + a)
    assert recipe(a[0] * 2.0) is recipe(b[2] * 7.5)
    assert recipe(a.sum(axis=1)) is recipe(b.sum(axis=1))
    assert recipe(a + (b + a)) is recipe(a + b)  # whether a source is pending is no part of it
    t = tx.zeros((5, 3, 4)).realize()
    assert recipe(t[1] + a) is recipe(t[4] + a)


@pytest.mark.parametrize(
    "other",
    [
        lambda a: a - a,
        lambda a: a[:, :2] + a[:, :2],
        lambda a: a[:, ::-1] + a,
        lambda a: a.T + a.T[:, ::-1],
        lambda a: a.astype(tx.float32) + a.astype(tx.float32),
        lambda a: a + 1.0,
        lambda a: a + a[0],
    ],
)
def test_different_operations_or_layouts_have_different_recipes(other: Callable[[tx.Tensor], tx.Tensor]) -> None:
    a = tx.arange(12.0).reshape(3, 4).realize()
    assert recipe(other(a)) is recipe(other(a.copy().realize()))
    assert recipe(other(a)) is not recipe(a + a)


def test_sum_of_transposed_operands_shares_the_recipe_of_the_plain_sum() -> None:
    a = tx.arange(12.0).reshape(3, 4).realize()
    total = a.T + a.T
    assert recipe(total) is recipe(a + a)
    assert (total.strides, (a.T + a.T).strides) == ((1, 4), (1, 4))
    assert (a.T + a.T).tolist() == (a + a).T.tolist()


def test_plans_depend_on_which_operands_are_equal() -> None:
    """The recipe is one, but plans differ by which of the three operands are equal or share memory."""
    m = tx.asarray([[True, False, True], [False, False, True], [True, True, False]]).realize()
    n = np.asarray(m)
    for rows in itertools.product(range(3), repeat=3):
        x, y, z = rows
        for copied in (False, True):
            third = m[z].copy().realize() if copied else m[z]
            result = tx.where(m[x], m[y], third)
            assert result.tolist() == np.where(n[x], n[y], n[z]).tolist(), rows


def test_scalar_operands_keep_their_positions_among_equal_operands() -> None:
    a, b = tx.asarray([1.0, 2.0]).realize(), tx.asarray([10.0, 20.0]).realize()
    where = OPS["where"]
    c = tx.asarray([True, False]).realize()
    for _ in range(2):
        assert a._compute(where, c, a, 5.0).tolist() == [1.0, 5.0]
        assert a._compute(where, c, 5.0, a).tolist() == [5.0, 2.0]
        assert a._compute(where, c, b, a).tolist() == [10.0, 2.0]
        assert a._compute(where, c, a, a).tolist() == [1.0, 2.0]


def test_python_scalar_gives_the_same_dtype_in_repeated_calls() -> None:
    """The cache key contains the type of the scalar, and nothing that depends on its value."""
    small, wide = tx.asarray([1, 2], dtype=tx.uint8).realize(), tx.asarray([1.0, 2.0], dtype=tx.float32).realize()
    for _ in range(2):
        assert (small + 5).dtype is tx.uint8
        assert (small + 5.0).dtype is tx.float64
        assert (small + True).dtype is tx.uint8
        assert (wide + 5).dtype is tx.float32
        assert (wide + 1j).dtype is tx.complex64
        for bad in (-1, 300):
            with pytest.raises(OverflowError):
                small + bad
        assert (small < 300).tolist() == [True, True]
        assert (small > -1).tolist() == [True, True]
        with pytest.raises(TypeError):
            small**-1


def test_reshaped_scalar_tensor_keeps_its_value() -> None:
    for _ in range(2):
        value = tx.asarray([3.0, 4.0])[1]
        assert (value + value).shape == ()
        assert (value[...].expand((2,)) + value).tolist() == [8.0, 8.0]
        assert (value.reshape(1, 1) * value).tolist() == [[16.0]]


def test_equal_and_distinct_operands_need_one_plan_each() -> None:
    m = tx.ones((50, 7)).realize()
    (m[0] * m[1]).realize(), (m[0] * m[0]).realize()
    before = len(_plans)
    for k in range(49):
        (m[k] * m[k + 1]).realize()
        (m[k] * m[k]).realize()
    assert len(_plans) == before


def test_large_offset_tables_are_freed_after_use() -> None:
    rng = np.random.default_rng(0)
    t = tx.ones(100_000).realize()
    recipes, forms = len(node_module._recipes), len(form_module._layout_keys)
    for _ in range(5):
        gathered = t.oindex[rng.integers(0, 100_000, 60_000)]
        assert (gathered + 1).sum().item() == 120_000
    del gathered
    gc.collect()
    assert not [t for t in gc.get_objects() if isinstance(t, Table) and len(t) == 60_000]
    assert len(node_module._recipes) - recipes <= 4
    assert len(form_module._layout_keys) - forms <= 4


def test_caches_of_layout_keys_and_recipes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for cache, most in ((form_module._layout_keys, 30), (node_module._recipes, 40)):
        cache.clear()
        monkeypatch.setattr(cache, "max_entries", most)
    x = tx.arange(300.0).realize()
    for k in range(1, 200):
        assert (x[:k] + x[k]).sum().item() == k * (k - 1) / 2 + k * k
        assert len(form_module._layout_keys) <= 30
        assert len(node_module._recipes) <= 40


def test_computed_node_drops_its_recipe() -> None:
    a, b = tx.ones(3).realize(), tx.ones(3).realize()
    product = a * b
    node = product.storage.node
    assert node.op is OPS["multiply"] and len(node.layouts) == 2
    tx.realize(product)
    assert node.sources == () and node.layouts == () and product.tolist() == [1, 1, 1]
