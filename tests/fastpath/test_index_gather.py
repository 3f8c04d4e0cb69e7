"""The fast path repeats selections by several index arrays once they were checked: NumPy is the oracle."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.errors import IndexOutOfRange
from tenxor.tensor.gather_methods import MAX_EAGER_INDEX_CHECKS
from tenxor.tensor.indexing_methods import IndexingMethods

pytestmark = pytest.mark.usefixtures("on")

ARRAY = np.arange(4 * 5 * 6.0).reshape(4, 5, 6)
KEYS: list[Callable[[Any], tuple[Any, ...]]] = [
    lambda made: (made([0, 3, -1]), made([4, -5, 2])),
    lambda made: (made([[0], [3]]), made([1, 2, 2])),
    lambda made: (1, made([0, 4])),
    lambda made: (made([2, 0]), 3, made([5, -6])),
    lambda made: (None, made([1, 1]), made([0, 1])),
    lambda made: (made([3, 2])[::-1], made([[0, 1], [2, 3]])[1]),
    lambda made: (made([1, 2]),),
    lambda made: (slice(None), made([0, 3, -1])),
    lambda made: (..., made([[0, 5], [-6, 2]])),
    lambda made: (slice(3, None, -2), made([4, 0]), slice(1, -1)),
    lambda made: (made([3, 0]), ..., slice(None, None, -1)),
    lambda made: (made([3, 0]), slice(None), made([1, 1])),
    lambda made: (slice(1, 3), made([1, 2]), made([[0], [5]])),
]


@pytest.fixture
def python_selections(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the keys of selections that Python handles."""
    asked: list[object] = []
    own = IndexingMethods._select_by_key

    def selection(self: Any, op: str, layout: Any, key: Any) -> Any:
        asked.append(key)
        return own(self, op, layout, key)

    monkeypatch.setattr(IndexingMethods, "_select_by_key", selection)
    return asked


@pytest.mark.parametrize("number", range(len(KEYS)))
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int8])
def test_repeated_gather_runs_no_python_selection(number: int, dtype: Any, python_selections: list[object]) -> None:
    def made(numbers: Any) -> Any:
        kept = np.asarray(numbers)
        return (np.where(kept < 0, 0, kept) if dtype is np.uint8 else kept).astype(dtype)

    for x in (tx.asarray(ARRAY).realize(), tx.asarray(ARRAY) + 0.0, tx.asarray(ARRAY[::-1].copy())[::-1]):
        key = KEYS[number](made)
        x[KEYS[number](lambda numbers: tx.asarray(made(numbers)))]
        python_selections.clear()
        found = x[KEYS[number](lambda numbers: tx.asarray(made(numbers)))]
        assert found.tolist() == ARRAY[key].tolist() and not python_selections


def test_keys_with_slices_and_arrays_match_numpy() -> None:
    """Lists, masks and arrays stand among the slices. An Ellipsis separates arrays even if it stands for no axis."""
    chance, rng = random.Random(3), np.random.default_rng(3)

    def part(size: int) -> Any:
        indices, mask = rng.integers(-size, size, chance.choice([(3,), (2, 2), (1,)])), rng.random(size) < 0.5
        return chance.choice([slice(None), slice(1, None), slice(None, None, -1), indices, indices.astype(np.int8), [0, -1], mask])

    done = 0
    while done < 400:
        shape = chance.choice([(5,), (3, 5), (2, 3, 4), (3, 1, 5), (2, 2, 3, 2)])
        array = np.moveaxis(rng.random(shape), 0, -1) if chance.random() < 0.3 else rng.random(shape)
        parts = [part(size) for size in array.shape[: chance.randrange(1, array.ndim + 1)]]
        if len(parts) == array.ndim and chance.random() < 0.5:
            parts.insert(chance.randrange(len(parts) + 1), ...)
        try:
            expected = array[tuple(parts)]
        except IndexError:  # they do not broadcast
            continue
        done += 1
        x = tx.asarray(array).realize()
        key = tuple([tx.asarray(p) if type(p) is np.ndarray else p for p in parts])
        for _ in range(3):
            found = x[key]
            assert found.shape == expected.shape and np.array_equal(found.numpy(), expected), parts
        array[tuple(parts)] = 2.0
        x[key] = 2.0
        assert np.array_equal(x.numpy(), array), parts


def test_index_out_of_range_raises_at_the_call_or_at_use_if_pending(python_selections: list[object]) -> None:
    x, fits = tx.asarray(ARRAY).realize(), tx.asarray([0, 1])
    for size, axis in ((4, 0), (5, 1)):
        for wrong in (size, -size - 1):
            indices = tx.asarray([0, wrong])
            parts = (indices, fits) if axis == 0 else (fits, indices)
            for _ in range(3):
                with pytest.raises(IndexOutOfRange, match=f"index {wrong} .* axis {axis} of size {size}"):
                    x[parts]
                later = x[tuple([p + 0 for p in parts])]
                with pytest.raises(IndexOutOfRange, match=f"index {wrong} .* axis {axis} of size {size}"):
                    later.realize()


def test_many_indices_are_checked_only_when_used() -> None:
    x = tx.asarray(ARRAY[:, :, 0].copy()).realize()
    rows = tx.asarray(np.full(MAX_EAGER_INDEX_CHECKS + 1, 4)).realize()
    for _ in range(3):
        later = x[rows, rows * 0]
        with pytest.raises(IndexOutOfRange):
            later.realize()


def test_one_index_tensor_may_index_several_axes(python_selections: list[object]) -> None:
    x, i = tx.arange(9).reshape(3, 3).realize(), tx.asarray([2, 0, 1])
    for indices in (i, i + 0):
        for _ in range(3):
            assert x[indices, indices].tolist() == [8, 0, 4]
    x[i, i]
    python_selections.clear()
    assert x[i, tx.asarray([0, 0, 1])].tolist() == [6, 0, 4] and x[tx.asarray([0, 0, 1]), i].tolist() == [2, 0, 4]


def test_gather_result_is_a_new_tensor_with_derivatives() -> None:
    x, i, j = tx.asarray(ARRAY[0]).realize(), tx.asarray([0, 4, 0]), tx.asarray([1, 1, 1])
    for _ in range(3):
        before = x[i, j]
        x[0, 1] += 100.0
        wanted = before.tolist()
        assert x[i, j].tolist() == [wanted[0] + 100.0, wanted[1], wanted[2] + 100.0]
        gradient = tx.grad(lambda y: (y[i, j] * tx.asarray([1.0, 2.0, 3.0])).sum())(x)
        assert gradient[0, 1].item() == 4.0 and gradient[4, 1].item() == 2.0 and gradient.sum().item() == 6.0


def test_gather_works_on_tracers_inside_vmap() -> None:
    i = tx.asarray([0, 1])
    x = tx.asarray(ARRAY[0]).realize()
    x[i, i]
    assert tx.vmap(lambda row: row[i, i])(tx.asarray(ARRAY)).tolist() == ARRAY[:, [0, 1], [0, 1]].tolist()
    with fastpath.disabled():
        assert x[i, i].tolist() == [0.0, 7.0]


@pytest.mark.usefixtures("afresh")
def test_gather_of_new_sizes_is_not_recorded_again(python_selections: list[object]) -> None:
    rng = np.random.default_rng(7)

    def look(n: int) -> None:
        array = rng.random((n + 3, 2 * n + 1))
        x, rows, columns = tx.asarray(array).realize(), rng.integers(-n, n, n + 1), rng.integers(0, n, n + 1).astype(np.int32)
        one, other = tx.asarray(rows), tx.asarray(columns)
        assert np.array_equal(x[one, other].numpy(), array[rows, columns])
        assert np.array_equal(x[:, one].numpy(), array[:, rows])
        assert np.array_equal(x[1:, other[1:]].numpy(), array[1:, columns[1:]])
        for wrong, axis in ((n + 3, 0), (2 * n + 1, 1)):
            beyond = tx.asarray(np.where(np.arange(n + 1) == n, wrong, rows))
            key = (beyond, other) if axis == 0 else (slice(None), beyond)
            with pytest.raises(IndexOutOfRange, match=f"index {wrong} .* axis {axis} of size"):
                x[key]

    for n in range(3, 20):
        look(n)
    python_selections.clear()
    look(25)
    assert len(python_selections) == 2, "for what is out of range"
