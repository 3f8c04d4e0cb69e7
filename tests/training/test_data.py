"""Batches and datasets."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.data import Batches, Dataset


def test_epoch_has_each_row_once() -> None:
    rows = Dataset(tx.arange(10), tx.arange(10) * 2)
    batches = Batches(rows, 3, shuffle=True, generator=tx.random.Generator(1))
    epochs = [[(a.tolist(), b.tolist()) for a, b in batches] for _ in range(2)]
    assert len(batches) == 4
    for epoch in epochs:
        first = [x for a, _ in epoch for x in a]
        assert sorted(first) == list(range(10))
        assert [x for _, b in epoch for x in b] == [2 * x for x in first]
    assert epochs[0] != epochs[1]
    again = Batches(rows, 3, shuffle=True, generator=tx.random.Generator(1))
    assert [(a.tolist(), b.tolist()) for a, b in again] == epochs[0]
    assert [len(a) for a, _ in Batches(rows, 3, drop_last=True)] == [3, 3, 3]


class Slow:
    """Rows that take a while to read, later ones less."""

    def __init__(self, fails: int | None = None) -> None:
        self.fails = fails

    def __len__(self) -> int:
        return 12

    def __getitem__(self, key: Any) -> list[int]:
        rows = list(range(12))[key]
        if self.fails in rows:
            raise ValueError(f"row {self.fails}")
        time.sleep(0.002 * (12 - rows[0]))
        return rows


def test_workers_keep_the_order_and_raise_errors_at_their_batch() -> None:
    assert list(Batches(Slow(), 2, workers=3)) == [[k, k + 1] for k in range(0, 12, 2)]
    seen = []
    with pytest.raises(ValueError, match="row 7"):
        for rows in Batches(Slow(fails=7), 2, workers=3):
            seen.append(rows)
    assert seen == [[0, 1], [2, 3], [4, 5]]


def test_iteration_over_batches_may_stop_early() -> None:
    walk = iter(Batches(Slow(), 2, workers=2))
    assert next(walk) == [0, 1]
    del walk


def test_dataset_and_batch_size_are_validated() -> None:
    with pytest.raises(tx.errors.ShapeError, match="first axes must be equal"):
        Dataset(tx.ones(3), tx.ones(4))
    with pytest.raises(tx.errors.ArgumentError, match="size must be a whole number of 1 or more"):
        Batches(Dataset(tx.ones(3)), 0)


@pytest.mark.parametrize("name", tx.data.TOYS)
def test_toy_classes_follow_from_the_position_of_points(name: str) -> None:
    points, classes = tx.data.toy(name, 200, seed=3)
    x, y = points.to_numpy().T
    assert points.dtype is tx.float32 and classes.dtype is tx.int64
    assert ((x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)).all()
    expected = {
        "simple": x < 0.5,
        "diag": x + y < 0.5,
        "split": (x < 0.2) | (x > 0.8),
        "xor": (x < 0.5) != (y < 0.5),
        "circle": (x - 0.5) ** 2 + (y - 0.5) ** 2 > 0.1,
        "spiral": np.arange(200) >= 100,
    }[name]
    assert (classes.to_numpy() == expected).all()
    assert 20 < expected.sum() < 180


def test_toy_rejects_an_unknown_name() -> None:
    with pytest.raises(tx.errors.ArgumentError, match="there are simple, diag"):
        tx.data.toy("moon")


@pytest.mark.parametrize("name", tx.data.TOYS)
def test_toy_rejects_a_negative_count(name: str) -> None:
    with pytest.raises(tx.errors.ArgumentError, match="toy: count"):
        tx.data.toy(name, -1)


def test_digits_have_documented_shapes_ranges_and_counts() -> None:
    images, labels = tx.data.digits()
    assert images.shape == (1797, 64) and (images.min().item(), images.max().item()) == (0.0, 16.0)
    counts = np.bincount(labels.to_numpy())
    assert len(counts) == 10 and counts.min() == 174 and counts.max() == 183


def test_karate_club_has_documented_edges_and_classes() -> None:
    club = tx.data.karate_club()
    pairs = set(map(tuple, club.edges.to_numpy().T.tolist()))
    assert len(pairs) == 156 and all((b, a) in pairs and a != b for a, b in pairs)
    degrees = np.bincount(club.edges.to_numpy()[0], minlength=34)
    assert (degrees[0], degrees[33], degrees[32], degrees[11], degrees.sum()) == (16, 17, 12, 1, 156)
    assert club.classes[[0, 33]].tolist() == [0, 1]


@pytest.mark.parametrize("count", [0, 1, 2, 51])
@pytest.mark.parametrize("name", tx.data.TOYS)
def test_toy_returns_the_requested_number_of_points(name: str, count: int) -> None:
    points, classes = tx.data.toy(name, count, seed=0)
    assert points.shape == (count, 2) and classes.shape == (count,)
    assert points.dtype is tx.float32 and classes.dtype is tx.int64
