"""Machine code sorts and searches in place with NumPy's results, for NaN, signed zeros, and non-contiguous elements."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath

pytestmark = pytest.mark.usefixtures("on")
Array = np.ndarray[Any, Any]
REAL = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
SHAPES = ((1,), (7,), (300,), (2, 1), (5, 12), (3, 70), (2, 3, 4), (1, 1200), (200, 9), (0, 3))

VIEWS = (lambda x: x[::2, ::3], lambda x: x[::-1, 1:], lambda x: x.T, lambda x: x[1], lambda x: x[:1].expand((4, 9)))


def drawn(shape: tuple[int, ...], dtype: str, seed: int, *, odd: bool = False) -> Array:
    """Return numbers with many equal ones; with `odd`, also signed zeros, infinities and NaN."""
    draw = np.random.default_rng(seed)
    found = draw.integers(0 if dtype.startswith("u") else -50, 60, shape).astype(dtype)
    if odd and np.dtype(dtype).kind in "fc":
        strange = draw.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf]), shape)
        found = np.where(draw.random(shape) < 0.4, strange, found).astype(dtype)
    if np.dtype(dtype).kind == "c":
        found = found + (1j * draw.integers(-2, 3, shape)).astype(dtype)
    return found


def is_learnt(x: tx.Tensor, name: str) -> bool:
    return any([made is not None and bool(made.loop_bytecode) for made in x.spec.call_templates.get(f"tenxor.api.{name}", {}).values()])


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("dtype", [*REAL, "complex64", "complex128"])
def test_sort_and_argsort_equal_numpy(dtype: str, odd: bool) -> None:
    for seed, shape in enumerate(SHAPES):
        a = drawn(shape, dtype, seed, odd=odd)
        for axis in range(len(shape)):
            x = tx.asarray(a).realize()
            sorted_, places = np.sort(a, axis=axis, kind="stable"), np.argsort(a, axis=axis, kind="stable")
            for _ in range(3):
                assert tx.sort(x, axis=axis).numpy().tobytes() == sorted_.tobytes()
                assert np.array_equal(tx.argsort(x, axis=axis).numpy(), places)
                down = tx.sort(x, axis=axis, descending=True)
                assert down.numpy().tobytes() == np.flip(sorted_, axis).tobytes()
            assert x.numpy().tobytes() == a.tobytes()
            assert down[..., :1].shape[-1] == min(1, down.shape[-1])  # a view of what was sorted


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_sort_and_argsort_are_recorded_as_direct_loops(name: str) -> None:
    for a in (drawn((12,), "float64", 1), drawn((100, 12), "float32", 2), drawn((12, 8), "int64", 3).T):
        x = tx.asarray(a).realize()
        getattr(tx, name)(x)
        assert is_learnt(x, f"sorting.{name}")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "complex128"])
def test_sort_of_noncontiguous_views_equals_numpy(dtype: str, view: Callable[[Any], Any]) -> None:
    x = view(tx.asarray(drawn((6, 9), dtype, 4, odd=True)).realize())
    for _ in range(3):
        assert tx.sort(x).numpy().tobytes() == np.sort(x.numpy(), kind="stable").tobytes()
        assert np.array_equal(tx.argsort(x).numpy(), np.argsort(x.numpy(), kind="stable"))


def test_sort_recorded_for_plain_values_stays_correct_for_nan_and_negative_zero() -> None:
    """The call is recorded with a tensor that has no such values."""
    plain = drawn((5000,), "float64", 5) + 100
    tx.sort(tx.asarray(plain).realize())
    for strange in (np.nan, -0.0):
        a = plain.copy()
        a[[7, 300, 4000]] = (0.0, strange, 0.0)
        x = tx.asarray(a).realize()
        with fastpath.disabled():
            wanted = tx.sort(x).numpy()
        assert np.array_equal(wanted, np.sort(a, kind="stable"), equal_nan=True)
        for _ in range(2):
            assert tx.sort(x).numpy().tobytes() == wanted.tobytes()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [*REAL, "bool"])
def test_searchsorted_equals_numpy(dtype: str, side: Any) -> None:
    for size, count in product((1, 2, 3, 8, 61), (1, 3, 4, 9)):
        ordered, wanted = np.sort(drawn((size,), dtype, size, odd=True)), drawn((count,), dtype, count, odd=True)
        x, y = tx.asarray(ordered).realize(), tx.asarray(wanted).realize()
        for _ in range(3):
            assert np.array_equal(tx.searchsorted(x, y, side=side).numpy(), ordered.searchsorted(wanted, side))
        if dtype in ("float64", "int64", "uint32"):
            assert is_learnt(x, "sorted_search.searchsorted")


def test_searchsorted_of_noncontiguous_views_equals_numpy() -> None:
    ordered, wanted = np.sort(drawn((40,), "float64", 6, odd=True)), drawn((6, 9), "float64", 7, odd=True)
    x, y = tx.asarray(ordered).realize(), tx.asarray(wanted).realize()
    for _ in range(3):
        for own, other in ((y, wanted), (y.T, wanted.T), (y[::2, ::4], wanted[::2, ::4]), (y[1], wanted[1]), (y[:, ::-1], wanted[:, ::-1])):
            assert np.array_equal(tx.searchsorted(x[::3], own).numpy(), ordered[::3].searchsorted(other))
        assert np.array_equal(tx.searchsorted(x[4:4], y).numpy(), np.zeros((6, 9)))
        assert tx.searchsorted(x, y[:0]).shape == (0, 9)
        assert np.array_equal(tx.searchsorted(x, x).numpy(), ordered.searchsorted(ordered))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8"])
def test_searchsorted_of_a_number_equals_numpy(dtype: str) -> None:
    ordered = np.sort(drawn((9,), dtype, 8))
    x = tx.asarray(ordered).realize()
    for number in (3, -2, 0, True) + ((2.5, float("nan"), float("inf")) if dtype.startswith("f") else ()):
        for _ in range(2):
            found = tx.searchsorted(x, number, side="right")
            assert found.shape == () and found.item() == ordered.searchsorted(number, "right")


def test_gradient_of_a_recorded_sort_is_correct() -> None:
    a = drawn((4, 9), "float64", 9)
    x = tx.asarray(a).realize()
    tx.sort(x)
    weights = tx.asarray(np.arange(36.0).reshape(4, 9))
    for _ in range(2):
        found = tx.grad(lambda t: (tx.sort(t) * weights).sum())(x).numpy()
        wanted = np.empty_like(a)
        np.put_along_axis(wanted, np.argsort(a, kind="stable"), weights.numpy(), -1)
        assert np.array_equal(found, wanted)


def best_of(a: Array, count: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """Return the best elements by Python's sort, stable also when reversed: NaN is the largest, and signed zeros are equal."""
    rows = np.moveaxis(a, axis, -1)
    places = np.empty((*rows.shape[:-1], count), np.int64)
    for key in np.ndindex(rows.shape[:-1]):
        row = [(x != x, 0 if x != x else x) for x in rows[key].tolist()]
        places[key] = sorted(range(len(row)), key=row.__getitem__, reverse=largest)[:count]
    return np.moveaxis(np.take_along_axis(rows, places, -1), -1, axis), np.moveaxis(places, -1, axis)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [*REAL, "bool"])
def test_topk_returns_first_of_equal_values(dtype: str, largest: bool) -> None:
    for seed, shape in enumerate([(1,), (7,), (300,), (5, 40), (3, 4, 5), (2, 150)]):
        a = drawn(shape, dtype, seed, odd=True)
        x = tx.asarray(a).realize()
        for axis in range(len(shape)):
            for count in sorted({0, 1, min(3, shape[axis]), shape[axis] // 2, shape[axis]}):
                values, places = best_of(a, count, axis, largest)
                for _ in range(3):
                    found = tx.topk(x, count, axis=axis, largest=largest)
                    assert np.array_equal(found.indices.numpy(), places)
                    assert found.values.numpy().tobytes() == values.tobytes()
                with fastpath.disabled():
                    assert np.array_equal(tx.topk(x, count, axis=axis, largest=largest).indices.numpy(), places)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint32"])
def test_topk_of_views_and_of_long_ascending_rows_equals_sorting(dtype: str) -> None:
    a = drawn((40, 60), dtype, 11, odd=True)
    x = tx.asarray(a).realize()
    views: tuple[Callable[[Any], Any], ...] = (lambda t: t[::2, ::3], lambda t: t[::-1, ::-1], lambda t: t.T, lambda t: t[3:4])
    for view in views:
        values, places = best_of(view(a), 4, -1, True)
        for _ in range(3):
            found = tx.topk(view(x), 4)
            assert np.array_equal(found.indices.numpy(), places) and found.values.numpy().tobytes() == values.tobytes()
    assert is_learnt(x.T, "sorting.topk")
    ascending = np.arange(100_000).astype(dtype)  # of which each moves all that were found before
    for a, count in ((ascending, 8), (ascending, 60), (ascending[::-1].copy(), 60)):
        y = tx.asarray(a).realize()
        for _ in range(3):
            assert np.array_equal(tx.topk(y, count).values.numpy(), np.sort(a)[::-1][:count])
            assert np.array_equal(tx.topk(y, count, largest=False).values.numpy(), np.sort(a)[:count])


def test_topk_of_many_equal_values_returns_the_first() -> None:
    """NumPy's partition would return any of the equal values."""
    for a in (np.zeros(5000), np.repeat([1.0, np.nan, 2.0], 700), np.full(3000, np.nan), np.tile([1.0, 2.0, 3.0], 900).reshape(9, 300)):
        x = tx.asarray(a).realize()
        for largest in (True, False):
            _, places = best_of(a, 6, -1, largest)
            for _ in range(2):
                assert np.array_equal(tx.topk(x, 6, largest=largest).indices.numpy(), places)
            with fastpath.disabled():
                assert np.array_equal(tx.topk(x, 6, largest=largest).indices.numpy(), places)


def test_recorded_topk_is_correct_inside_vmap_and_grad() -> None:
    a = drawn((5, 9), "float64", 12) + np.arange(45).reshape(5, 9) / 64
    x = tx.asarray(a).realize()
    tx.topk(x, 3)
    values, places = best_of(a, 3, -1, True)
    of_each = tx.vmap(lambda t: tx.topk(t, 3))(x)
    assert np.array_equal(of_each[0].numpy(), values) and np.array_equal(of_each[1].numpy(), places)
    wanted = np.zeros_like(a)
    np.put_along_axis(wanted, places, 1, -1)
    for _ in range(2):
        assert np.array_equal(tx.grad(lambda t: tx.topk(t, 3).values.sum())(x).numpy(), wanted)
    half = x.astype(tx.bfloat16)
    for _ in range(2):
        found = tx.topk(half, 3)
        assert np.array_equal(found.indices.numpy(), best_of(half.astype(tx.float32).numpy(), 3, -1, True)[1])
