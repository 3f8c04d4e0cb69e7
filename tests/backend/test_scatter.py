"""Writes at indices by both back ends, beside NumPy's `ufunc.at` and assignment, which take values in the same order."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

from tenxor.dtypes import ALL, DType, boolean, decoded, float16, float32, float64, int64
from tenxor.kernel.fuse import fuse, pending
from tenxor.kernel.lower import lower
from tenxor.layout import Layout
from tenxor.node import Node
from tests.kernel.helpers import Array, cast, elementwise, scattered, value
from tests.machines import current, vectors

from . import twins
from .graphs import in_memory

NUMBERS = [d for d in ALL if d is not boolean]
JOINED: dict[str, Any] = {"prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or}
SHAPES = ((1,), (5,), (70,), (3, 4), (9, 1), (7, 33), (4, 70), (2, 3, 5), (3, 2, 17))


def joins(dtype: DType) -> list[str | None]:
    """The reductions that can join elements of a dtype, and None for the last value."""
    if dtype is boolean:
        return [None, "any", "all", "max", "min"]
    return [None, "sum_in_width", "prod", *(() if dtype.is_complex else ("max", "min"))]


def numbers(random: Random, shape: tuple[int, ...], dtype: DType) -> Array:
    """Small whole numbers, so that nothing is rounded, and no product becomes large."""
    low = 0 if dtype.kind in ("uint", "bool") else -2
    values = [random.randint(low, 1 if dtype is boolean else 2) for _ in range(prod(shape))]
    found = np.array(values, dtype.compute.numpy if dtype.is_float else dtype.numpy)
    if dtype.is_complex:
        found += np.array([1j * random.randint(-1, 1) for _ in values], dtype.numpy)
    return found.reshape(shape)


def expected(old: Array, key: Any, values: Array, name: str | None) -> Array:
    """What NumPy makes of it."""
    found = old.copy()
    ufunc = {"sum_in_width": np.add, "all": np.logical_and, **JOINED}.get(name or "")
    if ufunc is None:
        found[key] = values
    else:
        with np.errstate(all="ignore"):
            ufunc.at(found, key, values)
    return found


class Case:
    """Some values, scattered along some axes of something, at indices that repeat and count from either end."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.dtype = random.choice(ALL)
        shape = random.choice(SHAPES)
        self.axes = sorted(random.sample(range(len(shape)), random.randint(1, min(2, len(shape)))))
        count = random.choice(((), (1,), (6,), (40,), (3, 5)))
        self.name = random.choice(joins(self.dtype))
        self.old = numbers(random, shape, self.dtype)
        sizes = [shape[a] for a in self.axes]
        self.indices = [
            np.array([random.randrange(-n, n) for _ in range(prod(count))], np.int64).reshape(count) for n in sizes
        ]
        rest = [n for a, n in enumerate(shape) if a not in self.axes]
        whole = (*count, *rest)
        given = tuple([n if random.random() < 0.8 else 1 for n in whole])[random.choice((0, 0, len(count))) :]
        self.values = numbers(random, given, self.dtype)
        self.front = [*self.axes, *(a for a in range(len(shape)) if a not in self.axes)]

    def node(self) -> Node:
        random = self.random
        kinds = [d for d in ALL if d.kind == "int" and d.highest >= max(self.old.shape)]
        indices = [in_memory(i, random.choice(kinds)) for i in self.indices]
        if random.random() < 0.3:
            indices = [cast(i, int64) for i in indices]
        values = in_memory(self.values, self.dtype)
        if random.random() < 0.3 and self.dtype is not boolean:
            values = elementwise("multiply", values, in_memory(np.ones(()), self.dtype))
        return scattered(in_memory(self.old, self.dtype), self.axes, indices, values, self.name)

    def expected(self) -> Array:
        old = self.old.transpose(self.front)
        found = expected(old, tuple(self.indices), self.values, self.name)
        return found.transpose(np.argsort(self.front))


@pytest.mark.parametrize("block", range(8))
def test_both_back_ends_do_as_numpy_does(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        case = Case(seed)
        node = case.node()
        twins.check(node)
        found = decoded(value(node), case.dtype).reshape(case.old.shape)
        np.testing.assert_array_equal(found, case.expected().astype(found.dtype), f"seed {seed}: {case.name}")


@pytest.mark.parametrize("nbytes", [16, 64])
def test_for_vectors_of_other_lengths(nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors(monkeypatch, nbytes)
    for seed in range(1000, 1015):
        twins.check(Case(seed).node())


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_values_are_taken_in_their_order(dtype: DType) -> None:
    """Of a hundred values for each of three places, most of them in one vector."""
    random = Random(3)
    index = np.array([random.randrange(-3, 3) for _ in range(300)])
    values = np.array([random.randint(0, 100) for _ in range(300)]).astype(dtype.compute.numpy)
    for name in (None, "sum_in_width"):
        node = scattered(in_memory(np.zeros(3), dtype), [0], [in_memory(index, int64)], in_memory(values, dtype), name)
        twins.check(node)
        wanted = expected(np.zeros(3, values.dtype if dtype.itemsize > 2 else np.float64), index, values, name)
        if not (name and dtype.itemsize <= 2):
            np.testing.assert_array_equal(decoded(value(node), dtype), wanted.astype(dtype.compute.numpy))


def test_narrow_floats_are_rounded_at_every_step() -> None:
    values = np.array([2048.0, *[1.0] * 9])
    node = scattered(
        in_memory(np.zeros(1), float16),
        [0],
        [in_memory(np.zeros(10), int64)],
        in_memory(values, float16),
        "sum_in_width",
    )
    twins.check(node)
    assert value(node)[0] == 2048.0  # to nearest even, each time


def test_nan_and_zeros_of_either_sign() -> None:
    old = np.array([0.0, -0.0, 1.0, np.nan])
    values = np.array([-0.0, 0.0, np.nan, 5.0])
    for name, wanted in (("max", [0.0, 0.0, np.nan, np.nan]), ("min", [-0.0, -0.0, np.nan, np.nan])):
        node = scattered(
            in_memory(old, float64), [0], [in_memory(np.arange(4), int64)], in_memory(values, float64), name
        )
        twins.check(node)
        np.testing.assert_array_equal(value(node), wanted)
        np.testing.assert_array_equal(np.signbit(value(node)[:2]), np.signbit(wanted[:2]))


@pytest.mark.parametrize("name", [None, "sum_in_width", "max"])
def test_threads_take_columns_or_rows_and_the_bits_stay(name: str | None) -> None:
    rng = np.random.default_rng(5)
    old, values = rng.random((50, 130)), rng.random((3000, 130))
    index = rng.integers(-50, 50, 3000)

    def made(columns: bool) -> Node:
        parts = (old, values) if columns else (old.T, values.T)
        at, given = (in_memory(part, float32) for part in parts)
        if columns:
            return scattered(at, [0], [in_memory(index, int64)], given, name)
        through = Layout.contiguous((130, 3000)).transpose()
        return scattered(at, [1], [in_memory(index, int64)], (given, through), name)

    for columns in (True, False):
        found = []
        for threads in (1, 3):
            node, target = made(columns), current().shared_by(threads)
            ((kernel, binding),) = [lower(n, {n}, target) for n in fuse(pending([node]), [node], target)]
            assert (kernel.shared >= 0) == (threads > 1 or not columns)
            found.append(twins.emitted(node, kernel, binding))
            if kernel.shared >= 0:
                grain = kernel.grain(target.sharing)
                cuts = [grain, 2 * grain]
                assert twins.emitted(node, kernel, binding, cuts).tobytes() == found[-1].tobytes()
        assert found[0].tobytes() == found[1].tobytes()
        wanted = expected(old.astype(np.float32), index, values.astype(np.float32), name)
        np.testing.assert_array_equal(
            found[0].reshape(wanted.shape if columns else wanted.T.shape), wanted if columns else wanted.T
        )
